"""The operator that would gain most if it came closer to the limits of its device.

For example, ``aten::native_layer_norm_backward`` takes 2.8 ms in five steps and would take 0.8 ms
at the rate of the memory: it runs at 27 % of what memory allows. At 70 % of that rate it would
save 1.8 ms, 0.36 ms a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hta_widgets import analysis
from hta_widgets.analysis.efficiency.signatures import decode_arg
from hta_widgets.errors import TraceError
from hta_widgets.text import plural
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_MAX_SHAPES = 3  # of an operator's name in a chart
_MAX_CALLS = 200  # operators whose args are read to find out whether a trace has shapes


@dataclass(frozen=True, slots=True)
class Saving:
    """What one operator of a rank would gain; `steps` is 0 without steps."""

    rank: int
    name: str
    bound: str
    roofline_share: float
    saving_ns: int
    steps: int


def largest_saving(traces: TraceSet, rank: int) -> Saving | None:
    """Return the operator of a rank with the most to gain; None without shapes or sure peaks."""
    trace = traces[rank]
    if not has_shapes(trace):
        return None
    frame = analysis.operator_efficiency(traces, ranks=[rank])
    frame = frame[(frame["saving_ns"] > 0) & (frame["peak_certainty"] == "certain")]
    if not len(frame):
        return None
    groups = frame.groupby(["name", "bound"])[["saving_ns", "roofline_ns", "device_ns"]].sum()
    most = groups.reset_index().nlargest(1, "saving_ns").iloc[0]
    share = float(most["roofline_ns"] / most["device_ns"])
    steps = np.unique(trace.table.step[trace.table.step >= 0])
    return Saving(rank, most["name"], most["bound"], share, int(most["saving_ns"]), len(steps))


def has_shapes(trace: Trace) -> bool:
    """Return whether the first operators of a rank have the shapes of their inputs."""
    keys = ("Input Dims", "Input dims")
    try:
        args = event_args(trace, operator_tree(trace).rows[:_MAX_CALLS], keys)
    except TraceError:  # the file is gone
        return False
    return any(map(any, args.values()))


def short_operator(name: str) -> str:
    """Return an operator's name without the parts that all share."""
    return name.removeprefix("aten::").lstrip("_")


def short_shapes(text: str) -> str:
    """Return the shapes of inputs in short: ``2048×1024 · 1024×4096``.

    Vectors beside matrices, and shapes equal to the one before, are left out.
    """
    shapes = [dims for dims in decode_arg(text.encode()) if isinstance(dims, list) and dims]
    if any(isinstance(size, list) for dims in shapes for size in dims):
        return plural(len(shapes[0]), "tensor")
    texts = ["×".join(map(str, dims)) for dims in shapes if len(dims) > 1] or [
        "×".join(map(str, dims)) for dims in shapes
    ]
    distinct = [now for before, now in pairwise(["", *texts]) if now != before]
    return " · ".join(distinct[:_MAX_SHAPES])
