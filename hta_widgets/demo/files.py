"""Plan the ranks of a job, and write the events of a step to the ranks' Kineto files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_widgets.demo.program import (
    AUTOGRAD,
    CALLBACKS,
    COMPUTE,
    COPY,
    DEVICE,
    GRADIENTS,
    MAIN,
    PINNER,
    TENSORS,
    Annotation,
    CollectiveCall,
    DeviceEvent,
    HostEvent,
    Instant,
    Program,
    StreamWait,
)
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Bools, Ints

BASE_NS = 1_735_689_600_000_000_000  #: baseTimeNanoseconds of every file
RANKS_A_HOST = 8
_MIN_COUNTED_BYTES = 1 << 20  # smaller allocations are not recorded
_FIRST_CORRELATION = 20_480


def thread_ids(rank: int) -> dict[int, int]:
    """Return the thread ids of a rank. The process id equals the main thread's id."""
    pid = 40_100 + 173 * (rank % RANKS_A_HOST) + 7 * (rank // RANKS_A_HOST)
    return {MAIN: pid, AUTOGRAD: pid + 61, PINNER: pid + 58}


def micros(time_ns: int) -> str:
    """Format a time like Kineto: in µs with three decimals."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def header(rank: int, ranks: int, groups: list[dict[str, Any]], seed: int) -> str:
    """Return the text of a file up to its first event."""
    properties = [
        {
            "id": device, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_097_971_712,
            "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65_536, "warpSize": 32,
            "sharedMemPerBlock": 49_152, "numSms": 108, "regsPerMultiprocessor": 65_536,
            "sharedMemPerBlockOptin": 166_912, "sharedMemPerMultiprocessor": 167_936,
        }
        for device in range(min(ranks, RANKS_A_HOST))
    ]  # fmt: skip
    info = {
        "backend": "nccl", "rank": rank, "world_size": ranks, "pg_count": len(groups),
        "pg_config": groups, "nccl_version": "2.21.5",
    }  # fmt: skip
    trace_id = f"{(seed * 0x9E3779B97F4A7C15 + rank * 0xBF58476D1CE4E5B9) % (1 << 64):016X}"
    lines = [
        '  "schemaVersion": 1',
        f'  "deviceProperties": {json.dumps(properties, indent=2)}',
        f'  "distributedInfo": {json.dumps(info)}',
        '  "cuda_runtime_version": 12040',
        '  "cuda_driver_version": 12040',
        '  "profile_memory": 1',
        '  "record_shapes": 1',
        f'  "trace_id": "{trace_id}"',
        f'  "host_name": "gpu-node-{rank // RANKS_A_HOST:02d}"',
        '  "displayTimeUnit": "ms"',
        f'  "baseTimeNanoseconds": {BASE_NS}',
        '  "traceEvents": [\n',
    ]
    return "{\n" + ",\n".join(lines)


def footer(rank: int, start_ns: int, end_ns: int) -> tuple[str, int]:
    """Return the end of a file, which has the metadata, and the number of its records."""
    threads = thread_ids(rank)
    pid, device = threads[MAIN], rank % RANKS_A_HOST
    ts = micros(start_ns)
    records = []
    for process, label, order in ((pid, "CPU", pid), (device, f"GPU {device}", 1 << 24 | device)):
        names = {"name": "python3.11", "labels": label, "sort_index": order}
        records += _metadata("process", ts, process, 0, names)
    rows = {DEVICE: f"Device {device}"}
    rows |= {stream: f"stream {stream} " for stream in (COMPUTE, GRADIENTS, COPY, TENSORS)}
    for tid, name in rows.items():
        records += _metadata("thread", ts, device, tid, {"name": name, "sort_index": tid})
    roles = {MAIN: "pt_main_thread", AUTOGRAD: "pt_autograd_0", PINNER: "pt_data_pin"}
    for thread, role in roles.items():
        tid = threads[thread]
        names = {"name": f"thread {tid} ({role})", "sort_index": tid}
        records += _metadata("thread", ts, pid, tid, names)
    profiler_span = (
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {ts}, "dur": {micros(end_ns - start_ns)},\n'
        '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
        '    "args": {\n      "Op count": 0\n    }\n  }'
    )
    spans_order = _metadata("process", ts, "Spans", 0, {"sort_index": 536_870_912})
    first_instant = (
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {ts}\n  }}'
    )
    last_instant = (
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {micros(end_ns)}\n  }}'
    )
    records += [profiler_span, *spans_order, first_instant, last_instant]
    end = f'\n  ],\n  "traceName": "/home/trainer/runs/demo/rank-{rank}.json"\n}}\n'
    return ",\n".join(records) + end, len(records)


def _metadata(
    kind: str, ts: str, pid: int | str, tid: int, values: Mapping[str, object]
) -> list[str]:
    """Return metadata records of a kind such as ``process_name``, one for each value."""
    return [
        f'  {{\n    "name": "{kind}_{key}", "ph": "M", "ts": {ts}, '
        f'"pid": {json.dumps(pid)}, "tid": {tid},\n'
        f'    "args": {{\n      "{key}": {json.dumps(value)}\n    }}\n  }}'
        for key, value in values.items()
    ]


@dataclass(frozen=True, slots=True)
class DemoGroup:
    """A process group."""

    name: str
    description: str
    ranks: tuple[int, ...]


class JobPlan:
    """The plan of a job: arguments of `write_demo`, and each rank's clock and start."""

    def __init__(
        self,
        ranks: int,
        steps: int,
        seed: int,
        *,
        straggler: int | None,
        factor: float,
        skew_us: float,
        tensor_ranks: int | None,
        strided: bool,
        missing: Sequence[int],
        uneven_us: float,
    ) -> None:
        if tensor_ranks is None:
            tensor_ranks = 2 if ranks >= 4 and ranks % 2 == 0 else 1
        if ranks % tensor_ranks:
            raise TraceError(
                f"{ranks} ranks cannot be split into groups of {tensor_ranks}",
                remedy="Choose tensor_ranks that divides ranks, or 1.",
            )
        if not 0 < factor < 1e6:
            raise TraceError(
                f"factor is {factor}, expected a number above 0", remedy="1.25 is 25 % slower."
            )
        if not (0 <= skew_us < 1e9 and 0 <= uneven_us < 1e9):
            raise TraceError("skew_us= and uneven_us= take numbers from 0 to 1,000,000,000")
        self.ranks, self.steps, self.seed, self.factor = ranks, steps, seed, factor
        self.written = _ranks_with_files(ranks, missing, straggler)
        # Healthy ranks differ only in the noise of each step, so no seed makes one of them slow.
        self.speed = np.ones(ranks)
        self.straggler = None if straggler is None or ranks == 1 else min(straggler, ranks - 1)
        if self.straggler is not None:
            self.speed[self.straggler] = factor
        rng = np.random.default_rng([seed, 0])
        skew_ns = np.rint(rng.uniform(-skew_us, skew_us, ranks) * 1000)
        skew_ns[0] = 0
        #: for each rank: clock error, start of the first step, start of the recording
        self.skew_ns: Ints = skew_ns.astype(np.int64)
        self.start_ns = rng.exponential(150_000.0, ranks)
        record_from_ns = np.rint(rng.uniform(0, uneven_us, ranks) * 1000)
        self.record_from_ns: Ints = record_from_ns.astype(np.int64)
        #: process groups of each partition: "world" reduces gradients, "tensor" splits the work
        self.groups = _groups(ranks, tensor_ranks, strided=strided)

    def groups_of(self, rank: int) -> dict[str, DemoGroup]:
        """Return a rank's group in each partition."""
        return {
            partition: next(group for group in groups if rank in group.ranks)
            for partition, groups in self.groups.items()
        }

    def configs_of(self, rank: int) -> list[dict[str, Any]]:
        """Return the value of ``distributedInfo.pg_config`` for a rank."""
        groups = {"0": DemoGroup("0", "default_pg", tuple(range(self.ranks)))}
        groups |= {group.name: group for group in self.groups_of(rank).values()}
        return [
            {
                "pg_name": group.name, "pg_desc": group.description,
                "backend_config": "cuda:nccl", "pg_size": len(group.ranks),
                "ranks": list(group.ranks),
            }
            for group in groups.values()
        ]  # fmt: skip

    def names_of(self, rank: int) -> dict[str, str]:
        """Return the values of a rank for the placeholders in templates."""
        threads = thread_ids(rank)
        names = {f"TID{role}": str(tid) for role, tid in threads.items()}
        names |= {"PID": str(threads[0]), "DEV": str(rank % RANKS_A_HOST), "RANK": str(rank)}
        for partition, group in self.groups_of(rank).items():
            names[f"SIZE_{partition}"] = str(len(group.ranks))
            names[f"NAME_{partition}"] = group.name
            names[f"DESC_{partition}"] = group.description
            names[f"RANKS_{partition}"] = str(list(group.ranks))
        return names


def _ranks_with_files(ranks: int, missing: Sequence[int], straggler: int | None) -> tuple[int, ...]:
    """Return the ranks that write a file, after checking `missing` and `straggler`."""
    written = tuple(rank for rank in range(ranks) if rank not in set(missing))
    if not written:
        raise TraceError("every rank is missing", remedy="Leave at least one rank in.")
    outside = [rank for rank in missing if not 0 <= rank < ranks]
    if outside or (straggler is not None and straggler < 0):
        raise TraceError(
            f"unknown rank {outside[0] if outside else straggler} in a job of {ranks}",
            remedy=f"The ranks are 0 to {ranks - 1}.",
        )
    return written


def _groups(ranks: int, tensor_ranks: int, *, strided: bool) -> dict[str, tuple[DemoGroup, ...]]:
    all_ranks = tuple(range(ranks))
    groups: dict[str, tuple[DemoGroup, ...]] = {"world": (DemoGroup("0", "default_pg", all_ranks),)}
    if tensor_ranks == 1:
        return groups
    neighbors = [all_ranks[first : first + tensor_ranks] for first in range(0, ranks, tensor_ranks)]
    groups["tensor"] = tuple(
        DemoGroup(str(number), "mesh_tp", members) for number, members in enumerate(neighbors, 1)
    )
    if strided:
        strides = [all_ranks[first::tensor_ranks] for first in range(tensor_ranks)]
        groups["world"] = tuple(
            DemoGroup(str(number), "mesh_dp", members)
            for number, members in enumerate(strides, 1 + len(neighbors))
        )
    return groups


@dataclass(slots=True)
class StepTemplate:
    """The records of a step: texts with ``%d`` holes, and the numbers that fill the holes.

    A hole is a time (tick, tick to subtract or -1, 0 for µs or 1 for the remaining ns, 0), or a
    number (-1, -1, value in the first step, increment per step).
    """

    records: list[bytes]
    first_tick: Ints  # start tick of each record
    offsets: Ints  # record i has holes[offsets[i]:offsets[i + 1]]
    holes: Ints  # (holes, 4)
    is_complete: Bools  # whether each record is a complete event

    def for_rank(self, names: dict[str, str]) -> StepTemplate:
        """Replace placeholders with the values of a rank."""
        joined = b"\0".join(self.records)
        for mark, value in names.items():
            joined = joined.replace(f"@{mark}@".encode(), value.encode())
        return replace(self, records=joined.split(b"\0"))

    def starting_at(self, times_ns: Ints, start_ns: int) -> StepTemplate:
        """Omit the records that begin before `start_ns`."""
        is_later = times_ns[self.first_tick] >= start_ns
        counts = np.diff(self.offsets)
        return StepTemplate(
            [self.records[record] for record in np.flatnonzero(is_later)],
            self.first_tick[is_later],
            np.concatenate([[0], np.cumsum(counts[is_later])]),
            self.holes[np.repeat(is_later, counts)],
            self.is_complete[is_later],
        )

    def fill(self, times_ns: Ints, step: int) -> bytes:
        """Return a step's text, with the holes filled."""
        tick, before, constant, stride = self.holes.T
        time_ns = times_ns[tick] - np.where(before >= 0, times_ns[before], 0)
        digits = np.where(constant == 0, time_ns // 1000, time_ns % 1000)
        numbers = np.where(tick >= 0, digits, constant + step * stride)
        return b"".join(self.records) % tuple(numbers.tolist())


class _Writer:
    """Writes records, and collects the holes of each record in text order."""

    def __init__(self, program: Program, nodes: int) -> None:
        self.program, self.nodes = program, nodes
        self.records: list[str] = []
        self.holes: list[list[tuple[int, int, int, int]]] = [[]]
        self.starts = len(program.costs) + len(program.side_costs)  # tick of the first device start
        self.ends = self.starts + len(program.device)

    def time(self, tick: int, before: int = -1) -> str:
        self.holes[-1] += [(tick, before, 0, 0), (tick, before, 1, 0)]
        return "%d.%03d"

    def span(self, start: int, end: int) -> str:
        return f'"ts": {self.time(start)}, "dur": {self.time(end, start)}'

    def number(self, constant: int, stride: int) -> str:
        self.holes[-1].append((-1, -1, constant, stride))
        return "%d"

    def external(self, external: int) -> str:
        return self.number(external, self.program.externals)

    def correlation(self, correlation: int) -> str:
        return self.number(_FIRST_CORRELATION + correlation, self.program.correlations)

    def text(self, raw: str) -> str:
        """Escape ``%`` in text and turn ``@SEQ…@`` and ``@STEP@`` into holes."""
        raw = raw.replace("%", "%%")
        raw = re.sub(r"@SEQ(\d+)@", lambda m: self.number(int(m[1]), self.nodes), raw)
        return re.sub("@STEP@", lambda _: self.number(0, 1), raw)

    def collective(self, call: CollectiveCall) -> str:
        stride = self.program.sequences[call.partition]
        return (
            f'"Collective name": "{call.name}", "In msg nelems": {call.in_elements}, '
            f'"Out msg nelems": {call.out_elements}, "Group size": @SIZE_{call.partition}@,\n'
            f'      "dtype": "{call.dtype}", "In split size": "[]", "Out split size": "[]", '
            f'"Process Group Name": "@NAME_{call.partition}@", '
            f'"Process Group Description": "@DESC_{call.partition}@", '
            f'"Process Group Ranks": "@RANKS_{call.partition}@", "Rank": @RANK@, '
            f'"Seq": {self.number(call.sequence + 1, stride)}'
        )

    def add(self, text: str) -> None:
        self.records.append(f"  {{\n    {text}\n  }},\n")
        self.holes.append([])

    def complete(self, category: str, name: str, place: str, span: str, args: str) -> None:
        head = f'"ph": "X", "cat": "{category}", "name": "{name}", {place}'
        self.add(f'{head},\n    {span},\n    "args": {{\n      {args}\n    }}')

    def flow(self, phase: str, category: str, number: str, place: str, time: str) -> None:
        binding = ', "bp": "e"' if phase == "f" else ""
        self.add(
            f'"ph": "{phase}", "id": {number}, {place}, "ts": {time},\n'
            f'    "cat": "{category}", "name": "{category}"{binding}'
        )

    def host(self, event: HostEvent) -> None:
        name, span = self.text(event.name), self.span(event.start, event.end)
        args = f'"External id": {self.external(event.external)}, '
        if event.category == "cuda_runtime":
            args += f'"cbid": {CALLBACKS[event.name]}, "correlation": '
            args += self.correlation(event.correlation)
        else:
            extra = self.collective(event.collective) if event.collective else ""
            extra = extra or self.text(event.details)
            args += f'"Record function id": 0,{" " + extra + "," if extra else ""} "Ev Idx": '
            args += self.external(event.external - 1)
        self.complete(event.category, name, _host(event.thread), span, args)

    def device(self, index: int, event: DeviceEvent) -> None:
        work, place = event.work, _device(event.stream)
        name = self.text(work.name)
        span = self.span(self.starts + index, self.ends + index)
        queued = ' "queued": 0,' if work.category == "kernel" else ""
        args = (
            f'"External id": {self.external(event.call.external)},{queued} '
            f'"device": @DEV@, "context": 1, "stream": {event.stream}, '
            f'"correlation": {self.correlation(event.call.correlation)},\n'
            f"      {self.text(work.details)}"
        )
        if event.graph_node >= 0:
            args += f', "graph id": 1, "graph node id": {event.graph_node}'
        if index in self.program.collectives:
            args += f",\n      {self.collective(self.program.collectives[index])}"
        self.complete(work.category, name, place, span, args)
        number = self.correlation(event.call.correlation)
        self.flow("f", "ac2g", number, place, self.time(self.starts + index))

    def annotation(self, note: Annotation) -> None:
        name = self.text(note.name)
        span = self.span(self.starts + note.first, self.ends + note.last)
        args = f'"External id": {self.external(note.external)}'
        self.complete("gpu_user_annotation", name, _device(note.stream), span, args)

    def wait(self, wait: StreamWait) -> None:
        span = self.span(wait.call.start, wait.call.end)
        args = (
            f'"External id": {self.external(wait.call.external)}, '
            f'"cuda_sync_kind": "{wait.name}", "stream": {wait.stream}, "correlation": '
            f'{self.correlation(wait.call.correlation)}, "device": @DEV@, "context": 1'
        )
        self.complete("cuda_sync", wait.name, _device(wait.stream), span, args)

    def memory(self, instant: Instant) -> None:
        self.add(
            '"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n'
            f'    {_host(instant.thread)}, "ts": {self.time(instant.tick)},\n'
            f'    "args": {{\n      "Total Reserved": {instant.reserved_bytes}, '
            f'"Total Allocated": {instant.allocated_bytes}, "Bytes": {instant.size_bytes}, '
            f'"Addr": {instant.address}, "Device Id": @DEV@, "Device Type": 1\n    }}'
        )
        if abs(instant.size_bytes) >= _MIN_COUNTED_BYTES:
            self.add(
                '"ph": "C", "name": "GPU @DEV@ memory (bytes)", '
                f'{_device(0)}, "ts": {self.time(instant.tick)},\n'
                f'    "args": {{ "allocated": {instant.allocated_bytes}, '
                f'"reserved": {instant.reserved_bytes} }}'
            )


def _host(thread: int) -> str:
    return f'"pid": @PID@, "tid": @TID{thread}@'


def _device(stream: int) -> str:
    return f'"pid": @DEV@, "tid": {stream}'


def step_template(program: Program, nodes: int) -> StepTemplate:
    """Return the records of a step, in the order used by Kineto."""
    writer = _Writer(program, nodes)
    launched = {event.call.correlation for event in program.device}
    flows: dict[int, tuple[int, str]] = {}
    for number, (source, target) in enumerate(program.flows, 1):
        flows |= {source: (number, "s"), target: (number, "f")}
    for index, event in enumerate(program.host):
        writer.host(event)
        place = _host(event.thread)
        if event.correlation in launched:
            correlation = writer.correlation(event.correlation)
            writer.flow("s", "ac2g", correlation, place, writer.time(event.start))
        if index in flows:
            number, phase = flows[index]
            flow_id = writer.number(number, len(program.flows))
            writer.flow(phase, "fwdbwd", flow_id, place, writer.time(event.start))
    for instant in program.instants:
        writer.memory(instant)
    for index, work in enumerate(program.device):
        writer.device(index, work)
    for note in program.annotations:
        writer.annotation(note)
    for wait in program.waits:
        writer.wait(wait)
    holes_by_record = writer.holes[:-1]  # the last list, for the next record, is empty
    first_ticks = [next(tick for tick, *_ in holes if tick >= 0) for holes in holes_by_record]
    return StepTemplate(
        records=[record.encode() for record in writer.records],
        first_tick=np.array(first_ticks, np.int64),
        offsets=np.cumsum([0, *map(len, holes_by_record)]),
        holes=np.array([hole for holes in holes_by_record for hole in holes], np.int64),
        is_complete=np.array(['"ph": "X"' in record for record in writer.records]),
    )
