"""Which kinds of time a step is made of otherwise, where the steps take as long."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.significance import either_test
from hta_widgets.diff.steps import STEP_KINDS
from hta_widgets.diff.steps import kind_times

__all__ = ["shifted_kinds"]

Floats = npt.NDArray[np.float64]

_OF_STEP = 0.05  # steps of one program may differ by less
_OF_STEP_ALONE = 0.2  # where one step on a side tells nothing of chance
_ALPHA = 0.01  # of all kinds together


def shifted_kinds(diff: Comparison) -> set[str]:
    """Return the kinds of time whose share of the steps differs by more than noise.

    By more than 5 % of the step and not by chance: tests as in `changes` over the shares of single
    steps, at 1 % divided by the number of kinds that there are; with one step on a side, by more
    than 20 %.

    Examples
    --------
    >>> shifted_kinds(diff)  # doctest: +SKIP
    {'communication', 'idle'}
    """
    times = [kind_times(diff, side).astype(np.float64) for side in diff.sides]
    there = np.flatnonzero(times[0].any(axis=0) | times[1].any(axis=0))
    whole = [_shares(one.sum(axis=0, keepdims=True))[0] for one in times]
    likely = either_test(*(_shares(one) for one in times), by_step=diff.same_steps)
    alone = np.isnan(likely)
    moved = np.abs(whole[1] - whole[0]) > np.where(alone, _OF_STEP_ALONE, _OF_STEP)
    told = moved & (alone | (likely * len(there) < _ALPHA))
    return {STEP_KINDS[k] for k in np.flatnonzero(told).tolist()}


def _shares(times: Floats) -> Floats:
    found: Floats = times / np.maximum(times.sum(axis=1, keepdims=True), 1)
    return found
