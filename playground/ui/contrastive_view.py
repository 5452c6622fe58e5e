"""What the Contrast tab is made of: its components, without what happens to them."""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.charts.contrastive import HEIGHT
from playground.charts.contrastive_bars import ROW, SHOWN
from playground.ui.components import Figures, Keys, PlotlyChart, Sentence, TokenStrip
from playground.ui.contrastive_controls import ContrastControls
from playground.ui.language import Labels
from playground.ui.panel import Panel
from playground.ui.runner import Runner
from playground.ui.second_models import SecondModels

RUNNER = "dp-contrast-runner"
_HINT = '<p class="dp-hint">${value}</p>'
_NOTE = '<p class="dp-note">${value}</p>'
_CAPTION = '<p class="dp-caption">${value}</p>'


class ContrastView:
    """The tab's components, created in the present Gradio context; the controls go into the
    panel's slot.
    """

    def __init__(self, panel: Panel, labels: Labels, amateurs: SecondModels) -> None:
        with panel.slots["contrast"]:
            self.controls = ContrastControls(labels, amateurs)
        self._labels = labels
        self.keys = Keys()
        self.runner = Runner(elem_id=RUNNER)
        self.strip = TokenStrip(elem_id="dp-contrast-strip")
        with gr.Row(elem_classes="dp-toolbar"):
            self.step = self._button("step", "page.step", variant="primary")
            self.back = self._button("back", "page.back")
            self.run = self._button("run", "page.run")
            self.stop = self._button("stop", "page.stop", variant="stop")
            self.reset = self._button("reset", "page.reset")
            self.status = self._html(_HINT, "contrast.hint")
        with gr.Row(elem_classes="dp-even-grid"):
            with gr.Column(elem_classes="dp-contrast-side"):
                self.plane = PlotlyChart(elem_id="dp-contrast-plane", height=HEIGHT)
                self.context = Sentence(elem_id="dp-contrast-seen", elem_classes="dp-plain")
            with gr.Column(elem_classes="dp-contrast-side"):
                self.bars = PlotlyChart(elem_id="dp-contrast-bars", height=ROW * (SHOWN + 1) + 6)
                self.sentence = Sentence(elem_id="dp-contrast-sentence")
        with gr.Row(elem_classes="dp-third-grid dp-section"):
            self._text("expert", "contrast.text_expert")
            self._text("contrast", "contrast.text_contrast")
            self._text("amateur", "contrast.text_amateur")
        self._html(_NOTE, "contrast.not_search")
        self._html(_NOTE, "contrast.honest")

    def _text(self, name: str, key: str) -> None:
        with gr.Column(elem_classes=["dp-contrast-column", f"dp-contrast-{name}"]):
            self._html(_CAPTION, key)
            figures = Figures(elem_id=f"dp-contrast-{name}-figures")
            text = Sentence(elem_id=f"dp-contrast-{name}-text", elem_classes="dp-contrast-text")
        setattr(self, f"{name}_figures", figures)
        setattr(self, f"{name}_text", text)

    def _button(self, name: str, key: str, **options: Any) -> Any:
        button = gr.Button(elem_id=f"dp-contrast-{name}", **options)
        return self._labels.add(button, key, prop="value")

    def _html(self, template: str, key: str) -> Any:
        return self._labels.add(gr.HTML(html_template=template), key, prop="value")
