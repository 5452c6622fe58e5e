"""The Read view without a page: chunks, files, buckets, values of the screen, jumps to Sample."""

import math

import numpy as np
import pytest

from playground import SamplingParams, reading
from playground.lm import TransformersLM
from playground.session import MAX_TEXT, Prompt, Session
from playground.ui import reading_moves as moves
from playground.ui import reading_screen as screen
from playground.words import translator
from tests.tiny import tiny_llama, tiny_tokenizer

T = translator("en")
TEXT = "a cat sat on the mat.\nit was 日本 there!"


def tiny(length=128, vocab_size=300):
    model = tiny_llama(vocab_size=vocab_size, max_position_embeddings=length)
    return TransformersLM(model, tiny_tokenizer(vocab_size), name="tiny", fingerprint="a")


@pytest.fixture(scope="module")
def lm():
    return tiny()


def whole(lm, prompt):
    lens = moves.begin(lm, prompt, T)
    while not lens.reading.finished:
        lens = moves.go_on(lm, lens, prompt, False, T)
    return lens


def test_reading_goes_on_and_starts_anew(lm, monkeypatch):
    monkeypatch.setattr(reading, "MOST_ROWS", 4)
    prompt = Prompt(TEXT)
    one = moves.go_on(lm, moves.Lens(), prompt, True, T)
    assert one.reading.done == 5
    two = moves.go_on(lm, one, prompt, False, T)
    assert two.reading.done == 9 and two.pieces is one.pieces
    # Stopped and pressed again: it goes on; finished and pressed again: it reads anew.
    assert moves.go_on(lm, two, prompt, True, T).reading.done == 13
    done = whole(lm, prompt)
    assert moves.go_on(lm, done, prompt, True, T).reading.done == 5
    other = Prompt("another text")
    assert moves.go_on(lm, two, other, False, T).prompt == other


def test_pieces_join_to_the_text(lm):
    ids = lm.encode(TEXT)
    parts = moves.pieces(lm, ids)
    assert "".join(parts) == TEXT and len(parts) == len(ids)
    assert "" in parts  # 日 is three bytes, each a token
    lens = whole(lm, Prompt(TEXT))
    assert lens.characters == len(TEXT) - 1


def test_bits_per_character_by_hand(lm):
    lens = whole(lm, Prompt(TEXT))
    ids = lm.encode(TEXT)
    total = 0.0
    for i in range(1, len(ids)):
        z = lm.logits(ids[:i])[-1].astype(np.float64)
        total += math.log(np.exp(z - z[ids[i]]).sum())
    shown = {f["label"]: f["value"] for f in screen.figures(lens, T)}
    assert float(shown["bits per character"]) == pytest.approx(total / math.log(2) / 37, rel=0.01)
    assert float(shown["bits per byte"]) == pytest.approx(total / math.log(2) / 41, rel=0.01)
    assert len(TEXT) == 38 and len(TEXT.encode()) == 42  # the first letter isn't scored


def test_the_screen_shows_the_reading(lm):
    lens = whole(lm, Prompt(TEXT))
    values = screen.draw_screen(lm, lens, (10, 100), T)
    assert set(values) == set(screen.PARTS)
    text, ranks = values["text"], lens.reading.ranks
    assert text["rank"] == ranks.tolist() and text["rank"][0] == 0
    assert "".join(text["text"]) == TEXT and text["total"] == len(ranks)
    assert text["title"].startswith(f"{(ranks[1:] <= 10).sum()} of {len(ranks) - 1} tokens")
    bars = values["ranks"].data[0].y
    buckets = reading.bucket_of(ranks[1:], (10, 100))
    assert list(bars) == [(buckets == b).sum() for b in range(3)]
    assert sum(values["probabilities"].data[0].y) == sum(values["entropies"].data[0].y) == sum(bars)
    rows = values["words"]["rows"]
    found = {w.start: w for w in reading.words(lens.reading, lens.pieces)}
    bits = [found[row["id"]].surprisal for row in rows]
    assert bits == sorted(bits, reverse=True) and len(rows) == 10
    # Only what is new goes over the wire when a text grows.
    later = screen.draw_screen(lm, lens, (10, 100), T, since=20)["text"]
    assert later["from"] == 20 and later["rank"] == text["rank"][20:]
    assert screen.draw_screen(lm, moves.Lens(), (10,), T)["text"]["empty"] == "Press Read."


def test_windows_are_stated():
    lm = tiny(32)
    lens = whole(lm, Prompt(TEXT * 2))
    words = screen.how(lens, T)
    assert (
        "In windows of 32 tokens, a new one every 16: each token is read after at least 17" in words
    )
    assert "windows" not in screen.how(whole(lm, Prompt("a cat")), T)


@pytest.mark.parametrize("index", [1, 8, 25, -1])
def test_a_jump_stands_where_the_token_stands(lm, index):
    lens = whole(lm, Prompt(TEXT))
    ids = lens.reading.ids
    index = index % len(ids)
    before = Session().start(Prompt("old"), lm)
    session = moves.open_at(lm, lens, index, SamplingParams(), before, T)
    assert session.ids == ids[:index] and session.taken.token_id == ids[index]
    assert session.taken.model_logprob == pytest.approx(lens.reading.logprobs[index], abs=1e-4)
    assert session.taken.rank == lens.reading.ranks[index]
    assert tuple(session.prompt.encode(lm)) == session.trace.prompt_ids  # a link rebuilds it
    assert session.undo().trace == before.trace


def test_a_jump_inside_a_character_leaves_its_bytes_to_steps(lm):
    lens = whole(lm, Prompt(TEXT))
    index = lens.pieces.index("") + 1  # the second byte of 日
    session = moves.open_at(lm, lens, index, SamplingParams(), Session(), T)
    assert session.ids == lens.reading.ids[:index] and session.at == 1


def test_a_jump_with_bos_and_in_a_window():
    lm = tiny(32)
    lens = whole(lm, Prompt(TEXT * 2, bos=True))
    first = moves.open_at(lm, lens, 1, SamplingParams(), Session(), T)
    assert first.ids == (lm.bos_id,)
    late = len(lens.reading.ids) - 1
    begin = lens.reading.starts[late]
    session = moves.open_at(lm, lens, late, SamplingParams(), Session(), T)
    assert begin > 0 and session.ids == lens.reading.ids[begin:late]
    assert session.taken.model_logprob == pytest.approx(lens.reading.logprobs[late], abs=1e-4)


def test_no_jump_before_the_first_token(lm):
    lens = whole(lm, Prompt(TEXT))
    for index in (0, -1, 10_000):
        with pytest.raises(ValueError, match="Before the first token"):
            moves.open_at(lm, lens, index, SamplingParams(), Session(), T)


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("10, 100, 1000", (10, 100, 1000)),
        ("5", (5,)),
        ("1 2；3".replace("；", ";"), (1, 2, 3)),
        ("", (10, 100, 1000)),
    ],
)
def test_edges(text, edges):
    assert moves.edges_of(text, T) == edges


@pytest.mark.parametrize(
    "text", ["0", "10, 10", "100, 10", "a", "1.5", "-3", "1,2,3,4,5,6,7", "9" * 12]
)
def test_bad_edges(text):
    with pytest.raises(ValueError, match="rising whole numbers"):
        moves.edges_of(text, T)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc", "a\nb\nc"),
        ("é日".encode(), "é日"),
        (b"\xef\xbb\xbfx", "x"),
        ("é".encode("utf-16"), "é"),
        (b"\xfe\xff\x00x", "x"),
    ],
)
def test_files_that_are_text(data, text):
    assert moves.text_of(data, T) == text


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "isn't text"),
        (b"abc\x00def", "isn't text"),
        (b"caf\xe9", "isn't text"),
        (b"x" * (MAX_TEXT + 1), "100,001 characters; at most 100,000"),
    ],
)
def test_files_that_are_not(data, why):
    with pytest.raises(ValueError, match=why):
        moves.text_of(data, T)


def test_nothing_to_read(lm):
    with pytest.raises(ValueError, match="no text to read"):
        moves.begin(lm, Prompt(""), T)
    with pytest.raises(ValueError, match="single token"):
        moves.begin(lm, Prompt("a"), T)
