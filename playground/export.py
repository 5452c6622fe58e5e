"""Permalinks: a session's state as a short text that fits a URL, and back.

A link carries what was chosen, never what was computed: the reader's machine computes it anew from
the same model, and says so when its model differs. What comes in is untrusted: it is bounded in
size before and after decompression, and every field is checked.

Format: "1." and base64url(zlib(JSON)); the digit is the version of the format.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

VERSION = "1"
MAX_LINK = 24_000  # characters; servers and browsers cut longer addresses
MAX_JSON = 400_000


def to_link(state: dict[str, Any]) -> str:
    """Return the permalink text of a JSON-ready state. Raises ValueError when it grows too long."""
    raw = json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()
    packed = base64.urlsafe_b64encode(zlib.compress(raw, 9)).rstrip(b"=").decode()
    link = f"{VERSION}.{packed}"
    if len(link) > MAX_LINK or len(raw) > MAX_JSON:
        raise ValueError(f"link must have at most {MAX_LINK} characters, got {len(link)}")
    return link


def from_link(link: str) -> dict[str, Any]:
    """Return the state of a permalink text. Raises ValueError saying what is wrong with it."""
    if not isinstance(link, str) or len(link) > MAX_LINK:
        raise ValueError(f"link must be a text of at most {MAX_LINK} characters")
    version, dot, packed = link.partition(".")
    if not dot or version != VERSION:
        raise ValueError(f"link must start with {VERSION!r} and a dot (its version)")
    try:
        data = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        unpack = zlib.decompressobj()
        raw = unpack.decompress(data, MAX_JSON)
        # A ValueError of theirs is about Python (letters, digits of a number), not about the link.
        state = None if unpack.unconsumed_tail else json.loads(raw)
    except (ValueError, zlib.error, RecursionError) as e:
        raise ValueError("link is damaged: part of it is missing or changed") from e
    if unpack.unconsumed_tail:
        raise ValueError(f"link must hold at most {MAX_JSON} bytes")
    if not isinstance(state, dict):
        raise ValueError("link must hold an object")
    return state
