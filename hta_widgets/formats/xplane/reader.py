"""Read XPlane profiles of JAX and TensorFlow into a trace per device.

A profile has a plane per device and one for the threads of the host. Files that XProf has processed
also have lines that repeat the work of the streams by module, operation and scope::

    /device:GPU:0   Stream #16(Kernel)   device work
                    XLA Modules          ranges of the device
                    XLA Ops              repeats the kernels: left out
    /device:TPU:0   XLA Ops              device work: a TPU has no other line of it
                    Steps                steps

Kernels have the operation of XLA (``hlo_op``) that they are a part of; a collective's operation
has the same name on all ranks, so its kernels are matched by module, operation and order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import (
    EventRows,
    RankFacts,
    Series,
    build_traces,
    round_ps,
)
from hta_widgets.formats.xplane.messages import (
    EventName,
    Line,
    Plane,
    Profile,
    ProtobufError,
    Stats,
    read_profile_messages,
)
from hta_widgets.readers.formats import Outcome
from hta_widgets.readers.streams import read_whole_file
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.problems import Problems

_DEVICE = re.compile(r"/device:(?P<kind>(?!CUSTOM\b|CPU\b)\w+):(?P<number>\d{1,9})")
_HOST = "/host:CPU"
_ENVIRONMENT = "Task Environment"
_STREAM = re.compile(r"Stream #(\d{1,9})\b.*")
_OPS = re.compile(r"(Async )?XLA Ops")
_MODULES, _STEPS = "XLA Modules", "Steps"
_COLLECTIVE = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)"
)
_ALLOCATOR = re.compile(r"GPU_(\d{1,9})_bfc")
_MEMORY = "Memory allocated by XLA"
#: Times since the start of a profile are smaller, those since 1970 larger.
_MIN_UTC_NS = 100_000_000_000_000_000
_REPLACED = "\ufffd".encode()
#: Statistics of work, and their names as args.
_FIGURES = {"flops": "flops", "bytes_accessed": "bytes accessed"}
#: Statistics that are columns of events, or that only XProf uses.
_DROPPED = frozenset({"correlation_id", "_c", "_ct", "_p", "_pt", "_r", "_a"})
_ENDINGS = (".trace.json.gz", ".trace.json")
_COPIES = ("perfetto_trace.json.gz", "perfetto_trace.json")
_RECORD_AGAIN = "Record it again with jax.profiler.trace, or copy it again."


def companions_of(path: str) -> list[tuple[Path, bool]]:
    """Return the other files that the profiler writes of a run."""
    stem = re.sub(r"\.xplane\.pb(\.gz)?$", "", path)
    files = [Path(stem + ending) for ending in _ENDINGS]
    files += [Path(path).parent / name for name in _COPIES]
    return [(file, True) for file in files]


def read_profile(
    path: str,
    *,
    advance: Callable[[int], object] | None = None,
    keepalive: Any = None,  # noqa: ARG001 - part of what readers are called with
    steps: str | None = None,
) -> Outcome:
    """Read the ranks of a profile; `steps` is a regular expression of the ranges that are steps."""
    problems = Problems()
    data = read_whole_file(path, problems, advance)
    profile = read_profile_messages(data)
    if profile.fault is not None and not profile.fault.is_cut:
        raise _damage(path, data, profile.fault)
    events = _ProfileEvents(profile, data, path, problems, steps)
    try:
        events.read()
    except ProtobufError as fault:
        raise _damage(path, data, fault) from None
    if profile.fault is not None:
        problems.add("truncated", 1, f"the profile is cut: {profile.fault}", file=path)
    for text in profile.messages[:20]:
        problems.add("part", 1, f"the profiler reports: {text[:300]}", file=path)
    if not events.count:
        raise TraceError("holds no events of devices or threads", path=path, remedy=_RECORD_AGAIN)
    traces = build_traces(events.rows, path, "xplane", problems, events.facts)
    return Outcome(traces, problems)


def _damage(path: str, data: bytes, fault: ProtobufError) -> TraceError:
    if data.count(_REPLACED) > len(data) // 1000:
        return TraceError(
            "was changed by a conversion of text, which replaces bytes",
            path=path,
            remedy="Copy the file again as binary.",
        )
    return TraceError(f"is damaged: {fault}", path=path, remedy=_RECORD_AGAIN)


@dataclass(slots=True)
class _LineEvents:
    """The events of a line, with times in ns and all statistics."""

    start_ns: Ints
    end_ns: Ints
    names: list[str]
    stats: list[Stats]

    def take(self, rows: Rows) -> _LineEvents:
        """Return some of the events."""
        of_rows = rows.tolist()
        return _LineEvents(
            self.start_ns[rows],
            self.end_ns[rows],
            [self.names[row] for row in of_rows],
            [self.stats[row] for row in of_rows],
        )


class _ProfileEvents:
    """The events of a profile, and the facts of its ranks."""

    def __init__(
        self, profile: Profile, data: bytes, path: str, problems: Problems, steps: str | None
    ) -> None:
        self.rows = EventRows()
        self.count = 0
        self._profile, self._data, self._path, self._problems = profile, data, path, problems
        self._devices: dict[int, Plane] = {}
        self._memory: dict[int, list[tuple[int, int]]] = {}
        #: FLOPs and bytes of kernels by correlation id
        self._figures: dict[int, Stats] = {}
        self._steps, self._step_count = steps, 0
        environment = next((p for p in profile.planes if p.name == _ENVIRONMENT), Plane())
        started = environment.stats.get("profile_start_time")
        lines = [line for plane in profile.planes for line in plane.lines if line.events]
        self._is_utc = any(line.first_ns >= _MIN_UTC_NS for line in lines)
        self._start_ns = started if isinstance(started, int) and 0 < started < 1 << 62 else None
        if self._start_ns is None and not self._is_utc:
            detail = "the profile does not state when it began"
            problems.add("clock", 1, detail, file=path)

    def read(self) -> None:
        """Read all planes with events of devices and of threads."""
        derived = others = 0
        # Devices first, as calls on the host get figures of the kernels that they launch.
        for plane in sorted(self._profile.planes, key=lambda plane: plane.name == _HOST):
            device = _DEVICE.fullmatch(plane.name)
            if device is not None:
                derived += self._read_device(plane, device["kind"], int(device["number"]))
            elif plane.name == _HOST:
                for line in plane.lines:
                    self._read_thread(plane, line)
            else:
                others += sum(len(line.events) for line in plane.lines)
        if self._steps is not None:
            self._step_count = self.rows.add_named_steps(self._steps)
        detail = "steps are ranges of the host; they got a ProfilerStep#n around them"
        self._problems.add("repaired", self._step_count, detail, file=self._path)
        # Repeated work is not lost; other planes belong to neither devices nor threads.
        self._problems.add(
            "part", others, "events of planes of neither devices nor hosts", file=self._path
        )
        self._problems.add(
            "repaired", derived, "events that repeat device work by module or scope are left out",
            file=self._path,
        )  # fmt: skip

    def facts(self, _process: int, device: int) -> RankFacts:
        """Return what the profile states about a rank."""
        plane = self._devices.get(device, Plane())
        samples = sorted(self._memory.get(device, []))
        series: list[Series] = []
        if samples:
            times, values = np.array(samples, np.int64).T
            series.append((_MEMORY, times, values.astype(np.float64)))
        hosts = self._profile.hosts
        host = hosts[0] if len(hosts) == 1 else None
        metadata: dict[str, Any] = {}
        if device >= 0:
            metadata["deviceProperties"] = [_properties(device, plane.stats)]
        if host:
            metadata["host_name"] = host
        epoch_ns = 0 if self._is_utc else self._start_ns or 0
        is_tpu = "TPU" in plane.name
        return RankFacts(epoch_ns, metadata, host, series=series, has_steps_of_device=is_tpu)

    # --- devices ----------------------------------------------------------------------------------

    def _read_device(self, plane: Plane, kind: str, number: int) -> int:
        """Read the work of a device; return the number of events that repeat it."""
        streams = [line for line in plane.lines if _STREAM.fullmatch(line.name)]
        work = streams or [line for line in plane.lines if _OPS.fullmatch(line.name)]
        if not any(line.events for line in work):
            return 0
        label = f"{kind} {number}"
        self._devices[number] = plane
        derived = 0
        first_stream = 0
        for order, line in enumerate(work):
            match = _STREAM.fullmatch(line.name)
            stream = int(match[1]) if match else order
            first_stream = stream if line is work[0] else first_stream
            thread = f"stream {stream}" if match else line.name
            place = self.rows.place(label, str(stream), label, thread)
            self._add(plane, line, "kernel", place, number, stream)
        for line in plane.lines:
            if line.name == _MODULES:
                place = self.rows.place(label, str(first_stream), label)
                self._add(plane, line, "gpu_user_annotation", place, number, first_stream)
            elif line.name == _STEPS and not streams:
                self._add_steps(plane, line, self.rows.place(label, _STEPS, label, _STEPS), number)
            elif line not in work:
                derived += len(line.events)
        return derived

    def _add(
        self, plane: Plane, line: Line, category: str, place: int, device: int, stream: int
    ) -> None:
        events = self._events(plane, line)
        is_work = category == "kernel"
        for stats in events.stats:
            figures = {key: stats[key] for key in _FIGURES.values() if key in stats}
            if figures and is_work:
                self._figures[_whole(stats.get("correlation_id"))] = figures
        self._append(
            events, category, place, device=device, stream=stream,
            correlation=_numbers(events.stats, "correlation_id") if is_work else -1,
            args=self.rows.args_codes(map(_args, events.names, events.stats) if is_work
                                      else map(_args_of_stats, events.stats)),
        )  # fmt: skip

    def _add_steps(self, plane: Plane, line: Line, place: int, device: int) -> None:
        """Add steps of a device that no call on the host launches, numbered by their names."""
        events = self._events(plane, line)
        order = range(len(events.names))
        numbers = [
            int(name) if name.isdecimal() and len(name) < 18 else -1 for name in events.names
        ]
        if -1 in numbers:
            numbers = list(order)
        events.names = [f"ProfilerStep#{number}" for number in numbers]
        self._append(events, "user_annotation", place, target=device)

    # --- the host ---------------------------------------------------------------------------------

    def _read_thread(self, plane: Plane, line: Line) -> None:
        events = self._events(plane, line)
        for name, stats, at_ns in zip(
            events.names, events.stats, events.start_ns.tolist(), strict=True
        ):
            match = _ALLOCATOR.fullmatch(str(stats.get("allocator_name", "")))
            size = stats.get("bytes_allocated")
            if match and isinstance(size, int) and name.startswith("Memory") and size < 1 << 62:
                self._memory.setdefault(int(match[1]), []).append((at_ns, size))
        name = line.name.removesuffix(f"/{line.number}")
        tid = str(line.number & ((1 << 63) - 1))
        place = self.rows.place("host", tid, "host", f"thread {tid} ({name})" if name else "")
        if self._steps is None:
            self._add_host_steps(events, place)
        self._add_operations(events, place)
        pairs = zip(events.names, events.stats, strict=True)
        categories = np.array([_host_category(*pair) for pair in pairs], str)
        for category in np.unique(categories).tolist():
            part = events.take(np.flatnonzero(categories == category))
            self._append(
                part, category, place, correlation=_numbers(part.stats, "correlation_id"),
                target=np.array([_allocator_device(s) for s in part.stats], np.int64),
                args=self.rows.args_codes(map(_args_of_stats, part.stats)),
            )  # fmt: skip

    def _add_host_steps(self, events: _LineEvents, place: int) -> None:
        """Put a ``ProfilerStep#n`` around the ranges of `jax.profiler.StepTraceAnnotation`."""
        numbers = _numbers(events.stats, "step_num")
        rows = np.flatnonzero(numbers >= 0)
        if len(rows):
            steps = events.take(rows)
            steps.names = [f"ProfilerStep#{number}" for number in numbers[rows].tolist()]
            self._append(steps, "user_annotation", place)
            self._step_count += len(rows)

    def _add_operations(self, events: _LineEvents, place: int) -> None:
        """Put the operation of XLA that launches are a part of around them, as an operator."""
        rows = [row for row, stats in enumerate(events.stats) if "hlo_op" in stats]
        operations = events.take(np.array(rows, np.int64))
        operations.names = [str(stats["hlo_op"]) for stats in operations.stats]
        figures = [
            self._figures.get(number, {})
            for number in _numbers(operations.stats, "correlation_id").tolist()
        ]
        pairs = zip(operations.stats, figures, strict=True)
        args = self.rows.args_codes(
            {**_args_of_stats(stats), **of_kernel} for stats, of_kernel in pairs
        )
        self._append(operations, "cpu_op", place, args=args)

    # --- events -----------------------------------------------------------------------------------

    def _append(self, events: _LineEvents, category: str, place: int, **columns: Any) -> None:
        self.count += len(events.names)
        self.rows.add(
            start_ns=events.start_ns, end_ns=events.end_ns,
            name=self.rows.name_codes(events.names), category=category, place=place, **columns,
        )  # fmt: skip

    def _events(self, plane: Plane, line: Line) -> _LineEvents:
        data, sums = self._data, 0
        times: list[tuple[int, int]] = []
        names, all_stats = [], []
        for span in line.events:
            number, offset, duration, spans, is_sum = plane.event(data, span)
            if is_sum:
                sums += 1
                continue
            shared = plane.names.get(number) or EventName(f"event {number}")
            times.append((offset, offset + duration))
            names.append(shared.name)
            stats = {**shared.stats, **plane.decode_stats(data, spans)}
            for stored, shown in _FIGURES.items():
                if stored in stats:
                    stats[shown] = stats.pop(stored)
            all_stats.append(stats)
        self._problems.add(
            "skipped", sums, "events that are sums of several, without times", file=self._path
        )
        if any(abs(time) >> 62 for pair in times for time in pair) or abs(line.first_ns) >> 62:
            raise ProtobufError(f"times of the line {line.name[:100]!r} are beyond 50 days")
        start_ps, end_ps = np.array(times, np.int64).reshape(-1, 2).T
        return _LineEvents(
            line.first_ns + round_ps(start_ps), line.first_ns + round_ps(end_ps), names, all_stats
        )


def _whole(value: Any) -> int:
    """Return a statistic that is a number or its text; -1 for none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else -1


def _numbers(stats: list[Stats], key: str) -> Ints:
    return np.array([_whole(of_event.get(key)) for of_event in stats], np.int64)


def _args_of_stats(stats: Stats) -> Stats:
    """Return the statistics to show as args."""
    return {key: value for key, value in stats.items() if key not in _DROPPED}


def _args(name: str, stats: Stats) -> Stats:
    """Return the args of device work; the name of its operation identifies a collective."""
    operation = str(stats.get("hlo_op") or name)
    match = _COLLECTIVE.search(operation)
    if match is None:
        return _args_of_stats(stats)
    group = f"{stats.get('hlo_module', '')} {operation}".strip()
    return {**_args_of_stats(stats), "Collective name": match[1], "Process Group Name": group}


def _host_category(name: str, stats: Stats) -> str:
    if name.startswith("$"):
        return "python_function"
    if "step_num" in stats:
        return "user_annotation"
    return "cuda_runtime" if "correlation_id" in stats else "cpu_op"


def _allocator_device(stats: Stats) -> int:
    match = _ALLOCATOR.fullmatch(str(stats.get("allocator_name", "")))
    return int(match[1]) if match else -1


def _properties(number: int, stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a device under the keys that PyTorch writes."""
    named = {
        "name": stats.get("device_type_string") or stats.get("device_name"),
        "totalGlobalMem": stats.get("memory_size"),
        "computeMajor": stats.get("compute_cap_major"),
        "computeMinor": stats.get("compute_cap_minor"),
        "numSms": stats.get("core_count"),
        "warpSize": {"AMD": 64, "Nvidia": 32}.get(str(stats.get("device_vendor"))),
    }
    return {"id": number, **{key: value for key, value in named.items() if value is not None}}
