"""Filters one by one against tables worked out by hand, and what the chain promises as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from playground.dice import draw, uniform
from playground.processors import DEFAULT_ORDER, Context, apply, chain, removed_by, shape
from playground.ranking import descending
from playground.records import SamplingParams

INF = np.inf
DIALECTS = tuple(DEFAULT_ORDER)


def logits_of(*p: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.array(p, np.float64))


def final(logits, ids=(), prompt_length=0, **settings) -> np.ndarray:
    stages = shape(np.asarray(logits), SamplingParams(**settings), ids, prompt_length)
    return np.exp(stages[-1].logprobs)


def close(actual, expected) -> None:
    np.testing.assert_allclose(actual, expected, atol=1e-5)


# --- truncations, by hand -------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("p", "expected"),
    [(0.0, [1, 0, 0, 0]), (0.6, [0.625, 0.375, 0, 0]), (0.999, [0.5, 0.3, 0.15, 0.05])],
)
def test_top_p_keeps_the_token_that_crosses(dialect, p, expected):
    close(final(logits_of(0.5, 0.3, 0.15, 0.05), top_p=p, dialect=dialect), expected)


def test_top_p_one_is_absent_and_changes_nothing():
    stages = shape(logits_of(0.5, 0.3, 0.15, 0.05), SamplingParams(top_p=1.0))
    assert [s.name for s in stages] == ["model"]
    close(np.exp(stages[-1].logprobs), [0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize(("p", "kept"), [(0.5, 1), (0.75, 2), (0.875, 3), (0.876, 4)])
def test_top_p_met_exactly_by_dyadic_probabilities_drops_the_next_token(p, kept):
    assert np.count_nonzero(final(logits_of(0.5, 0.25, 0.125, 0.125), top_p=p)) == kept


@pytest.mark.parametrize(("p", "ids"), [(0.5, [0, 1]), (0.500001, [0, 1, 2]), (0.25, [0])])
def test_top_p_takes_the_lowest_ids_of_a_tie(p, ids):
    assert np.flatnonzero(final(np.zeros(4, np.float32), top_p=p)).tolist() == ids


def test_top_k_ties_follow_the_dialect():
    logits = np.array([3, 2, 2, 1], np.float32)
    close(final(logits, top_k=2), [0.57612, 0.21194, 0.21194, 0])
    close(final(logits, top_k=2, dialect="llama.cpp"), [0.73106, 0.26894, 0, 0])
    close(final(logits, top_k=2, dialect="vllm"), [0.73106, 0.26894, 0, 0])
    assert removed_by(shape(logits, SamplingParams(top_k=2))).tolist() == ["", "", "", "top_k"]


def test_top_k_beyond_the_vocabulary_keeps_all():
    assert np.count_nonzero(final([1.0, 2.0, 3.0], top_k=50)) == 3


def test_min_p_before_and_after_temperature_differ_as_computed_by_hand():
    logits = logits_of(0.6, 0.3, 0.06, 0.04)
    settings = {"temperature": 2.0, "min_p": 0.12}
    close(final(logits, **settings), [0.43830, 0.30993, 0.13860, 0.11317])
    close(final(logits, order=("min_p", "temperature"), **settings), [0.58579, 0.41421, 0, 0])
    close(final(logits, dialect="llama.cpp", **settings), [0.58579, 0.41421, 0, 0])
    close(final(logits, min_p=1.0), [1, 0, 0, 0])


def test_min_p_keeps_equality():
    assert np.count_nonzero(final(logits_of(0.5, 0.25, 0.125, 0.125), min_p=0.25)) == 4
    assert np.count_nonzero(final(logits_of(0.5, 0.25, 0.125, 0.125), min_p=0.2500001)) == 2


def test_min_p_after_temperature_is_a_gap_between_logits():
    rng = np.random.default_rng(3)
    for temperature in (0.2, 0.7, 1.0, 1.9, 5.0):
        for ratio in (0.001, 0.05, 0.3, 0.9):
            z = rng.normal(0, 3, 400).astype(np.float32)
            kept = final(z, temperature=temperature, min_p=ratio) > 0
            expected = z.astype(np.float64) >= z.max() + temperature * np.log(ratio)
            np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize(
    ("mass", "expected"),
    [
        (0.15, [0, 1, 0, 0]),  # the likeliest token is rightly removed
        (0.5, [0.75, 0.25, 0, 0]),
        (0.85, [0.6, 0.2, 0.1, 0.1]),
        (0.95, [0.6, 0.2, 0.1, 0.1]),
        (0.999, [0.6, 0.2, 0.1, 0.1]),
        (1.0, [0.6, 0.2, 0.1, 0.1]),
        (0.0, [0, 1, 0, 0]),
    ],
)
def test_typical_keeps_what_is_nearest_the_entropy(mass, expected):
    close(final(logits_of(0.6, 0.2, 0.1, 0.1), typical_p=mass), expected)


def test_typical_in_llama_cpp_breaks_ties_by_id():
    kept = final(logits_of(0.6, 0.2, 0.1, 0.1), typical_p=0.85, dialect="llama.cpp") > 0
    assert kept.tolist() == [True, True, True, False]


def test_typical_in_llama_cpp_goes_past_a_mass_met_exactly():
    for dialect, kept in (("transformers", 4), ("llama.cpp", 3)):
        p = final(np.zeros(4), typical_p=0.5, dialect=dialect)
        assert np.flatnonzero(p).tolist() == list(range(kept))


def test_epsilon_and_eta_keep_the_likeliest():
    close(final(logits_of(0.6, 0.3, 0.07, 0.03), epsilon_cutoff=0.7), [1, 0, 0, 0])
    close(final(logits_of(0.6, 0.3, 0.07, 0.03), eta_cutoff=0.9), [1, 0, 0, 0])  # eta = .3637
    close(final(logits_of(0.5, 0.5), epsilon_cutoff=0.7), [0.5, 0.5])  # both are the likeliest


def test_eta_by_hand():
    # H of [.5, .25, .125, .125] is 1.75 ln 2; eta = min(e, sqrt(e) 2^-1.75); e = .25 -> .14865
    close(final(logits_of(0.5, 0.25, 0.125, 0.125), eta_cutoff=0.25), [2 / 3, 1 / 3, 0, 0])
    # e = .01: sqrt(.01) 2^-1.75 = .02973 > .01, so e itself decides
    close(final(logits_of(0.5, 0.25, 0.24, 0.01), eta_cutoff=0.011), np.array([50, 25, 24, 0]) / 99)


def test_top_n_sigma_does_not_depend_on_the_temperature():
    z = np.array([4, 3, 2, -1, -8], np.float32)  # mean 0, deviation sqrt(94 / 5) = 4.336
    for temperature in (0.5, 1.0, 3.0):
        kept = final(z, top_n_sigma=1.0, temperature=temperature) > 0
        assert kept.tolist() == [True, True, True, False, False]
    assert (final([4, 3, 2, -1, -8.0], top_n_sigma=0.2) > 0).tolist() == [True] + [False] * 4


def test_top_n_sigma_skips_what_is_already_masked():
    assert (final([4, 3, 2, -1, -8, -INF], top_n_sigma=1.0) > 0).tolist() == [True] * 3 + [
        False
    ] * 3


def test_xtc_removes_the_top_choices_but_the_last():
    logits = logits_of(0.1, 0.4, 0.3, 0.2)
    close(final(logits, xtc_probability=1.0, xtc_threshold=0.1), [1, 0, 0, 0])
    close(final(logits, xtc_probability=1.0, xtc_threshold=0.2), [1 / 3, 0, 0, 2 / 3])
    close(final(logits, xtc_probability=1.0, xtc_threshold=0.35), [0.1, 0.4, 0.3, 0.2])
    close(final(logits, xtc_probability=1.0, xtc_threshold=0.6), [0.1, 0.4, 0.3, 0.2])
    # of equal ones the highest id is the last
    close(final(np.zeros(4), xtc_probability=1.0, xtc_threshold=0.25), [0, 0, 0, 1])


def test_xtc_coin_falls_by_seed_and_position_as_often_as_asked():
    logits = logits_of(0.1, 0.4, 0.3, 0.2)
    ran = []
    for position in range(400):
        params = SamplingParams(xtc_probability=0.3, seed=11)
        stages = shape(logits, params, ids=(1,) * position)
        again = shape(logits, params, ids=(2,) * position)  # the ids themselves don't matter
        np.testing.assert_array_equal(stages[-1].logprobs, again[-1].logprobs)
        ran.append(stages[-1].logprobs[1] == -INF)
        assert ran[-1] == (uniform(11, position, "xtc") <= 0.3)
        assert [s.name for s in stages] == ["model", "xtc"]
    assert 80 < sum(ran) < 160  # 120 expected, 4 deviations of 9.2


# --- temperature ----------------------------------------------------------------------------------


def test_a_tiny_temperature_on_half_precision_logits_stays_finite():
    logits = np.array([1000, 999, 0], np.float16)
    close(final(logits, temperature=1e-4), [1, 0, 0])
    close(final(logits, temperature=5e-324), [1, 0, 0])
    close(final(-logits, temperature=1e-310), [0, 0, 1])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_temperature_zero_is_greedy_with_the_lowest_id(dialect):
    stages = shape(np.array([2, 2, 1.0]), SamplingParams(temperature=0, dialect=dialect))
    close(np.exp(stages[-1].logprobs), [1, 0, 0])
    assert [s.name for s in stages] == ["model", "temperature"]


def test_temperature_zero_sees_the_penalties_and_ignores_the_truncations():
    logits = np.array([2, 1.9, 0.0])
    close(final(logits, ids=(0,), temperature=0, presence_penalty=0.5, typical_p=0.01), [0, 1, 0])


def test_an_integer_temperature_is_the_same_as_a_float():
    logits = np.array([1.0, 2.0, 3.0], np.float32)
    expected = np.exp(logits / 2) / np.exp(logits / 2).sum()
    close(final(logits, temperature=2), expected)
    np.testing.assert_array_equal(final(logits, temperature=2), final(logits, temperature=2.0))


def test_vllm_takes_temperatures_below_a_hundred_thousandth_as_greedy():
    logits = np.array([1.0, 1.0 - 1e-6, 0.0])
    close(final(logits, temperature=9e-6, dialect="vllm"), [1, 0, 0])
    assert final(logits, temperature=9e-6)[1] > 0.4


# --- penalties and bans ---------------------------------------------------------------------------


def test_repetition_penalty_lowers_both_signs():
    logits = np.array([2, -2, 0.5])
    close(final(logits), [0.80551, 0.01475, 0.17973])
    close(final(logits, ids=(0, 1, 1), repetition_penalty=1.5), [0.69074, 0.00907, 0.30019])
    scores = apply(logits, SamplingParams(repetition_penalty=1.5), (0, 1, 1))
    close(scores, [4 / 3, -3, 0.5])


def test_presence_counts_once_and_frequency_each_time():
    ids = (0, 0, 0, 1)
    close(apply(np.zeros(3), SamplingParams(presence_penalty=0.5), ids), [-0.5, -0.5, 0])
    close(apply(np.zeros(3), SamplingParams(frequency_penalty=0.5), ids), [-1.5, -0.5, 0])
    close(apply(np.zeros(3), SamplingParams(frequency_penalty=-0.5), ids), [1.5, 0.5, 0])


@pytest.mark.parametrize("name", ["repetition_penalty", "presence_penalty", "frequency_penalty"])
def test_penalties_leave_the_prompt_alone_when_asked(name):
    logits = np.array([1.0, 1.0, 1.0])
    params = SamplingParams(**{name: 2.0}, penalize_prompt=False)
    scores = apply(logits, params, (0, 1), prompt_length=1)
    assert (scores < 1).tolist() == [False, True, False]
    scores = apply(logits, params.replace(penalize_prompt=True), (0, 1), prompt_length=1)
    assert (scores < 1).tolist() == [True, True, False]


def test_vllm_presence_and_frequency_never_count_the_prompt():
    params = SamplingParams(presence_penalty=1.0, frequency_penalty=0.5, dialect="vllm")
    close(apply(np.zeros(3), params, (0, 1, 1), prompt_length=1), [0, -2, 0])
    params = SamplingParams(repetition_penalty=2.0, dialect="vllm")
    close(apply(np.ones(3), params, (0, 1, 1), prompt_length=1), [0.5, 0.5, 1])


def test_ids_beyond_the_vocabulary_are_passed_over():
    params = SamplingParams(repetition_penalty=2.0, frequency_penalty=1.0, no_repeat_ngram_size=1)
    close(apply(np.ones(2), params, (7, 0)), [-INF, 1])


def test_no_repeat_ngram_masks_what_would_repeat():
    seen = (5, 1, 2, 3, 1, 2)  # after "1 2" came 3
    params = SamplingParams(no_repeat_ngram_size=3)
    assert np.flatnonzero(apply(np.zeros(6), params, seen) == -INF).tolist() == [3]
    params = SamplingParams(no_repeat_ngram_size=2)  # after "2" came 3
    assert np.flatnonzero(apply(np.zeros(6), params, seen) == -INF).tolist() == [3]
    params = SamplingParams(no_repeat_ngram_size=1)
    assert np.flatnonzero(apply(np.zeros(6), params, seen) == -INF).tolist() == [1, 2, 3, 5]
    params = SamplingParams(no_repeat_ngram_size=7)
    assert (apply(np.zeros(6), params, seen) == 0).all()


def test_banned_tokens_go_whatever_their_probability():
    close(final(logits_of(0.5, 0.3, 0.2), banned_tokens=(0,)), [0, 0.6, 0.4])
    with pytest.raises(ValueError, match=r"banned_tokens must be in \[0, 2\], got 3"):
        final(logits_of(0.5, 0.3, 0.2), banned_tokens=(3,))


# --- nothing survives -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "settings"),
    [
        ([1, np.nan, 2], {}),
        ([-INF, -INF], {}),
        ([1, INF], {}),
        ([1.0, 2.0], {"banned_tokens": (0, 1)}),
        ([1.0, 2.0], {"no_repeat_ngram_size": 1}),
        ([1.0, -INF], {"banned_tokens": (0,), "top_p": 0.5}),
    ],
)
def test_where_nothing_survives_it_says_so(logits, settings):
    with pytest.raises(ValueError, match="no token survives"):
        final(logits, ids=(0, 1), **settings)


@pytest.mark.parametrize("logits", [np.zeros((2, 3)), np.zeros(0), 1.0, ["a"], [1 + 2j]])
def test_other_shapes_and_kinds_are_refused(logits):
    with pytest.raises(ValueError, match="logits must be"):
        shape(np.asarray(logits), SamplingParams())


def test_negative_ids_are_refused():
    with pytest.raises(ValueError, match="token ids must be >= 0, got -1"):
        shape(np.zeros(3), SamplingParams(), ids=(-1,))


# --- large vocabularies, half precision, draws ----------------------------------------------------

V = 151_936


@pytest.mark.parametrize(("p", "kept", "within"), [(0.95, 136_743, 5), (0.6, 30_388, 10)])
def test_top_p_over_150_000_tokens_counts_in_float64(p, kept, within):
    logits = np.full(V, np.log(0.5 / (V - 1)), np.float32)
    logits[0] = np.log(0.5)
    assert abs(np.count_nonzero(final(logits, top_p=p)) - kept) <= within


@pytest.mark.parametrize(("p", "kept"), [(0.95, 136_725), (0.6, 30_243)])
def test_top_p_of_bfloat16_logits_is_the_nucleus_of_the_rounded_ones(p, kept):
    logits = torch.full((V,), float(np.log(0.5 / (V - 1))))
    logits[0] = float(np.log(0.5))
    rounded = logits.to(torch.bfloat16).float().numpy()
    assert np.count_nonzero(final(rounded, top_p=p)) == kept


def test_float16_logits_are_not_summed_in_float16():
    logits = np.full(V, np.log(0.5 / (V - 1)), np.float16)
    logits[0] = np.log(0.5)
    exact = np.exp(logits.astype(np.float64))
    exact /= exact.sum()
    before = np.concatenate([[0], np.cumsum(exact)[:-1]])  # ids are in order of probability
    assert np.count_nonzero(final(logits, top_p=0.95)) == np.count_nonzero(before < 0.95)


def test_a_hundred_thousand_draws_stay_inside_the_kept_tokens():
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 2, 49_152).astype(np.float32)
    stages = shape(logits, SamplingParams(top_k=40))
    ids = draw(stages[-1].logprobs, rng.random(100_000))
    counts = np.bincount(ids, minlength=49_152)
    top = descending(logits, 40)
    assert counts.sum() == counts[top].sum() == 100_000
    p = np.exp(stages[-1].logprobs[top])
    error = np.sqrt(p * (1 - p) * 100_000)
    assert (np.abs(counts[top] - p * 100_000) < 4 * error).all()


# --- the chain ------------------------------------------------------------------------------------


def test_all_off_is_the_softmax_of_the_logits():
    z = np.random.default_rng(0).normal(0, 3, 500).astype(np.float32)
    stages = shape(z, SamplingParams(), ids=(1, 2, 3))
    assert [s.name for s in stages] == ["model"]
    exact = torch.softmax(torch.from_numpy(z).double(), -1).numpy()
    np.testing.assert_allclose(np.exp(stages[0].logprobs), exact, rtol=1e-13)
    assert abs(np.exp(stages[0].logprobs).sum() - 1) < 1e-13
    assert stages[0].logprobs.dtype == np.float64


def test_the_model_stage_does_not_move_with_the_settings():
    z = np.random.default_rng(1).normal(0, 3, 100).astype(np.float32)
    cold, hot = (shape(z, SamplingParams(temperature=t, top_k=5)) for t in (0.5, 2.0))
    np.testing.assert_array_equal(cold[0].logprobs, hot[0].logprobs)
    assert cold[-1].logprobs[z.argmax()] > hot[-1].logprobs[z.argmax()] + 0.01


EVERY = {
    "repetition_penalty": 1.2,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "no_repeat_ngram_size": 2,
    "banned_tokens": (3,),
    "temperature": 0.9,
    "top_n_sigma": 3.0,
    "top_k": 60,
    "top_p": 0.95,
    "min_p": 0.01,
    "typical_p": 0.95,
    "epsilon_cutoff": 1e-3,
    "eta_cutoff": 1e-3,
    "xtc_probability": 1.0,
    "xtc_threshold": 0.2,
}


def test_every_stage_is_normalised_named_and_only_ever_masks_more():
    z = np.random.default_rng(2).normal(0, 3, 100).astype(np.float32)
    stages = shape(z, SamplingParams(**EVERY), ids=(1, 2, 1), prompt_length=2)
    assert tuple(s.name for s in stages) == ("model", *DEFAULT_ORDER["transformers"])
    for earlier, stage in zip(stages, stages[1:], strict=False):
        assert abs(np.exp(stage.logprobs).sum() - 1) < 1e-12
        assert (stage.logprobs[earlier.logprobs == -INF] == -INF).all()
    removed = removed_by(stages)
    np.testing.assert_array_equal(removed == "", stages[-1].logprobs > -INF)
    assert removed[2] == "no_repeat_ngram" and removed[3] == "banned_tokens"
    for stage, earlier in zip(stages[1:], stages, strict=False):
        gone = (earlier.logprobs > -INF) & (stage.logprobs == -INF)
        assert (removed[gone] == stage.name).all()


def test_removed_by_tells_the_models_own_zeros_apart():
    stages = shape(np.array([1.0, -INF, 0.0, 0.5]), SamplingParams(top_k=2))
    assert removed_by(stages).tolist() == ["", "model", "top_k", ""]


def test_filters_never_write_to_their_input():
    rng = np.random.default_rng(4)
    for dialect in DIALECTS:
        names = DEFAULT_ORDER[dialect]
        fields = {k: v for k, v in EVERY.items() if k in names or k == "xtc_threshold"}
        for z in (rng.normal(0, 3, 50), np.where(rng.random(50) < 0.5, -INF, rng.normal(0, 3, 50))):
            z[7] = 2.0
            kept = z.copy()
            z.flags.writeable = False
            params = SamplingParams(**fields, dialect=dialect)
            for processor in chain(params):
                processor(z, Context.of((1, 2, 1), 1))
            shape(z, params, (1, 2, 1), 1)
            apply(z, params, (1, 2, 1), 1)
            np.testing.assert_array_equal(z, kept)


def test_stages_cannot_be_written_to():
    stages = shape(np.zeros(3), SamplingParams(top_p=0.5))
    with pytest.raises(ValueError, match="read-only"):
        stages[-1].logprobs[0] = 0


def test_beam_scores_go_through_the_same_filters_without_being_renormalised():
    rng = np.random.default_rng(6)
    z = rng.normal(0, 3, (3, 40))
    scores = z - np.log(np.exp(z).sum(-1, keepdims=True))
    params = SamplingParams(
        repetition_penalty=1.3, no_repeat_ngram_size=2, temperature=0.8, top_k=9
    )
    ids = [(1, 2, 1), (4, 4), ()]
    out = apply(scores, params, ids, prompt_length=1)
    assert out.shape == (3, 40) and out.dtype == np.float64
    for row, given, prefix in zip(out, scores, ids, strict=True):
        np.testing.assert_array_equal(row, apply(given, params, prefix, 1))
        stages = shape(given, params, prefix, 1)
        np.testing.assert_array_equal(row == -INF, stages[-1].logprobs == -INF)
        kept = row > -INF
        shift = row[kept] - stages[-1].logprobs[kept]
        np.testing.assert_allclose(shift, shift[0], atol=1e-12)
    top = scores[1].argmax()
    assert out[1][top] == pytest.approx(scores[1][top] / 0.8)


def test_a_dead_beam_stays_dead_and_the_others_live():
    scores = np.array([[-INF, -INF], [-1.0, -0.5]])
    out = apply(scores, SamplingParams(temperature=0.5, top_p=0.5), [(), ()])
    np.testing.assert_array_equal(out, [[-INF, -INF], [-INF, -1.0]])
    out = apply(scores, SamplingParams(**EVERY | {"banned_tokens": (0, 1)}), [(), ()])
    assert (out == -INF).all()


def test_apply_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="ids must be 2 sequences, one per row, got 1"):
        apply(np.zeros((2, 3)), SamplingParams(), [(1,)])
    with pytest.raises(ValueError, match="got NaN"):
        apply(np.array([np.nan, 1.0]), SamplingParams())
    with pytest.raises(ValueError, match=r"scores must be \[V\] or \[K, V\]"):
        apply(np.zeros((1, 1, 2)), SamplingParams())


# --- dialects and order ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "settings"),
    [
        ("vllm", {"typical_p": 0.9}),
        ("vllm", {"xtc_probability": 0.5}),
        ("vllm", {"no_repeat_ngram_size": 2}),
        ("llama.cpp", {"epsilon_cutoff": 0.1}),
        ("llama.cpp", {"eta_cutoff": 0.1}),
    ],
)
def test_a_filter_that_a_dialect_lacks_is_refused_by_name(dialect, settings):
    (field,) = settings
    with pytest.raises(ValueError, match=f"{field} must be .* in the dialect {dialect}"):
        chain(SamplingParams(dialect=dialect, **settings))


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (("top_p", "top_q"), "got 'top_q'"),
        (("top_p", "top_p"), "got 'top_p' twice"),
        (("top_k", "temperature"), "got none of 'top_p'"),
        ((), "got none of 'top_p'"),
    ],
)
def test_a_wrong_order_is_refused(order, said):
    with pytest.raises(ValueError, match=said):
        chain(SamplingParams(top_p=0.5, order=order))


def test_a_custom_order_may_name_filters_that_are_off():
    params = SamplingParams(top_p=0.5, temperature=2.0, order=("top_k", "top_p", "temperature"))
    assert [p.name for p in chain(params)] == ["top_p", "temperature"]


def test_processors_are_frozen_data():
    (processor,) = chain(SamplingParams(top_k=2))
    with pytest.raises(AttributeError):
        processor.name = "other"
