"""BytePS servers' ``server_profile.json``: begin and end of each request, never closed.

Requests of several workers for one key interleave on one thread, so a stack pairs them wrongly.
Each is paired with the first open one of its key and name. Keys have 64 bits and stay text or
uint64: a double would merge neighbouring partitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.build import build_trace
from hta_widgets.formats.byteps.byteps import nth_of_group
from hta_widgets.formats.byteps.byteps_requests import REQUEST
from hta_widgets.formats.byteps.byteps_requests import Requests
from hta_widgets.formats.byteps.byteps_requests import is_key
from hta_widgets.formats.byteps.byteps_requests import last_push_end
from hta_widgets.formats.byteps.byteps_requests import node_label
from hta_widgets.formats.byteps.byteps_requests import requests_of
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import RankColumns
from hta_widgets.trace.table import RecordSource
from hta_widgets.trace.table import Track
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import Naming

from hta_widgets.formats.byteps.byteps_tracks import BYTEPS_WAIT
from hta_widgets.formats.byteps.byteps_tracks import in_flight
from hta_widgets.formats.byteps.byteps_tracks import named_tracks

__all__ = ["build_server", "first_in_first_out", "is_server"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_CATEGORY = "byteps-server"
_WAIT = "waiting for other pushes"


def is_server(columns: RankColumns) -> bool:
    """Whether nearly all there is are begins and ends of requests."""
    # Counters are of our own exports.
    events = np.flatnonzero(columns.timed & ~np.isin(columns.phase, (ord("M"), ord("C"))))
    if not len(events):
        return False
    request = np.array([REQUEST.fullmatch(name) is not None for name in columns.names.values])
    bracket = np.isin(columns.phase[events], (ord("B"), ord("E")))
    # A broken record or two do not make a file another one.
    return int((bracket & request[columns.name[events]]).sum()) > len(events) // 2


def build_server(
    rank: int | None,
    columns: RankColumns,
    metadata: dict[str, Any],
    source: RecordSource,
    path: str,
    problems: Problems,
) -> Trace:
    """Build the trace of one server.

    A track holds the requests of one worker for one key. Requests that are open at the end of the
    file are asyncs without a duration. Pulls that came before the last push of their iteration
    wait for it; that part of them is shown as well.
    """
    brackets = np.flatnonzero(
        columns.timed & ((columns.phase == ord("B")) | (columns.phase == ord("E")))
    )
    group = columns.pid[brackets].astype(np.int64) * len(columns.names) + columns.name[brackets]
    opens = columns.phase[brackets] == ord("B")
    begins, ends, alone = (brackets[at] for at in first_in_first_out(group, opens))
    begun = brackets[opens]
    iteration = np.full(len(columns.phase), -1, np.int64)
    iteration[begun] = nth_of_group(group[opens])
    open_rows = alone[columns.phase[alone] == ord("B")]
    own = columns.categories.add(_CATEGORY)
    columns.category = np.full(len(columns.category), own, columns.category.dtype)
    nodes = _on_nodes(columns)
    trace = build_trace(
        columns,
        rank=0 if rank is None else rank,
        path=path,
        metadata=metadata,
        source=source,
        problems=problems,
        pairs=(begins, ends, alone),
        names=nodes,
        format="byteps-server",
        stated_rank=rank,
    )
    table = trace.table
    table.tracks[:] = [_as_in_file(track) for track in named_tracks(table.tracks)]
    of_record = np.full(int(columns.record.max(initial=-1)) + 1, -1, np.int64)
    of_record[columns.record] = iteration
    table.step[:] = of_record[table.record]
    trace.async_table = _open_requests(trace, columns, open_rows, iteration)
    requests = requests_of(trace)
    trace.counter_table = _open_over_time(trace, requests)
    trace.async_table = _with_waits(trace, requests)
    trace.memo.clear()
    return trace


def first_in_first_out(group: Ints, opens: npt.NDArray[np.bool_]) -> tuple[Rows, Rows, Rows]:
    """Pair each end with the first begin of its group that is open.

    Parameters
    ----------
    group : array of int
        Only begins and ends of one group pair.
    opens : array of bool
        True for a begin; in the order of the file.

    Returns
    -------
    (begins, ends, alone)
        Positions of partners, and of the begins and ends without one.
    """
    order = np.argsort(group, kind="stable")
    opening = opens[order]
    balance = np.cumsum(np.where(opening, 1, -1))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    before = np.concatenate([[0], balance])[starts]
    level = balance - np.repeat(before, sizes)
    # An end without a begin takes the level lower than it ever was in its group.
    lost = np.zeros(len(order), np.bool_)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        own = level[start : start + size]
        if own.min(initial=0) < 0:
            lowest = np.minimum.accumulate(np.minimum(np.concatenate([[0], own]), 0))
            lost[start : start + size] = np.diff(lowest) < 0
    kept_ends = np.flatnonzero(~opening & ~lost)
    kept_begins = np.flatnonzero(opening)
    of_group = np.repeat(np.arange(len(starts)), sizes)
    ends_of = np.bincount(of_group[kept_ends], minlength=len(starts))
    paired = nth_of_group(of_group[kept_begins]) < ends_of[of_group[kept_begins]]
    alone = np.sort(np.concatenate([order[kept_begins[~paired]], order[np.flatnonzero(lost)]]))
    return order[kept_begins[paired]], order[kept_ends], alone


def _on_nodes(columns: RankColumns) -> Naming:
    """Put the requests of each worker for a key on a thread of its own; return their names."""
    names = Naming()
    keys = sorted(
        {columns.pids[code] for code in np.unique(columns.pid).tolist()},
        key=lambda text: (not is_key(text), int(text) if is_key(text) else 0, text),
    )
    names.process = {pid: f"key {pid}" for pid in keys}
    names.process_sort = {pid: place for place, pid in enumerate(keys)}
    tid_of_name = np.full(len(columns.names), columns.tids.add("other"), columns.tid.dtype)
    for code, name in enumerate(columns.names.values):
        found = REQUEST.fullmatch(name)
        if found is None:
            continue
        node = int(found[2])
        tid = f"node {node}"
        tid_of_name[code] = columns.tids.add(tid)
        for pid in keys:
            names.thread[pid, tid] = node_label(node)
            names.thread_sort[pid, tid] = node
    columns.tid = tid_of_name[columns.name]
    return names


def _as_in_file(track: Track) -> Track:
    return replace(track, tid=track.pid)


def _open_requests(trace: Trace, columns: RankColumns, rows: Rows, iteration: Ints) -> AsyncTable:
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    return AsyncTable(
        start_ns=columns.start_ns[rows] - trace.zero_ns,
        dur_ns=np.full(len(rows), -1, np.int64),
        name=columns.name[rows],
        category=np.full(len(rows), trace.table.categories.add("open request"), np.int32),
        async_id=[str(iteration[row]) for row in rows.tolist()],
        pid=[columns.pids[code] for code in columns.pid[rows].tolist()],
        record=columns.record[rows],
    )


def _open_over_time(trace: Trace, requests: Requests) -> CounterTable:
    closed = requests.closed
    last = int(max(requests.start_ns.max(initial=0), requests.end_ns.max(initial=0)))
    end = np.where(closed, requests.end_ns, last)
    spans = [
        (node_label(node), requests.start_ns[of := requests.node == node], end[of])
        for node in np.unique(requests.node).tolist()
    ]
    return in_flight("open requests", spans, trace.counter_table)


def _with_waits(trace: Trace, requests: Requests) -> AsyncTable:
    """Add how long pulls waited for the last push of their iteration."""
    table, opened = trace.table, trace.async_table
    ready = last_push_end(requests)
    end = np.minimum(ready, requests.end_ns)
    at = np.flatnonzero(~requests.push & requests.closed & (end > requests.start_ns))
    tracks = [table.tracks[code] for code in table.track[requests.row[at]].tolist()]
    start = np.concatenate([opened.start_ns, requests.start_ns[at]])
    order = np.argsort(start, kind="stable")
    count = len(at)
    pids = [*opened.pid, *(track.pid for track in tracks)]
    ids = [*opened.async_id, *map(str, requests.iteration[at].tolist())]
    name, category = table.names.add(_WAIT), table.categories.add(BYTEPS_WAIT)
    return AsyncTable(
        start_ns=start[order],
        dur_ns=np.concatenate([opened.dur_ns, end[at] - requests.start_ns[at]])[order],
        name=np.concatenate([opened.name, np.full(count, name)]).astype(np.int32)[order],
        category=np.concatenate([opened.category, np.full(count, category)]).astype(np.int32)[
            order
        ],
        async_id=[ids[place] for place in order.tolist()],
        pid=[pids[place] for place in order.tolist()],
        record=np.concatenate([opened.record, np.full(count, -1)]).astype(np.int64)[order],
    )
