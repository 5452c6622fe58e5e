"""The Contrast tab's controls in the left panel, read back as an amateur and its params.

Numbers are checked here, not by Gradio's sliders: a refusal names the control and its range in the
reader's language.
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
from playground.ui.contrastive_amateurs import (
    CONTEXT,
    DISTILLED,
    EXIT,
    KINDS,
    MAX_CONTEXT,
    SHORT,
    Amateurs,
    Choice,
    default_layer,
    depth_of,
)
from playground.ui.language import Labels
from playground.words import Translate

SCORE, DRAW = "score", "draw"
MAX_RUN = 60
KIND_WORDS = {
    DISTILLED: "contrast.kind_distilled",
    SHORT: "contrast.kind_short",
    EXIT: "contrast.kind_exit",
}
SEES_WORDS = {"all": "contrast.sees_all", "generated": "contrast.sees_generated"}
FORM_WORDS = {"difference": "contrast.form_difference", "one_plus_beta": "contrast.form_beta"}
CHOOSE_WORDS = {SCORE: "contrast.choose_score", DRAW: "contrast.choose_draw"}


@dataclass(frozen=True)
class Number:
    """One number: its field, word, range, start, step."""

    field: str
    word: str
    low: float
    high: float
    value: float
    step: float = 1
    whole: bool = False


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
    Preset("oven", "contrast.preset_specific", OVEN),
    Preset("king", "contrast.preset_loop", "The king said to the queen:", EXIT, length=40),
    Preset("learn", "contrast.preset_learn", "The best way to learn is"),
    Preset("unicorns", "contrast.preset_place", UNICORNS),
    Preset("absurd", "contrast.preset_absurd", OVEN, plausibility=0.0, length=8),
)


class Slider(gr.Slider):
    """A slider that takes what comes: ``ContrastControls`` says what is wrong with it."""

    def preprocess(self, payload: float) -> float:
        """Pass the value on."""
        return payload


class ContrastControls:
    """The controls; the attributes are Gradio components."""

    def __init__(self, labels: Labels, amateurs: Amateurs) -> None:
        self.amateurs, self._labels = amateurs, labels
        self.preset = self._add(
            gr.Dropdown([p.name for p in PRESETS], value=None, **_id("preset")),
            "contrast.preset",
        )
        self.kind = self._add(gr.Radio(list(KINDS), value=SHORT, **_id("kind")), "contrast.kind")
        self.context = self._slider(N)
        self.layer = self._slider(LAYER, visible=False)
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
        slider = Slider(n.low, n.high, n.value, step=n.step, buttons=[], **_id(n.field), **options)
        return self._add(slider, n.word)

    @property
    def settings(self) -> list[Any]:
        """What only moves lines: no model need be asked."""
        return [self.weight, self.plausibility, self.temperature, self.form, self.choose]

    @property
    def makers(self) -> list[Any]:
        """What makes another amateur."""
        return [self.kind, self.context, self.layer, self.sees]

    @property
    def inputs(self) -> set[Any]:
        """Every control that a handler may read."""
        return {self.preset, self.length, *self.settings, *self.makers}

    @property
    def outputs(self) -> list[Any]:
        """Every part that a model, a preset or a language changes."""
        return [self.preset, self.about, self.length, *self.settings, *self.makers]

    def choice(self, data: Mapping[Any, Any], lm: LanguageModel, t: Translate) -> Choice:
        """Return the amateur that is shown, or the first that works with the model."""
        offered = self.amateurs.offered(lm)
        kind = data[self.kind] if data[self.kind] in offered else offered[0]
        sees = data[self.sees]
        if sees not in AMATEUR_SEES:
            raise ValueError(f"amateur_sees must be one of {', '.join(AMATEUR_SEES)}, got {sees!r}")
        if kind == SHORT:
            return Choice(kind, context=int(read(N, data[self.context], t)), sees=sees)
        if kind != EXIT:
            return Choice(kind, sees=sees)
        layer = data[self.layer]
        if data[self.kind] != kind or not isinstance(layer, int | float) or layer > depth_of(lm):
            layer = default_layer(lm)
        return Choice(kind, layer=int(read(LAYER, layer, t)), sees=sees)

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

    def show(self, lm: LanguageModel, choice: Choice, t: Translate) -> dict[Any, Any]:
        """Return the updates that show what a model offers, and which amateur is chosen."""
        refused, depth = self.amateurs.refusals(lm), max(depth_of(lm), 1)
        about = {
            DISTILLED: t("contrast.about_distilled"),
            SHORT: t("contrast.about_short", context=choice.context),
            EXIT: t("contrast.about_exit", layer=choice.layer, depth=depth),
        }
        lines = [about[choice.kind]]
        lines += [_why_not(kind, refused[kind], t) for kind in KINDS if kind in refused]
        kinds = [(t(KIND_WORDS[k]), k) for k in KINDS if k not in refused]
        return {
            self.preset: gr.update(choices=[(t(p.word), p.name) for p in PRESETS]),
            self.kind: gr.update(choices=kinds, value=choice.kind),
            self.context: gr.update(visible=choice.kind == SHORT),
            self.layer: gr.update(
                maximum=depth,
                value=choice.layer or default_layer(lm),
                visible=choice.kind == EXIT,
            ),
            self.about: " ".join(lines),
            self.sees: gr.update(choices=[(t(SEES_WORDS[s]), s) for s in AMATEUR_SEES]),
            self.form: gr.update(choices=[(t(FORM_WORDS[f]), f) for f in FORMS]),
            self.choose: gr.update(choices=[(t(CHOOSE_WORDS[c]), c) for c in (SCORE, DRAW)]),
        }

    def preset_values(self, preset: Preset, lm: LanguageModel) -> dict[Any, Any]:
        """Return what the controls show under a preset, by component."""
        offered = self.amateurs.offered(lm)
        return {
            self.kind: preset.kind if preset.kind in offered else offered[0],
            self.context: preset.context,
            self.layer: default_layer(lm),
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


def read(n: Number, value: Any, t: Translate) -> float:
    """Return a number that a control shows, or refuse it with its range."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not n.low <= value <= n.high or (n.whole and not float(value).is_integer()):
        shown = "–" if value is None else value
        key = "contrast.bad_whole" if n.whole else "contrast.bad_number"
        raise ValueError(t(key, name=t(n.word), low=f"{n.low:g}", high=f"{n.high:g}", value=shown))
    return float(value)


def _why_not(kind: str, reason: str, t: Translate) -> str:
    """Return why a kind isn't offered."""
    if kind == DISTILLED and "file is missing" in reason:
        return t("contrast.no_file")
    return t("contrast.no_student" if kind == DISTILLED else "contrast.no_layers")


def _id(name: str) -> dict[str, Any]:
    return {"elem_id": f"dp-contrast-{name}", "interactive": True}


def _plain(name: str) -> dict[str, Any]:
    return {"elem_id": f"dp-contrast-{name}"}
