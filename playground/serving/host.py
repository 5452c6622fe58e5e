"""Host: the models that a server hands out, shared by all sessions, and what it tells of itself.

Into ``load`` flow names; out come models behind a queue (``BatchedLM``) under the server's limits.
``health`` is what a load balancer or a container's health check asks; ``Meter`` writes one line of
JSON to the log for every ten seconds with work in them: times and counts, no text, no address.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np
from gradio.context import LocalContext

from playground.language_model import LanguageModel
from playground.models import CATALOGUE
from playground.serving.batching import BatchedLM
from playground.serving.gpu import Ahead, Run
from playground.serving.limits import Limits
from playground.serving.refusals import Cancelled, Refusal
from playground.serving.turns import Turns

log = logging.getLogger("playground.serving")

SECONDS = 10.0  # one line of the log covers that long
LONG = 0.9  # seconds after which a visitor is told that an answer is being made
GONE = 10.0  # for so long a session that has left gets no forward: its runs end
FORGOTTEN = 900.0  # a session that asked nothing for so long doesn't count as here


def session() -> str:
    """Return the name of the session that the present handler works for, "" outside of one."""
    request = LocalContext.request.get(None)
    return str(getattr(request, "session_hash", None) or "")


class Host:
    """Wraps what ``loader(name, progress=...)`` loads, and remembers it while someone holds it.

    ``gpu`` makes the default model's runs on a lent GPU (``serving.gpu.shared_gpu``). When the last
    session has left, the models' caches are dropped: nobody's keys and values are kept for nothing.
    """

    def __init__(
        self,
        loader: Callable[..., LanguageModel],
        limits: Limits,
        gpu: Run | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.gpu = gpu
        self.meter = Meter()
        self.turns = Turns()
        self._loader = loader
        self._models: WeakSet[Any] = WeakSet()
        self._clock = clock
        self._here: dict[str, float] = {}  # session -> when it asked last
        self._working: dict[str, list[float]] = {}  # session -> when its handlers began
        self._gone: dict[str, float] = {}  # session -> when it left
        self._lock = threading.Lock()

    def load(self, name: str, progress: Callable[[Any, str], None]) -> LanguageModel:
        """Load a model and put it behind a queue; only one of the catalogue, if so limited."""
        check_model(name, self.limits)
        lm = self._loader(name, progress=progress)
        if not hasattr(lm, "known"):  # a toy without caches answers for itself
            return lm
        shared = BatchedLM(lm, self.limits, self._session, self.meter.add)
        if self.gpu is not None and name == "default":
            shared.ahead = Ahead(self.gpu, shared.learn, who=session)
        self._models.add(shared)
        return shared

    @property
    def waiting(self) -> int:
        """How many requests wait for a model."""
        return sum(model.waiting for model in list(self._models))

    @contextmanager
    def working(self) -> Iterator[None]:
        """Remember that a handler works for the session that asks."""
        name, began = session(), self._clock()
        with self._lock:
            self._working.setdefault(name, []).append(began)
        try:
            yield
        finally:
            with self._lock:
                self._working[name].remove(began)
                if not self._working[name]:
                    del self._working[name]

    def waits(self, name: str) -> dict[str, Any]:
        """Return what a visitor may know of a long wait: whether one answer is under way for long
        already, the place in a model's queue (from 1, 0 = in none) and how many requests wait.
        """
        with self._lock:
            began = min(self._working.get(name, ()) if name else (), default=math.inf)
        busy = self._clock() - began >= LONG
        place = max((model.place(name) for model in list(self._models)), default=0) if name else 0
        return {"busy": busy, "place": place, "waiting": self.waiting}

    def _session(self) -> str:
        """Return the session that asks. Raises Cancelled where it has just left."""
        name, now = session(), self._clock()
        if name:
            with self._lock:
                if now - self._gone.get(name, -GONE) < GONE:
                    raise Cancelled()
                self._here[name] = now
        return name

    def leave(self, name: str) -> int:
        """End what a session that has gone still runs; return how many requests were waiting."""
        if not name:
            return 0
        now = self._clock()
        with self._lock:
            self._gone = {n: t for n, t in self._gone.items() if now - t < GONE} | {name: now}
            self._here = {n: t for n, t in self._here.items() if n != name and now - t < FORGOTTEN}
            empty = not self._here
        count = sum(model.cancel(name) for model in list(self._models))
        if empty:
            for model in list(self._models):
                model.clear()
        return count

    def health(self, library: Any) -> tuple[dict[str, Any], int]:
        """Return the server's state and the HTTP status that says it: 503 when it can't serve."""
        lm = library.loaded(library.default)
        status = "ok" if lm is not None else "failed" if library.failure else "loading"
        found = {
            "status": status,
            "model": None if lm is None else lm.name,
            "waiting": self.waiting,
            **self.meter.last,
        }
        return found, 503 if status == "failed" else 200


def check_model(name: str, limits: Limits) -> None:
    """Refuse a model that isn't in the catalogue where only those may be loaded."""
    if not limits.any_model and name not in {entry.id for entry in CATALOGUE}:
        raise Refusal("limits.model", name=repr(name[:80]))


class Meter:
    """Gathers the figures of forwards; thread-safe. ``last`` sums up the last ones logged."""

    def __init__(
        self,
        write: Callable[[str], None] = log.info,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.last: dict[str, Any] = {}
        self._write, self._clock = write, clock
        self._lock = threading.Lock()
        self._since = 0.0
        self._figures: list[dict[str, Any]] = []

    def add(self, figures: dict[str, Any]) -> None:
        """Take a forward's figures; now and then, write what they come to."""
        with self._lock:
            if not self._figures:
                self._since = self._clock()
            self._figures.append(figures)
            if self._clock() - self._since < SECONDS and len(self._figures) < 10_000:
                return
            gathered, self._figures = self._figures, []
        self.last = summary(gathered)
        self._write(json.dumps({"event": "forwards", **self.last}))


def summary(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts, and medians and 95th percentiles in seconds."""
    seconds = [one["seconds"] for one in figures]
    waited = [one["waited"] for one in figures]
    return {
        "forwards": len(figures),
        "rows": sum(one["rows"] for one in figures),
        "step_p50": round(float(np.median(seconds)), 4),
        "step_p95": round(float(np.percentile(seconds, 95)), 4),
        "waited_p95": round(float(np.percentile(waited, 95)), 4),
        "queue_max": max(one["queue"] for one in figures),
    }
