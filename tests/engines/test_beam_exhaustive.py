"""Beam search, best-first search and what can be asked afterwards, against every sequence."""

from itertools import product

import numpy as np
import pytest

import playground as pg
from playground.engines.beam import beam_search
from playground.engines.best_first import best_first
from playground.engines.hypotheses import continue_ghost, greedy_continuation, regret, rescore
from playground.records import BeamParams, Hypothesis, SamplingParams, length_score
from tests.engines.test_beam import TRAP, toy


def every_sequence(lm, prompt, horizon):
    """Return {ids: log-prob} of all that end in EOS within the horizon, or reach it."""
    done, open_ones = {}, {(): 0.0}
    for depth in range(horizon):
        longer = {}
        for ids, total in open_ones.items():
            logits = lm.logits([*prompt, *ids])[0].astype(np.float64)
            for token, logprob in enumerate(logits - np.log(np.exp(logits).sum())):
                whole = token in lm.eos_ids or depth == horizon - 1
                if logprob > -np.inf:
                    (done if whole else longer)[*ids, token] = total + logprob
        open_ones = longer
    return done


@pytest.mark.parametrize("eos_ids", [(), (2,), (0, 3)])
def test_enough_beams_find_the_best_of_all_sequences(eos_ids):
    for seed in range(15):
        width, horizon = 4, 4
        lm = toy(seed, width=width, eos_ids=eos_ids)
        sequences = every_sequence(lm, [1], horizon)
        for penalty in (-1.0, 0.0, 0.7, 2.0):
            best = max(sequences, key=lambda ids: length_score(sequences[ids], len(ids), penalty))
            params = BeamParams(width ** (horizon - 1), horizon, penalty, "never")
            found = beam_search(lm, [1], params).hypotheses
            expected = length_score(sequences[best], len(best), penalty)
            assert found[0].score == pytest.approx(expected, abs=1e-5)
            for h in found:
                assert h.logprob == pytest.approx(sequences[h.ids], abs=1e-5)


def test_best_first_finds_and_proves_the_mode():
    forwards = 0
    for seed in range(40):
        lm = toy(seed, width=5, eos_ids=((), (2,), (0, 3))[seed % 3])
        sequences = every_sequence(lm, [1], 5)
        for batch in (1, 8):
            found = best_first(lm, [1], 5, 10_000, batch=batch)
            assert found.proven
            assert found.hypothesis.logprob == pytest.approx(max(sequences.values()), abs=1e-5)
            assert sequences[found.hypothesis.ids] == pytest.approx(found.upper_bound, abs=1e-5)
            assert sum(found.hypothesis.logprobs) == pytest.approx(found.upper_bound)
        forwards = max(forwards, found.forwards)
    assert forwards > 5  # greedy isn't always the mode


def test_best_first_within_a_budget_says_what_it_doesnt_know():
    gaps = 0
    for seed in range(15):
        lm = NoTies(seed, 6)
        mode = max(every_sequence(lm, [1], 5).values())
        for budget in (5, 8, 20):
            found = best_first(lm, [1], 5, budget, batch=3)
            assert found.forwards <= budget
            assert found.hypothesis.logprob <= mode + 1e-5 <= found.upper_bound + 2e-5
            assert found.proven == (found.upper_bound == found.hypothesis.logprob)
            gaps += not found.proven
    assert gaps > 10


def test_best_first_sees_an_ending_even_with_its_last_forward():
    lm = pg.TableLM({None: [0.4, 0.35, 0.25], 0: [0.5, 0.25, 0.25], 2: [0.5, 0.25, 0.25]}, (1,))
    found = best_first(lm, [], 2, 3)
    assert found.hypothesis.ids == (1,) and not found.proven
    assert found.upper_bound == pytest.approx(np.log(0.4), abs=1e-6)
    found = best_first(lm, [], 2, 4)
    assert found.hypothesis.ids == (1,) and found.proven and found.forwards == 4


def test_best_first_refuses_and_meets_the_context():
    lm = toy(0, eos_ids=(), context_length=5)
    found = best_first(lm, [0, 0], 9, 500)
    assert found.hypothesis.length == 3 and found.hypothesis.stop == "context full"
    assert best_first(lm, [0] * 5, 2, 10).hypothesis.ids == ()
    with pytest.raises(ValueError, match=r"max_forwards must be a whole number >= 4, got 3"):
        best_first(lm, [0], 4, 3)
    with pytest.raises(ValueError, match=r"horizon must be a whole number >= 1, got 0"):
        best_first(lm, [0], 0, 3)
    with pytest.raises(pg.ContextFull):
        best_first(lm, [0] * 6, 2, 10)


def test_rescore_under_both_forms():
    def made(logprob, length):
        return Hypothesis((0,) * length, logprob, 0.0, True, "eos", (), logprob)

    short, long = made(-2.0, 2), made(-2.7, 3)
    for penalty, expected in ((0, [-2.0, -2.7]), (1, [-0.9, -1.0]), (-1, [-4.0, -8.1])):
        assert [h.score for h in rescore([long, short], penalty)] == pytest.approx(expected)
    # GNMT: ((5 + 2) / 6)**1 = 7/6 and 8/6.
    scores = [h.score for h in rescore([long, short], 1.0, form="gnmt")]
    assert scores == pytest.approx([-2.0 * 6 / 7, -2.7 * 6 / 8])
    with pytest.raises(ValueError, match="form must be one of power, gnmt, got 'cube'"):
        rescore([short], 1.0, form="cube")


def test_rescore_equals_a_search_that_only_scores_differently():
    lm = toy(8, eos_ids=())
    first = beam_search(lm, [0], BeamParams(4, 6, 0.0)).hypotheses
    again = beam_search(lm, [0], BeamParams(4, 6, 1.7)).hypotheses
    assert rescore(first, 1.7) == again


def test_a_prune_that_was_a_mistake_shows_its_regret():
    # Token 1 falls behind 0 and 2 at once, yet 1 1 is the best pair.
    table = {None: [0.35, 0.3, 0.35], 0: [0.4, 0.3, 0.3], 1: [0.0, 1.0, 0.0], 2: [0.4, 0.3, 0.3]}
    lm = pg.TableLM(table)
    result = beam_search(lm, [], BeamParams(2, 2, 0.0))
    ghost = next(c for c in result.steps[0].candidates if c.fate == "pruned")
    assert ghost.token_id == 1
    told = continue_ghost(lm, result, ghost.node)
    assert told.ids == (1, 1) and told.stop == "length"
    assert told.score == pytest.approx(np.log(0.3), abs=1e-6)
    assert regret(lm, result, ghost.node) == pytest.approx(np.log(0.3 / 0.14), abs=1e-6)
    kept = result.steps[0].kept[0]
    assert regret(lm, result, kept.node) == pytest.approx(0, abs=1e-6)


def test_a_continued_ghost_has_the_models_own_sum_too():
    lm = toy(11, eos_ids=())
    chain = SamplingParams(repetition_penalty=2.0)
    result = beam_search(lm, [0], BeamParams(2, 4, sampling=chain))
    told = [continue_ghost(lm, result, c.node) for c in result.steps[2].candidates]
    for hypothesis in told:
        own = sum_of(lm, [0], hypothesis.ids)
        assert hypothesis.model_logprob == pytest.approx(own, abs=1e-5)
        assert hypothesis.logprob == pytest.approx(sum(hypothesis.logprobs))
    assert any(abs(h.logprob - h.model_logprob) > 0.1 for h in told)


def test_greedy_continuation_equals_the_sampler_at_temperature_zero():
    for seed in range(20):
        lm = toy(seed, eos_ids=(2,), context_length=12)
        greedy = greedy_continuation(lm, [0, 1, 3], 6 + seed)
        trace = pg.generate(lm, [0, 1, 3], SamplingParams(temperature=0), 6 + seed)
        assert (greedy.ids, greedy.stop) == (trace.new_ids, trace.stop)
        logprobs = [s.model_logprob for s in trace.steps]
        assert list(greedy.logprobs) == pytest.approx(logprobs, abs=1e-6)


def test_greedy_against_beam_in_the_trap():
    lm = pg.TableLM(TRAP)
    greedy = greedy_continuation(lm, [], 2)
    best = beam_search(lm, [], BeamParams(2, 2)).hypotheses[0]
    assert greedy.logprob == pytest.approx(np.log(0.2), abs=1e-6)
    assert best.logprob == pytest.approx(np.log(0.36), abs=1e-6)


# Groups and dice: the same rules, written naively.


class NoTies(pg.TableLM):
    """Logits that depend on the whole prefix: in a Markov chain many sequences tie."""

    def __init__(self, seed, width):
        super().__init__({None: np.ones(width) / width})
        self.seed = seed

    def _after(self, prefix):
        return np.random.default_rng([self.seed, *prefix]).normal(size=self.vocab_size)


def naive_groups(lm, prompt, groups, size, penalty, length):
    """Return each group's finished ids with sums, best first, by the plainest code (no EOS)."""
    beams = [[((), 0.0)] for _ in range(groups)]
    for _ in range(length):
        taken = []
        for g in range(groups):
            race = []
            for ids, total in beams[g]:
                logits = lm.logits([*prompt, *ids])[0].astype(np.float64)
                logprobs = logits - np.log(np.exp(logits).sum())
                for token, logprob in enumerate(logprobs):
                    race.append(((*ids, token), total + logprob - penalty * taken.count(token)))
            race.sort(key=lambda entry: -entry[1])
            beams[g] = race[:size]
            taken += [ids[-1] for ids, _ in beams[g]]
    return beams


@pytest.mark.parametrize("penalty", [0.0, 0.4, 2.0])
def test_diverse_groups_equal_the_naive_rule(penalty):
    for seed in range(25):
        lm = NoTies(seed, 7)
        params = BeamParams(6, 5, 0.0, num_groups=3, diversity_penalty=penalty)
        found = beam_search(lm, [0], params).hypotheses
        expected = naive_groups(lm, [0], 3, 2, penalty, 5)
        for g in range(3):
            ours = [h for h in found if h.group == g]
            assert [h.ids for h in ours] == [ids for ids, _ in expected[g]]
            assert [h.logprob for h in ours] == pytest.approx([s for _, s in expected[g]], abs=1e-5)
            plain = [sum_of(lm, [0], h.ids) for h in ours]
            assert [h.model_logprob for h in ours] == pytest.approx(plain, abs=1e-5)


def sum_of(lm, prompt, ids):
    return sum(
        float(row[token] - np.log(np.exp(row.astype(np.float64)).sum()))
        for row, token in zip(lm.logits([*prompt, *ids[:-1]], last=len(ids)), ids, strict=True)
    )


def test_a_high_penalty_keeps_groups_apart_and_each_group_stops_alone():
    for seed in range(10):
        lm = toy(seed, width=12, eos_ids=(2,))
        params = BeamParams(6, 6, num_groups=3, diversity_penalty=100.0)
        result = beam_search(lm, [0], params)
        for record in result.steps[:-1]:
            by_group = [{c.token_id for c in record.kept if c.group == g} for g in range(3)]
            for one, other in ((0, 1), (0, 2), (1, 2)):
                assert not by_group[one] & by_group[other]
        first = [h for h in result.hypotheses if h.group == 0]
        alone = beam_search(lm, [0], params.replace(num_beams=2, num_groups=1)).hypotheses
        assert [(h.ids, h.score) for h in first] == [(h.ids, h.score) for h in alone]


def test_beam_sampling_first_step_follows_its_law():
    # 2 beams and no EOS: 4 of 6 tokens are drawn without replacement, the best 2 of them go on.
    p = np.array([0.3, 0.25, 0.2, 0.15, 0.06, 0.04])
    lm = pg.TableLM({None: p})
    law: dict[tuple[int, int], float] = {}
    for drawn in product(range(6), repeat=4):
        if len(set(drawn)) == 4:
            chance, left = 1.0, 1.0
            for token in drawn:
                chance *= p[token] / left
                left -= p[token]
            best = tuple(sorted(drawn)[:2])  # p falls with the id
            law[best] = law.get(best, 0) + chance
    assert sum(law.values()) == pytest.approx(1)
    runs, counts = 2000, {}
    for seed in range(runs):
        params = BeamParams(2, 1, 0.0, sampling=SamplingParams(seed=seed), do_sample=True)
        result = beam_search(lm, [], params)
        pair = tuple(h.ids[0] for h in result.hypotheses)
        counts[pair] = counts.get(pair, 0) + 1
    for pair, chance in law.items():
        error = np.sqrt(chance * (1 - chance) / runs)
        assert abs(counts.get(pair, 0) / runs - chance) < 4.5 * error


def test_beam_sampling_records_its_dice_and_repeats():
    lm, chain = toy(4, width=30), SamplingParams(temperature=1.5, top_k=20, seed=9)
    params = BeamParams(3, 6, sampling=chain, do_sample=True)
    result = beam_search(lm, [0], params)
    assert result == beam_search(lm, [0], params)
    other = params.replace(sampling=chain.replace(seed=10))
    assert result.hypotheses != beam_search(lm, [0], other).hypotheses
    for record in result.steps:
        drawn = [c for c in record.candidates if c.u is not None]
        assert len({c.u for c in drawn}) == len(drawn) == 6
        passed_over = [c for c in record.candidates if c.u is None]
        assert all(c.why == "not drawn" and c.rank == 0 for c in passed_over)
        assert all(0 <= c.u < 1 for c in drawn)
    cold = params.replace(sampling=SamplingParams(temperature=0))
    plain = beam_search(lm, [0], BeamParams(3, 6))
    assert [h.ids for h in beam_search(lm, [0], cold).hypotheses] == [
        h.ids for h in plain.hypotheses
    ]
