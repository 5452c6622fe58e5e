"""Reading: how probable a model finds each token of a given text.

Ids and a LanguageModel flow in, a ``Reading`` flows out: per token its log-probability, its rank,
the entropy where it stands and the token that the model expected most. ``start`` makes an unread
one, ``advance`` reads the next chunk, ``stream`` is a loop over it and ``read`` drains that.

One chunk
1. Its tokens are the next ones, at most so many that their logits take ``CHUNK_BYTES``: 8,000
   tokens of a vocabulary of 49,152 would be 1.6 GB at once.
2. One forward over the chunk goes on from the keys and values of the text before it (the model
   keeps them); a window that begins anew is first read up to there, without its logits.
3. The logits become numbers, a few rows at a time in float64, and are let go.

Windows: a text longer than ``window`` is read in windows that begin at 0, stride, 2 stride, ...
A token is read in the first window that holds it, so it stands after window - stride + 1 to
window tokens (fewer only at the text's start). Up to ``window`` tokens nothing is windowed.

Terms: *surprisal*: -log-probability, in nats; *scored*: every token but the first, before which
there is nothing to read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from playground.language_model import LanguageModel
from playground.records.checks import integer

CHUNK_BYTES = 32 << 20  # of float32 logits in one forward
MOST_ROWS = 256  # tokens in a chunk at most, so that progress is seen
WARM = 512  # tokens of a new window in one forward
_ROWS = 16  # rows in float64 at a time


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A text as a model reads it; arrays hold the tokens read so far, n of ``len(ids)``.

    ``logprobs`` float64 [n]: the model's own log-probability (nats); ``ranks`` int64 [n], 1-based,
    ties by id; ``entropies`` float64 [n] (nats) of the distribution the token was in; ``top_ids``
    int64 [n] and ``top_logprobs`` float64 [n]: the most probable token there; ``starts`` int64 [n]:
    the index of the first token that the model saw before it. Where a token isn't scored: nan,
    rank 0, top id -1.
    """

    ids: tuple[int, ...]
    window: int
    stride: int
    logprobs: np.ndarray
    ranks: np.ndarray
    entropies: np.ndarray
    top_ids: np.ndarray
    top_logprobs: np.ndarray
    starts: np.ndarray

    @property
    def done(self) -> int:
        """Number of tokens read."""
        return len(self.logprobs)

    @property
    def finished(self) -> bool:
        """Whether the whole text is read."""
        return self.done == len(self.ids)

    @property
    def surprisals(self) -> np.ndarray:
        """Surprisals float64 [n] in nats, nan where not scored."""
        return -self.logprobs

    @property
    def scored(self) -> int:
        """Number of tokens with a probability."""
        return max(0, self.done - 1)

    @property
    def logprob(self) -> float:
        """The sum of the log-probabilities of what is read, in nats."""
        return float(self.logprobs[1:].sum())

    @property
    def perplexity(self) -> float:
        """exp(mean surprisal) per scored token, nan where there is none."""
        if not self.scored:
            return math.nan
        mean = -self.logprob / self.scored
        return math.exp(mean) if mean < 700 else math.inf

    def bits_per(self, count: int) -> float:
        """Return the text's surprisal in bits for each of ``count`` characters (or bytes, words).

        ``count`` is of the scored tokens' text: without that of the first one.
        """
        return -self.logprob / math.log(2) / count if count else math.nan

    def to_frame(self, labels: Sequence[str] | None = None) -> Any:
        """Return one row per token read as a pandas DataFrame (index: position in the text)."""
        import pandas as pd

        columns: dict[str, Any] = {"token_id": list(self.ids[: self.done])}
        if labels is not None:
            columns["token"] = list(labels)
        columns |= {
            "probability": np.exp(self.logprobs),
            "rank": self.ranks,
            "logprob": self.logprobs,
            "surprisal": self.surprisals,
            "entropy": self.entropies,
            "top_id": self.top_ids,
            "top_logprob": self.top_logprobs,
            "window_start": self.starts,
        }
        return pd.DataFrame(columns).rename_axis("position")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the text: tokens ``start`` to ``end`` (not included), its surprisal in nats."""

    start: int
    end: int
    text: str
    surprisal: float


def start(
    lm: LanguageModel,
    ids: Sequence[int],
    window: int | None = None,
    stride: int | None = None,
) -> Reading:
    """Return a reading of ids of which only the first token, which is never scored, is read.

    ``window`` defaults to the model's context (the whole text where that is unbounded), ``stride``
    to half the window. Raises ValueError for ids outside the vocabulary or a window or stride that
    can't be.
    """
    ids = tuple(int(i) for i in ids)
    for i in ids:
        if not 0 <= i < lm.vocab_size:
            raise ValueError(f"token ids must be in [0, {lm.vocab_size - 1}], got {i}")
    most = lm.context_length or max(len(ids), 1)
    window = integer("window", most if window is None else window, 1, most)
    stride = integer("stride", max(1, window // 2) if stride is None else stride, 1, window)
    first = min(1, len(ids))
    return Reading(
        ids,
        window,
        stride,
        logprobs=np.full(first, np.nan),
        ranks=np.zeros(first, np.int64),
        entropies=np.full(first, np.nan),
        top_ids=np.full(first, -1, np.int64),
        top_logprobs=np.full(first, np.nan),
        starts=np.zeros(first, np.int64),
    )


def advance(lm: LanguageModel, reading: Reading, rows: int | None = None) -> Reading:
    """Return the reading with its next chunk read, by one forward (more where a window begins).

    ``rows`` is the chunk's length in tokens; by default what ``CHUNK_BYTES`` allow.
    """
    if reading.finished:
        return reading
    rows = chunk_rows(lm.vocab_size) if rows is None else integer("rows", rows, 1)
    ids, first = reading.ids, reading.done
    begin = window_start(first, reading.window, reading.stride)
    last = min(first + rows, begin + reading.window + 1, len(ids)) - 1
    if first > 1 and begin != reading.starts[-1]:
        for end in range(begin + WARM, first, WARM):
            lm.logits(ids[begin:end])
    logits = lm.logits(ids[begin:last], last=last - first + 1)
    found = _numbers(np.asarray(logits), np.asarray(ids[first : last + 1]))
    found["starts"] = np.full(last - first + 1, begin, np.int64)
    joined = {name: np.concatenate([getattr(reading, name), new]) for name, new in found.items()}
    return replace(reading, **joined)


def stream(
    lm: LanguageModel,
    ids: Sequence[int],
    window: int | None = None,
    stride: int | None = None,
    rows: int | None = None,
) -> Iterator[Reading]:
    """Yield the reading after each chunk; stop taking to stop reading."""
    reading = start(lm, ids, window, stride)
    while not reading.finished:
        reading = advance(lm, reading, rows)
        yield reading


def read(
    lm: LanguageModel,
    ids: Sequence[int],
    window: int | None = None,
    stride: int | None = None,
    rows: int | None = None,
) -> Reading:
    """Return the whole text's reading; see ``start`` and ``advance`` for the options."""
    reading = start(lm, ids, window, stride)
    for later in stream(lm, ids, window, stride, rows):
        reading = later
    return reading


def window_start(index: int, window: int, stride: int) -> int:
    """Return where the first window that holds token ``index`` (and what is before it) begins."""
    return 0 if index <= window else -(-(index - window) // stride) * stride


def chunk_rows(vocab_size: int) -> int:
    """Return how many tokens one chunk has."""
    return max(1, min(MOST_ROWS, CHUNK_BYTES // (4 * vocab_size)))


def bucket_of(ranks: np.ndarray, edges: Sequence[int]) -> np.ndarray:
    """Return each rank's bucket: 0 up to the first edge, 1 up to the second, ...; -1 unscored."""
    return np.where(ranks > 0, np.searchsorted(np.asarray(edges), ranks, side="left"), -1)


def words(reading: Reading, pieces: Sequence[str]) -> list[Word]:
    """Return the scored words of what is read, in order. ``pieces`` are the tokens' texts.

    A word goes on through letters, digits, apostrophes and hyphens; a white-space token, a mark or
    an ideograph (as tokens cut them) stands alone. The surprisal of a word is its tokens' sum.
    """
    found: list[Word] = []
    before = ""
    for i in range(1, reading.done):
        piece = pieces[i]
        surprisal = float(-reading.logprobs[i])
        joins = i > 1 and bool(found) and _joins(before, piece)
        if joins:
            last = found[-1]
            text, total = last.text + piece, last.surprisal + surprisal
            found[-1] = Word(last.start, i + 1, text, total)
        else:
            found.append(Word(i, i + 1, piece, surprisal))
        before = piece or before
    return found


def _joins(before: str, piece: str) -> bool:
    """Say whether a token's text goes on with the word that the text before it ends in."""
    if not piece:  # part of a character: it belongs to what follows it
        return False
    if not before:
        return True
    return _of_word(before[-1]) and _of_word(piece[0])


def _of_word(char: str) -> bool:
    # Ideographs and kana aren't set apart by spaces, so tokens are all that cuts them.
    return (char.isalnum() and not "\u3040" <= char <= "\u9fff") or char in "'’-"


def _numbers(logits: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """Return the numbers of ``targets`` [n] under ``logits`` float32 [n, V]."""
    n, size = logits.shape
    out: dict[str, np.ndarray] = {
        "logprobs": np.empty(n),
        "ranks": np.empty(n, np.int64),
        "entropies": np.empty(n),
        "top_ids": np.empty(n, np.int64),
        "top_logprobs": np.empty(n),
    }
    ids = np.arange(size)
    for at in range(0, n, _ROWS):
        block = logits[at : at + _ROWS]
        here = slice(at, at + len(block))
        target = targets[here, None]
        value = np.take_along_axis(block, target, 1)
        above = (block > value) | ((block == value) & (ids < target))
        out["ranks"][here] = above.sum(1) + 1
        shifted = block.astype(np.float64)
        top = shifted.argmax(1)
        shifted -= np.take_along_axis(shifted, top[:, None], 1)
        p = np.exp(shifted)
        mass = p.sum(1)
        norm = np.log(mass)
        shifted[p == 0] = 0  # 0 ln 0 = 0
        out["entropies"][here] = norm - (p * shifted).sum(1) / mass
        top_value = np.take_along_axis(block, top[:, None], 1).astype(np.float64)
        out["logprobs"][here] = (value.astype(np.float64) - top_value)[:, 0] - norm
        out["top_ids"][here] = top
        out["top_logprobs"][here] = -norm
    return out
