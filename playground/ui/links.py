"""The open tab's part of a permalink: what the tab says and shows, as a recipe (``ui.recipes``).

The page asks for it when what a tab shows has changed and rests (assets/js/toolbar.js), and keeps
it in the address beside the Sample view's state. Where such a link is opened, the tab's controls
are set and its steps are made anew by the reader's model; it is said if they come out otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from playground.export import from_link, to_link
from playground.format import count_text
from playground.serving.refusals import Refusal
from playground.tape import TapeLM
from playground.ui.components import LOOKED
from playground.ui.events import MODEL, QUICK, Visit, inform, now, polite, warn
from playground.ui.recipes import View, play_views
from playground.words import in_words

MOST = 200  # steps that opening a link may make


class Links:
    """Joins the events; ``sample`` is the Sample tab, ``views`` the others."""

    def __init__(self, sample: Any, views: Sequence[View], toolbar: Any) -> None:
        self.sample, self.toolbar = sample, toolbar
        for view in views:  # each with its own parts: Gradio carries all that an event ever had
            inputs = {sample.visit, *view.tab.inputs, *view.inputs}
            asked, shown = (getattr(toolbar, f"{view.name}_{what}") for what in ("link", "look"))
            asked(self._tell(view), inputs, [toolbar], trigger_mode="always_last", **QUICK)
            opened = shown(self.look(view), inputs, view.outputs, **MODEL)
            opened.then(None, js=LOOKED, **QUICK)

    def _tell(self, view: View) -> Any:
        @polite
        def tell(data: Mapping[Any, Any]) -> dict[Any, Any]:
            return {self.toolbar: {"view": {view.name: self.told(view, data)}, "seq": now()}}

        return tell

    def look(self, view: View) -> Any:
        """Make the handler that opens a tab's part of a link; event: {"link"}."""

        @polite
        def look(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit: Visit = data[self.sample.visit]
            try:
                return self.opened(view, data, event._data["link"])
            except ValueError as error:
                warn(visit.t("page.bad_link", text=in_words(error)))
                return {}

        return look

    def told(self, view: View, data: Mapping[Any, Any]) -> str:
        """Return the tab's part of the link; nothing where a link can't have it."""
        if isinstance(self.sample.lm(data[self.sample.visit]), TapeLM):
            return ""  # the reader hasn't got the tape
        recipe, state = view.told(data), data[view.state]
        if recipe["steps"]:
            recipe["seal"] = view.seal(state)
        try:
            return to_link({"tab": view.name, **recipe})
        except ValueError:  # too long for an address
            return ""

    def opened(self, view: View, data: Mapping[Any, Any], link: Any) -> dict[Any, Any]:
        """Return the values that set up a tab as a link has it; ValueError where it can't be."""
        visit: Visit = data[self.sample.visit]
        recipe = from_link(link)
        if recipe.pop("tab", None) != view.name:
            raise ValueError("link is damaged: it is about another tab")
        seal, steps = recipe.pop("seal", None), recipe.get("steps")
        if isinstance(steps, int) and steps > MOST:
            raise Refusal("page.long_link", count=count_text(steps), most=count_text(MOST))
        found, left = play_views([view], data, visit, {view.name: recipe}, "link")
        if left:
            raise ValueError(left[view.name])
        state = found.get(view.state)
        if seal is not None and state is not None and seal != view.seal(state):
            inform(visit.t("page.view_differs", tab=visit.t(f"{view.name}.tab")))
        return found
