"""How figures are written."""

import math

import pytest

from playground.format import amount_text, count_text, figure_text, log_text, setting_text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.772532, "0.773"),
        (0.02, "0.020"),
        (0.01982, "0.0198"),
        (0.0066, "0.0066"),
        (0.001, "0.0010"),
        (0.00099, "9.9e-4"),
        (3.14e-5, "3.1e-5"),
        (1e-12, "1.0e-12"),
        (0.0, "0"),
        (1.0, "1"),
        (0.9994, "0.999"),
        (0.99997, "1−3.0e-5"),
        (1 + 1e-12, "1"),
    ],
)
def test_probabilities(p, text):
    assert figure_text(p) == text


def test_other_numbers():
    assert count_text(49152) == "49,152"
    texts = [amount_text(x) for x in (3.1857, 24.185, 1234.6, 0.0, 0.6062, -0.5, math.inf)]
    assert texts == ["3.19", "24.2", "1,235", "0", "0.606", "−0.500", "∞"]
    assert [log_text(x) for x in (-1.41421, 0.0, -math.inf)] == ["−1.414", "0.000", "−∞"]
    settings = [setting_text(x) for x in (0.8, 50, 0.46792, 2.0, 0.00001, 0.0)]
    assert settings == ["0.8", "50", "0.468", "2", "1.0e-5", "0"]
    assert setting_text(1.99996, 6) == "1.99996"
