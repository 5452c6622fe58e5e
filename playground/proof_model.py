"""Pinning a model: what a script needs to load exactly the weights of a run, or why it can't.

A LanguageModel flows in; a Pin flows out. A hub model is pinned by its commit, a folder or file by
a hash over its weights; a model that was made in memory can't be pinned.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playground.language_model import LanguageModel
from playground.models.fingerprint import fingerprint

MANIFEST = "brought.json"  # beside the default model's weights: names the file they come from


@dataclass(frozen=True)
class Pin:
    """A model as a script names it: a hub id with ``revision``, or a folder with ``weights``.

    ``files`` are the weight files' pattern in the folder, ``options`` further arguments to
    ``from_pretrained``, as source.
    """

    name: str
    source: str
    revision: str
    weights: str
    files: str
    dtype: str
    device: str
    vocab_size: int
    options: dict[str, str] = field(default_factory=dict)


def pin(lm: LanguageModel) -> Pin:
    """Return the pin of a model. Raises ValueError, with the reason, where there is none."""
    model: Any = getattr(lm, "model", None)
    if model is None or not hasattr(lm, "fingerprint"):
        raise ValueError(f"{lm.name} can't be pinned: it is no model that transformers can load")
    mark = lm.fingerprint.rpartition("@")[2].rpartition("/")[0]
    if "+" in mark:
        raise ValueError(f"{lm.name} can't be pinned: it was made from another model")
    folder = Path(str(model.config.name_or_path or "?"))
    if not folder.is_dir():
        raise ValueError(f"{lm.name} can't be pinned: no files that it was loaded from are here")
    options = {}
    attention = getattr(model.config, "_attn_implementation", None)
    if isinstance(attention, str):
        options["attn_implementation"] = repr(attention)
    facts = dict(dtype=lm.dtype, device=lm.device, vocab_size=lm.vocab_size)
    tensors = sorted(folder.glob("*.safetensors"))
    if tensors and mark in (fingerprint(tensors), _brought(folder)):
        weights, files = fingerprint(tensors), "*.safetensors"
    else:
        packed = [path for path in folder.glob("*.gguf") if fingerprint([path]) == mark]
        if not packed:
            raise ValueError(
                f"{lm.name} can't be pinned: its files aren't those it was loaded from"
            )
        weights, files = mark, packed[0].name
        options["gguf_file"] = repr(files)
        options["quantization_config"] = "GgufConfig(dequantize=True)"
    source, revision = str(folder.resolve()), ""
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        source = folder.parent.parent.name.removeprefix("models--").replace("--", "/")
        revision = folder.name
    return Pin(lm.name, source, revision, weights, files, **facts, options=options)


def _brought(folder: Path) -> str:
    """Return the fingerprint of the file that the default model's folder was made from, or ""."""
    try:
        return str(json.loads((folder / MANIFEST).read_text("utf-8"))["fingerprint"])
    except (OSError, ValueError, KeyError):
        return ""
