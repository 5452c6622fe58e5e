"""Decoding Playground: step a causal language model and see every decision of its decoding.

The public Python API. Exports are lazy (PEP 562): ``import playground`` loads neither torch nor
transformers, gradio or plotly; each comes with the first name that needs it.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Name -> the module that has it.
_EXPORTS = {
    "SamplingParams": "playground.records",
    "Stage": "playground.records",
    "Step": "playground.records",
    "Trace": "playground.records",
    "LanguageModel": "playground.language_model",
    "ContextFull": "playground.language_model",
    "TableLM": "playground.table_lm",
    "TransformersLM": "playground.lm",
    "load_model": "playground.models",
    "shape": "playground.processors",
    "removed_by": "playground.processors",
    "draw": "playground.dice",
    "uniform": "playground.dice",
    "generate": "playground.engines.sampling",
    "stream": "playground.engines.sampling",
    "SpeculativeParams": "playground.records",
    "Round": "playground.records",
    "SpeculativeResult": "playground.records",
    "LosslessnessReport": "playground.records",
    "speculative_decode": "playground.engines.speculative",
    "PromptLookup": "playground.engines.prompt_lookup",
    "acceptance": "playground.engines.acceptance",
    "overlap": "playground.engines.acceptance",
    "residual": "playground.engines.acceptance",
    "emitted_distribution": "playground.engines.acceptance",
    "total_variation": "playground.engines.acceptance",
    "expected_tokens": "playground.engines.acceptance",
    "exact_yield": "playground.engines.acceptance",
    "speedup": "playground.engines.acceptance",
    "best_gamma": "playground.engines.acceptance",
    "losslessness": "playground.engines.losslessness",
    "BeamParams": "playground.records",
    "BeamResult": "playground.records",
    "BeamStep": "playground.records",
    "Candidate": "playground.records",
    "Hypothesis": "playground.records",
    "beam_search": "playground.engines.beam",
    "best_first": "playground.engines.best_first",
    "continue_ghost": "playground.engines.hypotheses",
    "greedy_continuation": "playground.engines.hypotheses",
    "regret": "playground.engines.hypotheses",
    "rescore": "playground.engines.hypotheses",
    "ContrastiveParams": "playground.records",
    "ContrastiveStep": "playground.records",
    "contrast": "playground.engines.contrastive",
    "contrastive_decode": "playground.engines.contrastive",
    "Reading": "playground.reading",
    "read": "playground.reading",
    "Tape": "playground.tape",
    "TapeLM": "playground.tape",
    "record": "playground.recorder",
    "Decoder": "playground.compare",
    "transformers_script": "playground.proof",
    "generate_call": "playground.proof_call",
    "amateur_of": "playground.models.views",
    "draft_of": "playground.models.views",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Import an export on first use."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'playground' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    """List the exports."""
    return __all__
