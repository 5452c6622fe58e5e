"""Recipes of the other tabs: what a tab shows as plain values, and set up again from these.

In: a tab and what the page sent (``Data``); out: a recipe, for a tape's state or a link, and from a
recipe the tab's state. A recipe is what the tab's controls say and how many steps were shown.

A tape records these steps anew over a ``Recorder``, drawing each, so that it has all that a step
shows; playing makes them over the tape, and can't come out otherwise. What was not shown (another
setting, a pruned branch looked into) is not on the tape and is refused in words. A link has the
recipe alone: where it is opened the model makes the steps.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from playground.format import count_text
from playground.recorder import Recorder
from playground.serving.refusals import Refusal
from playground.words import in_words

MAX_STEPS = 1000
Data = Mapping[Any, Any]
Recipe = dict[str, Any]


class Damaged(ValueError):
    """A recipe that can't be one."""


class View(ABC):
    """One tab: ``name``, its gr.State ``state``, the controls by name in ``parts``."""

    name: str
    tab: Any
    state: Any
    empty: Any
    parts: Mapping[str, Any]

    @property
    def inputs(self) -> set[Any]:
        """What a handler that records must be sent."""
        return {self.state, *self.parts.values()}

    @property
    def outputs(self) -> list[Any]:
        """What a handler that plays may change."""
        return [self.state, *self.parts.values()]

    def told(self, data: Data) -> Recipe:
        """Return the recipe of what the tab says and shows."""
        state = data[self.state]
        recipe = {
            "controls": {key: data[part] for key, part in self.parts.items()},
            "steps": self.count(state),
        }
        return recipe if self.bare(state) else {**recipe, **self.more(state)}

    def record(self, data: Data, visit: Any) -> Recipe | None:
        """Make the steps shown over the recorder, which is the visit's model; None for none.

        Raises what the tab's own moves raise.
        """
        old, recipe = data[self.state], self.told(data)
        if not recipe["steps"]:
            return None
        data = {**data, self.tab.sample.visit: visit, self.state: self.empty}
        room, least = self.lm(data).room, self.least(old)
        if least > room:
            raise Refusal("take.view_large", count=count_text(least), room=count_text(room))
        if self.shows(self._steps(data, recipe, draw=True)) != self.shows(old):
            raise Refusal("take.view_other")
        return recipe

    def play(self, data: Data, recipe: Recipe) -> dict[Any, Any]:
        """Return the values of state and controls that a recipe asks for; ``data`` has its visit.

        Raises ValueError for a recipe that can't be followed.
        """
        told, steps = recipe.get("controls"), recipe.get("steps")
        if not isinstance(told, dict) or type(steps) is not int or steps < 0:
            raise Damaged
        plain = str | int | float | bool | None
        found = {}
        for key, part in self.parts.items():
            if key in told and isinstance(told[key], plain):
                try:
                    part.preprocess(told[key])  # a list takes only what it offers
                except gr.Error as error:
                    raise Damaged from error
                found[part] = told[key]
        if not steps and not recipe.keys() - {"controls", "steps"}:
            return found  # settings alone
        data = {**data, **found, self.state: self.empty}
        return {**found, self.state: self._steps(data, recipe)}

    def _steps(self, data: Data, recipe: Recipe, draw: bool = False) -> Any:
        state = self.begin(data, recipe)
        if draw:
            self.tab.draw(data, state)
        for i in range(min(recipe["steps"], MAX_STEPS)):
            state = self.step(data, state, recipe, i)
            if draw:
                self.tab.draw(data, state)
        return state

    def lm(self, data: Data) -> Any:
        """Return the recorder, or the tape."""
        return self.tab.lm(data[self.tab.sample.visit])

    def least(self, state: Any) -> int:
        """Return how many positions a state needs at least."""
        return self.count(state)

    def bare(self, state: Any) -> bool:
        """Return whether a state has nothing yet that a recipe could have."""
        return not self.count(state)

    def seal(self, state: Any) -> int:
        """Return a number that tells two states apart if they show different tokens."""
        return zlib.crc32(repr(self.shows(state)).encode())

    @abstractmethod
    def shows(self, state: Any) -> Any:
        """Return what must come again: the tokens of a state, in every part of it."""

    def more(self, state: Any) -> Recipe:
        """Return what a recipe must have beside controls and steps."""
        return {}

    @abstractmethod
    def count(self, state: Any) -> int:
        """Return how many steps are shown."""

    @abstractmethod
    def begin(self, data: Data, recipe: Recipe) -> Any:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, data: Data, state: Any, recipe: Recipe, index: int) -> Any:
        """Return the state after the next step."""


def record_views(
    views: Sequence[View], data: Data, visit: Any, recorder: Recorder
) -> tuple[dict[str, Recipe], dict[str, str]]:
    """Record the tabs' views over a recorder, the visit's model, in order.

    Returns the recipes by name, and for each that could not be recorded the reason.
    """
    recipes, left = {}, {}
    for view in views:
        mark = recorder.mark()
        try:
            recipe = view.record(data, visit)
        except ValueError as error:
            recorder.rewind(mark)
            left[view.name] = in_words(error)
            continue
        if recipe is not None:
            recipes[view.name] = recipe
    return recipes, left


def play_views(
    views: Sequence[View], data: Data, visit: Any, told: Any, source: str = "the tape"
) -> tuple[dict[Any, Any], dict[str, str]]:
    """Return the values that set tabs up, and why some could not be.

    ``told``: the recipes by name, of a tape or a link (``source``), so they may be anything.
    """
    found: dict[Any, Any] = {}
    left: dict[str, str] = {}
    for view in views:
        recipe = told.get(view.name) if isinstance(told, dict) else None
        if not isinstance(recipe, dict):
            continue
        try:
            found |= view.play({**data, view.tab.sample.visit: visit}, recipe)
        except (Damaged, TypeError, KeyError, AttributeError, IndexError, OverflowError):
            text = f"{source} is damaged: what it says of a tab can't be"
            left[view.name] = in_words(ValueError(text))
        except ValueError as error:
            left[view.name] = in_words(error)
    return found, left
