"""Charts of one sampling step: candidate bars, the filters' ledger, the dice, and curves.

In: the view of a position (playground/payload.py; preview.js gives the same structure) and a
translator; out: Plotly figures, all with the same keywords. The bars are charts/bars.py; the whole
vocabulary and the run's course are charts/curves.py.

Every trace has a role, as ``uid`` and in ``meta``; the traces and their order never change, empty
ones stay. So the browser can replace the arrays of a role while a slider is dragged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.bars import bars
from playground.charts.curves import trajectory, zipf
from playground.charts.marks import bar, points
from playground.charts.sentences import flip_sentence, removed, stage_text
from playground.format import amount_text, count_text, figure_text
from playground.records import SamplingParams
from playground.words import Translate

__all__ = ["bars", "dice", "ledger", "trajectory", "zipf"]

DICE_HEIGHT = 190  # px
LINE = 0.11  # a line of text as a part of the curve's height
_NBSP = "\u00a0"

Label = Callable[[int], str]
View = Mapping[str, Any]
_Text = tuple[float, float, str, str, str]  # x, y, text, position, colour key


def ledger(
    view: View, *, t: Translate, params: SamplingParams | None = None, seq: int | None = None
) -> go.Figure:
    """Return who cut what: per stage the tokens left (log scale) and the mass removed.

    The hatch goes from what a stage left to what it found; masses are shares of the whole, so they
    add up to the mass cut. ``params`` puts the settings beside the names. Roles: left, cut, text,
    removed.
    """
    rows = view["ledger"]
    masses = removed(rows)
    names = [stage_text(row["name"], t, params) for row in rows]
    keys = [f"{i}:{row['name']}" for i, row in enumerate(rows)]
    kept = [row["kept"] for row in rows]
    found = [kept[0], *kept[:-1]]
    colors = [theme.LIGHT[theme.RAMP[min(1 + i, 5)]] for i in range(len(rows))]
    hover = [
        theme.lines(
            name,
            t("sample.ledger_hover", count=count_text(n)),
            t(
                "sample.ledger_hover_removed",
                removed=figure_text(mass),
                share=figure_text(row["removed"]),
            )
            if mass
            else "",
            t("sample.ledger_hover_entropy", entropy=amount_text(row["entropy"])),
        )
        for name, n, mass, row in zip(names, kept, masses, rows, strict=True)
    ]
    text = dict(family=theme.MONO, size=theme.SIZES["small"])
    data = [
        bar("left", keys, kept, dict(color=colors, line=dict(width=0)), 0.56)
        | dict(base=0, hoverinfo="text", hovertext=hover),
        bar("cut", keys, [f - n or None for f, n in zip(found, kept, strict=True)], theme.masked())
        | dict(base=kept, width=0.56),
        points("text", found, keys)
        | dict(
            mode="text",
            text=[_NBSP + count_text(n) for n in kept],
            textposition="middle right",
            textfont=text | dict(color=theme.LIGHT["ink"]),
        ),
        points("removed", [1] * len(rows), keys)
        | dict(
            mode="text",
            xaxis="x2",
            text=[f"−{figure_text(mass)}" if mass else "" for mass in masses],
            textposition="middle left",
            textfont=text | dict(color=theme.LIGHT["muted"]),
        ),
    ]
    size = math.log10(max(kept[0], 2))
    listed = ", ".join(f"{name} {count_text(n)}" for name, n in zip(names, kept, strict=True))
    axis = theme.category_axis(keys, names, reverse=True, ticklabelstandoff=6)
    axis["tickfont"] = axis["tickfont"] | dict(family=theme.SANS, size=theme.SIZES["small"])
    layout = theme.base_layout(
        t("sample.ledger_title"),
        t("sample.ledger_subtitle"),
        alt=t("sample.ledger_alt", list=listed),
        left=116,
        right=8,
        bottom=4,
        top=4,
        height=26 * max(len(rows), 5) + 10,
        live=True,
        seq=seq,
        barmode="overlay",
        hovermode="y",
        xaxis=dict(type="log", range=[-0.25, size * 2.2], visible=False),
        xaxis2=dict(range=[0, 1], overlaying="x", visible=False, fixedrange=True),
        # Few stages keep their height instead of growing fat.
        yaxis=axis | dict(range=[max(len(rows), 5) - 0.5, -0.5]),
    )
    return theme.figure(data, layout)


def dice(
    view: View,
    *,
    t: Translate,
    u: float | None = None,
    flips: Mapping[str, Sequence[tuple[float, int, bool]]] | None = None,
    label: Label | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return u on the cumulative curve of the surviving tokens, likeliest first.

    ``u`` is for views without one of their own; None means greedy. ``flips`` (of explain.flips) say
    in the subtitle at which settings the same dice draw another token; ``label`` names those.
    Roles: cdf, tail, u, interval, hit, text. Curve and labels never meet: a label stands right of
    its riser, under the tread, where a rising curve can't be.
    """
    drawn = view["drawn"]
    u = view.get("u", u)  # the view knows when it is greedy
    steps = view["cdf"]
    n = len(steps)
    place = _place(steps, drawn)
    more = view["kept"] > n
    right = n + (1.2 if more else 0)
    tail_x, tail_y = _tail(steps, drawn, place, more)
    hit = drawn is not None
    level = u if u is not None else drawn["before"] + drawn["p"] / 2 if hit else None
    texts = _riser_labels(steps, drawn, place, t)
    if u is not None:
        texts.append((0, u, f"{u:.3f}{_NBSP * 2}", "middle left", "attention_text"))
    data = [
        points("cdf", list(range(n + 1)), [0.0, *(s["upto"] for s in steps)])
        | dict(mode="lines", line=dict(color=theme.LIGHT["accent"], width=2, shape="vh")),
        points("tail", tail_x, tail_y)
        | dict(mode="lines", line=dict(color=theme.LIGHT["accent"], width=1.5, dash="dot")),
        points("u", [] if u is None else [0, place], [] if u is None else [u, u])
        | dict(mode="lines", line=dict(color=theme.LIGHT["attention"], width=2, dash="dash")),
        points(
            "interval",
            [place, place] if hit else [],
            [drawn["before"], drawn["before"] + drawn["p"]] if hit else [],
        )
        | dict(mode="lines", line=dict(color=theme.LIGHT["attention"], width=4)),
        points("hit", [place] if hit else [], [level] if hit else []) | dict(marker=theme.drawn()),
        points("text", [x for x, *_ in texts], [y for _, y, *_ in texts])
        | dict(
            mode="text",
            text=[theme.escape(text) for _, _, text, *_ in texts],
            textposition=[position for *_, position, _ in texts],
            textfont=dict(
                family=theme.MONO,
                size=theme.SIZES["small"],
                color=[theme.LIGHT[color] for *_, color in texts],
            ),
        ),
    ]
    title, subtitle = _dice_words(view, u, flips, label, t)
    ticks = [v for v in (0, 1) if u is None or abs(v - u) > LINE]  # u's own figure comes first
    layout = theme.base_layout(
        title,
        subtitle,
        alt=title if u is None else _dice_alt(view, u, t),
        left=56,
        right=12,
        bottom=26,
        top=10,
        height=DICE_HEIGHT,
        live=True,
        seq=seq,
        xaxis=theme.number_axis(
            t("sample.dice_axis"),
            range=[-0.015 * max(right, 1), max(right, 1) * 1.02],
            showgrid=False,
            showticklabels=False,
            zeroline=False,
        ),
        yaxis=theme.number_axis(
            range=[-0.03, 1.05],
            tickvals=ticks,
            ticktext=[str(v) for v in ticks],
            ticklabelstandoff=4,
            zeroline=False,
        ),
    )
    return theme.figure(data, layout)


def _place(steps: Sequence[Mapping[str, Any]], drawn: Mapping[str, Any] | None) -> float:
    """Return the x of the drawn token's riser: its place, or beyond the steps that are shown."""
    if drawn is None:
        return 0.0
    places = (i for i, step in enumerate(steps) if step["id"] == drawn["id"])
    return next(places, len(steps) + 0.6)


def _tail(
    steps: Sequence[Mapping[str, Any]],
    drawn: Mapping[str, Any] | None,
    place: float,
    more: bool,
) -> tuple[list[float], list[float]]:
    """Return the curve beyond the shown steps, through the drawn token if that is out there."""
    if not more:
        return [], []
    n, last = len(steps), steps[-1]["upto"]
    if drawn is None or place < n:
        return [n, n + 1.2], [last, 1.0]
    low = drawn["before"]
    return [n, place, place, n + 1.2], [last, low, min(1.0, low + drawn["p"]), 1.0]


def _riser_labels(
    steps: Sequence[Mapping[str, Any]],
    drawn: Mapping[str, Any] | None,
    place: float,
    t: Translate,
) -> list[_Text]:
    """Return labels for the drawn token and for all risers tall enough to hold a line of text."""
    out: list[_Text] = []
    taken = []  # the levels that have a label
    if drawn is not None:
        middle = drawn["before"] + drawn["p"] / 2
        late = place > 0.62 * len(steps)
        text = theme.shorten(drawn["label"] or t("sample.unnamed"), 16)
        side = "middle left" if late else "middle right"
        # Left of the curve runs the dashed line of u: the label stands above it.
        level = min(middle + LINE * 0.9, 1.0) if late else middle
        out.append((place, level, f"{_NBSP * 2}{text}{_NBSP * 2}", side, "attention_text"))
        taken.append(middle)
    for i, step in enumerate(steps):
        middle = step["upto"] - step["p"] / 2
        if step["p"] >= LINE and all(abs(middle - level) >= LINE for level in taken):
            text = _NBSP + theme.shorten(step["label"], 14)
            out.append((i, middle, text, "middle right", "muted"))
            taken.append(middle)
    return out


def _dice_words(
    view: View,
    u: float | None,
    flips: Mapping[str, Sequence[tuple[float, int, bool]]] | None,
    label: Label | None,
    t: Translate,
) -> tuple[str, str]:
    drawn = view["drawn"]
    if drawn is None or u is None:
        best = drawn or view["cdf"][0]
        return t("sample.dice_greedy", label=best["label"]), t("sample.dice_subtitle_greedy")
    name = drawn["label"] or t("sample.unnamed")
    title = t("sample.dice_title", u=f"{u:.3f}", label=name)
    if flips is None or label is None:
        return title, t("sample.dice_subtitle")
    return title, flip_sentence(flips, t, label)


def _dice_alt(view: View, u: float, t: Translate) -> str:
    drawn = view["drawn"]
    low, high = drawn["before"], drawn["before"] + drawn["p"]
    return t(
        "sample.dice_alt",
        count=count_text(view["kept"]),
        u=f"{u:.3f}",
        low=figure_text(low),
        high=figure_text(high),
    )
