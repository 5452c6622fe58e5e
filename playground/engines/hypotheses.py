"""What can be asked of a beam search afterwards: other penalties, other roads, was a prune wrong?

Hypotheses and a LanguageModel flow in, hypotheses flow out. Nothing here searches again.

- ``rescore`` re-ranks the same sequences under another length penalty.
- ``greedy_continuation`` is what greedy makes of some ids: the other side of the verdict.
- ``continue_ghost`` lets a pruned candidate go on greedily; ``regret`` compares it with the best.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from playground.engines.race import log_normalisers
from playground.language_model import LanguageModel, check_ids
from playground.records.beam import BeamResult, Hypothesis, length_score
from playground.records.checks import integer


def rescore(
    hypotheses: Iterable[Hypothesis], length_penalty: float, form: str = "power"
) -> tuple[Hypothesis, ...]:
    """Return the hypotheses with new scores, best first (stable in a tie). No search is run.

    ``form`` "power" is transformers' sum / length**a, "gnmt" sum / ((5 + length) / 6)**a.
    """
    scored = [
        dataclasses.replace(h, score=length_score(h.logprob, h.length, length_penalty, form))
        for h in hypotheses
    ]
    return tuple(sorted(scored, key=lambda h: -h.score))


def greedy_continuation(
    lm: LanguageModel,
    ids: Sequence[int],
    max_new_tokens: int,
    length_penalty: float = 1.0,
    stop_at_eos: bool = True,
) -> Hypothesis:
    """Return what greedy generates after ids, with its log-probs (ties by the lowest id)."""
    return _greedily(lm, check_ids(lm, ids), (), (), max_new_tokens, length_penalty, stop_at_eos)


def continue_ghost(lm: LanguageModel, result: BeamResult, node: int) -> Hypothesis:
    """Return a recorded candidate's sequence, continued greedily under the search's own limits.

    ``ids`` are all that follows the prompt, path and continuation; the log-probs of the path are
    those of the search, those of the continuation the model's own. Raises ValueError when the
    node isn't recorded.
    """
    path = result.path(node)
    params = result.params
    told = _greedily(
        lm,
        result.prompt_ids,
        tuple(c.token_id for c in path),
        tuple(c.logprob for c in path),
        params.max_new_tokens,
        params.length_penalty,
        params.stop_at_eos,
    )
    return dataclasses.replace(
        told,
        model_logprob=told.logprob + sum(c.model_logprob - c.logprob for c in path),
        node=node,
        group=path[-1].group if path else 0,
    )


def regret(lm: LanguageModel, result: BeamResult, node: int) -> float:
    """Return the score of the continued candidate less that of the best hypothesis.

    Above 0 the prune was a mistake: even greedily that road leads to a better sequence.
    """
    return continue_ghost(lm, result, node).score - result.hypotheses[0].score


def _greedily(
    lm: LanguageModel,
    prompt_ids: tuple[int, ...],
    ids: tuple[int, ...],
    logprobs: tuple[float, ...],
    max_new_tokens: int,
    length_penalty: float,
    stop_at_eos: bool,
) -> Hypothesis:
    """Continue ``ids`` greedily until there are ``max_new_tokens`` of them."""
    integer("max_new_tokens", max_new_tokens, 0)
    eos_ids = lm.eos_ids if stop_at_eos else ()
    stop = ""
    while not stop:
        if ids and ids[-1] in eos_ids:
            stop = "eos"
        elif len(ids) >= max_new_tokens:
            stop = "length"
        elif lm.context_length is not None and len(prompt_ids) + len(ids) >= lm.context_length:
            stop = "context full"
        else:
            logits = lm.logits(prompt_ids + ids)
            token = int(np.argmax(logits[0]))
            logprob = float(logits[0, token] - log_normalisers(logits)[0])
            ids, logprobs = (*ids, token), (*logprobs, logprob)
    total = float(sum(logprobs))
    score = length_score(total, len(ids), length_penalty)
    return Hypothesis(ids, total, score, stop == "eos", stop, logprobs, total)
