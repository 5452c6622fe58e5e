"""The losslessness lab as values: a rule's exact law, its damage, and N seeded runs of it.

In: the position looked at (``speculative_moves.Position``), a rule, N and a seed; out: what the
lab's table, charts and sentence show. Tokens that neither law can give are put together first: the
numbers stay the same, and a lab over fifty tokens is quicker than one over a whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from playground.charts import speculative_pay as charts
from playground.engines.acceptance import RULES, damages
from playground.engines.losslessness import losslessness
from playground.format import amount_text, count_text, figure_text
from playground.ranking import descending
from playground.records.speculative import LosslessnessReport
from playground.ui.speculative_moves import Position
from playground.words import Translate

PARTS = ("lab_rules", "lab_runs", "lab_law", "lab_words")
SIZES = (1_000, 10_000, 100_000)
# Rule -> its name, and what it does wrong.
RULE_WORDS = {
    "exact": ("speculate.rule_exact", "speculate.why_exact"),
    "exact_match_redraw": ("speculate.rule_redraw", "speculate.why_redraw"),
    "resample_target": ("speculate.rule_resample", "speculate.why_resample"),
    "unfiltered_draft": ("speculate.rule_unfiltered", "speculate.why_unfiltered"),
    "greedy_draft": ("speculate.rule_greedy", "speculate.why_greedy"),
    "shared_dice": ("speculate.rule_shared", "speculate.why_shared"),
    "accept_le": ("speculate.rule_le", "speculate.why_le"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """The laws of a position over the tokens that any of them can give [K], or K + 1.

    ``ids`` [K] are the tokens; a last entry beyond them holds what the raw draft gives to all
    others.
    """

    ids: np.ndarray
    target: np.ndarray
    draft: np.ndarray
    raw_draft: np.ndarray


def laws_of(seen: Position | None) -> Laws | None:
    """Return a position's laws without what neither can give; None where nothing was drafted."""
    if seen is None or seen.draft is None:
        return None
    ids = np.flatnonzero((seen.target > 0) | (seen.draft > 0))
    rest = max(0.0, float(seen.raw_draft.sum() - seen.raw_draft[ids].sum()))
    if len(ids) == len(seen.target):
        return Laws(ids, seen.target, seen.draft, seen.raw_draft)
    return Laws(
        ids,
        np.append(seen.target[ids], 0.0),
        np.append(seen.draft[ids], 0.0),
        np.append(seen.raw_draft[ids], rest),
    )


def report(laws: Laws, rule: str, n: int, seed: int) -> LosslessnessReport:
    """Return N seeded runs of a rule at one position, against the target."""
    ratio = laws.raw_draft if rule == "unfiltered_draft" else laws.draft
    return losslessness(laws.target, ratio, rule, laws.draft, n, seed)


def values(
    seen: Position | None,
    rule: str,
    n: int,
    seed: int,
    label: Callable[[int], str],
    t: Translate,
    none: str = "",
) -> dict[str, Any]:
    """Return what the lab's parts show. ``none`` says why there is no position to look at."""
    laws = laws_of(seen)
    if laws is None:
        return {
            "lab_rules": table(None, rule, t),
            "lab_runs": charts.convergence((), (), (), t=t),
            "lab_law": charts.emitted([], t=t),
            "lab_words": none or t("speculate.lab_none"),
        }
    found = report(laws, rule, n, seed)
    harm = damages(laws.target, laws.draft, laws.raw_draft)
    return {
        "lab_rules": table(harm, rule, t),
        "lab_runs": charts.convergence(
            found.sizes,
            found.tvs,
            found.noise,
            t=t,
            damage=found.damage,
            subtitle=_chi_text(found, t),
        ),
        "lab_law": charts.emitted(rows(laws, found, label), t=t, damage=found.damage),
        "lab_words": words(seen, laws, found, t),
    }


def table(harm: dict[str, float] | None, rule: str, t: Translate) -> dict[str, Any]:
    """Return the rules with their damage in total variation; picking a row switches to it."""
    lines = []
    for name in RULES:
        title, why = (t(key) for key in RULE_WORDS[name])
        tv = "–" if harm is None else figure_text(harm[name])
        mark = "●" if name == rule else "○"
        lines.append(
            {
                "cells": [mark, title, tv, why],
                "id": name,
                "tone": "accent" if name == rule else None,
            }
        )
    columns = [
        {"label": "", "kind": "text"},
        {"label": t("speculate.column_rule"), "kind": "text"},
        {"label": t("speculate.column_damage"), "kind": "number"},
        {"label": t("speculate.column_why"), "kind": "text"},
    ]
    return {"columns": columns, "rows": lines, "caption": t("speculate.lab_title")}


def rows(
    laws: Laws, found: LosslessnessReport, label: Callable[[int], str]
) -> list[dict[str, Any]]:
    """Return the likeliest tokens of target and rule, with both laws and the runs' shares."""
    size = len(laws.ids)
    best = np.maximum(laws.target, found.emitted)[:size]
    total = found.counts.sum()
    return [
        {
            "id": int(laws.ids[i]),
            "label": label(int(laws.ids[i])),
            "target": float(laws.target[i]),
            "emitted": float(found.emitted[i]),
            "share": float(found.counts[i] / total),
        }
        for i in descending(best, charts.SHOWN_EMITTED)
        if best[i] > 0
    ]


def words(seen: Position, laws: Laws, found: LosslessnessReport, t: Translate) -> list[Any]:
    """Return the verdict in a sentence."""
    where = t("speculate.lab_where", round=seen.index + 1, place=seen.where + 1)
    name = t(RULE_WORDS[found.rule][0])
    unfiltered = np.abs(laws.raw_draft - laws.draft).max() < 1e-9
    if found.rule == "unfiltered_draft" and unfiltered:
        verdict = t("speculate.lab_no_filter")
    elif found.damage < 1e-9:
        verdict = t("speculate.lab_lossless", rule=name, tv=figure_text(found.damage))
    else:
        verdict = t("speculate.lab_biased", rule=name, tv=figure_text(found.damage))
    if found.rule == "accept_le":
        verdict += " " + t("speculate.lab_le")
    return [f"{where} {verdict}"]


def _chi_text(found: LosslessnessReport, t: Translate) -> str:
    return t(
        "speculate.converge_chi",
        chi=amount_text(found.chi_square),
        dof=count_text(found.dof),
        p=figure_text(found.p_value),
    )
