"""The Sample tab's handlers that are more than a move: prompts, presets, settling, runs, looks.

Each reads what it needs by component, and returns the values of the parts that changed. Written
apart from the layout, which joins them to their events (``ui.sampling``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.language_model import ContextFull, LanguageModel
from playground.records import SamplingParams
from playground.serving.gpu import AHEAD
from playground.serving.limits import limits_of
from playground.session import Prompt, Session
from playground.ui import handlers
from playground.ui.controls import PRESETS
from playground.ui.events import Visit, inform, now, polite
from playground.ui.order import order_text
from playground.ui.panel import Panel
from playground.ui.runner import Pace
from playground.words import in_words

MAX_DRAWS = 100_000
# Controls that are no sliders: a preview can't show them while they change.
NOT_SLID = ("seed", "dialect", "order", "banned_tokens", "penalize_prompt")


class SampleEvents(ABC):
    """What the handlers need of the tab: its panel, its parts, ``lm`` and ``draw``."""

    panel: Panel
    visit: Any
    sentence: Any
    live: Any
    force: Any
    inspected: Any
    draw_count: Any
    runner: Any
    length: Any
    speed: Any
    stops: Any
    still: Any

    @abstractmethod
    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model."""

    @abstractmethod
    def draw(self, visit: Visit, params: SamplingParams, **options: Any) -> dict[Any, Any]:
        """Return the updates that show a visit; the options are the tab's (``SampleTab.draw``)."""

    @polite
    def _settle(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        return self._settled(data)

    @polite
    def _rest(self, data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
        """Settle where the sliders rest: the page sends what they say and whose payload it has."""
        said = event._data.get("params")
        if not isinstance(said, Mapping):
            raise ValueError("event's params must be an object")
        parts = self.panel.controls.parts
        slid = {part: said.get(name) for name, part in parts.items() if name not in NOT_SLID}
        return self._settled({**data, **slid}, str(event._data.get("of")))

    def _settled(self, data: Mapping[Any, Any], known: str = "") -> dict[Any, Any]:
        # Numbered by its start: a step that is under way has the later state, whichever of
        # the two answers first; the page asks again if its sliders say something else then.
        seq, visit = now(), data[self.visit]
        try:
            found = self.draw(visit, self.panel.read_params(data), seq=seq, known=known)
        except ValueError as error:  # an event outside the queue can't show a toast
            text = visit.t("page.refused", text=in_words(error))
            refused = {"refused": True, "seq": seq}
            return {self.sentence: {"parts": [text], "seq": seq}, self.live: refused}
        return {part: value for part, value in found.items() if part not in self.still}

    @polite
    def _reorder(self, data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
        order = tuple(event._data["order"]) or None
        params = self.panel.read_params(data).replace(order=order)
        found = self.draw(data[self.visit], params)
        text = order_text(order or ())
        return {**found, self.panel.controls.parts["order"]: gr.update(value=text)}

    @polite
    def _draws(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        count = handlers.whole("draws", data[self.draw_count], MAX_DRAWS)
        return self.draw(data[self.visit], self.panel.read_params(data), draws=count)

    @polite
    def _prompt(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        visit, typed = data[self.visit], self.panel.read_prompt(data)
        if typed == visit.session.prompt:
            return {}
        session = self._start(visit, typed)
        return self.draw(replace(visit, session=session), self.panel.read_params(data))

    def _start(self, visit: Visit, prompt: Prompt) -> Session:
        lm = self.lm(visit)
        try:
            return visit.session.start(prompt, lm)
        except ContextFull:
            count = len(prompt.encode(lm))
            raise ValueError(
                visit.t("page.too_long", count=count, limit=lm.context_length)
            ) from None

    @polite
    def _example(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        text, visit = data[self.panel.examples], data[self.visit]
        if not text:
            return {}
        prompt = replace(self.panel.read_prompt(data), text=text)
        visit = replace(visit, session=self._start(visit, prompt))
        found = self.draw(visit, self.panel.read_params(data))
        updates = {
            self.panel.prompt: gr.update(value=text),
            self.panel.examples: gr.update(value=""),
        }
        return {**found, **updates}

    @polite
    def _start_bos(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        visit = data[self.visit]
        prompt = replace(self.panel.read_prompt(data), bos=True)
        visit = replace(visit, session=self._start(visit, prompt))
        found = self.draw(visit, self.panel.read_params(data))
        return {**found, self.panel.bos: gr.update(value="on")}

    @polite
    def _undo(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        visit = data[self.visit]
        visit = replace(visit, session=visit.session.undo())
        found = self.draw(visit, self.panel.read_params(data))
        return {**found, **self.panel.show_prompt(visit.session.prompt)}

    @polite
    def _force(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        visit, params = data[self.visit], self.panel.read_params(data)
        text = data[self.force] or ""
        session = handlers.force_text(self.lm(visit), visit.session, params, visit.t, text)
        found = self.draw(replace(visit, session=session), params)
        return {**found, self.force: gr.update(value="")}

    @polite
    def _preset(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        chosen = PRESETS.get(data[self.panel.preset])
        if chosen is None:
            return {}
        params = chosen.replace(seed=self.panel.read_params(data).seed)
        found = self.draw(data[self.visit], params)
        return {**found, **self.panel.controls.values(params)}

    @polite
    def _inspect(self, data: Mapping[Any, Any]) -> dict[Any, Any]:
        visit, params = data[self.visit], self.panel.read_params(data)
        lm, session, t = self.lm(visit), visit.session, visit.t
        if not session.ids:
            raise ValueError(t("page.empty"))
        token, note = handlers.find_token(lm, data[self.inspected] or "", t)
        if note:
            inform(note)
        return self.draw(replace(visit, inspected=token), params)

    def _tick(self, data: Mapping[Any, Any], count: int) -> tuple[dict[Any, Any], Pace]:
        visit, params = data[self.visit], self.panel.read_params(data)
        length, wait = handlers.pace(data[self.length], data[self.speed])
        stops = [line for line in (data[self.stops] or "").split("\n") if line]
        session, lm = visit.session, self.lm(visit)
        limits_of(lm).check_new_tokens(length)
        if count % AHEAD == 0 and (ahead := getattr(lm, "ahead", None)) is not None:
            note = ahead(session.ids, params, len(session.trace.prompt_ids))
            if note:
                inform(visit.t("limits.gpu", text=note))
        session = handlers.tick(lm, session, params, visit.t, count, stops)
        found = self.draw(replace(visit, session=session), params)
        return found, Pace(bool(session.trace.stop), wait, length)
