"""OrderEditor: the filters that are on, in the order in which they run, to be dragged about.

Value: {"items": [{"name", "label"}], "custom": bool, "words": {...}}; event ``reorder``:
{"order": [names]}, empty for the dialect's own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from playground.processors import active_filters
from playground.records import SamplingParams
from playground.ui.components import _head, _json, _props, _script
from playground.words import Translate


class OrderEditor(gr.HTML):
    """Chips in running order; by hand, by arrow keys, by buttons."""

    def __init__(self, **options: Any):
        super().__init__(
            None,
            html_template='<ol class="dp-order"></ol>',
            js_on_load=_script("order", "reorder"),
            head=_head("page", "order"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the chips into one JSON string."""
        return _json(value)


def chips(params: SamplingParams, t: Translate) -> dict[str, Any]:
    """Return the editor's value for params."""
    items = [{"name": n, "label": t(f"sample.stage_{n}")} for n in active_filters(params)]
    words = {key: t(f"page.order_{key}") for key in ("earlier", "later", "reset", "none")}
    return {"items": items, "custom": params.order is not None, "words": words}


def order_text(order: Sequence[Any]) -> str:
    """Return what the order's text field shows for a reordering."""
    return ", ".join(str(name) for name in order)
