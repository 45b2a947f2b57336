"""How much longer each step takes, and whether that is more than chance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.results import result

from hta_widgets.diff.means import mean_parts
from hta_widgets.diff.moments import KIND_OF
from hta_widgets.diff.moments import moments
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.significance import either_test

__all__ = ["ALPHA", "STEP_KINDS", "kind_times", "steps"]

Ints = npt.NDArray[np.int64]

#: What is likelier than this to be chance is not called a change.
ALPHA = 0.05

#: What the moments of a step are parted into.
STEP_KINDS = ("compute", "communication", "memory", "idle", "cpu")


def steps(diff: Comparison) -> pd.DataFrame:
    """Return how much longer each step takes after than before, and what of it goes to which kind.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair of steps, in order: ``slot`` (int64), from 0; ``before_step, after_step``
        (int64), their numbers, -1 where the whole is one stretch; and int64 ``before_ns, after_ns,
        diff_ns``: lengths of the steps on the host, of several ranks the mean, rounded so that
        the kinds add up; ``change_share`` (float64); and by kind, ``compute_diff_ns,
        communication_diff_ns, memory_diff_ns, idle_diff_ns, cpu_diff_ns`` (int64), which add up
        to ``diff_ns``: see `waterfall`.

        ``.attrs``: ``p_value``, how likely the steps differ as much by chance: by Welch's test, and
        where at least three steps have the same numbers on both sides by Student's t-test of the
        pairs, twice the smaller of the two; None with fewer than two steps; ``is_significant``,
        whether that is below 0.05, or None; ``median_share``, the median of ``change_share``;
        ``before_std_ns, after_std_ns`` (float), the spread of the steps.

    Examples
    --------
    >>> found = steps(diff)  # doctest: +SKIP
    >>> found.loc[found["diff_ns"].idxmax()]  # doctest: +SKIP
    """
    by_kind = [kind_times(diff, side) for side in diff.sides]
    before, after = (kinds.sum(axis=1) for kinds in by_kind)
    change = by_kind[1] - by_kind[0]
    share = (after - before) / np.where(before > 0, before, np.nan)
    lengths = before[:, None].astype(float), after[:, None].astype(float)
    likely = float(either_test(*lengths, by_step=diff.same_steps, factors=(2, 2))[0])
    known = not np.isnan(likely)
    return result(
        {
            "slot": np.arange(diff.step_count, dtype=np.int64),
            "before_step": diff.before.steps.astype(np.int64),
            "after_step": diff.after.steps.astype(np.int64),
            "before_ns": before,
            "after_ns": after,
            "diff_ns": after - before,
            "change_share": share,
            **{f"{kind}_diff_ns": change[:, k] for k, kind in enumerate(STEP_KINDS)},
        },
        matched={"steps": diff.step_count},
        p_value=likely if known else None,
        is_significant=likely < ALPHA if known else None,
        median_share=float(np.nanmedian(share)) if np.isfinite(share).any() else None,
        before_std_ns=float(before.std(ddof=1)) if known else None,
        after_std_ns=float(after.std(ddof=1)) if known else None,
    )


def kind_times(diff: Comparison, side: RunSide) -> Ints:
    """Return the time of each step and kind, the mean over ranks."""
    sums = np.zeros((diff.step_count, len(STEP_KINDS)), dtype=np.int64)
    for causes in moments(diff, side).values():
        for cause, times in causes.items():
            sums[:, STEP_KINDS.index(KIND_OF[cause])] += times
    return np.stack([mean_parts(row, len(side.ranks)) for row in sums])
