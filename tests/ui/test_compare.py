"""The Compare tab without a page: decks, kept texts, runs, what is refused, words, proof."""

import asyncio
import json
import math
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import gradio as gr
import pytest

import playground as pg
from playground.compare import Decoder, finish, start
from playground.models import load_model
from playground.session import Prompt, Session
from playground.ui import compare_decks as decks
from playground.ui import compare_moves as moves
from playground.ui import compare_screen as screen
from playground.ui.compare import CompareTab
from playground.ui.compare_decks import deck
from playground.ui.compare_moves import Comparison
from playground.ui.compare_presets import PRESETS
from playground.ui.components import Toolbar
from playground.ui.events import Visit
from playground.ui.handlers import take
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.ui.proof import ProofSheet, Prove
from playground.ui.sampling import SampleTab
from playground.words import LANGUAGES, translator
from tests.test_proof import play
from tests.tiny import save_tiny, tiny_llama

T = translator("en")
PROMPT = "hello you"
NUCLEUS = pg.SamplingParams(0.9, top_p=0.8, seed=4)


async def build(folder):
    """Return the tab in a page that nobody opened."""
    labels = Labels()
    library = Library(lambda name, progress: load_model(folder, device="cpu"))
    lm = library.get("default")
    lm.eos_ids = ()  # a run goes on
    with gr.Blocks():
        toolbar = Toolbar()
        sheet = ProofSheet()
        panel = Panel(labels, True)
        with gr.Tabs():
            with gr.Tab():
                sample = SampleTab(library, panel, labels, toolbar)
                prove = Prove(library, labels, sample, sheet)
            with gr.Tab():
                return CompareTab(library, panel, labels, toolbar, sample, prove.sheet), prove


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = str(save_tiny(tmp_path_factory.mktemp("model"), tiny_llama(num_hidden_layers=4)))
    # In a running loop, or Gradio makes several and leaves them open; in a thread, where no other
    # test's loop runs.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(build(folder))).result()


@pytest.fixture
def page(built):
    """The tab and the values of its inputs."""
    tab, _ = built
    data = {part: part.value for part in tab.inputs}
    visit = {tab.sample.visit: Visit(), tab.state: Comparison()}
    return tab, data | visit | {tab.panel.prompt: PROMPT, tab.length: 8}


def event(**data):
    return SimpleNamespace(_data=data)


def edit(page, *sent):
    """The page after its decks were set, and the updates."""
    tab, data = page
    found = tab._edit(data, event(decks=[dict(kind=k, settings=s) for k, s in sent]))
    return {**data, tab.state: found.get(tab.state, data[tab.state])}, found


def run_all(tab, data):
    """The page's data after a whole run."""
    for count in range(40):
        found, pace = tab._tick(data, count)
        data = {**data, tab.state: found[tab.state]}
        if pace.end:
            return data, count + 1
    raise AssertionError("the run doesn't end")


ALL = (
    ("greedy", {}),
    ("beam", {"num_beams": 3}),
    ("sampling", {"top_p": 0.8}),
    ("panel", {}),
    ("contrastive", {}),
    ("speculative", {"helper": "early-exit", "gamma": 3, "temperature": 1}),
)


def test_six_decoders_run_side_by_side(page):
    tab, _ = page
    data, _ = edit(page, *ALL)
    lengths = []
    for count in range(40):
        found, pace = tab._tick(data, count)
        data = {**data, tab.state: found[tab.state]}
        lengths.append([moves.reach(c.run) for c in data[tab.state].columns])
        if pace.end:
            break
    # Nobody is ahead by more than a round of speculation.
    assert all(max(row) - min(row) <= 4 for row in lengths)
    state = data[tab.state]
    lm = tab.lm(data[tab.sample.visit])
    assert [len(run.steps) for run in state.runs] == [8] * 6
    panel = tab.panel.read_params(data)
    for column in state.columns:
        _, helper = tab.tracks.get(lm, column)
        alone = finish(lm, start(column.decoder, lm.encode(PROMPT), 8), helper)
        assert column.run.new_ids == alone.new_ids
    assert state.columns[3].decoder.sampling == panel
    assert state.columns[2].decoder.sampling.seed == panel.seed


def test_texts_are_kept_where_their_decoder_is(page):
    tab, _ = page
    data, _ = edit(page, ("greedy", {}), ("sampling", {}))
    data, _ = run_all(tab, data)
    greedy, pure = data[tab.state].columns
    data, found = edit((tab, data), ("sampling", {"top_k": 5}), ("greedy", {}))
    state = data[tab.state]
    assert state.columns[0].run.steps == () and state.columns[1].run is greedy.run
    # The dice's seed is every sampler's, and no greedy decoder's.
    seeded = tab.current({**data, tab.panel.controls.parts["seed"]: 9})
    assert seeded.columns[0].decoder.sampling.seed == 9
    data = {**data, tab.panel.prompt: "other"}
    assert all(not run.steps for run in tab.current(data).runs)


def test_a_longer_length_lets_texts_go_on(page):
    tab, _ = page
    data, _ = edit(page, ("greedy", {}), ("beam", {}))
    data, _ = run_all(tab, data)
    before = data[tab.state].columns[0].run
    data = {**data, tab.length: 12}
    data, ticks = run_all(tab, data)
    greedy, searched = data[tab.state].runs
    assert greedy.new_ids[:8] == before.new_ids and len(greedy.steps) == 12
    lm = tab.lm(Visit())
    wanted = pg.beam_search(lm, lm.encode(PROMPT), pg.BeamParams(max_new_tokens=12))
    assert searched.new_ids == wanted.hypotheses[0].ids
    # Run again when all have ended: once more from the start.
    again = tab._tick(data, 0)[0][tab.state]
    assert [len(run.steps) for run in again.runs] == [1, 1]


def test_a_human_text_is_scored_and_shown(page):
    tab, data = page
    data = {**data, tab.human: "and so on to the end of it"}
    found = tab._show(data)
    state = found[tab.state]
    lm = tab.lm(Visit())
    assert lm.decode(state.human.new_ids) == " and so "  # as long as the texts may be
    assert found[tab.decks]["human"]["parts"] == [" and so "]
    assert found[tab.table]["rows"][-1]["cells"][0] == "Human text"
    chart = found[tab.probabilities]
    uids = [trace["uid"] for trace in json.loads(chart.to_json(remove_uids=False))["data"]]
    assert "human0" in uids and "human4" not in uids
    for text in ("", "   "):
        assert tab.current({**data, tab.human: text}).human is None


@pytest.mark.parametrize(
    ("text", "prompt", "chat", "want"),
    [
        ("and", "you", False, " and"),
        (" and", "you", False, " and"),
        ("and", "you ", False, "and"),
        ("and", "you", True, "and"),
        ("and", "", False, "and"),
    ],
)
def test_a_space_is_put_before_a_human_text_where_one_is_missing(built, text, prompt, chat, want):
    lm = built[0].lm(Visit())
    assert lm.decode(moves.human_ids(lm, text, prompt, chat)) == want


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (None, "Compare 2 to 6 decoders."),
        ([("greedy", {})], "Compare 2 to 6 decoders."),
        ([("greedy", {})] * 7, "Compare 2 to 6 decoders."),
        ([("best", {}), ("greedy", {})], "There is no decoder “best”."),
        ([("beam", {"num_beams": 99}), ("greedy", {})], "Beams"),
        ([("sampling", {"top_p": "x"}), ("greedy", {})], "Top-p"),
        ([("sampling", {"top_k": 1.5}), ("greedy", {})], "Top-k"),
    ],
)
def test_bad_decks_are_refused_in_words_and_nothing_is_lost(page, sent, words):
    tab, _ = page
    data, _ = edit(page, ("greedy", {}), ("sampling", {}))
    before = data[tab.state]
    rows = sent and [dict(kind=k, settings=s) for k, s in sent]
    with pytest.warns(UserWarning, match=words):  # a toast, outside a page
        found = tab._edit(data, event(decks=rows))
    assert found[tab.state].runs == before.runs and found[tab.decks]["again"]


def test_an_empty_prompt_is_told(page):
    tab, data = page
    found = tab._show({**data, tab.panel.prompt: ""})
    assert found[tab.decks]["decks"] == [] and found[tab.decks]["message"]
    assert found[tab.state].setup is None
    assert found[tab.state].decks == decks.STORY


def test_a_decoder_that_refuses_stops_alone(page, monkeypatch):
    tab, _ = page
    data, _ = edit(page, ("greedy", {}), ("speculative", {"helper": "lookup"}))

    def refuse(*_, **__):
        raise ValueError("it can't")

    monkeypatch.setattr("playground.engines.speculative.step", refuse)
    data, _ = run_all(tab, data)
    state = data[tab.state]
    assert len(state.columns[0].run.steps) == 8
    assert state.columns[1].refused == "it can't"
    assert screen.note(state.columns[1], tab.lm(Visit()), T) == "it can't"


def test_caches_are_each_runs_own_and_go_when_it_ends(page):
    tab, _ = page
    data, _ = edit(page, ("greedy", {}), ("greedy", {}))
    data, _ = run_all(tab, data)
    one, two = data[tab.state].runs
    assert one.new_ids == two.new_ids and one.forwards == two.forwards == 8
    kept = tab.tracks._made[tab.lm(Visit())]
    assert not {column.mark for column in data[tab.state].columns} & set(kept)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_part_is_told_in_both_languages(page, language):
    tab, _ = page
    data, _ = edit(page, *ALL)
    data, _ = run_all(tab, {**data, tab.human: "so it was"})
    t, lm = translator(language), tab.lm(Visit())
    values = screen.draw_screen(lm, data[tab.state], tab.seconds, t)
    assert set(values) == set(screen.PARTS)
    named = [one["name"] for one in values["decks"]["decks"]]
    assert len(set(named)) == 6
    text = values["sentence"]["parts"][0]
    assert all(name in text for name in named) and t("compare.human_name") not in named
    rows = values["table"]["rows"]
    width = len(values["table"]["columns"])
    assert [row["cells"][0] for row in rows] == [*named, t("compare.human_name")]
    assert all(len(row["cells"]) == width for row in rows)
    greedy = data[tab.state].columns[0].run
    probable = f"{sum(map(math.exp, greedy.logprobs)) / 8:.3f}"
    assert probable in rows[0]["cells"]


def test_names(page):
    rows = [
        deck("sampling"),
        deck("sampling", top_p=0.95),
        deck("sampling", temperature=0.7, top_k=40),
        deck("sampling", top_p=0.95),
        deck("beam", num_beams=8),
        deck("greedy"),
    ]
    named = ["Pure sampling", "top-p 0.95", "T 0.7 · top-k 40", "top-p 0.95 (2)"]
    assert decks.names(rows, T) == [*named, "Beam 8", "Greedy"]


@pytest.mark.parametrize("index", range(6))
def test_each_column_can_be_proved(page, index, monkeypatch):
    monkeypatch.setattr("sys.argv", ["proof.py"])
    tab, _ = page
    data, _ = edit(page, *ALL)
    data, _ = run_all(tab, data)
    sheet = tab._prove(data, event(index=index))[tab.sheet]
    status, said = play(sheet["script"])
    assert status == 0 and said.startswith("MATCH"), said
    assert bool(sheet["call"]) == (ALL[index][0] != "contrastive")


def test_the_sample_tab_proves_its_run(built, monkeypatch):
    monkeypatch.setattr("sys.argv", ["proof.py"])
    tab, prove = built
    with pytest.warns(UserWarning, match=T("proof.nothing")):  # a toast, outside a page
        assert prove.prove({tab.sample.visit: Visit()}) == gr.skip()
    lm = tab.lm(Visit())
    session = Session().start(Prompt(PROMPT), lm)
    session = take(lm, take(lm, session, NUCLEUS, T, None), NUCLEUS, T, 40)
    sheet = prove.prove({tab.sample.visit: Visit(session)})[tab.sheet]
    status, said = play(sheet["script"])
    assert status == 0 and said.startswith("MATCH: 2 tokens"), said
    assert sheet["notes"] == [T("proof.note_draws"), T("proof.note_forced")]


def test_presets_have_decoders_that_work(page):
    tab, data = page
    for preset in PRESETS:
        found = tab._preset({**data, tab.preset: preset.name})
        state = found[tab.state]
        assert state.decks == preset.decks and all(run is not None for run in state.runs)
        assert (state.human is not None) == bool(preset.human)
        assert all(isinstance(c.decoder, Decoder) for c in state.columns)
