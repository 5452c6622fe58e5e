"""What the Beam tab is made of: its components, without what happens to them."""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui.beam_controls import BUDGET, HORIZON, BeamControls
from playground.ui.components import Figures, Keys, PlotlyChart, Sentence, Table, TokenStrip
from playground.ui.language import Labels
from playground.ui.panel import Panel
from playground.ui.runner import Runner
from playground.words import Translate, translator

RUNNER = "dp-beam-runner"
FORMS = ("power", "gnmt")
_CAPTION = '<h3 class="dp-chart-title">${value}</h3>'
_HINT = '<p class="dp-hint">${value}</p>'
_NOTE = '<p class="dp-note">${value}</p>'


class BeamView:
    """The tab's components, created in the present Gradio context; the controls go into the
    panel's slot.
    """

    def __init__(self, panel: Panel, labels: Labels) -> None:
        with panel.slots["beam"]:
            self.controls = BeamControls(labels)
        self._labels = labels
        self.keys = Keys()
        self.runner = Runner(elem_id=RUNNER)
        self.strip = TokenStrip(elem_id="dp-beam-strip")
        with gr.Row(elem_classes="dp-toolbar"):
            self.step = self._button("step", "page.step", variant="primary")
            self.back = self._button("back", "page.back")
            self.run = self._button("run", "page.run")
            self.stop = self._button("stop", "page.stop", variant="stop")
            self.reset = self._button("reset", "page.reset")
            self.status = self._html(_HINT, "beam.hint")
        self.tree = PlotlyChart(elem_id="dp-beam-tree", height=348)
        self.figures = Figures(elem_id="dp-beam-figures")
        with gr.Row(elem_classes="dp-beam-grid"):
            with gr.Column():
                self.race = PlotlyChart(elem_id="dp-beam-race", height=258, subtitle_lines=2)
            with gr.Column():
                self._ranking()
        with gr.Row(elem_classes="dp-beam-mode"):
            self.find = self._button("find", "beam.find")
            self.horizon = self.controls.number(HORIZON)
            self.budget = self.controls.number(BUDGET)
        self.mode = Sentence(elem_id="dp-beam-mode-text")
        self._html(_NOTE, "beam.reminder")

    def _ranking(self) -> None:
        with gr.Row(elem_classes="dp-beam-head"):
            self._html(_CAPTION, "beam.ranking_title")
            self.form = gr.Radio(
                self._forms(translator()),
                value="power",
                show_label=False,
                elem_id="dp-beam-form",
                elem_classes="dp-switch",
                interactive=True,
            )
        self.ranking = Table(elem_id="dp-beam-ranking")
        self.verdict = Sentence(elem_id="dp-beam-verdict")
        self.ghost = Sentence(elem_id="dp-beam-ghost")

    def _button(self, name: str, key: str, **options: Any) -> Any:
        button = gr.Button(elem_id=f"dp-beam-{name}", **options)
        return self._labels.add(button, key, prop="value")

    def _html(self, template: str, key: str) -> Any:
        return self._labels.add(gr.HTML(html_template=template), key, prop="value")

    @property
    def inputs(self) -> set[Any]:
        """Every component that a handler may read."""
        return {*self.controls.inputs, self.form, self.horizon, self.budget}

    @property
    def chosen(self) -> list[Any]:
        """The components whose choices are words."""
        return [self.controls.parts["early_stopping"], self.controls.preset, self.form]

    def choices(self, t: Translate) -> dict[Any, Any]:
        """Return the updates of choices whose words change with the language."""
        return {**self.controls.choices(t), self.form: gr.update(choices=self._forms(t))}

    def _forms(self, t: Translate) -> list[tuple[str, str]]:
        words = {"power": t("beam.form_power"), "gnmt": t("beam.form_gnmt")}
        return [(words[form], form) for form in FORMS]
