"""The figures of every counted call of a rank, and the events that each call covers.

`operator_efficiency` adds up calls; views show one call: in the details of its operator and of its
kernels, in the colour of its kernels, and as achieved TFLOP/s over time. For example, a call of
``aten::addmm`` with 51.6 GFLOP launches a kernel of 104 µs: the operator, the kernel, and the
``aten::linear`` that calls nothing else, have 496 TFLOP/s.

The class of an event gives its colour. It states what limits its call, and how close the call is:
a ``gemm`` that FLOPs limit is ``compute`` at 52 % of its roofline, ``compute_near`` at 75 %, and
``far`` at 12 %. The look of classes is in ``facts/bound_classes.json``; their codes follow those of
``facts/event_classes.json``, so a code has one meaning in all tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_times import (
    PRECISION_NAMES,
    THRESHOLDS,
    CallTimes,
    add_rates,
    call_times,
    limits,
)
from hta_widgets.analysis.efficiency.counted_calls import CountedCalls
from hta_widgets.analysis.efficiency.devices import (
    Device,
    UsedDevice,
    added_devices,
    device_columns,
    peaks_of,
    used_device,
)
from hta_widgets.analysis.scope import rank_part
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.trace.arrays import Array, Codes, Ints, Rows
from hta_widgets.trace.call_args import call_args, decode_arg
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.memo import memo
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace

#: Rates of a call, as 32-bit floats: enough for what views show.
CALL_RATES = ("tflop_per_s", "gb_per_s", "roofline_share")
#: Columns that most calls of a signature share.
_SHARED = (
    "flops", "least_bytes", "bound", "above_peak", "recompute", "precision", "certainty", "reason",
)  # fmt: skip
#: Shares of the roofline from which work is near it, and below which it is far from it.
NEAR_SHARE: Final = THRESHOLDS["target_roofline_share"]
FAR_SHARE: Final = 0.3
#: Certainties of figures that are not estimates.
CERTAIN: Final = ("exact", "linked", "stated")
_FIRST_CODE = len(facts("event_classes")["light"])
_CODES = {name: _FIRST_CODE + code for code, name in enumerate(facts("bound_classes")["light"])}
_MAX_OPERATORS = 200  # operators whose args are read to find out whether a trace has shapes


@dataclass(frozen=True, eq=False)
class CallEfficiency:
    """The counted calls of a rank that have device work.

    `calls` has a row per call: ``row`` of its operator, ``longest`` row of its device work,
    ``device_ns``, ``kernels``, `CALL_RATES`, and the position of its other columns in
    `signatures`. `call_of_event` is the position of the call that an event belongs to, -1 for none.
    """

    calls: pd.DataFrame
    signatures: list[dict[str, Any]]
    call_of_event: Ints

    def values_of_calls(self, name: str, dtype: Any) -> Array:
        """Return one of the columns in `signatures`, by call."""
        by_signature = np.array([row[name] for row in self.signatures], dtype)
        values: Array = by_signature[self.calls["signature"].to_numpy()]
        return values

    def figures_of(self, call: int) -> dict[str, Any]:
        """Return the figures of a call as JSON; unknown ones are None."""
        row = self.calls.iloc[call]
        counts = {name: int(row[name]) for name in ("row", "kernels", "device_ns")}
        rates = {name: _none_if_nan(float(np.float32(row[name]))) for name in CALL_RATES}
        return {**counts, **rates, **self.signatures[int(row["signature"])]}


def has_shapes(trace: Trace) -> bool:
    """Return whether the first operators of a rank have the shapes of their inputs."""
    try:
        args = call_args(trace, operator_tree(trace).rows[:_MAX_OPERATORS])
    except TraceError:  # the file is gone
        return False
    return any(decode_arg(dims) for dims, *_ in args.texts)


def has_call_figures(trace: Trace) -> bool:
    """Return whether operators of a rank may have FLOPs and bytes: from shapes, or stated ones."""
    return getattr(trace.source, "states_work", False) or has_shapes(trace)


def call_efficiency(trace: Trace) -> CallEfficiency | None:
    """Return the figures of a rank's calls; None for ranks without shapes or stated work."""
    added = added_devices()
    return memo(trace, ("call_efficiency", repr(added)), lambda: _call_efficiency(trace, added))


def _call_efficiency(trace: Trace, added: Sequence[Device]) -> CallEfficiency | None:
    if not has_call_figures(trace):
        return None
    device = used_device(trace, None, added)
    try:
        times = call_times(rank_part(trace, Selection()), device)
    except TraceError:
        return None
    calls = times.signatures.calls
    has_work = times.kernels > 0
    if not has_work.any():
        return None
    position = np.where(has_work, np.cumsum(has_work) - 1, -1)
    frame = _call_frame(times, device)[has_work].reset_index(drop=True)
    groups = frame.groupby(list(_SHARED), sort=False, dropna=False)
    shared = frame.loc[~frame.duplicated(_SHARED), list(_SHARED)].to_dict("records")
    peak = device_columns(device)
    columns = ["row", "device_ns", "kernels", *CALL_RATES]
    longest = _longest_work(trace, calls)
    return CallEfficiency(
        frame[columns].assign(longest=longest, signature=groups.ngroup()),
        [
            {**{str(name): _none_if_nan(value) for name, value in row.items()}, **peak}
            for row in shared
        ],
        _call_of_event(trace, calls, position),
    )


def _none_if_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _call_frame(times: CallTimes, device: UsedDevice | None) -> pd.DataFrame:
    signature_set = times.signatures
    precision = np.array(PRECISION_NAMES, dtype=object)[times.precision]
    flops, least_bytes = signature_set.figures("flops"), signature_set.figures("min_bytes")
    frame = pd.DataFrame(
        {
            "row": signature_set.calls.rows,
            "device_ns": times.device_ns,
            "kernels": times.kernels,
            "count": 1,
            "flops": flops,
            "least_bytes": least_bytes,
            "total_flops": flops,
            "total_bytes": least_bytes,
            "peak_tflop_per_s": peaks_of(device, PRECISION_NAMES)[times.precision],
            "memory_gb_s": device.memory_gb_s if device else np.nan,
            "is_limited": ~(times.communicates | times.is_host_copy),
            "recompute": signature_set.is_recomputed,
            "precision": precision,
            "certainty": signature_set.texts_of_work("certainty"),
            "reason": times.reasons,
        }
    )
    frame = add_rates(frame.assign(**limits(frame)))
    return frame.astype(dict.fromkeys(CALL_RATES, np.float32))


def _longest_work(trace: Trace, calls: CountedCalls) -> Rows:
    """Return the longest device work of each call that has some; of equals, the first."""
    linked = calls.call_of_work >= 0
    work, call = calls.work[linked], calls.call_of_work[linked]
    order = np.lexsort((-work, trace.table.dur_ns[work], call))
    is_last = np.append(call[order][1:] != call[order][:-1], True)
    longest: Rows = work[order][is_last]
    return longest


def _call_of_event(trace: Trace, calls: CountedCalls, position: Ints) -> Ints:
    """Return the call of each kernel, counted operator, and operator that calls only that one."""
    tree, places = operator_tree(trace), np.append(position, -1)
    call_of_event = np.full(len(trace), -1, dtype=np.int64)
    if len(tree.rows):
        number = np.full(len(trace), -1, dtype=np.int64)
        number[calls.rows] = position
        call = number[tree.rows]
        below = tree.forest.subtree_sums((call >= 0).astype(np.int64))
        only = tree.forest.subtree_sums(np.maximum(call, 0))
        call_of_event[tree.rows] = np.where(below == 1, only, -1)
    call_of_event[calls.rows] = position
    call_of_event[calls.work] = places[calls.call_of_work]
    return call_of_event


def classes_of_calls(efficiency: CallEfficiency) -> Codes:
    """Return the code of the class of each call."""
    bound = efficiency.values_of_calls("bound", object)
    share = efficiency.calls["roofline_share"].to_numpy()
    is_estimate = ~np.isin(efficiency.values_of_calls("certainty", object), CERTAIN)
    is_far = (bound == "overhead") | (share < FAR_SHARE)
    conditions = {
        "no_figure": bound == "unknown",
        "above_peak": efficiency.values_of_calls("above_peak", np.bool_),
        "estimate_far": is_estimate & is_far,
        "estimate": is_estimate,
        "far": is_far,
        "compute_near": (bound == "compute") & (share >= NEAR_SHARE),
        "compute": bound == "compute",
        "memory_near": share >= NEAR_SHARE,
    }
    codes = np.select(
        list(conditions.values()), [_CODES[name] for name in conditions], _CODES["memory"]
    )
    return codes.astype(np.uint8)


def bound_classes(trace: Trace) -> Codes | None:
    """Return the code of the class of each event of a rank; None without figures."""
    efficiency = call_efficiency(trace)
    if efficiency is None:
        return None
    codes = np.append(classes_of_calls(efficiency), np.uint8(_CODES["no_figure"]))
    classes: Codes = codes[efficiency.call_of_event]
    return classes
