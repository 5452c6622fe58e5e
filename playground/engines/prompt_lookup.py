"""Prompt lookup: a draft without a model, which copies what followed the last words before.

Ids flow in, proposed ids flow out. Good on text that repeats itself (code, summaries, tables).

Steps (Saxena 2023, "prompt lookup decoding")
1. Take the last n tokens, n from max_ngram down to min_ngram.
2. Find where they stand first, as the paper's code, transformers and vLLM do; the first n that
   was there before wins.
3. Propose what followed it. A copy that runs into the end reads its own proposals on, as LZ77
   does, so a loop of period 1 fills a block too.
A proposal is a certainty, not a draw: its law is one-hot, and it passes with the target's own
probability of that token.
"""

from __future__ import annotations

from collections.abc import Sequence

from playground.records.checks import integer


class PromptLookup:
    """A draft that looks the last n-gram up in the ids so far. Stateless and picklable."""

    def __init__(self, max_ngram: int = 3, min_ngram: int = 1) -> None:
        self.max_ngram = integer("max_ngram", max_ngram, 1)
        self.min_ngram = integer("min_ngram", min_ngram, 1, max_ngram)
        self.name = "prompt lookup"

    def propose(self, ids: Sequence[int], count: int) -> tuple[int, ...]:
        """Return ``count`` ids that may follow ``ids``, or none when no n-gram came before."""
        integer("count", count, 0)
        ids = tuple(int(i) for i in ids)
        for n in range(min(self.max_ngram, len(ids) - 1), self.min_ngram - 1, -1):
            start = _first(ids, n)
            if start is not None:
                period = len(ids) - start
                return tuple(ids[start + k % period] for k in range(count))
        return ()


def _first(ids: tuple[int, ...], n: int) -> int | None:
    """Return where the first earlier copy of the last ``n`` ids ends, None when there is none."""
    tail = ids[len(ids) - n :]
    last = tail[-1]
    for end in range(n, len(ids)):
        if ids[end - 1] == last and ids[end - n : end] == tail:
            return end
    return None
