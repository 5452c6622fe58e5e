"""The Contrast tab's controls in the left panel, read back as an amateur and its params.

A number out of range is refused in the reader's language (``ui.numbers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.language_model import LanguageModel
from playground.records import SamplingParams
from playground.records.contrastive import AMATEUR_SEES, FORMS, ContrastiveParams
from playground.ui.components import Sentence
from playground.ui.language import Labels
from playground.ui.numbers import Choice, Number, Slider, offers, read, slider
from playground.ui.second_models import (
    CONTEXT,
    DISTILLED,
    EXIT,
    OTHER,
    SHORT,
    OtherModel,
    Second,
    SecondModels,
    depth_of,
)
from playground.words import Translate, translator

KINDS = (DISTILLED, SHORT, EXIT, OTHER)  # the best teacher of the idea first
EXIT_AT = 0.75  # of the layers: what leaves there knows the words, not yet the facts
MAX_CONTEXT = 64
SCORE, DRAW = "score", "draw"
MAX_RUN = 60
KIND_WORDS = {
    DISTILLED: "contrast.kind_distilled",
    SHORT: "contrast.kind_short",
    EXIT: "contrast.kind_exit",
    OTHER: "second.kind",
}
SEES_WORDS = {"all": "contrast.sees_all", "generated": "contrast.sees_generated"}
FORM_WORDS = {"difference": "contrast.form_difference", "one_plus_beta": "contrast.form_beta"}
CHOOSE_WORDS = {SCORE: "contrast.choose_score", DRAW: "contrast.choose_draw"}


WEIGHT = Number("amateur_weight", "contrast.weight", 0, 3, 1, 0.05)
PLAUSIBILITY = Number("plausibility", "contrast.plausibility", 0, 1, 0.1, 0.01)
TEMPERATURE = Number("amateur_temperature", "contrast.temperature", 0.1, 5, 1, 0.05)
N = Number("context", "contrast.context", 1, MAX_CONTEXT, CONTEXT, 1, True)
LAYER = Number("layer", "contrast.layer", 1, 200, 22, 1, True)
LENGTH = Number("length", "contrast.run_length", 1, MAX_RUN, 20, 1, True)


@dataclass(frozen=True)
class Preset:
    """A prompt with settings under which something is to be seen with the default model.

    ``length``: how many tokens a run makes then.
    """

    name: str
    word: str
    prompt: str
    kind: str = SHORT
    context: int = CONTEXT
    plausibility: float = 0.1
    amateur_weight: float = 1.0
    length: int = 20


OVEN = "The chef opened the oven and took out a"
UNICORNS = "In a shocking finding, scientists discovered a herd of unicorns living in"
PRESETS = (
    Preset("student", "contrast.preset_student", OVEN, DISTILLED, length=16),
    Preset("oven", "contrast.preset_specific", OVEN),
    Preset("king", "contrast.preset_loop", "The king said to the queen:", EXIT, length=40),
    Preset("learn", "contrast.preset_learn", "The best way to learn is"),
    Preset("unicorns", "contrast.preset_place", UNICORNS),
    Preset("absurd", "contrast.preset_absurd", OVEN, plausibility=0.0, length=8),
)


class ContrastControls:
    """The controls; the attributes are Gradio components."""

    def __init__(self, labels: Labels, amateurs: SecondModels) -> None:
        self.amateurs, self._labels = amateurs, labels
        self.preset = self._add(
            Choice(offers([], translator()), value="", **_id("preset")),
            "contrast.preset",
        )
        self.kind = self._add(
            gr.Radio(list(amateurs.kinds), value=None, **_id("kind")), "contrast.kind"
        )
        self.context = self._slider(N)
        self.layer = self._slider(LAYER, visible=False)
        self.other = OtherModel(labels, amateurs, "dp-contrast-other")
        self.about = Sentence(elem_id="dp-contrast-about", elem_classes="dp-plain")
        self.weight = self._slider(WEIGHT)
        self.plausibility = self._slider(PLAUSIBILITY)
        self.temperature = self._slider(TEMPERATURE)
        self.choose = self._add(
            gr.Radio([SCORE, DRAW], value=SCORE, **_id("choose")), "contrast.choose"
        )
        with labels.add(gr.Accordion(open=False, **_plain("more")), "contrast.more"):
            self.sees = self._add(
                gr.Radio(list(AMATEUR_SEES), value="all", **_id("sees")), "contrast.sees_label"
            )
            self.form = self._add(
                gr.Radio(list(FORMS), value="difference", **_id("form")), "contrast.form"
            )
            self.length = self._slider(LENGTH)

    def _add(self, part: Any, word: str) -> Any:
        return self._labels.add(part, word, info=True)

    def _slider(self, n: Number, **options: Any) -> Slider:
        return slider(self._labels, n, f"dp-contrast-{n.field}", **options)

    @property
    def settings(self) -> list[Any]:
        """What only moves lines: no model need be asked."""
        return [self.weight, self.plausibility, self.temperature, self.form, self.choose]

    @property
    def makers(self) -> list[Any]:
        """What makes another amateur."""
        return [self.kind, self.context, self.layer, self.other.part, self.sees]

    @property
    def inputs(self) -> set[Any]:
        """Every control that a handler may read."""
        return {self.preset, self.length, *self.settings, *self.makers}

    @property
    def outputs(self) -> list[Any]:
        """Every part that a model, a preset or a language changes."""
        return [self.preset, self.about, self.length, *self.settings, *self.makers]

    def choice(self, data: Mapping[Any, Any], lm: LanguageModel, t: Translate) -> Second:
        """Return the amateur that is shown, or the first that works with the model."""
        offered = self.amateurs.offered(lm)
        kind = data[self.kind] if data[self.kind] in offered else offered[0]
        if kind == OTHER:
            return Second(kind, name=self.other.name(data))
        if kind == SHORT:
            return Second(kind, read(N, data[self.context], t))
        if kind != EXIT:
            return Second(kind)
        layer = data[self.layer]
        if data[self.kind] != kind or not isinstance(layer, int | float) or layer > depth_of(lm):
            return self.amateurs.default(lm, kind)
        return Second(kind, read(LAYER, layer, t))

    def params(self, data: Mapping[Any, Any], t: Translate) -> ContrastiveParams:
        """Return the params that the controls show, or refuse them in words."""
        return ContrastiveParams(
            plausibility=read(PLAUSIBILITY, data[self.plausibility], t),
            amateur_weight=read(WEIGHT, data[self.weight], t),
            amateur_temperature=read(TEMPERATURE, data[self.temperature], t),
            form=data[self.form],
            amateur_sees=data[self.sees],
        )

    def sampling(self, data: Mapping[Any, Any], panel: SamplingParams) -> SamplingParams:
        """Return the panel's sampling params; by the highest score, they are greedy."""
        return panel if data[self.choose] == DRAW else panel.replace(temperature=0.0)

    def run_length(self, data: Mapping[Any, Any], t: Translate) -> int:
        """Return how many tokens a run makes."""
        return int(read(LENGTH, data[self.length], t))

    def show(self, lm: LanguageModel, second: Second, t: Translate) -> dict[Any, Any]:
        """Return the updates that show what a model offers, and which amateur is chosen."""
        refused, depth = self.amateurs.refusals(lm), max(depth_of(lm), 1)
        kinds, kind = self.amateurs.kinds, second.kind
        lines = [self._about(lm, second, depth, t)]
        lines += [_why_not(k, refused[k], t) for k in kinds if k in refused]
        layer = second.number if kind == EXIT else self.amateurs.default_layer(lm)
        return {
            self.preset: gr.update(
                choices=offers([(t(p.word), p.name) for p in PRESETS if p.kind not in refused], t)
            ),
            self.kind: gr.update(
                choices=[(t(KIND_WORDS[k]), k) for k in kinds if k not in refused], value=kind
            ),
            self.context: gr.update(visible=kind == SHORT),
            self.layer: gr.update(maximum=max(depth, 2), value=layer, visible=kind == EXIT),
            **self.other.show(kind, t),
            self.about: " ".join(lines),
            self.sees: gr.update(choices=[(t(SEES_WORDS[s]), s) for s in AMATEUR_SEES]),
            self.form: gr.update(choices=[(t(FORM_WORDS[f]), f) for f in FORMS]),
            self.choose: gr.update(choices=[(t(CHOOSE_WORDS[c]), c) for c in (SCORE, DRAW)]),
        }

    def _about(self, lm: LanguageModel, second: Second, depth: int, t: Translate) -> str:
        if second.kind == OTHER:
            return self.amateurs.about_other(lm, second.name, t)
        if second.kind == SHORT:
            return t("contrast.about_short", context=second.number)
        if second.kind == EXIT:
            return t("contrast.about_exit", layer=second.number, depth=depth)
        return t("contrast.about_distilled")

    def preset_values(self, preset: Preset, lm: LanguageModel) -> dict[Any, Any]:
        """Return what the controls show under a preset, by component."""
        return {
            self.kind: preset.kind,
            self.context: preset.context,
            self.layer: self.amateurs.default_layer(lm),
            self.sees: "all",
            self.weight: preset.amateur_weight,
            self.plausibility: preset.plausibility,
            self.temperature: 1.0,
            self.form: "difference",
            self.choose: SCORE,
            self.length: preset.length,
        }


def preset_of(name: Any) -> Preset | None:
    """Return a preset by name."""
    return next((p for p in PRESETS if p.name == name), None)


def _why_not(kind: str, reason: str, t: Translate) -> str:
    """Return why a kind isn't offered."""
    if kind == DISTILLED and "file is missing" in reason:
        return t("contrast.no_file")
    return t("contrast.no_student" if kind == DISTILLED else "contrast.no_layers")


def _id(name: str) -> dict[str, Any]:
    return {"elem_id": f"dp-contrast-{name}", "interactive": True}


def _plain(name: str) -> dict[str, Any]:
    return {"elem_id": f"dp-contrast-{name}"}
