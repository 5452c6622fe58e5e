"""Frozen params and records: the one vocabulary of all layers. They know no model and no screen."""

from playground.records.sampling import SamplingParams, Stage, Step, Trace

__all__ = ["SamplingParams", "Stage", "Step", "Trace"]
