"""The Compare charts: lines at their heights, names apart, what Plotly's checks would make."""

import json
import math

import plotly.graph_objects as go
import plotly.io as pio
import pytest

from playground.charts.compare import ROOM, Lane, lanes_height, probabilities, taxes
from playground.charts.theme import LIGHT
from playground.words import LANGUAGES, translator

T = translator("en")
GREEDY = Lane("Greedy", "accent", ["a", "<b>", "c"], [0.9, 0.5, 1.0], [0.9, 0.45, 0.45])
PURE = Lane("Pure", "attention", ["a", "d", "e"], [0.1, 0.2, 0.3], [1.0, 1.0, 1.0])
NUCLEUS = Lane("top-p 0.95", "accepted", ["x"], [0.4], [0.95])
HUMAN = Lane("Human text", "ink", ["h", "i"], [0.05, 0.15], human=True)
LANES = [GREEDY, PURE, NUCLEUS, HUMAN]


def traces(figure):
    """Role -> trace as the browser gets it."""
    data = json.loads(pio.to_json(figure, remove_uids=False))["data"]
    return {trace["uid"]: trace for trace in data}


def test_each_lane_has_its_own_line_and_the_human_one_behind():
    figure = probabilities(LANES, t=T, length=5)
    found = traces(figure)
    for i, lane in enumerate(LANES):
        base = len(LANES) - 1 - i
        assert found[f"lane{i}"]["y"] == pytest.approx(
            [base + ROOM * p for p in lane.probabilities]
        )
        assert found[f"lane{i}"]["line"]["color"] == LIGHT[lane.color]
        if lane is not HUMAN:
            assert found[f"human{i}"]["y"] == pytest.approx([base + ROOM * p for p in (0.05, 0.15)])
    assert "human3" not in found
    assert "&lt;b&gt;" in found["lane0"]["hovertext"][1]
    assert [text.strip() for text in found["values"]["text"]] == [
        "0.800",
        "0.200",
        "0.400",
        "0.100",
    ]
    assert figure.layout.height == lanes_height(4)
    title = figure.layout.meta["title"]
    assert "0.800 on average in “Greedy”" in title and "0.100 in “Human text”" in title


def test_without_a_human_text_or_any_token():
    assert not any(
        uid.startswith("human") for uid in traces(probabilities(LANES[:3], t=T, length=5))
    )
    empty = [Lane("Greedy", "accent", [], []), Lane("Pure", "attention", [], [])]
    assert probabilities(empty, t=T, length=5).layout.meta["title"] == T("compare.lanes_empty")
    assert taxes(empty, t=T, length=5).layout.meta["title"] == T("compare.tax_empty")


def test_the_tax_names_the_mildest_cut_and_keeps_names_apart():
    figure = taxes(LANES, t=T, length=5)
    found = traces(figure)
    assert found["tax0"]["y"] == list(GREEDY.taxes) and "tax3" not in found
    assert "“top-p 0.95” allows with chance 0.950" in figure.layout.meta["title"]
    low, high = figure.layout.yaxis.range
    heights = sorted(math.log10(y) for y in found["names"]["y"])
    gaps = [b - a for a, b in zip(heights, heights[1:], strict=False)]
    # 230 px less the margins; a line of 12 px text.
    assert min(gaps) / (high - low) * 150 > 12
    deep = Lane("Deep", "draft", ["x"] * 2, [0, 0], [0.0, 0.0])
    assert all(y > 0 for y in traces(taxes([deep], t=T, length=2))["tax0"]["y"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_unchecked_figures_are_what_plotly_s_checks_would_make(language):
    t = translator(language)
    for figure in (probabilities(LANES, t=t, length=5), taxes(LANES, t=t, length=5)):
        checked = go.Figure(figure.to_dict())
        texts = [pio.to_json(one, validate=False, remove_uids=False) for one in (figure, checked)]
        assert json.loads(texts[0]) == json.loads(texts[1])
