"""Limits: read from one place, refused in words of both languages, documented in the README."""

from dataclasses import fields
from pathlib import Path

import pytest

from playground.serving.limits import UNLIMITED, Limits, Pace, limits_of, variable
from playground.serving.refusals import Busy, Refusal
from playground.words import speaking, spoken

ROOT = Path(__file__).resolve().parents[2]


def test_they_come_from_the_environment_and_differ_at_home_and_in_public():
    public, home = Limits.read({"SPACE_ID": "a/b"}), Limits.read({})
    assert (public.any_model, home.any_model) == (0, 1)
    assert public.steps_per_minute and public.runs
    assert home.steps_per_minute == home.runs == 0
    assert Limits.read({"PLAYGROUND_PUBLIC": "1"}) == public
    assert Limits.read({"PLAYGROUND_BEAMS": "3", "PLAYGROUND_RUNS": "0"}).beams == 3
    for text in ("many", "-1", "1.5", "٣x"):
        with pytest.raises(ValueError, match="PLAYGROUND_GAMMA must be a whole number"):
            Limits.read({"PLAYGROUND_GAMMA": text})
    with pytest.raises(
        ValueError, match=r"PLAYGROUND_BATCH must be a whole number in \[1, 1024\], got 0"
    ):
        Limits.read({"PLAYGROUND_BATCH": "0"})


def test_every_limit_is_in_the_readme_with_its_public_default():
    text = (ROOT / "README.md").read_text("utf-8")
    for field in fields(Limits):
        assert f"`{variable(field.name)}`" in text, field.name
        if field.name != "any_model":
            row = next(x for x in text.splitlines() if f"`{variable(field.name)}`" in x)
            assert f"{field.default:,}" in row, row


@pytest.mark.parametrize("name", ["prompt", "length", "new_tokens", "beams", "gamma"])
def test_a_limit_lets_its_number_pass_and_refuses_the_next(name):
    limits = Limits(prompt_tokens=5, new_tokens=5, beams=5, gamma=5)
    top = 10 if name == "length" else 5
    check = getattr(limits, f"check_{name}")
    check(top)
    with pytest.raises(Refusal) as refused:
        check(top + 1)
    assert refused.value.fields["limit"] == top
    getattr(UNLIMITED, f"check_{name}")(10**9)


def test_a_refusal_speaks_the_language_of_whoever_asked():
    error = Busy(place=7)
    assert "number 7 in the queue" in str(error)
    token = speaking.set("zh")
    try:
        assert "第 7 位" in str(error) and "7" in spoken()("limits.busy", place=7)
    finally:
        speaking.reset(token)


def test_the_pace_is_each_visitors_own_and_recovers():
    now = [0.0]
    pace = Pace(60, clock=lambda: now[0])
    for _ in range(60):
        pace.take("a")
    with pytest.raises(Refusal, match="allows 60 steps a minute to each visitor. Go on in 1 s"):
        pace.take("a")
    pace.take("b", 60)
    now[0] += 2.5
    pace.take("a")
    pace.take("a")
    with pytest.raises(Refusal):
        pace.take("a")
    # A wide request is let through while there is one step left, and paid for afterwards.
    now[0] += 1
    pace.take("a", 30)
    now[0] += 25
    with pytest.raises(Refusal, match="Go on in 5 s"):
        pace.take("a")
    Pace(0).take("a", 10**6)


def test_many_visitors_take_no_room_for_ever():
    pace = Pace(10, clock=lambda: 0.0)
    for i in range(5000):
        pace.take(str(i))
    assert len(pace._left) == 4096


def test_a_model_of_ones_own_has_no_limits():
    assert limits_of(object()) is UNLIMITED
