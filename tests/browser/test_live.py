"""Sliders, live: what is drawn while they move, what stays when they rest, what never comes back.

A small page with the Sample view's charts over a made-up distribution; its answers can be held up.
"""

from __future__ import annotations

import threading
import time
from functools import reduce
from operator import getitem
from pathlib import Path

import gradio as gr
import numpy as np
import pytest

from playground.charts import sampling as charts
from playground.charts.theme import LIGHT
from playground.dice import uniform
from playground.payload import payload, preview_params, view
from playground.processors import shape
from playground.records import SamplingParams
from playground.ui.components import PlotlyChart, launch_options
from playground.ui.live import Live
from playground.words import LANGUAGES, entries, translator
from tests.browser.test_patch import LOOK, same

JS = Path(__file__).resolve().parents[2] / "assets" / "js"
LOGITS = np.random.default_rng(3).normal(0, 2.6, 49_152).astype(np.float32)
IDS = [1, 2, 3, 2]
FIELDS = ("temperature", "top_k", "top_p", "min_p")
START = SamplingParams(temperature=0.8, top_p=0.9, seed=5)
U = uniform(START.seed, len(IDS))


class Server:
    """Answers as the Sample view does; ``hold`` keeps answers back, ``asked`` says for what."""

    def __init__(self):
        self.asked = []
        self.open = threading.Event()
        self.open.set()

    def answer(self, params):
        seq = time.time_ns() // 1000
        t = translator("en")
        stages = shape(LOGITS, params, IDS, 2)
        seen = view(LOGITS, stages, params, U, None, str)
        return [
            charts.bars(seen, t=t, seq=seq),
            charts.dice(seen, t=t, seq=seq),
            {
                "payload": payload(LOGITS, IDS, 2, U, None, str),
                "params": preview_params(params),
                "seq": seq,
            },
        ]

    def settle(self, event: gr.EventData):
        said = event._data["params"]
        params = START.replace(**{field: said[field] for field in FIELDS})
        self.asked.append(params)
        found = self.answer(params)  # numbered when it was asked for, like a slow answer
        self.open.wait(20)
        return found

    def preset(self):
        params = START.replace(temperature=1.7, min_p=0.1)
        return [*self.answer(params), *(getattr(params, field) for field in FIELDS)]


SERVER = Server()


def build():
    with gr.Blocks(analytics_enabled=False) as demo:
        sliders = [
            gr.Slider(0, 5, START.temperature, step=0.01, elem_id="dp-temperature", buttons=[]),
            gr.Slider(0, 1000, START.top_k, step=1, elem_id="dp-top_k", buttons=[]),
            gr.Slider(0, 1, START.top_p, step=0.01, elem_id="dp-top_p", buttons=[]),
            gr.Slider(0, 1, START.min_p, step=0.01, elem_id="dp-min_p", buttons=[]),
        ]
        for slider in sliders:
            slider.interactive = True
        preset = gr.Button("preset", elem_id="dp-preset-button")
        bars, dice = PlotlyChart(elem_id="dp-bars"), PlotlyChart(elem_id="dp-dice")
        live = Live()
        out = [bars, dice, live]
        quick = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
        demo.load(lambda: SERVER.answer(START), None, out, **quick)
        live.settle(SERVER.settle, None, out, trigger_mode="multiple", **quick)
        preset.click(SERVER.preset, None, [*out, *sliders], **quick)
    return demo, launch_options()


@pytest.fixture
def page(serve, open_page):
    SERVER.open.set()
    SERVER.asked.clear()
    page = open_page(serve(build))
    page.wait_for_function("window.dp?.live?.state?.value && dp.charts['dp-bars']?.current")
    page.wait_for_selector("#dp-bars .bars path")
    yield page
    SERVER.open.set()


def finals(params):
    """The bars' final probabilities, exact."""
    figure = charts.bars(
        view(LOGITS, shape(LOGITS, params, IDS, 2), params, U, None, str), t=translator("en")
    )
    return trace(figure, "final")["x"]


def trace(figure, role):
    return next(t for t in figure.to_dict()["data"] if t["uid"] == role)


SHOWN = "dp.charts['dp-bars'].current.data.find((t) => t.uid === 'final').x"
# The same as it stands on the page, read from the bars' lengths.
PAINTED = """(() => {
  const plot = document.querySelector("#dp-bars .dp-chart-plot");
  const width = plot.querySelector(".nsewdrag").getAttribute("width");
  return [...plot.querySelectorAll(".barlayer > .trace:first-child .point > path")].map((bar) =>
    (/H([\\d.]+)/.exec(bar.getAttribute("d"))[1] / width) * plot.layout.xaxis.range[1]);
})()"""
PIXEL = 0.002  # no bar is shorter


def near(got, want, by):
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert (one or 0) == pytest.approx(other or 0, abs=by)


def shows(page, params):
    """Fail unless the bars have the exact probabilities, and are painted as long."""
    near(page.evaluate(SHOWN), finals(params), 1e-12)
    near(page.evaluate(PAINTED), finals(params), PIXEL)


def settled(page):
    page.wait_for_function("!dp.live.state.waiting")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")


def drag(page, field, value):
    """Move a slider's handle with the mouse-made event: native input, without release."""
    page.evaluate(
        """([field, value]) => {
            const slider = document.querySelector(`#dp-${field} input[type=range]`);
            slider.value = value;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
        }""",
        [field, value],
    )


def test_a_moved_slider_is_previewed_before_python_answers_and_then_exact(page):
    SERVER.open.clear()
    drag(page, "temperature", 1.6)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    want = START.replace(temperature=1.6)
    near(page.evaluate(SHOWN), finals(want), 0.001)
    near(page.evaluate(PAINTED), finals(want), PIXEL)
    assert page.evaluate(SHOWN) != finals(want)
    page.wait_for_timeout(300)
    assert SERVER.asked == [want]
    SERVER.open.set()
    settled(page)
    shows(page, want)


def test_a_movement_alone_is_asked_for_before_a_slider_could_rest(page):
    asked = page.evaluate(
        """async () => {
            let asked = 0;
            const fetch = window.fetch;
            window.fetch = (...all) => { asked += 1; return fetch(...all); };
            const slider = document.querySelector("#dp-temperature input[type=range]");
            slider.value = 1.6;
            slider.dispatchEvent(new Event("input", {bubbles: true}));
            await new Promise((done) => setTimeout(done, 40));
            window.fetch = fetch;
            return asked;
        }"""
    )
    settled(page)
    assert asked == 1 and SERVER.asked == [START.replace(temperature=1.6)]


def test_many_movements_are_few_questions_and_end_on_the_last_value(page):
    for i in range(40):
        drag(page, "top_p", round(0.9 - i * 0.02, 2))
        page.wait_for_timeout(8)
    settled(page)
    page.wait_for_timeout(300)
    assert len(SERVER.asked) <= 8 and SERVER.asked[-1].top_p == pytest.approx(0.12)
    shows(page, START.replace(top_p=0.12))


def test_an_answer_from_before_the_last_movement_is_never_seen(page):
    SERVER.open.clear()
    drag(page, "temperature", 2.0)
    page.wait_for_function("true")
    deadline = time.time() + 10
    while not SERVER.asked and time.time() < deadline:
        page.wait_for_timeout(20)
    assert SERVER.asked == [START.replace(temperature=2.0)]
    drag(page, "temperature", 0.4)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.evaluate(
        f"""() => {{
            window.seen = [];
            const look = () => {{ seen.push({PAINTED}[0]); requestAnimationFrame(look); }};
            look();
        }}"""
    )
    page.wait_for_timeout(200)
    SERVER.open.set()  # now the answer for 2.0 comes
    settled(page)
    page.wait_for_timeout(500)
    seen = page.evaluate("seen")
    shows(page, START.replace(temperature=0.4))
    want = finals(START.replace(temperature=0.4))
    assert len(seen) > 10
    assert max(abs(x - want[0]) for x in seen) < 0.001
    assert SERVER.asked[-1].temperature == 0.4


def test_moving_back_shows_the_exact_numbers_at_once(page):
    SERVER.open.clear()
    drag(page, "min_p", 0.3)
    drag(page, "min_p", 0)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shows(page, START)


def test_typed_numbers_and_arrow_keys_count_as_movements(page):
    number = page.locator("#dp-top_k input[type=number]")
    number.fill("7")
    number.press("Tab")
    settled(page)
    shows(page, START.replace(top_k=7))
    page.locator("#dp-top_k input[type=range]").press("ArrowLeft")
    settled(page)
    shows(page, START.replace(top_k=6))


def test_what_python_does_to_the_sliders_stands(page):
    page.click("#dp-preset-button")
    page.wait_for_function("dp.live.state.value.params.min_p === 0.1")
    settled(page)
    shows(page, START.replace(temperature=1.7, min_p=0.1))
    page.wait_for_timeout(300)
    assert SERVER.asked == []


@pytest.mark.parametrize("how", ["light", "dark", "projector"])
def test_moved_charts_are_what_plotly_draws_when_they_are_touched(page, how):
    page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", how == "dark")
    page.evaluate("(is) => dp.setLarge(is)", how == "projector")
    page.wait_for_timeout(300)
    before = page.evaluate(LOOK, "dp-bars")
    drag(page, "top_p", 0.6)
    settled(page)
    page.wait_for_function("document.querySelectorAll('.dp-ahead').length === 2")
    moved = {name: page.evaluate(LOOK, name) for name in ("dp-bars", "dp-dice")}
    assert moved["dp-bars"] != before
    for name, look in moved.items():
        page.hover(f"#{name} .dp-chart-title")
        assert not page.query_selector(f"#{name} .dp-ahead")
        same(look, page.evaluate(LOOK, name))
    page.hover("#dp-bars .nsewdrag", position={"x": 60, "y": 10})
    exact = finals(START.replace(top_p=0.6))[0]
    said = page.wait_for_selector("#dp-bars .hoverlayer text").text_content()
    assert f"{exact:.3f}" in said


def test_plotly_follows_when_the_charts_rest(page):
    drag(page, "temperature", 0.7)
    page.wait_for_function("document.querySelectorAll('.dp-ahead').length === 2")
    page.wait_for_function("!document.querySelector('.dp-ahead')")
    drawn = page.evaluate("dp.charts['dp-bars'].plot.data.find((t) => t.uid === 'final').x")
    near(drawn, finals(START.replace(temperature=0.7)), 1e-12)


# ---- the drawing functions ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def blank(browser):
    context = browser.new_context()
    page = context.new_page()
    page.evaluate("(light) => { window.dpConfig = {light}; }", LIGHT)
    for name in ("page", "sample_charts"):
        page.add_script_tag(path=JS / f"{name}.js")
    yield page
    context.close()


STATES = {
    "nothing cut": ({}, None, 0.3),
    "hot": ({"temperature": 2.5}, None, 0.999),
    "cut": ({"top_p": 0.4, "min_p": 0.01}, None, 0.3),
    "a few": ({"top_k": 5}, 12, 0.95),
    "one": ({"temperature": 0.0}, 30_000, 0.3),
    "typical": ({"typical_p": 0.3}, None, 0.05),
    "taken below the list": ({"top_k": 3}, int(np.argsort(-LOGITS)[22]), 0.7),
}
NAMES = ["<b>", "$x$", "%{y}", "你好，世界你好世界", " the", "a\nb", "&amp;", "2024", "长" * 20]


def name(token_id):
    return NAMES[token_id % len(NAMES)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("state", STATES)
def test_the_browser_draws_what_python_draws(blank, state, scale, language):
    t = translator(language)
    words = {
        key.removeprefix("sample."): texts[language]
        for key, texts in entries().items()
        if key.startswith("sample.")
    }
    changes, taken, u = STATES[state]
    params = SamplingParams(**changes)
    first = SamplingParams(top_k=4)
    before = view(LOGITS, shape(LOGITS, first, IDS, 2), first, u, taken, name)
    after = view(LOGITS, shape(LOGITS, params, IDS, 2), params, u, taken, name)
    for kind, old, new in (
        ("bars", charts.bars(before, t=t, scale=scale), charts.bars(after, t=t, scale=scale)),
        ("dice", charts.dice(before, t=t), charts.dice(after, t=t)),
    ):
        got = blank.evaluate(
            "([kind, view, figure, words]) => dp.sampleCharts[kind](view, figure, (k) => words[k])",
            [kind, after, old.to_plotly_json() | {"layout": old.layout.to_plotly_json()}, words],
        )
        meta = new.layout.meta
        assert (got["title"], got["subtitle"]) == (meta["title"], meta["subtitle"])
        assert set(got["traces"]) == {trace["uid"] for trace in old.to_dict()["data"]}
        for role, changed in got["traces"].items():
            same_trace(changed, trace(new, role), f"{kind}.{role}")
        for path, value in got["layout"].items():
            axis, key = path.split(".")
            want = new.to_dict()["layout"][axis][key]
            if key == "ticktext":
                assert value == list(want), path
            else:
                assert value == pytest.approx(list(want)), path


def same_trace(changed, want, at):
    for path, value in changed.items():
        if path == "hovertext":  # left to Python
            continue
        want_value = reduce(getitem, path.split("."), want)
        if path in ("x", "y") and value and not isinstance(value[0], str):
            near(value, list(want_value), 1e-9)
        else:
            assert value == list(want_value), f"{at}.{path}"
