"""Efficiency of operators relative to the limits of their device, by signature.

Device work without a launching operator in the file has one row per kernel: a CUDA graph replay
launches hundreds of kernels with one call, and work launched before the recording has no call. The
arguments of such a kernel are unknown, so its row has a category derived from its name, a time, and
a reason instead of figures. For example, the replay of a decoding step has the row
``_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1``, category ``gemm``, "replayed from a graph".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_efficiency import (
    PRECISION_NAMES,
    THRESHOLDS,
    CallTimes,
    add_limits,
    add_rates,
    call_times,
    notes_of_ranks,
)
from hta_widgets.analysis.efficiency.calls import NO_SHAPES_NOTE
from hta_widgets.analysis.efficiency.devices import (
    Device,
    Peaks,
    UsedDevice,
    devices_of_user,
    used_device,
)
from hta_widgets.analysis.efficiency.kernel_names import kernel_category, kernel_units
from hta_widgets.analysis.efficiency.signatures import CallSignature, Signatures
from hta_widgets.analysis.frames import float64, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, narrow_selection, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS, is_graph_launch
from hta_widgets.text import share as share_text
from hta_widgets.trace.arrays import Ints, Rows, group_by_columns, group_statistics, sum_by_group
from hta_widgets.trace.host_stack import names_match, operator_tree
from hta_widgets.trace.intervals import CumulativeCoverage
from hta_widgets.trace.traceset import Selection, TraceSet

GroupKey = Literal["name", "category", "input_shapes", "input_types", "step", "phase"]
#: The default `group_by`, with one row per signature.
_SIGNATURE_KEYS: Final = ("name", "input_shapes")
#: Parameters of matrix products, convolutions and attention; -1 where not applicable.
_NUMBERS: Final = (
    "m", "n", "k", "batch", "heads", "kv_heads", "query_length", "key_length", "head_size",
    "channels_in", "channels_out", "groups", "min_flops", "max_flops",
)  # fmt: skip
_TEXTS: Final = ("layout", "kernel_size", "stride")
_ARGUMENTS: Final = ("input_shapes", "input_types", "input_strides", "concrete_inputs")
_SIGNATURE: Final = ("name", "category", *_ARGUMENTS, "flops_kind", "certainty", "reason")
#: Columns that follow the signature.
_RESULTS: Final = (
    "precision", "recompute", "count", "flops", "model_flops", "total_flops", "least_bytes",
    "intensity", "device_ns", "mean_ns", "min_ns", "max_ns", "overlapped_ns", "kernels",
    "tflop_per_s", "gb_per_s", "compute_share", "memory_share", "roofline_share", "roofline_ns",
    "saving_ns", "bound", "above_peak", *_NUMBERS, *_TEXTS, "device", "peak_tflop_per_s",
    "memory_gb_s", "peak_source", "peak_certainty",
)  # fmt: skip
_SUMS: Final = (
    "count", "kernels", "device_ns", "compute_kernel_ns", "overlapped_ns",
    "total_flops", "total_model_flops", "total_bytes", "compute_ns", "memory_ns", "limit_ns",
)  # fmt: skip
#: Figures per call: the field of `Work`, and the column with the sum over calls.
_FIGURES: Final = {
    "flops": ("flops", "total_flops"),
    "model_flops": ("model_flops", "total_model_flops"),
    "least_bytes": ("min_bytes", "total_bytes"),
}
_SCHEMA: Final = {
    **int64("rank step count kernels device_ns compute_kernel_ns overlapped_ns min_ns max_ns"),
    **dict.fromkeys(_NUMBERS, "int64"),
    **float64("inside flops model_flops least_bytes peak_tflop_per_s memory_gb_s"),
    **dict.fromkeys(("phase", *_SIGNATURE, *_TEXTS, "precision"), "str"),
    **dict.fromkeys(("device", "peak_source", "peak_certainty"), "str"),
    **dict.fromkeys(("recompute", "is_limited"), "bool"),
}
#: Values of columns that are unknown in rows of kernels.
_UNKNOWN: Final = {
    **{name: {"str": "", "bool": False}.get(dtype, -1) for name, dtype in _SCHEMA.items()},
    **dict.fromkeys((*_FIGURES, "peak_tflop_per_s", "memory_gb_s"), np.nan),
    "flops_kind": "none",
    "certainty": "unknown",
    "inside": 1.0,
}
_COMPUTE, _COMMUNICATION = KINDS.index("compute"), KINDS.index("communication")
#: Reasons why work belongs to no operator, by code.
_REASONS: Final = (
    "no launching call in the file",
    "launched outside of operators",
    "replayed from a graph",
    "communication",
)
_PHASES: Final = ("forward", "backward", "recompute", "optimizer")


@dataclass(frozen=True, slots=True)
class _RankRows:
    blocks: list[dict[str, Any]]
    device: UsedDevice
    has_shapes: bool
    totals: Counter[str]  # summed over ranks


@check_arguments
def operator_efficiency(
    traces: TraceSet,
    *,
    group_by: Sequence[GroupKey] = ("name", "input_shapes"),
    peaks: Peaks | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each operator signature's FLOPs, minimum bytes and distance to the device's limits.

    Each piece of device work counts once. Among nested operators, it counts for the outermost
    convolution or attention. If there is none, it counts for the innermost matrix product, or else
    for the innermost operator that launched it. Work that no operator launched, such as graph
    replays, has one row per kernel. FLOPs and minimum bytes are computed from arguments recorded
    with ``record_shapes=True``. Figures that the arguments do not determine are NaN, with a reason.

    A multiply-add counts as 2 FLOPs. FLOPs of matrix products, convolutions and attention are
    exact. FLOPs of other operators are nominal (``flops_kind="vector"``) and only serve as
    coordinates of a roofline. Minimum bytes count each input and each output once, so a real kernel
    moves at least as many unless its data are in a cache.

    Parameters
    ----------
    traces : TraceSet
    group_by : sequence of str, default ("name", "input_shapes")
        By default, one row per signature (name, shapes, types, strides and values), precision, and
        recomputation. Otherwise, one row per rank and combination of these columns, from ``name,
        category, input_shapes, input_types, step, phase``; figures per call are means if the calls
        differ.
    peaks : str or mapping, optional
        A device of ``hw.devices.table``, or TFLOP/s by precision and ``memory_gb_s``. Default: the
        device that the file names.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The operators to analyze, restricted by time and ranks. Default: all. All work below them
        counts. The window clips device work; an operator whose work is clipped counts as a fraction
        of a call.

    Returns
    -------
    DataFrame
        Ordered by rank, then by device time. In addition to the keys and the arguments as in the
        file:

        - ``count``, the number of calls; ``kernels``; ``device_ns``, and per call ``mean_ns,
          min_ns, max_ns``; ``overlapped_ns``, the part during which the rank communicates
        - ``flops, model_flops, least_bytes`` per call; ``total_flops`` of all calls;
          ``model_flops`` exclude what attention recomputes in its backward pass
        - ``tflop_per_s, gb_per_s``; ``intensity``, FLOPs per byte; ``compute_share, memory_share``
          of the peaks; ``roofline_share``, the share of the rate that the intensity allows
        - ``roofline_ns``, the time at that rate; ``saving_ns``, the time saved by reaching 70 % of
          that rate; -1 if unknown
        - ``bound``: ``compute``, ``memory``, ``overhead`` (kernels below 10 µs, far from both
          limits), ``unknown``; ``above_peak``: a share is above 102 %
        - ``m, n, k, batch, layout`` of matrix products (``batch`` also of others); ``heads,
          kv_heads, query_length, key_length, head_size``; ``channels_in, channels_out, groups,
          kernel_size, stride``; ``min_flops, max_flops`` of attention over sequences of unknown
          lengths; -1 or empty if they do not apply
        - ``certainty``: ``exact``, ``linked`` (a shape comes from another call), ``estimate``,
          ``upper bound``, ``stated`` (by the profiler, as XLA's does), ``unknown``; ``reason``: why
          a figure is unknown, or what an estimate assumes
        - ``device, peak_tflop_per_s, peak_source, peak_certainty``

        ``.attrs``: ``device_ns`` of all device work; ``covered_ns`` of rows with figures;
        ``unknown_ns`` of kernels without figures; ``known_share``, the share of kernel time below
        operators whose matrix FLOPs are known, or that do no matrix work; ``launched_nothing``, the
        number of matrix operators that did not compute; ``thresholds`` of the verdicts.

    Notes
    -----
    A share above 100 % is flagged instead of clipped. Winograd and FFT compute fewer products than
    the definition counts, small data may stay in caches, and a peak may be wrong.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    group_by = tuple(dict.fromkeys(group_by))
    parts = rank_parts(traces, replace(chosen, start_ns=None, end_ns=None), captured=True)
    analyze = partial(_efficiency_of_rank, user_devices=devices_of_user(peaks), keys=group_by)
    results = list(map_ranks(parts, analyze, (chosen.start_ns, chosen.end_ns)))
    totals = sum((result.totals for result in results), Counter[str]())
    blocks = [block for result in results for block in result.blocks]
    frame = pd.DataFrame(stack_blocks(blocks, _SCHEMA))
    for name, (_, total) in _FIGURES.items():
        frame[total] = frame[name] * frame["inside"]
    frame = add_limits(frame)
    kind = frame["flops_kind"]
    has_known_flops = (kind == "vector") | ((kind == "matrix") & frame["flops"].notna())
    known_ns = int(frame["compute_kernel_ns"][has_known_flops].sum())
    covered = frame["total_flops"].notna() | frame["total_bytes"].notna()
    covered_ns = int(frame["device_ns"][covered].sum())
    if group_by != _SIGNATURE_KEYS:
        frame = _group_rows(frame, ["rank", *group_by])
    frame = add_rates(frame)
    order = {"rank": True, "device_ns": False, "total_flops": False, "name": True}
    order = {key: ascending for key, ascending in order.items() if key in frame}
    frame = frame.sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    keys = [name for name in group_by if name not in _SIGNATURE]
    compute_ns = totals["compute_ns"]
    return result_frame(
        {name: frame[name] for name in ("rank", *keys, *_SIGNATURE, *_RESULTS) if name in frame},
        matched={"operators": totals["operators"], "calls": int(frame["count"].sum())},
        note=_notes(results, totals, known_ns),
        device_ns=totals["work_ns"],
        covered_ns=covered_ns,
        unknown_ns=compute_ns - known_ns,
        known_share=known_ns / compute_ns if compute_ns else np.nan,
        launched_nothing=totals["launched_nothing"],
        thresholds=dict(THRESHOLDS),
    )


def _notes(results: Sequence[_RankRows], totals: Mapping[str, int], known_ns: int) -> list[str]:
    if not results:
        return [note_text("no_ranks")]
    if not totals["operators"]:
        return [note_text("no_operators")]
    if not totals["calls"]:
        return ["no operator launched device work"]
    if not any(len(block["count"]) for result in results for block in result.blocks):
        return [note_text("no_operators_selected")]
    notes = notes_of_ranks([(result.device, result.has_shapes) for result in results])
    compute_ns = totals["compute_ns"]
    if known_ns < compute_ns / 2 and notes != [NO_SHAPES_NOTE]:
        part = share_text(known_ns / compute_ns)
        notes.append(f"matrix FLOPs are known for {part} of the kernels' time")
    return notes


def _efficiency_of_rank(
    part: RankPart,
    window_ns: tuple[int | None, int | None],
    *,
    user_devices: Sequence[Device],
    keys: tuple[str, ...],
) -> _RankRows:
    device = used_device(part.trace, user_devices)
    if window_ns != (None, None):
        return _rank_rows(part.with_window(*window_ns), device, keys)
    key = ("operator_efficiency", repr(user_devices), keys)
    return part.get_or_compute(key, lambda: _rank_rows(part, device, keys))


def _rank_rows(part: RankPart, device: UsedDevice, keys: tuple[str, ...]) -> _RankRows:
    times = call_times(part, device)
    calls = times.signatures.calls
    blocks = [_call_rows(part, times, device, keys)]
    operators = len(operator_tree(part.trace).rows)
    if operators:
        blocks.append(_kernel_rows(part, times, keys))
    totals = Counter(
        work_ns=times.all_work_ns,
        compute_ns=times.all_compute_ns,
        launched_nothing=calls.launched_nothing,
        operators=max(operators, len(calls)),
        calls=len(calls),
    )
    return _RankRows(blocks, device, times.signatures.has_shapes, totals)


def _call_rows(
    part: RankPart, times: CallTimes, device: UsedDevice, keys: tuple[str, ...]
) -> dict[str, Any]:
    signature_set, calls = times.signatures, times.signatures.calls
    counted = np.flatnonzero(times.is_counted)
    step = part.table.step[calls.rows] if "step" in keys else np.full(len(calls), -1)
    phase = _phases(signature_set) if "phase" in keys else np.zeros(len(calls), dtype=np.int64)
    category = signature_set.texts_of_work("category")
    category[times.communicates] = "communication"
    # Calls in a row agree in all of these columns.
    columns = [signature_set.row, signature_set.is_recomputed, times.precision, step, phase]
    columns += [times.communicates, times.is_host_copy]
    first_counted, group = group_by_columns([column[counted] for column in columns])
    first = counted[first_counted]
    rows = [signature_set.distinct[code] for code in signature_set.code[first].tolist()]
    precisions = [PRECISION_NAMES[code] for code in times.precision[first].tolist()]
    return {
        "rank": part.rank,
        "step": step[first],
        "phase": [_PHASES[code] for code in phase[first].tolist()],
        "category": category[first],
        **_signature_columns(rows),
        "reason": times.reasons[first],
        "precision": precisions,
        "recompute": signature_set.is_recomputed[first],
        "is_limited": ~(times.communicates | times.is_host_copy)[first],
        **_sums(
            group,
            len(first),
            times.device_ns[counted],
            kernels=times.kernels[counted],
            compute_kernel_ns=times.compute_ns[counted],
            overlapped_ns=times.overlapped_ns[counted],
        ),
        **_figures_of_calls(times, counted, group, first),
        "peak_tflop_per_s": device.peaks(precisions),
        "memory_gb_s": device.memory_gb_s,
        **device.columns,
    }


def _signature_columns(rows: Sequence[CallSignature]) -> dict[str, Any]:
    """Return the row columns that are determined by signatures."""
    parameters = [row.work.parameters or {} for row in rows]
    return {
        "name": [row.name for row in rows],
        **{
            name: [row.texts[number].decode("utf-8", "replace") for row in rows]
            for number, name in enumerate(_ARGUMENTS)
        },
        "flops_kind": [row.work.kind for row in rows],
        "certainty": [row.work.certainty for row in rows],
        **{name: np.array([sizes.get(name, -1) for sizes in parameters]) for name in _NUMBERS},
        **{name: [sizes.get(name, "") for sizes in parameters] for name in _TEXTS},
    }


def _phases(signature_set: Signatures) -> Ints:
    phase = np.full(len(signature_set.calls), _PHASES.index("forward"), dtype=np.int64)
    phase[signature_set.calls.is_backward] = _PHASES.index("backward")
    phase[signature_set.is_recomputed] = _PHASES.index("recompute")
    phase[signature_set.texts_of_work("category") == "optimizer"] = _PHASES.index("optimizer")
    return phase


def _sums(group: Ints, size: int, device_ns: Ints, **measures: Ints) -> dict[str, Ints]:
    spent = group_statistics(group, size, device_ns)
    return {
        "count": spent.count,
        "device_ns": spent.sum,
        "min_ns": spent.min,
        "max_ns": spent.max,
        **{name: sum_by_group(group, values, size) for name, values in measures.items()},
    }


def _kernel_rows(part: RankPart, times: CallTimes, keys: tuple[str, ...]) -> dict[str, Any]:
    calls, table = times.signatures.calls, part.table
    work = calls.work[(calls.call_of_work < 0) & part.contains(calls.work)]
    if part.has_window:
        work = work[part.durations(work) > 0]
    start, end = part.clip_rows(work)
    communicated_before = CumulativeCoverage(*part.union_of_all_of_kinds("communication"))
    overlapped_ns = communicated_before(end) - communicated_before(start)
    communicates = table.kind[work] == _COMMUNICATION
    launch = part.trace.launch_of[work]
    is_graph = names_match(part.trace, launch, is_graph_launch)
    reason_code = np.where(launch < 0, 0, 1 + is_graph)
    reason_code[communicates] = _REASONS.index("communication")
    step = table.step[work] if "step" in keys else np.full(len(work), -1)
    first, group = group_by_columns([table.name[work], reason_code, step])
    names = [table.names[code] for code in table.name[work[first]].tolist()]
    reasons = [_REASONS[code] for code in reason_code[first].tolist()]
    return {
        **_UNKNOWN,
        "rank": part.rank,
        "step": step[first],
        "name": names,
        "category": [
            "communication" if reason == "communication" else kernel_category(name)
            for name, reason in zip(names, reasons, strict=True)
        ],
        "reason": reasons,
        "precision": [kernel_units(name).precision for name in names],
        **_sums(
            group,
            len(first),
            end - start,
            kernels=np.ones(len(work), np.int64),
            compute_kernel_ns=np.where(table.kind[work] == _COMPUTE, end - start, 0),
            overlapped_ns=np.where(communicates, 0, overlapped_ns),
        ),
    }


def _figures_of_calls(times: CallTimes, calls: Rows, group: Rows, first: Rows) -> dict[str, Any]:
    """Return the per-call figures of each row, averaged if its calls differ.

    ``inside`` is the number of calls; a clipped call counts as a fraction.
    """
    signature_set = times.signatures
    code, share_inside = signature_set.code, times.inside[calls]
    mixed = np.unique(group[code[calls] != code[first][group]])
    inside = np.bincount(group, share_inside, minlength=len(first))
    columns: dict[str, Any] = {"inside": inside}
    for name, (figure, _) in _FIGURES.items():
        of_calls = signature_set.figures(figure)
        sums = np.bincount(group, of_calls[calls] * share_inside, minlength=len(first))
        columns[name] = of_calls[first]
        columns[name][mixed] = sums[mixed] / inside[mixed]
    return columns


def _group_rows(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Sum rows with the same keys; other columns keep only values shared by all of these rows."""
    groups = frame.groupby(keys, sort=False)
    grouped = groups[list(_SUMS)].sum(min_count=1)
    grouped["min_ns"], grouped["max_ns"] = groups["min_ns"].min(), groups["max_ns"].max()
    is_repeated = frame.duplicated(keys)
    first = frame[~is_repeated].set_index(keys)
    for name in frame.columns.difference([*grouped, *keys], sort=False):
        # If the rows of a group differ, some row repeats the keys but not the value.
        is_shared = frame.duplicated([*keys, name]) == is_repeated
        all_share = is_shared.groupby([frame[key] for key in keys], sort=False).all()
        unknown: Any = {"b": False, "i": -1, "f": np.nan}.get(frame[name].dtype.kind, "")
        grouped[name] = first[name].where(all_share, unknown).astype(frame[name].dtype)
    return grouped.reset_index()
