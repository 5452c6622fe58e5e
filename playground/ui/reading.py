"""The Read tab: any text under the lens, token by token.

A run of the page asks for chunk after chunk (``ui.runner``), so Stop works at once, what was read
stays, and Read goes on from there. Each answer brings the new tokens and all figures so far. The
text's special tokens and BOS follow the panel's prompt options.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr

from playground.engines.sampling import fingerprint
from playground.language_model import LanguageModel
from playground.session import MAX_TEXT, Prompt
from playground.takeaway import table
from playground.ui import reading_moves as moves
from playground.ui import reading_screen as screen
from playground.ui.components import Figures, PlotlyChart, Sentence, Table
from playground.ui.events import MODEL, QUICK, Visit, language_of, now, polite, stamp
from playground.ui.files import Files, file_value
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.panel import Panel
from playground.ui.reading_moves import EDGES, Lens
from playground.ui.reading_text import ReadText
from playground.ui.runner import Pace, Runner
from playground.words import Translate, translator

RUNNER = "dp-read-runner"
_START = f'() => {{ dp.runs["{RUNNER}"].start(); }}'
# Once what Python brought is in the page.
_START_ANEW = f"() => {{ requestAnimationFrame(() => dp.readChanged() && ({_START})()); }}"
_STOP = f'() => {{ dp.runs["{RUNNER}"].stop(); }}'
_CAPTION = '<h3 class="dp-chart-title">${value}</h3>'
# Lewis Carroll, 1865: known to every model, with words that no model expects.
SAMPLE = (
    "Alice was beginning to get very tired of sitting by her sister on the bank, and of having "
    "nothing to do: once or twice she had peeped into the book her sister was reading, but it had "
    "no pictures or conversations in it, “and what is the use of a book,” thought Alice “without "
    "pictures or conversations?”"
)


class ReadTab:
    """Builds the tab in the present Gradio context.

    ``sample`` is the Sample tab, to which a click on a token goes, ``tabs`` the page's gr.Tabs.
    """

    def __init__(
        self,
        library: Library,
        panel: Panel,
        labels: Labels,
        toolbar: Any,
        sample: Any,
        tabs: Any,
    ) -> None:
        self.library, self.panel, self.sample, self.tabs = library, panel, sample, tabs
        self.lens = gr.State(Lens())
        self._build(labels)
        self.parts = {name: getattr(self, name) for name in screen.PARTS}
        self.inputs = {*panel.inputs, sample.visit, self.lens, self.typed, self.edges}
        self.outputs = [self.lens, *self.parts.values()]
        self._wire(toolbar)

    def _build(self, labels: Labels) -> None:
        add = labels.add
        with self.panel.slots["read"]:
            self.edges = add(
                gr.Textbox(", ".join(map(str, EDGES)), elem_id="dp-read-edges", max_lines=1),
                "read.edges",
                info=True,
            )
        self.runner = Runner(elem_id=RUNNER)
        self.typed = add(
            gr.Textbox(SAMPLE, lines=3, max_lines=8, elem_id="dp-read-typed"), "read.typed"
        )
        add(self.typed, "read.typed_placeholder", prop="placeholder")
        with gr.Row(elem_classes="dp-toolbar"):
            self.go = add(
                gr.Button(variant="primary", elem_id="dp-read-go"), "read.go", prop="value"
            )
            self.stop = add(
                gr.Button(variant="stop", elem_id="dp-read-stop"), "page.stop", prop="value"
            )
            self.file = add(
                gr.UploadButton(elem_id="dp-read-file", size="md"), "read.file", prop="label"
            )
            self.take = add(gr.Button(elem_id="dp-read-take"), "read.take", prop="value")
            add(gr.HTML(html_template='<p class="dp-hint">${value}</p>'), "read.hint", prop="value")
        self.text = ReadText(elem_id="dp-read-text")
        self.figures = Figures(elem_id="dp-read-figures")
        self.sentence = Sentence(elem_id="dp-read-sentence")
        with gr.Row(elem_classes="dp-third-grid"):
            with gr.Column():
                self.ranks = PlotlyChart(elem_id="dp-read-ranks", height=200)
            with gr.Column():
                self.probabilities = PlotlyChart(elem_id="dp-read-p", height=200)
            with gr.Column():
                self.entropies = PlotlyChart(elem_id="dp-read-entropy", height=200)
        add(gr.HTML(html_template=_CAPTION), "read.words", prop="value")
        self.words = Table(elem_id="dp-read-words")
        self.files = Files(["csv", "parquet"], elem_id="dp-read-files", elem_classes="dp-section")

    # What every handler shares

    def lm(self, visit: Visit) -> LanguageModel:
        """Return the visitor's model."""
        return self.library.get(visit.model)

    def draw(
        self, visit: Visit, lens: Lens, edges: tuple[int, ...], t: Translate, since: int = 0
    ) -> dict[Any, Any]:
        """Return the updates that show a lens; of the text the tokens from ``since`` on."""
        seq = now()
        values = screen.draw_screen(self.lm(visit), lens, edges, t, since)
        found = {self.parts[name]: stamp(value, seq) for name, value in values.items()}
        return {**found, self.lens: lens}

    def prompt(self, data: Mapping[Any, Any], t: Translate) -> Prompt:
        """Return the typed text, with the panel's choices for BOS and special tokens."""
        text = data[self.typed] or ""
        if len(text) > MAX_TEXT:
            count, most = f"{len(text):,}", f"{MAX_TEXT:,}"
            raise ValueError(t("read.text_long", count=count, most=most))
        return Prompt(text, bos=self.panel.read_bos(data), special=bool(data[self.panel.special]))

    def _wire(self, toolbar: Any) -> None:
        io = {"inputs": self.inputs, "outputs": self.outputs}
        self.runner.each(self._tick, self.inputs, self.outputs)
        self.go.click(None, js=_START, **QUICK)
        self.stop.click(None, js=_STOP, **QUICK)
        toolbar.read(self._enter, **io, trigger_mode="always_last", **MODEL)
        toolbar.language(self._speak, **io, **MODEL)
        gr.on([self.edges.submit, self.edges.blur], self._refresh, **io, **MODEL)
        for trigger, found in ((self.file.upload, self._open), (self.take.click, self._take)):
            brought = trigger(found, {*self.inputs, self.file}, [self.typed], **MODEL)
            brought.then(None, js=_START_ANEW, **QUICK)
        jump = [*self.sample.outputs, *self.panel.prompt_parts, self.tabs]
        self.text.pick(self._jump("index"), self.inputs, jump, **MODEL)
        self.words.pick(self._jump("id"), self.inputs, jump, **MODEL)
        self.files.ask(self._save, self.inputs, [self.files], **MODEL)

    # Handlers

    def _tick(self, data: Mapping[Any, Any], count: int) -> tuple[dict[Any, Any], Pace]:
        visit, old = data[self.sample.visit], data[self.lens]
        t, first = visit.t, count == 0
        edges = moves.edges_of(data[self.edges] or "", t)
        lens = moves.go_on(self.lm(visit), old, self.prompt(data, t), first, t)
        # What goes on with a shown text brings only what is new.
        on = old.reading is not None and lens.pieces is old.pieces and not first
        since = old.reading.done if on else 0
        return self.draw(visit, lens, edges, t, since), Pace(end=lens.reading.finished)

    @property
    def _enter(self) -> Any:
        @polite
        def enter(data: Mapping[Any, Any]) -> dict[Any, Any]:
            """Read the beginning of the text, where nothing is read yet, or by another model."""
            visit, lens = data[self.sample.visit], data[self.lens]
            t, lm = visit.t, self.lm(visit)
            edges = moves.edges_of(data[self.edges] or "", t)
            if lens.reading is not None and lens.model != fingerprint(lm):
                values = screen.empty_screen(t("read.other_model"))
                seq = now()
                found = {self.parts[name]: stamp(value, seq) for name, value in values.items()}
                return {**found, self.lens: Lens()}
            if lens.reading is None:
                # Nobody asked for it: what can't be read is told when somebody does.
                with suppress(ValueError):
                    lens = moves.go_on(lm, lens, self.prompt(data, t), True, t)
            return self.draw(visit, lens, edges, t)

        return enter

    @property
    def _refresh(self) -> Any:
        @polite
        def refresh(data: Mapping[Any, Any]) -> dict[Any, Any]:
            visit, lens = data[self.sample.visit], data[self.lens]
            edges = moves.edges_of(data[self.edges] or "", visit.t)
            return self.draw(visit, lens, edges, visit.t)

        return refresh

    @property
    def _speak(self) -> Any:
        @polite
        def speak(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit, lens = data[self.sample.visit], data[self.lens]
            if lens.reading is None:
                return {}
            t = translator(language_of(event))
            found = self.draw(visit, lens, moves.edges_of(data[self.edges] or "", t), t)
            return {part: value for part, value in found.items() if part is not self.lens}

        return speak

    @property
    def _open(self) -> Any:
        @polite
        def open_file(data: Mapping[Any, Any]) -> dict[Any, Any]:
            t, path = data[self.sample.visit].t, data[self.file]
            if not path:
                return {}
            return {self.typed: gr.update(value=moves.text_of(Path(path).read_bytes(), t))}

        return open_file

    @property
    def _take(self) -> Any:
        @polite
        def take(data: Mapping[Any, Any]) -> dict[Any, Any]:
            visit = data[self.sample.visit]
            text = self.lm(visit).decode(visit.session.trace.ids)
            if not text:
                raise ValueError(visit.t("page.empty"))
            return {self.typed: gr.update(value=text)}

        return take

    @property
    def _save(self) -> Any:
        @polite
        def save(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit, found = data[self.sample.visit], data[self.lens].reading
            if found is None:
                raise ValueError(visit.t("read.empty"))
            label, kind = self.lm(visit).label, str(event._data.get("kind"))
            frame = found.to_frame([label(i) for i in found.ids[: found.done]])
            made = table(frame, kind)
            return {self.files: file_value(f"reading-{found.done}.{kind}", made, now())}

        return save

    def _jump(self, key: str) -> Any:
        @polite
        def jump(data: Mapping[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit, lens = data[self.sample.visit], data[self.lens]
            lm, t = self.lm(visit), visit.t
            if lens.model != fingerprint(lm):
                raise ValueError(t("read.other_model"))
            params = self.panel.read_params(data)
            index = int(event._data[key])
            session = moves.open_at(lm, lens, index, params, visit.session, t)
            found = self.sample.draw(replace(visit, session=session), params)
            prompt = self.panel.show_prompt(session.prompt)
            return {**found, **prompt, self.tabs: gr.update(selected="sample")}

        return jump
