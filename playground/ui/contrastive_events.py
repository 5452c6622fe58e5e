"""The Contrast tab's handlers that are more than a move: runs, settling, presets, other words.

Each reads what it needs by component and returns the values of the parts that changed. Written
apart from the layout, which joins them to their events (``ui.contrastive``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.language_model import LanguageModel
from playground.records import SamplingParams
from playground.records.contrastive import ContrastiveParams
from playground.ui import contrastive_moves as moves
from playground.ui import contrastive_screen as screen
from playground.ui.contrastive_controls import preset_of
from playground.ui.contrastive_moves import Contest
from playground.ui.contrastive_view import ContrastView
from playground.ui.controls import PRESETS as SAMPLING_PRESETS
from playground.ui.events import Visit, language_of, polite
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.ui.runner import Pace
from playground.words import Translate, in_words

WAIT = 150  # ms between two tokens of a run at least, so that the eye can follow

Data = Mapping[Any, Any]
Handler = Callable[..., Any]


class ContrastEvents(ABC):
    """What the handlers need of the tab: its panel, its parts, and how it draws."""

    library: Library
    panel: Panel
    sample: Any
    view: ContrastView
    contest: Any

    @abstractmethod
    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model, the expert."""

    @abstractmethod
    def amateur(self, lm: LanguageModel, contest: Contest, t: Translate) -> LanguageModel:
        """Return the amateur of the texts."""

    @abstractmethod
    def settings(self, data: Data, t: Translate) -> tuple[ContrastiveParams, SamplingParams]:
        """Return what the controls show now."""

    @abstractmethod
    def draw(self, data: Data, contest: Contest) -> dict[Any, Any]:
        """Return the updates that show the texts; all parts of the screen."""

    @abstractmethod
    def stamped(self, values: Mapping[str, Any]) -> dict[Any, Any]:
        """Return the updates of parts by name, numbered."""

    @abstractmethod
    def current(self, data: Data) -> tuple[Contest, bool]:
        """Return the texts to go on with, and whether they had to start anew."""

    def _tick(self, data: Data, count: int) -> tuple[dict[Any, Any], Pace]:
        visit: Visit = data[self.sample.visit]
        length = self.view.controls.run_length(data, visit.t)
        contest, _ = self.current(data)
        lm, settings = self.lm(visit), self.settings(data, visit.t)
        amateur = self.amateur(lm, contest, visit.t)
        contest = moves.tick(lm, amateur, contest, *settings, visit.t, count)
        end = moves.over(lm, amateur, contest, settings[0], visit.t)
        return self.draw(data, contest), Pace(end, WAIT, length)

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
                text = visit.t("page.refused", text=in_words(error))
                return self.stamped({"sentence": {"parts": [text]}})
            # The state is left alone: a step may have changed it meanwhile.
            return {part: value for part, value in found.items() if part is not self.contest}

        return settle

    @property
    def _refresh(self) -> Handler:
        @polite
        def refresh(data: Data) -> dict[Any, Any]:
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
            empty = self.stamped(screen.empty_screen(visit.t, in_words(error)))
            return {**found, **empty, self.contest: Contest()}

    @property
    def _bring(self) -> Handler:
        @polite
        def bring(data: Data) -> Iterator[dict[Any, Any]]:
            visit, c = data[self.sample.visit], self.view.controls
            yield from c.other.bring(data, self.lm(visit), c.about, self._show, visit.t)

        return bring

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
            visit = replace(data[self.sample.visit], language=language_of(event))
            found = self._show({**data, self.sample.visit: visit})
            return {part: value for part, value in found.items() if part is not self.contest}

        return speak


def _as_update(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else gr.update(value=value)
