"""The Contrast tab as a visitor uses it: steps, clicks, sliders, a run; and that nothing moves."""

import pytest

from tests.browser.demo_sample import MODELS, build
from tests.browser.looks import clipped, low_contrast, overlaps, sideways

STRIP = "#dp-contrast-strip button.dp-token"
BOXES = ["strip", "step", "plane", "bars", "sentence", "seen", "expert-text", "amateur-text"]


def ready(page):
    page.wait_for_selector("#dp-bars .bars path")
    page.locator("button[role=tab]:visible", has_text="Contrast").first.click()
    page.wait_for_selector("#dp-contrast-bars .bars path")
    page.wait_for_function("document.querySelector('#dp-contrast-sentence').textContent.length > 9")
    return page


@pytest.fixture
def page(serve, open_page):
    return ready(open_page(serve(build)))


def count(page):
    return page.locator(STRIP).count()


def wait_count(page, n):
    page.wait_for_function(f"document.querySelectorAll('{STRIP}').length === {n}")


def step(page, times=1):
    for _ in range(times):
        n = count(page)
        page.click("#dp-contrast-step")
        wait_count(page, n + 1)


def trace(page, role, chart="plane"):
    return page.evaluate(
        "([c, r]) => dp.charts['dp-contrast-' + c].current.data.find((t) => t.uid === r)",
        [chart, role],
    )


def token(page, index):
    return page.evaluate("i => dp.strips['dp-contrast-strip'].tokens[i]", index)


def slide(page, name, value):
    box = page.locator(f"#dp-contrast-{name} input[type=number]")
    box.fill(str(value))
    box.press("Enter")
    box.blur()


def places(page):
    return {
        name: page.locator(f"#dp-contrast-{name}").bounding_box()["y"]
        + page.evaluate("window.scrollY")
        for name in BOXES
    }


def test_steps_clicks_digits_sliders_and_a_run(page):
    start = count(page)
    before = places(page)
    step(page, 2)
    page.click("#dp-contrast-plane .dp-chart-title")
    page.keyboard.press("ArrowRight")
    wait_count(page, start + 3)
    for name in ("expert", "contrast", "amateur"):
        page.wait_for_function(
            "id => document.querySelector(id).textContent === '3'",
            arg=f"#dp-contrast-{name}-figures dd",
        )

    # A bar and a digit take that candidate.
    wanted = trace(page, "score", "bars")["customdata"]
    page.keyboard.press("2")
    wait_count(page, start + 4)
    assert token(page, start + 3)["id"] == wanted[1]
    assert token(page, start + 3)["source"] == "forced"
    bar = page.locator("#dp-contrast-bars .bars .point path").first.bounding_box()
    wanted = trace(page, "score", "bars")["customdata"][0]
    page.mouse.move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
    page.wait_for_timeout(150)
    page.mouse.down()
    page.mouse.up()
    wait_count(page, start + 5)
    assert token(page, start + 4)["id"] == wanted

    # A slider moves the lines; the points and the text stay.
    line, cloud = trace(page, "best")["y"], trace(page, "plausible")
    slide(page, "amateur_weight", 0.4)
    page.wait_for_function(
        "y => JSON.stringify(dp.charts['dp-contrast-plane'].current.data"
        ".find((t) => t.uid === 'best').y) !== y",
        arg=page.evaluate("y => JSON.stringify(y)", line),
    )
    assert trace(page, "plausible")["x"] == cloud["x"] and count(page) == start + 5
    page.wait_for_selector("text=Reset starts the texts anew")

    # Back looks at the token before; Reset starts over; a run takes tokens and ends by itself.
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelectorAll('#dp-contrast-strip .dp-ahead').length === 1")
    page.click("#dp-contrast-reset")
    wait_count(page, start)
    slide(page, "amateur_weight", 1)
    page.locator("#dp-contrast-more button").first.click()
    slide(page, "length", 4)
    page.click("#dp-contrast-run")
    wait_count(page, start + 4)
    page.wait_for_selector("#dp-contrast-run", state="visible")
    assert places(page) == before

    # Space runs, and stops within a token.
    slide(page, "length", 40)
    page.click("#dp-contrast-plane .dp-chart-title")
    page.keyboard.press("Space")
    wait_count(page, start + 6)
    page.keyboard.press("Space")
    stopped = count(page)
    page.wait_for_timeout(900)
    assert count(page) <= stopped + 1
    assert page.is_visible("#dp-contrast-run") and not page.is_visible("#dp-contrast-stop")

    # The prompt is shared: when it changes, the texts start anew.
    page.fill("#dp-prompt textarea", "another prompt")
    page.press("#dp-prompt textarea", "Tab")
    found = page.wait_for_selector(".toast-body", state="visible")
    assert "start anew" in found.inner_text()
    wait_count(page, len("another prompt"))


def choose_other(page, name):
    box = page.locator("#dp-contrast-other input")
    box.fill(name)
    box.press("Enter")


def test_another_model_as_amateur_and_a_run_that_ends_with_its_page(page):
    start = count(page)
    page.locator("#dp-contrast-kind label", has_text="Another model").click()
    page.wait_for_selector("#dp-contrast-sentence >> text=Choose a model in the panel")
    assert not page.locator("#dp-contrast-context").is_visible()
    choose_other(page, "gpt2")
    page.wait_for_selector("#dp-contrast-about >> text=loaded beside this one: gpt2")
    page.wait_for_selector("#dp-contrast-bars .bars path")
    step(page)
    choose_other(page, "nothing")
    assert "no model called 'nothing'" in page.wait_for_selector(".toast-body").inner_text()
    page.wait_for_selector("#dp-contrast-sentence >> text=Choose a model in the panel")
    assert page.input_value("#dp-contrast-other input") == ""

    page.locator("#dp-contrast-kind label", has_text="Early exit").click()
    wait_count(page, start)
    page.locator("#dp-contrast-more button").first.click()
    slide(page, "length", 60)
    page.click("#dp-contrast-run")
    wait_count(page, start + 2)
    page.goto("about:blank")
    page.wait_for_timeout(700)
    asked = MODELS["default"].forwards
    page.wait_for_timeout(700)
    assert MODELS["default"].forwards == asked


@pytest.mark.parametrize(("size", "theme"), [((375, 812), "dark"), ((1280, 720), "light")])
def test_nothing_overlaps_is_cut_or_scrolls_sideways(serve, open_page, size, theme):
    page = ready(open_page(f"{serve(build)}/?__theme={theme}", size))
    step(page, 3)
    page.evaluate("document.fonts.ready")
    page.wait_for_timeout(300)
    assert sideways(page) == 0
    assert not overlaps(page)
    assert not clipped(page)
    assert not low_contrast(page)


def test_it_speaks_chinese(serve, open_page):
    page = ready_zh(open_page(serve(build), locale="zh-CN"))
    assert "专家" in page.inner_text("#dp-contrast-plane .dp-chart-title")
    assert "短上下文" in page.inner_text("#dp-contrast-kind")
    assert not overlaps(page) and sideways(page) == 0


def ready_zh(page):
    page.wait_for_selector("#dp-bars .bars path")
    page.locator("button[role=tab]:visible", has_text="对比").first.click()
    page.wait_for_selector("#dp-contrast-bars .bars path")
    page.wait_for_function(
        "document.querySelector('#dp-contrast-plane .dp-chart-title').textContent.includes('专家')"
    )
    return page
