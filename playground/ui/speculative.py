"""The Speculate tab: timeline of rounds, the test of one token, what it pays, losslessness lab.

Every event reads what it needs by component, makes a move (``ui.speculative_moves``) and returns
the values of the parts that changed (``ui.speculative_screen``, ``ui.speculative_lab``). The run
goes on from the panel's prompt with the visitor's model, draft and settings; when one of them has
changed, it starts anew and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.engines.drafting import Draft
from playground.engines.sampling import fingerprint
from playground.language_model import LanguageModel
from playground.session import Session
from playground.ui import speculative_lab as lab
from playground.ui import speculative_moves as moves
from playground.ui import speculative_screen as screen
from playground.ui.events import MODEL, QUICK, Visit, inform, language_of, now, polite, stamp
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.ui.runner import Pace, start, stop, toggle
from playground.ui.second_models import EXIT, SecondModels
from playground.ui.speculative_controls import EXIT_AT, KINDS, SpeculateControls, preset_of, usable
from playground.ui.speculative_moves import Setup, Speculation
from playground.ui.speculative_view import RUNNER, SpeculateView
from playground.words import Translate, in_words

WAIT = 400  # ms between two rounds of a run at least, so that the eye can follow

Move = Callable[[LanguageModel, Draft, Speculation, Translate, Any], Speculation]


class SpeculateTab(SpeculateView):
    """Builds the tab in the present Gradio context.

    ``sample`` is the Sample tab, whose visit (model, language) is shared and whose prompt a preset
    changes; ``allow_any``: visitors may name any model as the
    draft, not only the catalogue's.
    """

    def __init__(
        self,
        library: Library,
        panel: Panel,
        labels: Labels,
        toolbar: Any,
        sample: Any,
        allow_any: bool = False,
    ) -> None:
        self.library, self.panel, self.sample = library, panel, sample
        self.drafts = SecondModels(KINDS, EXIT_AT, library, allow_any)
        self.run_state = gr.State(Speculation())
        with panel.slots["speculate"]:
            self.controls = SpeculateControls(labels, self.drafts)
        self.build(labels)
        self.inputs = {
            *panel.inputs,
            *self.controls.inputs,
            sample.visit,
            self.run_state,
            self.rule,
            self.size,
        }
        self.outputs = [self.run_state, *self.parts.values(), self.rule, self.status]
        self._wire(toolbar)

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model."""
        return self.library.get(visit.model)

    def draft(self, lm: LanguageModel, setup: Setup) -> Draft:
        """Return the draft of a run."""
        return self.drafts.get(lm, setup.draft)

    def draw(
        self,
        data: Mapping[Any, Any],
        run: Speculation,
        rule: str = "",
        with_lab: bool = True,
    ) -> dict[Any, Any]:
        """Return the updates that show a run; all parts of the screen."""
        visit = data[self.sample.visit]
        t = visit.t
        rule = rule or data[self.rule]
        lm = self.lm(visit)
        draft = self.draft(lm, run.setup)
        size = int(data[self.size] or lab.SIZES[1])
        values = screen.draw_screen(lm, draft, run, t, rule, size, with_lab)
        seq = now()
        found: dict[Any, Any] = {self.parts[k]: stamp(v, seq) for k, v in values.items()}
        hint = self._hint(data, run, lm, t)
        return {**found, self.run_state: run, self.rule: rule, self.status: gr.update(value=hint)}

    def _hint(
        self, data: Mapping[Any, Any], run: Speculation, lm: LanguageModel, t: Translate
    ) -> str:
        """Return what the line beside the buttons says: how to look, or that settings changed."""
        try:
            stale = bool(run.laps) and run.setup != self.setup(data, lm, t)
        except ValueError:
            stale = True
        return t("speculate.stale") if stale else t("speculate.hint")

    def setup(self, data: Mapping[Any, Any], lm: LanguageModel, t: Translate) -> Setup:
        """Return what a run would depend on as the controls show it now."""
        return Setup(
            tuple(self.panel.read_prompt(data).encode(lm)),
            fingerprint(lm),
            self.controls.choice(data, lm, t),
            self.controls.params(data, t),
            self.panel.read_params(data),
        )

    def current(self, data: Mapping[Any, Any], settings: bool = True) -> tuple[Speculation, str]:
        """Return the run to go on with, and what to say if it had to start anew.

        It does where prompt or model have changed, and with ``settings`` where these have.
        """
        visit, run = data[self.sample.visit], data[self.run_state]
        t, lm = visit.t, self.lm(visit)
        asked, old = self.setup(data, lm, t), run.setup
        if lm.context_length is not None and len(asked.prompt_ids) > lm.context_length:
            count, limit = len(asked.prompt_ids), lm.context_length
            raise ValueError(t("page.too_long", count=count, limit=limit))
        self.drafts.get(lm, asked.draft, t)  # refuses one that can't be used
        if old is None or not run.laps:
            return moves.restart(run, asked), ""
        note = _difference(old, asked, settings)
        return (moves.restart(run, asked), t(note)) if note else (run, "")

    def _move(self, move: Move, settings: bool = True) -> Callable[..., Any]:
        """Make a handler of a move: (target, draft, run, t, event) -> run."""

        @polite
        def handle(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            run, note = self.current(data, settings)
            visit = data[self.sample.visit]
            if note:
                inform(note)
            if not note or settings:
                lm = self.lm(visit)
                run = move(lm, self.draft(lm, run.setup), run, visit.t, event)
            return self.draw(data, run)

        return handle

    def _wire(self, toolbar: Any) -> None:
        io = {"inputs": self.inputs, "outputs": self.outputs}

        def on(trigger: Any, move: Move, settings: bool = True, **more: Any) -> None:
            trigger(self._move(move, settings), **io, **MODEL, **more)

        def go(lm: Any, draft: Any, run: Speculation, t: Any, _: Any) -> Speculation:
            return moves.forward(lm, draft, run, t)

        def back(lm: Any, draft: Any, run: Speculation, *_: Any) -> Speculation:
            return moves.back(run)

        def anew(lm: Any, draft: Any, run: Speculation, *_: Any) -> Speculation:
            return moves.reset(run)

        def pick(lm: Any, draft: Any, run: Speculation, t: Any, e: Any) -> Speculation:
            return moves.pick(run, int(e._data["round"]), int(e._data["place"]))

        def pick_token(lm: Any, draft: Any, run: Speculation, t: Any, e: Any) -> Speculation:
            return moves.pick_token(run, int(e._data["index"]))

        on(self.step.click, go, trigger_mode="once")
        on(self.keys.step, go, trigger_mode="once")
        on(self.back.click, back, settings=False)
        on(self.keys.back, back, settings=False)
        on(self.reset.click, anew)
        on(self.rounds.pick, pick, settings=False)
        on(self.strip.pick, pick_token, settings=False)
        self._wire_controls(toolbar)
        self.runner.each(self._tick, self.inputs, self.outputs)
        self.run.click(None, js=start(RUNNER), **QUICK)
        self.stop.click(None, js=stop(RUNNER), **QUICK)
        self.keys.run(None, js=toggle(RUNNER), **QUICK)

    def _wire_controls(self, toolbar: Any) -> None:
        p, c = self.panel, self.controls
        shown = {"inputs": self.inputs, "outputs": [*self.outputs, *c.outputs]}
        toolbar.language(self._speak, **shown, **MODEL)
        settled = [c.kind.input, c.gamma.release, c.layer.release, c.adaptive.input]
        latest: dict[str, Any] = {"trigger_mode": "always_last", **MODEL}
        gr.on(settled, self._refresh, **shown, **latest)
        toolbar.speculate(self._refresh, **shown, **latest)
        c.other.part.input(self._bring, **shown, **MODEL)
        labbed = [self.size, *(self.parts[name] for name in lab.PARTS), self.rule]
        self.lab_rules.pick(self._lab, self.inputs, labbed, **MODEL)
        self.size.input(self._lab, self.inputs, labbed, **MODEL)
        self.runner.rest(self._lab, self.inputs, labbed, **MODEL)  # a run leaves the lab out
        c.preset.input(
            self._preset,
            self.inputs,
            [*self.outputs, *c.outputs, *self.sample.outputs, *p.prompt_parts],
            **MODEL,
        )

    # Handlers that are more than a move

    def _tick(self, data: Mapping[Any, Any], count: int) -> tuple[dict[Any, Any], Pace]:
        t = data[self.sample.visit].t
        length = self.controls.run_length(data, t)
        run, note = self.current(data)
        if note:
            inform(note)
        lm = self.lm(data[self.sample.visit])
        run = moves.tick(lm, self.draft(lm, run.setup), run, t, count)
        pace = Pace(moves.ended(lm, run), WAIT, length)
        last = pace.end or count + 1 >= length
        return self.draw(data, run, with_lab=last), pace

    @property
    def _lab(self) -> Callable[..., Any]:
        @polite
        def change(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            run = data[self.run_state]
            picked = (event._data or {}).get("id") if isinstance(event._data, dict) else None
            rule = picked if picked in lab.RULE_WORDS else data[self.rule]
            if run.setup is None:
                return {self.rule: rule}
            visit = data[self.sample.visit]
            lm = self.lm(visit)
            seen = moves.position(lm, self.draft(lm, run.setup), run)
            none = visit.t("speculate.lab_bonus") if seen is not None else ""
            size, seed = int(data[self.size]), run.setup.sampling.seed
            found = lab.values(seen, rule, size, seed, lm.label, visit.t, none)
            seq = now()
            return {self.rule: rule, **{self.parts[k]: stamp(v, seq) for k, v in found.items()}}

        return change

    @property
    def _refresh(self) -> Callable[..., Any]:
        return polite(self._refreshed)

    def _refreshed(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the updates after prompt, model, draft or settings may have changed."""
        visit = data[self.sample.visit]
        lm, t = self.lm(visit), visit.t
        shown = self.controls.show(lm, self.controls.choice(data, lm, t), t)
        # A setting that is refused leaves the run as it is; a prompt that is, empties it.
        self.controls.params(data, t)
        self.panel.read_params(data)
        try:
            run, note = self.current(data, settings=False)
        except ValueError as error:
            return {**shown, **self._nothing(in_words(error), t)}
        if note:
            inform(note)
        return {**shown, **self.draw(data, run)}

    @property
    def _bring(self) -> Callable[..., Any]:
        @polite
        def bring(data: Mapping[Any, Any]) -> Iterator[dict[Any, Any]]:
            visit, c = data[self.sample.visit], self.controls
            lm, show = self.lm(visit), self._refreshed
            yield from c.other.bring(data, lm, c.about, show, visit.t)

        return bring

    def _nothing(self, text: str, t: Translate) -> dict[Any, Any]:
        """Return the updates that show why there is nothing to decode."""
        seq = now()
        values = screen.empty_screen(t, text)
        found = {self.parts[name]: stamp(value, seq) for name, value in values.items()}
        return {**found, self.run_state: Speculation()}

    @property
    def _preset(self) -> Callable[..., Any]:
        @polite
        def choose(data: Mapping[Any, Any]) -> dict[Any, Any]:
            visit, preset = data[self.sample.visit], preset_of(data[self.controls.preset])
            if preset is None:
                return {}
            lm, c = self.lm(visit), self.controls
            kind = usable(preset, self.drafts.offered(lm))
            second = self.drafts.default(lm, kind)
            prompt = replace(self.panel.read_prompt(data), text=preset.prompt, chat=False)
            session: Session = visit.session.start(prompt, lm)
            visit = replace(visit, session=session)
            shown = {
                **data,
                c.kind: kind,
                c.layer: second.number if kind == EXIT else data[c.layer],
                c.gamma: preset.gamma,
                self.panel.prompt: prompt.text,
                self.panel.chat: False,
                self.sample.visit: visit,
            }
            run, _ = self.current(shown)
            return {
                **self.sample.draw(visit, self.panel.read_params(data)),
                **self.panel.show_prompt(prompt),
                **c.show(lm, second, visit.t),
                c.gamma: gr.update(value=preset.gamma),
                **self.draw(shown, run),
            }

        return choose

    @property
    def _speak(self) -> Callable[..., Any]:
        @polite
        def speak(data: dict[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            run = data[self.run_state]
            visit = replace(data[self.sample.visit], language=language_of(event))
            data = {**data, self.sample.visit: visit}
            if run.setup is None:  # never opened: the tab is drawn when it is
                return {}
            lm, t = self.lm(visit), visit.t
            found = self.controls.show(lm, self.controls.choice(data, lm, t), t)
            drawn = self.draw(data, run)
            return {**found, **{p: v for p, v in drawn.items() if p is not self.run_state}}

        return speak


def _difference(old: Setup, asked: Setup, settings: bool) -> str:
    """Return the word's key for what has changed since a run began, "" for nothing."""
    if old.model != asked.model:
        return "speculate.restarted_model"
    if old.prompt_ids != asked.prompt_ids:
        return "speculate.restarted_prompt"
    if not settings:
        return ""
    if (old.draft, old.params) != (asked.draft, asked.params):
        return "speculate.restarted_draft"
    return "speculate.restarted_sampling" if old.sampling != asked.sampling else ""
