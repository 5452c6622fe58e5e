"""Our beam search, with every record, against transformers.generate(num_beams=K): a ratio.

    python -m benchmarks.beam [--beams 4 8 16] [--tokens 64] [--pairs 5] [--threads N]

Default model, CPU or --device. Both sides run the same search (no EOS, so that both make exactly
--tokens tokens; length penalty 1; all K hypotheses), pair by pair in turn, the first side
alternating, each from empty caches; a pair's ratio is transformers' time over ours, so above 1 we
are faster. The first pair of each K warms up and isn't counted. The two must find the same
best sequence, or the program fails.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from playground.engines.beam import beam_search
from playground.models import load_model
from playground.records import BeamParams, BeamResult

PROMPT = "The history of the city began when"
REQUIRED, AIM = 0.95, 1.0


def ours(lm: Any, prompt: list[int], beams: int, tokens: int) -> tuple[float, BeamResult]:
    lm.clear()
    params = BeamParams(beams, tokens, stop_at_eos=False)
    began = time.perf_counter()
    result = beam_search(lm, prompt, params)
    return time.perf_counter() - began, result


def theirs(lm: Any, prompt: list[int], beams: int, tokens: int) -> tuple[float, list[list[int]]]:
    ids = torch.tensor([prompt], device=lm.model.device)
    config = lm.model.generation_config
    kept, config.eos_token_id = config.eos_token_id, None
    began = time.perf_counter()
    out = lm.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=beams,
        num_return_sequences=beams,
        max_new_tokens=tokens,
        do_sample=False,
        pad_token_id=0,
    )
    took = time.perf_counter() - began
    config.eos_token_id = kept
    return took, out[:, len(prompt) :].tolist()


def measure(lm: Any, prompt: list[int], beams: int, tokens: int, pairs: int) -> float:
    """Print each pair and return the median ratio."""
    ratios = []
    for pair in range(pairs + 1):
        if pair % 2:
            own, result = ours(lm, prompt, beams, tokens)
            other, rows = theirs(lm, prompt, beams, tokens)
        else:
            other, rows = theirs(lm, prompt, beams, tokens)
            own, result = ours(lm, prompt, beams, tokens)
        best = list(result.hypotheses[0].ids)
        if best != rows[0]:
            raise SystemExit(f"K={beams}: the two found different sequences")
        word = "warm-up" if pair == 0 else f"pair {pair}"
        recorded = sum(len(step.candidates) for step in result.steps)
        print(
            f"K={beams:<3} {word:<8} ours {own:6.2f} s  transformers {other:6.2f} s  "
            f"ratio {other / own:.3f}  ({recorded} candidates recorded)",
            flush=True,
        )
        if pair:
            ratios.append(other / own)
    median = statistics.median(ratios)
    verdict = "aim met" if median >= AIM else "required met" if median >= REQUIRED else "too slow"
    print(f"K={beams:<3} median ratio {median:.3f} over {pairs} pairs: {verdict}", flush=True)
    return median


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="default")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    lm = load_model(args.model, device=args.device)
    prompt = lm.encode(PROMPT)
    medians = [measure(lm, prompt, k, args.tokens, args.pairs) for k in args.beams]
    if min(medians) < REQUIRED:
        raise SystemExit(f"a median ratio is below {REQUIRED}")


if __name__ == "__main__":
    main()
