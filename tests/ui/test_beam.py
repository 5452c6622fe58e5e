"""The Beam tab without a page: moves, refusals in words, rankings, and what each part shows."""

import gc
import json
import warnings

import gradio as gr
import numpy as np
import pytest

import playground as pg
from playground.lm import TransformersLM
from playground.records.beam import PRUNED, BeamParams, Hypothesis
from playground.session import Prompt, Session
from playground.ui import beam_moves as moves
from playground.ui import beam_screen as screen
from playground.ui.beam import changed
from playground.ui.beam_controls import FILTERS, PRESETS, BeamControls
from playground.ui.language import Labels
from playground.words import LANGUAGES, translator
from tests.tiny import tiny_llama, tiny_tokenizer

T = translator("en")
FOUR = BeamParams(4, 8)


@pytest.fixture
def lm():
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")


def start(lm, params=FOUR, text="hello"):
    return moves.start(lm, lm.encode(text), params, T)


def to_end(lm, search):
    while not search.ended:
        search = moves.forward(lm, search, T)
    return search


def trap():
    """A table where greedy's first token (1, 0.6) leads nowhere and the other (2, 0.4) is sure."""
    many = [0.0, 0.0, 0.0, 0.25, 0.25, 0.25, 0.25]
    sure = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    rows = {0: [0.0, 0.6, 0.4, 0.0, 0.0, 0.0, 0.0], 1: many, 2: sure}
    return pg.TableLM({**rows, **{i: sure for i in (3, 4, 5, 6)}}, eos_ids=())


def test_stepping_finds_what_the_search_finds_and_greedy_runs_alongside(lm):
    search = to_end(lm, start(lm))
    whole = pg.beam_search(lm, lm.encode("hello"), FOUR)
    assert moves.result(lm, search).hypotheses == whole.hypotheses
    assert search.steps == whole.steps
    greedy = pg.greedy_continuation(lm, lm.encode("hello"), 8)
    assert search.greedy_path.ids == greedy.ids
    assert search.greedy_path.logprob == pytest.approx(greedy.logprob, abs=1e-4)


def test_back_and_forth_and_every_view_ask_the_model_for_nothing(lm):
    search = to_end(lm, start(lm))
    forwards = lm.forwards
    draw = screen.draw_screen
    for at in (0, 3, 8, 5):
        search = moves.look_at(search, at)
        assert search.at == at
        assert search.greedy_path.length == (at if at < 8 else search.greedy_path.length)
        for penalty, form in ((0.0, "power"), (2.0, "gnmt")):
            draw(lm, search, penalty, form, T)
    again = moves.forward(lm, moves.look_at(search, 3), T)
    assert again.at == 4 and again.steps == search.steps
    assert lm.forwards == forwards
    with pytest.raises(ValueError, match="The search has ended"):
        moves.forward(lm, moves.look_at(search, 8), T)


def test_a_wrong_prune_is_told_as_a_mistake_and_a_right_one_is_not():
    lm = trap()
    search = to_end(lm, moves.start(lm, [0], BeamParams(1, 2), T))
    ghost = next(c for c in search.steps[0].candidates if c.fate == PRUNED and c.token_id == 2)
    search = moves.choose(lm, search, ghost.node, T)
    assert search.road.ids == (2, 3)
    assert search.road.logprob == pytest.approx(np.log(0.4))
    assert "was a mistake" in screen.draw_ranking(lm, search, 1.0, "power", T)["ghost"]
    (road,) = [r for r in moves.roads(search) if r.name == "road"]
    assert (road.node, road.ids) == (ghost.node, (3,))
    assert road.sums == pytest.approx((np.log(0.4),))

    both = to_end(lm, moves.start(lm, [0], BeamParams(2, 2), T))
    assert moves.lost_at(both) is None  # 0.6 x 0.25 is the second of two
    worse = next(c for c in both.steps[1].candidates if c.fate == PRUNED)
    both = moves.choose(lm, both, worse.node, T)
    assert "No regret" in screen.draw_ranking(lm, both, 1.0, "power", T)["ghost"]


def test_the_verdict_and_the_figures_show_the_trap():
    lm = trap()
    search = to_end(lm, moves.start(lm, [0], BeamParams(2, 2, length_penalty=0.0), T))
    values = screen.draw_screen(lm, search, 0.0, "power", T)
    assert "2.67 times as probable" in values["verdict"]  # 0.4 against 0.15
    assert [f["value"] for f in values["figures"]][:4] == ["2 / 2", "−0.916", "−1.897", "× 2.67"]


def test_going_back_before_a_ghost_forgets_it(lm):
    search = to_end(lm, start(lm))
    ghost = next(c for c in search.steps[4].candidates if c.fate == PRUNED)
    search = moves.choose(lm, search, ghost.node, T)
    assert search.road is not None
    assert moves.look_at(search, 5).road is not None
    assert moves.look_at(search, 4).road is None and moves.look_at(search, 4).picked is None


def test_the_digit_keys_continue_the_nearest_ghosts(lm):
    search = moves.forward(lm, start(lm), T)
    pruned = [c for c in search.steps[0].candidates if c.fate == PRUNED]
    order = [c.node for c in sorted(pruned, key=lambda c: -c.sum)]
    assert [moves.nth_ghost(search, d, T) for d in (1, 2, 3)] == order[:3]
    with pytest.raises(ValueError, match="no pruned candidate number 1"):
        moves.nth_ghost(start(lm), 1, T)


def test_paths_add_up_from_root_to_any_node(lm):
    search = to_end(lm, start(lm))
    for step in search.steps:
        for c in step.candidates:
            path = moves.path_to(search, c.node)
            assert path.ids[-1] == c.token_id and path.length == step.index + 1
            assert sum(path.logprobs) == pytest.approx(c.sum, abs=1e-5)
    best = moves.result(lm, search).hypotheses[0]
    assert moves.path_to(search, best.node).ids == best.ids
    with pytest.raises(ValueError, match="belongs to an earlier search"):
        moves.choose(lm, search, 10**6, T)


def test_a_hypothesis_becomes_the_sample_tabs_session(lm):
    prompt = Prompt("hello")
    search = to_end(lm, start(lm))
    best = moves.result(lm, search).hypotheses[0]
    session = Session().start(prompt, lm)
    params = pg.SamplingParams(top_k=5)
    old = pg.generate(lm, session.ids, pg.SamplingParams(temperature=0), 3).steps
    for step in old:
        session = session.advance(step)
    loaded = moves.to_session(lm, session, prompt, search, best, params)
    assert loaded.trace.new_ids == best.ids
    assert {s.source for s in loaded.trace.steps} == {"beam"}
    total = sum(s.model_logprob for s in loaded.trace.steps)
    assert total == pytest.approx(best.logprob, abs=1e-3)
    assert [tuple(s.token_id for s in b) for b in loaded.branches] == [
        tuple(s.token_id for s in old)
    ]
    other = moves.to_session(lm, Session(), prompt, search, best, params)
    assert other.trace.prompt_ids == search.prompt_ids


def test_true_best_is_beside_beam_search_and_greedy_under_the_same_horizon():
    lm = trap()
    search = moves.start(lm, [0], BeamParams(1, 6), T)
    mode = moves.true_best(lm, search, 2, 50, T).mode
    assert mode.found.proven and mode.found.hypothesis.ids == (2, 3)
    assert mode.beam == mode.greedy == pytest.approx(np.log(0.15))
    mode = moves.true_best(lm, moves.start(lm, [0], BeamParams(3, 6), T), 2, 50, T).mode
    assert mode.beam == pytest.approx(np.log(0.4))
    for horizon, budget in ((0, 50), (9, 50), (4, 3)):
        with pytest.raises(ValueError, match="must be"):
            moves.true_best(lm, search, horizon, budget, T)


# --- ranking


def finished(total, length, ids):
    logprobs = (total / length,) * length
    return Hypothesis(ids, total, total / length, False, "length", logprobs, total, 1)


@pytest.mark.parametrize(
    ("penalty", "form", "first", "scores"),
    [
        (0.0, "power", "short", ("−2.000", "−2.700")),
        (1.0, "power", "long", ("−0.900", "−1.000")),
        (-1.0, "power", "short", ("−4.000", "−8.100")),
        (1.0, "gnmt", "short", ("−1.714", "−2.025")),  # / (7/6) and / (8/6)
    ],
)
def test_the_table_ranks_under_any_penalty_without_a_search(lm, penalty, form, first, scores):
    search = to_end(lm, start(lm, BeamParams(2, 3)))
    short, long = finished(-2.0, 2, (5, 6)), finished(-2.7, 3, (7, 8, 9))
    own = sorted([short, long], key=lambda h: -h.score)
    ranked = sorted(own, key=lambda h: -pg.rescore([h], penalty, form)[0].score)
    forwards = lm.forwards
    table = screen.table(lm, search, own, ranked, penalty, form, T)
    assert lm.forwards == forwards
    names = {"".join(lm.label(i) for i in h.ids): n for h, n in ((short, "short"), (long, "long"))}
    assert names[table["rows"][0]["cells"][1]] == first
    assert tuple(row["cells"][4] for row in table["rows"][:2]) == scores
    moved = "was 2" in table["rows"][0]["cells"][5]
    assert moved == (first == "short")  # the search's own order has the long one first


def test_the_table_has_as_many_lines_from_the_first_step_on(lm):
    search = start(lm)
    counts = set()
    while not search.ended:
        search = moves.forward(lm, search, T)
        counts.add(len(screen.draw_ranking(lm, search, 1.0, "power", T)["ranking"]["rows"]))
    assert counts == {6}


# --- what the page is told


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "params",
    [
        FOUR,
        BeamParams(1, 3),
        BeamParams(6, 4, num_groups=3, diversity_penalty=1.0),
        BeamParams(4, 4, do_sample=True, sampling=pg.SamplingParams(seed=5, top_k=20)),
        BeamParams(4, 6, sampling=pg.SamplingParams(no_repeat_ngram_size=2)),
    ],
    ids=str,
)
def test_every_part_draws_in_both_languages(lm, params, language):
    t = translator(language)
    search = start(lm, params)
    while True:
        values = screen.draw_screen(lm, search, 1.0, "power", t)
        assert set(values) == set(screen.PARTS)
        for value in values.values():
            text = value.to_json() if hasattr(value, "to_json") else json.dumps(value)
            assert "NaN" not in text and "Infinity" not in text
        tokens = values["strip"]["tokens"]
        assert len(tokens) == 5 + search.at or search.ended
        if search.ended:
            break
        search = moves.forward(lm, search, t)


def test_an_empty_prompt_a_full_context_and_an_end_token_are_told(lm):
    with pytest.raises(ValueError, match="The prompt is empty"):
        start(lm, text="")
    assert "start from BOS" in screen.draw_screen(lm, moves.Search(), 1.0, "power", T)["verdict"]
    with pytest.raises(ValueError, match="too long: 129 tokens, and the model takes 128"):
        start(lm, text="a" * 129)
    near = start(lm, text="a" * 125)
    told = screen.draw_screen(lm, near, 1.0, "power", T)["verdict"]
    assert "room for 3 of the 8 tokens" in told
    near = to_end(lm, near)
    assert near.at == 3 and "the context is full" in _title(lm, near)
    full = start(lm, text="a" * 128)
    assert full.ended and "The context is full" in _title(lm, full).replace("the c", "The c")
    with pytest.raises(ValueError, match="The search has ended"):
        moves.forward(lm, full, T)
    ended = start(lm, text="hello</s>")
    told = screen.draw_screen(lm, ended, 1.0, "power", T)["verdict"]
    assert "already ends in the end token" in told


def _title(lm, search):
    return screen.draw_screen(lm, search, 1.0, "power", T)["tree"].layout.meta["title"]


# --- controls


@pytest.fixture(scope="module")
def controls():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Gradio leaves event loops open
        with gr.Blocks():
            built = BeamControls(Labels())
        gc.collect()
    return built


def shown(controls, **changes):
    data = {part: part.value for part in controls.parts.values()}
    return {**data, **{controls.parts[name]: value for name, value in changes.items()}}


def test_controls_start_on_plain_beam_search_and_read_back(controls):
    assert controls.params(shown(controls), T) == BeamParams(4, 12)
    read = controls.params(
        shown(controls, num_beams=6, num_groups=3, diversity_penalty=0.5, early_stopping="never"), T
    )
    assert read == BeamParams(6, 12, num_groups=3, diversity_penalty=0.5, early_stopping="never")
    read = controls.params(shown(controls, do_sample=True, top_k=7, seed=3), T)
    assert read.do_sample and read.sampling == pg.SamplingParams(top_k=7, seed=3)
    assert controls.params(shown(controls, seed=3), T).sampling is None  # no dice, no seed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_beams": 0}, "Beams must be a whole number from 1 to 16, got 0"),
        ({"num_beams": 10_000}, "Beams must be a whole number from 1 to 16, got 10000"),
        ({"num_beams": 2.5}, "Beams must be a whole number from 1 to 16, got 2.5"),
        ({"num_beams": None}, "Beams must be a whole number from 1 to 16, got –"),
        ({"max_new_tokens": 1000}, "New tokens must be a whole number from 1 to 50, got 1000"),
        ({"length_penalty": float("nan")}, "Length penalty must be from -2 to 3, got nan"),
        ({"num_beams": 4, "num_groups": 3}, "3 groups can't share 4 beams evenly"),
        ({"num_groups": 2, "do_sample": True}, "one group only"),
        ({"top_p": 1.5}, "Top-p must be from 0 to 1, got 1.5"),
    ],
)
def test_bad_input_is_refused_by_the_controls_name_and_range(controls, changes, words):
    with pytest.raises(ValueError, match=words):
        controls.params(shown(controls, **changes), T)
    with pytest.raises(ValueError) as refused:
        controls.params(shown(controls, **changes), translator("zh"))
    assert any("\u4e00" <= c <= "\u9fff" for c in str(refused.value))


def test_a_slider_passes_on_what_comes_so_that_the_refusal_is_ours(controls):
    assert controls.parts["num_beams"].preprocess(10_000) == 10_000


def test_filters_are_neutral_at_first_and_presets_are_valid(controls):
    plain = pg.SamplingParams()
    assert all(getattr(plain, n.field) == n.value for n in FILTERS)
    for preset in PRESETS:
        assert controls.params(shown(controls, **preset.settings), T).num_beams == 5


def test_only_the_length_penalty_ranks_without_a_new_search():
    assert not changed(FOUR, FOUR.replace(length_penalty=-1.0))
    for change in ({"num_beams": 5}, {"max_new_tokens": 9}, {"early_stopping": True}):
        assert changed(FOUR, FOUR.replace(**change))


# --- the traps, on the default model

# Sums of greedy and of 5 beams over 12 new tokens.
TRAPS = {
    "Once upon a time": (-14.286, -10.372),
    "Water is made of": (-22.412, -16.121),
    "I went to the store and": (-16.201, -10.023),
    "A long time ago, in a": (-19.291, -6.897),
    "The old man looked at": (-17.427, -8.661),
    "The doctor told her that": (-20.848, -13.678),
}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.prompt)
def test_greedy_falls_into_every_trap(default_lm, preset):
    params = BeamParams(**preset.settings)
    search = to_end(
        default_lm, moves.start(default_lm, default_lm.encode(preset.prompt), params, T)
    )
    best = moves.result(default_lm, search).hypotheses[0]
    found = search.greedy_path.logprob, best.logprob
    assert found == pytest.approx(TRAPS[preset.prompt], abs=2e-3)
    assert moves.lost_at(search) is not None
