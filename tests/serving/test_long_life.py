"""A server for days: what sessions, switches of model and vanished browsers leave behind."""

import gc
import random
import threading
import time
import weakref
from types import SimpleNamespace

import gradio as gr
import psutil
import pytest
from gradio.context import LocalContext

import playground as pg
from playground.lm import TransformersLM
from playground.serving import batching, host
from playground.serving.host import Host
from playground.serving.limits import Limits
from playground.serving.refusals import Cancelled
from playground.ui.library import Library
from playground.ui.second_models import EXIT, LOOKUP, SHORT, SecondModels
from playground.ui.start import build
from tests.serving.test_fuzz import Caller
from tests.tiny import tiny_llama, tiny_tokenizer

LIMITS = Limits(steps_per_minute=0, any_model=1)
PARAMS = pg.SamplingParams()


def as_session(name):
    LocalContext.request.set(gr.Request(session_hash=name))


@pytest.fixture(autouse=True)
def nobody():
    yield
    LocalContext.request.set(None)


def load(name, progress, **config):
    return TransformersLM(tiny_llama(**config), tiny_tokenizer(), name=name)


def test_ten_models_later_only_the_last_ones_are_held(monkeypatch):
    monkeypatch.setattr(batching, "IDLE", 0.05)
    library = Library(Host(load, LIMITS).load)
    seconds = SecondModels((SHORT, EXIT, LOOKUP), 0.5)
    born = []
    for name in ("default", *(f"m{i}" for i in range(10))):
        lm = library.get(name)
        born.append(weakref.ref(lm.model))
        for kind in seconds.offered(lm):
            second = seconds.get(lm, seconds.default(lm, kind))
            if kind != LOOKUP:
                second.logits([5, 6, 7])
        lm.logits([5, 6, 7])
    del lm, second
    time.sleep(0.3)
    gc.collect()
    assert sum(ref() is not None for ref in born) <= library.capacity + 1


def test_when_the_last_session_has_left_the_caches_are_dropped():
    served = Host(load, LIMITS)
    lm = served.load("default", None)
    for name in ("a", "b"):
        as_session(name)
        lm.logits([5, 6, 7, 8])
    served.leave("a")
    assert lm.cached_bytes > 0
    served.leave("b")
    assert lm.cached_bytes == 0


def test_a_session_seen_last_long_ago_does_not_hold_the_caches():
    now = [0.0]
    served = Host(load, LIMITS, clock=lambda: now[0])
    lm = served.load("default", None)
    as_session("vanished")
    lm.logits([5, 6, 7])
    now[0] += host.FORGOTTEN + 1
    as_session("b")
    lm.logits([5, 6, 8])
    served.leave("b")
    assert lm.cached_bytes == 0


def test_a_closed_tab_frees_the_model_at_once_and_may_come_back():
    now = [0.0]
    served = Host(load, LIMITS, clock=lambda: now[0])
    lm = served.load("default", None)
    ended = []

    def run():
        as_session("tab")
        try:
            for one in pg.stream(lm, [5, 6], PARAMS, 10_000, stop_at_eos=False):
                ended.append(one)
        except Cancelled:
            ended.append("cancelled")

    lm.unbatched.context_length = None
    lm.unbatched.model.config.max_position_embeddings = 10**6
    thread = threading.Thread(target=run)
    thread.start()
    while len(ended) < 3:
        time.sleep(0.01)
    began = time.monotonic()
    served.leave("tab")
    thread.join(5)
    assert not thread.is_alive() and ended[-1] == "cancelled"
    assert time.monotonic() - began < 5
    now[0] += host.GONE + 1
    as_session("tab")
    assert lm.logits([5, 6, 7]).shape == (1, 96)


@pytest.mark.slow
def test_fifty_sessions_leave_no_memory_behind():
    """With a vocabulary as wide as a real one, so that a leaked step would show."""

    def wide(name, progress):
        return TransformersLM(tiny_llama(vocab_size=30_000), tiny_tokenizer(), name=name)

    served = Host(wide, LIMITS)
    library = Library(served.load)
    demo = build(library, served)
    library.get("default")

    def visit(number):
        caller = Caller(demo, session=f"s{number}")
        rng = random.Random(number)
        opening, pressed = caller.on("load"), caller.on("click", "dp-step")
        caller.send(opening, ["en"])
        for _ in range(4):
            caller.send(pressed, caller.inputs(pressed, rng, 0))
        served.leave(f"s{number}")

    def resident():
        gc.collect()
        return psutil.Process().memory_info().rss / 2**20

    for number in range(8):
        visit(number)
    before = resident()
    for number in range(50):
        visit(100 + number)
    grown = resident() - before
    assert served.waiting == 0 and library.get("default").cached_bytes == 0
    assert grown < 100, SimpleNamespace(grown_megabytes=grown)
