"""The Speculate tab's controls in the left panel, read back as what a run depends on.

Numbers are checked here, not by Gradio's sliders: a refusal names the control and its range in the
reader's language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.language_model import LanguageModel
from playground.records.speculative import SpeculativeParams
from playground.ui.components import Sentence
from playground.ui.language import Labels
from playground.ui.speculative_drafts import (
    DISTILLED,
    EXIT,
    KINDS,
    LOOKUP,
    Drafts,
    default_layer,
    depth_of,
)
from playground.words import Translate, translator

MAX_GAMMA = 16
MAX_RUN = 50
KIND_WORDS = {
    DISTILLED: "speculate.kind_distilled",
    EXIT: "speculate.kind_exit",
    LOOKUP: "speculate.kind_lookup",
}
ABOUT = {
    DISTILLED: "speculate.about_distilled",
    EXIT: "speculate.about_exit",
    LOOKUP: "speculate.about_lookup",
}


@dataclass(frozen=True)
class Preset:
    """A prompt with a draft that shows something; ``word`` is its name's key."""

    name: str
    word: str
    prompt: str
    kind: str
    gamma: int = 4


REPEATING = "\n".join(f'{{"id": {n}, "name": "item {n}", "price": 9.99}},' for n in range(1, 7))
PRESETS = (
    Preset("prose", "speculate.preset_prose", "The best way to learn is", EXIT),
    Preset("repeat", "speculate.preset_repeat", REPEATING + "\n", LOOKUP, 8),
    Preset("count", "speculate.preset_count", "one, two, three, one, two, three, one,", LOOKUP, 6),
)


class Slider(gr.Slider):
    """A slider that takes what comes: ``SpeculateControls`` says what is wrong with it."""

    def preprocess(self, payload: float) -> float:
        """Pass the value on."""
        return payload


class SpeculateControls:
    """The controls; the attributes are Gradio components."""

    def __init__(self, labels: Labels, drafts: Drafts) -> None:
        add = labels.add
        self.drafts = drafts
        t = translator()
        # The choices' words come again with the language, those that work with the model.
        presets = [(t(p.word), p.name) for p in PRESETS]
        self.preset = add(
            gr.Dropdown(presets, value=None, elem_id="dp-spec-preset", interactive=True),
            "speculate.preset",
        )
        kinds = [(t(KIND_WORDS[kind]), kind) for kind in KINDS]
        self.kind = add(
            gr.Radio(kinds, value=None, elem_id="dp-spec-kind", interactive=True),
            "speculate.kind",
        )
        self.layer = self._slider(labels, "layer", 1, 30, 24, "speculate.layer")
        self.about = Sentence(elem_id="dp-spec-about", elem_classes="dp-plain")
        self.gamma = self._slider(labels, "gamma", 1, MAX_GAMMA, 4, "speculate.gamma")
        self.adaptive = add(
            gr.Checkbox(False, elem_id="dp-spec-adaptive", interactive=True),
            "speculate.adaptive",
            info=True,
        )
        self.rounds = self._slider(labels, "length", 1, MAX_RUN, 8, "speculate.run_rounds")

    def _slider(
        self, labels: Labels, name: str, low: int, high: int, value: int, word: str
    ) -> Slider:
        slider = Slider(
            low, high, value, step=1, buttons=[], elem_id=f"dp-spec-{name}", interactive=True
        )
        return labels.add(slider, word, info=True)

    @property
    def inputs(self) -> set[Any]:
        """Every control that a handler may read."""
        return {self.preset, self.kind, self.layer, self.gamma, self.adaptive, self.rounds}

    @property
    def outputs(self) -> list[Any]:
        """Every part that a model or a language changes."""
        return [self.preset, self.kind, self.layer, self.about, self.gamma]

    def choice(self, data: Mapping[Any, Any], lm: LanguageModel, t: Translate) -> tuple[str, int]:
        """Return (kind, layer): the draft that is shown, or the first that works with the model."""
        offered = self.drafts.offered(lm)
        kind = data[self.kind] if data[self.kind] in offered else offered[0]
        if kind != EXIT:
            return kind, 0
        depth = depth_of(lm)
        layer = data[self.layer]
        if data[self.kind] != kind or not isinstance(layer, int | float) or layer > depth:
            return kind, default_layer(lm)
        return kind, _whole("speculate.layer", layer, depth, t)

    def params(self, data: Mapping[Any, Any], t: Translate) -> SpeculativeParams:
        """Return the params that the controls show, or refuse them in words."""
        gamma = data[self.gamma]
        if gamma == 0:
            raise ValueError(t("speculate.gamma_zero", high=MAX_GAMMA))
        gamma = _whole("speculate.gamma", gamma, MAX_GAMMA, t)
        return SpeculativeParams(gamma, bool(data[self.adaptive]), MAX_GAMMA)

    def run_length(self, data: Mapping[Any, Any], t: Translate) -> int:
        """Return how many rounds a run makes."""
        return _whole("speculate.run_rounds", data[self.rounds], MAX_RUN, t)

    def show(self, lm: LanguageModel, kind: str, layer: int, t: Translate) -> dict[Any, Any]:
        """Return the updates that show what a model offers, and which draft is chosen."""
        refused = self.drafts.refusals(lm)
        offered = [(t(KIND_WORDS[k]), k) for k in KINDS if k not in refused]
        depth = max(depth_of(lm), 1)
        lines = [t(ABOUT[kind], layer=layer, depth=depth)]
        lines += [_why_not(k, refused[k], t) for k in KINDS if k in refused]
        return {
            self.preset: gr.update(choices=[(t(p.word), p.name) for p in PRESETS]),
            self.kind: gr.update(choices=offered, value=kind),
            self.layer: gr.update(
                maximum=depth, value=layer or default_layer(lm), visible=kind == EXIT
            ),
            self.about: " ".join(lines),
        }


def _whole(word: str, value: Any, high: int, t: Translate) -> int:
    """Return a whole number in [1, high], or refuse it in the reader's words."""
    good = isinstance(value, int | float) and float(value).is_integer() and 1 <= value <= high
    if not good:
        shown = t("speculate.nothing") if value is None else value
        raise ValueError(t("speculate.out_of_range", name=t(word), high=high, value=shown))
    return int(value)


def _why_not(kind: str, reason: str, t: Translate) -> str:
    """Return why a kind isn't offered."""
    if kind == DISTILLED and "file is missing" in reason:
        return t("speculate.no_file")
    name = t(KIND_WORDS[kind])
    if kind == DISTILLED:
        return t("speculate.no_student", name=name)
    return t("speculate.no_layers", name=name)


def preset_of(name: Any) -> Preset | None:
    """Return a preset by name."""
    return next((p for p in PRESETS if p.name == name), None)


def usable(preset: Preset, offered: Sequence[str]) -> str:
    """Return the draft that a preset shows: the distilled one rather than an early exit."""
    if preset.kind == EXIT and DISTILLED in offered:
        return DISTILLED
    return preset.kind if preset.kind in offered else offered[0]
