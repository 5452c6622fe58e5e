"""The candidates of one contrastive position as bars of their score, with both probabilities.

In: a ContrastiveStep, labels and a translator; out: a Plotly figure. Categories are token ids,
never labels. The figures stand in columns of their own in the right margin, so that the longest bar
never reaches them; rows, margins and height are fixed, so that nothing moves from step to step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.contrastive import Label, hover
from playground.charts.marks import bar, points
from playground.format import amount_text, count_text, figure_text, log_text, setting_text
from playground.ranking import descending
from playground.records.contrastive import ContrastiveStep
from playground.words import Translate

SHOWN = 12
ROW = 22  # px
CELLS = 11  # width of a label in characters
LEFT, RIGHT = 106, 200
COLUMNS = (8, 9, 9)  # widths of the figures, in characters
CELL, OFFSET = 7.2, 1  # px: a character's width, and from the plot's edge to the first
_NBSP = "\u00a0"
_HEAD = "head"


def contrast_bars(
    step: ContrastiveStep,
    *,
    label: Label,
    t: Translate,
    law: np.ndarray | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return the best ``SHOWN`` candidates, highest score first, with a digit for the first nine.

    ``law`` [V] are the log-probs that the token is drawn by, where it is drawn. Roles: score, text,
    winner, taken.
    """
    ids = best(step.scores, SHOWN)
    keys = theme.category_keys(ids)
    scores = [float(step.scores[i]) for i in ids]
    taken = None if step.step is None else step.step.token_id
    color = [theme.LIGHT["attention" if i == step.winner else "accent"] for i in ids]
    head = [t("contrast.column_score"), t("contrast.column_expert"), t("contrast.column_amateur")]
    figures = [_columns(_signed(scores[n]), *_both(step, i)) for n, i in enumerate(ids)]
    ink = [theme.LIGHT["attention_text" if i == step.winner else "ink"] for i in ids]
    low, high = min(0.0, *scores), max(0.0, *scores)
    high = high if high > low else low + 1.0
    end = high + 0.05 * (high - low)  # a ring on the longest bar's tip keeps clear of the figures
    here = [n for n, i in enumerate(ids) if i == taken]
    data = [
        bar("score", keys, scores, dict(color=color, line=dict(width=0)), 0.62)
        | dict(
            customdata=ids,
            hoverinfo="text",
            hovertext=[hover(step, i, label, t, law) for i in ids],
        ),
        points("text", [end] * (len(ids) + 1), [_HEAD, *keys], "text")
        | dict(
            text=["", *figures],
            textposition="middle right",
            textfont=dict(
                family=theme.MONO,
                size=theme.SIZES["small"],
                color=[theme.LIGHT["muted"], *ink],
            ),
        ),
        points("taken", [scores[n] for n in here], [keys[n] for n in here])
        | dict(marker=theme.drawn() | dict(size=9)),
    ]
    axis = theme.category_axis([_HEAD, *keys], ["", *(label(i) for i in ids)], reverse=True)
    axis["ticktext"] = [_NBSP, *(_tick(n, label(i)) for n, i in enumerate(ids))]
    axis["tickfont"] = axis["tickfont"] | dict(size=theme.SIZES["small"])
    count = int(step.plausible.sum())
    layout = theme.base_layout(
        _title(step, label, t),
        t("contrast.bars_subtitle", shown=len(ids), count=count_text(count)),
        alt=t("contrast.bars_alt", list=_listed(step, ids, label)),
        left=LEFT,
        right=RIGHT,
        top=2,
        bottom=4,
        height=ROW * (SHOWN + 1) + 6,
        clickable=True,
        seq=seq,
        hovermode="y",
        xaxis=theme.number_axis(
            range=[low, end], showticklabels=False, showgrid=False, zeroline=True
        ),
        yaxis=axis | dict(range=[SHOWN + 0.5, -0.5]),
        annotations=[_head(text, n) for n, text in enumerate(head)],
    )
    return go.Figure(data, layout)


def best(scores: np.ndarray, count: int) -> list[int]:
    """Return the ids of the highest finite scores, ties by the lowest id."""
    order = descending(scores, count)
    return [int(i) for i in order if scores[i] > -np.inf]


def ratio_text(step: ContrastiveStep, i: int) -> str:
    """Return how many times as probable a token is for the expert as for the amateur."""
    nats = float(step.expert_logprobs[i] - step.amateur_logprobs[i])
    if nats > 200:
        return "∞"
    ratio = math.exp(nats)
    return amount_text(ratio) if 0.01 <= ratio < 1e6 else setting_text(ratio, 2)


def _both(step: ContrastiveStep, i: int) -> tuple[str, str]:
    pair = step.expert_logprobs[i], step.amateur_logprobs[i]
    return tuple(figure_text(math.exp(float(x))) for x in pair)  # type: ignore[return-value]


def _signed(score: float) -> str:
    return ("+" if score > 0 else "") + log_text(score)


def _columns(*texts: str) -> str:
    """Return texts flush right in columns of a monospace font."""
    cells = zip(texts, COLUMNS, strict=True)
    return "".join(
        _NBSP * max(width - theme.width(text), 1) + theme.escape(text) for text, width in cells
    )


def _head(text: str, column: int) -> dict[str, Any]:
    """Return a column's head, flush right: Chinese is not as wide as its cells in a row of text."""
    return dict(
        xref="paper",
        x=1,
        xshift=OFFSET + CELL * sum(COLUMNS[: column + 1]),
        xanchor="right",
        y=_HEAD,
        yanchor="middle",
        showarrow=False,
        borderpad=0,
        text=theme.escape(text),
        font=dict(family=theme.MONO, size=theme.SIZES["small"], color=theme.LIGHT["muted"]),
    )


def _tick(n: int, text: str) -> str:
    name = theme.shorten(text, CELLS)
    pad = _NBSP * (CELLS - theme.width(name))
    return f"{n + 1 if n < 9 else _NBSP}{_NBSP}{pad}{theme.escape(name)}"


def _title(step: ContrastiveStep, label: Label, t: Translate) -> str:
    name = label(step.winner)
    if step.amateur_logprobs[step.winner] == -np.inf:
        return t("contrast.bars_never", label=name)
    return t("contrast.bars_title", label=name, ratio=ratio_text(step, step.winner))


def _listed(step: ContrastiveStep, ids: list[int], label: Label) -> str:
    pairs: Any = ((label(i), log_text(float(step.scores[i]))) for i in ids[:5])
    return ", ".join(f"{name} {score}" for name, score in pairs)
