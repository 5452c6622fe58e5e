"""Dice and drawing against hand-made tables, plain sorting and chi-square."""

import numpy as np
import pytest

import playground as pg
from playground.ranking import descending


def log(p):
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(p, np.float64))


def test_uniform_depends_on_seed_position_and_stream_alone():
    assert pg.uniform(7, 5) == pg.uniform(7, 5)
    values = {
        pg.uniform(seed, position, stream)
        for seed in range(4)
        for position in range(50)
        for stream in ("sample", "draft", "accept", "next")
    }
    assert len(values) == 4 * 50 * 4
    assert all(0 <= u < 1 for u in values)


def test_uniform_is_the_same_everywhere():
    """Pinned, so that permalinks draw the same tokens on every machine and in every release."""
    assert pg.uniform(0, 0) == 0.3876586378934347
    assert pg.uniform(7, 5, "accept") == 0.5704649093581128


def test_uniform_is_uniform():
    us = np.array([pg.uniform(3, i) for i in range(20_000)])
    counts = np.histogram(us, bins=20, range=(0, 1))[0]
    chi2 = ((counts - 1000) ** 2 / 1000).sum()
    assert chi2 < 43.8  # 19 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(us[:-1], us[1:])[0, 1]) < 0.03


def test_uniform_refuses_an_unknown_stream():
    with pytest.raises(ValueError, match="stream must be one of sample, .* got 'dice'"):
        pg.uniform(0, 0, "dice")


def test_draw_takes_the_first_token_whose_cumulative_sum_exceeds_u():
    p = log([0.125, 0.5, 0.25, 0.125])  # in order of probability: ids 1, 2, 0, 3
    us = [0.0, 0.4999, 0.5, 0.7499, 0.75, 0.8749, 0.875, 0.9999]
    np.testing.assert_array_equal(pg.draw(p, us), [1, 1, 2, 2, 0, 0, 3, 3])
    assert [pg.draw(p, u) for u in us] == [1, 1, 2, 2, 0, 0, 3, 3]


def test_draw_never_takes_a_masked_token():
    p = log([0.0, 0.6, 0.0, 0.4 - 1e-9])  # rounding leaves the sum below u
    assert pg.draw(p, 1 - 2**-53) == 3
    tiny = np.array([0.0, -800.0, -np.inf])  # exp(-800) is 0: possible on paper, never drawn
    assert pg.draw(tiny, 1 - 2**-53) == 0


def test_draw_refuses_what_has_no_answer():
    with pytest.raises(ValueError, match="no token survives"):
        pg.draw(np.full(4, -np.inf), 0.5)
    with pytest.raises(ValueError, match="no token survives"):
        pg.draw(np.array([0.0, np.nan]), 0.5)
    with pytest.raises(ValueError, match=r"u must be in \[0, 1\), got 1.0"):
        pg.draw(log([0.5, 0.5]), 1.0)


def test_draw_equals_the_full_sort_on_large_vocabularies():
    """The short cut through the first few hundred tokens decides as the full sort does."""
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.5, 3.0):
        logits = np.round(rng.normal(0, scale, 20_000), 1)  # many ties
        p = logits - np.log(np.exp(logits).sum())
        order = sorted(range(len(p)), key=lambda i: (-p[i], i))
        cdf = np.cumsum(np.exp(p[order]))
        us = rng.random(200)
        want = [order[int(np.argmax(cdf > u))] for u in us]
        np.testing.assert_array_equal(pg.draw(p, us), want)
        assert [pg.draw(p, u) for u in us[:20]] == want[:20]


def test_100000_draws_follow_the_distribution():
    """And none falls outside the 40 tokens that top-k left."""
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 4, 49_152)
    final = pg.shape(logits, pg.SamplingParams(top_k=40))[-1].logprobs
    kept = np.flatnonzero(final > -np.inf)
    drawn = pg.draw(final, rng.random(100_000))
    counts = np.bincount(drawn, minlength=len(logits))
    assert len(kept) == 40 and counts.sum() == counts[kept].sum()
    expected = 100_000 * np.exp(final[kept])
    big = expected >= 5
    chi2 = ((counts[kept][big] - expected[big]) ** 2 / expected[big]).sum()
    degrees = int(big.sum()) - 1
    assert degrees > 5
    assert chi2 < degrees + 4 * np.sqrt(2 * degrees)
    error = np.abs(counts[kept] - expected)
    assert (error <= 4 * np.sqrt(expected) + 1).all()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 9, 10, None])
def test_descending_breaks_ties_by_the_lowest_id(count):
    values = np.array([1.0, 3.0, 3.0, -np.inf, 2.0, 3.0, 1.0, -np.inf, 0.0, 2.0])
    want = sorted(range(10), key=lambda i: (-values[i], i))
    np.testing.assert_array_equal(descending(values, count), want[:count])


@pytest.mark.parametrize("count", [None, 300, 1999])
def test_descending_keeps_the_order_of_many_ties(count):
    rng = np.random.default_rng(5)
    values = rng.integers(-20, 20, 2000) / 8
    values[rng.random(2000) < 0.3] = -np.inf
    values[:500] = rng.normal(size=500)
    want = np.argsort(-values, kind="stable")[:count]
    np.testing.assert_array_equal(descending(values, count), want)
