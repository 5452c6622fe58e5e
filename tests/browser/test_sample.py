"""The Sample view as a visitor uses it: hand and keys, links, languages, two visitors at once."""

from io import BytesIO
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from playground.export import to_link
from tests.browser.demo_sample import MODELS, build

STRIP = "#dp-strip button"


@pytest.fixture
def page(serve, open_page):
    return ready(open_page(serve(build)))


def ready(page):
    """Wait for the first screen."""
    page.wait_for_selector("#dp-bars .bars path")
    return arrived(page)


def arrived(page):
    """Wait for the first answer, whatever tab is open."""
    page.wait_for_function("document.querySelector('#dp-sentence')?.textContent.length > 10")
    return page


def tokens(page):
    """The labels on the strip."""
    return page.eval_on_selector_all(STRIP, "all => all.map(b => b.textContent)")


def wait_tokens(page, count):
    page.wait_for_function(f"document.querySelectorAll('{STRIP}').length === {count}")
    return tokens(page)


def step(page, count=1):
    for _ in range(count):
        n = len(tokens(page))
        page.click("#dp-step")
        wait_tokens(page, n + 1)


def chart(page, name):
    """The figure that a chart shows now, with its traces by role."""
    return page.evaluate(
        "name => { const c = dp.charts[name].current; return {meta: c.layout.meta, traces:"
        " Object.fromEntries(c.data.map(t => [t.meta?.role ?? t.uid ?? t.name, t]))}; }",
        name,
    )


def title(page, name="dp-bars"):
    return page.inner_text(f"#{name} .dp-chart-title")


def type_in(page, selector, text):
    page.fill(f"{selector} textarea, {selector} input[type=text]", text)


def prompt(page, text):
    page.fill("#dp-prompt textarea", text)
    page.press("#dp-prompt textarea", "Tab")


def slide(page, field, value):
    box = page.locator(f"#dp-{field} input[type=number]")
    box.fill(str(value))
    box.press("Enter")
    box.press("Tab")


def toast(page):
    found = page.wait_for_selector(".toast-body", state="visible")
    return found.inner_text()


def test_steps_by_button_and_key_and_back(page):
    start = len(tokens(page))
    step(page, 2)
    page.click("#dp-bars .dp-chart-title")
    page.keyboard.press("ArrowRight")
    after = wait_tokens(page, start + 3)
    page.keyboard.press("ArrowLeft")
    wait_tokens(page, start + 2)
    page.click("#dp-redo")
    assert wait_tokens(page, start + 3) == after
    page.click("#dp-reset")
    wait_tokens(page, start)
    page.click("#dp-undo")
    assert wait_tokens(page, start + 3) == after


def test_typing_in_a_field_is_not_a_key(page):
    start = tokens(page)
    page.focus("#dp-force textarea, #dp-force input")
    page.keyboard.type("1 2")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(400)
    assert tokens(page) == start


def test_a_digit_and_a_click_take_that_candidate(page):
    n = len(tokens(page))
    rows = chart(page, "dp-bars")["traces"]["final"]["customdata"]
    page.click("#dp-bars .dp-chart-title")
    page.keyboard.press("3")
    wait_tokens(page, n + 1)
    label = page.evaluate("i => dp.strips['dp-strip'].tokens[i].id", n)
    assert label == rows[2]
    rows = chart(page, "dp-bars")["traces"]["final"]["customdata"]
    bar = page.locator("#dp-bars .bars .point path").first
    box = bar.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_timeout(150)
    page.mouse.down()
    page.mouse.up()
    wait_tokens(page, n + 2)
    assert page.evaluate("i => dp.strips['dp-strip'].tokens[i].id", n + 1) in rows
    assert page.evaluate("i => dp.strips['dp-strip'].tokens[i].source", n + 1) == "forced"


def test_a_forced_text_a_branch_and_the_way_back(page):
    n = len(tokens(page))
    page.fill("#dp-force textarea, #dp-force input", "wow")
    page.press("#dp-force textarea, #dp-force input", "Enter")
    first = wait_tokens(page, n + 3)
    page.locator(STRIP).nth(n + 1).click()
    page.wait_for_selector("#dp-rewind", state="visible")
    assert "Looking back" in page.inner_text("#dp-sentence")
    page.click("#dp-rewind")
    wait_tokens(page, n + 1)
    page.click("#dp-branches tbody tr")
    assert wait_tokens(page, n + 3) == first


def test_slider_values_reach_the_charts_without_a_forward(page):
    step(page)
    forwards = MODELS["default"].forwards
    slide(page, "top_k", 3)
    page.wait_for_function("dp.charts['dp-bars'].current.layout.meta.title.startsWith('3 of 96')")
    slide(page, "top_p", 1)
    slide(page, "min_p", 0)
    slide(page, "top_k", 0)
    page.wait_for_function("dp.charts['dp-bars'].current.layout.meta.title.includes('All 96')")
    final = chart(page, "dp-bars")["traces"]
    assert sum(p or 0 for p in final["final"]["x"]) == pytest.approx(1, abs=0.3)
    page.wait_for_timeout(700)
    assert MODELS["default"].forwards == forwards


def test_dragging_ends_on_the_last_value(page):
    slider = page.locator("#dp-temperature input[type=range]")
    box = slider.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.16, y)
    page.mouse.down()
    for i in range(25):
        page.mouse.move(box["x"] + box["width"] * (0.16 + 0.03 * i), y)
        page.wait_for_timeout(20)
    page.mouse.up()
    value = float(page.input_value("#dp-temperature input[type=number]"))
    assert value > 3
    page.wait_for_timeout(1500)
    names = page.evaluate(
        "dp.charts['dp-ledger'].figure.data.map(t => JSON.stringify(t)).join(' ')"
        " + JSON.stringify(dp.charts['dp-ledger'].figure.layout)"
    )
    assert f"temperature {value:.3g}" in names


def test_a_link_rebuilds_the_screen_elsewhere(page, open_page):
    step(page, 3)
    slide(page, "temperature", 1.3)
    page.wait_for_function("location.search.includes('state=')")
    page.wait_for_timeout(800)
    there = ready(open_page(page.url))
    wait_tokens(there, len(tokens(page)))
    assert tokens(there) == tokens(page)
    assert title(there) == title(page)
    assert there.input_value("#dp-temperature input[type=number]") == "1.3"
    assert there.inner_text("#dp-figures") == page.inner_text("#dp-figures")
    there.reload()
    assert wait_tokens(ready(there), len(tokens(page))) == tokens(page)
    # The tab and the language travel too.
    page.locator("[role=tab][data-tab-id=beam]:visible").first.click()
    page.wait_for_function("location.search.includes('tab=beam')")
    there = open_page(page.url, locale="zh-CN")
    there.wait_for_selector("[role=tab][data-tab-id=beam][aria-selected=true]")
    assert there.inner_text("#dp-beam-step") == "Step"


# Whole and well formed, and no settings for any model.
IMPOSSIBLE = to_link(
    {"prompt": {"text": "hi"}, "params": [], "steps": [], "now": {"banned_tokens": [10**9]}}
)


@pytest.mark.parametrize(
    "state",
    ["1.nonsense", "9.abc", "<script>alert(1)</script>", IMPOSSIBLE],
    ids=["nonsense", "version", "script", "impossible"],
)
def test_a_damaged_link_is_told_and_the_page_starts_afresh(serve, open_page, state):
    page = open_page(f"{serve(build)}/?state={state}")
    assert "can't be opened" in toast(page)
    step(ready(page))


def test_two_visitors_never_see_each_other(serve, open_page):
    url = serve(build)
    a, b = ready(open_page(url)), ready(open_page(url))
    prompt(a, "cats and cats")
    prompt(b, "dogs")
    n, m = len(wait_tokens(a, 13)), len(wait_tokens(b, 4))
    for _ in range(3):
        step(a)
        step(b)
    assert tokens(a)[:n] == list("cats·and·cats") and tokens(b)[:m] == list("dogs")
    assert len(tokens(a)) == n + 3 and len(tokens(b)) == m + 3
    assert len(tokens(ready(open_page(url)))) == len("Once upon a time, there was a")


def test_an_empty_prompt_offers_bos(page):
    prompt(page, "")
    page.wait_for_selector("#dp-start-bos", state="visible")
    assert "The prompt is empty" in page.inner_text("#dp-sentence")
    page.click("#dp-step")
    assert "The prompt is empty" in toast(page)
    page.click("#dp-start-bos")
    assert wait_tokens(page, 1) == ["<s>"]
    step(page)


def test_a_refusal_is_told_and_nothing_is_lost(page):
    step(page)
    before = tokens(page)
    page.click("#dp-rules button.label-wrap")
    page.fill("#dp-order textarea, #dp-order input", "top_k, nonsense")
    page.press("#dp-order textarea, #dp-order input", "Enter")
    page.wait_for_function(
        "document.querySelector('#dp-sentence').textContent.includes('nonsense')"
    )
    page.fill("#dp-order textarea, #dp-order input", "")
    page.press("#dp-order textarea, #dp-order input", "Enter")
    step(page)
    assert tokens(page)[: len(before)] == before


def test_run_and_stop(page):
    n = len(tokens(page))
    page.fill("#dp-length input[type=number]", "60")
    page.press("#dp-length input[type=number]", "Tab")
    page.click("#dp-run")
    page.wait_for_selector("#dp-stop", state="visible")
    page.wait_for_function(f"document.querySelectorAll('{STRIP}').length > {n + 3}")
    page.click("#dp-stop")
    page.wait_for_selector("#dp-run", state="visible")
    page.wait_for_timeout(600)
    count = len(tokens(page))
    page.wait_for_timeout(900)
    assert len(tokens(page)) == count < n + 60
    step(page)
    assert len(tokens(page)) == count + 1


def test_inspecting_a_token(page):
    page.fill("#dp-inspect textarea, #dp-inspect input", "q")
    page.press("#dp-inspect textarea, #dp-inspect input", "Enter")
    page.wait_for_selector("#dp-inspector tbody tr")
    text = page.inner_text("#dp-inspector")
    assert "model" in text and "rank" in text and "q (id" in text
    step(page)  # the table follows
    page.wait_for_function(
        "old => document.querySelector('#dp-inspector').innerText !== old", arg=text
    )
    assert "q (id" in page.inner_text("#dp-inspector")


def test_a_text_that_was_empty_once_is_drawn_when_it_is_not(page):
    texts = "[...document.querySelectorAll('#dp-ledger .textpoint text')].map(n => n.textContent)"
    for text, count in (("", 0), ("-0.5", 5)):
        page.evaluate(
            """text => { const chart = dp.charts["dp-ledger"];
              const removed = chart.current.data.find((trace) => trace.uid === "removed");
              chart.update({ traces: { removed: { text: removed.text.map(() => text) } } }); }""",
            text,
        )
        page.wait_for_timeout(500)
        assert page.evaluate(f"{texts}.filter(text => text === '-0.5').length") == count


def test_what_is_cut_stays_hatched_when_the_address_changes(page):
    """A hatch is named by an address, and the page's own address changes with every step."""
    slide(page, "top_p", 0.5)
    page.wait_for_function("dp.charts['dp-ledger'].current.data[1].x.some((x) => x > 0)")
    before = page.url
    slide(page, "top_p", 0.4)
    page.wait_for_function("(url) => location.href !== url", arg=before)
    page.wait_for_timeout(500)
    cut = "#dp-ledger .barlayer .trace:nth-child(2) path"
    widths = page.eval_on_selector_all(cut, "all => all.map(e => e.getBoundingClientRect().width)")
    shot = page.locator(cut).nth(int(np.argmax(widths))).screenshot()
    inside = np.asarray(Image.open(BytesIO(shot)).convert("L"), int)[4:-4, 4:-4]
    assert inside.max() - inside.min() > 20


def test_charts_of_a_hidden_tab_are_drawn_anew_when_it_is_shown(page):
    page.locator("button[role=tab]:visible", has_text="Read").first.click()
    page.wait_for_selector("#dp-bars", state="hidden")
    page.click("[data-tool=language]")
    page.wait_for_selector("button[role=tab]:visible:has-text('采样')")
    page.wait_for_function("dp.charts['dp-ledger'].current.layout.meta.title === '谁去除了什么'")
    page.locator("button[role=tab]:visible", has_text="采样").first.click()
    page.wait_for_selector("#dp-ledger .ytick text:has-text('模型')", state="attached")
    assert "预设" in page.inner_text("#dp-preset")


def test_switching_language_keeps_everything(page):
    step(page, 2)
    before = tokens(page)
    page.click("#dp-tools [data-tool=language]")
    page.wait_for_function("document.querySelector('#dp-step').textContent.includes('前进')")
    page.wait_for_function("dp.charts['dp-bars'].current.layout.meta.title.includes('词元')")
    assert tokens(page) == before
    assert "温度" in page.inner_text("#dp-temperature")
    page.reload()
    ready(page)
    page.wait_for_function("document.querySelector('#dp-step').textContent.includes('前进')")
    assert wait_tokens(page, len(before)) == before


def test_another_model_keeps_the_text_and_a_refused_one_changes_nothing(page):
    step(page, 2)
    before = tokens(page)
    choose(page, "no/such-model")
    assert "no model called" in toast(page)
    assert tokens(page) == before
    # The old model's name comes back after the words.
    page.wait_for_function("document.querySelector('#dp-model input').value !== 'no/such-model'")
    choose(page, "gpt2")
    page.wait_for_function("document.querySelectorAll('#dp-strip .dp-stale').length > 0")
    assert tokens(page) == before
    step(page)
    assert MODELS["gpt2"].forwards > 0


def choose(page, name):
    page.fill("#dp-model input", name)
    page.press("#dp-model input", "Enter")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 720), (375, 740), (900, 600)])
def test_nothing_overflows_or_jumps(serve, open_page, size, scheme):
    page = open_page(f"{serve(build)}/?__theme={scheme}", size=size)
    ready(page)
    step(page)
    heights = {n: page.locator(n).bounding_box()["height"] for n in ("#dp-bars", "#dp-dice")}
    page.evaluate("window.scrollTo(0, 120)")
    at = page.evaluate("scrollY")
    for _ in range(3):
        n = len(tokens(page))
        page.evaluate("document.querySelector('#dp-step').click()")
        wait_tokens(page, n + 1)
    assert page.evaluate("scrollY") == at
    for name, height in heights.items():
        assert page.locator(name).bounding_box()["height"] == pytest.approx(height, abs=1)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0]


def test_the_page_asks_no_other_host(page):
    hosts = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert hosts and {urlsplit(h).hostname for h in hosts if h.startswith("http")} == {"127.0.0.1"}


def search(page):
    """Make two steps in the Beam tab, which is open."""
    for n in (1, 2):
        page.click("#dp-beam-step")
        page.wait_for_function(
            "n => dp.charts['dp-beam-tree']?.current?.layout.meta.title.startsWith(`Step ${n}`)",
            arg=n,
        )


def test_a_link_opens_another_tab_as_it_was(page, open_page):
    step(page)
    page.click("[role=tab][data-tab-id=beam]")
    page.wait_for_selector("#dp-beam-step", state="visible")
    slide(page, "beam-num_beams", 3)
    search(page)
    told = page.inner_text("#dp-beam-tree .dp-chart-title")
    page.wait_for_function("location.search.includes('view=')")
    page.wait_for_timeout(1500)
    there = arrived(open_page(page.url))
    same = "told => document.querySelector('#dp-beam-tree .dp-chart-title')?.innerText === told"
    there.wait_for_function(same, arg=told)
    assert there.input_value("#dp-beam-num_beams input[type=number]") == "3"
    # The part belongs to its tab alone, and a reload keeps it.
    there.reload()
    arrived(there).wait_for_function(same, arg=told)
    there.click("[role=tab][data-tab-id=sample]")
    there.wait_for_function("!location.search.includes('view=')")


def test_a_damaged_part_of_a_link_is_told_and_the_tab_starts_afresh(page, open_page):
    url = page.url.replace("tab=sample", "tab=beam")
    there = arrived(open_page(url + "&view=1.nonsense"))
    assert "can't be opened" in toast(there)
    there.click("#dp-beam-step")
    there.wait_for_function("dp.charts['dp-beam-tree']?.current")


def test_while_a_link_is_opened_its_tab_takes_no_step_and_the_address_is_its_own(page, open_page):
    page.click("[role=tab][data-tab-id=beam]")
    search(page)
    page.wait_for_function("location.search.includes('view=')")
    page.wait_for_timeout(1500)
    there = open_page(page.url.split("?")[0])
    there.add_init_script("""
        const replace = history.replaceState;
        window.told = [];
        history.replaceState = function (state, title, url) {
          if (url) told.push(new URL(url, location.href).search);
          return replace.apply(this, arguments);
        };
    """)
    there.goto(page.url)
    there.wait_for_function("document.querySelector('.dp-busy.dp-shown')")
    assert there.inner_text(".dp-busy") == "Opening the link…"
    there.wait_for_function("document.body.dataset.tab === 'beam'")
    there.keyboard.press("ArrowRight")
    there.wait_for_function(
        "told => document.querySelector('#dp-beam-tree .dp-chart-title')?.innerText === told",
        arg=page.inner_text("#dp-beam-tree .dp-chart-title"),
    )
    there.wait_for_function("!document.querySelector('.dp-busy.dp-shown')")
    there.wait_for_timeout(1500)
    assert all("tab=beam" in one and "view=" in one for one in there.evaluate("told"))
    assert page.inner_text("#dp-beam-tree .dp-chart-title") == there.inner_text(
        "#dp-beam-tree .dp-chart-title"
    )


def test_a_dragged_slider_has_the_arrows_while_the_pointer_is_over_it(page):
    slider = page.locator("#dp-temperature input[type=range]")
    box = slider.bounding_box()
    count = len(tokens(page))
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2)
    before = float(slider.input_value())
    page.keyboard.press("ArrowRight")
    assert float(slider.input_value()) > before and len(tokens(page)) == count
    page.keyboard.press("1")  # other keys go on
    wait_tokens(page, count + 1)
    before = slider.input_value()
    page.mouse.move(900, 300)
    page.keyboard.press("ArrowRight")
    wait_tokens(page, count + 2)
    assert slider.input_value() == before


def test_the_name_of_a_language_chooses_it(page):
    page.click("#dp-tools .dp-en")
    page.wait_for_timeout(300)
    assert page.inner_text("#dp-step") == "Step"
    page.click("#dp-tools .dp-zh")
    page.wait_for_function("document.querySelector('#dp-step').innerText !== 'Step'")
