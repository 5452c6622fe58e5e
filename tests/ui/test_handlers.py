"""The page's moves and values without a page: what is taken, refused, shown and counted."""

import json
import threading

import numpy as np
import pytest

import playground as pg
from playground.lm import TransformersLM
from playground.session import Prompt, Session
from playground.ui import handlers, screen
from playground.ui.controls import PRESETS, START
from playground.ui.demo import carry_over
from playground.ui.library import Library
from playground.words import LANGUAGES, translator
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

T = translator("en")
ALL = pg.SamplingParams(0.9, top_k=40, top_p=0.9, min_p=0.02, seed=5)


@pytest.fixture
def lm():
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="abc")


def start(lm, text="hello"):
    return Session().start(Prompt(text), lm)


def draw(lm, session, params=ALL, t=T):
    return screen.draw_screen(lm, "default", session, params, t)


def test_steps_equal_generate_and_the_screen_names_the_next_token(lm):
    session = start(lm)
    want = pg.generate(lm, session.ids, ALL, 8, stop_at_eos=False).new_ids
    for token in want:
        drawn = json.loads(json.dumps(draw(lm, session)["live"]))["payload"]
        step = pg.shape(lm.logits(session.ids)[-1], ALL, session.ids, 5)[-1].logprobs
        assert pg.draw(step, drawn["u"]) == token
        session = handlers.take(lm, session, ALL, T, None)
    assert session.trace.new_ids == want


def test_twenty_steps_and_fifty_slider_moves_cost_one_prefill_and_twenty_forwards(lm):
    session = start(lm)
    draw(lm, session)
    assert lm.forwards == 1
    for _ in range(20):
        session = handlers.take(lm, session, ALL, T, None)
        draw(lm, session)
    assert lm.forwards == 21 and lm.forwarded == 5 + 20
    for i in range(50):
        draw(lm, session, ALL.replace(temperature=0.1 + i / 20, top_k=i, top_p=1 - i / 100))
    draw(lm, session.back())
    draw(lm, session.look_at(3))
    assert lm.forwards == 21


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_draws_in_both_languages(lm, preset, language):
    session = handlers.take(lm, start(lm), PRESETS[preset], T, None)
    values = draw(lm, session, PRESETS[preset], translator(language))
    for name in screen.CHARTS:
        text = values[name].to_json()
        assert "NaN" not in text and "Infinity" not in text
    assert values["sentence"]["parts"][0]


def test_a_forced_token_is_taken_whatever_the_filters_say(lm):
    session = start(lm)
    greedy = pg.SamplingParams(temperature=0)
    last = int(np.asarray(lm.logits(session.ids)[-1]).argmin())
    session = handlers.take(lm, session, greedy, T, last)
    step = session.trace.steps[-1]
    assert (step.token_id, step.source, step.logprob) == (last, "forced", -np.inf)
    assert step.rank == lm.vocab_size
    draw(lm, session)
    draw(lm, session.look_at(0))


def test_the_digit_keys_take_the_models_candidates(lm):
    session = start(lm)
    order = np.argsort(-np.asarray(lm.logits(session.ids)[-1]), kind="stable")
    assert [handlers.candidate(lm, session, d) for d in range(1, 10)] == order[:9].tolist()
    with pytest.raises(ValueError, match=r"digit must be .* \[1, 9\], got 0"):
        handlers.candidate(lm, session, 0)


def test_a_text_is_forced_token_by_token(lm):
    session = handlers.force_text(lm, start(lm), ALL, T, "wow")
    assert lm.decode(session.trace.new_ids) == "wow"
    with pytest.raises(ValueError, match="type a token"):
        handlers.force_text(lm, session, ALL, T, "")
    with pytest.raises(ValueError, match="context is full: 1008 of 128"):
        handlers.force_text(lm, session, ALL, T, "x" * 1000)


def test_an_empty_prompt_and_a_full_context_are_told_in_words(lm):
    empty = start(lm, "")
    values = draw(lm, empty)
    assert "start from BOS" in values["sentence"]["parts"][0]
    with pytest.raises(ValueError, match="The prompt is empty"):
        handlers.take(lm, empty, ALL, T, None)
    full = start(lm, "a" * 128)
    assert "The context is full: 128 of 128" in draw(lm, full)["sentence"]["parts"][0]
    with pytest.raises(ValueError, match="The context is full: 128 of 128"):
        handlers.take(lm, full, ALL, T, None)


def run(lm, session, length, stops=()):
    for count in range(length):
        session = handlers.tick(lm, session, ALL, T, count, stops)
        yield session
        if session.trace.stop:
            return


def test_a_run_goes_on_to_its_length_a_stop_text_or_the_end(lm):
    session = start(lm)
    whole = list(run(lm, session, 6))
    assert [len(s.trace.steps) for s in whole] == [1, 2, 3, 4, 5, 6]
    assert whole[-1].trace.stop == ""
    text = lm.decode(whole[-1].trace.new_ids)
    stopped = list(run(lm, session, 6, [text[2]]))
    assert stopped[-1].trace.stop == "stopped" and len(stopped) <= 3
    # What was there before the run doesn't stop it.
    earlier = handlers.force_text(lm, session, ALL, T, "zz")
    assert len(list(run(lm, earlier, 2, ["zz"]))) == 2
    full = list(run(lm, start(lm, "a" * 126), 6))
    assert [s.trace.stop for s in full] == ["", "context full"]
    toy = TransformersLM(tiny_llama(), tiny_tokenizer())
    toy.eos_ids = tuple(range(96))
    assert [s.trace.stop for s in run(toy, session, 6)] == ["eos"]


def test_the_pace_of_a_run_is_checked():
    assert handlers.pace(30.0, 8) == (30, 125)
    for length, speed in ((0, 5), (10_000, 5), (1.5, 5), (5, 0), (5, 1000)):
        with pytest.raises(ValueError, match="run_length must|speed must"):
            handlers.pace(length, speed)


def test_a_token_is_found_by_text_or_id(lm):
    a = lm.encode("a")[0]
    assert handlers.find_token(lm, "a", T) == (a, "")
    assert handlers.find_token(lm, "#7", T) == (7, "")
    assert handlers.find_token(lm, "95", T)[0] == 95  # two digits: no token of this tokenizer
    token, note = handlers.find_token(lm, "abc", T)
    assert token == a and "3 tokens" in note
    with pytest.raises(ValueError, match=r"token id must be .* \[0, 95\], got 96"):
        handlers.find_token(lm, "#96", T)
    with pytest.raises(ValueError, match="Nothing to inspect"):
        handlers.find_token(lm, "", T)


def test_the_inspector_tells_the_inequality_that_decided(lm):
    session = start(lm)
    logits = lm.logits(session.ids)[-1]
    params = pg.SamplingParams(min_p=0.3)
    stages = pg.shape(logits, params, session.ids, 5)
    worst = int(np.asarray(logits).argmin())
    table = screen.inspect(lm, logits, stages, params, worst, session.ids, 5, T)
    cells = [row["cells"] for row in table["rows"]]
    assert [c[0] for c in cells] == ["model", "min-p"]
    assert "<" in cells[1][2] and "0.3" in cells[1][2] and cells[1][1] == "0"
    assert f"rank {lm.vocab_size}" in table["caption"]


def test_branches_are_listed_with_their_text(lm):
    session = start(lm)
    for _ in range(3):
        session = handlers.take(lm, session, ALL, T, None)
    other = handlers.take(lm, session.look_at(1), ALL, T, 9)
    (row,) = screen.branches(lm, other, T)["rows"]
    assert row["id"] == 0 and row["cells"][1] == 3
    assert row["cells"][0] == "".join(lm.label(i) for i in session.trace.new_ids)
    assert [t.get("branch") for t in screen.strip(lm, other)["tokens"][5:]] == [False, True]


def test_a_new_model_keeps_the_text_and_marks_what_it_did_not_write(lm):
    session = handlers.force_text(lm, start(lm), ALL, T, "wow")
    other = TransformersLM(tiny_gpt2(), tiny_tokenizer(90), name="other")
    moved = carry_over(session, lm, other, ALL)
    assert other.decode(moved.ids) == "hellowow"
    assert {s.source for s in moved.trace.steps} == {"stale"}
    assert moved.trace.model.startswith("other@")
    tokens = screen.strip(other, moved)["tokens"]
    assert [t.get("stale", False) for t in tokens] == [False] * 5 + [True] * 3


def test_start_and_presets_are_valid_and_start_is_one_of_them():
    assert START in PRESETS.values()
    assert PRESETS["off"] == pg.SamplingParams()


class Loader:
    def __init__(self):
        self.calls = []

    def __call__(self, name, progress):
        self.calls.append(name)
        progress(0.5, f"half of {name}")
        if name == "bad":
            raise ValueError("no such model")
        return pg.TableLM({None: [1.0]}, name=name)


def test_the_library_loads_once_keeps_a_few_and_survives_a_failed_load():
    loader = Loader()
    library = Library(loader, capacity=2)
    threads = [threading.Thread(target=library.get, args=("default",)) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert loader.calls == ["default"]
    with pytest.raises(ValueError, match="no such model"):
        library.get("bad")
    assert library.loaded("default").name == "default" and library.doing == ""
    library.get("a")
    library.get("b")
    assert library.loaded("a") is None and library.loaded("default") and library.loaded("b")


def test_preloading_a_model_that_fails_is_told_later():
    library = Library(Loader(), default="bad")
    library.preload().join()
    assert library.failure == "no such model"
    with pytest.raises(ValueError, match="no such model"):
        library.get("bad")
