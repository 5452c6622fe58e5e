"""The page's own components: charts, token strip, figures, sentence, table, keys and tools.

Each is a thin class over ``gr.HTML``: a fixed template (Gradio runs templates as code, so no text
ever goes into one) and a script in assets/js that draws the value. A value is one JSON string:
nested values would be compared several times by the page. Texts are set as text nodes, so a token
can't be markup.

In: what the classes' ``postprocess`` names; out: custom events, e.g. ``chart.clicked(f)`` with
``def f(event: gr.EventData): event._data["customdata"]``. Every value may carry ``seq``; the page
drops an answer older than the one that it shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import gradio as gr
import plotly
import plotly.graph_objects as go
import plotly.io as pio

from playground.charts.theme import DARK, LIGHT, dark_map
from playground.words import ASSETS, LANGUAGES, entries

JS = ASSETS / "js"
CSS = ASSETS / "css"
BEFORE, AFTER = 500, 100  # tokens that the strip shows before and after the cursor
PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def message(text: str, seq: int | None = None) -> str:
    """Return a value that empties a chart or strip and says why."""
    return _json({"message": text, "seq": seq})


class PlotlyChart(gr.HTML):
    """A Plotly figure, drawn in place.

    Value: a figure (from ``charts/``), its JSON, `message`, or None for the empty state. Event
    ``clicked``: {"customdata", "trace", "point", "x", "y", "chart"}. ``height`` in px
    and ``subtitle_lines`` are kept free from the start, so that nothing jumps; a figure's own
    ``layout.height`` wins.
    """

    def __init__(
        self,
        value: Any = None,
        *,
        height: int = 320,
        subtitle_lines: int = 1,
        empty: str | None = None,
        **options: Any,
    ):
        super().__init__(
            value,
            html_template=_CHART,
            js_on_load=_script(
                "chart",
                "clicked",
                own=_own(options, height=height, lines=subtitle_lines, empty=empty),
            ),
            head=_head("page", "files", "take", "patch", "chart", plotly=True),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn a figure into one JSON string."""
        if isinstance(value, go.Figure):
            # The trace's uid names it in dp.charts[...].update; plotly drops it by default.
            return pio.to_json(value, validate=False, remove_uids=False)
        return value if value is None or isinstance(value, str) else _json(value)


class TokenStrip(gr.HTML):
    """Prompt and generated tokens as buttons.

    Value: {"tokens": [{"id", "label", "kind": "prompt" | "new" | "special", "p", "rank",
    "surprisal", "logprob", "source", "branch", "stale"}], "cursor": n, "next": bool, "seq": n}, its
    JSON, or `message`; all but id and label are optional. Of a long text only the tokens around the
    cursor go to the page. Event ``pick``: {"index", "id"}. The
    strip is ``lines`` high from the start and scrolls inside, so that nothing below it moves.
    """

    def __init__(
        self, value: Any = None, *, lines: int = 2, empty: str | None = None, **options: Any
    ):
        super().__init__(
            value,
            html_template=_STRIP,
            js_on_load=_script("strip", "pick", own=_own(options, lines=lines, empty=empty)),
            head=_head("page", "strip"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the tokens into one JSON string."""
        if isinstance(value, Mapping) and len(value.get("tokens", ())) > BEFORE + AFTER:
            tokens = value["tokens"]
            cursor = value.get("cursor", len(tokens))
            first, end = max(0, cursor - BEFORE), cursor + AFTER
            value = {
                **value,
                "tokens": tokens[first:end],
                "first": first,
                "later": max(0, len(tokens) - end),
            }
        return _json(value)


class Figures(gr.HTML):
    """A row of large figures with labels.

    Value: [{"value", "label", "title", "tone"}]; title is the tooltip, tone a palette key.
    """

    def __init__(self, value: Any = None, **options: Any):
        super().__init__(
            value,
            html_template='<dl class="dp-figures"></dl>',
            js_on_load=_script("figures"),
            head=_head("page", "parts"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Sequence[Mapping[str, Any]] | str | None) -> str | None:
        """Turn the figures into one JSON string; {"items": [...], "seq": n} may come too."""
        if isinstance(value, Mapping):
            return _json(value)
        return value if value is None or isinstance(value, str) else _json({"items": list(value)})


class Sentence(gr.HTML):
    """The explanation in words, read aloud when it changes.

    Value: a text, or a list of texts and {"token": label}.
    """

    def __init__(self, value: Any = None, **options: Any):
        super().__init__(
            value,
            html_template='<p class="dp-sentence" role="status" aria-live="polite"></p>',
            js_on_load=_script("sentence"),
            head=_head("page", "parts"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: str | Sequence[str | Mapping[str, str]] | None) -> str | None:
        """Turn the text into one JSON string; {"parts": [...], "seq": n} may come too."""
        if isinstance(value, Mapping):
            return _json(value)
        if value is None:
            return None
        return _json({"parts": [value] if isinstance(value, str) else list(value)})


class Table(gr.HTML):
    """A plain table.

    Value: {"columns": [{"label", "kind": "text" | "number" | "token"}], "rows": [{"cells": [...],
    "id", "tone"}], "caption"}. Event ``pick``: {"id"} of a row that has one.
    """

    def __init__(self, value: Any = None, **options: Any):
        super().__init__(
            value,
            html_template='<div class="dp-table"></div>',
            js_on_load=_script("table", "pick"),
            head=_head("page", "parts"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the table into one JSON string."""
        return _json(value)


class Keys(gr.HTML):
    """The page's keys: events ``step``, ``back``, ``run``, ``digit`` ({"digit"}) and ``help``.

    Takes no room. Put one in each tab that steps: only the visible tab's answers.
    """

    def __init__(self, **options: Any):
        super().__init__(
            None,
            html_template='<span class="dp-keys"></span>',
            js_on_load=_script("keys", "step", "back", "run", "digit", "help", named=True),
            head=_head("page", "keys"),
            apply_default_css=False,
            **_props(options | {"elem_classes": [*_classes(options), "dp-nothing"]}),
        )


# The tabs that follow the Sample tab's prompt and model, while they are open.
TABS = ("beam", "contrast", "speculate", "compare", "read")
_LINKED = [f"{tab}_{what}" for tab in TABS for what in ("link", "look")]
REFRESH = "() => { dp.refresh(); }"
LOOKED = "() => { dp.refresh(true); }"


class Toolbar(gr.HTML):
    """Language, theme, projector size, share and keys.

    Value: {"query": "state=..."}, the permalink's query, kept in the address bar and copied by
    Share, or {"view": {tab: link}}, what it has of a tab. Events: ``language`` ({"language": "en" |
    "zh"}), ``shared`` ({"url"}), ``help``; for each of ``TABS``, beam say, ``beam_link`` (asks
    for the tab's part of the link) and ``beam_look`` ({"link"}: such a part, to be shown); and,
    named like each tab of ``TABS``, when that tab was opened, or is open while the prompt or the
    model changed (``REFRESH``) or a link set it up (``LOOKED``).
    """

    def __init__(self, value: Any = None, **options: Any):
        super().__init__(
            value,
            html_template=_TOOLS,
            js_on_load=_script(
                "toolbar", "language", "shared", "help", *TABS, *_LINKED, named=True
            ),
            head=_head("page", "keys", "toolbar", "busy"),
            apply_default_css=False,
            **_props(options),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the value into one JSON string."""
        return _json(value)


def launch_options() -> dict[str, Any]:
    """Return what ``launch()`` or ``mount_gradio_app()`` needs for the look: theme and head."""
    css = _colors() + "".join(path.read_text("utf-8") for path in sorted(CSS.glob("*.css")))
    words = {
        language: {
            key.removeprefix("components."): texts[language]
            for key, texts in entries().items()
            if key.startswith(("components.", "sample."))
        }
        for language in LANGUAGES
    }
    # The preview of a dragged slider draws with the charts' own words and colours.
    # "<" would end the script early; nothing else needs escaping inside JSON.
    config = _json({"light": LIGHT, "dark": dark_map(), "words": words}).replace("<", "\\u003c")
    page = (JS / "page.js").read_text("utf-8")
    head = (
        f"<style>{css}</style><script>window.dpConfig = {config};</script><script>{page}</script>"
    )
    return {"theme": theme(), "head": head}


def theme() -> gr.themes.Base:
    """Return Gradio's theme with its own fonts in regular and bold.

    The semi-bold files that Gradio brings lack the Latin letters.
    """
    return gr.themes.Base(
        font=[
            gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)),
            "system-ui",
            "PingFang SC",
            "Microsoft YaHei",
            "Noto Sans CJK SC",
            "sans-serif",
        ],
        font_mono=[
            gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)),
            "ui-monospace",
            "Noto Sans Mono CJK SC",
            "monospace",
        ],
    )


def _colors() -> str:
    """Return the palette as CSS variables, so that it is written down once."""
    sets = (
        (selector, "".join(f"--dp-{key.replace('_', '-')}:{hex};" for key, hex in colors.items()))
        for selector, colors in ((":root", LIGHT), ("body.dark", DARK))
    )
    return "".join(f"{selector}{{{rules}}}\n" for selector, rules in sets)


_CHART = """<figure class="dp-chart"><figcaption class="dp-chart-head">
<h3 class="dp-chart-title"></h3><p class="dp-chart-subtitle"></p></figcaption>
<div class="dp-chart-body"><div class="dp-chart-plot" role="img"></div>
<p class="dp-chart-message"></p></div><p class="dp-chart-alt dp-hidden"></p></figure>"""

_STRIP = """<div class="dp-strip"><div class="dp-strip-tokens" role="group"></div>
<p class="dp-strip-message"></p><div class="dp-tip" role="tooltip"></div></div>"""

_TOOLS = """<div class="dp-tools">
<button type="button" data-tool="language"><span class="dp-en">EN</span> /
<span class="dp-zh">中文</span></button>
<button type="button" data-tool="theme"><span aria-hidden="true">◐</span></button>
<button type="button" data-tool="size"><span></span></button>
<button type="button" data-tool="share"></button>
<button type="button" data-tool="help"><span aria-hidden="true">?</span></button></div>"""


def _script(
    part: str, *events: str, named: bool = False, own: Mapping[str, Any] | None = None
) -> str:
    """Return the start script: it must quote each event's name, by which Gradio knows it.

    ``own`` are settings that never change. They are read as ``props``, yet stand in the script:
    where an event leaves out a component whose tab was never opened, Gradio forgets its props.
    """
    if named:
        send = ", ".join(f'{event}: (data) => trigger("{event}", data)' for event in events)
        send = f"{{{send}}}"
    else:
        send = f'(data) => trigger("{events[0]}", data)' if events else "null"
    if own is None:
        return f"dp.{part}({{element, props, watch, server, send: {send}}});"
    live = "new Proxy(props, {get: (from, key) => (key in own ? own[key] : from[key])})"
    start = f"dp.{part}({{element, props: {live}, watch, server, send: {send}}});"
    # Keys without quotes: Gradio takes any quoted word in this script for the name of an event.
    settings = ", ".join(f"{key}: {json.dumps(value)}" for key, value in own.items())
    return f"const own = {{{settings}}}; {start}"


@cache
def _head(*scripts: str, plotly: bool = False) -> str:
    """Return script tags with relative addresses, so that the page also works under a path."""
    paths = ([PLOTLY_JS] if plotly else []) + [JS / f"{name}.js" for name in scripts]
    gr.set_static_paths(paths)
    return "".join(
        f'<script src="gradio_api/file={path.as_posix()}?v={path.stat().st_mtime_ns}"></script>'
        for path in paths
    )


def _props(options: dict[str, Any]) -> dict[str, Any]:
    """Return Gradio's options of a part: without a box."""
    return {"container": False, "padding": False, **options}


def _own(options: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Return the settings that a script reads; ``name`` is the key in dp.charts and dp.strips."""
    return {**settings, "name": options.get("elem_id")}


def _classes(options: Mapping[str, Any]) -> list[str]:
    classes = options.get("elem_classes") or []
    return [classes] if isinstance(classes, str) else list(classes)


def _json(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    """Replace infinities and NaN, which JSON lacks, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
