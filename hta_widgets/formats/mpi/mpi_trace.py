"""mpitrace's binary time lines (``.trc``): one file of a job becomes one trace a rank."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.trace.build import build_trace
from hta_widgets.formats.mpi.mpi_names import IO_FROM
from hta_widgets.formats.mpi.mpi_names import MPI_CATEGORY
from hta_widgets.formats.mpi.mpi_names import MPI_IO_CATEGORY
from hta_widgets.formats.mpi.mpi_names import ROUTINES
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.table import Ints
from hta_widgets.trace.table import Pool
from hta_widgets.trace.table import RankColumns
from hta_widgets.trace.trace import Trace

from hta_widgets.formats.mpi.mpi_records import RECORD_BYTES
from hta_widgets.formats.mpi.mpi_records import TimeLineRecords
from hta_widgets.formats.mpi.mpi_records import dtype_of_order
from hta_widgets.formats.mpi.mpi_records import looks_valid
from hta_widgets.formats.mpi.mpi_records import naming
from hta_widgets.formats.mpi.mpi_records import nanoseconds
from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.readers.registry import Format
from hta_widgets.readers.registry import Outcome
from hta_widgets.readers.registry import Start
from hta_widgets.readers.whole import whole_file

__all__ = ["MPI_TRACE"]

_NAME = re.compile(r"(?P<job>.+)\.trc")
#: Damage in some records does not make a file another one.
_MOST_VALID = 0.9
#: So many events a rank are kept unless mpitrace is told otherwise.
_DEFAULT_BUFFER = 100_000


def _sniff(start: Start) -> bool:
    whole = len(start.text) // RECORD_BYTES * RECORD_BYTES
    return bool(whole) and _order_of(start.text[:whole]) is not None


def _order_of(text: bytes) -> str | None:
    """Return the byte order in which nearly all records make sense, None if there is none."""
    for order in "<>":
        records = np.frombuffer(text, dtype_of_order(order))
        valid = looks_valid(records)
        # A run of zeros is a record as well, but no trace.
        if valid.mean() >= _MOST_VALID and (valid & (records["end_s"] > 0)).mean() > 0.5:
            return order
    return None


def job_of(path: str) -> str:
    """Return the job that a time line's name tells."""
    name = Path(path).name.removesuffix(".gz")
    found = _NAME.fullmatch(name)
    return found["job"] if found else name


def _read(
    path: str,
    *,
    advance: Callable[[int], object] | None = None,
    keepalive: Any = None,  # noqa: ARG001 - part of what readers are called with
) -> Outcome:
    problems = Problems()
    state = FileState.of(path)
    text = _contents(path, problems, advance)
    order = _order_of(text[: 4096 // RECORD_BYTES * RECORD_BYTES])
    if order is None:
        raise TraceError(
            "holds no MPI time line", path=path, remedy="Was the file changed? Copy it again."
        )
    records = np.frombuffer(text, dtype_of_order(order))
    valid = looks_valid(records)
    problems.add("skipped", int((~valid).sum()), "records that make no sense: damaged", file=path)
    numbers = np.flatnonzero(valid)
    ranks = records["rank"][numbers]
    by_rank = np.argsort(ranks, kind="stable")
    distinct, counts = np.unique(ranks, return_counts=True)
    parts = np.split(numbers[by_rank], np.cumsum(counts)[:-1])
    _suspect_overflow(counts, path, problems)
    huge = int((records["bytes"][numbers] < -1).sum())
    problems.add("overflow", huge, "calls with 2 GiB or more, whose size is not known", file=path)
    traces = tuple(
        _trace(records, part, int(rank), path, order, state, problems)
        for rank, part in zip(distinct.tolist(), parts, strict=True)
    )
    return Outcome(traces, problems)


def _contents(path: str, problems: Problems, advance: Callable[[int], object] | None) -> bytes:
    """Return the whole records of a file."""
    text = whole_file(path, problems, advance)
    rest = len(text) % RECORD_BYTES
    if rest:
        problems.add(
            "truncated",
            1,
            f"the file ends within a record, {rest} bytes behind the last whole one",
            file=path,
        )
    return text[: len(text) - rest]


def _suspect_overflow(counts: npt.NDArray[Any], path: str, problems: Problems) -> None:
    """Report full buffers: nothing in the file marks what was dropped."""
    most = int(counts.max(initial=0))
    full = int((counts == most).sum())
    # Programs have equal counts too, but seldom round ones.
    round_number = most % 100 == 0 or -most * RECORD_BYTES % 4096 < RECORD_BYTES
    if most == _DEFAULT_BUFFER or (full > 1 and most > 1 and round_number):
        problems.add(
            "overflow",
            full,
            f"ranks with exactly {most:,} events: if that is what TRACE_BUFFER_SIZE holds, their"
            " later events were dropped",
            file=path,
        )


def _trace(
    records: npt.NDArray[Any],
    numbers: Ints,
    rank: int,
    path: str,
    order: str,
    state: FileState,
    problems: Problems,
) -> Trace:
    job, found = job_of(path), Problems()
    trace = build_trace(
        _columns(records[numbers], rank),
        rank=rank,
        path=path,
        metadata={},
        source=TimeLineRecords(path, numbers, order, rank, state, has_io=_has_io(records[numbers])),
        problems=found,
        format="mpi-trace",
        stated_rank=rank,
        job=job,
    )
    for problem in found:  # the rank may become another one
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    return trace


def _has_io(records: npt.NDArray[Any]) -> bool:
    return bool((records["routine"] >= IO_FROM).any())


def _columns(records: npt.NDArray[Any], rank: int) -> RankColumns:
    """Return a rank's events, and behind them the records that name its track."""
    named = naming(rank, has_io=_has_io(records))
    events = len(records)
    rows = events + len(named)
    routines, codes = np.unique(records["routine"], return_inverse=True)
    names = Pool(ROUTINES[routine] for routine in routines.tolist())
    start = nanoseconds(records["begin_s"])
    last = np.full(len(named), -1, np.int64)
    nothing = np.zeros(rows, np.int32)
    timed = np.arange(rows) < events
    return RankColumns(
        phase=np.where(timed, ord("X"), ord("M")).astype(np.uint8),
        start_ns=np.concatenate([start, last]),
        dur_ns=np.concatenate([nanoseconds(records["end_s"]) - start, last]),
        timed=timed,
        name=np.concatenate(
            [codes.reshape(-1), [names.add(str(record["name"])) for record in named]]
        ).astype(np.int32),
        category=np.append(records["routine"] >= IO_FROM, [False] * len(named)).astype(np.int32),
        pid=nothing,
        tid=np.append(records["routine"] >= IO_FROM, [one["tid"] == 1 for one in named]).astype(
            np.int32
        ),
        stream=nothing - 1,
        correlation=np.full(rows, -1, np.int64),
        flow=nothing - 1,
        names=names,
        categories=Pool((MPI_CATEGORY, MPI_IO_CATEGORY)),
        pids=Pool((str(rank),)),
        tids=Pool(("0", "1")),
        flow_ids=Pool(),
        small_args={events + place: record["args"] for place, record in enumerate(named)},
        record=np.arange(rows, dtype=np.int64),
        resolution_ns=1,
    )


MPI_TRACE = Format("mpi-trace", _sniff, _read)
