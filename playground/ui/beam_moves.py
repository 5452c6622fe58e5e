"""A beam search as the page holds it, and the moves on it. Ids and numbers only; no screen.

In: a LanguageModel, prompt ids, BeamParams, and what was clicked; out: a new Search. Refusals are
ValueErrors in the user's words. Going back and forth over known steps asks no model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace

from playground.charts.beam_layout import Road
from playground.engines import beam
from playground.engines.best_first import best_first
from playground.engines.hypotheses import continue_ghost, rescore
from playground.engines.sampling import fingerprint
from playground.language_model import ContextFull, LanguageModel
from playground.records import SamplingParams
from playground.records.beam import (
    KEPT,
    PRUNED,
    ROOT,
    BeamParams,
    BeamResult,
    BeamState,
    BeamStep,
    Hypothesis,
    ModeSearch,
    length_score,
)
from playground.records.checks import integer
from playground.serving.limits import limits_of
from playground.session import Prompt, Session, replay
from playground.words import Translate

MAX_HORIZON = 8
MAX_BUDGET = 5000


@dataclass(frozen=True, slots=True)
class Mode:
    """What exact search found under a horizon, beside beam search's and greedy's best sums."""

    found: ModeSearch
    horizon: int
    beam: float
    greedy: float


@dataclass(frozen=True, slots=True)
class Search:
    """One search under way: ``states[i]`` is the state before step i, ``at`` how many are shown.

    ``greedy`` is the same search with one beam, as far as it was stepped. ``picked`` is the node
    that was clicked last, ``road`` its greedy continuation where it is a pruned one.
    """

    prompt_ids: tuple[int, ...] = ()
    model: str = ""
    params: BeamParams = BeamParams()
    states: tuple[BeamState, ...] = ()
    steps: tuple[BeamStep, ...] = ()
    at: int = 0
    greedy: BeamState | None = None
    picked: int | None = None
    road: Hypothesis | None = None
    mode: Mode | None = None

    @property
    def state(self) -> BeamState:
        """The state that is looked at."""
        return self.states[self.at]

    @property
    def ended(self) -> bool:
        """Whether the state that is looked at is the search's last."""
        return bool(self.state.stop)

    @property
    def greedy_path(self) -> Hypothesis:
        """Greedy's own sequence, as long as the steps shown; whole where the search has ended."""
        state = self.greedy
        whole = [*(h for group in state.finished for h in group), *state.beams][0]
        return whole if self.ended else cut(whole, self.at)


def start(lm: LanguageModel, prompt_ids: Sequence[int], params: BeamParams, t: Translate) -> Search:
    """Return a search before its first step. No forward is made."""
    if not prompt_ids:
        raise ValueError(t("page.empty" if lm.bos_id is not None else "page.empty_no_bos"))
    limits = limits_of(lm)
    limits.check_beams(params.num_beams)
    limits.check_new_tokens(params.max_new_tokens)
    try:
        state = beam.start(lm, prompt_ids, params)
    except ContextFull:
        count, limit = len(prompt_ids), lm.context_length
        raise ValueError(t("page.too_long", count=count, limit=limit)) from None
    alone = beam.start(lm, prompt_ids, one_beam(params))
    return Search(state.prompt_ids, fingerprint(lm), params, (state,), (), 0, alone)


def one_beam(params: BeamParams) -> BeamParams:
    """Return the params of greedy under the same filters and limits."""
    changes = dict(num_beams=1, num_groups=1, diversity_penalty=0.0, do_sample=False)
    return params.replace(**changes, num_return=None)


def forward(lm: LanguageModel, search: Search, t: Translate) -> Search:
    """Return the search one step further; the model is asked only for a step not yet known."""
    if search.ended:
        raise ValueError(t("beam.has_ended"))
    if search.at < len(search.steps):
        return replace(search, at=search.at + 1)
    state, step = beam.step(lm, search.state, search.params)
    greedy = _greedily(lm, search, to_end=bool(state.stop))
    return replace(
        search,
        states=(*search.states, state),
        steps=(*search.steps, step),
        at=search.at + 1,
        greedy=greedy,
    )


def _greedily(lm: LanguageModel, search: Search, to_end: bool) -> BeamState:
    """Return greedy's state after one more step, or at its end."""
    state, params = search.greedy, one_beam(search.params)
    while not state.stop and (to_end or state.index <= search.at):
        state, _ = beam.step(lm, state, params)
    return state


def look_at(search: Search, count: int) -> Search:
    """Return the search looking at the state after ``count`` known steps."""
    at = max(0, min(count, len(search.steps)))
    shown = {c.node for step in search.steps[:at] for c in step.candidates}
    if search.picked in shown:
        return replace(search, at=at)
    return replace(search, at=at, picked=None, road=None)


def result(lm: LanguageModel, search: Search) -> BeamResult:
    """Return what is known at the state looked at."""
    return beam.result_of(lm, search.state, search.steps[: search.at], search.params)


def choose(lm: LanguageModel, search: Search, node: int, t: Translate) -> Search:
    """Return the search with a node picked; a pruned one is continued greedily."""
    known = {c.node: c for step in search.steps[: search.at] for c in step.candidates}
    if node not in known:
        raise ValueError(t("beam.no_node"))
    if known[node].fate != PRUNED:
        return replace(search, picked=node, road=None)
    found = continue_ghost(lm, result(lm, search), node)
    return replace(search, picked=node, road=found)


def nth_ghost(search: Search, digit: int, t: Translate) -> int:
    """Return the n-th best pruned candidate of the newest step."""
    integer("digit", digit, 1, 9)
    newest = search.steps[search.at - 1].candidates if search.at else ()
    pruned = sorted((c for c in newest if c.fate == PRUNED), key=lambda c: -c.sum)
    if len(pruned) < digit:
        raise ValueError(t("beam.no_ghost", digit=digit))
    return pruned[digit - 1].node


def ranking(
    lm: LanguageModel, search: Search, length_penalty: float, form: str
) -> tuple[Hypothesis, ...]:
    """Return the hypotheses known so far, best first under another length penalty or form."""
    return rescore(result(lm, search).hypotheses, length_penalty, form)


def path_nodes(search: Search, node: int) -> tuple[int, ...]:
    """Return the nodes from the prompt (excluded) to a node."""
    parents = {c.node: c.parent for step in search.steps for c in step.candidates}
    out: list[int] = []
    while node != ROOT and node in parents:
        out.append(node)
        node = parents[node]
    return tuple(reversed(out))


def path_to(search: Search, node: int) -> Hypothesis:
    """Return the sequence that ends in a recorded node."""
    found = {c.node: c for step in search.steps for c in step.candidates}
    path = [found[n] for n in path_nodes(search, node)]
    total = path[-1].sum if path else 0.0
    last = path[-1] if path else None
    params = search.params
    return Hypothesis(
        ids=tuple(c.token_id for c in path),
        logprob=total,
        score=length_score(total, len(path), params.length_penalty),
        finished=last is not None and last.why == "eos",
        stop="" if last is None or last.fate == KEPT else last.why,
        logprobs=tuple(c.logprob for c in path),
        model_logprob=sum(c.model_logprob for c in path),
        node=node,
    )


def lost_at(search: Search) -> int | None:
    """Return the step (from 1) at which greedy's path was thrown away, None if it wasn't."""
    for step in search.steps[: search.at]:
        if any(c.greedy and c.fate == PRUNED for c in step.candidates):
            return step.index + 1
    return None


def roads(search: Search) -> tuple[Road, ...]:
    """Return the paths beyond pruned nodes: greedy's own, and the ghost that was continued."""
    out = []
    for step in search.steps[: search.at]:
        for c in step.candidates:
            if c.greedy and c.fate == PRUNED:
                out.append(_road("greedy", c.node, step.index + 1, search.greedy_path))
    if search.road is not None and search.picked is not None:
        depth = len(path_nodes(search, search.picked))
        if not any(road.node == search.picked for road in out):
            out.append(_road("road", search.picked, depth, search.road))
    return tuple(out)


def _road(name: str, node: int, depth: int, whole: Hypothesis) -> Road:
    sums, total = [], 0.0
    for logprob in whole.logprobs:
        total += logprob
        sums.append(total)
    return Road(name, node, whole.ids[depth:], whole.logprobs[depth:], tuple(sums[depth:]))


def cut(h: Hypothesis, length: int) -> Hypothesis:
    """Return the first tokens of a hypothesis as one that is still running."""
    if h.length <= length:
        return h
    total = float(sum(h.logprobs[:length]))
    return dataclasses.replace(
        h,
        ids=h.ids[:length],
        logprobs=h.logprobs[:length],
        logprob=total,
        score=total,
        finished=False,
        stop="",
        node=-1,
    )


def true_best(lm: LanguageModel, search: Search, horizon: int, budget: int, t: Translate) -> Search:
    """Return the search with the most probable sequence of ``horizon`` tokens, found exactly
    within ``budget`` forwards, beside what beam search and greedy reach under that horizon.
    """
    integer(t("beam.horizon"), horizon, 1, MAX_HORIZON)
    integer(t("beam.budget"), budget, horizon, MAX_BUDGET)
    if search.state.limit == 0:
        raise ValueError(t("beam.stop_context"))
    found = best_first(
        lm, search.prompt_ids, horizon, budget, stop_at_eos=search.params.stop_at_eos
    )
    short = search.params.replace(
        max_new_tokens=horizon, length_penalty=0.0, early_stopping=False, num_return=None
    )
    best = beam.beam_search(lm, search.prompt_ids, short).hypotheses[0]
    alone = beam.beam_search(lm, search.prompt_ids, one_beam(short)).hypotheses[0]
    return replace(search, mode=Mode(found, horizon, best.model_logprob, alone.model_logprob))


def to_session(
    lm: LanguageModel,
    session: Session,
    prompt: Prompt,
    search: Search,
    hypothesis: Hypothesis,
    params: SamplingParams,
) -> Session:
    """Return the Sample tab's session with a hypothesis as its steps (source "beam").

    Its earlier path is kept as a branch. ``params`` are the filters that its steps are shown under.
    """
    if session.prompt != prompt or session.trace.prompt_ids != search.prompt_ids:
        session = session.start(prompt, lm)
    session = session.look_at(0).rewind()
    choices = [(token, params, "beam") for token in hypothesis.ids]
    steps = replay(lm, session.trace.prompt_ids, choices) if choices else ()
    stop = "eos" if hypothesis.finished else ""
    return replace(session, trace=replace(session.trace, steps=steps, stop=stop))
