"""Rates of operators and kernels, and their shares of the limits of the device, for tables.

The rates of an operator are the rates of its selected calls. A kernel has the rates of the calls
whose longest kernel it is: a transpose has no FLOPs, although the convolution that launched
it has. For example, ``aten::mm`` is called with 1 GFLOP in 10 µs and with 1 GFLOP in 30 µs:
2 GFLOP in 40 µs are 50 TFLOP/s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_efficiency import (
    CallEfficiency,
    call_efficiency,
    has_shapes,
)
from hta_widgets.analysis.efficiency.signatures import counted_calls
from hta_widgets.analysis.scope import RankPart, rank_parts
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

#: Columns that are added to tables of jobs with shapes.
RATE_COLUMNS: Final = ("tflop_per_s", "gb_per_s", "roofline_share", "bound")
#: Maximum number of calls in a job whose tables have rates; more would take over a second.
_MAX_CALLS: Final = 50_000


def selected_kernels(part: RankPart, efficiency: CallEfficiency) -> Rows:
    """Return the selected kernels of a rank that are the longest of their call."""
    longest: Rows = efficiency.calls["longest"].to_numpy()
    return np.intersect1d(longest, part.device_work_rows())


def selected_operators(part: RankPart, _efficiency: CallEfficiency) -> Rows:
    """Return the selected operators of a rank."""
    rows = operator_tree(part.trace).rows
    return rows[part.contains(rows)]


def add_call_rates(
    frame: pd.DataFrame,
    traces: TraceSet,
    selection: Selection,
    rows_of: Callable[[RankPart, CallEfficiency], Rows],
) -> pd.DataFrame:
    """Return a frame of names with `RATE_COLUMNS`, or unchanged if no call has figures."""
    if not len(frame) or not all(map(has_shapes, traces.values())):
        return frame
    if sum(len(counted_calls(trace)) for trace in traces.values()) > _MAX_CALLS:
        return frame
    blocks = []
    for part in rank_parts(traces, selection):
        efficiency = call_efficiency(part.trace)
        if efficiency is not None:
            blocks.append(_calls_by_name(part, efficiency, rows_of(part, efficiency)))
    calls = pd.concat(blocks) if blocks else pd.DataFrame()
    if not len(calls):
        return frame
    return assign_rates(frame, calls, frame["name"].astype(object))


def _calls_by_name(part: RankPart, efficiency: CallEfficiency, rows: Rows) -> pd.DataFrame:
    """Return the figures of calls with an event among `rows`, once for each name of an event."""
    rows = rows[efficiency.call_of_event[rows] >= 0]
    pairs = np.stack((part.table.name[rows].astype(np.int64), efficiency.call_of_event[rows]))
    name, call = np.unique(pairs, axis=1)
    names = [part.table.names[code] for code in name.tolist()]
    return call_figures(efficiency, call).assign(name=names)


def call_figures(efficiency: CallEfficiency, call: Ints) -> pd.DataFrame:
    """Return the figures of calls that `assign_rates` adds up."""
    calls = efficiency.calls.iloc[call]
    return pd.DataFrame(
        {
            "device_ns": calls["device_ns"].to_numpy(np.float64),
            "limit_ns": (calls["roofline_share"].astype("f8") * calls["device_ns"]).to_numpy(),
            "flops": efficiency.values_of_calls("flops", np.float64)[call],
            "least_bytes": efficiency.values_of_calls("least_bytes", np.float64)[call],
            "bound": efficiency.values_of_calls("bound", object)[call],
        }
    )


def assign_rates(frame: pd.DataFrame, calls: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    """Return a frame with the `RATE_COLUMNS` of the calls that have each row's name."""
    rates = _rates_by_name(calls).reindex(names).reset_index(drop=True)
    bounds = [bound if isinstance(bound, str) else None for bound in rates["bound"]]
    rates["bound"] = pd.Series(bounds, dtype=object)
    return frame.assign(**{name: rates[name] for name in RATE_COLUMNS})


def _rates_by_name(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the rates of the calls of each name, and the bound of most of their device time."""
    columns = {}
    for rate, amount, scale in (
        ("tflop_per_s", "flops", 1e3),
        ("gb_per_s", "least_bytes", 1),
        ("roofline_share", "limit_ns", 1),
    ):
        sums = calls[calls[amount].notna()].groupby("name")[[amount, "device_ns"]].sum()
        columns[rate] = sums[amount] / sums["device_ns"].where(sums["device_ns"] > 0) / scale
    limited = calls[calls["limit_ns"].notna()]
    spent = limited.groupby(["name", "bound"])["device_ns"].sum().reset_index()
    spent = spent.sort_values(["device_ns", "bound"], ascending=[False, True])
    columns["bound"] = spent.drop_duplicates("name").set_index("name")["bound"]
    return pd.DataFrame(columns)
