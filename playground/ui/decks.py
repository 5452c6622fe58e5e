"""Decks: decoders side by side, each with its head (kind, settings) and its growing text.

Value: {"decks": [{"kind", "name", "tone", "settings": [{"field", "label", "value", "low", "high",
"step"} or {"field", "label", "value", "options": [[value, word], ...]}], "parts": [text or
{"token": text}, ...], "note", "proof"}], "human": {"name", "parts", "note"} or absent, "kinds":
[[kind, word], ...], "least", "most", "words", "message", "seq"}. Events: ``edit`` ({"decks":
[{"kind", "settings": {field: value}}]}) and ``prove`` ({"index"}). Texts become text nodes, so a
token can't be markup. While the runner ``runner`` runs, heads can't be changed.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _own, _props, _script


class Decks(gr.HTML):
    """The row of decoders."""

    def __init__(self, value: Any = None, *, runner: str = "", **options: Any):
        super().__init__(
            value,
            html_template='<div class="dp-decks" role="group"></div>',
            js_on_load=_script(
                "decks", "edit", "prove", named=True, own=_own(options, runner=runner)
            ),
            head=_head("page", "decks"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the decks into one JSON string."""
        return _json(value)
