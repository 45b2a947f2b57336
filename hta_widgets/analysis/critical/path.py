"""The critical path of a rank as a frame, a selection, and arrows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from hta_widgets.analysis.critical.graph import CriticalPath, critical_path_of
from hta_widgets.analysis.critical.nodes import (
    BOUNDS,
    EDGE_TYPES,
    OPERATOR,
    resolve_annotation,
    without_steps_note,
)
from hta_widgets.analysis.critical.walk import path_segments
from hta_widgets.analysis.frames import categorical, require_columns, result_frame
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.arguments import check_arguments
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import share
from hta_widgets.trace.arrays import Array, Ints
from hta_widgets.trace.columns import FlowTable, concatenate_tables
from hta_widgets.trace.event_columns import categorical_dtype, drop_unused_texts
from hta_widgets.trace.intervals import intersect, total_length, union
from hta_widgets.trace.traceset import Selection, TraceSet, replace_ranks

#: Kind of the arrows along a path.
_KIND = "critical_path"
#: Causes of time on the host.
_ON_HOST = [BOUNDS.index(name) for name in ("cpu_bound", "data_loading", "cpu_outside_operators")]
#: Smallest share of the span at which a note mentions host time while the device works.
_MIN_NOTED_SHARE = 0.1
_FROM = "Give the frame of hta_widgets.analysis.critical_path."


@check_arguments
def with_critical_path(
    traces: TraceSet,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
) -> TraceSet:
    """Return the trace set with a critical path as arrows of kind ``critical_path``.

    For a selected event on the path, a timeline of the result shows the arrows from and to it, and
    the keys that follow arrows move along the path. Arrows lead from event to event wherever the
    path leaves an event: launches, waits, the next kernel, the next operator. `Trace.flows` lists
    them after the file's arrows.

    Parameters
    ----------
    traces : TraceSet
    rank, annotation, instance, data_load_events
        As in `critical_path`.

    Returns
    -------
    TraceSet
        The same ranks and events; the given trace set if the rank has no such range.
    """
    path = critical_path_of(traces[rank], annotation, instance, data_load_events=data_load_events)
    if path is None:
        return traces
    edges, flows = path.edges, path.trace.flow_table
    leaving = path.on_path[edges.type[path.on_path] != OPERATOR]
    row = path.nodes.row.astype(np.int64)
    kinds = [*flows.kinds] if _KIND in flows.kinds else [*flows.kinds, _KIND]
    kind = np.full(len(leaving), kinds.index(_KIND), dtype=np.uint8)
    none = np.full(len(leaving), -1, dtype=np.int64)
    source, target = row[edges.source[leaving]], row[edges.target[leaving]]
    arrows = FlowTable(kind, source, target, kinds, none, none)
    all_arrows = concatenate_tables([flows, arrows], kinds=kinds)
    return replace_ranks(traces, {rank: path.trace.replace(flow_table=all_arrows)})


@check_arguments
def critical_path(
    traces: TraceSet,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Return the chain of dependencies that determines a step's duration, by segment.

    The path is the work that determined a step's duration, so it shows what to look at first.

    The graph: every operator, runtime call and piece of device work has two nodes, its start and
    its end. On a thread each node depends on the previous node. A kernel depends on the call that
    launched it, on the kernel before it on its stream, and on the CUDA events for which its stream
    waits; a call that waits for the device (context, stream and event synchronization) depends on
    the awaited work. If the file records no synchronization, calls that synchronize depend on the
    last work that ended while they ran, and calls that copy depend on their copy if it had ended
    when they returned. In such files, a kernel that was launched after a call to wait for an event,
    and did not start although its stream was idle, depends on the work of another stream that had
    ended within 30 µs before the kernel started, or within twice the median of these times in the
    file. A pause of a thread of more than 1 ms depends on the work that was launched last, or that
    ends last of all launched work, if it ends with that work, and a pause within an event depends
    on an event of another launching thread that fills the pause and ends with it: within 300 µs and
    5 % of the pause. The backward pass follows the forward pass on any threads. Only a kernel's
    last dependency counts: time since then is launch overhead or delay between kernels.

    The path is the chain through this graph that accounts for the most time. Time between operators
    and in waits does not count when chains are compared; the result has rows for it, with its
    cause. Before and after that chain, the result continues with chains of other events.

    Parameters
    ----------
    traces : TraceSet
    rank : int
    annotation : str, default "ProfilerStep"
        Part of the name of a range on the host; ``""`` is the whole rank. The analysis covers
        the host events that start within the range, cut at its end, the work they launched, and
        earlier work that is unfinished at its start. A rank without ``ProfilerStep`` has the path
        of a step of its inference engine (``step[…]``, ``execute_…``, ``decode[…]``) or else of the
        whole rank.
    instance : int or (first, last), default 0
        Number of the range among those with that name, counted from 0 by start; or the numbers of
        the first and last range.
    data_load_events : iterable of str, optional
        Regular expressions for host events that load data, searched for in names. Default:
        PyTorch's ``DataLoader``.

    Returns
    -------
    DataFrame
        One row per segment, in order of time and without gaps. ``dur_ns`` adds up to the analyzed
        span: from the start of the range to its end, or to the end of the last device work that it
        launched if that is later.

        ``rank``; ``start_ns, dur_ns`` (int64); ``id`` of the event to which the time belongs, -1 if
        there is none; its ``name``, ``kind``, ``stream`` (-1 on the host), ``tid`` and ``track``;
        ``type``, the edge of the graph: ``operator``, ``dependency``, ``kernel_launch_delay``,
        ``kernel_kernel_delay``, ``sync_dependency`` or ``lead`` (before or after the chain); and
        ``bound_by``:

        - ``cpu_bound``, ``data_loading``: the host works in an operator or a call;
        - ``gpu_compute_bound``, ``gpu_communication_bound``, ``gpu_memory_bound``: the device
          computes, communicates, copies;
        - ``gpu_kernel_launch_overhead``: from the start of a launch call to the start of its
          kernel, at most 1 ms after the call;
        - ``gpu_kernel_kernel_overhead``: from the end of a kernel to the start of the next, at most
          30 µs;
        - ``unknown_wait``: one of these two delays, if it exceeds its maximum because the kernel
          waited for something that is not in the file; only the maximum counts;
        - ``gpu_queue_wait``: a launched kernel waits for work that is not on the path;
        - ``cpu_blocked``: a call waits for the device, possibly for work that is not in the file;
        - ``sync_overhead``: from the end of awaited work to the return of the waiting call, or to
          the start of the waiting kernel;
        - ``cpu_outside_operators``: the thread is not in a recorded operator, for example because
          it runs Python or sleeps;
        - ``outside_path``: nothing is recorded.

        ``.attrs``: ``length_ns``, the time that counts; ``span_ns``, the analyzed (start, end);
        ``matched``, the number of events and dependencies of each class; ``note``, which also
        states for how much of the span the path is on the host while the device works.

    Notes
    -----
    The definition is that of HTA's critical path analysis, whose terms `bound_by` keeps, with these
    exceptions. Copies are ``gpu_memory_bound`` (HTA: compute). Every kernel of a launched CUDA
    graph is included, not only the last. Blocking calls are recognized by the work for which they
    waited, so a ``cudaMemcpyAsync`` that did not wait counts. A kernel that found its stream idle
    is bound by its launch, whichever call launched it. No edge goes back in time. Events without
    duration, and the calls of all vendors, are included. `hw.TraceAnalysis.critical_path_analysis`
    keeps HTA's rules.
    """
    trace = traces[rank]
    path = critical_path_of(trace, annotation, instance, data_load_events=data_load_events)
    if path is None:
        note = f"no event of rank {rank} has {annotation!r} in its name"
        return _path_frame(None, traces, rank, note)
    note = without_steps_note(annotation, resolve_annotation([trace], annotation))
    if not len(path.nodes):
        note = "no event that can be on the path starts within the range"
    return _path_frame(path, traces, rank, note)


@check_arguments
def critical_path_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how much of a critical path each cause bounds.

    Parameters
    ----------
    frame : DataFrame
        From `critical_path`; concatenated frames are summed rank by rank.

    Returns
    -------
    DataFrame
        One row per rank and cause that occurs, most time first: ``rank, bound_by, count``
        (segments), ``dur_ns``, ``share`` (0..1 of the span).
    """
    require_columns(frame, _FROM, ("rank", "bound_by", "dur_ns"))
    times = frame.groupby(["rank", "bound_by"], observed=True, sort=False)["dur_ns"]
    table = times.agg(count="size", dur_ns="sum").reset_index()
    table = table.astype({"count": np.int64, "dur_ns": np.int64, "rank": np.int64})
    span_ns = table.groupby("rank")["dur_ns"].transform("sum")
    table["share"] = table["dur_ns"] / span_ns.clip(lower=1)
    table.attrs.update(frame.attrs)
    return table.sort_values(
        ["rank", "dur_ns"], ascending=[True, False], kind="stable", ignore_index=True
    )


@check_arguments
def path_selection(frame: pd.DataFrame, traces: TraceSet) -> Selection:
    """Return the selection of the events on a critical path, for `Timeline.select` and exports.

    These are the events to which the path's time belongs, and the launch calls of its kernels.

    Parameters
    ----------
    frame : DataFrame
        From `critical_path`.
    traces : TraceSet
        The trace set from which the frame was made.
    """
    require_columns(frame, _FROM, ("id", "rank", "type"))
    on_events = frame[frame["id"] >= 0]
    pairs = set(zip(on_events["rank"].tolist(), on_events["id"].tolist(), strict=True))
    launched = on_events[on_events["type"] == "kernel_launch_delay"]
    for rank, row in zip(launched["rank"].tolist(), launched["id"].tolist(), strict=True):
        pairs.add((rank, int(traces[rank].launch_of[row])))
    return traces.select(ids=sorted(pairs))


def _path_frame(path: CriticalPath | None, traces: TraceSet, rank: int, note: str) -> pd.DataFrame:
    trace = traces[rank]
    table, tracks = trace.table, trace.tracks
    segments = np.empty((5, 0), dtype=np.int64) if path is None else path_segments(path)
    start, dur, event, edge_type, bound = segments
    first, last = (0, 0) if path is None else path.span_ns
    # Segments without an event (-1) get the last item of these lists, or -1.
    names, keys = [*table.names.values, ""], [*(track.key for track in tracks), ""]
    tids = np.array([*(track.tid for track in tracks), ""], dtype=object)
    has_event = event >= 0
    row = np.where(has_event, event, 0)
    kind = np.where(has_event, table.kind[row].astype(np.int16), -1)
    track = np.where(has_event, table.track[row], len(tracks)).astype(np.int64)
    name, used_names = drop_unused_texts(
        np.where(has_event, table.name[row], len(names) - 1), names
    )
    notes = [note] if path is None else [note, _host_note(path, start, start + dur, bound)]
    return result_frame(
        {
            "rank": np.full(len(start), rank, dtype=np.int64),
            "start_ns": start + trace.shift_ns,
            "dur_ns": dur,
            "id": event,
            "name": _categorical_of(name, used_names),
            "bound_by": categorical(bound, BOUNDS),
            "kind": categorical(kind, KINDS),
            "type": categorical(edge_type, EDGE_TYPES),
            "stream": np.where(has_event, table.stream[row], -1).astype(np.int64),
            "tid": tids[track],
            "track": _categorical_of(track, keys),
        },
        matched={} if path is None else path.matched,
        note=notes,
        length_ns=0 if path is None else path.length_ns,
        span_ns=(first + trace.shift_ns, last + trace.shift_ns),
    )


def _host_note(path: CriticalPath, start: Ints, end: Ints, bound: Ints) -> str:
    """Return a note about host time on the path while the device works; "" if there is little."""
    on_host = np.isin(bound, _ON_HOST)
    work = device_work_rows(path.trace)
    busy = union(path.trace.table.start_ns[work], path.trace.table.end_ns[work])
    host_ns = total_length(intersect(union(start[on_host], end[on_host]), busy))
    part = host_ns / max(path.span_ns[1] - path.span_ns[0], 1)
    if part < _MIN_NOTED_SHARE:
        return ""
    return (
        f"for {share(part)} of the span the path is on the host while the device runs work that"
        " does not delay it"
    )


def _categorical_of(codes: Array, values: list[str]) -> pd.Categorical:
    """Return a categorical of ``values[codes]`` whose categories begin with the last value."""
    dtype = categorical_dtype(list(dict.fromkeys(reversed(values))))
    return pd.Categorical(np.array(values, dtype=object)[codes], dtype=dtype)
