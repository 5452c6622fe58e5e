"""The step's charts as Chromium draws them: bars, literal labels, nothing overlaps or is cut."""

from pathlib import Path

import numpy as np
import plotly
import plotly.io as pio
import pytest

from playground.charts.sampling import bars, dice, ledger, zipf
from playground.explain import flips
from playground.payload import view
from playground.processors import shape
from playground.records import SamplingParams
from playground.words import translator

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
NUMBERS = ["1", "2", "2024", "1e1", "0x64", "-1", "·the"]
HOSTILE = ["<b>", "<br>", "</", "<sup>x</sup>", "&lt;", '<a href="javascript:1">', "$x^2$", "%{y}"]
BOXES = """() => [...document.querySelectorAll('svg text')].filter(e => e.textContent.trim())
  .map(e => { const b = e.getBoundingClientRect();
    return [e.textContent, b.left, b.top, b.right, b.bottom]; })"""


@pytest.fixture(scope="module")
def blank(browser):
    """A page that has plotly.js, loaded once."""
    page = browser.new_page(viewport={"width": 700, "height": 700})
    page.set_content("<body style='margin:0'><div id='chart'></div></body>")
    page.add_script_tag(path=PLOTLY)
    yield page
    page.close()


@pytest.fixture
def draw_figure(blank):
    """Return draw_figure(figure, width) -> the page with the figure drawn at that width."""
    errors = []

    def failed(error):
        errors.append(str(error))

    def logged(entry):
        if entry.type == "error":
            errors.append(entry.text)

    def draw(figure, width=620):
        blank.evaluate(
            """([text, width]) => { const f = JSON.parse(text); delete f.layout.title;
            f.layout.margin.t = f.layout.meta.top; f.layout.width = width;
            const drawn = Plotly.newPlot('chart', f.data, f.layout, {displayModeBar: false});
            return drawn.then(() => null); }""",
            [pio.to_json(figure, remove_uids=False), width],
        )
        return blank

    blank.on("pageerror", failed)
    blank.on("console", logged)
    yield draw
    blank.remove_listener("pageerror", failed)
    blank.remove_listener("console", logged)
    assert not errors


def see(logits, params, u, labels=None, taken=None):
    label = labels.__getitem__ if labels else lambda i: f"·token{i}"
    return view(logits, shape(logits, params), params, u, taken, label)


def seen_labels(page):
    """Return the bars' labels, the rest's left out, as text."""
    texts = page.eval_on_selector_all(".ytick text", "els => els.map(e => e.textContent)")
    return [text.split("\u00a0")[-1] for text in texts if text.strip()][:-1]


@pytest.mark.parametrize("labels", [NUMBERS, HOSTILE], ids=["numbers", "hostile"])
def test_every_token_gets_its_bar_and_its_label_as_typed(draw_figure, labels):
    p = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05, 0.02][: len(labels)])
    seen = see(np.log(p / p.sum()), SamplingParams(), 0.99, labels)
    page = draw_figure(bars(seen, t=translator()))
    assert seen_labels(page) == [x if len(x) <= 14 else x[:13] + "…" for x in labels]
    drawn = page.eval_on_selector_all(
        ".barlayer .trace:first-child path", "els => els.map(e => e.getBoundingClientRect().width)"
    )
    long = [w for w in drawn if w > 0]
    assert len(long) == len(labels)
    assert np.allclose(np.array(long) / long[0], p / p[0], atol=0.02)
    assert page.query_selector("svg a, svg .math-group") is None


def test_zero_is_visible_on_a_log_axis(draw_figure):
    with np.errstate(divide="ignore"):
        logits = np.log([0.9, 0.1, 0.0])
    page = draw_figure(
        bars(see(logits, SamplingParams(), 0.1, taken=2), t=translator(), scale="log")
    )
    boxes = {text.replace("\u00a0", " ").strip(): box for text, *box in page.evaluate(BOXES)}
    zero = boxes["0  impossible for the model  taken"]
    assert 164 <= zero[0] < 200


def overlaps(boxes):
    """Return pairs of texts whose boxes overlap by more than the air around the letters."""
    found = []
    for i, (a, *box) in enumerate(boxes):
        for b, *other in boxes[i + 1 :]:
            across = min(box[2], other[2]) - max(box[0], other[0])
            down = min(box[3], other[3]) - max(box[1], other[1])
            if across > 1 and down > 4:
                found.append((a, b))
    return found


CASES = {
    "sketch": SamplingParams(temperature=0.8, top_k=50, top_p=0.9, min_p=0.05),
    "open": SamplingParams(),
    "hot": SamplingParams(temperature=2.5),
    "greedy": SamplingParams(temperature=0),
}


@pytest.mark.parametrize(
    ("case", "width", "language"),
    [
        ("sketch", 351, "zh"),
        ("sketch", 620, "en"),
        ("open", 351, "en"),
        ("hot", 351, "en"),
        ("hot", 620, "zh"),
        ("greedy", 351, "zh"),
    ],
)
def test_no_text_overlaps_or_is_cut(draw_figure, case, width, language):
    logits = np.sort(np.random.default_rng(4).normal(0, 2.6, 49_152))[::-1].copy()
    params, t = CASES[case], translator(language)
    u = None if case == "greedy" else 0.512
    labels = [f"·{'mwi日本語W<b>'[: 2 + i % 9]}{i}" for i in range(len(logits))]
    seen = see(logits, params, u, labels)
    found = flips(logits, params, u) if u else None
    stages = shape(logits, params)
    figures = {
        "bars": bars(seen, t=t),
        "dice": dice(seen, t=t, flips=found, label=labels.__getitem__),
        "ledger": ledger(seen, t=t, params=params),
        "zipf": zipf(stages[0].logprobs, stages[-1].logprobs, t=t),
    }
    for name, figure in figures.items():
        edge = width if name == "bars" else 351
        boxes = draw_figure(figure, edge).evaluate(BOXES)
        assert not overlaps(boxes), name
        cut = [text for text, left, _, right, _ in boxes if left < 0 or right > edge + 1]
        assert not cut, name
