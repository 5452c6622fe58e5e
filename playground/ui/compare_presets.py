"""What the Compare tab can show at once: a prompt, its decoders, and how a human went on.

The human texts are out of copyright: Thoreau, Walden (1854), and Kipling, Just So Stories (1902).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playground.ui.compare_decks import (
    BEAM,
    CONTRAST,
    GREEDY,
    SAMPLING,
    SPECULATE,
    STORY,
    Deck,
    deck,
)
from playground.ui.second_models import EXIT, LOOKUP, SHORT

WOODS = "I went to the woods because I wished to"
WOODS_HUMAN = (
    "live deliberately, to front only the essential facts of life, and see if I could not learn "
    "what it had to teach, and not, when I came to die, discover that I had not lived. I did not "
    "wish to live what was not life, living is so dear; nor did I wish to practise resignation, "
    "unless it was quite necessary."
)
ELEPHANT = "In the High and Far-Off Times the Elephant, O Best Beloved, had no trunk."
ELEPHANT_HUMAN = (
    "He had only a blackish, bulgy nose, as big as a boot, that he could wriggle about from side "
    "to side; but he couldn't pick up things with it. But there was one Elephant, a new Elephant, "
    "an Elephant's Child, who was full of 'satiable curtiosity, and that means he asked ever so "
    "many questions."
)


@dataclass(frozen=True)
class Preset:
    """A prompt with decoders under which something is to be seen with the default model."""

    name: str
    word: str
    prompt: str
    decks: tuple[Deck, ...]
    human: str = ""
    length: int = 60


PRESETS = (
    Preset("story", "compare.preset_story", WOODS, STORY, WOODS_HUMAN),
    Preset("loop", "compare.preset_loop", ELEPHANT, STORY, ELEPHANT_HUMAN),
    Preset(
        "contrast",
        "compare.preset_contrast",
        "The king said to the queen:",
        (deck(GREEDY), deck(CONTRAST, helper=SHORT), deck(SAMPLING, top_p=0.95)),
    ),
    Preset(
        "speed",
        "compare.preset_speed",
        ELEPHANT,
        (
            deck(GREEDY),
            deck(SPECULATE, helper=LOOKUP, temperature=0),
            deck(SPECULATE, helper=EXIT, temperature=0),
            deck(BEAM, num_beams=4),
        ),
    ),
)


def preset_of(name: Any) -> Preset | None:
    """Return a preset by name."""
    return next((p for p in PRESETS if p.name == name), None)
