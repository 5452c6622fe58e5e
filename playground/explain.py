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
from playground.records import SamplingParams, Stage

__all__ = [
    "NUCLEUS",
    "RANGES",
    "Figures",
    "Flip",
    "LedgerRow",
    "WhatIf",
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


def figures(stages: Sequence[Stage]) -> Figures:
    """Return the figures of a step from its stages (the first is the model's)."""
    model, final = stages[0].logprobs, stages[-1].logprobs
    entropy, varentropy = moments(model)
    entropy_final, varentropy_final = moments(final)
    top = int(np.argmax(model))
    return Figures(
        vocab_size=len(model),
        kept=int(np.count_nonzero(final > -np.inf)),
        entropy=entropy,
        entropy_final=entropy_final,
        varentropy=varentropy,
        varentropy_final=varentropy_final,
        perplexity=float(np.exp(entropy)),
        perplexity_final=float(np.exp(entropy_final)),
        nucleus=nucleus_size(model),
        nucleus_final=nucleus_size(final),
        top1=float(np.exp(model[top])),
        top1_final=float(np.exp(final.max())),
        top1_id=top,
        mass_cut=sum(row.removed for row in ledger(stages)),
    )


def ledger(stages: Sequence[Stage]) -> tuple[LedgerRow, ...]:
    """Return a row per stage, the model's first (which removes nothing)."""
    rows = []
    left, before = 1.0, None
    for stage in stages:
        alive = stage.logprobs > -np.inf
        gone = 0.0
        if before is not None:
            gone = float(np.exp(before[~alive & (before > -np.inf)]).sum())
        rows.append(
            LedgerRow(
                stage.name,
                int(np.count_nonzero(alive)),
                left * gone,
                gone,
                moments(stage.logprobs)[0],
            )
        )
        left *= 1 - gone
        before = stage.logprobs
    return tuple(rows)


def moments(logprobs: np.ndarray) -> tuple[float, float]:
    """Return entropy and varentropy (the variance of the surprisal) of normalised ``logprobs``."""
    alive = logprobs[logprobs > -np.inf]
    p = np.exp(alive)
    entropy = float(-(p * alive).sum())
    return max(0.0, entropy), max(0.0, float((p * (alive + entropy) ** 2).sum()))


def nucleus_size(logprobs: np.ndarray, mass: float = NUCLEUS) -> int:
    """Return the least number of tokens that hold ``mass``."""
    p = np.sort(np.exp(logprobs))[::-1]
    n = int(np.searchsorted(np.cumsum(p), mass, side="left")) + 1
    return min(n, int(np.count_nonzero(logprobs > -np.inf)))


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
