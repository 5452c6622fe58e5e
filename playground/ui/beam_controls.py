"""The Beam tab's controls in the left panel, read back as BeamParams.

A number out of range is refused in the reader's language (``ui.numbers``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.records import SamplingParams
from playground.records.beam import BeamParams
from playground.ui.beam_moves import MAX_BUDGET, MAX_HORIZON
from playground.ui.language import Labels
from playground.ui.numbers import Choice, Number, offers, read, slider
from playground.words import Translate, translator

MAX_BEAMS = 16
MAX_STEPS = 50
STOPPING = ("False", "True", "never")


@dataclass(frozen=True)
class Preset:
    """A prompt on which greedy falls into the trap (with the default model, by plain sums)."""

    prompt: str
    num_beams: int = 5
    max_new_tokens: int = 12
    length_penalty: float = 0.0

    @property
    def settings(self) -> dict[str, float]:
        """The settings by the names of their controls."""
        names = ("num_beams", "max_new_tokens", "length_penalty")
        return {name: getattr(self, name) for name in names}


PRESETS = (
    Preset("Once upon a time"),
    Preset("Water is made of"),
    Preset("I went to the store and"),
    Preset("A long time ago, in a"),
    Preset("The old man looked at"),
    Preset("The doctor told her that"),
)


PENALTY = Number("length_penalty", "beam.length_penalty", -2, 3, 1, 0.1)
MAIN = (
    Number("num_beams", "beam.num_beams", 1, MAX_BEAMS, 4, whole=True),
    Number("max_new_tokens", "beam.max_new_tokens", 1, MAX_STEPS, 12, whole=True),
    PENALTY,
)
GROUPS = (
    Number("num_groups", "beam.num_groups", 1, MAX_BEAMS, 1, whole=True),
    Number("diversity_penalty", "beam.diversity_penalty", 0, 5, 0, 0.1),
)
FILTERS = (
    Number("repetition_penalty", "controls.repetition_penalty", 0.5, 3, 1, 0.01),
    Number("no_repeat_ngram_size", "controls.no_repeat_ngram_size", 0, 10, 0, whole=True),
    Number("temperature", "beam.temperature", 0.05, 5, 1, 0.01),
    Number("top_k", "controls.top_k", 0, 1000, 0, whole=True),
    Number("top_p", "controls.top_p", 0, 1, 1, 0.01),
    Number("seed", "controls.seed", 0, 2**31, 0, whole=True),
)
HORIZON = Number("horizon", "beam.horizon", 1, MAX_HORIZON, 5, whole=True)
BUDGET = Number("budget", "beam.budget", 10, MAX_BUDGET, 400, whole=True)


class BeamControls:
    """The controls by name in ``parts``."""

    def __init__(self, labels: Labels) -> None:
        self.parts: dict[str, Any] = {}
        self._labels = labels
        add = labels.add
        self.preset = add(
            Choice(
                _offers(translator()),
                value="",
                elem_id="dp-beam-preset",
                interactive=True,
            ),
            "beam.preset",
            info=True,
        )
        self._build(MAIN)
        self.parts["early_stopping"] = add(
            Choice(list(STOPPING), value="False", elem_id="dp-early_stopping"),
            "beam.early_stopping",
        )
        with add(gr.Accordion(open=False, elem_id="dp-beam-groups"), "beam.more_groups"):
            self._build(GROUPS)
        with add(gr.Accordion(open=False, elem_id="dp-beam-filters"), "beam.more_filters"):
            self._build(FILTERS)
            self.parts["do_sample"] = add(
                gr.Checkbox(False, elem_id="dp-beam-do_sample", interactive=True),
                "beam.do_sample",
                info=True,
            )
        self.speed = self.number(Number("speed", "beam.speed", 1, 20, 4, 1))

    def _build(self, numbers: tuple[Number, ...]) -> None:
        for n in numbers:
            self.parts[n.field] = self.number(n)

    def number(self, n: Number) -> Any:
        """Create a number's slider here, in the present Gradio context."""
        return slider(self._labels, n, f"dp-beam-{n.field}")

    @property
    def inputs(self) -> set[Any]:
        """Every component that a handler may read."""
        return {*self.parts.values(), self.preset, self.speed}

    def choices(self, t: Translate) -> dict[Any, Any]:
        """Return the updates of choices whose words change with the language."""
        names = {
            "False": t("beam.stopping_false"),
            "True": t("beam.stopping_true"),
            "never": t("beam.stopping_never"),
        }
        pairs = [(names[key], key) for key in STOPPING]
        return {
            self.parts["early_stopping"]: gr.update(choices=pairs),
            self.preset: gr.update(choices=_offers(t)),
        }

    def penalty(self, data: Mapping[Any, Any], t: Translate) -> float:
        """Return the length penalty that the control shows."""
        return read(PENALTY, data[self.parts["length_penalty"]], t)

    def params(self, data: Mapping[Any, Any], t: Translate) -> BeamParams:
        """Return the params that the controls show. Raises ValueError in the reader's words."""
        values = {
            n.field: read(n, data[self.parts[n.field]], t) for n in (*MAIN, *GROUPS, *FILTERS)
        }
        filters = {n.field: values.pop(n.field) for n in FILTERS}
        if values["num_beams"] % values["num_groups"]:
            raise ValueError(
                t("beam.bad_groups", groups=values["num_groups"], beams=values["num_beams"])
            )
        stopping = data[self.parts["early_stopping"]]
        do_sample = bool(data[self.parts["do_sample"]])
        if do_sample and values["num_groups"] > 1:
            raise ValueError(t("beam.bad_sample"))
        sampling = SamplingParams(**filters)
        if not do_sample and sampling == SamplingParams(seed=sampling.seed):
            sampling = None
        return BeamParams(
            **values,
            early_stopping=stopping if stopping == "never" else stopping == "True",
            do_sample=do_sample,
            sampling=sampling,
        )


def _offers(t: Translate) -> list[tuple[str, str]]:
    return offers([(p.prompt, p.prompt) for p in PRESETS], t)
