"""The plane of one position: every token by the expert's and the amateur's log-probability.

In: a ContrastiveStep, labels and a translator; out: a Plotly figure. Right is what the expert
likes, down is what the amateur doesn't: the choice of contrastive decoding is the plausible token
farthest that way. What is drawn of a large vocabulary, at most ``MARKERS`` tokens, depends on the
two models alone, so only lines and rings move when a setting does.

Every trace has a role, as ``uid`` and in ``meta``. The names of the tokens that matter stand in the
right margin, apart from each other, with a line to their point: they never lie on the points.

What is less probable than the plane's lower edge stands on the edge, with a triangle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.contrastive_lines import Box, Point, box_of, iso, line, lines, place, shade
from playground.charts.marks import points
from playground.format import count_text, figure_text, log_text, setting_text
from playground.ranking import descending
from playground.records.contrastive import ContrastiveStep
from playground.words import Translate

HEIGHT = 348  # px
LEFT, RIGHT, TOP, BOTTOM = 46, 108, 22, 40
HEAD, TAIL, APART = 240, 180, 40  # the expert's best, evenly from the rest, the largest ratios
MARKERS = HEAD + TAIL + APART + 3
CELLS = 13  # width of a name in characters
GAP = 36  # px between two names

Label = Callable[[int], str]


def plane(
    step: ContrastiveStep,
    *,
    label: Label,
    t: Translate,
    taken: int | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return the plane. ``taken`` is the token that was taken here, else what the settings take.

    Roles: cloud, plausible, iso, best, threshold, leads, favourite, winner, taken.
    """
    taken = step.step.token_id if taken is None and step.step is not None else taken
    ids = shown(step, taken)
    box = box_of(step, ids)
    good = step.plausible[ids]
    named = _names(step, taken, t)
    at = {i: place(step, i, box) for i, _, _ in named}
    best = line(step, step.scores[step.winner], box)
    edge = [] if step.params.plausibility == 0 else [max(step.threshold, box[0])] * 2
    data = [
        _tokens("cloud", step, ids[~good], box, label, t)
        | dict(marker=_marker(step, ids[~good], box, "circle-open", 5, "outline")),
        _tokens("plausible", step, ids[good], box, label, t)
        | dict(marker=_marker(step, ids[good], box, "circle", 7, "accent")),
        lines("iso", iso(step, box), dict(color=theme.LIGHT["hairline"], width=1)),
        lines("best", [best], dict(color=theme.LIGHT["attention"], width=1.5, dash="dash")),
        points("threshold", edge, [box[2], box[3]] if edge else [], "lines")
        | dict(line=dict(color=theme.LIGHT["accent"], width=1.5)),
        *_leads(named, at, box),
        *(_ring(role, key, size, at, named) for role, key, size in _RINGS),
    ]
    # Lines lie under the points.
    order = ["iso", "best", "threshold", "cloud", "plausible"]
    data.sort(key=lambda one: order.index(one["uid"]) if one["uid"] in order else len(order))
    layout = theme.base_layout(
        _title(step, label, t),
        t("contrast.plane_subtitle"),
        alt=_alt(step, label, t),
        left=LEFT,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
        height=HEIGHT,
        clickable=True,
        seq=seq,
        xaxis=theme.number_axis(t("contrast.axis_expert"), range=list(box[:2]), zeroline=False),
        yaxis=theme.number_axis(t("contrast.axis_amateur"), range=list(box[2:]), zeroline=False),
        shapes=[shade(step, box)],
        annotations=[_threshold_text(step, box, t), *_texts(named, at, box, label)],
    )
    return go.Figure(data, layout)


def shown(step: ContrastiveStep, taken: int | None = None) -> np.ndarray:
    """Return the ids that are drawn, ascending: the expert's best ``HEAD``, the ``APART`` it
    prefers most over the amateur, ``TAIL`` evenly from the rest, and what has a name.
    """
    expert, amateur = step.expert_logprobs, step.amateur_logprobs
    order = descending(expert)[: int(np.count_nonzero(expert > -np.inf))]
    rest = order[HEAD:]
    even = (
        rest[np.linspace(0, len(rest) - 1, min(TAIL, len(rest))).astype(int)] if len(rest) else []
    )
    known = order[amateur[order] > -np.inf]
    apart = known[np.argsort(amateur[known] - expert[known], kind="stable")[:APART]]
    named = [i for i in (step.winner, step.favourite, taken) if i is not None]
    named = [i for i in named if expert[i] > -np.inf]
    return np.unique(np.concatenate([order[:HEAD], even, apart, named]).astype(int))


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places near the ``wanted`` ones, in their order, at least ``gap`` apart, in bounds."""
    order = sorted(range(len(wanted)), key=lambda i: -wanted[i])
    found = [0.0] * len(wanted)
    ceiling = high
    for i in order:
        found[i] = ceiling = min(wanted[i], ceiling)
        ceiling -= gap
    floor = low
    for i in reversed(order):
        found[i] = floor = max(found[i], floor)
        floor += gap
    return found


# Role, colour, size of the rings around the tokens with a name; the taken one's is a diamond.
_RINGS = (("favourite", "accent", 17), ("winner", "attention", 13), ("taken", "ink", 15))
_TEXTS = {"favourite": "accent_text", "winner": "attention_text", "taken": "ink"}

_Names = list[tuple[int, list[str], str]]


def _names(step: ContrastiveStep, taken: int | None, t: Translate) -> _Names:
    """Return (id, roles, word) of the tokens with a name, one entry for each id."""
    roles: dict[int, list[str]] = {}
    for role, i in (("favourite", step.favourite), ("winner", step.winner), ("taken", taken)):
        if i is not None and step.expert_logprobs[i] > -np.inf:
            roles.setdefault(i, []).append(role)
    if taken == step.winner:
        roles[taken].remove("taken")
    words = {
        "favourite": t("contrast.name_favourite"),
        "winner": t("contrast.name_winner"),
        "taken": t("contrast.name_taken"),
    }
    both = t("contrast.name_both")
    return [
        (i, some, both if len(some) > 1 and i == step.winner else " + ".join(map(words.get, some)))
        for i, some in roles.items()
    ]


def _tokens(
    role: str, step: ContrastiveStep, ids: np.ndarray, box: Box, label: Label, t: Translate
) -> dict[str, Any]:
    places = [place(step, int(i), box) for i in ids]
    return points(role, [round(x, 3) for x, _ in places], [round(y, 3) for _, y in places]) | dict(
        customdata=[int(i) for i in ids],
        hoverinfo="text",
        hovertext=[hover(step, int(i), label, t) for i in ids],
    )


def hover(
    step: ContrastiveStep, i: int, label: Label, t: Translate, law: np.ndarray | None = None
) -> str:
    """Return a token's hover text; ``law`` [V], the log-probs it is drawn by, adds its chance."""
    expert, amateur = float(step.expert_logprobs[i]), float(step.amateur_logprobs[i])
    score = t("contrast.hover_score", score=log_text(float(step.scores[i])))
    return theme.lines(
        t("contrast.hover_id", label=label(i), id=i),
        t("contrast.hover_expert", p=figure_text(math.exp(expert)), nats=log_text(expert)),
        t("contrast.hover_amateur", p=figure_text(math.exp(amateur)), nats=log_text(amateur)),
        score if step.plausible[i] else t("contrast.hover_out"),
        t("contrast.hover_chance", p=figure_text(math.exp(law[i]))) if law is not None else "",
    )


def _marker(
    step: ContrastiveStep, ids: np.ndarray, box: Box, symbol: str, size: int, color: str
) -> dict[str, Any]:
    below = (step.expert_logprobs[ids] < box[0]) | (step.amateur_logprobs[ids] < box[2])
    other = "triangle-down-open" if symbol.endswith("open") else "triangle-down"
    return dict(
        symbol=[other if off else symbol for off in below],
        size=size,
        color=theme.LIGHT[color],
        opacity=0.8,
        line=dict(width=1),
    )


def _heights(named: _Names, at: dict[int, Point], box: Box) -> list[float]:
    """Return where the names stand, in nats."""
    nats = (box[3] - box[2]) / (HEIGHT - TOP - BOTTOM)
    half = GAP * nats / 2
    return spread([at[i][1] for i, _, _ in named], GAP * nats, box[2] + half, box[3] - half)


def _leads(named: _Names, at: dict[int, Point], box: Box) -> list[dict[str, Any]]:
    ends = [
        [at[i], (box[1], height)]
        for (i, _, _), height in zip(named, _heights(named, at, box), strict=True)
    ]
    return [lines("leads", ends, dict(color=theme.LIGHT["outline"], width=1))]


def _ring(role: str, key: str, size: int, at: dict[int, Point], named: _Names) -> dict[str, Any]:
    here = [at[i] for i, roles, _ in named if role in roles]
    symbol = "diamond-open" if role == "taken" else "circle-open"
    marker = dict(symbol=symbol, size=size, color=theme.LIGHT[key], line=dict(width=2.5))
    return points(role, [x for x, _ in here], [y for _, y in here]) | dict(marker=marker)


def _texts(named: _Names, at: dict[int, Point], box: Box, label: Label) -> list[dict[str, Any]]:
    found = []
    for (i, roles, word), height in zip(named, _heights(named, at, box), strict=True):
        color = _TEXTS["winner" if "winner" in roles else roles[0]]
        name = theme.escape(theme.shorten(label(i), CELLS))
        found.append(
            dict(
                xref="paper",
                x=1,
                y=height,
                xshift=4,
                xanchor="left",
                yanchor="middle",
                align="left",
                showarrow=False,
                text=f"{theme.escape(word)}<br><b>{name}</b>",
                font=dict(family=theme.MONO, size=theme.SIZES["small"], color=theme.LIGHT[color]),
            )
        )
    return found


def _threshold_text(step: ContrastiveStep, box: Box, t: Translate) -> dict[str, Any]:
    """Return the line's words above the plane, on the side where there is room."""
    edge = max(step.threshold, box[0])
    right = (edge - box[0]) / (box[1] - box[0]) > 0.45
    if step.params.plausibility == 0:
        text = t("contrast.threshold_none")
    else:
        text = t("contrast.threshold", part=setting_text(step.params.plausibility))
    return dict(
        x=edge,
        y=box[3],
        xanchor="right" if right else "left",
        yanchor="bottom",
        showarrow=False,
        text=theme.escape(text),
        font=dict(size=theme.SIZES["small"], color=theme.LIGHT["accent_text"]),
    )


def _title(step: ContrastiveStep, label: Label, t: Translate) -> str:
    winner, favourite = label(step.winner), label(step.favourite)
    if step.winner == step.favourite:
        return t("contrast.plane_same", label=winner)
    return t("contrast.plane_title", favourite=favourite, winner=winner)


def _alt(step: ContrastiveStep, label: Label, t: Translate) -> str:
    return t(
        "contrast.plane_alt",
        plausible=count_text(int(step.plausible.sum())),
        size=count_text(len(step.plausible)),
        winner=label(step.winner),
        favourite=label(step.favourite),
    )
