"""Tests whether runs differ by chance, and rounds means without losing a nanosecond.

The samples are the steps of a run. *Welch's test* compares the means of both sides, each with its
own spread. If steps have partners, the *paired test* uses the logarithm of each pair's ratio,
because steps that differ by design (such as every tenth step, which writes a checkpoint) do so on
both sides. For example, steps of 10, 20, 40 ns before and 11, 22, 44 ns after are each 10 % longer:

>>> before, after = np.array([[10.0], [20.0], [40.0]]), np.array([[11.0], [22.0], [44.0]])
>>> welch_p_value(before, after).round(2), paired_steps_p_value(before, after).round(2)
(array([0.87]), array([0.]))

None of the dependencies provides Student's distribution, so this module computes it: it evaluates
the regularized incomplete beta function by its continued fraction.
"""

from __future__ import annotations

import math

import numpy as np

from hta_widgets.trace.arrays import Floats, Ints

_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])
_ROUNDS = 200  # maximum number of terms of the fraction
_SMALLEST = 1e-300
MIN_PAIRS = 3  # differences required to estimate the spread


def mean_parts(sums: Ints, count: int) -> Ints:
    """Divide `sums` by `count`, rounded so that the parts add up to the rounded total."""
    # The largest remainder method rounds down, then adds 1 where most was cut off.
    quotients, remainders = np.divmod(sums.astype(np.int64), count)
    total = (2 * int(sums.sum()) + count) // (2 * count)
    missing = total - int(quotients.sum())
    order = np.argsort(-remainders, kind="stable")
    quotients[order[:missing]] += 1
    return quotients


def welch_p_value(before: Floats, after: Floats) -> Floats:
    """Return the two-sided p-value of Welch's t-test for each column; rows are steps."""
    if min(len(before), len(after)) < 2:
        return np.full(before.shape[1], np.nan)
    gap = after.mean(axis=0) - before.mean(axis=0)
    before_error, after_error = (side.var(axis=0, ddof=1) / len(side) for side in (before, after))
    error = before_error + after_error
    errors = before_error**2 / (len(before) - 1) + after_error**2 / (len(after) - 1)
    freedom = error**2 / np.maximum(errors, _SMALLEST)
    return _p_value(gap, error, freedom)


def paired_p_value(group: Ints, difference: Floats, size: int) -> Floats:
    """Return the p-value of each group's mean difference, from Student's paired t-test."""
    # The pairs are steps, or calls if there are too few steps.
    count = np.bincount(group, minlength=size).astype(np.float64)
    mean = np.bincount(group, difference, size) / np.maximum(count, 1)
    spread = np.bincount(group, (difference - mean[group]) ** 2, size)
    freedom = np.maximum(count - 1, 1)
    p_value = _p_value(mean, spread / freedom / np.maximum(count, 1), freedom)
    return np.where(count >= MIN_PAIRS, p_value, np.nan)


def paired_steps_p_value(before: Floats, after: Floats) -> Floats:
    """Return the p-value of each column, from a paired t-test of log ratios.

    Rows are steps. The p-value is NaN if any value in the column is not positive.
    """
    # With logarithms, a change by a constant factor is equal in all steps, whatever their duration.
    steps, columns = before.shape
    is_positive = (before > 0).all(axis=0) & (after > 0).all(axis=0)
    ratio = np.log(np.where(is_positive, after, 1.0) / np.where(is_positive, before, 1.0))
    group = np.tile(np.arange(columns), steps)
    return np.where(is_positive, paired_p_value(group, ratio.ravel(), columns), np.nan)


def combined_p_value(
    before: Floats, after: Floats, *, by_step: bool, factors: tuple[float, float] = (1, 10)
) -> Floats:
    """Return each column's p-value from Welch's test and, if `by_step`, the paired test."""
    # Two tests have more false positives than one, so each p-value is multiplied by its factor
    # before the smaller is used. The default factors add at most a tenth to the false positives of
    # Welch's test.
    p_value = welch_p_value(before, after)
    if by_step and len(before) >= MIN_PAIRS:
        p_value = np.fmin(factors[0] * p_value, factors[1] * paired_steps_p_value(before, after))
    return np.minimum(p_value, 1.0)


def _p_value(mean: Floats, error: Floats, freedom: Floats) -> Floats:
    """Return the p-value of Student's t for means with squared standard errors `error`."""
    # Rounding errors of means must not count as spread.
    is_constant = error <= (1e-12 * np.maximum(np.abs(mean), 1e-12)) ** 2
    freedom = np.where(is_constant, 1.0, freedom)
    t_squared = mean**2 / np.where(is_constant, 1.0, error)
    p_value = _regularised_beta(freedom / 2, 0.5, freedom / (freedom + t_squared))
    return np.where(is_constant, np.where(np.abs(mean) > 0, 0.0, 1.0), p_value)


def _regularised_beta(a: Floats, b: float | Floats, x: Floats) -> Floats:
    """Return the regularized incomplete beta function, using its continued fraction."""
    x = np.clip(x, 0.0, 1.0)
    # The fraction converges fast below this limit; above it, I(x; a, b) = 1 - I(1 - x; b, a).
    is_mirrored = x > (a + 1) / (a + b + 2)
    a, b = np.where(is_mirrored, b, a), np.where(is_mirrored, a, b)
    point = np.where(is_mirrored, 1 - x, x)
    is_inside = (point > 0) & (point < 1)
    inner = np.where(is_inside, point, 0.5)
    log_front = _lgamma(a + b) - _lgamma(a) - _lgamma(b) + a * np.log(inner) + b * np.log1p(-inner)
    value = np.exp(log_front) / a * _beta_fraction(a, b, inner)
    value = np.where(is_inside, value, np.where(point <= 0, 0.0, 1.0))
    return np.where(is_mirrored, 1 - value, value)


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Evaluate the incomplete beta function's continued fraction by Lentz's method."""
    c = np.ones_like(x)
    d = _nonzero(1 - (a + b) * x / (a + 1))
    d = 1 / d
    value = d.copy()
    for m in range(1, _ROUNDS):
        even_term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _nonzero(1 + even_term * d)
        c = _nonzero(1 + even_term / c)
        value = value * d * c
        odd_term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _nonzero(1 + odd_term * d)
        c = _nonzero(1 + odd_term / c)
        step = d * c
        value = value * step
        if np.all(np.abs(step - 1) < 1e-14):
            break
    return value


def _nonzero(values: Floats) -> Floats:
    return np.where(np.abs(values) < _SMALLEST, _SMALLEST, values)
