"""A deck: one decoder on the Compare page, as its kind and the settings that its head shows.

In: what the page sends (untrusted); out: Decks, their Decoders for a model, and their names in
words. Refusals name the setting and its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.compare import Decoder
from playground.format import setting_text
from playground.language_model import LanguageModel
from playground.records import BeamParams, ContrastiveParams, SamplingParams, SpeculativeParams
from playground.ui.numbers import Number, read
from playground.ui.second_models import DISTILLED, EXIT, LOOKUP, SHORT, SecondModels
from playground.words import Translate

LEAST, MOST = 2, 6
GREEDY, BEAM, SAMPLING, PANEL = "greedy", "beam", "sampling", "panel"
CONTRAST, SPECULATE = "contrastive", "speculative"


@dataclass(frozen=True)
class Choice:
    """One setting with few values, each with its word."""

    field: str
    word: str
    options: tuple[tuple[str, str], ...]


HELPERS = {
    DISTILLED: "contrast.kind_distilled",
    SHORT: "contrast.kind_short",
    EXIT: "contrast.kind_exit",
    LOOKUP: "speculate.kind_lookup",
}
TEMPERATURE = Number("temperature", "controls.temperature", 0, 5, 1, 0.1)
TOP_K = Number("top_k", "controls.top_k", 0, 1000, 0, 1, True)
TOP_P = Number("top_p", "controls.top_p", 0, 1, 1, 0.05)
MIN_P = Number("min_p", "controls.min_p", 0, 1, 0, 0.01)
BEAMS = Number("num_beams", "compare.beams", 1, 16, 4, 1, True)
PENALTY = Number("length_penalty", "compare.length_penalty", -2, 3, 1, 0.5)
WEIGHT = Number("amateur_weight", "compare.weight", 0, 3, 1, 0.1)
PLAUSIBILITY = Number("plausibility", "compare.plausibility", 0, 1, 0.1, 0.05)
GAMMA = Number("gamma", "compare.gamma", 1, 16, 4, 1, True)
COOL = replace(TEMPERATURE, value=0)
AMATEUR = Choice("helper", "compare.amateur", tuple((k, HELPERS[k]) for k in (SHORT, EXIT)))
AMATEUR = replace(AMATEUR, options=((DISTILLED, HELPERS[DISTILLED]), *AMATEUR.options))
DRAFT = Choice("helper", "compare.draft", tuple((k, HELPERS[k]) for k in (DISTILLED, EXIT, LOOKUP)))

Setting = Number | Choice
SETTINGS: dict[str, tuple[Setting, ...]] = {
    GREEDY: (),
    BEAM: (BEAMS, PENALTY),
    SAMPLING: (TEMPERATURE, TOP_K, TOP_P, MIN_P),
    PANEL: (),
    CONTRAST: (AMATEUR, WEIGHT, PLAUSIBILITY),
    SPECULATE: (DRAFT, GAMMA, COOL, TOP_P),
}
KIND_WORDS = {
    GREEDY: "compare.kind_greedy",
    BEAM: "compare.kind_beam",
    SAMPLING: "compare.kind_sampling",
    PANEL: "compare.kind_panel",
    CONTRAST: "compare.kind_contrastive",
    SPECULATE: "compare.kind_speculative",
}


# What a narrow head says instead of the whole word.
_SHORT = {
    "temperature": "compare.short_temperature",
    "length_penalty": "compare.short_penalty",
    "amateur_weight": "compare.short_weight",
    "plausibility": "compare.short_plausibility",
    "gamma": "compare.short_gamma",
}


@dataclass(frozen=True, slots=True)
class Deck:
    """A kind and its settings, (field, value) pairs; a setting that is left out has its start."""

    kind: str
    settings: tuple[tuple[str, Any], ...] = ()

    def value(self, setting: Setting) -> Any:
        """Return a setting's value."""
        start = setting.value if isinstance(setting, Number) else ""
        return dict(self.settings).get(setting.field, start)


def deck(kind: str, **settings: Any) -> Deck:
    """Return a deck."""
    return Deck(kind, tuple(settings.items()))


STORY = (
    deck(GREEDY),
    deck(BEAM, num_beams=4),
    deck(SAMPLING),
    deck(SAMPLING, top_p=0.95),
)


def read_decks(sent: Any, t: Translate) -> tuple[Deck, ...]:
    """Return the decks that the page sent. Raises ValueError, in words, for what can't be."""
    if not isinstance(sent, Sequence) or not LEAST <= len(sent) <= MOST:
        raise ValueError(t("compare.bad_count", low=LEAST, high=MOST))
    return tuple(_read(one, t) for one in sent)


def _read(one: Any, t: Translate) -> Deck:
    kind = one.get("kind") if isinstance(one, Mapping) else None
    if kind not in SETTINGS:
        raise ValueError(t("compare.bad_kind", kind=str(kind)[:40]))
    given = one.get("settings") or {}
    found = []
    for setting in SETTINGS[kind]:
        if setting.field not in given:
            continue
        value = given[setting.field]
        if isinstance(setting, Number):
            found.append((setting.field, read(setting, value, t)))
        elif value in dict(setting.options):
            found.append((setting.field, value))
    return Deck(kind, tuple(found))


def decoder_of(
    one: Deck, panel: SamplingParams, lm: LanguageModel, seconds: Mapping[str, SecondModels]
) -> Decoder:
    """Return the decoder of a deck for a model; ``panel`` are the panel's own settings.

    ``seconds`` has the second models of contrast and speculation, by kind.
    """
    value = {setting.field: one.value(setting) for setting in SETTINGS[one.kind]}
    plain = SamplingParams(seed=panel.seed)
    if one.kind == GREEDY:
        return Decoder(sampling=plain.replace(temperature=0.0))
    if one.kind == PANEL:
        return Decoder(sampling=panel)
    if one.kind == SAMPLING:
        return Decoder(sampling=plain.replace(**value))
    if one.kind == BEAM:
        return Decoder("beam", beam=BeamParams(**value))
    offered = seconds[one.kind].offered(lm)
    if not offered:
        raise ValueError(next(iter(seconds[one.kind].refusals(lm).values())))
    helper = value.pop("helper")
    helper = helper if helper in offered else offered[0]
    size = seconds[one.kind].default(lm, helper).number
    if one.kind == CONTRAST:
        cool = plain.replace(temperature=0.0)
        params = ContrastiveParams(**value)
        return Decoder("contrastive", sampling=cool, contrastive=params, helper=helper, size=size)
    gamma = SpeculativeParams(gamma=value.pop("gamma"))
    sampling = plain.replace(**value)
    return Decoder("speculative", sampling, speculative=gamma, helper=helper, size=size)


def names(decks: Sequence[Deck], t: Translate) -> list[str]:
    """Return the decks' names in words; equal ones are numbered."""
    found: list[str] = []
    for one in decks:
        name = _name(one, t)
        same = sum(other.split(" (")[0] == name for other in found)
        found.append(f"{name} ({same + 1})" if same else name)
    return found


def _name(one: Deck, t: Translate) -> str:
    value = {setting.field: one.value(setting) for setting in SETTINGS[one.kind]}
    if one.kind == BEAM:
        return t("compare.name_beam", count=value["num_beams"])
    if one.kind == SAMPLING:
        signs = {"temperature": "T", "top_k": "top-k", "top_p": "top-p", "min_p": "min-p"}
        on = [
            f"{signs[s.field]} {setting_text(value[s.field])}"
            for s in SETTINGS[SAMPLING]
            if value[s.field] != s.value
        ]
        return " · ".join(on) or t("compare.name_pure")
    return t(KIND_WORDS[one.kind])


def shown(
    one: Deck, lm: LanguageModel, seconds: Mapping[str, SecondModels], t: Translate
) -> list[dict[str, Any]]:
    """Return a deck's settings as the page draws them."""
    found: list[dict[str, Any]] = []
    for setting in SETTINGS[one.kind]:
        value = one.value(setting)
        label = t(_SHORT.get(setting.field, setting.word))
        item: dict[str, Any] = {"field": setting.field, "label": label, "value": value}
        item["title"] = t(setting.word)
        if isinstance(setting, Number):
            item |= {"low": setting.low, "high": setting.high, "step": setting.step}
        else:
            offered = seconds[one.kind].offered(lm)
            item["options"] = [[k, t(word)] for k, word in setting.options if k in offered]
            if value not in offered and offered:
                item["value"] = offered[0]
        found.append(item)
    return found
