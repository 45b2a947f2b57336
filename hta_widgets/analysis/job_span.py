"""Which stretch of a whole job is asked for, on one clock, and which rank ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.critical.rules import named
from hta_widgets.analysis.scope import BUSY, Window
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import as_window
from hta_widgets.trace.trace import Trace

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_BUSY = [KINDS.index(kind) for kind in BUSY]
_ANNOTATION = KINDS.index("annotation")


@dataclass(frozen=True, slots=True, eq=False)
class JobSpan:
    """A stretch of a job on its common clock, and where it ends."""

    low: int
    high: int
    place: int
    row: int = -1
    track: int = -1


def span_of_job(
    traces: Sequence[Trace],
    shifts: Ints,
    annotation: str,
    instance: int | tuple[int, int],
    window: Window | None,
) -> JobSpan | None:
    """Return the stretch, None where nothing is there."""
    if window is None and annotation:
        return _of_range(traces, shifts, annotation, instance)
    edges = None if window is None else as_window(window)
    found = [
        span
        for place, (trace, shift) in enumerate(zip(traces, shifts.tolist(), strict=True))
        if (
            span := _whole(trace, shift, place)
            if edges is None
            else _cut(trace, shift, place, edges)
        )
    ]
    if not found:
        return None
    latest = max(found, key=lambda one: (one.high, -one.place))
    if edges is None:
        return replace(latest, low=min(one.low for one in found))
    return replace(latest, low=edges[0], high=edges[1])


def _work(trace: Trace) -> tuple[Rows, Rows]:
    """Return the device's work, and what the threads do that launch it.

    Other threads, such as those that watch over collectives, decide nothing.
    """
    table = trace.table
    device = np.flatnonzero((table.stream >= 0) & np.isin(table.kind, _BUSY))
    host = np.flatnonzero((table.stream < 0) & (table.kind != _ANNOTATION))
    call = trace.launch_of[device]
    launching = np.unique(table.track[call[call >= 0]])
    return device, host[np.isin(table.track[host], launching)] if len(launching) else host


def _whole(trace: Trace, shift: int, place: int) -> JobSpan | None:
    table = trace.table
    rows = np.concatenate(_work(trace))
    if not len(rows):
        return None
    end = table.start_ns[rows] + table.dur_ns[rows]
    last = int(end.argmax())
    low = int(table.start_ns[rows].min())
    return JobSpan(low + shift, int(end[last]) + shift, place, row=int(rows[last]))


def _cut(trace: Trace, shift: int, place: int, window: tuple[int, int]) -> JobSpan | None:
    """Return where a rank is at the end of a window; `high` is the last end in it.

    It is in the device work that runs then, started last; or else, as the device is idle, in what
    the thread does that launched last.
    """
    low, high = window[0] - shift, window[1] - shift
    table = trace.table
    device, host = _work(trace)
    start, end = table.start_ns[device], table.start_ns[device] + table.dur_ns[device]
    ends = end[(end > low) & (end <= high)]
    if not len(ends):
        ends = table.end_ns[host]
        ends = ends[(ends > low) & (ends <= high)]
    running = device[(start < high) & (end > high)]
    if not len(ends) and not len(running):
        return None
    last = int(ends.max()) if len(ends) else low
    if len(running):
        return JobSpan(low + shift, last + shift, place, row=int(running[-1]))
    call = trace.launch_of[device[start < high]]
    call = call[call >= 0]
    track = int(table.track[call[-1]]) if len(call) else -1
    return JobSpan(low + shift, last + shift, place, track=track)


def _of_range(
    traces: Sequence[Trace], shifts: Ints, annotation: str, instance: int | tuple[int, int]
) -> JobSpan | None:
    first, last = _numbers(instance)
    found = [_instances(trace, annotation) for trace in traces]
    starts: dict[tuple[str, int], int] = {}
    for trace, shift, rows_of in zip(traces, shifts.tolist(), found, strict=True):
        for key, row in rows_of.items():
            start = int(trace.table.start_ns[row]) + shift
            starts[key] = min(start, starts.get(key, start))
    if not starts:
        return None
    keys = sorted(starts, key=lambda key: (starts[key], key))
    if last >= len(keys):
        raise TraceError(
            f"no rank has an instance {last} of {annotation!r}",
            remedy=f"There are {len(keys)}, numbered from 0"
            f" ({', '.join(name for name, _ in keys[:5])}{', …' if len(keys) > 5 else ''}).",
        )
    spans = []
    for place, (trace, shift, rows_of) in enumerate(
        zip(traces, shifts.tolist(), found, strict=True)
    ):
        rows = [rows_of[key] for key in keys[first : last + 1] if key in rows_of]
        if rows:
            spans.append(_span_of(trace, place, shift, np.array(rows, dtype=np.intp)))
    latest = max(spans, key=lambda span: (span.high, -span.place))
    low = min(span.low for span in spans)
    return JobSpan(low, latest.high, latest.place, latest.row, latest.track)


def _instances(trace: Trace, annotation: str) -> dict[tuple[str, int], int]:
    """Return the ranges of a rank by name and how often that occurred before.

    Ranks may begin to record at different steps, so numbers alone do not tell which are the same.
    """
    table = trace.table
    host = np.flatnonzero(table.stream < 0)
    rows = host[named(trace, host, lambda name: annotation in name)]
    seen: dict[int, int] = {}
    found = {}
    for row, code in zip(rows.tolist(), table.name[rows].tolist(), strict=True):
        seen[code] = seen.get(code, -1) + 1
        found[table.names[code], seen[code]] = row
    return found


def _span_of(trace: Trace, place: int, shift: int, rows: Rows) -> JobSpan:
    """Return the stretch of one rank: its ranges, and the device work that they launched."""
    table = trace.table
    start, end = int(table.start_ns[rows].min()), int(table.end_ns[rows].max())
    last = int(rows[table.end_ns[rows].argmax()])
    device = np.flatnonzero((table.stream >= 0) & np.isin(table.kind, _BUSY))
    call = trace.launch_of[device]
    called = np.where(call >= 0, table.start_ns[call], table.start_ns[device])
    # Where the next range begins, this one has ended.
    device = device[(called >= start) & (called < end)]
    if len(device):
        latest = int(device[table.end_ns[device].argmax()])
        if int(table.end_ns[latest]) > end:
            return JobSpan(start + shift, int(table.end_ns[latest]) + shift, place, row=latest)
    return JobSpan(start + shift, end + shift, place, track=int(table.track[last]))


def _numbers(instance: int | tuple[int, int]) -> tuple[int, int]:
    pair = instance if isinstance(instance, (tuple, list)) else (instance, instance)
    if len(pair) != 2 or not 0 <= pair[0] <= pair[1]:
        raise TraceError(
            f"{instance!r} names no instances of a range",
            remedy="Give a number from 0 on, or the first and the last as a pair.",
        )
    return int(pair[0]), int(pair[1])
