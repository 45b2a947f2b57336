"""Efficiency of two runs: MFU, and operators by shape.

For example, ``aten::mm`` of ``[[4096, 1024], [1024, 4096]]`` takes 1.2 ms a step before and 1.9 ms
after, at 68 and 43 % of the roofline: the same work became slower. A row that exists only on one
side belongs to an operator whose shapes changed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.operator_efficiency import operator_efficiency
from hta_widgets.analysis.efficiency.step_efficiency import step_efficiency
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.tables import analyse_sides, join_sides
from hta_widgets.text import share

_KEYS = ("name", "input_shapes")
_MEASURES = ("count", "device_ns", "mean_ns", "tflop_per_s", "roofline_share")


@check_arguments
def efficiency_diff(diff: Comparison) -> pd.DataFrame:
    """Compare the time and efficiency of each operator and shape.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per operator and input shapes, ordered by the size of the device time difference:
        ``name, input_shapes`` (str), and ``before_…, after_…, diff_…`` (float64; NaN on a side
        without such a row) of ``count`` and ``device_ns``, as means over ranks and their steps;
        ``mean_ns`` per call; ``tflop_per_s``; ``roofline_share``. Runs without shapes have a note.

        ``.attrs``: ``before_mfu, after_mfu``, means over ranks and steps, NaN if unknown; ``text``,
        a sentence about them, empty if one of them is unknown.
    """
    frames, notes = analyse_sides(diff, operator_efficiency)
    sides = [_by_shapes(*pair) for pair in zip(frames, diff.sides, strict=True)]
    steps, _ = analyse_sides(diff, step_efficiency)
    before, after = (float(frame.attrs["job_mfu"]) for frame in steps)
    at_least = any(frame["at_least"].any() for frame in steps)
    is_known = np.isfinite([before, after]).all()
    text = f"MFU {'at least ' * at_least}{share(before)} → {share(after)}." if is_known else ""
    frame = join_sides(sides, _KEYS, _MEASURES, by="device_ns", note="; ".join(notes))
    frame.attrs |= {"before_mfu": before, "after_mfu": after, "text": text}
    return frame


def _by_shapes(frame: pd.DataFrame, side: RunSide) -> pd.DataFrame:
    """Return means per rank and step, and rates, for each operator and its shapes."""
    steps_of_ranks = (side.traces[rank].table.step for rank in side.table_ranks)
    steps = sum(max(len(np.unique(step[step >= 0])), 1) for step in steps_of_ranks)
    has_limit = frame["roofline_ns"] >= 0
    operators = frame.assign(
        known_ns=frame["device_ns"].where(frame["tflop_per_s"].notna()),
        compared_ns=frame["device_ns"].where(has_limit),
        limit_ns=frame["roofline_ns"].where(has_limit),
    )
    sums = ["count", "device_ns", "total_flops", "known_ns", "compared_ns", "limit_ns"]
    groups = operators.groupby(list(_KEYS), sort=False)[sums].sum(min_count=1)
    return groups.assign(
        mean_ns=groups["device_ns"] / groups["count"].clip(lower=1),
        tflop_per_s=groups["total_flops"] / groups["known_ns"].where(groups["known_ns"] > 0) / 1e3,
        roofline_share=groups["limit_ns"] / groups["compared_ns"].where(groups["compared_ns"] > 0),
        count=groups["count"] / max(steps, 1),
        device_ns=groups["device_ns"] / max(steps, 1),
    ).reset_index()
