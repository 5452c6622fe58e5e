"""The one ``generate()`` call of a run, where there is one, and what it can't express.

A run's record flows in; a Call flows out. The call draws by torch's own generator, so where it
samples it has the run's law and not its tokens; ``playground.proof`` proves those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playground.engines.prompt_lookup import PromptLookup
from playground.processors.dialects import is_greedy
from playground.proof import CHECKED, beam_options, distinct_params
from playground.proof_script import Source, literal
from playground.records import (
    BeamResult,
    ContrastiveParams,
    SamplingParams,
    SpeculativeResult,
    Trace,
)


@dataclass(frozen=True)
class Call:
    """The one ``generate()`` call of a run: ``code``, "" where there is none, and ``notes`` of what
    it can't express, as (key of proof.yaml, fields).
    """

    code: str
    notes: tuple[tuple[str, dict[str, Any]], ...]


def generate_call(
    run: Trace | BeamResult | SpeculativeResult,
    helper: Any = None,
    contrastive: ContrastiveParams | None = None,
) -> Call:
    """Return the one ``generate()`` call that comes nearest to a run, and what it can't express.

    ``model``, ``draft`` and ``input_ids`` are the reader's own.
    """
    if contrastive is not None:
        return Call("", (("proof.note_no_contrastive", {}),))
    if isinstance(run, BeamResult):
        return _beam_call(run)
    if isinstance(run, SpeculativeResult):
        params, count = [run.sampling_params], len(run.ids)
    else:
        params, count = distinct_params(run), len(run.steps)
    if not params:
        return Call("", (("proof.note_nothing", {}),))
    options, notes = _sampling_options(params[-1], count)
    if len(params) > 1:
        notes.append(("proof.note_mixed", {"count": len(params)}))
    if isinstance(run, SpeculativeResult):
        options |= _assistant(run, helper)
        notes.append(("proof.note_draft_twice", {}))
    elif any(s.source not in CHECKED for s in run.steps):
        notes.append(("proof.note_forced", {}))
    return Call(_call(options), tuple(notes))


def _beam_call(result: BeamResult) -> Call:
    params, notes = result.params, []
    if params.num_groups > 1:
        return Call("", (("proof.note_groups", {}),))
    options = dict(do_sample=params.draws, **beam_options(params))
    options["num_return_sequences"] = params.num_return or params.num_beams
    if params.sampling is not None:
        own, notes = _sampling_options(params.sampling, 0)
        notes = [note for note in notes if note[0] != "proof.note_draws"]
        options = own | options
        if not params.draws:
            notes.append(("proof.note_beam_filters", {}))
    if params.draws:
        notes.append(("proof.note_draws", {}))
    if not params.stop_at_eos:
        options["eos_token_id"] = None
    options["max_new_tokens"] = params.max_new_tokens
    return Call(_call({"top_k": 0, **options}), tuple(notes))


# Settings that generate() has an argument for; the others are told in a note.
_ARGUMENTS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "repetition_penalty",
    "no_repeat_ngram_size",
)
_FLOATS = ("top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff", "repetition_penalty")
_MISSING = ("presence_penalty", "frequency_penalty", "top_n_sigma", "xtc_probability")


def _sampling_options(
    params: SamplingParams, count: int
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    neutral, notes = SamplingParams(), []
    draws = not is_greedy(params)
    options: dict[str, Any] = {"do_sample": draws}
    if draws:
        options |= {"temperature": float(params.temperature), "top_k": params.top_k}
        notes.append(("proof.note_draws", {}))
    for name in _ARGUMENTS:
        value = getattr(params, name)
        if name not in ("temperature", "top_k") and value != getattr(neutral, name):
            # 0 is a float like any other there, and no typical_p at all.
            options[name] = max(float(value), 1e-12) if name in _FLOATS else value
    if params.banned_tokens:
        options["suppress_tokens"] = list(params.banned_tokens)
    missing = [name for name in _MISSING if getattr(params, name) != getattr(neutral, name)]
    if params.repetition_penalty != 1 and not params.penalize_prompt:
        missing.append("penalize_prompt=False")
    if missing:
        notes.append(("proof.note_missing", {"names": ", ".join(missing)}))
    if params.order is not None or params.dialect != "transformers":
        notes.append(("proof.note_order", {}))
    return options | {"max_new_tokens": count}, notes


def _assistant(run: SpeculativeResult, draft: Any) -> dict[str, Any]:
    gamma = run.params.gamma
    if isinstance(draft, PromptLookup):
        return {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": draft.max_ngram}
    steady = dict(
        num_assistant_tokens=gamma,
        num_assistant_tokens_schedule=Source("'constant'"),
        assistant_confidence_threshold=0.0,
    )
    return {"assistant_model": Source("draft"), **steady}


def _call(options: Mapping[str, Any]) -> str:
    fields = "".join(f"    {key}={literal(value)},\n" for key, value in options.items())
    return f"model.generate(\n    input_ids,\n{fields})\n"
