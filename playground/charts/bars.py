"""The candidates of one sampling step as horizontal bars.

In: the view of a position (playground/payload.py; preview.js gives the same structure) and a
translator; out: a Plotly figure. Categories are token ids, never labels: tokens that look alike
keep bars of their own, and a token called "2024" is no number. Trace order never changes and empty
traces stay, so the browser can replace the arrays of a role while a slider is dragged.

A line of the chart is a token; below the listed ones stand the taken or drawn one, where it isn't
listed, and the rest. The axis has room for the longest line and its figures, in steps of √2: in
between the bars move and the axis rests, while a slider is dragged too. The rest's bar is broken
off where it would be longer than ``BREAK`` of the axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.marks import bar, points
from playground.charts.sentences import stage_text, vocabulary_size
from playground.format import count_text, figure_text, log_text
from playground.words import Translate

SHOWN = 20  # listed candidates
CELLS = 14  # width of a label in characters; longer ones are cut, the hover has them whole
ROW = 21  # px per line
ROOM = 1.45  # space for the figures right of the bars
BREAK = 0.45
LOG_ROOM = 0.45  # on the log axis, the same as a part of its length
LEAST = 1e-12  # where a log axis ends at the latest
LEFT = 164  # px for digit and label: fixed, so that bars don't jump from step to step
_NBSP = "\u00a0"
_OUTSIDE, _REST = "outside", "rest"

View = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the bars: a token, or (``rank`` 0) a token from outside the list."""

    key: str
    id: int | None
    label: str
    rank: int
    raw: float | None
    final: float
    removed_by: str

    @property
    def masked(self) -> bool:
        return bool(self.removed_by)

    @property
    def tip(self) -> float:
        """Where the longest of its bars ends."""
        return max(self.final, self.raw or 0.0)


def bars(
    view: View,
    *,
    t: Translate,
    scale: str = "linear",
    shown: int = SHOWN,
    draws: Mapping[int, int] | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return the candidates as horizontal bars, likeliest (for the model) at the top.

    Outline: the model's probability; fill: after the chain; hatch: cut, with the filter's name.
    Below the list stand the drawn or taken token if it isn't in it, and the rest, which is the last
    line always. ``scale`` is linear or log; ``draws`` token id -> count of an experiment, drawn as
    ticks. Roles: final, masked, raw, text, drawn, taken, draws.
    """
    if scale not in ("linear", "log"):
        raise ValueError(f"scale must be one of linear, log, got {scale!r}")
    rows = [_row(theme.category_keys([r["id"]])[0], r, r["rank"]) for r in view["rows"][:shown]]
    outside = _outside(view, {row.id for row in rows})
    rest, count = _rest(view, shown)
    listed = [*rows, *([outside] if outside else [])]
    lines = [*listed, rest]
    shares = _shares(draws, listed)
    low = _floor(rows) if scale == "log" else 0.0
    longest = max(row.tip for row in (lines if low else listed))
    high = _right_end(longest, low)
    most = high if low else high * BREAK  # the rest's bar is broken off here

    def at(x: float | None, row: _Row) -> float | None:
        """Return where x stands: on a log axis not left of its beginning; 0 draws no bar."""
        return None if not x else min(x, most) if row is rest else x

    def marked(name: str) -> list[_Row]:
        token = view[name]
        return [row for row in listed if token is not None and row.id == token["id"]]

    drawn = marked("drawn")
    taken = [row for row in marked("taken") if row not in drawn]
    ends = [max(at(row.tip, row) or 0, s or 0, low) for row, s in zip(lines, shares, strict=True)]
    y = [row.key for row in lines]
    ink = theme.LIGHT["ink"]
    fills = [theme.LIGHT["accent"]] * len(listed) + [theme.LIGHT["ramp2"]]
    ids = [row.id for row in lines]
    texts = [_bar_text(row, row in drawn, row in taken, t) for row in listed]
    others = t("sample.rest", count=count_text(count))
    rest_text = t("sample.rest_text", mass=_figure(rest))
    broken = f"{_NBSP}//{_NBSP}" if rest.tip > most else _NBSP
    hover = [_bar_hover(row, draws, t) for row in listed]
    data = [
        bar("final", y, [at(row.final, row) for row in lines], theme.final() | dict(color=fills))
        | dict(
            customdata=ids, hoverinfo="text", hovertext=[*hover, theme.lines(others, rest_text)]
        ),
        bar(
            "masked", y, [at(row.raw, row) if row.masked else None for row in lines], theme.masked()
        )
        | dict(customdata=ids),
        bar("raw", y, [None if row.masked else at(row.raw, row) for row in lines], theme.raw())
        | dict(customdata=ids, width=0.84),
        points("text", ends, y, "text")
        | dict(
            text=[*texts, theme.escape(broken + rest_text)],
            textposition="middle right",
            textfont=dict(
                family=theme.MONO,
                size=theme.SIZES["small"],
                color=[_text_color(row, row in drawn) for row in lines],
            ),
        ),
        points("drawn", [max(row.tip, low) for row in drawn], [row.key for row in drawn])
        | dict(marker=theme.drawn()),
        points("taken", [max(row.tip, low) for row in taken], [row.key for row in taken])
        | dict(marker=theme.drawn() | dict(symbol="diamond-open", color=ink)),
        points("draws", [at(s, row) for s, row in zip(shares, lines, strict=True)], y)
        | dict(
            marker=dict(symbol="line-ns-open", size=13, color=ink, line=dict(width=2, color=ink))
        ),
    ]
    keys = [row.key for row in rows] + [_OUTSIDE, _REST]
    axis = theme.category_axis(keys, keys, reverse=True, ticklabelstandoff=9)
    ends_of_list = [_tick(outside) if outside else "", theme.escape(others)]
    axis["ticktext"] = [_tick(row) for row in rows] + ends_of_list
    layout = theme.base_layout(
        _bars_title(view, t),
        _bars_subtitle(scale, draws, t),
        alt=_bars_alt(rows, f"{others}: {rest_text}", t),
        left=LEFT,
        right=24,
        bottom=24,
        top=4,
        height=ROW * (shown + 2) + 28,
        clickable=True,
        live=True,
        seq=seq,
        barmode="overlay",
        hovermode="y",
        xaxis=_probability_axis(low, high),
        yaxis=axis,
    )
    return theme.figure(data, layout)


def _row(key: str, token: Mapping[str, Any], rank: int) -> _Row:
    return _Row(
        key,
        token["id"],
        token["label"],
        rank,
        token.get("raw"),
        token.get("final", token.get("p", 0.0)),
        token.get("removed_by", ""),
    )


def _outside(view: View, listed: set[int | None]) -> _Row | None:
    """Return the line of the taken token, else of the drawn one, if it isn't listed."""
    for name in ("taken", "drawn"):
        token = view[name]
        if token is not None and token["id"] not in listed:
            known = next((r for r in view["rows"] if r["id"] == token["id"]), token)
            return _row(_OUTSIDE, known, 0)
    return None


def _rest(view: View, shown: int) -> tuple[_Row, int]:
    """Return the line of all tokens that aren't listed, and how many they are."""
    hidden, rest = view["rows"][shown:], view["rest"]
    final = rest["mass"] + sum(r["final"] for r in hidden)
    raw = rest["raw"] + sum(r["raw"] for r in hidden)
    kept = rest["kept"] + sum(not r["removed_by"] for r in hidden)
    count = rest["n"] + len(hidden)
    return _Row(_REST, None, "", 0, raw, final if kept else 0.0, "" if kept else _REST), count


def _floor(rows: list[_Row]) -> float:
    """Return where the log axis begins: a decade below the least listed probability."""
    least = min((row.raw for row in rows if row.raw), default=1.0)
    return max(LEAST, 10.0 ** (math.floor(math.log10(max(least, LEAST))) - 0.5))


def _right_end(longest: float, low: float) -> float:
    """Return the axis end that leaves room for the figures of bars up to the next step of √2."""
    step = 2.0 ** (math.ceil(2 * math.log2(longest)) / 2) if longest else 1.0
    return step * ((step / low) ** LOG_ROOM if low else ROOM)


def _tick(row: _Row) -> str:
    """Return the key digit and the label, flush in a monospace font; fainter where masked."""
    label = theme.shorten(row.label, CELLS)
    pad = _NBSP * (CELLS - theme.width(label))
    text = f"{row.rank if 1 <= row.rank <= 9 else _NBSP}{_NBSP}{pad}{theme.escape(label)}"
    return f'<span style="opacity:0.62">{text}</span>' if row.masked else text


def _bar_text(row: _Row, drawn: bool, taken: bool, t: Translate) -> str:
    """Return the figure beside a bar: what counts now, and why if that is nothing."""
    parts = [_figure(row)]
    if row.masked:
        parts.append(f"<i>{theme.escape(_cut_text(row.removed_by, t))}</i>")
    if drawn or taken:
        parts.append(theme.escape(t("sample.drawn" if drawn else "sample.taken")))
    # Markers stand on the tip: the text keeps clear of them.
    return _NBSP * (2 if drawn or taken else 1) + (_NBSP * 2).join(parts)


def _cut_text(stage: str, t: Translate) -> str:
    if stage == "model":
        return t("sample.cut_model")
    if stage == "temperature":  # at 0 it keeps one token
        return t("sample.cut_greedy")
    return t("sample.cut_by", stage=stage_text(stage, t))


def _text_color(row: _Row, drawn: bool) -> str:
    return theme.LIGHT["attention_text" if drawn else "muted" if row.masked else "ink"]


def _bar_hover(row: _Row, draws: Mapping[int, int] | None, t: Translate) -> str:
    total = sum(draws.values()) if draws else 0
    found = draws.get(row.id, 0) if draws else 0
    nats = math.log(row.raw) if row.raw else -math.inf
    texts = [t("sample.hover_id", label=row.label, id=row.id)]
    if row.masked:
        texts.append(_cut_text(row.removed_by, t))
    else:
        texts.append(t("sample.hover_final", p=figure_text(row.final)))
    if row.raw is not None:
        rank = count_text(row.rank) if row.rank else "–"
        texts.append(t("sample.hover_model", p=figure_text(row.raw), rank=rank))
        bits = log_text(nats / math.log(2))
        texts.append(t("sample.hover_log", nats=log_text(nats), bits=bits))
    if total:
        share = figure_text(found / total)
        texts.append(t("sample.hover_draws", count=count_text(found), total=total, p=share))
    return theme.lines(*texts)


def _figure(row: _Row) -> str:
    """Return what counts now: the final probability, or the model's own where it was cut."""
    return figure_text((row.raw or 0.0) if row.masked else row.final)


def _shares(draws: Mapping[int, int] | None, listed: list[_Row]) -> list[float | None]:
    """Return each line's share of the draws, the rest's last."""
    total = sum(draws.values()) if draws else 0
    counts = [draws.get(row.id, 0) if draws else 0 for row in listed]
    return [c / total if c else None for c in [*counts, total - sum(counts)]]


def _probability_axis(low: float, high: float) -> dict[str, Any]:
    if not low:
        return theme.number_axis(range=[0, high], nticks=5, rangemode="tozero", zeroline=True)
    decades = range(math.ceil(math.log10(low)), 1)
    decades = decades[:: -max(1, len(decades) // 6)]
    return theme.number_axis(
        type="log",
        range=[math.log10(low), math.log10(high)],
        tickvals=[10.0**k for k in decades],
        ticktext=["1" if k == 0 else f"1e{k}" for k in decades],
    )


def _bars_title(view: View, t: Translate) -> str:
    size, kept = vocabulary_size(view), view["kept"]
    key = "all" if kept == size else "one" if kept == 1 else ""
    name = "sample.bars_title" + (f"_{key}" if key else "")
    return t(name, kept=count_text(kept), size=count_text(size))


def _bars_subtitle(scale: str, draws: Mapping[int, int] | None, t: Translate) -> str:
    if draws:
        return t("sample.bars_subtitle_draws", count=count_text(sum(draws.values())))
    return t("sample.bars_subtitle_log" if scale == "log" else "sample.bars_subtitle")


def _bars_alt(rows: list[_Row], rest: str, t: Translate) -> str:
    best = ", ".join(f"{row.label} {figure_text(row.final)}" for row in rows[:5])
    return t("sample.bars_alt", list=best, rest=rest)
