"""Params and records of sampling: what one step was asked, and what it did.

All are frozen, hashable where their fields are, picklable, and free of tensors and text: a
``Trace`` can be a file, a permalink and a session at once.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from playground.records.checks import brief, choice, integer, number

Dialect = Literal["transformers", "vllm", "llama.cpp"]
DIALECTS: tuple[str, ...] = ("transformers", "vllm", "llama.cpp")
TRACE_VERSION = 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Settings of one sampling step. Each filter is off at its neutral value (the default).

    ``temperature`` 0 is greedy (lowest id wins a tie). ``order`` names the filters in the order
    in which they run; None takes the dialect's own order. ``penalize_prompt`` says whether the
    penalties count the prompt's tokens too, as transformers' repetition penalty does.
    ``top_n_sigma`` and ``xtc_probability`` are off at 0. Raises ValueError naming the parameter,
    the allowed range and the value that came.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    repetition_penalty: float = 1.0
    penalize_prompt: bool = True
    seed: int = 0
    dialect: Dialect = "transformers"
    order: tuple[str, ...] | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    banned_tokens: tuple[int, ...] = ()
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1

    def __post_init__(self) -> None:
        number("temperature", self.temperature, 0, 1e4)
        integer("top_k", self.top_k, 0)
        number("top_p", self.top_p, 0, 1)
        number("min_p", self.min_p, 0, 1)
        number("typical_p", self.typical_p, 0, 1)
        number("epsilon_cutoff", self.epsilon_cutoff, 0, 1, open_high=True)
        number("eta_cutoff", self.eta_cutoff, 0, 1, open_high=True)
        number("repetition_penalty", self.repetition_penalty, 0, 1e4, open_low=True)
        integer("seed", self.seed, 0, 2**64 - 1)
        choice("dialect", self.dialect, DIALECTS)
        number("presence_penalty", self.presence_penalty, -100, 100)
        number("frequency_penalty", self.frequency_penalty, -100, 100)
        integer("no_repeat_ngram_size", self.no_repeat_ngram_size, 0)
        number("top_n_sigma", self.top_n_sigma, 0, 1e4)
        number("xtc_probability", self.xtc_probability, 0, 1)
        number("xtc_threshold", self.xtc_threshold, 0, 1)
        if not isinstance(self.penalize_prompt, bool):
            raise ValueError(f"penalize_prompt must be true or false, got {self.penalize_prompt!r}")
        # Lists (from JSON) become tuples, so that params stay hashable.
        try:
            banned = np.array([int(i) for i in self.banned_tokens], np.int64)
        except (TypeError, ValueError, OverflowError):
            got = f"got {self.banned_tokens!r}"
            raise ValueError(f"banned_tokens must be token ids, {got}") from None
        object.__setattr__(self, "banned_tokens", tuple(banned.tolist()))
        if self.order is not None:
            names = self.order if isinstance(self.order, list | tuple) else [None]
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"order must name filters, got {self.order!r}")
            object.__setattr__(self, "order", tuple(names))

    def replace(self, **changes: Any) -> SamplingParams:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return only the fields that differ from the defaults, as JSON-ready values."""
        out = {}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if value != f.default:
                out[f.name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> SamplingParams:
        """Rebuild from ``to_dict``. An unknown name raises ValueError."""
        return cls(**known_fields(cls, d))


def _text(d: dict[str, Any], name: str) -> str:
    if not isinstance(d[name], str):
        raise TypeError(f"{name}, which is no text")
    return d[name]


def known_fields(cls: type, d: dict[str, Any]) -> dict[str, Any]:
    """Return ``d`` if it is a dict whose keys are all fields of ``cls``; else raise ValueError."""
    if not isinstance(d, dict):
        raise ValueError(f"{cls.__name__} must be an object, got {type(d).__name__}")
    names = {f.name for f in dataclasses.fields(cls)}
    unknown = sorted(set(d) - names)
    if unknown:
        raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}")
    return d


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """The distribution after one filter: ``logprobs`` float64 [V], normalised, -inf = masked."""

    name: str
    logprobs: np.ndarray


@dataclass(frozen=True, slots=True)
class Step:
    """One decided token.

    ``u`` is the dice (None when greedy or forced), ``logprob`` the token's log-probability after
    all filters (-inf if forced although masked), ``model_logprob`` the model's own, ``rank`` its
    1-based rank in the model's distribution (ties by id), ``kept`` the number of tokens that
    survived, ``entropy`` the model's entropy. All logs are natural (nats).
    """

    token_id: int
    u: float | None
    logprob: float
    model_logprob: float
    rank: int
    source: str  # "sampled", "greedy", "forced"; the other engines add "accepted", "bonus", ...
    params: SamplingParams
    kept: int = 0
    entropy: float = 0.0


@dataclass(frozen=True, slots=True)
class Trace:
    """A run: the prompt's ids and the steps after it.

    ``stop`` says why it ended: "eos", "length", "context full", "stopped" or "" (goes on).
    ``model`` is the model's fingerprint (name, hash, dtype), "" when unknown.
    """

    prompt_ids: tuple[int, ...]
    steps: tuple[Step, ...] = ()
    stop: str = ""
    model: str = ""
    version: int = field(default=TRACE_VERSION)

    @property
    def new_ids(self) -> tuple[int, ...]:
        """The chosen ids (an EOS that ended the run included)."""
        return tuple(s.token_id for s in self.steps)

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and chosen ids."""
        return self.prompt_ids + self.new_ids

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values; params that repeat are stored once."""
        params: list[SamplingParams] = []
        steps = []
        for s in self.steps:
            if s.params not in params:
                params.append(s.params)
            row = {
                f.name: getattr(s, f.name)
                for f in dataclasses.fields(s)
                if f.name not in ("params", "logprob")
            }
            # JSON has no -inf: a forced token that the filters masked has no final log-prob.
            row["logprob"] = s.logprob if np.isfinite(s.logprob) else None
            row["params"] = params.index(s.params)
            steps.append(row)
        return {
            "version": self.version,
            "model": self.model,
            "prompt_ids": list(self.prompt_ids),
            "params": [p.to_dict() for p in params],
            "steps": steps,
            "stop": self.stop,
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Trace:
        """Rebuild from ``to_dict``; another version or a damaged record raises ValueError."""
        if not isinstance(d, dict) or "version" not in d:
            raise ValueError("trace must be an object with a version")
        if d["version"] != TRACE_VERSION:
            raise ValueError(f"trace version must be {TRACE_VERSION}, got {brief(d['version'])}")
        try:
            params = [SamplingParams.from_dict(p) for p in d["params"]]
            steps = []
            for row in d["steps"]:
                if not isinstance(row, dict):
                    raise TypeError("a step, which is no object")
                row = dict(row)
                which = row.pop("params")
                integer("params", which, 0, len(params) - 1)
                if row["logprob"] is None:
                    row["logprob"] = -np.inf
                integer("token_id", row["token_id"], 0)
                steps.append(Step(params=params[which], **row))
            prompt_ids = tuple(integer("prompt_ids", i, 0) for i in d["prompt_ids"])
            return cls(prompt_ids, tuple(steps), _text(d, "stop"), _text(d, "model"))
        except (KeyError, TypeError, IndexError, AttributeError) as e:
            raise ValueError(f"trace is damaged: {type(e).__name__} at {str(e)[:80]}") from e

    def to_frame(self) -> Any:
        """Return one row per step as a pandas DataFrame (index: absolute position)."""
        import pandas as pd

        names = [f.name for f in dataclasses.fields(Step) if f.name != "params"]
        rows = [{n: getattr(s, n) for n in names} for s in self.steps]
        index = range(len(self.prompt_ids), len(self.ids))
        return pd.DataFrame(rows, columns=names, index=pd.RangeIndex(index.start, index.stop))
