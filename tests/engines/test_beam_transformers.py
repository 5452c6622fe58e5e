"""Beam search against transformers.generate: sequences and scores."""

import random
import warnings

import numpy as np
import pytest
import torch

from playground.engines.beam import beam_search
from playground.engines.hypotheses import greedy_continuation
from playground.lm import TransformersLM
from playground.records import BeamParams, SamplingParams
from tests.tiny import FAMILIES, tiny_gpt2, tiny_llama, tiny_tokenizer

EARLY = (False, True, "never")


def theirs(model, prompt, eos_ids, params, **more):
    """Return transformers' hypotheses: ids (cut after EOS) and scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            num_beams=params.num_beams,
            max_new_tokens=params.max_new_tokens,
            length_penalty=params.length_penalty,
            early_stopping=params.early_stopping,
            num_return_sequences=params.num_return or params.num_beams,
            do_sample=False,
            eos_token_id=list(eos_ids) or None,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            **more,
        )
    rows = []
    for row in out.sequences[:, len(prompt) :].tolist():
        end = next((i + 1 for i, token in enumerate(row) if token in eos_ids), len(row))
        rows.append(tuple(row[:end]))
    return rows, None if params.num_beams == 1 else out.sequences_scores.tolist()


def wrap(model, eos_ids):
    lm = TransformersLM(model, tiny_tokenizer(model.config.vocab_size))
    lm.eos_ids = tuple(eos_ids)
    return lm


def check(lm, prompt, params, **more):
    ids, scores = theirs(lm.model, prompt, lm.eos_ids, params, **more)
    ours = beam_search(lm, prompt, params)
    assert [h.ids for h in ours.hypotheses] == ids
    if scores is not None:
        allowed = [
            # torch's float32 log-softmax over 49,152 tokens is off by 1e-5 a token (ours is not),
            # which a sum without length penalty adds up.
            1e-4
            + max(lm.vocab_size - 1000, 0) / 49_152 * 1e-5 * h.length ** (1 - params.length_penalty)
            for h in ours.hypotheses
        ]
        off = np.abs(np.array([h.score for h in ours.hypotheses]) - scores)
        assert (off < allowed).all(), off
    for h in ours.hypotheses:
        assert sum(h.logprobs) == pytest.approx(h.logprob, abs=1e-9)
        assert h.score == pytest.approx(h.logprob / h.length**params.length_penalty, abs=1e-9)
        assert h.finished == (h.ids[-1] in lm.eos_ids)
    return ours


@pytest.mark.parametrize("block", range(10))
def test_two_hundred_random_settings(block):
    finished = 0
    for trial in range(20 * block, 20 * block + 20):
        dice = random.Random(trial)
        width = dice.choice([20, 40, 96, 300])
        eos_ids = dice.sample(range(width), dice.choice([0, 1, 2, 3, 10]))
        build = dice.choice([tiny_gpt2, tiny_llama])
        flatness = dice.choice([0.3, 0.15, 0.08])  # of weights: the smaller, the more often it ends
        lm = wrap(build(trial, vocab_size=width, initializer_range=flatness), eos_ids)
        beams = dice.choice([1, 2, 3, 4, 5, 8])
        params = BeamParams(
            num_beams=beams,
            max_new_tokens=dice.randint(1, 14),
            length_penalty=dice.choice([0.0, 1.0, -1.0, 2.5, 0.6, -0.3]),
            early_stopping=dice.choice(EARLY),
            num_return=dice.choice([None, 1, beams]),
        )
        prompt = [dice.randrange(width) for _ in range(dice.randint(1, 6))]
        ours = check(lm, prompt, params)
        finished += any(h.finished for h in ours.hypotheses)
    assert finished >= 3  # the settings do reach the rules about endings


@pytest.mark.parametrize("early_stopping", EARLY)
@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0])
def test_frequent_endings(early_stopping, length_penalty):
    # 3 of 12 tokens end: hypotheses finish, and push others out, at every step.
    stops, dropped = [], 0
    for seed in range(8):
        params = BeamParams(4, 10, length_penalty, early_stopping)
        ours = check(wrap(tiny_llama(seed, vocab_size=12), (1, 5, 7)), [3, 2], params)
        stops.append(ours.stop)
        dropped += sum(len(step.dropped) for step in ours.steps)
    expected = "all finished" if early_stopping is True else "no better possible"
    assert expected in stops
    assert dropped > 0 or early_stopping is True or length_penalty < 0


def test_processors_act_before_ranking_and_are_not_renormalised():
    for seed in range(12):
        lm = wrap(tiny_gpt2(seed), (1, 7))
        params = BeamParams(4, 10, 1.0, EARLY[seed % 3])
        penalty = SamplingParams(repetition_penalty=1.4)
        ours = check(lm, [5, 9, 5], params.replace(sampling=penalty), repetition_penalty=1.4)
        best = ours.hypotheses[0]
        assert best.model_logprob != pytest.approx(best.logprob, abs=1e-3)
        ngrams = SamplingParams(no_repeat_ngram_size=2)
        check(lm, [5, 9, 5], params.replace(sampling=ngrams), no_repeat_ngram_size=2)
        banned = SamplingParams(banned_tokens=(3, 40, 41))
        check(lm, [5, 9], params.replace(sampling=banned), bad_words_ids=[[3], [40], [41]])


@pytest.mark.parametrize("family", FAMILIES)
def test_each_beam_scores_the_same_from_scratch(family):
    model = FAMILIES[family](3)
    lm = wrap(model, (1,))
    result = beam_search(lm, [4, 8, 15, 16], BeamParams(5, 12))
    parents = [c.beam for step in result.steps for c in step.kept]
    assert len(set(parents)) > 1  # beams did swap their rows
    for h in result.hypotheses:
        ids = [4, 8, 15, 16, *h.ids]
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, 3:-1].double()
        edges = logits.log_softmax(-1).gather(1, torch.tensor(h.ids)[:, None])[:, 0]
        assert list(h.logprobs) == pytest.approx(edges.tolist(), abs=1e-3)


def test_the_context_ends_a_search_as_the_length_does():
    model = tiny_gpt2(5, n_positions=16)
    lm = wrap(model, (1,))
    prompt = list(range(2, 12))
    full = beam_search(lm, prompt, BeamParams(3, 50))
    assert full.stop == "context full" and len(full.steps) == 6
    ids, scores = theirs(model, prompt, (1,), BeamParams(3, 6))
    assert [h.ids for h in full.hypotheses] == ids
    assert [h.score for h in full.hypotheses] == pytest.approx(scores, abs=1e-4)


# The default model.

GOLDEN_PROMPT = [504, 3575, 282, 4649, 314]


@pytest.mark.parametrize("early_stopping", EARLY)
def test_golden_scores(default_lm, early_stopping):
    params = BeamParams(4, 6, 1.0, early_stopping)
    result = beam_search(default_lm, GOLDEN_PROMPT, params)
    scores = [h.score for h in result.hypotheses]
    assert scores == pytest.approx([-0.94745, -1.07171, -1.07267, -1.10476], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 2, 4, 8, 16])
def test_default_model_equals_transformers(default_lm, beams):
    for early_stopping in EARLY:
        check(default_lm, GOLDEN_PROMPT, BeamParams(beams, 10, 1.0, early_stopping))
    # A sharp distribution, that ends: the plain sum ranks.
    asked = default_lm.encode("<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n")
    check(default_lm, asked, BeamParams(beams, 10, 0.0))


@pytest.mark.parametrize(
    ("text", "greedy_sum", "beam_sum"),
    [
        ("Once upon a time", -14.286, -10.372),
        ("Water is made of", -22.412, -16.121),
        ("I went to the store and", -16.201, -10.023),
    ],
)
def test_golden_traps(default_lm, text, greedy_sum, beam_sum):
    prompt = default_lm.encode(text)
    greedy = greedy_continuation(default_lm, prompt, 12)
    best = beam_search(default_lm, prompt, BeamParams(5, 12, 0.0)).hypotheses[0]
    assert greedy.logprob == pytest.approx(greedy_sum, abs=1e-3)
    assert best.logprob == pytest.approx(beam_sum, abs=1e-3)


def test_default_model_scores_the_same_from_scratch(default_lm):
    result = beam_search(default_lm, GOLDEN_PROMPT, BeamParams(8, 12))
    for h in result.hypotheses[:3]:
        ids = torch.tensor([[*GOLDEN_PROMPT, *h.ids]])
        with torch.no_grad():
            logits = default_lm.model(ids, use_cache=False).logits[0, 4:-1].double()
        edges = logits.log_softmax(-1).gather(1, ids[0, 5:, None])[:, 0]
        assert np.abs(edges.numpy() - h.logprobs).max() < 1e-3
