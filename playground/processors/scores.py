"""The arithmetic that all filters share: float64, over the surviving tokens only.

In and out: scores [V], float64, -inf = masked. A weight is exp(score - highest score); a
probability is a weight divided by ``weights.sum()``, the weights taken in the order of ids. Neither
carries the rounding of a logarithm, so where scores tie, or differ by whole powers of two in
probability, a threshold that is met exactly is decided exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from playground.ranking import alive

MASKED = -np.inf


def as_scores(logits: np.ndarray) -> np.ndarray:
    """Return logits [V] of any real dtype as float64, a copy.

    Raises ValueError for another shape, for NaN or +inf, and when every logit is -inf.
    """
    given = np.asarray(logits)
    if given.ndim != 1 or not given.size:
        raise ValueError(f"logits must be one row [V] of at least one token, got {given.shape}")
    if given.dtype.kind not in "fiu":
        raise ValueError(f"logits must be real numbers, got {given.dtype}")
    scores = given.astype(np.float64)
    check_alive(scores, "the model")
    return scores


def check_alive(scores: np.ndarray, origin: str) -> float:
    """Return the highest score; raise ValueError "no token survives ..." unless it is finite."""
    top = float(scores.max())  # NaN wins every maximum
    if np.isnan(top):
        raise ValueError(f"no token survives: {origin} gave NaN")
    if top == np.inf:
        raise ValueError(f"no token survives: {origin} gave a score of +inf")
    if top == MASKED:
        raise ValueError(f"no token survives: {origin} masks all {scores.size} tokens")
    return top


def log_softmax(scores: np.ndarray, origin: str = "the model") -> np.ndarray:
    """Return normalised log-probabilities [V], float64, -inf where masked."""
    top = check_alive(scores, origin)
    shifted = scores - top
    return shifted - np.log(np.exp(alive(shifted)).sum())


def weights(values: np.ndarray) -> np.ndarray:
    """Return exp(value - highest value); the highest value has weight 1."""
    return np.exp(values - values.max())


def probabilities(values: np.ndarray) -> np.ndarray:
    """Return the softmax of the survivors' scores."""
    w = weights(values)
    return w / w.sum()


def highest(values: np.ndarray, count: int) -> np.ndarray:
    """Return a mask of the ``count`` highest values (all if fewer), ties by the lowest place."""
    size = len(values)
    if count >= size:
        return np.ones(size, bool)
    edge = np.partition(values, size - count)[size - count]
    keep = values > edge
    ties = np.flatnonzero(values == edge)
    keep[ties[: count - np.count_nonzero(keep)]] = True
    return keep


def keep_where(scores: np.ndarray, choose: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Mask the survivors that ``choose`` turns down.

    ``choose`` maps the survivors' scores [n], in the order of ids, to a mask [n] of those that
    stay. The input is never written to; it is handed back itself where every survivor stays, and
    where there is none (a dead beam stays one).
    """
    living = scores > MASKED
    if living.all():
        keep = choose(scores)
        return scores if keep.all() else np.where(keep, scores, MASKED)
    alive = np.flatnonzero(living)
    if not len(alive):
        return scores
    values = scores[alive]
    keep = choose(values)
    if keep.all():
        return scores
    out = np.full(scores.shape, MASKED)
    out[alive[keep]] = values[keep]
    return out
