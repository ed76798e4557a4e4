"""Quantiles of Student's t: what a normal distribution says too little of where few steps are known."""

from __future__ import annotations

import math


def student(freedom: float, probability: float) -> float:
    """The value that Student's t with so many degrees of freedom stays under with this probability (of a
    half or more), by bisection."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if _below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def _below(value: float, freedom: float) -> float:
    """P(T < value) of Student's t, value >= 0."""
    if freedom > 1e6:
        return 0.5 * (1 + math.erf(value / math.sqrt(2)))
    return 1 - 0.5 * _beta(freedom / (freedom + value * value), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    fraction = d
    for n in range(1, 300):
        for numerator in (
            n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n)),
            -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * fraction / a
