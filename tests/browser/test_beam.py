"""The Beam tab as a visitor uses it: steps, keys, ghosts, ranking, run and stop, small screens."""

import pytest

from tests.browser.demo_sample import build
from tests.browser.looks import clipped, low_contrast, overlaps, sideways

TREE = "dp-beam-tree"
FIGURE = "#dp-beam-figures .dp-figure-value"


@pytest.fixture
def page(serve, open_page):
    return ready(open_page(serve(build) + "/?__theme=light"))


def ready(page):
    """Open the tab and wait for its first screen."""
    page.wait_for_selector("#dp-bars .bars path")
    page.locator("button[role=tab]:visible", has_text="Beam").first.click()
    page.wait_for_selector(f"#{TREE} .scatterlayer path")
    return page


def at(page):
    """How many steps are shown."""
    return int(page.inner_text(FIGURE).split()[0])


def wait_at(page, count):
    page.wait_for_function(
        f"n => document.querySelector('{FIGURE}').textContent.split(' ')[0] === String(n)",
        arg=count,
    )
    page.wait_for_function(
        "n => dp.charts['dp-beam-tree'].plot._fullData"
        ".find(d => d.meta.role === 'steps').x.length === n",
        arg=count,
    )


def step(page, count=1):
    for _ in range(count):
        before = at(page)
        page.click("#dp-beam-step")
        wait_at(page, before + 1)


def role(page, name, field, chart=TREE):
    """A field of the trace with this role, as it is drawn."""
    return page.evaluate(
        "([chart, name, field]) => Array.from(dp.charts[chart].current.data"
        ".find(d => d.meta.role === name)[field])",
        [chart, name, field],
    )


def click_node(page, node):
    """Click a node of the tree, scrolled into view first."""
    place = page.evaluate(
        """([chart, node]) => {
          const c = dp.charts[chart], hit = c.current.data.find(d => d.meta.role === 'hit');
          const i = Array.from(hit.customdata).indexOf(node), box = c.plot.parentNode;
          c.plot.scrollIntoView({block: 'center'});
          box.scrollLeft = hit.x[i] - box.clientWidth / 2;
          const r = c.plot.getBoundingClientRect();
          return [r.left + hit.x[i], r.top + hit.y[i]]; }""",
        [TREE, node],
    )
    page.mouse.move(*place)
    page.wait_for_timeout(150)
    page.mouse.down()
    page.mouse.up()


def ghosts(page):
    """The numbers of the pruned nodes that are drawn, the newest last."""
    shapes = page.evaluate(
        "dp.charts['dp-beam-tree'].current.data.find(d => d.meta.role === 'marks').marker.symbol"
    )
    nodes = role(page, "hit", "customdata")
    return [n for n, shape in zip(nodes, shapes[1:], strict=True) if shape == "circle-open"]


def set_number(page, field, value):
    box = page.locator(f"#dp-beam-{field} input[type=number]")
    box.fill(str(value))
    box.press("Enter")
    box.press("Tab")


def test_steps_by_button_and_keys_and_nothing_moves(page):
    spots = (
        "['#dp-beam-step', '#dp-beam-tree', '#dp-beam-figures', '#dp-beam-race',"
        " '#dp-beam-ranking',"
        " '#dp-beam-verdict'].map(s => document.querySelector(s).getBoundingClientRect().top)"
    )
    step(page)
    before = page.evaluate(f"[scrollY, ...{spots}]")
    step(page, 3)
    page.keyboard.press("ArrowRight")
    wait_at(page, 5)
    page.keyboard.press("ArrowLeft")
    wait_at(page, 4)
    assert page.evaluate(f"[scrollY, ...{spots}]") == before
    assert "Step 4: 4 of 384" in page.inner_text(f"#{TREE} .dp-chart-title")
    assert len(role(page, "sums", "text", "dp-beam-race")) == 10
    page.click("#dp-beam-reset")
    wait_at(page, 0)


def test_the_tree_scrolls_to_the_newest_step_and_keeps_its_width(page):
    set_number(page, "max_new_tokens", 16)
    page.click("#dp-beam-run")
    wait_at(page, 16)
    box = page.evaluate(
        "(() => { const b = document.querySelector('#dp-beam-tree .dp-chart-body');"
        " return [b.scrollLeft + b.clientWidth, b.scrollWidth, b.clientWidth]; })()"
    )
    width = page.evaluate("dp.charts['dp-beam-tree'].current.layout.width")
    assert abs(box[0] - box[1]) <= 2 and abs(box[1] - width) <= 2 and box[1] > 1.5 * box[2]
    assert sideways(page) == 0
    page.wait_for_selector("#dp-beam-run:visible")
    assert "The search ended at step 16" in page.inner_text(f"#{TREE} .dp-chart-title")


def test_a_ghost_goes_on_greedily_and_the_end_tells_whether_it_was_a_mistake(page):
    step(page, 2)
    ghost = ghosts(page)[0]
    click_node(page, ghost)
    page.wait_for_function(
        "document.querySelector('#dp-beam-ghost').textContent.includes('would go on greedily')"
    )
    assert role(page, "road", "x")
    assert len(role(page, "rings", "x")) >= 1
    page.click("#dp-beam-run")
    page.wait_for_function(
        "/mistake:|No regret/.test(document.querySelector('#dp-beam-ghost').textContent)"
    )
    assert "ghost" in page.inner_text("#dp-beam-ranking")


def test_a_hypothesis_goes_into_the_sample_tabs_strip(page):
    step(page, 3)
    row = page.locator("#dp-beam-ranking tbody tr").nth(1)
    text = row.locator("td").nth(1).inner_text()
    row.click()
    page.wait_for_selector(".toast-body:has-text('3 tokens are in the Sample')")
    page.locator("button[role=tab]:visible", has_text="Sample").first.click()
    page.wait_for_function("document.querySelectorAll('#dp-strip [data-source=beam]').length === 3")
    labels = page.locator("#dp-strip [data-source=beam]").all_text_contents()
    assert "".join(labels) == text
    page.locator("button[role=tab]:visible", has_text="Beam").first.click()
    assert at(page) == 3


def test_the_ranking_follows_penalty_and_form_without_a_search(page):
    step(page, 2)
    scores = "[...document.querySelectorAll('#dp-beam-ranking tbody td:nth-child(5)')]"
    first = page.evaluate(f"{scores}[0].textContent")
    page.click("#dp-beam-form label:has-text('GNMT')")
    page.wait_for_function(f"first => {scores}[0].textContent !== first", arg=first)
    set_number(page, "length_penalty", 0)
    total = page.locator("#dp-beam-ranking tbody tr td").nth(3).inner_text()
    page.wait_for_function(f"total => {scores}[0].textContent === total", arg=total)
    page.wait_for_selector(".dp-hint:has-text('the search ran with 1')")
    assert at(page) == 2


def test_new_settings_and_a_new_prompt_start_anew_with_a_word(page):
    step(page, 2)
    set_number(page, "num_beams", 6)
    page.wait_for_selector(".dp-hint:has-text('settings have changed')")
    page.click("#dp-beam-step")
    wait_at(page, 1)
    assert page.inner_text(f"{FIGURE} >> nth=4") == "0 / 6"
    page.fill("#dp-prompt textarea", "abc")
    page.press("#dp-prompt textarea", "Tab")
    wait_at(page, 0)
    page.wait_for_selector(".toast-body:has-text('The prompt has changed')")
    page.fill("#dp-prompt textarea", "")
    page.press("#dp-prompt textarea", "Tab")
    page.wait_for_selector(f"#{TREE} .dp-chart-message:has-text('The prompt is empty')")


def test_stop_ends_a_run(page):
    set_number(page, "max_new_tokens", 50)
    page.click("#dp-beam-run")
    page.wait_for_selector("#dp-beam-stop:visible")
    page.wait_for_function(f"parseInt(document.querySelector('{FIGURE}').textContent) >= 2")
    page.click("#dp-beam-stop")
    page.wait_for_selector("#dp-beam-run:visible")
    page.wait_for_timeout(600)
    stopped = at(page)
    page.wait_for_timeout(1200)
    assert at(page) == stopped < 50


def test_the_true_best_is_found_and_told(page):
    set_number(page, "horizon", 2)
    page.click("#dp-beam-find")
    page.wait_for_function(
        "document.querySelector('#dp-beam-mode-text').textContent.includes('is the most probable')"
    )
    assert "96^2" in page.inner_text("#dp-beam-mode-text")


def test_the_language_changes_every_word(page):
    step(page)
    page.click("[data-tool=language]")
    page.wait_for_function(
        "document.querySelector('#dp-beam-tree .dp-chart-title').textContent.includes('第 1 步')"
    )
    page.wait_for_selector(".dp-beam-head h3:has-text('排名')")
    page.wait_for_selector("#dp-beam-form label:has-text('总和')")
    assert "贪心" in page.inner_text("#dp-beam-verdict")


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
