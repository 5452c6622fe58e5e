"""Speculation with real networks: greedy identity, caches after rejections, the exact law."""

import copy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

import playground as pg
from playground.engines.acceptance import BUG_ZOO, damages
from playground.engines.pairs import check_pair
from playground.engines.speculative import stream
from playground.lm import TransformersLM
from tests.tiny import FAMILIES, tiny_gpt2, tiny_llama, tiny_tokenizer

GREEDY = pg.SamplingParams(temperature=0)
PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "Water is made of",
    "I went to the store and",
    "def fibonacci(n):",
    "1, 2, 3, 4, 5, 6",
    "The best way to learn is",
    "Dear Sir or Madam,",
    "In the year 1969 the first",
    "a a a a a a a a",
]


def wrap(model, name="tiny"):
    return TransformersLM(model, tiny_tokenizer(model.config.vocab_size), name)


def near(model, noise=0.03, seed=1):
    """Return a copy of a model with noise on its weights: it agrees often, not always."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in other.parameters():
            weight += noise * torch.randn(weight.shape, generator=generator)
    return other


def fresh_laws(model, ids, last, params, prompt_length):
    """Return the shaped laws after the last positions of ids by one forward without any cache."""
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -last:].float().numpy()
    cut = len(ids) - last + 1
    return np.exp(
        [
            pg.shape(row, params, ids[: cut + j], prompt_length)[-1].logprobs
            for j, row in enumerate(logits)
        ]
    )


@pytest.mark.parametrize("gamma", [1, 3, 5, 8])
def test_greedy_equals_plain_greedy_token_for_token(gamma):
    model = tiny_llama()
    target, draft = wrap(model), wrap(near(model))
    accepted = rejected = 0
    for prompt in range(10):
        ids = [2 + prompt, 5, 40 + prompt]
        plain = pg.generate(target, ids, GREEDY, 50, stop_at_eos=False)
        target.clear()
        run = pg.speculative_decode(
            target, draft, ids, pg.SpeculativeParams(gamma), GREEDY, 50, False, keep_probs=False
        )
        assert run.ids == plain.new_ids
        accepted += run.n_accepted
        rejected += run.n_tested - run.n_accepted
    assert accepted > 50 and rejected > 50


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_cache_keeps_greedy_true(family):
    model = FAMILIES[family]()
    target, draft = wrap(model), wrap(near(model))
    plain = pg.generate(target, [5, 6, 7], GREEDY, 30, stop_at_eos=False)
    for other in (draft, target, pg.PromptLookup()):
        target.clear()
        run = pg.speculative_decode(
            target, other, [5, 6, 7], pg.SpeculativeParams(4), GREEDY, 30, False
        )
        assert run.ids == plain.new_ids


@pytest.mark.parametrize("gamma", [1, 8])
@pytest.mark.parametrize("family", FAMILIES)
def test_laws_after_rejections_and_full_blocks_equal_a_fresh_run(family, gamma):
    model = FAMILIES[family]()
    other = near(model, 0.12 if family == "gemma3" else 0.01)
    target, draft = wrap(model), wrap(other)
    ids, sources = (5, 6, 7), set()
    params = pg.SamplingParams(temperature=0.8, seed=2)
    for one in stream(target, draft, ids, pg.SpeculativeParams(gamma), params, 40, False):
        path, g = ids + one.draft_ids, len(one.draft_ids)
        fresh = fresh_laws(model, path, g + 1, params, 3)
        np.testing.assert_allclose(one.target_probs, fresh, atol=1e-3)
        if g:
            fresh = fresh_laws(other, path[:-1], g, params, 3)
            np.testing.assert_allclose(one.draft_probs, fresh, atol=1e-3)
        ids += one.ids
        sources.add(one.source)
    assert sources >= {"recovered", "bonus"}


def test_same_weights_in_two_models_accept_everything():
    target, draft = wrap(tiny_gpt2()), wrap(tiny_gpt2())
    for params in (pg.SamplingParams(seed=3), GREEDY):
        run = pg.speculative_decode(
            target, draft, [5, 6], pg.SpeculativeParams(5), params, 60, False
        )
        assert run.acceptance_per_drafted == 1


def test_padded_output_layers_of_different_widths_work_together():
    target = TransformersLM(tiny_llama(vocab_size=96), tiny_tokenizer(90), "wide")
    draft = TransformersLM(tiny_llama(vocab_size=92), tiny_tokenizer(90), "narrow")
    run = pg.speculative_decode(target, draft, [5, 6], None, pg.SamplingParams(seed=1), 30, False)
    assert run.rounds[0].draft_probs.shape == (4, 90)
    assert max(run.ids) < 90


def test_models_of_different_tokenizers_are_refused_with_both_names():
    words = {word: i for i, word in enumerate(["<s>", "</s>", "the", *map(str, range(93))])}
    other = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, "the")), bos_token="<s>", eos_token="</s>"
    )
    a, b = wrap(tiny_llama(), "llama-like"), TransformersLM(tiny_gpt2(), other, "gpt2-like")
    with pytest.raises(ValueError, match="llama-like and gpt2-like: id 2 is 'a' in one and 'the'"):
        pg.speculative_decode(a, b, [5])
    longer = wrap(tiny_gpt2(vocab_size=300))  # the same tokens and more: no difference
    assert check_pair(a, longer) == 96


def test_eos_of_the_target_ends_the_run_inside_a_block():
    model = tiny_llama()
    target = wrap(model)
    free = pg.generate(target, [5, 6, 7], GREEDY, 40, stop_at_eos=False).new_ids
    target.eos_ids = (free[6],)
    end = free.index(free[6]) + 1
    run = pg.speculative_decode(target, target, [5, 6, 7], pg.SpeculativeParams(8), GREEDY, 40)
    assert run.ids == free[:end] and run.stop == "eos"


SHAPES = [
    dict(),
    dict(temperature=0.7, top_k=40),
    dict(temperature=1.3, top_p=0.9),
    dict(temperature=2.0, min_p=0.05, repetition_penalty=1.2),
]


@pytest.mark.slow
@pytest.mark.parametrize("prompt", PROMPTS)
def test_default_model_greedy_equals_plain_greedy(default_lm, prompt):
    """50 tokens a prompt; gamma goes round 1, 3, 5, 8 (the tiny model has every combination)."""
    place = PROMPTS.index(prompt)
    gamma = pg.SpeculativeParams((1, 3, 5, 8)[place % 4])
    drafts = [pg.draft_of(default_lm, "distilled")]
    if place % 5 == 4:
        drafts.append(pg.PromptLookup())
    ids = default_lm.encode(prompt)
    plain = pg.generate(default_lm, ids, GREEDY, 50)
    for draft in drafts:
        default_lm.clear()  # or the plain run's logits would answer for the blocks
        run = pg.speculative_decode(default_lm, draft, ids, gamma, GREEDY, 50, keep_probs=False)
        assert (run.ids, run.stop) == (plain.new_ids, plain.stop)


@pytest.mark.parametrize("shape", SHAPES)
def test_default_model_emits_the_targets_law_and_the_bugs_do_not(default_lm, shape):
    draft = pg.draft_of(default_lm, "early-exit")
    ids = default_lm.encode("The best way to learn is")
    params = pg.SamplingParams(seed=1, **shape)
    worst = dict.fromkeys(BUG_ZOO, 0.0)
    for one in stream(default_lm, draft, ids, pg.SpeculativeParams(3), params, 8):
        for p, q in zip(one.target_probs, one.draft_probs, strict=False):
            assert pg.total_variation(pg.emitted_distribution(p, q), p) < 1e-6
            found = damages(p, q)
            worst = {rule: max(worst[rule], found[rule]) for rule in BUG_ZOO}
    for rule in ("resample_target", "greedy_draft"):
        assert worst[rule] > 0.01


def test_default_model_accepts_all_of_its_own_drafts(default_lm):
    ids = default_lm.encode("Once upon a time")
    run = pg.speculative_decode(default_lm, default_lm, ids, None, pg.SamplingParams(seed=4), 15)
    assert run.acceptance_per_drafted == 1
