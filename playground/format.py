"""How figures are written, the same in charts, sentences and tables.

Probabilities: three decimals from 0.02 up, four from 0.001, else two digits and a power of ten;
what isn't 0 or 1 is never written as if it were ("1−3.1e-5", never "1.000" or "<1 %"). Counts have
thousands separators, negative numbers a real minus sign, log-probabilities three decimals (nats).
"""

from __future__ import annotations

import math

MINUS = "−"


def figure_text(p: float) -> str:
    """Return a probability or mass: 0.773, 0.0198, 3.1e-5, 1−3.1e-5, 0, 1."""
    if not p > 0:
        return "0"
    if p >= 1:
        return "1"
    if p >= 0.9995:
        return f"1{MINUS}{_power(1 - p)}"
    if p >= 0.02:
        return f"{p:.3f}"
    return f"{p:.4f}" if p >= 0.001 else _power(p)


def count_text(n: float) -> str:
    """Return a whole number with thousands separators: 49,152."""
    return f"{round(n):,}"


def amount_text(x: float, digits: int = 3) -> str:
    """Return an amount to ``digits`` significant digits, without a power of ten: 3.19, 24.2, 1,235.

    For entropies, perplexities and settings.
    """
    if not math.isfinite(x):
        return "∞" if x > 0 else f"{MINUS}∞"
    if x == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(x))))
    return _minus(f"{round(x, places):,.{places}f}")


def log_text(x: float) -> str:
    """Return a log-probability to three decimals: −1.415; −∞ for a masked token."""
    return _minus(f"{x:.3f}") if math.isfinite(x) else f"{MINUS}∞"


def setting_text(x: float, digits: int = 3) -> str:
    """Return a setting without trailing zeros, to so many significant digits: 0.8, 50, 0.468."""
    if isinstance(x, int):
        return str(x)
    return _minus(f"{x:.{digits}g}" if 1e-3 <= abs(x) < 1e4 or x == 0 else _power(x))


def _power(p: float) -> str:
    """Return two digits and a power of ten: 3.1e-5."""
    mantissa, exponent = f"{p:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _minus(text: str) -> str:
    return text.replace("-", MINUS, 1) if text.startswith("-") else text
