"""The file of a tape: bytes to a Tape and back. For what a tape is see ``playground.tape``.

Versions 1 and 2 (numbers little-endian)
1. The 8 bytes "DPTAPE1" or "DPTAPE2" and a line end.
2. Header: length (uint32) and zlib-compressed JSON: name, model, dtype, vocab_size,
   eos_ids, bos_id, context_length, vocabulary, texts, state, prefixes, about; in version 2 also
   voices: a list of objects with kind, name, model, dtype, vocab_size, eos_ids, bos_id,
   context_length, prefixes.
3. Logits: length (uint64) and zlib-compressed bytes: for each prefix the maximum (float32 [n]),
   then all high bytes and all low bytes of the float16 [n, V] (apart they compress better).
   In version 2 then the same for each voice. A tape without voices is written as version 1.
4. SHA-256 of everything before it, 32 bytes.

Prefixes are [parent, token]: the prefix at index ``parent`` and one more token; a prefix without a
recorded parent is [-1, its ids...]. What comes in is untrusted: the hash is checked first, every
size before anything is unpacked, and nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from playground.tape import MAX_LOGITS, MAX_PREFIXES, Ids, Tape, TapeVocabulary
from playground.vocabulary import KINDS

MAGIC = b"DPTAPE1\n"
MAGIC_VOICES = b"DPTAPE2\n"
MAX_VOICES = 8
MAX_FILE = 32 << 20  # bytes of a file
MAX_HEADER = 12 << 20  # bytes of a header, unpacked
MAX_VOCABULARY = 1 << 20
MAX_TOKENS = 1 << 22  # in all prefixes together
_HASH = 32


def to_bytes(tape: Tape) -> bytes:
    """Return the file of a tape. Raises ValueError when it is too large to be opened again."""
    tapes = [tape, *tape.voices.values()]
    if sum(len(ids) for one in tapes for ids in one.logits) > MAX_TOKENS:
        raise ValueError(f"the tape's positions must have at most {MAX_TOKENS} tokens together")
    v = tape.vocabulary
    header = {
        **_model(tape),
        "vocabulary": {
            "strings": v.strings,
            "special": v.special,
            "kind": v.kind,
            "literal": v.literal,
            "strip_start": v.strip_start,
        },
        "texts": tape.texts,
        "state": tape.state,
        "about": tape.about,
    }
    if tape.voices:
        header["voices"] = [{"kind": kind, **_model(one)} for kind, one in tape.voices.items()]
    raw = json.dumps(header, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()
    head = zlib.compress(raw, 9)
    parts = [MAGIC_VOICES if tape.voices else MAGIC, struct.pack("<I", len(head)), head]
    for one in tapes:
        body = zlib.compress(_block(one), 6)
        parts += [struct.pack("<Q", len(body)), body]
    data = b"".join(parts)
    if len(data) + _HASH > MAX_FILE or len(raw) > MAX_HEADER:
        size, most = (len(data) + _HASH) / 1e6, MAX_FILE / 1e6
        raise ValueError(f"the tape must have at most {most:.0f} MB, got {size:.0f}")
    return data + hashlib.sha256(data).digest()


def _model(tape: Tape) -> dict[str, Any]:
    """Return what a header says of one model and its positions."""
    prefixes, index = [], {}
    for ids in tape.logits:
        parent = index.get(ids[:-1])
        prefixes.append([-1, *ids] if parent is None else [parent, ids[-1]])
        index[ids] = len(index)
    return {
        "name": tape.name,
        "model": tape.model,
        "dtype": tape.dtype,
        "vocab_size": tape.vocab_size,
        "eos_ids": tape.eos_ids,
        "bos_id": tape.bos_id,
        "context_length": tape.context_length,
        "prefixes": prefixes,
    }


def _block(tape: Tape) -> bytes:
    """Return one model's logits, unpacked."""
    tops = np.array([top for top, _ in tape.logits.values()], "<f4")
    rows = np.stack([below for _, below in tape.logits.values()]).astype("<f2")
    pairs = rows.view(np.uint8).reshape(-1, 2)
    return tops.tobytes() + pairs[:, 1].tobytes() + pairs[:, 0].tobytes()


def from_bytes(data: bytes) -> Tape:
    """Return the tape of a file. Raises ValueError saying what is wrong with it."""
    if len(data) > MAX_FILE:
        most, size = MAX_FILE / 1e6, len(data) / 1e6
        raise ValueError(f"a tape must have at most {most:.0f} MB, got {size:.0f}")
    if not data.startswith((MAGIC, MAGIC_VOICES)):
        if data.startswith(MAGIC[:6]):
            version = data[6:7].decode("ascii", "replace")
            raise ValueError(f"this tape is of version {version}; versions 1 and 2 are read here")
        raise ValueError("this file is not a tape")
    if len(data) < len(MAGIC) + 12 + _HASH:
        raise ValueError("the tape is damaged: it is cut off")
    if hashlib.sha256(data[:-_HASH]).digest() != data[-_HASH:]:
        raise ValueError("the tape is damaged: part of it is missing or changed (its hash differs)")
    try:
        head, at = _part(data, len(MAGIC), "<I")
        raw = _unpack(head, MAX_HEADER)
        try:
            header = json.loads(raw)
        except ValueError as e:  # a number of thousands of digits, too
            raise ValueError("the tape is damaged: its header is no JSON") from e
        told = header["voices"] if data.startswith(MAGIC_VOICES) else []
        if not isinstance(told, list) or len(told) > MAX_VOICES:
            raise ValueError(f"the tape is damaged: it can't have more than {MAX_VOICES} voices")
        bodies = []
        for _ in range(1 + len(told)):
            body, at = _part(data, at, "<Q")
            bodies.append(body)
        if at != len(data) - _HASH:
            raise ValueError("the tape is damaged: its parts don't fill it")
        return _tape(header, told, bodies, hashlib.sha256(data).hexdigest())
    except (KeyError, TypeError, IndexError, AttributeError, UnicodeError, RecursionError) as e:
        raise ValueError(f"the tape is damaged: {type(e).__name__} in its header") from e
    except (zlib.error, struct.error) as e:
        raise ValueError("the tape is damaged: a part can't be unpacked") from e


def _part(data: bytes, at: int, form: str) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(form, data, at)
    at += struct.calcsize(form)
    if size > len(data) - _HASH - at:
        raise ValueError("the tape is damaged: a part is longer than the file")
    return data[at : at + size], at + size


def _unpack(packed: bytes, most: int) -> bytes:
    unpack = zlib.decompressobj()
    raw = unpack.decompress(packed, most)
    if unpack.unconsumed_tail or not unpack.eof:
        raise ValueError(f"the tape is damaged: a part unpacks to more than {most} bytes")
    return raw


def _tape(
    header: dict[str, Any], told: Sequence[dict[str, Any]], bodies: Sequence[bytes], digest: str
) -> Tape:
    words = header["vocabulary"]
    strings = tuple(None if s is None else _text(s, "token", 10_000) for s in words["strings"])
    if len(strings) > MAX_VOCABULARY or words["kind"] not in KINDS[:2]:
        raise ValueError("the tape is damaged: its vocabulary is none")
    vocabulary = TapeVocabulary(
        strings,
        _ids(words["special"], len(strings)),
        words["kind"],
        _ids(words["literal"], len(strings)),
        bool(words["strip_start"]),
    )
    # The size is known before anything is unpacked, and nothing beyond it is.
    total = 0
    for one in (header, *told):
        size, count = _whole(one["vocab_size"], "vocab_size", 1, MAX_VOCABULARY), _count(one)
        total += count * 2 * size
        if not 1 <= count <= MAX_PREFIXES or total > MAX_LOGITS:
            raise ValueError(f"the tape is damaged: it can't have {count} positions")
        if len(strings) < size:
            raise ValueError("the tape is damaged: its vocabulary is too small")
    state = header["state"]
    if not isinstance(state, dict) or not isinstance(header["texts"], dict):
        raise ValueError("the tape is damaged: its state is no object")
    voices = {
        _text(one["kind"], "kind", 300): _voice(one, vocabulary, body)
        for one, body in zip(told, bodies[1:], strict=True)
    }
    own = _voice(header, vocabulary, bodies[0])
    texts = {_text(k, "text", 1 << 20): _ids(v, own.vocab_size) for k, v in header["texts"].items()}
    about = _text(header["about"], "about", 1000)
    return replace(own, texts=texts, state=state, about=about, digest=digest, voices=voices)


def _voice(header: dict[str, Any], vocabulary: TapeVocabulary, body: bytes) -> Tape:
    """Return one model with its logits; sizes were checked."""
    size, count = header["vocab_size"], _count(header)
    prefixes = _prefixes(header["prefixes"], size)
    expected = count * (4 + 2 * size)
    block = _unpack(body, expected)
    if len(block) != expected:
        raise ValueError("the tape is damaged: its logits don't fit its positions")
    tops = np.frombuffer(block, "<f4", count)
    halves = np.frombuffer(block, np.uint8, offset=4 * count).reshape(2, count, size)
    rows = np.stack([halves[1], halves[0]], axis=-1).view("<f2")[..., 0]
    if not np.isfinite(tops).all() or np.isnan(rows).any() or (rows.max(1) != 0).any():
        raise ValueError("the tape is damaged: its logits are no numbers")
    rows.flags.writeable = False
    bos, limit = header["bos_id"], header["context_length"]
    return Tape(
        name=_text(header["name"], "name", 200),
        model=_text(header["model"], "model", 500),
        dtype=_text(header["dtype"], "dtype", 50),
        vocab_size=size,
        eos_ids=_ids(header["eos_ids"], size),
        bos_id=None if bos is None else _whole(bos, "bos_id", 0, size - 1),
        context_length=None if limit is None else _whole(limit, "context_length", 1, 1 << 40),
        vocabulary=vocabulary,
        logits={p: (float(t), r) for p, t, r in zip(prefixes, tops, rows, strict=True)},
    )


def _count(header: dict[str, Any]) -> int:
    return len(header["prefixes"])


def _ids(value: Sequence[int], most: int) -> Ids:
    return tuple(_whole(i, "id", 0, most - 1) for i in value)


def _prefixes(rows: Sequence[Sequence[int]], size: int) -> list[Ids]:
    found: list[Ids] = []
    total = 0
    for row in rows:
        parent = _whole(row[0], "parent", -1, len(found) - 1)
        tokens = tuple(_whole(i, "id", 0, size - 1) for i in row[1:])
        ids = (found[parent] if parent >= 0 else ()) + tokens
        total += len(ids)
        if total > MAX_TOKENS:
            raise ValueError("the tape is damaged: its positions are too long")
        found.append(ids)
    if len(set(found)) != len(found):
        raise ValueError("the tape is damaged: a position comes twice")
    return found


def _whole(value: Any, name: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"the tape is damaged: {name} can't be {str(value)[:20]}")
    return value


def _text(value: Any, name: str, most: int) -> str:
    if not isinstance(value, str) or len(value) > most or re.search("[\ud800-\udfff]", value):
        raise ValueError(f"the tape is damaged: its {name} is no short text")
    return value
