"""The beam charts: no edges cross, what is drawn is what was recorded, texts stay literal."""

import json
import math
from dataclasses import replace

import numpy as np
import plotly.io as pio
import pytest

import playground as pg
from playground.charts import beam_sentences as say
from playground.charts.beam_layout import GHOSTS, Road, arrange, rows_for
from playground.charts.beam_race import race
from playground.charts.beam_tree import tree
from playground.format import log_text
from playground.records.beam import (
    FINISHED,
    KEPT,
    PRUNED,
    STOPS,
    WHYS,
    BeamParams,
    BeamResult,
    Candidate,
    Hypothesis,
    ModeSearch,
)
from playground.words import LANGUAGES, translator

T = translator("en")
HOSTILE = ["<b>", "<br>", "</", "<sup>x</sup>", "&lt;", '<a href="javascript:1">', "$x$", "%{y}"]
SETTINGS = [
    BeamParams(4, 8),
    BeamParams(1, 6),
    BeamParams(8, 10, length_penalty=-1),
    BeamParams(6, 7, num_groups=3, diversity_penalty=0.7),
    BeamParams(4, 8, do_sample=True, sampling=pg.SamplingParams(seed=3)),
    BeamParams(3, 8, early_stopping=True),
]


def search(params=SETTINGS[0], seed=0, size=24, eos=(2,)):
    """Return a whole search on a random table."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.4), size=size + 1)
    lm = pg.TableLM({None: rows[size], **{i: rows[i] for i in range(size)}}, eos_ids=eos)
    return pg.beam_search(lm, [0], params)


def traces(figure):
    """Return role -> trace as the browser gets it."""
    data = json.loads(pio.to_json(figure, remove_uids=False))["data"]
    assert [trace["uid"] for trace in data] == [trace["meta"]["role"] for trace in data]
    return {trace["uid"]: trace for trace in data}


def columns(nodes):
    out = {}
    for node in nodes:
        out.setdefault(node.depth, []).append(node)
    return out


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_no_two_edges_cross_and_no_two_nodes_touch(params):
    for seed in range(6):
        result = search(params, seed)
        rows = rows_for(params.num_beams)
        nodes = arrange(result.steps, rows)
        row = {node.key: node.row for node in nodes}
        for depth, column in columns(nodes).items():
            places = [node.row for node in column]
            assert all(b - a >= 1 for a, b in zip(places, places[1:], strict=False))
            if len(column) <= rows:
                assert places[0] >= 0 and places[-1] <= rows - 1
            if depth > 1:  # edges to a column keep the order of their parents
                assert [row[n.parent] for n in column] == sorted(row[n.parent] for n in column)


def test_the_tree_keeps_everything_but_the_far_ghosts():
    result = search(BeamParams(4, 8))
    shown = {n.key for n in arrange(result.steps, 9) if n.candidate is not None}
    for step in result.steps:
        pruned = sorted((c for c in step.candidates if c.fate == PRUNED), key=lambda c: -c.sum)
        assert {c.node for c in step.candidates if c.fate != PRUNED} <= shown
        assert {c.node for c in pruned[:GHOSTS]} <= shown
        assert not {c.node for c in pruned[GHOSTS:] if not c.greedy} & shown
    far = next(c.node for s in result.steps for c in s.candidates if c.node not in shown)
    assert far in {n.key for n in arrange(result.steps, 9, wanted=[far])}


def test_nothing_moves_when_the_search_goes_on():
    result = search(BeamParams(8, 10))
    rows = rows_for(8)
    whole = {n.key: (n.depth, n.row) for n in arrange(result.steps, rows)}
    heights = set()
    for count in range(len(result.steps) + 1):
        part = arrange(result.steps[:count], rows)
        assert all(whole[n.key] == (n.depth, n.row) for n in part)
        some = BeamResult((0,), result.params, result.hypotheses, result.steps[:count], "")
        heights.add(tree(some, label=str, t=T).layout.height)
    assert len(heights) == 1


def test_a_road_goes_on_from_its_ghost_as_far_as_the_steps():
    result = search(BeamParams(2, 6))
    ghost = next(c for c in result.steps[1].candidates if c.fate == PRUNED)
    road = Road("road", ghost.node, (5,) * 9, (-1.0,) * 9, tuple(ghost.sum - i for i in range(9)))
    some = [n for n in arrange(result.steps, 6, [road]) if n.kind == "road"]
    assert [n.depth for n in some] == list(range(3, len(result.steps) + 1))
    assert some[0].parent == ghost.node and some[1].parent == some[0].key


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_the_tree_draws_what_was_recorded(params):
    result = search(params)
    best = [c.node for c in result.path(result.hypotheses[0].node)]
    drawn = traces(tree(result, label=lambda i: f"t{i}", t=T, start="·go", best=best))
    nodes = arrange(result.steps, rows_for(params.num_beams, 2))
    assert drawn["tokens"]["text"] == ["·go", *(f"t{n.token_id}" for n in nodes[1:])]
    assert drawn["logprobs"]["text"] == [log_text(n.logprob) for n in nodes[1:]]
    assert drawn["sums"]["text"] == [log_text(n.sum) for n in nodes[1:]]
    assert drawn["hit"]["customdata"] == [n.key for n in nodes[1:]]
    sums = {n.key: n.sum for n in nodes}
    for node in nodes[1:]:  # the numbers on the way add up
        assert node.sum == pytest.approx(sums[node.parent] + node.logprob, abs=1e-6)
    edges = sum(drawn[r]["x"].count(None) for r in ("pruned", "kept", "finished", "best"))
    assert edges == len(nodes) - 1
    assert drawn["best"]["x"].count(None) == len(best)


def test_edges_bend_in_gutters_only_where_no_text_stands():
    result = search(BeamParams(4, 8))
    figure = tree(result, label=lambda i: "a long token, number " + str(i), t=T)
    drawn = traces(figure)
    labels = sorted({x for x in drawn["tokens"]["x"][1:]})
    texts = [(x, x + 12 * 7.2) for x in labels]
    sums = zip(drawn["sums"]["x"], drawn["sums"]["text"], strict=True)
    texts += [(x, x + 7.2 * len(text)) for x, text in sums]
    for role in ("kept", "pruned", "finished"):
        xs, ys = drawn[role]["x"], drawn[role]["y"]
        for i in range(len(xs) - 1):
            if xs[i] is None or xs[i + 1] is None or ys[i] == ys[i + 1]:
                continue  # a gap, or level: it runs between the two lines of text
            assert not any(a < xs[i + 1] - 0.2 and xs[i] + 0.2 < b for a, b in texts)
    assert max(x for x in drawn["hit"]["x"]) < figure.layout.width


@pytest.mark.parametrize("chart", [tree, race])
def test_hostile_tokens_stay_text_and_nothing_is_nan(chart):
    result = search(BeamParams(4, 6), size=len(HOSTILE), eos=())
    figure = chart(result, label=lambda i: HOSTILE[i], t=T)
    text = figure.to_json()
    assert "NaN" not in text and "Infinity" not in text
    bare = json.dumps(json.loads(text)["data"]).replace("<br>", "")
    for tag in ("<b>", "</", "<sup", "<a ", "%{"):
        assert tag not in bare.replace("\\u003c", "<")
    assert "&lt;sup&gt;" in bare and "&amp;lt;" in bare


def test_eight_beams_over_thirty_steps_stay_small_and_scroll():
    figure = tree(search(BeamParams(8, 30), size=200, eos=()), label=lambda i: f"·token{i}", t=T)
    assert len(figure.to_json()) < 200_000
    assert figure.layout.width > 3000 and figure.layout.height < 600
    assert figure.layout.meta["look"] == figure.layout.width


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_a_bar_of_the_race_runs_from_its_beams_sum_to_its_own(params):
    result = search(params)
    step = result.steps[1]
    result = BeamResult((0,), params, result.hypotheses, result.steps[:2], "")
    drawn = traces(race(result, label=str, t=T))
    sums = {c.node: c.sum for s in result.steps for c in s.candidates}
    by_node = {c.node: c for c in step.candidates}
    seen = set()
    for fate in (KEPT, FINISHED, PRUNED):
        bars = drawn[fate]
        for node, base, length in zip(bars["customdata"], bars["base"], bars["x"], strict=True):
            c = by_node[node]
            assert base == c.sum
            if length is None:
                assert c.fate != fate
                continue
            seen.add(node)
            assert c.fate == fate
            assert base + length == pytest.approx(sums[c.parent], abs=1e-6)
    assert {c.node for c in step.candidates if c.fate != PRUNED} <= seen
    cuts = [x for x in drawn["cut"]["x"] if x is not None]
    assert sorted(set(cuts)) == sorted({c for c in step.cuts if c is not None})
    assert drawn["sums"]["text"] == [
        "\u00a0\u00a0" + log_text(by_node[n].sum) for n in drawn[KEPT]["customdata"]
    ]


def test_the_race_has_one_height_from_the_first_step_on():
    result = search(BeamParams(4, 8))
    parts = [
        BeamResult((0,), result.params, result.hypotheses, result.steps[:n], "")
        for n in range(1, len(result.steps))
    ]
    assert len({race(part, label=str, t=T).layout.height for part in parts}) == 1
    assert race(BeamResult((0,), result.params, (), (), ""), label=str, t=T) is None


def hypothesis(*logprobs, ids=None, **more):
    total = float(sum(logprobs))
    ids = tuple(range(len(logprobs))) if ids is None else ids
    return Hypothesis(ids, total, total / len(ids), False, "length", logprobs, total, **more)


def test_the_verdict_says_how_many_times_as_probable():
    best, greedy = hypothesis(-1.0, -1.0, ids=(7, 8)), hypothesis(-0.5, -3.5, ids=(3, 4))
    words = {(7, 8): " fine", (3, 4): "worse\nyet"}

    def told(best, greedy, **more):
        options = {"ended": True, "lost_at": None, "text": words.get, "t": T, **more}
        return say.verdict(best, greedy, **options)

    text = told(best, greedy, lost_at=2)
    assert "−4.000 (“worse⏎yet”)" in text and "−2.000 (“fine”): 7.39 times" in text
    assert "thrown away at step 2" in text
    assert "same text" in told(best, best)
    assert "here greedy’s text is 7.39 times" in told(greedy, best)
    short = hypothesis(-1.0, ids=(7,))
    words[(7,)] = "x"
    assert "2 and 1 tokens" in told(best, short)


def test_regret_is_told_by_scores_and_only_at_the_end():
    ghost = Candidate(9, 0, 0, 5, -2.0, -2.0, -2.0, 3, PRUNED, "below the cut", -1.0)
    road, best = hypothesis(-1.0, -1.0, -1.0, -1.0), hypothesis(-1.5, -1.5)  # by score, not sum

    def told(road, best, ended=True):
        options = {"ended": ended, "label": str, "text": lambda _: "…", "t": T}
        return say.regret_text(ghost, 1, road, best, **options)

    assert "was a mistake" in told(road, best) and "0.500 above" in told(road, best)
    assert "No regret" in told(best, road) and "0.500 below" in told(best, road)
    assert "when the search has ended" in told(road, best, ended=False)


def test_the_true_best_is_told_with_search_errors():
    found = hypothesis(-1.0, -1.0)

    def told(proven, beam, greedy):
        mode = ModeSearch(found, proven, -1.5, 77)
        options = {"horizon": 2, "vocab_size": 100, "num_beams": 4, "text": str, "t": T}
        return say.mode_text(mode, beam=beam, greedy=greedy, **options)

    text = told(True, -2.0, -3.25)
    assert "100^2" in text and "proven with 77 forwards" in text
    assert "finds it too" in text and "1.250 below" in text
    assert "search error of 0.500" in told(True, -2.5, -3.25)
    assert "no other is above −1.500" in told(False, -1.75, -2.0)
    assert "finds a better one, −1.750" in told(False, -1.75, -2.0)


@pytest.mark.parametrize(
    ("gap", "text"), [(0, "1.00"), (math.log(6.5), "6.50"), (40, "2.4e17"), (13.9, "1.1e6")]
)
def test_factors_are_written_to_be_read(gap, text):
    assert say.times_text(gap) == text


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_fate_and_stop_has_words(language):
    t = translator(language)
    c = Candidate(9, 0, 0, 5, -2.0, -2.0, -2.5, 3, PRUNED, "below the cut", -1.25, -0.75)
    said = {why: say.why_text(replace(c, why=why, fate=fate), t) for why, fate in WHYS.items()}
    assert len(set(said.values())) == len(WHYS)
    assert "−2.500" in said["below the cut"] and "−1.250" in said["below the cut"]
    assert "−0.750" in said["worse than finished"] and "−1.250" in said["worse than finished"]
    assert len({say.stop_text(stop, t) for stop in STOPS}) == len(STOPS)
    ends = ("eos", "length", "context full", "exhausted")
    assert len({say.stop_short(stop, t) for stop in ends}) == len(ends)
    for params in SETTINGS:
        result = search(params)
        assert say.headline(result, t)
        for step in result.steps:
            assert all(say.facts(c, step, params, str, t) for c in step.candidates)
