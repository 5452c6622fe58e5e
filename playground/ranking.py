"""Ranking: the ids of the highest scores, ties by the lowest id, alike in every part.

The last few whole sorts are kept, known again by all their values: while a slider moves, and in
several parts of one screen, the same row is sorted again and again.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_HEAD = 1024  # most masses are reached within the first so many tokens: a whole sort is spared
_KEPT = 8  # whole sorts; a row of 262,144 tokens takes 4 MB


def alive(values: np.ndarray) -> np.ndarray:
    """Return the values above -inf, in their order (the input itself where all are)."""
    living = values > -np.inf
    return values if living.all() else values[living]


def descending(values: np.ndarray, count: int | None = None) -> np.ndarray:
    """Return the ids of the ``count`` highest values (all by default), ties by the lowest id.

    ``values`` is a float array [V] without NaN; -inf entries come last. Cheaper than a full sort
    when count is small. A whole ranking is shared, and can't be written to.
    """
    size = len(values)
    if count is not None and count <= 0:
        return np.empty(0, np.intp)
    if count is not None and count < size:
        living = alive(values)  # a partition of many equals is slow
        if count <= len(living):
            edge = np.partition(living, len(living) - count)[len(living) - count]
            head = np.flatnonzero(values >= edge)  # ascending ids, every tie at the edge included
            return head[_descending(values[head])][:count]
    return _whole(_Row(values))[:count]


def running_mass(masses: np.ndarray, enough: float) -> np.ndarray:
    """Return the running sum of ``masses`` [n] >= 0, highest first, [m]: at least up to ``enough``.

    More and more of the highest are sorted, until they reach it.
    """
    size, count = len(masses), _HEAD
    while True:
        head = masses if count >= size else np.partition(masses, size - count)[size - count :]
        sums = np.cumsum(np.sort(head)[::-1])
        if count >= size or sums[-1] >= enough:
            return sums
        count *= 16


class _Row:
    """An array as a key: equal where all values are."""

    __slots__ = ("_hash", "values")

    def __init__(self, values: np.ndarray) -> None:
        self.values = values.copy()
        self._hash = hash((len(values), values.dtype, values[:64].tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Row) and np.array_equal(self.values, other.values)


@lru_cache(_KEPT)
def _whole(row: _Row) -> np.ndarray:
    values = row.values
    living = np.flatnonzero(values > -np.inf)
    masked = np.flatnonzero(values == -np.inf)
    order = np.concatenate([living[_descending(values[living])], masked])
    order.flags.writeable = False
    return order


def _descending(values: np.ndarray) -> np.ndarray:
    """Return the places of finite values, highest first, equal ones in their order.

    What a stable sort gives, a third of its time: sorted anyhow, then the equal ones put right.
    """
    order = np.argsort(-values)
    high = values[order]
    again = np.concatenate([[False], high[1:] == high[:-1]])  # as the one before
    if again.any():
        tied = np.flatnonzero(again | np.concatenate([again[1:], [False]]))
        run = np.cumsum(~again)[tied]
        order[tied] = order[tied][np.lexsort((order[tied], run))]
    return order
