"""Ranking: the ids of the highest scores, ties by the lowest id, alike in every part."""

from __future__ import annotations

import numpy as np


def descending(values: np.ndarray, count: int | None = None) -> np.ndarray:
    """Return the ids of the ``count`` highest values (all by default), ties by the lowest id.

    ``values`` is a float array [V] without NaN; -inf entries come last. Cheaper than a full sort
    when count is small.
    """
    size = len(values)
    if count is not None and count <= 0:
        return np.empty(0, np.intp)
    edge = -np.inf
    if count is not None and count < size:
        edge = np.partition(values, size - count)[size - count]
    if edge > -np.inf:
        head = np.flatnonzero(values >= edge)  # ascending ids, every tie at the edge included
        return head[_descending(values[head])][:count]
    alive = np.flatnonzero(values > -np.inf)
    masked = np.flatnonzero(values == -np.inf)
    return np.concatenate([alive[_descending(values[alive])], masked])[:count]


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
