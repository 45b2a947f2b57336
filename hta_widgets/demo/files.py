"""The plan of ranks, and the step as Kineto files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.demo.program import (
    AUTOGRAD,
    COMPUTE,
    COPY,
    DEVICE,
    GRADIENTS,
    MAIN,
    PINNER,
    TENSORS,
    Annotation,
    Collective,
    DeviceEvent,
    HostEvent,
    Instant,
    Program,
    Wait,
)
from hta_widgets.errors import TraceError

BASE_NS = 1_735_689_600_000_000_000  #: baseTimeNanoseconds of every file
RANKS_A_HOST = 8


def host_name(rank: int) -> str:
    """Name of the host that runs a rank."""
    return f"gpu-node-{rank // RANKS_A_HOST:02d}"


def thread_ids(rank: int) -> dict[int, int]:
    """Operating system's ids of a rank's threads; the main thread's is the process's."""
    pid = 40_100 + 173 * (rank % RANKS_A_HOST) + 7 * (rank // RANKS_A_HOST)
    return {MAIN: pid, AUTOGRAD: pid + 61, PINNER: pid + 58}


def micros(time_ns: int) -> str:
    """Write a time as Kineto does: µs with three decimals."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def header(rank: int, ranks: int, groups: list[dict[str, Any]], seed: int) -> str:
    """Write all up to the first event."""
    properties = [
        {
            "id": device,
            "name": "NVIDIA A100-SXM4-80GB",
            "totalGlobalMem": 85_097_971_712,
            "computeMajor": 8,
            "computeMinor": 0,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048,
            "regsPerBlock": 65_536,
            "warpSize": 32,
            "sharedMemPerBlock": 49_152,
            "numSms": 108,
            "regsPerMultiprocessor": 65_536,
            "sharedMemPerBlockOptin": 166_912,
            "sharedMemPerMultiprocessor": 167_936,
        }
        for device in range(min(ranks, RANKS_A_HOST))
    ]
    info = {
        "backend": "nccl",
        "rank": rank,
        "world_size": ranks,
        "pg_count": len(groups),
        "pg_config": groups,
        "nccl_version": "2.21.5",
    }
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
        f'  "host_name": "{host_name(rank)}"',
        '  "displayTimeUnit": "ms"',
        f'  "baseTimeNanoseconds": {BASE_NS}',
        '  "traceEvents": [\n',
    ]
    return "{\n" + ",\n".join(lines)


def footer(rank: int, start_ns: int, end_ns: int) -> tuple[str, int, int]:
    """Write what names processes and threads, the profiler's own span, and the closing keys."""
    threads = thread_ids(rank)
    pid, device = threads[MAIN], rank % RANKS_A_HOST
    ts = micros(start_ns)
    records: list[str] = []

    def named(record: str, pid: int | str, tid: int, key: str, value: int | str) -> None:
        records.append(
            f'  {{\n    "name": "{record}", "ph": "M", "ts": {ts}, "pid": {json.dumps(pid)}, '
            f'"tid": {tid},\n    "args": {{\n      "{key}": {json.dumps(value)}\n    }}\n  }}'
        )

    def process(number: int, label: str, sort_index: int) -> None:
        named("process_name", number, 0, "name", "python3.11")
        named("process_labels", number, 0, "labels", label)
        named("process_sort_index", number, 0, "sort_index", sort_index)

    def thread(number: int, tid: int, name: str, sort_index: int) -> None:
        named("thread_name", number, tid, "name", name)
        named("thread_sort_index", number, tid, "sort_index", sort_index)

    process(pid, "CPU", pid)
    process(device, f"GPU {device}", 16_777_216 + device)
    thread(device, DEVICE, f"Device {device}", DEVICE)
    for stream in (COMPUTE, GRADIENTS, COPY, TENSORS):
        thread(device, stream, f"stream {stream} ", stream)
    names = {MAIN: "pt_main_thread", AUTOGRAD: "pt_autograd_0", PINNER: "pt_data_pin"}
    for which in (MAIN, AUTOGRAD, PINNER):
        thread(pid, threads[which], f"thread {threads[which]} ({names[which]})", threads[which])
    records.append(
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {ts}, "dur": {micros(end_ns - start_ns)},\n'
        '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
        '    "args": {\n      "Op count": 0\n    }\n  }'
    )
    named("process_sort_index", "Spans", 0, "sort_index", 536_870_912)
    records.append(
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {ts}\n  }}'
    )
    records.append(
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {micros(end_ns)}\n  }}'
    )
    name = f"/home/trainer/runs/demo/rank-{rank}.json"
    text = ",\n".join(records) + f'\n  ],\n  "traceName": "{name}"\n}}\n'
    return text, len(records), 1


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Group:
    """A process group."""

    name: str
    description: str
    ranks: tuple[int, ...]

    def config(self) -> dict[str, Any]:
        """Return its entry in ``distributedInfo.pg_config``."""
        return {
            "pg_name": self.name,
            "pg_desc": self.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(self.ranks),
            "ranks": list(self.ranks),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A job, before it runs."""

    ranks: int
    steps: int
    seed: int
    straggler: int | None
    factor: float
    speed: Floats  # cost factor by rank
    skew_ns: Ints  # what a rank's clock shows too much
    start_ns: Floats  # when its first step begins
    record_from_ns: Ints  # when its profiler starts to record
    written: tuple[int, ...]  # ranks that leave a file
    #: the process groups of each way of grouping: "world" reduces gradients, "tensor" splits work
    groups: dict[str, tuple[Group, ...]]

    @classmethod
    def draw(
        cls,
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
    ) -> Plan:
        """Draw all that the seed decides, after checking what the caller asked for."""
        if tensor_ranks is None:
            tensor_ranks = 2 if ranks >= 4 and ranks % 2 == 0 else 1
        written = tuple(rank for rank in range(ranks) if rank not in set(missing))
        _check(ranks, steps, tensor_ranks, factor, written)
        outside = [rank for rank in missing if not 0 <= rank < ranks]
        if outside or (straggler is not None and straggler < 0):
            raise TraceError(
                f"there is no rank {outside[0] if outside else straggler} in a job of {ranks}",
                remedy=f"The ranks are 0 to {ranks - 1}.",
            )
        if straggler is not None:
            straggler = min(straggler, ranks - 1) if ranks > 1 else None
        rng = np.random.default_rng([seed, 0])
        # Healthy ranks differ by the noise of each step alone: none is slow by chance of the seed.
        speed = np.ones(ranks)
        if straggler is not None:
            speed[straggler] = factor
        skew_ns = np.rint(rng.uniform(-skew_us, skew_us, ranks) * 1000).astype(np.int64)
        skew_ns[0] = 0
        start_ns = rng.exponential(150_000.0, ranks)
        record_from_ns = np.rint(rng.uniform(0, uneven_us, ranks) * 1000).astype(np.int64)
        return cls(
            ranks,
            steps,
            seed,
            straggler,
            factor,
            speed,
            skew_ns,
            start_ns,
            record_from_ns,
            written,
            _groups(ranks, tensor_ranks, strided=strided),
        )

    def partitions(self) -> dict[str, Ints]:
        """Return the members of all groups, (groups, members) for each way of grouping."""
        return {
            way: np.array([group.ranks for group in groups], np.int64)
            for way, groups in self.groups.items()
        }

    def groups_of(self, rank: int) -> dict[str, Group]:
        """Return the groups that a rank is in, by way of grouping."""
        return {
            way: next(group for group in groups if rank in group.ranks)
            for way, groups in self.groups.items()
        }

    def configs_of(self, rank: int) -> list[dict[str, Any]]:
        """Return ``pg_config`` of a rank."""
        groups = {"0": Group("0", "default_pg", tuple(range(self.ranks)))}
        groups |= {group.name: group for group in self.groups_of(rank).values()}
        return [group.config() for group in groups.values()]

    def names_of(self, rank: int) -> dict[str, str]:
        """Return what stands in a template's marks for this rank."""
        threads = thread_ids(rank)
        names = {f"TID{which}": str(tid) for which, tid in threads.items()}
        names |= {"PID": str(threads[0]), "DEV": str(rank % RANKS_A_HOST), "RANK": str(rank)}
        for way, group in self.groups_of(rank).items():
            names[f"SIZE_{way}"] = str(len(group.ranks))
            names[f"NAME_{way}"] = group.name
            names[f"DESC_{way}"] = group.description
            names[f"RANKS_{way}"] = str(list(group.ranks))
        return names


def _groups(ranks: int, tensor_ranks: int, *, strided: bool) -> dict[str, tuple[Group, ...]]:
    everyone = tuple(range(ranks))
    groups: dict[str, tuple[Group, ...]] = {"world": (Group("0", "default_pg", everyone),)}
    if tensor_ranks == 1:
        return groups
    neighbours = [everyone[i : i + tensor_ranks] for i in range(0, ranks, tensor_ranks)]
    groups["tensor"] = tuple(
        Group(str(1 + i), "mesh_tp", members) for i, members in enumerate(neighbours)
    )
    if strided:
        first = 1 + len(neighbours)
        groups["world"] = tuple(
            Group(str(first + i), "mesh_dp", everyone[i::tensor_ranks]) for i in range(tensor_ranks)
        )
    return groups


def _check(
    ranks: int, steps: int, tensor_ranks: int, factor: float, written: Sequence[int]
) -> None:
    if ranks < 1 or steps < 1:
        raise TraceError(
            f"a job needs ranks and steps, not {ranks} and {steps}",
            remedy="Give at least 1 of each.",
        )
    if tensor_ranks < 1 or ranks % tensor_ranks:
        raise TraceError(
            f"{ranks} ranks cannot be split into groups of {tensor_ranks}",
            remedy="Choose tensor_ranks that divides ranks, or 1.",
        )
    if factor <= 0:
        raise TraceError(f"the factor {factor} is no slowdown", remedy="Give a positive factor.")
    if not written:
        raise TraceError("every rank is missing", remedy="Leave at least one rank in.")


_COUNTED_BYTES = 1 << 20  # smaller allocations give no counter sample
_FIRST_CORRELATION = 20_480


@dataclass(slots=True)
class _Record:
    """Text of one record and the numbers that fill it: (tick, tick before, constant, a step)."""

    text: str
    holes: list[tuple[int, int, int, int]]


@dataclass(slots=True)
class StepTemplate:
    """Records of one step; `%` of their text and their numbers gives the file's bytes."""

    records: list[bytes]
    first: Ints  # time index that says when the record begins
    offsets: Ints  # holes of record i: offsets[i]:offsets[i+1]
    holes: Ints  # (holes, 4)
    complete: npt.NDArray[np.bool_]  # whether the record is a complete event

    def of_rank(self, names: dict[str, str]) -> StepTemplate:
        """Fill in what a rank is called, its devices and its groups."""
        joined = b"\0".join(self.records)
        for mark, value in names.items():
            joined = joined.replace(f"@{mark}@".encode(), value.encode())
        return replace(self, records=joined.split(b"\0"))

    def since(self, times_ns: Ints, start_ns: int) -> StepTemplate:
        """Leave out the records that begin before `start_ns`."""
        kept = np.flatnonzero(times_ns[self.first] >= start_ns)
        counts = np.diff(self.offsets)[kept]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        rows = np.repeat(self.offsets[kept] - offsets[:-1], counts) + np.arange(offsets[-1])
        return StepTemplate(
            [self.records[i] for i in kept],
            self.first[kept],
            offsets,
            self.holes[rows],
            self.complete[kept],
        )

    def fill(self, times_ns: Ints, step: int) -> bytes:
        """Write the step."""
        tick, before, constant, stride = self.holes.T
        # A hole is either a point or a length in time, in its µs or its ns digits, or a number.
        time = times_ns[tick] - np.where(before >= 0, times_ns[before], 0)
        part = np.where(constant == 0, time // 1000, time % 1000)
        numbers = np.where(tick >= 0, part, constant + step * stride)
        return b"".join(self.records) % tuple(numbers.tolist())


class _Writer:
    """Collects the holes of the record that is being written, in the order of its text."""

    def __init__(self, program: Program, nodes: int, first_step: int) -> None:
        self.program, self.nodes, self.first_step = program, nodes, first_step
        self.holes: list[tuple[int, int, int, int]] = []
        self.records: list[_Record] = []
        self.ticks = len(program.costs) + len(program.side_costs)

    def starts(self, device: int) -> int:
        return self.ticks + device

    def ends(self, device: int) -> int:
        return self.ticks + len(self.program.device) + device

    def add(self, text: str) -> None:
        self.records.append(_Record(f"  {text},\n", self.holes))
        self.holes = []

    def time(self, tick: int, before: int = -1) -> str:
        self.holes += [(tick, before, 0, 0), (tick, before, 1, 0)]
        return "%d.%03d"

    def span(self, start: int, end: int) -> str:
        return f'"ts": {self.time(start)}, "dur": {self.time(end, start)}'

    def number(self, constant: int, stride: int) -> str:
        self.holes.append((-1, -1, constant, stride))
        return "%d"

    def external(self, external: int) -> str:
        return self.number(external, self.program.externals)

    def correlation(self, correlation: int) -> str:
        return self.number(_FIRST_CORRELATION + correlation, self.program.correlations)

    def text(self, raw: str) -> str:
        """Escape text for ``%`` and turn its numbered marks into holes."""
        raw = raw.replace("%", "%%")
        raw = re.sub(r"@SEQ(\d+)@", lambda m: self.number(int(m[1]), self.nodes), raw)
        return re.sub("@STEP@", lambda _: self.number(self.first_step, 1), raw)

    # --- records --------------------------------------------------------------------------------

    def host(self, event: HostEvent) -> None:
        name = self.text(event.name)
        head = (
            f'{{\n    "ph": "X", "cat": "{event.category}", "name": "{name}", "pid": @PID@, '
            f'"tid": @TID{event.thread}@,\n    {self.span(event.start, event.end)},\n'
            f'    "args": {{\n      "External id": {self.external(event.external)}, '
        )
        if event.category == "cuda_runtime":
            correlation = self.correlation(event.correlation)
            self.add(f'{head}"cbid": {event.callback}, "correlation": {correlation}\n    }}\n  }}')
            return
        extra = self.text(event.details)
        if event.collective is not None:
            extra = self.collective(event.collective)
        middle = f'"Record function id": 0,{" " + extra + "," if extra else ""}'
        self.add(f'{head}{middle} "Ev Idx": {self.external(event.external - 1)}\n    }}\n  }}')

    def collective(self, what: Collective) -> str:
        stride = self.program.sequences[what.partition]
        return (
            f'"Collective name": "{what.name}", "In msg nelems": {what.in_elements}, '
            f'"Out msg nelems": {what.out_elements}, "Group size": @SIZE_{what.partition}@,\n'
            f'      "dtype": "{what.dtype}", "In split size": "[]", "Out split size": "[]", '
            f'"Process Group Name": "@NAME_{what.partition}@", '
            f'"Process Group Description": "@DESC_{what.partition}@", '
            f'"Process Group Ranks": "@RANKS_{what.partition}@", "Rank": @RANK@, '
            f'"Seq": {self.number(what.sequence + 1, stride)}'
        )

    def device(self, index: int, event: DeviceEvent) -> None:
        work = event.work
        queued = ' "queued": 0,' if work.category == "kernel" else ""
        text = (
            f'{{\n    "ph": "X", "cat": "{work.category}", "name": "{self.text(work.name)}", '
            f'"pid": @DEV@, "tid": {event.stream},\n    '
            f"{self.span(self.starts(index), self.ends(index))},\n"
            f'    "args": {{\n      "External id": {self.external(event.external)},{queued} '
            f'"device": @DEV@, "context": 1, "stream": {event.stream}, '
            f'"correlation": {self.correlation(event.correlation)},\n'
            f"      {self.text(work.details)}"
        )
        if event.graph_node >= 0:
            text += f', "graph id": 1, "graph node id": {event.graph_node}'
        if event.collective is not None:
            text += f",\n      {self.collective(event.collective)}"
        self.add(f"{text}\n    }}\n  }}")
        self.add(
            f'{{\n    "ph": "f", "id": {self.correlation(event.correlation)}, "pid": @DEV@, "tid": '
            f'{event.stream}, "ts": {self.time(self.starts(index))},\n'
            '    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }'
        )

    def launch_flow(self, event: HostEvent) -> None:
        self.add(
            f'{{\n    "ph": "s", "id": {self.correlation(event.correlation)}, "pid": @PID@, "tid": '
            f'@TID{event.thread}@, "ts": {self.time(event.start)},\n'
            '    "cat": "ac2g", "name": "ac2g"\n  }'
        )

    def grad_flow(self, number: int, phase: str, event: HostEvent) -> None:
        flows = len(self.program.flows)
        binding = ', "bp": "e"' if phase == "f" else ""
        self.add(
            f'{{\n    "ph": "{phase}", "id": {self.number(number + 1, flows)}, "pid": @PID@, '
            f'"tid": @TID{event.thread}@, "ts": {self.time(event.start)},\n'
            f'    "cat": "fwdbwd", "name": "fwdbwd"{binding}\n  }}'
        )

    def annotation(self, note: Annotation) -> None:
        self.add(
            f'{{\n    "ph": "X", "cat": "gpu_user_annotation", "name": "{self.text(note.name)}", '
            f'"pid": @DEV@, "tid": {note.stream},\n    '
            f"{self.span(self.starts(note.first), self.ends(note.last))},\n"
            f'    "args": {{\n      "External id": {self.external(note.external)}\n    }}\n  }}'
        )

    def wait(self, wait: Wait) -> None:
        call = wait.call
        self.add(
            f'{{\n    "ph": "X", "cat": "cuda_sync", "name": "{wait.name}", "pid": @DEV@, '
            f'"tid": {wait.stream},\n    {self.span(call.start, call.end)},\n'
            f'    "args": {{\n      "External id": {self.external(call.external)}, '
            f'"cuda_sync_kind": "{wait.name}", "stream": {wait.stream}, '
            f'"correlation": {self.correlation(call.correlation)}, "device": @DEV@, "context": 1\n'
            "    }\n  }"
        )

    def memory(self, instant: Instant) -> None:
        self.add(
            '{\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",\n'
            f'    "pid": @PID@, "tid": @TID{instant.thread}@, "ts": {self.time(instant.tick)},\n'
            f'    "args": {{\n      "Total Reserved": {instant.reserved_bytes}, '
            f'"Total Allocated": {instant.allocated_bytes}, "Bytes": {instant.size_bytes}, '
            f'"Addr": {instant.address}, "Device Id": @DEV@, "Device Type": 1\n    }}\n  }}'
        )
        if abs(instant.size_bytes) >= _COUNTED_BYTES:
            self.add(
                f'{{\n    "ph": "C", "name": "GPU @DEV@ memory (bytes)", "pid": @DEV@, "tid": 0, '
                f'"ts": {self.time(instant.tick)},\n    "args": {{ '
                f'"allocated": {instant.allocated_bytes}, '
                f'"reserved": {instant.reserved_bytes} }}\n  }}'
            )


def step_template(program: Program, nodes: int, first_step: int = 0) -> StepTemplate:
    """Write the records of a step's program, in the order in which Kineto lists them."""
    writer = _Writer(program, nodes, first_step)
    launched = {event.correlation for event in program.device}
    ends = {flow.source: (n, "s") for n, flow in enumerate(program.flows)}
    ends |= {flow.target: (n, "f") for n, flow in enumerate(program.flows)}
    for index, event in enumerate(program.host):
        writer.host(event)
        if event.correlation in launched:
            writer.launch_flow(event)
        if index in ends:
            writer.grad_flow(*ends[index], event)
    for instant in program.instants:
        writer.memory(instant)
    for index, work in enumerate(program.device):
        writer.device(index, work)
    for note in program.annotations:
        writer.annotation(note)
    for wait in program.waits:
        writer.wait(wait)
    return _compiled(writer.records)


def _compiled(records: list[_Record]) -> StepTemplate:
    counts = [len(record.holes) for record in records]
    return StepTemplate(
        records=[record.text.encode() for record in records],
        first=np.array(
            [next(h[0] for h in record.holes if h[0] >= 0) for record in records], np.int64
        ),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        holes=np.array([hole for record in records for hole in record.holes], np.int64),
        complete=np.array(['"ph": "X"' in record.text for record in records]),
    )
