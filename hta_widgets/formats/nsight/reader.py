"""Read exports of Nsight Systems into a trace per process and device.

A rank is a process with one of its devices. For example, torchrun on a node with two GPUs records
both ranks in one file::

    process 4000, device 0 → rank 0        process 4001, device 0 → rank 1

Calls on the host belong to the device that they launch on, or else to the one that their thread
launches on most, so that no event counts twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import counter_table, devices_of_calls
from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.formats.nsight.collectives import communication_args, read_communicators
from hta_widgets.formats.nsight.counters import counters_of_rank
from hta_widgets.formats.nsight.nvtx import NVTX_TABLE, NvtxRows, payloads_of, read_ranges
from hta_widgets.formats.nsight.rank_columns import RankRows, build_columns
from hta_widgets.formats.nsight.recording import Recording, read_recording
from hta_widgets.formats.nsight.records import ExportRecords, RankPlace
from hta_widgets.formats.nsight.steps import Steps, find_steps
from hta_widgets.formats.nsight.tables import (
    CALLS,
    EVENT_TABLES,
    GRAPHS,
    EventBlock,
    Texts,
    concatenate_blocks,
    read_block,
)
from hta_widgets.readers.formats import FileStart, Outcome
from hta_widgets.readers.sqlite import NO_TIME, Database, table_names
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.record_times import FIRST_NS, LAST_NS
from hta_widgets.trace.trace import Trace

_MARKER = "StringIds"
_REPORTS = (".nsys-rep", ".qdrep")
_EVENTS = re.compile(rf"CUPTI_ACTIVITY_KIND_\w+|{NVTX_TABLE}|OSRT_API|MPI_\w+|DIAGNOSTIC_EVENT")
_NCCL_NAME = re.compile(r"nccl", re.IGNORECASE)
#: Times since the start of a recording are smaller, those since 1970 larger.
_MIN_UTC_NS = 100_000_000_000_000_000
_RECORD_AGAIN = "Record with nsys profile --trace=cuda,nvtx, and export again."


def is_export(start: FileStart) -> bool:
    """Whether a file is an export, by the names of its tables."""
    names = table_names(start.path, start.text)
    return _MARKER in names and any(map(_EVENTS.fullmatch, names))


def reports_of(path: str) -> list[tuple[Path, bool]]:
    """Return the reports that an export may have been made from."""
    return [(Path(path).with_suffix(ending), False) for ending in _REPORTS]


@dataclass(slots=True)
class _Events:
    """All events of a file."""

    device: EventBlock
    host: EventBlock
    ranges: NvtxRows
    names: StringPool

    @property
    def first_ns(self) -> int:
        """Start of the first event; 0 without events."""
        starts = [part.start_ns for part in (self.device, self.host, self.ranges)]
        return min((int(start.min()) for start in starts if len(start)), default=0)


def read_export(
    path: str,
    *,
    advance: Callable[[int], object] | None = None,
    keepalive: Any = None,  # noqa: ARG001 - part of what readers are called with
    steps: str | None = None,
) -> Outcome:
    """Read the ranks of an export; `steps` is a regular expression of the ranges that are steps."""
    problems = Problems()
    state = FileState.of(path)
    with Database(path, advance) as database:
        recording = read_recording(database)
        events = _read_events(database, recording, path, problems)
        if events.first_ns > _MIN_UTC_NS:
            recording.epoch_ns = 0
        payloads = payloads_of(database)
        places = _ranks_of(events, path, problems)
        traces: list[Trace] = []
        for process, device in places:
            rank = _rank_rows(events, process, device, places)
            rank_of = _RankReader(path, recording, state, database, events.names, payloads, steps)
            sole, is_first = len(places) == 1, not traces
            traces.append(rank_of.read(rank, sole=sole, is_first=is_first, problems=problems))
        _report_file(database, recording, events, bool(payloads), path, problems)
    return Outcome(tuple(traces), problems)


def _read_events(
    database: Database, recording: Recording, path: str, problems: Problems
) -> _Events:
    names = StringPool()
    texts = Texts(database, names)
    of_device: list[EventBlock] = []
    of_host: list[EventBlock] = []
    for number, table in enumerate(EVENT_TABLES):
        block = _drop_untimed(read_block(database, number, texts), table.name, path, problems)
        if number != CALLS and not table.of_device:
            block.correlation[:] = -1  # only calls launch
        (of_device if table.of_device else of_host).append(block)
    of_device[GRAPHS] = _drop_recorded_graphs(of_device[GRAPHS], of_device[0], path, problems)
    ranges = read_ranges(database, texts, recording.domains)
    never_end = (ranges.end_ns == NO_TIME) & ~ranges.is_mark
    problems.add("unpaired", int(never_end.sum()), "NVTX ranges without an end", file=path)
    ranges = ranges.take(np.flatnonzero(~never_end & _are_plausible(ranges.start_ns)))
    return _Events(concatenate_blocks(of_device), concatenate_blocks(of_host), ranges, names)


def _are_plausible(times_ns: Ints) -> Bools:
    return np.asarray((times_ns > FIRST_NS) & (times_ns < LAST_NS))


def _drop_untimed(block: EventBlock, table: str, path: str, problems: Problems) -> EventBlock:
    timed = _are_plausible(block.start_ns) & _are_plausible(block.end_ns)
    timed &= (block.end_ns >= block.start_ns) & ((block.start_ns != 0) | (block.end_ns != 0))
    if timed.all():
        return block
    problems.add("skipped", int((~timed).sum()), f"rows of {table} without times", file=path)
    return block.select(timed)


def _drop_recorded_graphs(
    graphs: EventBlock, kernels: EventBlock, path: str, problems: Problems
) -> EventBlock:
    """Drop launches of graphs whose kernels are recorded too, and report the others."""
    if not len(graphs):
        return graphs
    launched = set(zip(kernels.process.tolist(), kernels.correlation.tolist(), strict=True))
    pairs = zip(graphs.process.tolist(), graphs.correlation.tolist(), strict=True)
    is_twice = np.array([pair in launched for pair in pairs], bool)
    problems.add(
        "skipped", int(is_twice.sum()), "launches of CUDA graphs whose kernels are recorded too",
        file=path,
    )  # fmt: skip
    problems.add(
        "part",
        int((~is_twice).sum()),
        "CUDA graphs are recorded as a whole; the kernels and the communication of these launches"
        " are not known; nsys profile --cuda-graph-trace=node records them",
        file=path,
    )
    return graphs.select(~is_twice)


# --- ranks ----------------------------------------------------------------------------------------


def _ranks_of(events: _Events, path: str, problems: Problems) -> list[tuple[int, int]]:
    """Return the process and device of each rank; device -1 if no process has device work."""
    device, host, ranges = events.device, events.host, events.ranges
    pairs = np.unique(np.stack([device.process, device.device]), axis=1).T.tolist()
    on_host, counts = np.unique(np.concatenate([host.process, ranges.process]), return_counts=True)
    if not pairs:
        pairs = [(process, -1) for process in on_host.tolist() if process >= 0]
        if not pairs:
            raise TraceError(
                "holds no events of CUDA, NVTX, MPI or the operating system",
                path=path,
                remedy=_RECORD_AGAIN,
            )
        return pairs
    without = ~np.isin(on_host, device.process)
    if without.any():
        detail = (
            "processes without device work do not become ranks; the events of"
            f" {int(without.sum()):,} of them are left out"
        )
        problems.add("part", int(counts[without].sum()), detail, file=path)
    return [(process, number) for process, number in pairs]


def _rank_rows(
    events: _Events, process: int, device: int, places: list[tuple[int, int]]
) -> RankRows:
    """Return the events of a rank."""
    work, calls = events.device, events.host
    is_work = work.process == process
    is_call, is_range = calls.process == process, events.ranges.process == process
    devices = [number for owner, number in places if owner == process]
    if len(devices) > 1:
        call_rows, range_rows = np.flatnonzero(is_call), np.flatnonzero(is_range)
        own_work, own_calls = work.select(is_work), calls.take(call_rows)
        of_call, home = devices_of_calls(
            own_work.correlation, own_work.device, own_calls.correlation, own_calls.thread, devices
        )
        is_call[call_rows] = of_call == device
        threads = events.ranges.thread[range_rows].tolist()
        of_range = np.array([home.get(thread, devices[0]) for thread in threads], np.int64)
        is_range[range_rows] = of_range == device
    is_work &= work.device == device
    return RankRows(
        process,
        device,
        work.select(is_work),
        calls.select(is_call),
        events.ranges.take(np.flatnonzero(is_range)),
    )


@dataclass(frozen=True, slots=True)
class _RankReader:
    """Builds the traces of a file's ranks."""

    path: str
    recording: Recording
    state: FileState
    database: Database
    names: StringPool
    payloads: dict[int, dict[str, int]]
    steps: str | None

    def read(self, rank: RankRows, *, sole: bool, is_first: bool, problems: Problems) -> Trace:
        """Return the trace of a rank."""
        recording, path = self.recording, self.path
        gpu = recording.gpu(rank.process, max(rank.device, 0))
        steps = self._find_steps(rank, problems)
        records = build_columns(rank, steps, self.names, gpu.label, recording)
        stated = self._stated_rank(rank, sole=sole)
        metadata = self._metadata(rank, stated)
        domains = {
            f"{process}:{number}": name
            for (process, number), name in recording.domains.items()
            if process == rank.process
        }
        source = ExportRecords(
            path, RankPlace(rank.process, gpu.label, domains), *records[1:], metadata,
            self.state, self._comm_args(rank),
        )  # fmt: skip
        notes = Problems()
        trace = build_trace(
            records.columns,
            rank=0 if stated is None else stated,
            path=path,
            metadata=metadata,
            source=source,
            problems=notes,
            consume=True,
            format="nsight",
            host=recording.host or None,
            stated_rank=stated,
            local_rank=rank.device,
        )
        for problem in notes:  # without the rank, which may change
            problems.add(problem.kind, problem.count, problem.detail, file=path)
        series = counters_of_rank(self.database, rank, gpu, with_network=is_first)
        counters = counter_table(series, gpu.label, recording.epoch_ns or 0, trace, path, problems)
        return trace if counters is None else trace.replace(counter_table=counters)

    def _find_steps(self, rank: RankRows, problems: Problems) -> Steps | None:
        ranges = rank.ranges
        work, calls = rank.device_events, rank.calls
        launching = calls.thread[np.isin(calls.correlation, work.correlation[work.correlation > 0])]
        threads, counts = np.unique(
            launching if len(launching) else ranges.thread, return_counts=True
        )
        if not len(threads):
            return None
        on_thread = (ranges.thread == threads[counts.argmax()]) & ~ranges.is_mark & ~ranges.is_async
        rows = np.flatnonzero(on_thread)
        span = int(work.end_ns.max() - work.start_ns.min()) if len(work) else 0
        steps = find_steps(ranges.take(rows), self.names, span, self.steps)
        if steps is None:
            return None
        detail = f"steps are NVTX ranges; those {steps.rule} got a ProfilerStep#n around them"
        problems.add("repaired", len(steps.rows), detail, file=self.path)
        return Steps(rows[steps.rows], steps.numbers, steps.rule)

    def _stated_rank(self, rank: RankRows, *, sole: bool) -> int | None:
        """Return the rank by MPI, by NCCL, or by the environment of the only process."""
        stated = self.recording.mpi_ranks.get(rank.process)
        if stated is None:
            of_ranges = [self.payloads.get(row, {}) for row in rank.ranges.rowid.tolist()]
            stated = read_communicators(of_ranges).rank
        if stated is None and sole:
            stated = self.recording.rank_of_variables()
        return stated if stated is None or stated >= 0 else None

    def _metadata(self, rank: RankRows, stated: int | None) -> dict[str, Any]:
        recording = self.recording
        metadata: dict[str, Any] = {"baseTimeNanoseconds": recording.epoch_ns or 0}
        if rank.device >= 0:
            gpu = recording.gpu(rank.process, rank.device)
            metadata["deviceProperties"] = [gpu.properties()]
        if stated is not None:
            metadata["distributedInfo"] = {"rank": stated}
        if recording.host:
            metadata["host_name"] = recording.host
        if recording.version:
            metadata["Nsight Systems"] = recording.version
        return metadata

    def _comm_args(self, rank: RankRows) -> Any:
        if not self.payloads:
            return None
        of_name = [code for code, name in enumerate(self.names.values) if _NCCL_NAME.search(name)]
        rows = np.flatnonzero(np.isin(rank.device_events.name, of_name))
        ranges = rank.ranges.take(np.flatnonzero(rank.ranges.of_library()))
        return communication_args(
            rows, rank.device_events.take(rows), rank.calls, ranges, self.names, self.payloads
        )


def _report_file(
    database: Database,
    recording: Recording,
    events: _Events,
    has_payloads: bool,  # noqa: FBT001
    path: str,
    problems: Problems,
) -> None:
    """Report what the export lacks."""
    database.report(problems)
    for kind, detail in _lacks(recording, events, has_payloads=has_payloads):
        problems.add(kind, 1, detail, file=path)
    processes = set(np.unique(events.host.process).tolist())
    for process, text in recording.diagnostics:
        if process is None or process in processes:
            problems.add("part", 1, f"Nsight Systems reports: {text[:300]}", file=path)


def _lacks(
    recording: Recording, events: _Events, *, has_payloads: bool
) -> Iterator[tuple[Any, str]]:
    if recording.epoch_ns is None:
        yield "clock", "the export does not state when the recording began"
    if recording.cut:
        yield "part", "the file was cut from a longer export"
    has_nccl = any(_NCCL_NAME.search(name) for name in events.names.values)
    if has_nccl and not has_payloads:
        yield (
            "part",
            (
                "the export lacks NCCL's sizes and communicators;"
                " nsys export --type sqlite --include-blobs true writes them"
            ),
        )
