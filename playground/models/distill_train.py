"""Training of the distilled student on the shards that are there.

In: shards (see ``distill_data``), the teacher's head. Out: checkpoints and held-out figures.

Steps of training on a batch of rows:
1. Student's final normed hidden states for every position (bfloat16 arithmetic, float32 weights).
2. Cheap signal: the mean squared difference of all V logits. It needs no head: with F F^T the
   covariance of the head's rows it is |d F|^2 for a difference d of hidden states.
3. Dear signal: KL(teacher || student) plus total variation, both distributions rebuilt from hidden
   states through the shared head. The head costs more than the student's layers do, so a step looks
   at part of the vocabulary (frequent tokens, those of the batch, random ones), within which the
   two must agree: it is zero only where they do, and another part comes next time.
4. AdamW. The rate warms up, stays, and falls to zero over the last part of the allotted time, in
   which the dear signal alone counts, over the whole vocabulary at some of the positions.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import time
from typing import Any

import numpy as np
import torch

from playground.models.distill_data import Shard, shards
from playground.models.distill_loss import HeadLoss, figures, head_factor
from playground.models.distill_prompts import KINDS
from playground.models.student import LAYERS, own_weights, shallow

POSITIONS = 1024  # in a step
FREQUENT, RANDOM = 5000, 2500  # tokens of the vocabulary that a step looks at
PART = 0.5  # of the positions, when the whole vocabulary is looked at
RATE, WARMUP, FALL = 1e-3, 30, 0.35  # FALL: the last part of the time
CHEAP = 0.03  # weight of the signal without the head
HELD_OUT = 2  # shards


def load_teacher(path: str, dtype: torch.dtype):
    """Return (model, tokenizer) of a folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype).eval().requires_grad_(False)
    return model, AutoTokenizer.from_pretrained(path)


def log(text: str) -> None:
    """Print one line with the clock."""
    print(f"{datetime.datetime.now():%H:%M:%S} {text}", flush=True)


class Trainer:
    """The student, its optimiser, and which rows it has seen how often."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.folder = args, args.folder
        self.teacher, _ = load_teacher(args.teacher, torch.float32)
        self.student = shallow(self.teacher, LAYERS, own=True)
        self.head = self.teacher.lm_head.weight.detach()
        self.head_half = self.head.bfloat16()
        self.weights = own_weights(self.student)
        for p in self.weights.values():
            p.requires_grad_(True)
        matrices = [p for p in self.weights.values() if p.ndim > 1]
        vectors = [p for p in self.weights.values() if p.ndim == 1]
        self.optimiser = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}],
            lr=RATE,
            betas=(0.9, 0.95),
            fused=True,
        )
        self.settings = {"rate": RATE, "fall": FALL}
        self.step = self.tokens = 0
        self.uses: dict[str, np.ndarray] = {}
        self.history: list[dict] = []
        self.shards: dict[str, Shard] = {}
        self.factor = self.frequent = None
        self.rng = np.random.default_rng()
        self.checkpoint = self.folder / "checkpoint.pt"
        if self.checkpoint.exists():
            self.load()

    def save(self) -> None:
        """Write the checkpoint atomically."""
        part = self.checkpoint.with_suffix(".part")
        state = {
            "weights": {k: p.detach() for k, p in self.weights.items()},
            "optimiser": self.optimiser.state_dict(),
            **{k: getattr(self, k) for k in ("step", "tokens", "uses", "history")},
        }
        torch.save(state, part)
        os.replace(part, self.checkpoint)

    def load(self) -> None:
        """Go on from the checkpoint."""
        state = torch.load(self.checkpoint, weights_only=False)
        with torch.no_grad():
            for name, p in self.weights.items():
                p.copy_(state["weights"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        for k in ("step", "tokens", "uses", "history"):
            setattr(self, k, state[k])
        log(f"resumed at step {self.step}, {self.tokens} tokens")

    def refresh(self) -> int:
        """Open new shards; return the training corpus's tokens."""
        for path in shards(self.folder, "train"):
            if path.name not in self.shards:
                self.shards[path.name] = shard = Shard(path)
                self.uses.setdefault(path.name, np.zeros(len(shard.ids), np.int32))
        return sum(s.ids.size for s in self.shards.values())

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids and hidden states of the rows seen least so far, all of one length."""
        rows = [(u, n, i) for n, uses in self.uses.items() for i, u in enumerate(uses)]
        order = self.rng.permutation(len(rows))
        order = order[np.argsort([rows[i][0] for i in order], kind="stable")]
        length = self.shards[rows[order[0]][1]].ids.shape[1]
        same = (rows[i][1:] for i in order if self.shards[rows[i][1]].ids.shape[1] == length)
        picks = list(itertools.islice(same, max(1, POSITIONS // length)))
        for name, i in picks:
            self.uses[name][i] += 1
        ids = np.stack([self.shards[n].ids[i] for n, i in picks]).astype(np.int64)
        hidden = np.stack([self.shards[n].hidden[i] for n, i in picks])
        return torch.from_numpy(ids), torch.from_numpy(hidden).float()

    def vocabulary_part(self, ids: torch.Tensor) -> np.ndarray:
        """Return the token ids that a step looks at: frequent ones, the batch's, random ones."""
        if self.frequent is None:
            counts = np.bincount(np.concatenate([s.ids.ravel() for s in self.shards.values()]))
            self.frequent = np.argsort(-counts, kind="stable")[:FREQUENT]
        some = self.rng.integers(len(self.head), size=RANDOM)
        return np.unique(np.concatenate([self.frequent, ids.numpy().ravel(), some]))

    def train_step(self, rate: float, last: bool) -> dict[str, float]:
        """One step; ``last`` for the last part of the time. Returns the losses."""
        if self.factor is None:
            self.factor = head_factor(self.head, [s.ids for s in self.shards.values()])
        ids, target = self.batch()
        with torch.autocast("cpu", torch.bfloat16):
            states = self.student.model(ids, use_cache=False).last_hidden_state
        states, target = states.float().flatten(0, 1), target.flatten(0, 1)
        squared = ((states - target) @ self.factor).square().sum(-1).mean()
        if last:
            some = torch.from_numpy(self.rng.permutation(len(states))[: int(PART * len(states))])
            loss, kl, shared = HeadLoss.apply(states[some], target[some], self.head_half)
        else:
            part = torch.from_numpy(self.vocabulary_part(ids))
            loss, kl, shared = HeadLoss.apply(states, target, self.head_half[part])
            loss = loss + CHEAP * squared
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += ids.numel()
        return {"kl": kl.item(), "overlap": shared.item(), "squared": squared.item()}

    @torch.inference_mode()
    def evaluate(self, every: int = 1, student: Any = None) -> dict:
        """Return held-out figures: overlap and KL, at positions where the teacher chose.

        ``own_law``: on the texts that were sampled at temperature 1. ``every`` > 1 is for a quick
        look: half of the texts, and one in ``every`` positions. ``student``: another one.
        """
        student = student or self.student
        rows = []
        for path in shards(self.folder, "held-out")[:HELD_OUT]:
            shard = Shard(path)
            texts = np.arange(0, len(shard.ids), 1 if every == 1 else 2)
            for part in np.array_split(texts, 8):
                ids = torch.from_numpy(shard.ids[part].astype(np.int64))
                states = student.model(ids, use_cache=False).last_hidden_state
                where = shard.sampled[part].copy()
                where[:, np.arange(ids.shape[1]) % every != every - 1] = False
                if not where.any():
                    continue
                target = torch.from_numpy(shard.hidden[part][where]).float()
                shared, kl = figures(states[torch.from_numpy(where)], target, self.head)
                row = np.nonzero(where)[0]
                rows.append((shared, kl, shard.kinds[part][row], shard.temperatures[part][row]))
        shared, kl, kinds, heat = (np.concatenate(x) for x in zip(*rows, strict=True))
        out = {
            "overlap": shared.mean(),
            "kl": kl.mean(),
            "overlap_own_law": _mean(shared[heat == 1]),
            "kl_own_law": _mean(kl[heat == 1]),
            "positions": len(shared),
        }
        for i, kind in enumerate(KINDS):
            out[f"overlap_{kind}"] = _mean(shared[kinds == i])
        out = {k: round(float(v), 4) for k, v in out.items()}
        return {"step": self.step, "tokens": self.tokens, "corpus": self.refresh(), **out}

    def record(self, every: int = 10) -> None:
        """Evaluate, keep the figures, save."""
        start = time.time()
        self.history.append(self.evaluate(every))
        log(f"held-out {json.dumps(self.history[-1])} ({time.time() - start:.0f} s)")
        self.save()


def _mean(values: np.ndarray) -> float:
    """The mean, NaN of nothing."""
    return float(values.mean()) if len(values) else float("nan")


def rate_at(step: int, part: float) -> float:
    """Learning rate after ``part`` (0 to 1) of the time: warm up, stay, fall."""
    return RATE * min(1, (step + 1) / WARMUP) * min(1, max(0.0, 1 - part) / FALL)


def train(args: argparse.Namespace) -> None:
    """Train until the time is over, on all shards that are there at each moment."""
    trainer = Trainer(args)
    while len(shards(args.folder, "held-out")) < HELD_OUT or not trainer.refresh():
        time.sleep(5)
    start = evaluated = printed = time.time()
    while (now := time.time()) < args.end:
        part = (now - start) / (args.end - start)
        corpus = trainer.refresh()
        losses = trainer.train_step(rate_at(trainer.step, part), last=part > 1 - FALL)
        if time.time() - printed > 60:
            printed = time.time()
            shown = " ".join(f"{k} {v:.3f}" for k, v in losses.items())
            log(f"step {trainer.step} tokens {trainer.tokens} of {corpus}: {shown}")
        if time.time() - evaluated > 60 * args.every:
            trainer.record()
            evaluated = time.time()
    trainer.record(every=1)
