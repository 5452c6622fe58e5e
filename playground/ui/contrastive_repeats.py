"""How much a text repeats itself, by its token ids.

Terms: *rep-n*, the part of the n-grams that were there before: 1 - distinct / all (Welleck et al.
2019, arXiv 1908.04319). *longest repeat*, the longest run of tokens that occurs twice; the two may
overlap, as in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence


def rep(ids: Sequence[int], n: int) -> float | None:
    """Return rep-n in [0, 1), None where there is no n-gram."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else None


def longest_repeat(ids: Sequence[int]) -> tuple[int, int, int]:
    """Return (first start, second start, length) of the longest repeat, the earliest of equals.

    Length 0 where no token occurs twice.
    """
    best = (0, 0, 0)
    before = [0] * (len(ids) + 1)  # before[j + 1]: length of the common run that ends at i - 1, j
    for i in range(len(ids)):
        row = [0] * (len(ids) + 1)
        for j in range(i + 1, len(ids)):
            if ids[i] == ids[j]:
                row[j + 1] = before[j] + 1
                if row[j + 1] > best[2]:
                    best = (i - before[j], j - before[j], row[j + 1])
        before = row
    return best
