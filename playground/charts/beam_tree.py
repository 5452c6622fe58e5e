"""The tree of a beam search: everything kept, finished and, near the cut, thrown away.

In: a BeamResult (the steps to be shown), roads beyond pruned nodes, and a translator; out: a Plotly
figure whose coordinates are px. Its width grows with the steps: the page lets it scroll.

A step is a column: a gutter in which edges run, the edge's last stretch with the token above it and
its log-prob below, then the node's mark and running sum. Edges only curve inside gutters and never
cross there (see `beam_layout`), so no line meets a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from playground.charts import theme
from playground.charts.beam_layout import Key, Node, Road, arrange, rows_for
from playground.charts.beam_sentences import facts, headline, tree_alt
from playground.charts.marks import points
from playground.format import count_text, log_text
from playground.records.beam import BeamResult
from playground.words import Translate

Label = Callable[[int], str]

PITCH = 36  # px per row: a line of text above the edge and one below
HEAD = 24  # px for the numbers of the steps
GUTTER = 28  # px in which an edge goes from one row to another
CELLS = 12  # of a token's label; the hover has it whole
_CHAR = 7.2  # px of a monospace character at 12 px
_MARK = 9  # px from the end of the edge's text to the middle of its mark
_LINE = 9  # px from an edge to the middle of the text above or below it
_BENDS = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)  # where an edge's curve has points


@dataclass(frozen=True, slots=True)
class Column:
    """One step's places in px: where its gutter begins, its labels, its marks and its end."""

    gutter: float
    label: float
    mark: float
    end: float


def tree(
    result: BeamResult,
    *,
    label: Label,
    t: Translate,
    start: str = "",
    roads: Sequence[Road] = (),
    best: Sequence[int] = (),
    picked: Key | None = None,
    seq: int | None = None,
) -> go.Figure:
    """Return the tree.

    ``start`` is the label of the prompt's end, ``best`` the nodes of the best hypothesis so far,
    ``picked`` a node to be ringed. Roles: greedy, pruned, kept, finished, best, alone (greedy's
    path after its prune), road (edges); then steps, tokens, logprobs, sums (texts), marks, rings
    and hit, which answers to the pointer with the node's number in customdata (-1: nodes of roads).
    """
    params = result.params
    rows = rows_for(params.num_beams, 2)
    wanted = {picked} if isinstance(picked, int) else set()
    nodes = arrange(result.steps, rows, roads, wanted)
    rows = max(rows, 1 + round(max(n.row for n in nodes)))
    names = {n.key: _name(n, label, start) for n in nodes}
    columns = _columns(nodes, names, len(result.steps))
    place = {n.key: (columns[n.depth], HEAD + (n.row + 0.5) * PITCH) for n in nodes}
    kinds = _edges(nodes, set(best))
    data = [_lines(role, keys, nodes, place, style) for (role, style), keys in kinds.items()]
    data += _texts(nodes, names, place, columns, t)
    data += _marks(nodes, place, picked)
    data.append(_hit(nodes, names, place, result, label, t))
    width, height = round(columns[-1].end), HEAD + rows * PITCH
    layout = theme.base_layout(
        headline(result, t),
        t("beam.tree_subtitle"),
        alt=tree_alt(result, [label(i) for i in _ids(nodes, best)], t),
        left=0,
        right=0,
        top=0,
        bottom=0,
        height=height,
        width=width,
        clickable=True,
        seq=seq,
        hoverdistance=30,
        xaxis=dict(range=[0, width], visible=False, fixedrange=True),
        yaxis=dict(range=[height, 0], visible=False, fixedrange=True),
    )
    layout["meta"]["look"] = width
    return go.Figure(data, layout)


def _name(node: Node, label: Label, start: str) -> str:
    if node.kind == "root":
        return start[-CELLS:]
    return theme.shorten(label(node.token_id), CELLS)


def _ids(nodes: Iterable[Node], path: Sequence[int]) -> list[int]:
    return [n.token_id for n in nodes if n.key in path and n.kind != "root"]


def _columns(nodes: Sequence[Node], names: dict[Key, str], depth: int) -> list[Column]:
    """Return the columns' places; each is as wide as its longest label."""
    cells, sums = [0] * (depth + 1), [0] * (depth + 1)
    for node in nodes:
        cells[node.depth] = max(cells[node.depth], theme.width(names[node.key]))
        sums[node.depth] = max(sums[node.depth], len(log_text(node.sum)))
    out, x = [], 0.0
    for i, (name, total) in enumerate(zip(cells, sums, strict=True)):
        start = x + (GUTTER if i else 0)
        mark = start + (max(name, 6) if i else name) * _CHAR + _MARK
        x = mark + _MARK + (total * _CHAR + 4 if i else 0)
        out.append(Column(start - GUTTER if i else 0.0, start, mark, x))
    return out


def _edges(nodes: Sequence[Node], best: set[int]) -> dict[tuple[str, tuple], list[Key]]:
    """Return which nodes' edges are drawn in which style, the undermost first; a style is colour,
    width, dash.
    """
    color = theme.LIGHT
    halo = ("greedy", (theme.fade("attention", 0.32), 9, "solid"))
    pruned = ("pruned", (color["outline"], 1.2, "3px,3px"))
    kept = ("kept", (color["accent"], 1.6, "solid"))
    done = ("finished", (color["accepted"], 1.6, "solid"))
    top = ("best", (color["accent"], 4, "solid"))
    alone = ("alone", (color["attention"], 1.6, "3px,3px"))
    road = ("road", (color["ink"], 1.6, "1px,3px"))
    found: dict[tuple[str, tuple], list[Key]] = {
        style: [] for style in (halo, pruned, kept, done, top, alone, road)
    }
    for node in nodes:
        if node.kind == "root":
            continue
        if node.kind == "greedy" or (node.candidate is not None and node.candidate.greedy):
            found[halo].append(node.key)
        styles = {"kept": kept, "finished": done, "road": road, "greedy": alone}
        style = styles.get(node.kind, pruned)
        found[top if node.key in best else style].append(node.key)
    return found


def _lines(
    role: str,
    keys: Sequence[Key],
    nodes: Sequence[Node],
    place: dict[Key, tuple[Column, float]],
    style: tuple[str, float, str],
) -> dict[str, Any]:
    """Return edges as one trace: each leaves its parent's sum, bends in the gutter, ends at its
    mark.
    """
    parents = {n.key: n.parent for n in nodes}
    xs: list[float | None] = []
    ys: list[float | None] = []
    for key in keys:
        column, y = place[key]
        _, y0 = place[parents[key]]
        for at in _BENDS:
            xs.append(round(column.gutter + at * GUTTER, 1))
            ys.append(round(y0 + (y - y0) * at * at * (3 - 2 * at), 1))
        xs += [round(column.mark, 1), None]
        ys += [y, None]
    color, width, dash = style
    return points(role, xs, ys, "lines") | dict(line=dict(color=color, width=width, dash=dash))


def _texts(
    nodes: Sequence[Node],
    names: dict[Key, str],
    place: dict[Key, tuple[Column, float]],
    columns: Sequence[Column],
    t: Translate,
) -> list[dict[str, Any]]:
    """Return the steps' numbers, tokens, log-probs and sums."""
    ink, muted = theme.LIGHT["ink"], theme.LIGHT["muted"]
    shade = [ink if n.kind in ("kept", "finished", "root") else muted for n in nodes]
    below = [n for n in nodes if n.kind != "root"]

    def written(role: str, x: Any, y: Any, text: Any, position: str, color: Any) -> dict[str, Any]:
        font = dict(family=theme.MONO, size=theme.SIZES["small"], color=color)
        return points(role, [round(v, 1) for v in x], y, "text") | dict(
            text=text, textposition=position, textfont=font
        )

    numbers = [t("beam.step_short", step=count_text(i)) for i in range(1, len(columns))]
    return [
        written(
            "steps",
            [c.label for c in columns[1:]],
            [HEAD / 2] * len(numbers),
            numbers,
            "middle right",
            muted,
        ),
        written(
            "tokens",
            [place[n.key][0].label for n in nodes],
            [place[n.key][1] - _LINE for n in nodes],
            [theme.escape(names[n.key]) for n in nodes],
            "middle right",
            shade,
        ),
        written(
            "logprobs",
            [place[n.key][0].label for n in below],
            [place[n.key][1] + _LINE for n in below],
            [log_text(n.logprob) for n in below],
            "middle right",
            muted,
        ),
        written(
            "sums",
            [place[n.key][0].mark + 8 for n in below],
            [place[n.key][1] for n in below],
            [log_text(n.sum) for n in below],
            "middle right",
            shade[1:],
        ),
    ]


def _marks(
    nodes: Sequence[Node], place: dict[Key, tuple[Column, float]], picked: Key | None
) -> list[dict[str, Any]]:
    """Return the nodes' marks, each kind with a shape of its own, and the rings around some."""
    color = theme.LIGHT
    looks = {
        "root": ("circle", color["muted"], 7),
        "kept": ("circle", color["accent"], 9),
        "finished": ("square", color["accepted"], 10),
        "ghost": ("circle-open", color["outline"], 7),
        "greedy": ("diamond", color["attention"], 8),
        "road": ("circle", color["ink"], 6),
    }
    found = [looks[n.kind] for n in nodes]
    ringed = [
        (n, "diamond-open", color["attention"], 14)
        for n in nodes
        if n.candidate is not None and n.candidate.greedy
    ]
    ringed += [(n, "circle-open", color["ink"], 18) for n in nodes if n.key == picked]

    def spots(role: str, some: Iterable[Node], shapes: Any, colors: Any, sizes: Any, line: float):
        some = list(some)
        return points(
            role,
            [round(place[n.key][0].mark, 1) for n in some],
            [place[n.key][1] for n in some],
        ) | dict(
            marker=dict(
                symbol=list(shapes), color=list(colors), size=list(sizes), line=dict(width=line)
            )
        )

    shapes, colors, sizes = zip(*found, strict=True)
    rings = [list(part) for part in zip(*ringed, strict=True)] or [[], [], [], []]
    return [spots("marks", nodes, shapes, colors, sizes, 1.2), spots("rings", *rings, 1.8)]


def _hit(
    nodes: Sequence[Node],
    names: dict[Key, str],
    place: dict[Key, tuple[Column, float]],
    result: BeamResult,
    label: Label,
    t: Translate,
) -> dict[str, Any]:
    """Return what answers to the pointer: an unseen disc on every node, with all that is known."""
    some = [n for n in nodes if n.kind != "root"]
    return points(
        "hit",
        [round(place[n.key][0].mark - 14, 1) for n in some],
        [place[n.key][1] for n in some],
    ) | dict(
        marker=dict(size=PITCH - 2, opacity=0),
        hoverinfo="text",
        hovertext=[theme.lines(*_facts(n, result, label, t)) for n in some],
        customdata=[n.key if isinstance(n.key, int) else -1 for n in some],
    )


def _facts(node: Node, result: BeamResult, label: Label, t: Translate) -> list[str]:
    """Return what the hover says of a node, line by line."""
    c = node.candidate
    if c is not None:
        out = facts(c, result.steps[node.depth - 1], result.params, label, t)
        if any(c.node in step.dropped for step in result.steps):
            out.append(t("beam.hover_dropped"))
        return [*out, t("beam.hover_ghost" if node.kind == "ghost" else "beam.hover_path")]
    return [
        t("beam.hover_token", label=label(node.token_id), id=node.token_id, step=node.depth),
        t("beam.hover_logprob_only", nats=log_text(node.logprob)),
        t("beam.hover_sum_only", sum=log_text(node.sum)),
        t("beam.hover_greedy" if node.kind == "greedy" else "beam.hover_road"),
    ]
