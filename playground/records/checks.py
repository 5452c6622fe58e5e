"""Range checks for params: one wording for every refusal.

Each returns the value, or raises ValueError with the parameter, what is allowed and what came.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

LONGEST = 80  # characters of a refused value


def brief(value: Any) -> str:
    """Return a value as it is told in a refusal: cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        text = "a number of thousands of digits"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def number(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Check that ``value`` is a finite number in the range."""
    left, right = "(" if open_low else "[", ")" if open_high else "]"
    ok = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if ok:
        ok = (low < value if open_low else low <= value) and (
            value < high if open_high else value <= high
        )
    # Last: of a whole number beyond every float, isfinite raises instead of answering.
    ok = ok and math.isfinite(value)
    if not ok:
        raise ValueError(f"{name} must be in {left}{low:g}, {high:g}{right}, got {brief(value)}")
    return value


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Check that ``value`` is a whole number from ``low`` to ``high`` (None: no upper end)."""
    ok = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not ok or value < low or (high is not None and value > high):
        allowed = (
            f"a whole number >= {low}" if high is None else f"a whole number in [{low}, {high}]"
        )
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return value


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Check that ``value`` is one of the allowed words."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {brief(value)}")
    return value
