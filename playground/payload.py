"""What the browser needs of one step: the payload it previews from, and the exact view.

Into ``payload`` flow a step's logits and context; out flows a JSON-ready dict of about 12 KB from
which assets/js/preview.js reshapes the distribution while a slider is dragged. Into ``view`` flow
the same step's exact stages; out flows what the page draws. preview.js returns the same structure
from a payload, so one drawing function serves both, and the tests compare the two.

How the vocabulary is made small:
1. The ``top`` highest logits travel as they are (float32, ties by the lowest id).
2. So do the logits of tokens that may be asked for by id wherever they lie: the context's (the
   penalties move them) and the drawn one.
3. The others, the tail, are sorted and cut into ``bins`` at geometric ranks: each bin holds about
   2 % of the tokens above its lower edge, so a cut that falls inside one can't miscount by more.
4. Of a bin travel its edges, its count and its mean, as the share of it below the mean. The browser
   spreads a bin evenly on either side of the mean, so count and mean stay exact, and an outlier
   takes no mass with it. The sum of squares makes the standard deviation exact too.
5. The model's own log-partition and entropy travel as numbers: raw probabilities are exact.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from playground import explain
from playground.dice import draw
from playground.explain import LedgerRow
from playground.processors import DEFAULT_ORDER
from playground.processors.dialects import is_greedy
from playground.ranking import descending
from playground.records import SamplingParams, Stage

SHOWN = 25  # bars drawn and points on the cumulative curve
LABELLED = 40  # tokens whose label the browser gets
_GAPS = 16  # so many of the widest gaps in the tail become edges

Label = Callable[[int], str]


def payload(
    logits: np.ndarray,
    ids: Sequence[int],
    prompt_length: int,
    u: float | None,
    taken: int | None = None,
    label: Label | None = None,
    *,
    top: int = 512,
    bins: int = 256,
    also: Sequence[int] = (),
    labelled: int = LABELLED,
) -> dict[str, Any]:
    """Return the payload of one step.

    ``logits`` float [V] (-inf = impossible) follow ``ids``, of which the first ``prompt_length``
    are the prompt. ``u`` is the dice, ``taken`` the token that was taken (None: not yet), ``also``
    further ids whose logits must be there (banned or inspected tokens). Raises ValueError for
    logits with NaN or +inf, or without any finite entry.

    Keys: V, finite, u, taken, log_z and entropy (of the model's distribution, nats), ids and logits
    of the top, extra (ids, logits), tail (top: its highest logit, depths: edges of the bins as
    distances below it, counts, below: share of each bin below its mean, squares: sum of squared
    depths), context (ids, prompt and new counts), labels (id as text -> label).
    """
    logits = np.asarray(logits, np.float32)
    if np.isnan(logits).any() or (logits == np.inf).any():
        raise ValueError("logits must be finite or -inf, got NaN or +inf")
    finite = int(np.count_nonzero(logits > -np.inf))
    if not finite:
        raise ValueError("no token survives: every logit is -inf")
    head = descending(logits, min(top, finite))
    size = len(logits)
    prompt, new = Counter(ids[:prompt_length]), Counter(ids[prompt_length:])
    context = sorted({i for i in (*prompt, *new) if 0 <= i < size})
    asked = dict.fromkeys((*context, *([] if taken is None else [taken]), *also))
    placed = set(head.tolist())
    extra = [i for i in asked if i not in placed and 0 <= i < size and logits[i] > -np.inf]

    alone = np.zeros(size, bool)
    alone[head] = True
    alone[extra] = True
    tail = np.sort(logits[~alone & (logits > -np.inf)])[::-1]
    log_z, entropy = _partition(logits)
    named = dict.fromkeys((*head[:labelled].tolist(), *([] if taken is None else [taken])))
    return {
        "V": size,
        "finite": finite,
        "u": u,
        "taken": taken,
        "log_z": log_z,
        "entropy": entropy,
        "ids": head.tolist(),
        "logits": _short(logits[head]),
        "extra": {"ids": extra, "logits": _short(logits[extra])},
        "tail": _bins(tail, len(head), bins),
        "context": {
            "ids": context,
            "prompt": [prompt[i] for i in context],
            "new": [new[i] for i in context],
        },
        "labels": {str(i): label(i) for i in named} if label else {},
    }


def view(
    logits: np.ndarray,
    stages: Sequence[Stage],
    params: SamplingParams,
    u: float | None,
    taken: int | None = None,
    label: Label | None = None,
    *,
    shown: int = SHOWN,
    rows: Sequence[LedgerRow] | None = None,
) -> dict[str, Any]:
    """Return what the page draws of one step, exact over the whole vocabulary.

    ``stages`` are ``playground.shape(logits, params, ...)``, ``rows`` their ``ledger`` where it is
    known already. Keys, the same as preview.js gives:

    - exact: True here; False where the preview can't follow (it then has no other key)
    - rows: the ``shown`` likeliest tokens of the model, each id, label, rank (1-based, the model's
      order), raw and final probability, removed_by (stage name, "" = kept)
    - rest: all other tokens: n, kept of them, their final mass, their raw mass
    - kept: number of tokens that survive
    - ledger: per stage name, kept, mass removed (of the mass before it), entropy after it (nats)
    - u: the dice; None when greedy, which needs none
    - drawn: the token that ``u`` draws, or the greedy one: id (None where the preview can't name
      it), label, before (cumulative probability above it), p; None without dice
    - taken: id, label, raw, final, removed_by of the token that was taken; None without one
    - cdf: the first ``shown`` kept tokens by final probability: id, label, p, upto (sum so far)
    - figures: entropy_model, entropy, perplexity (of the final distribution), top1, mass_cut (the
      model's own mass on tokens that didn't survive)
    """
    greedy = is_greedy(params)
    u = None if greedy else u
    logprobs = stages[-1].logprobs
    alive = logprobs > -np.inf
    raw, final = np.exp(stages[0].logprobs), np.zeros(len(logprobs))
    final[alive] = np.exp(logprobs[alive])  # a tenth of the time where most are masked
    ledger = [
        {"name": row.name, "kept": row.kept, "removed": row.share, "entropy": row.entropy}
        for row in (explain.ledger(stages) if rows is None else rows)
    ]
    kept, finite = ledger[-1]["kept"], ledger[0]["kept"]
    best = descending(np.asarray(logits, np.float32), min(shown, finite))

    def name(token_id: int) -> str:
        return label(token_id) if label else ""

    def token(token_id: int) -> dict[str, Any]:
        return {
            "id": token_id,
            "label": name(token_id),
            "raw": float(raw[token_id]),
            "final": float(final[token_id]),
            "removed_by": _removed_by(stages, token_id),
        }

    order = descending(logprobs, min(shown, kept))
    upto = np.cumsum(final[order])
    entropy = ledger[-1]["entropy"]
    return {
        "exact": True,
        "rows": [{**token(i), "rank": rank} for rank, i in enumerate(best.tolist(), 1)],
        "rest": {
            "n": len(logits) - len(best),
            "kept": kept - int(np.count_nonzero(alive[best])),
            "mass": max(0.0, float(1 - final[best].sum())),
            "raw": max(0.0, float(1 - raw[best].sum())),
        },
        "kept": kept,
        "ledger": ledger,
        "u": u,
        "drawn": None if u is None and not greedy else _drawn(logprobs, u or 0.0, name),
        "taken": None if taken is None else token(taken),
        "cdf": [
            {"id": i, "label": name(i), "p": float(final[i]), "upto": float(s)}
            for i, s in zip(order.tolist(), upto, strict=True)
        ],
        "figures": {
            "entropy_model": ledger[0]["entropy"],
            "entropy": entropy,
            "perplexity": float(np.exp(entropy)),
            "top1": float(final[order[0]]),
            "mass_cut": max(0.0, float(raw[~alive].sum())),
        },
    }


def preview_params(params: SamplingParams) -> dict[str, Any]:
    """Return the params as preview.js takes them: every field, with the order spelt out."""
    fields = dataclasses.asdict(params)
    del fields["seed"]  # beyond 2**53 JavaScript can't hold it, and the payload has u
    order = params.order or DEFAULT_ORDER[params.dialect]
    return {**fields, "banned_tokens": list(params.banned_tokens), "order": list(order)}


def _bins(tail: np.ndarray, first: int, bins: int) -> dict[str, Any]:
    """Cut the descending ``tail``, whose best rank is ``first``, at geometric ranks.

    Edges stand where the score changes, so that a long run of equal scores is a bin of its own, and
    on both sides of the widest gaps (an empty bin between), so that outliers are among themselves.
    """
    n = len(tail)
    if not n:
        return {"top": 0.0, "depths": [], "counts": [], "below": [], "squares": 0.0}
    depth = tail[0] - tail.astype(np.float64)
    ranks = first * (1 + n / first) ** (np.arange(bins + 1) / bins) - first
    ranks = np.unique(np.round(ranks).astype(np.intp))[:-1]
    starts = np.searchsorted(depth, depth[ranks], side="left")
    ends = np.searchsorted(depth, depth[ranks], side="right")
    long = ends - starts > np.diff(np.append(ranks, n))
    gaps = 1 + descending(np.diff(depth), _GAPS)
    starts = np.unique(np.concatenate([starts, ends[long], gaps, [n]]))
    counts = np.diff(starts)
    means = np.add.reduceat(depth, starts[:-1]) / counts
    tops = depth[starts[:-1]]
    bottoms = np.append(tops[1:], depth[-1])
    split = np.isin(starts[1:], gaps)
    bottoms[split] = depth[starts[1:][split] - 1]
    widths = bottoms - tops
    below = np.divide(means - tops, widths, out=np.zeros_like(means), where=widths > 0)
    below = np.clip(below, 0, 1)
    # The empty bins: after each bin that ends at a gap.
    after = np.flatnonzero(split) + 1
    return {
        "top": _short(tail[:1])[0],
        "depths": [
            float(f"{d:.6g}") for d in np.insert(np.append(tops, depth[-1]), after, bottoms[split])
        ],
        "counts": np.insert(counts, after, 0).tolist(),
        "below": [round(b, 4) for b in np.insert(below, after, 0).tolist()],
        "squares": float((depth**2).sum()),
    }


def _short(values: np.ndarray) -> list[float]:
    """Return float32 values as the shortest decimals that read back as the same float32."""
    return [float(str(v)) for v in values]


def _partition(logits: np.ndarray) -> tuple[float, float]:
    """Return the log-partition and the entropy of softmax(logits), in float64."""
    z = logits.astype(np.float64)
    high = z.max()
    weights = np.exp(z - high)
    log_z = float(high + np.log(weights.sum()))
    return log_z, explain.entropy(z - log_z)


def _removed_by(stages: Sequence[Stage], token_id: int) -> str:
    """Return the stage that removed the token, "" if it survives."""
    return next((s.name for s in stages if s.logprobs[token_id] == -np.inf), "")


def _drawn(logprobs: np.ndarray, u: float, name: Callable[[int], str]) -> dict[str, Any]:
    """Return the token that ``u`` draws, with the mass of all that come before it."""
    token_id = draw(logprobs, u)
    own = logprobs[token_id]
    ahead = logprobs > own
    ahead[:token_id] |= logprobs[:token_id] == own
    return {
        "id": token_id,
        "label": name(token_id),
        "before": float(np.exp(logprobs[ahead]).sum()),
        "p": float(np.exp(own)),
    }
