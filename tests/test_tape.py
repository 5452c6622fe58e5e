"""Tapes: what is recorded plays again within float16, everything else is refused in words."""

import hashlib
import json
import struct
import zlib

import numpy as np
import pytest

from playground import SamplingParams, generate
from playground.language_model import LanguageModel
from playground.lm import TransformersLM
from playground.processors import shape
from playground.recorder import Recorder, TapeFull, record
from playground.tape import NotOnTape, TapeLM, size_of
from playground.tape_file import MAGIC, MAGIC_VOICES, MAX_FILE, from_bytes, to_bytes
from tests.tiny import tiny_llama, tiny_tokenizer

PARAMS = SamplingParams(top_p=0.9, repetition_penalty=1.2, seed=3)


@pytest.fixture(scope="module")
def lm():
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")


@pytest.fixture(scope="module")
def trace(lm):
    return generate(lm, lm.encode("a cat sat"), PARAMS, 6)


@pytest.fixture(scope="module")
def data(lm, trace):
    n = len(trace.prompt_ids)
    prefixes = [trace.ids[: n + k] for k in range(len(trace.steps) + 1)]
    texts = {"a cat sat": trace.prompt_ids}
    return to_bytes(record(lm, prefixes, texts=texts, state={"note": "é"}, about="six steps"))


def rebuilt(data, change_header=None, change_body=None):
    """The same file with another header or body, and a hash that fits."""
    at = len(MAGIC)
    (n,) = struct.unpack_from("<I", data, at)
    header = json.loads(zlib.decompress(data[at + 4 : at + 4 + n]))
    (m,) = struct.unpack_from("<Q", data, at + 4 + n)
    body = data[at + 12 + n : at + 12 + n + m]
    head = zlib.compress(json.dumps((change_header or (lambda h: h))(header)).encode())
    body = (change_body or (lambda b: b))(body)
    out = MAGIC + struct.pack("<I", len(head)) + head + struct.pack("<Q", len(body)) + body
    return out + hashlib.sha256(out).digest()


def test_it_plays_what_was_recorded(lm, trace, data):
    tape = from_bytes(data)
    play = TapeLM(tape)
    assert isinstance(play, LanguageModel)
    assert (tape.about, tape.state, tape.digest) == (
        "six steps",
        {"note": "é"},
        hashlib.sha256(data).hexdigest(),
    )
    for name in ("name", "vocab_size", "eos_ids", "bos_id", "context_length", "fingerprint"):
        assert getattr(play, name) == getattr(lm, name)
    n = len(trace.prompt_ids)
    real, played = lm.logits(trace.ids, 7), play.logits(trace.ids, 7)
    assert played.dtype == np.float32 and played.shape == real.shape
    # float16 of the distance to the maximum: 2^-11 of it at most, and the maximum itself exact.
    distance = real.max(1, keepdims=True) - real
    assert (np.abs(played - real) <= distance * 2**-11 + 1e-5).all()
    assert (played.max(1) == real.max(1)).all()
    # The same dice take the same tokens, through filters that need the raw logits.
    again = generate(play, trace.prompt_ids, PARAMS, 6)
    assert again.ids == trace.ids
    for step, other in zip(trace.steps, again.steps, strict=True):
        assert other.model_logprob == pytest.approx(step.model_logprob, abs=0.01)
    a = shape(lm.logits(trace.ids[:n])[-1], PARAMS, trace.ids[:n], n)[-1].logprobs
    b = shape(play.logits(trace.ids[:n])[-1], PARAMS, trace.ids[:n], n)[-1].logprobs
    assert ((a > -np.inf) == (b > -np.inf)).mean() > 0.98


def test_text_without_a_tokenizer(lm, trace, data):
    play = TapeLM(from_bytes(data))
    assert play.encode("a cat sat") == list(trace.prompt_ids)
    assert play.encode("") == [] and play.encode("b") == lm.encode("b")
    assert play.decode(trace.ids) == lm.decode(trace.ids)
    assert [play.label(i) for i in range(96)] == [lm.label(i) for i in range(96)]
    with pytest.raises(NotOnTape, match="has no tokenizer: it knows its own prompt"):
        play.encode("a dog")


def test_what_was_not_recorded_is_refused_in_words(trace, data):
    play = TapeLM(from_bytes(data))
    with pytest.raises(
        NotOnTape, match=r"after these 3 tokens is not on the tape \(7 positions are\)"
    ):
        play.logits(trace.ids[:3])
    with pytest.raises(ValueError, match="token ids must be in"):
        play.logits([96])


def test_a_branch_and_a_lone_prefix(lm):
    tape = from_bytes(to_bytes(record(lm, [[5], [5, 6], [5, 7], [9, 9, 9], [5, 6]])))
    assert set(tape.logits) == {(5,), (5, 6), (5, 7), (9, 9, 9)}
    np.testing.assert_allclose(
        TapeLM(tape).logits_many([[5, 6], [9, 9, 9]])[:, 0],
        lm.logits_many([[5, 6], [9, 9, 9]])[:, 0],
        atol=0.02,
    )


def test_the_size_said_before_holds(data):
    assert len(data) <= size_of(7, 96) + 3000  # texts and state come on top


@pytest.mark.parametrize("cut", [3, 8, 20, 60, -40, -32, -1])
def test_cut_off(data, cut):
    with pytest.raises(ValueError, match=r"not a tape|damaged"):
        from_bytes(data[:cut])


def test_any_changed_byte_is_noticed(data):
    for at in (9, 40, len(data) // 2, len(data) - 1):
        bad = bytearray(data)
        bad[at] ^= 1
        with pytest.raises(ValueError, match="damaged"):
            from_bytes(bytes(bad))


def test_other_files_and_versions(data):
    with pytest.raises(ValueError, match="not a tape"):
        from_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ValueError, match="not a tape"):
        from_bytes(b"")
    with pytest.raises(ValueError, match="of version 3; versions 1 and 2 are read here"):
        from_bytes(data.replace(b"DPTAPE1", b"DPTAPE3", 1))
    with pytest.raises(ValueError, match="at most 34 MB, got 42"):
        from_bytes(bytes(42_000_000))
    assert MAX_FILE == 32 << 20


@pytest.mark.parametrize(
    "change",
    [
        lambda h: [],
        lambda h: {**h, "vocab_size": 10**9},
        lambda h: {**h, "vocab_size": True},
        lambda h: {**h, "prefixes": []},
        lambda h: {**h, "prefixes": [[-1, 5]] * 7},
        lambda h: {**h, "prefixes": [[3, 5], *h["prefixes"][1:]]},
        lambda h: {**h, "prefixes": [[-1, 99], *h["prefixes"][1:]]},
        lambda h: {**h, "prefixes": [[]] * 7},
        lambda h: {**h, "prefixes": [[-1, i] for i in range(96)] * 42},
        lambda h: {**h, "vocabulary": {**h["vocabulary"], "kind": "other"}},
        lambda h: {**h, "vocabulary": {**h["vocabulary"], "strings": ["a"]}},
        lambda h: {**h, "vocabulary": {**h["vocabulary"], "strings": [1] * 96}},
        lambda h: {**h, "name": ["x"]},
        lambda h: {**h, "name": "\ud800x"},
        lambda h: {**h, "texts": {"\udfff": [1]}},
        lambda h: {**h, "texts": {"x": [1e3]}},
        lambda h: {**h, "state": "x"},
        lambda h: {k: v for k, v in h.items() if k != "bos_id"},
    ],
)
def test_hostile_headers(data, change):
    with pytest.raises(ValueError, match="damaged"):
        from_bytes(rebuilt(data, change))


@pytest.mark.parametrize(
    "change",
    [
        lambda b: zlib.compress(zlib.decompress(b) + bytes(1)),
        lambda b: zlib.compress(zlib.decompress(b)[:-1]),
        lambda b: zlib.compress(bytes(10_000_000), 9),  # a bomb: stopped at the size that fits
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: zlib.compress(b"\xff" * len(zlib.decompress(b))),  # not a number
        lambda b: zlib.compress(b"\0" * (28 + 7 * 96) + b"\1" * (7 * 96)),  # no row has its maximum
    ],
)
def test_hostile_bodies(data, change):
    with pytest.raises(ValueError, match="damaged"):
        from_bytes(rebuilt(data, change_body=change))


def test_what_cannot_be_recorded(lm):
    with pytest.raises(ValueError, match="at least one position"):
        record(lm, [])
    with pytest.raises(ValueError, match="at most 4096 positions of this model, got 5000"):
        record(lm, [[5, i % 96, i // 96] for i in range(5000)])


def voiced(lm, change=None):
    """The file of a tape with one voice, its header changed, and a hash that fits."""
    recorder = Recorder(lm)
    recorder.logits([5, 6])
    recorder.hear("early-exit:1:", lm).logits([5, 6, 7], last=2)
    recorder.hear("never asked", lm)
    data = to_bytes(recorder.finished({}))
    at = len(MAGIC_VOICES)
    (n,) = struct.unpack_from("<I", data, at)
    header = json.loads(zlib.decompress(data[at + 4 : at + 4 + n]))
    header["voices"] = (change or (lambda v: v))(header["voices"])
    head = zlib.compress(json.dumps(header).encode())
    out = MAGIC_VOICES + struct.pack("<I", len(head)) + head + data[at + 4 + n : -32]
    return out + hashlib.sha256(out).digest()


def test_second_models_are_on_the_tape_under_their_kind(lm):
    tape = from_bytes(voiced(lm))
    assert list(tape.voices) == ["early-exit:1:"] and tape.positions == 3
    play = TapeLM(tape)
    voice = play.voice("early-exit:1:")
    assert np.abs(voice.logits([5, 6, 7], last=2) - lm.logits([5, 6, 7], last=2)).max() < 4e-3
    for ask in (lambda: play.logits([5, 6, 7]), lambda: play.voice("never asked")):
        with pytest.raises(NotOnTape):
            ask()


@pytest.mark.parametrize(
    "change",
    [
        lambda v: [],
        lambda v: "no list",
        lambda v: v * 9,
        lambda v: [*v, *v],
        lambda v: [None],
        lambda v: [{**v[0], "kind": "x" * 301}],
        lambda v: [{**v[0], "kind": 3}],
        lambda v: [{**v[0], "vocab_size": 1 << 30}],
        lambda v: [{**v[0], "vocab_size": 95}],
        lambda v: [{**v[0], "prefixes": []}],
        lambda v: [{**v[0], "prefixes": [[-1, 5]] * 2}],
        lambda v: [{**v[0], "eos_ids": [-1]}],
        lambda v: [{k: x for k, x in v[0].items() if k != "dtype"}],
    ],
)
def test_damaged_voices_are_told(lm, change):
    with pytest.raises(ValueError, match="the tape is damaged"):
        from_bytes(voiced(lm, change))


def test_a_recorder_takes_back_and_stops_when_it_is_full(lm):
    recorder = Recorder(lm, most=3 * (2 * lm.vocab_size + 4))
    recorder.logits([5])
    mark = recorder.mark()
    recorder.logits_many([[5, 6], [5, 7]])
    with pytest.raises(TapeFull):
        recorder.hear("one more", lm).logits([5])
    recorder.rewind(mark)
    assert list(recorder.tape.logits) == [(5,)] and recorder.room == 2
