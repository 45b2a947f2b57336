"""The tables of a stored rank, which look like any, and whose columns are read when asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import CopyTable
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import EventTable
from hta_widgets.trace.table import FlowTable
from hta_widgets.trace.table import InstantTable
from hta_widgets.trace.table import Pool
from hta_widgets.trace.table import TableFile
from hta_widgets.trace.table import Track

from hta_widgets.store.rank_file import StoredRank
from hta_widgets.store.rank_file import as_mapping

__all__ = [
    "CODED",
    "NUMBERS",
    "TABLES",
    "StoredAsyncs",
    "StoredCopies",
    "StoredCounters",
    "StoredEvents",
    "StoredFlows",
    "StoredInstants",
]

#: Fields of `Trace` that are tables, and what their columns are called in files.
TABLES = {
    "_table": "events",
    "flow_table": "flows",
    "counter_table": "counters",
    "instant_table": "instants",
    "async_table": "asyncs",
    "copy_table": "copies",
}

#: Columns of numbers, by table.
NUMBERS = {
    "events": (
        "start_ns",
        "dur_ns",
        "name",
        "category",
        "kind",
        "track",
        "depth",
        "parent",
        "stream",
        "correlation",
        "step",
        "phase",
        "record",
    ),
    "flows": ("kind", "source", "target", "source_record", "target_record"),
    "counters": ("time_ns", "series_id", "value", "record"),
    "instants": ("time_ns", "name", "category", "record"),
    "asyncs": ("start_ns", "dur_ns", "name", "category", "record"),
    "copies": ("record", "gb_per_s", "size_bytes"),
}

#: Lists of strings, kept as codes and their values.
CODED = {"instants": ("pid", "tid", "scope"), "asyncs": ("async_id", "pid")}


class _StoredPool(Pool):
    """A pool whose codes are looked up only where strings are added."""

    __slots__ = ()

    def __init__(self, values: list[str]) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        if name != "_codes":
            raise AttributeError(name)
        self._codes = {value: code for code, value in enumerate(self.values)}
        return self._codes


def _read(rank: StoredRank, table: str, name: str) -> Any:
    """Return a column of a table."""
    full = f"{table}.{name}"
    if name in NUMBERS[table]:
        return rank.numbers(full)
    if name in CODED.get(table, ()):
        return rank.made(full, lambda: _decoded(rank, full))
    if name in {"names", "categories"}:
        return rank.made(f"pool.{name}", lambda: _StoredPool(rank.strings(name)))
    if name == "tracks":
        return rank.made(full, lambda: [_track(values) for values in rank.json("tracks")])
    if name == "kinds":
        return rank.json("flow_kinds")
    if name == "series":
        return rank.made(full, lambda: [tuple(values) for values in rank.json("counter_series")])
    if name == "end_record":
        return rank.made(full, lambda: as_mapping(rank.numbers("events.ends").reshape(-1, 2)))
    raise AttributeError(f"{table} have no column {name!r}")


def _decoded(rank: StoredRank, name: str) -> list[str]:
    values = rank.strings(f"{name}.values")
    return [values[code] for code in rank.numbers(f"{name}.codes").tolist()]


def _track(values: list[Any]) -> Track:
    pid, tid, role, label, process, stream, sort, nested, lanes = values
    return Track(pid, tid, role, label, process, stream, tuple(sort), nested, lanes)


class _Stored:
    """Answers for fields that are not set, by reading the column of that name."""

    __slots__ = ()
    _rank: StoredRank
    _count: int
    _field = ""

    def __init__(self, rank: StoredRank, count: int) -> None:
        # The slots are the subclasses': of two parents, only one may have some.
        self._rank, self._count = rank, count  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        # Asked only for what is not there. A field, or what pickle and the like look for.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._rank.either(
            lambda: _read(self._rank, TABLES[self._field], name),
            lambda trace: getattr(getattr(trace, self._field), name),
        )

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rank, self._count)


class StoredEvents(_Stored, EventTable):
    """See `EventTable`."""

    __slots__ = ("_count", "_rank", "_span_ns")
    _field = "_table"

    def __init__(self, rank: StoredRank, count: int, span_ns: tuple[int, int]) -> None:
        _Stored.__init__(self, rank, count)
        self._span_ns = span_ns

    @property
    def first_ns(self) -> int:
        """Start of the earliest event."""
        return self._span_ns[0]

    @property
    def last_ns(self) -> int:
        """End of the last event."""
        return self._span_ns[1]

    def with_kinds(self, kind: npt.NDArray[np.uint8]) -> EventTable:
        """Return the same events of other kinds."""
        other = StoredEvents(self._rank, self._count, self._span_ns)
        other.kind = kind
        return other

    @property
    def has_own_kinds(self) -> bool:
        """Whether the kinds are not those of the file."""
        try:
            object.__getattribute__(self, "kind")
        except AttributeError:
            return False
        return True

    @property
    def file(self) -> TableFile | None:
        """The file, where the kinds are those that it was written with."""
        return None if self.has_own_kinds else self._rank

    def as_stored(self) -> StoredEvents:
        """Return the same events of the kinds that the file holds."""
        return StoredEvents(self._rank, self._count, self._span_ns)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredEvents, (self._rank, self._count, self._span_ns)


class StoredFlows(_Stored, FlowTable):
    """See `FlowTable`."""

    __slots__ = ("_count", "_rank")
    _field = "flow_table"


class StoredCounters(_Stored, CounterTable):
    """See `CounterTable`."""

    __slots__ = ("_count", "_rank")
    _field = "counter_table"


class StoredInstants(_Stored, InstantTable):
    """See `InstantTable`."""

    __slots__ = ("_count", "_rank")
    _field = "instant_table"


class StoredAsyncs(_Stored, AsyncTable):
    """See `AsyncTable`."""

    __slots__ = ("_count", "_rank")
    _field = "async_table"


class StoredCopies(_Stored, CopyTable):
    """See `CopyTable`."""

    __slots__ = ("_count", "_rank")
    _field = "copy_table"
