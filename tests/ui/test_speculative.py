"""The Speculate view without a page: rounds, figures, lab, refusals, both languages."""

import json
import pickle

import numpy as np
import pytest

import playground as pg
from playground.dice import draw
from playground.engines.acceptance import damages, speedup
from playground.engines.losslessness import simulate
from playground.lm import TransformersLM
from playground.records.speculative import Round, SpeculativeParams
from playground.ui import speculative_lab as lab
from playground.ui import speculative_moves as moves
from playground.ui import speculative_screen as screen
from playground.ui.language import Labels
from playground.ui.library import Library
from playground.ui.second_models import (
    EXIT,
    LOOKUP,
    OTHER,
    OtherModel,
    Second,
    SecondModels,
    depth_of,
)
from playground.ui.speculative import _difference
from playground.ui.speculative_controls import (
    ABOUT,
    EXIT_AT,
    KIND_WORDS,
    KINDS,
    PRESETS,
    SpeculateControls,
    usable,
)
from playground.ui.speculative_figures import figures
from playground.ui.speculative_moves import NEXT, Costs, Lap, Setup, Speculation
from playground.words import LANGUAGES, entries, translator
from tests.tiny import tiny_gpt2, tiny_llama, tiny_tokenizer

T = translator("en")
HOT = pg.SamplingParams(temperature=0.8, top_k=40, seed=3)
DRAFTS = SecondModels(KINDS, EXIT_AT)


@pytest.fixture
def lm():
    model = tiny_llama(num_hidden_layers=5)
    return TransformersLM(model, tiny_tokenizer(), name="tiny", fingerprint="abc")


def setup(lm, kind=EXIT, layer=4, sampling=HOT, params=None, text="hello hello hel"):
    ids = tuple(lm.encode(text))
    second = Second(kind, layer if kind == EXIT else 0)
    return Setup(ids, "tiny", second, params or SpeculativeParams(4), sampling)


def run(lm, rounds=6, drafts=None, **fields):
    chosen = setup(lm, **fields)
    draft = (drafts or DRAFTS).get(lm, chosen.draft)
    found = Speculation(chosen)
    for _ in range(rounds):
        found = moves.forward(lm, draft, found, T)
    return draft, found


def draw_all(lm, draft, found, t=T, **more):
    return screen.draw_screen(lm, draft, found, t, n=500, **more)


# --- moves


@pytest.mark.parametrize("kind", [EXIT, LOOKUP])
@pytest.mark.parametrize("adaptive", [False, True])
def test_the_rounds_are_the_engines_own(lm, kind, adaptive):
    params = SpeculativeParams(3, adaptive, 16)
    draft, found = run(lm, kind=kind, params=params)
    want = list(pg.speculative_decode(lm, draft, found.setup.prompt_ids, params, HOT, 100).rounds)
    for ours, theirs in zip(found.rounds, want, strict=False):
        assert (ours.ids, ours.draft_ids, ours.us) == (theirs.ids, theirs.draft_ids, theirs.us)


def test_at_temperature_0_the_text_is_the_targets_own(lm):
    _, found = run(lm, sampling=pg.SamplingParams(temperature=0))
    prompt = found.setup.prompt_ids
    count = len(found.ids) - len(prompt)
    plain = pg.generate(lm, prompt, pg.SamplingParams(temperature=0), count, stop_at_eos=False)
    assert found.ids == plain.ids


def test_back_reset_and_known_rounds_ask_no_model(lm):
    draft, found = run(lm)
    asked = lm.forwards, draft.forwards
    again = moves.reset(moves.back(found))
    assert (again.at, again.picked, again.ids) == (0, None, found.setup.prompt_ids)
    for _ in range(6):
        again = moves.forward(lm, draft, again, T)
    assert again == found and (lm.forwards, draft.forwards) == asked
    assert moves.back(Speculation(found.setup)).at == 0


def test_drawing_asks_no_model_either(lm):
    draft, found = run(lm)
    asked = lm.forwards, draft.forwards
    for index, one in enumerate(found.rounds):
        for place in range(NEXT, len(one.draft_ids)):
            draw_all(lm, draft, moves.pick(found, index, place))
    assert (lm.forwards, draft.forwards) == asked


def test_a_token_looked_at_shows_what_was_recorded(lm):
    draft, found = run(lm, rounds=8)
    kinds = set()
    for index, one in enumerate(found.rounds):
        for place, token in enumerate(one.draft_ids):
            seen = moves.position(lm, draft, moves.pick(found, index, place))
            kinds.add(seen.fate)
            ratio = min(1, seen.target[token] / seen.draft[token])
            assert ratio == pytest.approx(one.accept_probs[place], abs=1e-9) == seen.chance
            assert seen.overlap == pytest.approx(one.overlaps[place], abs=1e-9)
            assert (seen.token_id, seen.fate) == (token, one.fates[place])
            raw = np.exp(draft.logits((*found.ids[: one.position], *one.draft_ids[:place]))[-1])
            assert seen.raw_draft == pytest.approx(raw / raw.sum(), rel=1e-5)
            assert seen.u == (one.us[place] if place < one.n_tested else None)
            if moves.recovered(seen):
                with np.errstate(divide="ignore"):
                    law = np.log(moves.residual_of(seen))
                assert draw(law, one.next_u) == one.next_id
        seen = moves.position(lm, draft, moves.pick(found, index, NEXT))
        assert (seen.token_id, seen.fate) == (one.next_id, one.source)
        if one.source == "bonus":
            assert seen.draft is None
            with np.errstate(divide="ignore"):
                assert draw(np.log(seen.target), one.next_u) == one.next_id
    assert kinds == {"accepted", "rejected", "untested"}


def test_a_step_looks_at_what_it_decided_last(lm):
    draft, found = run(lm, rounds=0)
    for _ in range(8):
        found = moves.forward(lm, draft, found, T)
        one = found.rounds[-1]
        assert found.picked == (found.at - 1, one.n_tested - 1)
        if one.n_tested > one.n_accepted:
            assert one.fates[found.picked[1]] == "rejected"


def test_the_strips_tokens_lead_to_their_rounds(lm):
    draft, found = run(lm)
    value = screen.strip(lm, found)["tokens"]
    start = len(found.setup.prompt_ids)
    assert moves.pick_token(found, 0).picked == found.picked
    for index in range(start, len(value)):
        seen = moves.position(lm, draft, moves.pick_token(found, index))
        assert (seen.token_id, seen.fate) == (value[index]["id"], value[index]["source"])


def test_a_draft_of_all_layers_is_never_rejected(lm):
    draft, found = run(lm, layer=5)
    assert {one.source for one in found.rounds} == {"bonus"}
    told = draw_all(lm, draft, found)["residual"].layout.meta["title"]
    assert told.startswith("Draft and target are equal") or told.startswith("Not needed")


def test_the_state_holds_ids_and_small_numbers_only(lm):
    _, found = run(lm, rounds=10)
    assert all(one.draft_probs is None and one.target_probs is None for one in found.rounds)
    assert len(pickle.dumps(found)) < 30_000


def test_a_run_ends_with_the_text_and_can_begin_again(lm):
    draft, found = run(lm, rounds=0)
    for count in range(5):
        assert not moves.ended(lm, found)
        found = moves.tick(lm, draft, found, T, count)
    assert found.at == 5
    lm.eos_ids = tuple(range(96))
    short = moves.tick(lm, draft, Speculation(found.setup), T, 0)
    assert short.stop == "eos" and moves.ended(lm, short)
    with pytest.raises(ValueError, match="The text ended"):
        moves.tick(lm, draft, short, T, 1)
    assert moves.tick(lm, draft, short, T, 0) == short  # from the prompt again
    assert "The text ends here." in draw_all(lm, draft, short)["sentence"][-1]


def test_a_restart_keeps_only_what_the_same_models_cost(lm):
    old = Speculation(setup(lm), step_seconds=0.1, costs=Costs(0.1, 0.05, 0.2, 4.0))
    other = moves.restart(old, setup(lm, sampling=HOT.replace(seed=9)))
    assert (other.step_seconds, other.costs) == (0.1, old.costs)
    assert moves.restart(old, setup(lm, layer=3)).costs is None
    moved = Setup((1,), "other", Second(EXIT, 4), SpeculativeParams(4), HOT)
    assert moves.restart(old, moved) == Speculation(moved)


def test_what_has_changed_is_named(lm):
    old = setup(lm)
    changes = {
        "speculate.restarted_prompt": setup(lm, text="other"),
        "speculate.restarted_draft": setup(lm, params=SpeculativeParams(5)),
        "speculate.restarted_sampling": setup(lm, sampling=HOT.replace(top_k=3)),
    }
    for key, new in changes.items():
        assert _difference(old, new, True) == key
    assert _difference(old, setup(lm, layer=2), True) == "speculate.restarted_draft"
    assert _difference(old, old, True) == ""
    assert _difference(old, changes["speculate.restarted_draft"], False) == ""


# --- refusals


def test_bad_input_is_answered_in_words(lm):
    draft, found = run(lm, rounds=0)
    with pytest.raises(ValueError, match="The prompt is empty"):
        moves.forward(lm, draft, Speculation(setup(lm, text="")), T)
    with pytest.raises(ValueError, match="γ = 200 doesn't fit: the context takes 128 tokens"):
        moves.forward(lm, draft, Speculation(setup(lm, params=SpeculativeParams(200))), T)
    with pytest.raises(ValueError, match="The context is full: 128 of 128 tokens"):
        moves.forward(lm, draft, Speculation(setup(lm, text="a" * 128)), T)
    nearly, count = Speculation(setup(lm, text="a" * 126)), 0
    while not nearly.stop:
        nearly, count = moves.forward(lm, draft, nearly, T), count + 1
    assert len(nearly.ids) <= 128 and count <= 2


def load(name, progress):
    """A model with 64 tokens of context; "strange" has another tokenizer."""
    lm = TransformersLM(tiny_gpt2(n_positions=64), tiny_tokenizer(), name=name, fingerprint="g")
    if name == "strange":
        lm.__dict__["token_strings"] = ("<s>", "</s>", "Z", *lm.token_strings[3:])
    return lm


def test_another_model_drafts_and_the_text_stays_the_targets(lm):
    drafts = SecondModels(KINDS, EXIT_AT, Library(load), allow_any=True)
    second = Second(OTHER, name="small")
    draft = drafts.get(lm, second, T)
    for text, cold in (("hello", 0), ("a" * 62, 0), ("a" * 80, 0), ("hello", 0.8)):
        sampling = HOT.replace(temperature=cold)
        ids = tuple(lm.encode(text))
        found = Speculation(Setup(ids, "tiny", second, SpeculativeParams(3), sampling))
        for _ in range(4):
            found = moves.forward(lm, draft, found, T)
        count = len(found.ids) - len(ids)
        assert count >= 4 and any(one.draft_ids for one in found.rounds) == (len(ids) < 70)
        if not cold:
            assert found.ids == pg.generate(lm, ids, sampling, count, stop_at_eos=False).ids
    with pytest.raises(ValueError, match="strange can't be used with tiny: their tokenizers"):
        drafts.get(lm, Second(OTHER, name="strange"), T)


class Fixed(SpeculateControls):
    """The controls without components: what a reader typed, by name."""

    def __init__(self, drafts=DRAFTS):
        self.drafts = drafts
        self.other = OtherModel(Labels(), drafts, "other")
        for name in ("preset", "kind", "layer", "gamma", "adaptive", "rounds", "about"):
            setattr(self, name, name)


def test_the_controls_refuse_in_the_readers_language(lm):
    c = Fixed()
    data = {"gamma": 4.0, "adaptive": True, "kind": EXIT, "layer": 3, "rounds": 8}
    assert c.params(data, T) == SpeculativeParams(4, True, 16)
    assert c.choice(data, lm, T) == Second(EXIT, 3) and c.run_length(data, T) == 8
    with pytest.raises(ValueError, match="With γ = 0 nothing is drafted"):
        c.params({**data, "gamma": 0}, T)
    for bad, told in ((17, "17"), (2.5, "2.5"), (-1, "-1"), (None, "–")):
        with pytest.raises(ValueError, match=f"Drafted per round γ .* 1 to 16, got {told}"):
            c.params({**data, "gamma": bad}, T)
    with pytest.raises(ValueError, match="每轮草稿数"):
        c.params({**data, "gamma": 99}, translator("zh"))
    with pytest.raises(ValueError, match="Rounds per run"):
        c.run_length({**data, "rounds": 0}, T)
    with pytest.raises(ValueError, match="Leaves after layer must be .* 1 to 5, got 0"):
        c.choice({**data, "layer": 0}, lm, T)
    # Another model's layer, and a kind that isn't offered, give way to what works.
    assert c.choice({**data, "layer": 24}, lm, T) == Second(EXIT, 4)
    assert c.choice({**data, "kind": None}, lm, T) == Second(EXIT, 4)
    assert c.choice({**data, "kind": "distilled"}, lm, T).kind in DRAFTS.offered(lm)


def test_only_drafts_that_work_are_offered_and_the_others_say_why(lm):
    assert depth_of(lm) == 5 and DRAFTS.default(lm, EXIT) == Second(EXIT, 4)
    assert DRAFTS.get(lm, Second(EXIT, 4)) is DRAFTS.get(lm, Second(EXIT, 4))
    assert set(DRAFTS.offered(lm)) == {EXIT, LOOKUP}
    toy = pg.TableLM({None: [0.5, 0.5]})
    assert DRAFTS.offered(toy) == (LOOKUP,) and depth_of(toy) == 0
    shown = Fixed().show(toy, Second(LOOKUP), T)
    assert "No early exit: this model's layers can't be left early." in shown["about"]
    assert set(KIND_WORDS) == {*ABOUT, OTHER} == set(KINDS)
    for preset in PRESETS:
        assert usable(preset, ("lookup",)) == LOOKUP
        assert usable(preset, KINDS) == ("distilled" if preset.kind == EXIT else preset.kind)


# --- figures


def lap(drafted, tested, accepted, chances, draft=0.0, target=0.0, fresh=True):
    one = Round(
        position=0,
        gamma=4,
        draft_ids=tuple(range(drafted)),
        draft_probs=None,
        target_probs=None,
        accept_probs=tuple(chances),
        overlaps=(),
        draft_us=(),
        us=(0.5,) * tested,
        n_accepted=accepted,
        n_tested=tested,
        next_id=1,
        next_u=0.5,
        source="bonus" if tested == accepted else "recovered",
        steps=(),
        draft_seconds=draft,
        target_seconds=target,
    )
    return Lap(one, drafted, fresh)


def test_every_figure_by_hand():
    laps = [
        lap(4, 1, 0, [0.25, 1, 1, 1], draft=9.0, target=9.0, fresh=False),  # read the prompt
        lap(4, 4, 4, [0.5, 0.5, 1, 1], draft=0.2, target=0.3),
        lap(4, 3, 2, [1, 1, 0, 1], draft=0.2, target=0.3),
    ]
    found = figures(laps, step_seconds=0.2)
    assert (found.drafted, found.tested, found.accepted, found.tokens) == (12, 8, 6, 9)
    assert found.per_drafted == 6 / 12 and found.per_tested == 6 / 8 and found.per_round == 3
    assert found.formula == pytest.approx((1 - 0.75**5) / (1 - 0.75))
    # 1 + a1 + a1 a2 + ...: 1 + 4 x 0.25, 1 + 0.5 + 3 x 0.25, 1 + 1 + 1
    assert found.exact == pytest.approx((2 + 2.25 + 3) / 3)
    assert found.cost == pytest.approx(0.05 / 0.2) and found.verify == pytest.approx(1.5)
    assert found.predicted == pytest.approx(speedup(0.75, 4, 0.25, 1.5))
    # Only the rounds that ran: 5 + 3 tokens x 0.2 s against 1 s.
    assert found.measured == pytest.approx(8 * 0.2 / 1.0)
    assert found.speeds[0] == 1 and found.speeds[4] == pytest.approx(found.predicted)
    assert found.best == int(np.argmax(found.speeds))
    assert found.ideal[found.best_ideal] == max(found.ideal)
    rows = {r["label"]: r for r in screen.rows(found, Speculation(), T)}
    assert rows["accepted per tested token"]["value"] == "0.750"
    assert "6 of 8 tested tokens" in rows["accepted per tested token"]["title"]
    assert rows["accepted per drafted token"]["value"] == "0.500"
    assert rows["predicted speed against plain"]["tone"] == "accepted"
    assert [screen.cost_text(x) for x in (0.25, 1.234, 3.78e-5)] == ["0.250", "1.23", "3.8e-5"]


def test_nothing_is_claimed_that_was_not_measured():
    none = figures([], None)
    assert none.per_tested is None and none.rounds == 0
    cached = figures([lap(4, 1, 0, [0.2] * 4, fresh=False)], 0.2)
    assert cached.measured is None and cached.cost is None and cached.speeds == ()
    known = figures([lap(4, 1, 0, [0.2] * 4, fresh=False)], 0.2, Costs(0.2, 0.1, 0.2, 4))
    assert known.measured is None and known.cost == 0.5
    silent = figures([lap(0, 0, 0, [], target=0.2)], 0.2)
    assert silent.per_tested is None and silent.per_round == 1 and silent.exact == 1
    for found in (none, cached, silent):
        assert all(row["value"] for row in screen.rows(found, Speculation(), T))


def test_costs_come_from_the_run_and_a_repeated_run_has_none(lm):
    draft, found = run(lm)
    shown = figures(found.laps, found.step_seconds, found.costs)
    assert not found.laps[0].fresh and any(one.fresh for one in found.laps)
    assert shown.cost > 0 and shown.verify > 0 and shown.measured > 0
    again = Speculation(found.setup)
    for _ in range(3):
        again = moves.forward(lm, draft, again, T, clock=False)
    assert not any(one.fresh for one in again.laps)


# --- the lab


def test_the_lab_over_fewer_tokens_tells_the_same(lm):
    draft, found = run(lm, rounds=8, sampling=HOT.replace(top_k=6))
    seen = moves.position(lm, draft, found)
    laws = lab.laws_of(seen)
    assert len(laws.target) < lm.vocab_size / 2
    whole = damages(seen.target, seen.draft, seen.raw_draft)
    few = damages(laws.target, laws.draft, laws.raw_draft)
    assert few == pytest.approx(whole, abs=1e-12)
    assert max(few.values()) > 0.01  # the numbers say something
    for rule in lab.RULE_WORDS:
        ratio = seen.raw_draft if rule == "unfiltered_draft" else seen.draft
        tokens = simulate(seen.target, ratio, rule, seen.draft, 300, 3)
        counts = lab.report(laws, rule, 300, 3).counts
        assert counts.sum() == 300
        full = np.bincount(tokens, minlength=lm.vocab_size)
        assert counts[: len(laws.ids)].tolist() == full[laws.ids].tolist()


def test_the_lab_tells_lossless_from_biased(lm):
    draft, found = run(lm, rounds=8)
    seen = moves.position(lm, draft, found)
    exact = lab.values(seen, "exact", 1000, 3, lm.label, T)
    assert "nothing is lost" in exact["lab_words"][0]
    rows = {row["id"]: row for row in exact["lab_rules"]["rows"]}
    assert rows["exact"]["tone"] == "accent" and rows["exact"]["cells"][0] == "●"
    assert float(rows["exact"]["cells"][2]) < 1e-12
    biased = lab.values(seen, "greedy_draft", 1000, 3, lm.label, T)
    assert "emits another law" in biased["lab_words"][0]
    assert biased["lab_law"].layout.meta["title"].startswith("Emitted law ≠")
    none = lab.values(None, "exact", 1000, 3, lm.label, T)
    assert [row["cells"][2] for row in none["lab_rules"]["rows"]] == ["–"] * len(rows)


def test_an_unfiltered_draft_does_harm_only_where_there_is_a_filter(lm):
    open_params = pg.SamplingParams(seed=3)
    draft, found = run(lm, sampling=open_params)
    seen = moves.position(lm, draft, found)
    words = lab.values(seen, "unfiltered_draft", 100, 3, lm.label, T)["lab_words"][0]
    assert "No filter cuts the draft here" in words


# --- the screen


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", [EXIT, LOOKUP])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_token_of_every_round_can_be_shown(lm, language, kind, temperature):
    t = translator(language)
    draft, found = run(lm, rounds=4, kind=kind, sampling=HOT.replace(temperature=temperature))
    for at in (0, 4):
        shown = moves.reset(found) if at == 0 else found
        for index in range(at):
            for place in range(NEXT, 4):
                values = draw_all(lm, draft, moves.pick(shown, index, place), t)
                check(values)
        check(draw_all(lm, draft, shown, t))
    check(screen.empty_screen(t, "why"))


def check(values):
    assert set(values) == set(screen.PARTS)
    for value in values.values():
        text = value.to_json() if hasattr(value, "to_json") else json.dumps(value, allow_nan=False)
        assert "NaN" not in text and "Infinity" not in text and len(text) < 25_000


def test_the_timeline_has_every_token_with_its_fate(lm):
    _, found = run(lm)
    value = screen.timeline(lambda i: f"<b>{i}</b>", found, figures(found.laps), T)
    for line, one in zip(value["rounds"], found.rounds, strict=True):
        assert [chip["fate"] for chip in line["drafted"]] == list(one.fates)
        assert [chip["label"] for chip in line["drafted"]] == [f"<b>{i}</b>" for i in one.draft_ids]
        assert [chip["place"] for chip in line["drafted"]] == list(range(len(one.draft_ids)))
        assert (line["next"]["fate"], line["next"]["place"]) == (one.source, NEXT)
    drafted = sum(len(one.draft_ids) for one in found.rounds)
    assert value["title"].endswith(f"{drafted} drafted") and value["picked"] == found.picked


def test_prompt_lookup_says_when_there_is_nothing_to_copy(lm):
    draft, found = run(lm, rounds=1, kind=LOOKUP, text="abc")
    value = draw_all(lm, draft, found)
    line = value["rounds"]["rounds"][0]
    assert line["note"] == "nothing to copy" and line["drafted"] == []
    assert "the draft had nothing to offer" in value["sentence"][2]
    assert "click a drafted token" in value["lab_words"]


def test_the_lab_is_left_out_while_a_run_goes_on(lm):
    draft, found = run(lm, rounds=1)
    values = draw_all(lm, draft, found, with_lab=False)
    assert set(screen.PARTS) - set(values) == set(lab.PARTS)


def test_every_rule_and_figure_has_words():
    assert set(lab.RULE_WORDS) == set(damages(np.array([1.0]), np.array([1.0])))
    for keys in lab.RULE_WORDS.values():
        assert set(keys) <= set(entries())
