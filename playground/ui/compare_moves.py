"""Decoders side by side as the page holds them, and the moves on them. Ids and numbers; no screen.

In: a LanguageModel, what the texts depend on (``Setup``), the decks, and the human text's ids; out:
a new Comparison. A text whose decoder hasn't changed is kept when others change. What a text costs
is measured on caches of its own (``Tracks``).
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from playground import compare
from playground.compare import Decoder, Run
from playground.engines.drafting import Draft
from playground.engines.prompt_lookup import PromptLookup
from playground.language_model import LanguageModel
from playground.models.views import ShortContext
from playground.records import SamplingParams
from playground.ui.compare_decks import STORY, Deck, decoder_of
from playground.ui.second_models import LOOKUP, SHORT, Second, SecondModels
from playground.words import Translate, in_words

MAX_LENGTH = 200
LENGTH = 60
TRACKS = 24  # caches kept per model: four visitors with six decoders each
CACHES = {"kv_bytes": 64 << 20, "logits_bytes": 48 << 20}

Seconds = Mapping[str, SecondModels]


@dataclass(frozen=True, slots=True)
class Setup:
    """What all texts depend on. ``panel``: the panel's own sampling settings, seed included."""

    prompt_ids: tuple[int, ...]
    model: str
    panel: SamplingParams


@dataclass(frozen=True, slots=True)
class Column:
    """A deck with its text. ``mark`` names its caches; ``refused`` says why it can't decode."""

    deck: Deck
    decoder: Decoder | None
    run: Run | None
    mark: str = ""
    refused: str = ""

    @property
    def ended(self) -> bool:
        """Whether no further token can come."""
        return self.run is None or bool(self.run.stop)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The columns, the human text, and how many tokens each may have."""

    setup: Setup | None = None
    decks: tuple[Deck, ...] = STORY
    columns: tuple[Column, ...] = ()
    human: Run | None = None
    length: int = LENGTH

    @property
    def ended(self) -> bool:
        """Whether every text has ended."""
        return all(column.ended for column in self.columns)

    @property
    def done(self) -> int:
        """How many tokens every text has that still grows; ``length`` when none does."""
        return min((reach(c.run) for c in self.columns if not c.ended), default=self.length)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The texts of decoders, in order; a refused one has none."""
        return tuple(column.run for column in self.columns if column.run is not None)


def reach(run: Run) -> int:
    """Return how many tokens a decoder has gone, a beam search's best text may be shorter."""
    return run.beams.index if run.beams is not None else len(run.steps)


def sync(
    old: Comparison,
    setup: Setup,
    decks: Sequence[Deck],
    length: int,
    human_ids: Sequence[int],
    lm: LanguageModel,
    seconds: Seconds,
) -> Comparison:
    """Return the comparison under what the controls say now; texts that still hold are kept."""
    same = old.setup is not None and (old.setup.prompt_ids, old.setup.model) == (
        setup.prompt_ids,
        setup.model,
    )
    spare = list(old.columns) if same else []
    columns = []
    for one in decks:
        try:
            decoder = decoder_of(one, setup.panel, lm, seconds)
        except ValueError as error:
            columns.append(Column(one, None, None, refused=in_words(error)))
            continue
        kept = next((c for c in spare if c.decoder == decoder and c.run is not None), None)
        if kept is None:
            run = compare.start(decoder, setup.prompt_ids, length)
            columns.append(Column(one, decoder, run, secrets.token_hex(8)))
        else:
            spare.remove(kept)
            columns.append(replace(kept, deck=one, run=_limited(kept.run, length)))
    human_ids = tuple(human_ids)[:length]
    human = old.human if same else None
    if not human_ids:
        human = None
    elif human is None or human.new_ids != human_ids:
        human = compare.given(lm, setup.prompt_ids, human_ids)
    return Comparison(setup, tuple(decks), tuple(columns), human, length)


def _limited(run: Run, length: int) -> Run:
    """Return a run that may have ``length`` tokens; a search that had another limit starts anew."""
    if run.limit == length:
        return run
    if run.beams is not None:
        return compare.start(run.decoder, run.prompt_ids, length)
    if run.stop == "length" and len(run.steps) < length:
        return replace(run, limit=length, stop="")
    if not run.stop and len(run.steps) >= length:
        return replace(run, limit=length, stop="length")
    return replace(run, limit=length)


def reset(old: Comparison) -> Comparison:
    """Return the comparison with every text at its start."""
    columns = tuple(
        column
        if column.run is None
        else replace(
            column,
            run=compare.start(column.decoder, column.run.prompt_ids, old.length),
            mark=secrets.token_hex(8),
            refused="",
        )
        for column in old.columns
    )
    return replace(old, columns=columns)


def tick(lm: LanguageModel, old: Comparison, tracks: Tracks) -> Comparison:
    """Return the comparison with every text that is behind one step further.

    Texts stay side by side: one that is ahead (a round of speculation is several tokens) waits. A
    decoder that refuses (``Column.refused``) stops; the others go on.
    """
    done = old.done
    columns = []
    for column in old.columns:
        if not column.ended and reach(column.run) <= done:
            try:
                own, helper = tracks.get(lm, column)
                column = replace(column, run=compare.advance(own, column.run, helper))
            except ValueError as error:
                stopped = replace(column.run, stop="refused")
                column = replace(column, run=stopped, refused=in_words(error))
            if column.ended:
                tracks.drop(lm, column)
        columns.append(column)
    return replace(old, columns=tuple(columns))


class Tracks:
    """A model and a helper with caches of their own for each column under way; thread-safe."""

    def __init__(self, seconds: Seconds) -> None:
        self._seconds = seconds
        self._made: WeakKeyDictionary[Any, OrderedDict[str, tuple[Any, Draft | None]]]
        self._made = WeakKeyDictionary()
        self._lock = threading.Lock()

    def get(self, lm: LanguageModel, column: Column) -> tuple[LanguageModel, Draft | None]:
        """Return the column's own (model, helper). Raises ValueError where it can't have one."""
        with self._lock:
            made = self._made.setdefault(lm, OrderedDict())
            if column.mark not in made:
                own = _fresh(lm)
                if own is lm:  # kept, it would keep its model for ever
                    return lm, self._helper(lm, own, column)
                made[column.mark] = own, self._helper(lm, own, column)
                while len(made) > TRACKS:
                    made.popitem(last=False)
            made.move_to_end(column.mark)
            return made[column.mark]

    def drop(self, lm: LanguageModel, column: Column) -> None:
        """Forget a column's caches."""
        with self._lock:
            self._made.get(lm, {}).pop(column.mark, None)

    def _helper(self, lm: LanguageModel, own: LanguageModel, column: Column) -> Draft | None:
        decoder = column.decoder
        if not decoder.helper:
            return None
        if decoder.helper == LOOKUP:
            return PromptLookup()
        if decoder.helper == SHORT:
            return ShortContext(own, decoder.size)
        second = Second(decoder.helper, decoder.size)
        return _fresh(self._seconds[column.deck.kind].get(lm, second))


def _fresh(lm: Any) -> Any:
    """Return a model with caches of its own, where it can have them."""
    return lm.fresh(**CACHES) if hasattr(lm, "fresh") else lm


def human_ids(lm: LanguageModel, text: str, prompt: str, chat: bool) -> list[int]:
    """Return the ids of a human text that goes on from a prompt; a missing space is put between."""
    text = text.rstrip()
    if not text:
        return []
    letters = prompt[-1:].isascii() and text[:1].isascii()
    if not chat and letters and prompt and not prompt[-1].isspace() and not text[0].isspace():
        text = " " + text
    return lm.encode(text, add_bos=False)


def need_prompt(lm: LanguageModel, prompt_ids: Sequence[int], t: Translate) -> None:
    """Refuse, in words, a prompt of no token, or one that leaves no room."""
    if not prompt_ids:
        raise ValueError(t("page.empty" if lm.bos_id is not None else "page.empty_no_bos"))
    if lm.context_length is not None and len(prompt_ids) > lm.context_length:
        raise ValueError(t("page.too_long", count=len(prompt_ids), limit=lm.context_length))
