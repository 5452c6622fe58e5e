"""Our speculative decoding against transformers' assisted generation and the target alone: ratios.

    python -m benchmarks.speculative [--drafts early-exit distilled lookup] [--gamma 4]
                                     [--tokens 64] [--rounds 5] [--temperature 0] [--threads N]

Default model (or --model), CPU or --device. In each round every side runs once, from empty caches,
in an order that rotates: the target alone (ours and transformers'), ours, and transformers with the
same draft and gamma, a constant schedule and no confidence threshold. Without EOS all sides make
exactly --tokens tokens. Ratios are taken within a round, medians over the rounds; round 0 warms up.
"ours / transformers" is transformers' time over ours, so above 1 we are faster: required 0.95.
"ours / alone" says whether speculation pays here, and beside it what acceptance and measured costs
predict. With temperature 0 all four must find the same tokens, or the program fails.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from playground.engines.acceptance import best_gamma, speedup
from playground.engines.prompt_lookup import PromptLookup
from playground.engines.sampling import generate
from playground.engines.speculative import speculative_decode
from playground.models import load_model
from playground.models.views import draft_of
from playground.records import SamplingParams, SpeculativeParams, SpeculativeResult

PROMPT = "The history of the city began when"
# What prompt lookup is for: text that says the same again.
REPETITIVE = "\n".join(f'{{"id": {n}, "name": "item {n}", "price": 9.99}},' for n in range(1, 9))
REQUIRED, AIM = 0.95, 1.0
SIDES = ("alone", "transformers alone", "ours", "transformers")


def sides(
    lm: Any, draft: Any, prompt: list[int], args: argparse.Namespace, seed: int
) -> dict[str, Callable[[], Any]]:
    """Return what each side runs: a function that gives its new ids (or our whole result)."""
    params = SamplingParams(temperature=args.temperature, seed=seed)
    gamma = SpeculativeParams(args.gamma)
    ids = torch.tensor([prompt], device=lm.model.device)
    drawn = {"do_sample": False}
    if args.temperature:
        drawn = {"do_sample": True, "temperature": float(args.temperature), "top_k": 0}
    assisted: dict[str, Any] = {
        "prompt_lookup_num_tokens": args.gamma,
        "max_matching_ngram_size": 3,
    }
    if not isinstance(draft, PromptLookup):
        config = draft.model.generation_config
        config.num_assistant_tokens = args.gamma
        config.num_assistant_tokens_schedule = "constant"
        config.assistant_confidence_threshold = 0.0
        assisted = {"assistant_model": draft.model}

    def theirs(**more: Any) -> list[int]:
        torch.manual_seed(seed)
        out = lm.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=args.tokens,
            pad_token_id=0,
            **drawn,
            **more,
        )
        return out[0, len(prompt) :].tolist()

    return {
        "alone": lambda: generate(lm, prompt, params, args.tokens, False).new_ids,
        "transformers alone": theirs,
        "ours": lambda: speculative_decode(
            lm, draft, prompt, gamma, params, args.tokens, False, keep_probs=False
        ),
        "transformers": lambda: theirs(**assisted),
    }


def measure(lm: Any, draft: Any, prompt: list[int], args: argparse.Namespace) -> float:
    """Print the table of one draft and return the median ratio ours / transformers."""
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    results: list[SpeculativeResult] = []
    for turn in range(args.rounds + 1):
        run, found = sides(lm, draft, prompt, args, turn), {}
        for side in SIDES[turn % 4 :] + SIDES[: turn % 4]:
            lm.clear()
            if hasattr(draft, "clear"):
                draft.clear()
            began = time.perf_counter()
            found[side] = run[side]()
            times[side].append(time.perf_counter() - began)
        results.append(found["ours"])
        found["ours"] = found["ours"].ids
        if args.temperature == 0 and len({tuple(ids) for ids in found.values()}) > 1:
            raise SystemExit(f"{draft.name}: the sides found different tokens")
    warm = {side: seconds[1:] for side, seconds in times.items()}
    for side, seconds in warm.items():
        speed = args.tokens / statistics.median(seconds)
        print(f"  {side:<20}{statistics.median(seconds):8.3f} s  {speed:7.1f} tokens/s")

    def ratio(one: str, other: str) -> float:
        pairs = zip(warm[other], warm[one], strict=True)
        return statistics.median(theirs / ours for theirs, ours in pairs)

    against = ratio("ours", "transformers")
    verdict = "aim met" if against >= AIM else "required met" if against >= REQUIRED else "too slow"
    print(f"  ours / transformers {against:.3f}: {verdict}")
    print(f"  ours alone / transformers alone {ratio('alone', 'transformers alone'):.3f}")
    step = statistics.median(warm["alone"]) / args.tokens
    rounds = [one for result in results[1:] for one in result.rounds]
    drafted = max(sum(len(one.draft_ids) for one in rounds), 1)
    cost = sum(one.draft_seconds for one in rounds) / drafted / step
    verify = sum(one.target_seconds for one in rounds) / len(rounds) / step
    rate = sum(r.n_accepted for r in results[1:]) / max(sum(r.n_tested for r in results[1:]), 1)
    tokens = statistics.mean(r.tokens_per_round for r in results[1:])
    predicted = speedup(rate, args.gamma, cost, verify)
    print(
        f"  acceptance per tested {rate:.2f}, tokens per round {tokens:.2f}, "
        f"draft cost {cost:.2f} and block cost {verify:.2f} of a target step"
    )
    print(
        f"  ours / alone {ratio('ours', 'alone'):.3f} (predicted {predicted:.3f}; "
        f"best gamma by the formula: {best_gamma(rate, cost)})",
        flush=True,
    )
    return against


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drafts", nargs="+", default=["distilled", "early-exit", "lookup"])
    parser.add_argument("--layer", type=int, default=None, help="where the early exit leaves")
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="default")
    args = parser.parse_args()
    if args.rounds < 5:
        raise SystemExit(f"--rounds must be at least 5, got {args.rounds}")
    if args.threads:
        torch.set_num_threads(args.threads)
    lm = load_model(args.model, device=args.device)
    lm.model.generation_config.eos_token_id = None
    ratios = []
    for kind in args.drafts:
        prompt = lm.encode(REPETITIVE if kind == "lookup" else PROMPT)
        try:
            draft = PromptLookup() if kind == "lookup" else draft_of(lm, kind, layer=args.layer)
        except ValueError as refusal:
            print(f"{kind}: left out, {refusal}")
            continue
        print(f"{draft.name}, gamma {args.gamma}, temperature {args.temperature:g}", flush=True)
        ratios.append(measure(lm, draft, prompt, args))
    if min(ratios, default=AIM) < REQUIRED:
        raise SystemExit(f"a median ratio is below {REQUIRED}")


if __name__ == "__main__":
    main()
