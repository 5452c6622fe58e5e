"""Why a filter kept or removed a token: the inequality that decided, with its numbers.

In: the stages of ``shape`` and the settings that made them. Out: for one token, a Reason per filter
up to the one that removed it. Whether a token was kept is read from the stages; the two sides of
the inequality are worked out from the distribution that the filter saw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from playground.processors import penalties, truncation
from playground.processors.chain import xtc_coin
from playground.processors.dialects import counts_prompt, is_greedy, typical_without_ties
from playground.processors.penalties import Context
from playground.processors.scores import MASKED, probabilities
from playground.records import SamplingParams, Stage


@dataclass(frozen=True, slots=True)
class Reason:
    """What one filter did to one token.

    ``left`` and ``right`` are the sides of the inequality (for filters that move scores, the
    probability before and after). ``text_key`` names the sentence in assets/words/reasons.yaml and
    ``fields`` fill it, figures already written; so ``t(reason.text_key, **reason.fields)``.
    """

    stage: str
    kept: bool
    left: float
    right: float
    text_key: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """One token before one filter: the survivors' values [n], their ids, the token's place."""

    values: np.ndarray
    alive: np.ndarray
    at: int
    kept: bool
    before: float  # the token's probability before and after the filter
    after: float
    token: int
    params: SamplingParams
    context: Context
    vocab_size: int

    def ahead(self, key: np.ndarray) -> np.ndarray:
        """Mask the survivors that come before the token by ``key``, highest first, then by id."""
        mine = key[self.at]
        place = np.arange(len(key))
        return (key > mine) | ((key == mine) & (place < self.at))


_Told = tuple[float, float, str, dict[str, Any]]  # left, right, text key, fields


def figure(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits: 0.773, 3.1e-5."""
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa}e{int(exponent)}"
    return text


def figures(left: float, right: float) -> tuple[str, str]:
    """Write both sides of an inequality with as many digits as tell them apart (3 at least)."""
    for digits in range(3, 18):
        texts = figure(left, digits), figure(right, digits)
        if left == right or texts[0] != texts[1]:
            break
    return texts


def _sides(left: float, right: float, **more: Any) -> dict[str, Any]:
    a, b = figures(left, right)
    return {"left": a, "right": b, **more}


def _moved(case: _Case, key: str, **more: Any) -> _Told:
    return case.before, case.after, key, _sides(case.before, case.after, **more)


def _penalty(case: _Case, name: str, key: str) -> _Told:
    seen, counts = case.context.counts(counts_prompt(name, case.params), case.vocab_size)
    count = int(counts[seen == case.token].sum())
    if not count:
        return _moved(case, "reasons.not_seen")
    return _moved(case, key, count=count, penalty=figure(getattr(case.params, name)))


def _repetition(case: _Case) -> _Told:
    return _penalty(case, "repetition_penalty", "reasons.repetition_penalty")


def _presence(case: _Case) -> _Told:
    return _penalty(case, "presence_penalty", "reasons.presence_penalty")


def _frequency(case: _Case) -> _Told:
    return _penalty(case, "frequency_penalty", "reasons.frequency_penalty")


def _ngram(case: _Case) -> _Told:
    size = case.params.no_repeat_ngram_size
    count = int((penalties.repeated_ends(case.context.ids, size) == case.token).sum())
    key = "reasons.no_repeat_ngram_kept" if case.kept else "reasons.no_repeat_ngram_cut"
    return float(count), 0.0, key, {"size": size, "count": count}


def _banned(case: _Case) -> _Told:
    key = "reasons.banned_tokens_kept" if case.kept else "reasons.banned_tokens_cut"
    return float(not case.kept), 0.0, key, {}


def _temperature(case: _Case) -> _Told:
    if not is_greedy(case.params):
        return _moved(case, "reasons.temperature", temperature=figure(case.params.temperature))
    rank = float(np.count_nonzero(case.ahead(case.values)) + 1)
    key = "reasons.greedy_kept" if case.kept else "reasons.greedy_cut"
    return rank, 1.0, key, {"left": int(rank), "right": 1}


def _top_k(case: _Case) -> _Told:
    k = case.params.top_k
    rank = int(np.count_nonzero(case.ahead(case.values)) + 1)
    if case.kept:
        key = "reasons.top_k_kept" if rank <= k else "reasons.top_k_tie_kept"
    else:
        level = np.count_nonzero(case.values > case.values[case.at])
        key = "reasons.top_k_tie_cut" if level < k else "reasons.top_k_cut"
    return float(rank), float(k), key, {"left": rank, "right": k}


def _top_p(case: _Case) -> _Told:
    ahead = case.ahead(case.values)
    left, right = float(probabilities(case.values)[ahead].sum()), case.params.top_p
    if not ahead.any():
        return left, right, "reasons.top_p_first", _sides(left, right)
    key = "reasons.top_p_kept" if case.kept else "reasons.top_p_cut"
    return left, right, key, _sides(left, right)


def _min_p(case: _Case) -> _Told:
    top, ratio = float(probabilities(case.values).max()), case.params.min_p
    left, right = case.before, ratio * top
    key = "reasons.min_p_kept" if case.kept else "reasons.min_p_cut"
    return left, right, key, _sides(left, right, ratio=figure(ratio), top=figure(top))


def _typical(case: _Case) -> _Told:
    p, gap, entropy = truncation.surprise_gaps(case.values)
    strict = typical_without_ties(case.params)
    nearer = case.ahead(-gap) if strict else gap < gap[case.at]
    left, right = float(p[nearer].sum()), case.params.typical_p
    key = "reasons.typical_p_kept" if case.kept else "reasons.typical_p_cut"
    more = {"surprise": figure(-np.log(case.before)), "entropy": figure(entropy)}
    return left, right, key, _sides(left, right, **more)


def _at_least(case: _Case, limit: float, kept: str, cut: str, **more: Any) -> _Told:
    if case.kept and case.before < limit:
        # Below the cutoff, and kept all the same: nothing is likelier.
        return case.before, limit, "reasons.likeliest_kept", _sides(case.before, limit)
    key = kept if case.kept else cut
    return case.before, limit, key, _sides(case.before, limit, **more)


def _epsilon(case: _Case) -> _Told:
    limit = case.params.epsilon_cutoff
    return _at_least(case, limit, "reasons.epsilon_cutoff_kept", "reasons.epsilon_cutoff_cut")


def _eta(case: _Case) -> _Told:
    _, _, entropy = truncation.surprise_gaps(case.values)
    limit = truncation.eta_threshold(entropy, case.params.eta_cutoff)
    more = {"epsilon": figure(case.params.eta_cutoff), "entropy": figure(entropy)}
    return _at_least(case, limit, "reasons.eta_cutoff_kept", "reasons.eta_cutoff_cut", **more)


def _top_n_sigma(case: _Case) -> _Told:
    n, sigma = case.params.top_n_sigma, float(case.values.std())
    left = float(case.values.max() - case.values[case.at])
    right = n * sigma
    key = "reasons.top_n_sigma_kept" if case.kept else "reasons.top_n_sigma_cut"
    return left, right, key, _sides(left, right, n=figure(n), sigma=figure(sigma))


def _xtc(case: _Case) -> _Told:
    coin, chance = xtc_coin(case.params, case.context), case.params.xtc_probability
    if coin > chance:
        return coin, chance, "reasons.xtc_coin", _sides(coin, chance)
    left, right = case.before, case.params.xtc_threshold
    if not case.kept:
        key = "reasons.xtc_cut"
    else:
        key = "reasons.xtc_last" if left >= right else "reasons.xtc_kept"
    return left, right, key, _sides(left, right)


_WHY: Mapping[str, Callable[[_Case], _Told]] = MappingProxyType(
    {
        "repetition_penalty": _repetition,
        "presence_penalty": _presence,
        "frequency_penalty": _frequency,
        "no_repeat_ngram": _ngram,
        "banned_tokens": _banned,
        "temperature": _temperature,
        "top_n_sigma": _top_n_sigma,
        "top_k": _top_k,
        "top_p": _top_p,
        "min_p": _min_p,
        "typical_p": _typical,
        "epsilon_cutoff": _epsilon,
        "eta_cutoff": _eta,
        "xtc": _xtc,
    }
)


def reasons(
    stages: Sequence[Stage],
    params: SamplingParams,
    token_id: int,
    ids: Sequence[int] = (),
    prompt_length: int = 0,
) -> tuple[Reason, ...]:
    """Return what each filter did to the token, in order, up to the one that removed it.

    ``stages``, ``params``, ``ids`` and ``prompt_length`` are those of one ``shape`` call. Raises
    ValueError for a token outside the vocabulary.
    """
    size = len(stages[0].logprobs)
    if not 0 <= token_id < size:
        raise ValueError(f"token_id must be in [0, {size - 1}], got {token_id}")
    if stages[0].logprobs[token_id] == MASKED:
        return (Reason("model", False, 0.0, 0.0, "reasons.model_cut", {}),)
    context = Context.of(ids, prompt_length)
    told = []
    for earlier, stage in zip(stages, stages[1:], strict=False):
        old = earlier.logprobs
        if old[token_id] == MASKED:
            break
        alive = np.flatnonzero(old > MASKED)
        case = _Case(
            values=old[alive],
            alive=alive,
            at=int(np.searchsorted(alive, token_id)),
            kept=bool(stage.logprobs[token_id] > MASKED),
            before=float(np.exp(old[token_id])),
            after=float(np.exp(stage.logprobs[token_id])),
            token=token_id,
            params=params,
            context=context,
            vocab_size=size,
        )
        left, right, key, fields = _WHY[stage.name](case)
        told.append(Reason(stage.name, case.kept, left, right, key, MappingProxyType(fields)))
    return tuple(told)


def reason(
    stages: Sequence[Stage],
    params: SamplingParams,
    token_id: int,
    ids: Sequence[int] = (),
    prompt_length: int = 0,
) -> Reason:
    """Return the reason that decided: the filter that removed the token, or the last that kept it.

    A token that no filter touched has stage "" and its own probability on both sides.
    """
    told = reasons(stages, params, token_id, ids, prompt_length)
    if told:
        return told[-1]
    p = float(np.exp(stages[0].logprobs[token_id]))
    return Reason("", True, p, p, "reasons.untouched", MappingProxyType(_sides(p, p)))
