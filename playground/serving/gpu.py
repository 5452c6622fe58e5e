"""The GPU of a shared Space (ZeroGPU): a run of several steps in one call, then back to the CPU.

Such a Space lends a GPU for seconds at a time: each call runs in a forked process, its arguments
and its result are pickled, and what it changes is lost. So the function that asks for the GPU takes
and returns plain Python and NumPy, keeps nothing between calls, says how few seconds it needs, and
makes many steps at once. What it returns (ids and logits) goes into the model's cache in this
process, where the page finds every step of a run as if the CPU had made it. Where the GPU is
refused (a quota that is used up, say), the visitor reads why and the CPU goes on.

Elsewhere ``spaces`` need not be installed, and nothing here does anything.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from playground.engines.sampling import context_full, step
from playground.language_model import LanguageModel
from playground.records import SamplingParams

try:
    import spaces
except ImportError:
    spaces = None

log = logging.getLogger("playground")

SECONDS = 15  # what a call is declared to need at most
AHEAD = 16  # steps of one call
PAUSE = 120.0  # seconds without asking again after a refusal

# run(ids, settings, prompt_length, count) -> {"ids": [n], "logits": float32 [n, V]}
Run = Callable[[list[int], dict[str, Any], int, int], dict[str, Any]]


def on_shared_gpu() -> bool:
    """Say whether this is a Space that lends GPUs."""
    return spaces is not None and bool(os.environ.get("SPACES_ZERO_GPU"))


def shared_gpu(lm: LanguageModel) -> Run:
    """Return the function that makes a run's next steps on a lent GPU.

    ``lm`` was loaded with device "cuda" in this process, which the Space moves over by itself.
    """

    def run(
        ids: list[int], settings: dict[str, Any], prompt_length: int, count: int
    ) -> dict[str, Any]:
        return steps_ahead(lm, ids, settings, prompt_length, count)

    return run if spaces is None else spaces.GPU(duration=SECONDS)(run)


def steps_ahead(
    lm: LanguageModel, ids: list[int], settings: dict[str, Any], prompt_length: int, count: int
) -> dict[str, Any]:
    """Return up to ``count`` next ids and the logits before each. Plain values in and out."""
    params = SamplingParams.from_dict(settings)
    path, rows = list(ids), []
    while len(rows) < count and not context_full(lm, path):
        rows.append(np.array(lm.logits(path)[-1]))
        path.append(step(lm, path, params, prompt_length).token_id)
        if path[-1] in lm.eos_ids:
            break
    logits = np.stack(rows) if rows else np.empty((0, lm.vocab_size), np.float32)
    return {"ids": [int(i) for i in path[len(ids) :]], "logits": logits}


class Ahead:
    """Fills a model's cache with the steps of a run before they are asked for.

    ``learn(ids, logits)`` puts logits into the cache of the model that the page uses. ``who()``
    names the visitor: quotas are each visitor's own, and so is the pause after a refusal.
    """

    def __init__(
        self,
        run: Run,
        learn: Callable[[list[int], np.ndarray], None],
        clock: Callable[[], float] = time.monotonic,
        who: Callable[[], str] = lambda: "",
    ) -> None:
        self._run, self._learn, self._clock, self._who = run, learn, clock, who
        self._until: dict[str, float] = {}

    def __call__(
        self, ids: list[int], params: SamplingParams, prompt_length: int, count: int = AHEAD
    ) -> str:
        """Make steps on the GPU; return "" or, once in a while, why it can't be had."""
        now, who = self._clock(), self._who()
        if now < self._until.get(who, 0.0):
            return ""
        try:
            found = self._run([int(i) for i in ids], params.to_dict(), prompt_length, count)
        except Exception as error:  # a quota, a queue, a lost worker: the CPU can do it too
            self._until = {w: t for w, t in self._until.items() if now < t} | {who: now + PAUSE}
            log.warning("shared GPU refused: %s", type(error).__name__)
            return str(getattr(error, "message", "") or error).split("\n")[0][:200]
        path = list(ids)
        for token, row in zip(found["ids"], found["logits"], strict=True):
            self._learn(path, row)
            path = [*path, token]
        return ""
