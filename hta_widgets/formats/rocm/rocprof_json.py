"""Read the JSON that rocprofv3 writes with ``--output-format json``.

Records have numbers in place of names: a kernel is one of ``kernel_symbols``, a call an operation
of a kind of ``strings``::

    {"rocprofiler-sdk-tool": [{"metadata": {…}, "agents": […], "kernel_symbols": […],
        "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": […]}]},
        "buffer_records": {"kernel_dispatch": […], "hip_api": […], "memory_copy": […]}}]}

Files of hardware counters have the dispatches of kernels in ``callback_records`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import RankFacts
from hta_widgets.formats.rocm.events import (
    RocmRows,
    category_of_calls,
    copy_name,
    gpu_properties,
    launch_args,
)
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.readers.streams import read_whole_file
from hta_widgets.trace.arrays import Ints

_BEGIN = re.compile(rb'\{\s*"rocprofiler-sdk-tool"')
_GPU = 2


class _Handle(msgspec.Struct, frozen=True):
    handle: int = -1


class _Sizes(msgspec.Struct, frozen=True):
    x: int = 1
    y: int = 1
    z: int = 1


class _Correlation(msgspec.Struct, frozen=True):
    internal: int = -1


class _Dispatch(msgspec.Struct, frozen=True):
    agent_id: _Handle
    kernel_id: int
    queue_id: _Handle = _Handle()
    group_segment_size: int = -1
    workgroup_size: _Sizes = _Sizes()
    grid_size: _Sizes = _Sizes()


class _BufferRecord(msgspec.Struct, frozen=True):
    start_timestamp: int
    end_timestamp: int
    kind: int = -1
    operation: int = -1
    thread_id: int = 0
    correlation_id: _Correlation = _Correlation()
    stream_id: _Handle | None = None
    dispatch_info: _Dispatch | None = None
    dst_agent_id: _Handle = _Handle()
    src_agent_id: _Handle = _Handle()
    bytes: int = -1


class _CounterRecord(msgspec.Struct, frozen=True):
    dispatch_data: _BufferRecord


class _Agent(msgspec.Struct, frozen=True):
    id: _Handle
    type: int = 0
    logical_node_type_id: int = 0
    product_name: str | None = ""
    name: str | None = ""
    cu_count: int = 0


class _Symbol(msgspec.Struct, frozen=True):
    kernel_id: int
    formatted_kernel_name: str | None = ""
    kernel_name: str | None = ""


class _Kind(msgspec.Struct, frozen=True):
    kind: str
    operations: list[str]


class _Text(msgspec.Struct, frozen=True):
    key: int
    value: str


class _Strings(msgspec.Struct, frozen=True):
    buffer_records: list[_Kind] = []
    marker_api: list[_Text] = []


class _Node(msgspec.Struct, frozen=True):
    hostname: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    pid: int = 0
    node: _Node | None = None


class _Process(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    agents: list[_Agent] = []
    kernel_symbols: list[_Symbol] = []
    strings: _Strings = _Strings()
    buffer_records: dict[str, list[msgspec.Raw]] = {}
    callback_records: dict[str, msgspec.Raw] = {}


class _File(msgspec.Struct, frozen=True, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process]


_decode_file = msgspec.json.Decoder(_File).decode
_decode_record = msgspec.json.Decoder(_BufferRecord).decode
_decode_counter_records = msgspec.json.Decoder(list[_CounterRecord]).decode
_KERNELS, _COPIES, _COUNTERS = "kernel_dispatch", "memory_copy", "counter_collection"
#: Ids are unsigned integers of 64 bits in the file, and signed ones here.
_ID_MASK = (1 << 63) - 1
_NO_ID = (1 << 64) - 1
_CALLS = re.compile(r"(hip|hsa|marker|rccl|rocdecode|rocjpeg)_api")


def is_rocprof_json(start: FileStart) -> bool:
    """Whether a file is JSON of rocprofv3."""
    return _BEGIN.match(start.without_bom) is not None


def read_rocprof_json(
    path: str, *, advance: Advance = None, steps: str | None = None, **_: object
) -> Outcome:
    """Read the ranks of a file; `steps` is a regular expression of the names of steps."""
    rows = RocmRows(path)
    facts: dict[tuple[int, int], RankFacts] = {}
    try:
        file = _decode_file(read_whole_file(path, rows.problems, advance))
        for number, process in enumerate(file.processes):
            reader = _ProcessRecords(process, number, rows)
            reader.read()
            facts |= reader.facts()
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as cause:
        raise TraceError(
            f"is not JSON of rocprofv3: {cause}",
            path=path,
            remedy="Copy it again, or write rocpd with rocprofv3 --output-format rocpd.",
        ) from None
    return rows.build("rocprof-json", facts, steps)


class _ProcessRecords:
    """The records of a process, whose place in the file is `number`."""

    def __init__(self, process: _Process, number: int, rows: RocmRows) -> None:
        self._process, self._number, self._rows = process, number, rows
        self._gpus = {agent.id.handle: agent for agent in process.agents if agent.type == _GPU}
        self._kernel_names = {
            symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name
            for symbol in process.kernel_symbols
        }
        self._first_device = 0
        self._texts = {text.key: text.value for text in process.strings.marker_api}

    def facts(self) -> dict[tuple[int, int], RankFacts]:
        """Return what the file states about each rank."""
        node = self._process.metadata.node
        facts = {}
        for agent in self._gpus.values():
            device, name = agent.logical_node_type_id, agent.product_name or agent.name or ""
            model = gpu_properties(device, name, agent.cu_count)
            host = node.hostname if node else None
            facts[self._number, device] = RankFacts(0, host, device_properties=model)
        return facts

    def read(self) -> None:
        """Add all events."""
        groups = dict(self._process.buffer_records)
        kernels = self._decode(groups.pop(_KERNELS, []))
        if not kernels and _COUNTERS in self._process.callback_records:
            counted = _decode_counter_records(self._process.callback_records[_COUNTERS])
            kernels = [record.dispatch_data for record in counted]
        self._add_kernels(kernels)
        self._add_copies(self._decode(groups.pop(_COPIES, [])))
        for group in list(filter(_CALLS.fullmatch, groups)):
            self._add_calls(self._decode(groups.pop(group)))
        unread = sum(map(len, groups.values()))
        names = ", ".join(name for name, records in groups.items() if records)
        self._rows.note("part", unread, f"records that are not read: {names}")

    def _decode(self, raws: Sequence[msgspec.Raw]) -> list[_BufferRecord]:
        """Return records; records without times of 64 bits are left out, and counted."""
        records = []
        for raw in raws:
            with suppress(msgspec.ValidationError):
                record = _decode_record(raw)
                if 0 <= record.start_timestamp <= record.end_timestamp <= _ID_MASK:
                    records.append(record)
        self._rows.note("skipped", len(raws) - len(records), "records without times")
        return records

    def _columns(self, records: Sequence[_BufferRecord]) -> dict[str, Any]:
        columns = {
            "start_ns": [record.start_timestamp for record in records],
            "end_ns": [record.end_timestamp for record in records],
            "process": [self._number] * len(records),
            "correlation": [_signed_id(record.correlation_id.internal) for record in records],
            "stream": [_signed_id(_stream_of(record)) for record in records],
        }
        return {name: np.array(values, np.int64) for name, values in columns.items()}

    def _devices(self, agents: Sequence[int]) -> Ints:
        """Return the device of each agent; copies within the host get a device with kernels."""
        numbers = {key: max(agent.logical_node_type_id, 0) for key, agent in self._gpus.items()}
        return np.array([numbers.get(agent, self._first_device) for agent in agents], np.int64)

    def _add_kernels(self, records: list[_BufferRecord]) -> None:
        pairs = [(record, record.dispatch_info) for record in records if record.dispatch_info]
        if not pairs:
            return
        infos = [info for _, info in pairs]
        names = [self._kernel_names.get(i.kernel_id) or f"kernel {i.kernel_id}" for i in infos]
        launches = (
            (*astuple(info.grid_size), *astuple(info.workgroup_size), info.group_segment_size,
             info.queue_id.handle)
            for info in infos
        )  # fmt: skip
        device = self._devices([info.agent_id.handle for info in infos])
        self._first_device = int(device.min())
        self._rows.add_work(
            name=self._rows.name_codes(names),
            device=device,
            args=self._rows.args_codes(launch_args(*sizes) for sizes in launches),
            **self._columns([record for record, _ in pairs]),
        )

    def _add_copies(self, records: list[_BufferRecord]) -> None:
        ends = [(record.dst_agent_id.handle, record.src_agent_id.handle) for record in records]
        agents = [target if target in self._gpus else source for target, source in ends]
        names = (copy_name(self._operation(record)) for record in records)
        self._rows.add_work(
            category="gpu_memcpy",
            name=self._rows.name_codes(names),
            device=self._devices(agents),
            size_bytes=np.array([record.bytes for record in records], np.int64),
            **self._columns(records),
        )

    def _add_calls(self, records: list[_BufferRecord]) -> None:
        if not records:
            return
        columns = self._columns(records)
        kinds = self._process.strings.buffer_records
        kind = kinds[records[0].kind].kind if 0 <= records[0].kind < len(kinds) else ""
        category = category_of_calls(kind)
        names = [self._operation(record) or "call" for record in records]
        if category == "user_annotation":
            ids = columns["correlation"].tolist()
            names = [self._texts.get(key, name) for key, name in zip(ids, names, strict=True)]
        self._rows.add_calls(
            category, name=self._rows.name_codes(names),
            start_ns=columns["start_ns"], end_ns=columns["end_ns"], process=columns["process"],
            pid=np.full(len(records), self._process.metadata.pid, np.int64),
            tid=np.array([_signed_id(record.thread_id) for record in records], np.int64),
            correlation=columns["correlation"],
        )  # fmt: skip

    def _operation(self, record: _BufferRecord) -> str:
        kinds = self._process.strings.buffer_records
        operations = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        return operations[record.operation] if 0 <= record.operation < len(operations) else ""


def _signed_id(number: int) -> int:
    """Return an id as a signed integer; the largest 64-bit id stands for none."""
    return number & _ID_MASK if 0 <= number < _NO_ID else -1


def _stream_of(record: _BufferRecord) -> int:
    """Return the stream of HIP, or the queue in files from before ROCm 7."""
    if record.stream_id is not None and record.stream_id.handle != _NO_ID:
        return record.stream_id.handle
    return record.dispatch_info.queue_id.handle if record.dispatch_info else -1
