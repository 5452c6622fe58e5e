"""The Speculate tab's parts and where they stand; no events."""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui import speculative_lab as lab
from playground.ui import speculative_screen as screen
from playground.ui.components import Figures, Keys, PlotlyChart, Sentence, Table, TokenStrip
from playground.ui.language import Labels
from playground.ui.runner import Runner
from playground.ui.speculative_rounds import Rounds

RUNNER = "dp-spec-runner"
_CAPTION = '<h3 class="dp-chart-title">${value}</h3>'
_HINT = '<p class="dp-hint">${value}</p>'


class SpeculateView:
    """The parts as attributes, and in ``parts`` by the names of ``speculative_screen.PARTS``.

    ``rule`` is the lab's rule, ``size`` how many runs it makes.
    """

    def build(self, labels: Labels) -> None:
        """Create the parts here, in the present Gradio context."""
        add = labels.add
        self.keys = Keys()
        self.runner = Runner(elem_id=RUNNER)
        self.rule = gr.State("exact")
        self.strip = TokenStrip(elem_id="dp-spec-strip")

        def button(name: str, key: str, **options: Any) -> Any:
            return add(gr.Button(elem_id=f"dp-spec-{name}", **options), key, prop="value")

        def chart(name: str, height: int) -> PlotlyChart:
            return PlotlyChart(elem_id=f"dp-spec-{name}", height=height)

        with gr.Row(elem_classes="dp-toolbar"):
            self.step = button("step", "page.step", variant="primary")
            self.back = button("back", "page.back")
            self.run = button("run", "page.run")
            self.stop = button("stop", "page.stop", variant="stop")
            self.reset = button("reset", "page.reset")
            self.status = add(gr.HTML(html_template=_HINT), "speculate.hint", prop="value")
        with gr.Row(elem_classes="dp-main-grid"):
            with gr.Column():
                self.rounds = Rounds(elem_id="dp-spec-rounds")
            with gr.Column(elem_classes="dp-spec-pay"):
                add(gr.HTML(html_template=_CAPTION), "speculate.pay_heading", prop="value")
                self.figures = Figures(elem_id="dp-spec-figures")
        self.sentence = Sentence(elem_id="dp-spec-sentence")
        with gr.Row(elem_classes="dp-even-grid dp-spec-charts"):
            with gr.Column():
                self.laws = chart("laws", 239)
            with gr.Column():
                self.trial = chart("trial", 64)
                self.residual = chart("residual", 155)
        with gr.Row(elem_classes="dp-section dp-spec-lab-head"):
            add(gr.HTML(html_template=_CAPTION), "speculate.lab_title", prop="value")
            self.size = gr.Radio(
                [(f"{n:,}", n) for n in lab.SIZES],
                value=lab.SIZES[1],
                show_label=False,
                elem_id="dp-spec-size",
                elem_classes="dp-switch",
                interactive=True,
            )
        self.lab_words = Sentence(elem_id="dp-spec-lab-words")
        with gr.Row(elem_classes="dp-even-grid dp-spec-charts"):
            with gr.Column():
                self.lab_rules = Table(elem_id="dp-spec-lab-rules")
            with gr.Column():
                self.lab_runs = chart("lab-runs", 220)
            with gr.Column():
                self.lab_law = chart("lab-law", 155)
            with gr.Column():
                self.payoff = chart("payoff", 220)
        self.parts: dict[str, Any] = {name: getattr(self, name) for name in screen.PARTS}
