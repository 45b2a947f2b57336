"""Device time, precision and limits of the counted calls of a rank.

The device time of a call is the union of the intervals of its device work. For example, a call with
two kernels of 30 ns that overlap by 10 ns has a device time of 50 ns.

The limit of a call is the longer of two times: its FLOPs at the peak rate, and its bytes at the
memory bandwidth. For example, 51.6 GFLOP at a peak of 989 TFLOP/s take 52 µs, and 54 MB at 3.35
TB/s take 16 µs. The limit is 52 µs (``compute``), so a call of 104 µs has a roofline share of 50 %.

`operator_efficiency` aggregates calls. The views show individual calls: in the details of an
operator and of its kernels, in event colors, and as achieved TFLOP/s over time. An operator such as
``aten::linear`` has the figures of the ``aten::addmm`` inside it if no other call in it counts.

The color of an event depends on its class: what limits its call, and how close the call is to the
limit. A ``gemm`` that is limited by FLOPs is in class ``compute`` at 52 % of its roofline,
``compute_near`` at 75 %, and ``far`` at 12 %. ``facts/bound_classes.json`` defines the colors.
Class codes follow those of ``facts/event_classes.json``, so a code is unique in tiles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.calls import NO_SHAPES_NOTE
from hta_widgets.analysis.efficiency.devices import (
    PRECISIONS,
    Device,
    UsedDevice,
    devices_of_user,
    unknown_device_note,
    used_device,
)
from hta_widgets.analysis.efficiency.kernel_names import call_precision, kernel_units
from hta_widgets.analysis.efficiency.signatures import (
    CountedCalls,
    Signatures,
    signatures_with_stated_work,
)
from hta_widgets.analysis.scope import RankPart, rank_part
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import rank_list
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Codes,
    Floats,
    Ints,
    Rows,
    group_by_columns,
    mask_of_rows,
    sum_by_group,
)
from hta_widgets.trace.call_args import call_args, decode_arg
from hta_widgets.trace.host_stack import names_match, operator_tree
from hta_widgets.trace.intervals import CumulativeCoverage, covered_by_group, union_by_group
from hta_widgets.trace.memo import memo
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection

_COMPUTE, _COMMUNICATION = KINDS.index("compute"), KINDS.index("communication")
_MATRIX_WORDS = re.compile(
    r"gemm|gemv|conv|winograd|fprop|dgrad|wgrad|attention|fmha|cijk|nvjet|matmul|flash",
    re.IGNORECASE,
)
_HOST_COPY = re.compile(r"HtoD|DtoH|HostToDevice|DeviceToHost", re.IGNORECASE)
#: Precisions of calls, by code; code 0 is unknown.
PRECISION_NAMES = ("", *PRECISIONS)
#: Thresholds of verdicts, returned in ``attrs["thresholds"]``.
THRESHOLDS: Final = {
    "overhead_kernel_ns": 10_000,
    "overhead_share": 0.1,
    "above_peak_share": 1.02,
    "target_roofline_share": 0.7,
}
_MAX_NS: Final = float(1 << 62)

#: Operators without matrix products run on ordinary units, which compute small types in FP32.
_VECTOR_PRECISION = {
    **dict.fromkeys(("float", "c10::Half", "c10::BFloat16"), PRECISION_NAMES.index("fp32")),
    "double": PRECISION_NAMES.index("fp64"),
}
#: Rates of a call, stored as 32-bit floats, which suffice for the views.
CALL_RATES = ("tflop_per_s", "gb_per_s", "roofline_share")
#: Columns with the same values for most calls of a signature.
_SHARED = (
    "flops", "least_bytes", "bound", "above_peak", "recompute", "precision", "certainty", "reason",
)  # fmt: skip
#: Roofline shares from which a call is near its limit, and below which it is far from it.
NEAR_SHARE: Final = THRESHOLDS["target_roofline_share"]
FAR_SHARE: Final = 0.3
#: Values of ``certainty`` that are not estimates.
CERTAIN: Final = ("exact", "linked", "stated")
_FIRST_CODE = len(facts("event_classes")["light"])
_CODES = {name: _FIRST_CODE + code for code, name in enumerate(facts("bound_classes")["light"])}
_MAX_OPERATORS = 200  # number of operators whose args are searched for shapes


@dataclass(frozen=True, eq=False)
class CallTimes:
    """Times of the counted calls of a rank; `precision` is an index into `PRECISION_NAMES`.

    `is_counted` marks selected calls with device work; without device work, those in the window.

    `compute_ns` is the time of compute kernels. `inside` is the share of each call's work in the
    window. `is_host_copy` marks copies to or from the host, which memory bandwidth does not limit.
    """

    signatures: Signatures
    is_counted: Bools
    device_ns: Ints
    compute_ns: Ints
    overlapped_ns: Ints
    kernels: Ints
    precision: Ints
    communicates: Bools
    is_host_copy: Bools
    inside: Floats
    all_work_ns: int
    all_compute_ns: int

    @property
    def reasons(self) -> Array:
        """Why each call has no figures or no limit; empty for calls with both."""
        reasons = self.signatures.texts_of_work("reason")
        reasons[self.is_host_copy] = "limited by the link to the host"
        reasons[self.communicates] = "communication"
        return reasons


def call_times(part: RankPart, device: UsedDevice) -> CallTimes:
    """Return the times of a rank's counted calls in the window of `part`."""
    signature_set = signatures_with_stated_work(part.trace)
    calls, table = signature_set.calls, part.table
    count = len(calls)
    start, end = part.clip_rows(calls.work)
    is_inside = (end > start) | (not part.has_window)
    work_ns = np.where(is_inside, end - start, 0)
    is_compute = table.kind[calls.work] == _COMPUTE
    counted = np.flatnonzero(is_inside & (calls.call_of_work >= 0))
    work, call = calls.work[counted], calls.call_of_work[counted]
    compute_ns = np.where(is_compute, work_ns, 0)
    piece_call, piece_start, piece_end = union_by_group(call, start[counted], end[counted], count)
    device_ns = sum_by_group(piece_call, piece_end - piece_start, count)
    communicated_before = CumulativeCoverage(*part.union_of_all_of_kinds("communication"))
    overlap_ns = communicated_before(piece_end) - communicated_before(piece_start)
    communicates = mask_of_rows(call[table.kind[work] == _COMMUNICATION], count)
    is_host_copy = names_match(part.trace, work, _HOST_COPY.search)
    kernels = np.bincount(call, minlength=count)
    runs = kernels > 0 if len(calls.work) else part.is_in_window(table.start_ns[calls.rows])
    return CallTimes(
        signatures=signature_set,
        is_counted=part.contains(calls.rows) & ~signature_set.is_stopped & runs,
        device_ns=device_ns,
        compute_ns=sum_by_group(call, compute_ns[counted], count),
        overlapped_ns=np.where(communicates, 0, sum_by_group(piece_call, overlap_ns, count)),
        kernels=kernels,
        precision=_precisions(part.trace, signature_set, work, call, device),
        communicates=communicates,
        is_host_copy=mask_of_rows(call[is_host_copy], count),
        inside=_share_inside(part, calls, device_ns),
        all_work_ns=int(work_ns.sum()),
        all_compute_ns=int(compute_ns.sum()),
    )


def _share_inside(part: RankPart, calls: CountedCalls, inside_ns: Ints) -> Floats:
    """Return the share of each call's device time that is in the window; 1 without a window."""
    if not part.has_window:
        return np.ones(len(calls))
    linked = calls.call_of_work >= 0
    work, table = calls.work[linked], part.table
    times = table.start_ns[work], table.end_ns[work]
    full_ns = covered_by_group(calls.call_of_work[linked], *times, len(calls))
    return np.where(full_ns > 0, inside_ns / np.maximum(full_ns, 1), 1.0)


@cache
def _matrix_score(name: str) -> int:
    """Return 2 for a kernel on tensor cores, 1 if its name suggests matrix work, else 0."""
    if kernel_units(name).tensor_core == "yes":
        return 2
    return int(_MATRIX_WORDS.search(name) is not None)


def _precisions(
    trace: Trace, signature_set: Signatures, work: Rows, call: Ints, device: UsedDevice
) -> Ints:
    """Return each call's precision, from its main kernel if it has matrix work, or its type."""
    distinct, is_matrix = signature_set.distinct, signature_set.calls.is_matrix
    by_type = [_VECTOR_PRECISION.get(signature.input_type, 0) for signature in distinct]
    precision = np.array(by_type, dtype=np.int64)[signature_set.code]
    precision[is_matrix] = 0
    is_of_matrix = is_matrix[call]
    matrix_call, kernel_name = _main_kernels(trace, work[is_of_matrix], call[is_of_matrix])
    signature = signature_set.code[matrix_call]
    first, pair = group_by_columns([kernel_name, signature])
    names = [
        call_precision(kernel_units(trace.table.names[name]), distinct[code].input_type, device)
        for name, code in zip(kernel_name[first].tolist(), signature[first].tolist(), strict=True)
    ]
    precision[matrix_call] = np.array(list(map(PRECISION_NAMES.index, names)), np.int64)[pair]
    return precision


def _main_kernels(trace: Trace, work: Rows, call: Ints) -> tuple[Ints, Array]:
    """Return the calls that have work, and the name of the main kernel of each.

    The main kernel is the longest of the kernels with the highest `_matrix_score`.
    """
    name = trace.table.name[work]
    used, position = np.unique(name, return_inverse=True)
    scores = [_matrix_score(trace.table.names[code]) for code in used.tolist()]
    score = np.array(scores, dtype=np.int64)[position]
    main = _largest_of_calls(call, trace.table.dur_ns[work], score)
    return call[main], name[main]


def _largest_of_calls(call: Ints, *keys: Ints) -> Rows:
    """Return the position of each call's largest entry; the last of `keys` takes precedence."""
    order = np.lexsort((*keys, call))
    largest: Rows = order[np.append(np.diff(call[order]) != 0, True)[: len(order)]]
    return largest


def add_limits(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the times at peak rate and at memory bandwidth, and the longer of these."""
    with np.errstate(divide="ignore", invalid="ignore"):
        compute_ns = frame["total_flops"] / frame["peak_tflop_per_s"] / 1e3
        memory_ns = frame["total_bytes"] / frame["memory_gb_s"]
    limit_ns = np.fmax(compute_ns, memory_ns)
    return frame.assign(compute_ns=compute_ns, memory_ns=memory_ns, limit_ns=limit_ns)


def add_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Add rates, shares of peaks and verdicts to a frame of `add_limits`."""
    time_ns = frame["device_ns"].where(frame["device_ns"] > 0)
    flops, size_bytes, limit_ns = frame["total_flops"], frame["total_bytes"], frame["limit_ns"]
    compute_share = frame["compute_ns"] / time_ns
    memory_share = (frame["memory_ns"] / time_ns).where(frame["is_limited"])
    peak_share = np.fmax(compute_share, memory_share)
    saving_ns = (time_ns - limit_ns / THRESHOLDS["target_roofline_share"]).clip(lower=0)
    is_known = (limit_ns > 0) & time_ns.notna() & frame["is_limited"]
    kernel_ns = time_ns / frame["kernels"].clip(lower=1)
    is_overhead = kernel_ns < THRESHOLDS["overhead_kernel_ns"]
    is_overhead &= peak_share < THRESHOLDS["overhead_share"]
    is_compute = frame["compute_ns"].fillna(0) >= frame["memory_ns"].fillna(0)
    return frame.assign(
        mean_ns=frame["device_ns"] / frame["count"].clip(lower=1),
        intensity=flops / size_bytes.where(size_bytes > 0),
        tflop_per_s=flops / time_ns / 1e3,
        gb_per_s=size_bytes / time_ns,
        compute_share=compute_share,
        memory_share=memory_share,
        roofline_share=(limit_ns / time_ns).where(frame["is_limited"]),
        roofline_ns=_round_ns(limit_ns.where(is_known, -1)),
        saving_ns=_round_ns(saving_ns.where(is_known, -1)),
        bound=np.select(
            [~is_known, is_overhead, is_compute], ["unknown", "overhead", "compute"], "memory"
        ),
        above_peak=peak_share > THRESHOLDS["above_peak_share"],
    )


def _round_ns(time_ns: pd.Series) -> pd.Series:
    # With a tiny rate, the time may not fit in an integer.
    return time_ns.clip(upper=_MAX_NS).round().astype(np.int64)


@dataclass(frozen=True, eq=False)
class CallEfficiency:
    """The counted calls of a rank that have device work.

    `calls` has a row per call: ``row`` of its operator, ``longest`` (row of its longest device
    work), ``device_ns``, ``kernels``, `CALL_RATES`, and ``signature``, the row of `signatures` with
    its other columns. `call_of_event` is the position of the call to which an event belongs; -1 if
    there is none.
    """

    calls: pd.DataFrame
    signatures: list[dict[str, Any]]
    call_of_event: Ints

    def values_of_calls(self, name: str, dtype: Any) -> Array:
        """Return the column `name` of `signatures` for each call."""
        by_signature = np.array([row[name] for row in self.signatures], dtype)
        values: Array = by_signature[self.calls["signature"].to_numpy()]
        return values

    def figures_of(self, call: int) -> dict[str, Any]:
        """Return the figures of a call as a JSON object, with None for unknown figures."""
        row = self.calls.iloc[call]
        counts = {name: int(row[name]) for name in ("row", "kernels", "device_ns")}
        rates = {name: _none_if_nan(float(np.float32(row[name]))) for name in CALL_RATES}
        return {**counts, **rates, **self.signatures[int(row["signature"])]}


def notes_of_ranks(ranks: Sequence[tuple[UsedDevice, bool]]) -> list[str]:
    """Return notes about unknown devices and missing shapes.

    `ranks` states, for each rank, its device and whether its operators have shapes.
    """
    without = [device.rank for device, has_input_shapes in ranks if not has_input_shapes]
    if len(without) == len(ranks):
        return [NO_SHAPES_NOTE]
    lack = f"no operator of {rank_list(without)} has the shapes of its inputs" if without else ""
    return [unknown_device_note([device for device, _ in ranks]), lack]


def has_shapes(trace: Trace) -> bool:
    """Return whether a rank's first operators state the shapes of their inputs."""
    try:
        args = call_args(trace, operator_tree(trace).rows[:_MAX_OPERATORS])
    except TraceError:  # the file was removed
        return False
    return any(decode_arg(dims) for dims, *_ in args.texts)


def has_call_figures(trace: Trace) -> bool:
    """Return whether a rank's operators may have FLOPs and bytes, from shapes or the file."""
    return getattr(trace.source, "states_work", False) or has_shapes(trace)


def call_efficiency(trace: Trace) -> CallEfficiency | None:
    """Return the figures of a rank's calls; None if it has neither shapes nor stated figures."""
    added = devices_of_user()
    return memo(trace, ("call_efficiency", repr(added)), lambda: _call_efficiency(trace, added))


def _call_efficiency(trace: Trace, added: Sequence[Device]) -> CallEfficiency | None:
    if not has_call_figures(trace):
        return None
    device = used_device(trace, added)
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
    columns = ["row", "device_ns", "kernels", *CALL_RATES]
    linked = calls.call_of_work >= 0
    work = calls.work[linked]
    # Of pieces of work with equal durations, the first counts as the longest.
    longest = _largest_of_calls(calls.call_of_work[linked], -work, trace.table.dur_ns[work])
    return CallEfficiency(
        frame[columns].assign(longest=work[longest], signature=groups.ngroup()),
        [
            {**{str(name): _none_if_nan(value) for name, value in row.items()}, **device.columns}
            for row in shared
        ],
        _call_of_event(trace, calls, position),
    )


def _none_if_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _call_frame(times: CallTimes, device: UsedDevice) -> pd.DataFrame:
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
            "peak_tflop_per_s": device.peaks(PRECISION_NAMES)[times.precision],
            "memory_gb_s": device.memory_gb_s,
            "is_limited": ~(times.communicates | times.is_host_copy),
            "recompute": signature_set.is_recomputed,
            "precision": precision,
            "certainty": signature_set.texts_of_work("certainty"),
            "reason": times.reasons,
        }
    )
    frame = add_rates(add_limits(frame))
    return frame.astype(dict.fromkeys(CALL_RATES, np.float32))


def _call_of_event(trace: Trace, calls: CountedCalls, position: Ints) -> Ints:
    """Return the call of each kernel and counted operator, and of operators with a single call."""
    tree = operator_tree(trace)
    call_of_event = np.full(len(trace), -1, dtype=np.int64)
    call_of_event[calls.rows] = position
    if len(tree.rows):
        call = call_of_event[tree.rows]
        calls_below = tree.forest.subtree_sums((call >= 0).astype(np.int64))
        # If there is only one call below, the sum of positions is its position.
        only_call = tree.forest.subtree_sums(np.maximum(call, 0))
        call_of_event[tree.rows] = np.where(calls_below == 1, only_call, -1)
        call_of_event[calls.rows] = position
    call_of_event[calls.work] = np.append(position, -1)[calls.call_of_work]
    return call_of_event


def classes_of_calls(efficiency: CallEfficiency) -> Codes:
    """Return the class code of each call."""
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
    """Return the class code of each event of a rank; None if it has no figures."""
    efficiency = call_efficiency(trace)
    if efficiency is None:
        return None
    codes = np.append(classes_of_calls(efficiency), np.uint8(_CODES["no_figure"]))
    return codes[efficiency.call_of_event]
