"""Decoders side by side: one prompt, one seed, each decoder's text one step at a time.

Ids, a LanguageModel and Decoders flow in; Runs flow out. A Run is a value: ``advance`` returns the
next one, so a page can stop, go on and show any of them.

One step of a decoder is one token of sampling or contrastive decoding, one round of speculation, or
one step of beam search, whose text is its best hypothesis so far and may change under way.

Terms: *kept mass*, what the model itself gives to the tokens that a decoder's filters leave, at one
position (greedy leaves one token). *truncation tax*, the product of the kept masses so far: the
chance that plain sampling would have kept to what the filters allow, all along this text.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from playground.engines import beam, contrastive, speculative
from playground.engines.drafting import Draft
from playground.engines.sampling import context_full, decide, fingerprint
from playground.language_model import LanguageModel
from playground.processors import shape
from playground.records import (
    BeamParams,
    BeamResult,
    BeamState,
    ContrastiveParams,
    Round,
    SamplingParams,
    SpeculativeParams,
    SpeculativeResult,
    Stage,
    Step,
    Trace,
)
from playground.records.checks import choice, integer
from playground.records.sampling import known_fields
from playground.session import replay

KINDS = ("sampling", "beam", "contrastive", "speculative")
HELPERS = ("", "short-context", "early-exit", "distilled", "lookup")
GIVEN = "given"  # the source of a text's tokens that no decoder chose
PLAIN = SamplingParams()


@dataclass(frozen=True, slots=True)
class Decoder:
    """One way to decode: its kind and the params that this kind reads.

    "sampling" with temperature 0 is greedy. A beam search reads ``beam`` alone (its length is the
    run's). "contrastive" and "speculative" have a ``helper``, the amateur or draft, with a number:
    tokens that a short context sees, or layers of an early exit (0: the usual ones).
    """

    kind: str = "sampling"
    sampling: SamplingParams = PLAIN
    beam: BeamParams = BeamParams()
    contrastive: ContrastiveParams = ContrastiveParams()
    speculative: SpeculativeParams = SpeculativeParams()
    helper: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        choice("kind", self.kind, KINDS)
        choice("helper", self.helper, HELPERS)
        integer("size", self.size, 0)
        if self.kind in ("contrastive", "speculative") and not self.helper:
            raise ValueError(f"helper must be named for the kind {self.kind}, got ''")

    def seeded(self, seed: int) -> Decoder:
        """Return the same decoder with another seed."""
        sampling = self.sampling.replace(seed=seed)
        searched = self.beam
        if searched.sampling is not None or searched.do_sample:
            shaped = searched.sampling or SamplingParams()
            searched = searched.replace(sampling=shaped.replace(seed=seed))
        return replace(self, sampling=sampling, beam=searched)

    def to_dict(self) -> dict[str, Any]:
        """Return only what differs from the defaults, as JSON-ready values."""
        out: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                out[field.name] = value.to_dict() if hasattr(value, "to_dict") else value
        return out

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Decoder:
        """Rebuild from ``to_dict``. An unknown name raises ValueError."""
        fields = dict(known_fields(cls, d))
        for name, record in _RECORDS.items():
            if name in fields:
                fields[name] = record.from_dict(fields[name])
        return cls(**fields)


_RECORDS: dict[str, Any] = {
    "sampling": SamplingParams,
    "beam": BeamParams,
    "contrastive": ContrastiveParams,
    "speculative": SpeculativeParams,
}


@dataclass(frozen=True, slots=True)
class Run:
    """A decoder's text so far, or (``decoder`` None) a text that was given.

    ``steps`` are its tokens; ``model_logprob`` and ``entropy`` are the model's own. ``masses`` has
    the kept mass at each (empty where nothing is cut: beams, given texts). ``stop`` is "eos",
    "length", "context full", or "" where it goes on. ``seconds`` and ``forwards`` are what decoding
    cost; forwards are None where the model keeps no count. ``told`` are tokens that a sampling or
    contrastive decoder takes instead of choosing: a recorded text's, which rounded scores might
    choose otherwise.
    """

    decoder: Decoder | None
    prompt_ids: tuple[int, ...]
    limit: int
    steps: tuple[Step, ...] = ()
    masses: tuple[float, ...] = ()
    stop: str = ""
    seconds: float = 0.0
    forwards: int | None = 0
    rounds: tuple[Round, ...] = ()
    beams: BeamState | None = None
    told: tuple[int, ...] = ()

    @property
    def next_told(self) -> int | None:
        """The next token, where it is told."""
        return self.told[len(self.steps)] if len(self.steps) < len(self.told) else None

    @property
    def new_ids(self) -> tuple[int, ...]:
        """The text's ids, prompt excluded (an EOS that ended it included)."""
        return tuple(step.token_id for step in self.steps)

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and text."""
        return self.prompt_ids + self.new_ids

    @property
    def logprobs(self) -> tuple[float, ...]:
        """The model's own log-probability of each token, in nats."""
        return tuple(step.model_logprob for step in self.steps)

    @property
    def taxes(self) -> tuple[float, ...]:
        """The truncation tax after each token."""
        return tuple(float(x) for x in np.cumprod(self.masses))


def start(decoder: Decoder, prompt_ids: Sequence[int], limit: int) -> Run:
    """Return a run before its first step; ``limit`` is how many tokens it may have."""
    integer("limit", limit, 1)
    if not prompt_ids:
        raise ValueError("prompt_ids must have at least one token, got none")
    return Run(decoder, tuple(int(i) for i in prompt_ids), limit)


def advance(lm: LanguageModel, run: Run, helper: Draft | None = None) -> Run:
    """Return the run one step further; one that has ended comes back as it is.

    ``lm`` has caches of its own if ``seconds`` and ``forwards`` are to mean anything: else what
    another decoder asked before costs nothing. Raises what the engines raise.
    """
    if run.stop or run.decoder is None:
        return run
    if run.beams is None and context_full(lm, run.ids):
        return replace(run, stop="context full")
    before, began = _forwards(lm, helper), time.perf_counter()
    if helper is None and run.decoder.kind in ("contrastive", "speculative"):
        raise ValueError(f"helper must be the {run.decoder.kind} decoder's second model, got none")
    after = _ADVANCE[run.decoder.kind](lm, run, helper)
    seconds = run.seconds + time.perf_counter() - began
    asked = _forwards(lm, helper)
    count = None if asked is None or run.forwards is None else run.forwards + asked - before
    after = replace(after, seconds=seconds, forwards=count)
    return _FINISH.get(run.decoder.kind, _as_it_is)(lm, after)


def finish(lm: LanguageModel, run: Run, helper: Draft | None = None) -> Run:
    """Return the run at its end."""
    while not run.stop and run.decoder is not None:
        run = advance(lm, run, helper)
    return run


def given(lm: LanguageModel, prompt_ids: Sequence[int], ids: Sequence[int]) -> Run:
    """Return a given text as a run, scored token by token after the prompt.

    Raises ContextFull where prompt and text are longer than the model's context.
    """
    steps = replay(lm, tuple(prompt_ids), [(int(i), PLAIN, GIVEN) for i in ids])
    return Run(None, tuple(prompt_ids), len(steps), steps, stop="length")


def record_of(lm: LanguageModel, run: Run) -> Trace | BeamResult | SpeculativeResult:
    """Return a run as its own engine's record, to be saved or proved."""
    decoder = run.decoder
    if decoder is None:
        raise ValueError("a given text has no decoder")
    if decoder.kind == "beam":
        state = run.beams if run.beams is not None else _begun(lm, run)
        return beam.result_of(lm, state, (), decoder.beam.replace(max_new_tokens=run.limit))
    if decoder.kind == "speculative":
        settings = (decoder.speculative, decoder.sampling)
        return SpeculativeResult(run.prompt_ids, run.rounds, *settings, run.stop, fingerprint(lm))
    return Trace(run.prompt_ids, run.steps, run.stop, fingerprint(lm))


def _begun(lm: LanguageModel, run: Run) -> BeamState:
    params = run.decoder.beam.replace(max_new_tokens=run.limit)
    return beam.start(lm, run.prompt_ids, params)


def _sampled(lm: LanguageModel, run: Run, helper: Draft | None) -> Run:
    ids, params = run.ids, run.decoder.sampling
    stages = shape(lm.logits(ids)[-1], params, ids, len(run.prompt_ids))
    step = decide(stages, params, len(ids), run.next_told)
    return _longer(lm, run, step, kept_mass(stages))


def _contrasted(lm: LanguageModel, run: Run, helper: Draft | None) -> Run:
    ids, sampling = run.ids, run.decoder.sampling
    params, begin, told = run.decoder.contrastive, len(run.prompt_ids), run.next_told
    one = contrastive.step(lm, helper, ids, params, sampling, begin, told)
    alive = shape(one.scores, sampling, ids, len(run.prompt_ids))[-1].logprobs > -np.inf
    return _longer(lm, run, one.step, float(np.exp(one.expert_logprobs[alive]).sum()))


def _longer(lm: LanguageModel, run: Run, step: Step, mass: float) -> Run:
    """Return the run with one more token."""
    longer = replace(run, steps=(*run.steps, step), masses=(*run.masses, min(mass, 1.0)))
    stop = ""
    if step.token_id in lm.eos_ids:
        stop = "eos"
    elif len(longer.steps) >= run.limit:
        stop = "length"
    elif context_full(lm, longer.ids):
        stop = "context full"
    return replace(longer, stop=stop)


def _speculated(lm: LanguageModel, run: Run, helper: Draft | None) -> Run:
    params = run.decoder.speculative
    if not run.rounds:
        speculative.check_draft(lm, helper, params)
    one = speculative.step(
        lm,
        helper,
        run.ids,
        params,
        run.decoder.sampling,
        prompt_length=len(run.prompt_ids),
        gamma=params.next_gamma(run.rounds[-1]) if run.rounds else params.gamma,
        max_new_tokens=run.limit - len(run.steps),
        keep_probs=False,
    )
    return replace(run, steps=(*run.steps, *one.steps), rounds=(*run.rounds, one), stop=one.stop)


def _weigh(lm: LanguageModel, run: Run) -> Run:
    """Add the masses of a round's tokens; the model's logits there are cached."""
    masses = list(run.masses)
    for i in range(len(masses), len(run.steps)):
        prefix = run.ids[: len(run.prompt_ids) + i]
        stages = shape(lm.logits(prefix)[-1], run.decoder.sampling, prefix, len(run.prompt_ids))
        masses.append(min(kept_mass(stages), 1.0))
    return replace(run, masses=tuple(masses))


def _searched(lm: LanguageModel, run: Run, helper: Draft | None) -> Run:
    params = run.decoder.beam.replace(max_new_tokens=run.limit)
    state = _begun(lm, run) if run.beams is None else run.beams
    if not state.stop:
        state, _ = beam.step(lm, state, params)
    return replace(run, beams=state)


def _score_best(lm: LanguageModel, run: Run) -> Run:
    """Make the best hypothesis the text; only the tokens that are new there are scored."""
    params = run.decoder.beam.replace(max_new_tokens=run.limit)
    best = beam.result_of(lm, run.beams, (), params).hypotheses[0]
    same = 0
    for old, new in zip(run.new_ids, best.ids, strict=False):
        if old != new:
            break
        same += 1
    choices = [(i, PLAIN, "beam") for i in best.ids[same:]]
    fresh = replay(lm, run.prompt_ids + best.ids[:same], choices)
    stop = (best.stop or "length") if run.beams.stop else ""
    return replace(run, steps=(*run.steps[:same], *fresh), stop=stop)


def _as_it_is(lm: LanguageModel, run: Run) -> Run:
    return run


_ADVANCE = {
    "sampling": _sampled,
    "contrastive": _contrasted,
    "speculative": _speculated,
    "beam": _searched,
}
# What only the figures need is no cost of decoding.
_FINISH = {"speculative": _weigh, "beam": _score_best}


def kept_mass(stages: Sequence[Stage]) -> float:
    """Return what the model itself gives to the tokens that survive all stages."""
    alive = stages[-1].logprobs > -np.inf
    return 1.0 if alive.all() else float(np.exp(stages[0].logprobs[alive]).sum())


def _forwards(lm: LanguageModel, helper: Draft | None) -> int | None:
    """Return how many forwards both models have made, None where one keeps no count."""
    counts = [getattr(lm, "forwards", None)]
    other = getattr(helper, "inner", helper)  # a short context is the model itself
    if hasattr(other, "logits") and other is not lm:
        counts.append(getattr(other, "forwards", None))
    return None if None in counts else sum(counts)
