"""Files: a row of quiet buttons that take a run away as a file.

``kinds`` names the buttons (words: components.take_<kind>). Event ``ask``: {"kind", "sure"} when
one is pressed. Value: {"file": {"name", "mime", "data": base64}, "seq"} is saved by the browser;
{"offer": text, "kind", "seq"} writes the text (a size) on the kind's button, and the next press
of it asks with ``sure``.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _own, _props, _script

MIMES = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "dptape": "application/octet-stream",
}


class Files(gr.HTML):
    """Buttons that ask for a file, and the file that comes."""

    def __init__(self, kinds: Sequence[str], **options: Any):
        super().__init__(
            None,
            html_template='<div class="dp-files" role="group"></div>',
            # One word with hyphens: a plain word in quotes would name an event.
            js_on_load=_script("files", "ask", own=_own(options, kinds="-".join(["", *kinds]))),
            head=_head("page", "files"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the answer into one JSON string."""
        return _json(value)


def file_value(name: str, data: bytes, seq: int) -> dict[str, Any]:
    """Return the value that saves a file; its MIME type follows from the name's ending."""
    mime = MIMES[name.rsplit(".", 1)[-1]]
    text = base64.b64encode(data).decode()
    return {"file": {"name": name, "mime": mime, "data": text}, "seq": seq}
