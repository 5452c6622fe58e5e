"""The stepper against the bare model: ratios, measured side by side in one run.

    python -m benchmarks.sampling [--tokens 64] [--pairs 7] [--threads N]

1. A recorded step (forward, filters, dice, record) against the bare cached forward of the same
   token on the same cache length: time ratio, aim at most 1.15. With all four main filters on.
2. Our greedy run with full records against ``transformers.generate``: throughput ratio, aim 1.0,
   required 0.95. Both must find the same tokens, or the program fails.

Sides alternate within each pair, in turns; ratios are taken within a pair and their median is
printed. Pair 0 warms up and doesn't count.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import DynamicCache

import playground as pg
from playground.engines.sampling import step

PROMPT = "Once upon a time, there was a"
FILTERS = pg.SamplingParams(temperature=0.8, top_k=50, top_p=0.9, min_p=0.05, seed=7)
AIM_STEP, AIM_RUN, REQUIRED_RUN = 1.15, 1.0, 0.95


def bare_steps(lm: Any, ids: list[int], prompt_length: int) -> float:
    """Return the seconds of bare cached forwards over ids[prompt_length:], one token each."""
    cache = DynamicCache(config=lm.model.config)
    with torch.inference_mode():
        lm.model(torch.tensor([ids[:prompt_length]]), cache=cache, use_cache=True, logits_to_keep=1)
        began = time.perf_counter()
        for token in ids[prompt_length:]:
            lm.model(torch.tensor([[token]]), cache=cache, use_cache=True, logits_to_keep=1)
        return time.perf_counter() - began


def recorded_steps(lm: Any, ids: list[int], prompt_length: int) -> float:
    """Return the seconds of recorded steps along the same ids."""
    lm.clear()
    lm.logits(ids[:prompt_length])
    began = time.perf_counter()
    for length in range(prompt_length + 1, len(ids) + 1):
        step(lm, ids[:length], FILTERS, prompt_length)
    return time.perf_counter() - began


def our_run(lm: Any, prompt: list[int], tokens: int) -> tuple[float, tuple[int, ...]]:
    """Return seconds and new ids of our greedy run from empty caches."""
    lm.clear()
    began = time.perf_counter()
    trace = pg.generate(lm, prompt, pg.SamplingParams(temperature=0), tokens, stop_at_eos=False)
    return time.perf_counter() - began, trace.new_ids


def their_run(lm: Any, prompt: list[int], tokens: int) -> tuple[float, tuple[int, ...]]:
    """Return seconds and new ids of transformers' greedy run."""
    inputs = torch.tensor([prompt])
    options = dict(do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens)
    began = time.perf_counter()
    out = lm.model.generate(inputs, attention_mask=torch.ones_like(inputs), **options)
    return time.perf_counter() - began, tuple(out[0, len(prompt) :].tolist())


def ratios(
    pairs: int, first: Callable[[], float], second: Callable[[], float]
) -> tuple[float, list[float]]:
    """Return the median and all of first / second over alternating pairs, the warm-up left out."""
    found = []
    for i in range(pairs + 1):
        if i % 2:
            b = second()
            a = first()
        else:
            a = first()
            b = second()
        if i:
            found.append(a / b)
    return statistics.median(found), found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    lm = pg.load_model("default", device="cpu")
    prompt = lm.encode(PROMPT)
    ids = [*prompt, *our_run(lm, prompt, args.tokens)[1]]
    if our_run(lm, prompt, args.tokens)[1] != their_run(lm, prompt, args.tokens)[1]:
        # transformers holds EOS back to reach the length; without one in sight both agree.
        raise SystemExit("the greedy runs differ: no comparison")

    n = len(prompt)
    median, all_ = ratios(
        args.pairs, lambda: recorded_steps(lm, ids, n), lambda: bare_steps(lm, ids, n)
    )
    print(f"recorded step / bare cached forward: {median:.3f} (aim <= {AIM_STEP})")
    print("  pairs: " + " ".join(f"{r:.3f}" for r in all_))
    median, all_ = ratios(
        args.pairs,
        lambda: their_run(lm, prompt, args.tokens)[0],
        lambda: our_run(lm, prompt, args.tokens)[0],
    )
    print(f"greedy throughput, ours / transformers: {median:.3f} (required {REQUIRED_RUN})")
    print("  pairs: " + " ".join(f"{r:.3f}" for r in all_))


if __name__ == "__main__":
    main()
