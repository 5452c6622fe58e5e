"""Charts, strip, keys and tools in a browser: what Python sends is what the page shows."""

from __future__ import annotations

import re

import pytest

from tests.browser.demo_components import HOSTILE, STORY, build
from tests.browser.looks import clipped, low_contrast, overlaps, sideways

pytestmark = pytest.mark.browser

DRAWN = "#bars .bars path"


@pytest.fixture
def page(serve, open_page):
    page = open_page(serve(build) + "/?__theme=light")
    page.wait_for_selector(DRAWN)
    page.wait_for_function("document.querySelectorAll('#curve .scatterlayer path').length > 0")
    return page


def log(page) -> str:
    return page.input_value("#log textarea")


def wait_log(page, text: str) -> None:
    page.wait_for_function(
        "(text) => document.querySelector('#log textarea').value.startsWith(text)", arg=text
    )


def title(page, chart="bars") -> str:
    return page.inner_text(f"#{chart} .dp-chart-title")


def ticks(page, axis="y") -> list[str]:
    return page.locator(f"#bars .{axis}axislayer-above text").all_text_contents()


def center(page, selector: str, index: int = 0):
    box = page.locator(selector).nth(index).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def frames(page, n: int = 3) -> None:
    page.evaluate(
        "(n) => new Promise((r) => { const f = () => n-- ? requestAnimationFrame(f) : r(); f(); })",
        n,
    )


# --- charts


def test_bars_are_as_long_as_the_probabilities_say(page):
    boxes = [page.locator(DRAWN).nth(i).bounding_box()["width"] for i in range(3)]
    scale = boxes[0] / 0.5
    assert [round(width / scale, 2) for width in boxes] == [0.5, 0.3, 0.2]
    drawn = page.evaluate("Array.from(dp.charts.bars.plot._fullData[0].x)")
    assert drawn == [0.5, 0.3, 0.2]


def test_number_like_tokens_stay_apart_in_their_order(page):
    page.click("#back")
    page.wait_for_function(f"document.querySelectorAll('{DRAWN}').length === 21")
    assert ticks(page) == ["1", "2", "2024", "1e1", "0x64", "-1", " the"]
    assert page.evaluate("dp.charts.bars.plot._fullLayout.yaxis.type") == "category"
    tops = [page.locator(DRAWN).nth(i).bounding_box()["y"] for i in range(7)]
    assert tops == sorted(set(tops))
    assert page.evaluate("Array.from(dp.charts.bars.plot._fullData[2].x)") == [
        0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05,
    ]  # fmt: skip


def test_ids_with_equal_text_keep_bars_of_their_own(page):
    page.click("#twins")
    page.wait_for_function(f"document.querySelectorAll('{DRAWN}').length === 12")
    assert ticks(page) == ["�", "�", "�", " a"]
    widths = [page.locator(DRAWN).nth(i).bounding_box()["width"] for i in range(4)]
    assert [round(width / widths[0], 2) for width in widths] == [1, 0.75, 0.5, 0.25]
    page.mouse.move(*center(page, DRAWN, 2))
    page.wait_for_timeout(100)
    page.mouse.down()
    page.mouse.up()
    wait_log(page, "clicked")
    assert log(page) == "clicked 113"


def test_hostile_token_text_stays_text_everywhere(page):
    page.click("#hostile")
    page.wait_for_function(
        "document.querySelector('#bars .dp-chart-title').textContent === '<b>${1}'"
    )
    shown = ticks(page)
    assert len(shown) == len(HOSTILE)
    for token, tick in zip(HOSTILE, shown, strict=True):
        assert tick == token or (tick.endswith("…") and token.startswith(tick[:-1]))
    strip = page.locator("#strip .dp-token").all_text_contents()
    assert strip == [token.replace(" ", "·") for token in HOSTILE]
    assert page.locator("#figures .dp-figure-value").all_text_contents() == HOSTILE[:3]
    assert page.text_content("#sentence .dp-sentence") == HOSTILE[6] * 2
    assert page.evaluate("window.pwned") is None
    assert page.locator(".gradio-container img[src=x], #bars a, #strip b, #bars sup").count() == 0

    # Hover, too, shows the tags instead of obeying them.
    page.mouse.move(*center(page, DRAWN, 4))
    page.wait_for_selector("#bars .hoverlayer text")
    assert HOSTILE[4] in page.locator("#bars .hoverlayer").text_content()
    assert page.locator("#bars .hoverlayer [baseline-shift], #bars .hoverlayer sup").count() == 0


def test_a_click_on_a_bar_brings_its_token_id_to_python(page):
    page.mouse.move(*center(page, DRAWN, 1))
    page.wait_for_timeout(100)
    page.mouse.down()
    page.mouse.up()
    wait_log(page, "clicked")
    assert log(page) == "clicked 8"


def test_zoom_survives_an_update(page):
    page.evaluate("dp.charts.curve.plot.dpSame = true")
    box = page.locator("#curve .nsewdrag").bounding_box()
    x, y = box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + box["width"] * 0.4, y + box["height"] * 0.5, steps=4)
    page.mouse.up()
    page.wait_for_function("dp.charts.curve.plot._fullLayout.xaxis.range[1] < 9")
    before = page.evaluate("dp.charts.curve.plot._fullLayout.xaxis.range")
    page.click("#step")
    page.wait_for_function("location.search.includes('state=1')")  # a click meanwhile is dropped
    page.click("#step")
    page.wait_for_function("dp.charts.curve.plot._fullData[0].x.length === 41")
    assert page.evaluate("dp.charts.curve.plot._fullLayout.xaxis.range") == before
    assert page.evaluate("dp.charts.curve.plot.dpSame && dp.charts.curve.plot.isConnected")


def test_an_older_answer_never_replaces_a_newer_one(page):
    page.click("#new")
    page.wait_for_function(
        "document.querySelector('#bars .dp-chart-title').textContent === 'newer'"
    )
    with page.expect_response(re.compile("queue/join|/run/|/call/|/api/")):
        page.click("#old")
    page.click("#step")  # an answer after the old one's
    page.wait_for_function("document.querySelector('#sentence').textContent.includes('word 1')")
    frames(page)
    assert title(page) == "newer"


def test_live_changes_last_until_the_next_figure(page):
    page.evaluate(
        """dp.charts.bars.update({traces: {final: {x: [0.1, 0.2, 0.7], "marker.color": "#D55E00"}},
                                   layout: {"xaxis.range": [0, 1]}, title: "live"})"""
    )
    page.wait_for_function("dp.charts.bars.plot._fullData[0].x[2] === 0.7")
    assert title(page) == "live"
    assert page.evaluate("dp.charts.bars.plot._fullLayout.xaxis.range") == [0, 1]
    assert page.evaluate("dp.charts.bars.figure.data[0].x") == [0.5, 0.3, 0.2]
    page.click("#back")
    page.wait_for_function("dp.charts.bars.plot._fullData[0].x.length === 7")
    assert page.evaluate("dp.charts.bars.plot._fullData[0].marker.color") == "#0072B2"


def test_an_empty_chart_says_why_and_keeps_its_height(page):
    height = page.locator("#bars .dp-chart-body").bounding_box()["height"]
    page.click("#clear")
    page.wait_for_selector("#bars .dp-is-empty")
    assert page.inner_text("#bars .dp-chart-message") == "Nothing <b>here</b>"
    assert page.locator("#bars .dp-chart-body").bounding_box()["height"] == height
    assert page.inner_text("#strip .dp-strip-message") != ""
    page.click("#back")
    page.wait_for_function("!document.querySelector('#bars .dp-is-empty')")
    assert page.locator(DRAWN).first.is_visible()


def test_a_chart_names_itself_for_screen_readers(page):
    plot = page.locator("#bars .dp-chart-plot")
    assert plot.get_attribute("role") == "img"
    assert plot.get_attribute("aria-label") == "3 of 3 tokens survive"
    described = plot.get_attribute("aria-describedby")
    assert page.text_content(f"#{described}") == " a 0.500;  b 0.300;  c 0.200"


def test_dark_takes_the_dark_partner_of_each_colour(page):
    fill = "getComputedStyle(document.querySelector('#bars .bars path')).fill"
    assert page.evaluate(fill) == "rgb(0, 114, 178)"
    page.click("#hostile")
    page.wait_for_selector("#bars text:has-text('#FFFFFF')", state="attached")
    page.click("[data-tool=theme]")
    page.wait_for_function(f"{fill} === 'rgb(86, 180, 233)'")
    assert "#FFFFFF" in ticks(page)  # a token, not a colour
    ink = page.evaluate("getComputedStyle(document.querySelector('.dp-brand')).color")
    assert ink == "rgb(232, 230, 225)"
    page.goto(page.url.split("?")[0])  # remembered
    page.wait_for_function(f"document.querySelector('{DRAWN}') && {fill} === 'rgb(86, 180, 233)'")


def test_a_tab_opened_late_fills_its_width(page):
    page.click("button[role=tab]:has-text('Late')")
    page.wait_for_selector("#late .scatterlayer path")
    page.click("button[role=tab]:has-text('Sample')")
    page.set_viewport_size({"width": 1000, "height": 800})
    page.focus("#temperature input[type=number]")
    page.mouse.click(*center(page, "#temperature input[type=range]"))  # updates the hidden chart
    page.wait_for_function("dp.charts.late.figure.data[0].x.length === 30")
    page.click("button[role=tab]:has-text('Late')")
    page.wait_for_function("dp.charts.late.plot._fullData[0].x.length === 30")
    wide = page.locator("#late .dp-chart-body").bounding_box()["width"]
    page.wait_for_function(
        "(w) => Math.abs(dp.charts.late.plot._fullLayout.width - w) <= 5", arg=wide
    )


# --- strip


def test_the_strip_shows_each_token_with_its_facts(page):
    tokens = page.locator("#strip .dp-token")
    assert tokens.all_text_contents() == STORY
    tokens.nth(6).hover()
    tip = page.locator("#strip .dp-tip")
    assert tip.is_visible()
    facts = tip.inner_text().split()
    p = page.evaluate("dp.strips.strip.tokens[6].p")
    assert str(page.evaluate("dp.strips.strip.tokens[6].id")) in facts
    assert f"{p:.3f}" in facts or f"{p:.4f}" in facts
    assert {"nats", "bits", "rank"} <= set(facts)


def test_surprising_tokens_are_stronger_and_thicker(page):
    scored = page.evaluate(
        """[...document.querySelectorAll('#strip .dp-scored')].map((button) => [
             dp.strips.strip.tokens[button.dpIndex].surprisal,
             ...['--s', '--u'].map((name) => parseFloat(button.style.getPropertyValue(name)))])"""
    )
    assert len(scored) > 3
    by_surprisal = sorted(scored)
    assert [row[1] for row in by_surprisal] == sorted(row[1] for row in scored)
    assert [row[2] for row in by_surprisal] == sorted(row[2] for row in scored)
    assert by_surprisal[0][2] < by_surprisal[-1][2]


def test_a_click_on_a_token_tells_its_place(page):
    page.locator("#strip .dp-token").nth(3).click()
    wait_log(page, "pick")
    assert log(page) == "pick 3 103"


def test_the_strip_is_one_tab_stop_and_arrows_move_inside(page):
    assert page.locator("#strip .dp-token[tabindex='0']").count() == 1
    page.locator("#strip .dp-token[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dpIndex") == 2
    assert page.locator("#strip .dp-tip").is_visible()
    page.wait_for_timeout(200)
    assert log(page) == ""  # not "key step": the arrows stayed in the strip
    page.keyboard.press("Enter")
    wait_log(page, "pick")
    assert log(page) == "pick 2 102"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.dpIndex") == len(STORY) - 1


def test_a_long_text_scrolls_inside_the_strip_only(page):
    height = page.locator("#strip .dp-strip").bounding_box()["height"]
    page.click("#many")
    page.wait_for_function("document.querySelectorAll('#strip .dp-token').length === 400")
    frames(page)
    top, room = page.evaluate(
        "(() => { const l = document.querySelector('.dp-strip-tokens');"
        " return [l.scrollTop, l.scrollHeight - l.clientHeight]; })()"
    )
    assert room > 100
    assert abs(top - room) < 12  # the newest is in view
    assert page.locator("#strip .dp-strip").bounding_box()["height"] == height


def test_a_vast_text_shows_what_is_around_the_cursor(page):
    page.click("#vast")
    page.wait_for_selector("#strip .dp-more")
    assert page.locator("#strip .dp-token").count() == 500
    assert page.inner_text("#strip .dp-more") == "… 1,500 earlier tokens"
    page.locator("#strip .dp-token").last.click()
    wait_log(page, "pick")
    assert log(page) == "pick 1999 2099"
    page.click("#clear")
    page.wait_for_selector("#strip .dp-is-empty")
    assert page.locator("#strip .dp-more").count() == 0


def test_marks_have_a_shape_beside_the_colour(page):
    page.click("#marks")
    page.wait_for_selector("#strip [data-source=bonus]")
    shapes = page.evaluate(
        """['accepted','rejected','recovered','bonus','forced'].map((s) => getComputedStyle(
             document.querySelector(`#strip [data-source=${s}]`), '::after').content)"""
    )
    assert len(set(shapes)) == 5
    assert "none" not in shapes
    assert page.locator("#strip .dp-special").count() == 2
    assert page.locator("#strip .dp-stale").count() == 1
    assert page.locator("#strip .dp-ahead").count() == 1
    assert page.locator("#strip [aria-current=step]").count() == 1


def test_twenty_steps_move_nothing(page):
    spots = (
        "['#step','#bars','#curve','#figures']"
        ".map((s) => document.querySelector(s).getBoundingClientRect().top)"
    )
    page.evaluate("scrollTo(0, 40)")
    before = page.evaluate(f"[scrollY, document.documentElement.scrollHeight, ...{spots}]")
    for i in range(20):
        page.evaluate("document.querySelector('#step').click()")
        page.wait_for_function(
            "(text) => document.querySelector('.dp-sentence').textContent === text",
            arg=f"Drew word {i + 1}.",
        )
    frames(page)
    assert page.evaluate(f"[scrollY, document.documentElement.scrollHeight, ...{spots}]") == before


# --- keys and tools


def test_keys_step_unless_the_reader_types(page):
    page.keyboard.press("ArrowRight")
    wait_log(page, "key step")
    page.keyboard.press("ArrowLeft")
    wait_log(page, "key back")
    page.keyboard.press("Space")
    wait_log(page, "key run")
    page.keyboard.press("3")
    wait_log(page, "digit 3")

    page.click("#prompt textarea")
    page.keyboard.type("12 ")
    page.keyboard.press("ArrowRight")
    page.focus("#temperature input[type=range]")
    page.keyboard.press("ArrowRight")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Control+ArrowRight")
    page.wait_for_timeout(300)
    assert log(page) == "digit 3"
    assert page.input_value("#temperature input[type=range]") == "0.81"

    page.click("button[role=tab]:has-text('Late')")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("4")
    page.wait_for_timeout(300)
    assert log(page) == "digit 3"  # the keys' tab is hidden


def test_the_question_mark_opens_the_sheet_of_keys(page):
    page.keyboard.press("?")
    sheet = page.locator("#dp-keys-sheet")
    assert sheet.is_visible()
    assert "take that candidate" in sheet.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert not sheet.is_visible()
    assert log(page) == ""


def test_language_switches_without_reload_and_is_remembered(page):
    page.click("[data-tool=language]")
    wait_log(page, "language zh")
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.inner_text("[data-tool=share]") == "分享"
    assert page.inner_text("#empty .dp-chart-message") == "走一步即可看到此图。"
    page.locator("#strip .dp-token").nth(6).hover()
    assert "概率" in page.inner_text("#strip .dp-tip")
    page.reload()
    page.wait_for_selector(DRAWN)
    assert page.inner_text("[data-tool=share]") == "分享"


def test_share_copies_a_link_to_the_state(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#step")
    page.wait_for_function("location.search.includes('state=1')")
    page.click("[data-tool=share]")
    wait_log(page, "shared")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.url
    assert "state=1" in copied
    assert page.inner_text("[data-tool=share]") == "Link copied"


def test_projector_size_enlarges_page_and_charts(page):
    label = "document.querySelector('#bars .yaxislayer-above text')"
    size = f"parseFloat(getComputedStyle({label}).fontSize)"
    before = page.evaluate(size)
    page.click("[data-tool=size]")
    page.wait_for_function(f"Math.abs({size} / {before} - 1.4) < 0.01")
    assert page.evaluate("getComputedStyle(document.documentElement).fontSize") == "22.4px"
    tabs = "[...document.querySelectorAll('[role=tab]')].filter((tab) => tab.clientWidth)"
    assert page.evaluate(f"{tabs}.length") >= 6
    assert not page.evaluate(
        f"{tabs}.filter((tab) => tab.scrollWidth > tab.clientWidth + 1).length"
    )
    assert sideways(page) == 0
    assert not overlaps(page)


# --- frame


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(375, 812), (900, 600), (1280, 800)])
def test_nothing_overlaps_is_cut_or_scrolls_sideways(serve, open_page, size, theme):
    page = open_page(f"{serve(build)}/?__theme={theme}", size)
    page.wait_for_selector(DRAWN)
    page.click("#marks")
    page.wait_for_selector("#strip [data-source=bonus]")
    page.evaluate("document.fonts.ready")
    frames(page)
    assert sideways(page) == 0
    assert not overlaps(page)
    assert not clipped(page)
    if size[0] < 400:  # the controls start closed, and open as a sheet
        assert page.locator("#strip").is_visible()
        page.click(".dp-sidebar .toggle-button")
        page.wait_for_timeout(100)
        box = page.locator("#prompt").bounding_box()
        assert box["x"] >= 0
        assert sideways(page) == 0


def test_the_page_can_be_reached_whole_in_a_small_frame(serve, open_page):
    url = serve(build)
    outer = open_page(url + "/theme.css", (1000, 700))  # any page of the same host
    outer.set_content(f'<iframe src="{url}/" width="900" height="600" id="space"></iframe>')
    frame = outer.frame_locator("#space")
    frame.locator(DRAWN).first.wait_for()
    inner = next(f for f in outer.frames if f.parent_frame)
    for i in range(3):
        inner.evaluate("document.querySelector('#step').click()")
        inner.wait_for_function(
            "(n) => document.querySelector('.dp-sentence').textContent.includes(n)",
            arg=f"word {i + 1}",
        )
    height = inner.evaluate("document.documentElement.scrollHeight")
    inner.evaluate("scrollTo(0, 1e6)")
    box = inner.evaluate("document.querySelector('footer').getBoundingClientRect().bottom")
    assert box <= 600
    inner.evaluate("scrollTo(0, 0)")
    assert inner.evaluate("document.querySelector('#strip').getBoundingClientRect().top") > 0
    outer.wait_for_timeout(1500)
    assert inner.evaluate("document.documentElement.scrollHeight") == height


def test_text_on_every_ground_is_legible(page):
    for theme in ("light", "dark"):
        if theme == "dark":
            page.click("[data-tool=theme]")
        page.click("#marks")
        page.wait_for_selector("#strip [data-source=bonus]")
        frames(page)
        low = low_contrast(page)
        assert not low, (theme, low)


def test_the_page_works_below_a_path(open_page):
    """A reverse proxy or another app may mount it: all addresses are relative."""
    import socket
    import threading
    import time

    import gradio as gr
    import uvicorn
    from fastapi import FastAPI

    demo, options = build()
    app = gr.mount_gradio_app(FastAPI(), demo, path="/play", **options)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        page = open_page(f"http://127.0.0.1:{port}/play/")
        page.wait_for_selector(DRAWN)
        assert page.locator("#strip .dp-token").count() == len(STORY)
        assert page.evaluate("document.fonts.check('700 16px \"IBM Plex Sans\"')")
    finally:
        server.should_exit = True
        thread.join(10)
