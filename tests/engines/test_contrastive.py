"""Contrastive decoding against hand-computed tables, its identities, and toys step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import playground as pg
from playground.engines import contrastive
from playground.records.contrastive import ContrastiveParams

GREEDY = pg.SamplingParams(temperature=0)


def logs(*p):
    with np.errstate(divide="ignore"):
        return np.log(np.array(p))


EXPERT = logs(0.5, 0.3, 0.13, 0.06, 0.01)
AMATEUR = logs(0.6, 0.2, 0.05, 0.1499, 0.0001)


def test_hand_computed_table():
    both = pg.contrast(EXPERT, AMATEUR, ContrastiveParams(plausibility=0.1))
    assert both.threshold == pytest.approx(np.log(0.05))
    assert both.plausible.tolist() == [True, True, True, True, False]
    assert both.scores[:4] == pytest.approx([-0.1823, 0.4055, 0.9555, -0.9156], abs=1e-4)
    assert both.scores[4] == -np.inf
    assert both.winner == 2 and both.favourite == 0
    assert np.exp(both.logprobs) == pytest.approx([0.1562, 0.2812, 0.4875, 0.0750, 0], abs=1e-4)


def test_without_the_mask_an_absurd_token_wins():
    both = pg.contrast(EXPERT, AMATEUR, ContrastiveParams(plausibility=0))
    assert both.plausible.all() and both.threshold == -np.inf
    assert both.winner == 4
    assert both.scores[4] == pytest.approx(4.6052, abs=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("top", "low", "ratio"),
    [(0.5, 0.05, 0.1), (0.6, 0.06, 0.1), (0.8, 0.16, 0.2), (0.6, 0.3, 0.5), (0.7, 0.07, 0.1)],
)
def test_a_threshold_met_exactly_keeps_its_token(top, low, ratio, dtype):
    expert = logs(top, low, 1 - top - low).astype(dtype)
    both = pg.contrast(expert, expert, ContrastiveParams(plausibility=ratio))
    assert both.plausible[1]
    both = pg.contrast(expert, expert, ContrastiveParams(plausibility=ratio + 1e-5))
    assert not both.plausible[1]


def test_the_mask_is_relative_to_the_highest_probability():
    flat = np.zeros(1000)  # every probability is 0.001, far below 0.1
    assert pg.contrast(flat, flat, ContrastiveParams(plausibility=0.1)).plausible.all()


def test_an_amateur_of_probability_zero_has_a_finite_floor():
    both = pg.contrast(logs(0.7, 0.3, 0), logs(1, 0, 0), ContrastiveParams())
    assert both.plausible.tolist() == [True, True, False]
    assert both.scores[1] == pytest.approx(np.log(0.3) - contrastive.FLOOR)
    assert np.isfinite(both.scores[:2]).all() and both.winner == 1
    for array in (both.expert_logprobs, both.amateur_logprobs, both.scores, both.logprobs):
        assert not np.isnan(array).any() and not (array == np.inf).any()
    assert np.exp(both.logprobs).sum() == pytest.approx(1)


def test_probability_zero_is_never_better_known_than_a_tiny_one():
    amateur = np.array([0.0, -200.0, -np.inf])
    both = pg.contrast(np.zeros(3), amateur, ContrastiveParams())
    assert both.scores[2] == both.scores[1] > both.scores[0]


def test_what_the_expert_masks_is_no_candidate_even_without_plausibility():
    expert = np.array([0.0, -np.inf, -1.0])
    amateur = np.array([0.0, -np.inf, -np.inf])
    both = pg.contrast(expert, amateur, ContrastiveParams(plausibility=0))
    assert both.plausible.tolist() == [True, False, True]
    assert not np.isnan(both.scores).any()


def test_one_plus_beta_form():
    params = ContrastiveParams(amateur_weight=0.5, form="one_plus_beta")
    both = pg.contrast(EXPERT, AMATEUR, params)
    kept = both.plausible
    expected = 1.5 * EXPERT[kept] - 0.5 * AMATEUR[kept]
    shifted = both.scores[kept] - both.scores[kept][0]
    assert shifted == pytest.approx(expected - expected[0])


def test_padded_output_layers_of_different_widths():
    rng = np.random.default_rng(0)
    expert = rng.normal(size=152_064).astype(np.float32)
    amateur = rng.normal(size=151_936).astype(np.float32)
    expert[151_800] = 50  # padding that would win
    both = pg.contrast(expert, amateur, ContrastiveParams(), vocab_size=151_665)
    assert both.scores.shape == both.plausible.shape == (151_665,)
    assert np.exp(both.logprobs).sum() == pytest.approx(1)
    assert np.exp(both.expert_logprobs).sum() == pytest.approx(1)
    assert both.favourite == expert[:151_665].argmax()
    assert pg.contrast(expert, amateur, ContrastiveParams()).scores.shape == (151_936,)
    with pytest.raises(ValueError, match=r"vocab_size must be .*151936"):
        pg.contrast(expert, amateur, ContrastiveParams(), vocab_size=152_000)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_gives_no_numbers_is_refused(bad):
    with pytest.raises(ValueError, match="no token survives"):
        pg.contrast(EXPERT, np.array([0, 0, bad, 0, 0]), ContrastiveParams())
    with pytest.raises(ValueError, match="no token survives"):
        pg.contrast(np.array([0, 0, bad, 0, 0]), AMATEUR, ContrastiveParams())


vectors = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(-30, 30), min_size=n, max_size=n)] * 2)
)


@settings(max_examples=60, deadline=None)
@given(vectors, st.floats(0, 1), st.floats(0, 3), st.floats(0.1, 4))
def test_identities(pair, plausibility, weight, temperature):
    expert, amateur = map(np.array, pair)
    params = ContrastiveParams(plausibility, weight, temperature)
    both = pg.contrast(expert, amateur, params)
    assert both.plausible[both.favourite]
    assert np.exp(both.logprobs).sum() == pytest.approx(1)
    # Only the ratio of weight and temperature counts.
    same = pg.contrast(
        expert,
        amateur,
        params.replace(amateur_weight=2 * weight, amateur_temperature=2 * temperature),
    )
    assert np.array_equal(both.scores, same.scores)
    # A model has no preference over itself.
    alone = pg.contrast(expert, expert, ContrastiveParams(plausibility))
    assert not alone.scores[alone.plausible].any()
    # Without the amateur there is only the expert.
    none = pg.contrast(expert, amateur, params.replace(amateur_weight=0))
    assert none.winner == none.favourite
    assert np.array_equal(none.scores[none.plausible], none.expert_logprobs[none.plausible])
    # The models' logits are known up to a shift; the law doesn't see it.
    moved = pg.contrast(expert + 5, amateur - 3, params)
    if np.array_equal(moved.plausible, both.plausible):
        assert np.exp(moved.logprobs) == pytest.approx(np.exp(both.logprobs), abs=1e-9)
    # All plausibility leaves the expert's favourites, tied ones included.
    narrow = pg.contrast(expert, amateur, params.replace(plausibility=1))
    top = both.expert_logprobs.max()
    assert narrow.expert_logprobs[narrow.plausible] == pytest.approx(top, abs=2e-6)


CYCLE = {0: [0, 0.6, 0.4, 0], 1: [0.5, 0, 0, 0.5], 2: [0.1, 0.2, 0.3, 0.4], 3: [0.7, 0.1, 0.1, 0.1]}
FLAT = {None: [0.1, 0.6, 0.2, 0.1]}


def toys(**options):
    return pg.TableLM(CYCLE, name="strong", **options), pg.TableLM(FLAT, name="weak")


def test_weight_zero_and_argmax_is_the_experts_greedy_text():
    expert, amateur = toys()
    params = ContrastiveParams(amateur_weight=0)
    trace = pg.contrastive_decode(expert, amateur, [0], params, GREEDY, 15)
    assert trace.new_ids == pg.generate(expert, [0], GREEDY, 15).new_ids
    assert [s.logprob for s in trace.steps] == [0] * 15  # greedy leaves one token


def test_weight_zero_and_temperature_one_is_the_expert_with_its_implausible_tokens_cut():
    expert, amateur = toys()
    params = ContrastiveParams(plausibility=0.3, amateur_weight=0)
    sampling = pg.SamplingParams(seed=4)
    ours = pg.contrastive_decode(expert, amateur, [2], params, sampling, 30)
    theirs = pg.generate(expert, [2], sampling.replace(min_p=0.3), 30)
    assert ours.new_ids == theirs.new_ids
    assert [s.logprob for s in ours.steps] == pytest.approx([s.logprob for s in theirs.steps])


def test_scores_are_sampled_through_the_chain():
    expert, amateur = toys()
    sampling = pg.SamplingParams(temperature=0.5, top_k=2, seed=7)
    law = contrastive.contrast(expert.logits([2])[0], amateur.logits([2])[0], ContrastiveParams())
    # 0.1/0.1, 0.2/0.6, 0.3/0.2, 0.4/0.1: the two best are 3 and 2, weights (4)^2 and (1.5)^2.
    one = contrastive.step(expert, amateur, [2], ContrastiveParams(), sampling)
    assert law.scores == pytest.approx(np.log([1, 1 / 3, 1.5, 4]), abs=1e-6)
    weights = {3: 16.0, 2: 2.25}
    assert one.step.kept == 2 and one.step.u == pg.uniform(7, 1)
    assert one.step.token_id in weights
    chance = weights[one.step.token_id] / 18.25
    assert one.step.logprob == pytest.approx(np.log(chance), abs=1e-6)
    assert one.step.token_id == (3 if one.step.u < 16 / 18.25 else 2)


def test_steps_speak_of_the_expert():
    expert, amateur = toys()
    one = contrastive.step(expert, amateur, [0, 2], ContrastiveParams(), GREEDY)
    assert one.step.token_id == 3 and one.step.rank == 1 and one.step.logprob == 0
    assert one.step.model_logprob == pytest.approx(np.log(0.4))
    law = np.array(CYCLE[2])
    assert one.step.entropy == pytest.approx(-(law * np.log(law)).sum())
    forced = contrastive.step(expert, amateur, [0, 2], ContrastiveParams(), GREEDY, force=1)
    assert forced.step.source == "forced" and forced.step.rank == 3
    assert forced.step.model_logprob == pytest.approx(np.log(0.2))


def test_a_run_stops_at_eos_at_the_limit_and_in_a_full_context():
    expert, amateur = toys(eos_ids=(3,))
    run = pg.contrastive_decode(expert, amateur, [0], ContrastiveParams(), GREEDY, 9)
    assert run.stop == "eos" and run.new_ids[-1] == 3 and 3 not in run.new_ids[:-1]
    on = pg.contrastive_decode(expert, amateur, [0], ContrastiveParams(), GREEDY, 9, False)
    assert on.stop == "length" and len(on.new_ids) == 9
    small = pg.TableLM(FLAT, context_length=4, name="small")
    full = pg.contrastive_decode(toys()[0], small, [0], ContrastiveParams(), GREEDY, 9)
    assert full.stop == "context full" and len(full.ids) == 4
    with pytest.raises(ValueError, match="5 tokens, and small takes 4"):
        pg.contrastive_decode(toys()[0], small, [0] * 5, ContrastiveParams(), GREEDY, 9)
    none = pg.contrastive_decode(expert, amateur, [0], ContrastiveParams(), GREEDY, 0)
    assert none.new_ids == ()


class Watched(pg.TableLM):
    """Remembers what it was asked."""

    def logits_many(self, prefixes, last=1):
        self.asked = [*getattr(self, "asked", []), *map(tuple, prefixes)]
        return super().logits_many(prefixes, last)


@pytest.mark.parametrize("sees", ["all", "generated"])
def test_the_amateur_sees_what_the_record_says(sees):
    expert, amateur = pg.TableLM(CYCLE), Watched(FLAT)
    params = ContrastiveParams(amateur_sees=sees)
    steps = list(contrastive.stream(expert, amateur, [0, 1, 2], params, GREEDY, 4))
    ids = [0, 1, 2] + [s.step.token_id for s in steps]
    start = 0 if sees == "all" else 2
    assert amateur.asked == [tuple(ids[start:end]) for end in range(3, 7)]
    assert [s.amateur_tokens for s in steps] == [end - start for end in range(3, 7)]


def test_different_tokenizers_are_refused_with_both_names_and_the_reason():
    class Named(pg.TableLM):
        token_strings: tuple[str, ...] = ()

    a, b = Named({None: [0.5, 0.5]}, name="left"), Named({None: [0.5, 0.5]}, name="right")
    a.token_strings, b.token_strings = ("x", "y"), ("x", "z")
    for call in (contrastive.step, pg.contrastive_decode):
        with pytest.raises(ValueError, match="left and right: id 1 is 'y' in one and 'z'"):
            call(a, b, [0], ContrastiveParams(), GREEDY)


def test_vocabularies_of_different_sizes_share_their_first_ids():
    expert = pg.TableLM({None: [0.2, 0.3, 0.1, 0.4]}, name="wide")
    amateur = pg.TableLM({None: [0.5, 0.3, 0.2]}, name="narrow")
    one = contrastive.step(expert, amateur, [0], ContrastiveParams(), GREEDY)
    assert one.scores.shape == (3,) and one.step.token_id == 1


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("plausibility", 1.5, r"\[0, 1\], got 1.5"),
        ("plausibility", float("nan"), r"\[0, 1\], got nan"),
        ("amateur_weight", -1, r"\[0, 1000\], got -1"),
        ("amateur_temperature", 0, r"\(0, 1000\], got 0"),
        ("form", "ratio", "difference, one_plus_beta, got 'ratio'"),
        ("amateur_sees", "nothing", "all, generated, got 'nothing'"),
    ],
)
def test_bad_settings_are_refused_by_name_and_range(field, value, allowed):
    with pytest.raises(ValueError, match=f"{field} must be .*{allowed}"):
        ContrastiveParams(**{field: value})


def test_params_go_through_a_dict():
    params = ContrastiveParams(0.2, 0.5, form="one_plus_beta", amateur_sees="generated")
    assert ContrastiveParams.from_dict(params.to_dict()) == params
    assert ContrastiveParams().to_dict() == {}
    with pytest.raises(ValueError, match="no field 'alpha'"):
        ContrastiveParams.from_dict({"alpha": 1})
