"""The Speculate tab in a browser, on a tiny model: rounds, clicks, the lab, stale settings."""

import pytest

from playground.lm import TransformersLM
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from tests.browser.looks import clipped, low_contrast, overlaps, sideways
from tests.tiny import tiny_llama, tiny_tokenizer

pytestmark = pytest.mark.browser


def build():
    model = tiny_llama(num_hidden_layers=5)
    lm = TransformersLM(model, tiny_tokenizer(), name="tiny", fingerprint="abc")
    lm.eos_ids = ()  # a run goes on
    return build_demo(Library(lambda name, progress=None: lm)), launch_options()


@pytest.fixture
def opened(serve, open_page):
    def start(size=(1280, 720), theme="light", **options):
        page = open_page(f"{serve(build)}/?__theme={theme}", size, **options)
        page.wait_for_selector("#dp-bars .bars path")
        page.locator(".dp-tabs [role=tab]").last.wait_for(state="attached")
        page.evaluate("[...document.querySelectorAll('.dp-tabs [role=tab]')]"
                      ".find((tab) => /Speculate|投机/.test(tab.textContent)).click()")  # fmt: skip
        page.wait_for_selector("#dp-spec-strip .dp-token")
        page.wait_for_selector("#dp-spec-laws .dp-chart-title:not(:empty)")
        return page

    return start


def wait_rounds(page, count):
    page.wait_for_function(
        "(n) => document.querySelectorAll('.dp-round').length === n", arg=count
    )  # fmt: skip


def wait_text(page, selector, text):
    page.wait_for_function(
        "([where, text]) => document.querySelector(where)?.textContent.includes(text)",
        arg=[selector, text],
    )


def tops(page):
    return page.evaluate(
        "['sentence', 'laws', 'trial', 'residual', 'lab-rules', 'lab-runs', 'payoff'].map((name) =>"
        " Math.round(document.getElementById('dp-spec-' + name).getBoundingClientRect().top"
        " + scrollY))"
    )


def test_rounds_clicks_and_the_lab(opened):
    page = opened()
    page.wait_for_selector("#dp-spec-lab-rules tr[tabindex]")
    before = tops(page)
    page.click("#dp-spec-step")
    wait_rounds(page, 1)
    page.keyboard.press("ArrowRight")
    wait_rounds(page, 2)
    wait_text(page, "#dp-spec-rounds .dp-chart-title", "tokens in 2 rounds")
    assert tops(page) == before  # nothing jumps

    chips = page.locator(".dp-round").first.locator(".dp-round-drafted .dp-chip-token")
    assert chips.count() == 4
    fates = [chips.nth(i).get_attribute("data-fate") for i in range(4)]
    assert set(fates) <= {"accepted", "rejected", "untested"}
    sources = page.locator("#dp-spec-strip .dp-token[data-source]")
    assert (
        sources.count()
        == page.locator(".dp-chip-token[data-fate=accepted], .dp-round-next .dp-chip-token").count()
    )

    chips.first.click()
    page.wait_for_selector(".dp-round:first-child .dp-chip-token[aria-pressed=true]")
    wait_text(page, "#dp-spec-sentence", "Round 1, token 1")
    wait_text(page, "#dp-spec-lab-words", "At round 1, token 1: “exact” emits exactly")
    page.locator("#dp-spec-lab-rules tr", has_text="greedy draft").click()
    wait_text(page, "#dp-spec-lab-law .dp-chart-title", "≠ target")
    wait_text(page, "#dp-spec-lab-rules tr[data-tone=accent]", "greedy draft")

    page.click("#dp-spec-back")
    wait_rounds(page, 1)
    page.click("#dp-spec-reset")
    wait_rounds(page, 0)
    page.click("#dp-spec-step")
    wait_rounds(page, 1)
    page.click("#dp-spec-step")
    wait_rounds(page, 2)
    # Other settings: the next step starts anew, and says why.
    page.fill("#dp-temperature input[type=number]", "1.5")
    page.keyboard.press("Tab")
    page.click("#dp-spec-step")
    wait_text(page, "body", "Other sampling settings: the rounds start anew.")
    wait_rounds(page, 1)


def test_run_stops_by_itself_and_by_hand(opened):
    page = opened()
    page.click("#dp-spec-run")
    page.wait_for_selector("#dp-spec-stop", state="visible")
    page.wait_for_selector("#dp-spec-run", state="visible")
    wait_rounds(page, 8)
    page.fill("#dp-spec-length input[type=number]", "50")
    page.keyboard.press("Tab")
    page.click("#dp-spec-run")
    page.wait_for_selector("#dp-spec-stop", state="visible")
    page.wait_for_function("document.querySelectorAll('.dp-round').length > 8")
    page.click("#dp-spec-stop")
    page.wait_for_selector("#dp-spec-run", state="visible")
    page.wait_for_timeout(2000)  # a round that was under way may still come
    count = page.locator(".dp-round").count()
    assert count < 58
    page.wait_for_timeout(1500)
    assert page.locator(".dp-round").count() == count


@pytest.mark.parametrize(
    ("size", "theme", "locale"),
    [((1280, 720), "dark", "en-US"), ((375, 800), "light", "zh-CN")],
)
def test_it_can_be_read(opened, size, theme, locale):
    page = opened(size, theme, locale=locale)
    for count in (1, 2):
        page.click("#dp-spec-step")
        wait_rounds(page, count)
    page.wait_for_selector("#dp-spec-lab-law .bars path", state="attached")
    assert not sideways(page)
    for part in (
        "rounds",
        "figures",
        "sentence",
        "laws",
        "trial",
        "residual",
        "lab-runs",
        "payoff",
    ):
        root = f"#dp-spec-{part}"
        # A sentence's words share lines: their boxes overlap, the letters don't.
        assert part == "sentence" or not overlaps(page, root), part
        assert not clipped(page, root), part
        assert not low_contrast(page, root), part
