"""The records of a rank of an export, made from rows of the database when they are needed.

A record is a row of a table, or it is derived: the end of an asynchronous range, the range of a
step, and the names of processes and threads. It has the shape of PyTorch's, so that an exported
file opens anywhere::

    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": "GPU 0", "tid": 7, "ts": 301000,
     "dur": 1000, "args": {"stream": 7, "correlation": 101, "grid x": 64, …}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_widgets.formats.event_rows import record_json
from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.formats.nsight.nvtx import args_of_ranges, read_ranges
from hta_widgets.formats.nsight.tables import (
    ASYNC_BEGIN,
    ASYNC_END,
    CALLS,
    CATEGORIES,
    EVENT_TABLES,
    MARK,
    NAME,
    RANGE,
    STEP,
    EventBlock,
    Texts,
    args_of_rows,
    id_in_system,
    read_block,
    thread_id,
    waits_of_calls,
)
from hta_widgets.readers.sqlite import Database
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import Codes, Ints
from hta_widgets.trace.columns import COMMUNICATION_KEYS, ArgTable, NumberedRecords, StringPool

_RECORDS_PER_QUERY = 1 << 14
_PHASES = {RANGE: "X", MARK: "i", ASYNC_BEGIN: "b", ASYNC_END: "e"}


@dataclass(frozen=True, slots=True)
class RankPlace:
    """The process and device of a rank, and how records name them."""

    process: int
    gpu: str
    #: names of NVTX domains by ``process:number``
    domains: dict[str, str]

    @property
    def pid(self) -> int:
        """The process's number on its host."""
        return id_in_system(self.process)


class ExportRecords(NumberedRecords):
    """The records of a rank; can be pickled, and restored from the cache."""

    def __init__(
        self,
        path: str,
        place: RankPlace,
        kinds: Codes,
        rowids: Ints,
        named: Sequence[dict[str, Any]],
        metadata: dict[str, Any],
        state: FileState,
        comm_args: ArgTable | None,
    ) -> None:
        self.path = path
        self.metadata_text = {key: json.dumps(value).encode() for key, value in metadata.items()}
        self._comm_args = comm_args
        self._place, self._kinds, self._rowids = place, kinds, rowids
        self._named, self._metadata, self._state = list(named), metadata, state

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        facts: dict[str, Any] = {
            "kind": "nsight",
            "path": self.path,
            "place": [self._place.process, self._place.gpu, self._place.domains],
            "named": self._named,
            "metadata": self._metadata,
            "state": [self._state.size, self._state.mtime_ns],
        }
        columns: dict[str, Any] = {"kinds": self._kinds, "rowids": self._rowids}
        if self._comm_args is not None:
            facts["comm_texts"] = [text.decode("latin-1") for text in self._comm_args.texts]
            columns["comm_record"] = self._comm_args.record
            columns["comm_code"] = self._comm_args.code.ravel()
        return StoredSource(facts, columns)

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> ExportRecords:
        """Return the records that `to_stored` described."""
        kinds, rowids = column("kinds"), column("rowids")
        comm_args = None
        if "comm_texts" in facts:
            texts = [text.encode("latin-1") for text in facts["comm_texts"]]
            code = column("comm_code").reshape(-1, len(COMMUNICATION_KEYS))
            comm_args = ArgTable(column("comm_record"), code, texts).validate(len(kinds))
        return cls(
            facts["path"], RankPlace(*facts["place"]), kinds, rowids, facts["named"],
            facts["metadata"], FileState(*facts["state"]), comm_args,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._kinds)

    def arg_columns(self, records: Ints, keys: Sequence[str]) -> dict[str, list[Any]] | None:
        """Return args of communication of some records; None for other args."""
        if not set(keys) <= set(COMMUNICATION_KEYS):
            return None
        args: dict[str, list[Any]] = {key: [None] * len(records) for key in keys}
        comm_args = self._comm_args
        if comm_args is not None:
            positions = comm_args.positions(records)
            places = np.flatnonzero(positions >= 0)
            for key in keys:
                for place, value in zip(
                    places.tolist(), comm_args.column(positions[places], key), strict=True
                ):
                    args[key][place] = value
        return args

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        if (self._kinds[wanted] != NAME).any():
            self._state.require_unchanged(self.path)
        for start in range(0, len(wanted), _RECORDS_PER_QUERY):
            part = wanted[start : start + _RECORDS_PER_QUERY]
            records: dict[int, dict[str, Any]] = {}
            with Database(self.path) as database:
                for kind in np.unique(self._kinds[part]).tolist():
                    numbers = part[self._kinds[part] == kind]
                    batch = self._records_of_kind(database, kind, self._rowids[numbers])
                    records.update(zip(numbers.tolist(), batch, strict=True))
            self._add_comm_args(records)
            for number in part.tolist():
                yield number, _to_json(records[number])

    def _records_of_kind(self, database: Database, kind: int, rowids: Ints) -> list[dict[str, Any]]:
        """Return records of one kind, in the order of `rowids`."""
        if kind == NAME:
            return [self._named[number] for number in rowids.tolist()]
        if kind == STEP:
            return self._step_records(database, rowids)
        distinct, places = np.unique(rowids, return_inverse=True)
        if kind < len(EVENT_TABLES):
            records = self._event_records(database, kind, distinct)
        else:
            records = self._range_records(database, kind, distinct)
        return [records[place] for place in places.tolist()]

    def _event_records(self, database: Database, kind: int, rowids: Ints) -> list[dict[str, Any]]:
        pool = StringPool()
        block = read_block(database, kind, Texts(database, pool), rowids)
        further = args_of_rows(database, kind, rowids)
        ids = block.correlation.tolist()
        waits = waits_of_calls(database, self._place.process, ids) if kind == CALLS else {}
        records = []
        for row, args in enumerate(further):
            correlation = ids[row]
            args.update(waits.get(correlation, {}))
            if correlation not in (0, -1):
                args["correlation"] = correlation
            if EVENT_TABLES[kind].of_device:
                _add_device_args(block, row, args)
            records.append(self._record("X", block, row, pool, args))
        return records

    def _record(
        self, phase: str, block: EventBlock, row: int, pool: StringPool, args: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the record of a row, with times in ns."""
        start_ns = int(block.start_ns[row])
        return {
            "ph": phase,
            "cat": CATEGORIES[int(block.category[row])],
            "name": pool[int(block.name[row])],
            "pid": self._place.pid if block.device[row] < 0 else self._place.gpu,
            "tid": thread_id(int(block.thread[row])),
            "ts": start_ns,
            "dur": int(block.end_ns[row]) - start_ns,
            "args": args,
        }

    def _range_records(self, database: Database, kind: int, rowids: Ints) -> list[dict[str, Any]]:
        pool = StringPool()
        domains = {
            tuple(map(int, key.split(":"))): name for key, name in self._place.domains.items()
        }
        ranges, names = read_ranges(database, Texts(database, pool), domains, rowids)  # type: ignore[arg-type]
        records = []
        for row, args in enumerate(args_of_ranges(database, ranges, names)):
            record = self._record(_PHASES[kind], ranges, row, pool, args)
            if kind == ASYNC_END:
                record |= {"ts": int(ranges.end_ns[row]), "args": {}}
            if kind != RANGE:
                del record["dur"]
            if kind in (ASYNC_BEGIN, ASYNC_END):
                record["id"] = int(rowids[row])
            elif kind == MARK:
                record["s"] = "t"
            records.append(record)
        return records

    def _step_records(self, database: Database, rowids: Ints) -> list[dict[str, Any]]:
        """Return the records of steps, whose ids are positions in the list of steps."""
        steps = [self._named[number] for number in rowids.tolist()]
        wanted = np.array([step["row"] for step in steps], np.int64)
        distinct, places = np.unique(wanted, return_inverse=True)
        ranges = self._range_records(database, RANGE, distinct)
        return [
            {
                **ranges[place],
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step['number']}",
                "args": {"NVTX range": ranges[place]["name"]},
            }
            for step, place in zip(steps, places.tolist(), strict=True)
        ]

    def _add_comm_args(self, records: dict[int, dict[str, Any]]) -> None:
        if self._comm_args is None:
            return
        numbers = np.array(sorted(records), np.int64)
        positions = self._comm_args.positions(numbers)
        for key in COMMUNICATION_KEYS:
            places = np.flatnonzero(positions >= 0)
            values = self._comm_args.column(positions[places], key)
            for place, value in zip(places.tolist(), values, strict=True):
                if value is not None:
                    records[int(numbers[place])]["args"][key] = value


def _add_device_args(block: EventBlock, row: int, args: dict[str, Any]) -> None:
    dur_ns, size = int(block.end_ns[row] - block.start_ns[row]), int(block.size_bytes[row])
    args |= {"device": int(block.device[row]), "stream": int(block.stream[row])}
    if size >= 0 and dur_ns > 0:
        args["memory bandwidth (GB/s)"] = size / dur_ns


def _to_json(record: dict[str, Any]) -> bytes:
    """Write a record, whose times are in ns, as JSON with times in µs."""
    times = {key: record.pop(key) for key in ("ts", "dur") if key in record}
    return record_json(record, **times)
