"""When do the same dice draw another token? Exact settings of T, k, p and min-p.

In: logits [V], params, the dice u, the ids so far; out: per setting the nearest values below and
above the current one at which the drawn token changes, and to which.

Steps of ``flips``:
1. Run the filters that look at the context (penalties, bans) once, and sort what survives, highest
   first, equal scores by id. Each of temperature, top-k, top-p and min-p then leaves a *beginning*
   of that list, so a distribution is a length and a temperature, and the drawn token is a place.
2. That place never rises when the temperature, k or p goes down or min-p goes up: fewer, or
   steeper, tokens push the cumulative sums up. So between the current value and the end of the
   range there is one border to find first at most, and halving finds it.
3. Other filters (typical, epsilon, eta, top-n-sigma, XTC) break that order. With one of them on, a
   grid of the real ``shape`` and ``draw`` is searched outwards, and the first change is halved; a
   flip and its undoing between two grid points can then be missed.

Terms: *flip*: the setting nearest the current one at which another token is drawn; *prefix filter*:
one that leaves a beginning of the sorted list; *heat*: the temperature so far in the chain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from playground.dice import draw
from playground.processors import active_filters, shape
from playground.processors.dialects import SETTINGS, greedy_at
from playground.ranking import descending
from playground.records import SamplingParams

# The settings whose flips are found, and the range that is searched (top_k: up to all tokens).
RANGES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"temperature": (0.0, 5.0), "top_k": (1, 0), "top_p": (0.0, 1.0), "min_p": (0.0, 1.0)}
)
_PREFIX = frozenset(RANGES)
_CONTEXT = frozenset(
    (
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "no_repeat_ngram",
        "banned_tokens",
    )
)
_GRID = 8  # points on each side where the order can't be relied on,
_COARSE = 12  # and so many halvings, each a whole ``shape``
_FINE = 24


class Flip(NamedTuple):
    """The setting nearest the current one that draws another token, that token, and the side."""

    value: float
    token_id: int
    above: bool  # the value is above the current one (for top_k, "off" counts as all tokens)


def flip_points(
    logits: np.ndarray,
    params: SamplingParams,
    u: float,
    ids: Sequence[int] = (),
    prompt_length: int = 0,
    field: str = "temperature",
    limits: tuple[float, float] | None = None,
) -> tuple[Flip, ...]:
    """Return the flips nearest below and above the current value of ``field``, in that order.

    At most two; fewer where the token stays the same up to the end of ``limits`` (``RANGES`` by
    default). ``value`` lies on the far side of the border, within 1e-6 of the range: set it, and
    that token is drawn.
    """
    given = {field: limits} if limits else None
    return flips(logits, params, u, ids, prompt_length, (field,), given)[field]


def flips(
    logits: np.ndarray,
    params: SamplingParams,
    u: float,
    ids: Sequence[int] = (),
    prompt_length: int = 0,
    fields: Sequence[str] = tuple(RANGES),
    limits: Mapping[str, tuple[float, float]] | None = None,
) -> dict[str, tuple[Flip, ...]]:
    """Return ``flip_points`` of several fields; the sorting is done once."""
    for field in fields:
        if field not in RANGES:
            raise ValueError(f"field must be one of {', '.join(RANGES)}, got {field!r}")
    ladder = cache(partial(_Ladder.of, logits, params, ids, prompt_length, u))

    def real(field: str, value: float) -> int:
        stages = shape(logits, params.replace(**{field: value}), ids, prompt_length)
        return int(draw(stages[-1].logprobs, u))

    found = {}
    for field in fields:
        low, high = (limits or {}).get(field, RANGES[field])
        if field == "top_k":
            high = high or len(logits)
        if params.order is not None and field not in params.order:
            found[field] = ()  # a custom order that leaves this filter out can't switch it on
            continue
        names = _prefix_filters(params, field)
        drawn = partial(real, field)
        if names is not None:
            drawn = partial(ladder().drawn, params, names, field)
        now = getattr(params, field)
        if field == "top_k" and now == 0:
            now = len(logits)  # off: all tokens
        found[field] = _nearest(drawn, now, low, high, field == "top_k", names is not None)
    return found


def _nearest(
    drawn: Callable[[float], int], now: float, low: float, high: float, whole: bool, ordered: bool
) -> tuple[Flip, ...]:
    """Search both ways from the current value for the nearest other token."""
    current = drawn(now)
    out = []
    for above, end in ((False, min(low, now)), (True, max(high, now))):
        if end == now:
            continue
        points = [end] if ordered else np.linspace(now, end, _GRID + 1)[1:].tolist()
        same = now
        for point in points:
            point = round(point) if whole else point
            token = drawn(point)
            if token != current:
                times = _FINE if ordered else _COARSE
                other = Flip(point, token, above)
                out.append(_halve(drawn, whole, same, other, current, times))
                break
            same = point
    return tuple(out)


def _halve(
    drawn: Callable[[float], int], whole: bool, same: float, other: Flip, current: int, times: int
) -> Flip:
    """Close in on the border between ``same`` (draws ``current``) and ``other``."""
    for _ in range(times):
        if whole and abs(other.value - same) <= 1:
            break
        middle = (same + other.value) / 2
        middle = round(middle) if whole else middle
        token = drawn(middle)
        if token == current:
            same = middle
        else:
            other = other._replace(value=middle, token_id=token)
    return other


def _prefix_filters(params: SamplingParams, field: str) -> tuple[str, ...] | None:
    """Return the prefix filters that run with ``field`` on, in order.

    None where others run too, or where one runs before a penalty or a ban.
    """
    names = active_filters(params.replace(**{field: 1 if field == "top_k" else 0.5}))
    context = [name in _CONTEXT for name in names]
    if not set(names) <= _PREFIX | _CONTEXT or context != sorted(context, reverse=True):
        return None
    return names[sum(context) :]


class _Ladder:
    """The surviving scores, highest first: each prefix filter leaves a beginning of them."""

    def __init__(self, token_ids: np.ndarray, scores: np.ndarray, u: float) -> None:
        self.token_ids = token_ids  # [n]
        self.scores = scores - scores[0]  # [n], descending from 0
        self.u = u
        self._at: tuple[float, np.ndarray, np.ndarray] | None = None  # heat, weights, sums

    @classmethod
    def of(
        cls,
        logits: np.ndarray,
        params: SamplingParams,
        ids: Sequence[int],
        prompt_length: int,
        u: float,
    ) -> _Ladder:
        """Build from logits [V], after the filters that look at the context."""
        plain = params.replace(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
        scores = shape(logits, plain, ids, prompt_length)[-1].logprobs
        order = descending(scores)[: np.count_nonzero(scores > -np.inf)]
        return cls(order, scores[order], u)

    def drawn(self, params: SamplingParams, names: Sequence[str], field: str, value: float) -> int:
        """Return the token that u draws with ``field`` at ``value`` (same context filters)."""
        n, heat = len(self.scores), 1.0
        for name in names:
            setting = value if name == field else getattr(params, name)
            if name == "temperature":
                if greedy_at(setting, params.dialect):
                    return int(self.token_ids[0])
                heat *= setting
            elif setting != SETTINGS[name][1]:
                n = self._cut(name, setting, params.dialect, n, heat)
        _, sums = self._weights(heat, n)
        place = int(np.searchsorted(sums, self.u * sums[-1], side="right"))
        return int(self.token_ids[min(place, n - 1)])

    def _cut(self, name: str, setting: float, dialect: str, n: int, heat: float) -> int:
        """Return how many of the first n tokens the filter leaves (its rule: see processors).

        Each rule holds up to one place: halving asks 18 of 262,144 tokens.
        """
        if name == "top_k":
            k = min(setting, n)
            if dialect == "transformers":  # ties with the k-th stay
                edge = self.scores[k - 1]
                k += bisect_left(range(k, n), True, key=lambda i: self.scores[i] < edge)
            return k
        weights, sums = self._weights(heat, n)
        if name == "top_p":
            total = sums[-1]
            found = bisect_left(range(n), True, key=lambda i: sums[i] / total >= setting)
            return min(n, found + 1)
        return max(1, bisect_left(range(n), True, key=lambda i: weights[i] < setting))

    def _weights(self, heat: float, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return exp(score / temperature) [n] and its running sum; the last ones are kept."""
        if self._at is None or self._at[0] != heat or len(self._at[1]) < n:
            with np.errstate(over="ignore"):
                weights = np.exp(self.scores[:n] / heat)
            self._at = heat, weights, np.cumsum(weights)
        return self._at[1][:n], self._at[2][:n]
