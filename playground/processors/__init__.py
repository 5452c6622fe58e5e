"""Filters: pure functions from scores to scores, chained by data, each stage kept and explained.

``shape`` gives the distribution after every filter, ``removed_by`` the filter that took each token,
``reason`` the inequality that decided, ``apply`` the bare scores for beam search.
"""

from playground.processors.chain import (
    Processor,
    apply,
    chain,
    removed_by,
    shape,
)
from playground.processors.dialects import DEFAULT_ORDER, active_filters
from playground.processors.penalties import Context
from playground.processors.why import Reason, reason, reasons

__all__ = [
    "DEFAULT_ORDER",
    "Context",
    "Processor",
    "Reason",
    "active_filters",
    "apply",
    "chain",
    "reason",
    "reasons",
    "removed_by",
    "shape",
]
