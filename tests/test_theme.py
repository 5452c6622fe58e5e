"""The charts' shared look: legible colours, literal texts, axes that keep tokens apart."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest

from playground.charts import theme


def test_contrast_is_the_wcag_ratio():
    assert theme.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert theme.contrast("#777777", "#FFFFFF") == pytest.approx(4.478, abs=1e-3)
    assert theme.contrast("#0072B2", "#0072B2") == 1


@pytest.mark.parametrize("palette", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_words_and_marks_are_legible(palette):
    for ground in ("paper", "panel", "wash"):
        for key in ("ink", "muted", *(k for k in palette if k.endswith("_text"))):
            assert theme.contrast(palette[key], palette[ground]) >= 4.5, (key, ground)
    for key in ("accent", "attention", "accepted", "recovered", "bonus", "outline"):
        assert theme.contrast(palette[key], palette["paper"]) >= 3, key


def test_each_light_colour_has_its_own_dark_partner():
    assert list(theme.LIGHT) == list(theme.DARK)
    assert len(set(theme.LIGHT.values())) == len(theme.LIGHT)
    assert theme.dark_map()["#0072B2"] == "#56B4E9"
    assert len(theme.dark_map()) == len(theme.LIGHT)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"),
        ("&lt;", "&amp;lt;"),
        ("$x$", "&#36;x&#36;"),
        ("%{y}", "%&#123;y}"),
        ("a\nb\tc", "a⏎b⇥c"),
        (" the", " the"),
    ],
)
def test_escape_leaves_no_markup_template_or_formula(text, safe):
    assert theme.escape(text) == safe


def test_lines_escape_each_and_skip_the_empty():
    assert theme.lines("<i>", "", "p 0.5") == "&lt;i&gt;<br>p 0.5"


def test_width_counts_wide_characters_twice():
    assert theme.width("abc") == 3
    assert theme.width("你好") == 4
    assert theme.shorten("abcdefgh", 5) == "abcd…"
    assert theme.shorten("你好你好", 5) == "你好…"
    assert theme.shorten("abcde", 5) == "abcde"


def test_categories_never_look_like_numbers_and_keep_order():
    keys = theme.category_keys([2024, 1, 10])
    axis = theme.category_axis(keys, ["2024", "1", "1e1"], reverse=True)
    figure = go.Figure(go.Bar(y=keys, x=[3, 2, 1], orientation="h"), theme.base_layout(yaxis=axis))
    assert figure.layout.yaxis.type == "category"
    assert list(figure.layout.yaxis.ticktext) == ["2024", "1", "1e1"]
    assert list(figure.layout.yaxis.range) == [2.5, -0.5]
    assert not any(key.replace(".", "").isdigit() for key in keys)


def test_a_figure_carries_its_reading_and_little_else():
    figure = go.Figure(
        layout=theme.base_layout("<b> & 12 survive", "how to read", alt="a; b", seq=3)
    )
    layout = json.loads(figure.to_json())["layout"]
    assert layout["meta"]["title"] == "<b> & 12 survive"
    assert layout["title"]["text"] == "<b>&lt;b&gt; &amp; 12 survive</b>"
    assert (layout["meta"]["alt"], layout["meta"]["seq"]) == ("a; b", 3)
    assert layout["margin"]["t"] > layout["meta"]["top"]  # room for the title in a notebook
    assert len(figure.to_json()) < 3000
