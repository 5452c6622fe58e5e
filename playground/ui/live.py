"""Live: the step's payload in the page, from which a dragged slider is previewed.

Takes no room. Value: {"payload": playground.payload.payload(...), "params": preview_params(...),
"live": bool, "of": its name, "seq": n}, without the payload where the page has it, or {"refused":
True, "seq": n}; not live while the page looks back, where sliders change nothing. Event
``settle``: the sliders rest on other values than the last answer had, so exact numbers are wanted.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _props, _script

_PARTS = ("page", "preview_atoms", "preview_filters", "preview", "sample_charts", "sample_live")


class Live(gr.HTML):
    """Holds the payload and asks for exact numbers when the sliders rest."""

    def __init__(self, **options: Any):
        super().__init__(
            None,
            html_template='<span class="dp-live"></span>',
            js_on_load=_script("live", "settle"),
            head=_head(*_PARTS),
            apply_default_css=False,
            **_props(options | {"elem_classes": ["dp-nothing"]}),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the payload into one JSON string."""
        return _json(value)
