"""Charts of decoders side by side: each token's probability, and the truncation tax.

In: names and plain sequences of numbers, with a translator; out: Plotly figures.

The first is after figure 2 of Holtzman et al. 2020 (arXiv 1904.09751): how probable the model finds
each token of a text, here a lane per text, with the human text behind every other one. The second
follows the product of the kept masses on a log scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.marks import points
from playground.format import count_text, figure_text
from playground.words import Translate

LANE = 50  # px
ROOM = 0.82  # the part of a lane that probability 1 fills
TAX_HEIGHT = 230
NAME = 18  # cells of a name beside a lane
FLOOR = 1e-300  # what a probability of 0 counts as on a log scale
HUMAN = "muted"


@dataclass(frozen=True)
class Lane:
    """One text: its name, colour (a palette key), each token's label and probability, and the
    truncation tax after each (empty: it has none). ``human`` marks the given text.
    """

    name: str
    color: str
    labels: Sequence[str]
    probabilities: Sequence[float]
    taxes: Sequence[float] = ()
    human: bool = False

    @property
    def mean(self) -> float | None:
        """The mean probability, None of no token."""
        values = self.probabilities
        return math.fsum(values) / len(values) if values else None


def lanes_height(count: int) -> int:
    """Return the height in px of the chart of so many texts."""
    return count * LANE + 40


def probabilities(
    lanes: Sequence[Lane], *, t: Translate, length: int, seq: int | None = None
) -> go.Figure:
    """Return each token's probability along each text; ``length`` tokens have room.

    Roles: ``lane<i>`` the text's own line, ``human<i>`` the human one behind it, means, values.
    """
    human = next((lane for lane in lanes if lane.human), None)
    data = []
    names, values = [], []
    for i, lane in enumerate(lanes):
        base = len(lanes) - 1 - i
        if human is not None and lane is not human:
            data.append(_line(f"human{i}", human, base, HUMAN, 1.0, t, quiet=True))
        data.append(_line(f"lane{i}", lane, base, lane.color, 1.75, t))
        names.append(theme.shorten(lane.name, NAME))
        if lane.mean is not None:
            values.append((base + ROOM * lane.mean, lane.mean, lane.color))
    width = max([length, *(len(lane.probabilities) for lane in lanes)])
    data.append(
        points("means", [x for _ in values for x in (1, width, None)], _twice(values))
        | dict(mode="lines", line=dict(color=theme.LIGHT["outline"], width=1, dash="dot"))
    )
    data.append(
        points("values", [width] * len(values), [y for y, *_ in values])
        | dict(
            mode="text",
            text=["\u00a0" + figure_text(mean) for _, mean, _ in values],
            textposition="middle right",
            textfont=dict(family=theme.MONO, size=theme.SIZES["small"], color=theme.LIGHT["ink"]),
        )
    )
    means = [(lane.mean, lane.name) for lane in lanes if lane.mean is not None]
    title = t("compare.lanes_empty")
    if means:
        (high, top), (low, last) = max(means), min(means)
        title = t("compare.lanes_one", name=top, p=figure_text(high))
        if len(means) > 1:
            facts = dict(top=top, high=figure_text(high), last=last, low=figure_text(low))
            title = t("compare.lanes_title", **facts)
    n = len(lanes)
    layout = theme.base_layout(
        title,
        t("compare.lanes_subtitle_human" if human else "compare.lanes_subtitle"),
        alt="; ".join(
            t("compare.lanes_one", name=name, p=figure_text(mean)) for mean, name in means
        ),
        left=theme.label_margin(names, 12, 150),
        right=56,
        bottom=36,
        height=lanes_height(n),
        seq=seq,
        xaxis=theme.number_axis(
            t("compare.axis_token"), range=[0.5, width + 0.5], nticks=8, showgrid=False
        ),
        yaxis=dict(
            range=[-0.08, n - 1 + 1.0],
            tickmode="array",
            tickvals=[n - 1 - i + ROOM / 2 for i in range(n)],
            ticktext=[theme.escape(name) for name in names],
            tickfont=dict(family=theme.SANS, size=12, color=theme.LIGHT["ink"]),
            showgrid=False,
            zeroline=False,
            fixedrange=True,
        ),
        shapes=[
            dict(
                type="line",
                xref="paper",
                x0=0,
                x1=1,
                y0=base + up,
                y1=base + up,
                layer="below",
                line=dict(color=theme.LIGHT["hairline"], width=1),
            )
            for base in range(n)
            for up in (0, ROOM)
        ],
    )
    return theme.figure(data, layout)


def taxes(lanes: Sequence[Lane], *, t: Translate, length: int, seq: int | None = None) -> go.Figure:
    """Return the truncation tax along each text that has one. Roles: ``tax<i>``, names."""
    taxed = [(i, lane) for i, lane in enumerate(lanes) if lane.taxes]
    width = max([length, *(len(lane.taxes) for _, lane in taxed)])
    data, ends = [], []
    for i, lane in taxed:
        y = [max(tax, FLOOR) for tax in lane.taxes]
        hover = [
            theme.lines(lane.name, t("compare.tax_hover", count=count_text(k), p=figure_text(tax)))
            for k, tax in enumerate(lane.taxes, 1)
        ]
        data.append(
            points(f"tax{i}", range(1, len(y) + 1), y)
            | dict(
                mode="lines" if len(y) > 1 else "markers",
                line=dict(color=theme.LIGHT[lane.color], width=2),
                marker=dict(color=theme.LIGHT[lane.color], size=6),
                hoverinfo="text",
                hovertext=hover,
            )
        )
        ends.append((math.log10(y[-1]), len(y), lane))
    deepest = min([-1.0, *(end for end, *_ in ends)])
    low, high = deepest * 1.06, -deepest * 0.06 + 0.05
    places = _apart([end for end, *_ in ends], (high - low) * 0.085)
    data.append(
        points("names", [width] * len(ends), [10.0**y for y in places])
        | dict(
            mode="text",
            text=["\u00a0" + theme.escape(theme.shorten(lane.name, NAME)) for *_, lane in ends],
            textposition="middle right",
            textfont=dict(
                family=theme.SANS,
                size=theme.SIZES["small"],
                color=[theme.LIGHT[_word(lane.color)] for *_, lane in ends],
            ),
        )
    )
    cut = [(lane.taxes[-1], lane) for _, lane in taxed if lane.taxes[-1] < 1]
    title = t("compare.tax_empty")
    if cut:
        tax, lane = max(cut, key=lambda pair: pair[0])
        count = count_text(len(lane.taxes))
        title = t("compare.tax_title", name=lane.name, p=figure_text(tax), count=count)
    depth = math.floor(deepest)
    decades = range(0, depth - 1, min(-1, -(-depth // 4) if depth < -4 else -1))
    layout = theme.base_layout(
        title,
        t("compare.tax_subtitle"),
        alt="; ".join(
            t("compare.tax_alt", name=lane.name, p=figure_text(lane.taxes[-1])) for _, lane in taxed
        ),
        left=48,
        right=theme.label_margin(
            [theme.shorten(lane.name, NAME) for _, lane in taxed] or [""], 12, 132
        ),
        bottom=36,
        height=TAX_HEIGHT,
        seq=seq,
        xaxis=theme.number_axis(
            t("compare.axis_token"), range=[0.5, width + 0.5], nticks=8, showgrid=False
        ),
        yaxis=theme.number_axis(
            type="log",
            range=[low, high],
            tickvals=[10.0**k for k in decades],
            ticktext=["1" if k == 0 else f"1e{k}" for k in decades],
        ),
    )
    return theme.figure(data, layout)


def _line(
    role: str, lane: Lane, base: int, color: str, width: float, t: Translate, quiet: bool = False
) -> dict:
    """Return a text's probabilities as a line in the lane that stands on ``base``."""
    ps = lane.probabilities
    made = points(role, range(1, len(ps) + 1), [base + ROOM * p for p in ps])
    made |= dict(mode="lines", line=dict(color=theme.LIGHT[color], width=width), name=lane.name)
    if quiet:
        return made | dict(opacity=0.55)
    hover = [
        theme.lines(label, t("compare.lanes_hover", count=count_text(k), p=figure_text(p)))
        for k, (label, p) in enumerate(zip(lane.labels, ps, strict=True), 1)
    ]
    mode = "lines+markers" if len(ps) < 2 else "lines"
    return made | dict(mode=mode, hoverinfo="text", hovertext=hover)


def _twice(values: Sequence[tuple[float, float, str]]) -> list[float | None]:
    return [y for value, *_ in values for y in (value, value, None)]


def _apart(values: Sequence[float], gap: float) -> list[float]:
    """Return places near the values, each at least ``gap`` from the next, for their names."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    out = list(values)
    above = math.inf
    for i in order:
        out[i] = min(values[i], above - gap)
        above = out[i]
    return out


def _word(color: str) -> str:
    """Return the palette key of a colour's darker partner for words, where there is one."""
    return f"{color}_text" if f"{color}_text" in theme.LIGHT else color
