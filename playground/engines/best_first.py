"""Exact search for the most probable sequence: best-first, with a bound.

Beam search may miss the mode; for short horizons this finds it and proves it, or says how far off
it can still be. A sequence is whole when it ends in EOS or has ``horizon`` tokens; its value is
the plain sum of log-probabilities (length penalty 0). Prompt ids and a LanguageModel flow in, a
ModeSearch flows out.

Steps
1. Greedy gives a first whole sequence. Its sum is the bound: whatever is below can't be the mode,
   since every further token only lowers a sum.
2. Take the open prefixes of highest sum, a few at a time, and ask the model for their next tokens
   in one batch.
3. Children that are whole may raise the bound; others above the bound join the open prefixes.
4. When no open prefix is above the bound, the best whole sequence is the mode. When the budget of
   forwards is spent first, the highest open sum is the upper bound of what was missed.

A prefix counts as one forward, also within a batch. Equal sums go to the one found first. With n
forwards left at most n prefixes can be asked for, so the n + 1 best open ones are all that need to
be remembered: the last of them still bounds what was forgotten.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from playground.engines.hypotheses import greedy_continuation
from playground.engines.race import log_normalisers
from playground.language_model import LanguageModel, check_ids
from playground.ranking import descending
from playground.records.beam import Hypothesis, ModeSearch
from playground.records.checks import integer

_BATCH = 8  # prefixes per forward; more would ask for prefixes that a raised bound rules out


def best_first(
    lm: LanguageModel,
    prompt_ids: Sequence[int],
    horizon: int,
    max_forwards: int = 1000,
    stop_at_eos: bool = True,
    batch: int = _BATCH,
) -> ModeSearch:
    """Search for the most probable continuation of at most ``horizon`` tokens.

    The context's end shortens the horizon. Raises ValueError for a horizon below 1 or a budget
    below the horizon (greedy alone needs that many forwards), ContextFull for too long a prompt.
    """
    prompt = check_ids(lm, prompt_ids)
    integer("horizon", horizon, 1)
    integer("max_forwards", max_forwards, horizon)
    integer("batch", batch, 1)
    room = horizon if lm.context_length is None else lm.context_length - len(prompt)
    limit_why = "length" if horizon <= room else "context full"
    horizon = min(horizon, room)
    eos_ids = frozenset(lm.eos_ids if stop_at_eos else ())
    best = greedy_continuation(lm, prompt, horizon, length_penalty=0.0, stop_at_eos=stop_at_eos)
    if limit_why == "context full" and not best.finished:
        best = _whole(best.ids, best.logprobs, best.logprob, limit_why)
    forwards = best.length
    # Heap entries: minus the sum, a counter (first found wins a tie), ids, their log-probs.
    heap: list[tuple[float, int, tuple[int, ...], tuple[float, ...]]] = []
    if horizon:
        heap.append((0.0, 0, (), ()))
    count = 0
    while heap and -heap[0][0] > best.logprob and forwards < max_forwards:
        wanted = min(batch, max_forwards - forwards)
        taken = []
        while heap and len(taken) < wanted and -heap[0][0] > best.logprob:
            taken.append(heapq.heappop(heap))
        logits = lm.logits_many([prompt + ids for _, _, ids, _ in taken])[:, -1]
        forwards += len(taken)
        left = max_forwards - forwards
        for (cost, _, ids, logprobs), row, normaliser in zip(
            taken, logits, log_normalisers(logits), strict=True
        ):
            for token in _children(row, left + 1, eos_ids).tolist():
                logprob = float(row[token] - normaliser)
                total = logprob - cost
                if not total > best.logprob:
                    continue
                longer = (*ids, token), (*logprobs, logprob)
                if token in eos_ids or len(longer[0]) == horizon:
                    best = _whole(*longer, total, "eos" if token in eos_ids else limit_why)
                else:
                    count += 1
                    heapq.heappush(heap, (-total, count, *longer))
        if len(heap) > 4 * (left + 1):
            heap = heapq.nsmallest(left + 1, heap)  # sorted, so still a heap
    bound = max(best.logprob, -heap[0][0]) if heap else best.logprob
    return ModeSearch(best, proven=bound == best.logprob, upper_bound=bound, forwards=forwards)


def _children(row: np.ndarray, count: int, eos_ids: frozenset[int]) -> np.ndarray:
    """Return the ``count`` best next tokens, best first, and every EOS (possibly twice)."""
    return np.concatenate([descending(row, count), np.array(sorted(eos_ids), np.int64)])


def _whole(
    ids: tuple[int, ...], logprobs: tuple[float, ...], total: float, stop: str
) -> Hypothesis:
    return Hypothesis(ids, total, total, stop == "eos", stop, logprobs, total)
