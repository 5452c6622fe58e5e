"""Making a tape: a recorder answers as the tape will, and asks its model for what isn't on it yet.

In: a LanguageModel; out: a Tape (``playground.tape``). Rows come back rounded to float16, as they
are kept, so a search or a race that ran over a recorder runs over the tape alike, step for step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from playground.language_model import LanguageModel, check_ids
from playground.tape import MAX_LOGITS, MAX_PREFIXES, Ids, Tape, TapeLM, TapeVocabulary, text_key


def record(
    lm: LanguageModel,
    prefixes: Iterable[Sequence[int]],
    *,
    texts: Mapping[str, Sequence[int]] | None = None,
    state: Mapping[str, Any] | None = None,
    about: str = "",
) -> Tape:
    """Return a tape of what a model says after each prefix (asked once each, in order).

    Raises ValueError when there is too much for a tape, or when the model's vocabulary can't be
    written down (it has none, or its tokens are known to its tokenizer alone).
    """
    wanted = list(dict.fromkeys(tuple(int(i) for i in p) for p in prefixes))
    if not wanted:
        raise ValueError("a tape must have at least one position, got none")
    recorder = Recorder(lm, texts=texts)
    recorder.take(wanted)
    return recorder.finished(state or {}, about)


class Recorder(TapeLM):
    """A tape being made of a model: what is asked for and not on it yet is recorded.

    ``tape`` is what there is so far, ``most`` how many bytes of logits it may take. ``mark`` and
    ``rewind`` take back what came in between. Raises ValueError when the model's vocabulary can't
    be written down (it has none, or its tokens are known to its tokenizer alone), and TapeFull when
    there is more than a tape holds.
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        texts: Mapping[str, Sequence[int]] | None = None,
        most: int = MAX_LOGITS,
    ) -> None:
        super().__init__(_empty(lm, _vocabulary_of(lm), texts or {}))
        self.lm, self._whole, self._most = lm, self.tape, most

    @property
    def room(self) -> int:
        """How many more positions the tape takes."""
        held, used = self._whole.positions, self._whole.nbytes
        return min(MAX_PREFIXES - held, (self._most - used) // (2 * self.vocab_size + 4))

    def take(self, prefixes: Sequence[Sequence[int]]) -> None:
        """Record what the model says after each prefix; ValueError when they don't all fit."""
        most, got = self.room, len(prefixes)
        if got > most:
            raise ValueError(f"a tape holds at most {most} positions of this model, got {got}")
        for ids in prefixes:
            self.logits(ids)

    def logits(self, ids: Sequence[int], last: int = 1) -> np.ndarray:
        """Return float32 [last, V] as the tape will."""
        ids = check_ids(self, ids, last)
        wanted = [ids[: len(ids) - back] for back in range(last - 1, -1, -1)]
        if any(one not in self.tape.logits for one in wanted):
            self._keep(wanted, self.lm.logits(ids, last))
        return super().logits(ids, last)

    def logits_many(self, prefixes: Sequence[Sequence[int]], last: int = 1) -> np.ndarray:
        """Return float32 [B, last, V] as the tape will."""
        rows = dict.fromkeys(tuple(check_ids(self, ids, last)) for ids in prefixes)
        missing = [ids for ids in rows if ids not in self.tape.logits]
        if last == 1 and missing:
            self._keep(missing, self.lm.logits_many(missing)[:, -1])
        return super().logits_many(prefixes, last)

    def _keep(self, prefixes: Sequence[Ids], rows: np.ndarray) -> None:
        for ids, row in zip(prefixes, np.asarray(rows, np.float32), strict=True):
            if ids in self.tape.logits:
                continue
            if self.room < 1:
                raise TapeFull("the tape is full")
            top = float(row.max())
            with np.errstate(over="ignore"):  # beyond float16 is -inf: a probability below 1e-28000
                below = (row - np.float32(top)).astype(np.float16)
            self.tape.logits[ids] = top, below  # type: ignore[index]

    def encode(self, text: str = "", **options: Any) -> list[int]:
        """Return the ids of a recorded text, or as the model encodes it, which is recorded."""
        key = text_key(text, options.get("chat"))
        if key and key not in self.tape.texts:
            ids = tuple(self.lm.encode(text, **options))
            self.tape.texts[key] = ids  # type: ignore[index]
        return super().encode(text, **options)

    def mark(self) -> dict[str, int]:
        """Return how far the tape is."""
        return {kind: len(one.logits) for kind, one in self._all()}

    def rewind(self, mark: Mapping[str, int]) -> None:
        """Take back what was recorded since the mark, texts aside."""
        for kind, one in self._all():
            for ids in list(one.logits)[mark.get(kind, 0) :]:
                del one.logits[ids]  # type: ignore[attr-defined]

    def finished(self, state: Mapping[str, Any], about: str = "") -> Tape:
        """Return the tape, without second models that were never asked."""
        voices = {kind: one for kind, one in self.tape.voices.items() if one.logits}
        return replace(self.tape, state=dict(state), about=about, voices=voices)

    def _all(self) -> list[tuple[str, Tape]]:
        return [("", self.tape), *self.tape.voices.items()]

    def hear(self, kind: str, lm: LanguageModel) -> TapeLM:
        """Return the recorder of a second model, which is known by ``kind`` from now on."""
        if kind not in self._voices:
            voice = Recorder.__new__(Recorder)
            TapeLM.__init__(voice, _empty(lm, self.tape.vocabulary, {}))
            voice.lm, voice._whole, voice._most = lm, self._whole, self._most
            self._voices[kind] = voice
            self.tape.voices[kind] = voice.tape  # type: ignore[index]
        return self._voices[kind]


class TapeFull(ValueError):
    """More was asked for than a tape holds."""


def _empty(
    lm: LanguageModel, vocabulary: TapeVocabulary, texts: Mapping[str, Sequence[int]]
) -> Tape:
    return Tape(
        name=lm.name,
        model=getattr(lm, "fingerprint", lm.name),
        dtype=lm.dtype,
        vocab_size=lm.vocab_size,
        eos_ids=tuple(lm.eos_ids),
        bos_id=lm.bos_id,
        context_length=lm.context_length,
        vocabulary=vocabulary,
        logits={},
        texts={text: tuple(ids) for text, ids in texts.items()},
    )


def _vocabulary_of(lm: LanguageModel) -> TapeVocabulary:
    vocabulary = getattr(lm, "vocabulary", None)
    if vocabulary is None or vocabulary.kind == "other":
        raise ValueError(f"{lm.name} can't be recorded: its tokens are known to its tokenizer only")
    strings, special, literal, strip = vocabulary.parts
    return TapeVocabulary(tuple(strings), tuple(sorted(special)), vocabulary.kind, literal, strip)
