"""What a visitor is told of a long wait: that an answer is being made, the place in the queue."""

import threading

import gradio as gr
import pytest
from gradio.context import LocalContext
from starlette.applications import Starlette
from starlette.testclient import TestClient

from playground.lm import TransformersLM
from playground.serving.host import LONG, Host
from playground.serving.limits import Limits
from playground.serving.turns import within
from playground.ui.start import waiting_route
from tests.tiny import tiny_llama, tiny_tokenizer


def load(name, progress):
    return TransformersLM(tiny_llama(), tiny_tokenizer(), name=name)


@pytest.fixture(autouse=True)
def nobody():
    yield
    LocalContext.request.set(None)


def as_session(name):
    LocalContext.request.set(gr.Request(session_hash=name))


def test_only_an_answer_that_takes_long_is_told_and_only_to_its_visitor():
    now = [0.0]
    host = Host(load, Limits(), clock=lambda: now[0])
    ask = TestClient(Starlette(routes=[waiting_route(host)])).get
    told = []

    def handler():
        told.append(ask("/waiting?session=a").json()["busy"])
        now[0] += LONG + 0.1
        told.append(ask("/waiting?session=a").json()["busy"])
        told.append(ask("/waiting?session=b").json()["busy"])
        told.append(ask("/waiting").json()["busy"])

    as_session("a")
    within(handler, host.working)()
    assert told == [False, True, False, False]
    assert ask("/waiting?session=a").json() == {"busy": False, "place": 0, "waiting": 0}


def test_a_stream_is_long_only_while_it_makes_one_answer():
    now = [0.0]
    host = Host(load, Limits(), clock=lambda: now[0])

    def answers():
        for _ in range(3):
            now[0] += LONG / 2
            yield host.waits("a")["busy"]

    as_session("a")
    assert list(within(answers, host.working)()) == [False, False, False]


def test_each_waiting_visitor_has_a_place(monkeypatch):
    host = Host(load, Limits())
    lm = host.load("default", None)
    inside, gate = threading.Event(), threading.Event()
    forward = lm.unbatched.logits

    def slow(*args, **options):
        inside.set()
        gate.wait(10)
        return forward(*args, **options)

    monkeypatch.setattr(lm.unbatched, "logits", slow)

    def ask(name, ids):
        as_session(name)
        lm.logits(ids)

    threads = []
    for name, ids in (("a", [5, 6, 7]), ("b", [6, 7, 8]), ("c", [7, 8, 9])):
        threads.append(threading.Thread(target=ask, args=(name, ids)))
        threads[-1].start()
        assert inside.wait(10)
        while not host.waits(name)["place"]:
            pass
    assert [host.waits(name)["place"] for name in ("a", "b", "c", "d")] == [1, 2, 3, 0]
    gate.set()
    for thread in threads:
        thread.join(10)
    assert host.waits("c") == {"busy": False, "place": 0, "waiting": 0}
