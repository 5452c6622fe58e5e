"""The Sample tab: token strip, buttons, charts, inspector, and the events that join them.

Every event reads what it needs by component, makes a move (``ui.handlers``), and returns the
values of the parts that changed (``ui.screen``). The model is asked only where ids change; a slider
at rest costs arithmetic. Answers carry a sequence number taken when they are ready, so the page
never shows an older state over a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.language_model import LanguageModel
from playground.records import SamplingParams
from playground.session import Session
from playground.ui import handlers, screen
from playground.ui.components import (
    REFRESH,
    Figures,
    Keys,
    PlotlyChart,
    Sentence,
    Table,
    TokenStrip,
)
from playground.ui.events import MODEL, QUICK, Visit, now, polite, stamp
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.live import Live
from playground.ui.numbers import Slider
from playground.ui.order import chips
from playground.ui.panel import Panel
from playground.ui.runner import START, STOP, TOGGLE, Runner
from playground.ui.sampling_events import NOT_SLID, SampleEvents
from playground.words import Translate


class SampleTab(SampleEvents):
    """Builds the tab in the present Gradio context; ``outputs`` are all parts it may change."""

    def __init__(self, library: Library, panel: Panel, labels: Labels, toolbar: Any) -> None:
        self.library = library
        self.panel = panel
        self.toolbar = toolbar
        self.visit = gr.State(Visit())
        self._build(labels)
        self.parts = {
            "toolbar": toolbar,
            "strip": self.strip,
            "bars": self.bars,
            "dice": self.dice,
            "ledger": self.ledger,
            "zipf": self.zipf,
            "figures": self.figures,
            "sentence": self.sentence,
            "rules": self.rules,
            "live": self.live,
            "inspector": self.inspector,
        }
        self.inputs = {*panel.inputs, self.visit, self.inspected}
        self.outputs = [self.visit, *self.parts.values(), self.branches, self.start_bos]
        self.outputs += [self.rewind]
        self.outputs += [panel.model_line, panel.preset, panel.order]
        # What other settings don't change.
        held = [self.visit, self.strip, self.branches, self.start_bos, self.rewind]
        self.still = {*held, panel.model_line}
        self._wire()

    def _build(self, labels: Labels) -> None:
        add = labels.add
        self.keys = Keys()
        self.live = Live()
        self.runner = Runner()
        self.strip = TokenStrip(elem_id="dp-strip")
        with gr.Row(elem_classes="dp-toolbar"):
            self.step = add(
                gr.Button(variant="primary", elem_id="dp-step"), "page.step", prop="value"
            )
            self.back = add(gr.Button(elem_id="dp-back"), "page.back", prop="value")
            self.redo = add(gr.Button(elem_id="dp-redo"), "page.redo", prop="value")
            self.run = add(gr.Button(elem_id="dp-run"), "page.run", prop="value")
            self.stop = add(
                gr.Button(elem_id="dp-stop", variant="stop"),
                "page.stop",
                prop="value",
            )
            self.reset = add(gr.Button(elem_id="dp-reset"), "page.reset", prop="value")
            self.undo = add(gr.Button(elem_id="dp-undo"), "page.undo", prop="value")
            self.rewind = add(
                gr.Button(elem_id="dp-rewind", visible=False), "page.rewind", prop="value"
            )
            self.start_bos = add(
                gr.Button(elem_id="dp-start-bos", visible=False), "page.start_bos", prop="value"
            )
            self.hint = add(
                gr.HTML(html_template='<p class="dp-hint">${value}</p>'), "page.hint", prop="value"
            )
        with gr.Row(elem_classes="dp-main-grid"):
            with gr.Column(elem_classes="dp-bars-column"):
                self.bars = PlotlyChart(elem_id="dp-bars", height=470)
            with gr.Column(elem_classes="dp-side-column"):
                self.ledger = PlotlyChart(elem_id="dp-ledger", height=170)
                self.dice = PlotlyChart(elem_id="dp-dice", height=190, subtitle_lines=2)
        self.figures = Figures(elem_id="dp-figures")
        self.sentence = Sentence(elem_id="dp-sentence")
        self.rules = Sentence(elem_id="dp-rules", elem_classes="dp-plain")
        with gr.Row(elem_classes="dp-run-row"):
            self.force = add(gr.Textbox(elem_id="dp-force"), "page.force")
            labels.add(self.force, "page.force_placeholder", prop="placeholder")
            self.inspected = add(gr.Textbox(elem_id="dp-inspect"), "page.inspect")
            labels.add(self.inspected, "page.inspect_placeholder", prop="placeholder")
            n = Slider(100, 10_000, 1_000, step=100, elem_id="dp-draw-count")
            self.draw_count = add(n, "page.draw_count")
            self.draws = add(gr.Button(elem_id="dp-draws"), "page.draws", prop="value")
            self.length = add(Slider(1, 200, 30, step=1, elem_id="dp-length"), "page.run_length")
            self.speed = add(Slider(0.5, 20, 8, step=0.5, elem_id="dp-speed"), "page.speed")
            self.stops = add(
                gr.Textbox(lines=1, max_lines=3, elem_id="dp-stops"), "page.stop_strings"
            )
        self.inspector = Table(elem_id="dp-inspector")
        self.zipf = PlotlyChart(elem_id="dp-zipf", height=300)
        self.branches = Table(elem_id="dp-branches")

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model."""
        return self.library.get(visit.model)

    def draw(
        self,
        visit: Visit,
        params: SamplingParams,
        draws: int = 0,
        seq: int | None = None,
        known: str = "",
    ) -> dict[Any, Any]:
        """Return the updates that show a visit; all parts of the screen.

        ``seq`` numbers the answer; by default it is taken when the answer is ready. ``known`` names
        the payload that the page has.
        """
        lm, session = self.lm(visit), visit.session
        values = screen.draw_screen(
            lm, visit.model, session, params, visit.t, visit.language, draws, known, visit.inspected
        )
        seq = now() if seq is None else seq
        found = {self.visit: visit}
        for name, value in values.items():
            found[self.parts[name]] = stamp(value, seq)
        return {
            **found,
            self.branches: stamp(screen.branches(lm, session, visit.t), seq),
            self.panel.preset: gr.update(value=self.panel.preset_of(params)),
            self.panel.order: stamp(chips(params, visit.t), seq),
            self.rewind: gr.update(visible=session.taken is not None),
            self.start_bos: gr.update(visible=not session.ids and lm.bos_id is not None),
        }

    def _move(self, move: Callable[..., Session]) -> Callable[..., Any]:
        """Make a handler of a move: (lm, session, params, t, event) -> session."""

        @polite
        def handle(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit, params = data[self.visit], self.panel.read_params(data)
            session = move(self.lm(visit), visit.session, params, visit.t, event)
            return self.draw(replace(visit, session=session), params)

        return handle

    def _wire(self) -> None:
        p, io = self.panel, {"inputs": self.inputs, "outputs": self.outputs}

        def on(trigger: Any, move: Callable[..., Session], **more: Any) -> None:
            trigger(self._move(move), **io, **MODEL, **more)

        def go(lm: Any, s: Session, params: Any, t: Translate, _: Any) -> Session:
            return handlers.take(lm, s, params, t, None)

        def clicked(lm: Any, s: Session, params: Any, t: Translate, e: Any) -> Session:
            token = e._data.get("customdata")
            return s if token is None else handlers.take(lm, s, params, t, int(token))

        def digit(lm: Any, s: Session, params: Any, t: Translate, e: Any) -> Session:
            token = handlers.candidate(lm, s, int(e._data["digit"]))
            return handlers.take(lm, s, params, t, token)

        def pick(lm: Any, s: Session, params: Any, t: Translate, e: Any) -> Session:
            count = int(e._data["index"]) - len(s.trace.prompt_ids)
            return s.look_at(max(0, min(count, len(s.trace.steps))))

        on(self.step.click, go, trigger_mode="once")
        on(self.keys.step, go, trigger_mode="once")
        on(self.bars.clicked, clicked, trigger_mode="once")
        on(self.keys.digit, digit, trigger_mode="once")
        on(self.strip.pick, pick)
        on(self.back.click, lambda lm, s, *_: s.back())
        on(self.keys.back, lambda lm, s, *_: s.back())
        on(self.redo.click, lambda lm, s, *_: s.forward())
        on(self.reset.click, lambda lm, s, *_: s.reset())
        on(self.rewind.click, lambda lm, s, *_: s.rewind())
        on(self.branches.pick, lambda lm, s, p, t, e: s.switch(int(e._data["id"])))
        self.undo.click(self._undo, self.inputs, [*self.outputs, *p.prompt_parts], **MODEL)
        self.force.submit(
            self._force, {*self.inputs, self.force}, [*self.outputs, self.force], **MODEL
        )
        self.inspected.submit(self._inspect, self.inputs, self.outputs, **MODEL)

        for trigger in p.prompted:
            trigger(self._prompt, **io, **MODEL)
        chosen = [*self.outputs, p.prompt, p.examples]
        example = p.examples.input(self._example, {*self.inputs, p.examples}, chosen, **MODEL)
        example.then(None, js=REFRESH, **QUICK)
        gr.on([*p.prompted, p.model_line.change], None, js=REFRESH, **QUICK)
        self.start_bos.click(self._start_bos, self.inputs, [*self.outputs, p.bos], **MODEL)

        drawing = {*self.inputs, self.draw_count}
        self.draws.click(self._draws, drawing, self.outputs, **MODEL)
        preset_out = [*self.outputs, *p.controls.parts.values()]
        p.preset.input(self._preset, {*self.inputs, p.preset}, preset_out, **MODEL)
        # Gradio looks up each part of an event in the whole page: few parts, quick events.
        settled = [part for part in self.outputs if part not in self.still]
        resting = {self.visit, *(p.controls.parts[name] for name in NOT_SLID)}
        self.live.settle(self._rest, resting, settled, trigger_mode="multiple", **QUICK)
        order = p.controls.parts["order"]
        p.order.reorder(self._reorder, self.inputs, [*self.outputs, order], **MODEL)
        for name in NOT_SLID:
            part = p.controls.parts[name]
            for trigger in [part.submit, part.blur] if hasattr(part, "submit") else [part.input]:
                trigger(self._settle, self.inputs, settled, **QUICK)

        ticking = {*self.inputs, self.length, self.speed, self.stops}
        self.runner.each(self._tick, ticking, self.outputs)
        self.run.click(None, js=START, **QUICK)
        self.stop.click(None, js=STOP, **QUICK)
        self.keys.run(None, js=TOGGLE, **QUICK)
