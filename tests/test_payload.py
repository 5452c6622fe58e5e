"""The browser's payload keeps what it says it keeps; the exact view is right on tables by hand."""

import json

import numpy as np
import pytest

from playground.payload import payload, preview_params, view
from playground.processors import DEFAULT_ORDER, shape
from playground.records import SamplingParams

P = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))


def wide(size=49_152, seed=0):
    return np.random.default_rng(seed).normal(3, 2.5, size).astype(np.float32)


def stored(values):
    return np.array(values, np.float32)


# ---- payload -----------------------------------------------------------------------------------


def test_the_top_travels_bit_for_bit_and_ties_go_by_the_lowest_id():
    logits = wide()
    logits[[7, 40_000, 123]] = 30.1
    got = payload(logits, (), 0, None)
    order = np.lexsort((np.arange(len(logits)), -logits))[:512]
    assert got["ids"] == order.tolist() and got["ids"][:3] == [7, 123, 40_000]
    assert (stored(got["logits"]) == logits[order]).all()


def test_the_tail_keeps_every_token_its_sum_its_square_and_its_ends():
    logits = wide()
    logits[:300] = -np.inf
    logits[300:350] = np.linspace(-9_000, -1_000, 50)
    got = payload(logits, (), 0, None)
    tail = np.sort(logits[logits > -np.inf].astype(np.float64))[::-1][512:]
    depths, counts = np.array(got["tail"]["depths"]), np.array(got["tail"]["counts"])
    assert got["finite"] == len(logits) - 300 and counts.sum() == len(tail)
    assert 256 <= len(counts) <= 320 and len(depths) == len(counts) + 1
    assert (np.diff(depths) >= 0).all()
    assert depths[[0, -1]] == pytest.approx([0, tail[0] - tail[-1]], rel=1e-5)
    means = got["tail"]["top"] - depths[:-1] - np.array(got["tail"]["below"]) * np.diff(depths)
    assert (counts * means).sum() == pytest.approx(tail.sum(), rel=1e-3)
    assert got["tail"]["squares"] == pytest.approx(((tail - tail[0]) ** 2).sum(), rel=1e-9)
    # An outlier shares no bin with the crowd: the widest bins hold a handful of tokens.
    assert counts[np.diff(depths) > 100].sum() <= 50


def test_equal_scores_share_a_bin_and_no_bin_is_wide_in_ranks():
    logits = np.round(wide() * 2).astype(np.float32) / 2
    counts = np.array(payload(logits, (), 0, None)["tail"]["counts"])
    assert counts.sum() == len(logits) - 512 and (counts > 0).sum() < 80
    spread = np.array(payload(wide(), (), 0, None)["tail"]["counts"])
    above = 512 + np.cumsum(spread)
    assert (spread / above).max() < 0.025


def test_context_and_taken_tokens_come_along_wherever_they_lie():
    logits = wide()
    order = np.argsort(-logits)
    deep, top = [int(order[i]) for i in (600, 30_000, 49_000)], int(order[3])
    got = payload(logits, [top, deep[0], deep[0], deep[1], 99_999], 2, 0.25, taken=deep[2])
    assert got["extra"]["ids"] == sorted(deep[:2]) + deep[2:]
    assert (stored(got["extra"]["logits"]) == logits[got["extra"]["ids"]]).all()
    context = got["context"]
    seen = zip(context["ids"], context["prompt"], context["new"], strict=True)
    assert set(seen) == {(top, 1, 0), (deep[0], 1, 1), (deep[1], 0, 1)}
    assert sum(got["tail"]["counts"]) == len(logits) - 512 - 3
    also = payload(logits, (), 0, None, also=[deep[1], top])
    assert also["extra"]["ids"] == [deep[1]]


def test_it_is_small_plain_json_and_only_the_top_is_labelled():
    asked = []

    def label(token_id):
        asked.append(token_id)
        return f"<{token_id}>"

    for size in (49_152, 262_144):
        logits = wide(size)
        got = payload(logits, range(20), 10, 0.5, taken=9, label=label)
        text = json.dumps(got, allow_nan=False, separators=(",", ":"))
        assert json.loads(text) == got and len(text) < 17_000
        assert set(got["labels"]) == {str(i) for i in (*got["ids"][:40], 9)}
    assert len(asked) <= 82


def test_raw_numbers_are_exact_and_a_tiny_vocabulary_has_no_tail():
    got = payload(P, (), 0, None)
    assert got["log_z"] == pytest.approx(0, abs=1e-6)
    assert got["entropy"] == pytest.approx(-(np.exp(P) * P).sum(), abs=1e-6)
    assert got["ids"] == [0, 1, 2, 3] and got["tail"]["counts"] == []
    assert payload(np.float32([1, -np.inf, 2]), (), 0, None)["ids"] == [2, 0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_logits_are_refused(bad):
    with pytest.raises(ValueError, match=r"logits must be finite or -inf, got NaN or \+inf"):
        payload(np.float32([0, bad]), (), 0, None)
    with pytest.raises(ValueError, match="no token survives"):
        payload(np.float32([-np.inf, -np.inf]), (), 0, None)


# ---- view --------------------------------------------------------------------------------------


def seen(params, u=0.7, taken=3, shown=25, logits=P):
    return view(
        logits, shape(logits, params), params, u, taken, label="abcd".__getitem__, shown=shown
    )


def test_view_by_hand():
    got = seen(SamplingParams(top_p=0.6))
    assert [(r["id"], r["label"], r["rank"], r["removed_by"]) for r in got["rows"]] == [
        (0, "a", 1, ""),
        (1, "b", 2, ""),
        (2, "c", 3, "top_p"),
        (3, "d", 4, "top_p"),
    ]
    assert [r["raw"] for r in got["rows"]] == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=1e-6)
    assert [r["final"] for r in got["rows"]] == pytest.approx([0.625, 0.375, 0, 0], abs=1e-6)
    assert got["exact"] is True and got["kept"] == 2
    model, top_p = got["ledger"]
    assert (model["name"], model["kept"], model["removed"]) == ("model", 4, 0)
    assert (top_p["name"], top_p["kept"]) == ("top_p", 2)
    assert top_p["removed"] == pytest.approx(0.2, abs=1e-6)
    # H(.625, .375) = .66156, H(.5, .3, .15, .05) = 1.14213
    assert top_p["entropy"] == pytest.approx(0.66156, abs=1e-5)
    assert got["figures"] == pytest.approx(
        {
            "entropy_model": 1.14213,
            "entropy": 0.66156,
            "perplexity": np.exp(0.66156),
            "top1": 0.625,
            "mass_cut": 0.2,
        },
        abs=1e-5,
    )
    assert got["drawn"] == pytest.approx(
        {"id": 1, "label": "b", "before": 0.625, "p": 0.375}, abs=1e-6
    )
    assert (got["taken"]["id"], got["taken"]["final"]) == (3, 0)
    assert got["taken"]["removed_by"] == "top_p"
    assert [(c["id"], c["label"]) for c in got["cdf"]] == [(0, "a"), (1, "b")]
    assert [c["upto"] for c in got["cdf"]] == pytest.approx([0.625, 1], abs=1e-6)
    assert got["rest"] == pytest.approx({"n": 0, "kept": 0, "mass": 0, "raw": 0}, abs=1e-9)
    json.dumps(got, allow_nan=False)


def test_rest_is_what_the_rows_leave():
    got = seen(SamplingParams(top_k=3), shown=1)
    assert got["rest"] == pytest.approx(
        {"n": 3, "kept": 2, "mass": 0.45 / 0.95, "raw": 0.5}, abs=1e-6
    )
    assert len(got["rows"]) == len(got["cdf"]) == 1


def test_mass_removed_is_of_the_mass_before_each_filter():
    got = seen(SamplingParams(top_k=3, min_p=0.5))
    assert [s["name"] for s in got["ledger"]] == ["model", "top_k", "min_p"]
    assert [s["kept"] for s in got["ledger"]] == [4, 3, 2]
    removed = [s["removed"] for s in got["ledger"]]
    assert removed == pytest.approx([0, 0.05, 0.15 / 0.95], abs=1e-6)
    assert got["figures"]["mass_cut"] == pytest.approx(0.2, abs=1e-6)


def test_greedy_no_dice_and_tokens_that_the_model_rules_out():
    got = seen(SamplingParams(temperature=0), u=0.9, taken=None)
    assert got["drawn"] == {"id": 0, "label": "a", "before": 0, "p": 1} and got["u"] is None
    assert got["taken"] is None and got["kept"] == 1
    assert [r["removed_by"] for r in got["rows"]] == [
        "",
        "temperature",
        "temperature",
        "temperature",
    ]
    assert seen(SamplingParams(), u=None)["drawn"] is None
    logits = np.float32([0, -np.inf, 0, -np.inf])
    got = seen(SamplingParams(), u=0.5, taken=1, logits=logits)
    assert [r["id"] for r in got["rows"]] == [0, 2] and got["rest"]["n"] == 2
    assert got["taken"]["removed_by"] == "model" and got["taken"]["raw"] == 0
    assert got["drawn"]["id"] == 2 and got["drawn"]["before"] == pytest.approx(0.5)


def test_ties_are_drawn_by_id():
    got = seen(SamplingParams(), u=0.6, logits=np.zeros(4, np.float32))
    assert (got["drawn"]["id"], got["drawn"]["before"]) == (2, pytest.approx(0.5))


def test_preview_params_spell_everything_out():
    got = preview_params(SamplingParams(temperature=0.5, seed=2**64 - 1, banned_tokens=(3,)))
    assert got["temperature"] == 0.5 and got["top_p"] == 1.0 and "seed" not in got
    assert got["order"] == list(DEFAULT_ORDER["transformers"])
    assert json.loads(json.dumps(got)) == got
    custom = SamplingParams(order=("top_p", "temperature"))
    assert preview_params(custom)["order"] == ["top_p", "temperature"]
