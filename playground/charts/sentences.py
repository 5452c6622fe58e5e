"""A step in one line: for the explanation under the charts, and for screen readers.

In: a Step, the view of a position (playground/payload.py), flips (playground/flips.py) and a
translator; out: plain text, never markup. The browser's preview writes the same lines from the same
keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from playground.format import count_text, figure_text, setting_text
from playground.records import SamplingParams, Step
from playground.words import Translate

Label = Callable[[int], str]

# The setting that a stage's name is shown with; the others have none worth showing.
_SHOWN = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "epsilon_cutoff": "epsilon_cutoff",
    "eta_cutoff": "eta_cutoff",
    "top_n_sigma": "top_n_sigma",
    "xtc": "xtc_threshold",
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_SYMBOLS = {"temperature": "T", "top_k": "k", "top_p": "p", "min_p": "min\u2011p"}
_NBSP = "\u00a0"  # a condition isn't broken over two lines


def stage_text(name: str, t: Translate, params: SamplingParams | None = None) -> str:
    """Return a stage's name in words, with its setting where params are given: "top-k 50"."""
    text = t(f"sample.stage_{name}")
    if params is None or name not in _SHOWN:
        return text
    return f"{text} {setting_text(getattr(params, _SHOWN[name]))}"


def vocabulary_size(view: Mapping[str, Any]) -> int:
    """Return the number of all tokens of a view."""
    return len(view["rows"]) + view["rest"]["n"]


def mass_cut(view: Mapping[str, Any]) -> float:
    """Return the mass that all filters removed, as a share of what there was at the start."""
    return sum(removed(view["ledger"]))


def removed(ledger: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return what each stage removed of all the mass; the rows have shares of what was left."""
    left, out = 1.0, []
    for row in ledger:
        out.append(left * row["removed"])
        left *= 1 - row["removed"]
    return out


def sentence(
    step: Step | None, view: Mapping[str, Any], t: Translate, label: Label | None = None
) -> str:
    """Return what was taken and how, and, where it isn't the past, what comes next.

    ``step`` is the last one taken (None: none yet), ``view`` the position that is looked at: the
    step's own one when its ``taken`` is the step's token, else the one after it.
    """
    past = step is not None and view["taken"] is not None
    if step is None:
        parts = [t("sample.sentence_start")]
    else:
        name = label(step.token_id) if label else f"#{step.token_id}"
        parts = [_taken(step, name, t)]
        if past:
            parts.append(_kept("sample.sentence_kept", view, t))
        elif step.source == "sampled":
            size = count_text(vocabulary_size(view))
            parts.append(t("sample.sentence_kept_only", kept=count_text(step.kept), size=size))
    if not past:
        parts.append(_next(view, t))
    return " ".join(part for part in parts if part)


def flip_sentence(
    flips: Mapping[str, Sequence[tuple[float, int, bool]]], t: Translate, label: Label
) -> str:
    """Return at which settings the same dice draw another token, one clause per token."""
    found: dict[int, list[str]] = {}
    for field, symbol in _SYMBOLS.items():
        whole = field == "top_k"
        pairs = flips.get(field, ())
        texts = _apart([value for value, *_ in pairs], whole)
        for (value, token_id, above), text in zip(pairs, texts, strict=True):
            sign = ("≥" if above else "≤") if whole else ">" if above else "<" if value else "="
            found.setdefault(token_id, []).append(_NBSP.join((symbol, sign, text)))
    clauses = [
        t("sample.flip", label=label(token_id), settings=", ".join(settings))
        for token_id, settings in found.items()
    ]
    return t("sample.flips", list="; ".join(clauses)) if clauses else t("sample.flips_none")


def _apart(values: Sequence[float], whole: bool) -> list[str]:
    """Return the values as texts, with as many digits as tell them apart (3 at least)."""
    if whole:
        return [count_text(value) for value in values]
    for digits in range(3, 9):
        texts = [setting_text(float(value), digits) for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _taken(step: Step, name: str, t: Translate) -> str:
    fields = {
        "label": name,
        "final": figure_text(math.exp(step.logprob)),
        "raw": figure_text(math.exp(step.model_logprob)),
        "rank": count_text(step.rank),
    }
    source = step.source if step.source in ("greedy", "forced") else "sampled"
    if source == "forced" and step.logprob == -math.inf:
        source = "forced_cut"
    return t(f"sample.sentence_{source}", **fields)


def _kept(key: str, view: Mapping[str, Any], t: Translate, **more: str) -> str:
    return t(
        key,
        kept=count_text(view["kept"]),
        size=count_text(vocabulary_size(view)),
        mass=figure_text(mass_cut(view)),
        **more,
    )


def _next(view: Mapping[str, Any], t: Translate) -> str:
    drawn = view["drawn"]
    if drawn is None or view.get("u") is None:
        best = drawn or view["cdf"][0]
        raw = next((row["raw"] for row in view["rows"] if row["id"] == best["id"]), best["p"])
        return t("sample.sentence_next_greedy", label=best["label"], p=figure_text(raw))
    name = drawn["label"] or t("sample.unnamed")
    return _kept("sample.sentence_next", view, t, label=name, p=figure_text(drawn["p"]))
