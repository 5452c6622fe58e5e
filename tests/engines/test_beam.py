"""Beam search on toys whose answers are known by hand, and what its records say."""

import pickle
import random

import numpy as np
import pytest

import playground as pg
from playground.engines.beam import beam_search, result_of, start, step, stream
from playground.records import BeamParams, BeamState, SamplingParams

# Greedy's trap: 0 looks best at first, but what follows it is spread thin.
TRAP = {None: [0.5, 0.4, 0.1], 0: [0.4, 0.3, 0.3], 1: [0.05, 0.9, 0.05], 2: [1 / 3, 1 / 3, 1 / 3]}


def toy(seed, width=6, eos_ids=(2,), **more):
    dice = np.random.default_rng(seed)
    table = {key: dice.dirichlet(np.ones(width) * 0.7) for key in [None, *range(width)]}
    return pg.TableLM(table, eos_ids=eos_ids, **more)


def test_hand_computed_trap():
    lm = pg.TableLM(TRAP)
    result = beam_search(lm, [], BeamParams(2, 2, 0.0))
    assert [h.ids for h in result.hypotheses] == [(1, 1), (0, 0)]
    expected = np.log([0.4 * 0.9, 0.5 * 0.4])
    assert [h.logprob for h in result.hypotheses] == pytest.approx(expected, abs=1e-6)
    first, second = result.steps
    assert [(c.token_id, c.fate, c.why) for c in first.candidates] == [
        (0, "kept", "in the cut"),
        (1, "kept", "in the cut"),
        (2, "pruned", "below the cut"),
    ]
    assert first.cuts == pytest.approx([np.log(0.4)], abs=1e-6)
    assert first.candidates[2].limit == first.cuts[0]
    assert first.raced == 3 and second.raced == 6
    assert [c.fate for c in second.candidates[:2]] == ["finished", "finished"]
    assert [c.why for c in second.candidates[:2]] == ["length", "length"]
    assert [c.greedy for c in second.candidates[:2]] == [False, True]
    assert result.stop == second.stop == "length"
    # 0 then 1 and 0 then 2 tie at 0.15, below.
    assert [c.rank for c in second.candidates] == [1, 2, 3, 4, 5, 6]


def test_length_penalty_sign_and_neutral_value():
    # One path ends after 2 tokens with sum -2.0, one after 3 with -2.7 (token 3 is EOS).
    a, b = np.exp(-1.0), np.exp(-1.4)
    table = {
        0: [0, a, b, 0, 0, 1 - a - b],
        1: [0, 0, 0, a, 0, 1 - a],
        2: [0, 0, 0, 0, np.exp(-0.3), 1 - np.exp(-0.3)],
        4: [0, 0, 0, a, 0, 1 - a],
        5: [0.2] * 5 + [0],
    }
    lm = pg.TableLM(table, eos_ids=(3,))
    for prompt in ([0], [5] * 9 + [0]):
        for penalty, expected in ((0, (-2.0, -2.7)), (1, (-1.0, -0.9)), (-1, (-4.0, -8.1))):
            params = BeamParams(6, 3, penalty, "never")
            found = {h.ids: h.score for h in beam_search(lm, prompt, params).hypotheses}
            short, long = found[1, 3], found[2, 4, 3]
            assert (short, long) == pytest.approx(expected, abs=1e-5)


def test_beams_differ():
    for seed in range(20):
        result = beam_search(toy(seed), [0], BeamParams(4, 5))
        assert len({c.token_id for c in result.steps[0].kept}) == 4
        assert len({h.ids for h in result.hypotheses}) == 4


@pytest.mark.parametrize("eos_ids", [(2,), (1, 4), tuple(range(10))])
def test_nothing_grows_past_eos_and_live_beams_refill(eos_ids):
    for seed in range(20):
        lm = toy(seed, width=14, eos_ids=eos_ids)
        result = beam_search(
            lm, [12], BeamParams(3, 8, 0.0, random.Random(seed).choice([False, "never"]))
        )
        ended = {c.node for s in result.steps for c in s.candidates if c.token_id in eos_ids}
        assert not ended & {c.parent for s in result.steps for c in s.candidates}
        for h in result.hypotheses:
            assert sum(token in eos_ids for token in h.ids) <= 1
            assert h.finished == (h.ids[-1] in eos_ids)
        for record in result.steps[:-1]:
            assert len(record.kept) == 3


def test_one_beam_is_greedy():
    for seed in range(30):
        lm = toy(seed, eos_ids=(2, 5))
        for early_stopping in (False, True, "never"):
            params = BeamParams(1, 9, 1.0, early_stopping)
            result = beam_search(lm, [0], params)
            (hypothesis,) = result.hypotheses
            assert result.stop == ("all finished" if hypothesis.finished else "length")
            trace = pg.generate(lm, [0], SamplingParams(temperature=0), max_new_tokens=9)
            assert hypothesis.ids == trace.new_ids
            assert hypothesis.logprob == pytest.approx(
                sum(s.model_logprob for s in trace.steps), abs=1e-6
            )


def test_one_beam_with_dice_is_sampling_with_the_same_dice():
    for seed in range(30):
        lm, chain = toy(seed), SamplingParams(temperature=1.3, top_p=0.9, seed=seed)
        params = BeamParams(1, 9, sampling=chain, do_sample=True)
        (hypothesis,) = beam_search(lm, [0], params).hypotheses
        assert hypothesis.ids == pg.generate(lm, [0], chain, max_new_tokens=9).new_ids


def test_fewer_candidates_make_fewer_beams_and_no_phantoms():
    lm = pg.TableLM({None: [0.7, 0.3, 0.0], 0: [0.6, 0.4, 0.0], 1: [0.0, 1.0, 0.0]})
    result = beam_search(lm, [], BeamParams(5, 3))
    assert [len(record.beams) for record in result.steps] == [1, 2, 3]
    assert [record.raced for record in result.steps] == [2, 3, 4]
    assert [h.ids for h in result.hypotheses] == [(1, 1, 1), (0, 1, 1), (0, 0, 0), (0, 0, 1)]
    assert all(np.isfinite(c.sum) for record in result.steps for c in record.candidates)
    # Nothing can follow token 1: it ends everything.
    lm = pg.TableLM({None: [0.5, 0.5], 0: [0.0, 1.0], 1: [1.0, 0.0]}, eos_ids=(1,))
    result = beam_search(lm, [], BeamParams(4, 9))
    assert result.stop == "exhausted"
    assert [h.ids for h in result.hypotheses] == [(0, 1), (1,)]


def test_ties_go_to_the_lowest_beam_then_the_lowest_id():
    lm = pg.TableLM({None: [0.25] * 4})
    result = beam_search(lm, [], BeamParams(2, 2))
    assert [c.token_id for c in result.steps[0].kept] == [0, 1]
    assert [h.ids for h in result.hypotheses] == [(0, 0), (0, 1)]
    assert [c.why for c in result.steps[0].candidates[2:]] == ["tie at the cut"] * 2


def test_an_ending_below_the_k_best_is_lost_and_a_bad_one_never_enters():
    lm = pg.TableLM({None: [0.5, 0.3, 0.2], 0: [0.9, 0.0, 0.1], 1: [0.9, 0.0, 0.1]}, eos_ids=(2,))
    first = beam_search(lm, [], BeamParams(2, 3)).steps[0]
    lost = first.candidates[2]
    assert (lost.token_id, lost.fate, lost.why) == (2, "pruned", "eos below the top")
    assert lost.limit == pytest.approx(np.log(0.3), abs=1e-6)
    # With K finished of high score, a later ending in the top is turned away.
    table = {None: [0.4, 0.1, 0.5], 0: [0.3, 0.1, 0.6], 1: [0.4, 0.3, 0.3]}
    lm = pg.TableLM(table, eos_ids=(2,))
    result = beam_search(lm, [], BeamParams(2, 6, -0.5, False))
    refused = [c for s in result.steps for c in s.candidates if c.why == "worse than finished"]
    assert result.stop == "no better possible" or refused
    for c in refused:
        assert c.score <= c.limit


def test_every_candidate_has_a_true_reason():
    why_seen = set()
    for seed in range(60):
        dice = random.Random(seed)
        size = dice.choice([2, 3, 5])
        early = dice.choice([False, True, "never"])
        params = BeamParams(size, 6, dice.choice([-1.0, 0.0, 1.0]), early)
        lm = toy(seed, eos_ids=(2, 4))
        state = start(lm, [0], params)
        sums = {0: 0.0}
        while not state.stop:
            worst = sorted((h.score for h in state.finished[0]), reverse=True)
            state, record = step(lm, state, params)
            ranked = sorted(record.candidates, key=lambda c: (-c.sum, c.beam, c.token_id))
            shown = min(2 * size, record.raced)
            assert [c.rank for c in ranked[:shown]] == list(range(1, shown + 1))
            for c in record.candidates:
                why_seen.add(c.why)
                sums[c.node] = c.sum
                assert c.sum == pytest.approx(sums[c.parent] + c.logprob, abs=1e-9)
                assert record.beams[c.beam] == c.parent
                if c.fate == "kept":
                    assert c.token_id not in lm.eos_ids and c.sum >= record.cuts[0] == c.limit
                elif c.fate == "finished":
                    assert c.rank <= size
                    assert (c.why == "eos") == (c.token_id in lm.eos_ids)
                    assert c.score == pytest.approx(
                        c.sum / (record.index + 1) ** params.length_penalty
                    )
                elif c.why == "below the cut":
                    assert c.sum < c.limit == record.cuts[0]
                elif c.why == "eos below the top":
                    assert record.index + 1 < state.limit  # at the limit all end alike
                    assert c.rank > size and c.token_id in lm.eos_ids and c.sum <= c.limit
                elif c.why == "worse than finished":
                    assert len(state.finished[0]) == size and c.score <= c.limit
            if record.worst_finished is not None:
                assert record.worst_finished == state.finished[0][-1].score
                assert not worst or len(worst) < size or record.worst_finished >= worst[-1]
            if record.stop == "no better possible":
                assert record.best_possible <= record.worst_finished
    assert why_seen >= {
        "in the cut", "below the cut", "eos below the top", "worse than finished", "eos", "length",
    }  # fmt: skip


def test_nodes_make_one_tree_with_greedys_path_in_it():
    lm = toy(3)
    result = beam_search(lm, [0], BeamParams(3, 6))
    nodes = [c.node for record in result.steps for c in record.candidates]
    assert nodes == list(range(1, len(nodes) + 1))
    for h in result.hypotheses:
        path = result.path(h.node)
        assert tuple(c.token_id for c in path) == h.ids
        assert [c.logprob for c in path] == pytest.approx(h.logprobs)
    for record in result.steps[1:]:
        kept = {c.node for c in result.steps[record.index - 1].kept}
        assert set(record.beams) == kept
    assert sum(c.greedy for c in result.steps[0].candidates) == 1
    with pytest.raises(ValueError, match="got 999"):
        result.find(999)


def test_greedys_candidate_is_recorded_wherever_it_ranks():
    for seed in range(40):
        lm = toy(seed, width=40, eos_ids=())
        result = beam_search(lm, [0], BeamParams(2, 10))
        trace = pg.generate(lm, [0], SamplingParams(temperature=0), max_new_tokens=10)
        path = [c.token_id for record in result.steps for c in record.candidates if c.greedy]
        assert path == list(trace.new_ids[: len(path)])
        lost = [c for record in result.steps for c in record.candidates if c.greedy][-1]
        assert len(path) == 10 or lost.fate == "pruned"
    # Far below what else is recorded: 20 continuations at 0.45 / 20 beat 0.5 / 40.
    first = [0.5, 0.45, *[0.05 / 38] * 38]
    lm = pg.TableLM({39: first, 0: [1 / 40] * 40, 1: [0.05] * 20 + [0] * 20})
    greedy = [c for c in beam_search(lm, [39], BeamParams(2, 2)).steps[1].candidates if c.greedy]
    assert [(c.beam, c.token_id, c.rank, c.fate) for c in greedy] == [(0, 0, 21, "pruned")]


def test_stepping_equals_running_and_the_state_pickles():
    lm, params = toy(1), BeamParams(4, 6)
    whole = beam_search(lm, [0, 1], params)
    state, records = start(lm, [0, 1], params), []
    while not state.stop:
        state = pickle.loads(pickle.dumps(state))
        assert isinstance(state, BeamState)
        state, record = step(lm, state, params)
        records.append(record)
        under_way = result_of(lm, state, records, params)
        running = () if state.stop else state.beams
        assert set(under_way.hypotheses) == {*state.finished[0], *running}
        assert under_way.stop == state.stop
    assert result_of(lm, state, records, params) == whole
    assert [record for _, record in stream(lm, [0, 1], params)] == list(whole.steps)
    assert pickle.loads(pickle.dumps(whole)) == whole
    with pytest.raises(ValueError, match="the search has ended: "):
        step(lm, state, params)


def test_one_batched_forward_per_step_and_records_that_do_not_grow():
    lm = toy(2, eos_ids=())
    result = beam_search(lm, [0], BeamParams(4, 40))
    assert lm.forwards == len(result.steps) == 40
    sizes = [len(pickle.dumps(record)) for record in result.steps]
    assert max(sizes) < 1.2 * sizes[5]


def test_context_and_prompt_at_its_edge():
    lm = toy(4, eos_ids=(), context_length=6)
    result = beam_search(lm, [0] * 3, BeamParams(2, 50))
    assert result.stop == "context full" and len(result.steps) == 3
    assert {h.stop for h in result.hypotheses} == {"context full"}
    assert beam_search(lm, [0] * 3, BeamParams(2, 3)).stop == "length"
    assert len(beam_search(lm, [0] * 5, BeamParams(2, 3)).steps) == 1
    full = beam_search(lm, [0] * 6, BeamParams(2, 3))
    assert full.stop == "context full" and full.steps == ()
    assert [(h.ids, h.score) for h in full.hypotheses] == [((), 0.0)]
    with pytest.raises(pg.ContextFull, match=r"7 tokens.* 6"):
        beam_search(lm, [0] * 7, BeamParams(2, 3))


def test_prompt_that_ends_in_eos_is_said_and_searched():
    lm = toy(5, eos_ids=(2,))
    result = beam_search(lm, [0, 2], BeamParams(3, 4))
    assert result.notes == ("prompt ends in eos",)
    assert result.hypotheses[0].length >= 1
    assert beam_search(lm, [0, 1], BeamParams(3, 4)).notes == ()
    assert beam_search(lm, [0, 2], BeamParams(3, 4, stop_at_eos=False)).notes == ()


def test_stop_at_eos_off_runs_to_the_length():
    result = beam_search(toy(6), [0], BeamParams(3, 5, stop_at_eos=False))
    assert all(h.length == 5 and h.stop == "length" for h in result.hypotheses)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_beams": 0}, r"num_beams must be a whole number in \[1, 1024\], got 0"),
        ({"num_beams": 10_000}, r"num_beams must be a whole number in \[1, 1024\], got 10000"),
        ({"num_beams": 2.0}, r"num_beams must be a whole number in \[1, 1024\], got 2.0"),
        ({"max_new_tokens": 0}, r"max_new_tokens must be .*, got 0"),
        ({"length_penalty": float("nan")}, r"length_penalty must be in \[-50, 50\], got nan"),
        ({"early_stopping": "always"}, "early_stopping must be False, True or 'never'"),
        ({"early_stopping": 1}, "early_stopping must be False, True or 'never', got 1"),
        ({"num_return": 5}, r"num_return must be a whole number in \[1, 4\], got 5"),
        ({"num_groups": 3}, "num_groups must divide num_beams, got 3 and 4"),
        ({"num_groups": 2, "do_sample": True}, "num_groups must be 1 with do_sample, got 2"),
        ({"diversity_penalty": -1}, r"diversity_penalty must be in \[0, 10000\], got -1"),
        ({"sampling": 0.7}, "sampling must be SamplingParams or None, got float"),
    ],
)
def test_bad_settings_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        BeamParams(**fields)


def test_params_travel_as_json():
    params = BeamParams(6, 9, -0.5, "never", 2, SamplingParams(top_p=0.9), num_groups=3)
    assert BeamParams.from_dict(params.to_dict()) == params
    assert BeamParams().to_dict() == {}
    with pytest.raises(ValueError, match="BeamParams has no field 'beams'"):
        BeamParams.from_dict({"beams": 3})


def test_all_masked_is_a_clear_error_and_later_dead_ends_are_results():
    lm = pg.TableLM({None: [0.5, 0.5]})
    banned = SamplingParams(banned_tokens=(0, 1))
    with pytest.raises(ValueError, match="no token survives"):
        beam_search(lm, [0], BeamParams(2, 5, sampling=banned))
    # With no token twice, two tokens allow two steps.
    once = SamplingParams(no_repeat_ngram_size=1)
    result = beam_search(lm, [], BeamParams(2, 5, sampling=once))
    assert result.stop == "exhausted"
    assert {(h.ids, h.stop) for h in result.hypotheses} == {
        ((0, 1), "exhausted"),
        ((1, 0), "exhausted"),
    }
