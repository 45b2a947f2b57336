"""Reader of device memory snapshots: pickles of ``torch.cuda.memory._dump_snapshot``, or JSON.

PyTorch's other devices write the same format, for example ``torch.xpu.memory._dump_snapshot``. A
snapshot has the segments that the allocator holds at the end, and a ring buffer of its last events.
When the ring begins, some memory is already in use. Its amount is computed from the end::

    in use at the end, by the segments           19.4 GB
    allocated less released by the ring's events  0.0 GB
    in use at the start                          19.4 GB
    peak: start and the largest sum of events    25.0 GB   (5.6 GB by the events alone)

A block is in use until ``free_completed``, because streams may still need it after
``free_requested``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import EventRows, RankFacts, RowPlace, build_rank, timed_columns
from hta_widgets.formats.stack_frames import (
    DumpFrame,
    StackPool,
    as_list,
    dicts_in,
    frame_text,
    read_dump_value,
)
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import as_integer

FORMAT = "memory-snapshot"
_REMEDY = "Dump it again: torch.cuda.memory._dump_snapshot(path), after _record_memory_history()."
#: Uses of memory, derived from the stack of the allocation.
BEFORE, NO_STACK = "before the recording", "no stack"
USES = (BEFORE, "forward and other", "backward", "optimizer", NO_STACK)
_OPTIMIZER = re.compile(r"(^|/)(optim|optimizers?)/|optimizer\.py$")
_BACKWARD = re.compile(r"^torch/autograd/|(^|/)autograd/engine")
#: Direction in which each segment event changes reserved memory.
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_MAX_US = (1 << 62) // 1000
_MAX_BYTES = 1 << 50
_MAX_DEVICES = 1024
_KEYS = (b"segment_type", b"device_traces")
#: The allocator's environment variable among its settings. On XPU, its name has no device.
_ALLOCATOR = re.compile(r"PYTORCH_(?:(?P<device>[A-Z]+)_)?ALLOC_CONF")


@dataclass(frozen=True, slots=True)
class MemorySegment:
    """Memory that the allocator obtained from the device, and its blocks at the end."""

    device: int
    address: int
    stream: int
    kind: str
    is_expandable: bool
    total_bytes: int
    used_bytes: int
    free_blocks: int
    largest_free_bytes: int


@dataclass(slots=True)
class DeviceMemory:
    """History of a device: allocations (positive) and releases (negative) in order."""

    device: int
    start_bytes: int = 0
    start_reserved_bytes: int = 0
    #: columns of the events, beginning with their position in the ring
    place: list[int] = field(default_factory=list)
    time_ns: list[int] = field(default_factory=list)
    change_bytes: list[int] = field(default_factory=list)
    reserved_bytes: list[int] = field(default_factory=list)  # after the event
    address: list[int] = field(default_factory=list)
    #: index in `MemorySnapshot.stacks` of the allocation's stack; -1 if it precedes the ring
    stack: list[int] = field(default_factory=list)
    #: blocks in use at the end that precede the ring: size and stack
    older: list[tuple[int, int]] = field(default_factory=list)
    #: failed allocations: requested bytes, and free bytes of the device (-1 if unknown)
    failed: list[tuple[int, int]] = field(default_factory=list)

    def column(self, name: str) -> Ints:
        """Return a column of the events as an array."""
        return np.array(getattr(self, name), np.int64)

    @property
    def levels(self) -> Ints:
        """Bytes in use after each event."""
        return self.start_bytes + np.cumsum(self.column("change_bytes"))

    @property
    def peak(self) -> tuple[int, int]:
        """The largest number of bytes in use, and the index of its event (-1 for the start)."""
        levels = self.levels
        at = int(levels.argmax()) if len(levels) else -1
        is_later = at >= 0 and levels[at] > self.start_bytes
        return (int(levels[at]), at) if is_later else (self.start_bytes, -1)


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The snapshot of a process."""

    devices: list[DeviceMemory] = field(default_factory=list)
    segments: list[MemorySegment] = field(default_factory=list)
    stacks: list[list[DumpFrame]] = field(default_factory=list)
    device_type: str = "cuda"

    def label(self, device: int) -> str:
        """Return PyTorch's name for a device."""
        return f"{self.device_type}:{device}"

    def place(self, device: int, tid: str = "0", thread: str = "allocator") -> RowPlace:
        """Return the track of a device."""
        return RowPlace(str(device), tid, self.label(device), thread)


def is_snapshot(start: FileStart) -> bool:
    """Return whether a file is a snapshot, judging by its first keys."""
    if start.is_pickle:
        return any(key in start.text for key in (*_KEYS, b"total_size"))
    has_keys = any(b'"%s"' % key in start.text for key in _KEYS)
    return start.is_json and has_keys and b"traceEvents" not in start.text


def read_snapshot(path: str, *, advance: Advance = None, **_: object) -> Outcome:
    """Read a snapshot as allocation events and counters of memory in use."""
    rows = EventRows(path)
    value = read_dump_value(rows, advance, remedy=_REMEDY)
    if isinstance(value, list):  # torch.cuda.memory_snapshot() returns only segments
        value = {"segments": value}
    if not isinstance(value, dict) or not ({"segments", "device_traces"} & set(value)):
        message = "is not a memory snapshot: it has neither segments nor a history"
        raise TraceError(message, path=path, remedy=_REMEDY)
    snapshot = _SnapshotReader(rows, value).read()
    _add_annotations(rows, snapshot, value.get("external_annotations"))
    job = PurePath(path).name.partition(".")[0]
    trace = build_rank(rows, timed_columns(rows), FORMAT, RankFacts(), job=job, profile=snapshot)
    return Outcome((trace,), rows.problems)


class _SnapshotReader:
    def __init__(self, rows: EventRows, value: Mapping[str, Any]) -> None:
        self._rows, self._value = rows, value
        device_type = _device_type(value.get("allocator_settings"))
        self._snapshot = MemorySnapshot(device_type=device_type)
        self._stacks = StackPool()
        self._skipped = 0
        self._has_segments = isinstance(value.get("segments"), (list, tuple))

    def read(self) -> MemorySnapshot:
        snapshot = self._snapshot
        segments = dicts_in(self._value.get("segments"))
        detail = "no segments: blocks from before the history are known only if it releases them"
        self._rows.note("part", int(not self._has_segments), detail)
        traces = as_list(self._value.get("device_traces"))
        detail = "no history: _record_memory_history() was off, so only the end is known"
        self._rows.note("part", int(not any(traces)), detail)
        segments_of: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for entry in segments:
            segments_of[max(as_integer(entry.get("device")), 0)].append(entry)
        count = max([len(traces), *(device + 1 for device in segments_of)])
        for number in range(min(count, _MAX_DEVICES)):
            events = traces[number] if number < len(traces) else ()
            if segments_of[number] or events:
                snapshot.devices.append(self._device(number, events, segments_of[number]))
        self._rows.note("skipped", self._skipped, "events without a size or an address")
        snapshot.segments.extend(map(_segment, segments))
        snapshot.stacks.extend(self._stacks.stacks)
        for memory in snapshot.devices:
            _add_history(self._rows, snapshot, memory)
        return snapshot

    def _device(self, number: int, events: Any, segments: list[dict[str, Any]]) -> DeviceMemory:
        memory = DeviceMemory(number)
        changes: list[tuple[int, ...]] = []
        live: dict[int, tuple[int, int]] = {}
        reserved, has_times = 0, False
        for position, event in enumerate(as_list(events)):
            entry = event if isinstance(event, dict) else {}
            self._skipped += not entry
            action, size = str(entry.get("action")), _size(entry.get("size"))
            address = _address(entry.get("addr"))
            time_us = as_integer(entry.get("time_us"), _MAX_US)
            has_times |= time_us >= 0
            time_ns = (time_us if time_us >= 0 else position) * 1000
            if action == "oom":
                memory.failed.append((size, as_integer(entry.get("device_free"))))
                self._add_failure(memory, time_ns)
            elif action in _RESERVES and size >= 0:
                reserved += _RESERVES[action] * size
            elif action in {"alloc", "free_completed"} and (size < 0 or address < 0):
                self._skipped += 1
            elif action == "alloc":
                stack = self._stacks.add(entry.get("frames"))
                live[address] = size, stack
                changes.append((position, time_ns, size, reserved, address, stack))
            elif action == "free_completed":
                freed_bytes, stack = live.pop(address, (size, -1))
                changes.append((position, time_ns, -freed_bytes, reserved, address, stack))
        if changes:
            (
                memory.place, memory.time_ns, memory.change_bytes, memory.reserved_bytes,
                memory.address, memory.stack,
            ) = map(list, zip(*changes, strict=True))  # fmt: skip
        detail = "events have no times: they are 1 µs apart, in their order"
        self._rows.note("repaired", 0 if has_times else len(changes), detail)
        self._set_start(memory, segments, reserved)
        self._add_older_blocks(memory, segments, live)
        return memory

    def _set_start(
        self, memory: DeviceMemory, segments: list[dict[str, Any]], change_bytes: int
    ) -> None:
        """Set what was in use and reserved at the start; events reserve `change_bytes` in total."""
        end_bytes = sum(max(_used_bytes(entry), 0) for entry in segments)
        end_reserved_bytes = sum(max(_size(entry.get("total_size")), 0) for entry in segments)
        if not self._has_segments:
            end_bytes = sum(memory.change_bytes) - int(memory.levels.min(initial=0))
        start_bytes = end_bytes - sum(memory.change_bytes)
        memory.start_bytes = max(start_bytes, 0)
        if start_bytes < 0:
            detail = (
                f"{self._snapshot.label(memory.device)}: the history allocates {-start_bytes:,}"
                " bytes more than the segments hold; memory use is assumed to start at 0"
            )
            self._rows.note("repaired", 1, detail)
        if not self._has_segments:  # at least the memory in use is reserved
            unused = memory.column("reserved_bytes") - memory.levels
            end_reserved_bytes = change_bytes - int(unused.min(initial=0))
        start = memory.start_reserved_bytes = end_reserved_bytes - change_bytes
        memory.reserved_bytes = [start + change for change in memory.reserved_bytes]

    def _add_older_blocks(
        self, memory: DeviceMemory, segments: list[dict[str, Any]], live: Collection[int]
    ) -> None:
        """Add blocks in use at the end that precede the ring, and are therefore not in `live`."""
        for entry in segments:
            after = _address(entry.get("address"))
            for block in dicts_in(entry.get("blocks")):
                size, address = _size(block.get("size")), _address(block.get("address", after))
                after += max(size, 0)
                frames, history = block.get("frames"), block.get("history")
                if not frames and isinstance(history, list) and history:
                    # Before PyTorch 2.1, files listed the owners of a block.
                    frames = history[0].get("frames") if isinstance(history[0], dict) else None
                is_in_use = str(block.get("state")).startswith("active")
                if is_in_use and size >= 0 and address not in live and frames:
                    memory.older.append((size, self._stacks.add(frames)))

    def _add_failure(self, memory: DeviceMemory, time_ns: int) -> None:
        args = dict(zip(("size", "device free"), memory.failed[-1], strict=True))
        self._rows.add(
            start_ns=[time_ns], end_ns=[time_ns], name=self._rows.name.add("out of memory"),
            category="memory_snapshot", phase="i",
            place=self._rows.place(*self._snapshot.place(memory.device)),
            args=self._rows.args_codes([args]),
        )  # fmt: skip


def _device_type(settings: Any) -> str:
    """Return PyTorch's name for the devices of an allocator with these settings."""
    names = map(_ALLOCATOR.fullmatch, map(str, settings)) if isinstance(settings, dict) else ()
    match = next(filter(None, names), None)
    if match is None or match["device"] == "HIP" or "max_split_size" in settings:
        return "cuda"
    return (match["device"] or "XPU").lower()


def amounts_by_use(snapshot: MemorySnapshot, memory: DeviceMemory) -> Ints:
    """Return the bytes in use after each event of a device, with one column per use."""
    codes = [*(USES.index(use_of(stack)) for stack in snapshot.stacks), USES.index(BEFORE)]
    use = np.array(codes)[memory.column("stack")]
    change = memory.column("change_bytes")[:, None]
    amounts = np.cumsum(np.where(use[:, None] == np.arange(len(USES)), change, 0), axis=0)
    amounts[:, USES.index(BEFORE)] += memory.start_bytes
    return amounts


def _add_history(rows: EventRows, snapshot: MemorySnapshot, memory: DeviceMemory) -> None:
    """Add an instant and counter samples for each event, as in PyTorch's traces."""
    if not memory.time_ns:
        return
    places = [*(frame_text(stack) for stack in snapshot.stacks), BEFORE]
    columns = (memory.change_bytes, memory.address, memory.stack)
    levels = list(zip(memory.levels.tolist(), memory.reserved_bytes, strict=True))
    instants = [
        {
            "Bytes": change, "Addr": address, "Device Type": 1, "Device Id": memory.device,
            "Total Allocated": used, "Total Reserved": reserved, "allocated in": places[stack],
        }
        for change, address, stack, (used, reserved) in zip(*columns, levels, strict=True)
    ]  # fmt: skip
    totals = [{"in use (bytes)": used, "reserved (bytes)": reserved} for used, reserved in levels]
    amounts = amounts_by_use(snapshot, memory)
    shown = [code for code, use in enumerate(USES) if use == BEFORE or amounts[:, code].any()]
    labels = [f"{USES[code]} (bytes)" for code in shown]
    parts = [dict(zip(labels, row, strict=True)) for row in amounts[:, shown].tolist()]
    place = rows.place(*snapshot.place(memory.device))
    device = f"{snapshot.label(memory.device)} " if len(snapshot.devices) > 1 else ""
    rows.add(
        start_ns=[min(memory.time_ns)], end_ns=[max(memory.time_ns)],
        name=rows.name.add("recorded history"), category="memory_snapshot", place=place,
    )  # fmt: skip
    for phase, category, name, args in (
        ("i", "cpu_instant_event", "[memory]", instants),
        ("C", "", f"{device}memory", totals),
        ("C", "", f"{device}from", parts),
    ):
        rows.add(
            start_ns=memory.time_ns, end_ns=memory.time_ns, name=rows.name.add(name),
            category=category, place=place, phase=phase, args=rows.args_codes(args),
        )  # fmt: skip


def use_of(stack: list[DumpFrame] | tuple[DumpFrame, ...]) -> str:
    """Return the use of memory, derived from the stack of the allocation."""
    if not stack:
        return NO_STACK
    if any(_OPTIMIZER.search(frame.file) for frame in stack):
        return "optimizer"
    if any(
        _BACKWARD.search(frame.file) or frame.name.startswith("torch::autograd::")
        for frame in stack
    ):
        return "backward"
    return "forward and other"


def _segment(entry: Mapping[str, Any]) -> MemorySegment:
    blocks = dicts_in(entry.get("blocks"))
    sizes = (block.get("size") for block in blocks if block.get("state") == "inactive")
    free = [max(_size(size), 0) for size in sizes]
    return MemorySegment(
        device=max(as_integer(entry.get("device")), 0),
        address=_address(entry.get("address")),
        stream=as_integer(entry.get("stream")),
        kind=str(entry.get("segment_type") or "unknown"),
        is_expandable=entry.get("is_expandable") is True,
        total_bytes=max(_size(entry.get("total_size")), 0),
        used_bytes=max(_used_bytes(entry), 0),
        free_blocks=len(free),
        largest_free_bytes=max(free, default=0),
    )


def _used_bytes(entry: Mapping[str, Any]) -> int:
    """Return the bytes of blocks in use, including blocks that wait for streams."""
    active = _size(entry.get("active_size"))
    return active if active >= 0 else _size(entry.get("allocated_size"))


def _address(value: Any) -> int:
    """Return an address as int64; addresses on XPU use all 64 bits."""
    return as_integer(value, 1 << 64)


def _size(value: Any) -> int:
    """Return a number of bytes; -1 if it is invalid or exceeds the memory of any device."""
    return as_integer(value, _MAX_BYTES)


def _add_annotations(rows: EventRows, snapshot: MemorySnapshot, entries: Any) -> None:
    phases = {"START": ord("B"), "END": ord("E")}
    annotations = dicts_in(entries)
    events = []
    for annotation in annotations:
        time_us = as_integer(annotation.get("time_us"), _MAX_US)
        phase = phases.get(str(annotation.get("stage")))
        if time_us >= 0 and phase is not None:
            device = max(as_integer(annotation.get("device")), 0)
            place = rows.place(*snapshot.place(device, "1", "annotations"))
            name = rows.name.add(str(annotation.get("name")))
            events.append((time_us * 1000, name, place, phase))
    rows.note("skipped", len(annotations) - len(events), "annotations without a time or a stage")
    if events:
        time_ns, name, place, phase = np.array(events, np.int64).T
        rows.add(
            start_ns=time_ns, end_ns=time_ns, name=name, category="user_annotation", place=place,
            phase=phase,
        )  # fmt: skip
