"""The Beam view as values: from a search to what each part shows. No Gradio event, no forward.

``draw_screen`` gives every part's value by name; ``draw_ranking`` only what depends on how finished
sequences are scored, which a slider may change many times a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from playground.charts import beam_race, beam_tree
from playground.charts import beam_sentences as say
from playground.charts.theme import shorten
from playground.engines.hypotheses import rescore
from playground.format import count_text, log_text
from playground.language_model import LanguageModel
from playground.records.beam import Hypothesis, length_score
from playground.ui import beam_moves as moves
from playground.ui.beam_moves import Search
from playground.ui.components import message
from playground.words import Translate

RANKED = ("figures", "ranking", "verdict", "ghost")  # what the rule of scoring changes
PARTS = ("strip", "tree", "race", "mode", *RANKED)
CELLS = 28  # of a hypothesis in the table: its end, where the beams differ


def draw_screen(
    lm: LanguageModel, search: Search, length_penalty: float, form: str, t: Translate
) -> dict[str, Any]:
    """Return the values of all parts. ``length_penalty`` and ``form`` rank what was found."""
    if not search.states:
        return empty_screen(t("page.empty" if lm.bos_id is not None else "page.empty_no_bos"))
    found = moves.result(lm, search)
    ranked = rescore(found.hypotheses, length_penalty, form)
    best = moves.path_nodes(search, ranked[0].node) if ranked else ()
    tree = beam_tree.tree(
        found,
        label=lm.label,
        t=t,
        start=lm.label(search.prompt_ids[-1]),
        roads=moves.roads(search),
        best=best,
        picked=search.picked,
    )
    race = beam_race.race(found, label=lm.label, t=t)
    return {
        "strip": strip(lm, search, ranked),
        "tree": tree,
        "race": message(t("beam.race_empty")) if race is None else race,
        "mode": mode(lm, search, t),
        **draw_ranking(lm, search, length_penalty, form, t),
    }


def empty_screen(text: str) -> dict[str, Any]:
    """Return the values where there is nothing to search."""
    blank: dict[str, Any] = {name: " " for name in PARTS}
    return blank | {
        "strip": message(text),
        "tree": message(text),
        "race": message(" "),
        "figures": [],
        "ranking": {"columns": [], "rows": []},
        "verdict": text,
    }


def draw_ranking(
    lm: LanguageModel, search: Search, length_penalty: float, form: str, t: Translate
) -> dict[str, Any]:
    """Return the parts that the scoring changes: figures, ranking, verdict, ghost."""
    own = moves.result(lm, search).hypotheses
    ranked = rescore(own, length_penalty, form)
    return {
        "figures": figures(search, ranked, t),
        "ranking": table(lm, search, own, ranked, length_penalty, form, t),
        "verdict": verdict(lm, search, ranked, t),
        "ghost": ghost(lm, search, ranked, length_penalty, form, t),
    }


def text_of(lm: LanguageModel) -> Any:
    """Return ids -> their text on one line."""
    return lambda ids: say.quote(lm.decode(list(ids)), 10_000)


def shown_path(search: Search, ranked: Sequence[Hypothesis]) -> Hypothesis | None:
    """Return what the strip shows: the picked path, else the best one."""
    if search.road is not None:
        return search.road
    if search.picked is not None:
        return moves.path_to(search, search.picked)
    return ranked[0] if ranked else None


def strip(lm: LanguageModel, search: Search, ranked: Sequence[Hypothesis]) -> dict[str, Any]:
    """Return the strip's value: the prompt, then the picked or best path."""
    special = getattr(getattr(lm, "vocabulary", None), "is_special", lambda _: False)
    tokens: list[dict[str, Any]] = [
        {"id": i, "label": lm.label(i), "kind": "special" if special(i) else "prompt"}
        for i in search.prompt_ids
    ]
    path = shown_path(search, ranked)
    if path is None:
        return {"tokens": tokens, "cursor": len(tokens), "next": True}
    known = {c.node: c for step in search.steps for c in step.candidates}
    own = [known[n].model_logprob for n in moves.path_nodes(search, path.node)]
    # Beyond the tree a path is the model's own.
    own += path.logprobs[len(own) :]
    for token, logprob, model in zip(path.ids, path.logprobs, own, strict=True):
        tokens.append(
            {
                "id": token,
                "label": lm.label(token),
                "kind": "new",
                "p": math.exp(model),
                "surprisal": -model,
                "logprob": logprob,
                "source": "beam",
            }
        )
    return {"tokens": tokens, "cursor": len(tokens), "next": not search.ended}


def figures(search: Search, ranked: Sequence[Hypothesis], t: Translate) -> list[dict[str, Any]]:
    """Return the row of figures: how far, best, greedy, and how much more probable."""
    greedy = search.greedy_path
    best = ranked[0] if ranked and ranked[0].ids else None
    gap = None if best is None else best.logprob - greedy.logprob
    ended = sum(len(group) for group in search.state.finished)
    limit = search.state.limit
    rows = [
        (
            f"{search.at} / {count_text(limit)}",
            t("beam.figure_step"),
            t("beam.figure_step_info"),
            "",
        ),
        (
            "–" if best is None else log_text(best.logprob),
            t("beam.figure_best"),
            t("beam.figure_best_info"),
            "accent",
        ),
        (
            "–" if best is None else log_text(greedy.logprob),
            t("beam.figure_greedy"),
            t("beam.figure_greedy_info"),
            "attention",
        ),
        (
            "–" if gap is None else f"× {say.times_text(gap)}",
            t("beam.figure_times"),
            t("beam.figure_times_info"),
            "",
        ),
        (
            f"{ended} / {search.params.num_beams}",
            t("beam.figure_finished"),
            t("beam.figure_finished_info"),
            "accepted",
        ),
    ]
    return [
        {"value": value, "label": label, "title": title, "tone": tone or None}
        for value, label, title, tone in rows
    ]


def table(
    lm: LanguageModel,
    search: Search,
    own: Sequence[Hypothesis],
    ranked: Sequence[Hypothesis],
    length_penalty: float,
    form: str,
    t: Translate,
) -> dict[str, Any]:
    """Return the ranking: as many lines from the first step on as there can be.

    ``own`` is the search's own order, which tells where a line stood. Greedy's sequence, and the
    ghost that was continued, stand below with their scores under the same rule.
    """
    size = search.params.num_beams
    before = {h.ids: i for i, h in enumerate(own, 1)}
    greedy = search.greedy_path
    lines: list[tuple[str, Hypothesis, str, Any, str | None]] = []
    for i, h in enumerate(ranked[:size], 1):
        if not h.ids:
            continue
        notes = [t("beam.rank_running") if not h.stop else say.stop_short(h.stop, t)]
        if before[h.ids] != i:
            notes.append(t("beam.rank_was", rank=before[h.ids]))
        if h.ids == greedy.ids:
            notes.append(t("beam.rank_greedy"))
        lines.append((str(i), h, ", ".join(notes), h.node, "accent" if i == 1 else None))
    alone = greedy.ids and all(h.ids != greedy.ids for h in ranked[:size])
    extra = [(greedy, t("beam.rank_greedy"), "greedy")] if alone else []
    if search.road is not None:
        extra.append((search.road, t("beam.rank_ghost"), "road"))
    lines += [("", h, note, key, "muted") for h, note, key in extra]
    rows = [
        {
            "cells": [
                rank,
                _end(lm, h.ids),
                count_text(h.length),
                log_text(h.logprob),
                log_text(length_score(h.logprob, h.length, length_penalty, form)),
                note,
            ],
            "id": key,
            "tone": tone,
        }
        for rank, h, note, key, tone in lines
    ]
    blank = {"cells": ["", "\u00a0", "", "", "", ""]}
    rows += [blank] * (size + 2 - len(rows))
    names = ("rank", "text", "tokens", "sum", "score", "note")
    kinds = ("number", "token", "number", "number", "number", "text")
    heads = {name: t(_COLUMNS[name]) for name in names}
    columns = [{"label": heads[n], "kind": kind} for n, kind in zip(names, kinds, strict=True)]
    return {"columns": columns, "rows": rows, "caption": t("beam.ranking_title")}


_COLUMNS = {
    "rank": "beam.column_rank",
    "text": "beam.column_text",
    "tokens": "beam.column_tokens",
    "sum": "beam.column_sum",
    "score": "beam.column_score",
    "note": "beam.column_note",
}


def _end(lm: LanguageModel, ids: Sequence[int]) -> str:
    """Return the end of a path in labels, on one line."""
    text = "".join(lm.label(i) for i in ids)
    return shorten(text[::-1], CELLS)[::-1]


def verdict(lm: LanguageModel, search: Search, ranked: Sequence[Hypothesis], t: Translate) -> str:
    """Return greedy against the best beam in words, after what else the reader must know."""
    notes = []
    if "prompt ends in eos" in moves.result(lm, search).notes:
        notes.append(t("beam.note_eos"))
    room, asked = search.state.limit, search.params.max_new_tokens
    if room < asked:
        notes.append(t("beam.note_room", room=count_text(room), asked=count_text(asked)))
    if not search.at:
        return " ".join([*notes, t("beam.verdict_start" if room else "beam.stop_context")])
    best = ranked[0]
    line = say.verdict(
        best,
        search.greedy_path,
        ended=search.ended,
        lost_at=moves.lost_at(search),
        text=text_of(lm),
        t=t,
    )
    return " ".join([*notes, line])


def ghost(
    lm: LanguageModel,
    search: Search,
    ranked: Sequence[Hypothesis],
    length_penalty: float,
    form: str,
    t: Translate,
) -> str:
    """Return where the picked ghost leads, or what a click would tell."""
    if search.road is None or search.picked is None:
        return t("beam.ghost_hint")
    known = {c.node: (c, step) for step in search.steps for c in step.candidates}
    candidate, step = known[search.picked]
    (road,) = rescore([search.road], length_penalty, form)
    return say.regret_text(
        candidate,
        step.index + 1,
        road,
        ranked[0],
        ended=search.ended,
        label=lm.label,
        text=text_of(lm),
        t=t,
    )


def mode(lm: LanguageModel, search: Search, t: Translate) -> str:
    """Return what exact search found, or what it would do."""
    if search.mode is None:
        return t("beam.mode_hint")
    return say.mode_text(
        search.mode.found,
        horizon=search.mode.horizon,
        vocab_size=lm.vocab_size,
        beam=search.mode.beam,
        greedy=search.mode.greedy,
        num_beams=search.params.num_beams,
        text=text_of(lm),
        t=t,
    )
