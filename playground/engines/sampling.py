"""Sampling and greedy decoding, one step at a time.

Ids, a LanguageModel and SamplingParams flow in; Steps and a Trace flow out.

One step
1. One forward (or none, where the model still has the logits) gives the logits after ids.
2. The chain of filters shapes them (``processors.shape``).
3. Temperature 0 takes the most probable token; else the dice of this position draws one.
Position: the index in ids that the new token will have; the dice depends on it and the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from playground.dice import draw, uniform
from playground.language_model import LanguageModel, check_ids
from playground.processors import shape
from playground.records import SamplingParams, Stage, Step, Trace
from playground.records.checks import integer


def rank_of(logprobs: np.ndarray, token_id: int) -> int:
    """Return the 1-based rank of a token in ``logprobs`` [V], ties by the lowest id."""
    value = logprobs[token_id]
    above = np.count_nonzero(logprobs > value)
    return int(above + np.count_nonzero(logprobs[:token_id] == value)) + 1


def entropy_of(logprobs: np.ndarray) -> float:
    """Return the entropy in nats of normalised ``logprobs`` [V] (-inf counts nothing)."""
    alive = logprobs[logprobs > -np.inf]
    return float(-(np.exp(alive) * alive).sum())


def decide(
    stages: Sequence[Stage], params: SamplingParams, position: int, force: int | None = None
) -> Step:
    """Choose a token from the shaped stages. Pure: the same dice give the same token.

    ``force`` takes that token instead, whatever the filters say of it.
    """
    model, final = stages[0].logprobs, stages[-1].logprobs
    u = None
    if force is not None:
        token, source = integer("token_id", force, 0, len(model) - 1), "forced"
    elif params.temperature == 0:
        token, source = int(final.argmax()), "greedy"
    else:
        u = uniform(params.seed, position)
        token, source = int(draw(final, u)), "sampled"
    return Step(
        token_id=token,
        u=u,
        logprob=float(final[token]),
        model_logprob=float(model[token]),
        rank=rank_of(model, token),
        source=source,
        params=params,
        kept=int(np.count_nonzero(final > -np.inf)),
        entropy=entropy_of(model),
    )


def step(
    lm: LanguageModel,
    ids: Sequence[int],
    params: SamplingParams,
    prompt_length: int | None = None,
    force: int | None = None,
) -> Step:
    """Return the next step after ``ids`` by one forward. ``prompt_length`` defaults to len(ids)."""
    prompt_length = len(ids) if prompt_length is None else prompt_length
    stages = shape(lm.logits(ids)[-1], params, ids, prompt_length)
    return decide(stages, params, len(ids), force)


def stream(
    lm: LanguageModel,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    max_new_tokens: int = 20,
    stop_at_eos: bool = True,
) -> Iterator[Step]:
    """Yield Steps; ends after EOS (which is yielded), at the limit, or when the context is full."""
    integer("max_new_tokens", max_new_tokens, 0)
    ids = list(check_ids(lm, prompt_ids))
    for _ in range(max_new_tokens):
        if context_full(lm, ids):
            return
        one = step(lm, ids, params, len(prompt_ids))
        yield one
        ids.append(one.token_id)
        if stop_at_eos and one.token_id in lm.eos_ids:
            return


def generate(
    lm: LanguageModel,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    max_new_tokens: int = 20,
    stop_at_eos: bool = True,
) -> Trace:
    """Run ``stream`` to its end. ``Trace.stop`` says why it ended."""
    steps = tuple(stream(lm, prompt_ids, params, max_new_tokens, stop_at_eos))
    trace = Trace(tuple(int(i) for i in prompt_ids), steps, model=fingerprint(lm))
    stop = "length" if len(steps) == max_new_tokens else "context full"
    if stop_at_eos and steps and steps[-1].token_id in lm.eos_ids:
        stop = "eos"
    return Trace(trace.prompt_ids, steps, stop, trace.model)


def context_full(lm: LanguageModel, ids: Sequence[int]) -> bool:
    """Say whether no further token fits after ids (the model reads at most its context)."""
    return lm.context_length is not None and len(ids) >= lm.context_length


def fingerprint(lm: LanguageModel) -> str:
    """Return what identifies the model's numbers: name, weights' hash, dtype."""
    return getattr(lm, "fingerprint", lm.name)
