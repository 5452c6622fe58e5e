"""Beam search, step by step, equal to transformers' and with a record of everything thrown away.

In come a LanguageModel, prompt ids and BeamParams; out go BeamStep records and hypotheses. The
state between steps is ids and numbers only: it pickles, and going back is taking an older state.

Steps of one ``step`` (K beams, V tokens):
1. Expand: one batched forward for all beams (one prefix at first: the beams start as one).
2. Log-softmax; processors act on it, without renormalising.
3. The K x V candidates race by running sum; the best go on or finish (``beam_group``). With groups,
   one after the other, each with K / num_groups beams; a later one pays the diversity penalty for
   the tokens that earlier ones took.
4. The search ends when every group has stopped.

Beside transformers: with few tokens there are fewer beams, never phantoms at -1e9; ties go to the
lowest beam, then the lowest id; filters keep one token at least, also where transformers keeps
1 + number of EOS ids in beam sampling.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from playground.engines import race
from playground.engines.beam_group import Field, Outcome, race_group
from playground.language_model import LanguageModel, check_ids
from playground.records.beam import (
    KEPT,
    ROOT,
    BeamParams,
    BeamResult,
    BeamState,
    BeamStep,
    Hypothesis,
)


def start(lm: LanguageModel, prompt_ids: Sequence[int], params: BeamParams) -> BeamState:
    """Return the state before the first step.

    A prompt that fills the context leaves a search that has ended ("context full"), with the empty
    continuation as its hypothesis. Raises ContextFull when the prompt is longer than the context,
    ValueError for ids outside the vocabulary.
    """
    ids = check_ids(lm, prompt_ids)
    groups = range(params.num_groups)
    roots = tuple(Hypothesis((), 0.0, 0.0, False, "", (), 0.0, ROOT, g) for g in groups)
    room = np.inf if lm.context_length is None else lm.context_length - len(ids)
    limit = int(min(params.max_new_tokens, room))
    why = "length" if params.max_new_tokens <= room else "context full"
    if limit == 0:
        whole = dataclasses.replace(roots[0], stop=why)
        return BeamState(ids, (), ((whole,),), limit, why, stop=why)
    return BeamState(ids, roots, ((),) * params.num_groups, limit, why)


def step(lm: LanguageModel, state: BeamState, params: BeamParams) -> tuple[BeamState, BeamStep]:
    """Run one step and return the next state and the record of what happened.

    Raises ValueError when the search has ended, or when no first token survives.
    """
    if state.stop:
        raise ValueError(f"the search has ended: {state.stop}")
    logits = lm.logits_many([state.prompt_ids + beam.ids for beam in state.beams])[:, -1]
    normalisers = race.log_normalisers(logits)
    scores, offsets = _scores(logits, normalisers, state, params)
    eos_ids = frozenset(lm.eos_ids if params.stop_at_eos else ())
    outcomes: list[Outcome] = []
    taken: Counter[int] = Counter()
    node = state.next_node
    for group in sorted({beam.group for beam in state.beams}):
        own = [i for i, beam in enumerate(state.beams) if beam.group == group]
        where = slice(own[0], own[-1] + 1)
        rows = scores[where]
        if taken and params.diversity_penalty:
            rows = rows.copy()
            rows[:, list(taken)] -= params.diversity_penalty * np.array([*taken.values()])
        field = Field(
            rows, offsets[where], logits[where], normalisers[where], state.beams[where], own[0]
        )
        outcome = race_group(state, params, field, eos_ids, node)
        outcomes.append(outcome)
        node += len(outcome.candidates)
        taken.update(outcome.taken)
    if node == state.next_node and not state.index:
        raise ValueError("no token survives: every continuation has probability 0")
    after = _advance(state, outcomes, node)
    return after, _record(state, outcomes, after.stop)


def stream(
    lm: LanguageModel, prompt_ids: Sequence[int], params: BeamParams
) -> Iterator[tuple[BeamState, BeamStep]]:
    """Yield the state after each step and its record, until the search ends."""
    state = start(lm, prompt_ids, params)
    while not state.stop:
        state, record = step(lm, state, params)
        yield state, record


def beam_search(lm: LanguageModel, prompt_ids: Sequence[int], params: BeamParams) -> BeamResult:
    """Run a whole search.

    Returns hypotheses best first (an EOS that ends one is in its ids) and every step's record.
    Raises what ``start`` and ``step`` raise.
    """
    state = start(lm, prompt_ids, params)
    steps = []
    while not state.stop:
        state, record = step(lm, state, params)
        steps.append(record)
    return result_of(lm, state, steps, params)


def result_of(
    lm: LanguageModel, state: BeamState, steps: Iterable[BeamStep], params: BeamParams
) -> BeamResult:
    """Return the result of a search that was stepped by hand.

    Under way (``stop`` "") its running hypotheses are among the finished ones, with the scores
    they would have if they ended now.
    """
    ends_in_eos = params.stop_at_eos and state.prompt_ids[-1:] in [(i,) for i in lm.eos_ids]
    found = [h for group in state.finished for h in group]
    if not state.stop:
        found += state.beams
    found.sort(key=lambda h: -h.score)  # stable: the earlier one wins a tie
    return BeamResult(
        prompt_ids=state.prompt_ids,
        params=params,
        hypotheses=tuple(found[: params.num_return]),
        steps=tuple(steps),
        stop=state.stop,
        notes=("prompt ends in eos",) if ends_in_eos else (),
    )


def _scores(
    logits: np.ndarray, normalisers: np.ndarray, state: BeamState, params: BeamParams
) -> tuple[np.ndarray, np.ndarray]:
    """Return score rows [rows, V] and offsets [rows] as ``race`` takes them, after processors."""
    sums = np.array([beam.logprob for beam in state.beams])
    if params.sampling is None:
        return logits, sums - normalisers
    from playground.processors import apply

    # Temperature 0 would leave one token to each beam; here it means that none is set.
    chain = params.sampling
    chain = chain if chain.temperature > 0 else chain.replace(temperature=1.0)
    ids = [state.prompt_ids + beam.ids for beam in state.beams]
    return apply(logits - normalisers[:, None], chain, ids, len(state.prompt_ids)), sums


def _advance(state: BeamState, outcomes: Sequence[Outcome], next_node: int) -> BeamState:
    """Return the state after the groups' races."""
    finished = list(state.finished)
    for outcome in outcomes:
        finished[outcome.group] = outcome.finished
    running = tuple(beam for o in outcomes if not o.stop for beam in o.running)
    greedy = [c.node for o in outcomes for c in o.candidates if c.greedy and c.fate == KEPT]
    return dataclasses.replace(
        state,
        # Those of the group that stopped last stay to be seen, though they won't be expanded.
        beams=running or outcomes[-1].running,
        finished=tuple(finished),
        index=state.index + 1,
        next_node=next_node,
        greedy=greedy[0] if greedy else -1,
        stop="" if running else outcomes[-1].stop,
    )


def _record(state: BeamState, outcomes: Sequence[Outcome], stop: str) -> BeamStep:
    """Return the record of one step."""
    compared = [o for o in outcomes if o.worst_finished is not None] or outcomes
    return BeamStep(
        index=state.index,
        beams=tuple(beam.node for beam in state.beams),
        candidates=tuple(c for o in outcomes for c in o.candidates),
        cuts=tuple(o.cut for o in outcomes),
        raced=sum(o.raced for o in outcomes),
        dropped=tuple(h.node for o in outcomes for h in o.dropped),
        best_possible=compared[-1].best_possible,
        worst_finished=compared[-1].worst_finished,
        stop=stop,
    )
