"""The time that operators would save if they came closer to the limits of their device.

For example, ``aten::native_layer_norm_backward`` takes 2.8 ms in five steps and would take 0.8 ms
at full memory bandwidth: it runs at 27 % of that limit. At 70 % of the limit it would save 1.8 ms,
0.36 ms per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.efficiency.call_efficiency import CERTAIN, FAR_SHARE, has_shapes
from hta_widgets.analysis.efficiency.devices import used_device
from hta_widgets.analysis.efficiency.signatures import counted_calls
from hta_widgets.errors import TraceError
from hta_widgets.text import plural
from hta_widgets.trace.arrays import sorted_unique
from hta_widgets.trace.call_args import decode_arg
from hta_widgets.trace.traceset import TraceSet

#: Maximum number of operators that `job_efficiency` lists.
_MAX_FAR = 3
#: Maximum number of operators whose args are read, which takes about a second.
_MAX_COUNTED = 50_000
#: Maximum number of shapes in an operator's label.
_MAX_SHAPES = 3


@dataclass(frozen=True, slots=True)
class Saving:
    """The time that one operator of a rank could save; `steps` is 0 without steps."""

    rank: int
    name: str
    bound: str
    roofline_share: float
    saving_ns: int
    steps: int


def largest_saving(traces: TraceSet, rank: int) -> Saving | None:
    """Return the operator of a rank that could save the most time.

    None if shapes are missing, if the peaks or all figures are uncertain, and for ranks with more
    than `_MAX_COUNTED` operators.
    """
    trace = traces[rank]
    if used_device(trace).certainty != "certain":
        return None
    if not has_shapes(trace) or len(counted_calls(trace)) > _MAX_COUNTED:
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
    """Return operators by name and shapes; those that could save the most time come first.

    Times are means of the ranks. Operators without a comparison to the roofline are left out.
    """
    rows = analysis.operator_efficiency(traces)
    compared = rows[rows["saving_ns"] >= 0]
    keys = ["name", "input_shapes", "precision"]
    groups = compared.groupby(keys, sort=False)
    sums = ["count", "device_ns", "roofline_ns", "saving_ns"]
    frame = groups[sums].sum()
    time_ns = frame["device_ns"].clip(lower=1)
    size = compared["gb_per_s"] * compared["device_ns"]
    sizes = size.groupby([compared[key] for key in keys], sort=False)
    flops, size_bytes = groups["total_flops"].sum(min_count=1), sizes.sum(min_count=1)
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
    frame["short"] = [short_operator(name) for name in frame["name"]]
    frame["shapes"] = [short_shapes(text) for text in frame.pop("input_shapes")]
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


def short_operator(name: str) -> str:
    """Return an operator's name without ``aten::`` and underscores before it."""
    return name.removeprefix("aten::").lstrip("_")


def short_shapes(text: str) -> str:
    """Return the shapes of inputs in short: ``2048×1024 · 1024×4096``.

    Vectors next to matrices, and shapes equal to the previous shape, are left out.
    """
    shapes = [dims for dims in decode_arg(text.encode()) if isinstance(dims, list) and dims]
    if any(isinstance(size, list) for dims in shapes for size in dims):
        return plural(len(shapes[0]), "tensor")
    matrices = [dims for dims in shapes if len(dims) > 1]
    texts = ["×".join(map(str, dims)) for dims in matrices or shapes]
    distinct = [text for before, text in pairwise(["", *texts]) if text != before]
    return " · ".join(distinct[:_MAX_SHAPES])
