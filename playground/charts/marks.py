"""Traces with a role: what the charts of one step are made of.

A role is a trace's ``uid`` (by which the browser finds it) and stands in its ``meta``. Only traces
with hover texts answer to the pointer; the others let it through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def bar(
    role: str,
    y: Sequence[str],
    x: Sequence[float | None],
    marker: dict[str, Any],
    width: float = 0.6,
) -> dict[str, Any]:
    """Return horizontal bars; None draws nothing."""
    return dict(
        type="bar",
        uid=role,
        meta={"role": role},
        orientation="h",
        y=list(y),
        x=list(x),
        width=width,
        marker=marker,
        hoverinfo="skip",
    )


def points(role: str, x: Sequence[Any], y: Sequence[Any], mode: str = "markers") -> dict[str, Any]:
    """Return a scatter of markers, lines or text."""
    return dict(
        type="scatter",
        uid=role,
        meta={"role": role},
        mode=mode,
        x=list(x),
        y=list(y),
        hoverinfo="skip",
        cliponaxis=False,
    )
