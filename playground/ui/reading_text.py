"""ReadText: a text with each token coloured by its rank's bucket, with its figures on hover.

Value: {"run": str, "from": n, "total": N, "edges": [10, 100, 1000], "title", "subtitle", "id",
"text", "label", "p", "rank", "surprisal", "entropy", "top", "top_p", "empty", "seq"}: the columns
have one entry per token from place ``from`` on, so that a long text grows by what is new; ``text``
is "" for a token that ends inside a character. Event ``pick``: {"index"} of a token. Texts become
text nodes, so a token can't be markup. The box keeps its height and scrolls inside.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _props, _script


class ReadText(gr.HTML):
    """The coloured text with its legend."""

    def __init__(self, value: Any = None, **options: Any):
        super().__init__(
            value,
            html_template=_READ,
            js_on_load=_script("reading", "pick"),
            head=_head("page", "reading"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the tokens into one JSON string."""
        return _json(value)


_READ = """<div class="dp-read"><h3 class="dp-chart-title"></h3>
<p class="dp-chart-subtitle"></p><div class="dp-read-legend"></div>
<div class="dp-read-box"><div class="dp-read-tokens" role="group"></div>
<p class="dp-read-empty"></p></div><p class="dp-read-changed" role="status"></p>
<div class="dp-tip" role="tooltip"></div></div>"""
