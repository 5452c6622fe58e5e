"""What the server refuses, as errors that speak the visitor's language.

A Refusal is a ValueError whose text is looked up when it is shown, in the language of the visitor
whose request it is (``words.speaking``); everyone who shows a ValueError shows it rightly.
"""

from __future__ import annotations

from playground.words import spoken


class Refusal(ValueError):
    """A request that this server doesn't serve; ``key`` names its words, ``fields`` fill them."""

    key = "limits.refused"

    def __init__(self, key: str = "", **fields: object) -> None:
        super().__init__(key or self.key, fields)
        self.key = key or self.key
        self.fields = fields

    def __str__(self) -> str:
        return spoken()(self.key, **self.fields)


class Busy(Refusal):
    """The queue is full, or the wait was too long; ``place`` is the place in the queue."""

    key = "limits.busy"

    def __init__(self, place: int) -> None:
        super().__init__(place=place)


class Cancelled(Refusal):
    """Whoever asked has gone, or the model was closed."""

    key = "limits.cancelled"
