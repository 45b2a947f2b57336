"""Read the JSON that rocprofv3 writes with ``--output-format json``.

Records have numbers in place of names: a kernel is one of ``kernel_symbols``, a call an operation
of a kind of ``strings``::

    {"rocprofiler-sdk-tool": [{"metadata": {…}, "agents": […], "kernel_symbols": […],
        "strings": {"buffer_records": [{"kind": "HIP_RUNTIME_API", "operations": […]}]},
        "buffer_records": {"kernel_dispatch": […], "hip_api": […], "memory_copy": […]}}]}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import RankFacts
from hta_widgets.formats.rocm.events import (
    RocmEvents,
    category_of_calls,
    copy_name,
    device_properties,
    launch_args,
)
from hta_widgets.readers.formats import FileStart, Outcome
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


class _File(msgspec.Struct, frozen=True, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process]


_decode_file = msgspec.json.Decoder(_File).decode
_decode_record = msgspec.json.Decoder(_BufferRecord).decode
_CALLS = re.compile(r"(hip|hsa|marker|rccl|rocdecode|rocjpeg)_api")


def is_rocprof_json(start: FileStart) -> bool:
    """Whether a file is JSON of rocprofv3."""
    return _BEGIN.match(start.without_bom) is not None


def read_rocprof_json(
    path: str,
    *,
    advance: Callable[[int], object] | None = None,
    keepalive: Any = None,  # noqa: ARG001 - part of what readers are called with
    steps: str | None = None,
) -> Outcome:
    """Read the ranks of a file; `steps` is a regular expression of the names of steps."""
    events = RocmEvents.of(path)
    facts: dict[tuple[int, int], RankFacts] = {}
    try:
        file = _decode_file(read_whole_file(path, events.problems, advance))
        for number, process in enumerate(file.processes):
            _read_process(process, number, events, facts)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError) as cause:
        raise TraceError(
            f"is not JSON of rocprofv3: {cause}",
            path=path,
            remedy="Copy it again, or write rocpd with rocprofv3 --output-format rocpd.",
        ) from None
    return events.finish("rocprof-json", lambda *key: facts.get(key) or RankFacts(), steps)


def _read_process(
    process: _Process, number: int, events: RocmEvents, facts: dict[tuple[int, int], RankFacts]
) -> None:
    gpus = {agent.id.handle: agent for agent in process.agents if agent.type == _GPU}
    host = process.metadata.node.hostname if process.metadata.node else None
    for agent in gpus.values():
        device = agent.logical_node_type_id
        model = device_properties(device, agent.product_name or agent.name or "", agent.cu_count)
        facts[number, device] = RankFacts(0, host, device_properties=model)
    names = {
        s.kernel_id: s.formatted_kernel_name or s.kernel_name or "" for s in process.kernel_symbols
    }
    texts = {text.key: text.value for text in process.strings.marker_api}
    for group, raws in process.buffer_records.items():
        is_copy = group == "memory_copy"
        if not raws or not (is_copy or group == "kernel_dispatch" or _CALLS.fullmatch(group)):
            continue
        records = [_decode_record(raw) for raw in raws]
        if is_copy:
            _add_copies(records, process, number, gpus, events)
        elif group == "kernel_dispatch":
            _add_kernels(records, names, number, gpus, events)
        else:
            _add_calls(records, process, texts, number, events)


def _columns(records: Sequence[_BufferRecord], number: int) -> dict[str, Any]:
    def column(values: list[int]) -> Ints:
        return np.array(values, np.int64)

    return {
        "start_ns": column([record.start_timestamp for record in records]),
        "end_ns": column([record.end_timestamp for record in records]),
        "process": np.full(len(records), number, np.int64),
        "correlation": column([record.correlation_id.internal for record in records]),
        "stream": column([_stream_of(record) for record in records]),
    }


def _stream_of(record: _BufferRecord) -> int:
    """Return the stream of HIP, or the queue in files of before ROCm 7."""
    if record.stream_id is not None:
        return record.stream_id.handle
    return record.dispatch_info.queue_id.handle if record.dispatch_info else -1


def _devices(agents: list[int], gpus: dict[int, _Agent]) -> Ints:
    numbers = [gpus[agent].logical_node_type_id if agent in gpus else 0 for agent in agents]
    return np.maximum(np.array(numbers, np.int64), 0)


def _add_kernels(
    records: list[_BufferRecord],
    names: dict[int, str],
    number: int,
    gpus: dict[int, _Agent],
    events: RocmEvents,
) -> None:
    pairs = [(record, record.dispatch_info) for record in records if record.dispatch_info]
    if not pairs:
        return
    infos = [info for _, info in pairs]
    args = [
        launch_args(
            {
                **{f"grid {axis}": getattr(info.grid_size, axis) for axis in "xyz"},
                **{f"block {axis}": getattr(info.workgroup_size, axis) for axis in "xyz"},
                "shared memory": info.group_segment_size,
                "queue": info.queue_id.handle,
            }
        )
        for info in infos
    ]
    events.add_work(
        name=events.rows.name_codes(
            names.get(info.kernel_id) or f"kernel {info.kernel_id}" for info in infos
        ),
        device=_devices([info.agent_id.handle for info in infos], gpus),
        args=events.rows.args_codes(args),
        **_columns([record for record, _ in pairs], number),
    )


def _add_copies(
    records: list[_BufferRecord],
    process: _Process,
    number: int,
    gpus: dict[int, _Agent],
    events: RocmEvents,
) -> None:
    ends = ((record.dst_agent_id.handle, record.src_agent_id.handle) for record in records)
    events.add_work(
        is_copy=True,
        name=events.rows.name_codes(copy_name(_operation(process, record)) for record in records),
        device=_devices([target if target in gpus else source for target, source in ends], gpus),
        size_bytes=np.array([record.bytes for record in records], np.int64),
        **_columns(records, number),
    )


def _add_calls(
    records: list[_BufferRecord],
    process: _Process,
    texts: dict[int, str],
    number: int,
    events: RocmEvents,
) -> None:
    columns = _columns(records, number)
    kinds = process.strings.buffer_records
    kind = kinds[records[0].kind].kind if 0 <= records[0].kind < len(kinds) else ""
    category = category_of_calls(kind)
    names = [_operation(process, record) or "call" for record in records]
    if category == "user_annotation":
        names = [
            texts.get(record.correlation_id.internal, name)
            for record, name in zip(records, names, strict=True)
        ]
    threads = np.array([record.thread_id for record in records], np.int64)
    pids = np.full(len(records), process.metadata.pid, np.int64)
    events.add_calls(
        category, events.rows.name_codes(names), (columns["start_ns"], columns["end_ns"]),
        columns["process"], (pids, threads), columns["correlation"],
    )  # fmt: skip


def _operation(process: _Process, record: _BufferRecord) -> str:
    kinds = process.strings.buffer_records
    if not 0 <= record.kind < len(kinds):
        return ""
    operations = kinds[record.kind].operations
    return operations[record.operation] if 0 <= record.operation < len(operations) else ""
