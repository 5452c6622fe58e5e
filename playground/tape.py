"""Tapes: recordings with the model's full logits, which replay on a machine without the model.

A ``Tape`` holds what was chosen (a session's state, as a permalink has it), the vocabulary, and for
each prefix on the way the model's logits over the whole vocabulary. ``TapeLM`` plays it: it is a
LanguageModel that knows these prefixes and refuses all others in words.

Logits are kept as float16 of their distance to the row's maximum, beside that maximum in float32:
so the probable tokens are the most exact ones (a token of probability 0.01 is off by 0.2 % at
most), and penalties, which know no shift, still see the raw logits.

Beside the model a tape may hold *voices*: second models (amateurs, drafts) with logits of their
own, by the kind that the page knows them by.

The file is ``playground.tape_file``'s business: ``to_bytes`` and ``from_bytes``; tapes are made by
``playground.recorder``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from playground.language_model import check_ids
from playground.vocabulary import Vocabulary
from playground.words import spoken

MAX_LOGITS = 128 << 20  # bytes of float16 logits, unpacked
MAX_PREFIXES = 4096

Ids = tuple[int, ...]


class NotOnTape(ValueError):
    """What was asked for was not recorded; says so in the visitor's language."""


@dataclass(frozen=True, slots=True)
class TapeVocabulary:
    """What a Vocabulary is made of; see ``playground.vocabulary``."""

    strings: tuple[str | None, ...]
    special: tuple[int, ...]
    kind: str = "byte-level"
    literal: tuple[int, ...] = ()
    strip_start: bool = False


@dataclass(frozen=True, eq=False)
class Tape:
    """A recording. ``logits`` maps prefixes to (maximum, float16 [V] below it).

    ``model`` is the recorded model's fingerprint, ``texts`` maps known texts to their ids,
    ``state`` is the session's (``playground.session.to_state``), ``about`` a line for the reader.
    ``voices`` maps kinds ("early-exit:12") to tapes of second models, which have no texts.
    """

    name: str
    model: str
    dtype: str
    vocab_size: int
    eos_ids: Ids
    bos_id: int | None
    context_length: int | None
    vocabulary: TapeVocabulary
    logits: Mapping[Ids, tuple[float, np.ndarray]]
    texts: Mapping[str, Ids] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    about: str = ""
    digest: str = ""  # SHA-256 of the file it came from, "" for one just recorded
    voices: Mapping[str, Tape] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of the logits, unpacked."""
        own = len(self.logits) * (2 * self.vocab_size + 4)
        return own + sum(voice.nbytes for voice in self.voices.values())

    @property
    def positions(self) -> int:
        """Positions recorded, of all models together."""
        return len(self.logits) + sum(len(voice.logits) for voice in self.voices.values())


class TapeLM:
    """Plays a tape as a LanguageModel: recorded prefixes only, no tokenizer.

    ``encode`` knows the recorded texts and any single token's text; ``logits`` the recorded
    prefixes. Everything else raises NotOnTape, saying what is there.
    """

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.name = tape.name
        self.vocab_size = tape.vocab_size
        self.eos_ids = tape.eos_ids
        self.bos_id = tape.bos_id
        self.context_length = tape.context_length
        self.device = "tape"
        self.dtype = "float16"
        self.fingerprint = tape.model
        self.has_chat_template = False
        depth = tape.state.get("depth", 0)
        self.depth = depth if type(depth) is int and 0 <= depth < 1 << 16 else 0  # layers
        self._voices: dict[str, TapeLM] = {}
        self.held = 0  # positions of the whole tape, where this is a voice of it

    @property
    def token_strings(self) -> tuple[str | None, ...]:
        """The raw token strings by id."""
        return self.tape.vocabulary.strings

    @property
    def voices(self) -> tuple[str, ...]:
        """The kinds of the second models that are on the tape."""
        return tuple(self.tape.voices)

    def voice(self, kind: str) -> TapeLM:
        """Return a second model; NotOnTape where that kind wasn't recorded."""
        if kind not in self._voices:
            if kind not in self.tape.voices:
                raise NotOnTape(spoken()("take.no_voice"))
            voice = self._voices[kind] = TapeLM(self.tape.voices[kind])
            voice.held = self.tape.positions
        return self._voices[kind]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Labels and bytes of all tokens."""
        v = self.tape.vocabulary
        return Vocabulary(
            v.strings, v.special, v.kind, literal_ids=v.literal, strip_start=v.strip_start
        )

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V]; NotOnTape for a prefix that wasn't recorded."""
        ids = check_ids(self, ids, last)
        return np.stack([self._row(ids[: len(ids) - back]) for back in range(last - 1, -1, -1)])

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V]."""
        if not len(prefixes):
            raise ValueError("prefixes must have at least one row, got none")
        return np.stack([self.logits(prefix, last) for prefix in prefixes])

    def _row(self, ids: Ids) -> np.ndarray:
        found = self.tape.logits.get(ids)
        if found is None:
            count, held = len(ids), self.held or self.tape.positions
            raise NotOnTape(spoken()("take.not_recorded", count=count, held=held))
        top, below = found
        return below.astype(np.float32) + np.float32(top)

    def encode(
        self,
        text: str = "",
        *,
        add_bos: bool | None = None,
        chat: Any = False,
        special: bool = True,
    ) -> list[int]:
        """Return the ids of a recorded text (chats: of their JSON), or of a single token's text."""
        key = text_key(text, chat)
        if not text and not chat:
            return []
        if key in self.tape.texts:
            return list(self.tape.texts[key])
        one = self._by_text.get(text)
        if one is None:
            raise NotOnTape(spoken()("take.no_tokenizer"))
        return [one]

    @cached_property
    def _by_text(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for token in range(min(self.vocab_size, len(self.tape.vocabulary.strings))):
            try:
                found.setdefault(self.vocabulary.bytes_of(token).decode(), token)
            except UnicodeDecodeError:
                continue
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """Return the running text of the ids."""
        return self.vocabulary.text(ids)

    def label(self, token_id: int) -> str:
        """Return a visible label of one token."""
        return self.vocabulary.label(token_id)


def text_key(text: str, chat: Any = False) -> str:
    """Return the name that a tape knows a text by; a chat's is its JSON."""
    return json.dumps(chat, ensure_ascii=False) if chat else text


def size_of(count: int, vocab_size: int) -> int:
    """Return about how many bytes a tape of ``count`` prefixes takes as a file, at most."""
    return count * (2 * vocab_size + 4) + 12 * vocab_size
