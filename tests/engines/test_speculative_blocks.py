"""Every way that a block can end, widths that differ, pairs and lengths that are refused."""

import numpy as np
import pytest

import playground as pg
from playground.engines.losslessness import chi_square, chi_square_p_value
from playground.engines.pairs import check_pair
from playground.engines.speculative import step, stream
from tests.engines.toys import GREEDY, certain, near_table, random_table


def test_eos_inside_a_block_ends_the_run_and_nothing_after_it_is_drafted_or_counted():
    lm = certain(6, 0, 1, 2, 3, 4, eos_ids=(2,))
    for params in (pg.SamplingParams(), GREEDY):
        run = pg.speculative_decode(lm, lm, [0], pg.SpeculativeParams(4), params, 20)
        assert run.ids == (1, 2)
        assert run.stop == "eos"
        (one,) = run.rounds
        assert (one.n_accepted, one.n_tested, one.next_id, one.source) == (2, 2, None, "")
        assert one.draft_ids == (1, 2)
        assert run.sources == ("accepted", "accepted")
    goes_on = pg.speculative_decode(lm, lm, [0], None, GREEDY, 3, stop_at_eos=False)
    assert goes_on.ids == (1, 2, 3)
    assert goes_on.stop == "length"


def test_eos_as_recovered_and_as_bonus_token_ends_the_run():
    target = certain(5, 0, 1, 2, eos_ids=(2,))
    wrong = certain(5, 0, 1, 3, 3)
    run = pg.speculative_decode(target, wrong, [0], pg.SpeculativeParams(3), GREEDY, 20)
    assert (run.ids, run.sources, run.stop) == ((1, 2), ("accepted", "recovered"), "eos")
    assert run.rounds[0].fates == ("accepted", "rejected", "untested")
    run = pg.speculative_decode(target, target, [0], pg.SpeculativeParams(1), GREEDY, 20)
    assert (run.ids, run.sources, run.stop) == ((1, 2), ("accepted", "bonus"), "eos")


def test_rejected_eos_does_not_end_the_run():
    draft = certain(5, 0, 2, eos_ids=(2,))
    target = certain(5, 0, 1, 3, 4, eos_ids=(2,))
    run = pg.speculative_decode(target, draft, [0], None, GREEDY, 3)
    assert run.ids == (1, 3, 4)


@pytest.mark.parametrize("limit", range(8))
def test_block_never_overruns_max_new_tokens(limit):
    lm = random_table(2)
    for seed in range(20):
        run = pg.speculative_decode(
            lm, near_table(2), [0], pg.SpeculativeParams(4), pg.SamplingParams(seed=seed), limit
        )
        assert len(run.ids) == limit
        assert run.stop == "length"
        assert len(run.trace.steps) == limit


@pytest.mark.parametrize("limits", [(8, None), (None, 8), (8, 8), (8, 5), (12, 8)])
def test_context_limits_hold_for_blocks_too(limits):
    """Tables refuse ids beyond their context, so a run that ends well never asked too much."""
    target = random_table(2, context_length=limits[0])
    draft = near_table(2, context_length=limits[1])
    for seed in range(20):
        for params in (pg.SamplingParams(seed=seed), GREEDY):
            run = pg.speculative_decode(target, draft, [0, 1, 2], None, params, 20)
            plain = pg.generate(target, [0, 1, 2], params, 20)
            assert (len(run.ids), run.stop) == (len(plain.new_ids), plain.stop)
            if params is GREEDY:
                assert run.ids == plain.new_ids


def test_full_context_emits_nothing_and_a_step_says_why():
    lm = random_table(2, context_length=5)
    run = pg.speculative_decode(lm, lm, [0] * 5, None, GREEDY, 3)
    assert (run.ids, run.rounds, run.stop) == ((), (), "context full")
    with pytest.raises(pg.ContextFull, match="5 tokens, and table takes 5"):
        step(lm, lm, [0] * 5, pg.SpeculativeParams(), GREEDY)


def test_padded_widths_run_and_padding_is_never_proposed():
    target = pg.TableLM({None: [0.1] * 10}, vocab_size=7)
    draft = pg.TableLM({None: [0.125] * 8}, vocab_size=7)
    run = pg.speculative_decode(target, draft, [0], max_new_tokens=200)
    assert run.rounds[0].draft_probs.shape == (4, 7)
    assert run.acceptance_per_drafted == 1
    assert set(run.ids) == set(range(7))


def test_draft_wider_than_the_target_never_proposes_ids_that_it_lacks():
    target = pg.TableLM({None: [0.125] * 8})
    draft = pg.TableLM({None: [0.1] * 10})
    run = pg.speculative_decode(target, draft, [0], max_new_tokens=200)
    drafted = {i for one in run.rounds for i in one.draft_ids}
    assert drafted == set(range(8))
    np.testing.assert_allclose(run.rounds[0].draft_probs, 0.125)
    nothing = pg.TableLM({None: [0.0] * 8 + [0.5, 0.5]})
    run = pg.speculative_decode(target, nothing, [0], max_new_tokens=5)
    assert (run.n_drafted, len(run.ids)) == (0, 5)


def test_ids_that_the_draft_lacks_have_probability_zero_and_still_come():
    target = pg.TableLM({None: [0.1] * 10})
    draft = pg.TableLM({None: [0.125] * 8})
    run = pg.speculative_decode(target, draft, [9], max_new_tokens=2000)
    assert (run.rounds[-2].draft_probs[:, 8:] == 0).all()
    counts = np.bincount(run.ids, minlength=10)
    statistic, dof = chi_square(counts, np.full(10, 0.1))
    assert chi_square_p_value(statistic, dof) > 1e-3


class Named(pg.TableLM):
    """A toy with a tokenizer."""

    def __init__(self, name, strings):
        super().__init__({None: np.full(len(strings), 1 / len(strings))}, name=name)
        self.token_strings = tuple(strings)


def test_different_tokenizers_are_refused_with_both_names_and_the_reason():
    a, b = Named("llama", ["<s>", "the", "a"]), Named("gpt2", ["!", "the", "a", "b"])
    message = "same tokenizer, got llama and gpt2: id 0 is '<s>' in one and '!' in the other"
    with pytest.raises(ValueError, match=message):
        pg.speculative_decode(a, b, [1])
    with pytest.raises(ValueError, match="gpt2 and llama"):
        next(stream(b, a, [1]))
    assert check_pair(a, Named("wider", ["<s>", "the", "a", "pad"])) == 3
    assert check_pair(a, random_table(0, 6)) == 3


def test_gamma_is_answered_clearly():
    lm = random_table(0, context_length=8)
    with pytest.raises(ValueError, match="gamma must be a whole number >= 1, got 0"):
        pg.SpeculativeParams(gamma=0)
    with pytest.raises(
        ValueError, match="gamma must be in .1, 7. with the context of table, got 8"
    ):
        pg.speculative_decode(lm, lm, [0], pg.SpeculativeParams(gamma=8))
    with pytest.raises(ValueError, match="gamma must be a whole number in .1, 16., got 17"):
        pg.SpeculativeParams(gamma=17, adaptive=True)
    assert len(pg.speculative_decode(lm, lm, [0], pg.SpeculativeParams(7)).ids) == 7


def test_prompt_outside_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="token ids must be in"):
        pg.speculative_decode(random_table(0), random_table(1), [77])


def test_adaptive_gamma_follows_its_rule():
    lm = certain(60, *range(60))
    params = pg.SpeculativeParams(gamma=3, adaptive=True, max_gamma=6)
    lengths = [
        len(one.draft_ids) for one in stream(lm, lm, [0], params, GREEDY, 50) if not one.stop
    ]
    assert lengths == [3, 5, 6, 6, 6, 6, 6]
    wrong = certain(60, *range(59, 0, -1), 1)
    gammas = [one.gamma for one in stream(lm, wrong, [30], params, GREEDY, 5)]
    assert gammas == [3, 2, 1, 1, 1]
    fixed = [
        one.gamma for one in stream(lm, wrong, [30], params.replace(adaptive=False), GREEDY, 4)
    ]
    assert fixed == [3] * 4
