"""Runner: runs step by step from the page, so that Stop stops and nobody is flooded.

Takes no room. Value: {"end": bool, "length": tokens per run, "wait": ms between tokens}, the answer
to a tick; event ``tick`` asks for the next step. ``START`` and ``STOP`` are scripts for the buttons
of the runner without an elem_id; others are dp.runs[elem_id].
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.ui.components import _head, _json, _own, _props, _script

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


class Runner(gr.HTML):
    """Asks for a step after a step until the length is reached, the text ends, or Stop."""

    def __init__(self, **options: Any):
        super().__init__(
            None,
            html_template='<span class="dp-runner"></span>',
            js_on_load=_script("runner", "tick", own=_own(options)),
            head=_head("page", "run"),
            apply_default_css=False,
            **_props(options | {"elem_classes": ["dp-nothing"]}),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the answer into one JSON string."""
        return _json(value)
