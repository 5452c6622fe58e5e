"""The inequality told for each token is the one that decided, and reads as a sentence."""

from __future__ import annotations

import inspect
import operator
import re

import numpy as np
import pytest

from playground.processors import DEFAULT_ORDER, reason, reasons, removed_by, shape
from playground.records import SamplingParams
from playground.words import LANGUAGES, entries, translator

# How left and right stand to each other for a kept token, per filter; a removed one: the contrary.
KEEPS = {
    "no_repeat_ngram": operator.le,
    "banned_tokens": operator.le,
    "top_k": operator.le,
    "top_p": operator.lt,
    "min_p": operator.ge,
    "epsilon_cutoff": operator.ge,
    "eta_cutoff": operator.ge,
    "typical_p": operator.lt,
    "top_n_sigma": operator.le,
}
# Kept, or removed, by another rule than the inequality.
EXCEPTIONS = {
    "reasons.top_p_first",
    "reasons.likeliest_kept",
    "reasons.top_k_tie_kept",
    "reasons.xtc_coin",
    "reasons.xtc_last",
}


def told(logits, token, ids=(), prompt_length=0, **settings):
    params = SamplingParams(**settings)
    stages = shape(np.asarray(logits), params, ids, prompt_length)
    return reason(stages, params, token, ids, prompt_length)


def sentence(r, language="en"):
    return translator(language)(r.text_key, **r.fields)


LIKELIEST = "0.412 < 0.9, but nothing is likelier: it stays"
P = np.log([0.412, 0.3, 0.2, 0.0849, 0.0031])


@pytest.mark.parametrize(
    ("settings", "token", "kept", "left", "right", "text"),
    [
        ({"min_p": 0.05}, 4, False, 0.0031, 0.0206, "min-p: 0.0031 < 0.05 x 0.412 = 0.0206"),
        ({"min_p": 0.05}, 3, True, 0.0849, 0.0206, "min-p: 0.0849 >= 0.05 x 0.412 = 0.0206"),
        ({"top_p": 0.9}, 3, False, 0.912, 0.9, "top-p: mass before it 0.912 >= 0.9"),
        ({"top_p": 0.9}, 2, True, 0.712, 0.9, "top-p: mass before it 0.712 < 0.9"),
        ({"top_p": 0.0}, 0, True, 0.0, 0.0, "top-p: the likeliest token always stays"),
        ({"top_k": 2}, 3, False, 4, 2, "top-k: rank 4 > 2"),
        ({"top_k": 2}, 1, True, 2, 2, "top-k: rank 2 <= 2"),
        ({"epsilon_cutoff": 0.01}, 4, False, 0.0031, 0.01, "epsilon: 0.0031 < 0.01"),
        ({"epsilon_cutoff": 0.9}, 0, True, 0.412, 0.9, LIKELIEST),
        ({"banned_tokens": (4,)}, 4, False, 1, 0, "it is on the list of banned tokens"),
        ({"temperature": 0}, 3, False, 4, 1, "temperature 0 keeps rank 1 only: its rank is 4"),
    ],
)  # fmt: skip
def test_the_numbers_are_those_of_the_rule(settings, token, kept, left, right, text):
    r = told(P, token, **settings)
    assert (r.kept, r.left, r.right) == (kept, pytest.approx(left), pytest.approx(right))
    assert sentence(r) == text


def test_ties_at_the_kth_token_are_told_per_dialect():
    logits = [3.0, 2.0, 2.0, 1.0]
    r = told(logits, 2, top_k=2)
    assert r.kept and sentence(r).endswith("rank 3 > 2, but as likely as rank 2: ties stay")
    r = told(logits, 2, top_k=2, dialect="llama.cpp")
    assert not r.kept and "its id is higher (rank 3): exactly 2 stay" in sentence(r)
    assert sentence(told(logits, 3, top_k=2, dialect="llama.cpp")) == "top-k: rank 4 > 2"


def test_penalties_tell_how_often_and_how_far():
    r = told([0.0, 0.0], 0, ids=(0, 0, 1), prompt_length=1, frequency_penalty=1.0)
    assert (r.left, r.right) == (pytest.approx(0.5), pytest.approx(1 / (1 + np.e)))
    assert sentence(r) == "frequency penalty 1 x 2 times seen; probability 0.5, now 0.269"
    r = told(
        [0.0, 0.0], 0, (0, 0, 1), 1, frequency_penalty=1.0, penalize_prompt=False
    )  # once since the prompt, as the other: nothing changes
    assert r.fields["count"] == 1 and r.right == pytest.approx(0.5)
    assert told([0.0, 0.0], 1, (0,), repetition_penalty=2.0).text_key == "reasons.not_seen"
    r = told([0.0] * 4, 3, ids=(1, 3, 1, 3, 1), no_repeat_ngram_size=2)
    assert sentence(r) == "it would repeat a run of 2 tokens (seen 2 times)"


def test_numbers_that_look_equal_get_the_digits_that_tell_them_apart():
    r = told(np.log([0.89999, 0.05, 0.05001]), 2, top_p=0.9)
    assert sentence(r) == "top-p: mass before it 0.89999 < 0.9"
    assert sentence(told(np.log([1 - 3.1e-5, 3.1e-5]), 1, epsilon_cutoff=1e-4)) == (
        "epsilon: 3.1e-5 < 0.0001"
    )


def test_untouched_and_impossible_tokens():
    r = told([0.0, -np.inf], 0)
    assert (r.stage, r.kept, r.left) == ("", True, 1.0)
    r = told([0.0, -np.inf], 1, top_k=1)
    assert (r.stage, r.kept) == ("model", False)
    with pytest.raises(ValueError, match=r"token_id must be in \[0, 1\], got 2"):
        told([0.0, 1.0], 2)


def random_case(rng, dialect):
    size = int(rng.integers(2, 60))
    logits = rng.normal(0, 2, size).astype(np.float32)
    if rng.random() < 0.4:
        logits = np.round(logits)
    if rng.random() < 0.3:
        logits[rng.random(size) < 0.3] = -np.inf
        logits[0] = 0.0
    choices = {
        "temperature": float(rng.choice([0.0, 0.6, 1.7])),
        "top_k": int(rng.integers(1, 40)),
        "top_p": float(rng.uniform(0, 1)),
        "min_p": float(10 ** rng.uniform(-3, 0)),
        "typical_p": float(rng.uniform(0.05, 1)),
        "epsilon_cutoff": float(10 ** rng.uniform(-4, -0.1)),
        "eta_cutoff": float(10 ** rng.uniform(-4, -0.1)),
        "top_n_sigma": float(rng.uniform(0.2, 3)),
        "xtc": 0.6,
        "repetition_penalty": 1.4,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.3,
        "no_repeat_ngram": 2,
        "banned_tokens": (size - 1,),
    }
    renamed = {"xtc": "xtc_probability", "no_repeat_ngram": "no_repeat_ngram_size"}
    on = [n for n in DEFAULT_ORDER[dialect] if rng.random() < 0.35]
    fields = {renamed.get(n, n): choices[n] for n in on}
    params = SamplingParams(**fields, dialect=dialect, seed=int(rng.integers(99)))
    return logits, params, tuple(int(i) for i in rng.integers(0, size, 8))


def test_told_reasons_agree_with_what_happened():
    rng = np.random.default_rng(8)
    seen = set()
    for n in range(1200):
        logits, params, ids = random_case(rng, tuple(DEFAULT_ORDER)[n % 3])
        try:
            stages = shape(logits, params, ids, 3)
        except ValueError:
            continue
        removed = removed_by(stages)
        for token in rng.integers(0, len(logits), 4).tolist():
            story = reasons(stages, params, token, ids, 3)
            last = reason(stages, params, token, ids, 3)
            seen.add(last.text_key)
            assert last.kept == (removed[token] == "")
            if not last.kept:
                assert last.stage == removed[token] and story[-1] == last
                assert all(r.kept for r in story[:-1])
            for r in story:
                seen.add(r.text_key)
                for language in LANGUAGES:
                    assert not re.search(r"[{}]|nan|inf", sentence(r, language))
                if r.stage not in KEEPS or r.text_key in EXCEPTIONS:
                    continue
                agrees = KEEPS[r.stage](r.left, r.right) == r.kept
                assert agrees or np.isclose(r.left, r.right, rtol=1e-12), (r, params)
                if r.text_key != "reasons.top_k_tie_cut":
                    assert r.text_key.endswith("_kept" if r.kept else "_cut")
    assert seen == {key for key in entries() if key.startswith("reasons.")}


def test_every_sentence_is_used_and_every_used_one_exists():
    source = inspect.getsource(inspect.getmodule(reasons))
    used = set(re.findall(r'"(reasons\.\w+)"', source))
    assert used == {k for k in entries() if k.startswith("reasons.")}
