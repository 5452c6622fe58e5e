"""The accept-reject rule against algebra, hand-computed tables and transformers' own rule."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.utils import _speculative_sampling

import playground as pg
from playground.engines.acceptance import (
    BUG_ZOO,
    RULES,
    best_gamma,
    damages,
    exact_yield,
    expected_tokens,
    speedup,
)

P, Q = np.array([0.5, 0.5]), np.array([0.8, 0.2])


def random_law(rng, size, zeros=0.0):
    law = rng.dirichlet(np.full(size, 0.5))
    law[rng.random(size) < zeros] = 0
    law[rng.integers(size)] += 0.1
    return law / law.sum()


def shaped_pairs():
    """Pairs of raw logits with settings whose filters cut both laws differently."""
    rng = np.random.default_rng(3)
    for i in range(40):
        target = rng.normal(size=50) * 2
        yield (
            target,
            0.6 * target + rng.normal(size=50),
            (
                pg.SamplingParams(temperature=0.7),
                pg.SamplingParams(top_k=7),
                pg.SamplingParams(temperature=1.5, top_p=0.8),
                pg.SamplingParams(min_p=0.1),
                pg.SamplingParams(temperature=2.0, top_k=20, top_p=0.9, min_p=0.02),
            )[i % 5],
        )


def test_reported_example_has_its_known_numbers():
    np.testing.assert_allclose(pg.acceptance(P, Q), [0.625, 1.0])
    assert pg.overlap(P, Q) == pytest.approx(0.7)
    np.testing.assert_allclose(pg.residual(P, Q), [0.0, 1.0])
    np.testing.assert_allclose(pg.emitted_distribution(P, Q), P, atol=1e-15)


def test_reported_wrong_rules_have_their_known_laws():
    # By hand: 0.8 * 0.5 = 0.4 matches at 0, 0.2 * 0.5 = 0.1 at 1, the other half is drawn anew.
    np.testing.assert_allclose(
        pg.emitted_distribution(P, Q, "exact_match_redraw"), [0.65, 0.35], atol=1e-15
    )
    # 0.8 * 0.625 = 0.5 and 0.2 pass, 0.3 is drawn from the target.
    np.testing.assert_allclose(
        pg.emitted_distribution(P, Q, "resample_target"), [0.65, 0.35], atol=1e-15
    )
    # Id 0 is always proposed and passes with 0.625.
    np.testing.assert_allclose(
        pg.emitted_distribution(P, Q, "greedy_draft"), [0.625, 0.375], atol=1e-15
    )
    # The filtered draft only knows id 0: it passes with 0.625, else the residual gives id 1.
    np.testing.assert_allclose(
        pg.emitted_distribution(P, Q, "unfiltered_draft", proposal_probs=[1, 0]),
        [0.625, 0.375],
        atol=1e-15,
    )
    # u < 0.8 draws id 0, which passes if u < 0.625; u >= 0.8 draws id 1, which always passes.
    np.testing.assert_allclose(
        pg.emitted_distribution(P, Q, "shared_dice"), [0.625, 0.375], atol=1e-15
    )


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.floats(0, 0.9))
def test_exact_rule_emits_the_target_for_random_pairs(seed, size, zeros):
    rng = np.random.default_rng(seed)
    p, q = random_law(rng, size, zeros), random_law(rng, size, zeros)
    assert pg.total_variation(pg.emitted_distribution(p, q), p) < 1e-12
    assert pg.overlap(p, q) == pytest.approx(1 - pg.total_variation(p, q), abs=1e-12)
    assert (q * pg.acceptance(p, q)).sum() == pytest.approx(pg.overlap(p, q), abs=1e-12)


def test_exact_rule_emits_the_target_for_shaped_pairs():
    for target, draft, params in shaped_pairs():
        p, q = (np.exp(pg.shape(x, params)[-1].logprobs) for x in (target, draft))
        assert pg.total_variation(pg.emitted_distribution(p, q), p) < 1e-12


def test_every_known_bug_fails_the_exact_oracle_by_a_wide_margin():
    found = {rule: [] for rule in RULES}
    for target, draft, params in shaped_pairs():
        p, q = (np.exp(pg.shape(x, params)[-1].logprobs) for x in (target, draft))
        raw = np.exp(pg.shape(draft, params)[0].logprobs)
        for rule, damage in damages(p, q, raw).items():
            found[rule].append(damage)
    assert max(found["exact"]) < 1e-12
    for rule in BUG_ZOO:
        if rule != "accept_le":
            assert np.mean(found[rule]) > 0.03, rule
            assert max(found[rule]) > 0.15, rule
    assert 0 < max(found["accept_le"]) < 1e-12  # visible only at u = 0


def test_proposal_that_is_not_the_ratios_law_biases_the_exact_rule():
    assert pg.total_variation(pg.emitted_distribution(P, Q, "exact", [1.0, 0.0]), P) > 0.1


def test_unfiltered_draft_is_harmless_without_a_filter_and_needs_the_filtered_law():
    assert damages(P, Q)["unfiltered_draft"] == pytest.approx(0, abs=1e-15)
    with pytest.raises(ValueError, match="proposal_probs"):
        pg.emitted_distribution(P, Q, "unfiltered_draft")


def test_token_of_target_probability_zero_never_passes_but_under_accept_le():
    p, q = np.array([0.0, 1.0]), np.array([0.5, 0.5])
    assert pg.acceptance(p, q)[0] == 0
    assert pg.emitted_distribution(p, q)[0] == 0
    assert pg.emitted_distribution(p, q, "accept_le")[0] == 0.5 * 2.0**-53


def test_tokens_that_the_draft_lacks_come_by_the_residual_alone():
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.4, 0.0])
    np.testing.assert_allclose(pg.residual(p, q), [0, 0, 1])
    assert pg.acceptance(p, q)[2] == 1
    np.testing.assert_allclose(pg.emitted_distribution(p, q), p)


def test_equal_laws_overlap_wholly_and_have_a_proper_residual():
    np.testing.assert_array_equal(pg.acceptance(Q, Q), [1, 1])
    assert pg.overlap(Q, Q) == 1
    np.testing.assert_array_equal(pg.residual(Q, Q), Q)


def test_batches_give_what_their_rows_give():
    p, q = np.array([P, Q, P]), np.array([Q, P, P])
    for function in (pg.acceptance, pg.residual, pg.overlap, pg.total_variation):
        rows = [function(a, b) for a, b in zip(p, q, strict=True)]
        np.testing.assert_allclose(function(p, q), rows)


@pytest.mark.parametrize(
    ("p", "q"),
    [([0.5, 0.5], [1.0]), ([0.5, 0.4], Q), ([1.5, -0.5], Q), ([np.nan, 1.0], Q), (1.0, 1.0)],
)
def test_what_is_no_pair_of_laws_is_refused(p, q):
    for function in (pg.acceptance, pg.overlap, pg.residual, pg.emitted_distribution):
        with pytest.raises(ValueError, match="distribution"):
            function(p, q)


def test_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="rule must be one of exact, exact_match_redraw"):
        pg.emitted_distribution(P, Q, "greedy")


def test_decisions_and_residual_equal_transformers(monkeypatch):
    """Its _speculative_sampling gets our rounds' laws and dice and must take the same tokens."""
    rng = np.random.default_rng(0)
    size, seen = 12, {"recovered": 0, "bonus": 0}
    rows = {i: random_law(rng, size) for i in range(size)}
    target = pg.TableLM({**rows, None: rows[0]})
    mixed = {i: 0.6 * row + 0.4 * random_law(rng, size) for i, row in rows.items()}
    draft = pg.TableLM({**mixed, None: mixed[0]})
    for seed in range(60):
        params = pg.SamplingParams(seed=seed)
        one = next(pg_stream(target, draft, [seed % size], params))
        us = torch.ones(3)
        us[: one.n_tested] = torch.tensor(one.us)
        law = []
        monkeypatch.setattr(torch, "rand_like", lambda x, us=us: us[None].to(x))
        monkeypatch.setattr(
            torch,
            "multinomial",
            lambda probs, num_samples, law=law: law.append(probs) or torch.zeros(1, 1).long(),
        )
        _, n_matches = _speculative_sampling(
            torch.tensor([one.draft_ids]),
            torch.tensor(one.draft_probs).log()[None],
            3,
            torch.tensor(one.target_probs).log()[None],
        )
        assert int(n_matches) == one.n_accepted
        final = one.target_probs[one.n_accepted]
        if one.source == "recovered":
            final = pg.residual(final, one.draft_probs[one.n_accepted])
        np.testing.assert_allclose(law[0][0].numpy(), final, atol=1e-12)
        seen[one.source] += 1
    assert min(seen.values()) >= 10


def pg_stream(target, draft, ids, params):
    from playground.engines.speculative import stream

    return stream(target, draft, ids, pg.SpeculativeParams(gamma=3), params)


@pytest.mark.parametrize(("gamma", "tokens"), [(1, 1.80), (3, 2.95), (5, 3.69), (7, 4.16)])
def test_expected_tokens_have_the_published_values(gamma, tokens):
    assert expected_tokens(0.8, gamma) == pytest.approx(tokens, abs=0.005)
    assert expected_tokens(0.8, gamma) == pytest.approx((1 - 0.8 ** (gamma + 1)) / 0.2)


def test_expected_tokens_at_the_ends():
    assert expected_tokens(1.0, 5) == 6
    assert expected_tokens(0.0, 5) == 1
    assert expected_tokens(0.3, 0) == 1


def test_exact_yield_sums_the_products_of_the_path():
    assert exact_yield([0.5, 0.8, 0.25]) == pytest.approx(1 + 0.5 + 0.4 + 0.1)
    assert exact_yield([]) == 1
    assert exact_yield([0.8] * 5) == pytest.approx(expected_tokens(0.8, 5))


def test_speedup_and_best_gamma_follow_the_cost():
    assert speedup(0.8, 5, 0.1) == pytest.approx(expected_tokens(0.8, 5) / 1.5)
    assert speedup(0.8, 0, 0.1) == 1
    assert best_gamma(0.4, 0.35) == 1
    assert best_gamma(0.4, 0.6) == 0  # (1 + 0.4) / 1.6 < 1: it can't pay
    assert best_gamma(1.0, 0.0, limit=8) == 8
    assert best_gamma(0.0, 0.0) == 0
    brute = max(range(33), key=lambda g: (1 - 0.8 ** (g + 1)) / 0.2 / (0.05 * g + 1))
    assert best_gamma(0.8, 0.05) == brute
