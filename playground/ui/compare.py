"""The Compare tab: two to six decoders on one prompt and one seed, side by side.

Every event reads what it needs by component, brings the comparison up to what the controls say
(``ui.compare_moves``) and returns the values of the parts (``ui.compare_screen``). Prompt, model
and seed are the panel's; each decoder is set above its text. A text whose decoder, prompt and seed
are as before is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.compare import record_of
from playground.engines.sampling import fingerprint
from playground.language_model import LanguageModel
from playground.ui import compare_moves as moves
from playground.ui import compare_screen as screen
from playground.ui import contrastive_controls, speculative_controls
from playground.ui.compare_decks import CONTRAST, SPECULATE, Deck, names, read_decks
from playground.ui.compare_moves import Comparison, Setup, Tracks
from playground.ui.compare_presets import PRESETS, preset_of
from playground.ui.components import PlotlyChart, Sentence, Table
from playground.ui.decks import Decks
from playground.ui.events import MODEL, QUICK, Visit, inform, language_of, now, polite, stamp, warn
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.numbers import Choice, Number, offers, read, slider
from playground.ui.panel import Panel
from playground.ui.proof import ProofSheet, sheet_value
from playground.ui.runner import Pace, Runner, start, stop
from playground.ui.second_models import OTHER, SecondModels
from playground.words import Translate, in_words, translator

RUNNER = "dp-compare-runner"
WAIT = 60  # ms between two steps at least
WHOLE = 4  # steps of a run for which charts and table are drawn once; its texts grow at each
LENGTH = Number("length", "compare.length", 1, moves.MAX_LENGTH, moves.LENGTH, 1, True)
_HINT = '<p class="dp-hint">${value}</p>'

Data = Mapping[Any, Any]
Handler = Callable[..., Any]


class CompareTab:
    """Builds the tab in the present Gradio context. ``sample`` is the Sample tab, whose visit is
    shared and whose prompt a preset changes; ``sheet`` the
    page's proof sheet.
    """

    def __init__(
        self,
        library: Library,
        panel: Panel,
        labels: Labels,
        toolbar: Any,
        sample: Any,
        sheet: ProofSheet,
    ) -> None:
        self.library, self.panel, self.sample, self.sheet = library, panel, sample, sheet
        self.seconds = {
            CONTRAST: _seconds(contrastive_controls),
            SPECULATE: _seconds(speculative_controls),
        }
        self.tracks = Tracks(self.seconds)
        self.state = gr.State(Comparison())
        self._build(labels)
        self.parts = {name: getattr(self, name) for name in screen.PARTS}
        self.inputs = {*panel.inputs, sample.visit, self.state, self.length, self.human}
        self.outputs = [self.state, *self.parts.values(), self.status, self.preset]
        self._wire(toolbar)

    def _build(self, labels: Labels) -> None:
        def button(name: str, key: str, **options: Any) -> Any:
            part = gr.Button(elem_id=f"dp-compare-{name}", **options)
            return labels.add(part, key, prop="value")

        with self.panel.slots["compare"]:
            self.preset = labels.add(
                Choice(
                    _offers(translator()),
                    value="",
                    elem_id="dp-compare-preset",
                    interactive=True,
                ),
                "compare.preset",
            )
            self.length = slider(labels, LENGTH, "dp-compare-length")
            self.human = labels.add(
                gr.Textbox("", lines=3, max_lines=6, elem_id="dp-compare-human"),
                "compare.human",
                info=True,
            )
            labels.add(self.human, "compare.human_placeholder", prop="placeholder")
        self.runner = Runner(elem_id=RUNNER)
        with gr.Row(elem_classes="dp-toolbar"):
            self.run = button("run", "page.run", variant="primary")
            self.stop = button("stop", "page.stop", variant="stop")
            self.reset = button("reset", "page.reset")
            self.status = labels.add(gr.HTML(html_template=_HINT), "compare.hint", prop="value")
        self.decks = Decks(elem_id="dp-compare-decks", runner=RUNNER)
        self.sentence = Sentence(elem_id="dp-compare-sentence")
        self.table = Table(elem_id="dp-compare-table")
        with gr.Row(elem_classes="dp-even-grid dp-compare-charts"):
            with gr.Column():
                self.probabilities = PlotlyChart(elem_id="dp-compare-lanes", height=290)
            with gr.Column():
                self.taxes = PlotlyChart(elem_id="dp-compare-taxes", height=230)

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model."""
        return self.library.get(visit.model)

    def draw(self, data: Data, state: Comparison, whole: bool = True) -> dict[Any, Any]:
        """Return the updates that show a comparison; not ``whole``, its texts alone."""
        visit: Visit = data[self.sample.visit]
        values = screen.draw_screen(self.lm(visit), state, self.seconds, visit.t, whole)
        line = gr.update(value=screen.status(state, visit.t))
        return {**self._stamped(values), self.state: state, self.status: line}

    def _stamped(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        seq = now()
        return {self.parts[name]: stamp(value, seq) for name, value in values.items()}

    def current(
        self, data: Data, decks: Sequence[Deck] | None = None, quiet: bool = False
    ) -> Comparison:
        """Return the comparison as the controls have it now; says so where it starts anew."""
        visit, old = data[self.sample.visit], data[self.state]
        t, lm = visit.t, self.lm(visit)
        prompt = self.panel.read_prompt(data)
        ids = tuple(prompt.encode(lm))
        moves.need_prompt(lm, ids, t)
        setup = Setup(ids, fingerprint(lm), self.panel.read_params(data))
        length = int(read(LENGTH, data[self.length], t))
        human = moves.human_ids(lm, data[self.human] or "", prompt.text, prompt.chat)
        if lm.context_length is not None:
            human = human[: max(lm.context_length - len(ids), 0)]
        decks = old.decks if decks is None else decks
        found = moves.sync(old, setup, decks, length, human, lm, self.seconds)
        if old.setup is not None and not quiet and any(run.steps for run in old.runs):
            if old.setup.model != setup.model:
                inform(t("compare.restarted_model"))
            elif old.setup.prompt_ids != ids:
                inform(t("compare.restarted_prompt"))
        return found

    # Events

    def _wire(self, toolbar: Any) -> None:
        p = self.panel
        shown = {"inputs": self.inputs, "outputs": self.outputs}
        self.runner.each(self._tick, self.inputs, self.outputs)
        self.run.click(None, js=start(RUNNER), **QUICK)
        counted = [self.sentence, self.table, self.probabilities, self.taxes]
        self.stop.click(None, js=stop(RUNNER), **QUICK)
        self.runner.rest(self._stopped, {self.sample.visit, self.state}, counted, **MODEL)
        self.reset.click(self._reset, **shown, **MODEL)
        self.decks.edit(self._edit, **shown, **MODEL)
        self.decks.prove(self._prove, {self.sample.visit, self.state}, [self.sheet], **MODEL)
        # One event for many triggers: each event is a part of the page that every visitor loads.
        changed = [self.length.release, self.human.blur]
        for part in p.controls.parts.values():
            names = (name for name in ("release", "blur", "input") if hasattr(part, name))
            changed.append(getattr(part, next(names)))
        latest: dict[str, Any] = {"trigger_mode": "always_last", **MODEL}
        gr.on(changed, self._refresh, **shown, **latest)
        toolbar.compare(self._refresh, **shown, **latest)
        toolbar.language(self._speak, **shown, **MODEL)
        both = [*self.outputs, self.length, self.human, *self.sample.outputs, *p.prompt_parts]
        self.preset.input(self._preset, {*self.inputs, self.preset}, both, **MODEL)

    def _tick(self, data: Data, count: int) -> tuple[dict[Any, Any], Pace]:
        lm, state = self.lm(data[self.sample.visit]), self.current(data)
        if count == 0 and state.ended:  # seen to its end: once more from the start
            state = moves.reset(state)
        state = moves.tick(lm, state, self.tracks)
        whole = state.ended or count % WHOLE == WHOLE - 1
        # Steps of a run: each brings every text at least one token further.
        pace = Pace(state.ended, WAIT, 2 * moves.MAX_LENGTH)
        return self.draw(data, state, whole), pace

    @property
    def _stopped(self) -> Handler:
        @polite
        def stopped(data: Data) -> dict[Any, Any]:
            if data[self.state].setup is None:
                return {}
            found = self.draw(data, data[self.state])
            return {part: found[part] for part in self.parts.values() if part is not self.decks}

        return stopped

    @property
    def _reset(self) -> Handler:
        @polite
        def reset(data: Data) -> dict[Any, Any]:
            return self.draw(data, moves.reset(self.current(data, quiet=True)))

        return reset

    @property
    def _edit(self) -> Handler:
        @polite
        def edit(data: Data, event: gr.EventData) -> dict[Any, Any]:
            visit = data[self.sample.visit]
            try:
                decks = read_decks(event._data.get("decks"), visit.t)
                return self.draw(data, self.current(data, decks))
            except ValueError as error:
                warn(in_words(error))
                state: Comparison = data[self.state]
                if state.setup is None:
                    return {}
                found = self.draw(data, state)
                found[self.decks] = {**found[self.decks], "again": True}
                return found

        return edit

    @property
    def _prove(self) -> Handler:
        @polite
        def prove(data: Data, event: gr.EventData) -> dict[Any, Any]:
            state, visit = data[self.state], data[self.sample.visit]
            index = event._data.get("index")
            if not isinstance(index, int) or not 0 <= index < len(state.columns):
                return {}
            column = state.columns[index]
            if column.run is None or not column.run.steps:
                raise ValueError(visit.t("proof.nothing"))
            lm, decoder = self.lm(visit), column.decoder
            _, helper = self.tracks.get(lm, column)
            params = decoder.contrastive if decoder.kind == "contrastive" else None
            name = names(state.decks, visit.t)[index]
            record = record_of(lm, column.run)
            return {self.sheet: sheet_value(record, lm, name, visit.t, helper, params)}

        return prove

    @property
    def _refresh(self) -> Handler:
        @polite
        def refresh(data: Data) -> dict[Any, Any]:
            return self._show(data, seen=data[self.state].setup is not None)

        return refresh

    def _show(self, data: Data, seen: bool = True) -> dict[Any, Any]:
        """Return the updates after prompt, model, settings or language may have changed."""
        visit = data[self.sample.visit]
        if self.library.loaded(visit.model) is None:  # its line changes when it is here
            return {}
        found = {self.preset: gr.update(choices=_offers(visit.t))}
        try:
            return {**found, **self.draw(data, self.current(data))}
        except ValueError as error:
            state: Comparison = replace(data[self.state], setup=None, columns=())
            empty = self._stamped(screen.empty_screen(state, visit.t, in_words(error)))
            return {**found, **empty, self.state: state}

    @property
    def _preset(self) -> Handler:
        @polite
        def choose(data: Data) -> dict[Any, Any]:
            preset = preset_of(data[self.preset])
            if preset is None:
                return {}
            visit, panel = data[self.sample.visit], self.panel
            prompt = replace(panel.read_prompt(data), text=preset.prompt, chat=False)
            session = visit.session.start(prompt, self.lm(visit))
            visit = replace(visit, session=session)
            after = {
                **data,
                panel.prompt: preset.prompt,
                panel.chat: False,
                self.length: preset.length,
                self.human: preset.human,
                self.sample.visit: visit,
            }
            state = self.current(after, preset.decks, quiet=True)
            return {
                **self.sample.draw(visit, panel.read_params(data)),
                **panel.show_prompt(prompt),
                self.length: gr.update(value=preset.length),
                self.human: gr.update(value=preset.human),
                **self.draw(after, state),
            }

        return choose

    @property
    def _speak(self) -> Handler:
        @polite
        def speak(data: Data, event: gr.EventData) -> dict[Any, Any]:
            visit = replace(data[self.sample.visit], language=language_of(event))
            if data[self.state].setup is None:  # never opened: the tab is drawn when it is
                return {self.preset: gr.update(choices=_offers(visit.t))}
            found = self._show({**data, self.sample.visit: visit})
            return {part: value for part, value in found.items() if part is not self.state}

        return speak


def _seconds(controls: Any) -> SecondModels:
    """Return the second models of a tab's kinds that need no other model."""
    return SecondModels(tuple(k for k in controls.KINDS if k != OTHER), controls.EXIT_AT)


def _offers(t: Translate) -> list[tuple[str, str]]:
    return offers([(t(p.word), p.name) for p in PRESETS], t)
