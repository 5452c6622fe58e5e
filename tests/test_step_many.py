"""step_many: the next tokens of many sessions by one forward, equal to bare forwards."""

import numpy as np
import pytest
import torch

from playground.kv_pool import ROOM
from playground.lm import TransformersLM
from tests.test_lm import TOLERANCE, bare, some_ids
from tests.tiny import FAMILIES, tiny_gpt2, tiny_llama, tiny_tokenizer

TOGETHER = {"gpt2": tiny_gpt2, "llama": tiny_llama}


@pytest.fixture(params=TOGETHER)
def lm(request):
    model = TOGETHER[request.param]().double()
    return TransformersLM(model, tiny_tokenizer(), name=request.param)


def same(lm, rows, got):
    for row, ids in zip(got, rows, strict=True):
        np.testing.assert_allclose(row, bare(lm, ids)[0], atol=TOLERANCE)


def test_only_full_attention_steps_together():
    kinds = {}
    for name, make in FAMILIES.items():
        lm = TransformersLM(make(), tiny_tokenizer(), name=name)
        kinds[name] = lm.steps_together
    assert {name for name, joins in kinds.items() if joins} == set(TOGETHER)
    with pytest.raises(ValueError, match="can't step together"):
        lm.step_many([some_ids(3)])


def test_sessions_of_any_length_come_go_and_pause(lm):
    rng = np.random.default_rng(3)
    rows = [some_ids(int(n), 50 + i) for i, n in enumerate(rng.integers(1, 30, 12))]
    for row in rows:
        lm.logits(row)
    forwards, forwarded = lm.forwards, lm.forwarded
    count = 0
    for _ in range(25):
        taking = rng.permutation(12)[: rng.integers(1, 13)]
        for i in taking:
            rows[i] = (*rows[i], int(rng.integers(3, 90)))
        same(lm, [rows[i] for i in taking], lm.step_many([rows[i] for i in taking]))
        count += len(taking)
    # One forward each time and one token a row: nobody's keys and values were lost.
    assert lm.forwards - forwards == 25
    assert lm.forwarded - forwarded == count
    assert max(map(len, rows)) < ROOM


def test_rows_outgrow_their_room(lm):
    rows = [some_ids(ROOM - 2, 1), some_ids(3, 2)]
    for row in rows:
        lm.logits(row)
    for i in range(6):
        rows = [(*row, 7 + i) for row in rows]
        same(lm, rows, lm.step_many(rows))


def test_equal_prefixes_part_and_a_rewound_session_branches(lm):
    prompt = some_ids(9)
    lm.logits(prompt)
    rows = [(*prompt, 5), (*prompt, 6), (*prompt, 7)]
    same(lm, rows, lm.step_many(rows))
    longer = [(*row, 11) for row in rows]
    same(lm, longer, lm.step_many(longer))
    # Back to the prompt, another way; and once more along the first.
    branches = [(*prompt, 8), (*prompt, 5, 12), (*longer[0], 3)]
    same(lm, branches, lm.step_many(branches))
    assert lm.forwarded == 9 + 9


def test_single_forwards_go_on_from_the_slots_and_back(lm):
    rows = [some_ids(8, 1), some_ids(12, 2)]
    for row in rows:
        lm.logits(row)
    for i in range(3):
        rows = [(*row, 20 + i) for row in rows]
        lm.step_many(rows)
    before = lm.forwarded
    drafted = (*rows[0], 5, 6, 7, 8)
    np.testing.assert_allclose(lm.logits(drafted, 5), bare(lm, drafted, 5), atol=TOLERANCE)
    assert lm.forwarded - before == 4
    again = [(*drafted[:-2], 9), (*rows[1], 9)]
    assert [lm.unread(row) for row in again] == [1, 1]
    same(lm, again, lm.step_many(again))
    other = (*rows[1][:10], 4, 4)
    assert lm.unread(other) == 2
    np.testing.assert_allclose(lm.logits(other), bare(lm, other), atol=TOLERANCE)


def test_more_sessions_than_slots(lm):
    lm._pool.slots = 4
    rows = [some_ids(4 + i, i) for i in range(9)]
    for _ in range(4):
        rows = [(*row, 6) for row in rows]
        same(lm, rows, lm.step_many(rows))


def test_unread_counts_what_a_forward_reads(lm):
    ids = some_ids(10)
    assert lm.unread(ids) == 10 and lm.known(ids) is None
    lm.logits(ids)
    assert lm.unread(ids) == 0
    np.testing.assert_array_equal(lm.known(ids), lm.logits(ids))
    assert lm.unread((*ids, 4)) == 1
    assert lm.unread(ids, last=3) == 3  # the earlier positions' logits were never asked for
    rows = [(*ids, 4, 5), (*ids, 6)]  # one that isn't known enough is read by itself
    same(lm, rows, lm.step_many(rows))


def test_a_failed_step_does_no_harm(lm):
    rows = [some_ids(8, 1), some_ids(12, 2)]
    for row in rows:
        lm.logits(row)
    rows = [(*row, 4) for row in rows]
    lm.step_many(rows)
    forward, lm.model.forward = lm.model.forward, None
    longer = [(*row, 5) for row in rows]
    with pytest.raises(TypeError):
        lm.step_many(longer)
    lm.model.forward = forward
    same(lm, longer, lm.step_many(longer))


def test_masked_room_is_finite():
    lm = TransformersLM(tiny_llama(), tiny_tokenizer())
    rows = [some_ids(2, 1), some_ids(40, 2)]
    for row in rows:
        lm.logits(row)
    rows = [(*row, 4) for row in rows]
    assert np.isfinite(lm.step_many(rows)).all()
    assert all(bool(torch.isfinite(k).all()) for k in lm._pool._keys)
