"""Ranges that the program names: their durations, and the kernels in them."""

from __future__ import annotations

from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import (
    Part,
    Scope,
    over_ranks,
    parts,
    result,
    scoped,
    stacked,
    statistics_by_name,
    used_texts,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Ints, Rows
from hta_widgets.trace.host_stack import below_backward, nearest, nested_parents, of_category
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Source = Literal["auto", "device", "host"]
_ANNOTATION = KINDS.index("annotation")


@scoped
def user_annotation_breakdown(
    traces: TraceSet, *, use_device: bool = True, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the durations of the ranges that the program names, by rank and name.

    Ranges come from ``record_function`` and from the profiler, such as ``ProfilerStep#3``. On the
    host they last as long as the code in them, on the device from the start of the first work
    launched in them to the end of the last. Nested ranges all count.

    Parameters
    ----------
    use_device : bool, default True
        The ranges on the device (``gpu_user_annotation``), else those on the host
        (``user_annotation``).
    window : (start_ns, end_ns), optional
        Narrows the selection in time. Durations are clipped to it, counts are of the ranges that
        overlap it.

    Returns
    -------
    DataFrame
        One row per rank and name, by both: ``rank`` (int64)``, name`` (str)``, count, sum_ns``
        (int64)``, mean_ns`` (float64)``, min_ns, max_ns`` (int64)``, std_ns`` (float64; of the
        sample, 0 for one).
    """
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, _ranges_of, use_device))
    names = "rank name:t count sum_ns mean_ns:f min_ns max_ns std_ns:f"
    column = stacked([one for one, _, _ in found], names)
    device, host = sum(one for _, one, _ in found), sum(one for _, _, one in found)
    note = ""
    if not len(column["rank"]):
        note = "no ranges on the device" if use_device else "no ranges on the host"
        if host if use_device else device:
            note += f"; use_device={not use_device} has some"
    return result(
        column,
        matched={"device_annotations": device, "host_annotations": host},
        note=note,
    )


def _ranges_of(part: Part, use_device: bool) -> tuple[dict[str, Any], int, int]:  # noqa: FBT001
    """Return statistics of one side's ranges by name, and the numbers on device and host."""
    device, host = (part.rows[_ranges(part.trace, side)[part.rows]] for side in ("device", "host"))
    columns, _ = statistics_by_name(part, device if use_device else host)
    columns["mean_ns"] = columns["sum_ns"] / columns["count"]
    order = np.argsort(columns["name"], kind="stable")
    return {name: values[order] for name, values in columns.items()}, len(device), len(host)


def _ranges(trace: Trace, side: str) -> Bools:
    if side == "host":
        return of_category(trace, "user_annotation")
    table = trace.table
    found: Bools = (table.kind == _ANNOTATION) & (table.stream >= 0)
    return found


@scoped
def kernels_by_annotation(
    traces: TraceSet, *, source: Source = "auto", by_name: bool = False, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the device's events with the named range that contains each.

    Parameters
    ----------
    source : {"auto", "device", "host"}
        ``"device"``: the shortest device range (``gpu_user_annotation``) that overlaps the event
        on its stream. ``"host"``: the innermost host range that encloses the event's launching
        call on its thread; calls of the autograd thread lie below the ``## backward ##`` range or
        the step that runs at that time. ``"auto"``: ``"device"`` on ranks with device ranges,
        ``"host"`` on others.
    by_name : bool, default False
        Add up by range and name instead.
    selection : Selection, optional
        The device's events; all by default. Ranges need not be selected.
    window : (start_ns, end_ns), optional
        Narrows the selection in time. Times are clipped to it.

    Returns
    -------
    DataFrame
        One row per event on a stream, waits included, by rank and start: ``rank, id, start_ns,
        dur_ns`` (int64)``, name`` (categorical)``, stream`` (int32)``, annotation`` (categorical,
        empty for none). With `by_name` one row per rank, range and name, by time: ``rank,
        annotation, name, count, sum_ns``. ``.attrs["source"]`` has the source by rank.
    """
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, _annotated, source))
    names = "rank id start_ns dur_ns name:c stream:i annotation:c"
    columns = stacked([one for one, _, _ in found], names)
    sources = dict(zip(chosen.ranks, (side for _, side, _ in found), strict=True))
    annotations = sum(ranges for _, _, ranges in found)
    inside = int((columns["annotation"].codes > 0).sum())
    note = "" if len(columns["rank"]) else "no device events"
    if not note and not inside:
        note = "no ranges" if not annotations else "no device event lies in a range"
    matched = {
        "device_events": len(columns["rank"]),
        "annotations": annotations,
        "annotated": inside,
    }
    if by_name:
        keys = ["rank", "annotation", "name"]
        groups = pd.DataFrame(columns).groupby(keys, observed=True)["dur_ns"]
        sums = groups.agg(count="size", sum_ns="sum").reset_index()
        order = np.lexsort((sums["name"].cat.codes, -sums["sum_ns"], sums["rank"]))
        columns = dict(sums.iloc[order].reset_index(drop=True))
    return result(columns, matched=matched, note=note, source=sources)


def _annotated(part: Part, source: str) -> tuple[dict[str, Any], str, int]:
    """Return the columns of one rank, the side of its ranges, and their number."""
    trace, table = part.trace, part.table
    if source == "auto":
        source = "device" if _ranges(trace, "device").any() else "host"
    rows = part.rows[(table.stream[part.rows] >= 0) & (part.kinds != _ANNOTATION)]
    if source == "device":
        found = _device_ranges(trace, rows)
    else:
        stops = _ranges(trace, "host")
        above = nearest(below_backward(trace, nested_parents(trace, stops)), stops)
        found = above[trace.launch_of[rows]]
    start, end = part.clipped(rows)
    annotation = np.zeros(len(rows), dtype=np.int32)
    code, ranges = used_texts(table.name[found[found >= 0]], table.names)
    annotation[found >= 0] = code + 1
    columns = {
        "rank": part.rank,
        "id": rows,
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "name": used_texts(table.name[rows], table.names),
        "stream": table.stream[rows],
        "annotation": (annotation, ["", *ranges]),
    }
    return columns, source, int(_ranges(trace, source).sum())


def _device_ranges(trace: Trace, rows: Rows) -> Ints:
    """Return the shortest range that overlaps each event on its stream, -1 for none."""
    table = trace.table
    ranges = np.flatnonzero(_ranges(trace, "device"))
    # Streams of several devices in one file share numbers, but not processes.
    places: dict[tuple[str, str], int] = {}
    place = np.array(
        [places.setdefault((track.pid, track.tid), len(places)) for track in table.tracks] + [-1],
        dtype=np.int64,
    )
    found = np.full(len(rows), -1, dtype=np.int64)
    of_range, of_row = place[table.track[ranges]], place[table.track[rows]]
    for stream in np.unique(of_range).tolist():
        here, there = ranges[of_range == stream], np.flatnonzero(of_row == stream)
        events = rows[there]
        start, low = table.start_ns[events], table.start_ns[here]
        end, high = start + table.dur_ns[events], low + table.dur_ns[here]
        which = shortest_overlapping(start, end, low, high)
        found[there] = np.append(here, -1)[which]
    return found


def shortest_overlapping(start: Ints, end: Ints, low: Ints, high: Ints) -> Ints:
    """Return the shortest range that overlaps each event, -1 for none; ties go to the later range.

    Ranges are half-open: an event that ends at the start of a range does not overlap it.
    """
    # Number ranges by length, so that the smallest number is the shortest range.
    by_length = np.lexsort((-np.arange(len(low)), high - low))
    low, high = low[by_length], high[by_length]
    found = np.full(len(start), len(low), dtype=np.int64)
    left = np.arange(len(start))
    while len(left):
        # If events end in the order of their starts, those that overlap a range are contiguous.
        ordered = end[left] >= np.maximum.accumulate(end[left])
        chain, left = left[ordered], left[~ordered]
        first = np.searchsorted(end[chain], low, side="right")
        after = np.searchsorted(start[chain], high, side="left")
        found[chain] = _min_of_runs(len(chain), first, after)
    found[found >= len(low)] = -1
    return np.append(by_length, -1)[found]


def _min_of_runs(size: int, first: Ints, after: Ints) -> Ints:
    """Return the minimum over the runs ``[first, after)`` that cover each of `size` positions."""
    # Each run is split into two overlapping runs whose length is a power of two. Runs of the same
    # length are then halved together until they are single positions.
    nothing = len(first)
    least = np.full(size, nothing, dtype=np.int64)
    run = np.flatnonzero(after > first)
    if not len(run):
        return least
    length = after[run] - first[run]
    power = np.frexp(length.astype(np.float64))[1] - 1
    for exponent in range(int(power.max()), -1, -1):
        half = 1 << exponent
        if exponent < int(power.max()):
            # A number of a run of twice this length applies to both halves.
            wider = least.copy()
            wider[half:] = np.minimum(wider[half:], least[:-half])
            least = wider
        here = run[power == exponent]
        np.minimum.at(least, first[here], here)
        np.minimum.at(least, after[here] - half, here)
    return least
