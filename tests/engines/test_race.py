"""The race against a full sort, and draws against the law of drawing without replacement."""

from itertools import permutations

import numpy as np
import pytest

from playground.dice import draw, uniform
from playground.engines.race import best, drawn, log_normalisers


def by_full_sort(rows, offsets, count):
    sums = (rows.astype(np.float64) + np.asarray(offsets)[:, None]).ravel()
    alive = np.flatnonzero(sums > -np.inf)
    order = alive[np.lexsort((alive, -sums[alive]))][:count]
    return order, sums[order]


@pytest.mark.parametrize("width", [1, 3, 63, 64, 65, 1000, 4097])
@pytest.mark.parametrize("kind", ["plain", "ties", "masked", "all masked but few", "flat"])
def test_best_equals_a_full_sort(width, kind):
    rng = np.random.default_rng(width)
    for count in (1, 2, 7, 40, 10**6):
        beams = int(rng.integers(1, 6))
        rows = rng.normal(size=(beams, width)).astype(np.float32) * 5
        if kind == "ties":
            rows = np.round(rows)
        if kind == "masked":
            rows[rng.random(rows.shape) < 0.7] = -np.inf
        if kind == "all masked but few":
            rows[rng.random(rows.shape) < 0.995] = -np.inf
        if kind == "flat":
            rows[:] = 0.25
        offsets = np.round(rng.normal(size=beams) * 3, 0 if kind == "ties" else 3)
        flat, sums = best(rows, offsets, count)
        expected, expected_sums = by_full_sort(rows, offsets, count)
        assert flat.tolist() == expected.tolist()
        assert sums.tolist() == expected_sums.tolist()


def test_best_tells_apart_what_float32_sums_would_tie():
    # One unit in the last place of a logit of -20, seen through an offset of -1000.
    row = np.full((1, 256), -30, np.float32)
    row[0, 9] = -20
    row[0, 5] = np.nextafter(np.float32(-20), np.float32(-21))
    flat, _ = best(row, np.array([-1000.0]), 2)
    assert flat.tolist() == [9, 5]


def test_log_normalisers_equal_float64_and_refuse_rows_without_a_number():
    rows = np.random.default_rng(1).normal(size=(3, 49_152)).astype(np.float32) * 4
    wide = rows.astype(np.float64)
    assert log_normalisers(rows) == pytest.approx(np.log(np.exp(wide).sum(axis=1)), abs=1e-6)
    assert log_normalisers(np.float32([[1000, -np.inf, 1000]])) == pytest.approx(1000 + np.log(2))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="finite maximum"):
            log_normalisers(np.array([[0, bad]], np.float32))
    with pytest.raises(ValueError, match="got -inf"):
        log_normalisers(np.full((1, 4), -np.inf, np.float32))


def test_one_draw_from_one_beam_is_the_dice_of_sampling():
    logprobs = np.log(np.random.default_rng(2).dirichlet(np.ones(500)))
    for position in range(200):
        u = uniform(7, position)
        flat, _, us = drawn(logprobs[None], np.zeros(1), [u])
        assert flat.tolist() == [draw(logprobs, u)]
        assert us.tolist() == [u]


def test_draws_follow_the_law_without_replacement():
    # Exact: the chance of an unordered pair is the sum over both orders of p_a * p_b / (1 - p_a).
    p = np.array([0.5, 0.25, 0.15, 0.1])
    rows = np.log(p).reshape(2, 2)
    counts: dict[tuple[int, ...], int] = {}
    runs = 20_000
    for run in range(runs):
        flat, sums, _ = drawn(rows, np.zeros(2), [uniform(run, 0), uniform(run, 1)])
        assert (np.diff(sums) <= 0).all()
        counts[tuple(flat)] = counts.get(tuple(flat), 0) + 1
    law: dict[tuple[int, ...], float] = {}
    for a, b in permutations(range(4), 2):
        pair = (min(a, b), max(a, b))
        law[pair] = law.get(pair, 0) + p[a] * p[b] / (1 - p[a])
    assert sum(law.values()) == pytest.approx(1)
    assert set(counts) == set(law)
    for pair, chance in law.items():
        error = np.sqrt(chance * (1 - chance) / runs)
        assert abs(counts[pair] / runs - chance) < 4.5 * error


def test_draws_never_repeat_never_take_masked_and_run_out():
    rows = np.array([[0.0, -np.inf, -1.0], [-np.inf, -2000.0, -2.0]])
    flat, _, us = drawn(rows, np.zeros(2), [0.999999] * 6)
    assert sorted(flat.tolist()) == [0, 2, 5]  # -2000 has probability 0 beside 0
    assert len(us) == 3
    assert len(drawn(np.full((1, 3), -np.inf), np.zeros(1), [0.5])[0]) == 0
