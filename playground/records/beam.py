"""Params and records of beam search: what was asked, who raced, who won and what was thrown away.

Every recorded candidate is a node of one tree: ``node`` is its number, ``parent`` the number of
the node that it extends, ROOT the prompt. All are frozen, picklable and free of tensors and text;
log-probabilities are natural (nats) and float64.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from playground.records.checks import choice, integer, number
from playground.records.sampling import SamplingParams, known_fields

ROOT = 0
MAX_BEAMS = 1024
MAX_NEW_TOKENS = 1_000_000

# Why a candidate met its fate, and the number that it was compared with (``Candidate.limit``).
KEPT, PRUNED, FINISHED = "kept", "pruned", "finished"
WHYS = {
    "in the cut": KEPT,  # its sum is among the beams that go on; limit: the lowest such sum
    "below the cut": PRUNED,  # its sum is lower than limit, the lowest one that was kept
    "tie at the cut": PRUNED,  # its sum equals limit, but its beam or id is higher
    "eos below the top": PRUNED,  # it ends, but not among the K best; limit: the K-th best sum
    "worse than finished": PRUNED,  # it ends, with a score no better than limit, the K-th finished
    "not drawn": PRUNED,  # the dice of beam sampling passed it over; limit: the lowest sum kept
    "eos": FINISHED,
    "length": FINISHED,
    "context full": FINISHED,
}

# Why a search ended.
STOPS = (
    "all finished",  # K hypotheses are finished, and early_stopping asks for no more
    "no better possible",  # no running beam can beat the worst of K finished ones
    "length",
    "context full",
    "exhausted",  # no beam has a continuation left
)


@dataclass(frozen=True, slots=True)
class BeamParams:
    """Settings of one beam search.

    ``num_beams`` K; 1 is greedy (or plain sampling), as in transformers. ``early_stopping`` True
    ends at K finished hypotheses; False when the best running sum, divided by the length so far,
    can't beat the worst of them; "never" takes the longest length allowed instead where the
    length penalty is positive. Scores are sum / length**length_penalty: 0 is neutral, positive
    favours long ones. ``num_return`` is how many hypotheses come back (None: all).
    ``sampling`` holds processors that act on the log-probabilities before they race, without
    renormalising; its temperature 0 means none. With ``do_sample`` candidates are drawn, without
    replacement, instead of taken from the top (``sampling`` None: plain, seed 0; temperature 0:
    not drawn). ``num_groups`` splits the beams into groups that pay ``diversity_penalty`` for each
    beam of an earlier group that took the same token at the same step (Hamming diversity,
    Vijayakumar et al. 2016).

    Raises ValueError naming the parameter, the allowed range and the value that came.
    """

    num_beams: int = 4
    max_new_tokens: int = 20
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    num_return: int | None = None
    sampling: SamplingParams | None = None
    do_sample: bool = False
    num_groups: int = 1
    diversity_penalty: float = 0.0
    stop_at_eos: bool = True

    def __post_init__(self) -> None:
        integer("num_beams", self.num_beams, 1, MAX_BEAMS)
        integer("max_new_tokens", self.max_new_tokens, 1, MAX_NEW_TOKENS)
        number("length_penalty", self.length_penalty, -50, 50)
        if not isinstance(self.early_stopping, bool) and self.early_stopping != "never":
            raise ValueError(
                f"early_stopping must be False, True or 'never', got {self.early_stopping!r}"
            )
        if self.num_return is not None:
            integer("num_return", self.num_return, 1, self.num_beams)
        if self.sampling is not None and not isinstance(self.sampling, SamplingParams):
            kind = type(self.sampling).__name__
            raise ValueError(f"sampling must be SamplingParams or None, got {kind}")
        integer("num_groups", self.num_groups, 1, self.num_beams)
        number("diversity_penalty", self.diversity_penalty, 0, 1e4)
        if self.num_beams % self.num_groups:
            raise ValueError(
                f"num_groups must divide num_beams, got {self.num_groups} and {self.num_beams}"
            )
        if self.do_sample and self.num_groups > 1:
            raise ValueError(f"num_groups must be 1 with do_sample, got {self.num_groups}")

    @property
    def draws(self) -> bool:
        """Whether candidates are drawn (beam sampling)."""
        return self.do_sample and (self.sampling is None or self.sampling.temperature > 0)

    def replace(self, **changes: Any) -> BeamParams:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return only the fields that differ from the defaults, as JSON-ready values."""
        out = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                out[f.name] = value.to_dict() if isinstance(value, SamplingParams) else value
        return out

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> BeamParams:
        """Rebuild from ``to_dict``. An unknown name raises ValueError."""
        fields = dict(known_fields(cls, d))
        if fields.get("sampling") is not None:
            fields["sampling"] = SamplingParams.from_dict(fields["sampling"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token after one beam, in one step's race.

    ``parent`` is the node that it extends and ``beam`` that node's row among the step's beams.
    ``logprob`` is what the token added to ``sum``: its log-probability after the processors, less
    the diversity penalty. ``model_logprob`` is the model's own. ``rank`` is its 1-based place in
    its group's race by sum (ties by row, then id). ``why`` is a key of WHYS, ``limit`` the number
    that decided. ``score`` is the length-penalised score of one that ends here, else None.
    ``greedy`` marks the greedy path; ``u`` is the dice that drew it (beam sampling only).
    """

    node: int
    parent: int
    beam: int
    token_id: int
    logprob: float
    model_logprob: float
    sum: float
    rank: int
    fate: str
    why: str
    limit: float | None = None
    score: float | None = None
    group: int = 0
    greedy: bool = False
    u: float | None = None


@dataclass(frozen=True, slots=True)
class BeamStep:
    """One step: expand, rank, keep, finish.

    ``index`` counts steps from 0 (candidates are index + 1 tokens long). ``beams`` are the nodes
    that were expanded, by row. ``candidates`` are the recorded ones, group by group, best first:
    everything kept or finished, the best of the rest, and greedy's. ``cuts`` has for each group
    the lowest sum that goes on (None: none did). ``raced`` counts the candidates with a
    probability above 0. ``dropped`` are finished nodes that better ones pushed out.
    ``best_possible`` and ``worst_finished`` are the scores that decide on going on; None until K
    hypotheses are finished (with groups, those of the last group that compared them). ``stop`` is
    empty or one of STOPS.
    """

    index: int
    beams: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    cuts: tuple[float | None, ...]
    raced: int
    dropped: tuple[int, ...] = ()
    best_possible: float | None = None
    worst_finished: float | None = None
    stop: str = ""

    @property
    def kept(self) -> tuple[Candidate, ...]:
        """The candidates that go on, in the order of the next step's rows."""
        return tuple(c for c in self.candidates if c.fate == KEPT)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence with its score: ``logprob / length**length_penalty``.

    ``ids`` are the generated ones, prompt excluded and an ending EOS included. ``logprob`` is the
    sum of ``logprobs``, one per id, as they raced; ``model_logprob`` is the model's own sum, the
    same where no processor and no diversity penalty acts. ``finished`` says whether it ended in
    EOS; ``stop`` is "eos", "length", "context full", "exhausted" (no token could follow), or "" for
    one still running. ``node`` is its
    last node in the tree, -1 when it has none.
    """

    ids: tuple[int, ...]
    logprob: float
    score: float
    finished: bool
    stop: str
    logprobs: tuple[float, ...]
    model_logprob: float
    node: int = -1
    group: int = 0

    @property
    def length(self) -> int:
        """The number of generated ids."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class BeamState:
    """A search between two steps: ids and numbers only.

    ``beams`` are the running hypotheses of the open groups, by row each scored as if it ended now.
    ``finished`` has each group's finished ones, best first. ``greedy`` is the greedy path's node,
    -1 once it ended or was pruned. ``limit`` is the most tokens to generate and ``limit_why`` what
    sets it ("length" or "context full"). ``stop`` is empty while the search goes on.
    """

    prompt_ids: tuple[int, ...]
    beams: tuple[Hypothesis, ...]
    finished: tuple[tuple[Hypothesis, ...], ...]
    limit: int
    limit_why: str
    index: int = 0
    next_node: int = ROOT + 1
    greedy: int = ROOT
    stop: str = ""


@dataclass(frozen=True, slots=True)
class BeamResult:
    """A search: ``hypotheses`` best first, and every step's record.

    Fewer than ``num_return`` come back when the model had fewer sequences to offer. ``notes`` are
    keys of things that the reader should know: "prompt ends in eos" (the search goes on after it,
    as transformers does).
    """

    prompt_ids: tuple[int, ...]
    params: BeamParams
    hypotheses: tuple[Hypothesis, ...]
    steps: tuple[BeamStep, ...]
    stop: str
    notes: tuple[str, ...] = ()

    def find(self, node: int) -> Candidate:
        """Return the candidate with this node number; ValueError when there is none."""
        for step in self.steps:
            for c in step.candidates:
                if c.node == node:
                    return c
        raise ValueError(f"node must be one of the recorded candidates, got {node}")

    def path(self, node: int) -> tuple[Candidate, ...]:
        """Return the candidates from the prompt to this node; ValueError when there is none."""
        out = []
        while node != ROOT:
            out.append(self.find(node))
            node = out[-1].parent
        return tuple(reversed(out))


@dataclass(frozen=True, slots=True)
class ModeSearch:
    """What a best-first search found: the most probable sequence, or the best within the budget.

    ``proven`` says that no other sequence is more probable; else ``upper_bound`` (a log-prob) is
    what the mode can't exceed. ``forwards`` counts the prefixes that the model was asked for.
    """

    hypothesis: Hypothesis
    proven: bool
    upper_bound: float
    forwards: int


FORMS = ("power", "gnmt")


def length_score(logprob: float, length: int, length_penalty: float, form: str = "power") -> float:
    """Return the length-penalised score of a sum over ``length`` generated tokens.

    "power" is transformers' sum / length**a; "gnmt" is sum / ((5 + length) / 6)**a (Wu et al.
    2016, equation 14). An empty sequence scores its sum.
    """
    choice("form", form, FORMS)
    if length == 0:
        return logprob
    base = float(length) if form == "power" else (5 + length) / 6
    return logprob / base**length_penalty
