"""A thousand hostile requests through every handler and endpoint: words, never a crash or a hang.

In-process, by Gradio's own way from a request's JSON to its answer (checks, handler, answer), on
the whole page with tiny models. What the user would be shown is looked at, and what the log holds.
"""

import asyncio
import base64
import json
import logging
import random
import re
import traceback
import zlib
from types import SimpleNamespace
from urllib.parse import urlencode

import gradio as gr
import pytest
from anyio.from_thread import start_blocking_portal
from gradio.events import EventData
from gradio.state_holder import SessionState
from starlette.requests import Request

from playground.export import MAX_JSON, from_link
from playground.lm import TransformersLM
from playground.models import ModelError
from playground.serving.host import Host
from playground.serving.limits import Limits
from playground.ui.library import Library
from playground.ui.start import build
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

CALLS = 1000
SECONDS = 10  # no answer may take longer
LIMITS = Limits(prompt_tokens=100, new_tokens=20, steps_per_minute=0, runs=0)
TELLTALE = re.compile(r"Traceback|File \"|/playground/|site-packages")

TEXTS = (
    "", " ", "hello", "a" * 200, "b" * 200_000, "\x00\x01\x1b[2J", "\ud800", "</s><s><|im_end|>",
    "<img src=x onerror=alert(1)>", "${alert(1)}", "{{constructor}}", "{0.__class__}", "%s%n",
    "../../../etc/passwd", "/etc/passwd", "'; DROP TABLE x; --", "你好", "\u202eabc", "nan", "-1",
    "1e999", "#7", "#99999999999999999999", "default", "gpt2", "no/such-model", "[1, 2", "1 2 3",
    "temperature, top_k", "user: hi\nassistant: there",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 3.5, 7, 0.1, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), 2**31,
    2**63, 10**40, -(2**70), 1e-320, True, False,
)  # fmt: skip


def hostile(rng, depth=0):
    """Return any JSON-like value."""
    kind = rng.randrange(6 if depth < 3 else 3)
    if kind == 0:
        return rng.choice(TEXTS)
    if kind == 1:
        return rng.choice(NUMBERS)
    if kind == 2:
        return rng.choice((None, True, [], {}))
    if kind == 3:
        return [hostile(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = ("path", "url", "id", "index", "digit", "customdata", "order", "count", "language",
            "meta", "value", "__type__", "key", "token", "name", "orig_name")  # fmt: skip
    return {rng.choice(keys): hostile(rng, depth + 1) for _ in range(rng.randrange(5))}


def load(name, progress):
    makes = {"default": tiny_llama, "gpt2": tiny_gpt2}
    if name not in makes:
        raise ModelError(f"no model called {name[:40]!r}")
    return TransformersLM(makes[name](), tiny_tokenizer(), name=name, fingerprint="tiny")


@pytest.fixture(scope="module")
def served():
    host = Host(load, LIMITS)
    library = Library(host.load)
    library.get("default")
    demo = build(library, host)
    return SimpleNamespace(demo=demo, host=host, library=library)


class Caller:
    """Calls the page's functions as a browser's requests do."""

    def __init__(self, demo, session="visitor"):
        self.demo, self.session = demo, session
        self.state = SessionState(demo)
        self.fns = [fn for fn in demo.fns.values() if fn.fn is not None]
        self.told = []  # what users saw that wasn't a value

    def on(self, event, elem_id=None):
        """Return the function that an event calls, of the page itself or of a part."""
        blocks = self.demo.blocks.items()
        parts = {i for i, block in blocks if elem_id and block.elem_id == elem_id}
        return next(
            fn
            for fn in self.fns
            if any(e == event and (not elem_id or i in parts) for i, e in fn.targets)
        )

    def inputs(self, fn, rng, share):
        """Return valid values, about a ``share`` of them replaced by hostile ones."""
        found = []
        for part in fn.inputs:
            if isinstance(part, gr.State):
                found.append(None)
            elif rng.random() < share:
                found.append(hostile(rng))
            else:
                value = getattr(part, "value", None)
                found.append(value() if callable(value) else value)
        return found

    async def call(self, fn, inputs, data=None, query=None):
        scope = {"type": "http", "headers": [], "query_string": urlencode(query or {}).encode()}
        request = gr.Request(Request(scope), session_hash=self.session)
        target = fn.inputs[0] if fn.inputs else None
        iterator, answers = None, []
        for _ in range(4):  # a stream's first answers; then the visitor leaves
            found = await asyncio.wait_for(
                self.demo.process_api(
                    fn,
                    inputs,
                    state=self.state,
                    request=request,
                    iterator=iterator,
                    event_id="event",
                    event_data=EventData(target, data),
                ),
                SECONDS,
            )
            answers.append(found["data"])
            iterator = found["iterator"]
            if not found["is_generating"]:
                break
        return answers

    def send(self, fn, inputs, data=None, query=None):
        """Return the answers, or None where the request was refused; fail on what mustn't be."""
        try:  # in a thread of its own, since browser tests leave this one's loop running
            with start_blocking_portal() as portal:
                return portal.call(self.call, fn, inputs, data, query)
        except TimeoutError:
            pytest.fail(f"{fn.api_name}: no answer in {SECONDS} s")
        except gr.Error as error:
            self.told.append(str(error.message))
        except Exception as error:
            # Gradio's own checks refuse before a handler runs: the user is told that something is
            # wrong, no more. Our code must not raise anything else.
            here = [f for f in traceback.extract_tb(error.__traceback__)
                    if "/playground/" in f.filename]  # fmt: skip
            assert not here, f"{fn.api_name}: {here[-1]} {error!r}"
        return None


@pytest.fixture
def told(monkeypatch):
    """What the page's toasts say during a test."""
    found = []
    for name in ("Warning", "Info"):
        monkeypatch.setattr(gr, name, lambda text="", *a, **k: found.append(str(text)))
    return found


def step_works(served):
    """Step as a new visitor does (the last one may just have closed its page)."""
    caller = Caller(served.demo, session="another")
    rng = random.Random(0)
    opening = caller.on("load")
    assert caller.send(opening, ["en"])
    pressed = caller.on("click", "dp-step")
    visit = next(part for part in pressed.inputs if isinstance(part, gr.State))
    for _ in range(3):
        assert caller.send(pressed, caller.inputs(pressed, rng, 0))
    assert len(caller.state[visit._id].session.trace.steps) == 3


@pytest.mark.slow
def test_hostile_requests_get_words_and_the_page_still_steps(served, told, caplog):
    rng = random.Random(20)
    caller = Caller(served.demo)
    opening = caller.on("load")
    caller.send(opening, ["en"])
    names = set()
    failed = []
    with caplog.at_level(logging.ERROR, logger="playground"):
        for i in range(CALLS):
            fn = (
                caller.fns[i % len(caller.fns)]
                if i < 2 * len(caller.fns)
                else rng.choice(caller.fns)
            )
            names.add(fn._id)
            before = len(caplog.records)
            caller.send(fn, caller.inputs(fn, rng, rng.choice((0, 0.1, 0.5, 1))), hostile(rng))
            failed += [(fn.api_name, r.exc_text or r.exc_info) for r in caplog.records[before:]]
            if i % 100 == 99:
                caller.state = SessionState(served.demo)
                caller.send(opening, [rng.choice(("en", "zh"))])
    assert len(names) == len(caller.fns)
    for text in told:
        assert len(text) < 1000 and "\n" not in text.strip(), text[:2000]
    for text in (*told, *caller.told):  # Gradio's own checks echo to the sender what was sent
        assert not TELLTALE.search(text), text[:2000]
    assert not failed, "\n".join(sorted({f"{name}: {info}" for name, info in failed}))
    assert served.host.waiting == 0
    step_works(served)


def pack(value, version="1"):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return f"{version}.{base64.urlsafe_b64encode(zlib.compress(raw)).decode().rstrip('=')}"


def links(rng):
    """Yield hostile permalinks."""
    good = {"model": "default", "prompt": {"text": "hi"}, "params": [{}], "steps": [[5, 0, "x"]]}
    yield from ("", "1.", "2.abc", "1." + "A" * 30_000, "1.%%%", "../../etc/passwd", "1.é")
    yield pack(b"\x00" * (MAX_JSON + 1))
    yield pack(b"[" * 100_000)
    yield pack(b'{"prompt": NaN}')
    for key in (*good, "look", "now", "weights", "stop", "language"):
        for value in (*TEXTS[:8], *NUMBERS, None, [], {}, [[[]]], "x" * 5000):
            if rng.random() < 0.1:
                yield pack({**good, key: value})
    for steps in ([[10**9, 0, "x"]], [[5, 9, "x"]], [[5, 0, "x"]] * 500, [[5.5, 0, "x"]], [["5"]]):
        yield pack({**good, "steps": steps})
    for text in ("a" * 101, "a" * 90_000, "\x00", "</s>" * 50):
        yield pack({**good, "prompt": {"text": text, "chat": text[0] == "<"}})
    for params in ({"temperature": -1}, {"top_k": 1e99}, {"dialect": "x"}, {"order": ["x"] * 999}):
        yield pack({**good, "params": [params], "now": params})
    for _ in range(12):
        yield pack({key: hostile(rng) for key in (*good, "look", "now") if rng.random() < 0.8})


@pytest.mark.slow
def test_hostile_permalinks_are_refused_politely(served, told, caplog):
    rng = random.Random(4)
    caller = Caller(served.demo)
    opening = caller.on("load")
    count = 0
    with caplog.at_level(logging.ERROR, logger="playground"):
        for link in links(rng):
            count += 1
            answers = caller.send(opening, [rng.choice(("en", "zh"))], query={"state": link})
            assert answers  # a page is shown whatever the link says
    assert count > 40 and len(told) > 20
    for text in told:
        assert len(text) < 1000 and not TELLTALE.search(text), text
    assert not [r.exc_text for r in caplog.records]
    step_works(served)


def test_a_link_with_a_foreign_model_loads_only_the_catalogues(served, told):
    caller = Caller(served.demo)
    opening = caller.on("load")
    for name in ("someone/model", "/etc", "~", "../x", "x.gguf"):
        told.clear()
        caller.send(opening, ["zh"], query={"state": pack({"model": name, "prompt": {}})})
        assert "只能加载列表中的模型" in told[0] and name in told[0]
    assert served.library.loaded("someone/model") is None


def test_a_damaged_link_is_refused_in_the_readers_language(served, told):
    caller = Caller(served.demo)
    opening = caller.on("load")
    for link, word in (("1.abc", "链接已损坏"), ("2.abc", "版本号")):
        told.clear()
        assert caller.send(opening, ["zh"], query={"state": link})
        assert word in told[0]


def test_a_link_says_nothing_but_choices():
    link = pack({"model": "default"})
    assert from_link(link) == {"model": "default"}


def test_too_few_values_are_refused_in_a_line_that_repeats_none(served):
    caller = Caller(served.demo)
    fn = next(fn for fn in caller.fns if fn.api_name == "next_tokens")
    assert caller.send(fn, ["my secret prompt"]) is None
    assert caller.told == [f"next_tokens must have {len(fn.inputs)} values, got 1"]
