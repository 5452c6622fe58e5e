"""The shared GPU's function: in a forked process, plain values in and out, refusals in words."""

import multiprocessing
import pickle

import numpy as np
import pytest
import torch

import playground as pg
from playground.lm import TransformersLM
from playground.serving import gpu
from playground.serving.batching import BatchedLM
from tests.test_lm import some_ids
from tests.tiny import tiny_llama, tiny_tokenizer

PARAMS = pg.SamplingParams(0.9, top_k=40, repetition_penalty=1.2, seed=3)


def tiny():
    return TransformersLM(tiny_llama(), tiny_tokenizer())


def plain(value):
    if isinstance(value, dict):
        return all(isinstance(k, str) and plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or type(value) in (int, float, str, bool, np.ndarray)


def in_a_fork(run, arguments):
    """Call ``run`` as a shared GPU does: pickled arguments, forked process, pickled result."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work():
        torch.set_num_threads(1)  # the parent's other threads aren't in a fork: none would answer
        theirs.send_bytes(pickle.dumps(run(*pickle.loads(arguments))))

    process = context.Process(target=work, daemon=True)
    process.start()
    try:
        assert ours.poll(30)
        found = pickle.loads(ours.recv_bytes())
        process.join(10)
        assert process.exitcode == 0
    finally:
        process.kill()
    return found


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_marked_function_crosses_processes_and_keeps_nothing():
    lm = tiny()
    run = gpu.shared_gpu(lm)
    ids = list(some_ids(6))
    arguments = (ids, PARAMS.to_dict(), len(ids), 9)
    assert plain(arguments)
    found = in_a_fork(run, pickle.dumps(arguments))
    assert plain(found)
    assert lm.forwards == 0 and lm.cached_bytes == 0  # the parent saw nothing of it
    again = in_a_fork(run, pickle.dumps(arguments))
    assert again["ids"] == found["ids"]
    np.testing.assert_array_equal(again["logits"], found["logits"])
    want = pg.generate(tiny(), ids, PARAMS, 9)
    assert found["ids"] == list(want.new_ids)
    assert 0 < gpu.SECONDS <= 30


def test_a_run_made_ahead_costs_the_cpu_no_forward():
    lm = BatchedLM(tiny())
    ids = list(some_ids(6))
    lm.ahead = gpu.Ahead(gpu.shared_gpu(tiny()), lm.learn)
    assert lm.ahead(ids, PARAMS, len(ids), 9) == ""
    want = pg.generate(tiny(), ids, PARAMS, 9).new_ids
    assert pg.generate(lm, ids, PARAMS, len(want)).new_ids == want
    assert lm.forwards == 0


def test_it_ends_at_eos_and_at_the_context():
    lm = tiny()
    full = gpu.steps_ahead(lm, list(some_ids(126)), {}, 126, 9)
    assert len(full["ids"]) == 2 and full["logits"].shape == (2, 96)
    assert gpu.steps_ahead(lm, list(some_ids(128)), {}, 128, 9)["logits"].shape == (0, 96)
    lm.eos_ids = tuple(range(96))
    assert len(gpu.steps_ahead(lm, list(some_ids(5)), {}, 5, 9)["ids"]) == 1


class Quota(Exception):
    message = "You have exceeded your GPU quota (15s requested vs. 3s left).\nSign in"


def test_a_refused_gpu_is_told_in_words_once_and_the_cpu_goes_on():
    now, calls, who = [0.0], [], ["a"]

    def refuse(*_):
        calls.append(1)
        raise Quota()

    lm = BatchedLM(tiny())
    lm.ahead = gpu.Ahead(refuse, lm.learn, clock=lambda: now[0], who=lambda: who[0])
    ids = list(some_ids(6))
    assert lm.ahead(ids, PARAMS, 6) == (
        "You have exceeded your GPU quota (15s requested vs. 3s left)."
    )
    assert lm.ahead(ids, PARAMS, 6) == "" and len(calls) == 1
    who[0] = "b"  # whose quota is another
    assert "quota" in lm.ahead(ids, PARAMS, 6) and len(calls) == 2
    assert len(pg.generate(lm, ids, PARAMS, 3, stop_at_eos=False).new_ids) == 3
    now[0] += gpu.PAUSE + 1
    assert "quota" in lm.ahead(ids, PARAMS, 6) and len(calls) == 3


def test_elsewhere_nothing_asks_for_a_gpu(monkeypatch):
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert not gpu.on_shared_gpu()


def test_learned_logits_are_checked():
    lm = tiny()
    with pytest.raises(ValueError, match=r"logits must be \[96\] numbers, got \(5,\)"):
        lm.learn([5], np.zeros(5, np.float32))
