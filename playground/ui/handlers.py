"""Handlers without a page: moves on a session, each a pure function of what the user chose.

In: the model, the session, the params and what was clicked; out: the new session. Refusals are
ValueErrors in the user's words; ``ui.sampling`` shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from playground.engines.sampling import context_full, step
from playground.language_model import LanguageModel
from playground.ranking import descending
from playground.records import SamplingParams
from playground.records.checks import integer, number
from playground.session import Session
from playground.words import Translate

MAX_RUN = 512


def take(
    lm: LanguageModel, session: Session, params: SamplingParams, t: Translate, force: int | None
) -> Session:
    """Return the session after one step from the position looked at; ``force`` takes that token."""
    if not session.ids:
        raise ValueError(t("page.empty"))
    if context_full(lm, session.ids):
        text = t("page.ended_context", count=len(session.ids), limit=lm.context_length)
        raise ValueError(text)
    one = step(lm, session.ids, params, len(session.trace.prompt_ids), force)
    stop = "eos" if one.token_id in lm.eos_ids else ""
    return session.advance(one, stop)


def candidate(lm: LanguageModel, session: Session, digit: int) -> int:
    """Return the id of the model's n-th candidate at the position looked at."""
    integer("digit", digit, 1, 9)
    return int(descending(np.asarray(lm.logits(session.ids)[-1]), digit)[digit - 1])


def force_text(
    lm: LanguageModel, session: Session, params: SamplingParams, t: Translate, text: str
) -> Session:
    """Return the session with a text's tokens taken one after another."""
    ids = lm.encode(text, add_bos=False) if text else []
    if not ids:
        raise ValueError(t("page.inspect_empty"))
    if lm.context_length is not None and len(session.ids) + len(ids) > lm.context_length:
        count = len(session.ids) + len(ids)
        raise ValueError(t("page.ended_context", count=count, limit=lm.context_length))
    for token in ids:
        session = take(lm, session, params, t, token)
    return session


def whole(name: str, value: Any, high: int) -> int:
    """Return a whole number from 1 to ``high`` that a control shows, or refuse it."""
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return integer(name, value, 1, high)


def pace(length: float, speed: float) -> tuple[int, float]:
    """Return a run's length in tokens and the wait between two in ms, from the controls."""
    length = whole("run_length", length, MAX_RUN)
    number("speed", speed, 0.5, 100)
    return length, 1000 / speed


def tick(
    lm: LanguageModel,
    session: Session,
    params: SamplingParams,
    t: Translate,
    count: int,
    stops: Sequence[str] = (),
) -> Session:
    """Return the session after the next step of a run that has taken ``count`` steps so far.

    ``trace.stop`` says that the run ends here: at EOS, a full context, or where the run's text
    holds one of ``stops``.
    """
    session = take(lm, session, params, t, None)
    stop = session.trace.stop
    new = lm.decode(session.trace.new_ids[-count - 1 :])
    if not stop and any(text in new for text in stops):
        stop = "stopped"
    if not stop and context_full(lm, session.ids):
        stop = "context full"
    return replace(session, trace=replace(session.trace, stop=stop))


def find_token(lm: LanguageModel, text: str, t: Translate) -> tuple[int, str]:
    """Return (id, note) of a token typed as text or as an id in the vocabulary.

    A number that is a token itself counts as text; "#123" is always the id.
    """
    stripped = text.strip()
    if stripped.startswith("#") and stripped[1:].isdecimal():
        return integer("token id", int(stripped[1:]), 0, lm.vocab_size - 1), ""
    ids = lm.encode(text, add_bos=False) if text else []
    if len(ids) != 1 and stripped.isdecimal():
        return integer("token id", int(stripped), 0, lm.vocab_size - 1), ""
    if not ids:
        raise ValueError(t("page.inspect_empty"))
    note = "" if len(ids) == 1 else t("page.inspect_several", text=text, count=len(ids))
    return ids[0], note
