"""The amateurs that the page offers for a model, made when first wanted and kept, a few per model.

In: a LanguageModel and a ``Choice``; out: a weaker view of it, or the reason why there is none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from playground.language_model import LanguageModel
from playground.models.views import amateur_of
from playground.records.contrastive import AmateurSees

DISTILLED, SHORT, EXIT = "distilled", "short-context", "early-exit"
KINDS = (DISTILLED, SHORT, EXIT)
CONTEXT = 4  # tokens that the short-context amateur sees, unless told otherwise
MAX_CONTEXT = 64
CAPACITY = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """An amateur: its kind, what it sees of the text (``sees``), and the kind's own number.

    ``context`` counts for the short context, ``layer`` for the early exit; 0 elsewhere.
    """

    kind: str = SHORT
    context: int = 0
    layer: int = 0
    sees: AmateurSees = "all"


def depth_of(lm: LanguageModel) -> int:
    """Return how many layers a model has, 0 where there are none to leave at."""
    config: Any = getattr(getattr(lm, "model", None), "config", None)
    if config is None:
        return 0
    return int(getattr(config.get_text_config(decoder=True), "num_hidden_layers", 0))


def default_layer(lm: LanguageModel) -> int:
    """Return the layer that an early exit leaves at unless told otherwise: three quarters up."""
    depth = depth_of(lm)
    return max(1, min(round(0.75 * depth), depth - 1))


class Amateurs:
    """Makes amateurs and keeps the latest of each model; thread-safe."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, OrderedDict[tuple[str, int, int], LanguageModel]]
        self._made = WeakKeyDictionary()
        self._refused: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def get(self, lm: LanguageModel, choice: Choice) -> LanguageModel:
        """Return a model's amateur. Raises ValueError, with the reason, where there is none."""
        key = choice.kind, choice.context, choice.layer
        with self._lock:
            made = self._made.setdefault(lm, OrderedDict())
            if key not in made:
                made[key] = amateur_of(
                    lm, choice.kind, choice.context or CONTEXT, choice.layer or None
                )
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
                        self.get(lm, default_choice(lm, kind))
                    except ValueError as error:
                        found[kind] = str(error)
                self._refused[lm] = found
            return dict(self._refused[lm])

    def offered(self, lm: LanguageModel) -> tuple[str, ...]:
        """Return the kinds that work with a model, the best teacher of the idea first."""
        refused = self.refusals(lm)
        return tuple(kind for kind in KINDS if kind not in refused)


def default_choice(lm: LanguageModel, kind: str, sees: AmateurSees = "all") -> Choice:
    """Return a kind with the number it has unless told otherwise."""
    return Choice(
        kind,
        CONTEXT if kind == SHORT else 0,
        default_layer(lm) if kind == EXIT else 0,
        sees,
    )
