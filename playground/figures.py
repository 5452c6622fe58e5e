"""A text in numbers: how probable, how surprising, how repetitive, and what it cost to decode.

A Run flows in; Figures, or a pandas table of several runs, flow out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playground.compare import Run
from playground.repeats import distinct, longest_repeat, loop, rep


@dataclass(frozen=True, slots=True)
class Figures:
    """A text in numbers. Logs are natural; None where there is nothing to count.

    ``logprob`` is the sum over the text, ``mean_logprob`` per token, ``perplexity`` exp of minus
    that; ``mean_prob`` is the mean of the tokens' probabilities and ``entropy`` the mean entropy of
    the model before each. Repetition leaves out an EOS: ``rep_n``, ``distinct_n``, the length of
    the longest repeat, the token (from 0) where a loop locks and its period. ``tax`` is the
    truncation tax at the end.
    """

    tokens: int
    logprob: float
    mean_logprob: float | None
    perplexity: float | None
    mean_prob: float | None
    entropy: float | None
    rep_2: float | None
    rep_4: float | None
    longest: int
    locks: int | None
    period: int | None
    distinct_1: float | None
    distinct_2: float | None
    tax: float | None
    seconds: float | None
    forwards: int | None


def figures(run: Run, eos_ids: Sequence[int] = ()) -> Figures:
    """Return a run's figures."""
    n, logprobs = len(run.steps), run.logprobs
    body = body_of(run.new_ids, eos_ids)
    total = math.fsum(logprobs)
    locked = loop(body)
    return Figures(
        tokens=n,
        logprob=total,
        mean_logprob=total / n if n else None,
        perplexity=math.exp(min(-total / n, 700.0)) if n else None,
        mean_prob=math.fsum(map(math.exp, logprobs)) / n if n else None,
        entropy=math.fsum(step.entropy for step in run.steps) / n if n else None,
        rep_2=rep(body, 2),
        rep_4=rep(body, 4),
        longest=longest_repeat(body)[2],
        locks=None if locked is None else locked[0],
        period=None if locked is None else locked[1],
        distinct_1=distinct(body, 1),
        distinct_2=distinct(body, 2),
        tax=run.taxes[-1] if run.masses else None,
        seconds=run.seconds,
        forwards=run.forwards if run.decoder is not None else None,
    )


def body_of(ids: Sequence[int], eos_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the ids without an EOS at their end."""
    return tuple(ids[:-1] if ids and ids[-1] in eos_ids else ids)


def to_frame(runs: Sequence[Run], names: Sequence[str], eos_ids: Sequence[int] = ()) -> Any:
    """Return the figures as a pandas DataFrame, one row per run, indexed by its name."""
    import pandas as pd

    rows = [dataclasses.asdict(figures(run, eos_ids)) for run in runs]
    columns = [field.name for field in dataclasses.fields(Figures)]
    return pd.DataFrame(rows, columns=columns, index=pd.Index(names, name="decoder"))
