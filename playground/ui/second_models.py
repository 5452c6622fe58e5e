"""Second models: what serves the visitor's model as its amateur or its draft, and how it is chosen.

In: a LanguageModel and a ``Second``; out: the model, or the reason, in words, why there is none.
Views made from the model itself are kept, a few per model; another model comes from the page's
library, by name, and must have the same tokenizer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import gradio as gr

from playground.engines.drafting import Draft
from playground.engines.pairs import DifferentTokenizers, check_pair
from playground.engines.prompt_lookup import PromptLookup
from playground.format import count_text
from playground.language_model import LanguageModel
from playground.models import CATALOGUE
from playground.models.views import amateur_of
from playground.recorder import Recorder
from playground.tape import TapeLM
from playground.ui.events import warn
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.numbers import Choice
from playground.ui.panel import offer
from playground.words import Translate, in_words, translator

DISTILLED, SHORT, EXIT = "distilled", "short-context", "early-exit"
LOOKUP, OTHER = "lookup", "other"
CONTEXT = 4  # tokens that a short context sees, unless told otherwise
CAPACITY = 4


@dataclass(frozen=True, slots=True)
class Second:
    """A second model: its kind, and what the kind needs.

    ``number``: how many tokens a short context sees, after which layer an early exit leaves.
    ``name``: the other model's.
    """

    kind: str
    number: int = 0
    name: str = ""


def depth_of(lm: LanguageModel) -> int:
    """Return how many layers a model has, 0 where there are none to leave at."""
    config: Any = getattr(getattr(lm, "model", None), "config", None)
    if config is None:
        return getattr(lm, "depth", 0)  # a tape tells of its model's
    return int(getattr(config.get_text_config(decoder=True), "num_hidden_layers", 0))


class SecondModels:
    """Makes or finds second models of some kinds, and keeps those made; thread-safe.

    ``kinds``, the likeliest first. ``exit_at``: where an early exit leaves unless told otherwise,
    as a part of the layers. ``library`` has the other models (None: there are none);
    ``allow_any``: visitors may name models that the catalogue hasn't got.
    """

    def __init__(
        self,
        kinds: tuple[str, ...],
        exit_at: float,
        library: Library | None = None,
        allow_any: bool = False,
    ) -> None:
        self.kinds = tuple(k for k in kinds if k != OTHER or library is not None)
        self.library, self.allow_any = library, allow_any
        self._exit_at = exit_at
        self._made: WeakKeyDictionary[Any, OrderedDict[Second, Draft]] = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def get(self, lm: LanguageModel, second: Second, t: Translate | None = None) -> Any:
        """Return a second model. Raises ValueError, with the reason, where there is none."""
        if isinstance(lm, TapeLM) and second.kind not in (SHORT, LOOKUP):
            kind = f"{second.kind}:{second.number}:{second.name}"
            if isinstance(lm, Recorder):
                return lm.hear(kind, self.get(lm.lm, second, t))
            return lm.voice(kind)
        if second.kind == OTHER:
            return self._other(lm, second.name, t or translator())
        if second.kind == SHORT:  # costs nothing, and kept it would keep its model for ever
            return _make(lm, second)
        with self._lock:
            made = self._made.setdefault(lm, OrderedDict())
            if second not in made:
                made[second] = _make(lm, second)
                while len(made) > CAPACITY:
                    made.popitem(last=False)
            made.move_to_end(second)
            return made[second]

    def _other(self, lm: LanguageModel, name: str, t: Translate) -> LanguageModel:
        self.allow(name, lm, t)
        other = self.library.loaded(name)
        if other is None and self.library.doing:
            raise ValueError(t("second.loading", name=name, text=self.library.doing))
        if other is None:  # another visitor's choice has taken its place meanwhile
            other = self.library.get(name)
        try:
            check_pair(lm, other)
        except DifferentTokenizers as error:
            facts = dict(id=count_text(error.index), ours=error.ours, theirs=error.theirs)
            text = t("second.different", other=other.name, name=lm.name, **facts)
            raise ValueError(text) from None
        return other

    def allow(self, name: str, lm: LanguageModel, t: Translate) -> None:
        """Refuse, in words, no name at all and one that visitors may not load."""
        if not name:
            raise ValueError(t("second.choose", name=lm.name))
        if not self.allow_any and name not in {entry.id for entry in CATALOGUE}:
            raise ValueError(t("second.not_allowed", name=name[:80]))

    def refusals(self, lm: LanguageModel) -> dict[str, str]:
        """Return the kinds that a model can't be given, each with the reason."""
        with self._lock:
            if lm not in self._refused:
                found = {}
                for kind in self.kinds:
                    try:
                        if kind != OTHER:
                            self._try(lm, kind)
                    except ValueError as error:
                        found[kind] = in_words(error)
                self._refused[lm] = found
            return dict(self._refused[lm])

    def _try(self, lm: LanguageModel, kind: str) -> None:
        """Raise ValueError, with the reason, where a model can't be given a kind."""
        if isinstance(lm, Recorder):
            self._try(lm.lm, kind)  # asked itself it would record
        elif not isinstance(lm, TapeLM) or kind in (SHORT, LOOKUP):
            self.get(lm, self.default(lm, kind))
        elif not any(voice.startswith(f"{kind}:") for voice in lm.voices):
            lm.voice(kind)

    def offered(self, lm: LanguageModel) -> tuple[str, ...]:
        """Return the kinds that work with a model; another model may turn out not to."""
        refused = self.refusals(lm)
        return tuple(kind for kind in self.kinds if kind not in refused)

    def default(self, lm: LanguageModel, kind: str) -> Second:
        """Return a kind with the number that it has unless told otherwise."""
        return Second(kind, {SHORT: CONTEXT, EXIT: self.default_layer(lm)}.get(kind, 0))

    def default_layer(self, lm: LanguageModel) -> int:
        """Return the layer that an early exit leaves at unless told otherwise."""
        depth = depth_of(lm)
        layer = max(1, min(round(self._exit_at * depth), depth - 1))
        if isinstance(lm, TapeLM) and not isinstance(lm, Recorder):
            taped = [v.split(":")[1] for v in lm.voices if v.startswith(f"{EXIT}:")]
            if taped and str(layer) not in taped and taped[0].isdecimal():
                return int(taped[0])
        return layer

    def about_other(self, lm: LanguageModel, name: str, t: Translate) -> str:
        """Return what another model is, or why it can't be used; loads nothing."""
        if name and self.library.loaded(name) is None:
            return t("second.not_here", name=name)
        try:
            other = self._other(lm, name, t)
        except ValueError as error:
            return in_words(error)
        if other.context_length is None:
            return t("second.about", name=other.name)
        return t("second.about_context", name=other.name, count=count_text(other.context_length))


def _make(lm: LanguageModel, second: Second) -> Draft:
    if second.kind == LOOKUP:
        return PromptLookup()
    return amateur_of(lm, second.kind, second.number or CONTEXT, second.number or None)


class OtherModel:
    """The control that names another model; ``part`` is to be seen while that kind is chosen."""

    def __init__(self, labels: Labels, seconds: SecondModels, elem_id: str) -> None:
        self.seconds = seconds
        self.part = Choice(
            [(entry.title, entry.id) for entry in CATALOGUE],
            value=None,
            allow_custom_value=seconds.allow_any,
            elem_id=elem_id,
            interactive=True,
            visible=False,
        )
        labels.add(self.part, "second.other", info=True)

    def name(self, data: Mapping[Any, Any]) -> str:
        """Return the name that is chosen, "" for none."""
        return str(data[self.part] or "").strip()

    def show(self, kind: str, t: Translate) -> dict[Any, Any]:
        """Return the update that shows the control where it is needed."""
        if kind != OTHER:
            return {self.part: gr.update(visible=False)}
        return {
            self.part: gr.update(visible=True, choices=[(offer(e, t), e.id) for e in CATALOGUE])
        }

    def bring(
        self,
        data: Mapping[Any, Any],
        lm: LanguageModel,
        about: Any,
        show: Callable[[Mapping[Any, Any]], dict[Any, Any]],
        t: Translate,
    ) -> Iterator[dict[Any, Any]]:
        """Load the model that was chosen; yield updates: what the load says, then the page.

        ``about`` is the part that tells of the load, ``show`` makes the page's updates from the
        controls. A model that can't be loaded is told of, and the choice taken back.
        """
        try:
            name = self.name(data)
            self.seconds.allow(name, lm, t)
            for text in self.seconds.library.follow(name):
                yield {about: t("page.model_loading", text=text)}
        except ValueError as error:
            warn(in_words(error))
            shown = show({**data, self.part: None})
            undone = {**shown.get(self.part, gr.update()), "value": None}
            yield {**shown, self.part: undone, about: in_words(error)}
            return
        yield show(data)
