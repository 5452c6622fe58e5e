"""What can be taken away from a run, and brought back: trace files, tables, tapes.

A *trace file* is JSON, UTF-8, version 1 (``playground.records.TRACE_VERSION``):

- ``format`` "decoding-playground trace", ``version`` 1
- ``prompt_ids``: token ids; ``model``: fingerprint (name@hash/dtype)
- ``stop``: why it ended ("eos", "length", "context full", "stopped"; "": it goes on)
- ``params``: the settings used, each only where it differs from ``SamplingParams()``
- ``steps``: one object per token: ``token_id``; ``u`` (the dice, null if none); ``logprob`` (after
  the filters, nats; null: impossible), ``model_logprob``, ``rank`` (1-based), ``source``,
  ``params`` (index into ``params``), ``kept`` (tokens left), ``entropy`` (nats)
- ``prompt`` (text, chat, system, turns, bos, special: as typed) and ``text`` ({"prompt", "new"}),
  for readers without the tokenizer; not needed to rebuild

``Trace.from_dict(json.load(file))`` reads one, whoever wrote it. Tables have a row per step. Tapes:
see ``playground.tape``. What comes in is untrusted: bounded, checked, never executed.
"""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import asdict, replace
from typing import Any

from playground.language_model import LanguageModel
from playground.recorder import Recorder
from playground.records import Step, Trace
from playground.records.checks import brief, integer, number
from playground.session import MAX_TEXT, Prompt, Session, to_state
from playground.tape import MAX_LOGITS, Tape, TapeLM, text_key
from playground.tape_file import MAGIC

FORMAT = "decoding-playground trace"
MAX_TRACE = 8 << 20  # bytes of a trace file
MAX_STEPS = 20_000
TABLES = ("csv", "parquet")


def trace_file(session: Session, lm: LanguageModel) -> str:
    """Return a session's trace as a JSON text; see above for its fields."""
    trace = session.trace
    found = {
        "format": FORMAT,
        **trace.to_dict(),
        "prompt": asdict(session.prompt),
        "text": {"prompt": lm.decode(trace.prompt_ids), "new": lm.decode(trace.new_ids)},
    }
    return json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False)


def read_trace(data: bytes, lm: LanguageModel) -> Session:
    """Return the session of a trace file; its figures are kept as they were recorded.

    Raises ValueError for anything that isn't a trace of this model's vocabulary.
    """
    if len(data) > MAX_TRACE:
        most, size = MAX_TRACE / 1e6, len(data) / 1e6
        raise ValueError(f"a trace file must have at most {most:.0f} MB, got {size:.0f}")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(
            "this file is neither a trace (JSON) nor a tape, or it is cut off"
        ) from None
    trace = Trace.from_dict(found)
    limit = lm.context_length
    if len(trace.steps) > MAX_STEPS or (limit is not None and len(trace.ids) > limit):
        most = min(MAX_STEPS, limit or MAX_STEPS)
        raise ValueError(f"the trace must have at most {most} tokens, got {len(trace.ids)}")
    for token in trace.ids:
        if token >= lm.vocab_size:
            most = lm.vocab_size - 1
            raise ValueError(
                f"the trace is of another vocabulary: id {token}, and {most} is the last"
            )
    for step in trace.steps:
        _check(step, lm.vocab_size)
    return Session(_prompt(found, trace, lm), replace(trace, stop=trace.stop[:20]))


def _check(step: Step, size: int) -> None:
    """Raise ValueError for a step whose fields are no such numbers, of ``size`` tokens."""
    for name in ("logprob", "model_logprob", "entropy"):
        value = getattr(step, name)
        low, high = (0, math.log(size)) if name == "entropy" else (-1e300, 0)
        cut = name == "logprob" and value == -math.inf  # a forced token
        if type(value) not in (int, float) or not (cut or low - 1e-3 <= value <= high + 1e-3):
            raise ValueError(f"trace is damaged: {name} can't be {brief(value)}")
    number("u", 0 if step.u is None else step.u, 0, 1)
    integer("rank", step.rank, 1, size)
    integer("kept", step.kept, 0, size)
    if not isinstance(step.source, str) or not re.fullmatch(r"[a-z_]{1,20}", step.source):
        raise ValueError(f"trace is damaged: source can't be {str(step.source)[:20]!r}")


def _prompt(found: dict[str, Any], trace: Trace, lm: LanguageModel) -> Prompt:
    """Return the prompt as it was typed, if it still gives these ids; else their text."""
    ids = tuple(trace.prompt_ids)
    try:
        typed = found.get("prompt") or {}
        prompt = Prompt(**{**typed, "turns": tuple(map(tuple, typed.get("turns", ())))})
        if tuple(prompt.encode(lm)) == ids:
            return prompt
    except (TypeError, ValueError, AttributeError):
        pass  # a file of another program, or of a model with another template
    return Prompt(lm.decode(ids)[:MAX_TEXT])


def frame_of(trace: Trace, lm: LanguageModel) -> Any:
    """Return the steps as a pandas DataFrame, with each token's label and its settings."""
    frame = trace.to_frame().rename_axis("position")
    frame.insert(1, "token", [lm.label(i) for i in trace.new_ids])
    frame["settings"] = [json.dumps(step.params.to_dict()) for step in trace.steps]
    return frame


def table(frame: Any, kind: str) -> bytes:
    """Return a DataFrame as the bytes of a "csv" (UTF-8) or "parquet" file, its index a column."""
    if kind not in TABLES:
        raise ValueError(f"kind must be one of {', '.join(TABLES)}, got {kind!r}")
    if kind == "csv":
        return frame.to_csv(lineterminator="\n").encode("utf-8")
    out = io.BytesIO()
    frame.reset_index().to_parquet(out, index=False)
    return out.getvalue()


def positions(session: Session) -> list[tuple[int, ...]]:
    """Return the prefixes that a tape of a session holds: its path from the prompt on."""
    ids = (*session.trace.ids, *(step.token_id for step in session.redo))
    first = max(len(session.trace.prompt_ids), 1)
    return [ids[:n] for n in range(first, len(ids) + 1)]


def holds(lm: TapeLM, data: bytes) -> bool:
    """Say whether a tape has every position of a trace file."""
    try:
        return lm.tape.logits.keys() >= set(positions(read_trace(data, lm)))
    except ValueError:  # of another vocabulary, or no trace at all: the model says which
        return False


def tape_of(session: Session, lm: LanguageModel, model: str, params: Any, about: str = "") -> Tape:
    """Return a tape on which a session replays; ``params`` are what the sliders say now."""
    return recorder_of(session, lm).finished(tape_state(session, model, params), about)


def recorder_of(session: Session, lm: LanguageModel, most: int = MAX_LOGITS) -> Recorder:
    """Return a tape of a session that more can be recorded on: ``most`` bytes of logits."""
    key = _Key()
    session.prompt.encode(key)  # type: ignore[arg-type]
    recorder = Recorder(lm, texts={key.text: session.trace.prompt_ids}, most=most)
    recorder.take(positions(session))
    return recorder


def tape_state(session: Session, model: str, params: Any) -> dict[str, Any]:
    """Return a session as a tape's state."""
    return {**to_state(session, model), "now": params.to_dict()}


class _Key:
    """Stands in for a model to learn what a prompt asks it to encode."""

    text = ""

    def encode(self, text: str = "", *, chat: Any = False, **_: Any) -> list[int]:
        self.text = text_key(text, chat)
        return []


def is_tape(data: bytes) -> bool:
    """Say whether a file means to be a tape (of any version)."""
    return data.startswith(MAGIC[:6])
