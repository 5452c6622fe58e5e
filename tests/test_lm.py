"""TransformersLM against bare forwards: whatever the caches did, the numbers stay the same."""

import threading

import numpy as np
import pytest
import torch

from playground.language_model import ContextFull, LanguageModel
from playground.lm import TransformersLM
from tests.tiny import FAMILIES, tiny_gpt2, tiny_llama, tiny_tokenizer

TOLERANCE = 1e-4


@pytest.fixture(params=FAMILIES)
def lm(request):
    # In float64: a wrong cache can't hide in rounding, nor rounding look like a wrong cache.
    # (The mixture of experts has no float64 kernel; smaller weights keep its rounding small.)
    if request.param == "qwen3_next":
        model = FAMILIES[request.param](initializer_range=0.1)
    else:
        model = FAMILIES[request.param]().double()
    return TransformersLM(model, tiny_tokenizer(), name=request.param)


def bare(lm, ids, last=1):
    """One forward without any cache."""
    with torch.inference_mode():
        out = lm.model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits
    return out[0, -last:, : lm.vocab_size].float().numpy()


def some_ids(count, seed=0):
    return tuple(int(i) for i in np.random.default_rng(seed).integers(3, 90, count))


def test_it_is_a_language_model(lm):
    assert isinstance(lm, LanguageModel)


def test_stepping_costs_one_prefill_and_then_single_tokens(lm):
    ids = list(some_ids(12))
    for _ in range(10):
        logits = lm.logits(ids)
        np.testing.assert_allclose(logits, bare(lm, ids), atol=TOLERANCE)
        ids.append(int(logits[-1].argmax()))
    assert lm.forwards == 10
    assert lm.forwarded == 12 + 9


def test_known_logits_cost_nothing(lm):
    ids = some_ids(9)
    first = lm.logits(ids)
    again = lm.logits(list(ids))
    assert lm.forwards == 1
    np.testing.assert_array_equal(first, again)
    with pytest.raises(ValueError):
        again[0, 0] = 1.0  # read-only: a filter that writes in place would corrupt the cache


def test_rewound_and_branched_prefixes_equal_fresh_runs(lm):
    """The sliding window (if any) is passed, left and entered again."""
    path = list(some_ids(30))
    for n in range(20, 31):
        lm.logits(path[:n])
    for cut in (29, 24, 21, 12, 3):
        for seed in (1, 2):
            branch = path[:cut] + list(some_ids(4, seed))
            for n in range(cut + 1, len(branch) + 1):
                got = lm.logits(branch[:n])
                np.testing.assert_allclose(got, bare(lm, branch[:n]), atol=TOLERANCE)
    # The path that was left still goes on rightly.
    np.testing.assert_allclose(lm.logits([*path, 5]), bare(lm, [*path, 5]), atol=TOLERANCE)


def test_several_last_positions(lm):
    ids = some_ids(14)
    np.testing.assert_allclose(lm.logits(ids, last=14), bare(lm, ids, 14), atol=TOLERANCE)
    longer = ids + some_ids(5, 3)
    np.testing.assert_allclose(lm.logits(longer, last=7), bare(lm, longer, 7), atol=TOLERANCE)
    forwards = lm.forwards
    lm.logits(longer, last=19)
    assert lm.forwards == forwards


def test_drafted_and_rejected_tokens_leave_no_trace(lm):
    ids = list(some_ids(10))
    for round_ in range(6):
        drafted = ids + list(some_ids(4, 10 + round_))
        np.testing.assert_allclose(lm.logits(drafted, last=5), bare(lm, drafted, 5), atol=TOLERANCE)
        ids = drafted[: len(ids) + round_ % 5] + [7 + round_]
    np.testing.assert_allclose(lm.logits(ids), bare(lm, ids), atol=TOLERANCE)


def test_a_batch_equals_its_rows(lm):
    prefixes = [some_ids(n, n) for n in (3, 11, 7, 20, 11)]
    got = lm.logits_many(prefixes)
    for row, ids in zip(got, prefixes, strict=True):
        np.testing.assert_allclose(row, bare(lm, ids), atol=TOLERANCE)
    grown = [p + some_ids(1, 40 + i) for i, p in enumerate(prefixes)]
    got = lm.logits_many(grown, last=1)
    for row, ids in zip(got, grown, strict=True):
        np.testing.assert_allclose(row, bare(lm, ids), atol=TOLERANCE)
    got = lm.logits_many(prefixes[1:3], last=3)
    for row, ids in zip(got, prefixes[1:3], strict=True):
        np.testing.assert_allclose(row, bare(lm, ids, 3), atol=TOLERANCE)
    # And back to one row, out of the padded batch.
    one = grown[1] + some_ids(2, 77)
    np.testing.assert_allclose(lm.logits(one), bare(lm, one), atol=TOLERANCE)


def test_a_beam_search_reorders_its_rows(lm):
    rng = np.random.default_rng(4)
    beams = [some_ids(12)]
    for _ in range(12):
        got = lm.logits_many(beams)
        for row, ids in zip(got, beams, strict=True):
            np.testing.assert_allclose(row, bare(lm, ids), atol=TOLERANCE)
        parents = rng.integers(0, len(beams), 4)
        tokens = rng.choice(np.arange(3, 90), 4, replace=False)
        beams = [beams[p] + (int(t),) for p, t in zip(parents, tokens, strict=True)]
    assert lm.forwards == 12
    assert lm.forwarded == 12 + 11 * 4


def test_equal_prefixes_are_computed_once(lm):
    ids, other = some_ids(6), some_ids(6, 1)
    got = lm.logits_many([ids, other, ids])
    np.testing.assert_array_equal(got[0], got[2])
    assert lm.forwarded == 12


def test_two_sessions_with_one_prompt_keep_their_caches():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer())
    prompt = some_ids(15)
    a, b = [*prompt, 5], [*prompt, 6]
    lm.logits(prompt)
    before = lm.forwarded
    for i in range(8):
        lm.logits(a)
        lm.logits(b)
        a.append(10 + i)
        b.append(30 + i)
    assert lm.forwarded - before == 16
    np.testing.assert_allclose(lm.logits(a), bare(lm, a), atol=TOLERANCE)
    np.testing.assert_allclose(lm.logits(b), bare(lm, b), atol=TOLERANCE)


def test_both_caches_are_bounded_in_bytes():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer(), kv_bytes=60_000, logits_bytes=5_000)
    for seed in range(30):
        ids = some_ids(20, seed)
        np.testing.assert_allclose(lm.logits(ids), bare(lm, ids), atol=TOLERANCE)
    assert lm.cached_bytes <= 65_000
    lm.clear()
    assert lm.cached_bytes == 0


def test_padding_of_the_output_layer_is_cut_and_reported():
    tokenizer = tiny_tokenizer(90)
    lm = TransformersLM(tiny_llama(vocab_size=96), tokenizer)
    ids = some_ids(5)
    assert lm.vocab_size == 90 and lm.output_width == 96
    got = lm.logits(ids)
    assert got.shape == (1, 90)
    with torch.inference_mode():
        full = lm.model(input_ids=torch.tensor([ids])).logits[0, -1].double().softmax(-1)
    assert lm.padding_mass == pytest.approx(float(full[90:].sum()), rel=1e-4)


def test_bad_ids_are_refused_with_numbers():
    lm = TransformersLM(tiny_gpt2(), tiny_tokenizer())
    with pytest.raises(ValueError, match=r"at least one token, got none \(start from BOS, id 0\)"):
        lm.logits([])
    with pytest.raises(ValueError, match=r"must be in \[0, 95\], got 96"):
        lm.logits([96])
    with pytest.raises(ValueError, match=r"last must be in \[1, 2\], got 3"):
        lm.logits([5, 6], last=3)
    assert lm.logits(some_ids(128)).shape == (1, 96)
    with pytest.raises(ContextFull, match="129 tokens.* 128"):
        lm.logits(some_ids(129))
    with pytest.raises(ContextFull, match="129 tokens.* 128"):
        lm.logits_many([some_ids(3), some_ids(129)])


def test_a_failed_forward_does_no_harm():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer())
    ids = some_ids(8)
    lm.logits(ids)
    forward, lm.model.forward = lm.model.forward, None
    with pytest.raises(TypeError):
        lm.logits([*ids, 4])
    lm.model.forward = forward
    np.testing.assert_allclose(lm.logits([*ids, 4]), bare(lm, [*ids, 4]), atol=TOLERANCE)


def test_threads_get_their_own_answers():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer())
    wrong = []

    def walk(seed):
        ids = list(some_ids(6, seed))
        for i in range(15):
            ids.append((seed * 7 + i) % 80 + 5)
            if np.abs(lm.logits(ids) - bare(lm, ids)).max() > TOLERANCE:
                wrong.append((seed, i))

    threads = [threading.Thread(target=walk, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
