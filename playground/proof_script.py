"""How a proof script is put together: pinned generation settings, data as literals, parts as files.

Data, names of parts (files of assets/proof, or source) and a Pin flow in; Python source flows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from playground.language_model import LanguageModel
from playground.proof_filters import Code, helper_source
from playground.proof_model import Pin
from playground.words import ASSETS

TOLERANCES = {"float32": 2e-3}  # of a log-probability; half precision is coarser
COARSE = 0.1

# What generate() takes from elsewhere unless it is told: all of it is told.
NEUTRAL: Mapping[str, Any] = dict(
    do_sample=False,
    num_beams=1,
    num_return_sequences=1,
    early_stopping=False,
    length_penalty=1.0,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    min_p=None,
    top_h=None,
    typical_p=1.0,
    epsilon_cutoff=0.0,
    eta_cutoff=0.0,
    repetition_penalty=1.0,
    encoder_repetition_penalty=1.0,
    no_repeat_ngram_size=0,
    encoder_no_repeat_ngram_size=0,
    bad_words_ids=None,
    min_length=0,
    min_new_tokens=None,
    max_time=None,
    stop_strings=None,
    renormalize_logits=False,
    forced_bos_token_id=None,
    forced_eos_token_id=None,
    remove_invalid_values=False,
    exponential_decay_length_penalty=None,
    suppress_tokens=None,
    begin_suppress_tokens=None,
    sequence_bias=None,
    guidance_scale=None,
    watermarking_config=None,
    use_cache=True,
)


class Source(str):
    """Source to be written as it is."""


def config(
    lm: LanguageModel, max_new_tokens: int, stop_at_eos: bool = True, **options: Any
) -> dict[str, Any]:
    """Return every field of the GenerationConfig."""
    eos = list(lm.eos_ids) if stop_at_eos else []
    ends = dict(eos_token_id=eos or None, pad_token_id=eos[0] if eos else 0)
    length = dict(max_new_tokens=max_new_tokens, return_dict_in_generate=True)
    return {**NEUTRAL, **options, **ends, **length}


def write(
    place: Pin,
    title: str,
    data: Mapping[str, Any],
    parts: Sequence[str],
    code: Code | None = None,
    settings: Mapping[str, Any] | None = None,
    second: Pin | None = None,
) -> str:
    """Put the script together. A part is the name of a file of assets/proof, or source."""
    code = code or Code((), (), ())
    names = ["AutoModelForCausalLM", "AutoTokenizer", *code.imports]
    names += ["GenerationConfig"] if settings is not None else []
    pins = [p for p in (place, second) if p is not None]
    names += ["GgufConfig"] if any("quantization_config" in p.options for p in pins) else []
    listed = "".join(f"    {name},\n" for name in sorted(set(names)))
    lines = [
        f'"""{title}: computes a run of Decoding Playground anew; prints MATCH, or the difference.',
        "",
        f"Written for transformers {version('transformers')} and torch {version('torch')}. Run:",
        "python THIS_FILE [FOLDER OF THE MODEL]",
        '"""',
        "",
        "import hashlib\nimport math\nimport pathlib\nimport sys\n\nimport torch",
        f"from transformers import (\n{listed})",
        "",
        f"# {place.name.encode('ascii', 'replace').decode().splitlines()[0]}",
        f"MODEL = sys.argv[1] if len(sys.argv) > 1 else {place.source!r}",
        f"REVISION, WEIGHTS = {place.revision!r}, {place.weights!r}",
        f"WEIGHT_FILES, DTYPE, DEVICE = {place.files!r}, {place.dtype!r}, {place.device!r}",
        f"VOCAB = {place.vocab_size}  # the tokenizer's; the output layer may be padded",
        f"TOLERANCE = {TOLERANCES.get(place.dtype, COARSE)!r}",
        "",
        _part("model").strip(),
        "",
        "",
    ]
    for part in parts[:-1]:
        source = _part(part) if part in _FILES else part
        lines += [source.strip(), "", ""]
    if code.helpers:
        lines += [helper_source(code.helpers).strip(), "", ""]
    lines += [f"{key} = {literal(value)}" for key, value in data.items()]
    if settings is not None:
        fields = "".join(f"    {key}={value!r},\n" for key, value in settings.items())
        lines += [f"CONFIG = GenerationConfig(\n{fields})"]
    lines += [f"model = load(MODEL, REVISION, WEIGHTS, {_options(place)})"]
    if settings is not None:
        lines += ["model.generation_config = CONFIG  # no default of the model's own fills a gap"]
    if second is not None:
        where = f"{second.source!r}, {second.revision!r}, {second.weights!r}"
        lines += [f"other = load({where}, {_options(second)})"]
    lines += [_TOKENIZER.format(options=_tokenizer(place)).strip(), "", "", _part(parts[-1])]
    return "\n".join(lines).rstrip() + "\n"


_FILES = ("model", "dice", "greedy", "sampling", "beam", "scores", "contrastive", "speculative")
_TOKENIZER = """
tokenizer = AutoTokenizer.from_pretrained(MODEL, revision=REVISION or None{options})


def name(token):
    return "the end" if token is None else f"{{token}} {{tokenizer.decode([token])!r}}"
"""


def _part(name: str) -> str:
    return (ASSETS / "proof" / f"{name}.txt").read_text("utf-8")


def _options(place: Pin) -> str:
    return "dict(" + ", ".join(f"{k}={v}" for k, v in place.options.items()) + ")"


def _tokenizer(place: Pin) -> str:
    packed = place.options.get("gguf_file")
    return f", gguf_file={packed}" if packed else ""


def literal(value: Any) -> str:
    """Return a value as source; a list of lists a line each."""
    if isinstance(value, Source):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list) and value and isinstance(value[0], list | dict):
        return "[\n" + "".join(f"    {literal(row)},\n" for row in value) + "]"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)
