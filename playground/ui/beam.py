"""The Beam tab: what a reader does to a search, and what the page shows then.

Every event reads what it needs by component, makes a move (``ui.beam_moves``) and returns the
values of the parts that changed (``ui.beam_screen``). The tab searches from the panel's prompt with
the visitor's model; where one of them or the settings have changed, a step starts anew and says so.
What follows from the panel, the language and the ranking's rule is in ``ui.beam_follow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.engines.sampling import fingerprint
from playground.format import setting_text
from playground.language_model import LanguageModel
from playground.records.beam import BeamParams, Hypothesis
from playground.records.checks import number
from playground.ui import beam_moves as moves
from playground.ui import beam_screen as screen
from playground.ui.beam_controls import BUDGET, HORIZON
from playground.ui.beam_follow import Follower
from playground.ui.beam_moves import Search
from playground.ui.beam_view import RUNNER, BeamView
from playground.ui.events import MODEL, QUICK, Visit, inform, now, polite, stamp
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.numbers import read
from playground.ui.panel import Panel
from playground.ui.runner import Pace, start, stop, toggle

Data = Mapping[Any, Any]
Move = Callable[[LanguageModel, Search, Any, Any], Search]


class BeamTab:
    """Builds the tab in the present Gradio context. ``sample`` is the tab that a hypothesis can be
    put into (its ``visit``, ``draw`` and ``outputs``).
    """

    def __init__(
        self, library: Library, panel: Panel, labels: Labels, toolbar: Any, sample: Any
    ) -> None:
        self.library, self.panel, self.sample = library, panel, sample
        self.search = gr.State(Search())
        self.view = view = BeamView(panel, labels)
        self.parts = {name: getattr(view, name) for name in screen.PARTS}
        self.inputs = {*panel.inputs, *view.inputs, sample.visit, self.search}
        self.outputs = [self.search, *self.parts.values(), view.status]
        self._wire()
        Follower(self).wire(toolbar)

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model."""
        return self.library.get(visit.model)

    def draw(self, data: Data, search: Search) -> dict[Any, Any]:
        """Return the updates that show a search; all parts of the screen."""
        visit: Visit = data[self.sample.visit]
        t, controls = visit.t, self.view.controls
        penalty, params = controls.penalty(data, t), controls.params(data, t)
        values = screen.draw_screen(self.lm(visit), search, penalty, data[self.view.form], t)
        seq = now()
        found: dict[Any, Any] = {self.parts[k]: stamp(v, seq) for k, v in values.items()}
        hint = t("beam.hint")
        if search.steps and changed(search.params, params):
            hint = t("beam.stale")
        elif search.steps and search.params != params:
            own = setting_text(search.params.length_penalty)
            hint = t("beam.reranked", own=own, shown=setting_text(penalty))
        return {**found, self.search: search, self.view.status: gr.update(value=hint)}

    def current(self, data: Data, settings: bool = True) -> tuple[Search, str]:
        """Return the search to go on with, and what to say if it had to start anew.

        It does where prompt or model have changed, and with ``settings`` where these have.
        """
        visit, search = data[self.sample.visit], data[self.search]
        t, lm = visit.t, self.lm(visit)
        ids = tuple(self.panel.read_prompt(data).encode(lm))
        params = self.view.controls.params(data, t)
        if not search.steps:
            return moves.start(lm, ids, params, t), ""
        note = ""
        if search.prompt_ids != ids:
            note = t("beam.restarted_prompt")
        elif search.model != fingerprint(lm):
            note = t("beam.restarted_model")
        elif settings and changed(search.params, params):
            note = t("beam.restarted_settings")
        return (moves.start(lm, ids, params, t) if note else search), note

    def restart(self, data: Data) -> Search:
        """Return a search at its beginning, with what the controls show; known steps are kept."""
        search, _ = self.current(data)
        t = data[self.sample.visit].t
        params = self.view.controls.params(data, t)
        if search.params == params:
            return moves.look_at(search, 0)
        return moves.start(self.lm(data[self.sample.visit]), search.prompt_ids, params, t)

    def resume(self, data: Data, settings: bool = True) -> tuple[Search, bool]:
        """Return ``current`` after saying what had to be said, and whether it started anew."""
        search, note = self.current(data, settings)
        if note:
            inform(note)
        return search, bool(note)

    # Events

    def _wire(self) -> None:
        view = self.view

        def on(trigger: Any, move: Move, **more: Any) -> None:
            """A move that a new search can begin with."""
            trigger(self._move(move, True), self.inputs, self.outputs, **MODEL, **more)

        def within(trigger: Any, move: Move) -> None:
            """A move inside the search that is shown, whatever the settings are by now."""
            trigger(self._move(move, False), self.inputs, self.outputs, **MODEL)

        def go(lm: Any, s: Search, t: Any, _: Any) -> Search:
            return moves.forward(lm, s, t)

        def back(lm: Any, s: Search, t: Any, _: Any) -> Search:
            return moves.look_at(s, s.at - 1)

        def pick(lm: Any, s: Search, t: Any, e: Any) -> Search:
            return moves.look_at(s, int(e._data["index"]) - len(s.prompt_ids) + 1)

        def digit(lm: Any, s: Search, t: Any, e: Any) -> Search:
            return moves.choose(lm, s, moves.nth_ghost(s, int(e._data["digit"]), t), t)

        on(view.step.click, go, trigger_mode="once")
        on(view.keys.step, go, trigger_mode="once")
        view.reset.click(self._reset, self.inputs, self.outputs, **MODEL)
        within(view.back.click, back)
        within(view.keys.back, back)
        within(view.strip.pick, pick)
        within(view.keys.digit, digit)
        both = [*self.outputs, *self.sample.outputs]
        for trigger in (view.tree.clicked, view.race.clicked, view.ranking.pick):
            trigger(self._choose, self.inputs, both, **MODEL)
        once: dict[str, Any] = {"trigger_mode": "once", **MODEL}
        view.find.click(self._find, self.inputs, self.outputs, **once)
        view.runner.each(self._tick, self.inputs, self.outputs)
        view.run.click(None, js=start(RUNNER), **QUICK)
        view.stop.click(None, js=stop(RUNNER), **QUICK)
        view.keys.run(None, js=toggle(RUNNER), **QUICK)

    def _move(self, move: Move, settings: bool) -> Callable[..., Any]:
        """Make a handler of a move: (lm, search, t, event) -> search."""

        @polite
        def handle(data: Data, event: gr.EventData) -> dict[Any, Any]:
            search, anew = self.resume(data, settings)
            visit = data[self.sample.visit]
            if settings or not anew:
                search = move(self.lm(visit), search, visit.t, event)
            return self.draw(data, search)

        return handle

    @property
    def _reset(self) -> Callable[..., Any]:
        @polite
        def reset(data: Data) -> dict[Any, Any]:
            return self.draw(data, self.restart(data))

        return reset

    def _tick(self, data: Data, count: int) -> tuple[dict[Any, Any], Pace]:
        speed = data[self.view.controls.speed]
        number("speed", speed, 0.5, 100)
        search, _ = self.resume(data)
        if count == 0 and search.ended and search.at:  # seen to its end: once more from the start
            search = self.restart(data)
        visit = data[self.sample.visit]
        search = moves.forward(self.lm(visit), search, visit.t)
        return self.draw(data, search), Pace(search.ended, 1000 / speed)

    @property
    def _find(self) -> Callable[..., Any]:
        @polite
        def find(data: Data) -> dict[Any, Any]:
            search, _ = self.resume(data)
            visit = data[self.sample.visit]
            horizon = int(read(HORIZON, data[self.view.horizon], visit.t))
            budget = int(read(BUDGET, data[self.view.budget], visit.t))
            found = moves.true_best(self.lm(visit), search, horizon, budget, visit.t)
            return self.draw(data, found)

        return find

    @property
    def _choose(self) -> Callable[..., Any]:
        @polite
        def choose(data: Data, event: gr.EventData) -> dict[Any, Any]:
            search, anew = self.resume(data, settings=False)
            if anew:
                return self.draw(data, search)
            visit = data[self.sample.visit]
            key = event._data.get("customdata", event._data.get("id"))
            path: Hypothesis | None = None
            if key == "greedy":
                path = search.greedy_path
            elif key == "road":
                path = search.road
            elif isinstance(key, int | float) and key > 0:
                search = moves.choose(self.lm(visit), search, int(key), visit.t)
                path = None if search.road is not None else moves.path_to(search, int(key))
            else:
                return {}
            found = self.draw(data, search)
            return found if path is None else {**found, **self._load(data, search, path)}

        return choose

    def _load(self, data: Data, search: Search, path: Hypothesis) -> dict[Any, Any]:
        """Return the updates that make a path the Sample tab's session."""
        visit, params = data[self.sample.visit], self.panel.read_params(data)
        prompt = self.panel.read_prompt(data)
        session = moves.to_session(self.lm(visit), visit.session, prompt, search, path, params)
        inform(visit.t("beam.loaded", count=path.length))
        return self.sample.draw(replace(visit, session=session), params)


def changed(searched: BeamParams, shown: BeamParams) -> bool:
    """Return whether the controls ask for another search than the one under way; the length
    penalty doesn't: it ranks what was found.
    """
    return searched != shown.replace(length_penalty=searched.length_penalty)
