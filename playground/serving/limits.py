"""Limits: what one visitor, and all together, may ask of a server. The one place to set them.

Each field is read from the environment variable PLAYGROUND_<FIELD>; 0 means no limit. The defaults
suit a public server on two cores (a Space, or PLAYGROUND_PUBLIC=1); at home pace, concurrent runs
and models are free.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from playground.records.checks import integer
from playground.serving.refusals import Refusal

VISITORS = 4096  # how many visitors' pace is remembered


@dataclass(frozen=True)
class Limits:
    """Numbers in tokens, requests or seconds; 0 lifts a limit.

    ``prompt_tokens``: of one prompt. ``new_tokens``: of one run, and what may follow a prompt.
    ``beams``, ``gamma``: width of a search, tokens drafted at once. ``runs``: requests of one
    visitor at a time. ``steps_per_minute``: model requests of one visitor, cached ones free.
    ``waiting``: requests in the queue. ``wait_seconds``: how long one waits. ``batch``: rows of one
    forward. ``any_model``: 1 lets visitors load any hub id or folder, 0 the catalogue's only.
    """

    prompt_tokens: int = 2048
    new_tokens: int = 512
    beams: int = 16
    gamma: int = 16
    runs: int = 8
    steps_per_minute: int = 1200
    waiting: int = 128
    wait_seconds: int = 60
    batch: int = 32
    any_model: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            integer(field.name, getattr(self, field.name), 0, 10**9)
        integer("batch", self.batch, 1, 1024)
        integer("any_model", self.any_model, 0, 1)

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """Return the limits that the environment sets. Raises ValueError naming the variable."""
        public = environment.get("SPACE_ID") or environment.get("PLAYGROUND_PUBLIC") == "1"
        found = {} if public else {"any_model": 1, "runs": 0, "steps_per_minute": 0}
        for field in fields(cls):
            name = variable(field.name)
            text = environment.get(name, "").strip()
            if not text:
                continue
            if not (text.isascii() and text.isdecimal()):
                raise ValueError(f"{name} must be a whole number, got {text!r}")
            found[field.name] = int(text)
            try:
                cls(**{field.name: found[field.name]})
            except ValueError as error:
                raise ValueError(str(error).replace(field.name, name, 1)) from None
        return cls(**found)

    # Checks: each raises Refusal, in the visitor's words.

    def check_prompt(self, count: int) -> None:
        """Refuse a text of more tokens than a prompt may have."""
        _check("limits.prompt", count, self.prompt_tokens)

    def check_length(self, count: int) -> None:
        """Refuse ids longer than the longest prompt and run together."""
        if self.prompt_tokens and self.new_tokens:
            _check("limits.length", count, self.prompt_tokens + self.new_tokens)

    def check_new_tokens(self, count: int) -> None:
        """Refuse a run that is too long."""
        _check("limits.new_tokens", count, self.new_tokens)

    def check_beams(self, count: int) -> None:
        """Refuse a search that is too wide."""
        _check("limits.beams", count, self.beams)

    def check_gamma(self, count: int) -> None:
        """Refuse a block that is too long."""
        _check("limits.gamma", count, self.gamma)


UNLIMITED = Limits(**{field.name: 0 for field in fields(Limits)} | {"batch": 32, "any_model": 1})


def limits_of(lm: object) -> Limits:
    """Return the limits under which a model is served; a model of one's own has none."""
    return getattr(lm, "limits", UNLIMITED)


def variable(field: str) -> str:
    """Return the environment variable of a limit."""
    return f"PLAYGROUND_{field.upper()}"


class Pace:
    """Steps per minute, visitor by visitor: a bucket that holds a minute's steps and refills."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # steps, when
        self._lock = threading.Lock()

    def take(self, visitor: str, count: int = 1) -> None:
        """Take steps out of a visitor's bucket. Raises Refusal when there are none left."""
        if not self.per_minute:
            return
        rate, now = self.per_minute / 60, self._clock()
        with self._lock:
            left, then = self._left.pop(visitor, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + rate * (now - then))
            enough = left >= 1
            self._left[visitor] = (left - count if enough else left, now)
            while len(self._left) > VISITORS:
                self._left.popitem(last=False)
        if not enough:
            seconds = math.ceil((1 - left) / rate)
            raise Refusal("limits.pace", limit=self.per_minute, seconds=seconds)


def _check(key: str, count: int, limit: int) -> None:
    if limit and count > limit:
        raise Refusal(key, count=count, limit=limit)
