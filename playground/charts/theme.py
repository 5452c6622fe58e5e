"""The look that all charts share: colours, type, layouts, axes and escaping.

Charts are always drawn in the LIGHT palette, so that a figure is right in a notebook too. The page
swaps each light colour for its dark partner (`dark_map`), draws the title in HTML, and scales type
for a projector; it reads what it needs from ``layout.meta``, which `base_layout` fills.

Token texts are data, never markup: pass every one through `escape` before it goes into a Plotly
field (tick text, hover text, annotation, trace name). Titles given to `base_layout` are plain text
and are escaped there. Keep texts out of ``hovertemplate``; use ``hovertext`` with `lines`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

import plotly.graph_objects as go

# Paper and ink with one accent; marks after Okabe and Ito, darkened where light needs it. The keys
# ending in "_text" are for words (4.5 : 1 on paper and panel), the others for marks (3 : 1).
# Every light value is distinct, because the page finds the dark partner by it.
LIGHT: dict[str, str] = {
    "paper": "#FBFAF7",
    "panel": "#FFFFFF",
    "ink": "#1D1F23",
    "muted": "#6B6F76",
    "hairline": "#E2DFD6",
    "outline": "#777A86",  # raw probability: the outline beside the fill
    "wash": "#F0F4FA",  # the explanation line, selected rows
    "hatch": "#C9C6BD",  # masked: hatched grey
    "accent": "#0072B2",  # final probability, target, expert, kept
    "accent_text": "#00669F",
    "attention": "#D55E00",  # drawn, cut line, rejected
    "attention_text": "#A84A00",
    "accepted": "#009E73",
    "accepted_text": "#00714F",
    "draft": "#CC79A7",  # draft, amateur
    "draft_text": "#A0427A",
    "recovered": "#B87A00",
    "bonus": "#3D8FC4",
    "ramp0": "#D9E8F1",  # quantities: one hue, light to dark
    "ramp1": "#A9CDE2",
    "ramp2": "#74AFD2",
    "ramp3": "#4393C3",
    "ramp4": "#0B73AF",
    "ramp5": "#004C7A",
}
DARK: dict[str, str] = {
    "paper": "#14161A",
    "panel": "#1A1D22",
    "ink": "#E8E6E1",
    "muted": "#9AA0A8",
    "hairline": "#2C3038",
    "outline": "#8D919E",
    "wash": "#1E2A35",
    "hatch": "#4A4F58",
    "accent": "#56B4E9",
    "accent_text": "#6ABDEC",
    "attention": "#E69F00",
    "attention_text": "#EBAA1A",
    "accepted": "#2DB88F",
    "accepted_text": "#3CC49C",
    "draft": "#D48DB5",
    "draft_text": "#DDA0C2",
    "recovered": "#F0C24B",
    "bonus": "#8CC9EE",
    "ramp0": "#1F2F3A",
    "ramp1": "#27485C",
    "ramp2": "#326B8A",
    "ramp3": "#4290BC",
    "ramp4": "#5BB3E5",
    "ramp5": "#B5DFF8",
}
# In this order categories take their colours.
CATEGORIES = ("accent", "attention", "accepted", "draft", "recovered", "bonus")
RAMP = tuple(f"ramp{i}" for i in range(6))

# CJK glyphs come from the reader's system: bundling them would cost megabytes.
SANS = (
    "'IBM Plex Sans', system-ui, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', sans-serif"
)
MONO = (
    "'IBM Plex Mono', ui-monospace, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans Mono CJK SC', "
    "monospace"
)
SIZES = {"small": 12, "body": 14, "title": 16, "large": 20, "figure": 28}

_TRANSPARENT = "rgba(0,0,0,0)"
_TITLE_HEIGHT, _SUBTITLE_HEIGHT = 32, 20  # px that a notebook's title needs above the plot


def dark_map() -> dict[str, str]:
    """Return light hex -> dark hex, in upper case, for the page."""
    return {LIGHT[key].upper(): DARK[key].upper() for key in LIGHT}


def fade(color: str, alpha: float) -> str:
    """Return a palette colour (key or hex) as "rgba(r,g,b,a)"; the page maps these too."""
    r, g, b = _rgb(LIGHT.get(color, color))
    return f"rgba({r},{g},{b},{alpha:g})"


def contrast(a: str, b: str) -> float:
    """Return the WCAG 2 contrast ratio of two hex colours, 1 to 21."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def escape(text: str) -> str:
    """Make a text literal in Plotly: no tags, entities, ``%{...}`` templates or ``$`` formulas.

    Line breaks become visible marks, so that a label stays one line.
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = text.replace("$", "&#36;").replace("%{", "%&#123;")
    return text.replace("\r", "␍").replace("\n", "⏎").replace("\t", "⇥")


def lines(*texts: str) -> str:
    """Return plain texts as one hover text, a line each; empty ones are left out."""
    return "<br>".join(escape(text) for text in texts if text)


def width(text: str) -> int:
    """Return the cells that a text takes in a monospace font: wide characters count two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def shorten(text: str, cells: int = 16) -> str:
    """Return the text, cut with an ellipsis to at most ``cells`` monospace cells."""
    if width(text) <= cells:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > cells - 1:
            break
        kept += char
    return kept + "…"


def label_margin(labels: Sequence[str], size: int = 14, most: int = 240) -> int:
    """Return the margin in px that plain monospace labels need beside their axis."""
    return min(most, round(max(map(width, labels), default=0) * size * 0.6) + 16)


@cache
def template() -> go.layout.Template:
    """Return the Plotly template: transparent, hairline grid, IBM Plex, one colour order."""
    axis = dict(
        gridcolor=LIGHT["hairline"],
        linecolor=LIGHT["hairline"],
        zerolinecolor=LIGHT["hairline"],
        zerolinewidth=1,
        showline=False,
        ticks="",
        tickfont=dict(family=MONO, size=SIZES["small"], color=LIGHT["muted"]),
        title=dict(font=dict(family=SANS, size=SIZES["small"], color=LIGHT["muted"]), standoff=8),
        fixedrange=True,
    )
    return go.layout.Template(
        layout=dict(
            font=dict(family=SANS, size=SIZES["small"], color=LIGHT["ink"]),
            paper_bgcolor=_TRANSPARENT,
            plot_bgcolor=_TRANSPARENT,
            colorway=[LIGHT[key] for key in CATEGORIES],
            xaxis=axis,
            yaxis=axis,
            hoverlabel=dict(
                align="left",
                bgcolor=LIGHT["panel"],
                bordercolor=LIGHT["outline"],
                font=dict(family=MONO, size=SIZES["small"], color=LIGHT["ink"]),
            ),
            legend=dict(
                bgcolor=_TRANSPARENT,
                orientation="h",
                x=0,
                y=1,
                yanchor="bottom",
                font=dict(size=SIZES["small"], color=LIGHT["muted"]),
            ),
        )
    )


def figure(data: list[dict[str, Any]], layout: dict[str, Any]) -> go.Figure:
    """Return ``go.Figure(data, layout)`` without Plotly's checks, which take ten times as long.

    For charts that are drawn at each step; their tests hold what they draw to the checked figure.
    Nothing is coerced, so write every property out (``title=dict(text=...)``).
    """
    return go.Figure(data, layout, _validate=False)


def base_layout(
    title: str = "",
    subtitle: str = "",
    *,
    alt: str = "",
    left: int = 48,
    right: int = 16,
    top: int = 8,
    bottom: int = 32,
    height: int | None = None,
    clickable: bool = False,
    zoom: bool = False,
    live: bool = False,
    seq: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the layout of a chart, to be used as ``go.Figure(data, layout)``.

    ``title`` (a sentence) and ``subtitle`` (how to read it) are plain text; the page draws them in
    HTML, so that they wrap and can be read aloud. ``alt`` is the text alternative for screen
    readers. The margins are px around the plot without its title. ``clickable`` shows a hand over
    the plot, ``zoom`` lets a drag zoom (set ``fixedrange=False`` on the axes too). ``live``: the
    page may move bars, markers, lines and one-line texts by itself (assets/js/patch.js). ``seq``
    orders answers: the page never lets a smaller one replace a larger. ``more`` goes to Plotly's
    layout.
    """
    above = top + (_TITLE_HEIGHT if title else 0) + (_SUBTITLE_HEIGHT if subtitle else 0)
    layout: dict[str, Any] = dict(
        template=template(),
        margin=dict(l=left, r=right, t=above, b=bottom),
        dragmode="zoom" if zoom else False,
        hovermode="closest",
        showlegend=False,
        bargap=0.35,
        uirevision="keep",  # the reader's zoom survives an update
        meta=dict(
            title=title,
            subtitle=subtitle,
            alt=alt,
            top=top,
            seq=seq,
            clickable=clickable or None,
            live=live or None,
        ),
    )
    if title:
        layout["title"] = dict(
            text=f"<b>{escape(title)}</b>",
            font=dict(size=SIZES["title"], color=LIGHT["ink"]),
            subtitle=dict(
                text=escape(subtitle), font=dict(size=SIZES["small"], color=LIGHT["muted"])
            ),
            x=0,
            xref="container",
            pad=dict(l=8),
            y=1,
            yref="container",
            yanchor="top",
        )
    if height is not None:
        layout["height"] = height
    return layout | more


def category_keys(ids: Sequence[object]) -> list[str]:
    """Return axis categories for token ids (or other keys): never number-like, one per id.

    Use them as the bars' x or y, with `category_axis`: labels may repeat or look like numbers, the
    bars still stay apart and in order.
    """
    return [f"id:{i}" for i in ids]


def category_axis(
    keys: Sequence[str], labels: Sequence[str], *, reverse: bool = False, **more: Any
) -> dict[str, Any]:
    """Return an axis with one tick per key, in the given order; labels are plain text.

    ``reverse`` puts the first at the top of a y axis.
    """
    n = len(keys)
    axis = dict(
        type="category",
        categoryorder="array",
        categoryarray=list(keys),
        tickmode="array",
        tickvals=list(keys),
        ticktext=[escape(label) for label in labels],
        tickfont=dict(family=MONO, size=SIZES["body"], color=LIGHT["ink"]),
        range=[n - 0.5, -0.5] if reverse else [-0.5, n - 0.5],
        showgrid=False,
        ticks="outside",  # invisible ticks keep labels and bars apart
        ticklen=6,
        tickcolor=_TRANSPARENT,
        fixedrange=True,
    )
    return axis | more


def number_axis(title: str = "", **more: Any) -> dict[str, Any]:
    """Return a numeric axis with a hairline grid and a plain-text title."""
    return dict(title=dict(text=escape(title)), fixedrange=True) | more


def masked() -> dict[str, Any]:
    """Return the marker of masked tokens: a grey hatch with a grey outline."""
    return dict(
        color=_TRANSPARENT,
        pattern=dict(shape="/", fgcolor=LIGHT["hatch"], bgcolor=_TRANSPARENT, size=6, solidity=0.3),
        line=dict(color=LIGHT["hatch"], width=1),
    )


def raw() -> dict[str, Any]:
    """Return the marker of the model's own probability: an outline without fill."""
    return dict(color=_TRANSPARENT, line=dict(color=LIGHT["outline"], width=1.5))


def final() -> dict[str, Any]:
    """Return the marker of the probability after all filters: the accent, filled."""
    return dict(color=LIGHT["accent"], line=dict(width=0))


def drawn() -> dict[str, Any]:
    """Return the marker of the drawn token: a ring in the attention colour."""
    return dict(symbol="circle-open", size=11, color=LIGHT["attention"], line=dict(width=2.5))


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in (v / 255 for v in _rgb(color))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
