"""The lines of the contrastive plane: its box, iso-score lines, the plausible side.

In: a ContrastiveStep; out: places in nats, and traces and shapes for Plotly.

Terms: *iso-score line*, all places of one score: ``gain * x - slope * y = score``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from playground.charts import theme
from playground.charts.marks import points
from playground.records.contrastive import ContrastiveStep

LOWEST = -40.0  # nats: what is less probable stands on the edge
LINES = 8  # the parts that iso-score lines cut the expert's axis into

Point = tuple[float, float]
Box = tuple[float, float, float, float]


def box_of(step: ContrastiveStep, ids: np.ndarray) -> Box:
    """Return the plane's box (x0, x1, y0, y1) in nats, with all of ``ids`` in it or on its edge."""
    low_x, low_y = _low(step.expert_logprobs[ids]), _low(step.amateur_logprobs[ids])
    return low_x, 0.02 * -low_x, low_y, 0.02 * -low_y


def _low(values: np.ndarray) -> float:
    finite = values[values > -np.inf]
    least = float(finite.min()) if len(finite) else 0.0
    # A little more room than a round number: else both axes' last ticks meet in the corner.
    return 1.05 * max(LOWEST, min(-5.0, 5.0 * math.floor(least / 5.0)))


def place(step: ContrastiveStep, i: int, box: Box) -> Point:
    """Return where a token stands, at the edge if it is less probable than that."""
    x, y = float(step.expert_logprobs[i]), float(step.amateur_logprobs[i])
    return max(x, box[0]), max(y, box[2])


def line(step: ContrastiveStep, score: float, box: Box) -> list[Point]:
    """Return the two ends of an iso-score line inside the box, or nothing where it misses it."""
    gain, slope = step.params.gain, step.params.slope
    x0, x1, y0, y1 = box
    ends = []
    if slope > 0:
        ends += [(x, (gain * x - score) / slope) for x in (x0, x1)]
    ends += [((score + slope * y) / gain, y) for y in (y0, y1)]
    eps = 1e-9 * (x1 - x0)
    inside = [p for p in ends if x0 - eps <= p[0] <= x1 + eps and y0 - eps <= p[1] <= y1 + eps]
    inside = sorted(set(inside))
    return [inside[0], inside[-1]] if len(inside) > 1 else []


def iso(step: ContrastiveStep, box: Box) -> list[list[Point]]:
    """Return the ends of evenly spaced iso-score lines, the winner's own left out."""
    gain, slope = step.params.gain, step.params.slope
    x0, x1, y0, y1 = box
    corners = [gain * x - slope * y for x in (x0, x1) for y in (y0, y1)]
    # A flat slope would have no end of them.
    pace = max((x1 - x0) / LINES * gain, (max(corners) - min(corners)) / (3 * LINES))
    best = float(step.scores[step.winner])
    first = math.ceil((min(corners) - best) / pace)
    last = math.floor((max(corners) - best) / pace)
    return [line(step, best + n * pace, box) for n in range(first, last + 1) if n]


def lines(role: str, ends: Sequence[Sequence[Point]], style: dict[str, Any]) -> dict[str, Any]:
    """Return several straight lines as one trace, parted by gaps."""
    x: list[float | None] = []
    y: list[float | None] = []
    for one in ends:
        if one:
            x += [*(p[0] for p in one), None]
            y += [*(p[1] for p in one), None]
    return points(role, x[:-1], y[:-1], "lines") | dict(line=style)


def shade(step: ContrastiveStep, box: Box) -> dict[str, Any]:
    """Return the wash over the plausible side."""
    left = max(step.threshold, box[0])
    return dict(
        type="rect",
        layer="below",
        x0=min(left, box[1]),
        x1=box[1],
        y0=box[2],
        y1=box[3],
        fillcolor=theme.LIGHT["wash"],
        line=dict(width=0),
    )
