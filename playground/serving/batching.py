"""BatchedLM: one model for many sessions, whose concurrent requests join one forward.

A LanguageModel around a TransformersLM; callers use it as any model, from any thread, and wait for
their own rows only. A worker of its own asks the model:

1. What is cached is answered at once, whatever the worker does.
2. Requests queue in order of arrival. The worker takes the first; if it needs one token read, all
   others like it join (up to ``limits.batch``; equal prefixes are computed once).
3. A long prompt is read in pieces of ``CHUNK`` tokens; between two pieces the queue goes on, so
   that nobody's step waits for another's prompt.
4. What can't join goes one by one, in its turn: several positions at once, whole batches of beams,
   and models that aren't full attention all through (sliding windows, recurrent states).

A request ends early where its session was cancelled (``cancel``), and is refused beyond the
server's limits (``limits``); where the queue is full or the wait too long, ``Busy`` names the place
in the queue. The worker's thread lives as long as there is work, so that a model that nobody holds
is freed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

import numpy as np

from playground.language_model import check_ids
from playground.serving.limits import UNLIMITED, Limits, Pace
from playground.serving.refusals import Busy, Cancelled, Refusal
from playground.serving.requests import Request, fail, frozen
from playground.serving.turns import aside

CHUNK = 128
# How long a forward waits for sessions that took part in the last one, as a share of its time.
PATIENCE = 0.25
IDLE = 2.0  # seconds without work after which the worker's thread ends

Forward = Callable[[dict[str, Any]], None]


class BatchedLM:
    """A model shared by many sessions; thread-safe.

    ``session()`` names the caller's session, "" for none (then no limit per visitor holds).
    ``batches`` counts the joined forwards, ``joined`` the rows in them. ``told`` is called after
    each forward with its figures: kind, rows, seconds, waited (the longest wait), queue.
    """

    def __init__(
        self,
        lm: Any,
        limits: Limits = UNLIMITED,
        session: Callable[[], str] = lambda: "",
        told: Forward = lambda figures: None,
    ) -> None:
        self.unbatched = lm
        self.limits = limits
        self.batches = self.joined = 0
        self.ahead: Any = None  # serving.gpu.Ahead, on a Space that lends GPUs
        self._session = session
        self._told = told
        self._pace = Pace(limits.steps_per_minute)
        self._queue: OrderedDict[Any, Request] = OrderedDict()
        self._asking: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._working = False
        self._together = bool(getattr(lm, "steps_together", False))
        self._last: tuple[int, float] = (0, 0.0)  # rows and seconds of the last batch

    def __getattr__(self, name: str) -> Any:
        # Beside ``logits`` all is the model's own: tokenizer, vocabulary, fingerprint, counts.
        if name == "unbatched":
            raise AttributeError(name)
        return getattr(self.unbatched, name)

    @property
    def __class__(self) -> type:
        # So that what is made from a model's layers (early exits) sees a model with layers.
        return type(self.unbatched)

    # The protocol

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V] (read-only); see ``LanguageModel.logits``."""
        session = self._session()
        self.limits.check_length(len(ids))
        ids = tuple(int(i) for i in ids)
        found = self.unbatched.known(ids, last)
        if found is not None:
            return found
        return self._ask(session, ("one", ids, last), (ids,), last)

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V] (read-only) by one forward of its own, in its turn."""
        session = self._session()
        self.limits.check_length(max(map(len, prefixes), default=0))
        rows = tuple(check_ids(self.unbatched, p, last) for p in prefixes)
        found = [self.unbatched.known(row, last) if row else None for row in rows]
        if found and all(row is not None for row in found):
            return frozen(np.stack(found))
        return self._ask(session, ("many", rows, last), rows, last)

    def learn(self, ids: Sequence[int], logits: np.ndarray) -> None:
        """Keep logits [V] that were computed elsewhere (on a lent GPU) as those after ``ids``."""
        self.unbatched.learn(ids, logits)

    def fresh(self, **options: Any) -> BatchedLM:
        """Return the model with empty caches and counts, behind a queue of its own."""
        lm = self.unbatched.fresh(**options)
        return BatchedLM(lm, self.limits, self._session, self._told)

    def encode(self, text: str = "", **options: Any) -> list[int]:
        """Return the text's ids; longer ones than a prompt may have are refused."""
        ids = self.unbatched.encode(text, **options)
        self.limits.check_prompt(len(ids))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the ids."""
        return self.unbatched.decode(ids)

    def label(self, token_id: int) -> str:
        """Return a visible label of one token."""
        return self.unbatched.label(token_id)

    # The queue

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._queue)

    def place(self, session: str) -> int:
        """Return the place in the queue of a session's first request, from 1; 0 for none."""
        with self._changed:
            owners = [request.futures.values() for request in self._queue.values()]
        return next((i for i, names in enumerate(owners, 1) if session in names), 0)

    def cancel(self, session: str) -> int:
        """Drop what a session waits for; return how many requests that were.

        A forward under way ends; a prompt read in pieces ends after the present one.
        """
        with self._changed:
            found = [
                future
                for request in self._queue.values()
                for future, owner in request.futures.items()
                if owner == session
            ]
            count = sum(future.cancel() for future in found)
            self._forget()
        return count

    def _forget(self) -> None:
        """Drop the requests that nobody waits for any more."""
        for key, request in list(self._queue.items()):
            if all(future.cancelled() for future in request.futures):
                del self._queue[key]

    def _ask(
        self, session: str, key: Any, rows: tuple[tuple[int, ...], ...], last: int
    ) -> np.ndarray:
        if session:
            self._pace.take(session, len(rows))
        future: Future = Future()
        with self._changed:
            limit = self.limits.runs
            if session and limit and self._asking[session] >= limit:
                raise Refusal("limits.runs", limit=limit)
            request = self._queue.get(key)
            if request is None:
                if self.limits.waiting and len(self._queue) >= self.limits.waiting:
                    raise Busy(place=len(self._queue) + 1)
                request = self._queue[key] = Request(key, rows, last)
            request.futures[future] = session
            self._asking[session] += 1
            if not self._working:
                self._working = True
                threading.Thread(target=self._work, name="batching", daemon=True).start()
            self._changed.notify_all()
        try:
            with aside():
                return self._answer(key, future)
        finally:
            with self._changed:
                self._asking[session] -= 1
                if not self._asking[session]:
                    del self._asking[session]

    def _answer(self, key: Any, future: Future) -> np.ndarray:
        try:
            return future.result(self.limits.wait_seconds or None)
        except CancelledError:
            raise Cancelled() from None
        except TimeoutError:
            if not future.cancel():  # it came in this very moment, or it is its own error
                return future.result()
            with self._changed:
                keys = list(self._queue)
                self._forget()
            raise Busy(place=keys.index(key) + 1 if key in keys else 1) from None

    # The worker

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._changed.wait(IDLE)
                if not self._queue:
                    self._working = False
                    return
            try:
                self._turn()
            except Exception as error:  # a bug of ours must not leave the class waiting for ever
                with self._changed:
                    waiting, self._queue = list(self._queue.values()), OrderedDict()
                fail(waiting, error)

    def _turn(self) -> None:
        """Serve the first request, and those that can join it."""
        first = self._next()
        if first is None:
            return
        if not self._joins(first):
            self._alone(first)
            return
        self._wait_for_more()
        with self._changed:
            others = [r for r in self._queue.values() if r is not first]
        batch = [first]
        for request in others:
            if len(batch) == self.limits.batch:
                break
            if self._joins(request):
                batch.append(request)
        self._together_now(batch)

    def _next(self) -> Request | None:
        """Return the first request that someone waits for."""
        with self._changed:
            self._forget()
            return next(iter(self._queue.values()), None)

    def _joins(self, request: Request) -> bool:
        """Say whether a request needs one token read, and may share the forward for it."""
        if not self._together or request.last != 1 or request.key[0] != "one":
            return False
        with self._changed:
            if all(future.cancelled() for future in request.futures):
                return False
        (ids,) = request.rows
        return self.unbatched.may_step(len(ids)) and self.unbatched.unread(ids) == 1

    def _wait_for_more(self) -> None:
        """Give those who took part in the last forward a moment to come back."""
        rows, seconds = self._last
        until = time.perf_counter() + PATIENCE * seconds
        with self._changed:
            while len(self._queue) < min(rows, self.limits.batch):
                left = until - time.perf_counter()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _together_now(self, batch: list[Request]) -> None:
        began = time.perf_counter()
        try:
            block = self.unbatched.step_many([request.rows[0] for request in batch])
        except Exception as error:
            self._finish(batch, [error] * len(batch))
            return
        self.batches += 1
        self.joined += len(batch)
        self._last = len(batch), time.perf_counter() - began
        self._tell("steps", batch, began)
        self._finish(batch, [frozen(row[None].copy()) for row in block])

    def _alone(self, request: Request) -> None:
        began = time.perf_counter()
        try:
            found = self._one(request)
        except Exception as error:
            found = error
        self._tell(request.key[0], [request], began)
        if found is None:  # a piece of a long prompt is read: the others' turn
            with self._changed:
                if self._queue.get(request.key) is request:
                    self._queue.move_to_end(request.key)
            return
        self._finish([request], [found])

    def _one(self, request: Request) -> np.ndarray | None:
        """Return what was asked, or None after a piece of a long prompt."""
        lm, last = self.unbatched, request.last
        if request.key[0] == "many":
            return lm.logits_many(request.rows, last)
        (ids,) = request.rows
        unread = lm.unread(ids, last)
        size = max(CHUNK, last)
        # A cut prompt goes on only where its keys and values are found again (recurrent states and
        # full windows can't be cut, and a cache may be too small).
        found_again = request.unread is None or unread < request.unread
        if unread > size and self._together and found_again:
            request.unread = unread
            lm.logits(ids[: len(ids) - unread + size])
            return None
        return lm.logits(ids, last)

    def _tell(self, kind: str, batch: list[Request], began: float) -> None:
        figures = {
            "kind": kind,
            "rows": sum(len(request.rows) for request in batch),
            "seconds": round(time.perf_counter() - began, 4),
            "waited": round(began - min(request.arrived for request in batch), 4),
            "queue": len(self._queue) - len(batch),
        }
        self._told(figures)

    def _finish(self, batch: list[Request], found: Sequence[Any]) -> None:
        with self._changed:
            for request in batch:
                if self._queue.get(request.key) is request:
                    del self._queue[request.key]
        for request, result in zip(batch, found, strict=True):
            if isinstance(result, Exception):
                fail([request], result)
                continue
            for future in request.futures:
                if future.set_running_or_notify_cancel():
                    future.set_result(result)
