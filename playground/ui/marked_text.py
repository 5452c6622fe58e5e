"""A text in pieces for the page, with its longest repeat marked at both its places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playground.language_model import LanguageModel
from playground.repeats import longest_repeat
from playground.words import Translate

MARKED = 3  # tokens that a repeat has at least to be marked


def text_parts(lm: LanguageModel, ids: Sequence[int], t: Translate) -> list[Any]:
    """Return a text in pieces: repeats as {"token": piece}, the rest plain; "–" for no text.

    An EOS at the end becomes a word.
    """
    over = bool(ids) and ids[-1] in lm.eos_ids
    body = list(ids[:-1] if over else ids)
    first, second, length = longest_repeat(body)
    marked = set()
    if length >= MARKED:
        marked = {*range(first, first + length), *range(second, second + length)}
    parts: list[Any] = []
    begun, before = 0, ""
    for end in range(1, len(body) + 1):
        if end < len(body) and (end in marked) == (begun in marked):
            continue
        # A piece is what its tokens add to the text: a character may have several tokens.
        whole = lm.decode(body[:end])
        piece = whole[len(before) :]
        parts.append({"token": piece} if begun in marked else piece)
        begun, before = end, whole
    if over:
        parts.append(" ■ " + t("contrast.text_ended"))
    return parts or ["–"]
