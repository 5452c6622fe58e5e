"""How fast the Sample view answers a hand: slider to painted bars and dice, drags, settling, steps.

    python -m benchmarks.page [--moves 60] [--wide 262144]

Headless Chromium against the real page on this machine, for the default model (49,152 tokens) and
for a synthetic model of --wide tokens, each without and with 120 ms of extra latency per request.
Aims: slider input to painted p95 under 80 ms in every row; at least 15 updates a second in a drag;
settled (exact numbers of Python) p95 under 150 ms plus the network after the last movement.

Updates a second: with a mouse (Playwright's hand is the slower one) / moved in every frame.
Measured inside the page: from the input event's own time stamp to the task after the frame in which
both charts were drawn. Settling: from the last input event to the exact answer's figures.
"""

from __future__ import annotations

import argparse
import os
import shutil
from functools import cache
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from playground.models import load_model
from playground.ui.components import launch_options
from playground.ui.demo import build_demo
from playground.ui.library import Library
from playground.vocabulary import Vocabulary

LATENCY = 120  # ms

# Records, per slider input, when the charts that it changed were painted.
PROBE = """() => {
  window.probe = { painted: [], updates: 0, settled: [] };
  const frame = window.requestAnimationFrame;
  let asked = null, drawn = new Set(), inFrame = false;
  window.requestAnimationFrame = (f) => frame((now) => {
    inFrame = true;
    try { f(now); } finally { inFrame = false; }
  });
  document.addEventListener("input", (e) => {
    asked = e.timeStamp; drawn = new Set(); probe.last = e.timeStamp; probe.waiting = true;
  }, true);
  const drew = (div) => {
    const id = div.closest("[id^=dp-]").id;
    if (id === "dp-bars") probe.updates += 1;
    drawn.add(id);
    if (asked === null || !drawn.has("dp-bars") || !drawn.has("dp-dice")) return;
    const from = asked;
    asked = null;
    // Whether drawn in a frame's callbacks or before them, the first task after finds it painted.
    const done = () => probe.painted.push(performance.now() - from);
    const after = () => scheduler.postTask(done, { priority: "user-blocking" });
    if (inFrame) after(); else frame(after);
  };
  const { patch } = dp, { react } = Plotly;  // a chart is drawn by one of the two
  dp.patch = (div, ...rest) => patch(div, ...rest) && (drew(div), true);
  Plotly.react = (div, ...rest) => {
    const result = react(div, ...rest);
    drew(div);
    return result;
  };
  const look = () => {
    const state = dp.live.state;
    if (probe.waiting && !state.waiting) {
      const wanted = state.wanted(), have = state.value.params;
      if (Object.keys(wanted).every((k) => typeof wanted[k] !== "number"
          || Math.abs(wanted[k] - have[k]) < 1e-9)) {
        probe.settled.push(performance.now() - probe.last);
        probe.waiting = false;
      }
    }
    requestAnimationFrame(look);
  };
  look();
}"""


# A hand that moves the slider in every frame: updates a second that the page itself can keep up.
FRAMES = """() => new Promise((done) => {
  const slider = document.querySelector("#dp-temperature input[type=range]");
  const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  const start = performance.now();
  let n = 0;
  probe.updates = 0;
  const move = () => {
    set.call(slider, (0.3 + n / 100).toFixed(2));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    n += 1;
    if (n < 200) requestAnimationFrame(move);
    else requestAnimationFrame(() => done(1000 * probe.updates / (performance.now() - start)));
  };
  move();
})"""


class WideLM:
    """A synthetic model of any width: Zipf-like logits that depend on the last token alone."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.name, self.fingerprint = f"synthetic, {vocab_size:,} tokens", "synthetic"
        self.eos_ids, self.bos_id, self.context_length = (0,), None, None
        self.device, self.dtype = "cpu", "float32"
        strings = tuple(f"Ġt{i}" for i in range(vocab_size))
        self._row = cache(self._new_row)  # as models keep the logits of their last positions
        self.vocabulary = Vocabulary(strings, special_ids=(), kind="byte-level")

    def encode(self, text: str = "", **_: Any) -> list[int]:
        """Return ids made of the text's characters."""
        return [ord(c) % self.vocab_size for c in text]

    def decode(self, ids: Any) -> str:
        """Return the labels joined."""
        return "".join(map(self.label, ids))

    def label(self, token_id: int) -> str:
        """Return a token's label."""
        return self.vocabulary.label(token_id)

    def logits(self, ids: Any, last: int = 1) -> np.ndarray:
        """Return [last, V] (the same row for each position: only the width matters here)."""
        return np.tile(self._row(int(ids[-1])), (last, 1))

    def _new_row(self, token_id: int) -> np.ndarray:
        rng = np.random.default_rng(token_id)
        row = -1.1 * np.log1p(rng.permutation(self.vocab_size))
        return (row + rng.normal(0, 0.2, self.vocab_size)).astype(np.float32)

    def logits_many(self, prefixes: Any, last: int = 1) -> np.ndarray:
        """Return [B, last, V]."""
        return np.stack([self.logits(p, last) for p in prefixes])


def measure(page: Page, moves: int) -> dict[str, Any]:
    """Return the figures of one page: isolated slider steps, then a drag, then token steps."""
    page.evaluate(PROBE)
    slider = page.locator("#dp-temperature input[type=range]")
    slider.focus()
    for i in range(moves):
        page.keyboard.press("ArrowRight" if i < moves // 2 else "ArrowLeft")
        page.wait_for_timeout(400)
    painted, settled = page.evaluate("[probe.painted, probe.settled]")
    box = slider.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.1 * box["width"], y)
    page.mouse.down()
    page.evaluate("probe.updates = 0; probe.start = performance.now()")
    page.mouse.move(box["x"] + 0.82 * box["width"], y, steps=180)
    updates = page.evaluate("1000 * probe.updates / (performance.now() - probe.start)")
    page.mouse.up()
    page.wait_for_timeout(1000)
    frames = page.evaluate(FRAMES)
    page.wait_for_timeout(2500)
    ends = page.evaluate(
        "dp.live.state.value.params.temperature === Number("
        "document.querySelector('#dp-temperature input[type=number]').value)"
    )
    return {
        "painted": painted,
        "settled": settled,
        "updates": updates,
        "frames": frames,
        "ends": ends,
    }


def line(name: str, found: dict[str, Any]) -> str:
    """Return one row of the table."""
    p50, p95 = np.percentile(found["painted"], [50, 95])
    s50, s95 = np.percentile(found["settled"], [50, 95])
    return (
        f"{name:<40} {p50:5.0f} /{p95:5.0f}   {s50:5.0f} /{s95:5.0f}   "
        f"{found['updates']:6.1f} /{found['frames']:5.1f}   "
        f"{'yes' if found['ends'] else 'NO'}   ({len(found['painted'])} moves)"
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--wide", type=int, default=262_144)
    args = parser.parse_args()
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("PLAYGROUND_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    models = {"default model": load_model("default")}
    models[f"synthetic, {args.wide:,} tokens"] = WideLM(args.wide)
    print(
        f"{'ms, p50 / p95':<40} painted        settled        updates/s      ends on the last value"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for name, lm in models.items():
            demo = build_demo(Library(lambda _, progress, lm=lm: lm))
            demo.queue(default_concurrency_limit=8)
            _, url, _ = demo.launch(
                server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, **launch_options()
            )
            for latency in (0, LATENCY):
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                page = context.new_page()
                page.goto(url)
                page.wait_for_function("window.dp?.live?.state?.value?.payload", timeout=90_000)
                page.wait_for_selector("#dp-bars .bars path", timeout=90_000)
                page.wait_for_timeout(2000)
                context.new_cdp_session(page).send(
                    "Network.emulateNetworkConditions",
                    {
                        "offline": False,
                        "latency": latency,
                        "downloadThroughput": -1,
                        "uploadThroughput": -1,
                    },
                )
                print(line(f"{name}, + {latency} ms", measure(page, args.moves)), flush=True)
                context.close()
            demo.close(verbose=False)
        browser.close()


if __name__ == "__main__":
    main()
