"""A request in a model's queue, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np


class Request:
    """One question in the queue: ``rows`` of ids, ``last`` positions each, and who waits for it."""

    __slots__ = ("arrived", "futures", "key", "last", "rows", "unread")

    def __init__(self, key: Any, rows: tuple[tuple[int, ...], ...], last: int) -> None:
        self.key, self.rows, self.last = key, rows, last
        self.futures: dict[Future, str] = {}  # -> its session
        self.arrived = time.perf_counter()
        self.unread: int | None = None  # what was left of a long prompt when its turn came last


def frozen(rows: np.ndarray) -> np.ndarray:
    """Return an array that nobody may write into: several callers share it."""
    rows.flags.writeable = False
    return rows


def fail(requests: Sequence[Request], error: Exception) -> None:
    """Tell everyone who waits for the requests that they failed."""
    for request in requests:
        for future in request.futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
