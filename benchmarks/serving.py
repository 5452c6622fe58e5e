"""Many users on one machine: what joining their steps into one forward brings, as ratios.

    python -m benchmarks.serving [--sessions 32] [--rounds 5] [--tokens 4]

Aims, for 32 sessions of the default model on two cores (each ratio against the same work one after
another, in turns within this run):
- `logits_many` alone: 8 times the tokens per second;
- stepping (one forward, filters, dice) from as many threads: 5 times;
- the page's step (the same, and every chart drawn): p95 at most 3 s;
- a settle of one more user meanwhile (cached logits, every chart drawn): p95 under 300 ms.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from playground.engines.sampling import step
from playground.models import load_model
from playground.serving.batching import BatchedLM
from playground.serving.turns import QUICK, Turns
from playground.session import Prompt, Session
from playground.ui import handlers, screen
from playground.ui.controls import START
from playground.words import translator

T = translator("en")
WORDS = ("the", "cat", "sat", "by", "an", "old", "river", "and", "told", "of", "rain,", "bread")


def prompts(count: int, seed: int = 0) -> list[str]:
    """Return different prompts of 8 to 40 words."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(8, 40))) for _ in range(count)]


def clock(work: Callable[[], Any]) -> float:
    """Return the seconds that work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio_of(name: str, pairs: list[tuple[float, float]], aim: float) -> None:
    """Print tokens per second together over one after another, the median of the rounds."""
    ratios = sorted(a / b for a, b in pairs)
    middle = float(np.median(ratios))
    spread = f"{ratios[0]:.1f} to {ratios[-1]:.1f}"
    print(f"{name:<44} {middle:5.1f} x   ({spread}; aim {aim:g} x)", flush=True)


def many_alone(lm: Any, rows: list[tuple[int, ...]], rounds: int) -> None:
    """Compare one batched forward with single ones."""
    rng = np.random.default_rng(1)
    batched, single = lm.fresh(), lm.fresh()
    batched.logits_many(rows)
    few = rows[:8]
    for row in few:
        single.logits(row)
    pairs = []
    for _ in range(rounds):
        rows = [(*row, int(rng.integers(100, 40_000))) for row in rows]
        few = [(*row, int(rng.integers(100, 40_000))) for row in few]
        alone = clock(lambda few=few: [single.logits(row) for row in few]) * len(rows) / len(few)
        pairs.append((alone, clock(lambda rows=rows: batched.logits_many(rows))))
    ratio_of(f"logits_many of {len(rows)} rows", pairs, 8)


def steppers(lm: Any, rows: list[tuple[int, ...]], rounds: int, tokens: int) -> None:
    """Compare threads that step through a BatchedLM with the same steps one after another."""
    plain, shared = lm.fresh(), BatchedLM(lm.fresh())
    for row in rows:
        shared.logits(row)
    few = rows[:8]
    for row in few:
        plain.logits(row)

    def walk(model: Any, row: tuple[int, ...]) -> tuple[int, ...]:
        for _ in range(tokens):
            row = (*row, step(model, row, START).token_id)
        return row

    pairs = []
    with ThreadPoolExecutor(len(rows)) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            few = [walk(plain, row) for row in few]
            alone = (time.perf_counter() - began) * len(rows) / len(few)
            began = time.perf_counter()
            rows = list(pool.map(walk, [shared] * len(rows), rows))
            pairs.append((alone, time.perf_counter() - began))
    ratio_of(f"{len(rows)} sessions stepping, filters and dice", pairs, 5)
    print(f"{'':<44} {shared.joined / max(shared.batches, 1):5.1f} rows a forward")


def show(lm: Any, session: Session, params: Any) -> int:
    """Draw the Sample view as the page does, down to the text that is sent."""
    values = screen.draw_screen(lm, "default", session, params, T)
    size = 0
    for value in values.values():
        size += len(value.to_json() if hasattr(value, "to_json") else json.dumps(value))
    return size


def page(lm: Any, texts: list[str], tokens: int) -> None:
    """Measure the page's step with all sessions stepping, and one more user's settling."""
    turns = Turns()
    shared = BatchedLM(lm.fresh())
    sessions = [Session().start(Prompt(text), shared) for text in texts]
    for session in sessions:
        shared.logits(session.ids)
    one = Session().start(Prompt("One more user looks on."), shared)
    shared.logits(one.ids)
    alone = [clock(lambda: show(shared, one, START)) for _ in range(5)]
    seconds: list[float] = []
    settled: list[float] = []
    done = threading.Event()

    def walk(session: Session) -> None:
        for _ in range(tokens):
            began = time.perf_counter()
            with turns.hold():
                session = handlers.take(shared, session, START, T, None)
                show(shared, session, START)
            seconds.append(time.perf_counter() - began)

    def settle() -> None:
        turn = 0
        while not done.is_set():
            turn += 1
            params = START.replace(temperature=0.5 + (turn % 10) / 10)
            began = time.perf_counter()
            with turns.hold(QUICK):
                show(shared, one, params)
            settled.append(time.perf_counter() - began)
            done.wait(0.3)

    watcher = threading.Thread(target=settle)
    with ThreadPoolExecutor(len(texts)) as pool:
        watcher.start()
        list(pool.map(walk, sessions))
    done.set()
    watcher.join()
    print(
        f"{'a settle alone, median':<44} {1000 * np.median(alone):5.0f} ms\n"
        f"{f'page step with {len(texts)} stepping, p50 / p95':<44} {np.median(seconds):5.2f} / "
        f"{np.percentile(seconds, 95):.2f} s   (aim 3 s)\n"
        f"{'settle of one more user meanwhile, p50 / p95':<44} {1000 * np.median(settled):5.0f} / "
        f"{1000 * np.percentile(settled, 95):.0f} ms  ({len(settled)} settles; aim 300 ms)",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--switch", type=float, default=0.0, help="thread switch interval, s")
    args = parser.parse_args()
    if args.switch:
        sys.setswitchinterval(args.switch)
    lm = load_model("default")
    texts = prompts(args.sessions)
    rows = [tuple(lm.encode(text)) for text in texts]
    many_alone(lm, rows, args.rounds)
    steppers(lm, rows, args.rounds, args.tokens)
    page(lm, texts, args.tokens)


if __name__ == "__main__":
    main()
