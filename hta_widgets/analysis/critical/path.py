"""The critical path of a rank as a table: segments, one after another, and their shares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import result
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.graph import path_of
from hta_widgets.analysis.critical.rules import BOUNDS
from hta_widgets.analysis.critical.rules import EDGE_TYPES
from hta_widgets.analysis.critical.rules import LEAD
from hta_widgets.analysis.critical.window import trace_of

__all__ = ["critical_path", "critical_path_summary", "path_selection", "segments"]

Ints = npt.NDArray[np.int64]

_OUTSIDE = BOUNDS.index("outside_path")
_BETWEEN = BOUNDS.index("cpu_outside_operators")


def critical_path(
    traces: TraceSet,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Return the chain of dependencies that decides how long a step takes, segment by segment.

    Answers what the time of a step was spent on where nothing else could have shortened it, and
    which operator, kernel, launch or wait to look at first.

    The graph: every operator, runtime call and piece of device work has two nodes, its start and
    its end. On a thread each node depends on the one before. A kernel depends on the call that
    launched it, on the kernel before it on its stream, and on what its stream waits for (CUDA
    events); a call that waits for the device (context, stream and event synchronisation) depends
    on the work that it waits for. Where the file records no synchronisation, calls that
    synchronise depend on the last work that ended while they ran, and calls that copy on their
    copy if it had ended when they returned; and a kernel that its idle stream held back, launched
    after a call to wait for an event, depends on the work of another stream that had ended within
    10 µs before it started. The backward pass follows the
    forward pass on whichever threads they run. Only the last of the things that a kernel had to
    wait for counts: time since then is launch overhead or delay between kernels.

    The path is the chain through this graph with the most time accounted for. Time that only
    passes, between operators or in a wait, counts for nothing when chains are compared; the table
    has it all the same, with its cause.

    Parameters
    ----------
    traces : TraceSet
    rank : int
    annotation : str, default "ProfilerStep"
        Part of the name of a range on the host; ``""`` is the whole rank. Analysed is what starts
        on the host within the range, up to the range's end, and what it launched.
    instance : int or (first, last), default 0
        Which of the ranges of that name, numbered by start from 0; both ends belong to a pair.
    data_load_events : iterable of str, optional
        Regular expressions of host events that load data, searched for in names; PyTorch's
        ``DataLoader`` by default.

    Returns
    -------
    DataFrame
        One row per segment, in time; each starts where the one before ends, and their ``dur_ns``
        add up to the analysed span, from the start of the range to its end or to the end of the
        last device work that it launched.

        ``rank``; ``start_ns, dur_ns`` (int64); ``id`` of the event that the time belongs to, -1
        for none; its ``name``, ``kind``, ``stream`` (-1 on the host), ``tid`` and ``track``;
        ``type``, the edge of the graph: ``operator``, ``dependency``, ``kernel_launch_delay``,
        ``kernel_kernel_delay``, ``sync_dependency`` or ``lead`` (before or after the path); and
        ``bound_by``:

        - ``cpu_bound``, ``data_loading``: the host works in an operator or a call;
        - ``gpu_compute_bound``, ``gpu_communication_bound``, ``gpu_memory_bound``: the device
          computes, communicates, copies;
        - ``gpu_kernel_launch_overhead``: from the start of a launching call to that of its kernel;
        - ``gpu_kernel_kernel_overhead``: from a kernel's end to the start of the next;
        - ``gpu_queue_wait``: a launched kernel waits for work that is not on the path;
        - ``cpu_blocked``: a call waits for the device;
        - ``sync_overhead``: from the end of awaited work to the return of the call, or to the
          start of the kernel, that waited;
        - ``cpu_outside_operators``: the thread runs nothing that was recorded as an operator,
          Python for instance;
        - ``outside_path``: before the first or after the last event of the path.

        ``.attrs``: ``length_ns``, the time that counts; ``span_ns``, (start, end) of what was
        analysed; ``matched``, how many events and dependencies of each class there are.

    Raises
    ------
    TraceError
        Where the set has no such rank, or the range has fewer instances.

    Notes
    -----
    The definition is that of HTA's critical path analysis, whose terms `bound_by` keeps. It
    differs where HTA's graph does not follow what happened: copies are ``gpu_memory_bound``
    (HTA: compute); every kernel of a launched CUDA graph takes part, not only the last;
    calls that block are found by what they waited for, so ``cudaMemcpyAsync`` that did not wait
    counts; a kernel that found its stream idle is bound by its launch whichever call launched
    it; no edge goes back in time; events without duration and the calls of all vendors take
    part. `hw.TraceAnalysis.critical_path_analysis` keeps HTA's rules.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> path = hw.analysis.critical_path(traces, rank=0, instance=1)  # doctest: +SKIP
    >>> path.groupby("bound_by", observed=True)["dur_ns"].sum()  # doctest: +SKIP
    """
    trace = trace_of(traces, rank)
    path = path_of(trace, annotation, instance, data_load_events=data_load_events)
    if path is None:
        return _frame(None, traces, rank, f"no event of rank {rank} has {annotation!r} in its name")
    return segments(path, traces)


def critical_path_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how much of a critical path is bound by what.

    Parameters
    ----------
    frame : DataFrame
        From `critical_path`; several below each other are summed up rank by rank.

    Returns
    -------
    DataFrame
        One row per rank and cause that occurs, the most time first: ``rank, bound_by, count``
        (segments), ``dur_ns``, ``share`` (0..1 of the span).

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> path = critical_path(traces, rank=0, instance=1)  # doctest: +SKIP
    >>> critical_path_summary(path)[["bound_by", "share"]]  # doctest: +SKIP
    """
    groups = frame.groupby(["rank", "bound_by"], observed=True, sort=False)["dur_ns"]
    table = groups.agg(["size", "sum"]).reset_index()
    table.columns = pd.Index(["rank", "bound_by", "count", "dur_ns"])
    table = table.astype({"count": np.int64, "dur_ns": np.int64, "rank": np.int64})
    whole = table.groupby("rank")["dur_ns"].transform("sum")
    table["share"] = table["dur_ns"] / whole.clip(lower=1)
    table = table.sort_values(["rank", "dur_ns"], ascending=[True, False], kind="stable")
    table.attrs.update(frame.attrs)
    return table.reset_index(drop=True)


def path_selection(frame: pd.DataFrame, traces: TraceSet) -> Selection:
    """Return the selection of the events on a critical path, for `Timeline.select` and exports.

    Those are the events that its time belongs to, and the calls that launched kernels on it.

    Parameters
    ----------
    frame : DataFrame
        From `critical_path`.
    traces : TraceSet
        The set that it was made from.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> path = critical_path(traces, rank=0, instance=1)  # doctest: +SKIP
    >>> timeline = hw.Timeline(traces)  # doctest: +SKIP
    >>> timeline.select(path_selection(path, traces))  # doctest: +SKIP
    """
    known = frame[frame["id"] >= 0]
    pairs = set(zip(known["rank"].tolist(), known["id"].tolist(), strict=True))
    launched = known[known["type"] == "kernel_launch_delay"]
    for rank, row in zip(launched["rank"].tolist(), launched["id"].tolist(), strict=True):
        pairs.add((rank, int(traces[rank].launch_of[row])))
    return traces.select(ids=sorted(pairs))


def segments(path: CriticalPath, traces: TraceSet) -> pd.DataFrame:
    """Return the table of a path."""
    note = "" if len(path.nodes) else "nothing that counts starts within the range"
    return _frame(path, traces, path.trace.rank, note)


def _frame(path: CriticalPath | None, traces: TraceSet, rank: int, note: str) -> pd.DataFrame:
    trace = traces[rank]
    table, tracks = trace.table, trace.tracks
    if path is None:
        none = np.empty(0, dtype=np.int64)
        start = dur = event = none
        kind, bound = none.astype(np.uint8), none.astype(np.uint8)
    else:
        start, dur, event, kind, bound = _with_leads(path)
    known = event >= 0
    row = np.where(known, event, 0)
    if not len(table):
        known = np.zeros(0, dtype=bool)
    names = [*table.names.values, ""]
    name = np.where(known, table.name[row], len(names) - 1)
    of_kind = np.where(known, table.kind[row].astype(np.int16), -1)
    track = np.where(known, table.track[row], len(tracks)).astype(np.int64)
    used, name = np.unique(name, return_inverse=True)
    matched = {} if path is None else path.matched
    first, last = (0, 0) if path is None else path.span_ns
    return result(
        {
            "rank": np.full(len(start), rank, dtype=np.int64),
            "start_ns": start + trace.shift_ns,
            "dur_ns": dur,
            "id": event,
            "name": _distinct(name, [names[code] for code in used.tolist()]),
            "bound_by": categorical(bound.astype(np.int16), BOUNDS),
            "kind": categorical(of_kind, KINDS),
            "type": categorical(kind.astype(np.int16), EDGE_TYPES),
            "stream": np.where(known, table.stream[row], -1).astype(np.int64),
            "tid": np.array([*(t.tid for t in tracks), ""], dtype=object)[track],
            "track": _distinct(track, [*(t.key for t in tracks), ""]),
        },
        matched=matched,
        note=note,
        length_ns=0 if path is None else path.length_ns,
        span_ns=(first + trace.shift_ns, last + trace.shift_ns),
    )


def _distinct(codes: npt.NDArray[np.int64], values: list[str]) -> pd.Categorical:
    """Return strings by code; values may occur twice."""
    first = {value: code for code, value in reversed(list(enumerate(values)))}
    distinct = list(first)
    number = {value: code for code, value in enumerate(distinct)}
    lookup = np.array([number[value] for value in values], dtype=np.int64)
    return categorical(lookup[codes], distinct)


def _with_leads(
    path: CriticalPath,
) -> tuple[Ints, Ints, Ints, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return start, duration, event, type and cause of each segment that lasts."""
    nodes, edges, on_path = path.nodes, path.edges, path.on_path
    first, last = path.span_ns
    through = path.path_nodes
    if not len(through):
        through = np.zeros(min(1, len(nodes)), dtype=np.int64)
    time = nodes.time_ns[through]
    cut = np.concatenate(([first], time, [last]))
    before, after = _lead(path, through[:1]), _lead(path, through[-1:])
    event = np.concatenate(([before[0]], edges.event[on_path], [after[0]]))
    kind = np.concatenate(([LEAD], edges.type[on_path], [LEAD])).astype(np.uint8)
    bound = np.concatenate(([before[1]], path.bound_by(on_path), [after[1]])).astype(np.uint8)
    if not len(through):
        event, kind, bound = event[:1], kind[:1], bound[:1]
    dur = np.diff(cut)
    lasting = np.flatnonzero(dur > 0)
    return cut[lasting], dur[lasting], event[lasting], kind[lasting], bound[lasting]


def _lead(path: CriticalPath, node: Ints) -> tuple[int, int]:
    """Return whose time it is before or after the path's outermost node, and its cause."""
    rows = path.stretch.rows
    if not len(node):
        return (int(rows[0]) if len(rows) else -1), _BETWEEN
    if not path.nodes.on_host[node[0]]:
        return -1, _OUTSIDE
    table = path.trace.table
    row = int(path.nodes.row[node[0]])
    on_thread = len(rows) > 0 and bool((table.track[rows] == table.track[row]).any())
    return int(table.parent[row]), _BETWEEN if on_thread or not len(rows) else _OUTSIDE
