"""Every visible string, in English and Chinese, by key.

The strings live in assets/words/<area>.yaml, both languages side by side, so that neither can be
forgotten: ``key: {en: ..., zh: ...}``. A key is used as "area.key", with ``str.format`` fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path

import yaml

ASSETS = Path(__file__).resolve().parent.parent / "assets"
LANGUAGES = ("en", "zh")

Translate = Callable[..., str]

# The language of whoever is being answered: set by the page's handlers, for words that are made
# where no translator was handed to.
speaking: ContextVar[str] = ContextVar("speaking", default="en")


@cache
def entries() -> dict[str, dict[str, str]]:
    """Return all strings: "area.key" -> language -> text."""
    found = {}
    for path in sorted((ASSETS / "words").glob("*.yaml")):
        for key, texts in (yaml.safe_load(path.read_text("utf-8")) or {}).items():
            found[f"{path.stem}.{key}"] = texts
    return found


@cache
def translator(language: str = "en") -> Translate:
    """Return ``t(key, **fields)``, the string in that language. Unknown keys raise KeyError."""
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")

    def t(key: str, **fields: object) -> str:
        text = entries()[key][language]
        return text.format(**fields) if fields else text

    return t


@cache
def _refusals() -> list[tuple[re.Pattern[str], str]]:
    """Return the program's English refusals as patterns of their fields, with their keys."""
    found = []
    for key, texts in entries().items():
        if key.startswith("refusals."):
            parts = re.split(r"{(\w+)}", texts["en"])
            made = [f"(?P<{p}>.+)" if i % 2 else re.escape(p) for i, p in enumerate(parts)]
            found.append((re.compile("".join(made), re.DOTALL), key))
    return found


def in_words(error: ValueError) -> str:
    """Return a refusal in the language of whoever is being answered, where its words are known.

    The API, the files and the models refuse in English, since they know no reader.
    """
    said = str(error)
    if speaking.get() != "en":
        for pattern, key in _refusals():
            if found := pattern.fullmatch(said):
                return spoken()(key, **found.groupdict())
    return said


def spoken() -> Translate:
    """Return the words in the language of whoever is being answered."""
    return translator(speaking.get())
