"""Another model as amateur or draft: found by name, checked by its tokens, refused in words."""

import threading

import gradio as gr
import pytest

import playground as pg
from playground.engines.pairs import DifferentTokenizers, check_pair
from playground.lm import TransformersLM
from playground.models import ModelError
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.second_models import (
    EXIT,
    LOOKUP,
    OTHER,
    SHORT,
    OtherModel,
    Second,
    SecondModels,
)
from playground.words import LANGUAGES, translator
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

T = translator("en")
KINDS = (SHORT, EXIT, LOOKUP, OTHER)


def named(name, model=None, size=96):
    return TransformersLM(model or tiny_llama(), tiny_tokenizer(size), name=name, fingerprint="f")


def load(name, progress):
    """ "strange" has other tokens, "bad" doesn't load, "wide" has more of them, all else fits."""
    progress(None, f"reading {name}")
    if name == "bad":
        raise ModelError("no model called 'bad'")
    if name == "strange":
        lm = named("strange")
        lm.tokenizer.add_tokens(["x"])
        lm.__dict__["token_strings"] = ("<s>", "</s>", "Z", *lm.token_strings[3:])
        return lm
    if name == "wide":
        return named("wide", tiny_gpt2(vocab_size=100), 100)
    return named(name, tiny_gpt2())


@pytest.fixture
def lm():
    return named("mine")


@pytest.fixture
def seconds():
    return SecondModels(KINDS, 0.75, Library(load), allow_any=True)


def test_another_model_is_the_librarys_own(lm, seconds):
    other = seconds.get(lm, Second(OTHER, name="gpt2"))
    assert other is seconds.library.get("gpt2") and other.name == "gpt2"
    assert OTHER in seconds.offered(lm)
    assert OTHER not in SecondModels(KINDS, 0.75).offered(lm)
    about = seconds.about_other(lm, "gpt2", T)
    assert "gpt2" in about and "128 tokens" in about
    assert "not loaded" in seconds.about_other(lm, "gpt2-large", T)


def test_more_tokens_of_the_same_kind_are_no_other_tokenizer(lm, seconds):
    wide = seconds.get(lm, Second(OTHER, name="wide"))
    assert wide.vocab_size == 100 and check_pair(lm, wide) == 96
    step = pg.contrast(lm.logits([5])[-1], wide.logits([5])[-1], pg.ContrastiveParams(), 96)
    assert len(step.scores) == 96


@pytest.mark.parametrize("language", LANGUAGES)
def test_different_tokenizers_are_refused_with_both_names_and_the_reason(lm, seconds, language):
    t = translator(language)
    with pytest.raises(ValueError) as refused:
        seconds.get(lm, Second(OTHER, name="strange"), t)
    text = str(refused.value)
    assert text == t("second.different", other="strange", name="mine", id="2", theirs="Z", ours="a")
    assert seconds.about_other(lm, "strange", t) == text
    with pytest.raises(DifferentTokenizers, match="mine and strange: id 2 is 'a' in one and 'Z'"):
        check_pair(lm, seconds.library.get("strange"))


def test_no_name_and_a_name_off_the_list_are_refused_in_words(lm):
    closed = SecondModels(KINDS, 0.75, Library(load))
    with pytest.raises(ValueError, match="Choose a model .* same tokenizer as mine"):
        closed.get(lm, Second(OTHER))
    with pytest.raises(ValueError, match="Only models of the list .* got wide"):
        closed.get(lm, Second(OTHER, name="wide"))
    assert closed.get(lm, Second(OTHER, name="gpt2")).name == "gpt2"
    assert not closed.library.loaded("wide")


def test_a_model_that_is_still_loading_is_said_to_be(lm, seconds):
    seconds.library.doing = "3 of 10 MB"
    with pytest.raises(ValueError, match=r"gpt2 has to wait: .*\(3 of 10 MB\)"):
        seconds.get(lm, Second(OTHER, name="gpt2"))


def test_a_pair_and_the_default_stay_together_in_the_library():
    library = Library(load)
    for _ in range(2):
        found = [library.get(name) for name in ("default", "gpt2-large", "gpt2")]
    assert [library.loaded(lm.name) for lm in found] == found
    library.get("wide")
    assert library.loaded("default") is found[0] and library.loaded("gpt2") is found[2]
    assert library.loaded("gpt2-large") is None


def test_made_ones_are_kept_a_few_per_model(lm, seconds):
    deep = named("deep", tiny_llama(num_hidden_layers=7))
    first = seconds.get(deep, Second(EXIT, 1))
    assert seconds.get(deep, Second(EXIT, 1)) is first
    for layer in range(2, 8):
        assert seconds.get(deep, Second(EXIT, layer)).name == f"deep, first {layer} of 7 layers"
    assert seconds.get(deep, Second(EXIT, 1)) is not first
    assert seconds.get(lm, Second(SHORT, 3)).context == 3
    assert seconds.get(lm, Second(LOOKUP)) is seconds.get(lm, Second(LOOKUP))
    toy = pg.TableLM({None: [0.5, 0.5]}, name="toy")
    assert seconds.offered(toy) == (SHORT, LOOKUP, OTHER)
    assert "no layers to leave at" in seconds.refusals(toy)[EXIT]


# --- the control


def bring(seconds, lm, name):
    """Choose a name in the control; return it and the updates of the page, one after another."""
    other = OtherModel(Labels(), seconds, "other")
    shown = []

    def show(data):
        shown.append(data[other.part])
        return {other.part: gr.update(visible=True)}

    found = list(other.bring({other.part: name}, lm, "about", show, T))
    return other, found, shown


def test_loading_is_told_until_the_page_is_drawn(lm, seconds):
    gate = threading.Event()

    def slow(name, progress):
        progress(0.3, "3 of 10 MB")
        gate.wait(10)
        return load(name, progress)

    seconds.library._loader = slow
    threading.Timer(0.4, gate.set).start()
    _, found, shown = bring(seconds, lm, "gpt2")
    told = [update["about"] for update in found[:-1]]
    assert told[0] == T("page.model_loading", text="3 of 10 MB")
    assert shown == ["gpt2"] and "about" not in found[-1]
    assert seconds.library.loaded("gpt2") is not None


@pytest.mark.parametrize(("name", "why"), [("bad", "no model called 'bad'"), ("", "Choose a")])
def test_a_model_that_cannot_be_loaded_is_taken_back(lm, seconds, name, why):
    with pytest.warns(UserWarning, match=why):
        other, found, shown = bring(seconds, lm, name)
    assert shown == [None] and found[-1][other.part]["value"] is None
    assert found[-1][other.part]["visible"] and found[-1]["about"].startswith(why)


def test_the_control_is_seen_where_it_is_needed(seconds):
    other = OtherModel(Labels(), seconds, "other")
    assert not other.part.visible and not other.show(EXIT, T)[other.part]["visible"]
    update = other.show(OTHER, T)[other.part]
    assert update["visible"] and "gpt2" in [name for _, name in update["choices"]]
    assert other.name({other.part: " gpt2 "}) == "gpt2" and other.name({other.part: None}) == ""
