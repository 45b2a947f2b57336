"""The file of one stored rank, whose columns are read on first access."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError
from hta_widgets.store.checks import TrackRow, check_column, damage_text
from hta_widgets.store.files import CHECK_INTERVAL_S, ArrowFile, Column, FileFrame
from hta_widgets.trace.arrays import Array
from hta_widgets.trace.trace import Trace

T = TypeVar("T")

#: Expected type of each value that is stored as JSON.
_JSON: dict[str, Any] = {
    "tracks": list[TrackRow],
    "flow_kinds": list[str],
    "counter_series": list[tuple[str, str, str]],
    "metadata": dict[str, Any],
    "metadata_text": dict[str, str] | None,
}


class StoredSource(NamedTuple):
    """The values and columns from which a cached record source is restored."""

    facts: dict[str, Any]
    columns: dict[str, Column]


@dataclass(frozen=True)
class SourceRestorer:
    """Callbacks that restore a cached record source, or re-read a trace if its entry is damaged."""

    restore: Callable[[dict[str, Any], Callable[[str], Any]], Any]
    rebuild: Callable[[int], Trace]


@dataclass(eq=False)
class StoredRank:
    """The file of one rank."""

    path: Path
    frame: FileFrame
    #: position in the manifest
    position: int = 0
    #: set only for ranks from the cache
    restorer: SourceRestorer | None = None
    #: number of rows by table, and number of ``"records"`` (-1 if the trace has no records)
    sizes: Mapping[str, int] = field(default_factory=dict)
    #: start of the first event, end of the last event
    span_ns: tuple[int, int] = (0, 0)
    _file: ArrowFile | None = field(default=None, init=False, repr=False)
    _values: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _rebuilt: Trace | None = field(default=None, init=False, repr=False)

    @property
    def file(self) -> ArrowFile:
        """The file, mapped."""
        arrow_file = self._file
        if arrow_file is None:
            arrow_file = self._file = ArrowFile(self.path, self.frame)
        return arrow_file

    def has(self, name: str) -> bool:
        """Return whether the file has a column `name`."""
        return self.read_checked(lambda: name in self.file)

    def fact(self, name: str) -> Any:
        """Return the JSON value stored under `name`, or None."""
        return self.read_checked(lambda: self.file.facts.get(name))

    def read(self, name: str) -> Array:
        """Return a numeric column without caching it."""
        return self.read_checked(lambda: self._numbers(name))

    def numbers(self, name: str) -> Array:
        """Return a numeric column, cached until the rank is released."""
        values: Array = self._get(name, lambda: self._numbers(name), None)
        return values

    def _numbers(self, name: str) -> Array:
        values = self.file.numbers(name)
        check_column(self, name, values)
        return values

    def strings(self, name: str) -> list[str]:
        """Return a column of strings."""
        values: list[str] = self._get(name, lambda: self.file.strings(name), 100)
        return values

    def json(self, name: str) -> Any:
        """Return a value that is stored as JSON."""
        type_ = _JSON.get(name, Any)
        return self._get(name, lambda: convert(json.loads(self.file.texts(name)[0]), type_), 1)

    def size(self, name: str) -> int:
        """Return the length of a table or a column, or the number of ``"records"``."""
        if name in _JSON:
            return len(self.json(name))
        return self.sizes[name] if name in self.sizes else self.file.count(name)

    def get_or_compute(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a value derived from columns, cached under `name`."""
        return self._get(name, make, 100)

    def read_checked(self, read: Callable[[], T]) -> T:
        """Return the result of `read`; raise a `TraceError` if the file is damaged."""
        try:
            return read()
        except (TraceError, MemoryError):
            raise
        except Exception as cause:  # damaged files can raise any exception
            raise TraceError(
                damage_text(cause),
                path=self.path,
                remedy="Copy the store again, or save the traces again. If it was replaced after it"
                " was loaded, load it again.",
            ) from cause

    def stored_or_rebuilt(self, stored: Callable[[], T], rebuilt: Callable[[Trace], T]) -> T:
        """Return `stored()`; if the file is damaged, re-read the trace and return `rebuilt(trace)`.

        Only ranks from the cache can be re-read, because their trace files are known.
        """
        if self._rebuilt is None:
            try:
                return stored()
            except TraceError:
                if self.restorer is None:
                    raise
                self._rebuilt = self.restorer.rebuild(self.position)
        return rebuilt(self._rebuilt)

    def _get(self, name: str, make: Callable[[], Any], item_bytes: int | None) -> Any:
        """Return a cached value; `item_bytes` is the size of an item, or None for arrays."""
        value = self._values.get(name)
        if value is None:
            value = self.read_checked(make)
            self._values[name] = value
            size_bytes = value.nbytes if item_bytes is None else item_bytes * len(value or ())
            _bytes_in_use.add(self, size_bytes)
        else:  # an array is a view of the mapped file, which may have been truncated since
            self.require_whole(CHECK_INTERVAL_S)
        return value

    def require_whole(self, max_age_s: float = 0.0) -> None:
        """Raise a `TraceError` if the mapped file was truncated; see `ArrowFile.require_whole`."""
        file = self._file
        if file is not None:
            self.read_checked(lambda: file.require_whole(max_age_s))

    def release(self) -> None:
        """Release all cached values. Columns that are in use elsewhere stay mapped."""
        self._values = {}
        self._file = None
        _bytes_in_use.remove(self)

    def __getstate__(self) -> dict[str, Any]:
        # Another process maps the file itself, so columns are not pickled.
        return {**self.__dict__, "_file": None, "_values": {}, "_rebuilt": None}


class _BytesInUse:
    """Memory use of the ranks, sorted by time of last growth, earliest first."""

    def __init__(self) -> None:
        #: limits in bytes; the smallest one applies
        self.limits = [1 << 30]
        self._lock = threading.RLock()
        self._bytes: WeakKeyDictionary[StoredRank, int] = WeakKeyDictionary()
        #: bytes of all ranks; deleted ranks are included until the next recount
        self._total = 0

    def add(self, rank: StoredRank, size_bytes: int) -> None:
        """Add to the size of a rank. While the total exceeds the limit, release other ranks."""
        with self._lock:
            self._bytes[rank] = self._bytes.pop(rank, 0) + size_bytes
            self._total += size_bytes
            max_bytes = min(self.limits)
            if self._total <= max_bytes:
                return
            # Recounted only here: with a thousand ranks, a sum for every column would take seconds.
            self._total = sum(self._bytes.values())
            for oldest, size in list(self._bytes.items()):
                if self._total <= max_bytes or oldest is rank:
                    return
                self._bytes.pop(oldest, 0)
                self._total -= size
                oldest.release()

    def remove(self, rank: StoredRank) -> None:
        with self._lock:
            self._total -= self._bytes.pop(rank, 0)


_bytes_in_use = _BytesInUse()


@contextmanager
def limit_columns(max_bytes: int) -> Iterator[None]:
    """Limit the total size of the columns of all stored ranks within a ``with`` block."""
    _bytes_in_use.limits.append(max_bytes)
    try:
        yield
    finally:
        _bytes_in_use.limits.remove(max_bytes)
