"""The filters of a chain as code: transformers' own classes where it has them, else a few lines.

SamplingParams flow in; expressions, names to import, and helper functions' source flow out, for the
scripts that ``playground.proof`` writes. Each expression is a callable (ids [1, n], scores [1, V])
-> scores, as transformers' processors are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from playground.processors import active_filters
from playground.processors.dialects import (
    counts_prompt,
    is_greedy,
    keeps_exactly_k,
    typical_without_ties,
)
from playground.records import SamplingParams

# Filter -> (transformers' class, its setting).
_CLASSES = {
    "repetition_penalty": "RepetitionPenaltyLogitsProcessor",
    "no_repeat_ngram": "NoRepeatNGramLogitsProcessor",
    "banned_tokens": "SuppressTokensLogitsProcessor",
    "temperature": "TemperatureLogitsWarper",
    "top_k": "TopKLogitsWarper",
    "top_p": "TopPLogitsWarper",
    "min_p": "MinPLogitsWarper",
    "typical_p": "TypicalLogitsWarper",
    "epsilon_cutoff": "EpsilonLogitsWarper",
    "eta_cutoff": "EtaLogitsWarper",
}

_HELPERS = {
    "only_the_best": '''
def only_the_best(ids, scores):
    """Greedy: every token but the most probable one goes."""
    return torch.full_like(scores, -math.inf).scatter(
        1, scores.argmax(1, True), scores.max(1, True).values
    )
''',
    "take_off": '''
def take_off(once, each, start):
    """Presence and frequency penalties: for a token that was there, and for each time it was."""

    def run(ids, scores):
        seen = ids[0, start:]
        counts = torch.bincount(seen[seen < scores.shape[1]], minlength=scores.shape[1])
        return scores - once * (counts > 0) - each * counts

    return run
''',
    "exactly_k": '''
def exactly_k(k):
    """Top-k without ties: the lowest ids of equals stay."""

    def run(ids, scores):
        order = torch.argsort(scores, dim=1, descending=True, stable=True)
        return scores.scatter(1, order[:, k:], -math.inf)

    return run
''',
    "typical_past": '''
def typical_past(mass):
    """Typical sampling as llama.cpp has it: past the mass, and no ties."""

    def run(ids, scores):
        logprobs = torch.log_softmax(scores, 1)
        p = logprobs.exp()
        gap = (-logprobs + (p * logprobs).nansum(1, True)).abs()
        order = torch.argsort(gap, dim=1, stable=True)
        held = torch.cumsum(p.gather(1, order), 1)
        last = int((held <= mass).sum())
        return scores.scatter(1, order[:, last + 1 :], -math.inf)

    return run
''',
    "n_sigma": '''
def n_sigma(n):
    """Top-n-sigma: what lies more than n standard deviations below the best goes."""

    def run(ids, scores):
        alive = scores[scores > -math.inf]
        return scores.masked_fill(scores < alive.max() - n * alive.std(correction=0), -math.inf)

    return run
''',
    "xtc": '''
def xtc(probability, threshold, seed):
    """Exclude top choices: with a coin, all tokens above the threshold go but the last."""

    def run(ids, scores):
        if dice(seed, ids.shape[1], "xtc") > probability:
            return scores
        p = torch.softmax(scores, 1)[0]
        above = (p >= threshold).nonzero()[:, 0]
        if not len(above):
            return scores
        lowest = scores[0, above].min()
        stays = above[scores[0, above] == lowest][-1]
        return scores.index_fill(1, above[above != stays], -math.inf)

    return run
''',
}


@dataclass(frozen=True)
class Code:
    """Filters as source: ``expressions`` in order, ``imports`` and ``helpers`` that they need."""

    expressions: tuple[str, ...]
    imports: tuple[str, ...]
    helpers: tuple[str, ...]


def filter_code(params: SamplingParams, prompt_length: int) -> Code:
    """Return the chain of params as source; the prompt has ``prompt_length`` tokens."""
    found = [_one(name, params, prompt_length) for name in active_filters(params)]
    return Code(
        tuple(expression for expression, _, _ in found),
        tuple(dict.fromkeys(name for _, name, _ in found if name)),
        tuple(dict.fromkeys(name for _, _, name in found if name)),
    )


def helper_source(names: Sequence[str]) -> str:
    """Return the source of helper functions."""
    return "\n".join(_HELPERS[name] for name in names)


def _one(name: str, params: SamplingParams, prompt_length: int) -> tuple[str, str, str]:
    """Return (expression, class to import or "", helper or "") of one filter."""
    start = 0 if counts_prompt(name, params) else prompt_length
    own = {
        "presence_penalty": lambda: f"take_off({params.presence_penalty!r}, 0.0, {start})",
        "frequency_penalty": lambda: f"take_off(0.0, {params.frequency_penalty!r}, {start})",
        "top_n_sigma": lambda: f"n_sigma({params.top_n_sigma!r})",
        "xtc": lambda: f"xtc({params.xtc_probability!r}, {params.xtc_threshold!r}, {params.seed})",
    }
    if name == "temperature" and is_greedy(params):
        return "only_the_best", "", "only_the_best"
    if name == "top_k" and keeps_exactly_k(params):
        return f"exactly_k({params.top_k})", "", "exactly_k"
    if name == "typical_p" and typical_without_ties(params):
        return f"typical_past({params.typical_p!r})", "", "typical_past"
    if name in own:
        expression = own[name]()
        return expression, "", expression.partition("(")[0]
    arguments = {
        "repetition_penalty": f"{float(params.repetition_penalty)!r}"
        + (f", prompt_ignore_length={start}" if start else ""),
        "no_repeat_ngram": repr(params.no_repeat_ngram_size),
        "banned_tokens": f"{list(params.banned_tokens)!r}, device='cpu'",
        "temperature": repr(float(params.temperature)),
        "top_k": repr(params.top_k),
        "top_p": repr(float(params.top_p)),
        "min_p": repr(float(params.min_p)),
        # transformers refuses a mass of 0, which leaves the most typical token.
        "typical_p": repr(max(float(params.typical_p), 1e-12)),
        "epsilon_cutoff": repr(float(params.epsilon_cutoff)),
        "eta_cutoff": f"{float(params.eta_cutoff)!r}, device='cpu'",
    }[name]
    return f"{_CLASSES[name]}({arguments})", _CLASSES[name], ""
