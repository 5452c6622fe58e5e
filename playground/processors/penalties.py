"""Filters that look at the tokens so far: penalties, no-repeat n-grams, banned tokens.

In and out: scores [V] (logits, or log-probabilities in beam search) and the context's ids. The
penalties move scores, the other two mask tokens. None needs probabilities, and the repetition
penalty hangs on the sign of a score, so all run before the temperature in every dialect.

Sources: repetition penalty Keskar et al. 2019 (arXiv 1909.05858) with the sign rule of transformers
(a negative score is multiplied, so that both signs go down); presence and frequency penalties as in
OpenAI's API reference and vLLM; n-grams as transformers' NoRepeatNGramLogitsProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from playground.processors.scores import MASKED


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The tokens so far: ``ids`` int [n], of which the first ``prompt_length`` are the prompt."""

    ids: np.ndarray
    prompt_length: int = 0

    @classmethod
    def of(cls, ids: Sequence[int] | np.ndarray, prompt_length: int = 0) -> Context:
        """Build from any sequence of ids. Raises ValueError for a negative id or length."""
        ids = np.asarray(ids, np.int64).reshape(-1)
        if ids.size and ids.min() < 0:
            raise ValueError(f"token ids must be >= 0, got {ids.min()}")
        if prompt_length < 0:
            raise ValueError(f"prompt_length must be >= 0, got {prompt_length}")
        return cls(ids, prompt_length)

    def counts(self, with_prompt: bool, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct ids (below ``vocab_size``, ascending) and how often each occurs."""
        ids = self.ids if with_prompt else self.ids[self.prompt_length :]
        return np.unique(ids[ids < vocab_size], return_counts=True)


def repetition_penalty(scores: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Divide positive scores of the ``seen`` ids by ``penalty``, multiply negative ones by it."""
    out = scores.copy()
    old = scores[seen]
    with np.errstate(over="ignore"):
        out[seen] = np.where(old < 0, old * penalty, old / penalty)
    return out


def presence_penalty(scores: np.ndarray, seen: np.ndarray, penalty: float) -> np.ndarray:
    """Take ``penalty`` from every ``seen`` id, once."""
    out = scores.copy()
    out[seen] -= penalty
    return out


def frequency_penalty(
    scores: np.ndarray, seen: np.ndarray, counts: np.ndarray, penalty: float
) -> np.ndarray:
    """Take ``penalty`` from every ``seen`` id, once for each time that it occurred."""
    out = scores.copy()
    out[seen] -= penalty * counts
    return out


def repeated_ends(ids: np.ndarray, size: int) -> np.ndarray:
    """Return the tokens that would complete an n-gram of ``size`` tokens seen before.

    One entry per earlier occurrence, so a token may be there several times.
    """
    if len(ids) < size:
        return np.empty(0, np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(ids, size)
    start = ids[len(ids) + 1 - size :]  # the last size - 1 tokens
    return windows[(windows[:, :-1] == start).all(axis=1), -1]


def no_repeat_ngram(scores: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    """Mask each token that would repeat an n-gram of ``size`` tokens (prompt included)."""
    ends = repeated_ends(ids, size)
    return banned_tokens(scores, ends[ends < len(scores)])


def banned_tokens(scores: np.ndarray, banned: np.ndarray | tuple[int, ...]) -> np.ndarray:
    """Mask the ``banned`` ids. Raises ValueError for an id outside the vocabulary."""
    ids = np.asarray(banned, np.int64)
    wrong = ids[(ids < 0) | (ids >= len(scores))]
    if wrong.size:
        raise ValueError(f"banned_tokens must be in [0, {len(scores) - 1}], got {wrong[0]}")
    out = scores.copy()
    out[ids] = MASKED
    return out
