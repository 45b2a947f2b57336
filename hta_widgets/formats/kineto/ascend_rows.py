"""Marks the work in Chrome JSON of Ascend's profiler, and links operators to their tasks.

A file contains a collective three times: as one event of its group, as the transfers of each plane,
and as tasks of the hardware streams. Only the event of the group counts::

    HCCL             Group 0 Communication   hcom_allReduce__586_0_1   counts
                     Plane 1                 Memcpy, Notify_Wait       repeats it
    Ascend Hardware  Stream 4                SDMA, Notify Wait         repeats it, or waits

Flows ``async_npu``, which begin at an operator's start and end at a task's, link operators to their
tasks. Tasks without such a flow are linked to calls of CANN by ``HostToDevice``.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.columns import RankColumns
from hta_widgets.trace.tracks import read_track_names

_HARDWARE, _CALLS = "Ascend Hardware", "CANN"
#: Flows from the host to tasks, in order of preference.
_LAUNCHES = ("async_npu", "HostToDevice")
#: Types of hardware tasks that do part of a collective, wait, or mark a place. These tasks are
#: named after their type, while kernels and copies have names of their own.
NOT_WORK = re.compile(
    r"SDMA|RDMA\w*|Notify[ _](Wait|Record)|Write[ _]Value(_SQE)?|Reduce[ _]Inline|PROFILING_\w+"
    r"|EVENT_\w+|PLACE_HOLDER\w*|MODEL_(EXECUTE|MAINT\w+)|STREAM_(SWITCH\w*|ACTIVE)|LABEL_\w+"
    r"|.*_(WAIT|RECORD|NOTIFY)(_SQE)?",
    re.IGNORECASE,
)
#: Category of device tasks that do not compute, communicate or copy.
NO_WORK_CATEGORY = "gpu_sync"
_X = ord("X")


def mark_ascend_rows(columns: RankColumns) -> RankColumns:
    """Mark waits and calls and link work in columns of Ascend's profiler."""
    process = read_track_names(columns).process
    names = [process.get(pid) for pid in columns.pids.values]
    if _HARDWARE not in names:
        return columns
    is_hardware, is_host = (
        np.array([name == part for name in names]) for part in (_HARDWARE, _CALLS)
    )
    is_wait = np.array([NOT_WORK.fullmatch(name) is not None for name in columns.names.values])
    category = columns.category.astype(np.int32)
    category[is_hardware[columns.pid] & is_wait[columns.name]] = columns.categories.add(
        NO_WORK_CATEGORY
    )
    is_call = is_host[columns.pid] & (columns.phase == _X)
    category[is_call] = columns.categories.add("cuda_runtime")
    columns = replace(columns, category=category)
    for flow_category in _LAUNCHES:
        columns = _link_launches(columns, flow_category)
    return columns


def _link_launches(columns: RankColumns, flow_category: str) -> RankColumns:
    code = columns.categories.find(flow_category)
    is_flow = (columns.category == code) & (columns.flow >= 0)
    begins, ends = (np.flatnonzero(is_flow & (columns.phase == ord(phase))) for phase in "sf")
    if not len(begins) or not len(ends):
        return columns
    # An end belongs to the last begin with the same flow id.
    begins = begins[np.argsort(columns.flow[begins], kind="stable")]
    position = np.searchsorted(columns.flow[begins], columns.flow[ends], side="right") - 1
    is_paired = columns.flow[begins][np.maximum(position, 0)] == columns.flow[ends]
    begins, ends = begins[position[is_paired]], ends[is_paired]
    launches, tasks = _events_at(columns, begins), _events_at(columns, ends)
    is_linked = (launches >= 0) & (tasks >= 0)
    is_linked &= columns.correlation[tasks] <= 0
    correlation = columns.correlation.copy()
    correlation[launches[is_linked]] = launches[is_linked] + 1
    correlation[tasks[is_linked]] = launches[is_linked] + 1
    return replace(columns, correlation=correlation)


def _events_at(columns: RankColumns, flows: Rows) -> Ints:
    """Return the event that begins at each flow record, by time and thread; -1 if none."""
    events = np.flatnonzero((columns.phase == _X) & columns.timed)
    starts_ns = np.unique(columns.start_ns[events])

    def keys_of(rows: Rows) -> Ints:
        """Return a number for each row's thread and start; -1 if no event starts then."""
        thread = columns.pid[rows].astype(np.int64) * len(columns.tids) + columns.tid[rows]
        code = np.minimum(np.searchsorted(starts_ns, columns.start_ns[rows]), len(starts_ns) - 1)
        is_start = starts_ns[code] == columns.start_ns[rows]
        return np.where(is_start, thread * len(starts_ns) + code, -1)

    key = keys_of(events)
    order = np.argsort(key, kind="stable")
    flow_key = keys_of(flows)
    position = np.maximum(np.searchsorted(key[order], flow_key, side="right") - 1, 0)
    is_found = (key[order][position] == flow_key) & (flow_key >= 0)
    return np.where(is_found, events[order[position]], -1)
