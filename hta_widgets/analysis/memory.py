"""Memory in use over time, from ``[memory]`` events of traces and PyTorch's memory timelines.

For example, 100 bytes are allocated at 1 ns and 50 at 3 ns, and the first 100 are released at 7 ns.
The memory in use is 100 bytes from 1 ns, 150 from 3 ns, and 50 from 7 ns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import int64, result_frame, stack_blocks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import check_arguments, convert
from hta_widgets.errors import TraceError
from hta_widgets.readers.streams import open_stream
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.columns import record_args, to_int64
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

#: PyTorch's device types, in the order of ``c10::DeviceType``.
_DEVICES = (
    *("cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla"),
    *("vulkan", "metal", "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia"),
    "privateuseone",
)
#: Args of ``[memory]`` events, with the values that stand for missing ones.
_ARGS = {
    "Device Type": -1, "Device Id": -1, "Bytes": 0, "Total Allocated": -1, "Total Reserved": -1,
    "Addr": -1,
}  # fmt: skip

#: Categories of memory, in PyTorch's order.
MEMORY_CATEGORIES: tuple[str, ...] = (
    "Parameter", "Optimizer state", "Input", "Temporary", "Activation", "Gradient", "Autograd",
    "Unknown",
)  # fmt: skip

#: Actions, keyed by the value of PyTorch's ``Action``.
_ACTIONS = {1: "preexisting", 2: "create", 3: "increment_version", 4: "destroy"}

#: Time, action, bytes and category; as a tuple, to avoid a list per event while decoding.
_Event = tuple[int, int, int, int]
_decode_events = msgspec.json.Decoder(list[_Event]).decode
_EXPORT = 'prof.export_memory_timeline("memory.raw.json.gz", device="cuda:0")'
_REMEDY = f"Write it with {_EXPORT}."


@check_arguments
def memory_events(
    traces: TraceSet, *, window: Window | None = None, ranks: Iterable[int] | None = None
) -> pd.DataFrame:
    """Return the allocations and releases of memory in traces.

    Traces recorded with ``profile_memory=True`` have an instant event named ``[memory]`` for each
    allocation (bytes > 0) and release (bytes < 0) by PyTorch's allocators.

    Parameters
    ----------
    traces : TraceSet
    window : (start_ns, end_ns), optional
        Restricts the events to this window.
    ranks : iterable of int, optional
        Only these ranks.

    Returns
    -------
    DataFrame
        One row per event, ordered by rank and time:

        - ``rank, time_ns`` (int64)
        - ``device`` (category): ``cpu``, ``cuda:0``, … (PyTorch also names AMD devices ``cuda``)
        - ``bytes`` (int64): number of allocated bytes; negative for released bytes
        - ``total_allocated_bytes, total_reserved_bytes`` (int64): allocated and reserved by the
          device's allocator after the event; -1 if unknown (before PyTorch 1.10)
        - ``running_bytes`` (int64): sum of ``bytes`` on the rank and device since the recording
          began
        - ``address`` (int64): -1 if unknown
        - ``operator_id`` (int64), ``operator`` (category): id and name of the innermost operator on
          the thread at that time; -1 and empty if none
        - ``pid, tid`` (category): the thread, as in the file
    """
    blocks = [_events_of(part) for part in rank_parts(traces, None, window, ranks)]
    schema = {
        **int64("rank time_ns"), "device": "category",
        **int64("bytes total_allocated_bytes total_reserved_bytes running_bytes address"),
        **int64("operator_id"), "operator": "object", "pid": "object", "tid": "object",
    }  # fmt: skip
    column = stack_blocks(blocks, schema)
    for name in ("operator", "pid", "tid"):
        column[name] = pd.Categorical(pd.Series(column[name], dtype=str))
    amounts = column["bytes"]
    return result_frame(
        column,
        matched={"allocations": int((amounts > 0).sum()), "releases": int((amounts < 0).sum())},
        note="" if len(amounts) else "no [memory] events: record with profile_memory=True",
    )


def _events_of(part: RankPart) -> dict[str, Any]:
    trace = part.trace
    table, names = trace.instant_table, trace.table.names
    memory_names = [code for code, text in enumerate(names.values) if text == "[memory]"]
    rows = np.flatnonzero(np.isin(table.name, memory_names))
    args = _memory_args(trace, table.record[rows])
    device_names = []
    for type_, number in zip(args["Device Type"].tolist(), args["Device Id"].tolist(), strict=True):
        name = _DEVICES[type_] if 0 <= type_ < len(_DEVICES) else "unknown"
        device_names.append(name if number < 0 else f"{name}:{number}")
    device, devices = pd.factorize(np.array(device_names, object))
    # Running sums start with the recording, regardless of the window.
    running = pd.Series(args["Bytes"]).groupby(device).cumsum().to_numpy()
    inside = np.flatnonzero(part.is_in_window(table.time_ns[rows]))
    rows = rows[inside]
    operator = _operator_at(trace, rows)
    name_code = trace.table.name
    return {
        "rank": trace.rank,
        "time_ns": table.time_ns[rows] + trace.shift_ns,
        "device": (device[inside], devices.tolist()),
        "bytes": args["Bytes"][inside],
        "total_allocated_bytes": args["Total Allocated"][inside],
        "total_reserved_bytes": args["Total Reserved"][inside],
        "running_bytes": running[inside],
        "address": args["Addr"][inside],
        "operator_id": operator,
        "operator": [names[name_code[row]] if row >= 0 else "" for row in operator.tolist()],
        "pid": [table.pid[row] for row in rows.tolist()],
        "tid": [table.tid[row] for row in rows.tolist()],
    }


def _memory_args(trace: Trace, records: Ints) -> dict[str, Ints]:
    args_by_record: dict[int, list[Any]] = {}
    if trace.source is not None:
        decode = record_args(list(_ARGS))
        args_by_record = {record: decode(body) for record, body in trace.source.records(records)}
    no_args = [None] * len(_ARGS)
    args = [args_by_record.get(record, no_args) for record in records.tolist()]
    columns = zip(*args, strict=True) if args else [()] * len(_ARGS)
    return {
        name: to_int64(column, missing)
        for (name, missing), column in zip(_ARGS.items(), columns, strict=True)
    }


def _operator_at(trace: Trace, rows: Rows) -> Ints:
    """Return the innermost operator on the thread of each instant event; -1 if there is none."""
    table, instants = trace.table, trace.instant_table
    tree = operator_tree(trace)
    thread_numbers = {
        (track.pid, track.tid): number
        for number, track in enumerate(table.tracks)
        if track.role == "thread"
    }
    keys = ((instants.pid[row], instants.tid[row]) for row in rows.tolist())
    thread = np.array([thread_numbers.get(key, -1) for key in keys], dtype=np.int64)
    innermost = np.full(len(rows), -1, dtype=np.int64)
    start, end = table.start_ns[tree.rows], table.end_ns[tree.rows]
    for number in np.unique(thread[thread >= 0]).tolist():
        on_thread = np.flatnonzero(thread == number)
        operators = np.flatnonzero(table.track[tree.rows] == number)
        if not len(operators):
            continue
        time_ns = instants.time_ns[rows[on_thread]]
        # If the operator that started last has ended, an enclosing one may still run.
        last = np.searchsorted(start[operators], time_ns, side="right") - 1
        current = np.where(last >= 0, operators[last], -1)
        while (has_ended := (current >= 0) & (end[current] <= time_ns)).any():
            current[has_ended] = tree.forest.parent[current[has_ended]]
        innermost[on_thread] = np.where(current >= 0, tree.rows[current], -1)
    return innermost


@check_arguments
def memory_timeline(path: str | Path) -> pd.DataFrame:
    """Return the memory in use over time, by category.

    Parameters
    ----------
    path : path-like
        A file from ``torch.profiler.profile.export_memory_timeline`` for one device: events
        (``.raw.json.gz``), or sums by category (``.json``, ``.json.gz``). Format and compression
        are detected from the contents.

    Returns
    -------
    DataFrame
        One row per instant of change, ordered by time, all int64: ``time_ns`` since the first
        event, in whole microseconds in files of sums; and the bytes in use after all changes at
        that instant: ``Parameter, Optimizer state, Input, Temporary, Activation, Gradient,
        Autograd, Unknown``.

        ``.attrs`` has ``origin_ns``, the epoch time of the first event (None if all memory was
        allocated before); ``peak_bytes``, the maximum of each category; ``peak_total_bytes``,
        ``peak_time_ns`` and ``at_peak_bytes``: the maximum of all memory, its time, and its bytes
        by category; ``preexisting_bytes``, allocated before the first event (empty for files of
        sums). ``matched`` counts events by action, or ``instants``.

    Notes
    -----
    Sums and categories are as in HTA's ``MemoryAnalysis`` and PyTorch's plot. Memory allocated
    before the first event counts from that event on; HTA adds a row with the same time for it.
    """
    value = _decode_file(path)
    # A file of sums is ``[times, sizes]`` instead of a list of events.
    has_sums = isinstance(value, list) and [type(item) for item in value] == [list, list]
    if has_sums and (not value[1] or type(value[1][0]) is list):
        return _timeline_of_sums(value, path)
    return _timeline_of_events(value, path)


def _decode_file(path: str | Path) -> Any:
    with open_stream(path) as stream:
        data = b"".join(iter(lambda: stream.read(1 << 20), b""))
        if stream.fault is not None:
            raise TraceError(
                f"the compressed data is damaged ({stream.fault.message})",
                path=path,
                remedy="Copy the file again, or export it again.",
            )
    if data.lstrip()[:1] == b"<":
        problem = "is a picture of the timeline, without its numbers"
        raise TraceError(problem, path=path, remedy=_REMEDY)
    try:
        with contextlib.suppress(msgspec.ValidationError):
            return _decode_events(data)
        # The file contains sums or something else.
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        is_pickle = data[:1] == b"\x80"
        hint = "Snapshots of torch.cuda.memory are another format. " if is_pickle else ""
        problem = f"is not a memory timeline ({cause})"
        raise TraceError(problem, path=path, remedy=hint + _REMEDY) from None


def _timeline_of_events(value: Any, path: str | Path) -> pd.DataFrame:
    events = _validate(value, list[_Event], path)
    time, action, amount, category = _numbers(events, 4, path).T
    wrong = np.flatnonzero((category < 0) | (category >= len(MEMORY_CATEGORIES)))
    if len(wrong):
        raise TraceError(
            f"unknown category {category[wrong[0]]}",
            path=path,
            place=f"event {wrong[0]}",
            remedy=f"Categories are 0 to {len(MEMORY_CATEGORIES) - 1}. {_REMEDY}",
        )
    # Memory allocated before the first event has negative times, so it comes first.
    order = np.argsort(time, kind="stable")
    amounts = np.where(category[:, None] == np.arange(len(MEMORY_CATEGORIES)), amount[:, None], 0)
    return _timeline_frame(
        time[order],
        np.cumsum(amounts[order], axis=0),
        matched={word: int((action == code).sum()) for code, word in _ACTIONS.items()},
        preexisting_bytes=_by_category(amounts[time < 0].sum(axis=0)),
    )


def _timeline_of_sums(value: Any, path: str | Path) -> pd.DataFrame:
    times, sizes = _validate(value, tuple[list[int], list[list[int]]], path)
    columns = len(MEMORY_CATEGORIES)
    if len(times) != len(sizes):
        problem = f"{len(times)} times but {len(sizes)} rows of sizes"
        raise TraceError(problem, path=path, remedy=_REMEDY)
    # The first size in each row is 0, the base of the stacked areas.
    for row, sizes_at_time in enumerate(sizes):
        if len(sizes_at_time) != columns + 1:
            raise TraceError(
                f"{len(sizes_at_time)} sizes instead of {columns + 1}",
                path=path,
                place=f"row {row}",
                remedy=_REMEDY,
            )
    time_us = _numbers([times], len(times), path)[0]
    order = np.argsort(time_us, kind="stable")
    return _timeline_frame(
        time_us[order] * 1000,
        _numbers(sizes, columns + 1, path)[order, 1:],
        matched={"instants": len(time_us)},
        preexisting_bytes={},
    )


def _validate(value: Any, expected: Any, path: str | Path) -> Any:
    try:
        return convert(value, expected)
    except msgspec.ValidationError as cause:
        reason, _, place = str(cause).partition(" - at ")
        kind = "is a trace" if isinstance(value, dict) and "traceEvents" in value else ""
        raise TraceError(
            f"{kind or 'is not a memory timeline'} ({reason[:1].lower()}{reason[1:]})",
            path=path,
            place=place.strip("`") or None,
            remedy="Pass what hw.load returns to memory_events." if kind else _REMEDY,
        ) from None


def _numbers(rows: Sequence[Sequence[int]], width: int, path: str | Path) -> Ints:
    """Return rows of `width` numbers as an array; raise a `TraceError` for numbers over 64 bits."""
    try:
        flat = np.fromiter(chain.from_iterable(rows), np.int64, width * len(rows))
    except OverflowError:
        raise TraceError(
            "a number is too large for 64 bits", path=path, remedy="Copy the file again."
        ) from None
    return flat.reshape(len(rows), width)


def _by_category(amounts: Ints) -> dict[str, int]:
    return dict(zip(MEMORY_CATEGORIES, amounts.tolist(), strict=True))


def _timeline_frame(time_ns: Ints, sizes: Ints, **attrs: Any) -> pd.DataFrame:
    """Return a row per instant, from its last record, beginning with the first time >= 0.

    Records are sorted by time. Negative times count as the first instant.
    """
    recorded = time_ns[time_ns >= 0]
    origin_ns = int(recorded[0]) if len(recorded) else None
    time_ns = np.maximum(time_ns, origin_ns or 0) - (origin_ns or 0)
    last = np.flatnonzero(np.append(time_ns[1:] != time_ns[:-1], True)[: len(time_ns)])
    time_ns, sizes = time_ns[last], sizes[last]
    total = sizes.sum(axis=1)
    peak = int(total.argmax()) if len(total) else -1
    return result_frame(
        {"time_ns": time_ns, **dict(zip(MEMORY_CATEGORIES, sizes.T, strict=True))},
        note="" if len(time_ns) else "the file has no events: did the device allocate memory?",
        origin_ns=origin_ns,
        peak_bytes=_by_category(sizes.max(axis=0, initial=0)),
        peak_total_bytes=int(total[peak]) if len(total) else 0,
        peak_time_ns=int(time_ns[peak]) if len(total) else -1,
        at_peak_bytes=_by_category(sizes[peak]) if len(total) else {},
        **attrs,
    )
