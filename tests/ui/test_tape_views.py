"""The other tabs on tapes and in links: what they showed comes again, token for token."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest

from playground.export import from_link, to_link
from playground.models import load_model
from playground.session import Prompt, Session
from playground.takeaway import recorder_of, tape_state
from playground.tape import MAX_LOGITS, NotOnTape, TapeLM
from playground.tape_file import MAGIC_VOICES, from_bytes, to_bytes
from playground.ui.beam import BeamTab
from playground.ui.beam_moves import Search
from playground.ui.compare import CompareTab
from playground.ui.compare_decks import deck
from playground.ui.compare_moves import Comparison
from playground.ui.components import Toolbar
from playground.ui.contrastive import ContrastTab
from playground.ui.contrastive_moves import Contest
from playground.ui.events import Visit
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.links import MOST, Links
from playground.ui.panel import Panel
from playground.ui.proof import ProofSheet
from playground.ui.reading import ReadTab
from playground.ui.reading_moves import Lens
from playground.ui.recipes import play_views, record_views
from playground.ui.sampling import SampleTab
from playground.ui.second_models import EXIT
from playground.ui.speculative import SpeculateTab
from playground.ui.speculative_moves import Speculation
from playground.ui.tape_views import BeamTape, CompareTape, ContrastTape, ReadTape, SpeculateTape
from tests.tiny import save_tiny, tiny_llama

PROMPT = "hello you"
CHOSEN = {"dp-contrast-kind": EXIT, "dp-contrast-layer": 2, "dp-spec-kind": EXIT}
CHOSEN |= {"dp-spec-layer": 3, "dp-spec-gamma": 2, "dp-compare-length": 5, "dp-beam-num_beams": 3}
CHOSEN |= {"dp-read-typed": "a cat sat on you", "dp-compare-human": "and a dog"}


async def build(folder):
    labels = Labels()
    library = Library(lambda name, progress: load_model(folder, device="cpu"))
    library.get("default").eos_ids = ()
    with gr.Blocks():
        toolbar, sheet = Toolbar(), ProofSheet()
        panel = Panel(labels, True)
        with gr.Tabs() as tabs:
            with gr.Tab():
                sample = SampleTab(library, panel, labels, toolbar)
            shared = (library, panel, labels, toolbar, sample)
            with gr.Tab():
                beam = BeamTape(BeamTab(*shared))
            with gr.Tab():
                contrast = ContrastTape(ContrastTab(*shared, True))
            with gr.Tab():
                speculate = SpeculateTape(SpeculateTab(*shared, True))
            with gr.Tab():
                compare = CompareTape(CompareTab(*shared, sheet))
            with gr.Tab():
                read = ReadTape(ReadTab(library, panel, labels, toolbar, sample, tabs))
        views = (beam, contrast, speculate, compare, read)
        links = Links(sample, views, toolbar)
    return library, views, links


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = str(save_tiny(tmp_path_factory.mktemp("model"), tiny_llama(num_hidden_layers=4)))
    with ThreadPoolExecutor(1) as thread:  # see test_compare.py
        return thread.submit(lambda: asyncio.run(build(folder))).result()


def event(**data):
    return SimpleNamespace(_data=data)


@pytest.fixture(scope="module")
def page(built):
    """The page's data after something was done in every tab."""
    library, views, _ = built
    sample, panel = views[0].tab.sample, views[0].tab.panel
    lm = library.get("default")
    session = Session().start(Prompt(PROMPT), lm)
    data = {}
    for view in views:
        data |= {part: part.value for part in {*view.tab.inputs, *view.inputs}}
        data |= {part: CHOSEN[part.elem_id] for part in data if part.elem_id in CHOSEN}
    empty = (Search(), Contest(), Speculation(), Comparison(), Lens())
    data |= {view.state: state for view, state in zip(views, empty, strict=True)}
    data |= {sample.visit: Visit(session), panel.prompt: PROMPT}
    for view, count in zip(views, (4, 3, 3, 20, 1), strict=True):
        tab = view.tab
        if view.name == "compare":
            decks = (deck("sampling"), deck("beam", num_beams=2), deck("contrastive", helper=EXIT))
            data[view.state] = tab.current(data, (*decks, deck("speculative", helper=EXIT)))
        for i in range(count):
            found, pace = tab._tick(data, i)
            data |= {view.state: found[view.state]}
            if pace.end:
                break
    # One token of the contrastive text is chosen by hand.
    both = views[1]
    found = both.tab._move(take, False)(data, event())
    data[both.state] = found[both.state]
    return library, views, data, session


def take(lm, amateur, contest, params, sampling, t, _):
    from playground.ui.contrastive_moves import forward

    return forward(lm, amateur, contest, params, sampling, t, 7)


def taped(page, most=MAX_LOGITS):
    library, views, data, session = page
    lm, sample = library.get("default"), views[0].tab.sample
    recorder = recorder_of(session, lm, most)
    recorder.depth = 4
    with library.lend(recorder) as name:
        recipes, left = record_views(views, data, replace(data[sample.visit], model=name), recorder)
    params = views[0].tab.panel.read_params(data)
    state = {**tape_state(session, "default", params), "views": recipes, "depth": 4}
    return recorder.finished(state), left


def played(page, tape):
    library, views, data, _ = page
    sample = views[0].tab.sample
    lm = TapeLM(tape)
    visit = replace(data[sample.visit], model=library.add_tape(lm))
    plain = {part: part.value for view in views for part in view.parts.values()}
    return (
        lm,
        {**data, **plain, sample.visit: visit},
        play_views(views, data | plain, visit, tape.state.get("views")),
    )


def texts(views, data):
    """What each tab's state says, as plain values."""
    beam, contrast, speculate, compare, read = (data[view.state] for view in views)
    return {
        "beam": [[h.ids for h in state.beams] for state in beam.states[: beam.at + 1]],
        "contrast": (contrast.new_ids, contrast.expert_ids, contrast.amateur_ids),
        "speculate": [(one.draft_ids, one.ids, one.n_accepted) for one in speculate.rounds],
        "compare": [run.new_ids for run in compare.runs],
        "read": (read.reading.ids, read.reading.ranks.tolist()),
    }


def test_every_tab_comes_again_without_its_model(page, monkeypatch):
    library, views, data, _ = page
    tape, left = taped(page)
    assert not left and set(tape.state["views"]) == {view.name for view in views}
    file = to_bytes(tape)
    assert file.startswith(MAGIC_VOICES)
    tape = from_bytes(file)
    assert set(tape.voices) == {f"{EXIT}:2:", f"{EXIT}:3:"}
    monkeypatch.setattr(
        library.get("default").unbatched
        if hasattr(library.get("default"), "unbatched")
        else library.get("default"),
        "logits",
        lambda *_: pytest.fail("the model was asked"),
    )
    lm, after, (found, lost) = played(page, tape)
    assert not lost
    after |= found
    assert texts(views, after) == texts(views, data)
    for view in views:  # and all of it can be drawn
        view.tab.draw(after, after[view.state]) if view.name != "read" else None
    for part, value in found.items():
        if part.elem_id in CHOSEN:
            assert value == CHOSEN[part.elem_id]
    # What was not shown isn't there.
    beam = views[0]
    with pytest.raises(NotOnTape):
        beam.step(after, after[beam.state], {}, 4)
    with pytest.raises(NotOnTape):
        lm.voice(f"{EXIT}:1:")


def test_what_does_not_fit_is_left_out_and_named(page):
    whole, _ = taped(page)
    row = 2 * whole.vocab_size + 4
    tape, left = taped(page, 30 * row)
    assert set(left) | set(tape.state["views"]) == {view.name for view in page[1]}
    assert left and tape.nbytes <= 30 * row and tape.positions > 1
    assert from_bytes(to_bytes(tape)).state["views"].keys() == tape.state["views"].keys()


def test_what_the_settings_no_longer_give_is_left_out(page):
    library, views, data, session = page
    beam, speculate = views[0], views[2]
    changed = {beam.parts["num_beams"]: 2, speculate.parts["dp-spec-gamma"]: 3}
    tape, left = taped((library, views, data | changed, session))
    assert set(left) == {"beam", "speculate"} and "beam" not in tape.state["views"]
    assert all("doesn't come again from the settings" in why for why in left.values())


def test_a_long_comparison_is_left_out_before_it_is_computed(page):
    library, views, data, session = page
    row = 2 * library.get("default").vocab_size + 4
    _, left = taped(page, 10 * row)
    assert re.fullmatch(r"it needs 15 positions at least, and \d are left", left["compare"])


@pytest.mark.parametrize(
    "change",
    [
        {"controls": None},
        {"steps": "3"},
        {"steps": 10**9},
        {"controls": {"num_beams": "many", "length_penalty": 1.0}},
        {"controls": {"num_beams": 10**9}},
        {"controls": {"num_beams": 10**400}},
    ],
)
def test_a_recipe_that_cannot_be_followed_is_told(page, change):
    tape, _ = taped(page)
    views = {name: {**recipe, **change} for name, recipe in tape.state["views"].items()}
    _, _, (_, left) = played(page, replace(tape, state={**tape.state, "views": views}))
    assert "beam" in left


# ---- links -------------------------------------------------------------------------------------


def fresh(page):
    """The data of a page on which nothing was done yet."""
    _, views, data, _ = page
    plain = {part: part.value for view in views for part in view.parts.values()}
    return {**data, **plain, **{view.state: view.empty for view in views}}


@pytest.fixture
def said(monkeypatch):
    said = []
    monkeypatch.setattr("playground.ui.links.inform", said.append)
    monkeypatch.setattr("playground.ui.links.warn", said.append)
    return said


def test_a_link_shows_every_tab_elsewhere_as_it_was(built, page, said):
    links, (_, views, data, _) = built[2], page
    after = fresh(page)
    for view in views:
        link = links.told(view, data)
        assert link and len(link) < 700
        found = links.opened(view, fresh(page), link)
        for part, value in found.items():
            if part.elem_id in CHOSEN:
                assert value == CHOSEN[part.elem_id], part.elem_id
        after |= found
    assert texts(views, after) == texts(views, data)
    assert not said


def test_a_link_has_the_settings_of_a_tab_that_shows_nothing_yet(built, page):
    links, beam = built[2], page[1][0]
    data = {**fresh(page), beam.parts["num_beams"]: 7}
    found = links.opened(beam, fresh(page), links.told(beam, data))
    assert found[beam.parts["num_beams"]] == 7 and beam.state not in found


def test_what_comes_out_otherwise_is_said(built, page, said):
    links, beam, data = built[2], page[1][0], page[2]
    told = from_link(links.told(beam, data))
    found = links.opened(beam, fresh(page), to_link({**told, "seal": told["seal"] + 1}))
    assert found[beam.state].at == 4
    assert said == ["Beam: what the link showed comes out otherwise here."]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": MOST + 1}, f"{MOST} are allowed"),
        ({"steps": "3"}, "link is damaged"),
        ({"controls": 5}, "link is damaged"),
        ({"steps": True}, "link is damaged"),
        ({"steps": -5}, "link is damaged"),
        ({"tab": "read"}, "link is damaged: it is about another tab"),
        ({"controls": {"form": "mean"}, "steps": 0}, "link is damaged"),
        ({"controls": {"num_beams": 10**9}}, "Beams must be a whole number"),
    ],
)
def test_a_link_that_cannot_be_followed_is_told_and_changes_nothing(
    built, page, said, change, says
):
    links, beam, data = built[2], page[1][0], page[2]
    told = from_link(links.told(beam, data))
    asked = fresh(page)
    assert links.look(beam)(asked, event(link=to_link({**told, **change}))) in ({}, gr.skip())
    assert len(said) == 1 and says in said[0]


def test_a_tape_is_in_no_link(built, page):
    links, (library, views, data, _) = built[2], page
    sample = views[0].tab.sample
    tape, _ = taped(page)
    visit = replace(data[sample.visit], model=library.add_tape(TapeLM(tape)))
    assert links.told(views[0], {**data, sample.visit: visit}) == ""


def test_a_text_too_long_for_an_address_is_in_no_link(built, page):
    links, read, data = built[2], page[1][4], page[2]
    noise = "".join(chr(33 + (i * i * 7919 + i // 3) % 20_000) for i in range(30_000))
    assert links.told(read, {**data, read.parts["dp-read-typed"]: noise}) == ""
