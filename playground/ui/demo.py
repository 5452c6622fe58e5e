"""build_demo: the whole page. Frame, panel and tabs, in reading order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.engines.sampling import fingerprint
from playground.export import from_link
from playground.format import count_text
from playground.language_model import LanguageModel
from playground.models import CATALOGUE, load_model
from playground.records import SamplingParams
from playground.serving.refusals import Refusal
from playground.session import Prompt, Session, from_state, replay
from playground.tape import TapeLM
from playground.ui.beam import BeamTab
from playground.ui.compare import CompareTab
from playground.ui.components import Toolbar
from playground.ui.contrastive import ContrastTab
from playground.ui.controls import START
from playground.ui.events import MODEL, QUICK, Visit, inform, language_of, polite, show_tab, warn
from playground.ui.language import Labels
from playground.ui.library import EXAMPLE_TAPE, TAPE, Library
from playground.ui.links import Links
from playground.ui.panel import EXAMPLES, Panel
from playground.ui.proof import ProofSheet, Prove
from playground.ui.reading import ReadTab
from playground.ui.sampling import SampleTab
from playground.ui.speculative import SpeculateTab
from playground.ui.takeaway import TakeAway, words_of
from playground.ui.tape_views import BeamTape, CompareTape, ContrastTape, ReadTape, SpeculateTape
from playground.words import LANGUAGES, in_words, translator

KEPT = (600, 3600)  # seconds: how often uploaded files are looked through, and how long they stay


def build_demo(library: Library | None = None, allow_any: bool = True) -> gr.Blocks:
    """Return the page. ``library`` holds the models (by default loaded on demand); ``allow_any``
    lets visitors load any hub id or folder, not only the catalogue's.
    """
    library = Library(load_model) if library is None else library
    labels = Labels()
    options = {"fill_width": True, "analytics_enabled": False, "delete_cache": KEPT}
    with gr.Blocks(title="Decoding Playground", **options) as demo:
        with gr.Row(elem_classes="dp-header"):
            brand = gr.HTML(html_template='<h1 class="dp-brand">${value}</h1>')
            labels.add(brand, "page.title", prop="value")
            toolbar = Toolbar(elem_id="dp-tools")
        sheet = ProofSheet(elem_id="dp-proof")
        with gr.Sidebar(width=264, elem_classes="dp-sidebar"):
            panel = Panel(labels, allow_any)
        with gr.Tabs(elem_classes="dp-tabs") as tabs:
            with labels.add(gr.Tab(id="sample"), "page.tab_sample") as sample:
                tab = SampleTab(library, panel, labels, toolbar)
                take = TakeAway(library, panel, labels, tab)
                prove = Prove(library, labels, tab, sheet)
            shared = (library, panel, labels, toolbar, tab)
            with labels.add(gr.Tab(id="beam"), "beam.tab") as beam:
                searched = BeamTab(*shared)
                prove.beam(searched)
            with labels.add(gr.Tab(id="contrast"), "contrast.tab") as contrast:
                contrasted = ContrastTab(*shared, allow_any)
                prove.contrast(contrasted)
            with labels.add(gr.Tab(id="speculate"), "speculate.tab") as speculate:
                drafted = SpeculateTab(*shared, allow_any)
                prove.speculate(drafted)
            with labels.add(gr.Tab(id="compare"), "compare.tab") as compare:
                compared = CompareTab(*shared, sheet)
            with labels.add(gr.Tab(id="read"), "read.tab") as read:
                reader = ReadTab(library, panel, labels, toolbar, tab, tabs)
            for one in (sample, beam, contrast, speculate, compare, read):
                one.select(None, js=show_tab(one.id), **QUICK)
        language = gr.Textbox("en", visible="hidden", elem_id="dp-language")
        frame = Frame(library, panel, tab, labels, language, allow_any)
        views = (
            BeamTape(searched),
            ContrastTape(contrasted),
            SpeculateTape(drafted),
            CompareTape(compared),
            ReadTape(reader),
        )
        take.wire(frame.wire(demo, toolbar), frame, views)
        Links(tab, views, toolbar)
    return demo


class Frame:
    """What happens to the whole page: opening it, changing language or model."""

    def __init__(
        self,
        library: Library,
        panel: Panel,
        tab: SampleTab,
        labels: Labels,
        language: Any,
        allow_any: bool,
    ) -> None:
        self.library, self.panel, self.tab, self.labels = library, panel, tab, labels
        self.language, self.allow_any = language, allow_any
        controls = panel.controls.parts.values()
        parts = [*tab.outputs, *labels.parts, *panel.prompt_parts, *controls, panel.model]
        self.outputs = list(dict.fromkeys([*parts, panel.examples]))

    def wire(self, demo: gr.Blocks, toolbar: Any) -> Any:
        """Join the events and return the one that opens the page."""
        start = "() => [dp.language()]"
        opening = demo.load(self._open, [self.language], self.outputs, js=start, **MODEL)
        toolbar.language(self._speak, self.tab.inputs, self.outputs, **MODEL)
        self.panel.model.input(self._switch, self.tab.inputs, self.outputs, **MODEL)
        return opening

    def _words(self, language: str) -> dict[Any, Any]:
        found = self.labels.updates(language)
        for part, update in self.panel.choices(translator(language)).items():
            found[part] = {**found.get(part, {}), **update}
        return found

    def model_line(self, lm: LanguageModel, visit: Visit) -> str:
        """Return where and how the model runs."""
        if isinstance(lm, TapeLM):
            return words_of(lm, visit.t)
        line = visit.t(
            "page.model_line", device=lm.device, dtype=lm.dtype, vocab=count_text(lm.vocab_size)
        )
        if lm.context_length is None:
            return line
        line += f" · {visit.t('page.model_context', context=count_text(lm.context_length))}"
        licences = [entry.licence for entry in CATALOGUE if entry.id == visit.model]
        return " · ".join([line, *licences])

    def _await(self, name: str, visit: Visit) -> Iterator[dict[Any, Any]]:
        """Yield what the load says of itself until the model is here; raise what it raised."""
        for told in self.library.follow(name):
            text = visit.t("page.model_loading", text=told)
            yield {self.panel.model_line: text, self.tab.sentence: text}

    @property
    def _open(self) -> Any:
        @polite
        def open_page(language: str, request: gr.Request) -> Iterator[dict[Any, Any]]:
            visit = Visit(language=language if language in LANGUAGES else "en")
            yield self._words(visit.language)
            link = request.query_params.get("state") if request else None
            state: dict[str, Any] | None = None
            if link:
                try:
                    state = from_link(link)
                    visit = replace(visit, model=self._allowed(str(state.get("model", "default"))))
                except ValueError as error:
                    warn(visit.t("page.bad_link", text=in_words(error)))
            try:
                yield from self._await(visit.model, visit)
            except ValueError as error:
                if visit.model == self.library.default:
                    yield {
                        self.panel.model_line: in_words(error),
                        self.tab.sentence: in_words(error),
                    }
                    return
                warn(visit.t("page.bad_link", text=in_words(error)))
                visit, state = replace(visit, model=self.library.default), None
                yield from self._await(visit.model, visit)
            yield self._first(visit, state)

        return open_page

    def _allowed(self, name: str) -> str:
        if name == EXAMPLE_TAPE:
            return name
        if not self.allow_any and name not in {entry.id for entry in CATALOGUE}:
            raise Refusal("limits.model", name=repr(name[:80]))
        return name

    def _first(self, visit: Visit, state: dict[str, Any] | None) -> dict[Any, Any]:
        """Return the first screen: the link's state, or the first example."""
        lm = self.library.get(visit.model)
        if state is not None:
            try:
                session = from_state(state, lm)
                params = SamplingParams.from_dict(state.get("now", {}))
                # Settings may be fit in themselves and still impossible for this model.
                shown = self.show(replace(visit, session=session), params)
                theirs, ours = str(state.get("weights", "")), session.trace.model
                if theirs and theirs != ours:
                    inform(visit.t("page.model_differs", theirs=theirs[:120], ours=ours))
                return shown
            except ValueError as error:
                warn(visit.t("page.bad_link", text=in_words(error)))
        session = Session().start(Prompt(EXAMPLES[0]), lm)
        return self.show(replace(visit, session=session), START)

    def show(self, visit: Visit, params: SamplingParams) -> dict[Any, Any]:
        """Return the updates of the whole page for a visit: view, panel, model."""
        return {
            **self.tab.draw(visit, params),
            **self.panel.show_prompt(visit.session.prompt),
            **self.panel.controls.values(params),
            self.panel.model: gr.update(value=_offered(visit.model)),
            self.panel.model_line: self.model_line(self.library.get(visit.model), visit),
        }

    @property
    def _speak(self) -> Any:
        @polite
        def speak(data: dict[Any, Any], event: gr.EventData) -> dict[Any, Any]:
            visit = replace(data[self.tab.visit], language=language_of(event))
            found = {**self._words(visit.language), self.tab.visit: visit}
            lm = self.library.loaded(visit.model)
            if lm is not None:
                for part, update in self.tab.draw(visit, self.panel.read_params(data)).items():
                    # A part's new words and its new value are one update.
                    both = isinstance(update, dict) and update.get("__type__") == "update"
                    found[part] = {**found.get(part, {}), **update} if both else update
                found[self.panel.model_line] = self.model_line(lm, visit)
            return found

        return speak

    @property
    def _switch(self) -> Any:
        @polite
        def switch(data: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
            visit: Visit = data[self.tab.visit]
            name = str(data[self.panel.model] or "").strip()
            old = self.library.get(visit.model)
            try:
                self._allowed(name)
                yield from self._await(name, visit)
                lm = self.library.get(name)
                params = self.panel.read_params(data)
                session = carry_over(visit.session, old, lm, params)
                before = visit.session.before
                if isinstance(old, TapeLM) and before and before.trace.model == fingerprint(lm):
                    session = replace(session, before=before)  # what the tape took the place of
            except ValueError as error:
                warn(in_words(error))
                yield {
                    self.panel.model: gr.update(value=_offered(visit.model)),
                    **self.tab.draw(visit, self.panel.read_params(data)),
                    self.panel.model_line: self.model_line(old, visit),
                }
                return
            visit = replace(visit, model=name, session=session)
            inform(visit.t("page.model_switched", name=lm.name))
            yield {
                **self.tab.draw(visit, params),
                self.panel.model_line: self.model_line(lm, visit),
            }

        return switch


def _offered(model: str) -> str | None:
    """Return a model's name as the list of models shows it: a tape is none of them."""
    return None if model.startswith(TAPE) else model


def carry_over(
    session: Session, old: LanguageModel, lm: LanguageModel, params: SamplingParams
) -> Session:
    """Return the session under another model: same prompt, the old model's text marked as stale."""
    text = old.decode(session.trace.new_ids)
    fresh = replace(Session().start(session.prompt, lm), before=None)
    ids = lm.encode(text, add_bos=False) if text else []
    limit = lm.context_length
    if not fresh.ids or (limit is not None and len(fresh.ids) + len(ids) > limit):
        return fresh
    steps = replay(lm, fresh.trace.prompt_ids, [(i, params, "stale") for i in ids])
    return replace(fresh, trace=replace(fresh.trace, steps=steps))
