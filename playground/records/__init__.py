"""Frozen params and records: the one vocabulary of all layers. They know no model and no screen."""

from playground.records.beam import (
    BeamParams,
    BeamResult,
    BeamState,
    BeamStep,
    Candidate,
    Hypothesis,
    ModeSearch,
    length_score,
)
from playground.records.contrastive import ContrastiveParams, ContrastiveStep
from playground.records.sampling import SamplingParams, Stage, Step, Trace
from playground.records.speculative import (
    LosslessnessReport,
    Round,
    SpeculativeParams,
    SpeculativeResult,
)

__all__ = [
    "BeamParams",
    "BeamResult",
    "BeamState",
    "BeamStep",
    "Candidate",
    "ContrastiveParams",
    "ContrastiveStep",
    "Hypothesis",
    "LosslessnessReport",
    "ModeSearch",
    "Round",
    "SamplingParams",
    "SpeculativeParams",
    "SpeculativeResult",
    "Stage",
    "Step",
    "Trace",
    "length_score",
]
