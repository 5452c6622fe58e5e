"""Drafting: a block of proposed tokens, each with the law and the dice that it came from.

Ids and a draft (a LanguageModel, or a Proposer such as ``PromptLookup``) flow in; a Block flows
out. What the acceptance test needs of a draft is exactly this: the law that each token was really
drawn from, shaped by the target's chain and over the target's vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from playground.dice import draw, uniform
from playground.engines.acceptance import one_hot
from playground.language_model import LanguageModel
from playground.processors import shape
from playground.records import SamplingParams


class Proposer(Protocol):
    """A draft that is no model: it proposes ids outright, such as ``PromptLookup``."""

    name: str

    def propose(self, ids: Sequence[int], count: int) -> tuple[int, ...]:
        """Return at most ``count`` ids that may follow ``ids``; none is fine."""
        ...


Draft = LanguageModel | Proposer


def is_proposer(draft: Draft) -> bool:
    """Say whether a draft proposes ids outright, instead of laws to draw them from."""
    return hasattr(draft, "propose")


class Law(NamedTuple):
    """One position's laws [V]: log-probabilities of the model, after the chain, and their exp."""

    model: np.ndarray
    final: np.ndarray
    probs: np.ndarray


@dataclass
class Block:
    """Drafted ids with the law [V] and the dice that each came from, and the forwards' time."""

    ids: list[int] = field(default_factory=list)
    probs: list[np.ndarray] = field(default_factory=list)
    us: list[float | None] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, token_id: int, probs: np.ndarray, u: float | None) -> None:
        """Append a drafted token."""
        self.ids.append(token_id)
        self.probs.append(probs)
        self.us.append(u)


def draft_block(
    draft: Draft,
    ids: tuple[int, ...],
    count: int,
    size: int,
    eos_ids: tuple[int, ...],
    sampling_params: SamplingParams,
    prompt_length: int,
) -> Block:
    """Draft up to ``count`` tokens over a vocabulary of ``size`` ids.

    Fewer come after an EOS and where the draft has nothing more to offer.
    """
    if is_proposer(draft):
        return _proposed(draft, ids, count, size, eos_ids)
    block = Block()
    # A target with a wider output layer may have emitted ids that the draft has never seen. They
    # are left out of what it reads: any draft is sound, so this costs acceptance, not truth.
    known = [i for i in ids if i < draft.vocab_size]
    if ids and not known:
        return block
    if draft.context_length is not None:
        count = min(count, draft.context_length - len(known) + 1)
    for _ in range(count):
        start = time.perf_counter()
        logits = _widen(draft.logits(known + block.ids)[-1], size)
        block.seconds += time.perf_counter() - start
        try:
            law = law_after(logits, sampling_params, ids + tuple(block.ids), prompt_length)
        except ValueError:  # nothing survives in the draft; bad settings raise at the target, too
            break
        position = len(ids) + len(block.ids)
        x, u = draw_token(law.probs, law.final, sampling_params, position, "draft")
        block.add(x, law.probs, u)
        if x in eos_ids:
            break
    return block


def law_after(
    logits: np.ndarray, sampling_params: SamplingParams, ids: tuple[int, ...], prompt_length: int
) -> Law:
    """Shape the logits [V] after ids; temperature 0 gives a one-hot law."""
    stages = shape(logits, sampling_params, ids, prompt_length)
    model, final = stages[0].logprobs, stages[-1].logprobs
    if sampling_params.temperature == 0:
        return Law(model, final, one_hot(int(final.argmax()), len(final)))
    return Law(model, final, np.exp(final))


def draw_token(
    probs: np.ndarray,
    logprobs: np.ndarray | None,
    sampling_params: SamplingParams,
    position: int,
    stream: str,
) -> tuple[int, float | None]:
    """Return (token, u) by the dice of the position; greedy takes the highest, with u None.

    ``logprobs`` None takes the logarithm of ``probs``.
    """
    if sampling_params.temperature == 0:
        return int(probs.argmax()), None
    if logprobs is None:
        with np.errstate(divide="ignore"):
            logprobs = np.log(probs)
    u = uniform(sampling_params.seed, position, stream)
    return int(draw(logprobs, u)), u


def _proposed(
    draft: Proposer, ids: tuple[int, ...], count: int, size: int, eos_ids: tuple[int, ...]
) -> Block:
    block = Block()
    start = time.perf_counter()
    proposal = draft.propose(ids, count)[:count] if count else ()
    block.seconds = time.perf_counter() - start
    for x in proposal:
        if not 0 <= x < size:
            break
        block.add(x, one_hot(x, size), None)
        if x in eos_ids:
            break
    return block


def _widen(logits: np.ndarray, size: int) -> np.ndarray:
    """Return logits over ``size`` ids: further ones cut off, missing ones -inf."""
    if len(logits) >= size:
        return logits[:size]
    return np.concatenate([logits, np.full(size - len(logits), -np.inf, logits.dtype)])
