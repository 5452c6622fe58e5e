"""The losslessness lab: does a rule emit the target's law? Exactly, and by N seeded runs.

Flows in: the target's and the draft's law at one position [V], a rule, N and a seed. Flows out: a
LosslessnessReport.

Steps
1. The exact emitted law and its total variation distance to the target (``acceptance``).
2. N one-token rounds at once, with three independent streams of dice (draft, accept, next); the
   "exact_match_redraw" rule really redraws, "shared_dice" really reuses its u.
3. Their counts against the target: chi-square over bins with at least 5 expected runs (rarer tokens
   pooled), its p-value, and the distance of the frequencies after growing numbers of runs.

A lossless rule's distance shrinks like 1 / sqrt(N) and its p-value is uniform on [0, 1]; a biased
rule's distance settles at its damage and its p-value goes to 0.
"""

from __future__ import annotations

import math

import numpy as np

from playground.dice import draw
from playground.engines.acceptance import emitted_distribution, rule_parts, total_variation
from playground.records.checks import integer
from playground.records.speculative import LosslessnessReport

MIN_EXPECTED = 5.0  # the usual rule of thumb for a chi-square bin
MAX_RUNS = 10_000_000


def simulate(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    rule: str = "exact",
    proposal_probs: np.ndarray | None = None,
    n: int = 10_000,
    seed: int = 0,
) -> np.ndarray:
    """Return the tokens of ``n`` one-token rounds, int [n]; the same seed gives the same ones.

    The first m tokens don't depend on n: a longer run continues a shorter one.
    """
    integer("n", n, 1, MAX_RUNS)
    proposal, accept, recover = rule_parts(target_probs, draft_probs, rule, proposal_probs)
    # One generator per stream, so that a longer run begins with the shorter one's dice.
    dice = [np.random.default_rng([seed, purpose]).random(n) for purpose in range(3)]
    drafted = draw(_log(proposal), dice[0])
    recovered = draw(_log(recover), dice[2])
    if rule == "exact_match_redraw":
        passed = draw(_log(recover), dice[1]) == drafted
    elif rule == "shared_dice":
        ratio = rule_parts(target_probs, draft_probs, "exact", proposal_probs).accept
        passed = dice[0] < ratio[drafted]
    else:
        passed = dice[1] < accept[drafted]
    return np.where(passed, drafted, recovered)


def losslessness(
    target_probs: np.ndarray,
    draft_probs: np.ndarray,
    rule: str = "exact",
    proposal_probs: np.ndarray | None = None,
    n: int = 10_000,
    seed: int = 0,
) -> LosslessnessReport:
    """Put a rule to the test at one position; see the module's steps.

    ``proposal_probs`` is the law that draft tokens are really drawn from (default: the draft's).
    """
    target = np.asarray(target_probs, np.float64)
    emitted = emitted_distribution(target, draft_probs, rule, proposal_probs)
    tokens = simulate(target, draft_probs, rule, proposal_probs, n, seed)
    sizes = growing_sizes(n)
    counts, done, tvs = np.zeros(len(target), np.int64), 0, []
    for size in sizes:
        counts += np.bincount(tokens[done:size], minlength=len(target))
        done = size
        tvs.append(float(0.5 * np.abs(counts / size - target).sum()))
    statistic, dof = chi_square(counts, target)
    return LosslessnessReport(
        rule=rule,
        emitted=emitted,
        damage=float(total_variation(emitted, target)),
        counts=counts,
        chi_square=statistic,
        dof=dof,
        p_value=chi_square_p_value(statistic, dof),
        sizes=sizes,
        tvs=tuple(tvs),
        noise=tuple(sampling_noise(target, size) for size in sizes),
    )


def growing_sizes(n: int) -> tuple[int, ...]:
    """Return 10, 20, 50, 100, ... up to n, n included."""
    steps = (m * 10**e for e in range(1, 8) for m in (1, 2, 5))
    return (*(s for s in steps if s < n), n)


def sampling_noise(target_probs: np.ndarray, n: int) -> float:
    """Return about what distance n draws from the target itself show by chance.

    Half the sum of mean absolute deviations: sqrt(2 p (1-p) / (pi n)) for common tokens, and
    2 p (1-p), the most it can be, for rare ones.
    """
    spread = target_probs * (1 - target_probs)
    return float(0.5 * np.minimum(np.sqrt(2 * spread / (np.pi * n)), 2 * spread).sum())


def chi_square(counts: np.ndarray, target_probs: np.ndarray) -> tuple[float, int]:
    """Return (statistic, degrees of freedom) of counts [V] against the target [V].

    Bins with fewer than 5 expected runs are pooled, the rarest first, until the pool has 5 too. A
    token that came although the target never gives it makes the statistic infinite.
    """
    target = target_probs / target_probs.sum()
    if counts[target == 0].any():
        return math.inf, int(np.count_nonzero(target)) - 1
    order = np.argsort(target, kind="stable")
    expected, seen = target[order] * counts.sum(), counts[order].astype(np.float64)
    pooled = np.cumsum(expected)
    # Pool every bin that is too small, and the next ones while the pool itself is.
    cut = max(
        int(np.searchsorted(expected, MIN_EXPECTED)),
        int(np.searchsorted(pooled, MIN_EXPECTED)) + 1 if expected[0] < MIN_EXPECTED else 0,
    )
    cut = min(cut, len(expected))
    if cut:
        expected = np.concatenate([[expected[:cut].sum()], expected[cut:]])
        seen = np.concatenate([[seen[:cut].sum()], seen[cut:]])
    return float(((seen - expected) ** 2 / expected).sum()), len(expected) - 1


def chi_square_p_value(statistic: float, dof: int) -> float:
    """Return the chance that a chi-square variable with ``dof`` degrees exceeds ``statistic``.

    The regularised upper incomplete gamma function Q(dof/2, statistic/2): its power series below
    the bend, Lentz's continued fraction above (Numerical Recipes, section 6.2). 1 for dof 0.
    """
    if dof == 0:
        return 0.0 if math.isinf(statistic) else 1.0
    if math.isinf(statistic):
        return 0.0
    a, x = dof / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        k = a
        while term > total * 1e-16:
            k += 1
            term *= x / k
            total += term
        return min(1.0, max(0.0, 1 - scale * total))
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    h = d
    for i in range(1, 100_000):
        numerator = -i * (i - a)
        b += 2
        d = 1 / (numerator * d + b or tiny)
        c = b + numerator / c or tiny
        h *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return min(1.0, scale * h)


def _log(probs: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probs)
