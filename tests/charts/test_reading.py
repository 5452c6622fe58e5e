"""Histograms of a reading: counts are those of the data, looks follow the buckets."""

import numpy as np
import pytest

from playground.charts import reading as charts
from playground.words import translator

T = translator("en")


def bars(figure):
    return next(trace for trace in figure.data if trace.uid == "bars")


def test_ranks_lie_in_their_buckets():
    figure = charts.ranks(np.array([1, 1, 10, 11, 100, 5000]), (10, 100, 1000), t=T)
    assert list(bars(figure).y) == [3, 2, 0, 1]
    assert list(figure.layout.xaxis.ticktext) == ["≤10", "≤100", "≤1,000", "&gt;1,000"]
    assert figure.layout.meta["title"] == "33 % were the first guess"
    assert [t for t in figure.data if t.uid == "text"][0].text[0] == "50 %"
    # The last bucket keeps its look, however many there are.
    two = charts.ranks(np.array([1, 50]), (10,), t=T)
    assert bars(two).marker.pattern.shape[-1] == bars(figure).marker.pattern.shape[-1] == "x"


def test_probabilities_lie_in_tenths():
    figure = charts.probabilities(np.array([0.0, 0.05, 0.1, 0.95, 1.0]), t=T)
    assert list(bars(figure).y) == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert figure.layout.meta["title"] == "40 % had a probability below 0.1"


@pytest.mark.parametrize("top", [0.0, 0.3, 3.0, 10.8])
def test_entropies_are_all_counted(top):
    values = np.linspace(0, top, 50)
    figure = charts.entropies(values, t=T)
    one = bars(figure)
    assert sum(one.y) == 50
    width = one.x[1] - one.x[0] if len(one.x) > 1 else 2 * one.x[0]
    edges = np.array([*(np.array(one.x) - width / 2), one.x[-1] + width / 2])
    assert edges[0] == pytest.approx(0) and edges[-1] >= top - 1e-9
    assert figure.layout.xaxis.range[1] == pytest.approx(edges[-1])


def test_nothing_read():
    none = np.array([])
    for figure in (
        charts.ranks(none.astype(int), (10,), t=T),
        charts.probabilities(none, t=T),
        charts.entropies(none, t=T),
    ):
        assert sum(bars(figure).y) == 0
