"""Figures, ledger and flips against hand-made tables, brute force and the sketch's numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground import explain
from playground.dice import draw, uniform
from playground.processors import shape
from playground.records import SamplingParams

LN2 = np.log(2)
DYADIC = np.log([0.5, 0.25, 0.125, 0.125])
# The sketch: a village in the heart of a ...
VILLAGE = "Once upon a time, there was a small village nestled in the heart of a"
SKETCH = SamplingParams(temperature=0.8, top_k=50, top_p=0.9, min_p=0.05, seed=7)


def drawn(logits, params, u, ids=(), prompt_length=0):
    return draw(shape(logits, params, ids, prompt_length)[-1].logprobs, u)


def test_figures_of_dyadic_probabilities():
    f = explain.figures(shape(DYADIC, SamplingParams(top_k=2)))
    # Surprisals 1, 2, 3, 3 bits: mean 1.75, mean square 3.75. After top-k 2: [2/3, 1/3].
    assert f.entropy == pytest.approx(1.75 * LN2)
    assert f.varentropy == pytest.approx((3.75 - 1.75**2) * LN2**2)
    assert f.perplexity == pytest.approx(2**1.75)
    assert f.entropy_final == pytest.approx(np.log(3) - 2 / 3 * LN2)
    assert f.perplexity_final == pytest.approx(3 / 2 ** (2 / 3))
    assert (f.top1_id, f.top1) == (0, pytest.approx(0.5))
    assert f.top1_final == pytest.approx(2 / 3)
    assert (f.vocab_size, f.kept, f.nucleus, f.nucleus_final) == (4, 2, 4, 2)
    assert f.mass_cut == pytest.approx(0.25)


def test_nucleus_counts_the_token_that_crosses_but_not_one_more():
    logprobs = np.log([0.5, 0.25, 0.125, 0.125])
    sizes = [explain.nucleus_size(logprobs, m) for m in (0.3, 0.5, 0.51, 0.75, 0.875, 0.876, 1.0)]
    assert sizes == [1, 1, 2, 2, 3, 4, 4]
    assert explain.nucleus_size(np.array([-np.inf, 0.0]), 0.9) == 1


def test_a_certain_token_has_no_entropy():
    f = explain.figures(shape(np.array([0.0, -np.inf, -np.inf]), SamplingParams()))
    assert (f.entropy, f.varentropy, f.perplexity, f.kept, f.nucleus) == (0, 0, 1, 1, 1)


def test_ledger_adds_up():
    # top-k 3 takes 1/8; of what is left (4/7, 2/7, 1/7) top-p 0.8 takes the last, 1/7 of 7/8.
    # Of those 3/4, in shares of 2/3 and 1/3, min-p 0.6 takes the second.
    params = SamplingParams(top_k=3, top_p=0.8, min_p=0.6, dialect="llama.cpp")
    rows = explain.ledger(shape(DYADIC, params))
    names = [(r.name, r.kept) for r in rows]
    assert names == [("model", 4), ("top_k", 3), ("top_p", 2), ("min_p", 1)]
    assert [r.share for r in rows] == pytest.approx([0, 1 / 8, 1 / 7, 1 / 3])
    assert [r.removed for r in rows] == pytest.approx([0, 1 / 8, 1 / 8, 1 / 4])
    assert rows[2].entropy == pytest.approx(np.log(3) - 2 / 3 * LN2)


def test_what_if_reads_the_same_dice_under_other_settings():
    assert explain.what_if(DYADIC, SamplingParams(), 0.7).token_id == 1
    other = explain.what_if(DYADIC, SamplingParams(), 0.7, top_k=1)
    assert (other.token_id, other.logprob, other.kept) == (0, 0, 1)
    assert other.params == SamplingParams(top_k=1)
    hot = explain.what_if(DYADIC, SamplingParams(), 0.7, temperature=1e4)
    assert (hot.token_id, hot.kept) == (2, 4)


def test_flips_of_two_tokens_are_where_algebra_says():
    # p0 = 1 / (1 + 3 ** (-1 / T)) falls below u = 0.6 at T = ln 3 / ln 1.5.
    logits = np.log([0.75, 0.25])
    (flip,) = explain.flip_points(logits, SamplingParams(), 0.6)
    assert flip == (pytest.approx(np.log(3) / np.log(1.5), abs=1e-5), 1, True)
    # 0.8 draws token 1; it is gone below p = 0.75, at k = 1, and above min-p = 1 / 3.
    found = explain.flips(logits, SamplingParams(), 0.8)
    assert found["top_p"] == ((pytest.approx(0.75, abs=1e-5), 0, False),)
    assert found["top_k"] == ((1, 0, False),)
    assert found["min_p"] == ((pytest.approx(1 / 3, abs=1e-5), 0, True),)
    assert found["temperature"] == ((pytest.approx(np.log(3) / np.log(4), abs=1e-5), 0, False),)


def test_dice_that_meet_a_sum_exactly_draw_the_next_token():
    assert drawn(DYADIC, SamplingParams(), 0.5) == 1
    found = explain.flip_points(DYADIC, SamplingParams(), 0.5, field="top_k")
    assert found == ((2, 0, False),)  # 2/3 of two tokens


def test_flip_limits_and_refusals():
    logits = np.log([0.75, 0.25])
    assert explain.flip_points(logits, SamplingParams(), 0.6, limits=(0, 2)) == ()
    with pytest.raises(ValueError, match="field must be one of temperature"):
        explain.flip_points(logits, SamplingParams(), 0.6, field="typical_p")
    # A custom order that leaves min-p out can't have it on.
    order = SamplingParams(top_k=2, order=("top_k",))
    assert explain.flip_points(logits, order, 0.8, field="min_p") == ()
    assert explain.flip_points(logits, order, 0.8, field="top_k") == ((1, 0, False),)


ORDERS = st.sampled_from(
    [
        None,
        ("temperature", "top_k", "top_p", "min_p", "repetition_penalty"),
        ("min_p", "top_p", "repetition_penalty", "top_k", "temperature"),
        ("repetition_penalty", "top_p", "temperature", "min_p", "top_k"),
    ]
)
PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.6, 4.0]),
    top_k=st.sampled_from([0, 1, 3, 12, 50]),
    top_p=st.sampled_from([1.0, 0.95, 0.6, 0.2]),
    min_p=st.sampled_from([0.0, 0.02, 0.2, 0.7]),
    repetition_penalty=st.sampled_from([1.0, 1.4]),
    dialect=st.sampled_from(["transformers", "vllm", "llama.cpp"]),
    order=ORDERS,
)


def test_a_filter_that_a_custom_order_puts_before_a_penalty():
    """Off now, top-p would run before the penalty: the tokens' order isn't that of the draw."""
    logits = np.random.default_rng(84).normal(0, 2.5, 60).astype(np.float32)
    order = ("min_p", "top_p", "repetition_penalty", "top_k", "temperature")
    params = SamplingParams(temperature=0.3, repetition_penalty=1.4, order=order)
    found = explain.flip_points(logits, params, 0.988, [1, 2, 3], 1, "top_p")
    assert found
    for flip in found:
        assert drawn(logits, params.replace(top_p=flip.value), 0.988, [1, 2, 3], 1) == flip.token_id


@settings(max_examples=40, deadline=None)
@given(params=PARAMS, seed=st.integers(0, 10**6), ties=st.booleans())
def test_flips_agree_with_the_real_filters_everywhere(params, seed, ties):
    """Nothing changes before a flip, and the flip is real: checked on a grid of true draws."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2.5, 60).astype(np.float32)
    if ties:
        logits = np.round(logits)
    u, ids = uniform(seed, 0), [1, 2, 3]
    now = drawn(logits, params, u, ids, 1)
    for field, found in explain.flips(logits, params, u, ids, 1).items():
        low, high = explain.RANGES[field]
        value = getattr(params, field)
        if field == "top_k":
            high, value = len(logits), value or len(logits)
        for flip in found:
            assert drawn(logits, params.replace(**{field: flip.value}), u, ids, 1) == flip.token_id
            assert flip.token_id != now
            assert flip.above == (flip.value > value)
        if params.order and params.order.index("repetition_penalty"):
            continue  # penalties after other filters: searched on a grid, may miss
        below = max((f.value for f in found if f.value < value), default=low)
        above = min((f.value for f in found if f.value > value), default=high)
        sides = [flip.above for flip in found]
        start, end = below + 2e-5 * (False in sides), above - 2e-5 * (True in sides)
        # Flips this near leave nothing between them.
        same = np.linspace(start, end, 15) if start < end else ()
        if field == "top_k":
            same = range(below + (below in [f.value for f in found]), above)
        for v in same:
            v = int(v) if field == "top_k" else float(v)
            assert drawn(logits, params.replace(**{field: v}), u, ids, 1) == now, (field, v)


@pytest.mark.parametrize("change", [{"typical_p": 0.8}, {"eta_cutoff": 0.02}, {"top_n_sigma": 1.0}])
def test_flips_beside_other_filters_are_real(change):
    logits = np.random.default_rng(3).normal(0, 2.5, 200)
    params = SamplingParams(temperature=0.9, top_p=0.97, **change)
    count = 0
    for u in np.arange(0.05, 1, 0.1):
        now = drawn(logits, params, u)
        for field, found in explain.flips(logits, params, u).items():
            for flip in found:
                count += 1
                assert drawn(logits, params.replace(**{field: flip.value}), u) == flip.token_id
                assert flip.token_id != now
    assert count > 3


def test_golden_paris(default_lm):
    ids = default_lm.encode("The capital of France is")
    f = explain.figures(shape(default_lm.logits(ids)[-1], SamplingParams()))
    assert f.entropy == pytest.approx(1.48117, abs=2e-4)
    assert (f.top1_id, f.top1) == (7042, pytest.approx(0.772532, abs=1e-4))
    assert (f.kept, f.vocab_size, f.mass_cut) == (49152, 49152, 0)


def test_the_sketch_of_the_page(default_lm):
    ids = default_lm.encode(VILLAGE)
    logits = default_lm.logits(ids)[-1]
    stages = shape(logits, SKETCH, ids, 8)
    f = explain.figures(stages)
    assert [round(x, 3) for x in (f.entropy, f.entropy_final, f.top1, f.mass_cut)] == [
        3.186,
        1.660,
        0.218,
        0.144,
    ]
    assert (f.kept, round(f.perplexity, 1)) == (8, 24.2)
    rows = explain.ledger(stages)
    assert [r.kept for r in rows] == [49152, 49152, 50, 10, 8]
    assert [round(r.removed, 4) for r in rows[2:]] == [0.0202, 0.0956, 0.0286]
    # Its dice, 0.512 on the page, lie between 0.51173 and 0.51188; the flips are sharp.
    below, above = explain.flip_points(logits, SKETCH, 0.5118, ids, 8)
    assert (round(below.value, 3), default_lm.label(below.token_id)) == (0.468, "·vast")
    assert (round(above.value, 3), default_lm.label(above.token_id)) == (0.956, "·mystical")
