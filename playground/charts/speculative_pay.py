"""Charts of a whole run and of the losslessness lab: speed by block length, distance by runs, law.

In: numbers and a translator; out: Plotly figures with roles as in charts/speculative.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.marks import bar, points
from playground.charts.speculative import CELLS, LEFT, ROOM, ROW
from playground.format import amount_text, count_text, figure_text
from playground.words import Translate

SHOWN_EMITTED = 7
_DOTS = {"predicted": "speculate.pay_predicted", "measured": "speculate.pay_measured"}
_NBSP = "\u00a0"


def payoff(
    speeds: Sequence[float],
    ideal: Sequence[float],
    *,
    t: Translate,
    gamma: int = 0,
    predicted: float | None = None,
    measured: float | None = None,
    best: int | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return the predicted speed against plain decoding by block length 0, 1, ...

    ``speeds`` takes the measured costs, ``ideal`` a block that costs the target one step. ``gamma``
    is the block length of the run, with what is ``predicted`` and was ``measured`` there; ``best``
    the best one. Roles: ideal, here, alone, best, predicted, measured, text. Empty speeds: no
    costs yet.
    """
    n = len(speeds)
    xs = list(range(n))
    high = max([1.25, *speeds, *ideal, measured or 0, predicted or 0]) * 1.12
    best_at = [best] if best is not None and n else []
    # Labels stand at the lines' ends, apart from each other.
    ends = _apart([(speeds[-1], "here"), (ideal[-1], "ideal")], 0.09 * high) if n else []
    words = {"here": t("speculate.pay_here"), "ideal": t("speculate.pay_ideal")}
    colors = {"here": "accent_text", "ideal": "muted"}

    def dot(role: str, value: float | None, symbol: str, color: str) -> dict[str, Any]:
        some = value is not None and n > 0
        hover = [theme.lines(t(_DOTS[role], speed=_times(value)))] if some else []
        marker = theme.drawn() | dict(symbol=symbol, color=theme.LIGHT[color], size=11)
        return points(role, [gamma] if some else [], [value] if some else []) | dict(
            marker=marker, hoverinfo="text", hovertext=hover
        )

    data = [
        points("ideal", xs, list(ideal), "lines")
        | dict(line=dict(color=theme.LIGHT["outline"], width=1.5, dash="dot")),
        points("here", xs, list(speeds), "lines+markers")
        | dict(
            line=dict(color=theme.LIGHT["accent"], width=2),
            marker=dict(size=5, color=theme.LIGHT["accent"]),
            hoverinfo="text",
            hovertext=[
                theme.lines(t("speculate.pay_hover", gamma=g, speed=_times(s)))
                for g, s in enumerate(speeds)
            ],
        ),
        points("alone", [0, max(n - 1, 16)], [1, 1], "lines")
        | dict(line=dict(color=theme.LIGHT["ink"], width=1, dash="dash")),
        points("best", best_at, [speeds[g] for g in best_at])
        | dict(marker=dict(symbol="triangle-up", size=11, color=theme.LIGHT["accepted"])),
        dot("predicted", predicted, "circle-open", "accent"),
        dot("measured", measured, "diamond-open", "attention"),
        points("text", [n - 1] * len(ends), [y for y, _ in ends], "text")
        | dict(
            text=[theme.escape(_NBSP * 2 + words[name]) for _, name in ends],
            textposition="middle right",
            textfont=dict(
                size=theme.SIZES["small"], color=[theme.LIGHT[colors[name]] for _, name in ends]
            ),
        ),
    ]
    title, subtitle = _pay_words(n, predicted, measured, best, t)
    layout = theme.base_layout(
        title,
        subtitle,
        alt=title,
        left=40,
        right=118,
        bottom=40,
        top=6,
        height=220,
        seq=seq,
        xaxis=theme.number_axis(
            t("speculate.pay_axis"), range=[-0.4, max(n - 1, 16) + 0.4], dtick=4, zeroline=False
        ),
        yaxis=theme.number_axis(range=[0, high], nticks=5, zeroline=False, ticksuffix="×"),
    )
    return go.Figure(data, layout)


def convergence(
    sizes: Sequence[int],
    tvs: Sequence[float],
    noise: Sequence[float],
    *,
    t: Translate,
    damage: float = 0.0,
    subtitle: str = "",
    seq: int | None = None,
) -> go.Figure:
    """Return the distance of N runs' frequencies to the target as N grows, on log scales.

    ``noise`` is what chance alone shows, ``damage`` where a biased rule's distance settles. Roles:
    noise, damage, runs, text.
    """
    logs = [v for v in (*tvs, *noise) if v > 0]
    biased = damage > 1e-9
    low = 10 ** math.floor(math.log10(min([*logs, damage] if biased else logs, default=0.01)))
    texts = []
    if sizes:
        last = math.log10(max(low, noise[-1]))
        # Where only one token is left, chance has no say and draws no line.
        spots = [(last, t("speculate.converge_noise"), "muted")] if noise[-1] > 0 else []
        if biased:
            spots.append((math.log10(damage), t("speculate.converge_damage"), "attention_text"))
        gap = 0.16 * max(1, -math.log10(low)) / 2
        order = _apart([(y, i) for i, (y, *_) in enumerate(spots)], gap)
        texts = [(10**y, *spots[i][1:]) for y, i in order]
    line = [damage, damage] if biased and sizes else []
    data = [
        points("noise", sizes, noise, "lines")
        | dict(line=dict(color=theme.LIGHT["outline"], width=1.5, dash="dot")),
        points("damage", [sizes[0], sizes[-1]] if line else [], line, "lines")
        | dict(line=dict(color=theme.LIGHT["attention"], width=2, dash="dash")),
        points("runs", sizes, [v or None for v in tvs], "lines+markers")
        | dict(
            line=dict(color=theme.LIGHT["accent"], width=2),
            marker=dict(size=6, color=theme.LIGHT["accent"]),
            hoverinfo="text",
            hovertext=[
                theme.lines(t("speculate.converge_hover", n=count_text(n), tv=figure_text(v)))
                for n, v in zip(sizes, tvs, strict=True)
            ],
        ),
        points("text", [sizes[-1]] * len(texts) if sizes else [], [y for y, *_ in texts], "text")
        | dict(
            text=[theme.escape(_NBSP + text) for _, text, _ in texts],
            textposition="middle right",
            textfont=dict(
                size=theme.SIZES["small"], color=[theme.LIGHT[color] for *_, color in texts]
            ),
        ),
    ]
    title = t("speculate.converge_empty")
    if sizes:
        title = t(
            "speculate.converge_title",
            n=count_text(sizes[-1]),
            tv=figure_text(tvs[-1]),
            noise=figure_text(noise[-1]),
        )
    right = math.log10(sizes[-1]) if sizes else 4
    decades = range(1, math.floor(right + 1e-9) + 1)
    layout = theme.base_layout(
        title,
        subtitle or t("speculate.converge_subtitle"),
        alt=title,
        left=52,
        right=112,
        bottom=40,
        top=6,
        height=220,
        seq=seq,
        xaxis=theme.number_axis(
            t("speculate.converge_axis"),
            type="log",
            range=[0.9, right + 0.05],
            tickvals=[10**k for k in decades],
            ticktext=[count_text(10**k) for k in decades],
        ),
        yaxis=_log_axis(low),
    )
    return go.Figure(data, layout)


def emitted(
    rows: Sequence[Mapping[str, Any]],
    *,
    t: Translate,
    damage: float | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return a rule's exact law over the target's, with the shares of the runs as ticks.

    Rows are {"id", "label", "target", "emitted", "share"}. Roles: emitted, target, runs, text.
    """
    keys = theme.category_keys([row["id"] for row in rows])
    tips = [max(row["target"], row["emitted"], row["share"] or 0) for row in rows]
    data = [
        bar("emitted", keys, [row["emitted"] or None for row in rows], theme.final())
        | dict(
            hoverinfo="text",
            hovertext=[
                theme.lines(
                    t("speculate.hover_id", label=row["label"], id=row["id"]),
                    t("speculate.hover_emitted", p=figure_text(row["emitted"])),
                    t("speculate.hover_target", p=figure_text(row["target"])),
                    t("speculate.hover_share", p=figure_text(row["share"] or 0)),
                )
                for row in rows
            ],
        ),
        bar("target", keys, [row["target"] or None for row in rows], theme.raw(), 0.84),
        points("runs", [row["share"] or None for row in rows], keys)
        | dict(
            marker=dict(
                symbol="line-ns-open",
                size=13,
                color=theme.LIGHT["ink"],
                line=dict(width=2, color=theme.LIGHT["ink"]),
            )
        ),
        points("text", tips, keys, "text")
        | dict(
            text=[_NBSP * 2 + _difference(row) for row in rows],
            textposition="middle right",
            textfont=dict(
                family=theme.MONO,
                size=theme.SIZES["small"],
                color=[theme.LIGHT["attention_text" if _moved(row) else "muted"] for row in rows],
            ),
        ),
    ]
    if damage is None:
        title = t("speculate.emitted_empty")
    elif damage > 1e-9:
        title = t("speculate.emitted_biased", tv=figure_text(damage))
    else:
        title = t("speculate.emitted_exact", tv=figure_text(damage))
    labels = [theme.shorten(row["label"], CELLS) for row in rows]
    axis = theme.category_axis(keys, labels, reverse=True, ticklabelstandoff=6)
    axis["tickfont"] = axis["tickfont"] | dict(size=theme.SIZES["small"])
    layout = theme.base_layout(
        title,
        t("speculate.emitted_subtitle"),
        alt=title,
        left=LEFT,
        right=8,
        bottom=4,
        top=2,
        height=ROW * SHOWN_EMITTED + 8,
        seq=seq,
        barmode="overlay",
        xaxis=theme.number_axis(range=[0, (max(tips, default=0) or 1) * ROOM], visible=False),
        yaxis=axis | dict(range=[SHOWN_EMITTED - 0.5, -0.5]),
    )
    return go.Figure(data, layout)


def _times(speed: float | None) -> str:
    return "–" if speed is None else amount_text(speed)


def _moved(row: Mapping[str, Any]) -> bool:
    return abs(row["emitted"] - row["target"]) > 5e-4


def _difference(row: Mapping[str, Any]) -> str:
    """Return a token's probability, and how far the rule moved it."""
    if not _moved(row):
        return figure_text(row["emitted"])
    sign = "+" if row["emitted"] > row["target"] else "−"
    gap = figure_text(abs(row["emitted"] - row["target"]))
    return f"{figure_text(row['emitted'])}{_NBSP}({sign}{gap})"


def _apart(spots: Sequence[tuple[float, Any]], gap: float) -> list[tuple[float, Any]]:
    """Return (y, name) with every two at least a gap apart, in their order."""
    out: list[tuple[float, Any]] = []
    for y, name in sorted(spots, key=lambda spot: spot[0]):
        out.append((max(y, out[-1][0] + gap) if out else y, name))
    return out


def _log_axis(low: float) -> dict[str, Any]:
    decades = range(round(math.log10(low)), 1)
    return theme.number_axis(
        type="log",
        range=[math.log10(low) - 0.1, 0.1],
        tickvals=[10.0**k for k in decades],
        ticktext=["1" if k == 0 else f"1e{k}" if k < -2 else f"{10.0**k:g}" for k in decades],
        zeroline=False,
    )


def _pay_words(
    n: int, predicted: float | None, measured: float | None, best: int | None, t: Translate
) -> tuple[str, str]:
    if not n or predicted is None:
        return t("speculate.pay_empty"), t("speculate.pay_subtitle")
    speed = predicted if measured is None else measured
    key = "speculate.pay_yes" if speed > 1 else "speculate.pay_no"
    return t(key, speed=_times(speed), best=best), t("speculate.pay_subtitle")
