"""Sampling against transformers.generate, hand-made tables and identities."""

import json
import pickle

import numpy as np
import pytest
import torch

import playground as pg
from playground.language_model import ContextFull
from playground.lm import TransformersLM
from tests.tiny import FAMILIES, tiny_gpt2, tiny_llama, tiny_tokenizer

PARIS = [504, 3575, 282, 4649, 314]  # "The capital of France is"
TOY = {None: [0.5, 0.3, 0.2], 0: [0.1, 0.9, 0.0], 1: [0.0, 0.0, 1.0]}


def oracle(model, ids, count, **options):
    options = {"do_sample": False, "max_new_tokens": count, **options}
    inputs = torch.tensor([list(ids)])
    with torch.inference_mode():
        out = model.generate(inputs, attention_mask=torch.ones_like(inputs), **options)
    return tuple(out[0, len(ids) :].tolist())


def test_greedy_takes_the_most_probable_token_and_the_lowest_id_on_a_tie():
    lm = pg.TableLM({None: [0.4, 0.2, 0.4]})
    trace = pg.generate(lm, [1], pg.SamplingParams(temperature=0), 3)
    assert trace.new_ids == (0, 0, 0)
    first = trace.steps[0]
    assert (first.source, first.u, first.rank, first.kept) == ("greedy", None, 1, 1)
    assert first.model_logprob == pytest.approx(np.log(0.4)) and first.logprob == 0.0


def test_a_step_records_what_was_decided():
    lm = pg.TableLM({None: [0.5, 0.3, 0.2]})
    params = pg.SamplingParams(top_k=2, seed=11)
    (step,) = pg.stream(lm, [2, 2, 2], params, 1)
    u = pg.uniform(11, 3)
    final = np.array([0.5, 0.3]) / 0.8
    want = int(u >= final[0])
    assert step.u == u and step.token_id == want and step.source == "sampled"
    assert step.logprob == pytest.approx(np.log(final[want]))
    assert step.model_logprob == pytest.approx(np.log([0.5, 0.3][want]))
    assert step.rank == want + 1 and step.kept == 2 and step.params is params
    p = np.array([0.5, 0.3, 0.2])
    assert step.entropy == pytest.approx(-(p * np.log(p)).sum())


def test_a_run_ends_at_eos_which_is_in_new_ids():
    lm = pg.TableLM(TOY, eos_ids=(2,))
    greedy = pg.SamplingParams(temperature=0)
    trace = pg.generate(lm, [0], greedy, 10)
    assert trace.new_ids == (1, 2) and trace.stop == "eos" and trace.ids == (0, 1, 2)
    on = pg.generate(lm, [0], greedy, 4, stop_at_eos=False)
    assert on.new_ids == (1, 2, 0, 1) and on.stop == "length"


def test_a_run_ends_when_the_context_is_full():
    lm = TransformersLM(tiny_gpt2(), tiny_tokenizer())
    greedy = pg.SamplingParams(temperature=0)
    ids = [5] * 127
    trace = pg.generate(lm, ids, greedy, 10, stop_at_eos=False)
    assert len(trace.ids) == 128 and trace.stop == "context full"
    assert pg.generate(lm, [5] * 128, greedy, 10).steps == ()
    with pytest.raises(ContextFull, match="129 tokens, and .* takes 128"):
        pg.generate(lm, [5] * 129, greedy, 10)


def test_the_same_dice_draw_the_same_run_and_another_seed_another():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer())
    runs = [pg.generate(lm, [5, 6, 7], pg.SamplingParams(seed=s), 30).new_ids for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_transformers(family):
    lm = TransformersLM(FAMILIES[family](), tiny_tokenizer())
    greedy = pg.SamplingParams(temperature=0)
    for seed in range(3):
        ids = [int(i) for i in np.random.default_rng(seed).integers(3, 90, 6)]
        assert pg.generate(lm, ids, greedy, 40).new_ids == oracle(lm.model, ids, 40)


def test_greedy_under_penalties_equals_transformers():
    lm = TransformersLM(tiny_llama(3), tiny_tokenizer())
    ids = [5, 17, 5, 40, 41]
    params = pg.SamplingParams(temperature=0, repetition_penalty=1.7, no_repeat_ngram_size=3)
    want = oracle(lm.model, ids, 50, repetition_penalty=1.7, no_repeat_ngram_size=3)
    assert pg.generate(lm, ids, params, 50).new_ids == want


def test_sampling_distributions_equal_transformers_scores():
    """Along one of our own runs, each final distribution is what transformers draws from."""
    lm = TransformersLM(tiny_llama(5), tiny_tokenizer())
    params = pg.SamplingParams(0.8, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.2, seed=4)
    trace = pg.generate(lm, [5, 6, 7, 5], params, 12, stop_at_eos=False)
    options = dict(temperature=0.8, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.2)
    for i, step in enumerate(trace.steps):
        ids = trace.ids[: 4 + i]
        inputs = torch.tensor([ids])
        out = lm.model.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            do_sample=True,
            max_new_tokens=1,
            output_scores=True,
            return_dict_in_generate=True,
            **options,
        )
        want = out.scores[0][0].double().log_softmax(-1).numpy()
        ours = pg.shape(lm.logits(ids)[-1], params, ids, 4)[-1].logprobs
        np.testing.assert_array_equal(ours > -np.inf, want > -np.inf)
        alive = want > -np.inf
        np.testing.assert_allclose(ours[alive], want[alive], atol=1e-4)
        assert step.logprob == pytest.approx(want[step.token_id], abs=1e-4)


def test_a_trace_survives_json_and_pickle():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")
    params = pg.SamplingParams(
        0.7, top_k=9, banned_tokens=[8], order=("banned_tokens", "top_k", "temperature")
    )
    trace = pg.generate(lm, [5, 6], params, 6)
    again = pg.Trace.from_dict(json.loads(json.dumps(trace.to_dict())))
    assert again == trace == pickle.loads(pickle.dumps(trace))
    assert trace.model == "tiny@abc/float32"
    frame = trace.to_frame()
    assert list(frame.index) == list(range(2, 2 + len(trace.steps)))
    assert list(frame["token_id"]) == list(trace.new_ids)
    assert len(json.dumps(trace.to_dict())) < 300 * len(trace.steps) + 400


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 99},
        {"prompt_ids": [-1]},
        {"prompt_ids": ["a"]},
        {"steps": [{"token_id": 3}]},
        {"steps": 7},
        {"params": [{"temperatur": 1}]},
        {"params": [{"top_p": 7}]},
    ],
)
def test_a_damaged_trace_is_refused_in_words(damage):
    trace = pg.generate(pg.TableLM(TOY), [0], pg.SamplingParams(), 2)
    with pytest.raises(ValueError, match="trace|must|no field"):
        pg.Trace.from_dict({**trace.to_dict(), **damage})
    with pytest.raises(ValueError, match="must be an object"):
        pg.Trace.from_dict([1])


def test_golden_numbers_of_the_default_model(default_lm):
    assert default_lm.encode("The capital of France is") == PARIS
    assert default_lm.vocab_size == 49_152 and default_lm.context_length == 8192
    assert (default_lm.bos_id, default_lm.eos_ids) == (1, (2,))
    final = pg.shape(default_lm.logits(PARIS)[-1], pg.SamplingParams())[-1].logprobs
    top = {7042: 0.772532, 260: 0.064522, 4528: 0.012471, 2250: 0.009854, 1315: 0.009299}
    for token, p in top.items():
        assert np.exp(final[token]) == pytest.approx(p, abs=2e-6)
    assert -(np.exp(final) * final).sum() == pytest.approx(1.48117, abs=1e-5)
    assert np.exp(final).sum() == pytest.approx(1, abs=1e-12)


def test_greedy_equals_transformers_on_the_default_model(default_lm):
    trace = pg.generate(default_lm, PARIS, pg.SamplingParams(temperature=0), 12)
    assert trace.new_ids == (7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33)
    assert trace.new_ids == oracle(default_lm.model, PARIS, 12)
    ids = default_lm.encode("Why is the sky blue?", chat=True)
    want = oracle(default_lm.model, ids, 40)
    assert pg.generate(default_lm, ids, pg.SamplingParams(temperature=0), 40).new_ids == want
