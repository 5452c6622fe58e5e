"""Labels in the reader's language: set once by key, switched without losing any state."""

from __future__ import annotations

from typing import Any

import gradio as gr

from playground.words import entries, translator


class Labels:
    """Remembers which key gives which component its words."""

    def __init__(self) -> None:
        self._keys: list[tuple[Any, str, str]] = []

    def add(self, part: Any, key: str, *, prop: str = "label", info: bool = False) -> Any:
        """Give ``part`` the words of ``key`` as ``prop``; with ``info`` those of ``key_info`` too.

        Returns the part. ``prop`` is "label", "value", "placeholder" or "title".
        """
        t = translator("en")
        pairs = [(prop, key)]
        if info and f"{key}_info" in entries():
            pairs.append(("info", f"{key}_info"))
        for name, word in pairs:
            setattr(part, name, t(word))
            self._keys.append((part, name, word))
        return part

    @property
    def parts(self) -> list[Any]:
        """All components whose words change with the language."""
        return list(dict.fromkeys(part for part, _, _ in self._keys))

    def updates(self, language: str) -> dict[Any, Any]:
        """Return the Gradio updates that show every word in a language."""
        t = translator(language)
        found: dict[Any, dict[str, str]] = {}
        for part, prop, key in self._keys:
            found.setdefault(part, {})[prop] = t(key)
        return {part: gr.update(**props) for part, props in found.items()}
