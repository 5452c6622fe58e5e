"""Decoders side by side: each text is its engine's own, its figures are sums over the steps."""

import json
import math
import pickle

import numpy as np
import pytest

import playground as pg
from playground.compare import Decoder, advance, finish, given, start
from playground.figures import figures, to_frame
from playground.language_model import ContextFull
from playground.lm import TransformersLM
from playground.models.views import amateur_of
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

S = pg.SamplingParams
GREEDY = S(temperature=0)
NUCLEUS = S(temperature=0.9, top_p=0.8, seed=4)
DECODERS = {
    "greedy": Decoder(sampling=GREEDY),
    "nucleus": Decoder(sampling=NUCLEUS),
    "beam": Decoder("beam", beam=pg.BeamParams(num_beams=3)),
    "contrastive": Decoder("contrastive", sampling=NUCLEUS, helper="short-context", size=2),
    "speculative": Decoder("speculative", sampling=NUCLEUS, helper="early-exit", size=1),
}


def tiny(eos=(), model=None):
    lm = TransformersLM(model or tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")
    lm.eos_ids = eos
    return lm


@pytest.fixture(scope="module")
def lm():
    return tiny()


def helper_of(lm, decoder):
    if not decoder.helper:
        return None
    return amateur_of(lm, decoder.helper, context=decoder.size, layer=decoder.size)


class Uncounted:
    """A model that keeps no count of its forwards."""

    def __init__(self, lm):
        self.lm = lm

    def __getattr__(self, name):
        if name == "forwards":
            raise AttributeError(name)
        return getattr(self.lm, name)


def run(lm, name, limit=12, text="hello you"):
    decoder = DECODERS[name]
    return finish(lm, start(decoder, lm.encode(text), limit), helper_of(lm, decoder))


def engine_ids(lm, name, limit=12, text="hello you"):
    """The same text by the engine's own loop."""
    decoder, ids = DECODERS[name], lm.encode(text)
    helper = helper_of(lm, decoder)
    if decoder.kind == "beam":
        params = decoder.beam.replace(max_new_tokens=limit)
        return pg.beam_search(lm, ids, params).hypotheses[0].ids
    if decoder.kind == "contrastive":
        params = decoder.contrastive
        return pg.contrastive_decode(lm, helper, ids, params, decoder.sampling, limit).new_ids
    if decoder.kind == "speculative":
        params = decoder.speculative
        return pg.speculative_decode(lm, helper, ids, params, decoder.sampling, limit).ids
    return pg.generate(lm, ids, decoder.sampling, limit).new_ids


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("eos", [(), (30, 60)])
def test_each_text_is_the_engines(name, eos):
    lm = tiny(eos)
    found = run(lm, name)
    assert found.new_ids == engine_ids(lm, name)
    assert found.stop == ("eos" if found.new_ids[-1] in eos else "length")
    assert found.prompt_ids + found.new_ids == found.ids


@pytest.mark.parametrize("name", DECODERS)
def test_the_steps_have_the_models_own_numbers(lm, name):
    found = run(lm, name)
    block = lm.logits(found.ids[:-1], last=len(found.steps)).astype(np.float64)
    logprobs = block - np.log(np.exp(block).sum(1, keepdims=True))
    for step, row in zip(found.steps, logprobs, strict=True):
        assert step.model_logprob == pytest.approx(row[step.token_id], abs=1e-4)
        assert step.entropy == pytest.approx(-(np.exp(row) * row).sum(), abs=1e-4)


def test_the_kept_mass_is_what_the_filters_leave(lm):
    greedy, nucleus = run(lm, "greedy"), run(lm, "nucleus")
    assert greedy.masses == pytest.approx(tuple(map(math.exp, greedy.logprobs)))
    assert greedy.taxes[-1] == pytest.approx(math.exp(sum(greedy.logprobs)))
    assert all(m < 1 for m in nucleus.masses)
    again = pg.shape(lm.logits(nucleus.ids[:-1])[-1], NUCLEUS)
    kept = again[-1].logprobs > -np.inf
    assert nucleus.masses[-1] == pytest.approx(float(np.exp(again[0].logprobs[kept]).sum()))
    plain = finish(lm, start(Decoder(sampling=S(temperature=3.0)), lm.encode("a"), 5))
    assert plain.taxes == (1.0,) * 5
    assert run(lm, "beam").masses == ()
    # Speculation has the target's law, so where it says the same its filters leave the same.
    spoken = run(lm, "speculative")
    law = pg.shape(lm.logits(spoken.prompt_ids)[-1], NUCLEUS)
    kept = law[-1].logprobs > -np.inf
    assert spoken.masses[0] == pytest.approx(float(np.exp(law[0].logprobs[kept]).sum()))
    assert len(spoken.masses) == len(spoken.steps)


def test_a_contrastive_mass_is_the_experts_over_the_plausible(lm):
    found = run(lm, "contrastive")
    decoder = DECODERS["contrastive"]
    amateur = helper_of(lm, decoder)
    both = pg.contrast(
        lm.logits(found.prompt_ids)[-1],
        amateur.logits(found.prompt_ids)[-1],
        decoder.contrastive,
    )
    law = pg.shape(both.scores, NUCLEUS)[-1].logprobs
    assert found.masses[0] == pytest.approx(
        float(np.exp(both.expert_logprobs[law > -np.inf]).sum())
    )


def test_a_run_is_a_value_that_goes_on_anywhere(lm):
    for name, decoder in DECODERS.items():
        one = start(decoder, lm.encode("hello you"), 12)
        while not one.stop:
            before = one
            one = advance(lm, pickle.loads(pickle.dumps(one)), helper_of(lm, decoder))
            assert before.stop == "" and len(before.steps) < 12
        assert one.new_ids == run(lm, name).new_ids
        assert advance(lm, one, helper_of(lm, decoder)) is one


def test_what_a_run_costs():
    lm = tiny()
    one = run(lm.fresh(), "greedy")
    assert one.forwards == 12 and one.seconds > 0
    assert run(lm.fresh(), "beam").forwards == 12
    assert run(lm.fresh(), "contrastive").forwards == 24
    drafted = run(lm.fresh(), "speculative")
    assert drafted.forwards == len(drafted.rounds) + sum(len(r.draft_ids) for r in drafted.rounds)
    assert lm.forwards == 0  # what fresh ones do doesn't count here
    shared = lm.fresh()
    run(shared, "greedy")
    assert run(shared, "greedy").forwards == 0  # all cached: hence the fresh ones
    assert run(Uncounted(lm), "greedy").forwards is None


def test_a_full_context_ends_a_run():
    lm = tiny(model=tiny_gpt2(n_positions=8))
    for name in ("greedy", "beam", "speculative"):
        found = run(lm, name, text="abcd")
        assert found.stop == "context full"
        # The last position has logits too, so one token more than the context comes.
        assert len(found.ids) in (8, 9)
    full = finish(lm, start(DECODERS["greedy"], lm.encode("abcdefgh"), 4))
    assert (full.new_ids, full.stop) == ((), "context full")


def test_a_given_text_is_scored_after_the_prompt(lm):
    prompt = lm.encode("hello you")
    greedy = run(lm, "greedy")
    same = given(lm, prompt, greedy.new_ids)
    assert same.logprobs == pytest.approx(greedy.logprobs, abs=1e-5)
    assert same.decoder is None and same.stop == "length" and same.masses == ()
    assert figures(same).forwards is None
    with pytest.raises(ContextFull):
        given(tiny(model=tiny_gpt2(n_positions=8)), prompt, prompt)


def test_figures_by_hand():
    table = pg.TableLM({None: [0.5, 0.5], 0: [0.25, 0.75], 1: [0.5, 0.5]}, eos_ids=(1,))
    found = figures(given(table, (0,), (0, 0, 1)), table.eos_ids)
    logprobs = [math.log(0.25), math.log(0.25), math.log(0.75)]
    assert found.tokens == 3
    assert found.logprob == pytest.approx(sum(logprobs))
    assert found.mean_logprob == pytest.approx(sum(logprobs) / 3)
    assert found.perplexity == pytest.approx(math.exp(-sum(logprobs) / 3))
    assert found.mean_prob == pytest.approx(1.25 / 3)
    assert found.entropy == pytest.approx(0.25 * math.log(4) + 0.75 * math.log(4 / 3))
    # The EOS at the end is no repetition.
    assert (found.distinct_1, found.longest, found.rep_2, found.locks) == (0.5, 1, 0, None)
    empty = figures(start(Decoder(), (0,), 3))
    assert (empty.tokens, empty.logprob, empty.perplexity, empty.tax) == (0, 0, None, None)


def test_the_table_has_a_row_per_run(lm):
    names = ["greedy", "beam"]
    runs = [run(lm, name) for name in names]
    frame = to_frame(runs, names)
    assert list(frame.index) == names and frame.index.name == "decoder"
    assert frame.loc["greedy", "logprob"] == pytest.approx(sum(runs[0].logprobs))
    assert frame.loc["greedy", "tax"] == pytest.approx(runs[0].taxes[-1])
    assert math.isnan(frame.loc["beam", "tax"])


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_round_trip(name):
    decoder = DECODERS[name]
    again = Decoder.from_dict(json.loads(json.dumps(decoder.to_dict())))
    assert again == decoder
    assert again.seeded(9).sampling.seed == 9


def test_every_decoder_that_draws_has_its_seed_changed(lm):
    drawn = Decoder("beam", beam=pg.BeamParams(2, do_sample=True)).seeded(9)
    assert drawn.beam.sampling.seed == 9
    assert Decoder("beam", beam=pg.BeamParams(2)).seeded(9).beam.sampling is None


@pytest.mark.parametrize(
    ("kind", "helper"), [("contrastive", "early-exit"), ("speculative", "lookup")]
)
def test_a_second_model_that_is_missing_is_named(lm, kind, helper):
    run = start(Decoder(kind, helper=helper), [5, 6], 3)
    with pytest.raises(ValueError, match=f"helper must be the {kind} decoder's second model"):
        finish(lm, run)


def test_refusals():
    with pytest.raises(ValueError, match="kind must be one of .*, got 'best'"):
        Decoder("best")
    with pytest.raises(ValueError, match="helper must be named for the kind contrastive"):
        Decoder("contrastive")
    with pytest.raises(ValueError, match="Decoder has no field 'x'"):
        Decoder.from_dict({"x": 1})
    with pytest.raises(ValueError, match="prompt_ids must have at least one token"):
        start(Decoder(), (), 3)
    with pytest.raises(ValueError, match="limit must be"):
        start(Decoder(), (1,), 0)
