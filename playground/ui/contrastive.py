"""The Contrast tab: what a reader does to the three texts, and what the page shows then.

Every event reads what it needs by component, makes a move (``ui.contrastive_moves``) and returns
the values of the parts that changed (``ui.contrastive_screen``). The texts go on from the panel's
prompt with the visitor's model and an amateur made from it; where one of them has changed, they
start anew and a word says so. A slider that moves changes the lines, not the text: settings count
from the token looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.engines.sampling import fingerprint
from playground.language_model import LanguageModel
from playground.records import SamplingParams
from playground.records.contrastive import ContrastiveParams
from playground.ui import contrastive_moves as moves
from playground.ui import contrastive_screen as screen
from playground.ui.contrastive_amateurs import Amateurs
from playground.ui.contrastive_controls import preset_of
from playground.ui.contrastive_moves import Contest, Setup
from playground.ui.contrastive_view import ContrastView
from playground.ui.controls import PRESETS as SAMPLING_PRESETS
from playground.ui.events import MODEL, QUICK, Visit, now, polite, stamp
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.words import LANGUAGES, Translate

SPEED = 6.0  # tokens a second at most, so that the eye can follow
# Space runs or stops: whichever of the two buttons is to be seen is pressed.
_PRESS_RUN = """() => { const seen = (id) => { const b = document.getElementById(id);
  return b && b.offsetParent ? b : null; };
  (seen("dp-contrast-stop") || seen("dp-contrast-run"))?.click(); }"""

Data = Mapping[Any, Any]
Handler = Callable[..., Any]
# (expert, amateur, contest, params, sampling, t, event) -> contest
Move = Callable[..., Contest]


class ContrastTab:
    """Builds the tab in the present Gradio context. ``sample`` is the Sample tab, whose visit is
    shared and whose prompt a preset changes; ``tab`` the gr.Tab that this is in.
    """

    def __init__(
        self, library: Library, panel: Panel, labels: Labels, toolbar: Any, sample: Any, tab: Any
    ) -> None:
        self.library, self.panel, self.sample = library, panel, sample
        self.amateurs = Amateurs()
        self.contest = gr.State(Contest())
        self.view = view = ContrastView(panel, labels, self.amateurs)
        self.parts = {name: getattr(view, name) for name in screen.PARTS}
        self.inputs = {*panel.inputs, *view.controls.inputs, sample.visit, self.contest}
        self.outputs = [self.contest, *self.parts.values(), view.run, view.stop, view.status]
        self._wire()
        self._wire_panel(toolbar, tab)

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model, the expert."""
        return self.library.get(visit.model)

    def settings(self, data: Data, t: Translate) -> tuple[ContrastiveParams, SamplingParams]:
        """Return what the controls show now."""
        controls = self.view.controls
        return controls.params(data, t), controls.sampling(data, self.panel.read_params(data))

    def draw(self, data: Data, contest: Contest) -> dict[Any, Any]:
        """Return the updates that show the texts; all parts of the screen."""
        visit: Visit = data[self.sample.visit]
        t, lm = visit.t, self.lm(visit)
        amateur = self.amateurs.get(lm, contest.setup.amateur)
        params, sampling = self.settings(data, t)
        values = screen.draw_screen(lm, amateur, contest, params, sampling, t)
        return {
            **self._stamped(values),
            self.contest: contest,
            self.view.status: gr.update(value=screen.hint(contest, params, sampling, t)),
        }

    def _stamped(self, values: Mapping[str, Any]) -> dict[Any, Any]:
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
        choice = self.view.controls.choice(data, lm, t)
        asked, old = Setup(ids, fingerprint(lm), choice), contest.setup
        if asked == old:
            return contest, False
        if old is not None and contest.taken:
            if old.model != asked.model:
                gr.Info(t("contrast.restarted_model"))
            elif old.prompt_ids != ids:
                gr.Info(t("contrast.restarted_prompt"))
            else:
                gr.Info(t("contrast.restarted_amateur"))
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
        once: dict[str, Any] = {"trigger_mode": "once", **MODEL}
        running = view.run.click(self._run, self.inputs, self.outputs, **once)
        view.stop.click(
            lambda: self._buttons(False), None, [view.run, view.stop], cancels=[running], **QUICK
        )
        view.keys.run(None, js=_PRESS_RUN, **QUICK)

    def _wire_panel(self, toolbar: Any, tab: Any) -> None:
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
        changed = [p.prompt.submit, p.prompt.blur, p.system.blur, p.turns.blur]
        changed += [p.chat.input, p.bos.input, p.special.input, p.model_line.change]
        changed += [c.kind.input, c.sees.input, c.context.release, c.layer.release, tab.select]
        gr.on(changed, self._refresh, self.inputs, shown, **MODEL)
        p.examples.input(self._refresh, {*self.inputs, p.examples}, shown, **MODEL)
        toolbar.language(self._speak, self.inputs, shown, **MODEL)
        both = [*shown, *self.sample.outputs, *p.prompt_parts]
        c.preset.input(self._preset, self.inputs, both, **MODEL)

    def _buttons(self, running: bool) -> dict[Any, Any]:
        view = self.view
        return {view.run: gr.update(visible=not running), view.stop: gr.update(visible=running)}

    def _move(self, move: Move, within: bool) -> Handler:
        @polite
        def handle(data: Data, event: gr.EventData) -> dict[Any, Any]:
            contest, anew = self.current(data)
            visit = data[self.sample.visit]
            if not (anew and within):
                lm = self.lm(visit)
                amateur = self.amateurs.get(lm, contest.setup.amateur)
                settings = self.settings(data, visit.t)
                contest = move(lm, amateur, contest, *settings, visit.t, event)
            return self.draw(data, contest)

        return handle

    @property
    def _run(self) -> Handler:
        @polite
        def run(data: Data) -> Iterator[dict[Any, Any]]:
            contest, _ = self.current(data)
            visit = data[self.sample.visit]
            lm, t = self.lm(visit), visit.t
            amateur = self.amateurs.get(lm, contest.setup.amateur)
            count = self.view.controls.run_length(data, t)
            settings = self.settings(data, t)
            if moves.ended(lm, contest):  # seen to its end: once more from the start
                contest = moves.start(contest.setup)
            yield self._buttons(True)
            try:
                for further in moves.run(lm, amateur, contest, *settings, t, count, SPEED):
                    yield self.draw(data, further)
            except ValueError as error:
                gr.Warning(str(error))
            yield self._buttons(False)

        return run

    @property
    def _settle(self) -> Handler:
        @polite
        def settle(data: Data) -> dict[Any, Any]:
            contest, visit = data[self.contest], data[self.sample.visit]
            if contest.setup is None or not contest.prompt_ids:  # the tab was never opened
                return {}
            chosen = SAMPLING_PRESETS.get(data.get(self.panel.preset))
            if chosen is not None:
                params = chosen.replace(seed=self.panel.read_params(data).seed)
                values = self.panel.controls.values(params)
                data = {**data, **{part: update["value"] for part, update in values.items()}}
            try:
                found = self.draw(data, contest)
            except ValueError as error:  # an event outside the queue can't show a toast
                text = visit.t("page.refused", text=error)
                return self._stamped({"sentence": {"parts": [text]}})
            # The state is left alone: a step may have changed it meanwhile.
            return {part: value for part, value in found.items() if part is not self.contest}

        return settle

    @property
    def _refresh(self) -> Handler:
        @polite
        def refresh(data: Data) -> dict[Any, Any]:
            example = data.get(self.panel.examples)
            if example:
                data = {**data, self.panel.prompt: example}
            return self._show(data)

        return refresh

    def _show(self, data: Data) -> dict[Any, Any]:
        """Return the updates after prompt, model, amateur or language may have changed."""
        visit = data[self.sample.visit]
        lm = self.library.loaded(visit.model)
        if lm is None:  # its line changes when it is here
            return {}
        found: dict[Any, Any] = {}
        try:
            choice = self.view.controls.choice(data, lm, visit.t)
            found = self.view.controls.show(lm, choice, visit.t)
            contest, _ = self.current(data)
            return {**found, **self.draw(data, contest)}
        except ValueError as error:
            empty = self._stamped(screen.empty_screen(visit.t, str(error)))
            return {**found, **empty, self.contest: Contest()}

    @property
    def _preset(self) -> Handler:
        @polite
        def choose(data: Data) -> dict[Any, Any]:
            preset, controls = preset_of(data[self.view.controls.preset]), self.view.controls
            if preset is None:
                return {}
            visit, panel = data[self.sample.visit], self.panel
            lm = self.lm(visit)
            shown = controls.preset_values(preset, lm)
            prompt = replace(panel.read_prompt(data), text=preset.prompt, chat=False)
            visit = replace(visit, session=visit.session.start(prompt, lm))
            after = {
                **data,
                **shown,
                panel.prompt: prompt.text,
                panel.chat: False,
                self.sample.visit: visit,
                self.contest: Contest(),
            }
            values = {part: gr.update(value=value) for part, value in shown.items()}
            found = self._show(after)
            return {
                **self.sample.draw(visit, panel.read_params(data)),
                **panel.show_prompt(prompt),
                **values,
                **{
                    part: {**values.get(part, {}), **_as_update(v)}
                    for part, v in found.items()
                    if part in values
                },
                **{part: value for part, value in found.items() if part not in values},
            }

        return choose

    @property
    def _speak(self) -> Handler:
        @polite
        def speak(data: Data, event: gr.EventData) -> dict[Any, Any]:
            asked = event._data.get("language")
            language = asked if asked in LANGUAGES else "en"
            visit = replace(data[self.sample.visit], language=language)
            found = self._show({**data, self.sample.visit: visit})
            return {part: value for part, value in found.items() if part is not self.contest}

        return speak


def _as_update(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else gr.update(value=value)
