"""Three texts that grow side by side, and the moves on them. Ids and numbers only; no screen.

In: an expert, its amateur, what the texts depend on (``Setup``), settings, and what was clicked;
out: a new ``Contest``. Refusals are ValueErrors in the user's words. Settings count from the token
looked at: each token keeps those it was taken with. The models are asked only for prefixes that are
new; what Back took off is known and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from playground.engines import contrastive
from playground.engines.pairs import check_pair
from playground.engines.sampling import context_full
from playground.language_model import LanguageModel
from playground.processors import shape
from playground.ranking import descending
from playground.records import SamplingParams, Step
from playground.records.checks import integer
from playground.records.contrastive import AmateurSees, ContrastiveParams, ContrastiveStep
from playground.ui.second_models import Second
from playground.words import Translate

MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class Setup:
    """What the three texts share: where they begin, who writes them, what the amateur sees."""

    prompt_ids: tuple[int, ...]
    model: str
    amateur: Second
    sees: AmateurSees = "all"


@dataclass(frozen=True, slots=True)
class Taken:
    """One token of the contrastive text with the settings that it was taken with."""

    step: Step
    params: ContrastiveParams


@dataclass(frozen=True, slots=True)
class Contest:
    """The texts: ``taken`` is the contrastive one as far as known, ``at`` how much is shown.

    ``expert_ids`` and ``amateur_ids`` are what each model writes alone, greedily, as far as known.
    """

    setup: Setup | None = None
    taken: tuple[Taken, ...] = ()
    at: int = 0
    expert_ids: tuple[int, ...] = ()
    amateur_ids: tuple[int, ...] = ()

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt's ids."""
        return self.setup.prompt_ids if self.setup else ()

    @property
    def new_ids(self) -> tuple[int, ...]:
        """The contrastive text shown, without the prompt."""
        return tuple(one.step.token_id for one in self.taken[: self.at])

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids before the position looked at."""
        return (*self.prompt_ids, *self.new_ids)

    @property
    def next(self) -> Taken | None:
        """What was taken at the position looked at, where something was."""
        return self.taken[self.at] if self.at < len(self.taken) else None


def start(setup: Setup) -> Contest:
    """Return the texts at the prompt."""
    return Contest(setup)


def ended(expert: LanguageModel, contest: Contest) -> bool:
    """Say whether the contrastive text shown ends with the expert's end token."""
    return bool(contest.new_ids) and contest.new_ids[-1] in expert.eos_ids


def over(
    expert: LanguageModel,
    amateur: LanguageModel,
    contest: Contest,
    params: ContrastiveParams,
    t: Translate,
) -> bool:
    """Say whether no token can follow the text shown."""
    try:
        check(expert, amateur, contest, t, params)
    except ValueError:
        return True
    return False


def position(
    expert: LanguageModel,
    amateur: LanguageModel,
    contest: Contest,
    params: ContrastiveParams,
    sampling: SamplingParams,
) -> ContrastiveStep:
    """Return the position looked at under these settings, with the token that they would take."""
    start = len(contest.prompt_ids)
    return contrastive.step(expert, amateur, contest.ids, params, sampling, start)


def law(both: ContrastiveStep, contest: Contest, sampling: SamplingParams) -> np.ndarray:
    """Return the log-probs [V] that the token is drawn by, after the chain."""
    return shape(both.scores, sampling, contest.ids, len(contest.prompt_ids))[-1].logprobs


def forward(
    expert: LanguageModel,
    amateur: LanguageModel,
    contest: Contest,
    params: ContrastiveParams,
    sampling: SamplingParams,
    t: Translate,
    force: int | None = None,
) -> Contest:
    """Return the texts one token further; ``force`` takes that token for the contrastive one.

    A known token comes again if the settings are those that it was taken with.
    """
    check(expert, amateur, contest, t, params)
    known = contest.next
    if known is not None and force is None:
        same = known.params == params and known.step.params == sampling
        if same or (known.step.source == "forced" and known.params == params):
            return grow(expert, amateur, replace(contest, at=contest.at + 1))
    start = len(contest.prompt_ids)
    one = contrastive.step(expert, amateur, contest.ids, params, sampling, start, force)
    taken = (*contest.taken[: contest.at], Taken(one.step, params))
    return grow(expert, amateur, replace(contest, taken=taken, at=contest.at + 1))


def check(
    expert: LanguageModel,
    amateur: LanguageModel,
    contest: Contest,
    t: Translate,
    params: ContrastiveParams,
) -> None:
    """Refuse, in words, what can't be decoded."""
    if not contest.prompt_ids:
        raise ValueError(t("page.empty" if expert.bos_id is not None else "page.empty_no_bos"))
    if ended(expert, contest):
        raise ValueError(t("contrast.has_ended"))
    seen = contrastive.amateur_ids(contest.ids, len(contest.prompt_ids), params)
    if context_full(expert, contest.ids) or context_full(amateur, seen):
        raise ValueError(full_text(expert, amateur, contest.ids, seen, t))
    if contest.at >= MAX_TOKENS:
        raise ValueError(t("contrast.too_many", count=MAX_TOKENS))
    check_pair(expert, amateur)


def full_text(
    expert: LanguageModel,
    amateur: LanguageModel,
    ids: Sequence[int],
    seen: Sequence[int],
    t: Translate,
) -> str:
    """Return the words for a full context: the expert's, or the amateur's with its name."""
    if context_full(expert, ids):
        return t("page.ended_context", count=len(ids), limit=expert.context_length)
    limit = amateur.context_length
    return t("contrast.amateur_full", name=amateur.name, count=len(seen), limit=limit)


def grow(expert: LanguageModel, amateur: LanguageModel, contest: Contest) -> Contest:
    """Return the texts with the two greedy ones as long as the contrastive one, or ended."""
    prompt = contest.prompt_ids
    params = ContrastiveParams(amateur_sees=contest.setup.sees)

    def own(ids: Sequence[int]) -> tuple[int, ...]:
        return contrastive.amateur_ids(ids, len(prompt), params)

    return replace(
        contest,
        expert_ids=_greedy(expert, prompt, contest.expert_ids, contest.at, tuple),
        amateur_ids=_greedy(amateur, prompt, contest.amateur_ids, contest.at, own),
    )


def _greedy(
    lm: LanguageModel, prompt: Sequence[int], ids: tuple[int, ...], count: int, seen: object
) -> tuple[int, ...]:
    """Return a model's own greedy text of ``count`` tokens, shorter where it ends."""
    while len(ids) < count and not (ids and ids[-1] in lm.eos_ids):
        context = seen((*prompt, *ids))  # type: ignore[operator]
        if context_full(lm, context):
            break
        ids = (*ids, int(np.argmax(lm.logits(context)[-1])))
    return ids


def tick(
    expert: LanguageModel,
    amateur: LanguageModel,
    contest: Contest,
    params: ContrastiveParams,
    sampling: SamplingParams,
    t: Translate,
    count: int,
) -> Contest:
    """Return the texts after the next token of many, ``count`` of which were made before.

    Texts that have ended begin again from the prompt.
    """
    if count == 0 and ended(expert, contest):
        contest = start(contest.setup)
    return forward(expert, amateur, contest, params, sampling, t)


def look_at(contest: Contest, count: int) -> Contest:
    """Return the texts with ``count`` tokens shown; nothing known is lost."""
    return replace(contest, at=max(0, min(count, len(contest.taken))))


def nth(both: ContrastiveStep, digit: int) -> int:
    """Return the id of the n-th best candidate."""
    integer("digit", digit, 1, 9)
    best = descending(both.scores, digit)
    alive = int(np.count_nonzero(both.scores > -np.inf))
    return int(best[min(digit, alive) - 1])


def stale(contest: Contest, params: ContrastiveParams, sampling: SamplingParams) -> bool:
    """Say whether a token shown was chosen by other settings than these."""
    chosen = (one for one in contest.taken[: contest.at] if one.step.source != "forced")
    return any(one.params != params or one.step.params != sampling for one in chosen)
