"""Numbers in the left panel: a slider, and its value read back or refused in the reader's words.

Numbers are checked here, not by Gradio's sliders: a refusal names the control and its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.ui.language import Labels
from playground.words import Translate


@dataclass(frozen=True)
class Number:
    """One number: its field, word, range, start, step; ``whole``: nothing after the point."""

    field: str
    word: str
    low: float
    high: float
    value: float
    step: float = 1
    whole: bool = False


class Field(gr.Number):
    """A number field that takes what comes: whoever reads it says what is wrong with it."""

    is_template = True  # to Gradio: looks like what it is made from

    def preprocess(self, payload: Any) -> Any:
        """Pass the value on."""
        return payload


class Choice(gr.Dropdown):
    """A list whose choices change: what was chosen of earlier ones is no error of the visitor's."""

    is_template = True

    def preprocess(self, payload: Any) -> Any:
        """Pass the value on."""
        return payload


def offers(pairs: Sequence[tuple[str, str]], t: Translate) -> list[tuple[str, str]]:
    """Return the choices of a list of presets: the first one, "", says what the list is for."""
    return [(t("page.pick"), ""), *pairs]


class Slider(gr.Slider):
    """A slider that takes what comes: whoever reads it says what is wrong with it, and where."""

    def preprocess(self, payload: float) -> float:
        """Pass the value on."""
        return payload


def slider(labels: Labels, n: Number, elem_id: str, **options: Any) -> Slider:
    """Create a number's slider here, in the present Gradio context."""
    part = Slider(
        n.low,
        n.high,
        value=n.value,
        step=n.step,
        buttons=[],
        elem_id=elem_id,
        interactive=True,
        **options,
    )
    return labels.add(part, n.word, info=True)


def read(n: Number, value: Any, t: Translate) -> int | float:
    """Return a number that a control shows, or refuse it with its range."""
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None or not n.low <= value <= n.high or (n.whole and not value.is_integer()):
        shown = "–" if value is None else f"{value:g}"
        key = "controls.bad_whole" if n.whole else "controls.bad_number"
        raise ValueError(t(key, name=t(n.word), low=f"{n.low:g}", high=f"{n.high:g}", value=shown))
    return int(value) if n.whole else value
