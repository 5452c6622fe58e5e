"""The race of one beam step: K beams x V tokens, by running sum.

In come rows float [K, V] of scores and offsets float64 [K], so that a candidate's sum is
``rows[beam, token] + offsets[beam]`` (logits with offset sum - logsumexp, or processed
log-probabilities with offset sum); -inf rows entries take no part. Out go flat indices
``beam * V + token`` and float64 sums. Equal sums are ordered by the lowest flat index.

Steps of ``best``, which spares a sort of K x V numbers:
1. Split every row into blocks and take each block's maximum plus the row's offset.
2. The count-th highest of these maxima is a floor: at least ``count`` candidates reach it.
3. Only the few candidates above the floor get float64 sums and are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_BLOCK = 64
_SLACK = 1e-6  # the floor is lowered by more than float32 rounds away: step 3 decides exactly


def log_normalisers(logits: np.ndarray) -> np.ndarray:
    """Return float64 [K]: the logsumexp of each row of logits [K, V].

    Raises ValueError for NaN or +inf logits and for a row without any finite one.
    """
    out = np.empty(len(logits), np.float64)
    for i, row in enumerate(logits):  # row by row: each stays in the processor's cache
        top = row.max()
        if not np.isfinite(top):
            raise ValueError(f"logits must have a finite maximum, got {float(top)}")
        powers = row - top
        np.exp(powers, out=powers)
        out[i] = float(top) + np.log(powers.sum(dtype=np.float64))
    return out


def best(rows: np.ndarray, offsets: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``count`` candidates of highest sum (fewer if fewer are finite), best first.

    Flat indices int64 [n] and sums float64 [n].
    """
    width = rows.shape[1]
    floor = _floor(rows, offsets, count)
    flat, sums = [], []
    for i, (row, offset) in enumerate(zip(rows, offsets, strict=True)):
        edge = floor - offset
        ids = np.flatnonzero(
            row >= edge - _SLACK * (1 + abs(edge)) if edge > -np.inf else row > edge
        )
        flat.append(ids + i * width)
        sums.append(row[ids].astype(np.float64) + offset)
    flat, sums = np.concatenate(flat), np.concatenate(sums)
    order = np.argsort(-sums, kind="stable")[:count]  # flat ascends: ties by the lowest
    return flat[order], sums[order]


def _floor(rows: np.ndarray, offsets: np.ndarray, count: int) -> float:
    """Return a sum that at least ``count`` candidates reach, -inf if blocks can't tell."""
    blocks = rows.shape[1] // _BLOCK
    if len(rows) * blocks < count:
        return -np.inf
    maxima = np.empty((len(rows), blocks), np.float64)
    for i, row in enumerate(rows):
        # Blocks are strided (every blocks-th entry), so that one vector maximum serves them all.
        maxima[i] = row[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
        maxima[i] += offsets[i]
    return float(np.partition(maxima.ravel(), -count)[-count])


def drawn(
    rows: np.ndarray, offsets: np.ndarray, us: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw candidates without replacement, one for each dice, in proportion to exp(sum).

    Each draw takes the first of the candidates that are left, in order of sum, whose cumulative
    probability exceeds u (with one draw from one beam, that is ``dice.draw``). Returns flat
    indices, sums and dice, sorted by sum; fewer when fewer candidates have a probability above 0.
    """
    flat, sums = best(rows, offsets, rows.size)
    if not len(flat):
        return flat, sums, np.empty(0)
    p = np.exp(sums - sums[0])
    alive = int(np.count_nonzero(p))
    p = p[:alive]
    taken: list[int] = []
    for u in us[:alive]:
        cdf = np.cumsum(p)
        at = int(np.searchsorted(cdf, u * cdf[-1], side="right"))
        if at >= alive or p[at] == 0:  # u times the total rounded up to the total
            at = int(np.flatnonzero(p)[-1])
        taken.append(at)
        p[at] = 0.0
    order = np.argsort(taken, kind="stable")
    picks = np.array(taken)[order]
    return flat[picks], sums[picks], np.asarray(us, np.float64)[order]
