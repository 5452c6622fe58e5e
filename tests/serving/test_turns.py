"""Turns: few at a time, quick ones first, none lost, put aside while the model is waited for."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from playground.serving.turns import PLAIN, QUICK, SOON, Turns, aside


def test_no_more_compute_at_a_time_and_all_come_through():
    turns, now, most, lock = Turns(2), [0], [0], threading.Lock()

    def work(i):
        with turns.hold(PLAIN):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            time.sleep(0.002)
            with lock:
                now[0] -= 1
            with aside():
                pass
        return i

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(64))) == list(range(64))
    assert most[0] <= 2 and turns._free == 2 and not turns._waiting


def test_those_waiting_go_by_kind_then_by_age():
    turns, done = Turns(1), []
    gate = threading.Event()

    def work(name, kind):
        with turns.hold(kind):
            done.append(name)
            if name == "first":
                gate.wait(5)

    threads = []
    for name, kind in (("first", PLAIN), ("a", PLAIN), ("b", PLAIN), ("quick", QUICK)):
        threads.append(threading.Thread(target=work, args=(name, kind)))
        threads[-1].start()
        while len(turns._waiting) + 1 < len(threads):
            time.sleep(0.0005)
    gate.set()
    for thread in threads:
        thread.join(5)
    assert done == ["first", "quick", "a", "b"]


def test_a_quick_one_does_not_wait_long():
    turns = Turns(1)
    with turns.hold():
        began = time.monotonic()

        def quick():
            with turns.hold(QUICK):
                return time.monotonic() - began

        with ThreadPoolExecutor(1) as pool:
            assert SOON * 0.5 < pool.submit(quick).result(5) < 2
    assert turns._free == 1 and not turns._waiting


def test_a_failure_gives_the_turn_back_and_nested_holds_count_once():
    turns = Turns(1)
    with pytest.raises(RuntimeError), turns.hold():
        raise RuntimeError
    with turns.hold(), turns.hold():
        pass
    assert turns._free == 1


def test_a_stream_holds_a_turn_only_while_it_makes_an_answer():
    turns, closed = Turns(1), []

    def answers(n):
        try:
            for i in range(n):
                assert turns._free == 0
                yield i
        finally:
            closed.append(True)

    stream = turns.wrap(answers)(5)
    assert next(stream) == 0 and turns._free == 1
    assert list(stream) == [1, 2, 3, 4] and turns._free == 1
    left = turns.wrap(answers)(5)
    next(left)
    left.close()
    assert closed == [True, True]
    assert turns.wrap(lambda a, b=1: a + b)(2, b=3) == 5
