"""The Contrast tab: what a reader does to the three texts, and what the page shows then.

Every event reads what it needs by component, makes a move (``ui.contrastive_moves``) and returns
the values of the parts that changed (``ui.contrastive_screen``). The texts go on from the panel's
prompt with the visitor's model and an amateur made from it; where one of them has changed, they
start anew and a word says so. A slider that moves changes the lines, not the text: settings count
from the token looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from playground.engines.sampling import fingerprint
from playground.language_model import LanguageModel
from playground.records import SamplingParams
from playground.records.contrastive import ContrastiveParams
from playground.ui import contrastive_moves as moves
from playground.ui import contrastive_screen as screen
from playground.ui.contrastive_controls import EXIT_AT, KINDS
from playground.ui.contrastive_events import ContrastEvents, Data, Handler
from playground.ui.contrastive_moves import Contest, Setup
from playground.ui.contrastive_view import RUNNER, ContrastView
from playground.ui.events import MODEL, QUICK, Visit, inform, now, polite, stamp
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.ui.runner import start, stop, toggle
from playground.ui.second_models import SecondModels
from playground.words import Translate

# (expert, amateur, contest, params, sampling, t, event) -> contest
Move = Callable[..., Contest]


class ContrastTab(ContrastEvents):
    """Builds the tab in the present Gradio context. ``sample`` is the Sample tab, whose visit is
    shared and whose prompt a preset changes; ``allow_any``:
    visitors may name any model as the amateur, not only the catalogue's.
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
        self.amateurs = SecondModels(KINDS, EXIT_AT, library, allow_any)
        self.contest = gr.State(Contest())
        self.view = view = ContrastView(panel, labels, self.amateurs)
        self.parts = {name: getattr(view, name) for name in screen.PARTS}
        self.inputs = {*panel.inputs, *view.controls.inputs, sample.visit, self.contest}
        self.outputs = [self.contest, *self.parts.values(), view.status]
        self._wire()
        self._wire_panel(toolbar)

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model, the expert."""
        return self.library.get(visit.model)

    def amateur(self, lm: LanguageModel, contest: Contest, t: Translate) -> LanguageModel:
        """Return the amateur of the texts."""
        return self.amateurs.get(lm, contest.setup.amateur, t)

    def settings(self, data: Data, t: Translate) -> tuple[ContrastiveParams, SamplingParams]:
        """Return what the controls show now."""
        controls = self.view.controls
        return controls.params(data, t), controls.sampling(data, self.panel.read_params(data))

    def draw(self, data: Data, contest: Contest) -> dict[Any, Any]:
        """Return the updates that show the texts; all parts of the screen."""
        visit: Visit = data[self.sample.visit]
        t, lm = visit.t, self.lm(visit)
        amateur = self.amateur(lm, contest, t)
        params, sampling = self.settings(data, t)
        values = screen.draw_screen(lm, amateur, contest, params, sampling, t)
        return {
            **self.stamped(values),
            self.contest: contest,
            self.view.status: gr.update(value=screen.hint(contest, params, sampling, t)),
        }

    def stamped(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        """Return the updates of parts by name, numbered."""
        seq = now()
        return {self.parts[name]: stamp(value, seq) for name, value in values.items()}

    def current(self, data: Data) -> tuple[Contest, bool]:
        """Return the texts to go on with, and whether they had to start anew; says so if they did.

        They do where prompt, model or amateur have changed.
        """
        visit, contest = data[self.sample.visit], data[self.contest]
        t, lm = visit.t, self.lm(visit)
        ids = tuple(self.panel.read_prompt(data).encode(lm))
        if lm.context_length is not None and len(ids) > lm.context_length:
            raise ValueError(t("page.too_long", count=len(ids), limit=lm.context_length))
        second, sees = self.view.controls.choice(data, lm, t), data[self.view.controls.sees]
        asked, old = Setup(ids, fingerprint(lm), second, sees), contest.setup
        amateur = self.amateurs.get(lm, second, t)
        seen, limit = ids if sees == "all" else ids[-1:], amateur.context_length
        if limit is not None and len(seen) > limit:
            name = amateur.name
            raise ValueError(t("contrast.too_long", name=name, count=len(seen), limit=limit))
        if asked == old:
            return contest, False
        if old is not None and contest.taken:
            if old.model != asked.model:
                inform(t("contrast.restarted_model"))
            elif old.prompt_ids != ids:
                inform(t("contrast.restarted_prompt"))
            else:
                inform(t("contrast.restarted_amateur"))
        return moves.start(asked), True

    # Events

    def _wire(self) -> None:
        view = self.view

        def on(triggers: list[Any], move: Move, within: bool = False, **more: Any) -> None:
            """``within``: the move is one inside the texts shown, so not made on new ones."""
            for trigger in triggers:
                trigger(self._move(move, within), self.inputs, self.outputs, **MODEL, **more)

        def go(lm: Any, amateur: Any, c: Contest, params: Any, sampling: Any, t: Any, _: Any):
            return moves.forward(lm, amateur, c, params, sampling, t)

        def take(lm: Any, amateur: Any, c: Contest, params: Any, sampling: Any, t: Any, e: Any):
            token = e._data.get("customdata")
            if token is None:
                return c
            return moves.forward(lm, amateur, c, params, sampling, t, int(token))

        def digit(lm: Any, amateur: Any, c: Contest, params: Any, sampling: Any, t: Any, e: Any):
            moves.check(lm, amateur, c, t, params)
            both = moves.position(lm, amateur, c, params, sampling)
            token = moves.nth(both, int(e._data["digit"]))
            return moves.forward(lm, amateur, c, params, sampling, t, token)

        def back(lm: Any, amateur: Any, c: Contest, *_: Any) -> Contest:
            return moves.look_at(c, c.at - 1)

        def pick(lm: Any, amateur: Any, c: Contest, *rest: Any) -> Contest:
            return moves.look_at(c, int(rest[-1]._data["index"]) - len(c.prompt_ids))

        def anew(lm: Any, amateur: Any, c: Contest, *_: Any) -> Contest:
            return moves.start(c.setup)

        on([view.step.click, view.keys.step], go, trigger_mode="once")
        on([view.plane.clicked, view.bars.clicked], take, within=True, trigger_mode="once")
        on([view.keys.digit], digit, within=True, trigger_mode="once")
        on([view.back.click, view.keys.back], back, within=True)
        on([view.strip.pick], pick, within=True)
        on([view.reset.click], anew)
        view.runner.each(self._tick, self.inputs, self.outputs)
        view.run.click(None, js=start(RUNNER), **QUICK)
        view.stop.click(None, js=stop(RUNNER), **QUICK)
        view.keys.run(None, js=toggle(RUNNER), **QUICK)

    def _wire_panel(self, toolbar: Any) -> None:
        p, c = self.panel, self.view.controls
        last: dict[str, Any] = {"trigger_mode": "always_last", **QUICK}
        shown = [*self.outputs, *c.outputs]
        lines = [part for part in self.outputs if part is not self.contest]
        # One event for many triggers: each event is a part of the page that every visitor loads.
        sliders = [part.input for part in c.settings]
        for part in p.controls.parts.values():
            names = (name for name in ("release", "blur", "input") if hasattr(part, name))
            sliders.append(getattr(part, next(names)))
        gr.on(sliders, self._settle, self.inputs, lines, **last)
        p.preset.input(self._settle, {*self.inputs, p.preset}, lines, **last)
        changed = [c.kind.input, c.sees.input, c.context.release, c.layer.release]
        latest: dict[str, Any] = {"trigger_mode": "always_last", **MODEL}
        gr.on(changed, self._refresh, self.inputs, shown, **latest)
        toolbar.contrast(self._refresh, self.inputs, shown, **latest)
        c.other.part.input(self._bring, self.inputs, shown, **MODEL)
        toolbar.language(self._speak, self.inputs, shown, **MODEL)
        both = [*shown, *self.sample.outputs, *p.prompt_parts]
        c.preset.input(self._preset, self.inputs, both, **MODEL)

    def _move(self, move: Move, within: bool) -> Handler:
        @polite
        def handle(data: Data, event: gr.EventData) -> dict[Any, Any]:
            contest, anew = self.current(data)
            visit = data[self.sample.visit]
            if not (anew and within):
                lm, t = self.lm(visit), visit.t
                amateur, settings = self.amateur(lm, contest, t), self.settings(data, t)
                contest = move(lm, amateur, contest, *settings, t, event)
            return self.draw(data, contest)

        return handle
