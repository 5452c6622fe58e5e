"""The race of one beam step: the best of the K x V continuations on one axis, and the cut.

In: a BeamResult (its newest step races) and a translator; out: a Plotly figure. A line is a
candidate. Its bar starts at its beam's running sum (right) and goes left by the token's log-prob:
a good token of a poor beam and a poor token of a good beam meet at the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.beam_sentences import facts
from playground.charts.marks import bar, points
from playground.format import count_text, log_text
from playground.records.beam import FINISHED, KEPT, PRUNED, ROOT, BeamResult, BeamStep, Candidate
from playground.words import Translate

Label = Callable[[int], str]

SPARE = 6  # pruned candidates listed beyond the number of beams
CELLS = 12  # of a token
ROW = 21
_NBSP = "\u00a0"
_LEFT, _RIGHT = 164, 72  # px for labels and for sums, the same in every step


def race(
    result: BeamResult, *, label: Label, t: Translate, seq: int | None = None
) -> go.Figure | None:
    """Return the newest step's race, None where there is no step.

    Roles: kept, finished, pruned (bars with hover and the node in customdata), sums, cut, cutname.
    """
    if not result.steps:
        return None
    step = result.steps[-1]
    least = result.params.num_beams + SPARE
    rows = listed(step, least)
    keys = theme.category_keys([c.node for c in rows])
    starts = [c.sum - c.logprob for c in rows]
    low, high = min(c.sum for c in rows), max(starts)
    spread = (high - low) or 1.0
    hover = [theme.lines(*facts(c, step, result.params, label, t), t(_CLICK[c.fate])) for c in rows]
    fills = {
        KEPT: theme.final(),
        FINISHED: dict(color=theme.LIGHT["accepted"], line=dict(width=0)),
        PRUNED: theme.masked(),
    }
    data = [
        bar(
            fate,
            keys,
            [
                start - c.sum if c.fate == fate else None
                for c, start in zip(rows, starts, strict=True)
            ],
            fill,
        )
        | dict(
            base=[c.sum for c in rows],
            hoverinfo="text",
            hovertext=hover,
            customdata=[c.node for c in rows],
        )
        for fate, fill in fills.items()
    ]
    small = dict(family=theme.MONO, size=theme.SIZES["small"])
    data.append(
        points("sums", [1] * len(rows), keys, "text")
        | dict(
            xaxis="x2",
            text=[f"{_NBSP * 2}{log_text(c.sum)}" for c in rows],
            textposition="middle right",
            textfont=small
            | dict(
                color=[theme.LIGHT["muted" if c.fate == PRUNED else "ink"] for c in rows],
            ),
        )
    )
    data += _cuts(rows, step, result, t)
    count = max(len(rows), least)
    labels = [theme.shorten(label(c.token_id), CELLS) for c in rows]
    beams = ["" if c.parent == ROOT else t("beam.race_beam", beam=c.beam + 1) for c in rows]
    room = [high - spread * 1.04, high + spread * 0.03]
    axis = theme.category_axis(keys, labels, reverse=True) | dict(range=[count - 0.5, -0.5])
    axis["tickfont"] = axis["tickfont"] | dict(size=theme.SIZES["small"])
    axis["ticktext"] = [_named(*pair) for pair in zip(beams, axis["ticktext"], labels, strict=True)]
    layout = theme.base_layout(
        t("beam.race_title", step=count_text(step.index + 1)),
        t("beam.race_subtitle_drawn" if result.params.draws else "beam.race_subtitle"),
        alt=_alt(rows, step, label, t),
        left=_LEFT,
        right=_RIGHT,
        top=20,
        bottom=28,
        height=ROW * count + 48,
        clickable=True,
        seq=seq,
        barmode="overlay",
        xaxis=theme.number_axis(range=room, zeroline=False, nticks=4, tickangle=0),
        xaxis2=dict(range=[0, 1], overlaying="x", visible=False, fixedrange=True),
        yaxis=axis,
        # The same places as numbers, for the cuts.
        yaxis2=dict(range=[count - 0.5, -0.5], overlaying="y", visible=False, fixedrange=True),
    )
    return go.Figure(data, layout)


_CLICK = {KEPT: "beam.hover_path", FINISHED: "beam.hover_path", PRUNED: "beam.hover_ghost"}


def listed(step: BeamStep, least: int) -> list[Candidate]:
    """Return the candidates that the race lists, group by group, best first: all that were kept or
    finished, and the best of the rest, ``least`` in all if there are so many.
    """
    pruned = sorted((c for c in step.candidates if c.fate == PRUNED), key=lambda c: -c.sum)
    room = max(least - (len(step.candidates) - len(pruned)), 0)
    shown = {c.node for c in pruned[:room]}
    rows = [c for c in step.candidates if c.fate != PRUNED or c.node in shown]
    return sorted(rows, key=lambda c: (c.group, -c.sum))


def _named(beam: str, text: str, label: str) -> str:
    """Return a line's name: its beam, quietly, and the token (``text``: the label escaped)."""
    gap = _NBSP * (CELLS + 2 - theme.width(label))
    quiet = f'<span style="opacity:0.7">{theme.escape(beam)}</span>'
    return f"{quiet}<span>{gap}{text}</span>" if beam else text


def _cuts(
    rows: Sequence[Candidate], step: BeamStep, result: BeamResult, t: Translate
) -> list[dict[str, Any]]:
    """Return each group's cut as a line over its rows, with its value above the first."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    names: list[tuple[float, float, str]] = []
    cuts = {c.group: None for c in rows}
    cuts |= dict(zip(sorted(cuts), step.cuts, strict=False))
    for group, cut in cuts.items():
        if cut is None:
            continue
        at = [i for i, c in enumerate(rows) if c.group == group]
        xs += [cut, cut, None]
        ys += [at[0] - 0.5, at[-1] + 0.5, None]
        names.append((cut, at[0] - 0.5, t("beam.race_cut", cut=log_text(cut))))
    line = dict(color=theme.LIGHT["attention"], width=2, dash="dash")
    font = dict(family=theme.MONO, size=theme.SIZES["small"], color=theme.LIGHT["attention_text"])
    shown = names[:1] if result.params.num_groups == 1 else []  # between groups there is no room
    return [
        points("cut", xs, ys, "lines") | dict(yaxis="y2", line=line),
        points("cutname", [x for x, *_ in shown], [y for _, y, _ in shown], "text")
        | dict(
            yaxis="y2",
            text=[text for *_, text in shown],
            textposition="top center",
            textfont=font,
        ),
    ]


def _alt(rows: Sequence[Candidate], step: BeamStep, label: Label, t: Translate) -> str:
    shown = ", ".join(f"{label(c.token_id)} {log_text(c.sum)} {t(_FATE[c.fate])}" for c in rows)
    return t("beam.race_alt", step=step.index + 1, list=shown)


_FATE = {KEPT: "beam.fate_kept", FINISHED: "beam.fate_finished", PRUNED: "beam.fate_pruned"}
