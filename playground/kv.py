"""Key/value caches of recent prefixes: several entries, found by longest common prefix.

An entry holds one transformers cache for a batch of rows (each row a prefix of ids). Rows of
different lengths are padded with slots that ``valid`` masks for ever after. Flows in: ids; out: a
cache that covers as many of them as can be had.

Rules
1. An entry that a prefix extends is taken over: the old prefix lives on inside the longer one.
2. A prefix that leaves an entry's path gets a cropped *view* (no copy: growing a cache
   concatenates into new tensors); the entry it left stays, so that a branch keeps its keys and
   values. Only where the tail was never asked for alone (drafted tokens that were then rejected)
   is the entry itself cropped.
3. Only what truly can be cropped is: full attention, and sliding windows not yet full. Recurrent
   states and full windows are recomputed (cropping them is silently wrong or raises).
4. The store is an LRU bounded in bytes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

Ids = tuple[int, ...]


@dataclass(eq=False)
class Entry:
    """One cache and the prefixes in its rows.

    ``valid`` bool [B, T] marks the slots that hold a token, None when all do. ``loose``: how many
    tokens at the end came with others in one forward and were never a prefix of their own.
    """

    rows: tuple[Ids, ...]
    cache: Any
    valid: torch.Tensor | None = None
    loose: int = 0
    nbytes: int = 0


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many leading ids two sequences share."""
    n = min(len(a), len(b))
    if tuple(a[:n]) == tuple(b[:n]):
        return n
    low, high = 0, n  # the first difference lies in (low, high]
    while high - low > 1:
        mid = (low + high) // 2
        if a[low:mid] == b[low:mid]:
            low = mid
        else:
            high = mid
    return low


def _kind(layer: Any) -> str:
    return type(layer).__name__


def croppable(cache: Any) -> bool:
    """Say whether this very cache can be cut to a shorter prefix without recomputation."""
    for layer in cache.layers:
        if _kind(layer) == "DynamicLayer":
            continue
        if _kind(layer) == "DynamicSlidingWindowLayer" and (
            layer.cumulative_length < layer.sliding_window
        ):
            continue
        return False
    return True


def full_attention(cache: Any) -> bool:
    """Say whether all layers are plain full attention, so that rows can be cut and merged."""
    return all(_kind(layer) == "DynamicLayer" for layer in cache.layers)


def size_of(cache: Any) -> int:
    """Return the bytes of all tensors in a cache."""

    def tensors(value: Any) -> int:
        if isinstance(value, torch.Tensor):
            return value.numel() * value.element_size()
        if isinstance(value, dict):
            return sum(map(tensors, value.values()))
        if isinstance(value, list | tuple):
            return sum(map(tensors, value))
        return 0

    return sum(tensors(vars(layer)) for layer in cache.layers)


def _with_layers(cache: Any, change: Any) -> Any:
    """Return a shallow copy of a cache whose initialised layers went through ``change``."""
    new = copy.copy(cache)
    new.layers = [copy.copy(layer) for layer in cache.layers]
    for index, layer in enumerate(new.layers):
        if getattr(layer, "keys", None) is not None:
            change(index, layer)
    return new


def cut(entry: Entry, row: int, length: int) -> Any:
    """Return a one-row cache of the first ``length`` tokens of a row (views where possible)."""
    columns = None
    if entry.valid is not None:
        columns = torch.nonzero(entry.valid[row]).flatten()[:length]

    def change(_: int, layer: Any) -> None:
        for name in ("keys", "values"):
            states = getattr(layer, name)[row : row + 1]
            states = states[:, :, :length] if columns is None else states[:, :, columns]
            setattr(layer, name, states)
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = length

    return _with_layers(entry.cache, change)


def select(entry: Entry, rows: Sequence[int]) -> tuple[Any, torch.Tensor | None]:
    """Return (cache, valid) with the given rows of an entry, in that order, repeats allowed."""
    if list(rows) == list(range(len(entry.rows))):
        return entry.cache, entry.valid
    index = torch.tensor(rows)
    cache = copy.copy(entry.cache)
    cache.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in cache.layers:
        for name in ("conv_states", "recurrent_states"):  # dicts of tensors, changed in place
            if isinstance(getattr(layer, name, None), dict):
                setattr(layer, name, dict(getattr(layer, name)))
    cache.reorder_cache(index)
    return cache, None if entry.valid is None else entry.valid[index]


def merge(sources: Sequence[tuple[Entry | None, int, int]], fresh: Any) -> tuple[Any, torch.Tensor]:
    """Join rows of several full-attention caches into one batch, padded on the left.

    ``sources`` holds (entry, row, length) per new row, entry None for a row that starts from
    nothing; ``fresh`` is an empty cache. Returns (cache, valid bool [B, T]).
    """
    width = max(length for _, _, length in sources)
    valid = torch.zeros(len(sources), width, dtype=torch.bool)
    for i, (_, _, length) in enumerate(sources):
        valid[i, width - length :] = True
    if width == 0:
        return fresh, valid
    parts = [None if e is None else cut(e, row, n) for e, row, n in sources]
    model = next(p for p in parts if p is not None)

    def change(index: int, layer: Any) -> None:
        for name in ("keys", "values"):
            like = getattr(layer, name)
            joined = like.new_zeros(len(sources), like.shape[1], width, like.shape[3])
            for i, (part, (_, _, length)) in enumerate(zip(parts, sources, strict=True)):
                if length:
                    joined[i, :, width - length :] = getattr(part.layers[index], name)[0]
            setattr(layer, name, joined)

    return _with_layers(model, change), valid


class KVStore:
    """Entries by recency, bounded in bytes. Not thread-safe: its model holds the lock."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.entries: list[Entry] = []  # most recent last

    @property
    def nbytes(self) -> int:
        """Bytes held by all entries."""
        return sum(e.nbytes for e in self.entries)

    def longest(self, ids: Ids, limit: int) -> tuple[Entry | None, int, int]:
        """Return (entry, row, n) that covers the most leading ids, at most ``limit`` of them.

        An entry that ids extend wins over a longer one that would have to be cut, and what can't
        be cut is not offered.
        """
        best: tuple[Entry | None, int, int] = (None, 0, 0)
        best_rank = (0, 0)
        for entry in reversed(self.entries):
            can_cut = None
            for row, prefix in enumerate(entry.rows):
                n = min(common_length(prefix, ids), limit)
                whole = n == len(prefix) and len(entry.rows) == 1
                if n < best_rank[0] or (n, whole) <= best_rank:
                    continue
                if not whole:
                    can_cut = croppable(entry.cache) if can_cut is None else can_cut
                    if not can_cut:
                        continue
                best, best_rank = (entry, row, n), (n, whole)
        return best

    def extended_by(self, prefixes: Sequence[Ids]) -> tuple[Entry, list[int]] | None:
        """Return (entry, its row for each prefix) if every prefix is a row plus one token."""
        for entry in reversed(self.entries):
            where = {row: i for i, row in enumerate(entry.rows)}
            try:
                return entry, [where[p[:-1]] for p in prefixes]
            except KeyError:
                continue
        return None

    def remove(self, entry: Entry) -> None:
        """Forget an entry, if it is there."""
        self.entries = [e for e in self.entries if e is not entry]

    def add(self, entry: Entry) -> None:
        """Keep an entry as the most recent; drop the oldest ones beyond the bound."""
        entry.nbytes = size_of(entry.cache)
        self.entries.append(entry)
        total = self.nbytes
        while total > self.max_bytes and len(self.entries) > 1:
            total -= self.entries.pop(0).nbytes

    def clear(self) -> None:
        """Forget everything."""
        self.entries = []
