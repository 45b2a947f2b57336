"""Splits files that contain the merged traces of several ranks.

A merge adds the rank as a prefix to ids that would collide. `MergedRecords` returns a rank's
records as they were before the merge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta, Struct, ValidationError
from msgspec.structs import astuple

from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.growing import ReadOnlyIds
from hta_widgets.formats.kineto.record_source import as_bytes, as_text
from hta_widgets.formats.kineto.times import resolution
from hta_widgets.readers.cache import source_from_store, source_to_store
from hta_widgets.readers.ranks import LAST_RANK, is_rank
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import Ints, Rows, distinct_codes, positions_in
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import (
    CopyTable,
    Fields,
    RankColumns,
    RecordSource,
    StringPool,
    decode_fields,
    encode_fields,
)
from hta_widgets.trace.merged_format import (
    ID_ARGS,
    ID_FIELDS,
    ID_STRIDE,
    LARGEST_ID,
    MARK_KEY,
    PID_STRIDE,
    original_id,
)
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.record_times import shift_time
from hta_widgets.trace.trace import Trace

_VERSION = 1
_M = ord("M")
_HAS_SMALL_ARGS = np.isin(np.arange(256), np.frombuffer(b"MC", np.uint8))

#: Used instead of the rank if the merge did not change the records' ids.
UNSCOPED = -1


class RankContents(NamedTuple):
    """The records of one rank in a file; `rank` is None if the file does not state it."""

    rank: int | None
    columns: RankColumns
    metadata: dict[str, Any]
    source: RecordSource
    format: str = "kineto"
    #: number of the device if the file's devices are separate ranks
    device: int = -1

    def build(self, path: str, problems: Problems, **fields: Any) -> Trace:
        """Build the trace of the rank; `fields` are further arguments of `build_trace`."""
        return build_trace(
            self.columns, rank=self.rank or 0, path=path, metadata=self.metadata,
            source=self.source, problems=problems, stated_rank=self.rank, **fields,
        )  # fmt: skip


class _Entry(Struct):
    rank: Annotated[int, Meta(ge=0, le=LAST_RANK)]
    metadata: dict[str, Any]
    shift_ns: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] = 0
    format: str = ""


class _Head(Struct):
    ranks: Annotated[list[_Entry], Meta(min_length=1)]


def split_merged(
    columns: RankColumns,
    metadata: Mapping[str, Any],
    source: RecordSource,
    path: str,
    problems: Problems,
) -> list[RankContents] | None:
    """Split the columns of a merged file by rank; return None if the file is not merged."""
    head = metadata.get(MARK_KEY)
    if not isinstance(head, dict) or "merged" not in head:
        return None
    if head["merged"] != _VERSION:
        raise TraceError(
            f"holds merged ranks in version {head['merged']} of the format",
            path=path,
            remedy=f"This version of hta_widgets reads version {_VERSION}; install a newer one.",
        )
    try:
        entries = convert(head, _Head).ranks
    except ValidationError as error:
        detail = f"its list of merged ranks is damaged ({error}); the file is read as one rank"
        problems.add("repaired", 1, detail, file=path)
        return None
    processes, mark_rows = _marked_processes(columns)
    numbers = [int(pid) if pid.isdecimal() and len(pid) <= 18 else 0 for pid in columns.pids.values]
    rank_of_pid = (np.array(numbers, np.int64) - 1) // PID_STRIDE  # -1 for other pids
    for code, process in processes.items():
        rank_of_pid[code] = process.rank
    rank_of_row = rank_of_pid[columns.pid]
    is_unassigned = np.ones(len(rank_of_row), np.bool_)
    is_unassigned[mark_rows] = False
    ranks = []
    for rank, metadata_of_rank, shift_ns, format_name in map(astuple, entries):
        rows = np.flatnonzero(is_unassigned & (rank_of_row == rank))
        is_unassigned[rows] = False
        marked = (item for item in processes.items() if item[1].rank == rank)
        pids = {columns.pids[code]: process.pid for code, process in marked}
        texts = {key: json.dumps(value).encode() for key, value in metadata_of_rank.items()}
        records = MergedRecords(source, columns.record[rows], rank, shift_ns, pids, texts)
        rank_columns = columns_of_rank(columns, rows, rank, pids)
        ranks.append(RankContents(rank, rank_columns, metadata_of_rank, records, format_name))
    detail = "records that belong to no rank of the merged file"
    problems.add("skipped", int(is_unassigned.sum()), detail, file=path)
    return ranks


class _MarkedProcess(NamedTuple):
    """The rank of a process, and the JSON of its pid before the merge; empty if there was none."""

    rank: int
    pid: bytes


def _marked_processes(columns: RankColumns) -> tuple[dict[int, _MarkedProcess], list[int]]:
    """Return the processes marked by the merge, keyed by pid code, and the rows of the marks."""
    processes: dict[int, _MarkedProcess] = {}
    mark_rows: list[int] = []
    for row in np.flatnonzero(columns.phase == _M).tolist():
        args = columns.small_args.get(int(columns.record[row]), {})
        if columns.names[columns.name[row]] == MARK_KEY and is_rank(args.get("rank")):
            pid = json.dumps(args["pid"]).encode() if "pid" in args else b""
            processes[int(columns.pid[row])] = _MarkedProcess(args["rank"], pid)
            mark_rows.append(row)
        elif MARK_KEY in args and args[MARK_KEY] is None:
            mark_rows.append(row)
    return processes, mark_rows


def columns_of_rank(
    columns: RankColumns, rows: Rows, rank: int, pids: Mapping[str, bytes]
) -> RankColumns:
    """Return a rank's rows as if they had been read from its own file."""
    records = columns.record[rows]
    pid_codes, pid = distinct_codes(columns.pid[rows])
    pid_texts = [columns.pids[code] for code in pid_codes]
    # `pids` maps pids changed by the merge to their original JSON.
    pid_texts = [_pid_text(pids[text]) if text in pids else text for text in pid_texts]
    small_args = {
        position: _unscope_args(args, rank)
        for position in np.flatnonzero(_HAS_SMALL_ARGS[columns.phase[rows]]).tolist()
        if (args := columns.small_args.get(int(records[position])))
    }
    ends_at_next = positions_in(rows, columns.ends_at_next)
    column_names = ("phase", "start_ns", "dur_ns", "timed", "name", "category", "tid", "stream")
    rank_columns = {name: getattr(columns, name)[rows] for name in column_names}
    flow = columns.flow[rows]
    flow_codes, flow[flow >= 0] = np.unique(flow[flow >= 0], return_inverse=True)
    is_timed = rank_columns["timed"]
    has_duration = is_timed & (rank_columns["dur_ns"] >= 0)
    return replace(
        columns,
        **rank_columns,
        flow=flow,
        flow_ids=_UnscopedIds(columns.flow_ids, flow_codes, rank),
        resolution_ns=resolution(
            rank_columns["start_ns"][is_timed], rank_columns["dur_ns"][has_duration]
        ),
        pid=pid.astype(np.int32),
        pids=StringPool(pid_texts),
        correlation=_original_correlation(columns.correlation[rows], rank),
        small_args=small_args,
        record=np.arange(len(rows), dtype=np.int64),
        ends_at_next=ends_at_next[ends_at_next >= 0],
        bindings=_by_position(columns.bindings, records),
        scope=_by_position(columns.scope, rows),
        copies=_copies_of_records(columns.copies, records),
    )


def _pid_text(pid: bytes) -> str:
    return str(json.loads(pid)) if pid[:1] == b'"' else pid.decode()


def _original_correlation(correlation: Ints, rank: int) -> Ints:
    """Return correlation ids as they were before the merge."""
    correlation = correlation.astype(np.int64)
    first_id = rank * ID_STRIDE
    if rank == UNSCOPED or first_id + ID_STRIDE >= LARGEST_ID:  # ids of such ranks are strings
        return correlation
    is_scoped = (correlation >= first_id) & (correlation < first_id + ID_STRIDE)
    return np.where(is_scoped, correlation - first_id, correlation)


def _by_position(values: Mapping[int, Any], keys: Ints) -> dict[int, Any]:
    """Return the values whose keys are in the ascending `keys`, keyed by index in `keys`."""
    positions = positions_in(keys, np.array(list(values), np.int64)).tolist()
    pairs = zip(positions, values.values(), strict=True)
    return {position: value for position, value in pairs if position >= 0}


def _copies_of_records(copies: CopyTable, records: Ints) -> CopyTable:
    """Return the copies among the ascending `records`, numbered by index in `records`."""
    position = positions_in(records, copies.record)
    is_copy = position >= 0
    return CopyTable(position[is_copy], copies.gb_per_s[is_copy], copies.size_bytes[is_copy])


def _unscope_args(args: dict[str, Any], rank: int) -> dict[str, Any]:
    """Return args without the changes made by the merge. Marks hold the original args."""
    if isinstance(args.get(MARK_KEY), dict):
        return dict(args[MARK_KEY])
    return {
        key: json.loads(original_id(json.dumps(value).encode(), rank)) if key in ID_ARGS else value
        for key, value in args.items()
    }


class _UnscopedIds(ReadOnlyIds):
    __slots__ = ("_pool", "_pool_codes", "_rank")

    def __init__(self, pool: StringPool, codes: npt.NDArray[np.int32], rank: int) -> None:
        self._pool, self._pool_codes, self._rank = pool, codes, rank

    def __len__(self) -> int:
        return len(self._pool_codes)

    def __getitem__(self, code: int) -> str:
        return original_id(self._pool[self._pool_codes[code]].encode(), self._rank).decode()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_UnscopedIds, (self._pool, self._pool_codes, self._rank))


class MergedRecords(RecordSource):
    """The records of one rank of a merged file, as they were before the merge."""

    def __init__(
        self,
        source: RecordSource,
        numbers: Ints,
        rank: int,
        shift_ns: int,
        pids: Mapping[str, bytes],
        metadata_text: dict[str, bytes],
    ) -> None:
        self.path = source.path
        self.metadata_text = metadata_text
        self._source, self._numbers = source, numbers
        self._rank, self._shift_ns, self._pids = rank, shift_ns, dict(pids)

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        stored = source_to_store(self._source)
        facts = {
            "kind": "merged",
            "whole": stored.facts,
            "rank": self._rank,
            "shift_ns": self._shift_ns,
            "pids": as_text(self._pids),
            "metadata_text": as_text(self.metadata_text),
        }
        return StoredSource(facts, {**stored.columns, "numbers": self._numbers})

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> MergedRecords:
        """Return a source from the result of `to_stored`."""
        source, numbers = source_from_store(facts["whole"], column), column("numbers")
        if np.any(np.diff(numbers, prepend=-1, append=len(source)) <= 0):
            raise ValueError("the numbers of records are not in order")
        return cls(
            source,
            numbers,
            facts["rank"],
            facts["shift_ns"],
            as_bytes(facts["pids"]),
            as_bytes(facts["metadata_text"]),
        )

    def __len__(self) -> int:
        return len(self._numbers)

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        numbers = self._numbers[wanted]
        number_in_rank = dict(zip(numbers.tolist(), wanted.tolist(), strict=True))
        for number, text in self._source.records(numbers):  # without unreadable records
            yield number_in_rank[number], self._restore_record(text)

    def _restore_record(self, text: bytes) -> bytes:
        if self._rank == UNSCOPED:
            return text
        fields = decode_fields(text)
        if fields is None:
            return text
        original_pid = self._pids.get(fields.get("pid", b"").strip(b'"').decode(), b"")
        if original_pid:
            fields["pid"] = original_pid
        else:
            fields.pop("pid", None)
        for name in ID_FIELDS:
            if name in fields:
                fields[name] = original_id(fields[name], self._rank)
        for name, keys in (("id2", ("local", "global")), ("args", (*ID_ARGS, MARK_KEY))):
            self._restore_ids(fields, name, keys)
        if self._shift_ns and "ts" in fields:
            fields["ts"] = shift_time(fields["ts"], -self._shift_ns)
        return encode_fields(fields)

    def _restore_ids(self, fields: Fields, name: str, keys: tuple[str, ...]) -> None:
        members = decode_fields(fields[name]) if name in fields else None
        scoped_keys = [key for key in keys if key in members] if members else []
        if members is None or not scoped_keys:
            return
        if MARK_KEY in scoped_keys:
            fields[name] = members[MARK_KEY]
            return
        for key in scoped_keys:
            members[key] = original_id(members[key], self._rank)
        fields[name] = encode_fields(members)
