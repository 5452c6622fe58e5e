"""Charts of a text that was read: histograms of rank, probability and entropy.

In: arrays of one number per scored token, and a translator; out: Plotly figures. Roles (the traces'
uids): bars, and text for the shares above them. The buckets' fills and hatches are those of the
coloured text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.marks import points
from playground.format import count_text, figure_text, setting_text
from playground.words import Translate

HEIGHT = 200
P_BINS = 10
ENTROPY_BINS = 12
# A bucket's fill and hatch, from well expected to least expected.
FILLS = ("ramp1", "ramp2", "ramp4", "attention")
HATCHES = ("", ".", "/", "x")


def ranks(
    ranks: np.ndarray, edges: Sequence[int], *, t: Translate, seq: int | None = None
) -> go.Figure:
    """Return how many tokens lie in each bucket of ranks (``ranks`` int [n], 1-based)."""
    found = np.searchsorted(np.asarray(edges), ranks, side="left")
    counts = np.bincount(found, minlength=len(edges) + 1)
    names = bucket_names(edges)
    first = int((ranks == 1).sum())
    title = t("read.ranks_title", share=_percent(first, len(ranks)))
    marker = dict(
        color=[theme.LIGHT[FILLS[_shade(i, len(edges))]] for i in range(len(names))],
        pattern=dict(
            shape=[HATCHES[_shade(i, len(edges))] for i in range(len(names))],
            fillmode="overlay",
            fgcolor=theme.LIGHT["paper"],
            size=8,
            solidity=0.15,
        ),
        line=dict(width=0),
    )
    keys = theme.category_keys(range(len(names)))
    axis = theme.category_axis(keys, names) | dict(
        tickfont=dict(family=theme.MONO, size=theme.SIZES["small"], color=theme.LIGHT["ink"]),
        tickangle=0,
    )
    hover = [
        theme.lines(t("read.hover_rank", name=name), _count(c, len(ranks), t))
        for name, c in zip(names, counts, strict=True)
    ]
    return _histogram(keys, counts, hover, marker, title, t("read.ranks_axis"), axis, t, seq)


def probabilities(p: np.ndarray, *, t: Translate, seq: int | None = None) -> go.Figure:
    """Return how many tokens had which probability (``p`` float [n]), in tenths."""
    counts = np.bincount(
        np.minimum((p * P_BINS).astype(int), P_BINS - 1) if len(p) else [], minlength=P_BINS
    )
    centers = (np.arange(P_BINS) + 0.5) / P_BINS
    low = int((p < 1 / P_BINS).sum())
    title = t("read.p_title", share=_percent(low, len(p)))
    hover = [
        theme.lines(f"{i / P_BINS:g}–{(i + 1) / P_BINS:g}", _count(c, len(p), t))
        for i, c in enumerate(counts)
    ]
    axis = theme.number_axis(t("read.p_axis"), range=[0, 1], dtick=0.2, zeroline=False)
    return _histogram(centers, counts, hover, _plain(), title, "", axis, t, seq)


def entropies(entropies: np.ndarray, *, t: Translate, seq: int | None = None) -> go.Figure:
    """Return how many tokens stood where the entropy was so high (float [n], nats)."""
    high = float(entropies.max(initial=0.0))
    width = _round_up(max(high, 0.1) / ENTROPY_BINS)
    bins = max(1, math.ceil(high / width + 1e-9))
    counts = np.bincount(
        np.minimum((entropies / width).astype(int), bins - 1) if len(entropies) else [],
        minlength=bins,
    )
    mean = float(entropies.mean()) if len(entropies) else 0.0
    title = t("read.entropy_title", mean=setting_text(mean))
    hover = [
        theme.lines(f"{i * width:g}–{(i + 1) * width:g}", _count(c, len(entropies), t))
        for i, c in enumerate(counts)
    ]
    axis = theme.number_axis(t("read.entropy_axis"), range=[0, bins * width], zeroline=False)
    centers = (np.arange(bins) + 0.5) * width
    return _histogram(centers, counts, hover, _plain(), title, "", axis, t, seq)


def bucket_names(edges: Sequence[int]) -> list[str]:
    """Return the buckets' names: "≤10", "≤100", "≤1,000", ">1,000"."""
    return [*(f"≤{count_text(edge)}" for edge in edges), f">{count_text(edges[-1])}"]


def _histogram(
    x: Sequence[Any],
    counts: np.ndarray,
    hover: Sequence[str],
    marker: dict[str, Any],
    title: str,
    caption: str,
    axis: dict[str, Any],
    t: Translate,
    seq: int | None,
) -> go.Figure:
    total, high = int(counts.sum()), max(1, int(counts.max(initial=0)))
    data = [
        dict(
            type="bar",
            uid="bars",
            meta={"role": "bars"},
            x=list(x),
            y=counts.tolist(),
            marker=marker,
            hoverinfo="text",
            hovertext=list(hover),
            cliponaxis=False,
        ),
    ]
    if len(counts) < 6:  # few bars carry their share
        data.append(
            points("text", list(x), counts.tolist(), "text")
            | dict(
                text=[_percent(int(c), total) for c in counts],
                textposition="top center",
                textfont=dict(size=theme.SIZES["small"], color=theme.LIGHT["muted"]),
            )
        )
    layout = theme.base_layout(
        title,
        alt=title,
        left=60,
        right=8,
        top=18,
        bottom=40,
        height=HEIGHT,
        seq=seq,
        bargap=0.12,
        xaxis=axis | (dict(title=dict(text=theme.escape(caption))) if caption else {}),
        yaxis=theme.number_axis(
            t("read.count_axis"), range=[0, high * 1.05], nticks=4, zeroline=False, tickformat=",d"
        ),
    )
    return go.Figure(data, layout)


def _plain() -> dict[str, Any]:
    return dict(color=theme.LIGHT["accent"], line=dict(width=0))


def _shade(bucket: int, edges: int) -> int:
    """Return which of the four looks a bucket takes: the last is always the least expected."""
    return len(FILLS) - 1 if bucket == edges else min(bucket, len(FILLS) - 2)


def _count(count: int, total: int, t: Translate) -> str:
    return t("read.hover_count", count=count_text(count), share=_percent(int(count), total))


def _percent(count: int, total: int) -> str:
    """Return a share in percent; what isn't none or all is never written as if it were."""
    if not total or count in (0, total):
        return "0 %" if not count or not total else "100 %"
    share = 100 * count / total
    if share < 1:
        return f"{figure_text(share)} %" if share < 0.02 else f"{share:.2f} %"
    return f"{min(share, 99.9):.1f} %" if share > 99 else f"{share:.0f} %"


def _round_up(width: float) -> float:
    """Return the next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width - 1e-12)
