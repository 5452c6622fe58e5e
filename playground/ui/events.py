"""What every tab shares: the visitor's state, kinds of events, refusals in words, numbering."""

from __future__ import annotations

import html
import inspect
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import gradio as gr

from playground.session import Session
from playground.words import LANGUAGES, Translate, in_words, speaking, spoken, translator

log = logging.getLogger("playground")

# Events of the page itself: not part of the API. Without parts to show progress on, or Gradio would
# look every part up in the whole page twice in each event (90 ms).
PRIVATE = {"api_visibility": "private", "show_progress": "hidden", "show_progress_on": []}
# A class at once: their forwards join (``serving.batching``), so that they needn't queue here.
MODEL = {"concurrency_id": "model", "concurrency_limit": 64, **PRIVATE}
QUICK = {"queue": False, **PRIVATE}
# What events bring that handlers read: numbers or short texts.
SCALARS = (
    "count",
    "customdata",
    "digit",
    "id",
    "index",
    "kind",
    "language",
    "place",
    "round",
    "sure",
)


@dataclass(frozen=True)
class Visit:
    """What the server keeps of one visitor: the Sample tab's session, model's name, language."""

    session: Session = Session()
    model: str = "default"
    language: str = "en"
    inspected: int | None = None  # the token in the Sample tab's inspector

    @property
    def t(self) -> Translate:
        """The words in the visitor's language."""
        return translator(self.language)


def show_tab(name: str) -> str:
    """Return the script that shows the controls of a tab in the panel (classes dp-on-<name>)."""
    return f"() => {{ window.dp?.showTab({name!r}); }}"


def language_of(event: gr.EventData) -> str:
    """Return the language that the toolbar asks for; English for any that isn't ours."""
    asked = event._data.get("language")
    return asked if asked in LANGUAGES else "en"


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


def tell(error: Exception) -> None:
    """Say in a toast what went wrong: a ValueError is the user's to read, else no details."""
    if isinstance(error, ValueError):
        warn(in_words(error))
    else:
        log.exception("handler failed")
        gr.Warning(spoken()("page.failed"))


def warn(text: str) -> None:
    """Say in a toast what is not as it should be. Text stays text: toasts would take it as HTML."""
    gr.Warning(html.escape(text, quote=False))


def inform(text: str) -> None:
    """Say something in a toast, as long as it takes to read."""
    gr.Info(html.escape(text, quote=False), duration=3 + len(text) / 25)


def polite(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a handler's refusals into words on the page; nothing else changes.

    A ValueError is the user's to read; anything else is logged and told without details.
    Meanwhile ``words.speaking`` is the visitor's language.
    """
    if inspect.isgeneratorfunction(handler):

        @wraps(handler)
        def stream(*args: Any) -> Iterator[Any]:
            language, answers = _language(args), handler(*args)
            while True:
                speaking.set(language)  # each answer is made in a context of its own
                try:
                    _check_events(args)
                    found = next(answers)
                except StopIteration:
                    return
                except Exception as error:
                    tell(error)
                    yield gr.skip()
                    return
                yield found or gr.skip()

        return stream

    @wraps(handler)
    def once(*args: Any) -> Any:
        speaking.set(_language(args))
        try:
            _check_events(args)
            return handler(*args) or gr.skip()
        except Exception as error:
            tell(error)
            return gr.skip()

    return once


class Sent(dict[str, Any]):
    """What an event brought. The page's own events are well formed; others may send anything."""

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"event must have {key}, got none")


def _check_events(args: Sequence[Any]) -> None:
    """Refuse events whose data no page would send: handlers rely on plain values by key."""
    for event in args:
        if not isinstance(event, gr.EventData) or isinstance(event._data, Sent):
            continue
        data = event._data if isinstance(event._data, Mapping) else {}
        for key, value in data.items():
            good = True
            if key == "order":
                good = isinstance(value, list) and all(isinstance(name, str) for name in value)
            elif key in SCALARS:
                good = value is None or isinstance(value, str | int | float)
                good = good and not (isinstance(value, float) and not math.isfinite(value))
            if not good:
                raise ValueError(f"event's {key} must be a plain value")
        event._data = Sent(data)


def _language(args: Sequence[Any]) -> str:
    """Return the visitor's language, as far as a handler's arguments tell it."""
    for value in args:
        if isinstance(value, str) and value in LANGUAGES:
            return value
        for one in value.values() if isinstance(value, Mapping) else ():
            if isinstance(one, Visit):
                return one.language
    return "en"
