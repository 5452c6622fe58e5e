"""What one step's numbers say: figures, the filters' ledger, the dice under other settings.

In: the stages of ``playground.shape`` (or logits and params) and the dice u; out: numbers only, no
words and no pictures. When the same dice draw another token is the business of playground/flips.py.

Terms: *removed*: the mass that a stage cut, as a share of all the mass there was at the start (so
the removals add up to the mass cut); *share*: the same as a share of what the stage before it had
left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from playground.dice import draw
from playground.flips import RANGES, Flip, flip_points, flips
from playground.processors import shape
from playground.ranking import alive, running_mass
from playground.records import SamplingParams, Stage

__all__ = [
    "NUCLEUS",
    "RANGES",
    "Figures",
    "Flip",
    "LedgerRow",
    "WhatIf",
    "entropy",
    "figures",
    "flip_points",
    "flips",
    "ledger",
    "moments",
    "nucleus_size",
    "what_if",
]

NUCLEUS = 0.9


@dataclass(frozen=True, slots=True)
class Figures:
    """One step in numbers; entropies in nats, varentropy in nats squared.

    ``nucleus`` is the number of tokens that hold 0.9 of the model's mass; ``top1`` the highest
    probability; ``perplexity`` exp(entropy). Plain names are the model's own distribution,
    ``_final`` the one after all filters. ``mass_cut`` is the sum of the ledger's ``removed``.
    """

    vocab_size: int
    kept: int
    entropy: float
    entropy_final: float
    varentropy: float
    varentropy_final: float
    perplexity: float
    perplexity_final: float
    nucleus: int
    nucleus_final: int
    top1: float
    top1_final: float
    top1_id: int
    mass_cut: float


class LedgerRow(NamedTuple):
    """One stage: tokens left, mass removed (two senses, see above), entropy after it (nats)."""

    name: str
    kept: int
    removed: float
    share: float
    entropy: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What the same dice draw under other settings; ``logprob`` is final, in nats."""

    params: SamplingParams
    token_id: int
    logprob: float
    kept: int


def figures(stages: Sequence[Stage], rows: Sequence[LedgerRow] | None = None) -> Figures:
    """Return the figures of a step from its stages (the first is the model's).

    ``rows`` is ``ledger(stages)``, where it is known already.
    """
    rows = ledger(stages) if rows is None else rows
    model, final = stages[0].logprobs, stages[-1].logprobs
    spread, varentropy = moments(model)
    spread_final, varentropy_final = moments(final)
    top = int(np.argmax(model))
    return Figures(
        vocab_size=len(model),
        kept=rows[-1].kept,
        entropy=spread,
        entropy_final=spread_final,
        varentropy=varentropy,
        varentropy_final=varentropy_final,
        perplexity=float(np.exp(spread)),
        perplexity_final=float(np.exp(spread_final)),
        nucleus=nucleus_size(model),
        nucleus_final=nucleus_size(final),
        top1=float(np.exp(model[top])),
        top1_final=float(np.exp(final.max())),
        top1_id=top,
        mass_cut=sum(row.removed for row in rows),
    )


def ledger(stages: Sequence[Stage]) -> tuple[LedgerRow, ...]:
    """Return a row per stage, the model's first (which removes nothing)."""
    rows = []
    left, before, found = 1.0, None, None
    for stage in stages:
        living = stage.logprobs > -np.inf
        gone = 0.0
        if before is not None and not np.array_equal(living, found):
            gone = float(np.exp(before[found & ~living]).sum())
        kept = int(np.count_nonzero(living))
        rows.append(LedgerRow(stage.name, kept, left * gone, gone, entropy(stage.logprobs)))
        left *= 1 - gone
        before, found = stage.logprobs, living
    return tuple(rows)


def entropy(logprobs: np.ndarray) -> float:
    """Return the entropy in nats of normalised ``logprobs`` (-inf counts as 0)."""
    values = alive(logprobs)
    return max(0.0, float(-(np.exp(values) * values).sum()))


def moments(logprobs: np.ndarray) -> tuple[float, float]:
    """Return entropy and varentropy (the variance of the surprisal) of normalised ``logprobs``."""
    values = alive(logprobs)
    p = np.exp(values)
    mean = float(-(p * values).sum())
    return max(0.0, mean), max(0.0, float((p * (values + mean) ** 2).sum()))


def nucleus_size(logprobs: np.ndarray, mass: float = NUCLEUS) -> int:
    """Return the least number of tokens that hold ``mass``."""
    values = alive(logprobs)
    sums = running_mass(np.exp(values), mass)
    return min(int(np.searchsorted(sums, mass, side="left")) + 1, len(values))


def what_if(
    logits: np.ndarray,
    params: SamplingParams,
    u: float,
    ids: Sequence[int] = (),
    prompt_length: int = 0,
    **changes: object,
) -> WhatIf:
    """Return what the same ``u`` draws with ``changes`` to the settings (``top_p=0.5``, ...)."""
    params = params.replace(**changes)
    final = shape(logits, params, ids, prompt_length)[-1].logprobs
    token = int(draw(final, u))
    return WhatIf(params, token, float(final[token]), int(np.count_nonzero(final > -np.inf)))
