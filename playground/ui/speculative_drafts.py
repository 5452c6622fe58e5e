"""The drafts that the page offers for a model, made when first wanted and kept, a few per model.

In: a LanguageModel and a choice (kind, and for the early exit its layer); out: a draft for the
engine, or the reason why there is none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

from playground.engines.drafting import Draft
from playground.engines.prompt_lookup import PromptLookup
from playground.language_model import LanguageModel
from playground.models.views import draft_of

DISTILLED, EXIT, LOOKUP = "distilled", "early-exit", "lookup"
KINDS = (DISTILLED, EXIT, LOOKUP)  # the likeliest to pay first
CAPACITY = 3


def depth_of(lm: LanguageModel) -> int:
    """Return how many layers a model has, 0 where there are none to leave at."""
    config: Any = getattr(getattr(lm, "model", None), "config", None)
    if config is None:
        return 0
    return int(getattr(config.get_text_config(decoder=True), "num_hidden_layers", 0))


def default_layer(lm: LanguageModel) -> int:
    """Return the layer at which an untrained exit begins to agree with the whole model: late."""
    depth = depth_of(lm)
    return max(1, min(round(0.8 * depth), depth - 1))


class Drafts:
    """Makes drafts by kind and keeps the latest of each model; thread-safe."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, OrderedDict[tuple[str, int], Draft]]
        self._made = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def get(self, lm: LanguageModel, kind: str, layer: int = 0) -> Draft:
        """Return a draft for a model. Raises ValueError, with the reason, where there is none."""
        key = (kind, layer if kind == EXIT else 0)
        with self._lock:
            made = self._made.setdefault(lm, OrderedDict())
            if key not in made:
                made[key] = _make(lm, *key)
                while len(made) > CAPACITY:
                    made.popitem(last=False)
            made.move_to_end(key)
            return made[key]

    def refusals(self, lm: LanguageModel) -> dict[str, str]:
        """Return the kinds that a model can't be given, each with the reason."""
        with self._lock:
            if lm not in self._refused:
                found = {}
                for kind in KINDS:
                    try:
                        self.get(lm, kind, default_layer(lm) if kind == EXIT else 0)
                    except ValueError as error:
                        found[kind] = str(error)
                self._refused[lm] = found
            return dict(self._refused[lm])

    def offered(self, lm: LanguageModel) -> tuple[str, ...]:
        """Return the kinds that work with a model, the likeliest to pay first."""
        refused = self.refusals(lm)
        return tuple(kind for kind in KINDS if kind not in refused)


def _make(lm: LanguageModel, kind: str, layer: int) -> Draft:
    if kind == LOOKUP:
        return PromptLookup()
    return draft_of(lm, kind, layer=layer or None)
