"""Marks device work in Chrome JSON of Ascend's profiler, and links operators to their tasks.

A file contains a collective three times: as one event of its group, as the transfers of each plane,
and as tasks of the hardware streams. Only the group's event counts::

    HCCL             Group 0 Communication   hcom_allReduce__586_0_1   counts
                     Plane 1                 Memcpy, Notify_Wait       repeats it
    Ascend Hardware  Stream 4                SDMA, Notify Wait         repeats it, or waits

Flows ``async_npu`` link operators to tasks. They begin at the start of an operator and end at the
start of a task. Tasks without such a flow are linked to CANN calls by ``HostToDevice``.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from hta_widgets.formats.event_rows import distinct_rows
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.columns import RankColumns
from hta_widgets.trace.tracks import read_track_names

_HARDWARE, _CALLS = "Ascend Hardware", "CANN"
#: Flows from the host to tasks, in order of preference.
_LAUNCHES = ("async_npu", "HostToDevice")
#: Types of hardware tasks that do part of a collective, wait, or mark a place. Such tasks are named
#: after their type, while kernels and copies have names of their own.
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
    """Mark waits, calls and device work in columns of Ascend's profiler, and link the work."""
    process = read_track_names(columns).process
    names = [process.get(pid) for pid in columns.pids.values]
    if _HARDWARE not in names:
        return columns
    is_hardware, is_host = (
        np.array([name == part for name in names]) for part in (_HARDWARE, _CALLS)
    )
    is_wait = np.array([NOT_WORK.fullmatch(name) is not None for name in columns.names.values])
    is_no_work = is_hardware[columns.pid] & is_wait[columns.name]
    is_call = is_host[columns.pid] & (columns.phase == _X)
    category = columns.category.astype(np.int32)
    category[is_no_work] = columns.categories.add(NO_WORK_CATEGORY)
    category[is_call] = columns.categories.add("cuda_runtime")
    columns = replace(columns, category=category)
    for flow_category in _LAUNCHES:
        columns = _link_launches(columns, flow_category)
    return columns


def _link_launches(columns: RankColumns, flow_category: str) -> RankColumns:
    """Give launches and unlinked tasks connected by flows of a category the same correlation."""
    code = columns.categories.find(flow_category)
    is_flow = (columns.category == code) & (columns.flow >= 0)
    begins, ends = (np.flatnonzero(is_flow & (columns.phase == ord(phase))) for phase in "sf")
    if not len(begins) or not len(ends):
        return columns
    begin_of_flow = np.full(columns.flow.max() + 1, -1)
    begin_of_flow[columns.flow[begins]] = begins  # the last begin of a flow is used
    begin_of_end = begin_of_flow[columns.flow[ends]]
    launches = _events_at(columns, begin_of_end[begin_of_end >= 0])
    tasks = _events_at(columns, ends[begin_of_end >= 0])
    is_linked = (launches >= 0) & (tasks >= 0)
    is_linked &= columns.correlation[tasks] <= 0
    correlation = columns.correlation.copy()
    correlation[launches[is_linked]] = launches[is_linked] + 1
    correlation[tasks[is_linked]] = launches[is_linked] + 1
    return replace(columns, correlation=correlation)


def _events_at(columns: RankColumns, flows: Rows) -> Ints:
    """Return the event that begins at each flow record's time, on its thread; -1 if none does."""
    events = np.flatnonzero((columns.phase == _X) & columns.timed)
    rows = np.concatenate([events, flows])
    _, place = distinct_rows(columns.pid[rows], columns.tid[rows], columns.start_ns[rows])
    event_at = np.full(len(rows), -1)
    event_at[place[: len(events)]] = events  # the last of several events is used
    return event_at[place[len(events) :]]
