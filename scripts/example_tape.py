"""Record the example tape: `python scripts/example_tape.py` writes assets/tapes/example.dptape."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.engines.sampling import generate
from playground.models import load_model
from playground.records import SamplingParams
from playground.session import Prompt, Session
from playground.takeaway import tape_of
from playground.tape_file import to_bytes

TARGET = Path(__file__).resolve().parent.parent / "assets" / "tapes" / "example.dptape"
PROMPT = Prompt("The capital of France is")
PARAMS = SamplingParams(temperature=0.9, top_p=0.9, seed=7)
STEPS = 7


def main() -> None:
    """Write the tape and say what is on it."""
    lm = load_model("default", device="cpu")
    trace = generate(lm, PROMPT.encode(lm), PARAMS, STEPS)
    session = Session(PROMPT, trace)
    data = to_bytes(tape_of(session, lm, "default", PARAMS, about="The example tape."))
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(data)
    print(f"{TARGET.name}: {len(data):,} bytes, {lm.decode(trace.ids)!r}")


if __name__ == "__main__":
    main()
