"""Reader of XPlane profiles of JAX and TensorFlow, which builds a trace per device.

A profile has a plane per device, and another for the host's threads. In files processed by XProf,
additional lines repeat the work of the streams by module, operation and scope::

    /device:GPU:0   Stream #16(Kernel)   device work
                    XLA Modules          ranges of the device
                    XLA Ops              repeats the kernels: left out
    /device:TPU:0   XLA Ops              device work; operations that contain others, such as loops,
                                         are ranges of the device
                    Steps                steps
    /device:TPU:0 SparseCore 1           more work of the same device: Sparse Core Ops

Kernels state their XLA operation (``hlo_op``). A collective operation has the same name on all
ranks, so its kernels are matched by module, operation and order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import (
    EventRows,
    RankFacts,
    build_traces,
    device_properties,
    distinct_rows,
)
from hta_widgets.formats.steps import add_profiler_steps, add_steps
from hta_widgets.formats.xplane.events import CORRELATION, LineEvents, read_events
from hta_widgets.formats.xplane.messages import (
    Line,
    Plane,
    Profile,
    ProtobufError,
    Stats,
    read_profile_messages,
)
from hta_widgets.readers.formats import Advance, Outcome
from hta_widgets.readers.streams import read_whole_file
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.columns import as_integer
from hta_widgets.trace.problems import ANOTHER_RUN, Problems
from hta_widgets.trace.record_times import MIN_UTC_NS
from hta_widgets.trace.trace import Trace

_DEVICE = re.compile(
    r"/device:(?P<kind>(?!CUSTOM\b|CPU\b)\w+):(?P<number>\d{1,9})(?: (?P<core>.+))?"
)
#: Planes with host threads. Old files have separate planes for calls recorded by CUPTI or
#: ROCtracer.
_HOST = re.compile(r"/host:(?!metadata)([\w-]+)")
_STREAM = re.compile(r"Stream *#? *(\d{1,9})\b.*", re.IGNORECASE)
_OPS = re.compile(r"(Async )?XLA Ops|Sparse Core Ops")
_MODULES, _STEPS, _NESTED = "XLA Modules", "Steps", "XLA Ops"
_COUNTERS = "_counters_"
#: Lines without work: XProf derived them from other lines, or they are counter samples.
_DERIVED = re.compile(
    r"XLA .*|(Sparse Core )?(Steps|Modules)|(Framework|TensorFlow) .*|Source code|Launch Stats"
    rf"|.*Scope.*|{_COUNTERS}"
)
_COLLECTIVE = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)"
)
#: Sizes in the strings ``kernel_details``, ``memcpy_details`` and ``memset_details``.
_DETAILS = re.compile(r"\b(\w+):(\d{1,18}(?:,\d{1,18})*)\b")
_SHARED_MEMORY = ("static_shared", "dynamic_shared", "group_mem")
_ALLOCATOR = re.compile(r"GPU_(\d{1,9})_bfc")
_MEMORY = "memory allocated by XLA (bytes)"
_REPLACED = "\ufffd".encode()
#: Statistics of work, with the args in which they are stored.
_FIGURES = {"flops": "flops", "bytes_accessed": "bytes accessed"}
#: Statistics that are columns of events, or that only XProf uses.
_DROPPED = frozenset({CORRELATION, "_c", "_ct", "_p", "_pt", "_r", "_a"})
_ENDINGS = (".trace.json.gz", ".trace.json")
_COPIES = ("perfetto_trace.json.gz", "perfetto_trace.json")
_Track = dict[str, int]
_RECORD_AGAIN = "Record it again with jax.profiler.trace, or copy it again."


def companions_of(path: str) -> list[tuple[Path, bool]]:
    """Return the other files that the profiler writes for a run."""
    stem = re.sub(r"\.xplane\.pb(\.gz)?$", "", path)
    files = [Path(stem + ending) for ending in _ENDINGS]
    files += [Path(path).parent / name for name in _COPIES]
    return [(file, True) for file in files]


def read_profile(
    path: str, *, advance: Advance = None, steps: str | None = None, **_: object
) -> Outcome:
    """Read the ranks of a profile; `steps` is a regular expression for ranges that are steps."""
    rows = EventRows(path)
    data = read_whole_file(path, rows.problems, advance)
    profile = read_profile_messages(data)
    if profile.fault is not None and not profile.fault.is_cut:
        raise _damage(path, data, profile.fault)
    reader = _ProfileReader(profile, data, rows, steps)
    try:
        reader.read()
    except ProtobufError as fault:
        raise _damage(path, data, fault) from None
    if profile.fault is not None:
        detail = f"the profile is cut: {profile.fault}; events of its last plane may lack names"
        rows.note("truncated", 1, detail)
    for text in profile.messages[:20]:
        rows.note("part", 1, f"the profiler reports: {text[:300]}")
    return build_traces(rows, "xplane", reader.facts, _RECORD_AGAIN)


def separate_captures(traces: list[Trace], problems: Problems) -> list[Trace]:
    """Make each capture a separate job if one of a host's devices occurs in several captures."""
    folder_of = {t.path: PurePath(t.path).parent for t in traces if t.format == "xplane"}
    path_of_device: dict[tuple[str, int], str] = {}
    is_one_job = True
    for trace in traces:
        if trace.path not in folder_of or not trace.host:
            continue
        path = path_of_device.setdefault((trace.host, trace.local_rank), trace.path)
        if folder_of[path] != folder_of[trace.path]:
            is_one_job = False
            detail = f"is {ANOTHER_RUN}: {path} has device {trace.local_rank} of {trace.host} too;"
            detail += " each capture is a separate job; load the folder of a single capture"
            problems.add("duplicate_rank", 1, detail, file=trace.path)
    if is_one_job:
        return traces
    jobs = {folder: Path(folder).resolve().name for folder in folder_of.values()}
    if len(set(jobs.values())) < len(jobs):
        jobs = {folder: str(folder) for folder in jobs}
    return [t.replace(job=jobs[folder_of[t.path]]) if t.path in folder_of else t for t in traces]


def _damage(path: str, data: bytes, fault: ProtobufError) -> TraceError:
    if data.count(_REPLACED) > len(data) // 1000:
        return TraceError(
            "was damaged by a text conversion, which replaced bytes",
            path=path,
            remedy="Copy the file again in binary mode.",
        )
    return TraceError(f"is damaged: {fault}", path=path, remedy=_RECORD_AGAIN)


class _ProfileReader:
    def __init__(self, profile: Profile, data: bytes, rows: EventRows, steps: str | None) -> None:
        self._profile, self._data, self._rows, self._steps = profile, data, rows, steps
        self._devices: dict[int, Plane] = {}
        #: samples of allocated memory, in arrays of three rows: device, time and bytes
        self._samples: list[Ints] = [np.empty((3, 0), np.int64)]
        #: distinct FLOPs and bytes of kernels, and the index in that list for each correlation id
        self._figures: list[Stats] = []
        self._figure_of: dict[int, int] = {}
        #: number of lines without a stream number on each device
        self._unnumbered: Counter[int] = Counter()
        environment = next((p for p in profile.planes if p.name == "Task Environment"), Plane())
        started = as_integer(environment.stats.get("profile_start_time"))
        lines = [line for plane in profile.planes for line in plane.lines if line.events]
        self._is_utc = any(line.first_ns >= MIN_UTC_NS for line in lines)
        self._start_ns = started if started > 0 else None
        for line in lines:  # both kinds may occur in one profile
            if self._is_utc and line.first_ns < MIN_UTC_NS:
                line.first_ns += self._start_ns or 0
        if self._start_ns is None and not self._is_utc:
            self._rows.note("clock", 1, "the profile does not state when it began")

    def read(self) -> None:
        # Devices come first, because host calls get figures from the kernels that they launch.
        for plane in sorted(self._profile.planes, key=lambda p: bool(_HOST.fullmatch(p.name))):
            device = _DEVICE.fullmatch(plane.name)
            if device is not None:
                label = f"{device['kind']} {device['number']}"
                self._read_device(plane, label, int(device["number"]), device["core"])
            elif _HOST.fullmatch(plane.name):
                for line in plane.lines:
                    self._read_thread(plane, line)
            else:
                count = sum(len(line.events) for line in plane.lines)
                detail = f"events of the plane {plane.name[:60]!r} are not read"
                self._rows.note("part", count, detail)
            detail = "names missing from the profile; their events are named by id"
            self._rows.note("part", len(plane.unnamed), detail)
        if self._steps is not None:
            add_steps(self._rows, self._steps, "host ranges")

    def facts(self, _process: int, device: int) -> RankFacts:
        plane = self._devices.get(device, Plane())
        samples = np.concatenate(self._samples, axis=1)
        _, times_ns, sizes = samples[:, samples[0] == device]
        hosts = self._profile.hosts
        return RankFacts(
            epoch_ns=0 if self._is_utc else self._start_ns or 0,
            host=hosts[0] if len(hosts) == 1 else None,
            device_properties=_properties(device, plane.stats) if device >= 0 else {},
            series=[(_MEMORY, times_ns, sizes.astype(np.float64))] if len(sizes) else (),
            has_steps_of_device="TPU" in plane.name,
        )

    def _read_device(self, plane: Plane, label: str, number: int, core: str | None) -> None:
        """Read the lines of a device or core; lines with work are numbered as streams."""
        streams = [line for line in plane.lines if _STREAM.fullmatch(line.name)]
        work = streams or [line for line in plane.lines if _OPS.fullmatch(line.name)]
        work = work or [line for line in plane.lines if not _DERIVED.fullmatch(line.name)]
        if not any(line.events for line in work):
            return
        has_steps = not streams and number not in self._devices
        self._devices.setdefault(number, plane)
        tracks: list[_Track] = []
        first_free_stream = self._unnumbered[number]
        self._unnumbered[number] += len(work)
        for free_stream, line in enumerate(work, first_free_stream):
            match = _STREAM.fullmatch(line.name)
            stream = int(match[1]) if match else free_stream
            thread = f"stream {stream}" if match else " · ".join(filter(None, (core, line.name)))
            place = self._rows.place(label, str(stream), label, thread)
            track = {"place": place, "device": number, "stream": stream}
            tracks.append(track)
            events = self._events(plane, line)
            if line.name == _NESTED:
                events = self._without_containers(events, track)
            self._add_work(events, track)
        for line in plane.lines:
            if line.name == _MODULES:
                self._add_ranges(self._events(plane, line), tracks[0])
            elif line.name == _STEPS and has_steps:
                self._add_steps(plane, line, self._rows.place(label, _STEPS, label, _STEPS), number)
            elif line.name == _COUNTERS:
                self._rows.note("part", len(line.events), "counter samples are left out")
            elif line not in work:
                detail = "events that repeat device work by module or scope are left out"
                self._rows.note("repaired", len(line.events), detail)

    def _without_containers(self, events: LineEvents, track: _Track) -> LineEvents:
        """Return operations that contain no others, and add the containing ones as ranges."""
        is_container = _are_containers(events)
        self._add_ranges(events.take(np.flatnonzero(is_container)), track)
        detail = "operations that contain others, such as loops, are ranges; their parts are work"
        self._rows.note("repaired", int(is_container.sum()), detail)
        return events.take(np.flatnonzero(~is_container))

    def _add_work(self, events: LineEvents, track: _Track) -> None:
        args = self._rows.args_codes(map(_args, events.names, events.stats))
        self._append(
            events, "kernel", **track, correlation=events.correlation, args=args[events.kind],
            size_bytes=np.array(list(map(_copied_bytes, events.stats)), np.int64)[events.kind],
        )  # fmt: skip
        self._note_figures(events)

    def _add_ranges(self, events: LineEvents, track: _Track) -> None:
        args = self._rows.args_codes(map(_args_of_stats, events.stats))[events.kind]
        self._append(events, "gpu_user_annotation", **track, args=args)

    def _note_figures(self, events: LineEvents) -> None:
        """Store the FLOPs and bytes of kernels for the calls that launch them."""
        figures = [{key: s[key] for key in _FIGURES.values() if key in s} for s in events.stats]
        has_figures = np.array(list(map(bool, figures)), bool)[events.kind]
        positions = len(self._figures) + events.kind[has_figures]
        correlation = events.correlation[has_figures]
        self._figure_of.update(zip(correlation.tolist(), positions.tolist(), strict=True))
        self._figures += figures

    def _add_steps(self, plane: Plane, line: Line, place: int, device: int) -> None:
        """Add the steps of a device whose work has no launches, numbered as in their names."""
        events = self._events(plane, line)
        numbers = np.array(list(map(as_integer, events.names)), np.int64)[events.kind]
        if -1 in numbers:
            numbers = np.arange(len(numbers))
        add_profiler_steps(self._rows, numbers, **events.times_ns, place=place, target=device)

    def _read_thread(self, plane: Plane, line: Line) -> None:
        events = self._events(plane, line)
        device_of_kind = np.array(list(map(_allocator_device, events.stats)), np.int64)
        self._note_memory(events, device_of_kind)
        name = line.name.removesuffix(f"/{line.number}")
        tid = str(line.number & ((1 << 63) - 1))
        process = plane.name.removeprefix("/host:").replace("CPU", "host")
        place = self._rows.place(process, tid, process, f"thread {tid} ({name})" if name else "")
        if self._steps is None:
            self._add_host_steps(events, place)
        self._add_operations(events, place)
        categories = self._rows.category_codes(map(_host_category, events.names, events.stats))
        args = self._rows.args_codes(map(_args_of_stats, events.stats))
        self._append(
            events, categories[events.kind], place=place, correlation=events.correlation,
            target=device_of_kind[events.kind], args=args[events.kind],
        )  # fmt: skip

    def _note_memory(self, events: LineEvents, device_of_kind: Ints) -> None:
        """Store the samples of allocated memory found among a thread's events."""
        size_of_kind = _numbers(events.stats, "bytes_allocated")
        is_sample = np.array([name.startswith("Memory") for name in events.names], bool)
        is_sample &= (size_of_kind >= 0) & (device_of_kind >= 0)
        rows = np.flatnonzero(is_sample[events.kind])
        kind = events.kind[rows]
        columns = (device_of_kind[kind], events.start_ns[rows], size_of_kind[kind])
        self._samples.append(np.stack(columns))

    def _add_host_steps(self, events: LineEvents, place: int) -> None:
        """Add a ``ProfilerStep#n`` around each range of `jax.profiler.StepTraceAnnotation`."""
        number = _numbers(events.stats, "step_num")[events.kind]
        rows = np.flatnonzero(number >= 0)
        if len(rows):
            add_profiler_steps(self._rows, number[rows], **events.take(rows).times_ns, place=place)
            detail = "host ranges are taken as steps, each within an added ProfilerStep#n"
            self._rows.note("repaired", len(rows), detail)

    def _add_operations(self, events: LineEvents, place: int) -> None:
        """Add an operator around each launch, named after the launch's XLA operation.

        Events without a correlation id are operations run by the host itself.
        """
        is_operation = np.array(
            [{"hlo_op", CORRELATION} <= stats.keys() for stats in events.stats], bool
        )
        launches = events.take(np.flatnonzero(is_operation[events.kind]))
        figure = np.array(
            [self._figure_of.get(number, -1) for number in launches.correlation.tolist()], np.int64
        )
        pairs, code = distinct_rows(launches.kind, figure)
        figures = [*self._figures, {}]  # the last one is for index -1
        args = [_args_of_stats(events.stats[kind]) | figures[index] for kind, index in pairs]
        names = [str(stats.get("hlo_op")) for stats in events.stats]
        operations = replace(launches, names=names)
        self._append(operations, "cpu_op", place=place, args=self._rows.args_codes(args)[code])

    def _append(self, events: LineEvents, category: str | Ints, **columns: Any) -> None:
        used_kinds, kind = np.unique(events.kind, return_inverse=True)
        names = self._rows.name_codes([events.names[number] for number in used_kinds.tolist()])
        self._rows.add(name=names[kind], category=category, **events.times_ns, **columns)

    def _events(self, plane: Plane, line: Line) -> LineEvents:
        events, sums = read_events(self._data, plane, line)
        for stats in events.stats:
            for stored, shown in _FIGURES.items():
                if stored in stats:
                    stats[shown] = stats.pop(stored)
        self._rows.note("skipped", sums, "events that are sums of several events, without times")
        return events


def _are_containers(events: LineEvents) -> Bools:
    """Return whether each event of a line contains another."""
    # Sorted by start, then longest first, an event that contains any event contains the next one.
    rows = np.flatnonzero(events.end_ns > events.start_ns)
    rows = rows[np.lexsort((-events.end_ns[rows], events.start_ns[rows]))]
    rows, following = rows[:-1], rows[1:]
    is_container = np.zeros(len(events.kind), bool)
    is_container[rows] = events.start_ns[following] < events.end_ns[rows]
    is_container[rows] &= events.end_ns[following] <= events.end_ns[rows]
    return is_container


def _numbers(stats: list[Stats], key: str) -> Ints:
    return np.array([as_integer(of_kind.get(key), 1 << 63) for of_kind in stats], np.int64)


def _args_of_stats(stats: Stats) -> Stats:
    return {key: value for key, value in stats.items() if key not in _DROPPED}


def _args(name: str, stats: Stats) -> Stats:
    """Return the args of device work. A collective is identified by the name of its operation."""
    operation = str(stats.get("hlo_op") or name)
    match = _COLLECTIVE.search(operation)
    args = {**_args_of_stats(stats), **_launch_args(stats)}
    if match is None:
        return args
    group = f"{stats.get('hlo_module', '')} {operation}".strip()
    return {**args, "Collective name": match[1], "Process Group Name": group}


def _details(stats: Stats, key: str) -> dict[str, list[int]]:
    """Return the sizes in a string such as ``grid:8,4,1 block:256,1,1 regs:32``."""
    return {
        name: list(map(int, values.split(",")))
        for name, values in _DETAILS.findall(str(stats.get(key, "")))
    }


def _launch_args(stats: Stats) -> dict[str, Any]:
    sizes = _details(stats, "kernel_details")
    args: dict[str, Any] = {key: sizes[key] for key in ("grid", "block") if key in sizes}
    if "regs" in sizes:
        args["registers per thread"] = sizes["regs"][0]
    shared = [sizes[key][0] for key in _SHARED_MEMORY if key in sizes]
    return {**args, "shared memory": sum(shared)} if shared else args


def _copied_bytes(stats: Stats) -> int:
    """Return the bytes of a copy or fill; -1 for other work."""
    sizes = {**_details(stats, "memset_details"), **_details(stats, "memcpy_details")}
    return sizes.get("size", sizes.get("num_bytes", [-1]))[0]


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
    return device_properties(
        number,
        name=stats.get("device_type_string") or stats.get("device_name"),
        totalGlobalMem=stats.get("memory_size"),
        computeMajor=stats.get("compute_cap_major"),
        computeMinor=stats.get("compute_cap_minor"),
        numSms=stats.get("core_count"),
        warpSize={"AMD": 64, "Nvidia": 32}.get(str(stats.get("device_vendor"))),
    )
