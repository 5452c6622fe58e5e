"""ModelError: a model that can't be had, said in one line, and the words it shares."""

from __future__ import annotations

from collections.abc import Callable

# progress(fraction, text): fraction of the present step in [0, 1], or None where it isn't known.
Progress = Callable[[float | None, str], None]


class ModelError(ValueError):
    """A model can't be brought or loaded; the message is one line and says what to do."""


def silent(fraction: float | None, text: str) -> None:
    """Progress that nobody watches."""


def first_line(error: BaseException) -> str:
    """Return an exception's first line with text, or its type's name."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next(filter(None, lines), type(error).__name__)


def in_words(nbytes: float) -> str:
    """Return a number of bytes as "0.54 GB" or "3 MB" (powers of ten, as disks are sold)."""
    if nbytes >= 1e8:
        return f"{nbytes / 1e9:.3g} GB"
    return f"{max(nbytes, 0) / 1e6:.3g} MB"
