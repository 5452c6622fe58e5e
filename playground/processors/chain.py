"""The chain of filters: which run, in which order, and what each leaves.

In: logits [V] of one position, SamplingParams, the ids so far. Out: one Stage per filter, or bare
scores for beam search.

Steps of ``shape``:
1. Move the logits to float64; the model's own distribution is the first stage.
2. For each filter that is on, in order: scores -> scores.
3. After each, normalise: only a Stage's log-probabilities sum to one; the scores passed on do not
   change by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from playground.dice import uniform
from playground.processors import penalties, truncation
from playground.processors.dialects import (
    active_filters,
    counts_prompt,
    is_greedy,
    keeps_exactly_k,
    typical_without_ties,
)
from playground.processors.penalties import Context
from playground.processors.scores import as_scores, log_softmax
from playground.records import SamplingParams, Stage

Run = Callable[[np.ndarray, Context], np.ndarray]


@dataclass(frozen=True, slots=True)
class Processor:
    """One filter with its settings: ``run`` maps scores [V] and a Context to new scores [V]."""

    name: str
    run: Run

    def __call__(self, scores: np.ndarray, context: Context) -> np.ndarray:
        """Return the scores after this filter; the input stays as it is."""
        return self.run(scores, context)


def xtc_coin(params: SamplingParams, context: Context) -> float:
    """Return the dice that decides whether XTC runs (it does up to ``xtc_probability``)."""
    return uniform(params.seed, len(context.ids), "xtc")


def _repetition(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    seen, _ = context.counts(counts_prompt("repetition_penalty", params), len(scores))
    return penalties.repetition_penalty(scores, seen, params.repetition_penalty)


def _presence(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    seen, _ = context.counts(counts_prompt("presence_penalty", params), len(scores))
    return penalties.presence_penalty(scores, seen, params.presence_penalty)


def _frequency(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    seen, counts = context.counts(counts_prompt("frequency_penalty", params), len(scores))
    return penalties.frequency_penalty(scores, seen, counts, params.frequency_penalty)


def _ngram(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    return penalties.no_repeat_ngram(scores, context.ids, params.no_repeat_ngram_size)


def _banned(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    return penalties.banned_tokens(scores, params.banned_tokens)


def _temperature(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    return truncation.temperature(scores, 0 if is_greedy(params) else params.temperature)


def _top_k(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    return truncation.top_k(scores, params.top_k, exact=keeps_exactly_k(params))


def _typical(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    return truncation.typical_p(scores, params.typical_p, exact=typical_without_ties(params))


def _xtc(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
    if xtc_coin(params, context) > params.xtc_probability:
        return scores
    return truncation.xtc(scores, params.xtc_threshold)


def _plain(function: Callable[..., np.ndarray], field: str) -> Callable[..., np.ndarray]:
    """Return the filter of a function of (scores, one setting)."""

    def run(params: SamplingParams, scores: np.ndarray, context: Context) -> np.ndarray:
        return function(scores, getattr(params, field))

    return run


_RUN: Mapping[str, Callable[..., np.ndarray]] = MappingProxyType(
    {
        "repetition_penalty": _repetition,
        "presence_penalty": _presence,
        "frequency_penalty": _frequency,
        "no_repeat_ngram": _ngram,
        "banned_tokens": _banned,
        "temperature": _temperature,
        "top_n_sigma": _plain(truncation.top_n_sigma, "top_n_sigma"),
        "top_k": _top_k,
        "top_p": _plain(truncation.top_p, "top_p"),
        "min_p": _plain(truncation.min_p, "min_p"),
        "typical_p": _typical,
        "epsilon_cutoff": _plain(truncation.epsilon_cutoff, "epsilon_cutoff"),
        "eta_cutoff": _plain(truncation.eta_cutoff, "eta_cutoff"),
        "xtc": _xtc,
    }
)


def chain(params: SamplingParams) -> tuple[Processor, ...]:
    """Return the filters that are on, in order. Raises ValueError as ``active_filters`` does."""
    return tuple(Processor(name, partial(_RUN[name], params)) for name in active_filters(params))


def shape(
    logits: np.ndarray,
    params: SamplingParams,
    ids: Sequence[int] = (),
    prompt_length: int = 0,
) -> tuple[Stage, ...]:
    """Return the distribution after the model and after each filter.

    ``logits`` [V], any real dtype; ``ids`` the tokens before this position, of which the first
    ``prompt_length`` are the prompt. The first Stage is "model", the last one is what is drawn
    from; filters at their neutral value have no stage. Raises ValueError "no token survives ..."
    where no distribution is left (NaN, everything -inf or banned), and as ``chain`` does.
    """
    processors = chain(params)
    context = Context.of(ids, prompt_length)
    scores = as_scores(logits)
    stages = [Stage("model", _frozen(log_softmax(scores)))]
    for processor in processors:
        after = processor(scores, context)
        # A filter that changed nothing hands its input back: no need to normalise again.
        same = after is scores
        logprobs = stages[-1].logprobs if same else _frozen(log_softmax(after, processor.name))
        stages.append(Stage(processor.name, logprobs))
        scores = after
    return tuple(stages)


def _frozen(array: np.ndarray) -> np.ndarray:
    """Forbid writing: stages are shared between views, and with each other."""
    array.flags.writeable = False
    return array


def apply(
    scores: np.ndarray,
    params: SamplingParams,
    ids: Sequence[int] | Sequence[Sequence[int]] = (),
    prompt_length: int = 0,
) -> np.ndarray:
    """Return the scores after all filters, not normalised, as beam search wants them.

    ``scores`` [V] with one sequence of ids, or [K, V] with K of them (ids () is K empty ones);
    log-probabilities or logits, any real dtype; the result is a new float64 array of that shape.
    A row whose tokens are all masked comes back all -inf (a dead beam). Raises ValueError for
    NaN, for other shapes, and as ``chain`` does.
    """
    given = np.array(scores, np.float64)
    if given.ndim not in (1, 2) or not given.shape[-1]:
        raise ValueError(f"scores must be [V] or [K, V], got {given.shape}")
    if np.isnan(given).any():
        raise ValueError("scores must be numbers, got NaN")
    rows = given[None] if given.ndim == 1 else given
    contexts = (ids,) if given.ndim == 1 else ids if len(ids) else ((),) * len(rows)
    if len(contexts) != len(rows):
        raise ValueError(f"ids must be {len(rows)} sequences, one per row, got {len(contexts)}")
    processors = chain(params)
    out = np.empty_like(rows)
    for i, (row, row_ids) in enumerate(zip(rows, contexts, strict=True)):
        context = Context.of(row_ids, prompt_length)
        for processor in processors:
            row = processor(row, context)
        out[i] = row
    return out.reshape(given.shape)


def removed_by(stages: Sequence[Stage]) -> np.ndarray:
    """Return [V] names: the stage that removed each token, "" where it is kept.

    "model" marks the tokens that the model itself gave no probability.
    """
    # What is masked stays masked, so the number of stages that a token outlives names its remover.
    outlived = np.zeros(len(stages[0].logprobs), np.uint8)
    for stage in stages:
        outlived += stage.logprobs > -np.inf
    return np.array([*(stage.name for stage in stages), ""])[outlived]
