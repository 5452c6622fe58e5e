"""Prompt lookup: what it proposes, and that its proposals stay true to the target."""

import numpy as np
import pytest
import torch
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

import playground as pg
from tests.engines.toys import GREEDY, certain


def test_prompt_lookup_copies_what_followed_the_first_longest_match():
    lookup = pg.PromptLookup(max_ngram=2)
    assert lookup.propose([1, 2, 3, 9, 1, 2], 2) == (3, 9)
    assert lookup.propose([1, 2, 3, 5, 2, 4, 1, 2], 1) == (3,)  # the bigram beats the later 2
    assert lookup.propose([7, 2, 3, 8, 2, 4, 5, 2], 2) == (3, 8)  # the first of equals
    assert lookup.propose([1, 2, 3], 4) == ()
    assert lookup.propose([], 4) == lookup.propose([1], 4) == ()
    assert lookup.propose([5, 5, 5], 4) == (5, 5, 5, 5)
    assert lookup.propose([1, 2, 1, 2, 1], 5) == (2, 1, 2, 1, 2)  # reads its own proposals on
    assert pg.PromptLookup(3, min_ngram=2).propose([1, 2, 1], 2) == ()
    with pytest.raises(ValueError, match="min_ngram must be a whole number in .1, 2., got 3"):
        pg.PromptLookup(2, 3)


def test_proposals_equal_those_of_transformers():
    rng = np.random.default_rng(0)
    theirs = PromptLookupCandidateGenerator(
        num_output_tokens=4, max_matching_ngram_size=3, max_length=99
    )
    found = 0
    for _ in range(300):
        ids = rng.integers(5, size=rng.integers(2, 20)).tolist()
        out, _ = theirs.get_candidates(torch.tensor([ids]))
        wanted = tuple(out[0, len(ids) :].tolist())
        ours = pg.PromptLookup(3).propose(ids, 4)
        assert ours[: len(wanted)] == wanted and bool(ours) == bool(wanted)
        found += bool(wanted)  # they end where the text does, we read our own proposals on
    assert found > 200


def test_prompt_lookup_pays_on_text_that_repeats_and_is_greedy_true():
    period = (3, 1, 4, 1, 5)
    target = certain(6, 0, 2, 3, 4, 5, 0)
    prompt = [0, 2, 3, 4, 5, 0, 2]
    run = pg.speculative_decode(target, pg.PromptLookup(), prompt, None, GREEDY, 25)
    assert run.ids == pg.generate(target, prompt, GREEDY, 25).new_ids
    assert run.acceptance_per_drafted == 1
    assert run.tokens_per_round == len(period)
    one = run.rounds[0]
    assert (one.draft_probs.sum(1) == 1).all() and set(one.draft_us) == {None}


def test_proposals_that_a_filter_forbids_are_rejected():
    target = pg.TableLM({None: [0.5, 0.3, 0.2]})
    params = pg.SamplingParams(banned_tokens=(1,))
    run = pg.speculative_decode(target, pg.PromptLookup(), [1, 1, 1], None, params, 30)
    assert 1 not in run.ids
    assert run.rounds[0].accept_probs == (0,) * 4
    mute = pg.TableLM({None: [0, 1.0, 0]})  # a draft that can only say what is banned
    run = pg.speculative_decode(target, mute, [0], None, params, 30)
    assert (run.n_drafted, len(run.ids)) == (0, 30)
