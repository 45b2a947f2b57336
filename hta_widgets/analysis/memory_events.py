"""Where memory is allocated and released: the allocators' events within traces."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.host_stack import operator_tree
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import parts

__all__ = ["memory_events"]

Ints = npt.NDArray[np.int64]

#: PyTorch's devices, by the numbers of ``c10::DeviceType``.
_DEVICES = (
    *("cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla"),
    *("vulkan", "metal", "xpu", "mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia"),
    "privateuseone",
)


def memory_events(
    traces: TraceSet, *, window: Window | None = None, ranks: Iterable[int] | None = None
) -> pd.DataFrame:
    """Return the allocations and releases of memory that traces hold.

    Traces recorded with ``profile_memory=True`` hold one instant event called ``[memory]`` for
    each allocation (bytes > 0) and release (bytes < 0) of PyTorch's allocators.

    Parameters
    ----------
    traces : TraceSet
    window : (start_ns, end_ns), optional
        Only events within it.
    ranks : iterable of int, optional
        Only these ranks.

    Returns
    -------
    DataFrame
        One row per event, by rank and time:

        ``rank``, ``time_ns``
            int64
        ``device``
            category: ``cpu``, ``cuda:0``, … (PyTorch calls AMD's devices ``cuda`` as well)
        ``bytes``
            int64, allocated, or released where negative
        ``total_allocated_bytes, total_reserved_bytes``
            int64, what the device's allocator had handed out, and held, after the event; -1 where
            the file does not say (before PyTorch 1.10)
        ``running_bytes``
            int64, the sum of ``bytes`` on the rank and device since the recording began
        ``address``
            int64, -1 where the file does not say
        ``operator_id``
            int64, id of the innermost operator that runs on the thread then, -1 for none
        ``operator``
            category: its name, empty for none
        ``pid, tid``
            category: the thread, as in the file

    Notes
    -----
    What the memory view of TensorBoard's profiler plugin was drawn from.

    Examples
    --------
    >>> memory = memory_events(hw.load("runs/job"))  # doctest: +SKIP
    >>> memory.groupby(["rank", "device"])["running_bytes"].max()  # doctest: +SKIP
    >>> memory[memory["bytes"] > 0].groupby("operator")["bytes"].sum()  # doctest: +SKIP
    """
    columns: dict[str, list[npt.NDArray[Any]]] = {
        key: []
        for key in ("rank", "time", "device", "bytes", "allocated", "reserved", "address", "id")
    }
    operators: list[str] = []
    running: list[Ints] = []
    threads: dict[str, list[str]] = {"pid": [], "tid": []}
    devices: dict[str, int] = {}
    for part in parts(traces, None, window, ranks):
        trace = part.trace
        rows = _memory_rows(trace)
        if not len(rows):
            continue
        table = trace.instant_table
        values = _memory_args(trace, table.record[rows])
        codes = [
            devices.setdefault(_device(kind, number), len(devices))
            for kind, number in zip(
                values["Device Type"].tolist(), values["Device Id"].tolist(), strict=True
            )
        ]
        device = np.array(codes, dtype=np.int64)
        time = table.time_ns[rows]
        so_far = np.empty(len(rows), dtype=np.int64)
        for code in np.unique(device):
            so_far[device == code] = np.cumsum(values["Bytes"][device == code])
        # Sums run from the beginning of the recording, wherever the window begins.
        seen = np.ones(len(rows), dtype=bool)
        if part.low is not None:
            seen &= time >= part.low
        if part.high is not None:
            seen &= time < part.high
        columns["rank"].append(np.full(int(seen.sum()), trace.rank))
        columns["time"].append(time[seen] + trace.shift_ns)
        columns["device"].append(device[seen])
        columns["bytes"].append(values["Bytes"][seen])
        columns["allocated"].append(values["Total Allocated"][seen])
        columns["reserved"].append(values["Total Reserved"][seen])
        columns["address"].append(values["Addr"][seen])
        running.append(so_far[seen])
        rows, time = rows[seen], time[seen]
        operator = _operator_at(trace, rows, time)
        columns["id"].append(operator)
        names, name = trace.table.names, trace.table.name
        operators += [names[name[row]] if row >= 0 else "" for row in operator.tolist()]
        for key, texts in (("pid", table.pid), ("tid", table.tid)):
            threads[key] += [texts[row] for row in rows.tolist()]
    amounts = joined(columns["bytes"])
    return result(
        {
            "rank": joined(columns["rank"]),
            "time_ns": joined(columns["time"]),
            "device": categorical(joined(columns["device"]), list(devices)),
            "bytes": amounts,
            "total_allocated_bytes": joined(columns["allocated"]),
            "total_reserved_bytes": joined(columns["reserved"]),
            "running_bytes": joined(running),
            "address": joined(columns["address"]),
            "operator_id": joined(columns["id"]),
            "operator": pd.Categorical(pd.Series(operators, dtype=str)),
            **{key: pd.Categorical(pd.Series(texts, dtype=str)) for key, texts in threads.items()},
        },
        matched={
            "allocations": int((amounts > 0).sum()),
            "releases": int((amounts < 0).sum()),
        },
        note="" if len(amounts) else "no [memory] events: record with profile_memory=True",
    )


class _MemoryArgs(msgspec.Struct, gc=False):
    kind: Any = msgspec.field(name="Device Type", default=-1)
    number: Any = msgspec.field(name="Device Id", default=-1)
    amount: Any = msgspec.field(name="Bytes", default=0)
    allocated: Any = msgspec.field(name="Total Allocated", default=-1)
    reserved: Any = msgspec.field(name="Total Reserved", default=-1)
    address: Any = msgspec.field(name="Addr", default=-1)


class _MemoryRecord(msgspec.Struct, gc=False):
    args: _MemoryArgs | None = None


_decode = msgspec.json.Decoder(_MemoryRecord).decode
_KEYS = ("Device Type", "Device Id", "Bytes", "Total Allocated", "Total Reserved", "Addr")
_NOTHING = (-1, -1, 0, -1, -1, -1)


def _memory_rows(trace: Trace) -> npt.NDArray[np.intp]:
    """Return the rows of the instants that tell of memory, by time."""
    names = trace.table.names.values
    codes = [code for code, text in enumerate(names) if text == "[memory]"]
    return np.flatnonzero(np.isin(trace.instant_table.name, codes))


def _memory_args(trace: Trace, records: Ints) -> dict[str, Ints]:
    found: dict[int, tuple[Any, ...]] = {}
    if trace.source is not None:
        for record, body in trace.source.records(records):
            found[record] = _values(body)
    rows = [found.get(record, _NOTHING) for record in records.tolist()]
    return {
        key: _whole([row[column] for row in rows], _NOTHING[column])
        for column, key in enumerate(_KEYS)
    }


def _values(body: bytes) -> tuple[Any, ...]:
    try:
        args = _decode(body).args
    except (msgspec.DecodeError, UnicodeDecodeError):
        # What the strict decoder refuses: control characters, or args that are no object.
        try:
            event = json.loads(body.decode("utf-8", "replace"), strict=False)
        except ValueError:
            return _NOTHING
        loose = event.get("args") if isinstance(event, dict) else None
        if not isinstance(loose, dict):
            return _NOTHING
        return tuple(loose.get(key, missing) for key, missing in zip(_KEYS, _NOTHING, strict=True))
    if args is None:
        return _NOTHING
    return (args.kind, args.number, args.amount, args.allocated, args.reserved, args.address)


def _whole(values: list[Any], missing: int) -> Ints:
    try:
        return np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        return np.array(
            [
                value if type(value) is int and -(1 << 63) <= value < 1 << 63 else missing
                for value in values
            ],
            dtype=np.int64,
        )


def _device(kind: int, number: int) -> str:
    name = _DEVICES[kind] if 0 <= kind < len(_DEVICES) else "unknown"
    return name if number < 0 else f"{name}:{number}"


def _operator_at(trace: Trace, rows: npt.NDArray[np.intp], time: Ints) -> Ints:
    """Return the innermost operator that runs on each instant's thread then, -1 for none."""
    table, instants = trace.table, trace.instant_table
    tree = operator_tree(trace)
    on_track = {
        (track.pid, track.tid): number
        for number, track in enumerate(table.tracks)
        if track.role == "thread"
    }
    track = np.array(
        [on_track.get((instants.pid[row], instants.tid[row]), -1) for row in rows.tolist()],
        dtype=np.int64,
    )
    found = np.full(len(rows), -1, dtype=np.int64)
    start, end = table.start_ns[tree.rows], table.end_ns[tree.rows]
    for number in np.unique(track[track >= 0]).tolist():
        here = np.flatnonzero(track == number)
        operators = np.flatnonzero(table.track[tree.rows] == number)
        if not len(operators):
            continue
        # The last that started may be over; then one of those around it may still run.
        last = np.searchsorted(start[operators], time[here], side="right") - 1
        at = np.where(last >= 0, operators[last], -1)
        while (over := (at >= 0) & (end[at] <= time[here])).any():
            at[over] = tree.forest.parent[at[over]]
        found[here] = np.where(at >= 0, tree.rows[at], -1)
    return found
