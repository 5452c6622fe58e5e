"""Filters that look at the distribution: temperature and the truncations.

In and out: scores [V], float64, -inf = masked. Each is a pure function; every truncation keeps at
least one token. Wherever a rule speaks of an order, it is by score, highest first, equal scores by
id, lowest first; thresholds are compared in float64.

Terms: p_i the probability of token i among the survivors, H their entropy in nats, ``exact`` the
rule of llama.cpp and vLLM's kernel where transformers lets ties exceed a count.
"""

from __future__ import annotations

import numpy as np

from playground.processors.scores import (
    MASKED,
    highest,
    keep_where,
    probabilities,
    weights,
)
from playground.ranking import descending, running_mass

# Most cuts fall among the first so many tokens: a sort of the whole vocabulary is often spared.
_HEAD = 1024


def temperature(scores: np.ndarray, value: float) -> np.ndarray:
    """Divide the scores by ``value``; at 0 keep only the highest one (lowest id on a tie)."""
    if value == 0:
        return greedy(scores)
    with np.errstate(over="ignore"):
        out = scores / value
        top = scores.max()
        if np.isfinite(top) and not np.isfinite(out.max()):
            # A temperature near zero overflows; the shift keeps the highest score at 0.
            out = (scores - top) / value
    return out


def greedy(scores: np.ndarray) -> np.ndarray:
    """Keep only the highest score, the lowest id on a tie."""
    out = np.full(scores.shape, MASKED)
    best = int(np.argmax(scores))
    out[best] = scores[best]
    return out


def top_k(scores: np.ndarray, k: int, exact: bool = False) -> np.ndarray:
    """Keep the k highest scores; ties with the k-th all stay, or with ``exact`` the lowest ids."""

    def choose(values: np.ndarray) -> np.ndarray:
        if k >= len(values):
            return np.ones(len(values), bool)
        if exact:
            return highest(values, k)
        return values >= np.partition(values, len(values) - k)[len(values) - k]

    return keep_where(scores, choose)


def top_p(scores: np.ndarray, p: float) -> np.ndarray:
    """Keep token i iff the mass strictly before it is below ``p``; the first always stays.

    So the token that crosses p stays, and where the mass meets p exactly the next one goes
    (Holtzman et al. 2020, arXiv 1904.09751).
    """

    def choose(values: np.ndarray) -> np.ndarray:
        mass = running_mass(probabilities(values), p)
        return highest(values, int(np.searchsorted(mass, p, side="left")) + 1)

    return keep_where(scores, choose)


def min_p(scores: np.ndarray, ratio: float) -> np.ndarray:
    """Remove token i iff p_i < ``ratio`` x the highest p (Nguyen et al. 2024, arXiv 2407.01082)."""
    return keep_where(scores, lambda values: weights(values) >= ratio)


def surprise_gaps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return (p [n], gap [n] = |-ln p_i - H|, H) of the survivors' scores [n]."""
    shifted = values - values.max()
    w = np.exp(shifted)
    total = w.sum()
    p, logprobs = w / total, shifted - np.log(total)
    entropy = float(-(p * logprobs).sum())
    return p, np.abs(-logprobs - entropy), entropy


def typical_p(scores: np.ndarray, mass: float, exact: bool = False) -> np.ndarray:
    """Keep the tokens whose surprise is nearest the entropy, until they hold ``mass``.

    1. Order the tokens by gap |-ln p_i - H|, smallest first, equal ones by id.
    2. Find the first whose cumulative mass is at least ``mass``.
    3. Keep every token whose gap is not above that one's (so ties stay).

    With ``exact`` (llama.cpp) step 2 asks for more than ``mass`` and step 3 keeps no ties.
    Meister et al. 2023 (arXiv 2202.00666); the most likely token may go.
    """

    def choose(values: np.ndarray) -> np.ndarray:
        p, gap, _ = surprise_gaps(values)
        size = len(values)
        for count in (min(_HEAD, size), size):
            # Without ``exact`` a tie stays or goes as one, so a faster, unstable sort will do.
            quick = count == size and not exact
            order = np.argsort(gap) if quick else descending(-gap, count)
            held = np.cumsum(p[order])
            last = int(np.searchsorted(held, mass, side="right" if exact else "left"))
            if last < count:
                break
        if exact:
            keep = np.zeros(size, bool)
            keep[order[: last + 1]] = True
            return keep
        return gap <= gap[order[min(last, size - 1)]]

    return keep_where(scores, choose)


def epsilon_cutoff(scores: np.ndarray, epsilon: float) -> np.ndarray:
    """Remove token i iff p_i < ``epsilon`` and its score is below the highest.

    Hewitt et al. 2022 (arXiv 2210.15191).
    """
    return keep_where(scores, lambda v: (probabilities(v) >= epsilon) | (v == v.max()))


def eta_threshold(entropy: float, epsilon: float) -> float:
    """Return eta = min(epsilon, sqrt(epsilon) x exp(-H))."""
    return min(epsilon, float(np.sqrt(epsilon) * np.exp(-entropy)))


def eta_cutoff(scores: np.ndarray, epsilon: float) -> np.ndarray:
    """Remove token i iff p_i < eta and its score is below the highest (arXiv 2210.15191)."""

    def choose(values: np.ndarray) -> np.ndarray:
        p, _, entropy = surprise_gaps(values)
        return (p >= eta_threshold(entropy, epsilon)) | (values == values.max())

    return keep_where(scores, choose)


def top_n_sigma(scores: np.ndarray, n: float) -> np.ndarray:
    """Remove token i iff its score is below the highest minus ``n`` standard deviations.

    The deviation is the population's, over the survivors. It scales with the temperature, so the
    kept set does not depend on it (Tang et al. 2024, arXiv 2411.07641; llama.cpp).
    """
    return keep_where(scores, lambda values: values >= values.max() - n * values.std())


def xtc(scores: np.ndarray, threshold: float) -> np.ndarray:
    """Remove every token with p_i >= ``threshold`` but the last of them in order.

    "Exclude top choices" (p-e-w, 2024; llama.cpp). Fewer than two such tokens: nothing goes. The
    coin that decides whether it runs at all is the chain's.
    """

    def choose(values: np.ndarray) -> np.ndarray:
        above = probabilities(values) >= threshold
        keep = ~above
        if above.any():
            keep[np.flatnonzero(above & (values == values[above].min()))[-1]] = True
        return keep

    return keep_where(scores, choose)
