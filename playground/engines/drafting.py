"""Drafting: a block of proposed tokens, each with the law and the dice that it came from.

Ids and a draft (a LanguageModel, or a Proposer such as ``PromptLookup``) flow in; a Block flows
out. What the acceptance test needs of a draft is exactly this: the law that each token was really
drawn from, shaped by the target's chain and over the target's vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from playground.dice import draw, uniform
from playground.engines.acceptance import one_hot
from playground.language_model import LanguageModel
from playground.processors import active_filters, shape
from playground.records import SamplingParams, Stage


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


class Law:
    """One position's laws [V], each computed when first asked for.

    ``model`` and ``final`` are log-probabilities before and after the chain, ``probs`` is what
    tokens are drawn from: exp(final), or one-hot with temperature 0. Raises ValueError where no
    token survives the chain.
    """

    def __init__(
        self,
        logits: np.ndarray,
        sampling_params: SamplingParams,
        ids: tuple[int, ...],
        prompt_length: int,
    ) -> None:
        self._logits, self._params = logits, sampling_params
        self._ids, self._prompt_length = ids, prompt_length

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the chain."""
        return shape(self._logits, self._params, self._ids, self._prompt_length)

    @property
    def model(self) -> np.ndarray:
        """Log-probabilities of the model itself."""
        return self.stages[0].logprobs

    @property
    def final(self) -> np.ndarray:
        """Log-probabilities after the chain."""
        return self.stages[-1].logprobs

    @cached_property
    def probs(self) -> np.ndarray:
        """Probabilities that tokens are drawn from."""
        if self._params.temperature > 0:
            return np.exp(self.final)
        # Plain greedy needs no softmax: this is most of a greedy round's arithmetic.
        plain = active_filters(self._params) == ("temperature",)
        scores = self._logits if plain and np.isfinite(self._logits.max()) else self.final
        return one_hot(int(scores.argmax()), len(scores))


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
            law = Law(logits, sampling_params, ids + tuple(block.ids), prompt_length)
            probs = law.probs
        except ValueError:  # nothing survives in the draft; bad settings raise at the target, too
            break
        position = len(ids) + len(block.ids)
        x, u = draw_token(probs, law, sampling_params, position, "draft")
        block.add(x, probs, u)
        if x in eos_ids:
            break
    return block


def draw_token(
    probs: np.ndarray,
    law: Law | None,
    sampling_params: SamplingParams,
    position: int,
    stream: str,
) -> tuple[int, float | None]:
    """Return (token, u) by the dice of the position; greedy takes the highest, with u None.

    ``law`` is where ``probs`` come from, None where they are no model's (a residual).
    """
    if sampling_params.temperature == 0:
        return int(probs.argmax()), None
    with np.errstate(divide="ignore"):
        logprobs = np.log(probs) if law is None else law.final
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
