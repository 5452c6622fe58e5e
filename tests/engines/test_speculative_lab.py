"""The lab: seeded runs agree with the exact law, chi-square with torch's incomplete gamma."""

import math

import numpy as np
import pytest
import torch

import playground as pg
from playground.engines.acceptance import BUG_ZOO, RULES
from playground.engines.losslessness import chi_square, chi_square_p_value, growing_sizes, simulate

SIZE = 20
RNG = np.random.default_rng(5)
TARGET, RAW = RNG.dirichlet(np.ones(SIZE)), RNG.dirichlet(np.ones(SIZE))
FILTERED = np.where(np.argsort(np.argsort(-RAW)) < 6, RAW, 0)
FILTERED /= FILTERED.sum()


def run(rule, n=20_000, seed=0):
    ratio = RAW if rule == "unfiltered_draft" else FILTERED
    return pg.losslessness(TARGET, ratio, rule, FILTERED, n=n, seed=seed)


@pytest.mark.parametrize("rule", RULES)
def test_runs_follow_the_rules_exact_law(rule):
    report = run(rule)
    statistic, dof = chi_square(report.counts, report.emitted)
    assert chi_square_p_value(statistic, dof) > 1e-3


def test_exact_rule_passes_at_every_seed_about_as_often_as_it_should():
    p_values = [run("exact", 5000, seed).p_value for seed in range(40)]
    assert min(p_values) > 1e-4
    assert 0.25 < np.mean(p_values) < 0.75
    assert run("exact").damage < 1e-12


@pytest.mark.parametrize("rule", [r for r in BUG_ZOO if r != "accept_le"])
def test_known_bugs_are_caught_by_a_wide_margin(rule):
    report = run(rule)
    assert report.p_value < 1e-12
    assert report.damage > 0.03
    assert report.tvs[-1] == pytest.approx(report.damage, abs=0.02)  # it doesn't shrink


def test_distance_of_a_lossless_rule_shrinks_like_its_noise():
    report = run("exact", 200_000)
    assert report.sizes[0] == 10 and report.sizes[-1] == 200_000
    assert report.tvs[-1] < report.tvs[0] / 50
    for tv, noise in zip(report.tvs, report.noise, strict=True):
        assert 0.4 * noise < tv < 2.2 * noise


def test_seed_decides_and_longer_runs_continue_shorter_ones():
    for rule in RULES:
        proposal = FILTERED if rule == "unfiltered_draft" else None
        long = simulate(TARGET, RAW, rule, proposal, n=500, seed=3)
        np.testing.assert_array_equal(
            long[:100], simulate(TARGET, RAW, rule, proposal, n=100, seed=3)
        )
        assert (long != simulate(TARGET, RAW, rule, proposal, n=500, seed=4)).any()


def test_counts_add_up_and_forbidden_tokens_never_come():
    target = np.array([0.0, 0.25, 0.75])
    report = pg.losslessness(target, [0.9, 0.1, 0.0], n=3000)
    assert report.counts.sum() == 3000
    assert report.counts[0] == 0


def test_p_value_equals_torchs_incomplete_gamma():
    for dof in (1, 2, 3, 7, 20, 100, 999, 20_000):
        for scale in (1e-3, 0.3, 0.8, 0.99, 1.0, 1.01, 1.2, 2.0, 5.0):
            statistic = dof * scale
            truth = torch.special.gammaincc(
                torch.tensor(dof / 2, dtype=torch.float64),
                torch.tensor(statistic / 2, dtype=torch.float64),
            ).item()
            assert chi_square_p_value(statistic, dof) == pytest.approx(truth, rel=1e-6, abs=1e-12)


def test_p_value_has_the_textbook_quantiles_and_ends():
    assert chi_square_p_value(3.841459, 1) == pytest.approx(0.05, abs=1e-7)
    assert chi_square_p_value(18.307038, 10) == pytest.approx(0.05, abs=1e-7)
    assert chi_square_p_value(0.0, 4) == 1
    assert chi_square_p_value(0.0, 0) == 1
    assert chi_square_p_value(math.inf, 4) == 0
    assert chi_square_p_value(1e6, 3) == 0


def test_chi_square_pools_rare_tokens():
    # Expected 1, 2, 3, 94: the three rare ones share a bin of 6.
    statistic, dof = chi_square(np.array([0, 4, 4, 92]), np.array([0.01, 0.02, 0.03, 0.94]))
    assert dof == 1
    assert statistic == pytest.approx((8 - 6) ** 2 / 6 + (92 - 94) ** 2 / 94)
    # A pool that is too small itself takes the next bin along.
    statistic, dof = chi_square(np.array([1, 9, 90]), np.array([0.01, 0.09, 0.9]))
    assert dof == 1
    assert statistic == pytest.approx(0)
    assert chi_square(np.array([3]), np.array([1.0])) == (0.0, 0)


def test_token_that_the_target_never_gives_is_damning():
    assert chi_square(np.array([1, 99]), np.array([0.0, 1.0]))[0] == math.inf
    report = pg.losslessness([0.0, 1.0], [0.5, 0.5], "exact", n=50)
    assert report.p_value == 1


def test_sizes_grow_to_n():
    assert growing_sizes(1000) == (10, 20, 50, 100, 200, 500, 1000)
    assert growing_sizes(7) == (7,)
    with pytest.raises(ValueError, match="n must be"):
        simulate(TARGET, RAW, n=0)
