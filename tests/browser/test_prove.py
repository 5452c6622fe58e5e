"""The Prove it buttons of the tabs that step: refused before a run, a script of it after."""

import pytest

from playground.models import load_model
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from tests.tiny import save_tiny, tiny_llama

pytestmark = pytest.mark.browser
FOLDER = []
# A tab's name, the prefix of its ids, and what its script holds besides the model.
TABS = [
    ("Sample", "dp", "tokens left"),
    ("Beam", "dp-beam", "num_beams"),
    ("Contrast", "dp-contrast", "expert[token]"),
    ("Speculate", "dp-spec", "ROUNDS = ["),
]


def build():
    lm = load_model(FOLDER[0], device="cpu")
    lm.eos_ids = ()  # a run goes on
    return build_demo(Library(lambda name, progress=None: lm)), launch_options()


@pytest.mark.parametrize(("name", "prefix", "held"), TABS)
def test_a_run_is_proved_from_its_tab(name, prefix, held, serve, open_page, tmp_path_factory):
    if not FOLDER:
        model = tiny_llama(num_hidden_layers=4)
        FOLDER.append(str(save_tiny(tmp_path_factory.mktemp("model"), model)))
    page = open_page(serve(build))
    page.wait_for_selector("#dp-bars .bars path")
    page.locator("button[role=tab]:visible", has_text=name).first.click()
    prove = f"#dp-prove-{name.lower()}"
    page.click(prove)
    page.wait_for_function(
        "/no (token|step|round)|nothing to prove/i.test(document.body.innerText)"
    )
    assert not page.locator("dialog.dp-proof").count()
    page.click(f"#{prefix}-run")
    page.wait_for_selector(f"#{prefix}-stop:visible")
    page.wait_for_selector(f"#{prefix}-run:visible")
    page.click(prove)
    page.wait_for_selector("dialog.dp-proof[open]")
    script = page.inner_text(".dp-proof .dp-proof-code >> nth=0")
    compile(script, "proof.py", "exec")
    assert held in script and FOLDER[0] in script and "MATCH" in script
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.dp-proof", state="detached")
    if name == "Beam":  # ranked otherwise than searched: the sheet says which is proved
        page.fill("#dp-beam-length_penalty input[type=number]", "0.5")
        page.keyboard.press("Tab")
        page.click(prove)
        page.wait_for_selector("dialog.dp-proof >> text=/ranks by the length penalty 0.5/")
