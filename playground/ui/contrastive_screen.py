"""The Contrast view as values: from texts and settings to what each part shows. No Gradio event.

``draw_screen`` gives every part's value by name. The models are asked for the one position that is
looked at, whose logits their caches have; so sliders cost arithmetic alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from playground.charts.contrastive import plane
from playground.charts.contrastive_bars import contrast_bars, ratio_text
from playground.engines.contrastive import amateur_ids
from playground.engines.sampling import context_full
from playground.format import count_text, figure_text, setting_text
from playground.language_model import LanguageModel
from playground.models.views import ShortContext
from playground.records import SamplingParams
from playground.records.contrastive import ContrastiveParams, ContrastiveStep
from playground.repeats import longest_repeat, rep
from playground.ui import contrastive_moves as moves
from playground.ui.components import message
from playground.ui.contrastive_moves import Contest
from playground.ui.marked_text import text_parts
from playground.words import Translate

TEXTS = ("expert", "contrast", "amateur")
CHARTS = ("plane", "bars")
PARTS = (
    "strip",
    *CHARTS,
    "sentence",
    "context",
    *(f"{name}_{part}" for name in TEXTS for part in ("figures", "text")),
)
CONTEXT_SHOWN = 48  # characters of what the amateur sees
ABSURD = 0.01  # a winner below this part of the expert's best is called absurd

Label = Callable[[int], str]


def draw_screen(
    expert: LanguageModel,
    amateur: LanguageModel,
    contest: Contest,
    params: ContrastiveParams,
    sampling: SamplingParams,
    t: Translate,
) -> dict[str, Any]:
    """Return the values of all parts under the settings that the controls show."""
    if not contest.prompt_ids:
        text = t("page.empty" if expert.bos_id is not None else "page.empty_no_bos")
        return empty_screen(t, text)
    found = {"strip": strip(expert, contest), **texts(expert, contest, t)}
    seen = amateur_ids(contest.ids, len(contest.prompt_ids), params)
    found["context"] = {"parts": context(amateur, seen, t)}
    if context_full(expert, contest.ids) or context_full(amateur, seen):
        text = moves.full_text(expert, amateur, contest.ids, seen, t)
        return {**found, "plane": message(text), "bars": message(" "), "sentence": text}
    both = moves.position(expert, amateur, contest, params, sampling)
    drawn = sampling.temperature > 0
    law = moves.law(both, contest, sampling) if drawn else None
    known = contest.next
    taken = known.step.token_id if known else None
    return {
        **found,
        "plane": plane(both, label=expert.label, t=t, taken=taken),
        "bars": contrast_bars(both, label=expert.label, t=t, law=law),
        "sentence": {"parts": sentence(expert, contest, both, t)},
    }


def empty_screen(t: Translate, text: str) -> dict[str, Any]:
    """Return the values where there is nothing to decode; ``text`` says why."""
    none = {f"{name}_figures": {"items": figures((), t)} for name in TEXTS}
    words = {f"{name}_text": {"parts": ["–"]} for name in TEXTS}
    charts = {"plane": message(text), "bars": message(" ")}
    return {"strip": message(text), **charts, "sentence": text, "context": "", **none, **words}


def strip(lm: LanguageModel, contest: Contest) -> dict[str, Any]:
    """Return the token strip's value: prompt and contrastive text, as far as known."""
    special = getattr(getattr(lm, "vocabulary", None), "is_special", lambda _: False)
    tokens: list[dict[str, Any]] = [
        {"id": i, "label": lm.label(i), "kind": "special" if special(i) else "prompt"}
        for i in contest.prompt_ids
    ]
    for step in (one.step for one in contest.taken):
        tokens.append(
            {
                "id": step.token_id,
                "label": lm.label(step.token_id),
                "kind": "new",
                "p": math.exp(step.model_logprob),
                "surprisal": -step.model_logprob if math.isfinite(step.model_logprob) else None,
                "rank": step.rank,
                "logprob": step.logprob if math.isfinite(step.logprob) else None,
                "source": step.source,
            }
        )
    open_end = contest.next is None and not moves.ended(lm, contest)
    return {"tokens": tokens, "cursor": len(contest.ids), "next": open_end}


def context(amateur: LanguageModel, seen: Sequence[int], t: Translate) -> list[Any]:
    """Return what the amateur is given, in words: how many tokens, and their end as text."""
    if isinstance(amateur, ShortContext):
        seen = seen[-amateur.context :]
    text = amateur.decode(list(seen[-CONTEXT_SHOWN:])).replace("\n", "⏎")
    if len(text) > CONTEXT_SHOWN:
        text = "…" + text[-CONTEXT_SHOWN:]
    return [t("contrast.sees", count=count_text(len(seen))) + " ", {"token": text}]


def texts(lm: LanguageModel, contest: Contest, t: Translate) -> dict[str, Any]:
    """Return the three texts with their figures, each as long as the contrastive one shown."""
    ids = {
        "expert": contest.expert_ids[: contest.at],
        "contrast": contest.new_ids,
        "amateur": contest.amateur_ids[: contest.at],
    }
    found = {}
    for name in TEXTS:
        found[f"{name}_figures"] = {"items": figures(ids[name], t)}
        found[f"{name}_text"] = {"parts": text_parts(lm, ids[name], t)}
    return found


def figures(ids: Sequence[int], t: Translate) -> list[dict[str, str]]:
    """Return a text's figures: its length and how much it repeats itself."""
    rows = [("contrast.tokens", count_text(len(ids)), "contrast.tokens_info")]
    for n in (2, 4):
        value = rep(ids, n)
        rows.append((f"rep-{n}", "–" if value is None else figure_text(value), ""))
    longest = count_text(longest_repeat(ids)[2])
    rows.append(("contrast.longest", longest, "contrast.longest_info"))
    return [
        {
            "value": value,
            "label": t(key) if info else key,
            "title": t(info) if info else t("contrast.rep_info", n=key[-1]),
        }
        for key, value, info in rows
    ]


def sentence(lm: LanguageModel, contest: Contest, both: ContrastiveStep, t: Translate) -> list[Any]:
    """Return what decided here, with its numbers."""
    winner, favourite = both.winner, both.favourite
    parts: list[str] = []
    known = contest.next
    if known is not None:
        parts.append(t("contrast.looking", label=lm.label(known.step.token_id)))
    elif moves.ended(lm, contest):
        parts.append(t("contrast.ended"))
    if both.params.amateur_weight == 0:
        parts.append(t("contrast.why_alone"))
    elif _identical(both):
        parts.append(t("contrast.why_equal"))
    elif math.exp(float(both.expert_logprobs[winner] - both.expert_logprobs[favourite])) < ABSURD:
        parts.append(t("contrast.why_absurd", **_facts(lm, both, winner)))
    elif winner == favourite:
        parts.append(t("contrast.why_same", **_facts(lm, both, winner)))
    else:
        other = {f"other_{k}": v for k, v in _facts(lm, both, favourite).items()}
        parts.append(t("contrast.why", **_facts(lm, both, winner), **other))
    step = both.step
    if known is None and step is not None and step.u is not None:
        label = lm.label(step.token_id)
        parts.append(t("contrast.dice", u=f"{step.u:.3f}", label=label))
    return [" ".join(parts)]


def _facts(lm: LanguageModel, both: ContrastiveStep, i: int) -> dict[str, str]:
    expert, amateur = float(both.expert_logprobs[i]), float(both.amateur_logprobs[i])
    return {
        "label": lm.label(i),
        "expert": figure_text(math.exp(expert)),
        "amateur": figure_text(math.exp(amateur)),
        "ratio": ratio_text(both, i),
    }


def _identical(both: ContrastiveStep) -> bool:
    good = both.plausible
    gaps = abs(both.expert_logprobs[good] - both.amateur_logprobs[good])
    return bool((gaps < 1e-6).all())


def hint(
    contest: Contest, params: ContrastiveParams, sampling: SamplingParams, t: Translate
) -> str:
    """Return the line beside the buttons: how to use them, or that settings were mixed."""
    if moves.stale(contest, params, sampling):
        return t("contrast.stale")
    if params.plausibility == 0:
        return t("contrast.no_plausibility")
    slope = setting_text(params.slope)
    return t("contrast.hint") if params.slope == 1 else t("contrast.hint_slope", slope=slope)
