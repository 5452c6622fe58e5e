"""What the Compare page shows of a Comparison: one value per part, in the reader's words.

In: the model, a Comparison, a translator; out: values for the components, by part. No events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from playground.charts import compare as charts
from playground.charts.theme import CATEGORIES
from playground.compare import Run
from playground.figures import Figures, figures
from playground.format import amount_text, count_text, figure_text, log_text
from playground.language_model import LanguageModel
from playground.tape import TapeLM
from playground.ui.compare_decks import KIND_WORDS, LEAST, MOST, names, shown
from playground.ui.compare_moves import Column, Comparison, reach
from playground.ui.components import message
from playground.ui.marked_text import text_parts
from playground.ui.second_models import SecondModels
from playground.words import Translate

PARTS = ("decks", "sentence", "table", "probabilities", "taxes")
HUMAN_COLOR = "ink"

Seconds = Mapping[str, SecondModels]


def draw_screen(
    lm: LanguageModel, state: Comparison, seconds: Seconds, t: Translate, whole: bool = True
) -> dict[str, Any]:
    """Return the values of all parts, or (not ``whole``) of the decks alone."""
    named = names(state.decks, t)
    found = {"decks": decks(lm, state, seconds, named, t)}
    if not whole:
        return found
    rows = [(name, column.run) for name, column in zip(named, state.columns, strict=True)]
    human = t("compare.human_name")
    if state.human is not None:
        rows.append((human, state.human))
    lanes = [
        _lane(lm, name, run, HUMAN_COLOR if run.decoder is None else CATEGORIES[i])
        for i, (name, run) in enumerate(rows)
        if run is not None
    ]
    counted = [(name, figures(run, lm.eos_ids)) for name, run in rows if run is not None]
    if isinstance(lm, TapeLM):  # its own time says nothing of the model's
        counted = [(n, replace(one, seconds=None, forwards=None)) for n, one in counted]
    return {
        **found,
        "sentence": {"parts": [sentence(counted, human, t)]},
        "table": table(counted, t),
        "probabilities": charts.probabilities(lanes, t=t, length=state.length),
        "taxes": charts.taxes(lanes, t=t, length=state.length),
    }


def empty_screen(state: Comparison, t: Translate, text: str) -> dict[str, Any]:
    """Return the values where there is nothing to decode; ``text`` says why."""
    return {
        "decks": {"decks": [], "message": text},
        "sentence": {"parts": [text]},
        "table": table([], t),
        "probabilities": message(text),
        "taxes": message(" "),
    }


def _lane(lm: LanguageModel, name: str, run: Run, color: str) -> charts.Lane:
    return charts.Lane(
        name,
        color,
        [lm.label(i) for i in run.new_ids],
        [math.exp(x) for x in run.logprobs],
        run.taxes,
        human=run.decoder is None,
    )


def decks(
    lm: LanguageModel, state: Comparison, seconds: Seconds, named: Sequence[str], t: Translate
) -> dict[str, Any]:
    """Return the value of the row of decks: heads, texts, and what each is doing."""
    found = []
    for i, (name, column) in enumerate(zip(named, state.columns, strict=True)):
        found.append(
            {
                "kind": column.deck.kind,
                "name": name,
                "tone": CATEGORIES[i],
                "settings": shown(column.deck, lm, seconds, t),
                "parts": [] if column.run is None else text_parts(lm, column.run.new_ids, t),
                "note": note(column, lm, t),
                "proof": bool(column.run and column.run.steps),
            }
        )
    value: dict[str, Any] = {
        "decks": found,
        "kinds": [[kind, t(word)] for kind, word in KIND_WORDS.items()],
        "least": LEAST,
        "most": MOST,
        "words": {
            "add": t("compare.add"),
            "remove": t("compare.remove"),
            "prove": t("compare.prove"),
            "kind": t("compare.kind"),
        },
    }
    if state.human is not None:
        count = len(state.human.steps)
        value["human"] = {
            "name": t("compare.human_name"),
            "parts": text_parts(lm, state.human.new_ids, t),
            "note": t("compare.human_note", count=count_text(count)),
        }
    return value


def note(column: Column, lm: LanguageModel, t: Translate) -> str:
    """Return what a column is doing, or how it ended."""
    if column.refused:
        return column.refused
    run = column.run
    count = count_text(len(run.steps))
    if not run.steps and not run.stop:
        return t("compare.note_start")
    found = figures(run, lm.eos_ids)
    if found.locks is not None:
        return t("compare.note_loop", count=count, at=count_text(found.locks + 1))
    if not run.stop:
        if run.beams is not None and len(run.steps) != reach(run):
            return t("compare.note_best", count=count, at=count_text(reach(run)))
        return t("compare.note_tokens", count=count)
    return t(_ENDS.get(run.stop, "compare.note_tokens"), count=count)


_ENDS = {"eos": "compare.note_eos", "context full": "compare.note_context"}


def status(state: Comparison, t: Translate) -> str:
    """Return the line beside the buttons: how far the texts are."""
    if not any(run.steps for run in state.runs):
        return t("compare.hint")
    if state.ended:
        return t("compare.all_ended")
    return t("compare.progress", done=count_text(state.done), length=count_text(state.length))


def sentence(counted: Sequence[tuple[str, Figures]], human: str, t: Translate) -> str:
    """Return what the figures say: who is most and least probable, who loops, where humans are."""
    known = [(name, f) for name, f in counted if f.mean_prob is not None and name != human]
    if not known:
        return t("compare.sentence_start")
    parts = []
    by_prob = sorted(known, key=lambda pair: -pair[1].mean_prob)
    parts.append(
        t(
            "compare.sentence_probable",
            list=", ".join(f"{name} {figure_text(f.mean_prob)}" for name, f in by_prob),
        )
    )
    theirs = next((f for name, f in counted if name == human), None)
    if theirs is not None and theirs.mean_prob is not None:
        nearest = min(known, key=lambda pair: abs(pair[1].mean_prob - theirs.mean_prob))
        parts.append(t("compare.sentence_human", p=figure_text(theirs.mean_prob), name=nearest[0]))
    loops = [
        t("compare.sentence_loop", name=name, at=count_text(f.locks + 1), period=f.period)
        for name, f in known
        if f.locks is not None
    ]
    return " ".join([*parts, *loops])


def table(counted: Sequence[tuple[str, Figures]], t: Translate) -> dict[str, Any]:
    """Return the table of figures, a row per text."""
    columns = [{"label": t("compare.col_decoder"), "kind": "text"}]
    columns += [
        {"label": t(f"compare.col_{key}"), "title": t(f"compare.col_{key}_info"), "kind": "number"}
        for key, _ in _COLUMNS
    ]
    rows = [
        {"cells": [name, *("–" if v is None else write(v) for v, write in _cells(found))]}
        for name, found in counted
    ]
    return {"columns": columns, "rows": rows, "caption": t("compare.table_caption")}


def _cells(found: Figures) -> list[tuple[Any, Any]]:
    cells = []
    for key, write in _COLUMNS:
        value = getattr(found, key)
        if not found.tokens and key != "tokens":
            value = None
        cells.append((value + 1 if key == "locks" and value is not None else value, write))
    return cells


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


_COLUMNS = (
    ("tokens", count_text),
    ("logprob", log_text),
    ("mean_logprob", log_text),
    ("perplexity", amount_text),
    ("mean_prob", figure_text),
    ("entropy", amount_text),
    ("rep_2", figure_text),
    ("rep_4", figure_text),
    ("longest", count_text),
    ("locks", count_text),
    ("distinct_1", figure_text),
    ("distinct_2", figure_text),
    ("tax", figure_text),
    ("seconds", _seconds),
    ("forwards", count_text),
)
