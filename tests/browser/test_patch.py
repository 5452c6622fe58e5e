"""Charts that are moved in place look as if Plotly had drawn them, also when it draws again."""

from itertools import pairwise
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
JS = Path(__file__).resolve().parents[2] / "assets" / "js"
T = translator()
LOGITS = np.sort(np.random.default_rng(4).normal(0, 2.6, 49_152))[::-1].astype(np.float32)
LABELS = [f"·{'<b>&$%{y}日本W'[: 2 + i % 9]}{i}" for i in range(60)]
START = SamplingParams(temperature=0.75, top_k=50, top_p=0.9, min_p=0.05)

# All that one sees: boxes, what is written, colours; and 200 points along each line.
LOOK = """(id) => {
  const div = document.getElementById(id), at = div.getBoundingClientRect();
  const lines = [...div.querySelectorAll("path.js-line")];
  const seen = [...lines, ...div.querySelectorAll(
      ".point > path, path.point, text, .xgrid, .ygrid")].map((e) => {
    const b = e.getBoundingClientRect(), s = getComputedStyle(e);
    const parts = [...e.children].map((c) => [c.textContent, getComputedStyle(c).fontStyle,
                                              getComputedStyle(c).opacity]);
    const fill = s.fill.replace(/url.*[#-](\\w+)"\\)/, "url($1)");
    return [[e.tagName, e.textContent, parts, fill, s.stroke, s.strokeWidth, s.textAnchor],
            lines.includes(e) ? [] : [b.left - at.left, b.top - at.top, b.width, b.height]];
  });
  const along = lines.map((e) => Array.from({ length: 201 }, (_, i) => {
    const p = e.getPointAtLength((i / 200) * e.getTotalLength());
    return [p.x, p.y];
  }));
  return [seen, along];
}"""


@pytest.fixture(scope="module")
def blank(browser):
    """A page with plotly.js and the page's own hand, two charts wide."""
    page = browser.new_page(viewport={"width": 700, "height": 1200})
    page.set_content("<body style='margin:0'><div id='mine'></div><div id='theirs'></div></body>")
    page.add_script_tag(path=PLOTLY)
    for name in ("page", "patch"):
        page.add_script_tag(path=JS / f"{name}.js")
    page.evaluate("""() => {
      window.made = (text) => { const f = JSON.parse(text); delete f.layout.title;
        f.layout.margin.t = f.layout.meta.top; f.layout.width = 351;
        for (const t of f.data) if (Array.isArray(t.text)) t.text = t.text.map((x) => x || "\\xa0");
        return f; };
      window.copy = (f) => structuredClone(f);
      window.drawn = (id, f) => Plotly.react(id, copy(f).data, copy(f).layout,
        { displayModeBar: false }).then(() => null);
    }""")
    yield page
    page.close()


def figure(name, params, u=0.512, scale="linear"):
    stages = shape(LOGITS, params)
    seen = view(LOGITS, stages, params, u, None, lambda i: LABELS[i % 60])
    if name == "bars":
        return bars(seen, t=T, scale=scale)
    if name == "dice":
        found = flips(LOGITS, params, u)
        return dice(seen, t=T, flips=found, label=lambda i: LABELS[i % 60])
    if name == "ledger":
        return ledger(seen, t=T, params=params)
    return zipf(stages[0].logprobs, stages[-1].logprobs, t=T, drawn=seen["drawn"]["id"])


def text(fig):
    return pio.to_json(fig, remove_uids=False)


def apart(line, other):
    """Return how far a point of a line is from the other line at most, in px."""
    a, b = np.array(line)[:, None], np.array(other)
    ends = b[1:] - b[:-1]
    length = np.maximum((ends**2).sum(-1), 1e-12)
    part = np.clip(((a - b[:-1]) * ends).sum(-1) / length, 0, 1)
    return np.sqrt(((b[:-1] + part[..., None] * ends - a) ** 2).sum(-1)).min(1).max()


def same(got, want):
    """Fail unless two charts look alike, but for a tenth of a pixel.

    Lines may be a pixel apart: Plotly leaves points of a long one out.
    """
    (seen, lines), (wanted, others) = got, want
    left = list(wanted)
    for kind, box in seen:
        near = [
            other
            for other in left
            if other[0] == kind and np.allclose(other[1], box, rtol=0, atol=0.1)
        ]
        assert near, (kind, box, [other for other in left if other[0] == kind])
        left.remove(near[0])
    assert not left
    assert all(max(apart(a, b), apart(b, a)) < 1 for a, b in zip(lines, others, strict=True))


def look(page, name):
    return page.evaluate(LOOK, name)


def move(page, was, now):
    """Draw ``was``, move it to ``now``; return whether the page could do it by itself."""
    return page.evaluate(
        """([was, now]) => { window.was = made(was); window.now = made(now);
        return drawn("mine", window.was).then(() => dp.patch(document.getElementById("mine"),
          window.now, window.was, () => copy(window.now).data)); }""",
        [text(was), text(now)],
    )


def redraw(page, which):
    page.evaluate(
        """(which) => { dp.unpatch(document.getElementById("mine"));
        return drawn("mine", window[which]); }""",
        which,
    )


def fresh(page, fig):
    page.evaluate(
        "(text) => { Plotly.purge('theirs'); return drawn('theirs', made(text)); }", text(fig)
    )
    return look(page, "theirs")


MOVES = {
    "a little warmer": dict(temperature=0.8),
    "colder": dict(temperature=0.72),
    "a longer nucleus": dict(top_p=0.93),
    "a short nucleus": dict(top_p=0.6),
    "few tokens": dict(top_k=6),
    "min-p cuts": dict(min_p=0.2),
}


@pytest.mark.parametrize("name", ["bars", "dice", "ledger", "zipf"])
@pytest.mark.parametrize("case", MOVES)
def test_moved_is_as_if_plotly_had_drawn_it(blank, name, case):
    was, now = figure(name, START), figure(name, START.replace(**MOVES[case]))
    steady = was.layout.xaxis.range == now.layout.xaxis.range or name == "dice"
    steady = steady and (name != "zipf" or was.layout.yaxis.range == now.layout.yaxis.range)
    assert move(blank, was, now) is steady
    if not steady:
        redraw(blank, "now")
    wanted = fresh(blank, now)
    same(look(blank, "mine"), wanted)
    assert wanted != fresh(blank, was)
    redraw(blank, "now")
    same(look(blank, "mine"), wanted)
    redraw(blank, "was")
    same(look(blank, "mine"), fresh(blank, was))


def test_a_logarithmic_axis_too(blank):
    was = figure("bars", START, scale="log")
    now = figure("bars", START.replace(top_k=5, temperature=0.76), scale="log")
    assert move(blank, was, now) is True
    same(look(blank, "mine"), fresh(blank, now))


def test_many_movements_in_a_row_leave_nothing_behind(blank):
    rng = np.random.default_rng(0)
    steps = [START] + [
        START.replace(top_k=int(rng.integers(3, 60)), top_p=float(rng.uniform(0.4, 0.95)))
        for _ in range(12)
    ]
    for name in ("bars", "dice", "zipf"):
        figures = [figure(name, params) for params in steps]
        blank.evaluate(
            "(text) => { window.was = made(text); return drawn('mine', was); }", text(figures[0])
        )
        for _, now in pairwise(figures):
            blank.evaluate(
                """(text) => { const now = made(text), div = document.getElementById("mine");
                if (!dp.patch(div, now, window.was, () => copy(now).data)) {
                  dp.unpatch(div);
                  drawn("mine", now);
                }
                window.was = now; }""",
                text(now),
            )
            same(look(blank, "mine"), fresh(blank, now))


REFUSED = {
    "the other scale": lambda: figure("bars", START, scale="log"),
    "another axis": lambda: figure("bars", START.replace(temperature=0.2)),
    "another chart": lambda: figure("dice", START),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_only_plotly_can_draw_is_left_to_it_untouched(blank, case):
    was = figure("bars", START)
    before = fresh(blank, was)
    assert move(blank, was, REFUSED[case]()) is False
    same(look(blank, "mine"), before)


def test_charts_that_do_not_say_so_are_left_to_plotly(blank):
    was, now = figure("bars", START), figure("bars", START.replace(temperature=0.8))
    now.layout.meta = {**now.layout.meta, "live": None}
    assert move(blank, was, now) is False


def test_other_tokens_are_left_to_plotly(blank):
    was, now = figure("bars", START), figure("bars", START.replace(temperature=0.8))
    for trace in now.data:
        trace.y = tuple("id:99" if key == "id:3" else key for key in trace.y)
    assert move(blank, was, now) is False
