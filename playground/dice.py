"""Dice: one uniform number per (seed, position, stream), and drawing by inverse CDF.

The dice of a position never depend on what was drawn before, so the same dice can be re-read under
other settings ("with these settings you'd have drawn ...").

Steps of a draw:
1. Order the tokens by probability, highest first; equal ones by id, lowest first.
2. Sum the probabilities in that order (float64).
3. Take the first token whose cumulative sum exceeds u.
"""

from __future__ import annotations

import hashlib

import numpy as np

from playground.ranking import descending

STREAMS = ("sample", "draft", "accept", "next", "xtc")
_HEAD = 256  # most draws fall among the first few hundred tokens: the full sort is often spared


def uniform(seed: int, position: int, stream: str = "sample") -> float:
    """Return u in [0, 1) with 53 random bits: a hash of seed, absolute position and stream.

    Equal on every machine and Python version (BLAKE2b). Speculation needs a stream of its own for
    each purpose: one u for both draft and acceptance biases the output.
    """
    if stream not in STREAMS:
        raise ValueError(f"stream must be one of {', '.join(STREAMS)}, got {stream!r}")
    key = f"{int(seed)}/{int(position)}/{stream}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def draw(logprobs: np.ndarray, u: float | np.ndarray) -> int | np.ndarray:
    """Return the first token whose cumulative sum exceeds u (one id, or ids shaped like u).

    ``logprobs`` float [V], normalised, -inf = masked; a masked token is never drawn, not even
    where rounding leaves the total below u. Raises ValueError when no token survives or u is
    outside [0, 1).
    """
    us = np.asarray(u, np.float64)
    if us.size and not ((us >= 0).all() and (us < 1).all()):
        raise ValueError(f"u must be in [0, 1), got {u!r}")
    logprobs = np.asarray(logprobs, np.float64)
    alive = np.flatnonzero(logprobs > -np.inf)
    if not len(alive) or np.isnan(logprobs).any():
        raise ValueError("no token survives: every token has probability 0")
    values = logprobs[alive]
    for count in (_HEAD, len(values)):
        order = descending(values, count)
        cdf = np.cumsum(np.exp(values[order]))
        where = np.searchsorted(cdf, us, side="right")
        if count >= len(values) or (where < len(order)).all():
            break
    # A probability that underflows to 0 adds nothing to the sum, so it can't be first past u; but
    # the cap below must not land on one.
    last = max(int(np.count_nonzero(np.exp(values) > 0)) - 1, 0)
    chosen = alive[order[np.minimum(where, min(last, len(order) - 1))]]
    return int(chosen) if us.ndim == 0 else chosen
