"""SamplingParams as controls, once, for every tab.

A Control says how one field looks; ``SamplingControls`` builds them all, reads them back as params
(values arrive by component, never by position) and sets them from params.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.records import SamplingParams
from playground.records.sampling import DIALECTS
from playground.ui.language import Labels
from playground.ui.numbers import Field, Slider


@dataclass(frozen=True)
class Control:
    """One field of SamplingParams: its kind and range. Its words are controls.<field>[_info]."""

    field: str
    kind: str = "slider"
    low: float = 0.0
    high: float = 1.0
    step: float = 0.01


MAIN = (
    Control("temperature", high=5.0),
    Control("top_k", high=1000, step=1),
    Control("top_p"),
    Control("min_p"),
)
MORE = (
    Control("typical_p"),
    Control("top_n_sigma", high=10.0, step=0.05),
    Control("epsilon_cutoff", high=0.1, step=0.0001),
    Control("eta_cutoff", high=0.1, step=0.0001),
    Control("xtc_probability"),
    Control("xtc_threshold", high=0.5),
)
PENALTIES = (
    Control("repetition_penalty", low=0.5, high=3.0),
    Control("presence_penalty", low=-2.0, high=2.0),
    Control("frequency_penalty", low=-2.0, high=2.0),
    Control("no_repeat_ngram_size", high=10, step=1),
    Control("penalize_prompt", "checkbox"),
    Control("banned_tokens", "ids"),
)
RULES = (Control("dialect", "dialect"), Control("order", "order"))
WHOLE = ("top_k", "no_repeat_ngram_size", "seed")

START = SamplingParams(temperature=0.8, top_k=50, top_p=0.9, min_p=0.05, seed=7)
PRESETS: dict[str, SamplingParams] = {
    "off": SamplingParams(),
    "balanced": START,
    "greedy": SamplingParams(temperature=0.0),
    "wild": SamplingParams(temperature=1.8),
    "min_p": SamplingParams(temperature=1.5, min_p=0.1),
    "llamacpp": SamplingParams(
        temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, dialect="llama.cpp"
    ),
}


class SamplingControls:
    """The controls of all fields, by field name in ``parts``."""

    def __init__(self, labels: Labels) -> None:
        self.parts: dict[str, Any] = {}
        self._labels = labels

    def build(self, controls: Iterable[Control]) -> None:
        """Create controls here, in the present Gradio context."""
        for control in controls:
            self.parts[control.field] = self._labels.add(
                self._make(control), f"controls.{control.field}", info=True
            )

    def _make(self, c: Control) -> Any:
        value = getattr(START, c.field)
        options: dict[str, Any] = {"elem_id": f"dp-{c.field}", "interactive": True}
        if c.kind == "slider":
            return Slider(c.low, c.high, value=value, step=c.step, buttons=[], **options)
        if c.kind == "checkbox":
            return gr.Checkbox(value=value, **options)
        if c.kind == "seed":
            return Field(value=value, precision=0, minimum=0, maximum=2**53, **options)
        if c.kind == "dialect":
            return gr.Dropdown(choices=list(DIALECTS), value=value, **options)
        return gr.Textbox(value="", lines=1, max_lines=2, **options)

    def params(self, data: Mapping[Any, Any]) -> SamplingParams:
        """Return the params that the controls show. Raises ValueError naming the field."""
        fields: dict[str, Any] = {}
        for name, part in self.parts.items():
            value = data[part]
            if name == "banned_tokens":
                value = _ids(value)
            elif name == "order":
                value = _names(value)
            elif name in WHOLE and isinstance(value, float) and value.is_integer():
                value = int(value)
            fields[name] = value
        return SamplingParams(**fields)

    def values(self, params: SamplingParams) -> dict[Any, Any]:
        """Return what each control shows for params, as Gradio updates."""
        found = {}
        for name, part in self.parts.items():
            value = getattr(params, name)
            if name == "banned_tokens":
                value = " ".join(map(str, value))
            elif name == "order":
                value = ", ".join(value or ())
            found[part] = gr.update(value=value)
        return found


def _ids(text: str | None) -> tuple[int, ...]:
    words = (text or "").replace(",", " ").split()
    try:
        return tuple(int(word) for word in words)
    except ValueError:
        raise ValueError(f"banned_tokens must be token ids, got {text!r}") from None


def _names(text: str | None) -> tuple[str, ...] | None:
    words = (text or "").replace(",", " ").replace("→", " ").split()
    return tuple(words) or None
