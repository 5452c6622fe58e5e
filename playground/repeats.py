"""How much a text repeats itself, by its token ids.

Terms: *rep-n*, the part of the n-grams that were there before: 1 - distinct / all (Welleck et al.
2019, arXiv 1908.04319). *distinct-n*, the part that are distinct (Li et al. 2016, arXiv
1510.03055). *longest repeat*, the longest run of tokens that occurs twice; the two may overlap.
*loop*, an end of the text that is one phrase over and over, as greedy decoding's often is (after
Holtzman et al. 2020, arXiv 1904.09751, section 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence

COPIES = 2  # a loop has its phrase so often at least,
LOOP = 12  # and is so many tokens long at least: "ha ha ha" is none


def rep(ids: Sequence[int], n: int) -> float | None:
    """Return rep-n in [0, 1), None where there is no n-gram."""
    grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else None


def distinct(ids: Sequence[int], n: int) -> float | None:
    """Return distinct-n in (0, 1], None where there is no n-gram."""
    repeated = rep(ids, n)
    return None if repeated is None else 1 - repeated


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


def loop(ids: Sequence[int]) -> tuple[int, int] | None:
    """Return (lock, period) of the loop that the text ends in, None where it ends in none.

    From index ``lock`` on every token repeats the one ``period`` tokens before: there the loop
    locks. Of several periods the one whose loop begins first counts, then the shortest.
    """
    best: tuple[int, int] | None = None
    begun = len(ids)
    for period in range(1, len(ids) // COPIES + 1):
        lock = len(ids)
        while lock > period and ids[lock - 1] == ids[lock - 1 - period]:
            lock -= 1
        start = lock - period
        if len(ids) - start >= max(COPIES * period, LOOP) and start < begun:
            best, begun = (lock, period), start
    return best
