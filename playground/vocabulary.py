"""Vocabulary: token id -> bytes, visible label, special or not; ids -> running text.

In: the raw token strings of a fast tokenizer (``Vocabulary.from_tokenizer`` asks it for them);
out: what a reader may see. A *label* is one line, shows what is invisible, and belongs to one id
only, so that a list, a chart or a permalink never merges two tokens. It says what the token is, not
what its letters look like in the tokenizer's private alphabet.

Steps of a label:
1. Token string -> bytes: through GPT-2's byte alphabet ("byte-level"), through ``▁`` and ``<0x0A>``
   ("sentencepiece"), or as the tokenizer decodes it alone ("other"). Special and added tokens are
   literal text.
2. Bytes -> text; bytes that aren't a whole UTF-8 character are shown as ``<F0 9F>``.
3. Text -> visible: space ``·``, newline ``⏎``, tab ``⇥``, other control characters as their
   pictures (``␍``), other white space, formatting and unassigned characters, and the marks
   themselves, as ``<U+200B>``; a leading combining mark stands on ``◌``; long runs of one character
   are counted (``·×16``).
4. Where two ids would share a label, single-byte tokens take their byte form (``<41>``); what still
   collides takes ``#id``.

Terms: *pending*: the last tokens end inside a UTF-8 character whose rest is still to come.
"""

from __future__ import annotations

import codecs
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

KINDS = ("byte-level", "sentencepiece", "other")
MARKS = {" ": "·", "\n": "⏎", "\t": "⇥", "\x7f": "␡"} | {
    chr(c): chr(0x2400 + c) for c in range(0x20) if chr(c) not in "\n\t"
}
_OWN = frozenset(MARKS.values())  # written as themselves they'd read as what they stand for
_RUN = re.compile(f"([{''.join(sorted(_OWN))}])\\1{{4,}}|(.)\\2{{15,}}")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BROKEN = re.compile("[\udc80-\udcff]+")  # how "surrogateescape" marks bytes that aren't UTF-8


def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's alphabet: one printable character for each of the 256 bytes.

    Source: ``bytes_to_unicode`` of openai/gpt-2. Printable Latin-1 bytes stand for themselves; the
    other 68 take the characters from U+0100 on, in order.
    """
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (b for b in range(256) if b not in plain)
    return {chr(b): b for b in plain} | {chr(0x100 + n): b for n, b in enumerate(others)}


def visible(data: bytes) -> str:
    """Return bytes as one visible line (steps 2 and 3 above)."""
    return _visible(data.decode("utf-8", "surrogateescape"))


def _visible(text: str) -> str:
    if not text:
        return "<empty>"
    if text.isprintable() and _OWN.isdisjoint(text):
        text = text.replace(" ", "·")
        plain = len(text) < 16 and "·····" not in text
    else:
        text = "".join(map(_visible_character, text))
        text = _BROKEN.sub(lambda m: f"<{_hex(m[0].encode('utf-8', 'surrogateescape'))}>", text)
        plain = False
    if not text[0].isascii() and unicodedata.category(text[0])[0] == "M":
        text = "◌" + text
    return text if plain else _RUN.sub(lambda m: f"{m[0][0]}×{len(m[0])}", text)


def _visible_character(c: str) -> str:
    if c in MARKS:
        return MARKS[c]
    if "\udc80" <= c <= "\udcff" or (c.isprintable() and c not in _OWN):
        return c
    return f"<U+{ord(c):04X}>"


def _hex(data: bytes) -> str:
    return data.hex(" ").upper()


class Vocabulary:
    """The tokens of one tokenizer, as bytes and as labels.

    ``token_strings`` [V] are the tokenizer's own (None where an id has no token); ``special_ids``
    the control tokens; ``kind`` how strings become bytes (byte-level, sentencepiece, other);
    ``decode`` (ids -> text) is needed for kind "other" only; ``literal_ids`` are added tokens that
    aren't special; ``strip_start``: the tokenizer puts a space before a text, and a whole text
    gives it back.
    """

    def __init__(
        self,
        token_strings: Sequence[str | None],
        special_ids: Iterable[int] = (),
        kind: str = "byte-level",
        decode: Callable[[list[int]], str] | None = None,
        *,
        literal_ids: Iterable[int] = (),
        strip_start: bool = False,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        self.kind = kind
        self.special_ids = frozenset(int(i) for i in special_ids)
        self._strings = tuple(token_strings)
        self._literal = self.special_ids | {int(i) for i in literal_ids}
        self._decode = decode
        self._strip_start = strip_start
        self._alphabet = byte_alphabet()

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, size: int | None = None) -> Vocabulary:
        """Read a fast tokenizer (anything with the same methods as transformers' ones).

        ``size`` is the number of ids (default: the highest id + 1, added tokens included).
        """
        added = {int(i): t for i, t in getattr(tokenizer, "added_tokens_decoder", {}).items()}
        if size is None:
            size = max([len(tokenizer) - 1, *added]) + 1
        special = set(tokenizer.all_special_ids)
        special |= {i for i, t in added.items() if getattr(t, "special", False)}
        kind, strip_start = _decoder_kind(tokenizer)
        return cls(
            tokenizer.convert_ids_to_tokens(list(range(size))),
            (i for i in special if i < size),
            kind,
            tokenizer.decode,
            literal_ids=(i for i in added if i < size),
            strip_start=strip_start,
        )

    def __len__(self) -> int:
        return len(self._strings)

    @property
    def parts(self) -> tuple[tuple[str | None, ...], tuple[int, ...], tuple[int, ...], bool]:
        """What it was made of: strings, special ids, other literal ids, ``strip_start``."""
        literal = self._literal - self.special_ids
        special = tuple(sorted(self.special_ids))
        return self._strings, special, tuple(sorted(literal)), self._strip_start

    def raw(self, token_id: int) -> str:
        """Return the tokenizer's own string ("Ġthe"); "" for an id without a token."""
        return self._strings[self._check(token_id)] or ""

    def is_special(self, token_id: int) -> bool:
        """Say whether the id is a control token (EOS, a chat turn, ...)."""
        return int(token_id) in self.special_ids

    def bytes_of(self, token_id: int) -> bytes:
        """Return the token's bytes; a special token's are those of its name."""
        token_id = self._check(token_id)
        raw = self._strings[token_id] or ""
        if token_id in self._literal:
            return raw.encode("utf-8", "replace")
        if self.kind == "byte-level":
            try:
                return bytes([self._alphabet[c] for c in raw])
            except KeyError:  # an added token that the tokenizer doesn't list as one
                return raw.encode("utf-8", "replace")
        if self.kind == "sentencepiece":
            one = _BYTE.fullmatch(raw)
            if one:
                return bytes.fromhex(one[1])
            return raw.replace("▁", " ").encode("utf-8", "replace")
        return self._decode([token_id]).encode("utf-8", "replace") if self._decode else raw.encode()

    def label(self, token_id: int) -> str:
        """Return the visible label, unique within the vocabulary."""
        return self.labels[self._check(token_id)]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels [V] (made at first use: about 0.1 s for 49,152 tokens)."""
        labels = [self._plain_label(i) for i in range(len(self))]
        for token_id in _shared(labels):
            if self.kind == "sentencepiece" and _BYTE.fullmatch(self.raw(token_id)):
                labels[token_id] = f"<{_hex(self.bytes_of(token_id))}>"
        shared = _shared(labels)
        taken = set(labels)
        for token_id in shared:
            label = f"{labels[token_id]}#{token_id}"
            while label in taken:  # another token spells exactly this
                label += "#"
            taken.add(label)
            labels[token_id] = label
        return tuple(labels)

    def _plain_label(self, token_id: int) -> str:
        raw = self._strings[token_id]
        if raw is None:
            return f"<no token {token_id}>"
        if self.kind == "byte-level" or _BYTE.fullmatch(raw) and self.kind == "sentencepiece":
            return visible(self.bytes_of(token_id))
        if self.kind == "sentencepiece" and token_id not in self._literal:
            raw = raw.replace("▁", " ")
        # Of kind "other", the string keeps what decoding drops, such as WordPiece's "##".
        return _visible(raw)

    def find(self, query: str, limit: int = 20) -> list[int]:
        """Return ids that match what somebody types: ``#id``, a label, a text; then beginnings.

        A leading space may be typed or left out. Exact matches come first, then by id.
        """
        if re.fullmatch(r"#\d+", query) and int(query[1:]) < len(self):
            return [int(query[1:])]
        wanted = query if query in self._by_label else visible(query.encode("utf-8", "replace"))
        exact = [self._by_label[w] for w in (wanted, "·" + wanted) if w in self._by_label]
        if not query or len(exact) >= limit:
            return exact[:limit]
        starts = (wanted, "·" + wanted)
        found = (i for i, label in enumerate(self.labels) if label.startswith(starts))
        more = sorted((i for i in found if i not in exact), key=lambda i: len(self.labels[i]))
        return exact + more[: limit - len(exact)]

    @cached_property
    def _by_label(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels)}

    def pending(self, ids: Sequence[int]) -> int:
        """Return how many trailing ids belong to a UTF-8 character that isn't whole yet."""
        sizes, tail = [], b""
        for token_id in reversed(ids):
            if len(tail) >= 4:
                break
            data = self.bytes_of(token_id)
            sizes.append(len(data))
            tail = data + tail
        missing = _unfinished(tail)
        count = 0
        while missing > 0:
            missing -= sizes[count]
            count += 1
        return count

    def text(self, ids: Sequence[int], *, start: bool = True, skip_special: bool = False) -> str:
        """Return the running text, an unfinished last character withheld.

        ``start``: the ids begin a text (else they continue one, and a leading space stays).
        """
        ids = [int(i) for i in ids if not (skip_special and int(i) in self.special_ids)]
        if self.kind == "other" and self._decode:
            return self._decode(ids)
        data = b"".join(self.bytes_of(i) for i in ids)
        if self.pending(ids):
            data = data[: len(data) - _unfinished(data)]
        text = data.decode("utf-8", "replace")
        return text[1:] if start and self._strip_start and text.startswith(" ") else text

    def _check(self, token_id: int) -> int:
        if not 0 <= token_id < len(self):
            raise ValueError(f"token id must be in [0, {len(self) - 1}], got {token_id}")
        return int(token_id)


def _decoder_kind(tokenizer: Any) -> tuple[str, bool]:
    """Tell from a tokenizer's decoder how its strings become bytes, and if it strips a start."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    if decoder is None:
        return "other", False
    state = json.loads(
        decoder.__getstate__()
    )  # only the decoder's JSON: the whole has the vocabulary
    parts = state.get("decoders", [state])
    types = {part["type"] for part in parts}
    if "ByteLevel" in types:
        return "byte-level", False
    metaspace = [part for part in parts if part["type"] == "Metaspace"]
    replaces = any(p["type"] == "Replace" and "▁" in str(p.get("pattern")) for p in parts)
    if metaspace or replaces:
        strips = any(p["type"] == "Strip" and p.get("start") for p in parts)
        return "sentencepiece", strips or any(p["prepend_scheme"] != "never" for p in metaspace)
    return "other", False


def _unfinished(data: bytes) -> int:
    """Return how many of the last bytes start a UTF-8 character that isn't whole yet (0 to 3)."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return len(decoder.getstate()[0])


def _shared(labels: Sequence[str]) -> list[int]:
    """Return the positions of all labels that occur more than once."""
    if len(set(labels)) == len(labels):
        return []
    counts = Counter(labels)
    return [i for i, label in enumerate(labels) if counts[label] > 1]
