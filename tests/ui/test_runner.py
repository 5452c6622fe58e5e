"""A run's ticks: each takes a step, and what goes wrong is told and ends the run."""

from types import SimpleNamespace

import gradio as gr
import pytest

from playground.ui.events import inform, warn
from playground.ui.runner import Pace, Runner


def ticking(step):
    """A runner's handler of ticks, as the page calls it."""
    with gr.Blocks() as demo:
        runner, text = Runner(elem_id="r"), gr.Textbox()
        runner.each(step, {text}, [text])
    handler = next(fn.fn for fn in demo.fns.values())
    return runner, text, lambda count: handler({text: "a"}, SimpleNamespace(_data={"count": count}))


def test_a_tick_brings_what_its_step_shows_and_the_pace():
    runner, text, tick = ticking(lambda data, count: ({text: data[text]}, Pace(count == 1, 50, 9)))
    first, last = tick(0), tick(1)
    assert first[text] == "a"
    assert first[runner] == {"end": False, "wait": 50, "length": 9, "seq": first[runner]["seq"]}
    assert last[runner]["end"] and last[runner]["seq"] > first[runner]["seq"]


@pytest.mark.parametrize("error", [ValueError("gamma must be 1 or more"), KeyError("secret")])
def test_what_goes_wrong_is_told_and_ends_the_run(error, monkeypatch):
    told = []
    monkeypatch.setattr(gr, "Warning", told.append)

    def step(data, count):
        raise error

    runner, text, tick = ticking(step)
    found = tick(3)
    assert found[runner]["end"] and set(found) == {runner}
    assert len(told) == 1 and "secret" not in told[0]
    assert isinstance(error, KeyError) or told == ["gamma must be 1 or more"]


def test_what_a_toast_says_is_text(monkeypatch):
    told = []
    monkeypatch.setattr(gr, "Warning", told.append)
    monkeypatch.setattr(gr, "Info", lambda text, **_: told.append(text))
    warn('"<img src=x>" & co')
    inform("a < b")
    assert told == ['"&lt;img src=x&gt;" &amp; co', "a &lt; b"]
