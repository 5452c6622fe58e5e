"""The law of what speculation emits on toy tables: enumerated over all dice, and by seeds."""

import itertools

import numpy as np
import pytest

import playground as pg
from playground.engines import drafting, speculative
from playground.engines.losslessness import chi_square, chi_square_p_value
from tests.engines.toys import GREEDY, near_table, random_table, shares


def exact_law(run, faces, monkeypatch, streams=("draft", "accept", "next")):
    """Return {outcome: probability} of ``run()`` over all dice: every face of each is tried.

    ``streams`` not named there share one dice per position.
    """
    law, script = {}, []
    while True:
        used = {}

        def dice(seed, position, stream, used=used):
            key = (position, stream if stream in streams else "shared")
            if key not in used:
                if len(used) == len(script):
                    script.append(0)
                used[key] = (script[len(used)] + 0.5) / faces
            return used[key]

        monkeypatch.setattr(speculative, "uniform", dice)
        monkeypatch.setattr(drafting, "uniform", dice)
        outcome = run()
        law[outcome] = law.get(outcome, 0.0) + float(faces) ** -len(used)
        del script[len(used) :]
        while script and script[-1] == faces - 1:
            script.pop()
        if not script:
            return law
        script[-1] += 1


def chain_law(table, length):
    """Return {ids: probability} of a table's own chain."""
    out = {}
    for ids in itertools.product(range(len(table[None])), repeat=length):
        p = 1.0
        for before, after in zip((None, *ids), ids, strict=False):
            p *= table[before][after] / sum(table[before])
        out[ids] = p
    return out


def distance(a, b):
    return 0.5 * sum(abs(a.get(k, 0) - b.get(k, 0)) for k in {*a, *b})


# All probabilities, ratios and residuals are halves: the toss of a coin decides each.
HALVES = {None: [1, 1, 0], 0: [1, 0, 1], 1: [0, 1, 1], 2: [1, 1, 0]}
HALVES_DRAFT = {None: [2, 0, 0], 0: [1, 1, 0], 1: [0, 2, 0], 2: [0, 1, 1]}


@pytest.mark.parametrize(
    "params", [dict(gamma=1), dict(gamma=2), dict(gamma=3), dict(gamma=2, adaptive=True)]
)
def test_law_of_the_first_four_tokens_is_exactly_the_targets_chain(params, monkeypatch):
    target, draft = shares(2, HALVES), shares(2, HALVES_DRAFT)
    params = pg.SpeculativeParams(**params)
    law = exact_law(
        lambda: pg.speculative_decode(target, draft, (), params, max_new_tokens=4).ids,
        2,
        monkeypatch,
    )
    assert sum(law.values()) == pytest.approx(1)
    assert distance(law, chain_law(HALVES, 4)) < 1e-12


@pytest.mark.parametrize("apart", ["draft", "accept", "next"])
def test_two_streams_that_share_their_dice_fail_that_oracle(apart, monkeypatch):
    table = {None: [2, 4, 1, 1]}
    target, draft = shares(8, table), shares(8, {None: [4, 4, 0, 0]})
    for streams, biased in ((("draft", "accept", "next"), False), ((apart,), True)):
        law = exact_law(
            lambda: pg.speculative_decode(target, draft, (), max_new_tokens=1).ids,
            8,
            monkeypatch,
            streams,
        )
        assert (distance(law, chain_law(table, 1)) > 0.1) == biased


def test_lookup_drafts_keep_the_targets_law_exactly(monkeypatch):
    table = {None: [1, 3], 0: [2, 2], 1: [1, 3]}
    lookup, prompt = pg.PromptLookup(), (1, 0, 0, 1, 0)
    law = exact_law(
        lambda: pg.speculative_decode(shares(4, table), lookup, prompt, max_new_tokens=3).ids,
        4,
        monkeypatch,
    )
    assert distance(law, chain_law({**table, None: table[0]}, 3)) < 1e-12


@pytest.mark.parametrize(
    "sampling",
    [
        dict(),
        dict(temperature=0.6, top_k=4),
        dict(temperature=1.4, top_p=0.85, repetition_penalty=1.3),
    ],
)
def test_seeded_runs_pass_a_chi_square_against_plain_sampling(sampling):
    """1,500 seeds, two tokens, 36 outcomes; the truth by shaping the target along each path."""
    target, draft = random_table(1), near_table(1)
    truth = np.zeros((6, 6))
    for first, second in itertools.product(range(6), repeat=2):
        p = 1.0
        for ids, token in (((0,), first), ((0, first), second)):
            stages = pg.shape(target.logits(ids)[-1], pg.SamplingParams(**sampling), ids, 1)
            p *= np.exp(stages[-1].logprobs[token])
        truth[first, second] = p
    counts = np.zeros((6, 6), int)
    for seed in range(1500):
        params = pg.SamplingParams(seed=seed, **sampling)
        counts[pg.speculative_decode(target, draft, [0], None, params, 2).ids] += 1
    statistic, dof = chi_square(counts.ravel(), truth.ravel())
    assert dof >= 8
    assert chi_square_p_value(statistic, dof) > 1e-3


def test_one_token_runs_draft_and_test_it():
    target, draft = (pg.TableLM({None: row}) for row in ([0.5, 0.5], [0.8, 0.2]))
    runs = [
        pg.speculative_decode(target, draft, [0], None, pg.SamplingParams(seed=seed), 1)
        for seed in range(2500)
    ]
    assert np.mean([run.ids[0] == 0 for run in runs]) == pytest.approx(0.5, abs=0.03)
    assert np.mean([run.n_accepted for run in runs]) == pytest.approx(0.7, abs=0.03)
    assert all(len(run.ids) == 1 and run.n_tested == 1 for run in runs)


@pytest.mark.parametrize("gamma", [1, 3, 5, 8])
@pytest.mark.parametrize("adaptive", [False, True])
def test_greedy_equals_plain_greedy(gamma, adaptive):
    params = pg.SpeculativeParams(gamma, adaptive)
    sources = set()
    for seed in range(10):
        target = random_table(seed, 20, eos_ids=(3,))
        draft = near_table(seed, 20, 0.8, eos_ids=(3,))
        plain = pg.generate(target, [seed], GREEDY, 50)
        ours = pg.speculative_decode(target, draft, [seed], params, GREEDY, 50)
        assert ours.ids == plain.new_ids
        assert ours.stop == plain.stop
        sources |= set(ours.sources)
        assert all(u is None for one in ours.rounds for u in (*one.us, *one.draft_us, one.next_u))
    assert sources == {"accepted", "recovered", "bonus"}


def test_draft_equal_to_target_accepts_everything():
    lm = random_table(4)
    for gamma in (1, 4, 8):
        for params in (
            GREEDY,
            pg.SamplingParams(seed=1),
            pg.SamplingParams(top_p=0.7, repetition_penalty=1.5),
        ):
            run = pg.speculative_decode(lm, lm, [0], pg.SpeculativeParams(gamma), params, 30)
            assert run.acceptance_per_drafted == run.acceptance_per_tested == 1
            assert all(
                one.source == "bonus" and set(one.accept_probs) <= {1.0} for one in run.rounds
            )


def test_acceptance_rate_is_one_minus_total_variation():
    target, draft = (pg.TableLM({None: row}) for row in ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]))
    runs = [
        pg.speculative_decode(
            target, draft, [0], pg.SpeculativeParams(3), pg.SamplingParams(seed=seed), 100
        )
        for seed in range(25)
    ]
    rounds = [one for run in runs for one in run.rounds if len(one.draft_ids) == 3]
    rate = 1 - pg.total_variation([0.6, 0.3, 0.1], [0.2, 0.3, 0.5])
    assert rate == pytest.approx(0.6)
    assert np.mean([run.acceptance_per_tested for run in runs]) == pytest.approx(rate, abs=0.03)
    assert {round(o, 6) for one in rounds for o in one.overlaps} == {0.6}
    tokens = np.mean([len(one.ids) for one in rounds])
    assert tokens == pytest.approx(pg.expected_tokens(rate, 3), abs=0.08)
    # On average each path's own chances predict what its round emits.
    exact = np.mean([pg.exact_yield(one.accept_probs) for one in rounds])
    assert tokens == pytest.approx(exact, abs=0.08)


def test_accept_dice_of_zero_reject_a_token_of_target_probability_zero(monkeypatch):
    target = pg.TableLM({None: [0.0, 1.0]})
    draft = pg.TableLM({None: [1.0, 0.0]})
    monkeypatch.setattr(speculative, "uniform", lambda *_: 0.0)
    monkeypatch.setattr(drafting, "uniform", lambda *_: 0.0)
    run = pg.speculative_decode(target, draft, [0], max_new_tokens=6)
    assert run.ids == (1,) * 6
