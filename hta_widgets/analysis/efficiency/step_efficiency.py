"""MFU and HFU of each step and rank.

MFU is the share of a device's peak that a step's model needs: its FLOPs without recomputation,
divided by the step's duration and by the peak. HFU includes recomputation. For example, a step of
174.8 ms with 777.6 GFLOP on a device of 15.7 TFLOP/s has an MFU of 28.3 %.

The MFU is the product of four factors, which point to different causes: the share of the step
during which the device is busy, the share of this time spent in matrix operators, their rate
divided by the peak, and model FLOPs divided by all FLOPs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_efficiency import (
    PRECISION_NAMES,
    THRESHOLDS,
    CallTimes,
    call_times,
    notes_of_ranks,
)
from hta_widgets.analysis.efficiency.calls import NO_SHAPES_NOTE
from hta_widgets.analysis.efficiency.devices import (
    Device,
    Peaks,
    Precision,
    UsedDevice,
    devices_of_user,
    used_device,
)
from hta_widgets.analysis.frames import result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.analysis.steps import step_length, step_times, whole_steps
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import plural
from hta_widgets.trace.arrays import Bools, Floats, Ints
from hta_widgets.trace.intervals import total_length
from hta_widgets.trace.traceset import Selection, TraceSet

_COMPUTE: Final = KINDS.index("compute")
#: Share of the work that must be known; if less is known, an MFU is a lower bound.
_MIN_KNOWN: Final = 0.5
_FLOPS: Final = (
    "forward_flops", "backward_flops", "recompute_flops", "attention_recompute_flops",
    "model_flops", "flops",
)  # fmt: skip
#: Times that the FLOPs would take at peak rate.
_PEAK_TIMES: Final = ("model_peak_ns", "peak_ns")
#: Start, duration and device time of a step.
_TIMES: Final = ("start_ns", "step_ns", "busy_ns")
_SCHEMA: Final = {
    **dict.fromkeys(("rank", "step", *_TIMES, "matrix_device_ns"), "int64"),
    **dict.fromkeys((*_FLOPS, *_PEAK_TIMES, "known_share", "peak_tflop_per_s"), "float64"),
    **dict.fromkeys(("precision", "device", "peak_source", "peak_certainty"), "str"),
    **dict.fromkeys(("at_least", "is_whole"), "bool"),
}
_COLUMNS: Final = (
    "rank", "step", "start_ns", "step_ns", *_FLOPS, "tflop_per_s", "mfu", "hfu", "known_share",
    "matrix_device_ns", "busy_ns", "busy_share", "matrix_share", "matrix_efficiency", "precision",
    "peak_tflop_per_s", "device", "peak_source", "peak_certainty", "at_least",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _RankSteps:
    columns: dict[str, Any]  # with one row per step
    device: UsedDevice
    has_shapes: bool
    outside_flops: float  # of operators outside steps


@check_arguments
def step_efficiency(
    traces: TraceSet,
    *,
    peaks: Peaks | None = None,
    precision: Precision | None = None,
    model_flops: float | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the MFU and HFU of each rank's steps, and how much of their work is known.

    Only matrix products, convolutions and attention count, or all FLOPs that a file of XLA states.
    A step is the host's ``ProfilerStep#n``. If hosts run ahead of the devices, its duration is
    measured on the device, as in `step_times`. FLOPs belong to the step that starts the operator.

    A forward operator that runs again within the backward pass is recomputation, as in activation
    checkpointing. A trace identifies neither selective checkpointing nor recomputation by a
    compiler; both count as model FLOPs.

    Parameters
    ----------
    traces : TraceSet
    peaks : str or mapping, optional
        A device of ``hw.devices.table``, or TFLOP/s by precision. Default: the device that the file
        names.
    precision : str, optional
        The precision whose peak applies to all work, for example ``"bf16"``. Default: the precision
        of each operator.
    model_flops : float, optional
        Model FLOPs per step of a rank. Default: computed from the operators.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The operators to analyze, restricted by time and ranks. Default: all. The window clips steps
        and work; an operator whose work is clipped counts as a fraction of a call.

    Returns
    -------
    DataFrame
        One row per rank and step, in this order. Without steps, one row per rank with ``step`` -1:

        - ``start_ns, step_ns, busy_ns, matrix_device_ns`` (int64)
        - ``forward_flops, backward_flops, recompute_flops``; ``attention_recompute_flops``, for
          scores that attention recomputes in its backward pass; ``flops``, the total;
          ``model_flops``, without both kinds of recomputation
        - ``tflop_per_s`` of model FLOPs; ``mfu``, ``hfu`` (float64, NaN if unknown)
        - ``busy_share`` of the step; ``matrix_share`` of the busy time; ``matrix_efficiency``:
          matrix FLOPs divided by their time and the peak
        - ``known_share``: share of kernel time below operators whose matrix FLOPs are known, or
          that do no matrix work; ``at_least``: this share is below 50 %, so the MFU is a lower
          bound
        - ``precision`` with the most FLOPs, and its ``peak_tflop_per_s``; ``device, peak_source,
          peak_certainty``

        ``.attrs``: ``job_mfu``, the mean over ranks and whole steps; ``ahead``, the steps measured
        on the device; ``outside_flops`` of operators outside all steps.
    """
    if model_flops is not None and model_flops < 0:
        raise TraceError(
            f"model_flops= is {model_flops!r}", remedy="Give the model FLOPs of a step, at least 0."
        )
    times = step_times(traces, selection=selection, window=window, ranks=ranks)
    parts = rank_parts(traces, selection, window, ranks, captured=True)
    lengths = dict(iter(_lengths(times).groupby("rank")))
    analyze = partial(_steps_of_rank, user_devices=devices_of_user(peaks), precision=precision)
    lengths_of_ranks = [(lengths.get(rank),) for rank in parts.ranks]
    results = list(map_ranks(parts, analyze, each=lengths_of_ranks))
    frame = pd.DataFrame(stack_blocks([result.columns for result in results], _SCHEMA))
    if model_flops is not None:
        scale = model_flops / frame["model_flops"].where(frame["model_flops"] > 0)
        frame["model_peak_ns"] *= scale
        frame["model_flops"] = model_flops
    frame = _add_shares(frame)
    mfu_of_whole_steps = frame["mfu"][frame["is_whole"]]
    return result_frame(
        {name: frame[name] for name in _COLUMNS},
        matched={"steps": len(frame)},
        note=_notes(results, times, frame),
        job_mfu=float(mfu_of_whole_steps.mean()),
        ahead=times.attrs.get("ahead", []),
        outside_flops=sum(result.outside_flops for result in results),
    )


def _notes(results: Sequence[_RankSteps], times: pd.DataFrame, frame: pd.DataFrame) -> list[str]:
    if not results:
        return [note_text("no_ranks")]
    notes = notes_of_ranks([(result.device, result.has_shapes) for result in results])
    if notes == [NO_SHAPES_NOTE]:
        return notes
    shares = frame[["mfu", "hfu", "matrix_efficiency"]]
    above = int((shares > THRESHOLDS["above_peak_share"]).any(axis=1).sum())
    if above:
        notes.append(
            f"FLOPs of {plural(above, 'row')} exceed the peak: the peak or a time is wrong, "
            "or kernels compute less than the definition"
        )
    if not len(times):
        notes.append("no steps: each row covers the whole time of a rank")
    if times.attrs.get("ahead"):
        notes.append("hosts run ahead of the devices, so step times are measured on the device")
    return notes


def _steps_of_rank(
    part: RankPart,
    lengths: pd.DataFrame | None,
    *,
    user_devices: Sequence[Device],
    precision: str | None,
) -> _RankSteps:
    """Return a rank's rows; `lengths` has the times of its steps, or None without steps."""
    has_steps = lengths is not None
    if lengths is None:
        lengths = _whole_time_as_step(part)
    steps = lengths["step"].to_numpy()
    device = used_device(part.trace, user_devices)
    # If the host runs ahead, operators whose work is in the window may have run before it.
    operators = part.without_window
    if part.has_window:
        operators = replace(operators, low=part.low, high=part.high, plain=False)
    times = call_times(operators, device)
    calls = times.signatures.calls
    is_counted = times.is_counted & (times.signatures.texts_of_work("kind") == "matrix")
    step_index = pd.Index(steps)
    step = part.table.step if has_steps else np.full(len(part.table), -1)
    row_of_call = step_index.get_indexer(pd.Index(step[calls.rows]))
    row_of_work = step_index.get_indexer(pd.Index(step[calls.work]))
    figures = _figures(times, device, precision).assign(row=row_of_call)
    counted = figures[is_counted & (row_of_call >= 0)]
    has_shapes, has_peaks = times.signatures.has_shapes, bool(figures["peak"].notna().any())
    sums = _sums(counted, len(steps), has_shapes=has_shapes, has_peaks=has_peaks)
    known_share = _known_shares(part, times, row_of_work, len(steps))
    main = [precision] * len(steps) if precision else _main_precisions(counted, len(steps))
    columns = {
        "rank": part.rank,
        **{name: lengths[name].to_numpy() for name in ("step", *_TIMES)},
        **sums,
        "known_share": known_share,
        "precision": main,
        "peak_tflop_per_s": device.peaks(main),
        **device.columns,
        "at_least": sums["at_least"] | (known_share < _MIN_KNOWN),
        "is_whole": whole_steps(part, steps) if has_steps else np.ones(len(steps), dtype=bool),
    }
    outside_flops = float(figures["flops"][is_counted & (row_of_call < 0)].sum())
    return _RankSteps(columns, device, has_shapes, outside_flops)


def _whole_time_as_step(part: RankPart) -> pd.DataFrame:
    first, last = part.edges or (0, 0)
    busy_ns = total_length(part.union_of_all_of_kinds("compute", "communication", "memory"))
    whole_time = (-1, first + part.trace.shift_ns, last - first, busy_ns)
    return pd.DataFrame([whole_time], columns=["step", *_TIMES])


def _lengths(times: pd.DataFrame) -> pd.DataFrame:
    """Return each step's start and duration, measured on the device if hosts run ahead."""
    ahead = np.array(times.attrs.get("ahead", []), dtype=np.int64)
    length = step_length(
        ahead, *(times[name].to_numpy() for name in ("step", "dur_ns", "device_span_ns"))
    )
    starts = np.where(times["step"].isin(ahead), times["device_start_ns"], times["start_ns"])
    return times[["rank", "step", "busy_ns"]].assign(start_ns=starts, step_ns=length)


def _figures(times: CallTimes, device: UsedDevice, precision: str | None) -> pd.DataFrame:
    """Return each call's FLOPs by purpose, NaN if unknown, and the peak for its precision."""
    calls = times.signatures
    flops, first_flops = (calls.figures(name) * times.inside for name in ("flops", "model_flops"))
    is_recomputed, is_backward = calls.is_recomputed, calls.calls.is_backward
    model_flops = np.where(is_recomputed, 0, first_flops)
    peak = device.peaks([precision or name for name in PRECISION_NAMES])[times.precision]
    return pd.DataFrame(
        {
            "forward_flops": np.where(is_backward, 0, flops),
            "backward_flops": np.where(is_backward & ~is_recomputed, flops, 0),
            "recompute_flops": np.where(is_recomputed, flops, 0),
            "attention_recompute_flops": np.where(is_recomputed, 0, flops - first_flops),
            "model_flops": model_flops,
            "flops": flops,
            "model_peak_ns": model_flops / peak / 1e3,
            "peak_ns": flops / peak / 1e3,
            "matrix_device_ns": times.device_ns,
            "precision": times.precision,
            "peak": peak,
        }
    )


def _sums(calls: pd.DataFrame, steps: int, *, has_shapes: bool, has_peaks: bool) -> dict[str, Any]:
    """Sum figures by step; NaN for a step without matrix operators with known FLOPs."""
    lacks_peak = calls["flops"].notna() & calls["peak"].isna()
    calls = calls.assign(has_peak=calls["peak_ns"].notna(), lacks_peak=lacks_peak)
    groups, rows = calls.groupby("row"), range(steps)
    sums = groups[[*_FLOPS, *_PEAK_TIMES, "matrix_device_ns"]].sum().reindex(rows, fill_value=0)
    is_known = groups["flops"].count().reindex(rows, fill_value=1).gt(0) & has_shapes
    flags = groups[["has_peak", "lacks_peak"]].any().reindex(rows, fill_value=False)
    is_compared = is_known & has_peaks & (flags["has_peak"] | ~flags["lacks_peak"])
    sums[[*_FLOPS]] = sums[[*_FLOPS]].where(is_known)
    sums[[*_PEAK_TIMES]] = sums[[*_PEAK_TIMES]].where(is_compared)
    columns = {str(name): values.to_numpy() for name, values in sums.items()}
    return {**columns, "at_least": flags.all(axis=1).to_numpy()}


def _known_shares(part: RankPart, times: CallTimes, row: Ints, steps: int) -> Floats:
    """Return, for each step, the share of kernel time whose matrix FLOPs are known.

    `row` is the step row of each piece of device work; -1 if it has none.
    """
    is_known = np.append(times.signatures.has_known_matrix_flops, False)
    calls, table = times.signatures.calls, part.table
    start, end = part.clip_rows(calls.work)
    chosen: Bools = (table.kind[calls.work] == _COMPUTE) & (row >= 0) & (end > start)
    time_ns = (end - start)[chosen].astype(float)
    known_ns = time_ns * is_known[calls.call_of_work[chosen]]
    total_ns, known_ns = (
        np.bincount(row[chosen], values, minlength=steps) for values in (time_ns, known_ns)
    )
    return known_ns / np.where(total_ns > 0, total_ns, np.nan)


def _main_precisions(calls: pd.DataFrame, steps: int) -> list[str]:
    size = len(PRECISION_NAMES)
    key = calls["row"] * size + calls["precision"]
    flops = np.bincount(key, calls["flops"].fillna(0), minlength=steps * size)
    table = flops.reshape(steps, size)
    return [PRECISION_NAMES[code] for code in table.argmax(axis=1).tolist()]


def _add_shares(frame: pd.DataFrame) -> pd.DataFrame:
    step_ns, busy_ns, matrix_ns = (
        frame[name].where(frame[name] > 0) for name in ("step_ns", "busy_ns", "matrix_device_ns")
    )
    return frame.assign(
        tflop_per_s=frame["model_flops"] / step_ns / 1e3,
        mfu=frame["model_peak_ns"] / step_ns,
        hfu=frame["peak_ns"] / step_ns,
        busy_share=frame["busy_ns"] / step_ns,
        matrix_share=frame["matrix_device_ns"] / busy_ns,
        matrix_efficiency=frame["peak_ns"] / matrix_ns,
    )
