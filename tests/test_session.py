"""Sessions and permalinks: moves keep what was chosen, links rebuild it, bad ones are refused."""

import base64
import json
import pickle
import zlib
from dataclasses import replace

import pytest

import playground as pg
from playground.engines.sampling import step
from playground.export import MAX_JSON, from_link, to_link
from playground.lm import TransformersLM
from playground.session import Prompt, Session, from_state, to_state
from tests.tiny import tiny_llama, tiny_tokenizer

PARAMS = pg.SamplingParams(0.9, top_k=40, seed=3)


@pytest.fixture(scope="module")
def lm():
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")


def walk(session, lm, count, force=None):
    for _ in range(count):
        one = step(lm, session.ids, PARAMS, len(session.trace.prompt_ids), force)
        session = session.advance(one)
    return session


def new_ids(session):
    return session.trace.new_ids


def test_stepping_goes_on_and_back_and_redo_return_to_the_same_place(lm):
    session = walk(Session().start(Prompt("hello"), lm), lm, 5)
    assert len(new_ids(session)) == 5 and session.ids == session.trace.ids
    back = session.back().back()
    assert new_ids(back) == new_ids(session)[:3]
    assert back.forward().forward().trace == session.trace
    assert back.forward().forward().forward().trace == session.trace
    empty = Session().start(Prompt("hello"), lm)
    assert empty.back() == empty


def test_the_same_step_after_back_keeps_redo_and_another_makes_a_branch(lm):
    session = walk(Session().start(Prompt("hello"), lm), lm, 5)
    again = walk(session.back().back(), lm, 1)
    assert new_ids(again) == new_ids(session)[:4] and len(again.redo) == 1
    assert not again.branches
    other = walk(session.back().back(), lm, 1, force=4)
    assert new_ids(other) == (*new_ids(session)[:3], 4) and not other.redo
    assert [tuple(s.token_id for s in b) for b in other.branches] == [new_ids(session)]


def test_a_left_branch_can_be_returned_to(lm):
    session = walk(Session().start(Prompt("hello"), lm), lm, 4)
    other = walk(session.look_at(1), lm, 2, force=7)
    assert new_ids(other) == (new_ids(session)[0], 7, 7)
    home = other.switch(0)
    assert new_ids(home) == new_ids(session)
    assert [tuple(s.token_id for s in b) for b in home.branches] == [new_ids(other)]


def test_looking_changes_nothing_and_rewinding_cuts(lm):
    session = walk(Session().start(Prompt("hello"), lm), lm, 4)
    look = session.look_at(2)
    assert look.trace == session.trace and look.at == 2
    assert look.taken == session.trace.steps[2] and session.taken is None
    assert look.ids == session.trace.ids[: len(session.trace.prompt_ids) + 2]
    assert look.back().at == 1 and look.forward().forward().look is None
    cut = look.rewind()
    assert new_ids(cut) == new_ids(session)[:2] and len(cut.branches) == 1
    with pytest.raises(ValueError, match=r"look must be a whole number in \[0, 4\], got 9"):
        session.look_at(9)


def test_undo_brings_back_what_reset_and_a_new_prompt_threw_away(lm):
    session = walk(Session().start(Prompt("hello"), lm), lm, 4)
    assert session.reset().trace.steps == () and session.reset().undo().trace == session.trace
    other = session.start(Prompt("bye"), lm)
    assert other.prompt.text == "bye" and other.undo().trace == session.trace
    fresh = Session()
    assert fresh.undo() == fresh


def test_a_session_is_small_and_picklable(lm):
    session = walk(Session().start(Prompt("hello"), lm), lm, 60)
    data = pickle.dumps(session)
    assert pickle.loads(data) == session and len(data) < 10_000


def test_a_link_rebuilds_the_session_in_another_process(lm):
    session = walk(Session().start(Prompt("hi", bos=True, special=False), lm), lm, 6)
    session = walk(session, lm, 1, force=9)
    session = walk(session, lm, 3).look_at(4)
    link = to_link(to_state(session, "tiny"))
    other = TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")
    again = from_state(from_link(link), other)
    assert again.trace.new_ids == session.trace.new_ids and again.look == 4
    for a, b in zip(again.trace.steps, session.trace.steps, strict=True):
        assert replace(a, logprob=0, model_logprob=0, entropy=0) == replace(
            b, logprob=0, model_logprob=0, entropy=0
        )
        assert a.model_logprob == pytest.approx(b.model_logprob, abs=1e-4)
    assert other.forwards == 1
    assert len(link) < 600


def test_a_long_link_is_replayed_in_pieces(lm):
    model = TransformersLM(tiny_llama(max_position_embeddings=512), tiny_tokenizer())
    session = walk(Session().start(Prompt("hi"), model), model, 200)
    again = from_state(to_state(session, "tiny"), model)
    assert [s.token_id for s in again.trace.steps] == list(new_ids(session))


def pack(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return "1." + base64.urlsafe_b64encode(zlib.compress(raw)).decode().rstrip("=")


@pytest.mark.parametrize(
    "link",
    [
        "",
        "hello",
        "2.abcd",
        "1.!!!!",
        "1.abcd",
        pack(b"\xff\xfe"),
        pack([1]),
        pack(b"[" * 100_000),
        pack(b'{"a": ' + b"9" * 5_000 + b"}"),
        "1.\u00e9",
        pack(b"0" * (MAX_JSON + 1)),
        pack(b" " * 50_000_000),
        "1." + "A" * 50_000,
        None,
    ],
)
def test_a_damaged_or_hostile_link_is_refused_in_words(link):
    with pytest.raises(ValueError, match="^link must|^link is damaged"):
        from_link(link)


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": 5},
        {"prompt": {"text": 5}},
        {"prompt": {"text": "x" * 200_000}},
        {"prompt": {"nonsense": 1}},
        {"prompt": {"bos": "yes"}},
        {"prompt": {"turns": [["hacker", "x"]]}},
        {"prompt": {"turns": 3}},
        {"prompt": {"turns": [["user"]]}},
        {"params": [{"temperature": -1}]},
        {"params": [{"temperature": "hot"}]},
        {"params": [{"temperature": 10**400}]},
        {"params": [{"penalize_prompt": []}]},
        {"params": [{"banned_tokens": 5}]},
        {"params": [{"banned_tokens": [float("inf")]}]},
        {"params": [{"banned_tokens": [10**30]}]},
        {"params": [{"order": 5}]},
        {"params": [{"order": [[1]]}]},
        {"params": None},
        {"steps": [[10**9, 0, "sampled"]]},
        {"steps": [["<b>", 0, "sampled"]]},
        {"steps": [[5, 7, "sampled"]]},
        {"steps": [[5]]},
        {"steps": [[5, 0, "sampled"]] * 500},
        {"look": "here"},
        {"look": 10**6},
    ],
)
def test_an_absurd_state_is_refused_in_words(lm, change):
    session = walk(Session().start(Prompt("hello"), lm), lm, 3)
    with pytest.raises(ValueError, match="must|damaged|no field|full"):
        from_state({**to_state(session, "tiny"), **change}, lm)
