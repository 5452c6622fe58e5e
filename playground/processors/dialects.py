"""Dialects: in which order which system runs its filters, and how it breaks ties.

In: SamplingParams. Out: the names of the filters that are on, in order. A dialect is data, an order
of the same functions, with a tie rule or two:

- transformers (``GenerationMixin``): penalties, n-grams, bans, temperature, truncations. Ties with
  the k-th token stay. It has no presence and frequency penalties, top-n-sigma and XTC; ours are
  added where the others have them: beside the repetition penalty, as the first truncation, and as
  the last.
- vllm (``vllm/v1/sample``): bans, penalties (presence and frequency count generated tokens only),
  temperature (greedy below 1e-5), min-p, top-k (exactly k, as its kernel does), top-p.
- llama.cpp (``common/sampling``, ``src/llama-sampling.cpp``): bans, penalties, top-n-sigma, top-k
  (exactly k), typical (no ties), top-p, min-p, XTC, temperature last. Its penalties count the last
  64 tokens by default; here all of them.

Wherever a system leaves a tie to chance, the lowest id wins here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from playground.records import SamplingParams

_VLLM_GREEDY = 1e-5

DEFAULT_ORDER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "transformers": (
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "no_repeat_ngram",
            "banned_tokens",
            "temperature",
            "top_n_sigma",
            "top_k",
            "top_p",
            "min_p",
            "typical_p",
            "epsilon_cutoff",
            "eta_cutoff",
            "xtc",
        ),
        "vllm": (
            "banned_tokens",
            "repetition_penalty",
            "frequency_penalty",
            "presence_penalty",
            "temperature",
            "min_p",
            "top_k",
            "top_p",
        ),
        "llama.cpp": (
            "banned_tokens",
            "repetition_penalty",
            "frequency_penalty",
            "presence_penalty",
            "top_n_sigma",
            "top_k",
            "typical_p",
            "top_p",
            "min_p",
            "xtc",
            "temperature",
        ),
    }
)

# Filter -> its setting, and the neutral value at which it is off.
SETTINGS: Mapping[str, tuple[str, object]] = MappingProxyType(
    {
        "repetition_penalty": ("repetition_penalty", 1),
        "presence_penalty": ("presence_penalty", 0),
        "frequency_penalty": ("frequency_penalty", 0),
        "no_repeat_ngram": ("no_repeat_ngram_size", 0),
        "banned_tokens": ("banned_tokens", ()),
        "temperature": ("temperature", 1),
        "top_n_sigma": ("top_n_sigma", 0),
        "top_k": ("top_k", 0),
        "top_p": ("top_p", 1),
        "min_p": ("min_p", 0),
        "typical_p": ("typical_p", 1),
        "epsilon_cutoff": ("epsilon_cutoff", 0),
        "eta_cutoff": ("eta_cutoff", 0),
        "xtc": ("xtc_probability", 0),
    }
)


def counts_prompt(name: str, params: SamplingParams) -> bool:
    """Return whether the penalty ``name`` counts the prompt's tokens too."""
    if params.dialect == "vllm" and name != "repetition_penalty":
        return False
    return params.penalize_prompt


def is_greedy(params: SamplingParams) -> bool:
    """Return whether the temperature means greedy in the dialect."""
    return greedy_at(params.temperature, params.dialect)


def greedy_at(temperature: float, dialect: str) -> bool:
    """Return whether this temperature means greedy in the dialect."""
    return temperature == 0 or (dialect == "vllm" and temperature < _VLLM_GREEDY)


def keeps_exactly_k(params: SamplingParams) -> bool:
    """Return whether top-k keeps k tokens even where others tie with the k-th."""
    return params.dialect != "transformers"


def typical_without_ties(params: SamplingParams) -> bool:
    """Return whether typical sampling follows llama.cpp's rule: past the mass, and no ties."""
    return params.dialect == "llama.cpp"


def active_filters(params: SamplingParams) -> tuple[str, ...]:
    """Return the names of the filters that are on, in the order in which they run.

    Raises ValueError when the dialect lacks one, or when ``order`` names an unknown filter, names
    one twice, or leaves an active one out.
    """
    known = DEFAULT_ORDER[params.dialect]
    on = [name for name, (field, off) in SETTINGS.items() if getattr(params, field) != off]
    for name in on:
        if name not in known:
            field, off = SETTINGS[name]
            raise ValueError(
                f"{field} must be {off!r} in the dialect {params.dialect}, which has no {name}, "
                f"got {getattr(params, field)!r}"
            )
    if params.order is None:
        return tuple(name for name in known if name in on)
    for name in params.order:
        if name not in SETTINGS:
            raise ValueError(f"order must name filters ({', '.join(SETTINGS)}), got {name!r}")
        if params.order.count(name) > 1:
            raise ValueError(f"order must name each filter once, got {name!r} twice")
    for name in on:
        if name not in params.order:
            raise ValueError(f"order must name every active filter, got none of {name!r}")
    return tuple(name for name in params.order if name in on)
