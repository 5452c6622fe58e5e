"""The whole page on a tiny model, for the browser tests: no download, forwards in a millisecond."""

from __future__ import annotations

from typing import Any

from playground.lm import TransformersLM
from playground.models import ModelError
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

MODELS: dict[str, TransformersLM] = {}


def load(name: str, progress: Any) -> TransformersLM:
    """Return a tiny model: "default", or GPT-2 for "gpt2"; any other name is refused."""
    progress(None, "making it")
    if name not in ("default", "gpt2"):
        raise ModelError(f"no model called {name!r}")
    make = {"default": tiny_llama, "gpt2": tiny_gpt2}[name]
    MODELS[name] = TransformersLM(make(), tiny_tokenizer(), name=name, fingerprint="test")
    return MODELS[name]


def build() -> tuple[Any, dict[str, Any]]:
    """Return the page and its launch options."""
    demo = build_demo(Library(load))
    demo.queue(default_concurrency_limit=8, max_size=64, api_open=False)
    return demo, {"footer_links": ["settings"], "run_history": False, **launch_options()}
