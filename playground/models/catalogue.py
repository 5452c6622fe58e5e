"""The catalogue: models that the page offers by name, and whether each is here already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["here", "to fetch", "not reachable"]


@dataclass(frozen=True)
class ModelEntry:
    """A model on offer: ``id`` goes to ``load_model``; ``download_bytes`` is what comes once."""

    id: str
    title: str
    parameters: int
    download_bytes: int
    licence: str


CATALOGUE = (
    ModelEntry("default", "SmolLM2-135M-Instruct", 134_515_008, 93_000_000, "Apache-2.0"),
    ModelEntry("gpt2", "GPT-2 (124M)", 124_439_808, 551_000_000, "MIT"),
    ModelEntry("gpt2-large", "GPT-2 large (774M)", 774_030_080, 3_250_000_000, "MIT"),
    ModelEntry(
        "HuggingFaceTB/SmolLM2-135M", "SmolLM2-135M (base)", 134_515_008, 272_000_000, "Apache-2.0"
    ),
    ModelEntry(
        "HuggingFaceTB/SmolLM2-360M", "SmolLM2-360M (base)", 361_821_120, 726_000_000, "Apache-2.0"
    ),
    ModelEntry("Qwen/Qwen2.5-0.5B", "Qwen2.5-0.5B", 494_032_768, 999_000_000, "Apache-2.0"),
)


def model_state(model_id: str, reachable: bool | None = None) -> State:
    """Tell whether a catalogue model or hub id is here, to fetch, or not reachable.

    ``reachable`` says whether the hub answers (one probe serves a whole list); None believes so
    unless the offline flag is set, and asks nobody.
    """
    if model_id == "default":
        from playground.models.default import default_folder, is_ready

        return "here" if is_ready(default_folder()) else "to fetch"
    from playground.models import hub

    if hub.cached_folder(model_id):
        return "here"
    if reachable is None:
        reachable = not hub.is_offline()
    return "to fetch" if reachable else "not reachable"
