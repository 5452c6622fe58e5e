"""Labels, bytes and running text: tiny tokenizers of each kind, and the default model's."""

import time

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from playground.vocabulary import Vocabulary, byte_alphabet, visible

SMILEY = [10813, 242, 221]  # U+1F603 in SmolLM2's vocabulary
NIHON = [23274, 115, 40993]  # U+65E5 U+672C
SPACED = "Hello , world . It 's 3 .5 ?"


def byte_level(*words: str, special=("<|end|>",)) -> PreTrainedTokenizerFast:
    """Return a real byte-level BPE tokenizer without merges, plus whole words."""
    alphabet = {c: i for i, c in enumerate(sorted(byte_alphabet()))}
    to_letter = {b: c for c, b in byte_alphabet().items()}
    for word in words:
        raw = "".join(to_letter[b] for b in word.encode())
        alphabet.setdefault(raw, len(alphabet))
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in special])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[0])


def sentencepiece(strip: bool) -> PreTrainedTokenizerFast:
    """Return a tokenizer with SentencePiece's strings, as converted ones have them."""
    words = ["<unk>", "▁the", "the", "▁", "A", "\n"] + [f"<0x{b:02X}>" for b in range(256)]
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strip)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def test_byte_alphabet_is_that_of_the_tokenizers_library():
    letters = byte_alphabet()
    assert sorted(letters.values()) == list(range(256))
    assert set(letters) == set(pre_tokenizers.ByteLevel.alphabet())
    # What the library itself writes for a text's bytes.
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in (" the\n", "日本", "\x00\x7f\xa0\xad", "é"):
        raw = split.pre_tokenize_str(text)[0][0]
        assert bytes(letters[c] for c in raw) == text.encode()


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (b" the", "·the"),
        (b"\n", "⏎"),
        (b"\t", "⇥"),
        (b"\r\n", "␍⏎"),
        (b"\x00\x1b\x7f", "␀␛␡"),
        (b"\xf0\x9f", "<F0 9F>"),
        (b" \xf0\x9f", "·<F0 9F>"),
        (b"a\xff\n", "a<FF>⏎"),
        ("·".encode(), "<U+00B7>"),
        ("⏎".encode(), "<U+23CE>"),
        ("a\u200bb\u00a0\u3000\u202e".encode(), "a<U+200B>b<U+00A0><U+3000><U+202E>"),
        ("\u0301".encode(), "◌\u0301"),
        ("日本".encode(), "日本"),
        (b" " * 4, "····"),
        (b" " * 16, "·×16"),
        (b"\n" + b" " * 8, "⏎·×8"),
        (b"-" * 64, "-×64"),
        (b"", "<empty>"),
        (b"<b>&amp;", "<b>&amp;"),
    ],
)
def test_what_is_invisible_becomes_visible(data, label):
    assert visible(data) == label
    assert label.isprintable() and " " not in label.replace("<F0 9F>", "")


def test_byte_level_tokenizer():
    vocabulary = Vocabulary.from_tokenizer(byte_level(" the", "the", "日", " \xa0"))
    end = len(vocabulary) - 1
    assert vocabulary.kind == "byte-level"
    assert vocabulary.bytes_of(256) == b" the" and vocabulary.raw(256) == "Ġthe"
    assert [vocabulary.label(i) for i in (256, 257, 258, 259, end)] == [
        "·the",
        "the",
        "日",
        "·<U+00A0>",
        "<|end|>",
    ]
    assert [vocabulary.is_special(i) for i in (257, end)] == [False, True]
    assert sorted(vocabulary.bytes_of(i) for i in range(256)) == [bytes([b]) for b in range(256)]
    assert len(set(vocabulary.labels)) == len(vocabulary)


@pytest.mark.parametrize("strip", [False, True])
def test_sentencepiece_tokenizer(strip):
    tokenizer = sentencepiece(strip)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.kind == "sentencepiece"
    byte = 6
    assert vocabulary.bytes_of(1) == b" the" and vocabulary.bytes_of(byte + 0x0A) == b"\n"
    # <0x20>, <0x41> and <0x0A> mean the same text as other tokens: they show their byte.
    ids = [1, 2, 3, 4, 5, byte + 0x20, byte + 0x41, byte + 0x0A, byte + 0x42, byte + 0xE6, 0]
    assert [vocabulary.label(i) for i in ids] == [
        "·the",
        "the",
        "·",
        "A",
        "⏎",
        "<20>",
        "<41>",
        "<0A>",
        "B",
        "<E6>",
        "<unk>",
    ]
    assert len(set(vocabulary.labels)) == len(vocabulary)
    for ids in ([1, 2, 1], [4, 1], [byte + b for b in "é日".encode()]):
        assert vocabulary.text(ids) == tokenizer.decode(ids)
    assert vocabulary.text([1, 1], start=False) == " the the"
    day = [byte + b for b in "日".encode()]
    assert [vocabulary.pending(day[:n]) for n in range(4)] == [0, 1, 2, 0]


def test_tokens_with_equal_text_keep_labels_of_their_own():
    vocabulary = Vocabulary(["a", "a", "a#0", "b", None, None], kind="other")
    labels = vocabulary.labels
    assert len(set(labels)) == 6
    assert labels[2:4] == ("a#0", "b")
    assert labels[0] == "a#0#" and labels[1] == "a#1"
    assert labels[4] == "<no token 4>" and vocabulary.raw(4) == ""


def test_wordpiece_keeps_its_marks():
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "un": 1, "##do": 2}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    vocabulary = Vocabulary.from_tokenizer(fast)
    assert vocabulary.kind == "other"
    assert vocabulary.labels == ("[UNK]", "un", "##do")
    assert vocabulary.text([1, 2]) == "undo"


def test_unknown_kinds_and_ids_are_refused():
    with pytest.raises(ValueError, match="kind must be one of"):
        Vocabulary(["a"], kind="bytes")
    for call in ("label", "bytes_of", "raw"):
        for wrong in (-1, 1):
            with pytest.raises(ValueError, match=r"token id must be in \[0, 0\], got"):
                getattr(Vocabulary(["a"]), call)(wrong)


def test_pending_counts_ids_not_bytes():
    letters = {b: c for c, b in byte_alphabet().items()}
    pieces = [b"a", b"\xf0\x9f", b"\x98", b"\x83", b" \xe6\x97", b"\xff", b"\xc3\xa9\xc3", b"<x>"]
    pieces += [b"\xf0", b"\x9f", b""]
    strings = ["".join(letters[b] for b in piece) for piece in pieces]
    vocabulary = Vocabulary(strings, special_ids=[7])
    cases = {
        (): 0,
        (0,): 0,
        (1,): 1,
        (0, 1, 2): 2,
        (1, 2, 3): 0,
        (4,): 1,
        (5,): 0,
        (1, 5): 0,
        (1, 0): 0,
        (6,): 1,
        (2, 3): 0,
        (1, 7): 0,
        (7, 1): 1,
        (8, 9, 2): 3,
        (0, 8, 10, 9, 2): 4,
        (8, 9, 2, 3): 0,
    }
    assert {ids: vocabulary.pending(ids) for ids in cases} == cases
    assert vocabulary.text((0, 1, 2)) == "a"
    assert vocabulary.text((0, 1, 2, 3)) == "a😃"
    assert vocabulary.text((4,)) == " "
    assert vocabulary.text((6,)) == "é"
    assert vocabulary.text((1, 0)) == "\ufffda"
    assert vocabulary.text((0, 7), skip_special=True) == "a"
    assert vocabulary.text((0, 7)) == "a<x>"


def test_find_takes_what_somebody_types():
    vocabulary = Vocabulary.from_tokenizer(byte_level(" Paris", "Paris", " Parisian", "\n\n"))
    paris, plain, longer, lines = 256, 257, 258, 259
    assert vocabulary.find("Paris") == [plain, paris, longer]
    assert vocabulary.find(" Paris") == vocabulary.find("·Paris") == [paris, longer]
    assert vocabulary.find("#258") == [longer]
    assert vocabulary.find("\n\n") == [lines]
    assert vocabulary.find("Pa", limit=1) == [plain]
    assert vocabulary.find("") == [] and vocabulary.find("zzz") == []


def test_default_tokenizer(default_lm):
    vocabulary = default_lm.vocabulary
    tokenizer = default_lm.tokenizer
    assert len(vocabulary) == default_lm.vocab_size == 49152
    assert len(set(vocabulary.labels)) == 49152
    # 312 ids decode to 3 strings between them; here each is itself.
    alike = {}
    for i in range(49152):
        alike.setdefault(tokenizer.decode([i]), []).append(i)
    many = [i for ids in alike.values() if len(ids) > 1 for i in ids]
    assert len(many) == 312
    assert len({vocabulary.label(i) for i in many}) == 312
    for i in (111, 112, 113):
        assert vocabulary.label(i) == f"<{vocabulary.bytes_of(i).hex().upper()}>"
    assert all(label.isprintable() and label.strip() for label in vocabulary.labels)
    assert [vocabulary.label(i) for i in (260, 1195, 198, 2)] == ["·the", "the", "⏎", "<|im_end|>"]
    assert vocabulary.is_special(2) and not vocabulary.is_special(49)
    ids = default_lm.encode(SPACED)
    assert vocabulary.text(ids) == SPACED


def test_pieces_of_a_character_on_the_default_tokenizer(default_lm):
    vocabulary = default_lm.vocabulary
    assert [vocabulary.label(i) for i in SMILEY] == ["<F0 9F>", "<98>", "<83>"]
    for ids, texts in (
        (SMILEY, ["", "", "", "\U0001f603"]),
        (NIHON, ["", "", "\u65e5", "\u65e5\u672c"]),
    ):
        assert [vocabulary.text(ids[:n]) for n in range(len(ids) + 1)] == texts
    assert [vocabulary.pending(SMILEY[:n]) for n in range(4)] == [0, 1, 2, 0]
    assert [vocabulary.pending(NIHON[:n]) for n in range(4)] == [0, 1, 0, 0]


def test_labels_of_a_large_vocabulary_are_quick():
    letters = "abcdefghijklmnopqrstuvwxyzāб日한"
    strings = ["▁" * (i % 2) + letters[i % 30] * (i % 3) + f"{i:x}" for i in range(262_144)]
    vocabulary = Vocabulary(strings, kind="sentencepiece")
    start = time.perf_counter()
    assert len(set(vocabulary.labels)) == 262_144
    assert time.perf_counter() - start < 5  # about 0.5 s on an idle core
