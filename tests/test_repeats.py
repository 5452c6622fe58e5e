"""Repetition figures against tables worked out by hand."""

import random

import pytest

from playground.repeats import distinct, longest_repeat, loop, rep


@pytest.mark.parametrize(
    ("ids", "n", "want"),
    [
        ([], 2, None),
        ([1], 2, None),
        ([1, 2, 3], 1, 0),
        ([1, 1, 1, 1], 2, 2 / 3),
        ([1, 2, 1, 2, 1], 2, 1 / 2),
        ([1, 2, 1, 2, 1], 4, 0),
    ],
)
def test_rep_and_distinct(ids, n, want):
    assert rep(ids, n) == (want if want is None else pytest.approx(want))
    assert distinct(ids, n) == (None if want is None else pytest.approx(1 - want))


@pytest.mark.parametrize(
    ("ids", "want"),
    [([], (0, 0, 0)), ([1, 2, 3], (0, 0, 0)), ([1, 2, 9, 1, 2], (0, 3, 2)), ([5] * 4, (0, 1, 3))],
)
def test_longest_repeat(ids, want):
    assert longest_repeat(ids) == want


def test_longest_repeat_is_that_of_a_plain_search():
    dice = random.Random(3)
    for _ in range(60):
        ids = [dice.randrange(3) for _ in range(dice.randrange(2, 14))]
        first, second, length = longest_repeat(ids)
        found = [
            k
            for i in range(len(ids))
            for j in range(i + 1, len(ids))
            for k in range(1, len(ids) - j + 1)
            if ids[i : i + k] == ids[j : j + k]
        ]
        assert length == max(found, default=0)
        assert ids[first : first + length] == ids[second : second + length]


@pytest.mark.parametrize(
    ("ids", "want"),
    [
        ([], None),
        ([1, 2, 3, 4], None),
        ([7] * 11, None),  # too short to be called a loop
        ([7] * 12, (1, 1)),
        ([9, 8, 7] + [1, 2, 3, 4, 5, 6] * 2, (9, 6)),
        ([9, 8, 7] + [1, 2, 3, 4, 5, 6] * 2 + [1, 2], (9, 6)),  # under way in a third copy
        ([1, 2, 3, 4, 5, 6] * 2 + [9], None),  # it got out again
        ([5] + [1, 2] * 8, (3, 2)),  # period 4 and 6 too, but 2 is enough
    ],
)
def test_loop(ids, want):
    assert loop(ids) == want
