"""The API: named endpoints for programs, on the same models, under the same limits as the page.

Text and plain numbers in, JSON out: every token as {"id", "text", "p", "logprob"}, probabilities
and log-probabilities (nats) over the whole vocabulary. What is wrong with a request comes back as
one line. ``examples`` in the README call them with gradio_client; so can any program that can POST.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import gradio as gr
import numpy as np

from playground.engines.beam import beam_search
from playground.engines.contrastive import contrastive_decode
from playground.engines.prompt_lookup import PromptLookup
from playground.engines.sampling import entropy_of, generate
from playground.engines.speculative import speculative_decode
from playground.language_model import LanguageModel
from playground.models.views import KINDS, amateur_of
from playground.processors import removed_by, shape
from playground.ranking import descending
from playground.records import SamplingParams, Stage, Step
from playground.records.beam import BeamParams
from playground.records.checks import choice, integer
from playground.records.contrastive import ContrastiveParams
from playground.records.speculative import SpeculativeParams
from playground.serving.host import check_model
from playground.serving.limits import Limits, limits_of
from playground.session import Prompt

log = logging.getLogger("playground")

MAX_TOP = 1000
DRAFTS = (*KINDS, "lookup")


def add_api(get: Callable[[str], LanguageModel], limits: Limits) -> None:
    """Add the endpoints to the present Blocks. ``get`` returns a model by name."""
    calls = Calls(get, limits)
    for fn in (
        calls.next_tokens,
        calls.shape,
        calls.generate,
        calls.beam,
        calls.contrast,
        calls.speculate,
    ):
        gr.api(_polite(fn), api_name=fn.__name__, concurrency_id="api", concurrency_limit=8)


class Calls:
    """The endpoints as plain functions."""

    def __init__(self, get: Callable[[str], LanguageModel], limits: Limits) -> None:
        self._get, self._limits = get, limits

    def next_tokens(self, text: str, top: int = 20, model: str = "default") -> dict:
        """Return the model's own distribution of the next token: the top ones and its entropy.

        Args:
            text: The prompt, as plain text.
            top: How many tokens to return, most probable first (1 to 1000).
            model: A model of the catalogue.
        """
        lm, ids = self._read(model, text)
        count = integer("top", top, 1, MAX_TOP)
        logprobs = shape(lm.logits(ids)[-1], SamplingParams(), ids)[0].logprobs
        return {"tokens": _top(lm, logprobs, count), "entropy": entropy_of(logprobs)}

    def shape(
        self,
        text: str,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        top: int = 20,
        model: str = "default",
    ) -> dict:
        """Return the next token's distribution after the filters, and what each filter removed.

        Args:
            text: The prompt, as plain text.
            temperature: 0 (greedy) to 100; 1 leaves the distribution as it is.
            top_k: Keep the k most probable tokens; 0 keeps all.
            top_p: Keep the fewest tokens whose probabilities reach this sum; 1 keeps all.
            min_p: Keep tokens with at least this part of the highest probability; 0 keeps all.
            top: How many tokens to return, most probable first (1 to 1000).
            model: A model of the catalogue.
        """
        lm, ids = self._read(model, text)
        count = integer("top", top, 1, MAX_TOP)
        params = SamplingParams(temperature, top_k, top_p, min_p)
        stages = shape(lm.logits(ids)[-1], params, ids)
        final = stages[-1].logprobs
        return {
            "tokens": _top(lm, final, count),
            "kept": int(np.count_nonzero(final > -np.inf)),
            "entropy": entropy_of(final),
            "removed": _removed(stages),
        }

    def generate(
        self,
        text: str,
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        model: str = "default",
    ) -> dict:
        """Continue a text token by token; the same seed gives the same text.

        Args:
            text: The prompt, as plain text.
            max_new_tokens: How many tokens to add at most.
            temperature: 0 (greedy) to 100.
            top_k: Keep the k most probable tokens; 0 keeps all.
            top_p: Keep the fewest tokens whose probabilities reach this sum; 1 keeps all.
            min_p: Keep tokens with at least this part of the highest probability; 0 keeps all.
            seed: The dice.
            model: A model of the catalogue.
        """
        lm, ids = self._read(model, text)
        self._limits.check_new_tokens(integer("max_new_tokens", max_new_tokens, 1))
        params = SamplingParams(temperature, top_k, top_p, min_p, seed=seed)
        trace = generate(lm, ids, params, max_new_tokens)
        return {**_run(lm, trace.steps), "stop": trace.stop}

    def beam(
        self,
        text: str,
        num_beams: int = 4,
        max_new_tokens: int = 20,
        length_penalty: float = 1.0,
        model: str = "default",
    ) -> dict:
        """Search for the most probable continuations.

        Args:
            text: The prompt, as plain text.
            num_beams: How many sequences are kept at each step.
            max_new_tokens: How many tokens a sequence may have.
            length_penalty: Scores are sums divided by length to this power.
            model: A model of the catalogue.
        """
        lm, ids = self._read(model, text)
        self._limits.check_beams(integer("num_beams", num_beams, 1))
        self._limits.check_new_tokens(integer("max_new_tokens", max_new_tokens, 1))
        found = beam_search(lm, ids, BeamParams(num_beams, max_new_tokens, length_penalty))
        return {
            "hypotheses": [
                {
                    "text": lm.decode(h.ids),
                    "ids": [int(i) for i in h.ids],
                    "logprob": float(h.logprob),
                    "score": float(h.score),
                    "finished": bool(h.finished),
                }
                for h in found.hypotheses
            ],
            "stop": found.stop,
        }

    def contrast(
        self,
        text: str,
        max_new_tokens: int = 20,
        plausibility: float = 0.1,
        amateur_weight: float = 1.0,
        amateur: str = "short-context",
        temperature: float = 0.0,
        seed: int = 0,
        model: str = "default",
    ) -> dict:
        """Continue a text with what the model prefers more than an amateur of it does.

        Args:
            text: The prompt, as plain text.
            max_new_tokens: How many tokens to add at most.
            plausibility: Only tokens with this part of the expert's highest probability (0 to 1).
            amateur_weight: How much the amateur's log-probability counts against a token.
            amateur: "short-context" (the last 8 tokens only), "early-exit" or "distilled".
            temperature: 0 (the highest score) to 100.
            seed: The dice.
            model: A model of the catalogue.
        """
        lm, ids = self._read(model, text)
        self._limits.check_new_tokens(integer("max_new_tokens", max_new_tokens, 1))
        weak = amateur_of(lm, choice("amateur", amateur, KINDS))
        params = ContrastiveParams(plausibility, amateur_weight)
        dice = SamplingParams(temperature, seed=seed)
        trace = contrastive_decode(lm, weak, ids, params, dice, max_new_tokens)
        return {**_run(lm, trace.steps), "stop": trace.stop}

    def speculate(
        self,
        text: str,
        gamma: int = 4,
        max_new_tokens: int = 20,
        draft: str = "lookup",
        temperature: float = 1.0,
        seed: int = 0,
        model: str = "default",
    ) -> dict:
        """Continue a text by drafting and testing: the target's own law, in fewer forwards of it.

        Args:
            text: The prompt, as plain text.
            gamma: How many tokens are drafted before a test.
            max_new_tokens: How many tokens to add at most.
            draft: "lookup" (what followed the same words before), "early-exit" or "distilled".
            temperature: 0 (greedy) to 100.
            seed: The dice.
            model: A model of the catalogue.
        """
        lm, ids = self._read(model, text)
        self._limits.check_gamma(integer("gamma", gamma, 1))
        self._limits.check_new_tokens(integer("max_new_tokens", max_new_tokens, 1))
        choice("draft", draft, DRAFTS)
        other = PromptLookup() if draft == "lookup" else amateur_of(lm, draft)
        params, dice = SpeculativeParams(gamma), SamplingParams(temperature, seed=seed)
        found = speculative_decode(lm, other, ids, params, dice, max_new_tokens, keep_probs=False)
        steps = [step for one in found.rounds for step in one.steps]
        return {
            **_run(lm, steps),
            "sources": list(found.sources),
            "rounds": len(found.rounds),
            "drafted": found.n_drafted,
            "accepted": found.n_accepted,
            "stop": found.stop,
        }

    def _read(self, model: str, text: str) -> tuple[LanguageModel, list[int]]:
        """Return the model and the prompt's ids, or refuse in words."""
        name = model if isinstance(model, str) else repr(model)
        check_model(name, self._limits)
        prompt = Prompt(text)  # checks its type and size before it is encoded
        lm = self._get(name)
        ids = prompt.encode(lm) or ([] if lm.bos_id is None else [lm.bos_id])
        if not ids:
            raise ValueError("text must not be empty for a model without BOS")
        limits_of(lm).check_prompt(len(ids))
        return lm, ids


def _polite(fn: Callable[..., dict]) -> Callable[..., dict]:
    """Make refusals and failures errors of the API: one line, no more."""

    @wraps(fn)
    def call(*args: Any, **options: Any) -> dict:
        try:
            return fn(*args, **options)
        except ValueError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except Exception:
            log.exception("call failed")
            raise gr.Error("The call failed; the server's log says why.") from None

    return call


def _top(lm: LanguageModel, logprobs: np.ndarray, count: int) -> list[dict[str, Any]]:
    """Return the ``count`` most probable tokens, impossible ones left out."""
    ids = descending(logprobs, min(count, len(logprobs)))[:count]
    return [_token(lm, int(i), float(logprobs[i])) for i in ids if logprobs[i] > -np.inf]


def _token(lm: LanguageModel, token_id: int, logprob: float) -> dict[str, Any]:
    p = float(np.exp(logprob))
    return {"id": token_id, "text": lm.decode([token_id]), "p": p, "logprob": logprob}


def _run(lm: LanguageModel, steps: Sequence[Step]) -> dict[str, Any]:
    """Return generated text and tokens; their probabilities are those they were drawn with."""
    ids = [step.token_id for step in steps]
    tokens = [_token(lm, step.token_id, step.logprob) for step in steps]
    return {"text": lm.decode(ids), "ids": ids, "tokens": tokens}


def _removed(stages: Sequence[Stage]) -> dict[str, int]:
    names, counts = np.unique(removed_by(stages), return_counts=True)
    found = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return {stage.name: found[stage.name] for stage in stages[1:] if stage.name in found}
