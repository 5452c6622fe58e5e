"""One line per step, for the explanation and for screen readers."""

import math

import numpy as np
import pytest

from playground.charts.sentences import flip_sentence, mass_cut, sentence, stage_text
from playground.explain import ledger
from playground.payload import view
from playground.processors import shape
from playground.records import SamplingParams, Step
from playground.words import translator

T = translator("en")
P = np.log([0.5, 0.25, 0.125, 0.125])
CUT = SamplingParams(top_k=3, top_p=0.8, dialect="llama.cpp")  # exactly 3, then 2


def label(token_id):
    return f"·t{token_id}"


def see(params=CUT, u=0.7, taken=None):
    return view(P, shape(P, params), params, u, taken, label)


def step(source="sampled", final=1 / 3):
    logprob = math.log(final) if final else -math.inf
    return Step(1, 0.7, logprob, math.log(0.25), 2, source, CUT, 2, 1.2)


def test_the_past_has_what_was_kept_and_cut():
    assert sentence(step(), see(taken=1), T, label) == (
        "Drew “·t1”: probability 0.333 after the filters (0.250 in the model), rank 2. "
        "2 of 4 tokens were kept, 0.250 of the mass was cut."
    )


def test_after_a_step_comes_what_the_dice_say_next():
    assert sentence(step(), see(), T, label) == (
        "Drew “·t1”: probability 0.333 after the filters (0.250 in the model), rank 2. "
        "2 of 4 tokens were kept. "
        "Next: 2 of 4 tokens survive, 0.250 of the mass is cut; the dice point at “·t1” (0.333)."
    )
    assert sentence(None, see(), T).startswith("No token is taken yet. Next: 2 of 4")
    greedy = see(SamplingParams(temperature=0), None)
    assert sentence(None, greedy, T).endswith("Next: greedy will take “·t0” (0.500 in the model).")


def test_forced_and_greedy_steps_say_so():
    taken = see(taken=1)
    assert "You took “·t1”: 0.250 in the model, rank 2; 0.333 after" in sentence(
        step("forced"), taken, T, label
    )
    cut = sentence(step("forced", 0), taken, T, label)
    assert "You took “·t1”: 0.250 in the model, rank 2; the filters had cut it." in cut
    assert "Took the likeliest, “·t1”" in sentence(step("greedy"), taken, T, label)


def test_mass_cut_is_the_ledgers_sum():
    rows = ledger(shape(P, CUT))
    assert sum(row.removed for row in rows) == pytest.approx(0.25)
    assert mass_cut(see()) == pytest.approx(0.25)


def test_flips_are_grouped_by_token():
    found = {
        "temperature": [(0.468, 0, False), (0.956, 2, True)],
        "top_k": [(2, 0, False), (1500, 3, True)],
        "top_p": [(0.51721, 0, False)],
        "min_p": [],
    }
    assert flip_sentence(found, T, label).replace("\u00a0", " ") == (
        "the same dice draw ·t0 at T < 0.468, k ≤ 2, p < 0.517; ·t2 at T > 0.956; ·t3 at k ≥ 1,500"
    )
    near = {"temperature": [(1.99996, 0, False), (2.00003, 0, True)]}
    assert flip_sentence(near, T, label).replace("\u00a0", " ") == (
        "the same dice draw ·t0 at T < 1.99996, T > 2.00003"
    )
    only_zero = {"temperature": [(0.0, 0, False)]}
    assert "T\u00a0=\u00a00" in flip_sentence(only_zero, T, label)
    assert flip_sentence({}, T, label) == "the same dice draw it at any T, k, p and min-p"


def test_every_stage_has_a_name_in_both_languages():
    from playground.processors import DEFAULT_ORDER

    for language in ("en", "zh"):
        t = translator(language)
        for order in DEFAULT_ORDER.values():
            for name in order:
                assert stage_text(name, t, SamplingParams())
    assert stage_text("top_k", T, CUT) == "top-k 3"
    assert stage_text("top_k", T) == "top-k"
