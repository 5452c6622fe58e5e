"""The plane and the bars of a contrastive position: geometry, texts, names apart, nothing NaN."""

import json
import math

import numpy as np
import plotly.io as pio
import pytest

from playground.charts.contrastive import MARKERS, plane, shown, spread
from playground.charts.contrastive_bars import COLUMNS, RIGHT, SHOWN, contrast_bars
from playground.engines.contrastive import choose, contrast
from playground.records import SamplingParams
from playground.records.contrastive import ContrastiveParams
from playground.words import LANGUAGES, translator

T = translator("en")
GREEDY = SamplingParams(temperature=0)
# The table of the case "plausibility": threshold 0.05, kept 0 to 3, winner 2; without it 4 wins.
PE, PA = [0.5, 0.3, 0.13, 0.06, 0.01], [0.6, 0.2, 0.05, 0.1499, 0.0001]
HOSTILE = [
    "<b>",
    "$x$",
    "%{y}",
    "&lt;",
    "2024",
    "\n",
    '<a href="javascript:1">x</a>',
    "你好你好你好你",
]


def see(pe=PE, pa=PA, params=None, force=None, sampling=GREEDY):
    with np.errstate(divide="ignore"):
        expert, amateur = (np.log(np.asarray(p, np.float64)) for p in (pe, pa))
    both = contrast(expert, amateur, params or ContrastiveParams())
    return choose(both, (0, 1), sampling, 2, force)


def label(i):
    return f"t{i}"


def big(seed=0, size=49_152):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 4, size)
    z[:500] -= 12  # the best tokens are in the middle of the vocabulary, not at its beginning
    both = contrast(z, 0.7 * z + rng.normal(0, 2, size), ContrastiveParams())
    return choose(both, (0,), GREEDY, 1)


def traces(figure):
    text = pio.to_json(figure, validate=False, remove_uids=False)
    assert "NaN" not in text and "Infinity" not in text
    found = json.loads(text)["data"]
    assert [trace["uid"] for trace in found] == [trace["meta"]["role"] for trace in found]
    return {trace["uid"]: trace for trace in found}


def segments(trace):
    """The straight lines of a trace, parted by gaps."""
    found, line = [], []
    for x, y in [*zip(trace["x"], trace["y"], strict=True), (None, None)]:
        if x is None:
            found.append(line)
            line = []
        else:
            line.append((x, y))
    return [line for line in found if line]


def test_the_plane_of_the_hand_table():
    found = traces(plane(see(), label=label, t=T))
    assert found["plausible"]["customdata"] == [0, 1, 2, 3]
    assert found["cloud"]["customdata"] == [4]
    assert found["plausible"]["x"] == pytest.approx(np.log(PE[:4]), abs=1e-3)
    assert found["plausible"]["y"] == pytest.approx(np.log(PA[:4]), abs=1e-3)
    assert found["threshold"]["x"] == pytest.approx([math.log(0.05)] * 2)
    assert found["winner"]["x"] == pytest.approx([math.log(0.13)])
    assert found["favourite"]["x"] == pytest.approx([math.log(0.5)])
    assert found["taken"]["x"] == []


@pytest.mark.parametrize("form", ["difference", "one_plus_beta"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 3.0])
def test_every_iso_line_has_one_score_and_the_best_ones_is_the_winners(weight, form):
    step = see(params=ContrastiveParams(amateur_weight=weight, amateur_temperature=0.5, form=form))
    found = traces(plane(step, label=label, t=T))
    gain, slope = step.params.gain, step.params.slope
    best = segments(found["best"])
    assert len(best) == 1 and len(segments(found["iso"])) > 2
    scores = []
    for (x0, y0), (x1, y1) in [*best, *segments(found["iso"])]:
        assert gain * x0 - slope * y0 == pytest.approx(gain * x1 - slope * y1, abs=1e-9)
        scores.append(gain * x0 - slope * y0)
    assert scores[0] == pytest.approx(step.scores.max())
    assert len(set(np.round(scores, 6))) == len(scores)


def test_a_slider_moves_lines_and_rings_but_no_point():
    step = big()
    with_more = contrast(
        step.expert_logprobs,
        step.amateur_logprobs,
        ContrastiveParams(plausibility=0.02, amateur_weight=1.5),
    )
    before, after = (plane(s, label=label, t=T) for s in (step, with_more))
    apart = set(shown(step)) ^ set(shown(with_more))
    assert apart <= {step.winner, with_more.winner}
    assert before.layout.xaxis.range == after.layout.xaxis.range
    assert before.layout.yaxis.range == after.layout.yaxis.range
    old, new = traces(before), traces(after)
    assert old["best"]["y"] != new["best"]["y"] and old["threshold"]["x"] != new["threshold"]["x"]


@pytest.mark.parametrize("plausibility", [0.0, 1e-6, 0.1, 1.0])
def test_a_large_vocabulary_is_drawn_as_few_points_with_every_plausible_one(plausibility):
    one = big()
    step = contrast(
        one.expert_logprobs, one.amateur_logprobs, ContrastiveParams(plausibility=plausibility)
    )
    ids = shown(step)
    assert len(ids) <= MARKERS < 500 and len(set(ids)) == len(ids)
    assert {step.winner, step.favourite} <= set(ids.tolist())
    if step.plausible.sum() <= 240:
        assert set(np.flatnonzero(step.plausible)) <= set(ids.tolist())
    figure = plane(step, label=label, t=T)
    assert len(pio.to_json(figure, validate=False)) < 160_000
    found = traces(figure)
    assert len(found["cloud"]["x"]) + len(found["plausible"]["x"]) == len(ids)


def test_without_plausibility_an_absurd_token_wins_and_the_plane_says_so():
    step = see(params=ContrastiveParams(plausibility=0))
    figure = plane(step, label=label, t=T)
    found = traces(figure)
    assert step.winner == 4 and found["cloud"]["customdata"] == []
    assert found["threshold"]["x"] == []
    assert figure.layout.annotations[0].text == T("contrast.threshold_none")


def test_impossible_tokens_make_no_nan_and_stand_on_the_edge():
    step = see([0.7, 0.3, 0.0], [1.0, 0.0, 0.0])
    assert step.winner == 1
    figure = plane(step, label=label, t=T)
    found = traces(figure)
    assert found["plausible"]["customdata"] == [0, 1]
    assert found["plausible"]["y"][1] == figure.layout.yaxis.range[0]
    assert found["plausible"]["marker"]["symbol"] == ["circle", "triangle-down"]
    bars = contrast_bars(step, label=label, t=T)
    assert traces(bars)["score"]["customdata"] == [1, 0]
    assert bars.layout.meta["title"] == T("contrast.bars_never", label="t1")


@pytest.mark.parametrize("pe", [[1.0], [1.0, 0.0], [0.5, 0.5]])
def test_tiny_and_one_sided_laws_draw(pe):
    step = see(pe, pe)
    assert traces(plane(step, label=label, t=T))["winner"]["x"]
    assert traces(contrast_bars(step, label=label, t=T))["score"]["x"][0] == pytest.approx(0)


def test_names_never_lie_on_each_other_or_outside():
    assert spread([0, 0, 0], 2, -10, 10) == [0, -2, -4]
    assert spread([-9, -10], 4, -10, 0) == [-6, -10]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        wanted = rng.uniform(-20, 0, 3)
        found = spread(wanted, 3, -19, -1)
        gaps = -np.diff(sorted(found, reverse=True))
        assert (gaps >= 3 - 1e-9).all() and min(found) >= -19 and max(found) <= -1
        assert np.argsort(found).tolist() == np.argsort(wanted).tolist()
    step = see(force=3)
    figure = plane(step, label=label, t=T)
    names = figure.layout.annotations[1:]
    assert [n.text.split("<br>")[0] for n in names] == ["expert", "contrast", "taken"]
    assert {n.xref for n in names} == {"paper"} and {n.x for n in names} == {1}
    low, high = figure.layout.yaxis.range
    px = 286 / (high - low)  # the plot's height: 348 less its margins
    heights = sorted(n.y * px for n in names)
    assert min(np.diff(heights)) >= 36 - 1e-6


def test_one_token_that_is_both_has_one_name():
    step = see(PE, [1.0, 1e-9, 1e-9, 1e-9, 1e-9], ContrastiveParams(amateur_weight=0))
    names = plane(step, label=label, t=T).layout.annotations[1:]
    assert [n.text for n in names] == ["both<br><b>t0</b>"]


def test_hostile_labels_stay_texts():
    step = see([0.2, 0.2, 0.15, 0.15, 0.1, 0.1, 0.05, 0.05], [1 / 8] * 8)
    figure = plane(step, label=HOSTILE.__getitem__, t=T)
    bars = contrast_bars(step, label=HOSTILE.__getitem__, t=T)
    texts = [*traces(figure)["plausible"]["hovertext"], *bars.layout.yaxis.ticktext]
    texts += [n.text for n in figure.layout.annotations[1:]]
    for text in texts:
        bare = text.replace("<br>", "").replace("<b>", "", 1).replace("</b>", "", 1)
        assert "<" not in bare and "$" not in bare and "%{" not in bare and "\n" not in bare
    assert bars.layout.yaxis.categoryarray == ("head", *(f"id:{i}" for i in range(8)))


def test_bars_are_the_scores_in_order_with_both_probabilities():
    step = see(sampling=SamplingParams(seed=3))
    bars = contrast_bars(step, label=label, t=T)
    found = traces(bars)
    assert [head.text for head in bars.layout.annotations] == ["score", "expert", "amateur"]
    assert {head.y for head in bars.layout.annotations} == {found["text"]["y"][0]}
    assert found["score"]["customdata"] == [2, 1, 0, 3]
    assert found["score"]["x"] == pytest.approx([0.9555, 0.4055, -0.1823, -0.9156], abs=1e-4)
    rows = [row.replace("\u00a0", " ").split() for row in found["text"]["text"]]
    assert rows[0] == []
    assert rows[1] == ["+0.956", "0.130", "0.050"]
    assert rows[4] == ["−0.916", "0.060", "0.150"]
    assert found["taken"]["y"] == [f"id:{step.step.token_id}"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_figures_fit_their_margin_and_rows_never_move(language):
    t = translator(language)
    few, many = see(), big()
    heights = {contrast_bars(step, label=label, t=t).layout.height for step in (few, many)}
    assert len(heights) == 1
    assert len(traces(contrast_bars(many, label=label, t=t))["score"]["x"]) <= SHOWN
    worst = see([1 - 3e-12, 1e-12, 2e-12], [1e-12, 1 - 2e-12, 1e-12], ContrastiveParams(0.0, 3.0))
    for row in traces(contrast_bars(worst, label=label, t=t))["text"]["text"][1:]:
        assert sum(COLUMNS) <= len(row) and len(row) * 7.2 + 4 <= RIGHT


@pytest.mark.parametrize("language", LANGUAGES)
def test_titles_say_who_wants_what(language):
    t = translator(language)
    figure = plane(see(), label=label, t=t)
    assert figure.layout.meta["title"] == t("contrast.plane_title", favourite="t0", winner="t2")
    same = plane(see(params=ContrastiveParams(amateur_weight=0)), label=label, t=t)
    assert same.layout.meta["title"] == t("contrast.plane_same", label="t0")
    bars = contrast_bars(see(), label=label, t=t)
    assert bars.layout.meta["title"] == t("contrast.bars_title", label="t2", ratio="2.60")
