"""Charts of one tested token: both laws, the test, and what a rejection draws from.

In: the view of a position (ui/speculative_screen.py) and a translator; out: Plotly figures, all
with the same keywords. A view's ``token`` is the drafted one, or a bonus token, its ``fate`` what
became of it; ``draft`` is False where nothing was drafted, and then the rows' draft is None. A view
of None draws the same chart, empty.

Every trace has a role, as ``uid`` and in ``meta``; traces, rows and heights never change, so
nothing moves from token to token. Categories are token ids, never labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.marks import bar, points
from playground.format import count_text, figure_text
from playground.words import Translate

SHOWN = 10  # listed tokens of the laws
SHOWN_RESIDUAL = 6
ROW = 21  # px
LEFT = 116  # px for a label, fixed
CELLS = 14
ROOM = 2.1  # the axis' length over the longest bar: the figures stand beside it
# What became of a token: its colour, the mark that says the same without colour, its word.
FATES: dict[str, tuple[str, str, str]] = {
    "accepted": ("accepted", "✓", "speculate.accepted"),
    "rejected": ("attention", "✕", "speculate.rejected"),
    "untested": ("muted", "–", "speculate.untested"),
    "recovered": ("recovered", "↻", "speculate.recovered"),
    "bonus": ("bonus", "+", "speculate.bonus"),
}
_SYMBOLS = {
    "accepted": "circle-open",
    "rejected": "x-thin-open",
    "untested": "circle-open-dot",
    "bonus": "cross-thin-open",
}
_TEXTS = {"accepted": "accepted_text", "rejected": "attention_text"}  # readable on paper
# The trial's title by what happened; greedy throws no dice.
_TRIALS = {"accepted": "speculate.test_accepted", "rejected": "speculate.test_rejected"}
_GREEDY = {
    "accepted": "speculate.test_greedy_accepted",
    "rejected": "speculate.test_greedy_rejected",
}
_NBSP = "\u00a0"
_REST = "rest"

View = Mapping[str, Any]


def laws(view: View | None, *, t: Translate, seq: int | None = None) -> go.Figure:
    """Return draft and target as bars, one above the other, with their overlap framed.

    Roles: draft, target, overlap, text, token (the drafted or bonus token's mark).
    """
    rows: Sequence[Mapping[str, Any]] = [] if view is None else view["rows"]
    keys = theme.category_keys([row["id"] for row in rows])
    draft = [row["draft"] for row in rows]
    target = [row["target"] for row in rows]
    both = [min(p, q) if q is not None else 0.0 for p, q in zip(target, draft, strict=True)]
    tips = [max(p, q or 0.0) for p, q in zip(target, draft, strict=True)]
    high = (max(tips, default=0) or 1.0) * ROOM
    texts = [_law_text(row, view) for row in rows]
    here = [i for i, row in enumerate(rows) if view and row["id"] == view["token"]["id"]]
    lines, ends = list(keys), list(tips)
    if view is not None:
        lines.append(_REST)
        ends.append(0.0)
        texts.append(theme.escape(_NBSP + _pair(view["rest"])))
    hover = [_law_hover(row, t) for row in rows]
    fate = view["fate"] if view else "accepted"
    data = [
        bar("draft", keys, [q or None for q in draft], _fill("draft"), 0.36)
        | dict(offset=-0.38, hoverinfo="text", hovertext=hover),
        bar("target", keys, [p or None for p in target], _fill("accent"), 0.36)
        | dict(offset=0.02, hoverinfo="text", hovertext=hover),
        bar("overlap", keys, [m or None for m in both], _frame(), 0.76) | dict(offset=-0.38),
        points("text", ends, lines, "text")
        | dict(
            text=texts,
            textposition="middle right",
            textfont=_mono([_ink(view, row) for row in rows] + [theme.LIGHT["muted"]]),
        ),
        points("token", [tips[i] for i in here], [keys[i] for i in here])
        | dict(marker=_mark(fate)),
    ]
    title, subtitle = _law_words(view, t)
    layout = theme.base_layout(
        title,
        subtitle,
        alt=_alt(view, "target", t),
        left=LEFT,
        right=8,
        bottom=4,
        top=2,
        height=ROW * (SHOWN + 1) + 8,
        seq=seq,
        barmode="overlay",
        hovermode="closest",
        xaxis=theme.number_axis(range=[0, high], visible=False),
        yaxis=_axis(rows, view, SHOWN, t),
    )
    return go.Figure(data, layout)


def trial(view: View | None, *, t: Translate, seq: int | None = None) -> go.Figure:
    """Return the acceptance test: u on the line from 0 to 1, parted at min(1, target / draft).

    Roles: accept, reject, u, dice, text.
    """
    drafted = view is not None and view["draft"]
    chance = view["chance"] if drafted else None
    u = view["u"] if drafted else None
    y = ["test"]
    row = y if drafted else []
    zones = []
    if drafted:
        if chance >= 0.16:
            zones.append((chance / 2, t("speculate.zone_accept"), "ink"))
        if chance <= 0.84:
            zones.append(((1 + chance) / 2, t("speculate.zone_reject"), "ink"))
    hit = [u] if u is not None else []
    tone = _TEXTS.get(view["fate"] if view else "", "ink")
    color = FATES[view["fate"]][0] if view else "ink"
    data = [
        bar("accept", row, [chance] if row else [], _zone("accepted"), 0.8),
        bar("reject", row, [1 - chance] if row else [], theme.masked(), 0.8)
        | dict(base=[chance] if row else []),
        points("u", [u, u] if hit else [], ["test", "test"] if hit else [], "lines"),
        points("dice", hit, y * len(hit))
        | dict(marker=theme.drawn() | dict(size=13, color=theme.LIGHT[color])),
        points("text", [x for x, *_ in zones], y * len(zones), "text")
        | dict(
            text=[theme.escape(text) for _, text, _ in zones],
            textposition="middle center",
            textfont=dict(size=theme.SIZES["small"], color=theme.LIGHT["ink"]),
        ),
    ]
    title, subtitle = _test_words(view, t)
    ticks, tick_texts = [0, 1], ["0", "1"]
    if hit:
        near = 0.2
        ticks = [u, *(x for x in (0, 1) if abs(x - u) > near)]
        tick_texts = [f"u{_NBSP}={_NBSP}{u:.3f}", *(str(x) for x in ticks[1:])]
    layout = theme.base_layout(
        title,
        subtitle,
        alt=subtitle,
        left=36,
        right=36,
        bottom=22,
        top=2,
        height=64,
        seq=seq,
        barmode="overlay",
        xaxis=theme.number_axis(
            range=[-0.02, 1.02],
            showgrid=False,
            zeroline=False,
            tickvals=ticks,
            ticktext=tick_texts,
            tickangle=0,
            tickfont=_mono(theme.LIGHT[tone if hit else "muted"]),
        ),
        yaxis=dict(type="category", range=[-0.5, 0.5], visible=False, fixedrange=True),
    )
    return go.Figure(data, layout)


def residual(view: View | None, *, t: Translate, seq: int | None = None) -> go.Figure:
    """Return max(0, target - draft), normalised, as bars. Roles: residual, text, drawn."""
    rows = [] if view is None or not view["draft"] else view["residual"]
    keys = theme.category_keys([row["id"] for row in rows])
    values = [row["residual"] for row in rows]
    # Only where a token was rejected was the next one drawn from the residual.
    used = bool(view) and view["recovered"]
    here = [i for i, row in enumerate(rows) if used and row["id"] == view["next"]["id"]]
    texts = [_NBSP * (3 if i in here else 1) + figure_text(v) for i, v in enumerate(values)]
    if here:
        texts[here[0]] += _NBSP * 2 + theme.escape(t("speculate.drawn"))
    lines, ends = list(keys), list(values)
    if rows:
        lines.append(_REST)
        ends.append(0.0)
        texts.append(_NBSP + figure_text(view["residual_rest"]))
    colors = [theme.LIGHT["attention_text" if i in here else "ink"] for i in range(len(rows))]
    data = [
        bar("residual", keys, [v or None for v in values], _fill("ramp3" if used else "ramp2")),
        points("text", ends, lines, "text")
        | dict(
            text=texts,
            textposition="middle right",
            textfont=_mono([*colors, theme.LIGHT["muted"]]),
        ),
        points("drawn", [values[i] for i in here], [keys[i] for i in here])
        | dict(marker=theme.drawn()),
    ]
    title, subtitle = _residual_words(view, t)
    layout = theme.base_layout(
        title,
        subtitle,
        alt=_alt(view, "residual", t),
        left=LEFT,
        right=8,
        bottom=4,
        top=2,
        height=ROW * (SHOWN_RESIDUAL + 1) + 8,
        seq=seq,
        xaxis=theme.number_axis(range=[0, (max(values, default=0) or 1) * ROOM], visible=False),
        yaxis=_axis(rows, view, SHOWN_RESIDUAL, t),
    )
    return go.Figure(data, layout)


def fate_text(fate: str, t: Translate) -> str:
    """Return a fate in words, after its mark."""
    _, mark, key = FATES[fate]
    return f"{mark} {t(key)}"


def _axis(
    rows: Sequence[Mapping[str, Any]], view: View | None, shown: int, t: Translate
) -> dict[str, Any]:
    """Return the axis of labels, the rest's below; few rows keep their height."""
    keys = [*theme.category_keys([row["id"] for row in rows]), _REST]
    labels = [theme.shorten(row["label"], CELLS) for row in rows]
    others = view["size"] - len(rows) if view and rows else 0
    labels.append(t("speculate.others", count=count_text(others)) if others else "")
    axis = theme.category_axis(keys, labels, reverse=True, ticklabelstandoff=6)
    font = axis["tickfont"] | dict(size=theme.SIZES["small"])
    return axis | dict(range=[shown + 0.5, -0.5], tickfont=font)


def _fill(key: str) -> dict[str, Any]:
    return dict(color=theme.LIGHT[key], line=dict(width=0))


def _frame() -> dict[str, Any]:
    return dict(color="rgba(0,0,0,0)", line=dict(color=theme.LIGHT["ink"], width=1.25))


def _zone(key: str) -> dict[str, Any]:
    return dict(color=theme.fade(key, 0.3), line=dict(color=theme.LIGHT[key], width=1))


def _mark(fate: str) -> dict[str, Any]:
    """Return the mark on the tip of the tested token's longer bar: its fate in colour and shape."""
    color = theme.LIGHT[FATES[fate][0]]
    line = dict(width=2.5, color=color)
    return dict(symbol=_SYMBOLS[fate], size=10, color=color, line=line)


def _mono(color: Any) -> dict[str, Any]:
    return dict(family=theme.MONO, size=theme.SIZES["small"], color=color)


def _ink(view: View | None, row: Mapping[str, Any]) -> str:
    if view is None or row["id"] != view["token"]["id"]:
        return theme.LIGHT["ink"]
    return theme.LIGHT[_TEXTS.get(view["fate"], "ink")]


def _pair(row: Mapping[str, Any]) -> str:
    if row["draft"] is None:
        return figure_text(row["target"])
    return f"{figure_text(row['draft'])} / {figure_text(row['target'])}"


def _law_text(row: Mapping[str, Any], view: View | None) -> str:
    text = _pair(row)
    if view is not None and row["id"] == view["token"]["id"]:
        return theme.escape(_NBSP * 3 + text)  # clear of the mark
    return theme.escape(_NBSP + text)


def _law_hover(row: Mapping[str, Any], t: Translate) -> str:
    texts = [t("speculate.hover_id", label=row["label"], id=row["id"])]
    if row["draft"] is not None:
        texts.append(t("speculate.hover_draft", p=figure_text(row["draft"])))
    texts.append(t("speculate.hover_target", p=figure_text(row["target"])))
    if row["draft"]:
        texts.append(t("speculate.hover_chance", p=figure_text(row["target"] / row["draft"])))
    return theme.lines(*texts)


def _law_words(view: View | None, t: Translate) -> tuple[str, str]:
    if view is None:
        return t("speculate.laws_empty"), t("speculate.laws_subtitle")
    if not view["draft"]:
        return t("speculate.laws_bonus"), t("speculate.laws_bonus_subtitle")
    title = t("speculate.laws_title", overlap=figure_text(view["overlap"]))
    return title, t("speculate.laws_subtitle")


def _test_words(view: View | None, t: Translate) -> tuple[str, str]:
    if view is None:
        return t("speculate.test_empty"), t("speculate.test_rule")
    if not view["draft"]:
        return t("speculate.test_bonus"), t("speculate.test_bonus_subtitle")
    token = view["token"]
    fields = {
        "chance": figure_text(view["chance"]),
        "target": figure_text(token["target"]),
        "draft": figure_text(token["draft"]),
    }
    rule = t("speculate.test_subtitle", **fields)
    if view["tested"] == "untested":
        return t("speculate.test_untested"), rule
    if view["greedy"]:
        return t(_GREEDY[view["tested"]]), t("speculate.test_greedy_subtitle")
    return t(_TRIALS[view["tested"]], u=f"{view['u']:.3f}", **fields), rule


def _residual_words(view: View | None, t: Translate) -> tuple[str, str]:
    subtitle = t("speculate.residual_subtitle")
    if view is None:
        return t("speculate.residual_title"), subtitle
    if not view["draft"]:
        return t("speculate.residual_bonus"), subtitle
    if view["equal"]:
        return t("speculate.residual_equal"), subtitle
    if view["recovered"]:
        label = view["next"]["label"]
        if view["next_u"] is None:
            return t("speculate.residual_greedy", label=label), subtitle
        return t("speculate.residual_drawn", u=f"{view['next_u']:.3f}", label=label), subtitle
    return t("speculate.residual_spare"), subtitle


def _alt(view: View | None, name: str, t: Translate) -> str:
    rows = [] if view is None else view["rows"] if name == "target" else view["residual"]
    listed = ", ".join(f"{row['label']} {figure_text(row[name] or 0)}" for row in rows[:5])
    return t("speculate.alt_target" if name == "target" else "speculate.alt_residual", list=listed)
