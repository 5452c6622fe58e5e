"""The vLLM and llama.cpp dialects against their published rules, written again as plain lists.

llama.cpp (``src/llama-sampling.cpp``) walks over a shrinking list of candidates; vLLM
(``vllm/v1/sample``) sorts upwards and masks. Both leave ties to their sort; here the lowest id
wins. Random settings never meet a threshold exactly, so float64 decides alike on both sides.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from playground.dice import uniform
from playground.processors import DEFAULT_ORDER, shape
from playground.records import SamplingParams


def softmax(candidates: list[tuple[int, float]]) -> list[float]:
    top = max(z for _, z in candidates)
    weights = [math.exp(z - top) for _, z in candidates]
    total = math.fsum(weights)
    return [w / total for w in weights]


def ranked(candidates):
    return sorted(candidates, key=lambda c: (-c[1], c[0]))


# --- llama.cpp ------------------------------------------------------------------------------------


def llama_penalties(cur, s, ids, prompt_length):
    counts = Counter(ids if s.penalize_prompt else ids[prompt_length:])
    out = []
    for i, z in cur:
        n = counts[i]
        if n:
            z = z * s.repetition_penalty if z <= 0 else z / s.repetition_penalty
            z -= n * s.frequency_penalty + s.presence_penalty
        out.append((i, z))
    return out


def llama_top_n_sigma(cur, s):
    if s.top_n_sigma <= 0 or len(cur) <= 1:
        return cur
    mean = math.fsum(z for _, z in cur) / len(cur)
    sigma = math.sqrt(math.fsum((z - mean) ** 2 for _, z in cur) / len(cur))
    top = max(z for _, z in cur)
    return [(i, z) for i, z in cur if not z < top - s.top_n_sigma * sigma]


def llama_top_k(cur, s):
    return ranked(cur)[: s.top_k] if s.top_k > 0 else cur


def llama_typical(cur, s):
    if s.typical_p >= 1:
        return cur
    cur = ranked(cur)
    p = softmax(cur)
    entropy = math.fsum(-q * math.log(q) for q in p if q > 0)
    shifted = [abs(-math.log(q) - entropy) if q > 0 else math.inf for q in p]
    order = sorted(range(len(cur)), key=lambda n: (shifted[n], n))
    held, last = 0.0, len(order)
    for n, index in enumerate(order):
        held += p[index]
        if held > s.typical_p:
            last = n + 1
            break
    return [cur[n] for n in order[:last]]


def llama_top_p(cur, s):
    if s.top_p >= 1:
        return cur
    cur = ranked(cur)
    held = 0.0
    for n, q in enumerate(softmax(cur)):
        held += q
        if held >= s.top_p:
            return cur[: n + 1]
    return cur


def llama_min_p(cur, s):
    if s.min_p <= 0:
        return cur
    limit = max(z for _, z in cur) + math.log(s.min_p)
    return [(i, z) for i, z in cur if z >= limit]


def llama_xtc(cur, s, ids):
    if s.xtc_probability <= 0 or s.xtc_threshold > 0.5 or len(cur) < 2:
        return cur
    if uniform(s.seed, len(ids), "xtc") > s.xtc_probability:
        return cur
    cur = ranked(cur)
    last = 0
    for n, q in enumerate(softmax(cur)):
        if q < s.xtc_threshold:
            break
        last = n
    return cur[last:]


def llama_temperature(cur, s):
    if s.temperature <= 0:
        return ranked(cur)[:1]
    return [(i, z / s.temperature) for i, z in cur]


def llama_cpp(logits, s, ids, prompt_length):
    cur = [(i, float(z)) for i, z in enumerate(logits) if i not in s.banned_tokens]
    cur = llama_penalties(cur, s, ids, prompt_length)
    cur = llama_min_p(
        llama_top_p(llama_typical(llama_top_k(llama_top_n_sigma(cur, s), s), s), s), s
    )
    return llama_temperature(llama_xtc(cur, s, ids), s)


# --- vLLM -----------------------------------------------------------------------------------------


def vllm(logits, s, ids, prompt_length):
    cur = [(i, float(z)) for i, z in enumerate(logits) if i not in s.banned_tokens]
    repeated = set(ids if s.penalize_prompt else ids[prompt_length:])
    output = Counter(ids[prompt_length:])
    out = []
    for i, z in cur:
        if i in repeated:
            z = z / s.repetition_penalty if z > 0 else z * s.repetition_penalty
        z -= s.frequency_penalty * output[i]
        z -= s.presence_penalty * (output[i] > 0)
        out.append((i, z))
    if s.temperature < 1e-5:
        return ranked(out)[:1]
    cur = [(i, z / s.temperature) for i, z in out]
    p = softmax(cur)
    cur = [c for c, q in zip(cur, p, strict=True) if not q < s.min_p * max(p)]
    cur = ranked(cur)[: s.top_k or None]
    # top-p as vLLM has it: sorted upwards, masked while the sum is at most 1 - p, one kept at least
    upwards, held, kept = cur[::-1], 0.0, []
    for n, (candidate, q) in enumerate(zip(upwards, softmax(upwards), strict=True)):
        held += q
        if s.top_p >= 1 or held > 1 - s.top_p or n == len(upwards) - 1:
            kept.append(candidate)
    return kept


# --- both -----------------------------------------------------------------------------------------


def random_params(rng, dialect):
    def maybe(value, off):
        return value if rng.random() < 0.5 else off

    fields = {
        "temperature": maybe(float(rng.choice([0.0, 5e-6, rng.uniform(0.1, 4)])), 1.0),
        "top_k": maybe(int(rng.integers(1, 60)), 0),
        "top_p": maybe(float(rng.uniform(0.01, 0.999)), 1.0),
        "min_p": maybe(float(10 ** rng.uniform(-4, -0.1)), 0.0),
        "typical_p": maybe(float(rng.uniform(0.05, 0.999)), 1.0),
        "top_n_sigma": maybe(float(rng.uniform(0.3, 4)), 0.0),
        "xtc_probability": maybe(0.5, 0.0),
        "repetition_penalty": maybe(float(rng.uniform(0.6, 2)), 1.0),
        "presence_penalty": maybe(float(rng.uniform(-1, 2)), 0.0),
        "frequency_penalty": maybe(float(rng.uniform(-1, 2)), 0.0),
    }
    known = DEFAULT_ORDER[dialect]
    if "xtc" not in known:
        fields.pop("xtc_probability")
    fields = {k: v for k, v in fields.items() if k in known or k == "xtc_probability"}
    return SamplingParams(
        **fields,
        dialect=dialect,
        seed=int(rng.integers(1000)),
        xtc_threshold=float(rng.uniform(0.01, 0.7)),
        penalize_prompt=bool(rng.random() < 0.7),
        banned_tokens=(1,) if rng.random() < 0.2 else (),
    )


@pytest.mark.parametrize(("dialect", "reference"), [("llama.cpp", llama_cpp), ("vllm", vllm)])
def test_random_chains_keep_what_the_published_rules_keep(dialect, reference):
    rng = np.random.default_rng(23)
    sizes = Counter()
    for _ in range(1500):
        size = int(np.exp(rng.uniform(np.log(3), np.log(300))))
        logits = rng.normal(0, rng.choice([0.5, 2, 6]), size).astype(np.float32)
        if rng.random() < 0.4:
            logits = np.round(logits)  # ties, and zeros for the penalties' sign rule
        ids = tuple(int(i) for i in rng.integers(0, size, 9))
        params = random_params(rng, dialect)
        expected = reference(logits, params, ids, 4)
        stages = shape(logits, params, ids, 4)
        kept = np.flatnonzero(stages[-1].logprobs > -np.inf)
        assert kept.tolist() == sorted(i for i, _ in expected), params
        p = dict(zip((i for i, _ in expected), softmax(expected), strict=True))
        np.testing.assert_allclose(np.exp(stages[-1].logprobs[kept]), [p[i] for i in kept], 1e-9)
        sizes["cut" if len(kept) < size else "whole"] += 1
        sizes["several"] += len(kept) > 1
    assert sizes["cut"] > 800 and sizes["several"] > 600, sizes


def test_the_dialects_differ_where_their_rules_do():
    logits = np.log([0.45, 0.3, 0.15, 0.1])
    settings = {"temperature": 3.0, "top_p": 0.7}
    kept = {
        dialect: np.count_nonzero(
            shape(logits, SamplingParams(dialect=dialect, **settings))[-1].logprobs > -np.inf
        )
        for dialect in DEFAULT_ORDER
    }
    # heated first, three tokens are needed for 0.7; heated last, two were enough
    assert kept == {"transformers": 3, "vllm": 3, "llama.cpp": 2}
