"""The tabs that tapes and links set up again (``ui.recipes``): one class for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from playground.ui import (
    beam_moves,
    compare_moves,
    contrastive_moves,
    reading_moves,
    speculative_moves,
)
from playground.ui.beam_moves import Search
from playground.ui.compare_decks import read_decks
from playground.ui.compare_moves import Comparison
from playground.ui.contrastive_moves import Contest
from playground.ui.reading_moves import Lens
from playground.ui.recipes import Damaged, Data, Recipe, View
from playground.ui.speculative_moves import Speculation


def _named(*parts: Any) -> dict[str, Any]:
    return {part.elem_id: part for part in parts}


class BeamTape(View):
    """The Beam tab's search."""

    name = "beam"
    empty = Search()

    def __init__(self, tab: Any) -> None:
        self.tab, self.state = tab, tab.search
        self.parts = {**tab.view.controls.parts, "form": tab.view.form}

    def count(self, state: Search) -> int:
        """Return how many steps are shown."""
        return state.at

    def shows(self, state: Search) -> Any:
        """Return the prompt and the beams of every step."""
        beams = [[h.ids for h in one.beams] for one in state.states[: state.at + 1]]
        return state.prompt_ids, state.params.replace(length_penalty=1.0), beams

    def begin(self, data: Data, recipe: Recipe) -> Search:
        """Return the search before its first step."""
        return self.tab.current(data)[0]

    def step(self, data: Data, state: Search, recipe: Recipe, index: int) -> Search:
        """Return the search one step further."""
        return beam_moves.forward(self.lm(data), state, data[self.tab.sample.visit].t)


class ContrastTape(View):
    """The Contrast tab's three texts; tokens taken by hand, or under other settings, are forced."""

    name = "contrast"
    empty = Contest()

    def __init__(self, tab: Any) -> None:
        self.tab, self.state = tab, tab.contest
        c = tab.view.controls
        self.parts = _named(*c.settings, *c.makers)

    def count(self, state: Contest) -> int:
        """Return how many tokens are shown."""
        return state.at

    def shows(self, state: Contest) -> Any:
        """Return the prompt and the contrastive text (the greedy ones may be longer)."""
        return state.setup.prompt_ids, state.setup.amateur, state.setup.sees, state.new_ids

    def more(self, state: Contest) -> Recipe:
        """Return the tokens, and which of them were chosen by hand."""
        last = state.taken[state.at - 1]
        same = (last.params, last.step.params)
        forced = [
            one.step.token_id
            if one.step.source == "forced" or (one.params, one.step.params) != same
            else None
            for one in state.taken[: state.at]
        ]
        return {"forced": forced}

    def begin(self, data: Data, recipe: Recipe) -> Contest:
        """Return the texts at the prompt."""
        return self.tab.current(data)[0]

    def step(self, data: Data, state: Contest, recipe: Recipe, index: int) -> Contest:
        """Return the texts one token further."""
        t, lm, forced = data[self.tab.sample.visit].t, self.lm(data), recipe.get("forced")
        token = forced[index] if isinstance(forced, list) and index < len(forced) else None
        if token is not None and (type(token) is not int or not 0 <= token < lm.vocab_size):
            raise Damaged
        amateur, settings = self.tab.amateur(lm, state, t), self.tab.settings(data, t)
        return contrastive_moves.forward(lm, amateur, state, *settings, t, token)


class SpeculateTape(View):
    """The Speculate tab's rounds; what they cost isn't on a tape, and is measured for a link."""

    name = "speculate"
    empty = Speculation()

    def __init__(self, tab: Any) -> None:
        self.tab, self.state = tab, tab.run_state
        c = tab.controls
        self.parts = _named(c.kind, c.layer, c.other.part, c.gamma, c.adaptive)

    @property
    def inputs(self) -> set[Any]:
        """What a handler that records must be sent."""
        return {*super().inputs, self.tab.rule, self.tab.size}

    def count(self, state: Speculation) -> int:
        """Return how many rounds are shown."""
        return state.at

    def shows(self, state: Speculation) -> Any:
        """Return the prompt, the draft and every round's tokens."""
        rounds = [(one.draft_ids, one.n_accepted, one.ids) for one in state.rounds]
        return state.setup.prompt_ids, state.setup.draft, state.setup.params, rounds

    def begin(self, data: Data, recipe: Recipe) -> Speculation:
        """Return the run before its first round."""
        return self.tab.current(data)[0]

    def step(self, data: Data, state: Speculation, recipe: Recipe, index: int) -> Speculation:
        """Return the run one round further."""
        lm, t = self.lm(data), data[self.tab.sample.visit].t
        draft = self.tab.draft(lm, state.setup)
        return speculative_moves.forward(lm, draft, state, t)


class CompareTape(View):
    """The Compare tab's texts."""

    name = "compare"
    empty = Comparison()

    def __init__(self, tab: Any) -> None:
        self.tab, self.state = tab, tab.state
        self.parts = _named(tab.length, tab.human)

    def count(self, state: Comparison) -> int:
        """Return how many steps the longest text has."""
        return max(map(compare_moves.reach, state.runs), default=0)

    def bare(self, state: Comparison) -> bool:
        """Return whether there are no decks yet."""
        return not state.decks

    def least(self, state: Comparison) -> int:
        """Return how many positions the texts have, all beams counted."""
        return sum(len(run.steps) for run in state.runs if run.beams is None)

    def shows(self, state: Comparison) -> Any:
        """Return the prompt and the texts."""
        return state.setup.prompt_ids, [run.new_ids for run in state.runs]

    def more(self, state: Comparison) -> Recipe:
        """Return the decks, and the tokens that were chosen."""
        decks = [{"kind": d.kind, "settings": dict(d.settings)} for d in state.decks]
        texts = [[] if c.run is None else list(c.run.new_ids) for c in state.columns]
        return {"decks": decks, "texts": texts}

    def begin(self, data: Data, recipe: Recipe) -> Comparison:
        """Return the texts before their first token."""
        decks = recipe.get("decks")
        plain = isinstance(decks, list) and all(
            isinstance(d, dict)
            and isinstance(d.get("kind"), str)
            and isinstance(d.get("settings"), dict)
            for d in decks
        )
        texts = recipe.get("texts")
        if not plain or not isinstance(texts, list) or len(texts) != len(decks):
            raise Damaged
        state = self.tab.current(data, read_decks(decks, data[self.tab.sample.visit].t), quiet=True)
        size = self.lm(data).vocab_size
        columns = []
        for column, told in zip(state.columns, texts, strict=True):
            if not isinstance(told, list) or any(
                type(i) is not int or not 0 <= i < size for i in told
            ):
                raise Damaged
            run = column.run and replace(column.run, told=tuple(told))
            columns.append(replace(column, run=run))
        return replace(state, columns=tuple(columns))

    def step(self, data: Data, state: Comparison, recipe: Recipe, index: int) -> Comparison:
        """Return the texts one step further."""
        found = compare_moves.tick(self.lm(data), state, self.tab.tracks)
        for column in found.columns:
            if column.refused and column.run is not None:
                raise ValueError(column.refused)  # the tape is full, or hasn't got it
        return found


class ReadTape(View):
    """The Read tab's text, as far as it was read."""

    name = "read"
    empty = Lens()

    def __init__(self, tab: Any) -> None:
        self.tab, self.state = tab, tab.lens
        self.parts = _named(tab.typed, tab.edges)

    def count(self, state: Lens) -> int:
        """Return how many tokens are read."""
        return 0 if state.reading is None else state.reading.done

    def shows(self, state: Lens) -> Any:
        """Return the text's ids, and how far it was read."""
        return state.reading.ids, state.reading.done

    def begin(self, data: Data, recipe: Recipe) -> Lens:
        """Return the lens as far as the tape has the text."""
        visit = data[self.tab.sample.visit]
        lens, lm, t = Lens(), self.lm(data), visit.t
        while self.count(lens) < recipe["steps"]:
            lens = reading_moves.go_on(lm, lens, self.tab.prompt(data, t), False, t)
            if lens.reading is not None and lens.reading.finished:
                break
        return lens

    def step(self, data: Data, state: Lens, recipe: Recipe, index: int) -> Lens:
        """Return the lens: it is read at the beginning."""
        return state

    def _steps(self, data: Data, recipe: Recipe, draw: bool = False) -> Lens:
        return self.begin(data, recipe)
