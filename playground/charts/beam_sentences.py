"""A beam search in words: titles, why a candidate was kept or thrown away, verdicts.

In: records, a translator, and ``text`` (ids -> readable text) or labels; out: plain text, never
markup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from playground.charts.theme import shorten
from playground.format import amount_text, count_text, figure_text, log_text
from playground.records.beam import (
    FINISHED,
    ROOT,
    BeamParams,
    BeamResult,
    BeamStep,
    Candidate,
    Hypothesis,
    ModeSearch,
)
from playground.words import Translate

Text = Callable[[Sequence[int]], str]
Label = Callable[[int], str]

CELLS = 72  # of a quoted text

_WHYS = {
    "in the cut": "beam.why_kept",
    "below the cut": "beam.why_below",
    "tie at the cut": "beam.why_tie",
    "eos below the top": "beam.why_eos_low",
    "worse than finished": "beam.why_worse",
    "not drawn": "beam.why_not_drawn",
    "eos": "beam.why_eos",
    "length": "beam.why_length",
    "context full": "beam.why_context",
}
_STOPS = {
    "all finished": "beam.stop_finished",
    "no better possible": "beam.stop_no_better",
    "length": "beam.stop_length",
    "context full": "beam.stop_context",
    "exhausted": "beam.stop_exhausted",
}

# What to say of a sum above, at and below the one that exact search found.
_BEAM = ("beam.mode_beam_above", "beam.mode_beam_same", "beam.mode_beam_below")
_GREEDY = ("beam.mode_greedy_above", "beam.mode_greedy_same", "beam.mode_greedy_below")
_SAME = 1e-5  # nats: sums of one path differ by less, however its batches were cut
_ENDS = {
    "eos": "beam.end_eos",
    "length": "beam.end_length",
    "context full": "beam.end_context",
    "exhausted": "beam.end_exhausted",
}


def why_text(c: Candidate, t: Translate) -> str:
    """Return why a candidate met its fate, with the numbers that decided."""
    limit = "" if c.limit is None else log_text(c.limit)
    score = "" if c.score is None else log_text(c.score)
    return t(_WHYS[c.why], sum=log_text(c.sum), limit=limit, score=score)


def stop_text(stop: str, t: Translate) -> str:
    """Return why a search ended."""
    return t(_STOPS[stop])


def stop_short(stop: str, t: Translate) -> str:
    """Return why one sequence ended, in a word or two."""
    return t(_ENDS[stop])


def headline(result: BeamResult, t: Translate) -> str:
    """Return the tree's title: what the newest step did, or why the search ended."""
    if not result.steps:
        if result.stop:
            return stop_text(result.stop, t)
        return t("beam.title_start", beams=count_text(result.params.num_beams))
    step = result.steps[-1]
    shown = count_text(step.index + 1)
    if result.stop:
        return t("beam.title_ended", step=shown, why=stop_text(result.stop, t))
    ended = sum(c.fate == FINISHED for c in step.candidates)
    key = "beam.title_step_ended" if ended else "beam.title_step"
    fields = {"kept": count_text(len(step.kept)), "raced": count_text(step.raced)}
    return t(key, step=shown, ended=count_text(ended), **fields)


def tree_alt(result: BeamResult, labels: Sequence[str], t: Translate) -> str:
    """Return the tree's text alternative: how it branched, and the best path."""
    kept = sum(len(step.kept) for step in result.steps)
    cut = sum(len(step.candidates) for step in result.steps) - kept
    steps = count_text(len(result.steps))
    return t("beam.tree_alt", steps=steps, kept=kept, cut=cut, path="".join(labels))


def facts(
    c: Candidate, step: BeamStep, params: BeamParams, label: Label, t: Translate
) -> list[str]:
    """Return all that a hover says of a candidate, line by line."""
    out = [
        t("beam.hover_token", label=label(c.token_id), id=c.token_id, step=step.index + 1),
        t("beam.hover_logprob", nats=log_text(c.logprob), p=_probability(c.logprob)),
        t("beam.hover_sum", sum=log_text(c.sum), p=_probability(c.sum)),
    ]
    if abs(c.model_logprob - c.logprob) > 1e-9:
        out.append(t("beam.hover_model", nats=log_text(c.model_logprob)))
    if c.parent != ROOT:
        out.append(t("beam.hover_beam", beam=c.beam + 1))
    if params.num_groups > 1:
        out.append(t("beam.hover_group", group=c.group + 1))
    if c.rank:
        out.append(t("beam.hover_rank", rank=count_text(c.rank), raced=count_text(step.raced)))
    if c.u is not None:
        out.append(t("beam.hover_dice", u=f"{c.u:.3f}"))
    if c.score is not None:
        out.append(t("beam.hover_score", score=log_text(c.score)))
    return [*out, why_text(c, t)]


def verdict(
    best: Hypothesis,
    greedy: Hypothesis,
    *,
    ended: bool,
    lost_at: int | None,
    text: Text,
    t: Translate,
) -> str:
    """Return greedy against the best beam, in log-prob and in words.

    ``ended`` says whether both are whole; ``lost_at`` is the step at which greedy's path was
    thrown away (None: it is alive, or is the best).
    """
    quoted = {
        "best": log_text(best.logprob),
        "greedy": log_text(greedy.logprob),
        "best_text": quote(text(best.ids)),
        "greedy_text": quote(text(greedy.ids)),
    }
    if best.ids == greedy.ids:
        return t("beam.verdict_same" if ended else "beam.verdict_same_so_far", **quoted)
    gap = best.logprob - greedy.logprob
    times = times_text(abs(gap))
    if gap >= 0:
        parts = [t("beam.verdict_beam", times=times, **quoted)]
    else:
        parts = [t("beam.verdict_greedy", times=times, **quoted)]
    if lost_at is not None:
        parts.append(t("beam.verdict_lost", step=count_text(lost_at)))
    elif not ended:
        parts.append(t("beam.verdict_alive"))
    if best.length != greedy.length:
        parts.append(t("beam.verdict_lengths", best=best.length, greedy=greedy.length))
    return " ".join(parts)


def regret_text(
    ghost: Candidate,
    step: int,
    road: Hypothesis,
    best: Hypothesis,
    *,
    ended: bool,
    label: Label,
    text: Text,
    t: Translate,
) -> str:
    """Return where a pruned candidate led when it went on greedily, and whether pruning it was a
    mistake; ``road`` and ``best`` are scored alike.
    """
    fields = {
        "label": label(ghost.token_id),
        "step": count_text(step),
        "why": why_text(ghost, t),
        "text": quote(text(road.ids)),
        "sum": log_text(road.logprob),
        "score": log_text(road.score),
        "best": log_text(best.score),
        "best_sum": log_text(best.logprob),
        "gap": log_text(abs(road.score - best.score)),
    }
    if not ended:
        key = "beam.regret_open"
    elif road.score > best.score:
        key = "beam.regret_mistake"
    else:
        key = "beam.regret_right"
    return t(key, **fields)


def mode_text(
    mode: ModeSearch,
    *,
    horizon: int,
    vocab_size: int,
    beam: float,
    greedy: float,
    num_beams: int,
    text: Text,
    t: Translate,
) -> str:
    """Return what exact search found, and how far beam search and greedy are from it.

    ``beam`` and ``greedy`` are their best sums under the same horizon.
    """
    found = mode.hypothesis.logprob
    fields = {
        "horizon": count_text(horizon),
        "size": count_text(vocab_size),
        "text": quote(text(mode.hypothesis.ids)),
        "sum": log_text(found),
        "forwards": count_text(mode.forwards),
        "bound": log_text(mode.upper_bound),
    }
    parts = [t("beam.mode_proven" if mode.proven else "beam.mode_open", **fields)]
    for keys, total in ((_BEAM, beam), (_GREEDY, greedy)):
        gap = found - total
        shown = {"sum": log_text(total), "gap": log_text(gap), "beams": count_text(num_beams)}
        # Above is possible only where the budget ended first.
        key = keys[0] if gap < -_SAME else keys[2] if gap > _SAME else keys[1]
        parts.append(t(key, **shown))
    return " ".join(parts)


def quote(text: str, cells: int = CELLS) -> str:
    """Return a generated text on one line, its beginning cut off where it is long."""
    shown = text.replace("\r", "").replace("\n", "⏎").replace("\t", "⇥")
    return shorten(shown.strip(" ")[::-1], cells)[::-1]


def times_text(gap: float) -> str:
    """Return exp(gap) as a factor: 6.5, 1,235, 1.2e7."""
    if gap > math.log(1e6):
        power = gap / math.log(10)
        return f"{10 ** (power % 1):.1f}e{math.floor(power)}"
    return amount_text(math.exp(gap))


def _probability(logprob: float) -> str:
    return figure_text(math.exp(logprob))
