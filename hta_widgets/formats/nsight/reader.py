"""Reader of Nsight Systems exports, which builds a trace per process and device.

A rank is a process with one of its devices. For example, torchrun records both ranks of a node with
two GPUs in one file::

    process 4000, device 0 → rank 0        process 4001, device 0 → rank 1

A host call belongs to the device on which it launches work, otherwise to the device on which its
thread launches most. Events are therefore not counted twice.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hta_widgets.formats.event_rows import (
    EventRows,
    RankFacts,
    RowPlace,
    build_traces,
    device_properties,
    distinct_rows,
    ranks_of,
    select_rows,
)
from hta_widgets.formats.nsight.event_args import (
    ArgsOfCalls,
    capture_args,
    communication_args,
    rank_in_communicators,
    wait_args,
)
from hta_widgets.formats.nsight.nvtx import NVTX_TABLE, NvtxRanges, read_ranges
from hta_widgets.formats.nsight.recording import Recording
from hta_widgets.formats.nsight.tables import (
    CALLS,
    DEVICE_TABLES,
    GRAPHS,
    HOST_TABLES,
    ID_MASK,
    KERNELS,
    UNIFIED_THREAD,
    Columns,
    ExportTable,
    read_table,
)
from hta_widgets.formats.steps import add_steps
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.readers.sqlite import NO_TIME, Database
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.record_times import FIRST_NS, LAST_NS, MIN_UTC_NS

_REPORTS = (".nsys-rep", ".qdrep")
_EVENTS = re.compile(rf"CUPTI_ACTIVITY_KIND_\w+|{NVTX_TABLE}|OSRT_API|MPI_\w+|DIAGNOSTIC_EVENT")
_NCCL_NAME = re.compile(r"nccl", re.IGNORECASE)
#: The mark by which Megatron and other programs state the rank and its place in the job.
_RANK_MARK = re.compile(r"rank=(\d{1,9})\b.*\b[dpt]p=\d")
#: Columns that identify a row occurring in two versions of a table.
_IDENTITY = ("process", "thread", "start_ns", "end_ns", "name", "correlation")
_UNIFIED = "unified memory"
_LAST_SORT = 1 << 30


def is_export(start: FileStart) -> bool:
    """Return whether a file is an export, judging by the names of its tables."""
    return "StringIds" in start.tables and any(map(_EVENTS.fullmatch, start.tables))


def reports_of(path: str) -> list[tuple[Path, bool]]:
    """Return the possible names of the report from which an export was made."""
    return [(Path(path).with_suffix(ending), False) for ending in _REPORTS]


def read_export(
    path: str, *, advance: Advance = None, steps: str | None = None, **_: object
) -> Outcome:
    """Read an export's ranks; `steps` is a regular expression for ranges that are steps."""
    rows = EventRows(path)
    with Database(path, advance) as database:
        export = _ExportReader(database, rows)
        export.read(steps)
        record = "Record with nsys profile --trace=cuda,nvtx, and export again."
        outcome = build_traces(rows, "nsight", export.facts, record)
        export.report()
    return outcome


def _are_plausible(times_ns: Ints) -> Bools:
    return np.asarray((times_ns > FIRST_NS) & (times_ns < LAST_NS))


class _ExportReader:
    def __init__(self, database: Database, rows: EventRows) -> None:
        self._database, self._rows = database, rows
        self._recording = Recording(database)
        self._tables: dict[ExportTable, Columns] = {}
        #: number of devices of each process
        self._devices_of: Counter[int] = Counter()
        self._callers: set[int] = set()

    def read(self, steps: str | None) -> None:
        for table in (*DEVICE_TABLES, *HOST_TABLES):
            self._tables[table] = self._read_table(table)
        for table in DEVICE_TABLES:
            self._assign_process(self._tables[table])
        self._drop_recorded_graphs()
        self._ranges = self._read_ranges()
        self._add_communication_args()
        calls = self._tables[CALLS]
        captured = capture_args(self._database, self._tables[KERNELS], calls, self._rows.name)
        self._add_args(calls, captured)
        self._add_args(calls, wait_args(self._database, calls))
        for columns in self._tables.values():
            self._add(columns)
        for table in HOST_TABLES:
            self._callers.update(np.unique(self._tables[table]["process"]).tolist())
        phases = self._ranges.columns["phase"]
        for phase in "Xib":
            self._add(self._ranges.select(phases == ord(phase)).columns, phase=phase)
        self._tables.clear()
        add_steps(self._rows, steps, "NVTX ranges")
        self._devices_of.update(process for process, _ in ranks_of(self._rows.columns()))
        if self._rows.first_ns > MIN_UTC_NS:
            self._recording.epoch_ns = 0

    def _read_table(self, table: ExportTable) -> Columns:
        columns = read_table(self._database, table, self._rows)
        start_ns, end_ns = columns["start_ns"], columns["end_ns"]
        timed = _are_plausible(start_ns) & _are_plausible(end_ns) & (end_ns >= start_ns)
        timed &= (start_ns != 0) | (end_ns != 0)
        self._rows.note("skipped", ~timed, f"rows of {table.name} without times")
        columns = select_rows(columns, timed)
        if len(table.stored_names(self._database)) == 1:
            return columns
        _, event = distinct_rows(*(columns[name] for name in _IDENTITY))
        first_rows = np.unique(event, return_index=True)[1]
        repeated = len(event) - len(first_rows)
        self._rows.note("skipped", repeated, f"rows that occur in two versions of {table.name}")
        return select_rows(columns, first_rows)

    def _assign_process(self, work: Columns) -> None:
        """Assign device work without a process to the process with calls, if there is only one."""
        processes = np.unique(self._tables[CALLS]["process"])
        is_unknown = work["process"] < 0
        if len(processes) == 1:
            work["process"] = np.where(is_unknown, processes[0], work["process"])
        else:
            detail = "device events that do not state their process; they become separate ranks"
            self._rows.note("part", is_unknown, detail)

    def _drop_recorded_graphs(self) -> None:
        """Drop graph launches whose kernels are also recorded, and report the other launches."""
        graphs, kernels = self._tables[GRAPHS], self._tables[KERNELS]
        if not len(graphs["start_ns"]):
            return
        keys = ("process", "correlation")
        _, launch = distinct_rows(*(np.concatenate([kernels[key], graphs[key]]) for key in keys))
        launch_of_kernel, launch_of_graph = np.split(launch, [len(kernels["start_ns"])])
        has_kernels = np.isin(launch_of_graph, launch_of_kernel)
        detail = "launches of CUDA graphs whose kernels are recorded too"
        self._rows.note("skipped", has_kernels, detail)
        detail = (
            "CUDA graphs are recorded as a whole, so the kernels and communication of"
            " these launches are unknown; nsys profile --cuda-graph-trace=node records them"
        )
        self._rows.note("part", ~has_kernels, detail)
        self._tables[GRAPHS] = select_rows(graphs, ~has_kernels)

    def _read_ranges(self) -> NvtxRanges:
        ranges = read_ranges(self._database, self._rows)
        never_end = ranges.columns["end_ns"] == NO_TIME
        self._rows.note("unpaired", never_end, "NVTX ranges without an end")
        is_timed = _are_plausible(ranges.columns["start_ns"])
        self._rows.note("skipped", ~is_timed & ~never_end, "NVTX ranges without times")
        return ranges.select(~never_end & is_timed)

    def _add_args(self, columns: Columns, args_of: ArgsOfCalls) -> None:
        rows = [row for row, args in args_of.items() if args]
        args = (msgspec.json.decode(self._rows.args[columns["args"][row]]) for row in rows)
        joined = [stated | args_of[row] for row, stated in zip(rows, args, strict=True)]
        columns["args"][rows] = self._rows.args_codes(joined)

    def _add_communication_args(self) -> None:
        kernels, calls = self._tables[KERNELS], self._tables[CALLS]
        names = self._rows.name.values
        nccl_names = [code for code, name in enumerate(names) if _NCCL_NAME.search(name)]
        is_nccl = np.isin(kernels["name"], nccl_names)
        ranges = self._ranges
        domains = [  # NCCL's domain or, without it, unnamed domains
            code
            for code, name in enumerate(ranges.domains)
            if name.upper() == "NCCL" or name.startswith("domain ")
        ]
        nccl_ranges = ranges.select(np.isin(ranges.columns["domain"], domains))
        for process in np.unique(kernels["process"][is_nccl]).tolist():
            rows = np.flatnonzero(is_nccl & (kernels["process"] == process))
            args = communication_args(
                select_rows(kernels, rows),
                select_rows(calls, calls["process"] == process),
                nccl_ranges.select(nccl_ranges.columns["process"] == process),
                self._rows.name,
            )
            self._add_args(kernels, dict(zip(rows.tolist(), args, strict=True)))
        detail = (
            "the export lacks NCCL's sizes and communicators;"
            " nsys export --type sqlite --include-blobs true writes them"
        )
        has_payloads = len(nccl_ranges.payloads) > 1  # the first payload is empty
        self._rows.note("part", int(bool(nccl_names) and not has_payloads), detail)

    def _add(self, columns: Columns, phase: str = "X") -> None:
        track = (columns[name] for name in ("process", "device", "thread"))
        names = ("start_ns", "end_ns", "name", "category", "process", "args", "device", "stream",
                 "correlation", "size_bytes")  # fmt: skip
        events: dict[str, Any] = {name: columns[name] for name in names if name in columns}
        self._rows.add(**events, place=self._rows.place_codes(self._place, *track), phase=phase)

    def _place(self, process: int, device: int, thread: int) -> RowPlace:
        process_name = self._recording.processes.get(process, "")
        if device < 0:
            name = self._recording.threads.get((process, thread))
            label = f"thread {thread} ({name})" if name else ""
            return RowPlace(str(process & ID_MASK), str(thread), process_name, label)
        gpu = f"GPU {self._recording.gpu(process, device).number}"
        if thread == UNIFIED_THREAD:
            return RowPlace(gpu, _UNIFIED, process_name or gpu, _UNIFIED, _LAST_SORT)
        return RowPlace(gpu, str(thread), process_name or gpu)

    def facts(self, process: int, device: int) -> RankFacts:
        recording = self._recording
        gpu = recording.gpu(process, max(device, 0))
        properties = device_properties(
            gpu.number, name=gpu.name, numSms=gpu.sms, totalGlobalMem=gpu.memory_bytes
        )
        return RankFacts(
            epoch_ns=recording.epoch_ns or 0,
            host=recording.host(process),
            rank=self._stated_rank(process, device),
            device_properties=properties if device >= 0 else {},
            further_metadata={"Nsight Systems": recording.version} if recording.version else {},
            series=recording.take_series(self._database, process, device),
            label=f"GPU {gpu.number}",
        )

    def _stated_rank(self, process: int, device: int) -> int | None:
        """Return the rank stated by MPI, a mark, NCCL or an environment variable.

        MPI, marks and variables apply to a process. They are ignored if it has several ranks.
        """
        has_one_device = self._devices_of[process] <= 1
        ranges = self._ranges.select(self._ranges.columns["process"] == process)
        if has_one_device:
            names = (self._rows.name[code] for code in np.unique(ranges.columns["name"]))
            marks = (int(match[1]) for match in map(_RANK_MARK.match, names) if match)
            rank = self._recording.mpi_ranks.get(process, next(marks, None))
            if rank is not None:
                return rank
        rank = rank_in_communicators(ranges, None if has_one_device else device)
        if rank is None and self._devices_of.total() == 1:
            rank = self._recording.rank_of_variables
        return rank if rank is None or rank >= 0 else None

    def report(self) -> None:
        recording = self._recording
        self._database.report(self._rows.problems)
        detail = "metric samples of GPUs that no rank uses"
        self._rows.note("part", recording.unused_samples, detail)
        detail = "the export does not state when the recording began"
        self._rows.note("clock", int(recording.epoch_ns is None), detail)
        self._rows.note("part", int(recording.is_cut), "the file was cut from a longer export")
        detail = (
            "devices of processes that have the same id on several machines; the export does not"
            " state which GPUs they use"
        )
        self._rows.note("part", recording.unclear_devices, detail)
        for process, text in recording.diagnostics:
            if process is None or process in self._callers:
                self._rows.note("part", 1, f"Nsight Systems reports: {text[:300]}")
