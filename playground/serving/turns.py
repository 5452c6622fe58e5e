"""Turns: few handlers compute at a time, so that each is quick and the quick ones are at once.

Python runs one thread at a time. Thirty pages drawn at once would all be done at the end of the
thirty; in turns the first is done at once and the last no later, and a slider that settles goes
before them. A handler holds a turn while it computes and puts it ``aside`` while it waits: for the
model (``BatchedLM`` does that), for a load, for its own pace.
"""

from __future__ import annotations

import heapq
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

COUNT = 2  # one draws while the other waits for NumPy or ends
SOON = 0.05  # seconds after which a quick event goes ahead all the same
QUICK, PLAIN = 0, 1


@dataclass
class Holder:
    """Who computes: in whose turns, of which kind, and whether one is held (quick: perhaps not)."""

    turns: Turns
    kind: int
    held: bool


_holding: ContextVar[Holder | None] = ContextVar("holding", default=None)


@contextmanager
def aside() -> Iterator[None]:
    """Let others compute while this handler waits; nothing where no turn is held."""
    mine = _holding.get()
    if mine is None:
        yield
        return
    mine.turns._give(mine)
    try:
        yield
    finally:
        mine.held = mine.turns._take(mine.kind)


def within(
    fn: Callable[..., Any], context: Callable[[], AbstractContextManager[Any]]
) -> Callable[..., Any]:
    """Return a handler that computes inside a context; a stream enters it for each answer."""
    if inspect.isgeneratorfunction(fn):

        @wraps(fn)
        def stream(*args: Any, **options: Any) -> Iterator[Any]:
            answers = fn(*args, **options)
            try:
                while True:
                    with context():
                        try:
                            found = next(answers)
                        except StopIteration:
                            return
                    yield found
            finally:
                answers.close()

        return stream

    @wraps(fn)
    def once(*args: Any, **options: Any) -> Any:
        with context():
            return fn(*args, **options)

    return once


class Turns:
    """At most ``count`` holders at a time; those waiting go by kind (quick first), then by age."""

    def __init__(self, count: int = COUNT) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, int, threading.Event]] = []
        self._order = itertools.count()

    @contextmanager
    def hold(self, kind: int = PLAIN) -> Iterator[None]:
        """Compute in turn; a quick holder waits ``SOON`` at most. Nested holds count once."""
        if _holding.get() is not None:
            yield
            return
        mine = Holder(self, kind, self._take(kind))
        token = _holding.set(mine)
        try:
            yield
        finally:
            _holding.reset(token)
            self._give(mine)

    def wrap(self, fn: Callable[..., Any], kind: int = PLAIN) -> Callable[..., Any]:
        """Return a handler that computes in turn; a stream takes one for each of its answers."""
        return within(fn, lambda: self.hold(kind))

    def _take(self, kind: int) -> bool:
        """Wait for a turn; return whether one is held (a quick one may go without)."""
        with self._lock:
            if self._free > 0 and not self._waiting:
                self._free -= 1
                return True
            ready = threading.Event()
            heapq.heappush(self._waiting, (kind, next(self._order), ready))
        if ready.wait(SOON if kind == QUICK else None):
            return True
        with self._lock:
            if ready.is_set():  # it came in this very moment
                return True
            self._waiting = [one for one in self._waiting if one[2] is not ready]
            heapq.heapify(self._waiting)
        return False

    def _give(self, mine: Holder) -> None:
        if not mine.held:
            return
        mine.held = False
        with self._lock:
            if self._waiting:
                heapq.heappop(self._waiting)[2].set()
            else:
                self._free += 1
