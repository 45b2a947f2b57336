"""The frames of two panels of kernels: how well each fills the device, and chains to fuse.

Times and counts are means of the ranks. For example, a kernel that takes 40 µs on rank 0 and 60 µs
on rank 1 is a row of 50 µs; its occupancy is the mean of its launches, weighted by their time.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.panels.savings import short_operator
from hta_widgets.trace.names import short_name
from hta_widgets.trace.traceset import TraceSet

_WEIGHTED = ("blocks_per_sm", "occupancy_share", "registers")


def kernel_geometry(traces: TraceSet) -> pd.DataFrame:
    """Return kernels by name, those with the most time first."""
    rows = analysis.kernel_details(traces)
    rows = rows.assign(name=rows["name"].astype(str))
    groups = rows.groupby("name", sort=False)
    frame = groups[["count", "sum_ns"]].sum()
    for column in _WEIGHTED:
        value = rows[column].astype("float64")
        is_known = np.isfinite(value) & (value >= 0) & (rows["sum_ns"] > 0)
        weight = rows["sum_ns"].where(is_known, 0)
        sums = (value.where(is_known, 0) * weight).groupby(rows["name"], sort=False).sum()
        time_ns = weight.groupby(rows["name"], sort=False).sum()
        frame[column] = sums / time_ns.where(time_ns > 0)
    frame["registers"] = frame["registers"].round()
    first = groups[["tensor_core", "precision"]].first()
    frame["tensor_core"] = first["tensor_core"].astype(str)
    frame["precision"] = first["precision"].astype(str)
    ranks = max(rows["rank"].nunique(), 1)
    frame[["count", "sum_ns"]] //= ranks
    frame = frame.sort_values(["sum_ns", "count"], ascending=False).reset_index()
    frame.insert(1, "short", [short_name(name) for name in frame["name"]])
    frame.attrs = {"ranks": ranks, "note": rows.attrs.get("note", "")}
    for name in ("tensor_core_share", "short_kernels"):
        if np.isfinite(value := rows.attrs.get(name, np.nan)):
            frame.attrs[name] = value
    return frame


def fusion_chains(traces: TraceSet) -> pd.DataFrame:
    """Return chains of pointwise operators, those with the most bytes to save first."""
    rows = analysis.fusion_candidates(traces)
    groups = rows.groupby(["operators", "shape", "length"], sort=False)
    columns = ["count", "device_ns", "total_saved_bytes", "saving_ns"]
    frame = groups[columns].sum() // max(rows["rank"].nunique(), 1)
    frame = frame.sort_values(["total_saved_bytes", "device_ns"], ascending=False).reset_index()
    frame["short"] = [
        " → ".join(map(short_operator, operators.split(" → "))) for operators in frame["operators"]
    ]
    frame.attrs = {"ranks": rows["rank"].nunique(), "note": rows.attrs.get("note", "")}
    return frame
