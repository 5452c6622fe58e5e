"""Speculative decoding, one round at a time: a cheap draft proposes, the target disposes.

Ids, a target and a draft flow in; Rounds flow out. The emitted tokens have the target's law, as if
it had been sampled alone (Leviathan et al. 2022, arXiv 2211.17192; Chen et al. 2023, 2302.01318).

One round after ids of length n
1. Draft up to gamma tokens: each from the draft's shaped law, by the draft dice of its position.
   Never more than the run and the context leave room for, nothing after an EOS.
2. One forward of the target over ids and block gives its shaped law after each prefix of the block.
3. Test the drafted tokens in order: accept x when u < min(1, target(x) / draft(x)), with the
   accept dice of its position; stop at the first that fails.
4. Draw one more token with the next dice of its position: after a rejection from the residual,
   max(0, target - draft) normalised ("recovered"); after a whole block from the target ("bonus").

With temperature 0 every law is one-hot, so 3 accepts what matches the target's argmax, 4 takes that
argmax, and no dice are thrown.

Dice: a position has one dice per stream (draft, accept, next), whatever round it falls in. A draft
that was never tested had no say in what was emitted, so its dice may be thrown again.
Law: a shaped distribution over the target's vocabulary [V]; ids that the draft lacks have
probability 0 in its law, ids that only the draft has are never proposed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from playground.dice import uniform
from playground.engines.acceptance import residual
from playground.engines.drafting import (
    Block,
    Draft,
    Law,
    draft_block,
    draw_token,
    is_proposer,
)
from playground.engines.pairs import check_pair
from playground.engines.sampling import context_full, entropy_of, fingerprint, rank_of
from playground.language_model import ContextFull, LanguageModel, check_ids
from playground.records import SamplingParams, Step
from playground.records.checks import integer
from playground.records.speculative import (
    ACCEPTED,
    BONUS,
    NO_NEXT,
    RECOVERED,
    Round,
    SpeculativeParams,
    SpeculativeResult,
)


def step(
    target: LanguageModel,
    draft: Draft,
    ids: Sequence[int],
    params: SpeculativeParams,
    sampling_params: SamplingParams,
    *,
    prompt_length: int | None = None,
    gamma: int | None = None,
    max_new_tokens: int | None = None,
    stop_at_eos: bool = True,
    keep_probs: bool = True,
) -> Round:
    """Return the round after ``ids``. Pure: the same ids and settings give the same round.

    ``prompt_length`` defaults to len(ids), ``gamma`` to ``params.gamma`` (``params.next_gamma`` of
    the last round when adaptive). ``max_new_tokens`` is how many tokens may still be emitted
    (None: any number). ``keep_probs`` False leaves the distributions out of the record. That the
    two models share a tokenizer is checked by ``check_draft``, once, and not here. Raises
    ContextFull when no token fits after ids.
    """
    ids = tuple(ids)
    prompt_length = len(ids) if prompt_length is None else prompt_length
    gamma = integer("gamma", params.gamma if gamma is None else gamma, 1)
    room = _room(target, ids, max_new_tokens)
    eos_ids = target.eos_ids if stop_at_eos else ()

    count = _block_length(gamma, room, first=len(ids) == prompt_length)
    block = draft_block(
        draft, ids, count, target.vocab_size, eos_ids, sampling_params, prompt_length
    )
    start = time.perf_counter()
    rows = _verify(target, ids, block.ids)
    seconds = time.perf_counter() - start
    path = ids + tuple(block.ids)
    laws = [
        Law(r, sampling_params, path[: len(ids) + j], prompt_length) for j, r in enumerate(rows)
    ]

    drafted = list(zip(laws, block.probs, block.ids, strict=False))
    chances = tuple(min(1.0, float(law.probs[x] / probs[x])) for law, probs, x in drafted)
    us, n_accepted = _test(chances, sampling_params, len(ids))
    ended = n_accepted == room or any(x in eos_ids for x in block.ids[:n_accepted])
    next_id, next_u, source = _next(
        laws, block, n_accepted, len(us), ended, sampling_params, len(ids)
    )
    emitted = block.ids[:n_accepted] + ([] if next_id is None else [next_id])
    dice = (*block.us[:n_accepted], next_u)
    sources = (*[ACCEPTED] * n_accepted, source)
    return Round(
        position=len(ids),
        gamma=gamma,
        draft_ids=tuple(block.ids),
        draft_probs=np.array(block.probs).reshape(-1, target.vocab_size) if keep_probs else None,
        target_probs=np.stack([law.probs for law in laws]) if keep_probs else None,
        accept_probs=chances,
        overlaps=tuple(float(np.minimum(law.probs, probs).sum()) for law, probs, _ in drafted),
        draft_us=tuple(block.us),
        us=us,
        n_accepted=n_accepted,
        n_tested=len(us),
        next_id=next_id,
        next_u=next_u,
        source=source,
        steps=tuple(
            _as_step(token, laws[k], dice[k], sources[k], sampling_params)
            for k, token in enumerate(emitted)
        ),
        stop=_stop(target, path[: len(ids)], emitted, eos_ids, max_new_tokens),
        draft_seconds=block.seconds,
        target_seconds=seconds,
    )


def stream(
    target: LanguageModel,
    draft: Draft,
    prompt_ids: Sequence[int],
    params: SpeculativeParams | None = None,
    sampling_params: SamplingParams | None = None,
    max_new_tokens: int = 20,
    stop_at_eos: bool = True,
    keep_probs: bool = True,
) -> Iterator[Round]:
    """Yield one Round after another; ends at EOS, the limit or a full context (``Round.stop``)."""
    params = SpeculativeParams() if params is None else params
    sampling_params = SamplingParams() if sampling_params is None else sampling_params
    integer("max_new_tokens", max_new_tokens, 0)
    ids = check_ids(target, prompt_ids)
    check_draft(target, draft, params)
    gamma, left, stopped = params.gamma, max_new_tokens, ""
    while left > 0 and not stopped and not context_full(target, ids):
        one = step(
            target,
            draft,
            ids,
            params,
            sampling_params,
            prompt_length=len(prompt_ids),
            gamma=gamma,
            max_new_tokens=left,
            stop_at_eos=stop_at_eos,
            keep_probs=keep_probs,
        )
        yield one
        ids += one.ids
        left -= len(one.ids)
        gamma, stopped = params.next_gamma(one), one.stop


def speculative_decode(
    target: LanguageModel,
    draft: Draft,
    prompt_ids: Sequence[int],
    params: SpeculativeParams | None = None,
    sampling_params: SamplingParams | None = None,
    max_new_tokens: int = 20,
    stop_at_eos: bool = True,
    keep_probs: bool = True,
) -> SpeculativeResult:
    """Run ``stream`` to its end.

    ``keep_probs`` True keeps all distributions: with a vocabulary of 49,152 and gamma 4 a round
    takes 3.5 MB, so leave them out of long runs (``step`` makes any round again).
    Raises ValueError for models of different tokenizers, for a gamma beyond the context, and for a
    prompt that the target refuses.
    """
    params = SpeculativeParams() if params is None else params
    sampling_params = SamplingParams() if sampling_params is None else sampling_params
    prompt = check_ids(target, prompt_ids)
    rounds = tuple(
        stream(
            target, draft, prompt, params, sampling_params, max_new_tokens, stop_at_eos, keep_probs
        )
    )
    stop = rounds[-1].stop if rounds else "context full" if max_new_tokens else "length"
    return SpeculativeResult(
        prompt, rounds, params, sampling_params, stop, fingerprint(target), draft.name
    )


def check_draft(target: LanguageModel, draft: Draft, params: SpeculativeParams) -> None:
    """Raise ValueError where ``draft`` can't draft for ``target``, or not ``gamma`` tokens."""
    models = [target]
    if not is_proposer(draft):
        check_pair(target, draft)
        models.append(draft)
    for lm in models:
        if lm.context_length is not None and params.gamma >= lm.context_length:
            raise ValueError(
                f"gamma must be in [1, {lm.context_length - 1}] with the context of {lm.name}, "
                f"got {params.gamma}"
            )


def _room(target: LanguageModel, ids: tuple[int, ...], max_new_tokens: int | None) -> int | None:
    """Return how many tokens may still be emitted, None for any number."""
    if context_full(target, ids):
        raise ContextFull(
            f"the context is full: {len(ids)} tokens, and {target.name} takes "
            f"{target.context_length}"
        )
    rooms = [] if max_new_tokens is None else [integer("max_new_tokens", max_new_tokens, 1)]
    if target.context_length is not None:
        rooms.append(target.context_length - len(ids))
    return min(rooms, default=None)


def _block_length(gamma: int, room: int | None, first: bool) -> int:
    """Return how many tokens to draft.

    The last token that fits needs no draft, since the target's forward gives it anyway. But a run
    of a single token drafts it all the same, or the rule would never be seen.
    """
    if room is None:
        return gamma
    return min(gamma, 1 if first and room == 1 else room - 1)


def _verify(target: LanguageModel, ids: tuple[int, ...], block: list[int]) -> np.ndarray:
    """Return the target's logits [g+1, V] after ids and after each token of the block."""
    path = ids + tuple(block)
    if ids or not block:
        return target.logits(path, last=len(block) + 1)
    # The empty prefix is no position of any ids: a toy that starts from nothing is asked twice.
    return np.concatenate([target.logits(()), target.logits(path, last=len(block))])


def _test(
    chances: Sequence[float], sampling_params: SamplingParams, position: int
) -> tuple[tuple[float | None, ...], int]:
    """Return (dice of the tested tokens, number accepted)."""
    us: list[float | None] = []
    for j, chance in enumerate(chances):
        if sampling_params.temperature == 0:
            us.append(None)
            passed = chance == 1.0
        else:
            us.append(uniform(sampling_params.seed, position + j, "accept"))
            passed = us[-1] < chance  # never <=: at u = 0 a token of probability 0 would pass
        if not passed:
            return tuple(us), j
    return tuple(us), len(us)


def _next(
    laws: Sequence[Law],
    block: Block,
    n_accepted: int,
    n_tested: int,
    ended: bool,
    sampling_params: SamplingParams,
    position: int,
) -> tuple[int | None, float | None, str]:
    """Return (token, u, source) of the token after the tested ones."""
    law, where = laws[n_accepted], position + n_accepted
    if n_tested > n_accepted:
        probs = residual(law.probs, block.probs[n_accepted])
        return *draw_token(probs, None, sampling_params, where, "next"), RECOVERED
    if ended:
        return None, None, NO_NEXT
    return *draw_token(law.probs, law, sampling_params, where, "next"), BONUS


def _as_step(
    token: int, law: Law, u: float | None, source: str, sampling_params: SamplingParams
) -> Step:
    return Step(
        token_id=token,
        u=u,
        logprob=float(law.final[token]),
        model_logprob=float(law.model[token]),
        rank=rank_of(law.model, token),
        source=source,
        params=sampling_params,
        kept=int(np.count_nonzero(law.final > -np.inf)),
        entropy=entropy_of(law.model),
    )


def _stop(
    target: LanguageModel,
    ids: Sequence[int],
    emitted: list[int],
    eos_ids: tuple[int, ...],
    max_new_tokens: int | None,
) -> str:
    if emitted[-1] in eos_ids:
        return "eos"
    if len(emitted) == max_new_tokens:
        return "length"
    return "context full" if context_full(target, [*ids, *emitted]) else ""
