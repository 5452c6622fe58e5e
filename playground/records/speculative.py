"""Params and records of speculative decoding: what was drafted, tested, kept, and with which dice.

A round drafts a block of tokens, tests them in order, and ends with one token of the target's own.
All are frozen, picklable and free of text. Arrays are float64 over the target's vocabulary [V].
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from playground.records.checks import integer
from playground.records.sampling import SamplingParams, Step, Trace, known_fields

# Where an emitted token comes from; NO_NEXT where none follows the accepted ones.
ACCEPTED, RECOVERED, BONUS, NO_NEXT = "accepted", "recovered", "bonus", ""
STOPS = ("", "eos", "length", "context full")


@dataclass(frozen=True, slots=True)
class SpeculativeParams:
    """Settings of speculation: how many tokens each round drafts.

    ``gamma`` is the block length (of the first round, when adaptive). ``adaptive`` changes it
    after every round: 2 more when a whole block of that length was accepted, 1 less when a token
    was rejected, always in [1, max_gamma]. The rule looks at tested tokens only, so the emitted
    law stays the target's. Raises ValueError naming the parameter, the range and what came.
    """

    gamma: int = 4
    adaptive: bool = False
    max_gamma: int = 16

    def __post_init__(self) -> None:
        integer("gamma", self.gamma, 1)
        integer("max_gamma", self.max_gamma, 1)
        if self.adaptive:
            integer("gamma", self.gamma, 1, self.max_gamma)

    def next_gamma(self, last: Round) -> int:
        """Return the block length to aim at after the round ``last``."""
        if not self.adaptive:
            return self.gamma
        if last.n_tested > last.n_accepted:
            return max(last.gamma - 1, 1)
        whole = last.n_accepted == last.gamma
        return min(last.gamma + 2, self.max_gamma) if whole else last.gamma

    def replace(self, **changes: Any) -> SpeculativeParams:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return only the fields that differ from the defaults, as JSON-ready values."""
        pairs = ((f, getattr(self, f.name)) for f in dataclasses.fields(self))
        return {f.name: value for f, value in pairs if value != f.default}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> SpeculativeParams:
        """Rebuild from ``to_dict``. An unknown name raises ValueError."""
        return cls(**known_fields(cls, d))


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round: a drafted block, its test, and the token after it.

    ``position`` is the index in ids of the first drafted token, g = len(draft_ids) the block's
    length: at most ``gamma``, the length aimed at; less where the run or the context ends, where
    EOS was drafted, or where the draft had nothing to offer.
    ``draft_probs`` [g, V] are the laws that the drafted tokens were drawn from and
    ``target_probs`` [g+1, V] the target's after each prefix of the block, both shaped by the same
    chain (None in a compact record). ``accept_probs`` has min(1, target/draft) of every drafted
    token and ``overlaps`` the chance, before it was drawn, that one is accepted there (the sum of
    min(target, draft)); both along the drafted path, tested or not.
    ``draft_us`` drew the block (None: no dice, as when greedy or looked up). ``us`` are the
    acceptance dice, one per tested token (None when greedy); ``next_u`` drew ``next_id``.
    ``n_tested`` counts the tokens up to the first rejection, included; later ones are never looked
    at. ``source`` tells where ``next_id`` comes from: "recovered" (drawn from the residual, after a
    rejection), "bonus" (from the target, after a block that passed), or "" (there is none: an
    accepted token ended the run). ``steps`` are the emitted tokens as Steps of the target.
    ``stop`` is "eos", "length", "context full", or "" where the run goes on. The seconds are the
    wall time of the draft's and the target's forwards; the models' caches can make them 0.
    """

    position: int
    gamma: int
    draft_ids: tuple[int, ...]
    draft_probs: np.ndarray | None
    target_probs: np.ndarray | None
    accept_probs: tuple[float, ...]
    overlaps: tuple[float, ...]
    draft_us: tuple[float | None, ...]
    us: tuple[float | None, ...]
    n_accepted: int
    n_tested: int
    next_id: int | None
    next_u: float | None
    source: str
    steps: tuple[Step, ...]
    stop: str = ""
    draft_seconds: float = 0.0
    target_seconds: float = 0.0

    @property
    def ids(self) -> tuple[int, ...]:
        """The emitted tokens: the accepted ones and the next."""
        tail = () if self.next_id is None else (self.next_id,)
        return self.draft_ids[: self.n_accepted] + tail

    @property
    def fates(self) -> tuple[str, ...]:
        """One word per drafted token: "accepted", "rejected" or "untested"."""
        return tuple(
            ACCEPTED if i < self.n_accepted else "rejected" if i < self.n_tested else "untested"
            for i in range(len(self.draft_ids))
        )

    def compact(self) -> Round:
        """Return the round without its distributions (some hundred bytes instead of megabytes)."""
        return dataclasses.replace(self, draft_probs=None, target_probs=None)


@dataclass(frozen=True, slots=True, eq=False)
class SpeculativeResult:
    """A run: its rounds, and figures with their denominators in their names."""

    prompt_ids: tuple[int, ...]
    rounds: tuple[Round, ...]
    params: SpeculativeParams
    sampling_params: SamplingParams
    stop: str = ""
    model: str = ""
    draft: str = ""

    @property
    def ids(self) -> tuple[int, ...]:
        """The generated ids, prompt excluded (an EOS that ended the run included)."""
        return tuple(i for one in self.rounds for i in one.ids)

    @property
    def sources(self) -> tuple[str, ...]:
        """Where each generated token comes from: "accepted", "recovered" or "bonus"."""
        return tuple(s.source for one in self.rounds for s in one.steps)

    @property
    def trace(self) -> Trace:
        """The run as a Trace: its Steps carry their provenance in ``source``."""
        steps = tuple(s for one in self.rounds for s in one.steps)
        return Trace(self.prompt_ids, steps, self.stop, self.model)

    @property
    def n_drafted(self) -> int:
        """Number of drafted tokens."""
        return sum(len(one.draft_ids) for one in self.rounds)

    @property
    def n_tested(self) -> int:
        """Number of drafted tokens that were tested."""
        return sum(one.n_tested for one in self.rounds)

    @property
    def n_accepted(self) -> int:
        """Number of drafted tokens that were accepted."""
        return sum(one.n_accepted for one in self.rounds)

    @property
    def acceptance_per_drafted(self) -> float:
        """Accepted tokens per drafted token (nan when none was drafted)."""
        return self.n_accepted / self.n_drafted if self.n_drafted else float("nan")

    @property
    def acceptance_per_tested(self) -> float:
        """Accepted tokens per tested token, the estimate of the acceptance rate (nan: none)."""
        return self.n_accepted / self.n_tested if self.n_tested else float("nan")

    @property
    def tokens_per_round(self) -> float:
        """Generated tokens per round, that is per forward of the target (nan: no round)."""
        return len(self.ids) / len(self.rounds) if self.rounds else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class LosslessnessReport:
    """N one-token rounds under one rule, against the target.

    ``emitted`` [V] is the rule's exact law and ``damage`` its total variation distance to the
    target. ``counts`` [V] are the tokens of the N runs; ``chi_square`` compares them with the
    target over ``dof`` + 1 bins (rare tokens pooled), ``p_value`` is the chance that a lossless
    rule looks at least as bad. ``tvs[i]`` is the distance of the first ``sizes[i]`` runs'
    frequencies to the target, ``noise[i]`` about what a lossless rule shows at that size by chance.
    """

    rule: str
    emitted: np.ndarray
    damage: float
    counts: np.ndarray
    chi_square: float
    dof: int
    p_value: float
    sizes: tuple[int, ...]
    tvs: tuple[float, ...]
    noise: tuple[float, ...]
