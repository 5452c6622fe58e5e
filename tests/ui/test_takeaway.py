"""Tapes in the library: kept by hash, the oldest go when there are too many; the example plays."""

import pytest

from playground.lm import TransformersLM
from playground.recorder import record
from playground.session import from_state
from playground.tape import TapeLM
from playground.tape_file import from_bytes, to_bytes
from playground.ui import library as module
from playground.ui.library import EXAMPLE_FILE, EXAMPLE_TAPE, Library
from tests.tiny import tiny_llama, tiny_tokenizer


def never(name, progress=None):
    raise AssertionError("no model is loaded for a tape")


def test_the_example_plays_before_any_model():
    library = Library(never)
    lm = library.get(EXAMPLE_TAPE)
    assert library.get(EXAMPLE_TAPE) is lm
    session = from_state(dict(lm.tape.state), lm)
    assert lm.decode(session.ids).startswith("The capital of France is Paris.")
    assert len(lm.tape.logits) == 8 == len(session.trace.steps) + 1
    # The golden value of the default model after this prompt, within float16.
    step = session.trace.steps[0]
    assert step.model_logprob == pytest.approx(-0.25808, abs=1e-3)  # ln 0.772532
    assert EXAMPLE_FILE.stat().st_size < 1_000_000


def test_the_oldest_tapes_go(monkeypatch):
    lm = TransformersLM(tiny_llama(), tiny_tokenizer(), name="tiny", fingerprint="a")
    tapes = [TapeLM(from_bytes(to_bytes(record(lm, [[i]])))) for i in range(4)]
    monkeypatch.setattr(module, "TAPE_BYTES", 2 * tapes[0].tape.nbytes)
    library = Library(never)
    names = [library.add_tape(tape) for tape in tapes]
    assert len(set(names)) == 4
    assert [library.loaded(name) for name in names] == [None, None, tapes[2], tapes[3]]
    with pytest.raises(ValueError, match="no longer here: open its file again"):
        library.get(names[0])
