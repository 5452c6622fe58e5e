"""Params and record of contrastive decoding: an expert's preference over an amateur, one position.

Contrastive *decoding* (Li et al. 2022, arXiv 2210.15097) compares two models; contrastive *search*
(Su et al. 2022), which penalises similar hidden states of one model, is another method.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from playground.records.checks import choice, number
from playground.records.sampling import Step, known_fields

Form = Literal["difference", "one_plus_beta"]
FORMS: tuple[str, ...] = ("difference", "one_plus_beta")
AmateurSees = Literal["all", "generated"]
AMATEUR_SEES: tuple[str, ...] = ("all", "generated")


@dataclass(frozen=True, slots=True)
class ContrastiveParams:
    """Settings of contrastive decoding.

    ``plausibility`` keeps the tokens whose expert probability is at least that part of the highest
    one; 0 keeps all. ``amateur_weight`` and ``amateur_temperature`` count only as their ratio, the
    slope at which the amateur's log-probability is subtracted. ``form``: "difference" scores
    ``log expert - slope * log amateur``; "one_plus_beta" (O'Brien and Lewis 2023, arXiv
    2309.09117) ``(1 + amateur_weight) * log expert - slope * log amateur``. ``amateur_sees``: "all"
    the ids, or "generated": from the prompt's last token on, as the authors' own code does. Raises
    ValueError naming the parameter, the range and what came.
    """

    plausibility: float = 0.1
    amateur_weight: float = 1.0
    amateur_temperature: float = 1.0
    form: Form = "difference"
    amateur_sees: AmateurSees = "all"

    def __post_init__(self) -> None:
        number("plausibility", self.plausibility, 0, 1)
        number("amateur_weight", self.amateur_weight, 0, 1e3)
        number("amateur_temperature", self.amateur_temperature, 0, 1e3, open_low=True)
        choice("form", self.form, FORMS)
        choice("amateur_sees", self.amateur_sees, AMATEUR_SEES)

    @property
    def slope(self) -> float:
        """What an amateur's nat costs: amateur_weight / amateur_temperature."""
        return self.amateur_weight / self.amateur_temperature

    @property
    def gain(self) -> float:
        """What an expert's nat earns: 1, or 1 + amateur_weight."""
        return 1.0 if self.form == "difference" else 1.0 + self.amateur_weight

    def replace(self, **changes: Any) -> ContrastiveParams:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return only the fields that differ from the defaults, as JSON-ready values."""
        pairs = ((f, getattr(self, f.name)) for f in dataclasses.fields(self))
        return {f.name: value for f, value in pairs if value != f.default}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> ContrastiveParams:
        """Rebuild from ``to_dict``. An unknown name raises ValueError."""
        return cls(**known_fields(cls, d))


@dataclass(frozen=True, slots=True, eq=False)
class ContrastiveStep:
    """One position as both models see it. Arrays are [V] over the vocabulary they share, read-only.

    ``expert_logprobs`` and ``amateur_logprobs`` float64, normalised (-inf: no probability; the
    amateur's are as it gave them, without floor). ``plausible`` bool: the expert finds it at least
    ``plausibility`` times as probable as its favourite. ``scores`` float64, -inf where not
    plausible, never NaN. ``logprobs`` the softmax of the scores. ``amateur_tokens``: how many
    tokens the amateur saw (None: not known here). ``step`` is the decided token (None when only
    compared); its ``model_logprob``, ``rank`` and ``entropy`` are the expert's.
    """

    expert_logprobs: np.ndarray
    amateur_logprobs: np.ndarray
    plausible: np.ndarray
    scores: np.ndarray
    logprobs: np.ndarray
    params: ContrastiveParams
    amateur_tokens: int | None = None
    step: Step | None = None

    @property
    def threshold(self) -> float:
        """The expert's log-probability from which a token is plausible (-inf: all are)."""
        if self.params.plausibility == 0:
            return -np.inf
        return float(self.expert_logprobs.max() + np.log(self.params.plausibility))

    @property
    def winner(self) -> int:
        """The token of the highest score, lowest id first."""
        return int(self.scores.argmax())

    @property
    def favourite(self) -> int:
        """The expert's most probable token, lowest id first."""
        return int(self.expert_logprobs.argmax())
