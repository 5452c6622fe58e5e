"""A session: what a user chose, and the moves on it. Pure, frozen, a few kilobytes.

A session is the prompt as it was typed, a Trace, what Back took off (for Redo), the branches that
were left, and the position looked at. Moves return a new session; none needs a model or a screen.
A permalink holds the same choices, and ``restore`` computes the rest anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from playground.dice import uniform
from playground.engines.sampling import decide, fingerprint
from playground.language_model import ContextFull, LanguageModel
from playground.processors import shape
from playground.records import SamplingParams, Step, Trace
from playground.records.checks import integer
from playground.records.sampling import known_fields

MAX_TEXT = 100_000
MAX_BRANCHES = 12
CHUNK = 128
ROLES = ("user", "assistant", "system")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as typed.

    ``chat`` wraps ``text`` as the user's last turn in the model's template, after ``system`` and
    the earlier ``turns`` ((role, content) pairs). ``bos`` None does as the tokenizer does.
    ``special`` says whether typed special tokens count as such.
    """

    text: str = ""
    chat: bool = False
    system: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    bos: bool | None = None
    special: bool = True

    def __post_init__(self) -> None:
        for name in ("text", "system"):
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > MAX_TEXT:
                raise ValueError(f"{name} must be text of at most {MAX_TEXT} characters")
        for name in ("chat", "special"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.bos not in (None, True, False):
            raise ValueError(f"bos must be true, false or none, got {self.bos!r}")
        turns = tuple(self.turns)
        if any(not isinstance(turn, list | tuple) or len(turn) != 2 for turn in turns):
            raise ValueError("turns must be pairs of a role and a text")
        turns = tuple((str(role), str(content)) for role, content in turns)
        for role, content in turns:
            if role not in ROLES or len(content) > MAX_TEXT:
                raise ValueError(f"turns must be of {', '.join(ROLES)}, got {role!r}")
        object.__setattr__(self, "turns", turns)

    def encode(self, lm: LanguageModel) -> list[int]:
        """Return the prompt's ids for a model."""
        options: dict[str, Any] = {"add_bos": self.bos, "special": self.special}
        if not self.chat:
            return lm.encode(self.text, **options)
        messages = [{"role": "system", "content": self.system}] if self.system else []
        messages += [{"role": role, "content": content} for role, content in self.turns]
        messages.append({"role": "user", "content": self.text})
        return lm.encode(chat=messages, **options)


@dataclass(frozen=True, slots=True)
class Session:
    """Everything a user chose on one page.

    ``redo`` holds steps that Back took off, the next one first. ``branches`` are earlier paths
    (tuples of steps) that a rewind or another choice left. ``look`` is the number of steps before
    the position looked at; None looks at the newest.
    """

    prompt: Prompt = Prompt()
    trace: Trace = Trace(())
    redo: tuple[Step, ...] = ()
    branches: tuple[tuple[Step, ...], ...] = ()
    look: int | None = None
    before: Session | None = field(default=None, repr=False)  # what Reset threw away

    @property
    def at(self) -> int:
        """Number of steps before the position looked at."""
        return len(self.trace.steps) if self.look is None else self.look

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids before the position looked at."""
        return self.trace.ids[: len(self.trace.prompt_ids) + self.at]

    @property
    def taken(self) -> Step | None:
        """The step taken at the position looked at, None at the newest."""
        return self.trace.steps[self.at] if self.at < len(self.trace.steps) else None

    def start(self, prompt: Prompt, lm: LanguageModel) -> Session:
        """Return a new session for a prompt; Undo brings this one back."""
        ids = prompt.encode(lm)
        limit = lm.context_length
        if limit is not None and len(ids) > limit:
            raise ContextFull(
                f"the prompt is too long: {len(ids)} tokens, and {lm.name} takes {limit}"
            )
        trace = Trace(tuple(ids), model=fingerprint(lm))
        return Session(prompt, trace, before=replace(self, before=None))

    def advance(self, step: Step, stop: str = "") -> Session:
        """Return the session with one more step after the position looked at.

        Stepping from a past position leaves the rest behind as a branch, and so does a step that
        differs from what Redo would have brought.
        """
        session = self._cut(self.at)
        redo = session.redo
        if redo and redo[0].token_id == step.token_id:
            redo = redo[1:]
        elif redo:
            session, redo = session._leave(session.trace.steps + redo), ()
        trace = replace(session.trace, steps=session.trace.steps + (step,), stop=stop)
        return replace(session, trace=trace, redo=redo, look=None)

    def back(self) -> Session:
        """Return the session one step earlier; Redo brings it on again."""
        if not self.trace.steps:
            return self
        if self.look is not None:
            return replace(self, look=max(self.look - 1, 0))
        steps = self.trace.steps
        trace = replace(self.trace, steps=steps[:-1], stop="")
        return replace(self, trace=trace, redo=(steps[-1], *self.redo))

    def forward(self) -> Session:
        """Return the session with the last Back undone, or unchanged."""
        if self.look is not None:
            look = self.look + 1
            return replace(self, look=None if look >= len(self.trace.steps) else look)
        if not self.redo:
            return self
        trace = replace(self.trace, steps=(*self.trace.steps, self.redo[0]))
        return replace(self, trace=trace, redo=self.redo[1:])

    def look_at(self, count: int) -> Session:
        """Return the session looking at the position after ``count`` steps."""
        integer("look", count, 0, len(self.trace.steps))
        return replace(self, look=None if count == len(self.trace.steps) else count)

    def rewind(self) -> Session:
        """Return the session cut at the position looked at; what came after is kept as a branch."""
        return replace(self._cut(self.at), look=None)

    def switch(self, index: int) -> Session:
        """Return the session on an earlier branch; the present path becomes a branch."""
        integer("branch", index, 0, len(self.branches) - 1)
        steps = self.branches[index]
        others = tuple(b for i, b in enumerate(self.branches) if i != index)
        session = replace(self, branches=others)._leave(self.trace.steps + self.redo)
        trace = replace(session.trace, steps=steps, stop="")
        return replace(session, trace=trace, redo=(), look=None)

    def reset(self) -> Session:
        """Return the session at its prompt; ``undo`` brings everything back."""
        trace = replace(self.trace, steps=(), stop="")
        return Session(self.prompt, trace, before=replace(self, before=None))

    def undo(self) -> Session:
        """Return what the last reset or new prompt threw away, or the session unchanged."""
        return self if self.before is None else replace(self.before, before=None)

    def _cut(self, count: int) -> Session:
        if count >= len(self.trace.steps):
            return self
        left = self._leave(self.trace.steps + self.redo)
        trace = replace(self.trace, steps=self.trace.steps[:count], stop="")
        return replace(left, trace=trace, redo=())

    def _leave(self, steps: tuple[Step, ...]) -> Session:
        """Keep a path as a branch, unless another branch already goes through it."""
        path = tuple(s.token_id for s in steps)
        if not path:
            return self
        others = []
        for branch in self.branches:
            ids = tuple(s.token_id for s in branch)
            if ids[: len(path)] == path:
                return self
            if path[: len(ids)] != ids:
                others.append(branch)
        return replace(self, branches=(steps, *others)[:MAX_BRANCHES])


def to_state(session: Session, model: str) -> dict[str, Any]:
    """Return the choices of a session as a JSON-ready state for a permalink."""
    params: list[SamplingParams] = []
    steps = []
    for s in session.trace.steps:
        if s.params not in params:
            params.append(s.params)
        steps.append([s.token_id, params.index(s.params), s.source])
    return {
        "model": model,
        "weights": session.trace.model,
        "prompt": {k: v for k, v in asdict(session.prompt).items() if v != getattr(Prompt(), k)},
        "params": [p.to_dict() for p in params],
        "steps": steps,
        "stop": session.trace.stop,
        "look": session.look,
    }


def from_state(state: dict[str, Any], lm: LanguageModel) -> Session:
    """Rebuild a session from ``to_state``, its figures computed anew by ``lm``.

    Raises ValueError for anything that such a state can't hold.
    """
    try:
        prompt = Prompt(**known_fields(Prompt, state["prompt"]))
        params = [SamplingParams.from_dict(p) for p in state["params"]]
        choices = []
        for choice in state["steps"]:
            if not isinstance(choice, list | tuple) or len(choice) != 3:
                raise ValueError("link is damaged: a step must be token, params and source")
            token, which, source = choice
            integer("token", token, 0, lm.vocab_size - 1)
            integer("params", which, 0, len(params) - 1)
            choices.append((token, params[which], str(source)[:20]))
        session = Session().start(prompt, lm)
        steps = replay(lm, session.trace.prompt_ids, choices)
        look = state.get("look")
        trace = replace(session.trace, steps=steps, stop=str(state.get("stop", ""))[:20])
        session = Session(prompt, trace)
        return session if look is None else session.look_at(look)
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"link is damaged: {type(e).__name__}") from e


def replay(
    lm: LanguageModel,
    prompt_ids: Sequence[int],
    choices: Sequence[tuple[int, SamplingParams, str]],
) -> tuple[Step, ...]:
    """Return the steps of known choices (token, params, source), many positions to a forward."""
    ids = [*prompt_ids, *(token for token, _, _ in choices)]
    steps = []
    for i, (token, params, source) in enumerate(choices):
        position = len(prompt_ids) + i
        if i % CHUNK == 0:  # full logits are large: 128 positions of 49,152 tokens are 25 MB
            count = min(CHUNK, len(choices) - i)
            block = lm.logits(ids[: position + count - 1], last=count)
        stages = shape(block[i % CHUNK], params, ids[:position], len(prompt_ids))
        step = decide(stages, params, position, force=token)
        u = uniform(params.seed, position) if source == "sampled" else None
        steps.append(replace(step, source=source, u=u))
    return tuple(steps)
