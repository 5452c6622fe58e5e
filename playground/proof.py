"""Prove it: a short script of transformers and torch alone that computes a run anew.

A run's record and its models flow in; Python source flows out. The script loads the pinned model,
computes every decision again from the run's choices, and prints MATCH, or the first difference and
exit status 1. Its parts are the files of assets/proof; only data is written into them.

What computes anew: greedy and beams by ``generate()`` itself, with every default pinned; sampling
by transformers' own filters and the run's dice; contrastive and speculative decoding, for which
transformers has no call with these dice, by the rule written out.
"""

from __future__ import annotations

import hashlib
from typing import Any

from playground.engines.prompt_lookup import PromptLookup
from playground.language_model import LanguageModel
from playground.processors import active_filters
from playground.proof_filters import Code, filter_code
from playground.proof_model import Pin, pin
from playground.proof_script import Source, config, write
from playground.records import (
    BeamParams,
    BeamResult,
    ContrastiveParams,
    SamplingParams,
    SpeculativeResult,
    Trace,
)

CHECKED = ("sampled", "greedy")


def transformers_script(
    run: Trace | BeamResult | SpeculativeResult,
    lm: LanguageModel,
    helper: Any = None,
    contrastive: ContrastiveParams | None = None,
) -> str:
    """Return the script that computes a run anew.

    ``helper`` is the draft of a SpeculativeResult, or, with ``contrastive``, the amateur of a
    Trace. Raises ValueError, with the reason, where a model can't be pinned or there is nothing to
    prove yet.
    """
    place = pin(lm)
    if isinstance(run, BeamResult):
        return _beam(run, lm, place)
    if isinstance(run, SpeculativeResult):
        return _speculative(run, lm, place, helper)
    if not run.steps:
        raise ValueError("there is nothing to prove yet: the run has no token")
    if contrastive is not None:
        return _contrastive(run, lm, place, helper, contrastive)
    return _trace(run, lm, place)


def _trace(trace: Trace, lm: LanguageModel, place: Pin) -> str:
    settings, code = _settings(trace)
    data = {"PROMPT": list(trace.prompt_ids), "STEPS": _steps(trace)}
    middle = any(token in lm.eos_ids for token in trace.new_ids[:-1])
    plain = all(active_filters(p) == ("temperature",) for p in {s.params for s in trace.steps})
    if all(s.source == "greedy" for s in trace.steps) and plain and not middle:
        pinned = config(lm, max_new_tokens=len(trace.steps), output_logits=True)
        return write(place, "Greedy decoding", data, ["greedy"], settings=pinned)
    data["SETTINGS"] = settings
    return write(place, "Sampling, step by step", data, ["dice", "sampling"], code)


def _beam(result: BeamResult, lm: LanguageModel, place: Pin) -> str:
    params = result.params
    if not result.stop:
        raise ValueError("the search has not ended: run it to its end, then prove it")
    data: dict[str, Any] = {"PROMPT": list(result.prompt_ids)}
    sampling = params.sampling
    if sampling is not None and sampling.temperature == 0:
        sampling = sampling.replace(temperature=1.0)
    code = filter_code(sampling or SamplingParams(), len(result.prompt_ids))
    if params.draws or params.num_groups > 1 or params.num_beams == 1 or code.helpers:
        data["HYPOTHESES"] = [[list(h.ids), h.model_logprob] for h in result.hypotheses if h.ids]
        return write(place, "Beam search: its log-probabilities", data, ["scores"])
    data["HYPOTHESES"] = [[list(h.ids), h.score] for h in result.hypotheses]
    limit = params.max_new_tokens
    if lm.context_length is not None:
        limit = min(limit, lm.context_length - len(result.prompt_ids))
    pinned = config(
        lm,
        max_new_tokens=limit,
        stop_at_eos=params.stop_at_eos,
        output_scores=True,
        **beam_options(params),
        num_return_sequences=len(result.hypotheses),
    )
    data["FILTERS"] = Source(f"[{', '.join(code.expressions)}]")
    imports = Code((), (*code.imports, "LogitsProcessorList"), ())
    return write(place, "Beam search", data, ["beam"], imports, settings=pinned)


def beam_options(params: BeamParams) -> dict[str, Any]:
    """Return a search's own arguments of ``generate()``."""
    return dict(
        num_beams=params.num_beams,
        length_penalty=float(params.length_penalty),
        early_stopping=params.early_stopping,
    )


def _contrastive(
    trace: Trace, lm: LanguageModel, place: Pin, amateur: Any, params: ContrastiveParams
) -> str:
    settings, code = _settings(trace)
    source, pins = _second("amateur", lm, amateur)
    data = {
        "PROMPT": list(trace.prompt_ids),
        "STEPS": _steps(trace),
        "SETTINGS": settings,
        "PLAUSIBILITY": float(params.plausibility),
        "GAIN": float(params.gain),
        "SLOPE": float(params.slope),
        "SEES": 0 if params.amateur_sees == "all" else max(len(trace.prompt_ids) - 1, 0),
        "SHARED": min(lm.vocab_size, amateur.vocab_size),
    }
    parts = ["dice", source, "contrastive"]
    return write(place, "Contrastive decoding", data, parts, code, second=pins)


def _speculative(run: SpeculativeResult, lm: LanguageModel, place: Pin, draft: Any) -> str:
    if not run.rounds:
        raise ValueError("there is nothing to prove yet: the run has no round")
    params = run.sampling_params
    code = filter_code(params, len(run.prompt_ids))
    if isinstance(draft, PromptLookup):
        source, pins = _LOOKUP.format(most=draft.max_ngram, least=draft.min_ngram), None
    else:
        source, pins = _second("second", lm, draft)
        source += _DRAFT
    rounds = [
        [list(r.draft_ids), r.n_accepted, r.next_id, [s.model_logprob for s in r.steps]]
        for r in run.rounds
    ]
    data = {
        "PROMPT": list(run.prompt_ids),
        "ROUNDS": rounds,
        "SEED": params.seed,
        "GREEDY": params.temperature == 0,
        "FILTERS": Source(f"[{', '.join(code.expressions)}]"),
    }
    parts = ["dice", source, "speculative"]
    return write(place, "Speculative decoding", data, parts, code, second=pins)


def _second(name: str, lm: LanguageModel, helper: Any) -> tuple[str, Pin | None]:
    """Return the source of a function ids -> logits [V] of a second model, and its own pin."""
    if helper is None:
        raise ValueError("the second model must be given, got none")
    if getattr(helper, "inner", None) is not None:
        return _SHORT.format(name=name, count=helper.context), None
    mark = helper.fingerprint.rpartition("@")[2].rpartition("/")[0]
    _, exits, layer = mark.rpartition("+exit")
    if exits:
        return _EXIT.format(name=name, layer=int(layer)), None
    if "+student" in mark:
        path = helper.student_file
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        layers = helper.model.config.num_hidden_layers
        return _STUDENT.format(name=name, path=str(path), digest=digest, layers=layers), None
    return _OTHER.format(name=name), pin(helper)


_STUDENT = '''
import copy
import functools

from safetensors.torch import load_file


@functools.cache
def student():
    """The model's embeddings and head around the {layers} layers of its distilled student."""
    path = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else {path!r})
    if not path.is_file():
        sys.exit(f"No student in {{path}}: name its file, python {{sys.argv[0]}} FOLDER FILE")
    if hashlib.sha256(path.read_bytes()).hexdigest() != "{digest}":
        sys.exit(f"The student in {{path}} isn't that of the run.")
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = {layers}
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:{layers}]
    small = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, DTYPE))
    stored = {{f"model.{{key}}": value for key, value in load_file(path).items()}}
    unknown = small.load_state_dict(stored, strict=False).unexpected_keys
    assert not unknown, unknown
    small.model.embed_tokens = model.model.embed_tokens
    small.lm_head = model.lm_head
    return small.to(DEVICE).eval()


def {name}(ids):
    """The distilled student."""
    return rows(student(), ids)[0]
'''
_SHORT = '''
def {name}(ids):
    """The model itself, shown the last {count} tokens."""
    return rows(model, ids[-{count}:])[0]
'''
_EXIT = '''
@torch.inference_mode()
def {name}(ids):
    """The model's own first {layer} layers, then its norm and its head."""
    ids = torch.tensor([ids], device=DEVICE)
    hidden = model(ids, output_hidden_states=True, use_cache=False).hidden_states[{layer}]
    body = model.model if hasattr(model, "model") else model.transformer
    if {layer} < model.config.num_hidden_layers:
        hidden = (body.norm if hasattr(body, "norm") else body.ln_f)(hidden)
    return model.lm_head(hidden[0, -1])[:VOCAB].to("cpu", torch.float32).double()
'''
_OTHER = """
def {name}(ids):
    return rows(other, ids)[0]
"""
_DRAFT = """

def draft(path, left, start):
    logits = second(path)[:VOCAB]
    return law(torch.nn.functional.pad(logits, (0, VOCAB - len(logits)), value=-math.inf), path)
"""
_LOOKUP = '''
def look_up(ids):
    """Where the first copy of the last tokens ends, the longest copy first."""
    for n in range(min({most}, len(ids) - 1), {least} - 1, -1):
        for end in range(n, len(ids)):
            if ids[end - n : end] == ids[len(ids) - n :]:
                return end
    return None


def draft(path, left, start):
    end = look_up(path[:start])
    token = path[end + (len(path) - start) % (start - end)]
    return torch.zeros(VOCAB, dtype=torch.float64).index_fill(0, torch.tensor(token), 1.0)
'''


def _steps(trace: Trace) -> list[list[Any]]:
    """Return the steps as rows of plain values; minus infinity is None."""
    params = distinct_params(trace)
    return [
        [
            s.token_id,
            s.source,
            s.logprob if s.logprob > -float("inf") else None,
            s.model_logprob if s.model_logprob > -float("inf") else None,
            s.kept or None,
            params.index(s.params),
        ]
        for s in trace.steps
    ]


def distinct_params(trace: Trace) -> list[SamplingParams]:
    """Return the params of a run, each once, in order of use."""
    return list(dict.fromkeys(s.params for s in trace.steps))


def _settings(trace: Trace) -> tuple[list[Any], Code]:
    """Return the settings of the run, each a seed and a list of filters, and their code."""
    settings, codes = [], []
    for params in distinct_params(trace):
        code = filter_code(params, len(trace.prompt_ids))
        codes.append(code)
        settings.append(
            {
                "seed": params.seed,
                "greedy": params.temperature == 0,
                "filters": Source(f"[{', '.join(code.expressions)}]"),
            }
        )
    imports = tuple(dict.fromkeys(name for code in codes for name in code.imports))
    helpers = tuple(dict.fromkeys(name for code in codes for name in code.helpers))
    return settings, Code((), imports, helpers)
