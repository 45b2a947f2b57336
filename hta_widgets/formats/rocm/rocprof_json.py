"""Reader of the JSON that rocprofv3 writes with ``--output-format json``.

Records have numbers instead of names: a kernel refers to ``kernel_symbols``, and a call refers to
an operation of a kind in ``strings``::

    {"rocprofiler-sdk-tool": [{"metadata": {…}, "agents": […], "kernel_symbols": […],
        "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": […]}]},
        "buffer_records": {"kernel_dispatch": […], "hip_api": […], "memory_copy": […]}}]}

Files with hardware counters have kernel dispatches in ``callback_records`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import RankFacts
from hta_widgets.formats.rocm.events import (
    RocmProcess,
    RocmRows,
    category_of_calls,
    copy_name,
    gpu_properties,
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

    @property
    def stream(self) -> int:
        return -1 if self.stream_id is None else self.stream_id.handle


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


class _Metadata(msgspec.Struct, frozen=True):
    pid: int = 0
    node: dict[str, Any] | None = None


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
#: Ids are unsigned 64-bit integers in the file, but signed here.
_ID_MASK = (1 << 63) - 1
_NO_ID = (1 << 64) - 1
#: Attributes of records, keyed by the column of rocpd databases with the same values.
_EVENT_ATTRIBUTES = {
    "start": "start_timestamp", "end": "end_timestamp", "stack_id": "correlation_id.internal",
    "stream_id": "stream",
}  # fmt: skip
_KERNEL_ATTRIBUTES = {
    **{
        f"{size}_size_{axis}": f"dispatch_info.{size}_size.{axis}"
        for size in ("grid", "workgroup")
        for axis in "xyz"
    },
    "group_segment_size": "dispatch_info.group_segment_size",
    "kernel_id": "dispatch_info.kernel_id",
    "agent_id": "dispatch_info.agent_id.handle",
    "queue_id": "dispatch_info.queue_id.handle",
}
_COPY_ATTRIBUTES = {
    "dst_agent_id": "dst_agent_id.handle", "src_agent_id": "src_agent_id.handle", "size": "bytes",
}  # fmt: skip
_CALLS = re.compile(r"(hip|hsa|marker|rccl|rocdecode|rocjpeg)_api")


def is_rocprof_json(start: FileStart) -> bool:
    """Return whether a file is JSON of rocprofv3."""
    return _BEGIN.match(start.without_bom) is not None


def read_rocprof_json(
    path: str, *, advance: Advance = None, steps: str | None = None, **_: object
) -> Outcome:
    """Read the ranks of a file; `steps` is a regular expression for the names of steps."""
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
            f"is not rocprofv3 JSON: {cause}",
            path=path,
            remedy="Copy it again, or write rocpd with rocprofv3 --output-format rocpd.",
        ) from None
    return rows.build("rocprof-json", facts, steps)


class _ProcessRecords(RocmProcess):
    """The records of the process with index `number` in the file."""

    def __init__(self, process: _Process, number: int, rows: RocmRows) -> None:
        agents = [agent for agent in process.agents if agent.type == _GPU]
        super().__init__(rows, 0, {_signed_id(agent.id.handle): _gpu(agent) for agent in agents})
        self._process, self._number = process, number

    def facts(self) -> dict[tuple[int, int], RankFacts]:
        node = self._process.metadata.node or {}
        host = str(node.get("hostname", ""))
        gpus = self._gpus.values()
        return {(self._number, gpu["id"]): RankFacts(0, host, None, gpu) for gpu in gpus}

    def read(self) -> None:
        groups = dict(self._process.buffer_records)
        kernels = self._decode(groups.pop(_KERNELS, []))
        if not kernels and _COUNTERS in self._process.callback_records:
            counted = _decode_counter_records(self._process.callback_records[_COUNTERS])
            kernels = [record.dispatch_data for record in counted]
        columns = self._columns([k for k in kernels if k.dispatch_info], _KERNEL_ATTRIBUTES)
        self._add_kernels(columns, self._kernel_names(columns["kernel_id"]))
        copies = self._decode(groups.pop(_COPIES, []))
        names = (copy_name(self._operation(record)) for record in copies)
        columns = self._columns(copies, _COPY_ATTRIBUTES)
        for name in ("dst_agent_id", "src_agent_id"):  # other agents are host processors
            columns[name][~np.isin(columns[name], list(self._gpus))] = -1
        self._add_copies(columns, self._rows.name_codes(names))
        for group in list(filter(_CALLS.fullmatch, groups)):
            self._add_calls(self._decode(groups.pop(group)))
        unread = sum(map(len, groups.values()))
        listed = ", ".join(name for name, records in groups.items() if records)
        self._rows.note("part", unread, f"records that are not read: {listed}")

    def _decode(self, raws: Sequence[msgspec.Raw]) -> list[_BufferRecord]:
        """Return the records. Records whose times do not fit in 64 bits are skipped and counted."""
        records = []
        for raw in raws:
            with suppress(msgspec.ValidationError):
                record = _decode_record(raw)
                if 0 <= record.start_timestamp <= record.end_timestamp <= _ID_MASK:
                    records.append(record)
        self._rows.note("skipped", len(raws) - len(records), "records without times")
        return records

    def _columns(
        self, records: Sequence[_BufferRecord], attributes: dict[str, str]
    ) -> dict[str, Ints]:
        columns = {"pid": np.full(len(records), self._number)}
        for name, attribute in (_EVENT_ATTRIBUTES | attributes).items():
            values = map(attrgetter(attribute), records)
            columns[name] = np.array(list(map(_signed_id, values)), np.int64)
        return columns

    def _kernel_names(self, ids: Ints) -> Ints:
        names = {
            symbol.kernel_id: symbol.formatted_kernel_name or symbol.kernel_name
            for symbol in self._process.kernel_symbols
        }
        unnamed = sum(not names.get(number) for number in np.unique(ids).tolist())
        detail = "names missing from kernel_symbols; their events are named by id"
        self._rows.note("part", unnamed, detail)
        return self._rows.names_by_id(lambda number: names.get(number) or f"kernel {number}", ids)

    def _add_calls(self, records: list[_BufferRecord]) -> None:
        if not records:
            return
        columns = self._columns(records, {"tid": "thread_id"})
        kinds = self._process.strings.buffer_records
        kind = kinds[records[0].kind].kind if 0 <= records[0].kind < len(kinds) else ""
        category = category_of_calls(kind)
        names = [self._operation(record) or "call" for record in records]
        if category == "user_annotation":
            texts = {text.key: text.value for text in self._process.strings.marker_api}
            ids = columns["stack_id"].tolist()
            names = [texts.get(key, name) for key, name in zip(ids, names, strict=True)]
        self._rows.add_calls(
            category, name=self._rows.name_codes(names),
            start_ns=columns["start"], end_ns=columns["end"], process=columns["pid"],
            pid=np.full(len(records), self._process.metadata.pid, np.int64), tid=columns["tid"],
            correlation=columns["stack_id"],
        )  # fmt: skip

    def _operation(self, record: _BufferRecord) -> str:
        kinds = self._process.strings.buffer_records
        operations = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        return operations[record.operation] if 0 <= record.operation < len(operations) else ""


def _gpu(agent: _Agent) -> dict[str, Any]:
    number = max(agent.logical_node_type_id, 0)
    return gpu_properties(number, agent.product_name or agent.name or "", agent.cu_count)


def _signed_id(number: int) -> int:
    return number & _ID_MASK if 0 <= number < _NO_ID else -1
