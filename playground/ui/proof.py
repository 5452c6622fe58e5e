"""The proof sheet: opens with a script that computes a run anew, and the run's one generate() call.

Value: {"title", "about", "script", "file", "call", "notes": [text, ...], "words", "seq"}; each new
one opens the sheet. ``sheet_value`` makes it from a run; ``Prove`` are the tabs' buttons.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from playground.language_model import LanguageModel
from playground.proof import transformers_script
from playground.proof_call import generate_call
from playground.records import ContrastiveParams, SpeculativeResult, Trace
from playground.tape import TapeLM
from playground.ui import beam_moves
from playground.ui.components import _head, _json, _props, _script
from playground.ui.events import MODEL, Visit, now, polite
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.second_models import EXIT, depth_of
from playground.words import Translate

FILE = "proof.py"


class ProofSheet(gr.HTML):
    """The sheet; takes no room."""

    def __init__(self, **options: Any):
        super().__init__(
            None,
            html_template='<span class="dp-proof-place"></span>',
            js_on_load=_script("proof"),
            head=_head("page", "proof"),
            apply_default_css=False,
            **_props(options | {"elem_classes": ["dp-nothing"]}),
        )

    def postprocess(self, value: Any) -> str | None:
        """Turn the sheet into one JSON string."""
        return _json(value)


def sheet_value(
    run: Any,
    lm: LanguageModel,
    name: str,
    t: Translate,
    helper: Any = None,
    contrastive: ContrastiveParams | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the sheet's value for a run. Raises ValueError where nothing can be proved.

    ``notes`` are said before those of the call.
    """
    script = transformers_script(run, lm, helper, contrastive)
    call = generate_call(run, helper, contrastive)
    return {
        "title": t("proof.title", name=name),
        "about": t("proof.about"),
        "script": script,
        "file": FILE,
        "call": call.code,
        "notes": [*notes, *(t(key, **fields) for key, fields in call.notes)],
        "words": {
            "copy": t("proof.copy"),
            "download": t("proof.download"),
            "call": t("proof.call"),
            "copy_call": t("proof.copy_call"),
            "no_call": t("proof.no_call"),
            "copied": t("proof.copied"),
            "close": t("proof.close"),
        },
        "seq": now(),
    }


@dataclass(frozen=True)
class Proved:
    """What the sheet is of: a run's record with its models, and what the reader should know."""

    run: Any
    helper: Any = None
    contrastive: ContrastiveParams | None = None
    notes: Sequence[str] = ()


class Prove:
    """The buttons that open the page's one ``sheet``; ``sample`` is the Sample tab.

    Create it in that tab; ``beam``, ``contrast`` and ``speculate`` add the other tabs' buttons in
    the present Gradio context. The sheet stands outside the tabs: one that was never opened has no
    parts yet.
    """

    def __init__(self, library: Library, labels: Labels, sample: Any, sheet: ProofSheet) -> None:
        self.library, self.labels, self.sample, self.sheet = library, labels, sample, sheet
        self.prove = self._button("sample", "page.tab_sample", None, _sampled)

    def beam(self, tab: Any) -> None:
        """Add the Beam tab's button."""
        penalty = tab.view.controls.parts["length_penalty"]
        self._button("beam", "beam.tab", tab.search, _searched, penalty)

    def contrast(self, tab: Any) -> None:
        """Add the Contrast tab's button."""
        self._button("contrast", "contrast.tab", tab.contest, partial(_contrasted, tab))

    def speculate(self, tab: Any) -> None:
        """Add the Speculate tab's button."""
        self._button("speculate", "speculate.tab", tab.run_state, partial(_speculated, tab))

    def _button(
        self, tab: str, word: str, state: Any, proved: Callable[..., Proved], *also: Any
    ) -> Any:
        part = gr.Button(elem_id=f"dp-prove-{tab}", size="sm", elem_classes="dp-prove")
        self.labels.add(part, "proof.prove", prop="value")
        inputs = {self.sample.visit} if state is None else {self.sample.visit, state, *also}

        @polite
        def prove(data: Mapping[Any, Any]) -> dict[Any, Any]:
            visit: Visit = data[self.sample.visit]
            t, lm = visit.t, self.library.get(visit.model)
            if isinstance(lm, TapeLM):
                raise ValueError(t("proof.tape"))
            held = visit.session.trace if state is None else data[state]
            one = proved(lm, held, t, *(data[part] for part in also))
            models = one.helper, one.contrastive
            return {self.sheet: sheet_value(one.run, lm, t(word), t, *models, one.notes)}

        part.click(prove, inputs, [self.sheet], **MODEL)
        return prove


def _sampled(lm: LanguageModel, trace: Trace, t: Translate) -> Proved:
    return Proved(_begun(trace, trace.steps, t))


def _begun(run: Any, steps: Any, t: Translate) -> Any:
    """Return the run, or refuse one that has no token yet."""
    if not steps:
        raise ValueError(t("proof.nothing"))
    return run


def _searched(lm: LanguageModel, search: Any, t: Translate, penalty: float) -> Proved:
    _begun(search, search.at, t)
    if not search.ended:
        raise ValueError(t("proof.search_open"))
    result = beam_moves.result(lm, search)
    searched = result.params.length_penalty
    same = penalty == searched
    notes = () if same else (t("proof.note_ranked", ranked=penalty, searched=searched),)
    return Proved(result, notes=notes)


def _contrasted(tab: Any, lm: LanguageModel, contest: Any, t: Translate) -> Proved:
    taken = _begun(contest.taken[: contest.at], contest.at, t)
    params = {one.params for one in taken}
    if len(params) > 1:
        raise ValueError(t("proof.mixed"))
    trace = Trace(contest.prompt_ids, tuple(one.step for one in taken))
    amateur = contest.setup.amateur
    if amateur.kind == EXIT and amateur.number >= depth_of(lm):  # all scores are rounding
        raise ValueError(t("proof.noise"))
    sees = params.pop().replace(amateur_sees=contest.setup.sees)
    return Proved(trace, tab.amateur(lm, contest, t), sees)


def _speculated(tab: Any, lm: LanguageModel, run: Any, t: Translate) -> Proved:
    setup, rounds = run.setup, _begun(run.rounds, run.at, t)
    settings = (setup.params, setup.sampling)
    record = SpeculativeResult(setup.prompt_ids, rounds, *settings, run.stop, setup.model)
    return Proved(record, tab.draft(lm, setup))
