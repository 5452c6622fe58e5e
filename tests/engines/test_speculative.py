"""Speculative records: complete, recomputable from their own numbers, cheap to make again."""

import pickle

import numpy as np
import pytest

import playground as pg
from playground.engines.speculative import step
from tests.engines.toys import near_table, random_table


def test_record_can_be_recomputed_from_its_own_numbers():
    target, draft = random_table(8), near_table(8)
    params = pg.SamplingParams(temperature=0.8, top_k=4, seed=5)
    run = pg.speculative_decode(target, draft, [0, 1], pg.SpeculativeParams(3), params, 40)
    assert tuple(i for one in run.rounds for i in one.ids) == run.ids
    position = 2
    for one in run.rounds:
        g = len(one.draft_ids)
        assert one.position == position
        assert one.draft_probs.shape == (g, 6) and one.target_probs.shape == (g + 1, 6)
        assert len(one.us) == one.n_tested and len(one.accept_probs) == g
        for j in range(g):
            p, q, x = one.target_probs[j], one.draft_probs[j], one.draft_ids[j]
            u = pg.uniform(5, position + j, "draft")
            assert one.draft_us[j] == u and pg.draw(np.log(np.maximum(q, 1e-300)), u) == x
            assert one.accept_probs[j] == pytest.approx(pg.acceptance(p, q)[x])
            assert one.overlaps[j] == pytest.approx(pg.overlap(p, q))
            assert pg.total_variation(pg.emitted_distribution(p, q), p) < 1e-6
        for j, u in enumerate(one.us):
            assert u == pg.uniform(5, position + j, "accept")
            assert (u < one.accept_probs[j]) == (j < one.n_accepted)
        law = one.target_probs[one.n_accepted]
        if one.source == "recovered":
            law = pg.residual(law, one.draft_probs[one.n_accepted])
        assert one.next_u == pg.uniform(5, position + one.n_accepted, "next")
        assert pg.draw(np.log(np.maximum(law, 1e-300)), one.next_u) == one.next_id
        position += len(one.ids)


def test_trace_carries_provenance_and_the_targets_own_numbers():
    target, draft = random_table(8), near_table(8)
    params = pg.SamplingParams(temperature=0.8, top_k=4, seed=5)
    run = pg.speculative_decode(target, draft, [0, 1], pg.SpeculativeParams(3), params, 15)
    trace = run.trace
    assert trace.ids == (0, 1, *run.ids) and trace.stop == "length"
    assert {s.source for s in trace.steps} == {"accepted", "recovered", "bonus"}
    for t, s in enumerate(trace.steps):
        stages = pg.shape(target.logits(trace.ids[: 2 + t])[-1], params, trace.ids[: 2 + t], 2)
        assert s.logprob == pytest.approx(stages[-1].logprobs[s.token_id])
        assert s.model_logprob == pytest.approx(stages[0].logprobs[s.token_id])
        assert s.kept == 4
    assert pg.Trace.from_dict(trace.to_dict()) == trace


def test_step_makes_any_round_of_a_run_again():
    target, draft = random_table(8), near_table(8)
    params = pg.SpeculativeParams(3)
    run = pg.speculative_decode(target, draft, [0, 1], params, None, 15, keep_probs=False)
    assert all(one.draft_probs is None and one.target_probs is None for one in run.rounds)
    ids, left = (0, 1), 15
    for old in run.rounds:
        new = step(
            target, draft, ids, params, pg.SamplingParams(), prompt_length=2, max_new_tokens=left
        )
        same = ("draft_ids", "us", "ids", "accept_probs", "overlaps", "next_u", "steps", "stop")
        assert all(getattr(old, name) == getattr(new, name) for name in same)
        assert new.compact().target_probs is None is not new.target_probs
        ids, left = ids + new.ids, left - len(new.ids)


def test_one_forward_of_the_target_serves_a_whole_block():
    target, draft = random_table(8), near_table(8)
    run = pg.speculative_decode(target, draft, [0], pg.SpeculativeParams(4), None, 30)
    assert target.forwards == len(run.rounds)
    assert draft.forwards == run.n_drafted


def test_params_and_results_survive_pickling_and_json():
    params = pg.SpeculativeParams(gamma=5, adaptive=True)
    assert pg.SpeculativeParams.from_dict(params.to_dict()) == params
    assert params.to_dict() == {"gamma": 5, "adaptive": True}
    with pytest.raises(ValueError, match="no field 'gama'"):
        pg.SpeculativeParams.from_dict({"gama": 3})
    run = pg.speculative_decode(random_table(1), pg.PromptLookup(), [0, 1, 0], params)
    again = pickle.loads(pickle.dumps(run))
    assert again.ids == run.ids and again.trace == run.trace
    assert pickle.loads(pickle.dumps(pg.PromptLookup(2))).max_ngram == 2


def test_nothing_asked_for_is_nothing_done():
    run = pg.speculative_decode(random_table(1), random_table(2), [0], max_new_tokens=0)
    assert (run.ids, run.stop, run.rounds) == ((), "length", ())
    assert np.isnan(run.tokens_per_round) and np.isnan(run.acceptance_per_tested)
