"""What is taken away comes back the same: traces, tables, tapes of sessions."""

import io
import json

import pandas as pd
import pytest

from playground import SamplingParams, Trace, generate
from playground.lm import TransformersLM
from playground.session import Prompt, Session, from_state
from playground.takeaway import frame_of, is_tape, positions, read_trace, table, tape_of, trace_file
from playground.tape import NotOnTape, TapeLM
from playground.tape_file import from_bytes, to_bytes
from playground.ui.handlers import take
from playground.words import speaking, translator
from tests.tiny import tiny_llama, tiny_tokenizer

PARAMS = SamplingParams(temperature=0.9, top_k=40, seed=5)


@pytest.fixture(scope="module")
def lm():
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")


@pytest.fixture(scope="module")
def session(lm):
    prompt = Prompt("a cat")
    return Session(prompt, generate(lm, prompt.encode(lm), PARAMS, 5))


def test_a_trace_file_comes_back_whole(lm, session):
    text = trace_file(session, lm)
    assert Trace.from_dict(json.loads(text)) == session.trace
    back = read_trace(text.encode(), lm)
    assert back.trace == session.trace and back.prompt == session.prompt
    found = json.loads(text)
    assert (found["format"], found["version"]) == ("decoding-playground trace", 1)
    assert found["text"] == {"prompt": "a cat", "new": lm.decode(session.trace.new_ids)}


def test_a_trace_of_another_program_needs_only_its_ids(lm, session):
    bare = session.trace.to_dict()
    back = read_trace(json.dumps(bare).encode(), lm)
    assert back.trace == session.trace and back.prompt.text == "a cat"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: {**d, "version": 2}, "trace version must be 1, got 2"),
        (lambda d: {k: v for k, v in d.items() if k != "version"}, "object with a version"),
        (lambda d: {k: v for k, v in d.items() if k != "steps"}, "damaged"),
        (lambda d: {**d, "prompt_ids": [96]}, "another vocabulary: id 96, and 95"),
        (lambda d: {**d, "prompt_ids": [5] * 200}, "at most 128 tokens"),
        (lambda d: {**d, "prompt_ids": ["5"]}, "prompt_ids must be"),
        (lambda d: {**d, "params": [{"temperature": -1}]}, "temperature must be"),
        (lambda d: {**d, "params": [{"exec": 1}]}, "no field 'exec'"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "rank": "<b>"}]}, "rank must be"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "logprob": "0"}]}, "logprob can't be"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "u": 2}]}, "u must be"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "source": "<img>"}]}, "source can't be"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "more": 1}]}, "damaged"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "entropy": 1e400}]}, "entropy can't be"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "entropy": 10**400}]}, "entropy can't be"),
        (
            lambda d: {**d, "steps": [{**d["steps"][0], "model_logprob": -1e400}]},
            "model_logprob can't be",
        ),
        (lambda d: {**d, "steps": [{**d["steps"][0], "logprob": 5}]}, "logprob can't be 5"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "kept": 10**40}]}, "kept must be"),
        (lambda d: {**d, "steps": [{**d["steps"][0], "rank": 97}]}, "rank must be"),
        (lambda d: {**d, "stop": None}, "stop, which is no text"),
        (lambda d: {**d, "steps": "a"}, "a step, which is no object"),
        (lambda d: [d], "object with a version"),
    ],
)
def test_damaged_traces(lm, session, change, why):
    data = json.dumps(change(json.loads(trace_file(session, lm)))).encode()
    with pytest.raises(ValueError, match=why):
        read_trace(data, lm)


@pytest.mark.parametrize("data", [b"{", b"\x00\x01", b"[" * 100_000, b"x" * 9_000_000])
def test_files_that_are_no_traces(lm, data):
    with pytest.raises(ValueError, match=r"neither a trace \(JSON\) nor a tape|at most 8 MB"):
        read_trace(data, lm)


@pytest.mark.parametrize(("kind", "read"), [("csv", pd.read_csv), ("parquet", pd.read_parquet)])
def test_tables_come_back(lm, session, kind, read):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    frame = frame_of(session.trace, lm)
    back = read(io.BytesIO(table(frame, kind)))
    assert back["position"].tolist() == [5, 6, 7, 8, 9]
    assert back["token"].tolist() == [lm.label(i) for i in session.trace.new_ids]
    assert back["u"].tolist() == [step.u for step in session.trace.steps]
    assert back["logprob"].tolist() == [step.logprob for step in session.trace.steps]
    assert json.loads(back["settings"][0]) == PARAMS.to_dict()
    with pytest.raises(ValueError, match="kind must be one of csv, parquet, got 'xls'"):
        table(frame, "xls")


@pytest.mark.parametrize("chat", [False, True])
def test_a_session_plays_from_its_tape(lm, session, chat):
    lm.tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}."
    prompt = Prompt("a cat", chat=chat, system="dog " if chat else "")
    made = Session(prompt, generate(lm, prompt.encode(lm), PARAMS, 5))
    made = made.back().back()  # what Redo would bring is on the tape too
    data = to_bytes(tape_of(made, lm, "default", PARAMS))
    assert is_tape(data) and len(positions(made)) == 6
    play = TapeLM(from_bytes(data))
    back = from_state(dict(play.tape.state), play)
    assert back.prompt == prompt and back.trace.ids == made.trace.ids
    t = translator("en")
    for _ in range(3):  # the same dice go on over what Redo had, and one beyond
        back = take(play, back, PARAMS, t, None)
    assert back.trace.ids[:-1] == generate(lm, prompt.encode(lm), PARAMS, 5).ids
    with pytest.raises(NotOnTape, match=r"not on the tape \(6 positions are\)"):
        take(play, back, PARAMS, t, None)
    speaking.set("zh")
    try:
        with pytest.raises(NotOnTape, match="带上有 6 个位置"):
            play.logits([5])
    finally:
        speaking.set("en")
