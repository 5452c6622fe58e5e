"""Where each node of a beam search's tree stands: columns are steps, and no two edges cross.

In: the records of the steps that are shown, and roads that go on beyond what was kept; out: the
nodes with their columns and rows.

1. Choose: everything kept or finished, the few best of the pruned ones, and what greedy's path or
   a road needs.
2. Order: the nodes of a column by the place of their parents, then by group and rank. A tree whose
   columns are ordered by their parents has no crossing edges.
3. Place: every node as near to its parent's row as the order and a distance of one row allow
   (least squares, kept nodes weighing more: pool adjacent violators). A column depends on those
   before it alone, so nothing moves when the search goes on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from playground.records.beam import KEPT, PRUNED, ROOT, BeamStep, Candidate

GHOSTS = 3  # pruned candidates that each step shows
Key = int | str

_WEIGHT = {"kept": 4.0, "finished": 2.0}  # pull towards the parent's row; the others have 1


@dataclass(frozen=True, slots=True)
class Road:
    """A path beyond a pruned node: its tokens with what each added and the running sums.

    ``name`` is "greedy" (greedy's own path after it was pruned) or "road" (a ghost that somebody
    continued); ``node`` is the recorded candidate that it goes on from.
    """

    name: str
    node: int
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    sums: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One node: ``depth`` is its step (0: the prompt), ``row`` its place from the top.

    ``key`` is the candidate's number, or "name:depth" on a road. ``kind`` is "root", "kept",
    "finished", "ghost", "greedy" or "road" (the last two: nodes of a Road).
    """

    key: Key
    parent: Key
    depth: int
    row: float
    kind: str
    token_id: int
    logprob: float
    sum: float
    candidate: Candidate | None = None


def rows_for(num_beams: int, roads: int = 1) -> int:
    """Return how many rows a tree of so many beams is given, the same from the first step on."""
    return num_beams + GHOSTS + roads


def arrange(
    steps: Sequence[BeamStep], rows: int, roads: Iterable[Road] = (), wanted: Collection[int] = ()
) -> list[Node]:
    """Return all nodes, column by column from the top, the root first.

    ``rows`` is the room; a column that needs more gets more. ``wanted`` are pruned nodes to be
    shown however far they are from the cut.
    """
    roads = tuple(roads)
    asked = {*wanted, *(road.node for road in roads)}
    columns = [[_entry(c) for c in _chosen(step, asked)] for step in steps]
    depth_of = {c.node: step.index + 1 for step in steps for c in step.candidates}
    for road in roads:
        at = depth_of.get(road.node)
        if at is None:
            continue
        parent: Key = road.node
        for i, (token, logprob, total) in enumerate(
            zip(road.ids, road.logprobs, road.sums, strict=True)
        ):
            if at + i >= len(columns):
                break
            key = f"{road.name}:{at + i + 1}"
            columns[at + i].append(Node(key, parent, 0, 0.0, road.name, token, logprob, total))
            parent = key
    root = Node(ROOT, ROOT, 0, (rows - 1) / 2, "root", -1, 0.0, 0.0)
    out, before = [root], {ROOT: root.row}
    for depth, column in enumerate(columns, 1):
        order = {key: i for i, key in enumerate(before)}
        column.sort(key=lambda n: (order[n.parent], *_rank(n)))
        places = _place(
            [before[n.parent] for n in column], [_WEIGHT.get(n.kind, 1.0) for n in column], rows
        )
        before = {}
        for node, row in zip(column, places, strict=True):
            out.append(replace(node, depth=depth, row=row))
            before[node.key] = row
    return out


def _chosen(step: BeamStep, wanted: Collection[int]) -> list[Candidate]:
    """Return the candidates to show: no fate but pruned is left out."""
    pruned = sorted((c for c in step.candidates if c.fate == PRUNED), key=lambda c: -c.sum)
    ghosts = {c.node for c in pruned[:GHOSTS]}
    return [
        c
        for c in step.candidates
        if c.fate != PRUNED or c.node in ghosts or c.greedy or c.node in wanted
    ]


def _entry(c: Candidate) -> Node:
    kind = "kept" if c.fate == KEPT else "ghost" if c.fate == PRUNED else "finished"
    return Node(c.node, c.parent, 0, 0.0, kind, c.token_id, c.logprob, c.sum, c)


def _rank(node: Node) -> tuple[float, float]:
    c = node.candidate
    return (math.inf, math.inf) if c is None else (c.group, -c.sum)


def _place(wanted: Sequence[float], weights: Sequence[float], rows: int) -> list[float]:
    """Return rows at least 1 apart, in order, nearest to the wanted ones, within the room."""
    blocks: list[list[float]] = []  # [weighted sum of wanted[i] - i, weight, count]
    for i, (row, weight) in enumerate(zip(wanted, weights, strict=True)):
        blocks.append([(row - i) * weight, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    highest = max(rows - len(wanted), 0)
    shifts = [
        min(max(math.floor(total / weight + 0.5), 0), highest)
        for total, weight, count in blocks
        for _ in range(int(count))
    ]
    return [float(shift + i) for i, shift in enumerate(shifts)]
