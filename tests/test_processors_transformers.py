"""10,000 random chains against transformers' processors and against a brute force of our rule.

transformers computes in float32 and breaks ties of its top-p by chance. So the kept sets must be
equal wherever every comparison of the chain has a margin over 1e-5; on every chain, close ones
included, the kept set must be the one of the exact rule, which is written here a second time, token
by token.

Margins: masses (top-p, typical) and scores are compared absolutely, probabilities against a cutoff
relatively, which is the stricter way.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as theirs

from playground.processors import removed_by, shape
from playground.records import SamplingParams

INF = math.inf
MARGIN = 1e-5
CHAINS = 100  # per drawn setting
EXAMPLES = 100
DYADIC = (0.125, 0.25, 0.5, 0.75, 0.875)


# --- the exact rule, token by token ---------------------------------------------------------------


class Exact:
    """Our rule written plainly: a dict id -> score, one method per filter.

    ``margin`` is the smallest distance of any comparison from its tipping point.
    """

    def __init__(self, logits: np.ndarray, ids: tuple[int, ...], prompt_length: int):
        self.scores = {i: float(z) for i, z in enumerate(logits) if z > -INF}
        self.ids, self.new_ids = ids, ids[prompt_length:]
        self.margin = INF

    def near(self, distance: float) -> None:
        self.margin = min(self.margin, abs(distance))

    def p(self) -> dict[int, float]:
        top = max(self.scores.values())
        # The same elementary steps as the filters: at a tie the last bit decides.
        weights = np.exp(np.array([s - top for s in self.scores.values()]))
        return dict(zip(self.scores, weights / weights.sum(), strict=True))

    def keep(self, kept) -> None:
        self.scores = {i: s for i, s in self.scores.items() if i in kept}

    def ranked(self) -> list[int]:
        return sorted(self.scores, key=lambda i: (-self.scores[i], i))

    def repetition_penalty(self, penalty, whole):
        for i in set(self.ids if whole else self.new_ids) & self.scores.keys():
            s = self.scores[i]
            self.scores[i] = s * penalty if s < 0 else s / penalty

    def no_repeat_ngram(self, n):
        for start in range(len(self.ids) - n + 1):
            gram = self.ids[start : start + n]
            if gram[:-1] == (self.ids[len(self.ids) - n + 1 :] if n > 1 else ()):
                self.scores.pop(gram[-1], None)

    def banned_tokens(self, banned):
        for i in banned:
            self.scores.pop(i, None)

    def temperature(self, t):
        self.scores = {i: s / t for i, s in self.scores.items()}

    def top_k(self, k):
        levels = sorted(self.scores.values(), reverse=True)
        if k < len(levels):
            below = [s for s in levels if s < levels[k - 1]]
            above = [s for s in levels if s > levels[k - 1]]
            for other in below[:1] + above[-1:]:  # float32 may turn a near tie into a tie
                self.near(other - levels[k - 1])
            self.keep({i for i, s in self.scores.items() if s >= levels[k - 1]})

    def top_p(self, limit):
        p, before, kept = self.p(), 0.0, []
        ranked = self.ranked()
        for i in ranked:
            if kept:
                self.near(before - limit)
                if not before < limit:
                    break
            kept.append(i)
            before = before + p[i]
        for i in ranked[len(kept) : len(kept) + 1]:  # a cut through a (near) tie is left to chance
            self.near(self.scores[kept[-1]] - self.scores[i])
        self.keep(set(kept))

    def min_p(self, ratio):
        top = max(self.scores.values())
        kept = set()
        for i, s in self.scores.items():
            w = float(np.exp(np.array([s - top]))[0])
            if s < top:
                self.near((w - ratio) / ratio)
            if w >= ratio:
                kept.add(i)
        self.keep(kept)

    def typical_p(self, mass):
        p = self.p()
        top = max(self.scores.values())
        total = np.exp(np.array([s - top for s in self.scores.values()])).sum()
        logp = {i: s - top - np.log(total) for i, s in self.scores.items()}
        entropy = -np.array([p[i] * logp[i] for i in p]).sum()
        gap = {i: abs(-logp[i] - entropy) for i in p}
        held, edge = 0.0, None
        for i in sorted(p, key=lambda i: (gap[i], i)):
            held = held + p[i]
            self.near(held - mass)
            if edge is None:
                edge = gap[i]
                inner = edge
            if gap[i] > edge:
                inner, edge = edge, gap[i]
            if held >= mass:
                break
        for g in gap.values():
            if g != edge:
                self.near(g - edge)
            if g != inner:
                self.near(g - inner)
        self.keep({i for i, g in gap.items() if g <= edge})

    def _cutoff(self, limit):
        p, top = self.p(), max(self.scores.values())
        kept = set()
        for i, s in self.scores.items():
            if s < top:
                self.near((p[i] - limit) / limit)
            if p[i] >= limit or s == top:
                kept.add(i)
        self.keep(kept)

    def epsilon_cutoff(self, epsilon):
        self._cutoff(epsilon)

    def eta_cutoff(self, epsilon):
        p, top = self.p(), max(self.scores.values())
        total = np.exp(np.array([s - top for s in self.scores.values()])).sum()
        logp = [s - top - np.log(total) for s in self.scores.values()]
        entropy = -np.array([a * b for a, b in zip(p.values(), logp, strict=True)]).sum()
        self._cutoff(min(epsilon, math.sqrt(epsilon) * np.exp(-entropy)))


def exactly(logits, params, ids, prompt_length) -> tuple[list[tuple[str, set[int]]], float]:
    """Return (filter, kept ids) for each filter that is on, and the chain's smallest margin."""
    run = Exact(logits, ids, prompt_length)
    kept = []
    for name, on, arguments in (
        (
            "repetition_penalty",
            params.repetition_penalty != 1,
            (params.repetition_penalty, params.penalize_prompt),
        ),
        ("no_repeat_ngram", params.no_repeat_ngram_size > 0, (params.no_repeat_ngram_size,)),
        ("banned_tokens", params.banned_tokens != (), (params.banned_tokens,)),
        ("temperature", params.temperature != 1, (params.temperature,)),
        ("top_k", params.top_k > 0, (params.top_k,)),
        ("top_p", params.top_p < 1, (params.top_p,)),
        ("min_p", params.min_p > 0, (params.min_p,)),
        ("typical_p", params.typical_p < 1, (params.typical_p,)),
        ("epsilon_cutoff", params.epsilon_cutoff > 0, (params.epsilon_cutoff,)),
        ("eta_cutoff", params.eta_cutoff > 0, (params.eta_cutoff,)),
    ):
        if on:
            getattr(run, name)(*arguments)
            kept.append((name, set(run.scores)))
            if not run.scores:
                break
    return kept, run.margin


# --- transformers' chain --------------------------------------------------------------------------


def their_chain(params: SamplingParams, prompt_length: int) -> theirs.LogitsProcessorList:
    """Build transformers' processors in the order of GenerationMixin."""
    p = params
    ignore = None if p.penalize_prompt else prompt_length
    chain = []
    if p.repetition_penalty != 1:
        chain.append(theirs.RepetitionPenaltyLogitsProcessor(p.repetition_penalty, ignore))
    if p.no_repeat_ngram_size:
        chain.append(theirs.NoRepeatNGramLogitsProcessor(p.no_repeat_ngram_size))
    if p.banned_tokens:
        chain.append(theirs.SuppressTokensLogitsProcessor(p.banned_tokens))
    if p.temperature != 1:
        chain.append(theirs.TemperatureLogitsWarper(p.temperature))
    if p.top_k:
        chain.append(theirs.TopKLogitsWarper(p.top_k))
    if p.top_p < 1:
        chain.append(theirs.TopPLogitsWarper(p.top_p))
    if p.min_p:
        chain.append(theirs.MinPLogitsWarper(p.min_p))
    if 0 < p.typical_p < 1:
        chain.append(theirs.TypicalLogitsWarper(p.typical_p))
    if p.epsilon_cutoff:
        chain.append(theirs.EpsilonLogitsWarper(p.epsilon_cutoff))
    if p.eta_cutoff:
        chain.append(theirs.EtaLogitsWarper(p.eta_cutoff))
    return theirs.LogitsProcessorList(chain)


def their_logprobs(logits: np.ndarray, params, ids, prompt_length) -> np.ndarray:
    scores = their_chain(params, prompt_length)(
        torch.tensor([ids], dtype=torch.long), torch.from_numpy(logits.astype(np.float32))[None]
    )
    return torch.log_softmax(scores[0].double(), -1).numpy()


# --- what is drawn --------------------------------------------------------------------------------


def some(strategy, neutral):
    return st.one_of(st.just(neutral), strategy)


chains = st.fixed_dictionaries(
    {
        "repetition_penalty": some(st.floats(0.5, 2.0), 1.0),
        "penalize_prompt": st.booleans(),
        "no_repeat_ngram_size": some(st.integers(1, 3), 0),
        "temperature": some(st.floats(0.05, 5.0), 1.0),
        "top_k": some(st.integers(1, 200), 0),
        "top_p": some(st.one_of(st.floats(0.0, 0.999), st.sampled_from(DYADIC)), 1.0),
        "min_p": some(st.one_of(st.floats(1e-4, 1.0), st.sampled_from(DYADIC)), 0.0),
        "typical_p": some(st.one_of(st.floats(0.01, 0.999), st.sampled_from(DYADIC)), 1.0),
        "epsilon_cutoff": some(st.one_of(st.floats(1e-5, 0.5), st.sampled_from(DYADIC)), 0.0),
        "eta_cutoff": some(st.one_of(st.floats(1e-5, 0.5), st.sampled_from(DYADIC)), 0.0),
    }
)
KINDS = ("normal", "ties", "dyadic", "float16", "bfloat16")


def random_logits(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Draw logits [V], V from 2 to 1,000 with small ones as likely as large ones."""
    size = int(np.exp(rng.uniform(np.log(2), np.log(1001))))
    z = (rng.normal(0, rng.choice([0.3, 1.0, 3.0, 8.0]), size)).astype(np.float32)
    if kind == "ties":
        z = np.round(z * 2) / 2
    elif kind == "dyadic":
        z = (-np.log(2) * np.minimum(rng.geometric(0.4, size), 20)).astype(np.float64)
    elif kind == "float16":
        z = z.astype(np.float16)
    elif kind == "bfloat16":
        z = torch.from_numpy(z).to(torch.bfloat16).float().numpy()
    if rng.random() < 0.3:
        z[rng.random(size) < rng.uniform(0, 0.9)] = -np.inf
        z[rng.integers(size)] = 1.0
    return z


def test_10_000_random_chains_keep_what_transformers_keeps_and_obey_the_exact_rule():
    seen = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],  # a failing chain names itself: nothing to shrink
        suppress_health_check=list(HealthCheck),
    )
    @given(chains, st.integers(0, 2**32 - 1))
    def check(fields, seed):
        rng = np.random.default_rng(seed)
        for n in range(CHAINS):
            kind = KINDS[n % len(KINDS)]
            logits = random_logits(rng, kind)
            size = len(logits)
            ids = tuple(int(i) for i in rng.integers(0, size, rng.integers(1, 12)))
            prompt_length = int(rng.integers(0, len(ids)))
            banned = rng.choice(size, rng.integers(0, min(size, 4)), replace=False)
            params = SamplingParams(
                **fields, banned_tokens=tuple(banned) if rng.random() < 0.3 else ()
            )
            seen["chains"] += 1
            expected, margin = exactly(logits, params, ids, prompt_length)
            if expected and not expected[-1][1]:
                seen["dead"] += 1
                with pytest.raises(ValueError, match="no token survives"):
                    shape(logits, params, ids, prompt_length)
                continue
            stages = shape(logits, params, ids, prompt_length)
            assert [s.name for s in stages[1:]] == [name for name, _ in expected]
            for stage, (name, kept) in zip(stages[1:], expected, strict=True):
                ours = set(np.flatnonzero(stage.logprobs > -np.inf).tolist())
                assert ours == kept, (name, kind, size, params, margin)
            if margin <= MARGIN:
                seen["close"] += 1
                continue
            seen["compared"] += 1
            seen["cut"] += bool((removed_by(stages) != "").any())
            reference = their_logprobs(logits, params, ids, prompt_length)
            np.testing.assert_array_equal(stages[-1].logprobs > -np.inf, reference > -np.inf)
            np.testing.assert_allclose(
                np.exp(stages[-1].logprobs), np.exp(reference), atol=2e-5, rtol=0
            )

    check()
    assert seen["chains"] >= EXAMPLES * CHAINS
    assert seen["compared"] > 0.5 * seen["chains"] and seen["cut"] > 0.4 * seen["chains"], seen
    assert seen["close"] > 0.02 * seen["chains"], seen
    print(dict(seen))


SETTINGS = {
    "temperature": (0.05, 0.7, 3.0),
    "top_k": (1, 7, 60),
    "top_p": (0.0, 0.3, 0.95),
    "min_p": (0.001, 0.1, 1.0),
    "typical_p": (0.05, 0.5, 0.95),
    "epsilon_cutoff": (1e-4, 0.01, 0.9),
    "eta_cutoff": (1e-4, 0.01, 0.9),
    "repetition_penalty": (0.5, 1.3),
    "no_repeat_ngram_size": (1, 2, 3),
    "banned_tokens": ((0, 5),),
}


@pytest.mark.parametrize("field", SETTINGS)
def test_each_filter_alone_is_transformers_processor(field):
    rng = np.random.default_rng(17)
    compared = 0
    for value in SETTINGS[field]:
        for _ in range(40):
            logits = rng.normal(0, 3, 300).astype(np.float32)
            ids = tuple(int(i) for i in rng.integers(0, 20, 30))
            params = SamplingParams(**{field: value})
            stages = shape(logits, params, ids, 10)
            if exactly(logits, params, ids, 10)[1] <= MARGIN:
                continue
            compared += 1
            reference = their_logprobs(logits, params, ids, 10)
            np.testing.assert_array_equal(stages[-1].logprobs > -np.inf, reference > -np.inf)
            np.testing.assert_allclose(np.exp(stages[-1].logprobs), np.exp(reference), atol=2e-5)
    assert compared > 30 * len(SETTINGS[field])
