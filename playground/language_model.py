"""The LanguageModel protocol: all that an engine may ask of a model.

A model is a pure function of ids: the same ids give the same logits, whatever was asked before.
Caches (keys and values, logits) live inside it and are never seen. So engines hold ids alone, and a
beam search, a rewind or a rejected draft is only another list of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np


class ContextFull(ValueError):
    """The ids are longer than the model's context; the message has both numbers."""


@runtime_checkable
class LanguageModel(Protocol):
    """A causal language model over token ids.

    ``vocab_size`` V is the tokenizer's highest id + 1 (padding of the output layer is cut off).
    ``bos_id`` is None where the tokenizer has none. ``context_length`` is None when unbounded.
    """

    name: str
    vocab_size: int
    eos_ids: tuple[int, ...]
    bos_id: int | None
    context_length: int | None
    device: str
    dtype: str

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V]: the logits after each of the last ``last`` positions of ids.

        Raises ContextFull when ids are longer than the context, ValueError for empty ids, ids
        outside the vocabulary, or ``last`` outside [1, len(ids)].
        """
        ...

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V] for B prefixes (of any lengths) by one batched forward."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the text's ids."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids."""
        ...

    def label(self, token_id: int) -> str:
        """Return a visible label of one token, unique within the vocabulary."""
        ...


def check_ids(lm: LanguageModel, ids: Sequence[int], last: int = 1) -> tuple[int, ...]:
    """Return ids as a tuple of ints, or raise what ``LanguageModel.logits`` promises.

    Empty ids pass only with ``last`` 1 and only to a model that can start from nothing, so that
    check is the model's own.
    """
    ids = tuple(int(i) for i in ids)
    for i in ids:
        if not 0 <= i < lm.vocab_size:
            raise ValueError(f"token ids must be in [0, {lm.vocab_size - 1}], got {i}")
    if not 1 <= last <= max(len(ids), 1):
        raise ValueError(f"last must be in [1, {max(len(ids), 1)}], got {last}")
    if lm.context_length is not None and len(ids) > lm.context_length:
        raise ContextFull(
            f"the context is full: {len(ids)} tokens, and {lm.name} takes {lm.context_length}"
        )
    return ids
