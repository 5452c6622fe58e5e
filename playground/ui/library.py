"""The models that are loaded: one copy for all sessions, a few at a time.

A model is asked for by name; the first who asks loads it while others wait for the same copy. A
load that fails leaves the loaded ones as they are.

Tapes (``playground.tape``) are models too: the example one, read when it is asked for, and those
that visitors opened, by their hash.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playground.language_model import LanguageModel
from playground.serving.turns import aside
from playground.tape import TapeLM
from playground.tape_file import from_bytes
from playground.words import ASSETS, spoken

Loader = Callable[..., LanguageModel]
TAPE = "tape:"  # how the names of tapes begin
EXAMPLE_TAPE = "tape:example"
EXAMPLE_FILE = ASSETS / "tapes" / "example.dptape"
TAPE_BYTES = 256 << 20  # of visitors' tapes, kept at once


class Library:
    """Loads models with ``loader(name, progress=...)`` and keeps the ``capacity`` latest ones.

    Three: the default, and a pair of others (an expert with its amateur, a target with its draft).
    """

    def __init__(self, loader: Loader, default: str = "default", capacity: int = 3) -> None:
        self.default = default
        self.capacity = capacity
        self._loader = loader
        self._models: OrderedDict[str, LanguageModel] = OrderedDict()
        self._tapes: OrderedDict[str, TapeLM] = OrderedDict()
        self._lent: dict[str, TapeLM] = {}
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self.failure = ""
        self.doing = ""  # what the present load says of itself, for those who wait

    def get(self, name: str, progress: Callable[[Any, str], None] | None = None) -> LanguageModel:
        """Return a model, loaded if need be. Raises what the loader raises."""
        model = self.loaded(name)
        if model is not None:
            return model
        if name == EXAMPLE_TAPE:
            self._tapes[name] = TapeLM(from_bytes(EXAMPLE_FILE.read_bytes()))
            return self._tapes[name]
        if name.startswith(TAPE):
            raise ValueError(spoken()("take.gone"))

        def tell(fraction: Any, text: str) -> None:
            self.doing = text
            if progress is not None:
                progress(fraction, text)

        with aside(), self._loading:
            model = self.loaded(name)
            if model is None:
                try:
                    model = self._loader(name, progress=tell)
                finally:
                    self.doing = ""
                with self._lock:
                    self._models[name] = model
                    # The default stays: new visitors and failed loads fall back on it.
                    others = [n for n in self._models if n not in (self.default, name)]
                    for old in others[: max(0, len(self._models) - self.capacity)]:
                        del self._models[old]
        return model

    def follow(self, name: str) -> Iterator[str]:
        """Load a model aside; yield what the load says of itself until the model is here.

        Raises what the loader raises.
        """
        failed: list[Exception] = []

        def load() -> None:
            try:
                self.get(name)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        with aside():
            thread.join(0.05)
        told = None
        while thread.is_alive():
            if self.doing != told:
                told = self.doing
                yield told
            with aside():
                thread.join(0.2)
        if failed:
            raise failed[0]

    def loaded(self, name: str) -> LanguageModel | None:
        """Return a model if it is here already."""
        with self._lock:
            if name in self._lent:
                return self._lent[name]
            kept = self._tapes if name.startswith(TAPE) else self._models
            model = kept.get(name)
            if model is not None:
                kept.move_to_end(name)
            return model

    def add_tape(self, tape: TapeLM) -> str:
        """Keep a visitor's tape and return its name; the oldest ones go."""
        name = TAPE + tape.tape.digest[:32]
        with self._lock:
            self._tapes[name] = tape
            self._tapes.move_to_end(name)
            others = [n for n in self._tapes if n not in (EXAMPLE_TAPE, name)]
            total = sum(lm.tape.nbytes for lm in self._tapes.values())
            for old in others:
                if total > TAPE_BYTES:
                    total -= self._tapes.pop(old).tape.nbytes
        return name

    @contextmanager
    def lend(self, recorder: TapeLM) -> Iterator[str]:
        """Keep a tape that is being recorded under a name of its own, as long as that takes."""
        name = f"{TAPE}{secrets.token_hex(16)}"
        with self._lock:
            self._lent[name] = recorder
        try:
            yield name
        finally:
            with self._lock:
                self._lent.pop(name, None)

    def preload(self) -> threading.Thread:
        """Load the default model in the background, so that the page shows at once."""

        def load() -> None:
            try:
                self.get(self.default)
            except Exception as error:  # told again, in words, to the first visitor who needs it
                self.failure = str(error)

        thread = threading.Thread(target=load, name="preload", daemon=True)
        thread.start()
        return thread
