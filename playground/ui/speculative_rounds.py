"""Rounds: the timeline of drafted, tested and emitted tokens, one line a round.

Value: {"title", "subtitle", "rounds": [{"name", "drafted": [chip, ...], "next": chip or None,
"note"}], "picked": [round, place] or None, "lines", "empty", "seq"}; a chip is {"label", "fate",
"place", "title"}. Event ``pick``: {"round", "place"}. Texts become text nodes, so a token can't be
markup. The box is as high as six rounds from the start and scrolls inside.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _props, _script


class Rounds(gr.HTML):
    """The timeline: chips as buttons, the emitted token of each round at its end."""

    def __init__(self, value: Any = None, **options: Any):
        super().__init__(
            value,
            html_template=_ROUNDS,
            js_on_load=_script("rounds", "pick"),
            head=_head("page", "rounds"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the rounds into one JSON string."""
        return _json(value)


_ROUNDS = """<div class="dp-rounds"><h3 class="dp-chart-title"></h3>
<p class="dp-chart-subtitle"></p><div class="dp-rounds-body"><ol class="dp-rounds-list"></ol>
<p class="dp-rounds-empty"></p></div></div>"""
