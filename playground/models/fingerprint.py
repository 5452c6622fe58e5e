"""A short, stable name for weights, so that a permalink can say that it was made with others."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

SAMPLES = 32
SAMPLE_BYTES = 1 << 14


def fingerprint(files: Sequence[Path]) -> str:
    """Return 12 hex digits for weight files, in order: sha256 over sizes and 32 samples of each.

    The first sample takes in the header (tensor names, types, shapes), the others lie evenly up to
    the end, so it costs milliseconds where a hash of everything takes seconds.
    """
    digest = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            for i in range(SAMPLES):
                file.seek(max(size - SAMPLE_BYTES, 0) * i // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:12]
