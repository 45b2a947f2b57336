"""User annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.host_stack import (
    below_backward,
    nearest,
    nested_parents,
    of_category,
)
from hta_widgets.analysis.scope import (
    Part,
    Scope,
    categorical,
    common_codes,
    joined,
    over_ranks,
    parts,
    result,
    scoped,
)
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.columns import Pool
from hta_widgets.trace.grouping import dense, group_order
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]


def shortest_overlapping(start: Ints, end: Ints, low: Ints, high: Ints) -> Ints:
    """Return for each event the shortest range that overlaps it.

    Half-open: an event that ends where a range starts does not overlap it. Of equally short
    ranges the one that comes later is taken.
    """
    # Numbers of the ranges by length, so that the least number is the shortest.
    by_length = np.lexsort((-np.arange(len(low)), high - low))
    low, high = low[by_length], high[by_length]
    found = np.full(len(start), len(low), dtype=np.int64)
    left = np.arange(len(start))
    while len(left):
        # Events that end in the order of their starts: a range overlaps a run of them.
        ordered = end[left] >= np.maximum.accumulate(end[left])
        chain, left = left[ordered], left[~ordered]
        first = np.searchsorted(end[chain], low, side="right")
        after = np.searchsorted(start[chain], high, side="left")
        found[chain] = _least(len(chain), first, after)
    found[found >= len(low)] = -1
    return np.append(by_length, -1)[found]


def _least(size: int, first: Ints, after: Ints) -> Ints:
    """Return for each of `size` places the least number of the runs ``[first, after)`` over it.

    Each run is two runs of a power of two, which may overlap; these are halved, all of one length
    at once, until they are single places.
    """
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
            # What held for a run of twice this length holds for both its halves.
            wider = least.copy()
            wider[half:] = np.minimum(wider[half:], least[:-half])
            least = wider
        here = run[power == exponent]
        np.minimum.at(least, first[here], here)
        np.minimum.at(least, after[here] - half, here)
    return least


Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Source = Literal["auto", "device", "host"]

_ANNOTATION = KINDS.index("annotation")


@scoped
def user_annotation_breakdown(
    traces: TraceSet, *, use_device: bool = True, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long the ranges that the program names last, by rank and name.

    Ranges are those of ``record_function`` and the profiler's own, such as ``ProfilerStep#3``.
    On the host they last as long as the code within them runs, on the device from the start of
    the first work launched in them to the end of the last. Ranges in ranges count for each.

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

    Notes
    -----
    HTA's ``get_gpu_user_annotation_breakdown``, without its limit to some number of names, beyond
    which HTA's mean, minimum and maximum are those of sums.
    """
    chosen = parts(traces, **scope)
    of_ranks = list(over_ranks(chosen, partial(_ranges_of, use_device=use_device)))
    found = [ranges for ranges, _, _ in of_ranks]
    count = {
        "device": sum(device for _, device, _ in of_ranks),
        "host": sum(host for _, _, host in of_ranks),
    }
    names = [name for one in found for name in one.names]
    sizes = [len(one.names) for one in found]
    note = ""
    if not names:
        note = "no ranges on the device" if use_device else "no ranges on the host"
        if count["host" if use_device else "device"]:
            note += f"; use_device={not use_device} has some"
    return result(
        {
            "rank": np.repeat(np.array(chosen.ranks, dtype=np.int64), sizes),
            "name": pd.array(names, dtype="str"),
            "count": joined([one.count for one in found]),
            "sum_ns": joined([one.sum for one in found]),
            "mean_ns": joined([one.mean for one in found], np.float64),
            "min_ns": joined([one.least for one in found]),
            "max_ns": joined([one.most for one in found]),
            "std_ns": joined([one.std for one in found], np.float64),
        },
        matched={"device_annotations": count["device"], "host_annotations": count["host"]},
        note=note,
    )


def _ranges_of(part: Part, *, use_device: bool) -> tuple[_Ranges, int, int]:
    """Return statistics of a side's ranges, and how many the device and the host have."""
    device, host = (part.rows[_ranges(part.trace, side)[part.rows]] for side in ("device", "host"))
    return _statistics(part, device if use_device else host), len(device), len(host)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Statistics of one rank's ranges, by name."""

    names: list[str]
    count: Ints
    sum: Ints
    mean: Floats
    least: Ints
    most: Ints
    std: Floats


def _statistics(part: Part, rows: Rows) -> _Ranges:
    table = part.table
    code, known = dense(table.name[rows].astype(np.int64), len(table.names))
    if not len(rows):
        none = np.empty(0, dtype=np.int64)
        return _Ranges([], none, none, np.empty(0), none, none, np.empty(0))
    names = [table.names[name] for name in known.tolist()]
    lasts = part.durations(rows)[group_order(code, len(known))]
    count = np.bincount(code, minlength=len(known))
    first = np.cumsum(count) - count
    total = np.add.reduceat(lasts, first)
    mean = total / count
    off = lasts - np.repeat(mean, count)
    std = np.sqrt(np.add.reduceat(off * off, first) / np.maximum(count - 1, 1))
    least, most = np.minimum.reduceat(lasts, first), np.maximum.reduceat(lasts, first)
    order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.intp)
    return _Ranges(
        [names[place] for place in order.tolist()],
        count[order],
        total[order],
        mean[order],
        least[order],
        most[order],
        std[order],
    )


def _ranges(trace: Trace, side: str) -> npt.NDArray[np.bool_]:
    if side == "host":
        return of_category(trace, "user_annotation")
    table = trace.table
    found: npt.NDArray[np.bool_] = (table.kind == _ANNOTATION) & (table.stream >= 0)
    return found


@scoped
def kernels_by_annotation(
    traces: TraceSet, *, source: Source = "auto", by_name: bool = False, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the device's events with the range of the program that each falls into.

    Parameters
    ----------
    source : {"auto", "device", "host"}
        ``"device"``: of the device's ranges (``gpu_user_annotation``) that overlap an event on
        its stream, the shortest. ``"host"``: of the host's ranges that enclose the event's
        launching call on its thread, the innermost; calls of the autograd thread lie below the
        ``## backward ##`` range or the step that runs meanwhile. ``"auto"``: the device's on
        ranks that have any, the host's on others.
    by_name : bool, default False
        Add up by range and name instead.
    selection : Selection, optional
        The device's events to look at; all by default. Ranges count whether they are selected
        or not.
    window : (start_ns, end_ns), optional
        Narrows the selection in time. Times are clipped to it.

    Returns
    -------
    DataFrame
        One row per event on a stream, waits included, by rank and start: ``rank, id, start_ns,
        dur_ns`` (int64)``, name`` (categorical)``, stream`` (int32)``, annotation`` (categorical,
        empty for none). With `by_name` one row per rank, range and name, by time: ``rank,
        annotation, name, count, sum_ns``. ``.attrs["source"]`` says for each rank whose ranges
        were taken.

    Notes
    -----
    HTA's ``get_gpu_kernels_with_user_annotations``, which knows the device's ranges only.
    """
    if source not in ("auto", "device", "host"):
        raise TraceError(
            f"there is no source {source!r}", remedy="Choose 'auto', 'device' or 'host'."
        )
    chosen = parts(traces, **scope)
    names, ranges = Pool(), Pool([""])
    columns: dict[str, list[Any]] = {
        key: [] for key in ("rank", "id", "start_ns", "dur_ns", "name", "stream", "annotation")
    }
    sources: dict[int, str] = {}
    annotations = 0
    for rank, one in zip(chosen.ranks, over_ranks(chosen, _annotated, source), strict=True):
        sources[rank] = one.source
        annotations += one.annotations
        one.columns["name"] = common_codes(one.columns["name"], one.names, names)
        one.columns["annotation"] = common_codes(one.columns["annotation"], one.ranges, ranges)
        for key, values in one.columns.items():
            columns[key].append(values)
    types = {"name": np.int32, "annotation": np.int32, "stream": np.int32}
    whole = {key: joined(values, types.get(key, np.int64)) for key, values in columns.items()}
    inside = int((whole["annotation"] > 0).sum())
    note = "" if len(whole["rank"]) else "no device events"
    if not note and not inside:
        note = "no ranges" if not annotations else "no device event lies in a range"
    matched = {
        "device_events": len(whole["rank"]),
        "annotations": annotations,
        "annotated": inside,
    }
    if by_name:
        return _by_name(whole, names, ranges, matched, note, sources)
    whole_columns: dict[str, Any] = dict(whole)
    whole_columns["name"] = categorical(whole["name"], names.values)
    whole_columns["annotation"] = categorical(whole["annotation"], ranges.values)
    return result(whole_columns, matched=matched, note=note, source=sources)


class _Annotated(NamedTuple):
    """What one rank has to say: its columns, with codes into its own names."""

    source: str
    annotations: int
    columns: dict[str, Any]
    names: list[str]
    ranges: list[str]


def _annotated(part: Part, source: str) -> _Annotated:
    trace, table = part.trace, part.table
    names, ranges = Pool(), Pool([""])
    if source == "auto":
        source = "device" if _ranges(trace, "device").any() else "host"
    rows = part.rows[(table.stream[part.rows] >= 0) & (part.kinds != _ANNOTATION)]
    if source == "device":
        found = _device_ranges(trace, rows)
    else:
        stops = _ranges(trace, "host")
        found = nearest(below_backward(trace, nested_parents(trace, stops)), stops)[
            trace.launch_of[rows]
        ]
    start, end = part.clipped(rows)
    annotation = np.zeros(len(rows), dtype=np.int32)
    annotation[found >= 0] = _coded(table.name[found[found >= 0]], table.names.values, ranges)
    columns = {
        "rank": np.full(len(rows), part.rank, dtype=np.int64),
        "id": rows.astype(np.int64),
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "name": _coded(table.name[rows], table.names.values, names),
        "stream": table.stream[rows],
        "annotation": annotation,
    }
    annotations = int(_ranges(trace, source).sum())
    return _Annotated(source, annotations, columns, names.values, ranges.values)


def _device_ranges(trace: Trace, rows: Rows) -> Ints:
    """Return for each event the shortest range on its stream that overlaps it, -1 for none."""
    table = trace.table
    ranges = np.flatnonzero(_ranges(trace, "device"))
    # Streams of several devices in one file share numbers; their processes tell them apart.
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
        which = shortest_overlapping(
            table.start_ns[events],
            table.start_ns[events] + table.dur_ns[events],
            table.start_ns[here],
            table.start_ns[here] + table.dur_ns[here],
        )
        found[there] = np.append(here, -1)[which]
    return found


def _coded(codes: npt.NDArray[np.int32], own: Sequence[str], common: Pool) -> npt.NDArray[np.int32]:
    """Return codes into one rank's names as codes into those of all ranks."""
    used, inverse = np.unique(codes, return_inverse=True)
    new = np.array([common.add(own[code]) for code in used.tolist()], dtype=np.int32)
    return new[inverse]


def _by_name(
    whole: dict[str, Ints],
    names: Pool,
    ranges: Pool,
    matched: dict[str, int],
    note: str,
    sources: dict[int, str],
) -> pd.DataFrame:
    key = (whole["rank"] * len(ranges) + whole["annotation"]) * max(len(names), 1) + whole["name"]
    groups, code, count = np.unique(key, return_inverse=True, return_counts=True)
    total = np.zeros(len(groups), dtype=np.int64)
    np.add.at(total, code, whole["dur_ns"])
    above, name = np.divmod(groups, max(len(names), 1))
    rank, annotation = np.divmod(above, len(ranges))
    order = np.lexsort((name, -total, rank))
    return result(
        {
            "rank": rank[order],
            "annotation": categorical(annotation[order].astype(np.int32), ranges.values),
            "name": categorical(name[order].astype(np.int32), names.values),
            "count": count.astype(np.int64)[order],
            "sum_ns": total[order],
        },
        matched=matched,
        note=note,
        source=sources,
    )
