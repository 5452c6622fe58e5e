"""A speculative run under way, and the moves on it. Ids and small numbers only; no screen.

In: target and draft, what the run depends on (``Setup``), and what was clicked; out: a new
``Speculation``. Refusals are ValueErrors in the user's words. Rounds are kept without their
distributions: ``position`` computes those of the one token that is looked at, from cached logits.

Costs are measured in the run: a round's seconds count only where both models really ran (caches may
have made a round free, and the first one follows the reading of the prompt), and the target's own
step is timed on tokens that nothing else asks for.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from playground.engines import speculative
from playground.engines.acceptance import one_hot, overlap, residual
from playground.engines.drafting import Draft, Law, is_proposer
from playground.engines.sampling import context_full
from playground.language_model import LanguageModel
from playground.records import SamplingParams
from playground.records.speculative import RECOVERED, Round, SpeculativeParams
from playground.serving.limits import limits_of
from playground.tape import TapeLM
from playground.ui.second_models import Second
from playground.words import Translate

MAX_ROUNDS = 200
NEXT = -1  # the place, in a round, of the token after the drafted ones
TIMED = 3  # how often the target's own step is timed


@dataclass(frozen=True, slots=True)
class Setup:
    """All that a run depends on."""

    prompt_ids: tuple[int, ...]
    model: str
    draft: Second
    params: SpeculativeParams
    sampling: SamplingParams


@dataclass(frozen=True, slots=True)
class Lap:
    """A round without its distributions, and how its seconds came about.

    ``fresh``: both models ran for all of it, so the round's seconds are its cost.
    ``draft_forwards`` is how often the draft ran (its own count, where it has one).
    """

    round: Round
    draft_forwards: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Costs:
    """Median seconds: the target's own step, a draft forward, the target's over a block.

    ``length`` is the mean number of drafted tokens in those blocks.
    """

    step: float
    draft: float
    block: float
    length: float


@dataclass(frozen=True, slots=True)
class Speculation:
    """A run: ``laps`` are the rounds known, ``at`` how many are shown.

    ``picked`` is (round, place) of the token looked at; place counts the drafted tokens, NEXT is
    the one after them. ``step_seconds`` is what the target's own step costs, ``costs`` what was
    last measured of this target and draft, in this run or an earlier one.
    """

    setup: Setup | None = None
    laps: tuple[Lap, ...] = ()
    at: int = 0
    picked: tuple[int, int] | None = None
    step_seconds: float | None = None
    costs: Costs | None = None

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds shown."""
        return tuple(lap.round for lap in self.laps[: self.at])

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and the tokens of the rounds shown."""
        prompt = self.setup.prompt_ids if self.setup else ()
        return (*prompt, *(i for one in self.rounds for i in one.ids))

    @property
    def stop(self) -> str:
        """Why the run ended at the round shown, "" where it goes on."""
        return self.laps[self.at - 1].round.stop if self.at else ""


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """One token of a round with the laws that met there, all float64 [V].

    ``fate`` is the token's, ``tested`` what became of the drafted token at this position (a
    recovered token stands where one was rejected). ``draft`` is the law that the drafted token was
    drawn from and ``raw_draft`` the same before the filters; None where nothing was drafted.
    """

    index: int
    place: int
    where: int  # how many drafted tokens stand before it
    token_id: int
    fate: str
    tested: str
    target: np.ndarray
    draft: np.ndarray | None
    raw_draft: np.ndarray | None
    drafted_id: int | None
    u: float | None
    chance: float
    overlap: float
    round: Round


def forward(
    target: LanguageModel, draft: Draft, run: Speculation, t: Translate, clock: bool = True
) -> Speculation:
    """Return the run one round further; the models are asked only for a round not yet known."""
    setup = run.setup
    if setup is None or not setup.prompt_ids:
        raise ValueError(t("page.empty" if target.bos_id is not None else "page.empty_no_bos"))
    if run.stop == "eos":
        raise ValueError(t("speculate.ended_eos"))
    if run.at < len(run.laps):
        return pick(replace(run, at=run.at + 1))
    ids = run.ids
    if context_full(target, ids):
        text = t("page.ended_context", count=len(ids), limit=target.context_length)
        raise ValueError(text)
    if len(run.laps) >= MAX_ROUNDS:
        raise ValueError(t("speculate.ended_rounds", count=MAX_ROUNDS))
    check_gamma(target, draft, setup.params, t)
    clock = clock and not isinstance(target, TapeLM)  # a tape doesn't take a model's time
    if clock and run.step_seconds is None:
        run = replace(run, step_seconds=time_step(target, ids))
    if not is_proposer(draft):
        speculative.check_draft(target, draft, setup.params)
        readable = draft.context_length is None or len(ids) <= draft.context_length
        if clock and not run.laps and readable:
            draft.logits(ids)  # the prompt is read once, and is no round's cost
    gamma = setup.params.next_gamma(run.rounds[-1]) if run.at else setup.params.gamma
    before = _forwards(target), _forwards(draft)
    one = speculative.step(
        target,
        draft,
        ids,
        setup.params,
        setup.sampling,
        prompt_length=len(setup.prompt_ids),
        gamma=gamma,
        keep_probs=False,
    )
    asked, drafted = _since(target, before[0], 1), _since(draft, before[1], len(one.draft_ids))
    fresh = bool(run.laps) and asked > 0 and drafted >= len(one.draft_ids)
    laps = (*run.laps, Lap(one, drafted, fresh))
    costs = costs_of(laps, run.step_seconds) or run.costs
    return pick(replace(run, laps=laps, at=run.at + 1, costs=costs))


def tick(
    target: LanguageModel, draft: Draft, run: Speculation, t: Translate, count: int
) -> Speculation:
    """Return the run after the next round of many, ``count`` of which were made before.

    A run that has ended begins again from the prompt, with the rounds that are known.
    """
    if count == 0 and ended(target, run):
        run = reset(run)
    return forward(target, draft, run, t)


def ended(target: LanguageModel, run: Speculation) -> bool:
    """Say whether no round can follow."""
    return bool(run.at) and (bool(run.stop) or context_full(target, run.ids))


def back(run: Speculation) -> Speculation:
    """Return the run one round earlier; Step brings the round on again, unchanged."""
    return pick(replace(run, at=max(run.at - 1, 0)))


def reset(run: Speculation) -> Speculation:
    """Return the run before its first round; Step and Run bring the known ones on again."""
    return pick(replace(run, at=0))


def restart(run: Speculation, setup: Setup) -> Speculation:
    """Return a run before its first round; what the same two models cost is still known."""
    old = run.setup
    if old is None or old.model != setup.model:
        return Speculation(setup)
    costs = run.costs if old.draft == setup.draft else None
    return Speculation(setup, step_seconds=run.step_seconds, costs=costs)


def pick(run: Speculation, index: int | None = None, place: int | None = None) -> Speculation:
    """Return the run looking at a token; without one, at what the newest round decided last."""
    if not run.at:
        return replace(run, picked=None)
    index = run.at - 1 if index is None else index
    if not 0 <= index < run.at:
        return run
    one = run.laps[index].round
    if place is None:
        place = one.n_tested - 1 if one.n_tested else NEXT
    if place == NEXT and one.next_id is None or place >= len(one.draft_ids) or place < NEXT:
        return run
    return replace(run, picked=(index, place))


def pick_token(run: Speculation, index: int) -> Speculation:
    """Return the run looking at the token of a strip's index; prompt tokens change nothing."""
    left = index - len(run.setup.prompt_ids) if run.setup else -1
    for i, one in enumerate(run.rounds):
        if 0 <= left < len(one.ids):
            return pick(run, i, left if left < one.n_accepted else NEXT)
        left -= len(one.ids)
    return run


def position(target: LanguageModel, draft: Draft, run: Speculation) -> Position | None:
    """Return what is known at the token looked at; the models' logits there are cached."""
    if run.setup is None or run.picked is None:
        return None
    index, place = run.picked
    one = run.laps[index].round
    where = one.n_accepted if place == NEXT else place
    path = (*run.ids[: one.position], *one.draft_ids[:where])
    length, sampling = len(run.setup.prompt_ids), run.setup.sampling
    law = Law(target.logits(path)[-1], sampling, path, length).probs
    drafted = where < len(one.draft_ids)
    drafted_id = one.draft_ids[where] if drafted else None
    proposal = raw = None
    if drafted and is_proposer(draft):
        proposal = raw = one_hot(drafted_id, target.vocab_size)
    elif drafted:
        theirs = Law(_fit(draft.logits(path)[-1], len(law)), sampling, path, length)
        proposal, raw = theirs.probs, np.exp(theirs.model)
    tested = one.fates[where] if drafted else ""
    return Position(
        index=index,
        place=place,
        where=where,
        token_id=one.next_id if place == NEXT else drafted_id,
        fate=one.source if place == NEXT else tested,
        tested=tested,
        target=law,
        draft=proposal,
        raw_draft=raw,
        drafted_id=drafted_id,
        u=one.us[where] if where < one.n_tested else None,
        chance=one.accept_probs[where] if drafted else 1.0,
        overlap=1.0 if proposal is None else float(overlap(law, proposal)),
        round=one,
    )


def residual_of(seen: Position) -> np.ndarray | None:
    """Return the law [V] that a rejection draws from, None where nothing was drafted."""
    return None if seen.draft is None else residual(seen.target, seen.draft)


def recovered(seen: Position) -> bool:
    """Say whether the round's next token was drawn from this position's residual."""
    return seen.round.source == RECOVERED and seen.where == seen.round.n_accepted


def check_gamma(
    target: LanguageModel, draft: Draft, params: SpeculativeParams, t: Translate
) -> None:
    """Refuse, in words, a block that's too long for the server, or can't fit into the context."""
    limits_of(target).check_gamma(params.gamma)
    limits = [lm.context_length for lm in (target, draft) if getattr(lm, "context_length", None)]
    if limits and params.gamma >= min(limits):
        raise ValueError(t("speculate.gamma_context", gamma=params.gamma, limit=min(limits)))


def time_step(target: LanguageModel, ids: tuple[int, ...]) -> float | None:
    """Return the seconds of the target's forward over one more token (the median of a few).

    The tokens are picked at random, so that no cache has them; the prompt is read before.
    """
    target.logits(ids)
    if context_full(target, (*ids, 0)):
        return None
    seconds = []
    for token in random.sample(range(target.vocab_size), min(TIMED, target.vocab_size)):
        before, began = _forwards(target), time.perf_counter()
        target.logits((*ids, token))
        took = time.perf_counter() - began
        if before is None or _forwards(target) > before:
            seconds.append(took)
    return statistics.median(seconds) if seconds else None


def costs_of(laps: Sequence[Lap], step_seconds: float | None) -> Costs | None:
    """Return what the rounds that really ran cost, None where there was none with a draft."""
    ran = [lap for lap in laps if lap.fresh and lap.draft_forwards and lap.round.draft_ids]
    if not ran or not step_seconds:
        return None
    return Costs(
        step=step_seconds,
        draft=statistics.median(lap.round.draft_seconds / lap.draft_forwards for lap in ran),
        block=statistics.median(lap.round.target_seconds for lap in ran),
        length=statistics.mean(len(lap.round.draft_ids) for lap in ran),
    )


def _since(model: object, before: int | None, otherwise: int) -> int:
    """Return how often a model ran since, ``otherwise`` where it keeps no count."""
    return otherwise if before is None else _forwards(model) - before


def _forwards(model: object) -> int | None:
    """Return a model's count of forwards, None where it keeps none."""
    return getattr(model, "forwards", None)


def _fit(logits: np.ndarray, size: int) -> np.ndarray:
    """Return logits over ``size`` ids: further ones cut off, missing ones impossible."""
    out = np.full(size, -np.inf, logits.dtype)
    out[: len(logits)] = logits[:size]
    return out
