"""The distillation corpus: text sampled from the teacher, kept with its final hidden states.

In: the teacher, prompts. Out: shards on disk, each some ten thousand tokens. A distribution is
49,152 numbers a token; the teacher's final normed hidden state is 576, and the shared head gives
the distribution back from it. So sampling runs once, and training never runs the teacher.

A shard is two files: ``<split>-<index>.npy``, float16 [B, T, H], the hidden states; and, renamed
into place last (so a shard that has it is whole), ``<split>-<index>.npz`` with ``ids`` uint16
[B, T], ``sampled`` bool [B, T] (the token after this position was the teacher's choice, not a
prompt's), ``kinds`` [B] and ``temperatures`` [B].

Steps of sampling a shard:
1. Each row starts with a prompt; all rows advance together, one token a forward (bfloat16).
2. While a row's prompt lasts, its next token is forced; then it is drawn at the row's temperature.
3. A row whose teacher ends its text gets another prompt of the same kind (chat: the next turn).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicLayer

from playground.models.distill_prompts import KINDS, Prompts

# (rows, tokens a row) of the shards in turn: mostly short, some long enough for a real chat.
SHAPES = ((448, 256), (448, 256), (448, 256), (160, 640))
# Most rows follow the teacher's own law; some the cooler settings people use.
TEMPERATURES, SHARES = (1.0, 0.8, 0.6), (0.65, 0.2, 0.15)


class _Layer(DynamicLayer):
    """Keys and values in one block allocated ahead: a step writes one column, copies nothing."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self._capacity = capacity
        self._filled = 0

    def update(self, keys, values, *args, **kwargs):
        """Append, and return views of all so far."""
        if not self.is_initialized:
            shape = (*keys.shape[:2], self._capacity, keys.shape[3])
            self._keys, self._values = keys.new_empty(shape), values.new_empty(shape)
            self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        start, self._filled = self._filled, self._filled + keys.shape[2]
        self._keys[:, :, start : self._filled] = keys
        self._values[:, :, start : self._filled] = values
        self.keys = self._keys[:, :, : self._filled]
        self.values = self._values[:, :, : self._filled]
        return self.keys, self.values


class _Row:
    """One row's prompt queue."""

    def __init__(self, prompts: Prompts, kind: str) -> None:
        self.kind = kind
        self._prompts = prompts
        self._queue = prompts.ids(kind, first=True)

    def start(self) -> int:
        return self._queue.pop(0)

    def forced(self) -> int | None:
        return self._queue.pop(0) if self._queue else None

    def ended(self) -> None:
        self._queue = self._prompts.ids(self.kind, first=False)


@torch.inference_mode()
def sample(teacher, prompts: Prompts, seed: int, rows: int, length: int, progress=lambda: None):
    """Sample ``rows`` texts of ``length`` tokens; returns a shard's arrays by name.

    ``teacher`` is a causal transformers model, in bfloat16 where the machine is quick at it.
    """
    rng = np.random.default_rng(seed)
    dice = torch.Generator().manual_seed(seed)
    queues = [_Row(prompts, prompts.kind()) for _ in range(rows)]
    temperatures = rng.choice(TEMPERATURES, rows, p=SHARES).astype(np.float32)
    heat = torch.from_numpy(temperatures)[:, None]
    eos = teacher.config.eos_token_id
    ids = np.zeros((rows, length), np.uint16)
    sampled = np.zeros((rows, length), bool)
    hidden = np.zeros((rows, length, teacher.config.hidden_size), np.float16)
    cache = Cache(layers=[_Layer(length) for _ in range(teacher.config.num_hidden_layers)])
    now = np.array([q.start() for q in queues])
    for t in range(length):
        ids[:, t] = now
        states = teacher.model(torch.from_numpy(now)[:, None], cache=cache).last_hidden_state[:, 0]
        hidden[:, t] = states.float().numpy()
        cdf = torch.softmax(teacher.lm_head(states).float() / heat, -1).cumsum(-1)
        u = torch.rand(rows, 1, generator=dice) * cdf[:, -1:]
        drawn = torch.searchsorted(cdf, u, right=True)[:, 0].clamp_(max=cdf.shape[1] - 1).numpy()
        for i, queue in enumerate(queues):
            token = queue.forced()
            sampled[i, t] = token is None
            now[i] = drawn[i] if token is None else token
            if token is None and now[i] == eos:
                queue.ended()
        progress()
    return {
        "ids": ids,
        "sampled": sampled,
        "hidden": hidden,
        "kinds": np.array([KINDS.index(q.kind) for q in queues], np.uint8),
        "temperatures": temperatures,
    }


@torch.inference_mode()
def exact_hidden(teacher, ids: np.ndarray) -> np.ndarray:
    """Return the final normed hidden states [B, T, H] float32 by plain forwards of the teacher."""
    out = [
        teacher.model(torch.from_numpy(rows.astype(np.int64)), use_cache=False).last_hidden_state
        for rows in np.array_split(ids, max(1, len(ids) // 8))
    ]
    return torch.cat(out).float().numpy()


def save_shard(folder: Path, split: str, index: int, arrays: dict[str, np.ndarray]) -> None:
    """Write a shard so that a killed run leaves either the whole of it or none."""
    folder.mkdir(parents=True, exist_ok=True)
    name = folder / f"{split}-{index:05d}"
    small = {k: v for k, v in arrays.items() if k != "hidden"}
    for suffix, write in (
        (".npy", lambda f: np.save(f, arrays["hidden"].astype(np.float16))),
        (".npz", lambda f: np.savez(f, **small)),
    ):
        with open(f"{name}{suffix}.part", "wb") as f:
            write(f)
        os.replace(f"{name}{suffix}.part", f"{name}{suffix}")


class Shard:
    """A shard on disk; the hidden states are mapped, not read."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as small:
            self.ids, self.sampled = small["ids"], small["sampled"]
            self.kinds, self.temperatures = small["kinds"], small["temperatures"]
        self.hidden = np.load(path.with_suffix(".npy"), mmap_mode="r")


def shards(folder: Path, split: str) -> list[Path]:
    """Return the whole shards of a split, in order."""
    return sorted(folder.glob(f"{split}-*.npz"))
