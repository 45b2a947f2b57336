"""Rates of operators and kernels, their shares of the device's limits, and possible savings.

An operator has the rates of its selected calls. A kernel has the rates of the calls for
which it is the longest kernel: a transpose has no FLOPs, although the convolution that launched it
has. For example, ``aten::mm`` is called with 1 GFLOP in 10 µs and with 1 GFLOP in 30 µs; 2 GFLOP in
40 µs are 50 TFLOP/s.

A saving is the time that an operator would gain at 70 % of its limit. For example,
``aten::native_layer_norm_backward`` takes 2.8 ms in five steps and would take 0.8 ms at full memory
bandwidth, so it runs at 27 % of that limit. At 70 % of the limit it would save 1.8 ms, or 0.36 ms
per step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.efficiency.call_efficiency import (
    CERTAIN,
    FAR_SHARE,
    CallEfficiency,
    call_efficiency,
    has_shapes,
)
from hta_widgets.analysis.efficiency.devices import used_device
from hta_widgets.analysis.efficiency.signatures import counted_calls
from hta_widgets.analysis.frames import text_column
from hta_widgets.analysis.scope import RankPart, rank_parts
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Ints, Rows, sorted_unique
from hta_widgets.trace.call_args import short_shapes
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.names import short_operator
from hta_widgets.trace.traceset import Selection, TraceSet

#: Columns added to tables of jobs with shapes.
RATE_COLUMNS: Final = ("tflop_per_s", "gb_per_s", "roofline_share", "bound")
#: Maximum number of operators listed by `job_efficiency`.
_MAX_FAR: Final = 3
#: Largest number of calls in a job whose tables have rates, and in a rank whose largest saving is
#: determined; more would take over a second.
_MAX_CALLS: Final = 50_000


def selected_kernels(part: RankPart, efficiency: CallEfficiency) -> Rows:
    """Return a rank's selected kernels, limited to the longest kernel of each call."""
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
    """Return a frame of names with `RATE_COLUMNS`; unchanged if no call has figures."""
    if not len(frame) or not all(map(has_shapes, traces.values())):
        return frame
    if sum(len(counted_calls(trace)) for trace in traces.values()) > _MAX_CALLS:
        return frame
    blocks = []
    for part in rank_parts(traces, selection):
        efficiency = call_efficiency(part.trace)
        if efficiency is not None:
            rows = rows_of(part, efficiency)
            rows = rows[efficiency.call_of_event[rows] >= 0]
            codes = part.table.name[rows].astype(np.int64)
            name, call = np.unique(np.stack((codes, efficiency.call_of_event[rows])), axis=1)
            names = [part.table.names[code] for code in name.tolist()]
            blocks.append(call_figures(efficiency, call).assign(name=names))
    if not any(map(len, blocks)):
        return frame
    return assign_rates(frame, pd.concat(blocks), frame["name"].astype(object))


def call_figures(efficiency: CallEfficiency, call: Ints) -> pd.DataFrame:
    """Return the figures of calls that `assign_rates` sums."""
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
    """Return the rates of each name's calls, and what bounds most of their device time."""
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


@dataclass(frozen=True, slots=True)
class Saving:
    """The time that an operator of a rank could save; `steps` is 0 if there are none."""

    rank: int
    name: str
    bound: str
    roofline_share: float
    saving_ns: int
    steps: int


def largest_saving(traces: TraceSet, rank: int) -> Saving | None:
    """Return the operator of a rank that could save the most time.

    None if shapes are missing, if the peaks or all figures are uncertain, or if the rank has more
    than `_MAX_CALLS` calls.
    """
    trace = traces[rank]
    if used_device(trace).certainty != "certain":
        return None
    if not has_shapes(trace) or len(counted_calls(trace)) > _MAX_CALLS:
        return None
    try:
        rows = analysis.operator_efficiency(traces, ranks=[rank])
    except TraceError:  # the file with counts of generated kernels is gone
        return None
    rows = rows[rows["certainty"].isin(CERTAIN) & (rows["saving_ns"] > 0)]
    if rows.empty:
        return None
    groups = rows.groupby(["name", "bound"], as_index=False)
    sums = groups[["saving_ns", "roofline_ns", "device_ns"]].sum()
    top = sums.nlargest(1, "saving_ns").iloc[0]
    steps = sorted_unique(trace.table.step[trace.table.step >= 0])
    roofline_share = float(top["roofline_ns"] / top["device_ns"])
    name, bound, saving_ns = top["name"], top["bound"], int(top["saving_ns"])
    return Saving(rank, name, bound, roofline_share, saving_ns, len(steps))


def operator_savings(traces: TraceSet) -> pd.DataFrame:
    """Return operators by name and shapes, ordered by the time that they could save.

    Times are means over ranks. Operators without a comparison to the roofline are omitted.
    """
    rows = analysis.operator_efficiency(traces)
    compared = rows[rows["saving_ns"] >= 0]
    compared = compared.assign(size_bytes=compared["gb_per_s"] * compared["device_ns"])
    groups = compared.groupby(["name", "input_shapes", "precision"], sort=False)
    sums = ["count", "device_ns", "roofline_ns", "saving_ns"]
    frame = groups[sums].sum()
    time_ns = frame["device_ns"].clip(lower=1)
    flops, size_bytes = (groups[name].sum(min_count=1) for name in ("total_flops", "size_bytes"))
    frame = frame.assign(
        tflop_per_s=flops / time_ns / 1e3,
        gb_per_s=size_bytes / time_ns,
        intensity=flops / size_bytes.where(size_bytes > 0),
        roofline_share=frame["roofline_ns"] / time_ns,
        bound=groups["bound"].first(),
        certainty=groups["certainty"].first(),
    ).reset_index()
    ranks = max(compared["rank"].nunique(), 1)
    frame[sums] = frame[sums] // ranks
    frame["short"] = text_column(map(short_operator, frame["name"]))
    frame["shapes"] = text_column(map(short_shapes, frame.pop("input_shapes")))
    frame = frame.sort_values(["saving_ns", "device_ns"], ascending=False, ignore_index=True)
    peaks = compared[["device", "peak_source", "peak_certainty"]].drop_duplicates()
    roofs = compared[["precision", "peak_tflop_per_s", "memory_gb_s"]].drop_duplicates()
    frame.attrs = {
        "ranks": ranks,
        "device": " and ".join(peaks["device"].unique()),
        "source": ", ".join([*peaks["peak_source"].unique(), *peaks["peak_certainty"].unique()]),
        "known_share": rows.attrs["known_share"],
        "roofs": roofs.dropna().to_numpy().tolist(),
    }
    if not len(frame):
        frame.attrs["note"] = rows.attrs.get("note") or "no operator has a figure to compare"
    return frame


def job_efficiency(traces: TraceSet) -> dict[str, Any]:
    """Return MFU, how much of the work is known, and the operators far below the roofline."""
    steps, operators = analysis.step_efficiency(traces), operator_savings(traces)
    far = operators[operators["roofline_share"] < FAR_SHARE].nlargest(_MAX_FAR, "device_ns")
    columns = ["name", "shapes", "device_ns", "roofline_share", "saving_ns"]
    return {
        "mfu": steps.attrs["job_mfu"],
        "at_least": bool(steps["at_least"].any()),
        "known_share": operators.attrs["known_share"],
        "device": operators.attrs["device"],
        "source": operators.attrs["source"],
        "operators": far[columns].to_dict("records"),
        "note": operators.attrs.get("note", ""),
    }
