"""The Read view as values: from a lens to what each part shows. No Gradio event is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from playground import reading
from playground.charts import reading as charts
from playground.format import amount_text, count_text, figure_text, log_text
from playground.language_model import LanguageModel
from playground.ui.components import message
from playground.ui.reading_moves import Lens
from playground.words import Translate

PARTS = ("text", "figures", "sentence", "ranks", "probabilities", "entropies", "words")
CHARTS = ("ranks", "probabilities", "entropies")
WORDS = 10


def draw_screen(
    lm: LanguageModel, lens: Lens, edges: Sequence[int], t: Translate, since: int = 0
) -> dict[str, Any]:
    """Return the values of all parts by name; the text from token ``since`` on."""
    found = lens.reading
    if found is None or not found.scored:
        return empty_screen(t("read.empty"))
    ranks = found.ranks[1:]
    return {
        "text": text(lm, lens, edges, t, since),
        "figures": {"items": figures(lens, t)},
        "sentence": {"parts": [sentence(lens, t)]},
        "ranks": charts.ranks(ranks, edges, t=t),
        "probabilities": charts.probabilities(np.exp(found.logprobs[1:]), t=t),
        "entropies": charts.entropies(found.entropies[1:], t=t),
        "words": words(lens, t),
    }


def empty_screen(text: str) -> dict[str, Any]:
    """Return the values where nothing is read."""
    return {
        "text": {"run": "", "from": 0, "edges": [], "title": "", "subtitle": "", "empty": text},
        "figures": {"items": []},
        "sentence": {"parts": []},
        **{name: message(text if name == "ranks" else " ") for name in CHARTS},
        "words": {"columns": [], "rows": []},
    }


def text(
    lm: LanguageModel, lens: Lens, edges: Sequence[int], t: Translate, since: int = 0
) -> dict[str, Any]:
    """Return the coloured text's value: the tokens from ``since`` on, their figures by column."""
    found = lens.reading
    new = slice(since, found.done)
    ids = found.ids[new]

    def rounded(values: np.ndarray, digits: int) -> list[float | None]:
        return [round(float(v), digits) if math.isfinite(v) else None for v in values[new]]

    ranks = found.ranks[1:]
    within = int((ranks <= edges[0]).sum())
    return {
        "run": f"{lens.model}/{hash(found.ids)}",
        "from": since,
        "total": len(found.ids),
        "edges": list(edges),
        "title": t(
            "read.title_one" if edges[0] == 1 else "read.title",
            within=count_text(within),
            count=count_text(len(ranks)),
            edge=count_text(edges[0]),
        ),
        "subtitle": how(lens, t),
        "id": list(ids),
        "text": list(lens.pieces[new]),
        "label": [lm.label(i) for i in ids],
        "p": [float(f"{p:.4g}") if p > 0 else 0 for p in np.exp(found.logprobs[new])],
        "rank": found.ranks[new].tolist(),
        "surprisal": rounded(found.surprisals, 3),
        "entropy": rounded(found.entropies, 3),
        "top": [lm.label(int(i)) if i >= 0 else "" for i in found.top_ids[new]],
        "top_p": [float(f"{p:.4g}") if p > 0 else 0 for p in np.exp(found.top_logprobs[new])],
    }


def how(lens: Lens, t: Translate) -> str:
    """Return how the text is read: how far, and in which windows."""
    found = lens.reading
    parts = []
    if not found.finished:
        done, total = count_text(found.done), count_text(len(found.ids))
        parts.append(t("read.progress", done=done, total=total))
    if len(found.ids) > found.window + 1:
        parts.append(
            t(
                "read.windows",
                window=count_text(found.window),
                stride=count_text(found.stride),
                least=count_text(found.window - found.stride + 1),
            )
        )
    parts.append(t("read.how"))
    return " ".join(parts)


def figures(lens: Lens, t: Translate) -> list[dict[str, Any]]:
    """Return the row of figures."""
    found, letters = lens.reading, lens.characters
    size = len("".join(lens.pieces[1 : found.done]).encode("utf-8", "replace"))
    rows = [
        ("scored", count_text(found.scored)),
        ("perplexity", amount_text(found.perplexity)),
        ("bits_character", amount_text(found.bits_per(letters)) if letters else "–"),
        ("bits_byte", amount_text(found.bits_per(size)) if size else "–"),
        ("surprisal", amount_text(-found.logprob / found.scored)),
        ("entropy", amount_text(float(found.entropies[1:].mean()))),
        ("top1", figure_text(float((found.ranks[1:] == 1).mean()))),
    ]
    return [
        {
            "value": value,
            "label": t(f"read.figure_{key}"),
            "title": t(f"read.figure_{key}_info"),
        }
        for key, value in rows
    ]


def sentence(lens: Lens, t: Translate) -> str:
    """Return in words: the sum, and whether the text surprises more than the model's own would."""
    found = lens.reading
    surprisal = -found.logprob / found.scored
    entropy = float(found.entropies[1:].mean())
    total = t(
        "read.sum",
        sum=log_text(found.logprob),
        count=count_text(found.scored),
        characters=count_text(lens.characters),
    )
    key = "read.as_expected"
    if surprisal > entropy + 0.25:
        key = "read.more_surprising"
    elif surprisal < entropy - 0.25:
        key = "read.less_surprising"
    return f"{total} {t(key, surprisal=amount_text(surprisal), entropy=amount_text(entropy))}"


def words(lens: Lens, t: Translate) -> dict[str, Any]:
    """Return the table of the most surprising words; picking one goes to its first token."""
    found = [w for w in reading.words(lens.reading, lens.pieces) if any(map(_letter, w.text))]
    found.sort(key=lambda word: (-word.surprisal, word.start))
    rows = []
    for word in found[:WORDS]:
        bits = word.surprisal / math.log(2)
        p = figure_text(math.exp(-word.surprisal))
        cells = [word.text.strip(), amount_text(bits), p, count_text(word.start + 1)]
        rows.append({"cells": cells, "id": word.start})
    columns = [
        {"label": t("read.word"), "kind": "token"},
        {"label": t("read.word_bits"), "kind": "number"},
        {"label": t("read.word_p"), "kind": "number"},
        {"label": t("read.word_place"), "kind": "number"},
    ]
    return {"columns": columns if rows else [], "rows": rows, "caption": t("read.words")}


def _letter(char: str) -> bool:
    return char.isalnum()
