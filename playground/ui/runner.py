"""Runner: runs step by step from the page, so that Stop stops and nobody is flooded.

Takes no room. Value: {"end": bool, "length": tokens per run, "wait": ms between tokens}, the answer
to a tick; event ``tick`` asks for the next step, ``rest`` comes after a run was stopped by hand,
when the step under way is here. ``START`` and ``STOP`` are scripts for the buttons
of the runner without an elem_id; others are dp.runs[elem_id].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _own, _props, _script
from playground.ui.events import MODEL, now, polite, tell

START = "() => { dp.run.start(); }"
STOP = "() => { dp.run.stop(); }"
TOGGLE = "() => { dp.run.on ? dp.run.stop() : dp.run.start(); }"


def start(name: str) -> str:
    """Return the script that starts the runner with an elem_id."""
    return f'() => {{ dp.runs["{name}"].start(); }}'


def stop(name: str) -> str:
    """Return the script that stops the runner with an elem_id."""
    return f'() => {{ dp.runs["{name}"].stop(); }}'


def toggle(name: str) -> str:
    """Return the script that stops the runner with an elem_id if it runs, else starts it."""
    return f'() => {{ const r = dp.runs["{name}"]; r.on ? r.stop() : r.start(); }}'


@dataclass(frozen=True)
class Pace:
    """What a step of a run tells the page: whether it was the last one, how many a run has at most
    and how many milliseconds lie between two at least.
    """

    end: bool
    wait: float = 0
    length: int = 1_000_000


Step = Callable[[Mapping[Any, Any], int], tuple[dict[Any, Any], Pace]]


class Runner(gr.HTML):
    """Asks for a step after a step until the length is reached, the text ends, or Stop."""

    def __init__(self, **options: Any):
        super().__init__(
            None,
            html_template='<span class="dp-runner"></span>',
            js_on_load=_script("runner", "tick", "rest", named=True, own=_own(options)),
            head=_head("page", "run"),
            apply_default_css=False,
            **_props(options | {"elem_classes": ["dp-nothing"]}),
        )

    def each(self, step: Step, inputs: set[Any], outputs: list[Any]) -> None:
        """Let every tick take a step: ``step(data, count)`` with the steps taken before in this run
        returns updates of ``outputs`` and the pace. What goes wrong is told and ends the run.
        """

        @polite
        def tick(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            seq, found, pace = now(), {}, Pace(end=True)
            try:
                found, pace = step(data, int(event._data.get("count", 0)))
            except Exception as error:
                tell(error)
            return {**found, self: {**asdict(pace), "seq": seq}}

        self.tick(tick, inputs, [*outputs, self], trigger_mode="multiple", **MODEL)

    def postprocess(self, value: Any) -> str | None:
        """Turn the answer into one JSON string."""
        return _json(value)
