"""The program's English refusals in the reader's language: each caused here, none made up."""

import re
import string

import numpy as np
import pytest

import playground as pg
from playground.dice import draw
from playground.export import from_link
from playground.models import ModelError, load_model
from playground.processors import shape
from playground.takeaway import read_trace
from playground.tape_file import from_bytes
from playground.ui.controls import _ids
from playground.ui.panel import _turns
from playground.words import entries, in_words, speaking

LM = pg.TableLM({0: [0.5, 0.5], 1: [0.5, 0.5]})
PARAMS = pg.SamplingParams
FLAT = np.zeros(4, np.float32)

CAUSES = {
    "range": lambda: PARAMS(temperature=-1),
    "whole_from": lambda: PARAMS(top_k=1.5),
    "whole_range": lambda: PARAMS(seed=None),
    "choice": lambda: PARAMS(dialect="x"),
    "token_ids": lambda: _ids("seven"),
    "turns": lambda: _turns("hello"),
    "dialect": lambda: shape(FLAT, PARAMS(eta_cutoff=0.01, dialect="vLLM")),
    "order_names": lambda: shape(FLAT, PARAMS(top_k=2, order=("nonsense",))),
    "order_once": lambda: shape(FLAT, PARAMS(top_k=2, order=("top_k", "top_k"))),
    "order_active": lambda: shape(FLAT, PARAMS(top_k=2, top_p=0.5, order=("top_p",))),
    "no_token_masked": lambda: shape(FLAT - np.inf, PARAMS()),
    "no_token_nan": lambda: shape(FLAT + np.nan, PARAMS()),
    "no_token_zero": lambda: draw(FLAT - np.inf, 0.5),
    "link_damaged": lambda: from_link("1.abc"),
    "link_version": lambda: from_link("x"),
    "tape_none": lambda: from_bytes(b"nothing"),
    "tape_damaged": lambda: from_bytes(b"DPTAPE1\n"),
    "no_file": lambda: read_trace(b"{", LM),
    "trace_version": lambda: pg.Trace.from_dict({"version": 99}),
    "trace_damaged": lambda: pg.Trace.from_dict({"version": 1}),
    "unknown_model": lambda: load_model("/no/such/folder"),
}


@pytest.fixture
def chinese():
    token = speaking.set("zh")
    yield
    speaking.reset(token)


@pytest.mark.parametrize("key", CAUSES)
def test_a_refusal_is_told_in_chinese_with_all_it_said(key, chinese):
    with pytest.raises(ValueError) as caught:
        CAUSES[key]()
    english, told = str(caught.value), in_words(caught.value)
    wording = entries()[f"refusals.{key}"]["zh"]
    start = wording.partition("{")[0]
    assert re.search(r"[一-鿿]", told) and told.startswith(start) and told != english
    for number in re.findall(r"\d+(?:\.\d+)?", english):
        assert number in told


@pytest.mark.parametrize("key", [key for key in entries() if key.startswith("refusals.")])
def test_no_wording_is_taken_for_another(key, chinese):
    names = [n for _, n, _, _ in string.Formatter().parse(entries()[key]["en"]) if n]
    fields = {name: f"<{name}>" for name in names}
    said = ValueError(entries()[key]["en"].format(**fields))
    assert in_words(said) == entries()[key]["zh"].format(**fields)


def test_english_readers_and_unknown_refusals_get_the_sentence_itself(chinese):
    assert in_words(ValueError("no words for this")) == "no words for this"
    speaking.set("en")
    with pytest.raises(ModelError) as caught:
        load_model("/no/such/folder")
    assert in_words(caught.value) == str(caught.value)
