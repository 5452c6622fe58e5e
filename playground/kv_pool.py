"""Keys and values of many sessions in one block, so that their next tokens share a forward.

Sessions come and go and step out of time. Merging their caches anew for each forward would cost
more than the forward; here each row (a prefix of ids) has a slot of one large tensor per layer and
keeps it. A forward of one token per row writes into the slots in place and reads the rows taking
part: a view where they lie side by side, else one copy.

Layout per layer: keys and values [slots, heads, room, size]; a row's tokens lie from 0 on, and what
lies behind them is masked. Full attention only. Not thread-safe: its model holds the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

from playground.kv import Entry, Ids, common_length, cut

ROOM = 64  # tokens that a slot has at first; doubled when one row needs more
LEAST = 512  # tokens that every slot can grow to: big models get fewer slots


class KVPool:
    """Slots for up to ``slots`` rows, in at most ``max_bytes``; fewer slots for a big model.

    ``max_length``: the longest row that fits when all slots are as long. The least recently used
    row makes room for a new one.
    """

    def __init__(self, max_bytes: int, slots: int = 48) -> None:
        self.max_bytes = max_bytes
        self.slots = slots
        self.max_length = 0  # known with the first row
        self._rows: dict[int, Ids] = {}  # by slot, least recently used first
        self._where: dict[Ids, int] = {}
        self._keys: list[torch.Tensor] = []
        self._values: list[torch.Tensor] = []

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take up (the block's unused room is never touched)."""
        if not self._keys:
            return 0
        return self._token_bytes * sum(len(row) for row in self._rows.values())

    @property
    def _token_bytes(self) -> int:
        blocks = (*self._keys, *self._values)
        return sum(b.shape[1] * b.shape[3] * b.element_size() for b in blocks)

    def longest(self, ids: Ids, limit: int) -> tuple[int | None, int]:
        """Return (slot, n) of the row that covers the most leading ids, at most ``limit``."""
        slot = self._where.get(ids[:limit])
        if slot is not None:
            return slot, limit
        best: tuple[int | None, int] = (None, 0)
        for slot, row in self._rows.items():
            at = best[1]
            if at < min(limit, len(row)) and row[at] == ids[at]:  # else it can't be better
                n = min(common_length(row, ids), limit)
                if n > at:
                    best = (slot, n)
        return best

    def fits(self, length: int) -> bool:
        """Say whether a row of that many tokens may have a slot."""
        return not self._keys or length <= self.max_length

    def lend(self, slot: int, length: int) -> Any:
        """Return a one-row cache of a slot's first ``length`` tokens, its own copy."""
        cache = DynamicCache()
        for index, (keys, values) in enumerate(zip(self._keys, self._values, strict=True)):
            part = slice(slot, slot + 1), slice(None), slice(length)
            cache.update(keys[part].clone(), values[part].clone(), index)
        return cache

    def holds(self, slot: int, row: Ids) -> bool:
        """Say whether a slot holds just this row."""
        return self._rows.get(slot) == row

    def copy(self, source: int, prefix: Ids, busy: set[int]) -> int:
        """Copy the beginning of a slot's row to another slot, none of ``busy``; return that."""
        slot = self._free(busy)
        for block in self._keys + self._values:
            block[slot, :, : len(prefix)] = block[source, :, : len(prefix)]
        self._set(slot, prefix)
        return slot

    def take(self, entry: Entry, row: int, prefix: Ids, busy: set[int]) -> int:
        """Copy the beginning of an entry's row to a slot, none of ``busy``; return that."""
        cache = cut(entry, row, len(prefix))
        keys, values = ([getattr(x, n) for x in cache.layers] for n in ("keys", "values"))
        self._make_room(len(prefix) + 1, keys, values)
        slot = self._free(busy)
        for block, part in zip(self._keys + self._values, keys + values, strict=True):
            block[slot, :, : len(prefix)] = part[0]
        self._set(slot, prefix)
        return slot

    def step(self, slots: Sequence[int]) -> tuple[Any, torch.Tensor]:
        """Return (cache, valid bool [B, T]) for a forward of one token after each slot's row."""
        lengths = torch.tensor([len(self._rows[s]) for s in slots])
        width = int(lengths.max()) + 1
        self._make_room(width)
        where = torch.tensor(slots)
        adjacent = list(slots) == list(range(slots[0], slots[0] + len(slots)))
        layers = [
            _Slots(keys, values, where, lengths, width, adjacent)
            for keys, values in zip(self._keys, self._values, strict=True)
        ]
        return Cache(layers=layers), torch.arange(width) <= lengths[:, None]

    def commit(self, slots: Sequence[int], rows: Sequence[Ids]) -> None:
        """Take the tokens of the last forward over: slot by slot, its row is now this one."""
        for slot, row in zip(slots, rows, strict=True):
            self._set(slot, row)

    def clear(self) -> None:
        """Forget everything."""
        self._rows, self._where, self._keys, self._values = {}, {}, [], []

    def _set(self, slot: int, row: Ids) -> None:
        old = self._rows.pop(slot, None)
        if old is not None and self._where.get(old) == slot:
            del self._where[old]
        self._rows[slot] = row
        self._where[row] = slot

    def _free(self, busy: set[int]) -> int:
        if len(self._rows) < self.slots:
            return next(s for s in range(self.slots) if s not in self._rows)
        slot = next((s for s in self._rows if s not in busy), None)
        if slot is None:
            raise ValueError(f"at most {self.slots} rows step together")
        return slot

    def _make_room(self, length: int, keys: Sequence[Any] = (), values: Sequence[Any] = ()) -> None:
        if not self._keys:
            each = sum(x.shape[1] * x.shape[3] * x.element_size() for x in (*keys, *values))
            self.slots = max(2, min(self.slots, self.max_bytes // (LEAST * each)))
            self.max_length = self.max_bytes // (self.slots * each)
            self._keys, self._values = ([_empty(x, self.slots) for x in p] for p in (keys, values))
        room = self._keys[0].shape[2]
        if length <= room:
            return
        while room < length:
            room *= 2
        room = max(length, min(room, self.max_length))
        self._keys, self._values = (
            [_wider(x, room) for x in p] for p in (self._keys, self._values)
        )


class _Slots(DynamicLayer):
    """One layer's slots during a forward of one token for each."""

    def __init__(
        self,
        keys: torch.Tensor,
        values: torch.Tensor,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        width: int,
        adjacent: bool,
    ) -> None:
        super().__init__()
        self.is_initialized = True
        self.blocks = keys, values
        self.slots, self.lengths = slots.to(keys.device), lengths.to(keys.device)
        self.width = width
        self.first = int(slots[0]) if adjacent else None

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> Any:
        """Write the new token [B, heads, 1, size] of each row; return all tokens of the rows."""
        found = []
        for block, new in zip(self.blocks, (keys, values), strict=True):
            block[self.slots, :, self.lengths] = new[:, :, 0]
            if self.first is None:
                found.append(block[:, :, : self.width].index_select(0, self.slots))
            else:
                found.append(block[self.first : self.first + len(self.slots), :, : self.width])
        return tuple(found)

    def get_seq_length(self) -> int:
        """Return the tokens before the new one, padding included."""
        return self.width - 1


def _empty(like: torch.Tensor, slots: int) -> torch.Tensor:
    # Zeros, not whatever lay there: what is masked still takes part in a product, and a NaN would
    # spread. On the CPU such pages cost no memory until they are written.
    return like.new_zeros(slots, like.shape[1], ROOM, like.shape[3])


def _wider(block: torch.Tensor, room: int) -> torch.Tensor:
    wide = block.new_zeros(block.shape[0], block.shape[1], room, block.shape[3])
    wide[:, :, : block.shape[2]] = block
    return wide
