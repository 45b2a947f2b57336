"""Read exports of Nsight Systems into a trace per process and device.

A rank is a process with one of its devices. For example, torchrun on a node with two GPUs records
both ranks in one file::

    process 4000, device 0 → rank 0        process 4001, device 0 → rank 1

Calls on the host belong to the device that they launch on, or else to the one that their thread
launches on most, so that no event counts twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.event_rows import RankFacts, rows_of_ranks, trace_of_rank
from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.formats.nsight.collectives import communication_args, read_communicators
from hta_widgets.formats.nsight.counters import counters_of_rank
from hta_widgets.formats.nsight.nvtx import NVTX_TABLE, payloads_of, read_ranges
from hta_widgets.formats.nsight.rank_columns import RankRows, build_columns
from hta_widgets.formats.nsight.recording import Recording, read_recording
from hta_widgets.formats.nsight.records import ExportRecords, RankPlace
from hta_widgets.formats.nsight.steps import Steps, find_steps
from hta_widgets.formats.nsight.tables import (
    CALLS,
    EVENT_TABLES,
    GRAPHS,
    MARK,
    RANGE,
    EventBlock,
    Texts,
    concatenate_blocks,
    read_block,
)
from hta_widgets.readers.formats import FileStart, Outcome
from hta_widgets.readers.sqlite import NO_TIME, Database, table_names
from hta_widgets.trace.arrays import Bools, Ints, Rows
from hta_widgets.trace.columns import ArgTable, StringPool
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


@dataclass(frozen=True, slots=True)
class _Export:
    """An export and its events: first those of devices, then calls, then NVTX ranges."""

    path: str
    database: Database
    state: FileState
    recording: Recording
    events: EventBlock
    names: StringPool
    domains: list[str]
    payloads: dict[int, dict[str, int]]
    steps: str | None


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
        names = StringPool()
        events, domains = _read_events(database, recording, names, path, problems)
        if len(events) and events.start_ns.min() > _MIN_UTC_NS:
            recording.epoch_ns = 0
        payloads = payloads_of(database)
        export = _Export(
            path, database, state, recording, events, names, domains, payloads, steps
        )  # fmt: skip
        no_target = np.broadcast_to(np.int64(-1), len(events))
        columns = {**events.columns(), "place": events.thread, "target": no_target}
        ranks = list(rows_of_ranks(columns, path, problems))
        if not ranks:
            raise TraceError(
                "holds no events of CUDA, NVTX, MPI or the operating system",
                path=path,
                remedy=_RECORD_AGAIN,
            )
        devices_of = Counter(process for process, _, _ in ranks)
        traces: list[Trace] = []
        for process, device, rows in ranks:
            rank = _rank_rows(process, device, events, rows)
            facts = _facts_of_rank(export, rank, devices_of, is_first=not traces)
            traces.append(_read_rank(export, rank, facts, problems))
        _report_file(export, problems)
    return Outcome(tuple(traces), problems)


def _read_events(
    database: Database, recording: Recording, names: StringPool, path: str, problems: Problems
) -> tuple[EventBlock, list[str]]:
    """Return all events, and the names of NVTX domains."""
    texts = Texts(database, names)
    blocks: list[EventBlock] = []
    for number, table in enumerate(EVENT_TABLES):
        block = _drop_untimed(read_block(database, number, texts), table.name, path, problems)
        if number > CALLS:
            block.correlation = np.full(len(block), -1)  # only calls launch
        blocks.append(block)
    _assign_process(blocks, path, problems)
    blocks[GRAPHS] = _drop_recorded_graphs(blocks[GRAPHS], blocks[0], path, problems)
    ranges, domains = read_ranges(database, texts, recording.domains)
    never_end = (ranges.end_ns == NO_TIME) & (ranges.kind != MARK)
    problems.add("unpaired", int(never_end.sum()), "NVTX ranges without an end", file=path)
    ranges = ranges.select(~never_end & _are_plausible(ranges.start_ns))
    return concatenate_blocks([*blocks, ranges]), domains


def _assign_process(blocks: list[EventBlock], path: str, problems: Problems) -> None:
    """Give device work without a process the process of all calls, if there is only one."""
    processes = np.unique(blocks[CALLS].process)
    for block in blocks[:CALLS]:
        is_unknown = block.process < 0
        if len(processes) == 1:
            block.process = np.where(is_unknown, processes[0], block.process)
        else:
            detail = "events of devices do not state their process: they are ranks of their own"
            problems.add("part", int(is_unknown.sum()), detail, file=path)


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


def _rank_rows(process: int, device: int, events: EventBlock, rows: Rows) -> RankRows:
    """Return the events of a rank, which are at `rows`."""
    events = events if len(rows) == len(events) else events.take(rows)
    first_call, first_range = int((events.device >= 0).sum()), int((events.kind < RANGE).sum())
    bounds = (slice(first_call), slice(first_call, first_range), slice(first_range, None))
    return RankRows(process, device, *(events.take(part) for part in bounds))


def _facts_of_rank(
    export: _Export, rank: RankRows, devices_of: Counter[int], *, is_first: bool
) -> RankFacts:
    """Return a rank's identity; `devices_of` has the number of devices of each process."""
    recording = export.recording
    gpu = recording.gpu(rank.process, max(rank.device, 0))
    return RankFacts(
        epoch_ns=recording.epoch_ns or 0,
        host=recording.host,
        rank=_stated_rank(export, rank, devices_of),
        device_properties=gpu.properties() if rank.device >= 0 else {},
        further_metadata={"Nsight Systems": recording.version} if recording.version else {},
        series=counters_of_rank(export.database, rank, gpu, with_network=is_first),
        label=gpu.label,
    )


def _read_rank(export: _Export, rank: RankRows, facts: RankFacts, problems: Problems) -> Trace:
    """Return the trace of a rank."""
    recording, path = export.recording, export.path
    steps = _find_steps(export, rank, rank.ranges, problems)
    if steps is None:  # the thread of the steps launches more on another device
        of_process = (export.events.process == rank.process) & (export.events.kind >= RANGE)
        steps = _find_steps(export, rank, export.events.select(of_process), problems)
    records = build_columns(rank, steps, export.names, facts.label, recording)
    domains = {
        f"{process}:{number}": name
        for (process, number), name in recording.domains.items()
        if process == rank.process
    }
    source = ExportRecords(
        path, RankPlace(rank.process, facts.label, domains), *records[1:], facts.trace_metadata(),
        export.state, _comm_args(export, rank),
    )  # fmt: skip
    return trace_of_rank(records.columns, source, path, "nsight", problems, facts, rank.device)


def _find_steps(
    export: _Export, rank: RankRows, ranges: EventBlock, problems: Problems
) -> Steps | None:
    """Return the ranges that are the steps of a rank."""
    work, calls = rank.work, rank.calls
    launching = calls.thread[np.isin(calls.correlation, work.correlation[work.correlation > 0])]
    threads, counts = np.unique(launching if len(launching) else ranges.thread, return_counts=True)
    if not len(threads):
        return None
    rows = np.flatnonzero((ranges.thread == threads[counts.argmax()]) & (ranges.kind == RANGE))
    span = int(work.end_ns.max() - work.start_ns.min()) if len(work) else 0
    steps = find_steps(ranges.take(rows), export.domains, export.names, span, export.steps)
    if steps is None:
        return None
    detail = f"steps are NVTX ranges; those {steps.rule} got a ProfilerStep#n around them"
    problems.add("repaired", len(steps.rows), detail, file=export.path)
    return Steps(rows[steps.rows], steps.numbers, steps.rule, ranges)


def _stated_rank(export: _Export, rank: RankRows, devices_of: Counter[int]) -> int | None:
    """Return the rank by NCCL; of a process with one device by MPI, or by its environment."""
    of_ranges = [export.payloads.get(row, {}) for row in rank.ranges.rowid.tolist()]
    has_one_device = devices_of[rank.process] == 1
    stated = export.recording.mpi_ranks.get(rank.process) if has_one_device else None
    if stated is None:
        stated = read_communicators(of_ranges, None if has_one_device else rank.device).rank
    if stated is None and devices_of.total() == 1:
        stated = export.recording.rank_of_variables()
    return stated if stated is None or stated >= 0 else None


def _comm_args(export: _Export, rank: RankRows) -> ArgTable | None:
    """Return the args of NCCL's kernels; its domain may lack a name."""
    if not export.payloads:
        return None
    kernels = [code for code, name in enumerate(export.names.values) if _NCCL_NAME.search(name)]
    domains = [
        code
        for code, name in enumerate(export.domains)
        if name.upper() == "NCCL" or name.startswith("domain ")
    ]
    rows = np.flatnonzero(np.isin(rank.work.name, kernels))
    ranges = rank.ranges.select(np.isin(rank.ranges.domain, domains))
    return communication_args(
        rows, rank.work.take(rows), rank.calls, ranges, export.names, export.payloads
    )


def _report_file(export: _Export, problems: Problems) -> None:
    """Report what the export lacks."""
    export.database.report(problems)
    for kind, detail in _lacks(export):
        problems.add(kind, 1, detail, file=export.path)
    events = export.events
    processes = set(events.process[(events.device < 0) & (events.kind < RANGE)].tolist())
    for process, text in export.recording.diagnostics:
        if process is None or process in processes:
            detail = f"Nsight Systems reports: {text[:300]}"
            problems.add("part", 1, detail, file=export.path)


def _lacks(export: _Export) -> Iterator[tuple[Any, str]]:
    if export.recording.epoch_ns is None:
        yield "clock", "the export does not state when the recording began"
    if export.recording.cut:
        yield "part", "the file was cut from a longer export"
    has_nccl = any(_NCCL_NAME.search(name) for name in export.names.values)
    if has_nccl and not export.payloads:
        yield (
            "part",
            (
                "the export lacks NCCL's sizes and communicators;"
                " nsys export --type sqlite --include-blobs true writes them"
            ),
        )
