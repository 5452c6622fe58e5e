"""Reading a given text: numbers against transformers' loss, windows, words, refusals."""

import math
import tracemalloc

import numpy as np
import pytest
import torch

from playground import TableLM, reading
from playground.engines.sampling import entropy_of, rank_of
from playground.lm import TransformersLM
from tests.tiny import CONTEXT, FAMILIES, tiny_llama, tiny_tokenizer

TEXT = "a cat sat on the mat, and the cat's mat was where it sat. 12 cats?"


def tiny(model=None):
    return TransformersLM(model or tiny_llama(), tiny_tokenizer(), name="tiny")


def losses(model, ids):
    """transformers' own loss and torch's cross entropy per token."""
    row = torch.tensor([ids])
    with torch.inference_mode():
        out = model(input_ids=row, labels=row)
    each = torch.nn.functional.cross_entropy(
        out.logits[0, :-1].double(), row[0, 1:], reduction="none"
    )
    return float(out.loss), each.numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_surprisals_are_the_loss_of_transformers(family):
    lm = tiny(FAMILIES[family]())
    ids = lm.encode(TEXT)
    mean, each = losses(lm.model, ids)
    for rows in (7, None):
        lm.clear()
        found = reading.read(lm, ids, rows=rows)
        np.testing.assert_allclose(found.surprisals[1:], each, atol=1e-4)
        assert found.perplexity == pytest.approx(math.exp(mean), rel=1e-4)
        assert found.logprob == pytest.approx(-mean * (len(ids) - 1), rel=1e-4)
        assert np.isnan(found.surprisals[0]) and found.ranks[0] == 0


def test_ranks_entropies_and_tops_are_those_of_a_step():
    lm = tiny()
    ids = lm.encode(TEXT)
    found = reading.read(lm, ids, rows=5)
    for i in range(1, len(ids)):
        z = lm.logits(ids[:i])[-1].astype(np.float64)
        logprobs = z - z.max() - math.log(np.exp(z - z.max()).sum())
        assert found.ranks[i] == rank_of(logprobs, ids[i])
        assert found.entropies[i] == pytest.approx(entropy_of(logprobs), abs=1e-4)
        assert found.top_ids[i] == logprobs.argmax()
        assert found.top_logprobs[i] == pytest.approx(logprobs.max(), abs=1e-4)


def test_a_table_by_hand():
    lm = TableLM({None: [1, 0, 0], 0: [0.5, 0.25, 0.25], 1: [0, 0, 1], 2: [0.2, 0.4, 0.4]})
    found = reading.read(lm, [0, 1, 2, 2, 1, 0])
    assert np.exp(found.logprobs[1:]) == pytest.approx([0.25, 1, 0.4, 0.4, 0])
    assert found.ranks.tolist() == [0, 2, 1, 2, 1, 1 + 1]  # ties by id; zeros tie too
    assert found.entropies[1:3] == pytest.approx([1.5 * math.log(2), 0])
    assert found.perplexity == math.inf
    sure = reading.read(lm, [0, 1, 2])
    assert sure.perplexity == pytest.approx(2)  # (0.25 x 1) ** (-1 / 2)
    assert sure.bits_per(4) == pytest.approx(0.5)  # 2 bits over 4 characters
    assert math.isnan(sure.bits_per(0)) and math.isnan(reading.read(lm, [0]).perplexity)


def test_windows_are_the_text_alone_from_where_they_begin():
    lm = tiny(tiny_llama(max_position_embeddings=32))
    ids = (lm.encode(TEXT) * 2)[:100]
    whole = reading.read(tiny(tiny_llama(max_position_embeddings=256)), ids)
    for window, stride, rows in ((32, 16, None), (32, 10, 7), (20, 20, 3), (8, 1, None)):
        lm.clear()
        found = reading.read(lm, ids, window=window, stride=stride, rows=rows)
        assert (found.window, found.stride) == (window, stride)
        # Up to the first window's end nothing differs from the unwindowed text.
        np.testing.assert_allclose(
            found.logprobs[1 : window + 1], whole.logprobs[1 : window + 1], atol=1e-4
        )
        assert not found.starts[: window + 1].any()
        for i in range(1, len(ids)):
            begin = int(found.starts[i])
            assert begin % stride == 0 and i - begin <= window
            assert begin == 0 or i - begin > window - stride
            z = torch.from_numpy(lm.logits(ids[begin:i])[-1].astype(np.float64))
            assert found.logprobs[i] == pytest.approx(float(z.log_softmax(0)[ids[i]]), abs=1e-4)


def test_defaults_take_the_context_and_half_of_it():
    lm = tiny()
    ids = lm.encode(TEXT) * 3
    found = reading.start(lm, ids)
    assert (found.window, found.stride, found.done, found.finished) == (
        CONTEXT,
        CONTEXT // 2,
        1,
        False,
    )
    steps = list(reading.stream(lm, ids, rows=50))
    assert [s.done for s in steps] == sorted(s.done for s in steps) and steps[-1].finished
    assert all(b.done - a.done <= 50 for a, b in zip(steps, steps[1:], strict=False))
    np.testing.assert_array_equal(steps[1].logprobs, steps[-1].logprobs[: steps[1].done])


def test_each_token_goes_through_the_model_once():
    lm = tiny(tiny_llama(max_position_embeddings=512))
    ids = (lm.encode(TEXT) * 6)[:300]
    reading.read(lm, ids, rows=32)
    assert lm.forwarded == len(ids) - 1


def test_memory_stays_bounded():
    """A vocabulary of 50,000 and 400 tokens: the logits alone would be 80 MB."""

    class Wide:
        name, eos_ids, bos_id, context_length, device, dtype = (
            "wide",
            (),
            None,
            None,
            "cpu",
            "float32",
        )
        vocab_size = 50_000

        def logits(self, ids, last=1):
            return np.zeros((last, self.vocab_size), np.float32)

    tracemalloc.start()
    found = reading.read(Wide(), range(400))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.ranks[1:].tolist() == list(range(2, 401))  # all tie: by id
    assert peak < 70e6


def test_words_and_buckets():
    lm = TableLM({None: [0.25] * 4})
    pieces = [
        "The",
        " cat",
        "'s",
        " mat",
        ",",
        "\n",
        "well",
        "-",
        "off",
        " 猫",
        "咪",
        "",
        "😀",
        "!",
    ]
    found = reading.words(reading.read(lm, [0] * len(pieces)), pieces)
    expected = [" cat's", " mat", ",", "\n", "well-off", " 猫", "咪", "", "😀", "!"]
    assert [w.text for w in found] == expected
    assert found[0].surprisal == pytest.approx(2 * math.log(4)) and (
        found[0].start,
        found[0].end,
    ) == (1, 3)
    ranks = np.array([0, 1, 10, 11, 100, 101, 1000, 1001])
    assert reading.bucket_of(ranks, (10, 100, 1000)).tolist() == [-1, 0, 0, 1, 1, 2, 2, 3]


def test_a_reading_as_a_table():
    lm = tiny()
    ids = lm.encode("a cat")
    frame = reading.read(lm, ids).to_frame([lm.label(i) for i in ids])
    assert frame["token"].tolist() == ["a", "·", "c", "a", "t"]
    assert frame["rank"].tolist()[0] == 0 and frame.index.name == "position"
    np.testing.assert_allclose(frame["probability"][1:], np.exp(-frame["surprisal"][1:]))


def test_refusals():
    lm = tiny()
    with pytest.raises(ValueError, match=r"token ids must be in \[0, 95\], got 96"):
        reading.start(lm, [96])
    with pytest.raises(ValueError, match="window must be"):
        reading.start(lm, [1, 2], window=CONTEXT + 1)
    with pytest.raises(ValueError, match="stride must be"):
        reading.start(lm, [1, 2], window=4, stride=5)
    assert reading.read(lm, []).done == 0


def test_the_default_model(default_lm):
    """The golden next-token values, and transformers' own loss over chunks."""
    ids = default_lm.encode(
        "The capital of France is Paris.\nWater is made of hydrogen and oxygen."
    )
    default_lm.clear()
    found = reading.read(default_lm, ids, rows=4)
    assert math.exp(found.logprobs[5]) == pytest.approx(0.772532, abs=1e-5)
    assert found.entropies[5] == pytest.approx(1.48117, abs=1e-4) and found.ranks[5] == 1
    mean, each = losses(default_lm.model, ids)
    np.testing.assert_allclose(found.surprisals[1:], each, atol=1e-3)
    assert found.perplexity == pytest.approx(math.exp(mean), rel=1e-4)
