"""Progress on a console: one line that is rewritten on a terminal, sparse lines elsewhere."""

from __future__ import annotations

import sys
from typing import TextIO

from playground.models.errors import Progress


def console(stream: TextIO | None = None) -> Progress:
    """Return a progress callback that writes to ``stream`` (stderr unless given).

    A terminal sees every change on one line; a log gets a line per text and per tenth.
    """
    out = sys.stderr if stream is None else stream
    live = out.isatty()
    last = ("", -1)

    def show(fraction: float | None, text: str) -> None:
        nonlocal last
        tenth = -1 if fraction is None else int(fraction * 10)
        percent = "" if fraction is None else f" {fraction:4.0%}"
        if live:
            if last[0] and last[0] != text:
                out.write("\n")
            out.write(f"\r\x1b[K{text}{percent}" + ("\n" if fraction == 1.0 else ""))
            last = ("" if fraction == 1.0 else text, tenth)
        elif (text, tenth) != last:
            out.write(f"{text}{percent}\n")
            last = (text, tenth)
        out.flush()

    return show
