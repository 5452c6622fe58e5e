"""Pairs of models that must speak of the same tokens: target and draft, expert and amateur.

Ids mean nothing across tokenizers, so vocabularies are compared by content (the raw token strings),
not by name or size: the same tokenizer comes with output layers of different padded widths.
"""

from __future__ import annotations

from playground.language_model import LanguageModel


class DifferentTokenizers(ValueError):
    """Two models speak of different tokens: at ``index`` one has ``ours``, the other ``theirs``."""

    def __init__(self, a: LanguageModel, b: LanguageModel, index: int, ours: str, theirs: str):
        self.index, self.ours, self.theirs = index, ours, theirs
        super().__init__(
            f"both models must have the same tokenizer, got {tokenizer_name(a)} and "
            f"{tokenizer_name(b)}: id {index} is {ours!r} in one and {theirs!r} in the other"
        )


def check_pair(a: LanguageModel, b: LanguageModel) -> int:
    """Return the width of the vocabulary that two models share: ids below it mean the same.

    A model may offer ``token_strings`` (its raw token strings by id). When both do, they must
    agree on every shared id; a toy without them passes by its ``vocab_size``. Raises
    DifferentTokenizers, with both names and the first difference, when the tokenizers differ.
    """
    shared = min(a.vocab_size, b.vocab_size)
    if a is b:
        return shared
    ours, theirs = (getattr(lm, "token_strings", None) for lm in (a, b))
    if ours is None or theirs is None or ours is theirs or ours[:shared] == theirs[:shared]:
        return shared
    where = next(i for i in range(shared) if ours[i : i + 1] != theirs[i : i + 1])
    first, second = (strings[where] if where < len(strings) else "" for strings in (ours, theirs))
    raise DifferentTokenizers(a, b, where, first, second)


def tokenizer_name(lm: LanguageModel) -> str:
    """Return the name of a model's tokenizer, the model's own where it has none."""
    return getattr(lm, "tokenizer_name", None) or lm.name
