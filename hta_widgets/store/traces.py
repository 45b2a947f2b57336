"""Traces to columns, and back to traces whose columns are read when asked for."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hta_widgets import taxonomy
from hta_widgets.errors import TraceError
from hta_widgets.tiles.kept import FACT
from hta_widgets.tiles.kept import kept_columns
from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile
from hta_widgets.trace.rank_scope import ExportPart
from hta_widgets.trace.rank_scope import part_of
from hta_widgets.trace.table import RecordSource
from hta_widgets.trace.trace import Trace

from hta_widgets.store.arrow_file import Column
from hta_widgets.store.arrow_file import Frame
from hta_widgets.store.arrow_file import Texts
from hta_widgets.store.arrow_file import write_columns
from hta_widgets.store.comm_columns import CommArgs
from hta_widgets.store.rank_file import Kept
from hta_widgets.store.rank_file import KeptSource
from hta_widgets.store.rank_file import StoredRank
from hta_widgets.store.records import StoredRecords
from hta_widgets.store.records import pack_records
from hta_widgets.store.tables import CODED
from hta_widgets.store.tables import NUMBERS
from hta_widgets.store.tables import TABLES
from hta_widgets.store.tables import StoredAsyncs
from hta_widgets.store.tables import StoredCopies
from hta_widgets.store.tables import StoredCounters
from hta_widgets.store.tables import StoredEvents
from hta_widgets.store.tables import StoredFlows
from hta_widgets.store.tables import StoredInstants

__all__ = ["StoredTrace", "opened_trace", "write_trace"]

#: Fields of `Trace` that the manifest states as they are.
_PLAIN = (
    "rank",
    "path",
    "format",
    "zero_ns",
    "shift_ns",
    "clock_offset_ns",
    "resolution_ns",
    "stated_rank",
    "job",
    "host",
    "worker",
    "local_rank",
    "server",
    "part",
)

KeepSource = Callable[[RecordSource], Kept]


def write_trace(path: Path, trace: Trace, keep_source: KeepSource | None) -> dict[str, Any]:
    """Write one rank's file and return its entry in the manifest.

    Parameters
    ----------
    path : Path
    trace : Trace
    keep_source : callable, optional
        What to keep of where records come from. By default the records themselves.
    """
    columns: dict[str, Column] = {}
    for name, table_name in TABLES.items():
        table = getattr(trace, name)
        for column in NUMBERS[table_name]:
            columns[f"{table_name}.{column}"] = np.asarray(getattr(table, column))
        for column in CODED.get(table_name, ()):
            columns |= _coded(f"{table_name}.{column}", getattr(table, column))
    table = trace._table  # noqa: SLF001 - kinds by the rules that it was built with
    ends = [value for pair in table.end_record.items() for value in pair]
    columns["events.ends"] = np.array(ends, np.int64)
    columns["names"] = Texts.of(table.names.values)
    columns["categories"] = Texts.of(table.categories.values)
    columns["tracks"] = _json([[getattr(track, n) for n in _TRACK] for track in table.tracks])
    columns["flow_kinds"] = _json(trace.flow_table.kinds)
    columns["counter_series"] = _json(trace.counter_table.series)
    columns["metadata"] = _json(trace.metadata)
    columns["profile"] = _json(
        None if trace.profile is None else msgspec.to_builtins(trace.profile)
    )
    facts: dict[str, Any] = {}
    if trace.source is not None:
        if keep_source is None:
            source = CommArgs(trace.source, table)
            columns |= pack_records(source, table.record)
            columns |= source.columns()
            texts = getattr(trace.source, "metadata_text", None)
            decoded = texts and {key: bytes(raw).decode("latin-1") for key, raw in texts.items()}
            columns["metadata_text"] = _json(decoded)
        else:
            kept = keep_source(trace.source)
            facts |= kept.facts
            columns |= {f"source.{name}": column for name, column in kept.columns.items()}
    if trace._rules_version == 0:  # noqa: SLF001 - other rules' kinds are told anew at opening
        lanes, facts[FACT] = kept_columns(table)
        columns |= lanes
    frame = write_columns(path, columns, facts)
    return {
        "file": path.name,
        "frame": list(frame),
        "rows": {name: len(getattr(trace, name)) for name in TABLES},
        "span_ns": [table.first_ns, table.last_ns],
        "records": -1 if trace.source is None else len(trace.source),
        "has_profile": trace.profile is not None,
        "stated": {
            "export_part": trace.export_part and msgspec.to_builtins(trace.export_part),
            "world_size": trace.world_size,
        },
        "rules": _rules() if trace._rules_version == 0 else "",  # noqa: SLF001
        "trace": {name: getattr(trace, name) for name in _PLAIN},
    }


_TRACK = ("pid", "tid", "role", "label", "process", "stream", "sort", "nested", "lanes")


def _json(value: Any) -> Texts:
    # Not msgspec's: halves of surrogate pairs and integers of any size have to come back.
    texts = Texts()
    try:
        texts.add(json.dumps(value, default=_plain).encode())
    except (TypeError, ValueError) as cause:
        raise TraceError(f"what the file says of itself cannot be kept ({cause})") from None
    return texts


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no JSON")


def _coded(name: str, values: list[str]) -> dict[str, Column]:
    places: dict[str, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return {f"{name}.codes": np.array(codes, np.int32), f"{name}.values": Texts.of(list(places))}


@cache
def _rules() -> str:
    """What tells the built-in rules, by which kinds were told, from others."""
    return f"{zlib.crc32(Path(taxonomy.__file__).read_bytes()):08x}"


# --- back -----------------------------------------------------------------------------------------


def opened_trace(
    folder: Path, entry: dict[str, Any], place: int = 0, kept: KeptSource | None = None
) -> Trace:
    """Return a trace by its entry in the manifest; its file is not touched yet."""
    rank = StoredRank(folder / entry["file"], Frame(*entry["frame"]), place, kept)
    rows, facts = entry["rows"], entry["trace"]
    source: Any = None
    if entry["records"] >= 0:
        if kept is None:
            source = StoredRecords(rank, entry["records"], facts["path"])
        else:
            source = _KeptRecords(rank, entry["records"], facts["path"])
    trace = StoredTrace(
        metadata={},
        flow_table=StoredFlows(rank, rows["flow_table"]),
        counter_table=StoredCounters(rank, rows["counter_table"]),
        instant_table=StoredInstants(rank, rows["instant_table"]),
        async_table=StoredAsyncs(rank, rows["async_table"]),
        copy_table=StoredCopies(rank, rows["copy_table"]),
        source=source,
        _table=StoredEvents(rank, rows["_table"], tuple(entry["span_ns"])),
        _rules_version=0 if entry["rules"] == _rules() else -1,
        **facts,
    )
    trace.read_later(rank)
    if "stated" in entry:  # not in older stores
        trace.know_stated(part_of(entry["stated"]["export_part"]), entry["stated"]["world_size"])
    if entry["has_profile"]:
        trace.profile = rank.either(
            lambda: msgspec.convert(rank.json("profile"), MpiProfile), lambda other: other.profile
        )
    return trace


class StoredTrace(Trace):
    """A trace whose metadata are read when asked for, as its tables' columns are."""

    def read_later(self, rank: StoredRank) -> None:
        """Leave the metadata in the file of the rank."""
        del self.metadata
        self.__dict__["_stored"] = rank

    def know_stated(self, part: ExportPart | None, world_size: int) -> None:
        """Take over what the manifest keeps of the metadata, so that nobody reads them for it."""
        self.__dict__["_stated"] = part, world_size

    @property
    def export_part(self) -> ExportPart | None:
        """Which part of a job the file is an export of; None where it does not say so."""
        stated: tuple[ExportPart | None, int] | None = self.__dict__.get("_stated")
        return super().export_part if stated is None else stated[0]

    @property
    def world_size(self) -> int:
        """How many ranks the file says that the job has; 0 where it does not say."""
        stated: tuple[ExportPart | None, int] | None = self.__dict__.get("_stated")
        return super().world_size if stated is None else stated[1]

    @property
    def in_file(self) -> bool:
        """Whether the columns wait in a file, which another process can map as well."""
        return isinstance(self._table, StoredEvents)

    def __getattr__(self, name: str) -> Any:
        stored: StoredRank | None = self.__dict__.get("_stored")
        if name != "metadata" or stored is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = stored.either(lambda: stored.json("metadata"), lambda trace: trace.metadata)
        self.metadata = found
        self.__dict__["_metadata_is_read"] = True
        return found

    @property
    def is_mapped(self) -> bool:
        """Whether the columns are in a file that is mapped into memory, so that they can go."""
        return "_stored" in self.__dict__  # not after `dataclasses.replace`, which reads them all

    def let_go(self) -> None:
        """Forget what was derived and read; see `Trace.let_go`."""
        super().let_go()
        if not self.is_mapped:
            return
        table = self._table
        if isinstance(table, StoredEvents) and table.has_own_kinds:
            self._table, self._rules_version = table.as_stored(), -1
        if isinstance(self.source, StoredRecords):
            self.source.let_go()
        if self.__dict__.pop("_metadata_is_read", False):
            self.__dict__.pop("metadata", None)
        stored: StoredRank = self.__dict__["_stored"]
        stored.let_go()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        table = self._table
        if isinstance(table, StoredEvents) and table.has_own_kinds:
            # They are not sent, and those in the file are of other rules.
            state["_rules_version"] = -1
        if state.pop("_metadata_is_read", False):
            state.pop("metadata", None)
        return state

    def replace(self, **changes: Any) -> Trace:
        """Return the same events under other terms, for example ``rank=3``; arrays are shared."""
        other: Trace = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _frame=None, memo={})
        other.__dict__.update(changes)
        if "metadata" in changes:
            other.__dict__.pop("_metadata_is_read", None)
            other.__dict__.pop("_stated", None)
        return other


class _KeptRecords:
    """The records of a trace file that a cache only points to."""

    def __init__(self, rank: StoredRank, count: int, path: str) -> None:
        self.path = path
        self._rank, self._count = rank, count
        self._source: Any = None

    def __len__(self) -> int:
        return self._count

    def know(self, source: RecordSource) -> None:
        """Go on with the source that the copy was made of, which knows its way in the file."""
        self._source = source

    def __getattr__(self, name: str) -> Any:
        # Whatever the source offers beyond the least that all have, it goes on offering.
        if name.startswith("_"):
            raise AttributeError(name)
        if self._source is None:
            rank, kept = self._rank, self._rank.kept
            assert kept is not None  # noqa: S101
            self._source = rank.either(
                lambda: kept.restore(
                    rank.checked(lambda: rank.file.facts), lambda key: _column(rank, key)
                ),
                lambda trace: trace.source,
            )
        return getattr(self._source, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}


def _column(rank: StoredRank, name: str) -> Any:
    return rank.numbers(f"source.{name}")
