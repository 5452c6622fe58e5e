"""What the Beam tab does when something around its search changes: the panel's prompt or model, a
setting, the rule of the ranking, the language.

No handler here asks the model for more than it knows; a changed prompt costs its encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.ui import beam_screen as screen
from playground.ui.beam_controls import PRESETS
from playground.ui.beam_moves import Search
from playground.ui.events import MODEL, QUICK, language_of, now, polite, stamp
from playground.words import in_words

Data = Mapping[Any, Any]
Handler = Callable[..., Any]


class Follower:
    """Joins the events of a BeamTab's surroundings; ``tab`` is the BeamTab."""

    def __init__(self, tab: Any) -> None:
        self.tab, self.view, self.panel = tab, tab.view, tab.panel

    def wire(self, toolbar: Any) -> None:
        """Join the events."""
        tab, p, c = self.tab, self.panel, self.view.controls
        penalty = c.parts["length_penalty"]
        ranks = [tab.parts[name] for name in screen.RANKED]
        last: dict[str, Any] = {"trigger_mode": "always_last", **QUICK}
        penalty.input(self._rank, tab.inputs, ranks, **last)
        settled = [penalty.release, self.view.form.input]
        settled += [part.input for part in c.parts.values() if part is not penalty]
        for trigger in settled:
            trigger(self._settle, tab.inputs, tab.outputs, **last)
        everything = [*tab.outputs, *tab.sample.outputs, *p.prompt_parts, *c.parts.values()]
        c.preset.input(self._preset, tab.inputs, everything, **MODEL)
        shown = [*tab.outputs, *self.view.chosen]
        toolbar.language(self._speak, tab.inputs, shown, **MODEL)
        toolbar.beam(self._refresh, tab.inputs, shown, trigger_mode="always_last", **MODEL)

    @property
    def _rank(self) -> Handler:
        @polite
        def rank(data: Data) -> dict[Any, Any]:
            tab = self.tab
            visit, search = data[tab.sample.visit], data[tab.search]
            if not search.states:
                return {}
            penalty = self.view.controls.penalty(data, visit.t)
            form = data[self.view.form]
            values = screen.draw_ranking(tab.lm(visit), search, penalty, form, visit.t)
            return self._stamped(values)

        return rank

    def _stamped(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        seq = now()
        return {self.tab.parts[name]: stamp(value, seq) for name, value in values.items()}

    @property
    def _settle(self) -> Handler:
        @polite
        def settle(data: Data) -> dict[Any, Any]:
            tab, search = self.tab, data[self.tab.search]
            if not search.states:
                return {}
            if not search.steps:  # nothing was searched yet: the settings are simply taken
                search, _ = tab.current(data)
                return tab.draw(data, search)
            # The state is left alone: a step may have changed it meanwhile.
            return self._without_search(tab.draw(data, search))

        return settle

    def _without_search(self, found: Mapping[Any, Any]) -> dict[Any, Any]:
        return {part: value for part, value in found.items() if part is not self.tab.search}

    def _show(self, data: Data) -> dict[Any, Any]:
        """Return the updates after the prompt or model may have changed."""
        tab = self.tab
        visit = data[tab.sample.visit]
        found = self.view.choices(visit.t)
        if tab.library.loaded(visit.model) is None:  # its line changes when it is here
            return found
        try:
            search, _ = tab.resume(data, settings=False)
        except ValueError as error:
            return {
                **found,
                **self._stamped(screen.empty_screen(in_words(error))),
                tab.search: Search(),
            }
        return {**found, **tab.draw(data, search)}

    @property
    def _refresh(self) -> Handler:
        @polite
        def refresh(data: Data) -> dict[Any, Any]:
            return self._show(data)

        return refresh

    @property
    def _preset(self) -> Handler:
        @polite
        def choose(data: Data) -> dict[Any, Any]:
            tab, panel = self.tab, self.panel
            preset = next((p for p in PRESETS if p.prompt == data[self.view.controls.preset]), None)
            if preset is None:
                return {}
            visit = data[tab.sample.visit]
            shown = {
                self.view.controls.parts[name]: value for name, value in preset.settings.items()
            }
            prompt = replace(panel.read_prompt(data), text=preset.prompt, chat=False)
            session = visit.session.start(prompt, tab.lm(visit))
            after = {
                **data,
                **shown,
                panel.prompt: prompt.text,
                panel.chat: False,
                tab.search: Search(),
                tab.sample.visit: replace(visit, session=session),
            }
            search, _ = tab.current(after)
            return {
                **tab.sample.draw(after[tab.sample.visit], panel.read_params(data)),
                **panel.show_prompt(prompt),
                **{part: gr.update(value=value) for part, value in shown.items()},
                **tab.draw(after, search),
            }

        return choose

    @property
    def _speak(self) -> Handler:
        @polite
        def speak(data: Data, event: gr.EventData) -> dict[Any, Any]:
            visit = replace(data[self.tab.sample.visit], language=language_of(event))
            found = self.view.choices(visit.t)
            search = data[self.tab.search]
            if not search.states:
                return found
            drawn = self.tab.draw({**data, self.tab.sample.visit: visit}, search)
            return {**found, **self._without_search(drawn)}

        return speak
