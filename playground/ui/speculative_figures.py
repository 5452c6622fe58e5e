"""A run's figures, each with its denominator: acceptance, yield, costs, speed.

In: the laps shown and the target's own step in seconds; out: ``Figures``. Costs come from rounds
that really ran; what nothing was measured for is None.

Terms: *rate*, accepted per tested token, the estimate of the chance that a draft passes. *cost*,
a draft forward over a target step. *verify*, the target's forward over a block over a target step
(1 where memory is the limit, more on a CPU); between lengths it is taken to grow in a line.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playground.engines.acceptance import best_gamma, exact_yield, expected_tokens, speedup
from playground.ui.speculative_moves import Costs, Lap, costs_of

LONGEST = 16  # of the block lengths compared


@dataclass(frozen=True, slots=True)
class Figures:
    """What the page says of a run; None: nothing to divide by, or nothing measured."""

    rounds: int
    tokens: int
    drafted: int
    tested: int
    accepted: int
    per_drafted: float | None = None
    per_tested: float | None = None
    per_round: float | None = None
    formula: float | None = None
    exact: float | None = None
    cost: float | None = None
    verify: float | None = None
    predicted: float | None = None
    measured: float | None = None
    best: int | None = None
    best_ideal: int | None = None
    speeds: tuple[float, ...] = ()
    ideal: tuple[float, ...] = ()


def figures(
    laps: Sequence[Lap], step_seconds: float | None = None, costs: Costs | None = None
) -> Figures:
    """Return the figures of a run's rounds.

    ``step_seconds`` is the target's own step; ``costs`` what was last measured of the two models,
    for a run whose own rounds were cached.
    """
    rounds = [lap.round for lap in laps]
    tokens = sum(len(one.ids) for one in rounds)
    drafted = sum(len(one.draft_ids) for one in rounds)
    tested = sum(one.n_tested for one in rounds)
    accepted = sum(one.n_accepted for one in rounds)
    if not rounds:
        return Figures(0, 0, 0, 0, 0)
    rate = accepted / tested if tested else None
    lengths = [len(one.draft_ids) for one in rounds]
    formula = None
    if rate is not None:
        formula = statistics.mean(expected_tokens(rate, g) for g in lengths)
    return Figures(
        len(rounds),
        tokens,
        drafted,
        tested,
        accepted,
        per_drafted=accepted / drafted if drafted else None,
        per_tested=rate,
        per_round=tokens / len(rounds),
        formula=formula,
        exact=statistics.mean(exact_yield(one.accept_probs) for one in rounds),
        measured=_measured(laps, step_seconds),
        **_predicted(costs_of(laps, step_seconds) or costs, rate, formula, lengths),
    )


def _measured(laps: Sequence[Lap], step_seconds: float | None) -> float | None:
    """Return plain decoding's seconds for the same tokens over those of the rounds that ran."""
    fresh = [lap for lap in laps if lap.fresh]
    spent = sum(lap.round.draft_seconds + lap.round.target_seconds for lap in fresh)
    if not spent or not step_seconds:
        return None
    return sum(len(lap.round.ids) for lap in fresh) * step_seconds / spent


def _predicted(
    costs: Costs | None, rate: float | None, formula: float | None, lengths: Sequence[int]
) -> dict[str, Any]:
    """Return what the formula makes of the costs, for this run and by block length."""
    if costs is None or rate is None or formula is None:
        return {}
    cost, verify = costs.draft / costs.step, costs.block / costs.step
    # A noisy clock may call a block cheaper than a step; no block is.
    slope = max(0.0, verify - 1) / costs.length
    blocks = range(LONGEST + 1)
    speeds = tuple(speedup(rate, g, cost, 1 + slope * g) for g in blocks)
    mean = statistics.mean(lengths)
    return {
        "cost": cost,
        "verify": verify,
        "predicted": formula / (mean * cost + 1 + slope * mean),
        "best": max(blocks, key=lambda g: (speeds[g], -g)),
        "best_ideal": best_gamma(rate, cost, LONGEST),
        "speeds": speeds,
        "ideal": tuple(speedup(rate, g, cost) for g in blocks),
    }
