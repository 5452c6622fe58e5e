"""One group's share of a beam step: rank, finish, keep, stop. Without groups, all of the step.

In come the group's score rows and running hypotheses (``Field``); out go the candidates with their
fates and the hypotheses that run on or are finished (``Outcome``). No model is asked.

Steps (K beams in the group, n = max(2, 1 + number of EOS ids) x K, or 1 with ``num_beams`` 1):
1. Rank: consider the n best running sums (or draw n, in beam sampling). n is wide enough for K
   that go on even if every beam ends.
2. Finish: an EOS among the K best becomes a hypothesis, scored with its length; one ranked lower
   is lost, as in transformers. Only the K best finished ones stay. In the last step the K best
   end, whatever their last token.
3. Keep: the K best that don't end go on, by plain sum (no length term).
4. Stop: by ``early_stopping``, at the limit, or when nothing is left to continue.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from playground.dice import uniform
from playground.engines import race
from playground.records.beam import (
    FINISHED,
    KEPT,
    PRUNED,
    BeamParams,
    BeamState,
    Candidate,
    Hypothesis,
    length_score,
)

_SHOWN = 12  # so many candidates are recorded at least, however few the beams
_DRAW_STRIDE = 1 << 32  # draws of one position take dice that no position of a sequence has


class Field(NamedTuple):
    """What a group races with, by row: scores and offsets as ``race`` takes them, the model's
    logits and their logsumexps, and the beams; ``first_row`` is its first row in the whole step.
    """

    rows: np.ndarray
    offsets: np.ndarray
    logits: np.ndarray
    normalisers: np.ndarray
    beams: tuple[Hypothesis, ...]
    first_row: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a group's race gave; the names are those of BeamStep.

    ``taken`` has the token of each beam that goes on or ends at the limit: later groups pay for
    them.
    """

    group: int
    candidates: tuple[Candidate, ...]
    taken: tuple[int, ...]
    running: tuple[Hypothesis, ...]
    finished: tuple[Hypothesis, ...]
    dropped: tuple[Hypothesis, ...]
    cut: float | None
    raced: int
    best_possible: float | None
    worst_finished: float | None
    stop: str


class _Entry(NamedTuple):
    """One ranked candidate; ``beam`` is its row within the group."""

    beam: int
    token_id: int
    sum: float
    rank: int
    u: float | None
    greedy: bool
    eos: bool


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Who finishes and who goes on, by index into the entries."""

    considered: int
    last: bool
    kept: frozenset[int]
    survivors: frozenset[int]
    scores: dict[int, float]  # of those that finish, or would
    pool: list[tuple[float, int | Hypothesis]]  # finished old and new, best first, K at most
    dropped: tuple[Hypothesis, ...]
    worst_finished: float | None
    cut: float | None
    line: float  # the K-th best sum


def race_group(
    state: BeamState, params: BeamParams, field: Field, eos_ids: frozenset[int], node: int
) -> Outcome:
    """Run one group's race; its candidates are numbered from ``node``."""
    group = field.beams[0].group
    size = params.num_beams // params.num_groups
    entries, considered = _rank(state, params, field, eos_ids, size)
    if not entries:
        return _dead_end(state, field.beams, size)
    verdict = _judge(entries, considered, state, params, group, size)
    candidates, grown = [], {}
    for i, entry in enumerate(entries):
        fate, why, limit = _fate(i, entry, verdict, params.draws, state.limit_why)
        if fate == PRUNED and i >= max(2 * size, _SHOWN) and not entry.greedy:
            continue
        beam, token = entry.beam, entry.token_id
        parent = field.beams[beam]
        base = field.offsets[beam] - parent.logprob  # what turns the row's score into a logprob
        candidate = Candidate(
            node=node + len(candidates),
            parent=parent.node,
            beam=field.first_row + beam,
            token_id=token,
            logprob=float(field.rows[beam, token] + base),
            model_logprob=float(field.logits[beam, token] - field.normalisers[beam]),
            sum=entry.sum,
            rank=entry.rank,
            fate=fate,
            why=why,
            limit=limit,
            score=verdict.scores.get(i),
            group=group,
            greedy=entry.greedy,
            u=entry.u,
        )
        candidates.append(candidate)
        if fate != PRUNED:
            stop = why if fate == FINISHED else ""
            grown[i] = _grow(parent, candidate, state.index + 1, params.length_penalty, stop)
    running = tuple(grown[i] for i in sorted(verdict.kept))
    best_possible, stop = _stop(state, params, verdict, running, size)
    return Outcome(
        group=group,
        candidates=tuple(candidates),
        taken=tuple(
            entries[i].token_id for i in (*verdict.kept, *verdict.scores) if not entries[i].eos
        ),
        running=running,
        finished=tuple(grown[h] if isinstance(h, int) else h for _, h in verdict.pool),
        dropped=verdict.dropped,
        cut=verdict.cut,
        raced=int(np.count_nonzero(field.rows > -np.inf)),
        best_possible=best_possible,
        worst_finished=verdict.worst_finished,
        stop=stop,
    )


def _dead_end(state: BeamState, beams: tuple[Hypothesis, ...], size: int) -> Outcome:
    """Return the outcome where no beam has a continuation: they end as they are."""
    group = beams[0].group
    ended = [dataclasses.replace(b, stop="exhausted") for b in beams if b.ids]
    pool = sorted([*state.finished[group], *ended], key=lambda h: -h.score)[:size]
    return Outcome(group, (), (), (), tuple(pool), (), None, 0, None, None, "exhausted")


def _rank(
    state: BeamState, params: BeamParams, field: Field, eos_ids: frozenset[int], size: int
) -> tuple[list[_Entry], int]:
    """Return the considered entries, then the best of the rest, and how many are considered."""
    rows, offsets = field.rows, field.offsets
    n = 1 if params.num_beams == 1 else max(2, 1 + len(eos_ids)) * size
    flat, sums = race.best(rows, offsets, max(n, 2 * size, _SHOWN))
    ranks = list(range(1, len(flat) + 1))
    us: list[float | None] = [None] * len(flat)
    considered = min(n, len(flat))
    if params.draws:
        seed = 0 if params.sampling is None else params.sampling.seed
        position = len(state.prompt_ids) + state.index
        dice = [uniform(seed, position + i * _DRAW_STRIDE) for i in range(n)]
        chosen, chosen_sums, chosen_us = race.drawn(rows, offsets, dice)
        considered = len(chosen)
        rest = ~np.isin(flat, chosen)
        flat = np.concatenate([chosen, flat[rest]])
        sums = np.concatenate([chosen_sums, sums[rest]])
        us = [*chosen_us.tolist(), *[None] * (len(flat) - considered)]
        ranks = [*range(1, considered + 1), *[0] * (len(flat) - considered)]
    greedy = _greedy(state, field)
    if greedy is not None and greedy not in flat:
        row, token = divmod(greedy, rows.shape[1])
        total = rows[row, token] + offsets[row]
        above = sum(int((r + o > total).sum()) for r, o in zip(rows, offsets, strict=True))
        flat, sums = np.append(flat, greedy), np.append(sums, total)
        us.append(None)
        ranks.append(0 if params.draws else above + 1)
    entries = []
    for at, total, rank, u in zip(flat.tolist(), sums.tolist(), ranks, us, strict=True):
        beam, token = divmod(at, rows.shape[1])
        entries.append(_Entry(beam, token, total, rank, u, at == greedy, token in eos_ids))
    return entries, considered


def _greedy(state: BeamState, field: Field) -> int | None:
    """Return the flat index of greedy's next candidate, None where greedy's path isn't alive."""
    if field.beams[0].group:
        return None
    for row, beam in enumerate(field.beams):
        if beam.node == state.greedy:
            token = int(np.argmax(field.rows[row]))
            return row * field.rows.shape[1] + token if field.rows[row, token] > -np.inf else None
    return None


def _judge(
    entries: list[_Entry],
    considered: int,
    state: BeamState,
    params: BeamParams,
    group: int,
    size: int,
) -> _Judgement:
    """Decide who finishes and who goes on."""
    length = state.index + 1
    last = length == state.limit
    top = min(size, considered)
    ends = [last or entry.eos for entry in entries]
    kept = [i for i in range(considered) if not ends[i]][:size]
    scores = {
        i: length_score(entries[i].sum, length, params.length_penalty)
        for i in range(top)
        if ends[i]
    }
    pool: list[tuple[float, int | Hypothesis]] = [(h.score, h) for h in state.finished[group]]
    pool += [(score, i) for i, score in scores.items()]
    pool.sort(key=lambda entry: -entry[0])  # stable: the earlier one wins a tie
    line = entries[top - 1].sum
    return _Judgement(
        considered=considered,
        last=last,
        kept=frozenset(kept),
        survivors=frozenset(i for _, i in pool[:size] if isinstance(i, int)),
        scores=scores,
        pool=pool[:size],
        dropped=tuple(h for _, h in pool[size:] if isinstance(h, Hypothesis)),
        worst_finished=pool[size - 1][0] if len(pool) >= size else None,
        cut=entries[kept[-1]].sum if kept else line if last else None,
        line=line,
    )


def _fate(
    i: int, entry: _Entry, verdict: _Judgement, draws: bool, limit_why: str
) -> tuple[str, str, float | None]:
    """Return an entry's fate, why, and the number that it was compared with."""
    if i in verdict.kept:
        return KEPT, "in the cut", verdict.cut
    if i in verdict.scores:
        if i in verdict.survivors:
            return FINISHED, "eos" if entry.eos else limit_why, None
        return PRUNED, "worse than finished", verdict.worst_finished
    limit = verdict.line if verdict.cut is None else verdict.cut
    if i >= verdict.considered and draws:
        return PRUNED, "not drawn", limit
    if entry.eos and not verdict.last:
        return PRUNED, "eos below the top", verdict.line
    return PRUNED, "tie at the cut" if entry.sum == limit else "below the cut", limit


def _grow(
    parent: Hypothesis, candidate: Candidate, length: int, length_penalty: float, stop: str
) -> Hypothesis:
    """Return the parent with the candidate's token after it."""
    return Hypothesis(
        ids=(*parent.ids, candidate.token_id),
        logprob=candidate.sum,
        score=length_score(candidate.sum, length, length_penalty),
        finished=stop == "eos",
        stop=stop,
        logprobs=(*parent.logprobs, candidate.logprob),
        model_logprob=parent.model_logprob + candidate.model_logprob,
        node=candidate.node,
        group=candidate.group,
    )


def _stop(
    state: BeamState,
    params: BeamParams,
    verdict: _Judgement,
    running: tuple[Hypothesis, ...],
    size: int,
) -> tuple[float | None, str]:
    """Return the best score still possible (None until K are finished) and why to stop, if so."""
    length = state.index + 1
    full = len(verdict.pool) == size
    best_possible = None
    if full and running:
        hopeful = params.early_stopping == "never" and params.length_penalty > 0
        best_length = state.limit if hopeful else length
        best_possible = length_score(running[0].logprob, best_length, params.length_penalty)
    if length == state.limit:
        return best_possible, state.limit_why
    if full and (params.early_stopping is True or params.num_beams == 1):
        return best_possible, "all finished"
    if not running:
        return best_possible, "exhausted"
    if best_possible is not None and not best_possible > verdict.worst_finished:
        return best_possible, "no better possible"
    return best_possible, ""
