"""Curves: the whole vocabulary by rank (after Zipf), and a run's surprisal step by step.

In: log-probabilities [V] or Steps, with a translator; out: Plotly figures. A curve of 50,000 or
260,000 tokens is drawn from about a hundred ranks, spread evenly on the log scale; the first ranks
and the last are always among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.marks import points
from playground.format import amount_text, count_text, figure_text
from playground.ranking import alive, descending
from playground.records import Step
from playground.words import Translate

RANKS = 100
STEPS = 400  # a longer run shows its last steps
NAMED = 10  # ranks whose label the hover has

Label = Callable[[int], str]


def zipf(
    model: np.ndarray,
    final: np.ndarray | None = None,
    *,
    t: Translate,
    label: Label | None = None,
    drawn: int | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return rank against probability of all tokens, both scales logarithmic.

    ``model`` and ``final`` are normalised log-probabilities [V], -inf = masked; each curve is
    sorted by itself. ``drawn`` is ringed on the model's curve. Roles: model, final, drawn, names.
    """
    final = model if final is None else final
    order = descending(model)
    sorted_model = model[order]
    ranks, p = _sampled(sorted_model)
    falling = np.sort(alive(final))[::-1]
    final_ranks, final_p = _sampled(falling)
    ring = [] if drawn is None else [int(np.flatnonzero(order == drawn)[0]) + 1]
    ring = [rank for rank in ring if sorted_model[rank - 1] > -np.inf]
    kept = len(falling)
    nucleus = int(np.searchsorted(np.cumsum(np.exp(sorted_model)), 0.9, side="left")) + 1
    size = len(model)
    same = kept == size and np.allclose(final_p, p, rtol=1e-6, atol=0)
    line = dict(mode="lines", hoverinfo="text")
    dot = "lines+markers" if len(final_ranks) == 1 else "lines"  # one token is a point
    names = _names(ranks, p, final_ranks, final_p, same, t)
    data = [
        points("model", ranks, p)
        | line
        | dict(
            line=dict(color=theme.LIGHT["outline"], width=1.5),
            hovertext=[_zipf_hover(r, q, order, label, t) for r, q in zip(ranks, p, strict=True)],
        ),
        points("final", final_ranks, final_p)
        | line
        | dict(
            line=dict(color=theme.LIGHT["accent"], width=2.5),
            mode=dot,
            marker=dict(size=7, color=theme.LIGHT["accent"]),
            hovertext=[
                theme.lines(t("sample.zipf_hover", rank=count_text(r), p=figure_text(q)))
                for r, q in zip(final_ranks, final_p, strict=True)
            ],
        ),
        points("drawn", ring, [float(np.exp(sorted_model[r - 1])) for r in ring])
        | dict(marker=theme.drawn()),
        points("names", [x for x, *_ in names], [y for _, y, *_ in names])
        | dict(
            mode="text",
            text=["\u00a0\u00a0" + theme.escape(text) for _, _, text, *_ in names],
            textposition=[position for *_, position in names],
            textfont=dict(
                family=theme.SANS,
                size=theme.SIZES["small"],
                color=[theme.LIGHT[color] for *_, color, _ in names],
            ),
        ),
    ]
    top = max(p[0], final_p[0])
    least = math.log10(min(p[-1], final_p[-1]))
    deepest = math.floor(least)
    decades = range(0, deepest - 1, min(-1, deepest // 5))
    layout = theme.base_layout(
        t("sample.zipf_title", count=count_text(nucleus), size=count_text(size)),
        t("sample.zipf_subtitle"),
        alt=t(
            "sample.zipf_alt",
            first=figure_text(p[0]),
            last=figure_text(p[-1]),
            size=count_text(len(np.flatnonzero(model > -np.inf))),
            kept=count_text(kept),
        ),
        left=56,
        right=16,
        bottom=36,
        height=210,
        live=True,
        seq=seq,
        xaxis=theme.number_axis(
            t("sample.zipf_rank"),
            type="log",
            range=[-0.08, math.log10(max(size, 2)) + 0.1],
            tickvals=[10**k for k in range(7) if 10**k <= size],
            ticktext=[f"{10**k:,}" for k in range(7) if 10**k <= size],
        ),
        yaxis=theme.number_axis(
            type="log",
            # In half decades: the axis rests while a slider moves the curve a little.
            range=[math.floor(2 * least - 0.4) / 2, math.ceil(2 * math.log10(top)) / 2 + 1],
            tickvals=[10.0**k for k in decades],
            ticktext=["1" if k == 0 else f"1e{k}" for k in decades],
        ),
    )
    return theme.figure(data, layout)


def trajectory(
    steps: Sequence[Step],
    *,
    t: Translate,
    label: Label | None = None,
    first: int = 0,
    selected: int | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return each taken token's surprisal against the model's entropy before it, in nats.

    ``first`` is the absolute position of the first step (the prompt's length); clicks carry the
    absolute position, and ``selected`` is one. Roles: entropy, surprisal, selected, names.
    """
    skipped = max(0, len(steps) - STEPS)
    steps = steps[skipped:]
    x = [first + skipped + i for i in range(len(steps))]
    entropy = [step.entropy for step in steps]
    surprisal = [-step.model_logprob if step.model_logprob > -math.inf else None for step in steps]
    known = [s for s in surprisal if s is not None]
    hover = [
        theme.lines(
            label(step.token_id) if label else f"#{step.token_id}",
            t(
                "sample.trajectory_hover",
                surprisal="∞" if s is None else amount_text(s),
                entropy=amount_text(h),
            ),
        )
        for step, s, h in zip(steps, surprisal, entropy, strict=True)
    ]
    picked = [
        i for i, position in enumerate(x) if position == selected and surprisal[i] is not None
    ]
    ends = [(entropy, "entropy", "muted"), (surprisal, "surprisal", "accent_text")]
    names = [(x[-1], v[-1], key, color) for v, key, color in ends if x and v[-1] is not None]
    if len(names) == 2 and abs(names[0][1] - names[1][1]) < 0.12 * max([1.0, *known, *entropy]):
        # Labels that would collide: the higher line's goes up, the lower one's down.
        upper = names[0][1] >= names[1][1]
        sides = ["top right", "bottom right"] if upper else ["bottom right", "top right"]
    else:
        sides = ["middle right"] * len(names)
    data = [
        points("entropy", x, entropy)
        | dict(mode="lines", line=dict(color=theme.LIGHT["outline"], width=1.5, dash="dot")),
        points("surprisal", x, surprisal)
        | dict(
            mode="lines+markers",
            line=dict(color=theme.LIGHT["accent"], width=2),
            marker=dict(size=5, color=theme.LIGHT["accent"]),
            customdata=x,
            hoverinfo="text",
            hovertext=hover,
        ),
        points("selected", [x[i] for i in picked], [surprisal[i] for i in picked])
        | dict(marker=theme.drawn()),
        points("names", [x for x, *_ in names], [y for _, y, *_ in names])
        | dict(
            mode="text",
            text=["\u00a0" + theme.escape(t(f"sample.trajectory_{key}")) for _, _, key, _ in names],
            textposition=sides,
            textfont=dict(
                family=theme.SANS,
                size=theme.SIZES["small"],
                color=[theme.LIGHT[color] for *_, color in names],
            ),
        ),
    ]
    title = t("sample.trajectory_empty")
    if known:
        mean = amount_text(sum(known) / len(known))
        expected = amount_text(sum(entropy) / len(entropy))
        title = t("sample.trajectory_title", surprisal=mean, entropy=expected)
    layout = theme.base_layout(
        title,
        t("sample.trajectory_subtitle"),
        alt=t("sample.trajectory_alt", count=count_text(len(steps))),
        left=44,
        right=84,
        bottom=36,
        height=180,
        clickable=True,
        seq=seq,
        xaxis=theme.number_axis(
            t("sample.trajectory_axis"),
            range=[x[0] - 0.5, max(x[-1], x[0] + 7) + 0.5] if x else [0, 1],
            nticks=8,
            tickformat=",d",
            showgrid=False,
        ),
        yaxis=theme.number_axis(t("components.nats"), rangemode="tozero", nticks=4),
    )
    return theme.figure(data, layout)


def _sampled(logprobs: np.ndarray) -> tuple[list[int], list[float]]:
    """Return about RANKS ranks (from 1) and probabilities of a descending [V], -inf left out."""
    n = int(np.count_nonzero(logprobs > -np.inf))
    spread = np.geomspace(1, max(n, 1), RANKS).round().astype(int)
    ranks = np.unique(np.concatenate([np.arange(1, min(n, NAMED) + 1), spread, [n]]))
    # A probability that underflows has no place on a log scale.
    p = np.maximum(np.exp(logprobs[ranks - 1]), 1e-300)
    return ranks.tolist(), [float(f"{value:.5g}") for value in p]


def _names(
    ranks: list[int],
    p: list[float],
    final_ranks: list[int],
    final_p: list[float],
    same: bool,
    t: Translate,
) -> list[tuple[float, float, str, str, str]]:
    """Return x, y, text, colour and position of the curves' names, clear of both curves.

    The upper curve has its name above to the right, the lower one below to the left: falling curves
    leave those corners free.
    """
    middle = len(ranks) // 2
    model = ranks[middle], p[middle], t("sample.zipf_model"), "muted"
    if same:
        return [(*model, "top right")]
    at = len(final_ranks) // 2
    final = final_ranks[at], final_p[at], t("sample.zipf_final"), "accent_text"
    # Where the final curve ends before the model's name it is out of the way.
    upper = final_p[-1] > p[middle] or np.interp(ranks[middle], final_ranks, final_p) > p[middle]
    ends = final_ranks[-1] < ranks[middle]
    if ends or upper:
        return [(*model, "top right" if ends else "bottom left"), (*final, "top right")]
    return [(*model, "top right"), (*final, "bottom left")]


def _zipf_hover(rank: int, p: float, order: np.ndarray, label: Label | None, t: Translate) -> str:
    text = t("sample.zipf_hover", rank=count_text(rank), p=figure_text(p))
    named = label is not None and rank <= NAMED
    return theme.lines(label(int(order[rank - 1])) if named else "", text)
