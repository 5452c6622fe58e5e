"""The Read tab and what can be taken away, in a browser, on a tiny model."""

import json

import pytest

from playground import Trace
from playground.lm import TransformersLM
from playground.tape_file import from_bytes
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from tests.browser.looks import clipped, low_contrast, overlaps, sideways
from tests.tiny import tiny_llama, tiny_tokenizer

pytestmark = pytest.mark.browser
TEXT = "a cat sat on the mat, and the dog ran.\n<b>it</b> was 12 & late."


def build():
    model = tiny_llama(max_position_embeddings=2048)
    lm = TransformersLM(model, tiny_tokenizer(), name="tiny", fingerprint="abc")
    lm.eos_ids = ()
    return build_demo(Library(lambda name, progress=None: lm)), launch_options()


@pytest.fixture
def opened(serve, open_page):
    def start(tab=None, size=(1280, 720), theme="light", **options):
        page = open_page(f"{serve(build)}/?__theme={theme}", size, accept_downloads=True, **options)
        page.wait_for_selector("#dp-bars .bars path")
        if tab:
            page.locator(".dp-tabs [role=tab]").last.wait_for(state="attached")
            page.evaluate("[...document.querySelectorAll('.dp-tabs [role=tab]')]"
                          ".find((tab) => /Read|阅读/.test(tab.textContent)).click()")  # fmt: skip
            page.wait_for_selector(".dp-read-tokens .dp-read-token")  # the sample, at first sight
        return page

    return start


def wait_tokens(page, count):
    page.wait_for_function(
        "(n) => document.querySelectorAll('.dp-read-tokens .dp-read-token').length === n", arg=count
    )


def read(page, text):
    page.fill("#dp-read-typed textarea", text)
    page.click("#dp-read-go")
    wait_tokens(page, len(text))
    page.wait_for_selector("#dp-read-go", state="visible")


def saved(page, selector):
    with page.expect_download() as download:
        page.click(selector)
    with open(download.value.path(), "rb") as file:
        return download.value.suggested_filename, file.read()


def upload(page, selector, path, content):
    path.write_bytes(content)
    with page.expect_file_chooser() as chooser:
        page.click(selector)
    chooser.value.set_files(path)


def wait_steps(page, count):
    page.wait_for_function(
        "(n) => document.querySelectorAll('#dp-strip .dp-new').length === n", arg=count
    )


def test_a_text_is_read_recoloured_and_entered(opened, tmp_path):
    page = opened("read")
    # Files that can't be read change nothing.
    before = page.input_value("#dp-read-typed textarea")
    for name, content, why in (("a.bin", b"\x00\x01", "isn't text"), ("b.txt", b"", "is empty")):
        upload(page, "#dp-read-file", tmp_path / name, content)
        page.wait_for_selector(f"text={why}")
    assert page.input_value("#dp-read-typed textarea") == before
    upload(page, "#dp-read-file", tmp_path / "c.txt", "a dog".encode("utf-16"))
    page.wait_for_function("document.querySelector('#dp-read-typed textarea').value === 'a dog'")
    wait_tokens(page, 5)  # what was brought is read at once; what is typed waits for Read
    page.wait_for_selector("#dp-read-go", state="visible")
    page.locator("#dp-read-typed textarea").press_sequentially("s")
    page.wait_for_selector(".dp-read-changed >> text=press Read")
    page.keyboard.press("Backspace")
    page.wait_for_selector(".dp-read-changed", state="hidden")

    # A long text stops at once, and goes on.
    text = "the cat sat. " * 120  # seven chunks
    page.fill("#dp-read-typed textarea", text)
    stop = "setTimeout(() => document.querySelector('#dp-read-stop').click(), 50)"
    page.evaluate(f"document.querySelector('#dp-read-go').click(); {stop}")
    page.wait_for_function(
        "document.querySelector('.dp-read-tokens').textContent.startsWith('the cat')"
    )
    page.wait_for_selector("#dp-read-go", state="visible")
    page.wait_for_timeout(1500)
    done = page.locator(".dp-read-tokens .dp-read-token").count()
    assert 1 < done < len(text)
    assert f"Read so far: {done:,} of {len(text):,} tokens" in page.inner_text("#dp-read-text")
    page.click("#dp-read-go")
    wait_tokens(page, len(text))
    assert "Read so far" not in page.inner_text("#dp-read-text .dp-chart-subtitle")

    read(page, TEXT)
    tokens = page.locator(".dp-read-tokens .dp-read-token")
    assert "".join(tokens.all_text_contents()) == TEXT  # markup stays text
    assert page.locator(".dp-read-tokens b").count() == 0
    looks = tokens.evaluate_all("nodes => nodes.map((n) => n.dataset.bucket)")
    assert looks[0] == "" and set(looks[1:]) <= {"0", "1"}  # 96 tokens: no rank above 100
    page.fill("#dp-read-edges textarea, #dp-read-edges input", "1, 5, 20")
    page.keyboard.press("Enter")
    page.wait_for_selector(".dp-read-tokens [data-bucket='3']")
    page.wait_for_function("document.querySelectorAll('.dp-read-key').length === 4")
    name, data = saved(page, "#dp-read-files .dp-file:first-of-type")
    assert name == f"reading-{len(TEXT)}.csv"
    assert data.decode().splitlines()[1].startswith("0,")

    tokens.nth(5).hover()  # scrolls there, and scrolling hides a tip
    page.wait_for_timeout(300)
    tokens.nth(7).hover()
    page.wait_for_selector("#dp-read-text .dp-tip.dp-shown")
    assert "Sample view" in page.inner_text("#dp-read-text .dp-tip")
    tokens.nth(7).click()
    page.wait_for_selector("#dp-strip .dp-token >> nth=7")
    page.wait_for_selector("#dp-bars", state="visible")
    assert page.evaluate("document.body.dataset.tab") == "sample"
    assert page.locator("#dp-strip .dp-token").all_text_contents() == list("a·cat·sa")
    assert page.input_value("#dp-prompt textarea") == TEXT[:7]


def test_a_run_is_taken_away_and_brought_back(opened, tmp_path):
    page = opened()
    for kind, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")):
        page.hover("#dp-bars")
        page.click("#dp-bars .dp-chart-take-open")
        name, data = saved(page, f"#dp-bars [data-kind={kind}]")
        assert name == f"bars-chart.{kind}" and data.startswith(start)
        assert kind != "svg" or "tokens survive" in data.decode()

    for count in (1, 2):
        page.click("#dp-step")
        wait_steps(page, count)
    kinds = page.locator("#dp-files .dp-file")
    assert kinds.count() == 4
    name, data = saved(page, "#dp-files .dp-file >> nth=0")
    trace = Trace.from_dict(json.loads(data))
    assert name == "tiny-2.json" and len(trace.steps) == 2
    name, table = saved(page, "#dp-files .dp-file >> nth=2")
    assert name == "tiny-2.parquet" and table[:4] == table[-4:] == b"PAR1"
    kinds.nth(3).click()  # the size first, then the file
    page.wait_for_selector("#dp-files .dp-sure")
    assert "at most 0.1 MB (positions: 3)" in kinds.nth(3).inner_text()
    name, tape = saved(page, "#dp-files .dp-file >> nth=3")
    assert name == "tiny-3.dptape" and len(from_bytes(tape).logits) == 3

    upload(page, "#dp-open", tmp_path / "bad.dptape", tape[:-5])
    page.wait_for_selector("text=the tape is damaged")
    assert page.locator("#dp-strip .dp-new").count() == 2
    upload(page, "#dp-open", tmp_path / "good.dptape", tape)
    page.wait_for_selector("#dp-model-line >> text=recording of tiny")
    page.wait_for_selector("#dp-strip .dp-ahead")
    page.click("#dp-reset")
    wait_steps(page, 0)
    for count in (1, 2):
        page.click("#dp-step")
        wait_steps(page, count)
    page.click("#dp-step")
    page.wait_for_selector("text=is not on the tape (3 positions are)")

    upload(page, "#dp-open", tmp_path / "trace.json", data)
    wait_steps(page, 2)
    assert page.locator("#dp-strip .dp-token").count() == len(trace.ids)
    assert "recording" in page.inner_text("#dp-model-line")  # the tape has all its positions
    other = {**trace.to_dict(), "prompt_ids": [7, 8, 9, 10], "steps": []}
    upload(page, "#dp-open", tmp_path / "other.json", json.dumps(other).encode())
    page.wait_for_selector("#dp-model-line:not(:has-text('recording'))")
    assert page.locator("#dp-strip .dp-token").count() == 4
    page.click("#dp-step")
    wait_steps(page, 1)


@pytest.mark.parametrize(
    ("size", "theme", "locale"),
    [((1280, 720), "dark", "en-US"), ((375, 800), "light", "zh-CN")],
)
def test_it_can_be_read(opened, size, theme, locale):
    page = opened("read", size, theme, locale=locale)
    read(page, TEXT)
    page.wait_for_selector("#dp-read-entropy .bars path", state="attached")
    assert not sideways(page)
    for part in ("text", "figures", "ranks", "p", "entropy", "words", "files"):
        root = f"#dp-read-{part}"
        # A text's tokens share lines: their boxes overlap, the letters don't.
        assert part == "text" or not overlaps(page, root), part
        assert not clipped(page, root), part
        assert not low_contrast(page, root), part


def open_tab(page, name):
    page.locator("button[role=tab]:visible", has_text=name).first.click()


def test_a_tape_sets_up_the_tabs_that_were_recorded(opened, tmp_path):
    page = opened()
    open_tab(page, "Beam")
    for count in (1, 2):
        page.click("#dp-beam-step")
        page.wait_for_selector(f"#dp-beam-tree .dp-chart-title >> text=Step {count}:")
    page.fill("#dp-beam-num_beams input[type=number]", "3")
    page.keyboard.press("Tab")
    page.click("#dp-beam-step")  # the settings have changed: a new search
    page.wait_for_selector("#dp-beam-tree .dp-chart-title >> text=Step 1: 3 of")
    open_tab(page, "Sample")
    page.locator("#dp-files .dp-file").nth(3).click()
    page.wait_for_selector("#dp-files .dp-sure >> text=with Beam")
    _, tape = saved(page, "#dp-files .dp-file >> nth=3")
    page = opened()
    upload(page, "#dp-open", tmp_path / "beam.dptape", tape)
    page.wait_for_selector("#dp-model-line >> text=recording of tiny")
    open_tab(page, "Beam")
    page.wait_for_selector("#dp-beam-tree .dp-chart-title >> text=Step 1: 3 of")
    assert page.input_value("#dp-beam-num_beams input[type=number]") == "3"
    page.click("#dp-beam-step")
    page.wait_for_selector("text=is not on the tape")
