"""The Compare tab in a browser, on a tiny model: decks, a run and Stop, the proof sheet, looks."""

import re

import pytest

from playground.models import load_model
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from tests.browser.looks import clipped, low_contrast, overlaps, sideways
from tests.tiny import save_tiny, tiny_llama

pytestmark = pytest.mark.browser
FOLDER = []


def build():
    lm = load_model(FOLDER[0], device="cpu")
    lm.eos_ids = ()  # a run goes on
    return build_demo(Library(lambda name, progress=None: lm)), launch_options()


@pytest.fixture
def opened(serve, open_page, tmp_path_factory):
    if not FOLDER:
        model = tiny_llama(num_hidden_layers=4)
        FOLDER.append(str(save_tiny(tmp_path_factory.mktemp("model"), model)))

    def start(size=(1280, 720), theme="light", **options):
        page = open_page(f"{serve(build)}/?__theme={theme}", size, **options)
        page.wait_for_selector("#dp-bars .bars path")
        page.locator(".dp-tabs [role=tab]").last.wait_for(state="attached")
        page.evaluate("[...document.querySelectorAll('.dp-tabs [role=tab]')]"
                      ".find((tab) => /Compare|比较/.test(tab.textContent)).click()")  # fmt: skip
        page.wait_for_selector("#dp-compare-decks .dp-deck")
        return page

    return start


def wait_notes(page, count, least):
    """Wait until so many decks have so many tokens at least."""
    page.wait_for_function(
        """([count, least]) => [...document.querySelectorAll(
           '.dp-deck:not([data-human]) .dp-deck-note')]
           .filter((note) => parseInt(note.textContent) >= least).length === count""",
        arg=[count, least],
    )


def decks(page):
    return page.locator(".dp-deck:not([data-human])")


def test_decks_run_stop_and_proof(opened):
    page = opened()
    assert decks(page).count() == 4
    # A kind is changed, one is added, one taken away.
    decks(page).nth(1).locator("select").first.select_option("speculative")
    page.wait_for_selector(".dp-deck[data-kind=speculative] [data-field=gamma]")
    page.click(".dp-deck-add")
    page.wait_for_function("document.querySelectorAll('.dp-deck').length === 5")
    decks(page).nth(4).locator(".dp-deck-remove").click()
    page.wait_for_function("document.querySelectorAll('.dp-deck').length === 4")
    # A number out of range is refused in words, and the old one comes back.
    field = decks(page).nth(3).locator("[data-field=top_p]")
    field.fill("7")
    field.blur()
    page.wait_for_function("document.body.textContent.includes('Top-p')")
    page.wait_for_function(
        "document.querySelectorAll('.dp-deck')[3]"
        ".querySelector('[data-field=top_p]').value === '0.95'"
    )

    page.fill("#dp-compare-human textarea", "and so on")
    page.keyboard.press("Tab")
    page.wait_for_selector(".dp-deck[data-human] .dp-deck-words:not(:empty)")
    page.click("#dp-compare-run")
    page.wait_for_selector("#dp-compare-stop", state="visible")
    wait_notes(page, 4, 3)
    page.click("#dp-compare-stop")
    page.wait_for_selector("#dp-compare-run", state="visible")
    page.wait_for_timeout(1500)  # a step that was under way may still come
    notes = page.locator(".dp-deck-note").all_text_contents()
    page.wait_for_timeout(700)
    assert page.locator(".dp-deck-note").all_text_contents() == notes
    # The table counts the last step too, which was under way when Stop was pressed.
    told = [int(re.match(r"\d+", note)[0]) for note in notes]
    table = page.locator("#dp-compare-table tbody tr td:nth-child(2)").all_text_contents()
    assert [int(n) for n in table] == told
    assert page.locator("#dp-compare-table tbody tr").count() == 5
    page.wait_for_selector("#dp-compare-lanes .scatterlayer path.js-line", state="attached")

    decks(page).nth(1).locator(".dp-deck-prove").click()
    page.wait_for_selector("dialog.dp-proof[open]")
    assert "GenerationConfig" not in page.inner_text(".dp-proof .dp-proof-code >> nth=0")
    assert "ROUNDS = [" in page.inner_text(".dp-proof .dp-proof-code >> nth=0")
    assert "assistant_model=draft" in page.inner_text(".dp-proof .dp-proof-code >> nth=1")
    with page.expect_download() as download:
        page.click(".dp-proof-button >> nth=1")
    assert download.value.suggested_filename == "proof.py"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.dp-proof", state="detached")

    page.click("#dp-compare-reset")
    page.wait_for_function(
        "[...document.querySelectorAll('.dp-deck:not([data-human]) .dp-deck-words')]"
        ".every((words) => words.textContent === '–')"
    )


@pytest.mark.parametrize(
    ("size", "theme", "locale"),
    [((1280, 720), "dark", "en-US"), ((375, 800), "light", "zh-CN")],
)
def test_it_can_be_read(opened, size, theme, locale):
    page = opened(size, theme, locale=locale)
    page.click("#dp-compare-run")
    page.wait_for_selector("#dp-compare-stop", state="visible")
    wait_notes(page, 4, 4)
    page.click("#dp-compare-stop")
    page.wait_for_selector("#dp-compare-run", state="visible")
    page.wait_for_timeout(1500)
    assert not sideways(page)
    for part in ("decks", "sentence", "table", "lanes", "taxes"):
        root = f"#dp-compare-{part}"
        # A sentence's words share lines: their boxes overlap, the letters don't.
        assert part == "sentence" or not overlaps(page, root), part
        assert not clipped(page, root), part
        assert not low_contrast(page, root), part
