"""Reader of mpitrace's time lines (.trc), and their collectives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np

from hta_widgets.analysis.cross_rank.comm_events import (
    OPERATIONS,
    CommEvents,
    GroupName,
    factorize,
    stated_rank,
)
from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.formats.mpi.model import (
    COLLECTIVES,
    IO_FROM,
    MPI_IO_CATEGORY,
    ROOT_RECEIVES,
    ROOT_SENDS,
    ROUTINES,
    mpi_names,
)
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.readers.streams import open_stream, read_whole_file
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows, number_in_group
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import RankColumns, RecordSource, StringPool, event_args, to_int64
from hta_widgets.trace.memo import iter_ranks, memoize
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.record_times import micros
from hta_widgets.trace.trace import Trace

_OPERATIONS = {
    routine: operation
    for operation, routines in (
        ("broadcast", "Bcast"),
        ("barrier", "Barrier"),
        ("reduce", "Reduce"),
        ("all_reduce", "Allreduce"),
        ("reduce_scatter", "Reduce_scatter Reduce_scatter_block"),
        ("gather", "Gather Gatherv"),
        ("all_gather", "Allgather Allgatherv"),
        ("scatter", "Scatter Scatterv"),
        ("all_to_all", "Alltoall Alltoallv Alltoallw"),
    )
    for routine in mpi_names(routines)
}
#: Routines for which a rank records its own block, or the block that it sends to one rank.
_PER_RANK = frozenset(
    mpi_names("Allgather Gather Scatter Alltoall Alltoallv Alltoallw Reduce_scatter_block")
)
_ROOTED = ROOT_SENDS | ROOT_RECEIVES
#: Routines whose blocks may differ between ranks, so that the total size is unknown.
_UNEVEN = frozenset(mpi_names("Gatherv Scatterv Allgatherv"))


@dataclass(slots=True)
class _RankCalls:
    trace: Trace
    rows: Rows
    routines: list[str]
    sizes: Ints  # in bytes; -1 if unknown
    contents: list[Hashable]  # the same for all members of a collective


def mpi_calls(traces: Sequence[Trace]) -> dict[int, CommEvents]:
    """Return the collectives in the time lines of one or more jobs, keyed by index in `traces`."""
    jobs: dict[str | None, list[int]] = {}
    for number, trace in enumerate(iter_ranks(traces)):
        # On a rank with a device, MPI calls are not the collectives of its kernels. Exported time
        # lines are recognized by the category of their calls.
        has_device = any(track.stream >= 0 for track in trace.table.tracks)
        has_calls = MPI_CATEGORY in trace.table.categories.values and len(_collective_rows(trace))
        if has_calls and not has_device:
            jobs.setdefault(trace.job, []).append(number)
    calls: dict[int, CommEvents] = {}
    for job, members in jobs.items():
        label = "MPI" if len(jobs) == 1 else f"MPI job {job}"
        events = _collectives_of_job([traces[number] for number in members], label)
        calls.update(zip(members, events, strict=True))
    return calls


@memoize
def _collective_rows(trace: Trace) -> Rows:
    table = trace.table
    codes = [code for code, name in enumerate(table.names.values) if name in COLLECTIVES]
    category = table.categories.values.index(MPI_CATEGORY)
    return np.flatnonzero(np.isin(table.name, codes) & (table.category == category))


def _collectives_of_job(traces: Sequence[Trace], label: str) -> list[CommEvents]:
    """Return the collectives of a job, in groups of ranks.

    If the calls of each rank are the beginning of the longest sequence, all ranks form one group,
    plus a group for each routine with a root. Otherwise, each routine that all ranks call equally
    often is a group, and any other routine's calls form one group per rank.
    """
    calls = [_calls(trace, len(traces)) for trace in traces]
    longest = max((rank_calls.contents for rank_calls in calls), key=len)
    if all(longest[: len(rank_calls.contents)] == rank_calls.contents for rank_calls in calls):
        ranks = tuple(sorted(stated_rank(trace) for trace in traces))
        return [_events_in_one_group(rank_calls, ranks, label) for rank_calls in calls]
    counts = [Counter(rank_calls.routines) for rank_calls in calls]
    names = sorted(set[str]().union(*counts))
    equally_often = {name for name in names if len({count[name] for count in counts}) == 1}
    events_of_ranks = []
    for rank_calls in calls:
        of_rank = f" of rank {rank_calls.trace.rank}"
        labels = [f"{label} {name}{'' if name in equally_often else of_rank}" for name in names]
        group = np.array([names.index(name) for name in rank_calls.routines], dtype=np.int64)
        groups = [GroupName(text, (), "", -1) for text in labels]
        events_of_ranks.append(_events(rank_calls, group, groups))
    return events_of_ranks


def _events_in_one_group(calls: _RankCalls, ranks: tuple[int, ...], label: str) -> CommEvents:
    """Return a rank's collectives, in the group of all `ranks` or of a rooted routine."""
    rooted = ["", *sorted(_ROOTED.intersection(calls.routines))]
    code = {name: number for number, name in enumerate(rooted)}
    group = np.array([code.get(name, 0) for name in calls.routines], dtype=np.int64)
    labels = [f"{label} {name}".strip() for name in rooted]
    groups = [GroupName(text, ranks, str(list(ranks)), len(ranks)) for text in labels]
    return _events(calls, group, groups)


def _calls(trace: Trace, ranks: int) -> _RankCalls:
    rows, table = _collective_rows(trace), trace.table
    args = event_args(trace, rows, ("bytes", "root"))
    block_bytes, roots = to_int64(args["bytes"]), to_int64(args["root"]).tolist()
    routines = [table.names[code] for code in table.name[rows].tolist()]
    blocks = np.array([ranks if routine in _PER_RANK else 1 for routine in routines], np.int64)
    is_uneven = np.array([routine in _UNEVEN for routine in routines], dtype=bool)
    sizes = np.where((block_bytes < 0) | is_uneven, -1, block_bytes * blocks)
    contents: list[Hashable] = list(zip(routines, sizes.tolist(), roots, strict=True))
    return _RankCalls(trace, rows, routines, sizes, contents)


def _events(calls: _RankCalls, group: Ints, groups: list[GroupName]) -> CommEvents:
    rows, table = calls.rows, calls.trace.table
    names, name = np.unique(np.array(calls.routines, dtype=object), return_inverse=True)
    operations = [OPERATIONS.index(_OPERATIONS.get(routine, "other")) for routine in names]
    content_code, content = factorize(calls.contents)
    nothing = np.full(len(rows), -1, dtype=np.int64)
    return CommEvents(
        rows=rows,
        start_ns=table.start_ns[rows],
        end_ns=table.end_ns[rows],
        name=name.astype(np.int64),
        names=names.tolist(),
        operation=np.array(operations, dtype=np.int64)[name],
        group=group,
        groups=groups,
        size_bytes=calls.sizes,
        content=content,
        content_code=content_code,
        sequence=number_in_group(group),
        source=nothing,
        target=nothing,
        early=np.array([routine in _ROOTED for routine in calls.routines], dtype=np.int64),
    )


_RECORD_BYTES = 48
_MAX_RANKS = 1 << 24
_MAX_END_S = 1e9
_RECEIVES = frozenset(map(ROUTINES.index, mpi_names("Recv Irecv Recv_init Probe Iprobe")))
_SENDS = frozenset(range(ROUTINES.index("MPI_Send"), ROUTINES.index("MPI_Recv_init")))
_ROOT_SENDS = frozenset(map(ROUTINES.index, ROOT_SENDS))
_ROOT_RECEIVES = frozenset(map(ROUTINES.index, ROOT_RECEIVES))

#: Fields of a record. In file operations, source and target together form the offset. Its low word
#: comes first in either byte order, because the bytes of a file are swapped word by word.
_RECORD = np.dtype([
    ("begin_s", "f8"), ("end_s", "f8"), ("rank", "i4"), ("routine", "i4"), ("source", "i4"),
    ("target", "i4"), ("bytes", "i4"), ("caller", "u4"), ("callers_caller", "u4"), ("is_io", "i4"),
])  # fmt: skip
#: Byte order of a file.
_Order = Literal["<", ">"]


def _looks_valid(records: Array) -> Bools:
    begin, end = records["begin_s"], records["end_s"]
    with np.errstate(invalid="ignore"):
        timed = np.isfinite(begin) & np.isfinite(end) & (begin >= 0) & (end >= begin)
        timed &= end < _MAX_END_S
        # Doubles read in the wrong byte order are usually tiny.
        timed &= ((begin == 0) | (begin > 1e-12)) & ((end == 0) | (end > 1e-12))
    routine, rank = records["routine"], records["rank"]
    is_valid = (routine >= 0) & (routine < len(ROUTINES)) & (rank >= 0) & (rank < _MAX_RANKS)
    return np.asarray(timed & is_valid)


def _nanoseconds(seconds: Array) -> Ints:
    return np.asarray(np.rint(seconds * 1e9), np.int64)


class TimeLineRecords(RecordSource):
    """The records of a rank as JSON objects, read from the file on demand.

    The events are followed by records that name the process and its tracks.
    """

    def __init__(
        self, path: str, numbers: Ints, order: _Order, rank: int, state: FileState, *, has_io: bool
    ) -> None:
        self.path = path
        info = {"backend": "mpi", "rank": rank}
        self.metadata_text = {"distributedInfo": json.dumps(info).encode()}
        self._count = len(numbers)
        self._first = int(numbers[0]) if len(numbers) else 0
        # A rank's records are usually contiguous, so that a range suffices.
        has_gaps = len(numbers) and int(numbers[-1]) - self._first + 1 != len(numbers)
        self._numbers = numbers if has_gaps else None
        self._order, self._rank, self._state = order, rank, state
        self._has_io = has_io
        self._named = _naming(rank, has_io=has_io)

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        facts = {
            "kind": "time line",
            "path": self.path,
            "first": self._first,
            "count": self._count,
            "order": self._order,
            "rank": self._rank,
            "state": [self._state.size, self._state.mtime_ns],
            "has_io": self._has_io,
            "apart": self._numbers is not None,
        }
        return StoredSource(
            facts, {"numbers": np.empty(0, np.int64) if self._numbers is None else self._numbers}
        )

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> TimeLineRecords:
        """Return the records that `to_stored` described."""
        first, count = facts["first"], facts["count"]
        numbers = column("numbers") if facts["apart"] else np.arange(first, first + count)
        state = FileState(*facts["state"])
        return cls(
            facts["path"], numbers, facts["order"], facts["rank"], state, has_io=facts["has_io"]
        )

    def __len__(self) -> int:
        return self._count + len(self._named)

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        events = wanted[wanted < self._count]
        if len(events):
            yield from zip(events.tolist(), self._texts(self._read(events)), strict=True)
        for index in wanted[wanted >= self._count].tolist():
            yield index, json.dumps(self._named[index - self._count]).encode()

    def arg_columns(self, records: Ints, keys: Sequence[str]) -> dict[str, list[int | None]] | None:
        """Return args of events in the order of `records`; None for other args or records."""
        if not set(keys) <= {"bytes", "root"} or (len(records) and records.max() >= self._count):
            return None
        if not len(records):
            return {key: [] for key in keys}
        wanted, position = np.unique(records, return_inverse=True)
        read = self._read(wanted)[position]
        root = np.where(np.isin(read["routine"], list(_ROOT_SENDS)), read["source"], -1)
        receives = np.isin(read["routine"], list(_ROOT_RECEIVES))
        values = {"bytes": read["bytes"], "root": np.where(receives, read["target"], root)}
        return {
            key: [None if value == -1 else value for value in values[key].tolist()] for key in keys
        }

    def _read(self, events: Ints) -> Array:
        numbers = events + self._first if self._numbers is None else self._numbers[events]
        self._state.require_unchanged(self.path)
        low, high = int(numbers.min()), int(numbers.max()) + 1
        with open_stream(self.path, low * _RECORD_BYTES) as stream:
            text = stream.read_exactly((high - low) * _RECORD_BYTES)
        records = np.frombuffer(text, _RECORD.newbyteorder(self._order))
        return records[numbers - low]

    def _texts(self, records: Array) -> Iterator[bytes]:
        start = _nanoseconds(records["begin_s"])
        dur = _nanoseconds(records["end_s"]) - start
        rows = zip(start.tolist(), dur.tolist(), records.tolist(), strict=True)
        for start_ns, dur_ns, (_, _, _, routine, *fields) in rows:
            category, tid = (MPI_IO_CATEGORY, 1) if routine >= IO_FROM else (MPI_CATEGORY, 0)
            yield (
                f'{{"ph": "X", "cat": "{category}", "name": "{ROUTINES[routine]}", '
                f'"pid": {self._rank}, "tid": {tid}, '
                f'"ts": {micros(start_ns).decode()}, "dur": {micros(dur_ns).decode()}, '
                f'"args": {json.dumps(_record_args(routine, *fields))}}}'
            ).encode()


def _record_args(
    routine: int, source: int, target: int, size: int, caller: int, callers_caller: int, is_io: int
) -> dict[str, Any]:
    """Return a record's args from its fields after the rank; -1 stands for a missing value."""
    args = _peers(routine, source, target)
    # Older writers leave garbage in the last word, so it is used only for file operations.
    if routine >= IO_FROM:
        offset = (target << 32) | (source & 0xFFFFFFFF)
        args = {"offset": offset} if is_io and offset != -1 else {}
    addresses = {"caller": caller, "callers_caller": callers_caller}
    stated = {name: f"0x{address:08x}" for name, address in addresses.items() if address}
    return ({} if size == -1 else {"bytes": size}) | args | stated


def _peers(routine: int, source: int, target: int) -> dict[str, Any]:
    """Return the ranks given by a call: source, target, root and peer."""
    args = {}
    if source != -1:
        args["src"] = source
    if target != -1:
        args["dest"] = target
    if routine in _ROOT_SENDS and source != -1:
        args["root"] = source
    elif routine in _ROOT_RECEIVES and target != -1:
        args["root"] = target
    elif routine in _SENDS and target != -1:
        args["peer"] = target
    elif routine in _RECEIVES and source != -1:
        args["peer"] = source
    return args


def _naming(rank: int, *, has_io: bool) -> tuple[dict[str, Any], ...]:
    """Return records that name the process and its tracks for calls and file operations."""
    tracks = [("process_name", 0, "MPI"), ("thread_name", 0, "calls")]
    if has_io:
        tracks.append(("thread_name", 1, "file calls"))
    return tuple(
        {"name": kind, "ph": "M", "pid": rank, "tid": tid, "args": {"name": name}}
        for kind, tid, name in tracks
    )


#: Smallest share of valid records in a time line; the remaining ones may be damaged.
_MIN_VALID = 0.9
_PROBED_RECORDS = 4096 // _RECORD_BYTES
#: mpitrace's default limit for the number of events per rank.
_DEFAULT_BUFFER = 100_000


def is_time_line(start: FileStart) -> bool:
    """Return whether a file begins with records of a time line."""
    records_size = len(start.text) // _RECORD_BYTES * _RECORD_BYTES
    return bool(records_size) and _order_of(start.text[:records_size]) is not None


def _order_of(text: bytes) -> _Order | None:
    """Return the byte order in which nearly all records are valid; None if neither fits."""
    for order in get_args(_Order):
        records = np.frombuffer(text, _RECORD.newbyteorder(order))
        valid = _looks_valid(records)
        # All-zero records are valid, but they are not a trace.
        if valid.mean() >= _MIN_VALID and (valid & (records["end_s"] > 0)).mean() > 0.5:
            return cast("_Order", order)
    return None


def read_time_lines(path: str, *, advance: Advance = None, **_: object) -> Outcome:
    """Read the time lines of all ranks in a file."""
    problems = Problems()
    state = FileState.of(path)
    content = read_whole_file(path, problems, advance)
    rest_bytes = len(content) % _RECORD_BYTES
    detail = f"the file ends within a record, {rest_bytes} bytes after the last complete record"
    problems.add("truncated", int(rest_bytes > 0), detail, file=path)
    content = content[: len(content) - rest_bytes]
    order = _order_of(content[: _PROBED_RECORDS * _RECORD_BYTES])
    if order is None:
        raise TraceError(
            "holds no MPI time line", path=path, remedy="Copy the original file again."
        )
    records = np.frombuffer(content, _RECORD.newbyteorder(order))
    is_valid = _looks_valid(records)
    problems.add("skipped", int((~is_valid).sum()), "damaged records", file=path)
    # mpitrace writes sizes of 2 GiB or more as negative numbers below -1; -1 means no size.
    is_huge = is_valid & (records["bytes"] < -1)
    detail = "calls with 2 GiB or more, whose sizes are unknown"
    problems.add("overflow", int(is_huge.sum()), detail, file=path)
    numbers = np.flatnonzero(is_valid)
    numbers = numbers[np.argsort(records["rank"][numbers], kind="stable")]
    ranks, first = np.unique(records["rank"][numbers], return_index=True)
    numbers_of_rank = dict(zip(ranks.tolist(), np.split(numbers, first[1:]), strict=True))
    _report_full_buffers(list(map(len, numbers_of_rank.values())), path, problems)
    traces = tuple(
        _trace(records, numbers_of_trace, rank, path, order, state, problems)
        for rank, numbers_of_trace in numbers_of_rank.items()
    )
    return Outcome(traces, problems)


def _report_full_buffers(counts: list[int], path: str, problems: Problems) -> None:
    """Report full buffers, judging by the event counts of the ranks; files do not mark losses."""
    max_count = max(counts, default=0)
    full = counts.count(max_count)
    # Complete files may also have equal counts, but these are seldom round numbers.
    is_round = max_count % 100 == 0 or -max_count * _RECORD_BYTES % 4096 < _RECORD_BYTES
    if max_count == _DEFAULT_BUFFER or (full > 1 and max_count > 1 and is_round):
        detail = (
            f"ranks with exactly {max_count:,} events: if TRACE_BUFFER_SIZE holds that many,"
            " their later events were dropped"
        )
        problems.add("overflow", full, detail, file=path)


def _trace(
    records: Array,
    numbers: Ints,
    rank: int,
    path: str,
    order: _Order,
    state: FileState,
    problems: Problems,
) -> Trace:
    notes, rank_records = Problems(), records[numbers]
    has_io = bool((rank_records["routine"] >= IO_FROM).any())
    name = Path(path).name.removesuffix(".gz").removesuffix(".zst")
    trace = build_trace(
        _columns(rank_records, rank, has_io=has_io),
        rank=rank,
        path=path,
        metadata={},
        source=TimeLineRecords(path, numbers, order, rank, state, has_io=has_io),
        problems=notes,
        format="mpi-trace",
        stated_rank=rank,
        job=name.removesuffix(".trc") or name,
    )
    for problem in notes:  # omits the rank, which may change later
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    return trace


def _columns(records: Array, rank: int, *, has_io: bool) -> RankColumns:
    """Return a rank's events, followed by the records that name its tracks."""
    named = _naming(rank, has_io=has_io)
    events = len(records)
    rows = events + len(named)
    routines, routine = np.unique(records["routine"], return_inverse=True)
    names = StringPool(ROUTINES[number] for number in routines.tolist())
    naming_names = [names.add(str(record["name"])) for record in named]
    is_file_call = records["routine"] >= IO_FROM
    start_ns = _nanoseconds(records["begin_s"])
    zeros = np.zeros(rows, np.int32)
    timed = np.arange(rows) < events

    def column(values: Array, naming_values: Any, dtype: Any = np.int32) -> Array:
        return np.append(values, np.broadcast_to(naming_values, len(named))).astype(dtype)

    return RankColumns(
        phase=np.where(timed, ord("X"), ord("M")).astype(np.uint8),
        start_ns=column(start_ns, -1, np.int64),
        dur_ns=column(_nanoseconds(records["end_s"]) - start_ns, -1, np.int64),
        timed=timed,
        name=column(routine, naming_names),
        category=column(is_file_call, 0),
        pid=zeros,
        tid=column(is_file_call, [record["tid"] for record in named]),
        stream=zeros - 1,
        correlation=np.full(rows, -1, np.int64),
        flow=zeros - 1,
        names=names,
        categories=StringPool((MPI_CATEGORY, MPI_IO_CATEGORY)),
        pids=StringPool((str(rank),)),
        tids=StringPool(("0", "1")),
        flow_ids=StringPool(),
        small_args={events + place: record["args"] for place, record in enumerate(named)},
        record=np.arange(rows, dtype=np.int64),
        resolution_ns=1,
    )
