"""The Contrast tab without a page: its three texts, what costs a forward, words, presets."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import gradio as gr
import numpy as np
import pytest

import playground as pg
from playground.engines.contrastive import amateur_ids, contrastive_decode
from playground.lm import TransformersLM
from playground.models import views
from playground.models.views import ShortContext
from playground.records.contrastive import ContrastiveParams
from playground.repeats import longest_repeat, rep
from playground.ui import contrastive_moves as moves
from playground.ui import contrastive_screen as screen
from playground.ui.components import Toolbar
from playground.ui.contrastive import ContrastTab
from playground.ui.contrastive_controls import DRAW, EXIT_AT, KINDS, PRESETS, SCORE, preset_of
from playground.ui.contrastive_moves import Contest, Setup
from playground.ui.events import Visit
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.ui.sampling import SampleTab
from playground.ui.second_models import DISTILLED, EXIT, OTHER, SHORT, Second, SecondModels
from playground.words import LANGUAGES, translator
from tests.models.test_views import deep, lm_of, student_file
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

T = translator("en")
PARAMS = ContrastiveParams()
GREEDY = pg.SamplingParams(temperature=0)
PROMPT = "hello you"


def tiny():
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")


@pytest.fixture
def lm():
    return tiny()


def begin(lm, second=None, text=PROMPT, sees="all"):
    second = second or Second(SHORT, 2)
    amateur = SecondModels(KINDS, EXIT_AT).get(lm, second)
    return amateur, moves.start(Setup(tuple(lm.encode(text)), "m", second, sees))


def go(lm, amateur, contest, count=1, params=PARAMS, sampling=GREEDY, force=None):
    for _ in range(count):
        contest = moves.forward(lm, amateur, contest, params, sampling, T, force)
    return contest


def words(values):
    """All texts of a sentence's or text's parts, joined."""
    return "".join(p if isinstance(p, str) else p["token"] for p in values["parts"])


# --- the three texts


@pytest.mark.parametrize("second", [Second(SHORT, 3), Second(EXIT, 1)])
@pytest.mark.parametrize("sampling", [GREEDY, pg.SamplingParams(0.9, top_p=0.8, seed=4)])
def test_the_texts_are_the_engines(lm, second, sampling):
    amateur, contest = begin(lm, second)
    contest = go(lm, amateur, contest, 8, sampling=sampling)
    prompt = contest.prompt_ids
    want = contrastive_decode(lm, amateur, prompt, PARAMS, sampling, 8, stop_at_eos=False)
    assert contest.new_ids == want.new_ids
    assert contest.expert_ids == pg.generate(lm, prompt, GREEDY, 8).new_ids
    assert contest.amateur_ids == pg.generate(amateur, prompt, GREEDY, 8).new_ids
    assert len({contest.new_ids, contest.expert_ids, contest.amateur_ids}) == 3


def test_the_amateur_alone_begins_where_it_is_told_to(lm):
    amateur, contest = begin(lm, Second(EXIT, 1), sees="generated")
    params = ContrastiveParams(amateur_sees="generated")
    contest = go(lm, amateur, contest, 5, params)
    last = contest.prompt_ids[-1:]
    assert contest.amateur_ids == pg.generate(amateur, last, GREEDY, 5).new_ids
    assert amateur_ids(contest.ids, len(contest.prompt_ids), params) == last + contest.new_ids
    said = words(screen.draw_screen(lm, amateur, contest, params, GREEDY, T)["context"])
    assert said == T("contrast.sees", count="6") + " " + lm.decode([*last, *contest.new_ids])


def test_settings_move_the_lines_without_a_forward(lm):
    amateur, contest = begin(lm, Second(EXIT, 1))
    contest = go(lm, amateur, contest, 4)
    screen.draw_screen(lm, amateur, contest, PARAMS, GREEDY, T)
    spent, seen = (lm.forwards, amateur.forwards), set()
    for i in range(20):
        params = ContrastiveParams(
            i / 20, i / 7, 0.5 + i / 10, ["difference", "one_plus_beta"][i % 2]
        )
        sampling = GREEDY if i % 3 else pg.SamplingParams(seed=i)
        shown = screen.draw_screen(lm, amateur, contest, params, sampling, T)
        seen.add(str(shown["plane"].data[2].x) + str(shown["plane"].data[1].y))
    for count in range(5):
        screen.draw_screen(lm, amateur, moves.look_at(contest, count), PARAMS, GREEDY, T)
    assert (lm.forwards, amateur.forwards) == spent
    assert len(seen) > 15


def test_a_step_costs_one_forward_of_each_model_on_each_text(lm):
    amateur, contest = begin(lm, Second(EXIT, 1))
    contest = go(lm, amateur, contest, 3)
    screen.draw_screen(lm, amateur, contest, PARAMS, GREEDY, T)
    before = lm.forwards, amateur.forwards
    contest = go(lm, amateur, contest)
    screen.draw_screen(lm, amateur, contest, PARAMS, GREEDY, T)
    assert lm.forwards - before[0] <= 2 and amateur.forwards - before[1] <= 2


def test_back_and_step_bring_known_tokens_again_forced_ones_too(lm):
    amateur, contest = begin(lm)
    contest = go(lm, amateur, go(lm, amateur, contest, 2), force=50)
    contest = go(lm, amateur, contest)
    whole = contest.new_ids
    assert whole[2] == 50 and contest.taken[2].step.source == "forced"
    back = moves.look_at(contest, 1)
    assert back.new_ids == whole[:1] and back.next is contest.taken[1]
    strip = screen.strip(lm, back)
    assert strip["cursor"] == len(contest.prompt_ids) + 1 and not strip["next"]
    assert len(strip["tokens"]) == len(contest.ids)
    assert go(lm, amateur, back, 3).new_ids == whole
    assert moves.look_at(contest, -5).at == 0 and moves.look_at(contest, 99).at == 4


def test_other_settings_decide_anew_from_the_token_looked_at(lm):
    amateur, contest = begin(lm)
    contest = go(lm, amateur, contest, 4)
    other = ContrastiveParams(1.0, 0.0)
    assert not moves.stale(contest, PARAMS, GREEDY) and moves.stale(contest, other, GREEDY)
    after = go(lm, amateur, moves.look_at(contest, 2), params=other)
    both = moves.position(lm, amateur, moves.look_at(contest, 2), other, GREEDY)
    assert after.new_ids == (*contest.new_ids[:2], both.winner) and len(after.taken) == 3
    assert after.new_ids[2] != contest.new_ids[2]
    assert screen.hint(after, other, GREEDY, T) == T("contrast.stale")
    fresh = moves.start(after.setup)
    assert screen.hint(fresh, other, GREEDY, T) == T("contrast.hint_slope", slope="0")


def test_digits_take_the_candidates_in_the_order_of_the_bars(lm):
    amateur, contest = begin(lm)
    both = moves.position(lm, amateur, contest, ContrastiveParams(0.01), GREEDY)
    order = np.argsort(-both.scores, kind="stable")
    assert [moves.nth(both, d) for d in range(1, 10)] == order[:9].tolist()
    alone = moves.position(lm, amateur, contest, ContrastiveParams(1.0), GREEDY)
    assert [moves.nth(alone, d) for d in (1, 9)] == [alone.winner] * 2


def test_the_state_is_ids_and_numbers(lm):
    amateur, contest = begin(lm)
    contest = go(lm, amateur, contest, 30)
    data = pickle.dumps(contest)
    assert len(data) < 12_000 and pickle.loads(data) == contest


# --- what cannot be decoded


def test_the_end_an_empty_prompt_and_a_full_context_are_told_in_words(lm):
    amateur, contest = begin(lm)
    over = go(lm, amateur, contest, force=lm.eos_ids[0])
    with pytest.raises(ValueError, match="The text has ended"):
        go(lm, amateur, over)
    parts = screen.text_parts(lm, over.new_ids, T)
    assert parts == [" ■ " + T("contrast.text_ended")]
    values = screen.draw_screen(lm, amateur, over, PARAMS, GREEDY, T)
    assert words(values["sentence"]).startswith(T("contrast.ended"))

    empty = moves.start(Setup((), "m", Second(SHORT, 2)))
    with pytest.raises(ValueError, match="The prompt is empty"):
        go(lm, amateur, empty)
    values = screen.draw_screen(lm, amateur, empty, PARAMS, GREEDY, T)
    assert set(values) == set(screen.PARTS) and "prompt is empty" in values["plane"]

    amateur, full = begin(lm, text="a" * 127)
    full = go(lm, amateur, full)
    with pytest.raises(ValueError, match="The context is full: 128 of 128"):
        go(lm, amateur, full)
    assert "128 of 128" in screen.draw_screen(lm, amateur, full, PARAMS, GREEDY, T)["plane"]


def test_a_run_ends_at_the_end_of_the_text_and_the_next_one_begins_again():
    table = pg.TableLM({None: [1, 0, 0, 0], 0: [0, 1, 0, 0], 1: [0, 0, 0, 1]}, eos_ids=(3,))
    pair = table, ShortContext(table, 1)
    contest = moves.start(Setup((0,), "m", Second(SHORT, 1)))
    shown = []
    for count in (0, 1, 0):
        contest = moves.tick(*pair, contest, PARAMS, GREEDY, T, count)
        shown.append((contest.new_ids, moves.over(*pair, contest, PARAMS, T)))
    assert shown == [((1,), False), ((1, 3), True), ((1,), False)]
    assert contest.expert_ids == (1,)
    with pytest.raises(ValueError, match="The text has ended"):
        moves.tick(*pair, moves.forward(*pair, contest, PARAMS, GREEDY, T), PARAMS, GREEDY, T, 1)


# --- words


def test_the_sentence_says_what_decided():
    expert = pg.TableLM({0: [0.5, 0.3, 0.13, 0.06, 0.01]}, eos_ids=())
    weak = pg.TableLM({0: [0.6, 0.2, 0.05, 0.1499, 0.0001]}, eos_ids=())
    contest = moves.start(Setup((0,), "m", Second(SHORT, 2)))

    def said(amateur=weak, **params):
        both = moves.position(expert, amateur, contest, ContrastiveParams(**params), GREEDY)
        return screen.sentence(expert, contest, both, T)[0]

    facts = dict(label=expert.label(2), expert="0.130", amateur="0.050", ratio="2.60")
    other = dict(other_label=expert.label(0), other_expert="0.500")
    other |= dict(other_amateur="0.600", other_ratio="0.833")
    assert said() == T("contrast.why", **facts, **other)
    assert said(amateur_weight=0.0) == T("contrast.why_alone")
    assert said(expert) == T("contrast.why_equal")
    same = dict(label=expert.label(0), expert="0.500", amateur="0.600", ratio="0.833")
    assert said(plausibility=1.0) == T("contrast.why_same", **same)
    rare = pg.TableLM({0: [0.6, 0.3, 0.097, 0.003 - 1e-9, 1e-9]}, eos_ids=())
    table = pg.TableLM({0: [0.6, 0.3, 0.097, 0.002, 0.001]}, eos_ids=())
    both = moves.position(table, rare, contest, ContrastiveParams(0.0), GREEDY)
    assert both.winner == 4
    assert screen.sentence(table, contest, both, T)[0].startswith(f"“{table.label(4)}” is absurd")


def test_a_text_in_pieces_is_the_text_with_its_repeat_marked(lm):
    ids = lm.encode("abcxyzabc")
    assert screen.text_parts(lm, ids, T) == [{"token": "abc"}, "xyz", {"token": "abc"}]
    assert screen.text_parts(lm, lm.encode("abab"), T) == ["abab"]
    assert screen.text_parts(lm, [], T) == ["–"]
    rng = np.random.default_rng(1)
    for _ in range(30):
        ids = rng.integers(2, 12, 40).tolist()
        assert words({"parts": screen.text_parts(lm, ids, T)}) == lm.decode(ids)


def test_repetition_is_counted_as_by_hand_and_by_brute_force():
    assert rep([1, 2, 1, 2, 1], 2) == pytest.approx(1 - 2 / 4)
    assert rep([1], 2) is None and rep([1, 2], 2) == 0
    assert longest_repeat([5, 1, 2, 3, 9, 1, 2, 3]) == (1, 5, 3)
    assert longest_repeat([7] * 5) == (0, 1, 4)
    assert longest_repeat([1, 2, 3])[2] == 0
    rng = np.random.default_rng(0)
    for _ in range(50):
        ids = rng.integers(0, 3, 12).tolist()
        runs = [
            n
            for i in range(12)
            for j in range(i + 1, 12)
            for n in range(1, 13 - j)
            if ids[i : i + n] == ids[j : j + n]
        ]
        first, second, length = longest_repeat(ids)
        assert length == max(runs, default=0)
        assert ids[first : first + length] == ids[second : second + length]


@pytest.mark.parametrize("language", LANGUAGES)
def test_decoding_is_told_from_search(language):
    note = pg.words.entries()["contrast.not_search"][language]
    named = {"en": ("contrastive decoding", "Contrastive search"), "zh": ("对比解码", "对比搜索")}
    decoding, search = (note.index(word) for word in named[language])
    assert decoding < note.index("2210.15097") < search < note.index("2202.06417")


# --- controls and what starts anew


def load(name, progress):
    """The expert; "gpt2", with half its context; "strange", with another tokenizer."""
    if name == "default":
        return tiny()
    lm = TransformersLM(tiny_gpt2(n_positions=64), tiny_tokenizer(), name=name, fingerprint="g")
    if name == "strange":
        lm.__dict__["token_strings"] = ("<s>", "</s>", "Z", *lm.token_strings[3:])
    return lm


async def build():
    """Return the tab in a page that nobody opened."""
    labels = Labels()
    library = Library(load)
    library.get("default")
    with gr.Blocks():
        toolbar = Toolbar()
        panel = Panel(labels, True)
        with gr.Tabs():
            with gr.Tab():
                sample = SampleTab(library, panel, labels, toolbar)
            with gr.Tab():
                return ContrastTab(library, panel, labels, toolbar, sample, True)


@pytest.fixture(scope="module")
def tab():
    # In a running loop, or Gradio makes several and leaves them open; in a thread, where no other
    # test's loop runs.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(build())).result()


@pytest.fixture
def page(tab):
    """The tab and the values of its inputs."""
    data = {part: part.value for part in tab.inputs}
    visit = {tab.sample.visit: Visit(), tab.contest: Contest()}
    return tab, data | visit | {tab.panel.prompt: PROMPT}


def test_prompt_and_amateur_start_anew_settings_do_not(page, capsys):
    tab, data = page
    c = tab.view.controls
    contest, anew = tab.current(data)
    assert anew and capsys.readouterr().out == ""
    lm = tab.lm(data[tab.sample.visit])
    amateur = tab.amateurs.get(lm, contest.setup.amateur)
    data[tab.contest] = go(lm, amateur, contest, 3)
    for part, value in ((c.weight, 2.0), (c.plausibility, 0.0), (c.choose, DRAW)):
        assert tab.current(data | {part: value}) == (data[tab.contest], False)
    changes = [
        (tab.panel.prompt, "other", "contrast.restarted_prompt"),
        (c.context, 7, "contrast.restarted_amateur"),
        (c.kind, EXIT, "contrast.restarted_amateur"),
        (c.sees, "generated", "contrast.restarted_amateur"),
    ]
    for part, value, word in changes:
        fresh, anew = tab.current(data | {part: value})
        assert anew and fresh.at == 0 and T(word) in capsys.readouterr().out
        assert tab.draw(data | {part: value}, fresh)[tab.contest] is fresh
    with pytest.raises(ValueError, match="The prompt is too long: 200 tokens"):
        tab.current(data | {tab.panel.prompt: "a" * 200})


def other_page(page, name):
    """The page with another model chosen as the amateur, and its updates."""
    tab, data = page
    c = tab.view.controls
    return {**data, c.kind: OTHER, c.other.part: name}


def test_another_model_is_the_amateur(page):
    tab, data = page
    c, visit = tab.view.controls, Visit()
    data = other_page(page, "gpt2")
    contest, _ = tab.current(data)
    lm, amateur = tab.lm(visit), tab.amateur(tab.lm(visit), contest, T)
    assert amateur is tab.library.get("gpt2") is not lm
    both = moves.position(lm, amateur, contest, PARAMS, GREEDY)
    want = pg.contrast(lm.logits(contest.ids)[-1], amateur.logits(contest.ids)[-1], PARAMS)
    assert np.array_equal(both.scores, want.scores)
    shown = tab._show(data)
    assert shown[c.other.part]["visible"] and not shown[c.context]["visible"]
    assert "gpt2" in shown[c.about] and shown[c.kind]["value"] == OTHER
    # Its context counts, and what it is given: here 64 tokens of the expert's 128.
    long = {**data, tab.panel.prompt: "a" * 70}
    with pytest.raises(ValueError, match="too long for the amateur: 70 tokens, and gpt2 takes 64"):
        tab.current(long)
    contest, _ = tab.current({**long, c.sees: "generated"})
    assert len(contest.prompt_ids) == 70
    near, _ = tab.current({**data, tab.panel.prompt: "a" * 63})
    near = go(lm, amateur, near)
    told = T("contrast.amateur_full", name="gpt2", count=64, limit=64)
    with pytest.raises(ValueError, match="The amateur's context is full: 64 of 64 tokens of gpt2"):
        go(lm, amateur, near)
    values = screen.draw_screen(lm, amateur, near, PARAMS, GREEDY, T)
    assert values["sentence"] == told and told in values["plane"]


def test_an_amateur_that_cannot_be_used_is_told_on_the_page_and_stays_to_be_changed(page):
    tab, data = page
    c = tab.view.controls
    for name, why in (("", "Choose a model"), ("strange", "their tokenizers differ. Id 2 is")):
        data = other_page(page, name)
        if name:
            tab.library.get(name)
        shown = tab._show(data)
        assert why in shown[c.about] and shown[c.other.part]["visible"]
        assert shown[c.kind]["value"] == OTHER and shown[tab.contest] == Contest()
        assert why in shown[tab.parts["plane"]] and why in shown[tab.parts["sentence"]]
        with pytest.raises(ValueError, match=why):
            tab.current(data)


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_out_of_range_are_refused_with_the_controls_name(page, language):
    tab, data = page
    c, t = tab.view.controls, translator(language)
    name = t("contrast.plausibility")
    for value in (-0.1, 1.5, None, "x", float("nan")):
        with pytest.raises(ValueError, match=name):
            c.params(data | {c.plausibility: value}, t)
    with pytest.raises(ValueError, match=t("contrast.temperature")):
        c.params(data | {c.temperature: 0}, t)
    with pytest.raises(ValueError, match=t("contrast.context")):
        c.choice(data | {c.kind: SHORT, c.context: 2.5}, tab.lm(Visit()), t)
    with pytest.raises(ValueError, match=t("contrast.run_length")):
        c.run_length(data | {c.length: 1000}, t)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_panel_says_what_the_amateur_is_and_why_one_is_not_there(page, language):
    tab, data = page
    c, t, lm = tab.view.controls, translator(language), tab.lm(Visit())
    shown = c.show(lm, Second(SHORT, 3), t)
    why = (t("contrast.no_file"), t("contrast.no_student"))
    assert shown[c.about] in {t("contrast.about_short", context=3) + " " + text for text in why}
    assert [k for _, k in shown[c.kind]["choices"]] == [SHORT, EXIT, OTHER]
    assert shown[c.context]["visible"] and not shown[c.layer]["visible"]
    assert c.choice(data | {c.kind: "distilled"}, lm, t).kind == SHORT
    assert c.choice(data | {c.kind: EXIT, c.layer: 99}, lm, t) == tab.amateurs.default(lm, EXIT)


def test_choosing_by_score_is_greedy_and_keeps_the_rest(page):
    tab, data = page
    c, panel = tab.view.controls, pg.SamplingParams(0.7, repetition_penalty=1.2, seed=9)
    assert c.sampling(data | {c.choose: SCORE}, panel) == panel.replace(temperature=0.0)
    assert c.sampling(data | {c.choose: DRAW}, panel) == panel


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_is_drawn_in_both_languages_without_nan(page, language):
    tab, data = page
    data[tab.sample.visit] = Visit(language=language)
    contest, _ = tab.current(data)
    for choose in (SCORE, DRAW):
        found = tab.draw(data | {tab.view.controls.choose: choose}, contest)
        assert set(tab.parts.values()) <= set(found)
        for name in screen.CHARTS:
            text = found[tab.parts[name]].to_json()
            assert "NaN" not in text and "Infinity" not in text


# --- presets


def test_the_students_presets_are_offered_where_there_is_a_student(page, tmp_path, monkeypatch):
    tab, data = page
    c, model = tab.view.controls, deep("llama")
    theirs = {p.name for p in PRESETS if p.kind == DISTILLED}
    everyones = {p.name for p in PRESETS} - theirs
    assert theirs and everyones

    def offered(lm):
        choices = c.show(lm, c.choice(data, lm, T), T)[c.preset]["choices"]
        return {name for _, name in choices if name}

    lm = lm_of(model)
    assert offered(lm) == everyones and c.choice(data, lm, T) == Second(SHORT, 4)
    path, _ = student_file(tmp_path, model)
    monkeypatch.setattr(views, "distilled", partial(views.distilled, path=path))
    lm = lm_of(model)
    assert offered(lm) == theirs | everyones and c.choice(data, lm, T) == Second(DISTILLED)
    for name in theirs:
        data |= c.preset_values(preset_of(name), lm)
        second = c.choice(data, lm, T)
        assert "distilled to 2 layers" in tab.amateurs.get(lm, second).name
        assert T("contrast.about_distilled") in c.show(lm, second, T)[c.about]


def test_presets_have_names_that_are_all_different():
    assert len({p.name for p in PRESETS}) == len({p.word for p in PRESETS}) == len(PRESETS)
    assert all(p.word in pg.words.entries() for p in PRESETS)
    assert preset_of("nothing") is None
