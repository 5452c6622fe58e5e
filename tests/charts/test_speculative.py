"""Charts of a tested token, a run's pay and the lab, from known records and without a browser."""

from dataclasses import replace

import numpy as np
import pytest

from playground.charts import speculative as charts
from playground.charts import speculative_pay as pay
from playground.charts.theme import LIGHT
from playground.records.speculative import Round
from playground.ui.speculative_moves import NEXT, Position
from playground.ui.speculative_screen import view_of
from playground.words import LANGUAGES, translator

T = translator("en")
HOSTILE = ["<b>bold</b>", "$x$", "%{y}", "&lt;", "\n", "2024", "<img src=x onerror=1>", "a" * 60]
ROLES = {
    "laws": ["draft", "target", "overlap", "text", "token"],
    "trial": ["accept", "reject", "u", "dice", "text"],
    "residual": ["residual", "text", "drawn"],
    "payoff": ["ideal", "here", "alone", "best", "predicted", "measured", "text"],
    "convergence": ["noise", "damage", "runs", "text"],
    "emitted": ["emitted", "target", "runs", "text"],
}


def seen(p, q, *, token=0, fate="rejected", u=0.7, place=0, **fields):
    """A position by hand: the draft proposed ``token``, and what became of it."""
    p, q = np.array(p, float), None if q is None else np.array(q, float)
    chance = 1.0 if q is None else min(1.0, p[token] / q[token])
    rejected = fate == "rejected"
    one = Round(
        position=5,
        gamma=1,
        draft_ids=() if q is None else (token,),
        draft_probs=None,
        target_probs=None,
        accept_probs=() if q is None else (chance,),
        overlaps=(),
        draft_us=(),
        us=(),
        n_accepted=int(fate == "accepted"),
        n_tested=int(q is not None and fate != "untested"),
        next_id=1,
        next_u=0.4,
        source="recovered" if rejected else "bonus",
        steps=(),
    )
    one = replace(one, **fields)
    tested = "" if q is None else fate
    overlap = 1.0 if q is None else float(np.minimum(p, q).sum())
    return Position(
        0, place, 0, token, fate, tested, p, q, q, None if q is None else token, u, chance,
        overlap, one,
    )  # fmt: skip


def view(*args, labels=None, **fields):
    return view_of(seen(*args, **fields), (labels or "abcdefghijklmnop").__getitem__)


def traces(figure):
    return {trace.uid: trace.to_plotly_json() for trace in figure.data}


def title(figure):
    return figure.layout.meta["title"]


TEXTBOOK = ([0.5, 0.5], [0.8, 0.2])


def test_the_laws_of_the_textbook_pair():
    figure = charts.laws(view(*TEXTBOOK), t=T)
    found = traces(figure)
    assert list(found["draft"]["y"]) == ["id:0", "id:1"]
    assert list(found["draft"]["x"]) == [0.8, 0.2]
    assert list(found["target"]["x"]) == [0.5, 0.5]
    assert list(found["overlap"]["x"]) == [0.5, 0.2]
    assert title(figure) == "Draft and target share 0.700 of the mass"
    # The mark stands on the longer bar of the tested token, in the colour of its fate.
    assert (list(found["token"]["x"]), list(found["token"]["y"])) == ([0.8], ["id:0"])
    assert found["token"]["marker"]["color"] == LIGHT["attention"]
    accepted = traces(charts.laws(view(*TEXTBOOK, fate="accepted"), t=T))["token"]["marker"]
    assert accepted["color"] == LIGHT["accepted"]
    assert accepted["symbol"] != found["token"]["marker"]["symbol"]  # and in shape


def test_the_trial_parts_the_line_at_the_ratio():
    figure = charts.trial(view(*TEXTBOOK, u=0.7), t=T)
    found = traces(figure)
    assert list(found["accept"]["x"]) == pytest.approx([0.625])
    assert list(found["reject"]["x"]) == pytest.approx([0.375])
    assert list(found["reject"]["base"]) == pytest.approx([0.625])
    assert list(found["dice"]["x"]) == [0.7]
    assert title(figure) == "u = 0.700 ≥ 0.625: rejected"
    assert "0.500 / 0.800" in figure.layout.meta["subtitle"]
    passed = charts.trial(view(*TEXTBOOK, fate="accepted", u=0.1), t=T)
    assert title(passed) == "u = 0.100 < 0.625: accepted"


def test_the_residual_is_what_a_rejection_draws_from():
    figure = charts.residual(view([0.5, 0.3, 0.2], [0.8, 0.1, 0.1]), t=T)
    found = traces(figure)
    assert dict(zip(found["residual"]["y"], found["residual"]["x"], strict=True)) == pytest.approx(
        {"id:1": 2 / 3, "id:2": 1 / 3}
    )
    assert list(found["drawn"]["y"]) == ["id:1"] and "0.400 draws b" in title(figure)
    spare = charts.residual(view(*TEXTBOOK, fate="accepted"), t=T)
    assert not list(traces(spare)["drawn"]["x"])
    assert title(spare).startswith("Not needed here")
    equal = charts.residual(view([0.5, 0.5], [0.5, 0.5], fate="accepted"), t=T)
    assert title(equal).startswith("Draft and target are equal")


def test_untested_greedy_and_bonus_tokens_are_told_as_such():
    untested = charts.trial(view(*TEXTBOOK, fate="untested", u=None), t=T)
    assert title(untested).startswith("Never tested") and not list(traces(untested)["dice"]["x"])
    greedy = charts.trial(view([0, 1], [1, 0], u=None, next_u=None), t=T)
    assert title(greedy).startswith("No dice")
    bonus = view([0.3, 0.7], None, token=1, fate="bonus", place=NEXT, u=None)
    for name in ("laws", "trial", "residual"):
        figure = getattr(charts, name)(bonus, t=T)
        assert list(traces(figure)) == ROLES[name]
    assert list(traces(charts.laws(bonus, t=T))["target"]["x"]) == [0.7, 0.3]
    assert "bonus token" in title(charts.laws(bonus, t=T))


def test_the_tested_token_is_always_listed():
    p = np.full(60, 1 / 60)
    q = np.full(60, 0.9 / 59)
    q[57] = 0.1
    p[57], p[0] = 0.0, 2 / 60
    shown = view_of(seen(p, q, token=57, next_id=31), str)
    ids = [row["id"] for row in shown["rows"]]
    assert len(ids) == charts.SHOWN and {57, 31} <= set(ids)
    left = 1 - sum(row["target"] for row in shown["rows"])
    assert shown["rest"]["target"] == pytest.approx(left)
    again = [row["id"] for row in shown["residual"]]
    assert 31 in again and 57 not in again
    left = 1 - sum(row["residual"] for row in shown["residual"])
    assert shown["residual_rest"] == pytest.approx(left)


def test_hostile_tokens_stay_texts():
    p = np.full(8, 1 / 8)
    q = np.array([0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    shown = view(p, q, labels=HOSTILE)
    rows = [
        {"id": i, "label": label, "target": 0.1, "emitted": 0.2, "share": 0.1}
        for i, label in enumerate(HOSTILE)
    ]
    figures = [
        charts.laws(shown, t=T),
        charts.trial(shown, t=T),
        charts.residual(shown, t=T),
        pay.emitted(rows, t=T, damage=0.1),
    ]
    for figure in figures:
        strings = list(figure.layout.yaxis.ticktext or ())
        for trace in traces(figure).values():
            strings += [*trace.get("text", ()), *trace.get("hovertext", ())]
        for string in strings:
            bare = string.replace("<br>", "")
            assert "<" not in bare and "$" not in bare and "%{" not in bare and "\n" not in bare
        assert not any("hovertemplate" in trace for trace in traces(figure).values())
        assert (figure.layout.yaxis.type or "category") == "category"


def test_nothing_moves_and_nothing_is_nan():
    views = [
        None,
        view(*TEXTBOOK),
        view(*TEXTBOOK, fate="accepted", u=0.0),
        view(*TEXTBOOK, fate="untested", u=None),
        view([0, 1], [1, 0], u=None, next_u=None),
        view([0.3, 0.7], None, token=1, fate="bonus", place=NEXT, u=None),
        view_of(seen(np.full(151_936, 1 / 151_936), np.full(151_936, 1 / 151_936)), str),
    ]
    for language in LANGUAGES:
        t = translator(language)
        for name in ("laws", "trial", "residual"):
            figures = [getattr(charts, name)(v, t=t, seq=7) for v in views]
            assert len({f.layout.height for f in figures}) == 1
            assert len({f.layout.margin.l for f in figures}) == 1
            for figure in figures:
                assert list(traces(figure)) == ROLES[name]
                assert figure.layout.meta["seq"] == 7 and title(figure)
                text = figure.to_json()
                assert "NaN" not in text and "Infinity" not in text and len(text) < 12_000
        others = {
            "payoff": [
                pay.payoff((), (), t=t),
                pay.payoff([1, 0.8], [1, 1.2], t=t, gamma=1, predicted=0.8, measured=0.7, best=0),
            ],
            "convergence": [
                pay.convergence((), (), (), t=t),
                pay.convergence((10, 100), (0.3, 0.0), (0.2, 0.1), t=t),
                pay.convergence((10, 100), (0.0, 0.0), (0.0, 0.0), t=t),
                pay.convergence((10, 100), (0.3, 0.2), (0.2, 0.1), t=t, damage=0.17),
            ],
            "emitted": [pay.emitted([], t=t), pay.emitted([], t=t, damage=1e-17)],
        }
        for name, figures in others.items():
            assert len({f.layout.height for f in figures}) == 1
            for figure in figures:
                assert list(traces(figure)) == ROLES[name] and title(figure)
                assert "NaN" not in figure.to_json() and "Infinity" not in figure.to_json()


def test_the_pay_says_whether_it_pays_and_where_best():
    figure = pay.payoff(
        [1, 1.2, 1.3, 1.1], [1, 1.4, 1.5, 1.6], t=T, gamma=3, predicted=1.1, measured=1.05, best=2
    )
    found = traces(figure)
    assert (list(found["best"]["x"]), list(found["best"]["y"])) == ([2], [1.3])
    assert (list(found["predicted"]["x"]), list(found["measured"]["y"])) == ([3], [1.05])
    assert title(figure) == "It pays here: 1.05 times plain decoding (best γ: 2)"
    slow = pay.payoff([1, 0.7], [1, 0.8], t=T, gamma=1, predicted=0.7, best=0)
    assert title(slow).startswith("It doesn't pay here: 0.700 times")
    labels = traces(slow)["text"]["y"]
    assert abs(labels[1] - labels[0]) > 0.1  # the lines' names stand apart


def test_a_biased_rule_has_a_floor_and_a_lossless_one_has_none():
    biased = traces(pay.convergence((10, 1000), (0.3, 0.17), (0.2, 0.02), t=T, damage=0.17))
    assert list(biased["damage"]["y"]) == [0.17, 0.17]
    exact = traces(pay.convergence((10, 1000), (0.3, 0.02), (0.2, 0.02), t=T, damage=1e-17))
    assert not list(exact["damage"]["y"])
    sure = traces(pay.convergence((10, 1000), (0.0, 0.0), (0.0, 0.0), t=T))
    assert not list(sure["text"]["text"])  # no line, no name
    rows = [{"id": 3, "label": "x", "target": 0.5, "emitted": 0.7, "share": 0.69}]
    figure = pay.emitted(rows, t=T, damage=0.2)
    assert title(figure) == "Emitted law ≠ target: TV 0.200"
    assert "+0.200" in traces(figure)["text"]["text"][0]
