"""Taking a run away from the Sample view and bringing it back: traces, tables, tapes.

A row below the view: buttons that save files, one that opens a trace or tape, one for the example
tape. A tape is opened as a model of its own (``ui.library``), for this visitor alone, and needs no
other: the page's wait for its default model ends when one is opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from playground import takeaway
from playground.format import count_text
from playground.records import SamplingParams
from playground.session import Session, from_state
from playground.tape import TapeLM, size_of
from playground.tape_file import MAX_FILE, from_bytes, to_bytes
from playground.ui.events import MODEL, Visit, inform, now, polite, warn
from playground.ui.files import Files, file_value
from playground.ui.language import Labels
from playground.ui.library import EXAMPLE_TAPE, Library
from playground.ui.panel import Panel
from playground.ui.recipes import View, play_views, record_views
from playground.ui.second_models import depth_of
from playground.words import Translate


class TakeAway:
    """Builds the row in the present Gradio context; ``sample`` is the Sample tab above it."""

    def __init__(self, library: Library, panel: Panel, labels: Labels, sample: Any) -> None:
        self.library, self.panel, self.sample = library, panel, sample
        add = labels.add
        with gr.Row(elem_classes=["dp-toolbar", "dp-section"]):
            self.files = Files(["json", "csv", "parquet", "tape"], elem_id="dp-files")
            self.file = add(
                gr.UploadButton(elem_id="dp-open", size="sm"), "take.open", prop="label"
            )
            self.example = add(
                gr.Button(elem_id="dp-example-tape", size="sm"), "take.example", prop="value"
            )

    def wire(self, opening: Any, frame: Any, views: Sequence[View]) -> None:
        """Join the events; ``opening`` is the event that opens the page, ``frame`` its frame.

        ``views`` are the other tabs, as a tape records them.
        """
        self.frame, self.views = frame, views
        shown = {part for view in views for part in view.inputs}
        self.files.ask(self._ask, {*self.sample.inputs, *shown}, [self.files], **MODEL)
        played = [part for view in views for part in view.outputs]
        outputs = list(dict.fromkeys([*frame.outputs, *played]))
        stops = {"cancels": [opening], **MODEL}
        self.file.upload(self._open, {*self.sample.inputs, self.file}, outputs, **stops)
        self.example.click(self._example, self.sample.inputs, outputs, **stops)

    @property
    def _ask(self) -> Any:
        @polite
        def ask(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit: Visit = data[self.sample.visit]
            kind, sure = event._data.get("kind"), bool(event._data.get("sure"))
            if kind == "tape":
                return {self.files: self._tape(visit, data, sure)}
            return {self.files: self._file(visit, str(kind))}

        return ask

    def _file(self, visit: Visit, kind: str) -> dict[str, Any]:
        lm, session, t = self.sample.lm(visit), visit.session, visit.t
        if not session.ids:
            raise ValueError(t("page.empty"))
        if kind == "json":
            made = takeaway.trace_file(session, lm).encode()
        else:
            if not session.trace.steps:
                raise ValueError(t("take.no_steps"))
            made = takeaway.table(takeaway.frame_of(session.trace, lm), kind)
        return file_value(f"{_name(lm.name)}-{len(session.trace.steps)}.{kind}", made, now())

    def _tape(self, visit: Visit, data: Mapping[Any, Any], sure: bool) -> dict[str, Any]:
        """Return the tape's file, or first how large it will be and which tabs are on it."""
        lm, session, t = self.sample.lm(visit), visit.session, visit.t
        if not session.ids:
            raise ValueError(t("page.empty"))
        count = len(takeaway.positions(session))
        size = size_of(count, lm.vocab_size)
        if size > MAX_FILE:
            most = count_text((MAX_FILE / size) * count // 1)
            raise ValueError(t("take.too_large", count=count_text(count), most=most))
        recorder = takeaway.recorder_of(session, lm, MAX_FILE - size_of(0, lm.vocab_size))
        recorder.depth = depth_of(lm)
        with self.library.lend(recorder) as name:
            recipes, left = record_views(self.views, data, replace(visit, model=name), recorder)
        state = takeaway.tape_state(session, visit.model, self.panel.read_params(data))
        tape = recorder.finished({**state, "views": recipes, "depth": recorder.depth})
        count = tape.positions
        if sure:
            return file_value(f"{_name(lm.name)}-{count}.dptape", to_bytes(tape), now())
        for tab, why in left.items():
            warn(t("take.view_left", tab=t(f"{tab}.tab"), why=why))
        size = tape.nbytes + size_of(0, lm.vocab_size)
        text = t("take.offer", size=_megabytes(size), count=count_text(count))
        if recipes:
            text += t("take.offer_views", tabs=" · ".join(t(f"{tab}.tab") for tab in recipes))
        return {"offer": text, "kind": "tape", "seq": now()}

    @property
    def _open(self) -> Any:
        @polite
        def open_file(data: Mapping[Any, Any]) -> dict[Any, Any]:
            visit, path = data[self.sample.visit], data[self.file]
            if not path:
                return {}
            content = Path(path).read_bytes()
            if not content:
                raise ValueError(visit.t("take.empty_file"))
            if takeaway.is_tape(content):
                lm = TapeLM(from_bytes(content))
                return self._play(data, self.library.add_tape(lm), lm)
            lm = self.sample.lm(visit)
            if isinstance(lm, TapeLM) and not takeaway.holds(lm, content):
                visit = replace(visit, model=self.library.default)
                lm = self.sample.lm(visit)
            session = takeaway.read_trace(content, lm)
            theirs = session.trace.model
            if theirs and theirs != getattr(lm, "fingerprint", lm.name):
                inform(visit.t("take.other_model", name=theirs[:80]))
            params = self.panel.read_params(data)
            if session.trace.steps:
                params = session.trace.steps[-1].params
            return self._show(visit, session, params)

        return open_file

    @property
    def _example(self) -> Any:
        @polite
        def example(data: Mapping[Any, Any]) -> dict[Any, Any]:
            return self._play(data, EXAMPLE_TAPE, self.library.get(EXAMPLE_TAPE))

        return example

    def _play(self, data: Mapping[Any, Any], name: str, lm: TapeLM) -> dict[Any, Any]:
        """Return the updates that show a tape from its first position, and the other tabs so."""
        state = lm.tape.state
        session = from_state(state, lm)
        params = SamplingParams.from_dict(state.get("now", {}))
        visit = replace(data[self.sample.visit], model=name)
        shown = self._show(visit, session.look_at(0), params)
        panel = {**self.panel.show_prompt(session.prompt), **self.panel.controls.values(params)}
        asked = {**data, **{part: update["value"] for part, update in panel.items()}}
        found, left = play_views(self.views, asked, visit, state.get("views"))
        for tab, why in left.items():
            warn(visit.t("take.view_left", tab=visit.t(f"{tab}.tab"), why=why))
        inform(visit.t("take.playing", name=lm.name, count=count_text(lm.tape.positions)))
        return {**shown, **found}

    def _show(self, visit: Visit, session: Session, params: SamplingParams) -> dict[Any, Any]:
        """Return the updates of a page that another session has taken; Undo brings the old one."""
        session = replace(session, before=replace(visit.session, before=None))
        return self.frame.show(replace(visit, session=session), params)


def _name(text: str) -> str:
    """Return a model's name as part of a file's."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:60] or "run"


def _megabytes(size: int) -> str:
    return f"{max(size / 1e6, 0.1):.1f} MB"


def words_of(lm: TapeLM, t: Translate) -> str:
    """Return the line below the model's name while a tape plays."""
    count = count_text(lm.tape.positions)
    return t("take.line", name=lm.name, count=count, dtype=lm.tape.dtype)
