"""BatchedLM: many sessions at once get what each would have got alone, in turn, within limits."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import playground as pg
from playground.lm import TransformersLM
from playground.models.views import ShortContext, early_exit
from playground.serving import batching
from playground.serving.batching import BatchedLM
from playground.serving.limits import Limits
from playground.serving.refusals import Busy, Cancelled, Refusal
from tests.test_lm import TOLERANCE, bare, some_ids
from tests.tiny import FAMILIES, tiny_llama, tiny_tokenizer

PARAMS = pg.SamplingParams(0.9, top_k=40, top_p=0.95)


def tiny(name="llama", **options):
    model = FAMILIES[name](**({"initializer_range": 0.1} if name == "qwen3_next" else {}))
    model = model if name == "qwen3_next" else model.double()
    return BatchedLM(TransformersLM(model, tiny_tokenizer(), name=name), **options)


class Gate:
    """Holds a model's forwards until it is opened, so that requests gather in the queue."""

    def __init__(self, lm):
        self.open = threading.Event()
        self.entered = threading.Event()
        self.seen = []
        inner = lm.unbatched
        self._one, self._many = inner._forward_one, inner._step
        inner._forward_one, inner._step = self.one, self.many

    def one(self, ids, last):
        self.entered.set()
        assert self.open.wait(20)
        self.seen.append([ids])
        return self._one(ids, last)

    def many(self, rows):
        self.seen.append(list(rows))
        return self._many(rows)


def waiters(lm):
    return sum(len(request.futures) for request in list(lm._queue.values()))


def gather(pool, gate, lm, asks):
    """Ask in order while the worker is held by another request; return the futures."""
    held = pool.submit(lm.logits, some_ids(4, 99))
    assert gate.entered.wait(20)
    futures = []
    for ask in asks:
        before = waiters(lm)
        futures.append(pool.submit(*ask))
        while waiters(lm) == before and not futures[-1].done():
            threading.Event().wait(0.001)
    return held, futures


@pytest.fixture
def pool():
    with ThreadPoolExecutor(40) as pool:
        yield pool


@pytest.mark.parametrize("family", FAMILIES)
def test_many_sessions_get_what_each_gets_alone(family, pool):
    lm = tiny(family)
    alone = TransformersLM(lm.model, lm.tokenizer)
    prompts = [some_ids(3 + 2 * i, i) for i in range(8)]

    def walk(ids):
        worst = 0.0
        for i in range(12):
            got = lm.logits(ids)
            worst = max(worst, float(np.abs(got - bare(alone, ids)).max()))
            ids = (*ids, 5 + (i * 7 + len(ids)) % 80)
        return worst

    assert max(pool.map(walk, prompts)) < TOLERANCE
    assert (lm.batches > 0) == lm.steps_together


def test_engines_run_on_it_unchanged():
    lm = tiny()
    alone = TransformersLM(lm.model, lm.tokenizer, name="llama")
    prompt = some_ids(6)
    want = pg.generate(alone, prompt, PARAMS, 12)
    assert pg.generate(lm, prompt, PARAMS, 12).new_ids == want.new_ids
    beams = pg.BeamParams(num_beams=3, max_new_tokens=6)
    found = [pg.beam_search(m, prompt, beams).hypotheses[0].ids for m in (lm, alone)]
    assert found[0] == found[1]
    for draft in (lambda m: early_exit(m, 1), lambda m: ShortContext(m, 4)):
        pair = [
            pg.speculative_decode(m, draft(m), prompt, pg.SpeculativeParams(gamma=3), PARAMS, 8).ids
            for m in (lm, alone)
        ]
        assert pair[0] == pair[1]
    assert isinstance(lm, TransformersLM) and lm.fingerprint == alone.fingerprint


def test_those_who_wait_join_one_forward_in_order_of_arrival(pool):
    lm = tiny(limits=Limits(batch=4, any_model=1))
    prompts = [some_ids(5, i) for i in range(7)]
    for prompt in prompts:
        lm.logits(prompt)
    gate = Gate(lm)
    held, futures = gather(pool, gate, lm, [(lm.logits, (*p, 9)) for p in prompts])
    gate.open.set()
    for prompt, future in zip(prompts, futures, strict=True):
        np.testing.assert_allclose(future.result(20), bare(lm, (*prompt, 9)), atol=TOLERANCE)
    held.result(20)
    firsts = [{ids[:-1] for ids in rows} for rows in gate.seen[1:]]
    assert firsts == [set(prompts[:4]), set(prompts[4:])]


def test_equal_prefixes_are_computed_once(pool):
    lm = tiny()
    gate = Gate(lm)
    ids = some_ids(9)
    held, futures = gather(pool, gate, lm, [(lm.logits, ids)] * 6)
    assert lm.waiting == 2
    gate.open.set()
    for future in futures:
        np.testing.assert_allclose(future.result(20), bare(lm, ids), atol=TOLERANCE)
    assert lm.forwarded == 4 + 9


def test_what_is_known_waits_for_nobody(pool):
    lm = tiny()
    ids = some_ids(7)
    want = lm.logits(ids, last=2)
    gate = Gate(lm)
    held, _ = gather(pool, gate, lm, [])
    np.testing.assert_array_equal(lm.logits(ids, last=2), want)
    np.testing.assert_array_equal(lm.logits_many([ids, ids[:-1]])[0], want[1:])
    gate.open.set()
    held.result(20)


def test_a_long_prompt_is_read_in_pieces_between_the_others_steps(pool, monkeypatch):
    monkeypatch.setattr(batching, "CHUNK", 10)
    lm = tiny()
    short, long = some_ids(5, 1), some_ids(48, 2)
    lm.logits(short)
    gate = Gate(lm)
    step = (*short, 9)
    held, futures = gather(pool, gate, lm, [(lm.logits, long, 3), (lm.logits, step)])
    gate.open.set()
    np.testing.assert_allclose(futures[0].result(20), bare(lm, long, 3), atol=TOLERANCE)
    futures[1].result(20)
    assert [len(rows[0]) for rows in gate.seen] == [4, 10, 6, 20, 30, 40, 48]
    assert lm.forwarded == 5 + 4 + 1 + 48


def test_a_cache_too_small_for_pieces_still_answers(monkeypatch):
    monkeypatch.setattr(batching, "CHUNK", 10)
    inner = TransformersLM(tiny_llama(), tiny_tokenizer())
    inner._covered = lambda ids, limit: 0
    lm = BatchedLM(inner)
    ids = some_ids(40)
    np.testing.assert_allclose(lm.logits(ids), bare(lm, ids), atol=TOLERANCE)


def test_a_cancelled_session_is_never_computed(pool):
    who = threading.local()
    lm = tiny(session=lambda: getattr(who, "name", ""))
    gate = Gate(lm)

    def ask(name, ids):
        who.name = name
        return lm.logits(ids)

    a, b, both = some_ids(5, 1), some_ids(5, 2), some_ids(5, 3)
    asks = [(ask, "a", a), (ask, "b", b), (ask, "a", both), (ask, "b", both)]
    held, futures = gather(pool, gate, lm, asks)
    assert lm.cancel("a") == 2
    gate.open.set()
    for i in (0, 2):
        with pytest.raises(Cancelled, match="page it was for is gone"):
            futures[i].result(20)
    futures[1].result(20)
    futures[3].result(20)
    assert [a] not in gate.seen and [both] in gate.seen


def test_a_full_queue_and_a_long_wait_are_told_with_the_place(pool):
    lm = tiny(limits=Limits(waiting=3, wait_seconds=1, any_model=1))
    gate = Gate(lm)
    rows = [some_ids(5, i) for i in range(3)]
    held, futures = gather(pool, gate, lm, [(lm.logits, row) for row in rows])
    with pytest.raises(Busy, match="number 4 in the queue"):
        futures[2].result(20)
    with pytest.raises(Busy, match="number [12] in the queue"):
        futures[0].result(20)
    gate.open.set()
    assert lm.logits(rows[0]).shape == (1, 96)


def test_a_failed_forward_is_its_own_sessions_alone(pool):
    lm = tiny()
    rows = [some_ids(5, i) for i in range(3)]
    for row in rows:
        lm.logits(row)
    gate = Gate(lm)
    bad = (*rows[0], 4)
    held, futures = gather(
        pool, gate, lm, [(lm.logits, some_ids(300)), (lm.logits, bad), (lm.logits, (*rows[1], 4))]
    )
    step = gate._many

    def broken(these):
        gate._many = step
        raise RuntimeError("out of memory")

    gate._many = broken
    gate.open.set()
    with pytest.raises(pg.ContextFull if hasattr(pg, "ContextFull") else ValueError):
        futures[0].result(20)
    with pytest.raises(RuntimeError, match="out of memory"):
        futures[1].result(20)
    np.testing.assert_allclose(lm.logits(bad), bare(lm, bad), atol=TOLERANCE)


def test_one_visitor_has_limits_and_others_notice_nothing(pool):
    who = ["a"]
    limits = Limits(runs=2, steps_per_minute=30, prompt_tokens=20, new_tokens=10, any_model=1)
    lm = tiny(limits=limits, session=lambda: who[0])
    gate = Gate(lm)
    rows = [some_ids(5, i) for i in range(3)]
    held, futures = gather(pool, gate, lm, [(lm.logits, rows[0])])
    with pytest.raises(Refusal, match="At most 2 requests of one visitor"):
        lm.logits(rows[1])
    gate.open.set()
    futures[0].result(20)
    held.result(20)
    with pytest.raises(Refusal, match="has 21 tokens, and this server takes at most 20"):
        lm.encode("a" * 21)
    with pytest.raises(Refusal, match="have 31 tokens, and this server goes up to 30"):
        lm.logits(some_ids(31))
    with pytest.raises(Refusal, match="allows 30 steps a minute"):
        for i in range(31):
            lm.logits(some_ids(4, 200 + i))
    who[0] = "b"
    assert lm.logits(some_ids(4, 300)).shape == (1, 96)


def test_the_figures_of_a_forward_are_told_and_hold_nothing_private(pool):
    told = []
    lm = tiny(told=told.append)
    lm.logits(some_ids(5))
    lm.logits((*some_ids(5), 6))
    assert [(t["kind"], t["rows"], t["queue"]) for t in told] == [("one", 1, 0), ("steps", 1, 0)]
    assert all(set(t) == {"kind", "rows", "seconds", "waited", "queue"} for t in told)


def test_a_model_that_nobody_holds_is_freed(monkeypatch):
    monkeypatch.setattr(batching, "IDLE", 0.05)
    lm = tiny()
    lm.logits(some_ids(5))
    gone = weakref.ref(lm.model)
    while lm._working:
        threading.Event().wait(0.02)
    del lm
    gc.collect()
    assert gone() is None
