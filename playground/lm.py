"""TransformersLM: a transformers causal model behind the LanguageModel protocol.

Ids flow in, float32 logits on the CPU flow out, whatever device and dtype the model has. A prefix
costs as little as its caches allow: nothing when its logits are still there, one single-token
forward when it extends a known prefix.

logits(ids, last):
1. Positions whose logits are cached are not computed again.
2. The longest known prefix gives its keys and values (see ``kv``).
3. One forward over the remaining ids; its logits and its cache are kept, both bounded in bytes.

``step_many`` does the same for the next token of many sessions at once (see ``kv_pool``).
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from playground.kv import Entry, Ids, KVStore, cut, full_attention, merge, select
from playground.kv_pool import KVPool
from playground.language_model import check_ids
from playground.logits_cache import LogitsCache
from playground.text import TokenizerText

KV_BYTES = 2 << 30
LOGITS_BYTES = 256 << 20
POOL_BYTES = 1 << 30


class TransformersLM(TokenizerText):
    """A causal model and its tokenizer; thread-safe.

    ``model`` is in eval mode on its device. ``kv_bytes`` and ``logits_bytes`` bound the caches.
    ``forwards`` counts forward passes and ``forwarded`` the tokens that went through them
    (padding excluded). ``padding_mass``: the probability that the last forward gave to ids that
    only pad the output layer (0 where nothing is cut).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str = "",
        fingerprint: str = "",
        kv_bytes: int = KV_BYTES,
        logits_bytes: int = LOGITS_BYTES,
    ) -> None:
        super().__init__(tokenizer, model.generation_config)
        config = model.config.get_text_config(decoder=True)
        self.model = model.eval()
        self.name = name or model.config.name_or_path or type(model).__name__
        self.output_width = int(model.get_output_embeddings().weight.shape[0])
        self.vocab_size = min(self.tokenizer_size, self.output_width)
        limit = getattr(config, "max_position_embeddings", None)
        self.context_length = int(limit) if limit else None
        self.device = model.device.type
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.fingerprint = f"{self.name}@{fingerprint}/{self.dtype}"
        self.forwards = 0
        self.forwarded = 0
        self.padding_mass = 0.0
        self._takes = set(inspect.signature(model.forward).parameters)
        self._full_attention = full_attention(DynamicCache(config=model.config))
        self._kv = KVStore(kv_bytes)
        self._pool = KVPool(POOL_BYTES)
        self._logits = LogitsCache(logits_bytes)
        self._lock = threading.RLock()

    @cached_property
    def parameters(self) -> int:
        """Number of the model's parameters (shared ones once)."""
        return sum(p.numel() for p in self.model.parameters())

    def fresh(self, kv_bytes: int = KV_BYTES, logits_bytes: int = LOGITS_BYTES) -> TransformersLM:
        """Return the same model with empty caches and counts of its own: to measure a run's cost.

        Weights, tokenizer and lock are shared.
        """
        other = copy.copy(self)
        other._kv, other._logits = KVStore(kv_bytes), LogitsCache(logits_bytes)
        other._pool = KVPool(POOL_BYTES)
        other.forwards = other.forwarded = 0
        return other

    @property
    def cached_bytes(self) -> int:
        """Bytes that the caches hold now."""
        return self._kv.nbytes + self._pool.nbytes + self._logits.nbytes

    def clear(self) -> None:
        """Drop all caches."""
        with self._lock:
            self._kv.clear()
            self._pool.clear()
            self._logits.clear()

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V] (read-only); see ``LanguageModel.logits``."""
        ids = self._check(ids, last)
        with self._lock:
            known = self._known(ids, last)
            if any(row is None for row in known):
                missing = last - next(i for i, row in enumerate(known) if row is None)
                block = self._forward_one(ids, missing)
                if missing == last:
                    return block
                known[last - missing :] = list(block)
        return _stack(known)

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V] (read-only); equal prefixes are computed once."""
        checked = [self._check(p, last) for p in prefixes]
        if not checked:
            raise ValueError("prefixes must have at least one row, got none")
        with self._lock:
            unique = list(dict.fromkeys(checked))
            found: dict[Ids, np.ndarray] = {}
            for ids in unique:
                rows = self._known(ids, last)
                if all(row is not None for row in rows):
                    found[ids] = _stack(rows)
            todo = [ids for ids in unique if ids not in found]
            if len(todo) == 1:
                found[todo[0]] = self._forward_one(todo[0], last)
            elif todo:
                block = self._forward_batch(todo, last)
                if todo == checked:
                    return block
                found.update(zip(todo, block, strict=True))
        return np.stack([found[ids] for ids in checked])

    # For many users at once

    def known(self, ids: Sequence[int], last: int = 1) -> np.ndarray | None:
        """Return what ``logits`` would if it is cached, else None; waits for no forward."""
        rows = self._known(self._check(ids, last), last)
        return None if any(row is None for row in rows) else _stack(rows)

    def learn(self, ids: Sequence[int], logits: np.ndarray) -> None:
        """Keep logits [V] that another copy of this model computed as those after ``ids``."""
        if logits.shape != (self.vocab_size,) or not np.isfinite(logits).any():
            raise ValueError(f"logits must be [{self.vocab_size}] numbers, got {logits.shape}")
        row = np.ascontiguousarray(logits, np.float32)
        row.flags.writeable = False
        self._logits.put(self._check(ids, 1), row)

    def unread(self, ids: Sequence[int], last: int = 1) -> int:
        """Return how many tokens a forward for ``logits(ids, last)`` would have to read."""
        ids = tuple(ids)
        with self._lock:
            known = self._known(ids, last)
            missing = last - next((i for i, row in enumerate(known) if row is None), last)
            return missing and len(ids) - self._covered(ids, len(ids) - missing)

    @property
    def steps_together(self) -> bool:
        """Whether ``step_many`` can join the steps of several sessions: full attention only."""
        return self._full_attention

    def may_step(self, length: int) -> bool:
        """Say whether a row of that many tokens finds room among those that step together."""
        return self._pool.fits(length)

    def step_many(self, rows: Sequence[Sequence[int]]) -> np.ndarray:
        """Return float32 [B, V] (read-only): the logits after each of the rows, by one forward.

        The rows are different, each of them known but for its last token (``unread`` is 1; others
        go one by one), and each keeps its keys and values whatever the others do next.
        """
        if not self._full_attention:
            raise ValueError(f"{self.name} can't step together: not all of it is full attention")
        checked = [self._check(row, 1) for row in rows]
        size = max(self._pool.slots // 2, 1)  # a big model has few slots; half may be copied from
        with self._lock:
            parts = [self._step(checked[i : i + size]) for i in range(0, len(checked), size)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _step(self, rows: list[Ids]) -> np.ndarray:
        slots = self._place(rows)
        order = sorted(slots, key=slots.__getitem__)
        block = np.empty((len(rows), self.vocab_size), np.float32)
        for i in range(len(rows)):
            if i not in slots:
                block[i] = self._forward_one(rows[i], 1)[0]
        if order:
            taking, stepped = [slots[i] for i in order], [rows[i] for i in order]
            cache, valid = self._pool.step(taking)
            tokens = torch.tensor([[row[-1]] for row in stepped])
            block[order] = self._call(tokens, cache, None if valid.all() else valid, 1)[:, 0]
            self.forwarded += len(order)
            self._pool.commit(taking, stepped)
            for i in order:
                self._logits.put(rows[i], block[i].copy())  # a view would keep the whole block
        block.flags.writeable = False
        return block

    def _place(self, rows: list[Ids]) -> dict[int, int]:
        """Return a slot for each row (by its index) that is known but for its last token."""
        slots: dict[int, int] = {}
        busy: set[int] = set()
        for i, row in enumerate(rows):
            slot, n = self._pool.longest(row, len(row) - 1)
            if slot is not None and n == len(row) - 1:
                slots[i] = slot
                busy.add(slot)  # it may be written to, or be copied from
        own: set[int] = set()
        for i, row in enumerate(rows):
            if i in slots:
                if slots[i] in own or not self._pool.holds(slots[i], row[:-1]):
                    slots[i] = self._pool.copy(slots[i], row[:-1], busy)
            else:
                entry, which, n = self._kv.longest(row, len(row) - 1)
                if entry is None or n < len(row) - 1:
                    continue
                slots[i] = self._pool.take(entry, which, row[:-1], busy)
            own.add(slots[i])
            busy.add(slots[i])
        return slots

    def _covered(self, ids: Ids, limit: int) -> int:
        """Return how many leading ids have keys and values somewhere, at most ``limit``."""
        n = self._kv.longest(ids, limit)[2]
        if n < limit and self._full_attention:
            n = max(n, self._pool.longest(ids, limit)[1])
        return n

    def _known(self, ids: Ids, last: int) -> list[np.ndarray | None]:
        """Return the cached logits after each of the last positions, None where there are none."""
        return [self._logits.get(ids[: len(ids) - back]) for back in range(last - 1, -1, -1)]

    def _check(self, ids: Sequence[int], last: int) -> Ids:
        if not len(ids):
            start = "" if self.bos_id is None else f" (start from BOS, id {self.bos_id})"
            raise ValueError(f"ids must have at least one token, got none{start}")
        return check_ids(self, ids, last)

    def _forward_one(self, ids: Ids, last: int) -> np.ndarray:
        entry, row, n = self._kv.longest(ids, len(ids) - last)
        slot, in_pool = self._pool.longest(ids, len(ids) - last)
        if slot is not None and in_pool > n:
            n, cache = in_pool, self._pool.lend(slot, in_pool)
        elif entry is None or n == 0:
            cache = self._new_cache()
        else:
            alone = len(entry.rows) == 1
            whole = alone and n == len(entry.rows[0])
            cache = entry.cache if whole else cut(entry, row, n)
            if whole or (alone and len(entry.rows[0]) - n <= entry.loose):
                self._kv.remove(entry)
        return self._run([ids], [n], cache, None, last)[0]

    def _forward_batch(self, rows: list[Ids], last: int) -> np.ndarray:
        extended = self._kv.extended_by(rows) if last == 1 else None
        if extended is not None:
            entry, where = extended
            cache, valid = select(entry, where)
            self._kv.remove(entry)
            return self._run(rows, [len(r) - 1 for r in rows], cache, valid, last)
        if self._full_attention:
            sources = [self._kv.longest(r, len(r) - last) for r in rows]
            cache, valid = merge(sources, self._new_cache())
            return self._run(rows, [n for _, _, n in sources], cache, valid, last)
        # Recurrent states take up padding, and full windows can't be merged: rows of one length
        # go together, from the start.
        block = np.empty((len(rows), last, self.vocab_size), np.float32)
        for length in sorted({len(r) for r in rows}):
            group = [i for i, r in enumerate(rows) if len(r) == length]
            some = [rows[i] for i in group]
            block[group] = self._run(some, [0] * len(some), self._new_cache(), None, last)
        return block

    def _new_cache(self) -> Any:
        return DynamicCache(config=self.model.config)

    def _run(
        self, rows: list[Ids], done: list[int], cache: Any, valid: torch.Tensor | None, last: int
    ) -> np.ndarray:
        """Forward each row's ids from ``done`` on; keep the cache and the logits [B, last, V]."""
        new = [row[n:] for row, n in zip(rows, done, strict=True)]
        width = max(map(len, new))
        tokens = torch.tensor([[0] * (width - len(r)) + list(r) for r in new])
        fresh = torch.tensor([[i >= width - len(r) for i in range(width)] for r in new])
        if valid is not None or not fresh.all():
            past = torch.ones(len(rows), done[0], dtype=torch.bool) if valid is None else valid
            valid = torch.cat([past, fresh], dim=1)
            valid = None if valid.all() else valid
        block = self._call(tokens, cache, valid, last)
        self.forwarded += sum(map(len, new))
        self._kv.add(Entry(tuple(rows), cache, valid, loose=last - 1 if len(rows) == 1 else 0))
        for row, logits in zip(rows, block, strict=True):
            for back in range(last):
                self._logits.put(row[: len(row) - back], logits[last - 1 - back])
        return block

    @torch.inference_mode()
    def _call(
        self, tokens: torch.Tensor, cache: Any, valid: torch.Tensor | None, last: int
    ) -> np.ndarray:
        """Forward tokens [B, T] after a cache; return float32 [B, last, V], read-only."""
        inputs: dict[str, Any] = {"input_ids": tokens, "cache": cache, "use_cache": True}
        if valid is not None:
            inputs["attention_mask"] = valid.long()
            positions = (valid.long().cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
            if "position_ids" in self._takes:
                inputs["position_ids"] = positions
        if "logits_to_keep" in self._takes:
            inputs["logits_to_keep"] = last
        device = self.model.device
        inputs = {k: v.to(device) if torch.is_tensor(v) else v for k, v in inputs.items()}
        out = self.model(**inputs).logits[:, -last:]
        self.forwards += 1
        if self.output_width > self.vocab_size:
            total = out[:, -1].float().logsumexp(-1)
            rest = out[:, -1, self.vocab_size :].float().logsumexp(-1)
            self.padding_mass = float((rest - total).exp().max())
            out = out[..., : self.vocab_size]
        block = out.to("cpu", torch.float32).contiguous().numpy()
        block.flags.writeable = False
        return block


def _stack(rows: Sequence[np.ndarray]) -> np.ndarray:
    block = rows[0][None] if len(rows) == 1 else np.stack(rows)
    block.flags.writeable = False
    return block
