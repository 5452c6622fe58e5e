"""The Sample view as values: from a session, its params and its model to what each part shows.

No Gradio event is needed to call it, so everything that the page shows can be tested without a
browser. The model is asked once, for the logits of the position looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from playground import explain
from playground.charts import sampling as charts
from playground.charts.sentences import sentence
from playground.dice import draw, uniform
from playground.engines.sampling import context_full, rank_of
from playground.export import to_link
from playground.format import amount_text, count_text, figure_text, log_text
from playground.language_model import LanguageModel
from playground.payload import payload, preview_params, view
from playground.processors import active_filters, apply, reasons, shape
from playground.records import SamplingParams, Stage, Step
from playground.records.sampling import DIALECTS
from playground.session import Session, to_state
from playground.ui.components import message
from playground.words import Translate

NO_TABLE: dict[str, Any] = {"columns": [], "rows": [], "caption": ""}
CHARTS = ("bars", "dice", "ledger", "zipf")


def draw_screen(
    lm: LanguageModel,
    model: str,
    session: Session,
    params: SamplingParams,
    t: Translate,
    language: str = "en",
    draws: int = 0,
    known: str = "",
    inspected: int | None = None,
) -> dict[str, Any]:
    """Return the values of all parts of the Sample view by name (`stamp` gives them a number).

    ``draws`` draws that many tokens from the final distribution and marks their shares. ``known``
    names the payload that the page has already: it isn't sent again. ``inspected`` is the token in
    the inspector.
    """
    state = {**to_state(session, model), "now": params.to_dict(), "language": language}
    try:
        query = f"state={to_link(state)}"
    except ValueError:  # too long for an address: such a session is taken away as a file
        query = ""
    shared = {"toolbar": {"query": query}, "strip": strip(lm, session)}
    if not session.ids:
        return {**shared, **empty_screen(lm, t)}
    taken = session.taken
    if taken is not None:  # the past is shown as it was decided
        params = taken.params
    logits = lm.logits(session.ids)[-1]
    length = len(session.trace.prompt_ids)
    stages = shape(logits, params, session.ids, length)
    dice = uniform(params.seed, len(session.ids))
    u = None if params.temperature == 0 else dice  # greedy has no use for them
    token = None if taken is None else taken.token_id
    told = explain.ledger(stages)
    seen = view(logits, stages, params, u, token, lm.label, rows=told)
    flips = {} if u is None else explain.flips(logits, params, u, session.ids, length)
    numbers = explain.figures(stages, told)
    of = str(zlib.crc32(repr((lm.fingerprint, session.ids, length, dice, token)).encode()))
    given = {}
    if of != known:
        given["payload"] = payload(logits, session.ids, length, dice, token, lm.label)
    return {
        **shared,
        "bars": charts.bars(seen, t=t, draws=histogram(stages, params, len(session.ids), draws)),
        "dice": charts.dice(seen, u=u, flips=flips, label=lm.label, t=t),
        "ledger": charts.ledger(seen, params=params, t=t),
        "zipf": charts.zipf(stages[0].logprobs, stages[-1].logprobs, label=lm.label, t=t),
        "figures": {"items": figures(numbers, seen, t)},
        "sentence": {"parts": words(lm, session, seen, t)},
        "rules": {"parts": [rules(logits, stages, params, session.ids, length, t, lm.label)]},
        "inspector": NO_TABLE
        if inspected is None or inspected >= len(logits)
        else inspect(lm, logits, stages, params, inspected, session.ids, length, t),
        "live": {
            "of": of,
            "params": preview_params(params),
            "live": taken is None,
        }
        | given,
    }


def empty_screen(lm: LanguageModel, t: Translate) -> dict[str, Any]:
    """Return the values for an empty prompt."""
    text = t("page.empty" if lm.bos_id is not None else "page.empty_no_bos")
    charts = {name: message(text if name == "bars" else " ") for name in CHARTS}
    return {
        **charts,
        "figures": {"items": []},
        "sentence": {"parts": [text]},
        "rules": {"parts": []},
        "inspector": NO_TABLE,
        "live": {"payload": None},
    }


def histogram(
    stages: Sequence[Stage], params: SamplingParams, position: int, count: int
) -> dict[int, int] | None:
    """Return how often each token came in ``count`` draws, None for no draws.

    The draws are seeded by seed and position, so they can be repeated, but they are none of the
    dice that the steps use.
    """
    if count < 1 or params.temperature == 0:
        return None
    rng = np.random.default_rng([params.seed, position])
    ids, counts = np.unique(draw(stages[-1].logprobs, rng.random(count)), return_counts=True)
    return dict(zip(ids.tolist(), counts.tolist(), strict=True))


def rules(
    logits: np.ndarray,
    stages: Sequence[Stage],
    params: SamplingParams,
    ids: Sequence[int],
    prompt_length: int,
    t: Translate,
    label: Callable[[int], str],
) -> str:
    """Return in words: the order in use, and where other dialects keep other tokens."""
    names = [t(f"sample.stage_{name}") for name in active_filters(params)]
    dialect = params.dialect if params.order is None else t("page.order_custom")
    order = " → ".join(names) if names else t("page.order_none")
    parts = [t("page.order_line", dialect=dialect, order=order)]
    here = stages[-1].logprobs > -np.inf
    for other in DIALECTS:
        if other == params.dialect and params.order is None:
            continue
        try:
            theirs = apply(logits, params.replace(dialect=other, order=None), ids, prompt_length)
        except ValueError:  # a filter that this dialect lacks
            parts.append(t("page.dialect_lacks", dialect=other))
            continue
        alive = theirs > -np.inf
        more, fewer = np.flatnonzero(alive & ~here), np.flatnonzero(here & ~alive)
        if not len(more) and not len(fewer):
            parts.append(t("page.dialect_same", dialect=other))
            continue
        changed = [f"+“{label(int(i))}”" for i in more[:3]]
        changed += [f"−“{label(int(i))}”" for i in fewer[:3]]
        parts.append(
            t(
                "page.dialect_differs",
                dialect=other,
                kept=count_text(int(alive.sum())),
                more=count_text(len(more)),
                fewer=count_text(len(fewer)),
                examples=" ".join(changed),
            )
        )
    return " ".join(parts)


def strip(lm: LanguageModel, session: Session) -> dict[str, Any]:
    """Return the token strip's value: every token, and where the page looks."""
    tokens = []
    forks = _forks(session)
    for token in session.trace.prompt_ids:
        special = lm.vocabulary.is_special(token) if hasattr(lm, "vocabulary") else False
        kind = "special" if special else "prompt"
        tokens.append({"id": token, "label": lm.label(token), "kind": kind})
    for i, step in enumerate(session.trace.steps):
        tokens.append(
            {
                "id": step.token_id,
                "label": lm.label(step.token_id),
                "kind": "new",
                "p": float(np.exp(step.model_logprob)),
                "surprisal": -step.model_logprob,
                "rank": step.rank,
                "logprob": step.logprob if np.isfinite(step.logprob) else None,
                "source": step.source,
                "branch": i in forks,
                "stale": step.source == "stale",
            }
        )
    cursor = len(session.ids)
    return {"tokens": tokens, "cursor": cursor, "next": session.taken is None}


def _forks(session: Session) -> set[int]:
    """Return the step indices at which another branch left this path."""
    here = session.trace.new_ids
    found = set()
    for branch in session.branches:
        ids = [s.token_id for s in branch]
        same = 0
        while same < min(len(ids), len(here)) and ids[same] == here[same]:
            same += 1
        found.add(same)
    return found


def figures(numbers: explain.Figures, seen: dict[str, Any], t: Translate) -> list[dict[str, Any]]:
    """Return the row of figures under the charts."""
    rows = [
        ("entropy", amount_text(numbers.entropy)),
        ("entropy_final", amount_text(numbers.entropy_final)),
        ("perplexity", amount_text(numbers.perplexity)),
        ("varentropy", amount_text(numbers.varentropy)),
        ("nucleus", count_text(numbers.nucleus)),
        ("top1", figure_text(numbers.top1)),
        ("mass_cut", figure_text(numbers.mass_cut)),
    ]
    token = seen["taken"] or seen["drawn"]
    if token and token["id"] is not None:
        raw = token.get("raw")
        if raw is None:
            raw = next((r["raw"] for r in seen["rows"] if r["id"] == token["id"]), None)
        if raw:
            rows.append(("surprisal", amount_text(-np.log(raw))))
    return [
        {
            "value": value,
            "label": t(f"sample.figure_{key}"),
            "title": t(f"sample.figure_{key}_info"),
        }
        for key, value in rows
    ]


def words(lm: LanguageModel, session: Session, seen: dict[str, Any], t: Translate) -> list[Any]:
    """Return the explanation: what was drawn last and how, or why the run ended."""
    steps = session.trace.steps
    parts: list[Any] = []
    if session.taken is not None:
        parts.append(t("page.looking", label=lm.label(session.taken.token_id)) + " ")
    elif session.trace.stop == "eos":
        parts.append(t("page.ended_eos") + " ")
    elif context_full(lm, session.ids):
        limit = lm.context_length
        parts.append(t("page.ended_context", count=len(session.ids), limit=limit) + " ")
    step = session.taken or (steps[-1] if steps else None)
    parts.append(sentence(step, seen, t=t, label=lm.label))
    return ["".join(parts)]


def inspect(
    lm: LanguageModel,
    logits: np.ndarray,
    stages: Sequence[Stage],
    params: SamplingParams,
    token_id: int,
    ids: Sequence[int],
    prompt_length: int,
    t: Translate,
) -> dict[str, Any]:
    """Return the inspector's table: a token's probability at each stage and what decided."""
    found = {r.stage: r for r in reasons(stages, params, token_id, ids, prompt_length)}
    rows = []
    for stage in stages:
        reason = found.get(stage.name)
        why = "" if reason is None else t(reason.text_key, **reason.fields)
        tone = "attention" if reason is not None and not reason.kept else None
        p = figure_text(float(np.exp(stage.logprobs[token_id])))
        rows.append({"cells": [t(f"sample.stage_{stage.name}"), p, why], "tone": tone})
        if tone:
            break
    title = t(
        "page.inspect_title",
        label=lm.label(token_id),
        id=token_id,
        logit=log_text(float(logits[token_id])),
        rank=count_text(rank_of(stages[0].logprobs, token_id)),
        size=count_text(len(logits)),
    )
    columns = [
        {"label": t("page.inspect_stage"), "kind": "text"},
        {"label": t("page.inspect_probability"), "kind": "number"},
        {"label": t("page.inspect_why"), "kind": "text"},
    ]
    return {"columns": columns, "rows": rows, "caption": title, "heading": True}


def branches(lm: LanguageModel, session: Session, t: Translate) -> dict[str, Any]:
    """Return the table of earlier branches; picking a row goes back to it."""

    def row(index: int, steps: Sequence[Step]) -> dict[str, Any]:
        text = "".join(lm.label(s.token_id) for s in steps[-24:])
        total = sum(s.model_logprob for s in steps)
        cells = [("…" if len(steps) > 24 else "") + text, len(steps), log_text(total)]
        return {"cells": cells, "id": index}

    columns = [
        {"label": t("page.branch_text"), "kind": "token"},
        {"label": t("page.branch_tokens"), "kind": "number"},
        {"label": t("page.branch_logprob"), "kind": "number"},
    ]
    rows = [row(i, steps) for i, steps in enumerate(session.branches)]
    caption = t("page.branches") if rows else t("page.branches_empty")
    return {"columns": columns if rows else [], "rows": rows, "caption": caption}
