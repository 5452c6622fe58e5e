"""The Speculate tab's controls in the left panel, read back as what a run depends on.

A number out of range is refused in the reader's language (``ui.numbers``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from playground.language_model import LanguageModel
from playground.records.speculative import SpeculativeParams
from playground.ui.components import Sentence
from playground.ui.language import Labels
from playground.ui.numbers import Choice, Number, offers, read, slider
from playground.ui.second_models import (
    DISTILLED,
    EXIT,
    LOOKUP,
    OTHER,
    OtherModel,
    Second,
    SecondModels,
    depth_of,
)
from playground.words import Translate, translator

KINDS = (DISTILLED, EXIT, LOOKUP, OTHER)  # the likeliest to pay first
EXIT_AT = 0.8  # of the layers: an untrained exit agrees with the whole model only late
MAX_GAMMA = 16
MAX_RUN = 50
KIND_WORDS = {
    DISTILLED: "speculate.kind_distilled",
    EXIT: "speculate.kind_exit",
    LOOKUP: "speculate.kind_lookup",
    OTHER: "second.kind",
}
ABOUT = {
    DISTILLED: "speculate.about_distilled",
    EXIT: "speculate.about_exit",
    LOOKUP: "speculate.about_lookup",
}


LAYER = Number("layer", "speculate.layer", 1, 30, 24, whole=True)
GAMMA = Number("gamma", "speculate.gamma", 1, MAX_GAMMA, 4, whole=True)
ROUNDS = Number("rounds", "speculate.run_rounds", 1, MAX_RUN, 8, whole=True)


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


class SpeculateControls:
    """The controls; the attributes are Gradio components."""

    def __init__(self, labels: Labels, drafts: SecondModels) -> None:
        add = labels.add
        self.drafts = drafts
        t = translator()
        # The choices' words come again with the language, those that work with the model.
        self.preset = add(
            Choice(_offers(t), value="", elem_id="dp-spec-preset", interactive=True),
            "speculate.preset",
        )
        kinds = [(t(KIND_WORDS[kind]), kind) for kind in drafts.kinds]
        self.kind = add(
            gr.Radio(kinds, value=None, elem_id="dp-spec-kind", interactive=True),
            "speculate.kind",
        )
        self.layer = slider(labels, LAYER, "dp-spec-layer")
        self.other = OtherModel(labels, drafts, "dp-spec-other")
        self.about = Sentence(elem_id="dp-spec-about", elem_classes="dp-plain")
        self.gamma = slider(labels, GAMMA, "dp-spec-gamma")
        self.adaptive = add(
            gr.Checkbox(False, elem_id="dp-spec-adaptive", interactive=True),
            "speculate.adaptive",
            info=True,
        )
        self.rounds = slider(labels, ROUNDS, "dp-spec-length")

    @property
    def inputs(self) -> set[Any]:
        """Every control that a handler may read."""
        return {
            self.preset,
            self.kind,
            self.layer,
            self.other.part,
            self.gamma,
            self.adaptive,
            self.rounds,
        }

    @property
    def outputs(self) -> list[Any]:
        """Every part that a model or a language changes."""
        return [self.preset, self.kind, self.layer, self.other.part, self.about, self.gamma]

    def choice(self, data: Mapping[Any, Any], lm: LanguageModel, t: Translate) -> Second:
        """Return the draft that is shown, or the first that works with the model."""
        offered = self.drafts.offered(lm)
        kind = data[self.kind] if data[self.kind] in offered else offered[0]
        if kind == OTHER:
            return Second(kind, name=self.other.name(data))
        if kind != EXIT:
            return Second(kind)
        depth, layer = depth_of(lm), data[self.layer]
        if data[self.kind] != kind or not isinstance(layer, int | float) or layer > depth:
            return self.drafts.default(lm, kind)
        return Second(kind, read(replace(LAYER, high=depth), layer, t))

    def params(self, data: Mapping[Any, Any], t: Translate) -> SpeculativeParams:
        """Return the params that the controls show, or refuse them in words."""
        gamma = data[self.gamma]
        if gamma == 0:
            raise ValueError(t("speculate.gamma_zero", high=MAX_GAMMA))
        return SpeculativeParams(read(GAMMA, gamma, t), bool(data[self.adaptive]), MAX_GAMMA)

    def run_length(self, data: Mapping[Any, Any], t: Translate) -> int:
        """Return how many rounds a run makes."""
        return read(ROUNDS, data[self.rounds], t)

    def show(self, lm: LanguageModel, second: Second, t: Translate) -> dict[Any, Any]:
        """Return the updates that show what a model offers, and which draft is chosen."""
        refused, kinds, kind = self.drafts.refusals(lm), self.drafts.kinds, second.kind
        depth = max(depth_of(lm), 1)
        if kind == OTHER:
            lines = [self.drafts.about_other(lm, second.name, t)]
        else:
            lines = [t(ABOUT[kind], layer=second.number, depth=depth)]
        lines += [_why_not(k, refused[k], t) for k in kinds if k in refused]
        layer = second.number if kind == EXIT else self.drafts.default_layer(lm)
        return {
            self.preset: gr.update(choices=_offers(t)),
            self.kind: gr.update(
                choices=[(t(KIND_WORDS[k]), k) for k in kinds if k not in refused], value=kind
            ),
            self.layer: gr.update(maximum=max(depth, 2), value=layer, visible=kind == EXIT),
            **self.other.show(kind, t),
            self.about: " ".join(lines),
        }


def _offers(t: Translate) -> list[tuple[str, str]]:
    return offers([(t(p.word), p.name) for p in PRESETS], t)


def _why_not(kind: str, reason: str, t: Translate) -> str:
    """Return why a kind isn't offered."""
    if kind == DISTILLED and "file is missing" in reason:
        return t("speculate.no_file")
    name = t(KIND_WORDS[kind]).lower()
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
