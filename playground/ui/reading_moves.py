"""A text under the lens, and the moves on it: start, read on, open a file, go to the Sample view.

In: a model, what was typed or uploaded, what was clicked; out: a new ``Lens`` or a ``Session``. No
screen. Refusals are ValueErrors in the user's words. Only ids and numbers are kept between moves;
the model's own caches make reading on cost the new tokens alone.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, replace

from playground import reading
from playground.engines.sampling import fingerprint
from playground.language_model import LanguageModel
from playground.reading import Reading
from playground.records import SamplingParams
from playground.session import MAX_TEXT, Prompt, Session, replay
from playground.words import Translate

EDGES = (10, 100, 1000)
MOST_EDGES = 6
BACK = 40  # tokens that a jump may leave to its steps, where the text before can't be cut there
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CONTROLS = frozenset(map(chr, {*range(32), 127} - set(map(ord, "\t\n\r\f\x1b"))))


@dataclass(frozen=True, slots=True, eq=False)
class Lens:
    """A text being read: what was asked, what is read of it, and each token's text.

    ``prompt`` is the text with its options, ``model`` the fingerprint of the model that reads it.
    """

    prompt: Prompt = Prompt()
    model: str = ""
    reading: Reading | None = None
    pieces: tuple[str, ...] = ()

    @property
    def characters(self) -> int:
        """Characters of the scored tokens read so far."""
        done = 0 if self.reading is None else self.reading.done
        return sum(map(len, self.pieces[1:done]))


def begin(lm: LanguageModel, prompt: Prompt, t: Translate) -> Lens:
    """Return the lens on a text of which nothing is scored yet."""
    if not prompt.text:
        raise ValueError(t("read.no_text"))
    ids = prompt.encode(lm)
    if len(ids) < 2:
        raise ValueError(t("read.too_short"))
    return Lens(prompt, fingerprint(lm), reading.start(lm, ids), pieces(lm, ids))


def go_on(lm: LanguageModel, lens: Lens, prompt: Prompt, first: bool, t: Translate) -> Lens:
    """Return the lens one chunk further; anew where the text or the model is another.

    ``first``: this is the first chunk since Read was pressed, which reads a finished text again.
    """
    same = lens.prompt == prompt and lens.model == fingerprint(lm)
    if lens.reading is None or not same or (first and lens.reading.finished):
        lens = begin(lm, prompt, t)
    return replace(lens, reading=reading.advance(lm, lens.reading))


def pieces(lm: LanguageModel, ids: Sequence[int]) -> tuple[str, ...]:
    """Return each token's part of the running text; "" where a token ends inside a character.

    The character then belongs to the token that completes it; joined they are the whole text.
    """
    vocabulary = getattr(lm, "vocabulary", None)
    if vocabulary is None:
        return tuple(lm.decode([i]) for i in ids)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return tuple(decoder.decode(vocabulary.bytes_of(i)) for i in ids)


def open_at(
    lm: LanguageModel, lens: Lens, index: int, params: SamplingParams, before: Session, t: Translate
) -> Session:
    """Return a session that looks at a token's place: the text before it, and the token as taken.

    The prompt is text, so it can only end where the tokenizer itself would cut; the tokens between
    there and the place become steps that were taken by hand. In a windowed text the prompt begins
    where the token's window does.
    """
    found = lens.reading
    if found is None or not 0 < index < found.done:
        raise ValueError(t("read.first"))
    begin = int(found.starts[index])
    ids = found.ids[begin:index]
    for cut in range(len(ids), max(0, len(ids) - BACK), -1):
        prompt = _prompt(lm, lens.prompt, ids[:cut], begin)
        if prompt is not None:
            break
    else:
        raise ValueError(t("read.no_cut"))
    session = before.start(prompt, lm)
    taken = [(i, params, "forced") for i in (*ids[cut:], found.ids[index])]
    steps = replay(lm, session.trace.prompt_ids, taken)
    session = replace(session, trace=replace(session.trace, steps=steps))
    return session.look_at(len(steps) - 1)


def _prompt(lm: LanguageModel, typed: Prompt, ids: Sequence[int], begin: int) -> Prompt | None:
    """Return a prompt whose ids are exactly these, None where no text has them."""
    bos = lm.bos_id is not None and ids[0] == lm.bos_id
    options = [typed.bos] if begin == 0 else []
    for option in [*options, bos]:
        if option and lm.bos_id is None:
            continue
        for skip in (1, 0) if bos else (0,):
            prompt = Prompt(lm.decode(ids[skip:]), bos=option, special=typed.special)
            if tuple(prompt.encode(lm)) == tuple(ids):
                return prompt
    return None


def edges_of(text: str, t: Translate) -> tuple[int, ...]:
    """Return the buckets' edges as typed ("10, 100, 1000"): whole, rising, at least 1."""
    parts = text.replace("，", ",").replace(";", ",").replace(" ", ",").split(",")
    parts = [part for part in parts if part]
    if not parts:
        return EDGES
    if len(parts) > MOST_EDGES or not all(p.isdecimal() and len(p) < 10 for p in parts):
        raise ValueError(t("read.bad_edges", most=MOST_EDGES))
    edges = tuple(int(p) for p in parts)
    if edges[0] < 1 or any(a >= b for a, b in zip(edges, edges[1:], strict=False)):
        raise ValueError(t("read.bad_edges", most=MOST_EDGES))
    return edges


def text_of(data: bytes, t: Translate) -> str:
    """Return an uploaded file's text: UTF-8, or UTF-16 with its mark; line ends are made one."""
    if not data:
        raise ValueError(t("read.file_empty"))
    coding = next((name for mark, name in _BOMS.items() if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(coding)
    except UnicodeDecodeError:
        raise ValueError(t("read.file_binary")) from None
    if not _CONTROLS.isdisjoint(text):
        raise ValueError(t("read.file_binary"))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise ValueError(t("read.file_empty"))
    if len(text) > MAX_TEXT:
        raise ValueError(t("read.file_long", count=f"{len(text):,}", most=f"{MAX_TEXT:,}"))
    return text
