"""What every tab shares: the visitor's state, kinds of events, refusals in words, numbering."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import gradio as gr

from playground.session import Session
from playground.words import Translate, translator

log = logging.getLogger("playground")

# Events of the page itself: not part of the API.
PRIVATE = {"api_visibility": "private", "show_progress": "hidden"}
MODEL = {"concurrency_id": "model", "concurrency_limit": 8, **PRIVATE}
QUICK = {"queue": False, **PRIVATE}


@dataclass(frozen=True)
class Visit:
    """What the server keeps of one visitor: the Sample tab's session, model's name, language."""

    session: Session = Session()
    model: str = "default"
    language: str = "en"

    @property
    def t(self) -> Translate:
        """The words in the visitor's language."""
        return translator(self.language)


def show_tab(name: str) -> str:
    """Return the script that shows the controls of a tab in the panel (classes dp-on-<name>)."""
    return f"() => {{ window.dp?.showTab({name!r}); }}"


def now() -> int:
    """Return a sequence number: microseconds, which JavaScript holds exactly."""
    return time.time_ns() // 1000


def stamp(value: Any, seq: int) -> Any:
    """Give a component's value its sequence number, by which the page drops what came late."""
    if hasattr(value, "layout"):  # a Plotly figure
        value.layout.meta = {**(value.layout.meta or {}), "seq": seq}
    elif isinstance(value, dict):
        return {**value, "seq": seq}
    return value


def polite(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a handler's refusals into words on the page; nothing else changes.

    A ValueError is the user's to read; anything else is logged and told without details.
    """

    def tell(error: Exception) -> None:
        if isinstance(error, ValueError):
            gr.Warning(str(error))
        else:
            log.exception("handler failed")
            gr.Warning(translator("en")("page.failed"))

    if inspect.isgeneratorfunction(handler):

        @wraps(handler)
        def stream(*args: Any) -> Iterator[Any]:
            try:
                for found in handler(*args):
                    yield found or gr.skip()
            except Exception as error:
                tell(error)
                yield gr.skip()

        return stream

    @wraps(handler)
    def once(*args: Any) -> Any:
        try:
            return handler(*args) or gr.skip()
        except Exception as error:
            tell(error)
            return gr.skip()

    return once
