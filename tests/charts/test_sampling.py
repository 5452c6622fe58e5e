"""Charts of one step: what they draw is what the view says, one bar per token, texts literal."""

import json

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from playground.charts import bars as bars_module
from playground.charts.sampling import bars, dice, ledger, trajectory, zipf
from playground.explain import flips
from playground.payload import view
from playground.processors import shape
from playground.records import SamplingParams, Step
from playground.words import translator

T = translator("en")
ROLES = {
    "bars": ["final", "masked", "raw", "text", "drawn", "taken", "draws"],
    "ledger": ["left", "cut", "text", "removed"],
    "dice": ["cdf", "tail", "u", "interval", "hit", "text"],
    "zipf": ["model", "final", "drawn", "names"],
    "trajectory": ["entropy", "surprisal", "selected", "names"],
}
VILLAGE = "Once upon a time, there was a small village nestled in the heart of a"
SKETCH = SamplingParams(temperature=0.8, top_k=50, top_p=0.9, min_p=0.05, seed=7)
HOSTILE = ["<b>", "<br>", "</", "<sup>x</sup>", "&lt;", '<a href="javascript:1">', "$x$", "%{y}"]


def see(p, params=None, u=0.5, labels=None, taken=None):
    """Return (view, logits) of a distribution p under params."""
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray(p, np.float64))
    params = params or SamplingParams()
    label = (lambda i: labels[i]) if labels else (lambda i: f"t{i}")
    return view(logits, shape(logits, params), params, u, taken, label), logits


def traces(figure):
    """Return role -> trace of the figure as the browser gets it."""
    data = json.loads(pio.to_json(figure, remove_uids=False))["data"]
    assert [trace["uid"] for trace in data] == [trace["meta"]["role"] for trace in data]
    return {trace["uid"]: trace for trace in data}


def ticks(figure):
    """Return the y axis' labels as a reader sees them, the outside line and the rest left out."""
    texts = figure.layout.yaxis.ticktext[:-2]
    bare = [
        text.replace('<span style="opacity:0.62">', "").replace("</span>", "") for text in texts
    ]
    return [text.split("\u00a0")[-1] for text in bare]


def text(figure):
    return [line.replace("\u00a0", " ").strip() for line in traces(figure)["text"]["text"]]


def test_labels_that_look_like_numbers_stay_labels():
    labels = ["1", "2", "2024", "1e1", "0x64", "-1", "·the"]
    seen, _ = see([0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05], labels=labels)
    figure = bars(seen, t=T)
    assert ticks(figure) == labels
    assert traces(figure)["final"]["x"][:7] == pytest.approx([0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05])
    figure.update_layout(template=None)
    axis = figure.layout.yaxis
    assert axis.type == "category"
    # Keys are never number-like, and every bar stands on a key of the axis.
    keys = traces(figure)["final"]["y"]
    assert keys[:7] == [f"id:{i}" for i in range(7)] and set(keys) <= set(axis.categoryarray)


def test_equal_labels_keep_bars_of_their_own():
    p = [0.4, 0.25, 0.2, 0.1, 0.05]
    seen, _ = see(p, labels=["�"] * 5)
    final = traces(bars(seen, t=T))["final"]
    assert final["customdata"] == [0, 1, 2, 3, 4, None]
    assert len(set(final["y"])) == 6
    assert sum(final["x"][:5]) == pytest.approx(1)


def test_zeros_are_shown_on_both_scales():
    # A third token that the model rules out, and one that top-k cut.
    for scale in ("linear", "log"):
        seen, _ = see([0.9, 0.1, 1e-9, 0.0], SamplingParams(top_k=2))
        figure = bars(seen, t=T, scale=scale)
        found = traces(figure)
        assert found["final"]["x"][:3] == pytest.approx([0.9, 0.1, None])
        assert text(figure)[2] == "1.0e-9  <i>cut by top-k</i>"
        raw = figure.to_json()
        assert "NaN" not in raw and "Infinity" not in raw
        if scale == "log":
            low = 10 ** figure.layout.xaxis.range[0]
            assert all(x >= low for x in found["text"]["x"])
            assert figure.layout.xaxis.type == "log"


def test_a_token_without_probability_says_zero():
    seen, _ = see([0.9, 0.1, 0.0], taken=2)
    for scale in ("linear", "log"):
        figure = bars(seen, t=T, scale=scale)
        assert text(figure)[2] == "0  <i>impossible for the model</i>  taken"
        final = traces(figure)["final"]
        assert final["x"][2] is None and final["y"][2] == "outside"
        assert "in the model 0 " in final["hovertext"][2]
    with pytest.raises(ValueError, match="scale must be one of linear, log, got 'sqrt'"):
        bars(seen, t=T, scale="sqrt")


def test_hostile_labels_are_literal_everywhere():
    n = len(HOSTILE)
    p = np.full(n, 1 / n)
    seen, logits = see(p, labels=HOSTILE, u=0.99)
    label = HOSTILE.__getitem__
    found = flips(logits, SamplingParams(), 0.99)
    step = Step(3, 0.5, -1.0, -1.0, 1, "sampled", SamplingParams(), n, 1.0)
    figures = [
        bars(seen, t=T),
        dice(seen, t=T, flips=found, label=label),
        zipf(logits, t=T, label=label),
        trajectory([step], t=T, label=label),
    ]
    for figure in figures:
        found = traces(figure).values()
        strings = [*(figure.layout.yaxis.ticktext or ())]
        for trace in found:
            strings += [*trace.get("text", []), *trace.get("hovertext", [])]
        for string in strings:
            bare = string.replace("<br>", "").replace("<i>", "").replace("</i>", "")
            bare = bare.replace('<span style="opacity:0.62">', "").replace("</span>", "")
            assert "<" not in bare and "$" not in bare and "%{" not in bare
            # Of entities only those of the escape itself are left.
            assert bare.count("&") == sum(bare.count(e) for e in ("&amp;", "&lt;", "&gt;", "&#"))
        assert not any("hovertemplate" in trace for trace in found)
    assert ticks(figures[0])[0] == "&lt;b&gt;" and ticks(figures[0])[4] == "&amp;lt;"
    hover = traces(figures[0])["final"]["hovertext"]
    assert "&lt;b&gt;" in hover[0] and hover[0].count("<br>") == 3


def test_a_large_vocabulary_makes_a_small_figure():
    logits = np.random.default_rng(1).normal(0, 3, 151_936)
    stages = shape(logits, SamplingParams())
    seen = view(logits, stages, SamplingParams(), 0.999, None, lambda i: f"token-{i}-{'x' * 20}")
    sizes = {}
    for scale in ("linear", "log"):
        figure = bars(seen, t=T, scale=scale)
        assert len(traces(figure)["final"]["x"]) == bars_module.SHOWN + 2  # drawn, rest
        sizes[scale] = len(figure.to_json())
    model, final = stages[0].logprobs, stages[-1].logprobs
    sizes["zipf"] = len(zipf(model, final, t=T, label=str).to_json())
    sizes["dice"] = len(dice(seen, t=T).to_json())
    sizes["ledger"] = len(ledger(seen, t=T).to_json())
    assert max(sizes.values()) < 30_000


def test_rest_holds_everything_that_is_not_listed():
    p = np.array([0.4, 0.3, 0.1, 0.1, 0.06, 0.04])
    seen, _ = see(p)
    figure = bars(seen, t=T, shown=3)
    assert text(figure)[-1] == "mass 0.200"
    assert figure.layout.yaxis.ticktext[-1] == "3 others"
    seen, _ = see(p, SamplingParams(top_k=3, dialect="llama.cpp"))
    figure = bars(seen, t=T, shown=2)
    # 0.1 of 0.8 is kept among the four unlisted ones: what counts now is 0.125.
    assert text(figure)[-1] == "mass 0.125"
    assert figure.layout.yaxis.ticktext[-1] == "4 others"
    found = traces(figure)
    assert found["raw"]["x"][-1] == pytest.approx(0.3) and found["masked"]["x"][-1] is None
    figure = bars(see(p, SamplingParams(top_k=2))[0], t=T, shown=2)
    assert text(figure)[-1] == "mass 0.300"
    assert traces(figure)["masked"]["x"][-1] == pytest.approx(0.3)


def test_a_rest_longer_than_the_axis_is_broken_off():
    seen, _ = see(np.full(200, 1 / 200))
    figure = bars(seen, t=T)
    high = figure.layout.xaxis.range[1]
    assert traces(figure)["final"]["x"][-1] == pytest.approx(high * bars_module.BREAK)
    assert text(figure)[-1] == "// mass 0.900"


def test_drawn_and_taken_are_marked():
    seen, _ = see([0.6, 0.3, 0.1], u=0.7, taken=2)
    found = traces(bars(seen, t=T))
    assert found["drawn"]["y"] == ["id:1"] and found["taken"]["y"] == ["id:2"]
    assert found["drawn"]["x"] == pytest.approx([0.3])
    seen, _ = see([0.6, 0.3, 0.1], u=0.7, taken=1)
    found = traces(bars(seen, t=T))
    assert found["drawn"]["y"] == ["id:1"] and found["taken"]["y"] == []


def test_draws_are_ticks_at_their_shares():
    seen, _ = see([0.6, 0.3, 0.1])
    figure = bars(seen, t=T, shown=2, draws={0: 55, 1: 35, 2: 10})
    assert traces(figure)["draws"]["x"] == pytest.approx([0.55, 0.35, 0.1])
    assert "share of 100 draws" in figure.layout.meta["subtitle"]
    assert "55 of 100 draws: 0.550" in traces(figure)["final"]["hovertext"][0]
    # The figure stands right of everything that is drawn in its line.
    assert traces(figure)["text"]["x"] == pytest.approx([0.6, 0.35, 0.1])


def test_ledger_adds_up_to_the_mass_cut():
    p = [0.5, 0.25, 0.125, 0.125]
    params = SamplingParams(top_k=3, top_p=0.8, dialect="llama.cpp")
    figure = ledger(see(p, params)[0], t=T, params=params)
    found = traces(figure)
    assert found["left"]["x"] == [4, 3, 2] and found["cut"]["x"] == [None, 1, 1]
    assert found["removed"]["text"] == ["", "−0.125", "−0.125"]
    assert list(figure.layout.yaxis.ticktext) == ["model", "top-k 3", "top-p 0.8"]
    assert "0.143 of what was left" in found["left"]["hovertext"][2]


def test_dice_meet_the_curve_in_the_drawn_token():
    seen, logits = see([0.5, 0.25, 0.15, 0.1], u=0.7)
    figure = dice(seen, t=T, flips=flips(logits, SamplingParams(), 0.7), label=lambda i: f"t{i}")
    found = traces(figure)
    assert found["cdf"]["x"] == [0, 1, 2, 3, 4]
    assert found["cdf"]["y"] == pytest.approx([0, 0.5, 0.75, 0.9, 1])
    assert (found["hit"]["x"], found["hit"]["y"]) == ([1], [0.7])
    assert found["interval"]["y"] == pytest.approx([0.5, 0.75])
    assert figure.layout.meta["title"] == "The dice: u = 0.700 lands on t1"
    assert "k\u00a0≤\u00a01" in figure.layout.meta["subtitle"]
    assert found["tail"]["x"] == []


def test_dice_beyond_the_shown_tokens_and_without_dice():
    seen, _ = see(np.full(100, 0.01), u=0.755)
    found = traces(dice(seen, t=T))
    n = len(seen["cdf"])
    assert found["hit"]["x"][0] > n and found["hit"]["y"] == [0.755]
    assert found["tail"]["y"] == pytest.approx([n / 100, 0.75, 0.76, 1])
    seen, _ = see([0.4, 0.6], SamplingParams(temperature=0), u=None)
    figure = dice(seen, t=T)
    assert figure.layout.meta["title"] == "No dice: greedy takes t1"
    assert traces(figure)["u"]["x"] == []


def test_riser_labels_never_meet():
    rng = np.random.default_rng(5)
    for _ in range(50):
        p = rng.dirichlet(np.full(30, 0.3))
        seen, _ = see(p, u=float(rng.random()))
        found = traces(dice(seen, t=T))["text"]
        levels = sorted(
            (
                y
                for y, side in zip(found["y"], found["textposition"], strict=True)
                if "right" in side
            )
        )
        assert all(b - a >= 0.109 for a, b in zip(levels, levels[1:], strict=False))


def test_zipf_is_exact_at_both_ends():
    p = np.sort(np.random.default_rng(2).dirichlet(np.full(5000, 0.2)))
    p /= p.sum()
    model = np.log(p)
    params = SamplingParams(top_k=70)
    final = shape(model, params)[-1].logprobs
    figure = zipf(model, final, t=T, drawn=4998)
    found = traces(figure)
    curve = dict(zip(found["model"]["x"], found["model"]["y"], strict=True))
    down = p[::-1]
    assert all(curve[rank] == pytest.approx(down[rank - 1], rel=1e-4) for rank in curve)
    assert {1, 2, 3, 10, 5000} <= set(curve) and len(curve) <= 120
    assert found["final"]["x"][-1] == 70
    assert found["final"]["y"][0] == pytest.approx(down[0] / down[:70].sum(), rel=1e-4)
    assert found["drawn"]["x"] == [2]
    nucleus = int((np.cumsum(down) < 0.9).sum()) + 1
    assert figure.layout.meta["title"].startswith(f"{nucleus:,} of 5,000 tokens hold")


def test_trajectory_counts_positions_from_the_prompt():
    params = SamplingParams()
    steps = [Step(i, 0.5, -1.0, -0.5 * i, 1, "sampled", params, 9, 1.5) for i in range(4)]
    figure = trajectory(steps, t=T, label=str, first=7, selected=9)
    found = traces(figure)
    assert found["surprisal"]["customdata"] == [7, 8, 9, 10]
    assert found["surprisal"]["y"] == [0, 0.5, 1.0, 1.5]
    assert found["selected"]["x"] == [9]
    assert figure.layout.meta["title"].startswith("A token surprised by 0.750 nats")
    long = trajectory(steps * 200, t=T, first=7)
    assert len(traces(long)["surprisal"]["x"]) == 400
    assert traces(long)["surprisal"]["x"][-1] == 806
    assert traces(trajectory([], t=T))["surprisal"]["x"] == []


def test_traces_are_the_same_whatever_happens():
    cases = [
        see([0.6, 0.3, 0.1])[0],
        see([1.0])[0],
        see([0.6, 0.3, 0.1], SamplingParams(temperature=0), u=None)[0],
        see(np.full(90, 1 / 90), SamplingParams(top_p=0.5, min_p=0.1), u=0.9, taken=80)[0],
    ]
    for seen in cases:
        for language in ("en", "zh"):
            t = translator(language)
            assert list(traces(bars(seen, t=t))) == ROLES["bars"]
            assert list(traces(bars(seen, t=t, scale="log", draws={0: 3}))) == ROLES["bars"]
            assert list(traces(ledger(seen, t=t))) == ROLES["ledger"]
            assert list(traces(dice(seen, t=t))) == ROLES["dice"]
    heights = {bars(seen, t=T).layout.height for seen in cases}
    assert len(heights) == 1  # the page doesn't jump from step to step
    with np.errstate(divide="ignore"):
        for p in ([0.7, 0.3], [1.0, 0.0]):
            assert list(traces(zipf(np.log(p), t=T))) == ROLES["zipf"]
    assert list(traces(trajectory([], t=T))) == ROLES["trajectory"]


def test_the_sketch(default_lm):
    ids = default_lm.encode(VILLAGE)
    logits = default_lm.logits(ids)[-1]
    stages = shape(logits, SKETCH, ids, 8)
    seen = view(logits, stages, SKETCH, 0.5118, None, default_lm.label)
    figure = bars(seen, t=T)
    assert figure.layout.meta["title"] == "8 of 49,152 tokens survive"
    assert ticks(figure)[:4] == ["·vast", "·bustling", "·mystical", "·distant"]
    assert text(figure)[:3] == ["0.349", "0.243  drawn", "0.208"]
    assert text(figure)[8:11] == [
        "0.0198  <i>cut by min-p</i>",
        "0.0185  <i>cut by min-p</i>",
        "0.0125  <i>cut by top-p</i>",
    ]
    found = flips(logits, SKETCH, 0.5118, ids, 8)
    meta = dice(seen, t=T, flips=found, label=default_lm.label).layout.meta
    assert meta["title"] == "The dice: u = 0.512 lands on ·bustling"
    assert meta["subtitle"].replace("\u00a0", " ") == (
        "the same dice draw ·vast at T < 0.468, k ≤ 2, p < 0.517, min\u2011p > 0.597; "
        "·mystical at T > 0.956"
    )
    assert len(figure.to_json()) < 15_000


def test_rest_of_the_golden_prompt(default_lm):
    logits = default_lm.logits(default_lm.encode("The capital of France is"))[-1]
    params = SamplingParams()
    seen = view(logits, shape(logits, params), params, 0.1, None, default_lm.label)
    found = traces(bars(seen, t=T, shown=4))
    # One line more than listed: no bar is out of scale, so the rest is drawn at its true length.
    assert found["final"]["x"][-1] == pytest.approx(0.140621, abs=1e-4)


def test_unchecked_figures_are_what_plotly_s_checks_would_make():
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(300, 0.1))
    seen, logits = see(p, SKETCH)
    stages = shape(logits, SKETCH)
    label = "t{}".format
    moves = flips(logits, SKETCH, 0.5, (), 0)
    drawn = {
        "bars": bars(seen, t=T, draws={int(p.argmax()): 7}),
        "log": bars(seen, t=T, scale="log"),
        "ledger": ledger(seen, params=SKETCH, t=T),
        "dice": dice(seen, u=0.5, flips=moves, label=label, t=T),
        "zipf": zipf(stages[0].logprobs, stages[-1].logprobs, label=label, t=T),
    }
    for name, figure in drawn.items():
        checked = go.Figure(figure.to_dict())
        texts = [pio.to_json(one, validate=False, remove_uids=False) for one in (figure, checked)]
        assert json.loads(texts[0]) == json.loads(texts[1]), name
