"""Contrastive decoding, one step at a time: what the expert prefers more than the amateur does.

Ids, two LanguageModels and params flow in; ContrastiveSteps or a Trace flow out.

One position (Li et al. 2022, arXiv 2210.15097)
1. Both models give their log-probabilities over the ids that they share.
2. Plausible is what has at least ``plausibility`` times the expert's highest probability. Without
   this, tokens that both find absurd would win, since a ratio says nothing about its terms.
3. Score of a plausible token: ``gain * log expert - slope * log amateur``. Where the amateur gives
   no probability at all, its log-probability counts as FLOOR: the score stays finite.
4. The scores go through the chain of filters as logits do; temperature 0 takes the highest, else
   the dice of the position draws one.

Terms: *slope*, amateur_weight / amateur_temperature: dividing log-probabilities by a temperature,
as the authors' code does, without normalising again, makes the two one knob. *gain*, 1, or
1 + amateur_weight in the form "one_plus_beta". Each model keeps its own caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from playground.engines.pairs import check_pair
from playground.engines.sampling import context_full, decide, entropy_of, fingerprint, rank_of
from playground.language_model import LanguageModel, check_ids
from playground.processors import shape
from playground.processors.scores import as_scores, log_softmax
from playground.records import SamplingParams, Trace
from playground.records.checks import integer
from playground.records.contrastive import ContrastiveParams, ContrastiveStep

# What an amateur's probability of exactly 0 counts as: the smallest normal float32, 1.2e-38. A
# probability that is lower still, but not 0, counts as it is, and then 0 counts as the lowest.
FLOOR = float(np.log(np.finfo(np.float32).tiny))

# A threshold that is met exactly keeps its token, as far as float32 logits can tell: a logit of 20
# is known to 1e-6, and so is a ratio of probabilities.
SLACK = 1e-6


def contrast(
    expert_logits: np.ndarray,
    amateur_logits: np.ndarray,
    params: ContrastiveParams,
    vocab_size: int | None = None,
) -> ContrastiveStep:
    """Return one position's plausible set, scores and law. Pure.

    ``expert_logits`` [Ve] and ``amateur_logits`` [Va], any real dtype, -inf = no probability.
    Output layers are padded to different widths, so only the first ``vocab_size`` ids take part
    (None: as many as both have), and the arrays of the record have that length. An id that
    ``expert_logits`` masks is never a candidate, whatever the amateur says of it. Raises ValueError
    where a model gives NaN, +inf or nothing at all.
    """
    width = min(len(expert_logits), len(amateur_logits))
    if vocab_size is not None:
        width = integer("vocab_size", vocab_size, 1, width)
    expert = log_softmax(as_scores(np.asarray(expert_logits)[:width]), "the expert")
    amateur = log_softmax(as_scores(np.asarray(amateur_logits)[:width]), "the amateur")
    plausible = np.exp(expert - expert.max()) >= params.plausibility * (1 - SLACK)
    plausible &= expert > -np.inf
    scores = np.full(width, -np.inf)
    floored = np.where(amateur > -np.inf, amateur, _floor(amateur))[plausible]
    scores[plausible] = params.gain * expert[plausible] - params.slope * floored
    logprobs = log_softmax(scores, "plausibility")
    for array in (expert, amateur, plausible, scores, logprobs):
        array.flags.writeable = False
    return ContrastiveStep(expert, amateur, plausible, scores, logprobs, params)


def _floor(amateur: np.ndarray) -> float:
    return min(FLOOR, float(amateur.min(where=amateur > -np.inf, initial=0.0)))


def amateur_ids(
    ids: Sequence[int], prompt_length: int, params: ContrastiveParams
) -> tuple[int, ...]:
    """Return the ids that the amateur is given."""
    start = 0 if params.amateur_sees == "all" else max(prompt_length - 1, 0)
    return tuple(ids[start:])


def step(
    expert: LanguageModel,
    amateur: LanguageModel,
    ids: Sequence[int],
    params: ContrastiveParams,
    sampling_params: SamplingParams,
    prompt_length: int | None = None,
    force: int | None = None,
) -> ContrastiveStep:
    """Return the position after ``ids`` with its decided token, by one forward of each model.

    ``prompt_length`` defaults to len(ids); ``force`` takes that token whatever the scores say.
    Raises ValueError when the tokenizers differ, ContextFull when ids are too long for a model.
    """
    prompt_length = len(ids) if prompt_length is None else prompt_length
    seen = amateur_ids(ids, prompt_length, params)
    width = check_pair(expert, amateur)
    both = contrast(expert.logits(ids)[-1], amateur.logits(seen)[-1], params, width)
    return choose(both, ids, sampling_params, prompt_length, force, len(seen))


def choose(
    both: ContrastiveStep,
    ids: Sequence[int],
    sampling_params: SamplingParams,
    prompt_length: int,
    force: int | None = None,
    amateur_tokens: int | None = None,
) -> ContrastiveStep:
    """Return the record with the token that the dice of the position take from its scores. Pure."""
    stages = shape(both.scores, sampling_params, ids, prompt_length)
    decided = decide(stages, sampling_params, len(ids), force)
    decided = dataclasses.replace(
        decided,
        model_logprob=float(both.expert_logprobs[decided.token_id]),
        rank=rank_of(both.expert_logprobs, decided.token_id),
        entropy=entropy_of(both.expert_logprobs),
    )
    seen = both.amateur_tokens if amateur_tokens is None else amateur_tokens
    return dataclasses.replace(both, step=decided, amateur_tokens=seen)


def stream(
    expert: LanguageModel,
    amateur: LanguageModel,
    prompt_ids: Sequence[int],
    params: ContrastiveParams,
    sampling_params: SamplingParams,
    max_new_tokens: int = 20,
    stop_at_eos: bool = True,
) -> Iterator[ContrastiveStep]:
    """Yield decided positions; ends after the expert's EOS, at the limit, or in a full context."""
    integer("max_new_tokens", max_new_tokens, 0)
    check_pair(expert, amateur)
    ids = list(check_ids(expert, prompt_ids))
    start = len(ids)
    check_ids(amateur, amateur_ids(ids, start, params))
    for _ in range(max_new_tokens):
        if context_full(expert, ids) or context_full(amateur, amateur_ids(ids, start, params)):
            return
        one = step(expert, amateur, ids, params, sampling_params, start)
        yield one
        ids.append(one.step.token_id)
        if stop_at_eos and one.step.token_id in expert.eos_ids:
            return


def contrastive_decode(
    expert: LanguageModel,
    amateur: LanguageModel,
    prompt_ids: Sequence[int],
    contrastive_params: ContrastiveParams,
    sampling_params: SamplingParams,
    max_new_tokens: int = 20,
    stop_at_eos: bool = True,
) -> Trace:
    """Run ``stream`` to its end. ``Trace.stop`` says why it ended.

    The steps' ``logprob`` is of the law of the scores after the chain, their ``model_logprob`` the
    expert's, as ``Trace.model`` is.
    """
    models, settings = (expert, amateur), (contrastive_params, sampling_params)
    run = stream(*models, prompt_ids, *settings, max_new_tokens, stop_at_eos)
    steps = tuple(one.step for one in run)
    stop = "length" if len(steps) == max_new_tokens else "context full"
    if stop_at_eos and steps and steps[-1].token_id in expert.eos_ids:
        stop = "eos"
    prompt = tuple(int(i) for i in prompt_ids)
    return Trace(prompt, steps, stop, fingerprint(expert))
