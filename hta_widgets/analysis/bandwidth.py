"""Bandwidth of copies and fills, by kind and over time.

The rate of a copy is stated in the file, or else is its size divided by its duration. Rates of
concurrent copies add up: copies at 10 GB/s from 0 to 30 ns and at 5 GB/s from 20 to 40 ns give the
series 10 at 0, 15 at 20, 5 at 30, and 0 at 40.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import Schema, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, RankParts, Window, count_by_kind, rank_parts
from hta_widgets.analysis.step_series import (
    STATISTICS_SCHEMA,
    describe,
    hold_times_ns,
    is_last_at_instant,
    order_by_group_and_time,
    running_total,
    time_weighted_sums,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.trace.arrays import Bools, Floats, Ints, Rows, sum_by_group
from hta_widgets.trace.columns import event_args, to_int64
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.traceset import Selection, TraceSet

_FILL = re.compile(r"^(hip|cuda|cu)?memset|_fill|^fill", re.IGNORECASE)

#: Directions in names, such as "Memcpy HtoD (Pinned -> Device)" or "CopyHostToDevice".
_LETTERS = re.compile(r"([HDAP])to([HDAP])")
_WORDS = re.compile(r"(host|device|peer|array)_?to_?(host|device|peer|array)", re.IGNORECASE)

#: Args with the direction and size of MTIA's copies.
_DMA = re.compile(r"^dma", re.IGNORECASE)
_DMA_ARGS = ("direction", "size")
_UNKNOWN_DIRECTION = "Memcpy Unknown"
#: Sizes of this value or more count as unknown, so that sums fit in int64.
_MAX_BYTES = 1 << 50


def copy_kind(name: str) -> str:
    """Return the vendor-independent name of a copy or fill."""
    if _FILL.search(name):
        return "Memset"
    match = _LETTERS.search(name) or _WORDS.search(name)
    return f"Memcpy {match[1][0].upper()}to{match[2][0].upper()}" if match else _UNKNOWN_DIRECTION


@dataclass(frozen=True, slots=True)
class _RankCopies:
    rows: Rows
    kinds: list[str]  # kinds that occur, sorted by name
    code: Rows  # into `kinds`
    start_ns: Ints  # within the window
    end_ns: Ints
    gb_per_s: Floats  # NaN if unknown
    is_computed: Bools  # whether the rate is computed from size and duration
    size_bytes: Ints  # -1 if unknown


def _copies_of_rank(part: RankPart) -> _RankCopies:
    trace, table = part.trace, part.table
    rows = part.rows_of_kinds("memory")
    rate, size = trace.copy_table.lookup(table.record[rows])
    used_codes, name_of_row = np.unique(table.name[rows], return_inverse=True)
    names = [table.names[code] for code in used_codes.tolist()]
    kind = np.array([copy_kind(name) for name in names], dtype=object)[name_of_row]
    dma = np.flatnonzero(names_match(trace, rows, _DMA.match))
    if len(dma):
        args = event_args(trace, rows[dma], _DMA_ARGS)
        kind[dma] = [copy_kind(str(direction or "")) for direction in args["direction"]]
        size[dma] = np.where(size[dma] < 0, to_int64(args["size"]), size[dma])
    size = np.where((size >= 0) & (size < _MAX_BYTES), size, -1)
    dur = table.dur_ns[rows]
    # Durations below the time resolution of the file count as one unit.
    dur = np.where(dur > 0, dur, max(trace.resolution_ns, 1))
    is_computed = np.isnan(rate) & (size >= 0)
    rate[is_computed] = size[is_computed] / dur[is_computed]
    start, end = part.clip_edges(table.start_ns[rows], table.start_ns[rows] + dur)
    code, kinds = pd.factorize(kind, sort=True)
    return _RankCopies(
        rows, kinds.tolist(), code, start, np.maximum(end, start), rate, is_computed, size
    )


_ColumnsOf = Callable[[RankPart, _RankCopies], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BandwidthSteps:
    """All changes of a rank's memory bandwidth, by kind and time.

    At equal times, ends of copies precede starts.
    """

    kinds: list[str]
    code: Rows  # into `kinds`
    time_ns: Ints
    gb_per_s: Floats  # from this change on
    row: Rows  # row of the copy that starts or ends


def bandwidth_steps(part: RankPart) -> BandwidthSteps:
    """Return all bandwidth changes of a rank's selected copies and fills."""
    return _steps(_copies_of_rank(part))


def _steps(copies: _RankCopies) -> BandwidthSteps:
    """Return the bandwidth changes at the starts and ends of copies with a known rate."""
    start_ns, end_ns = copies.start_ns, copies.end_ns
    rated = np.flatnonzero(~np.isnan(copies.gb_per_s) & (end_ns > start_ns))
    rate = copies.gb_per_s[rated]
    code = np.tile(copies.code[rated], 2)
    time_ns = np.concatenate((end_ns[rated], start_ns[rated]))
    order = order_by_group_and_time(code, len(copies.kinds), time_ns)
    code = code[order]
    number = np.tile(np.arange(len(rated)), 2)[order]  # of the copy that starts or ends
    sign = np.repeat(np.array([-1, 1]), len(rated))[order]
    running = running_total(code, sign)
    # If a single copy runs, its index is the sum of the running copies' indices. Its rate is then
    # exact, unlike a difference of sums.
    running_number = running_total(code, sign * number)
    gb_per_s = np.zeros(len(order))
    is_single, is_multiple = running == 1, running > 1
    gb_per_s[is_single] = rate[running_number[is_single]]
    if is_multiple.any():
        total = running_total(code, sign * rate[number].astype(np.longdouble))
        gb_per_s[is_multiple] = total[is_multiple]
    return BandwidthSteps(copies.kinds, code, time_ns[order], gb_per_s, copies.rows[rated[number]])


@check_arguments
def memory_bandwidth(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the rate at which memory is copied and filled, at each change.

    Rates of concurrent copies add up. The rate is read from the file, or else is size divided by
    duration. Copies with neither are excluded and counted. A copy of 0 µs lasts one unit of time.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The copies to analyze, restricted by time and ranks. Default: all. Clipping keeps rates.

    Returns
    -------
    DataFrame
        One row per rank, kind of copy and instant of change, in this order: ``rank`` (int64),
        ``copy_kind`` (categorical: ``Memcpy HtoD``, ``Memset``, …), ``time_ns`` (int64),
        ``gb_per_s`` (float64, 10⁹ bytes per second): the rate after all changes at that instant,
        exactly 0 without copies. ``.attrs["unknown"]`` counts copies without a known rate, by kind;
        ``.attrs["computed"]`` counts rates computed from size and duration.

    Notes
    -----
    The definition follows HTA's memory bandwidth time series. In HTA, rounding may leave a nonzero
    rate while nothing is copied, unknown rates are 0, and a copy of 0 µs lasts 1 µs.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    schema = {"rank": "int64", "copy_kind": "category", "time_ns": "int64", "gb_per_s": "float64"}
    return _bandwidth_frame(chosen, _rate_columns, schema)


def _rate_columns(part: RankPart, copies: _RankCopies) -> dict[str, Any]:
    steps = _steps(copies)
    is_last = is_last_at_instant(steps.code, steps.time_ns)
    return {
        "rank": part.rank,
        "copy_kind": (steps.code[is_last], steps.kinds),
        "time_ns": steps.time_ns[is_last] + part.trace.shift_ns,
        "gb_per_s": steps.gb_per_s[is_last],
    }


@check_arguments
def memory_bandwidth_summary(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return statistics of the memory bandwidth of each kind of copy.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and kind of copy:

        - ``rank`` (int64), ``copy_kind`` (categorical)
        - ``count, mean, std, min, 25%, 50%, 75%, max``: of the rates above 0 in the rows of
          `memory_bandwidth`, in GB/s, not weighted by duration
        - ``time_weighted_mean``: mean over the time during which anything of this kind runs;
          ``busy_ns`` (int64): that time
        - ``copies`` (int64): number of copies, including those with unknown rates; ``size_bytes``
          (int64): sum of known sizes, which the window does not clip
    """
    schema = {
        "rank": "int64", "copy_kind": "category", **STATISTICS_SCHEMA,
        "time_weighted_mean": "float64", **int64("busy_ns copies size_bytes"),
    }  # fmt: skip
    chosen = rank_parts(traces, selection, window, ranks)
    return _bandwidth_frame(chosen, _summary_columns, schema)


def _summary_columns(part: RankPart, copies: _RankCopies) -> dict[str, Any]:
    groups = len(copies.kinds)
    steps = _steps(copies)
    shown = is_last_at_instant(steps.code, steps.time_ns) & (steps.gb_per_s > 0)
    hold_ns = np.where(steps.gb_per_s > 0, hold_times_ns(steps.code, steps.time_ns), 0)
    weighted_sum, busy = time_weighted_sums(steps.code, groups, steps.gb_per_s, hold_ns)
    return {
        "rank": part.rank,
        "copy_kind": (np.arange(groups), copies.kinds),
        **describe(steps.code[shown], groups, steps.gb_per_s[shown]),
        "time_weighted_mean": weighted_sum / np.where(busy > 0, busy, np.nan),
        "busy_ns": busy,
        "copies": np.bincount(copies.code, minlength=groups),
        "size_bytes": sum_by_group(copies.code, np.maximum(copies.size_bytes, 0), groups),
    }


def _bandwidth_frame(chosen: RankParts, columns_of: _ColumnsOf, schema: Schema) -> pd.DataFrame:
    results = list(map_ranks(chosen, _columns_and_counts, columns_of))
    columns = stack_blocks([columns_of_rank for columns_of_rank, _, _ in results], schema)
    kind = columns["copy_kind"]
    columns["copy_kind"] = kind.reorder_categories(sorted(kind.categories))
    unknown = sum((unknown_of_rank for _, unknown_of_rank, _ in results), Counter[str]())
    note = ""
    if not len(kind) and unknown:
        note = f"the files state neither rate nor size of the {unknown.total():,} copies and fills"
    elif not len(kind):
        note = "no copies or fills are selected"
    return result_frame(
        columns,
        matched=count_by_kind(chosen, ("memory",)),
        note=note,
        unknown=dict(unknown),
        computed=sum(computed for _, _, computed in results),
    )


def _columns_and_counts(
    part: RankPart, columns_of: _ColumnsOf
) -> tuple[dict[str, Any], Counter[str], int]:
    """Return a rank's columns, and the numbers of unknown rates by kind and of computed rates."""
    copies = _copies_of_rank(part)
    missing = np.sort(copies.code[np.isnan(copies.gb_per_s)])
    unknown = Counter(copies.kinds[code] for code in missing.tolist())
    return columns_of(part, copies), unknown, int(copies.is_computed.sum())
