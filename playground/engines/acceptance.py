"""The accept-reject rule of speculative decoding as arithmetic on laws, with its known bugs.

Flows in: the target's and the draft's distribution at one position, [V] (or [..., V]), float64.
Flows out: chances of acceptance, the residual, the exact law of the emitted token, expected yields.

The rule at one position (Leviathan et al. 2022, Chen et al. 2023)
1. Draw x from the draft.
2. Accept it when u < min(1, target(x) / draft(x)).
3. Else draw from the residual: max(0, target - draft), normalised.
Then the emitted token has the target's law: min(target, draft) comes by 2 and the rest by 3.

Every one-token rule here, sound or not, is a triple (``rule_parts``): the law ``proposal`` that x
is drawn from, the chance ``accept`` [V] that x passes, and the law ``recover`` that is drawn from
when it doesn't. Its emitted law is proposal * accept + (1 - sum(proposal * accept)) * recover.

The bug zoo (all seen in real code)
exact_match_redraw  accept x only when a fresh draw from the target is x too; else emit yet another
                    fresh draw (emitting the one that didn't match would be sound)
resample_target     after a rejection, draw from the target instead of the residual
unfiltered_draft    x comes from the filtered draft, the ratio and residual use the raw one
greedy_draft        x is the draft's most probable token, the ratio uses its probability
shared_dice         one u both draws x and tests it
accept_le           u <= ratio: at u = 0 a token of target probability 0 passes (once in 2**53)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from playground.ranking import descending
from playground.records.checks import choice, integer, number

BUG_ZOO = (
    "exact_match_redraw",
    "resample_target",
    "unfiltered_draft",
    "greedy_draft",
    "shared_dice",
    "accept_le",
)
RULES = ("exact", *BUG_ZOO)
TOLERANCE = 1e-4  # how far from 1 a distribution may sum (float32 softmax: about 1e-5)


def acceptance(target_probs: np.ndarray, draft_probs: np.ndarray) -> np.ndarray:
    """Return min(1, target/draft) per token, float64 [..., V].

    A token of target probability 0 gets 0, whatever the draft says; one that only the target has
    gets 1. Raises ValueError when shapes differ or a law is none.
    """
    return _acceptance(*_laws(target_probs, draft_probs))


def overlap(target_probs: np.ndarray, draft_probs: np.ndarray) -> float | np.ndarray:
    """Return the sum of min(target, draft): the chance of acceptance, 1 - total variation."""
    p, q = _laws(target_probs, draft_probs)
    total = np.minimum(p, q).sum(-1)
    return float(total) if total.ndim == 0 else total


def residual(target_probs: np.ndarray, draft_probs: np.ndarray) -> np.ndarray:
    """Return max(0, target - draft), normalised, float64 [..., V].

    Where the two are equal nothing is ever rejected; the target itself is returned then.
    """
    return _residual(*_laws(target_probs, draft_probs))


def total_variation(a: np.ndarray, b: np.ndarray) -> float | np.ndarray:
    """Return half the sum of absolute differences of two laws [..., V]."""
    a, b = _laws(a, b)
    total = 0.5 * np.abs(a - b).sum(-1)
    return float(total) if total.ndim == 0 else total


class RuleParts(NamedTuple):
    """A one-token rule: draw from ``proposal``, pass with ``accept``, else draw ``recover``."""

    proposal: np.ndarray
    accept: np.ndarray
    recover: np.ndarray


def rule_parts(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    rule: str = "exact",
    proposal_probs: np.ndarray | None = None,
) -> RuleParts:
    """Return a rule's (proposal, accept, recover), each float64 [V].

    ``proposal_probs`` is the law that the draft token is really drawn from; it defaults to
    ``draft_probs``, the law in the ratio. "unfiltered_draft" needs it (there ``draft_probs`` is
    the raw draft); "greedy_draft" takes its most probable token.
    """
    choice("rule", rule, RULES)
    p, q = _laws(target_probs, draft_probs)
    if p.ndim != 1:
        raise ValueError(f"target_probs must have shape [V], got {list(p.shape)}")
    if rule == "unfiltered_draft" and proposal_probs is None:
        raise ValueError(
            "rule 'unfiltered_draft' needs proposal_probs, the filtered draft; got None"
        )
    d = q if proposal_probs is None else _laws(p, proposal_probs)[1]
    accept, recover = _acceptance(p, q), _residual(p, q)
    if rule == "exact_match_redraw":
        accept, recover = p, p
    elif rule == "resample_target":
        recover = p
    elif rule == "greedy_draft":
        d = one_hot(int(d.argmax()), len(d))
    elif rule == "shared_dice":
        accept = _shared_dice(d, accept)
    elif rule == "accept_le":
        accept = np.minimum(accept + 2.0**-53, 1.0)
    return RuleParts(d, accept, recover)


def emitted_distribution(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    rule: str = "exact",
    proposal_probs: np.ndarray | None = None,
) -> np.ndarray:
    """Return the exact law of the emitted token under a rule, float64 [V].

    With "exact" it is the target, unless ``proposal_probs`` differs from ``draft_probs``: then
    it shows the damage. Other rules: see ``BUG_ZOO`` and ``rule_parts``.
    """
    proposal, accept, recover = rule_parts(target_probs, draft_probs, rule, proposal_probs)
    passed = proposal * accept
    return passed + max(0.0, 1.0 - passed.sum()) * recover


def damages(
    target_probs: np.ndarray, draft_probs: np.ndarray, raw_draft_probs: np.ndarray | None = None
) -> dict[str, float]:
    """Return each rule's total variation distance to the target at one position.

    ``draft_probs`` is the law that tokens are drawn from, ``raw_draft_probs`` the same before its
    filters (None: there are none, and "unfiltered_draft" does no harm).
    """
    raw = draft_probs if raw_draft_probs is None else raw_draft_probs
    out = {}
    for rule in RULES:
        ratio = raw if rule == "unfiltered_draft" else draft_probs
        emitted = emitted_distribution(target_probs, ratio, rule, draft_probs)
        out[rule] = float(total_variation(emitted, target_probs))
    return out


def expected_tokens(rate: float, gamma: int) -> float:
    """Return the tokens per round if each draft passes with chance ``rate``, independently.

    (1 - rate**(gamma+1)) / (1 - rate): the accepted run and the token after it.
    """
    number("rate", rate, 0, 1)
    integer("gamma", gamma, 0)
    return float(sum(rate**k for k in range(gamma + 1)))


def exact_yield(accept_probs: Sequence[float]) -> float:
    """Return the expected tokens of one round given its path's own chances of acceptance.

    1 + a1 + a1*a2 + ... : the token after the run, and each draft that is reached and passes.
    """
    return 1.0 + float(np.cumprod(np.asarray(accept_probs, np.float64)).sum())


def speedup(rate: float, gamma: int, cost_ratio: float, verify_ratio: float = 1.0) -> float:
    """Return the predicted speed against the target alone (1 = equal).

    ``cost_ratio`` is a draft forward's time over a target step's; ``verify_ratio`` that of the
    target's forward over a whole block (1 where a block costs as little as a token, as on a GPU
    bound by memory; more on a CPU). gamma 0 is the target alone: 1.
    """
    number("cost_ratio", cost_ratio, 0, 1e6)
    number("verify_ratio", verify_ratio, 0, 1e6, open_low=True)
    if gamma == 0:
        return 1.0
    return expected_tokens(rate, gamma) / (gamma * cost_ratio + verify_ratio)


def best_gamma(rate: float, cost_ratio: float, limit: int = 32) -> int:
    """Return the block length in [0, limit] with the highest predicted speed; 0: don't speculate.

    Takes a block to cost the target one step. The shortest of equals wins.
    """
    integer("limit", limit, 0)
    return max(range(limit + 1), key=lambda g: (speedup(rate, g, cost_ratio), -g))


def one_hot(token_id: int, size: int) -> np.ndarray:
    """Return the law [size] that always gives ``token_id``."""
    law = np.zeros(size)
    law[token_id] = 1.0
    return law


def _acceptance(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    out = (p > 0).astype(np.float64)  # where the draft has 0: 1, unless the target has 0 too
    np.divide(p, q, out=out, where=q > p)
    return out


def _residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    rest = np.maximum(p - q, 0.0)
    total = rest.sum(-1, keepdims=True)
    return np.where(total > 0, rest / np.where(total > 0, total, 1.0), p)


def _shared_dice(proposal: np.ndarray, accept: np.ndarray) -> np.ndarray:
    """Return the chance that x passes when the u that drew it is compared with accept[x]."""
    order = descending(proposal)
    upper = np.cumsum(proposal[order])
    lower = upper - proposal[order]
    width = np.maximum(proposal[order], np.finfo(float).tiny)
    out = np.zeros_like(accept)
    out[order] = np.clip(np.minimum(accept[order], upper) - lower, 0.0, None) / width
    return np.minimum(out, 1.0)


def _laws(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape or a.ndim == 0:
        raise ValueError(
            f"both distributions must have one shape [..., V], got {list(a.shape)} "
            f"and {list(b.shape)}"
        )
    for law in (a, b):
        if not (law >= 0).all() or not np.allclose(law.sum(-1), 1.0, rtol=0, atol=TOLERANCE):
            raise ValueError("a distribution must be non-negative and sum to 1 (within 1e-4)")
    return a, b
