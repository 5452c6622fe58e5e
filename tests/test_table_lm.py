"""The toy model: its rows, its padding, its refusals."""

import numpy as np
import pytest

import playground as pg
from playground.language_model import ContextFull, LanguageModel

TOY = {None: [0.5, 0.3, 0.2], 0: [0.1, 0.9, 0.0], 1: [0.0, 0.0, 1.0]}


def test_it_is_a_language_model_that_looks_up_the_last_token():
    lm = pg.TableLM(TOY, eos_ids=(2,))
    assert isinstance(lm, LanguageModel)
    np.testing.assert_allclose(np.exp(lm.logits([])[0]), TOY[None], atol=1e-7)
    np.testing.assert_allclose(np.exp(lm.logits([1, 0])[0]), TOY[0], atol=1e-7)
    np.testing.assert_allclose(np.exp(lm.logits([2])[0]), TOY[None], atol=1e-7)
    three = np.exp(lm.logits([0, 1, 2], last=3))
    np.testing.assert_allclose(three, [TOY[0], TOY[1], TOY[None]], atol=1e-7)
    many = np.exp(lm.logits_many([[0], [2, 1]]))
    np.testing.assert_allclose(many[:, 0], [TOY[0], TOY[1]], atol=1e-7)
    assert many.dtype == np.float32


def test_padding_columns_are_cut():
    lm = pg.TableLM({None: [0.5, 0.25, 0.25]}, vocab_size=2)
    np.testing.assert_allclose(np.exp(lm.logits([])[0]), [0.5, 0.25], atol=1e-7)


def test_refusals_name_the_trouble():
    with pytest.raises(ValueError, match="at least one row"):
        pg.TableLM({})
    with pytest.raises(ValueError, match="row 0 must be probabilities that sum to 1"):
        pg.TableLM({0: [0.5, 0.4]})
    lm = pg.TableLM({0: [0.5, 0.5]}, context_length=3)
    with pytest.raises(ValueError, match="no row for token 1"):
        lm.logits([1])
    with pytest.raises(ValueError, match=r"in \[0, 1\], got 2"):
        lm.logits([2])
    with pytest.raises(ContextFull, match="4 tokens, and table takes 3"):
        lm.logits([0, 0, 0, 0])


def test_text_is_ids_as_words():
    lm = pg.TableLM(TOY)
    assert lm.encode("0 2 1") == [0, 2, 1]
    assert lm.decode([0, 2, 1]) == "0 2 1"
    assert lm.label(2) == "2"
