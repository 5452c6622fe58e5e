"""The Speculate view as values: from a run to what each part shows. No Gradio event.

``draw_screen`` gives every part's value by name. The models are asked for the one position that is
looked at, whose logits their caches have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from playground.charts import speculative as charts
from playground.charts import speculative_pay as pay
from playground.engines.drafting import Draft
from playground.format import amount_text, count_text, figure_text, setting_text
from playground.language_model import LanguageModel
from playground.ranking import descending
from playground.records.speculative import Round
from playground.ui import speculative_lab as lab
from playground.ui import speculative_moves as moves
from playground.ui.components import message
from playground.ui.speculative_figures import Figures, figures
from playground.ui.speculative_moves import Position, Speculation
from playground.words import Translate

PARTS = (
    "strip",
    "rounds",
    "figures",
    "sentence",
    "trial",
    "laws",
    "residual",
    "payoff",
    *lab.PARTS,
)

Label = Callable[[int], str]


def draw_screen(
    target: LanguageModel,
    draft: Draft,
    run: Speculation,
    t: Translate,
    rule: str = "exact",
    n: int = 10_000,
    with_lab: bool = True,
) -> dict[str, Any]:
    """Return the values of all parts; without the lab, which shows one position at rest, fewer."""
    if run.setup is None or not run.setup.prompt_ids:
        return empty_screen(
            t, t("page.empty" if target.bos_id is not None else "page.empty_no_bos")
        )
    seen = moves.position(target, draft, run)
    found = figures(run.laps[: run.at], run.step_seconds, run.costs)
    view = None if seen is None else view_of(seen, target.label)
    values = {
        "strip": strip(target, run),
        "rounds": timeline(target.label, run, found, t),
        "figures": rows(found, run, t),
        "sentence": sentence(seen, run, view, t),
        "trial": charts.trial(view, t=t),
        "laws": charts.laws(view, t=t),
        "residual": charts.residual(view, t=t),
        "payoff": pay.payoff(
            found.speeds,
            found.ideal,
            t=t,
            gamma=run.setup.params.gamma,
            predicted=found.predicted,
            measured=found.measured,
            best=found.best,
        ),
    }
    if with_lab:
        seed = run.setup.sampling.seed
        none = t("speculate.lab_bonus") if seen is not None else ""
        values |= lab.values(seen, rule, n, seed, target.label, t, none)
    return values


def empty_screen(t: Translate, text: str) -> dict[str, Any]:
    """Return the values where there is nothing to decode; ``text`` says why."""
    none = Figures(0, 0, 0, 0, 0)
    return {
        "strip": message(text),
        "rounds": {"title": t("speculate.rounds_empty"), "subtitle": legend(t), "empty": text},
        "figures": rows(none, Speculation(), t),
        "sentence": text,
        "trial": charts.trial(None, t=t),
        "laws": charts.laws(None, t=t),
        "residual": charts.residual(None, t=t),
        "payoff": pay.payoff((), (), t=t),
        **lab.values(None, "exact", lab.SIZES[0], 0, str, t),
    }


def strip(lm: LanguageModel, run: Speculation) -> dict[str, Any]:
    """Return the token strip's value: every token with its provenance."""
    special = getattr(getattr(lm, "vocabulary", None), "is_special", lambda _: False)
    tokens: list[dict[str, Any]] = [
        {"id": i, "label": lm.label(i), "kind": "special" if special(i) else "prompt"}
        for i in run.setup.prompt_ids
    ]
    for one in run.rounds:
        for step in one.steps:
            tokens.append(
                {
                    "id": step.token_id,
                    "label": lm.label(step.token_id),
                    "kind": "new",
                    "p": math.exp(step.model_logprob),
                    "surprisal": -step.model_logprob,
                    "rank": step.rank,
                    "logprob": step.logprob if math.isfinite(step.logprob) else None,
                    "source": step.source,
                }
            )
    return {"tokens": tokens, "cursor": len(tokens), "next": not run.stop}


def legend(t: Translate) -> str:
    """Return the marks in words."""
    return "  ".join(charts.fate_text(fate, t) for fate in charts.FATES)


def timeline(label: Label, run: Speculation, found: Figures, t: Translate) -> dict[str, Any]:
    """Return the rounds' value: their tokens, fates and the one looked at."""
    return {
        "title": summary(found, t),
        "subtitle": legend(t),
        "rounds": [_line(i, one, label, t) for i, one in enumerate(run.rounds)],
        "picked": run.picked,
        "empty": t("speculate.rounds_hint"),
    }


def summary(found: Figures, t: Translate) -> str:
    """Return the run in one line."""
    if not found.rounds:
        return t("speculate.rounds_empty")
    key = "speculate.rounds_title_one" if found.rounds == 1 else "speculate.rounds_title"
    return t(
        key,
        tokens=count_text(found.tokens),
        rounds=count_text(found.rounds),
        accepted=count_text(found.accepted),
        tested=count_text(found.tested),
        drafted=count_text(found.drafted),
    )


def _line(index: int, one: Round, label: Label, t: Translate) -> dict[str, Any]:
    drafted = []
    for place, (token, fate) in enumerate(zip(one.draft_ids, one.fates, strict=True)):
        parts = [label(token), t(charts.FATES[fate][2])]
        parts.append(t("speculate.chip_chance", p=figure_text(one.accept_probs[place])))
        if place < one.n_tested and one.us[place] is not None:
            parts.append(f"u = {one.us[place]:.3f}")
        drafted.append(_chip(label(token), fate, place, parts))
    after = None
    if one.next_id is not None:
        name = label(one.next_id)
        parts = [name, t(charts.FATES[one.source][2])]
        after = _chip(name, one.source, moves.NEXT, parts)
    note = "" if one.draft_ids else t("speculate.no_draft")
    return {
        "name": t("speculate.round", number=index + 1),
        "drafted": drafted,
        "next": after,
        "note": note,
    }


def _chip(label: str, fate: str, place: int, parts: Sequence[str]) -> dict[str, Any]:
    return {"label": label, "fate": fate, "place": place, "title": ", ".join(parts)}


def rows(found: Figures, run: Speculation, t: Translate) -> list[dict[str, Any]]:
    """Return the figures, each with its denominator in its label."""

    def text(value: float | None, write: Callable[[float], str] = amount_text) -> str:
        return "–" if value is None else write(value)

    def times(value: float | None) -> str:
        return "–" if value is None else f"{amount_text(value)} ×"

    def tone(value: float | None) -> str | None:
        return None if value is None else "accepted" if value > 1 else "attention"

    fields = {
        "accepted": count_text(found.accepted),
        "drafted": count_text(found.drafted),
        "tested": count_text(found.tested),
        "tokens": count_text(found.tokens),
        "rounds": count_text(found.rounds),
        "verify": text(found.verify),
        "ideal": "–" if found.best_ideal is None else str(found.best_ideal),
    }
    best = None if found.best is None else str(found.best)
    lines = [
        (text(found.per_tested, figure_text), "speculate.figure_tested", None),
        (text(found.per_drafted, figure_text), "speculate.figure_drafted", None),
        (text(found.per_round), "speculate.figure_round", None),
        (text(found.formula), "speculate.figure_formula", None),
        (text(found.exact), "speculate.figure_exact", None),
        (text(found.cost, cost_text), "speculate.figure_cost", None),
        (times(found.predicted), "speculate.figure_predicted", tone(found.predicted)),
        (times(found.measured), "speculate.figure_measured", tone(found.measured)),
        (best or "–", "speculate.figure_best", None),
    ]
    return [
        {"value": value, "label": t(key), "title": t(f"{key}_info", **fields), "tone": color}
        for value, key, color in lines
    ]


def cost_text(ratio: float) -> str:
    """Return a ratio of seconds; a lookup's is tiny beside a forward, and stays short."""
    return amount_text(ratio) if ratio >= 0.01 else setting_text(ratio, 2)


def view_of(seen: Position, label: Label) -> dict[str, Any]:
    """Return the view of a position that its charts are made of."""
    rest = moves.residual_of(seen)
    after = seen.round.next_id
    wanted = [seen.token_id, seen.drafted_id, after if moves.recovered(seen) else None]
    best = seen.target if seen.draft is None else np.maximum(seen.target, seen.draft)
    ids = _listed(best, charts.SHOWN, wanted)
    again = [] if rest is None else _listed(rest, charts.SHOWN_RESIDUAL, wanted[2:])

    def token(i: int) -> dict[str, Any]:
        return {
            "id": i,
            "label": label(i),
            "target": float(seen.target[i]),
            "draft": None if seen.draft is None else float(seen.draft[i]),
        }

    draft_rest = None if seen.draft is None else _left(seen.draft, ids)
    # The drafted token is what was tested, also where the token looked at replaced it.
    tested = seen.token_id if seen.drafted_id is None else seen.drafted_id
    return {
        "rows": [token(i) for i in ids],
        "rest": {"draft": draft_rest, "target": _left(seen.target, ids)},
        "residual": [{"id": i, "label": label(i), "residual": float(rest[i])} for i in again],
        "residual_rest": 0.0 if rest is None else _left(rest, again),
        "size": len(seen.target),
        "token": token(tested),
        "next": {
            "id": after,
            "label": "" if after is None else label(after),
            "source": seen.round.source,
        },
        "draft": seen.draft is not None,
        "fate": seen.tested or seen.fate,
        "tested": seen.tested,
        "recovered": moves.recovered(seen),
        "u": seen.u,
        "next_u": seen.round.next_u,
        "chance": seen.chance,
        "overlap": seen.overlap,
        "equal": seen.overlap > 1 - 1e-12,
        "greedy": seen.u is None and seen.tested in ("accepted", "rejected"),
    }


def _listed(law: np.ndarray, count: int, wanted: Sequence[int | None]) -> list[int]:
    """Return the likeliest tokens, likeliest first; wanted ones take the last places."""
    ids = [int(i) for i in descending(law, count) if law[i] > 0]
    missing = [i for i in dict.fromkeys(wanted) if i is not None and i not in ids]
    return ids[: count - len(missing)] + missing


def _left(law: np.ndarray, ids: Sequence[int]) -> float:
    return max(0.0, float(law.sum() - law[list(ids)].sum()))


def sentence(
    seen: Position | None, run: Speculation, view: dict[str, Any] | None, t: Translate
) -> list[Any]:
    """Return what happened to the token looked at, in words."""
    if seen is None or view is None:
        return [t("speculate.sentence_start")]
    fields = {"round": seen.index + 1, "place": seen.where + 1}
    token = view["token"]
    head = t("speculate.sentence_where", **fields) + " "
    after = {"token": view["next"]["label"]}
    if seen.place == moves.NEXT and not seen.tested:
        key = "speculate.sentence_bonus" if seen.round.draft_ids else "speculate.sentence_alone"
        parts = [head, after, " " + t(key)]
    else:
        fate = seen.tested
        numbers = {
            "draft": figure_text(token["draft"]),
            "target": figure_text(token["target"]),
            "chance": figure_text(view["chance"]),
            "u": "–" if view["u"] is None else f"{view['u']:.3f}",
        }
        key = _SENTENCES[fate, view["u"] is None and fate != "untested"]
        parts = [head, {"token": token["label"]}, " " + t(key, **numbers)]
        if view["recovered"]:
            parts += [" " + t("speculate.sentence_recovered") + " ", after, "."]
    if run.stop and seen.index == run.at - 1:
        parts.append(" " + t(_STOPS[run.stop]))
    return parts


# (fate of the drafted token, without dice) -> what the sentence says.
_SENTENCES = {
    ("accepted", False): "speculate.sentence_accepted",
    ("rejected", False): "speculate.sentence_rejected",
    ("untested", False): "speculate.sentence_untested",
    ("accepted", True): "speculate.sentence_accepted_greedy",
    ("rejected", True): "speculate.sentence_rejected_greedy",
}
_STOPS = {
    "eos": "speculate.stop_eos",
    "length": "speculate.stop_context",
    "context full": "speculate.stop_context",
}
