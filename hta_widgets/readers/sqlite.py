"""SQLite databases of profilers, opened read-only and read column by column.

A database may be damaged or hostile, so only tables are read (a view may never end), each query
may take a limited number of steps, and SQLite refuses strings beyond `_MAX_TEXT_BYTES`. SQLite
stores any value in any column. Whole numbers are read as integers even if they are stored as
strings or real numbers; rows with any other value in place of an integer are left out, and counted
in `Database.skipped`. A missing column has only missing values.

A column is fetched as one string of integers for many rows, which NumPy parses in about a third of
the time that `fetchall` takes to make Python objects::

    with Database("report.sqlite") as database:
        columns = database.integers("KERNEL", "start end streamId")
        columns["start"]  # int64, in the order of columns["rowid"]

"""

from __future__ import annotations

import sqlite3
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import SQLITE_MAGIC
from hta_widgets.readers.streams import read_whole_file
from hta_widgets.trace.arrays import Array, Ints
from hta_widgets.trace.columns import whole_number
from hta_widgets.trace.problems import Problems

#: The smallest integer, which stands for a missing time.
NO_TIME = -(1 << 63)

_MAX_TEXT_BYTES = 1 << 28
_ROWS_PER_QUERY = 1 << 16
_IDS_PER_QUERY = 5_000
#: Assumed size of a row with a string, for the progress of a load.
_BYTES_PER_ROW = 64
#: Limit on the steps of SQLite's virtual machine: per byte of the file, and its minimum.
_STEPS_PER_BYTE = 64
_MIN_STEPS = 20_000_000
_STEPS_PER_CALL = 100_000
#: Header bytes with the versions for readers and writers; 2 means that a write-ahead log is used.
_VERSIONS = slice(18, 20)
_WRITE_AHEAD = b"\2\2"
#: Columns of tables of events and samples: their times, or the counter of a sample.
_EVENT_COLUMNS = {
    "start", "startNs", "timestamp", "timestampNs", "start_id", "timestamp_id", "allocationTime",
    "pmc_id",
}  # fmt: skip
_MAX_LISTED = 8
_COPY_AGAIN = "Export it again, or copy it again."


class Database:
    """A read-only database that serves as a context manager.

    Attributes
    ----------
    tables : set of str
        The names of all tables.
    skipped : Counter of str
        For each table, the number of rows with values of another type.
    missing_texts : dict of str to set of int
        For each table, the keys that rows refer to but the table lacks.
    is_cut_off : bool
        Whether the file refers to a write-ahead log that is not in its folder.
    """

    def __init__(self, path: str | Path, advance: Callable[[int], object] | None = None) -> None:
        self.path = str(path)
        self.skipped: Counter[str] = Counter()
        self.missing_texts: defaultdict[str, set[int]] = defaultdict(set)
        self.is_cut_off = False
        self._advance = advance
        self._steps = 0
        self._interrupted: BaseException | None = None
        self._columns: dict[str, list[str]] = {}
        with self._errors_as_trace_errors():
            self._connection = self._connect()
            self._unreported_bytes = self._size_bytes
            self._prepare()
            rows = self._connection.execute(
                "select name from sqlite_master where type = 'table' and rootpage > 0"
            )
            self.tables = {name for (name,) in rows if isinstance(name, str)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def columns_of(self, table: str) -> list[str]:
        """Return the names of a table's columns; none if the table is missing."""
        if table not in self.tables:
            return []
        if table not in self._columns:
            rows = self._fetch_all(f"pragma table_info({_quote(table)})")
            self._columns[table] = [str(row[1]) for row in rows]
        return self._columns[table]

    def is_empty(self, table: str) -> bool:
        """Return whether a table has no rows."""
        return not self._select(["1"], table, "1 limit 1")

    def integers(self, table: str, columns: str, **options: Any) -> dict[str, Any]:
        """Return columns of numbers, and ``rowid``, in the order of row ids.

        The parameters are the same as for `integer_blocks`.
        """
        blocks = list(self.integer_blocks(table, columns, **options))
        names = list(blocks[0])
        return {name: np.concatenate([block.pop(name) for block in blocks]) for name in names}

    def integer_blocks(
        self,
        table: str,
        columns: str,
        *,
        optional: str = "",
        reals: str = "",
        missing: int = -1,
    ) -> Iterator[dict[str, Any]]:
        """Yield columns of numbers for successive ranges of rows; at least one range.

        Parameters
        ----------
        table : str
        columns : str
            Columns of integers, separated by spaces; rows with a value of another type are left
            out.
        optional : str
            Further columns, in which a value of another type counts as missing.
        reals : str
            Further columns of real numbers; NaN for other values.
        missing : int
            The value for NULL and for columns that the table lacks.
        """
        present = self.columns_of(table)
        kinds = {
            **dict.fromkeys(optional.split(), _ColumnKind(missing)),
            **dict.fromkeys(reals.split(), _ColumnKind(missing, is_real=True)),
            **dict.fromkeys(["rowid", *columns.split()], _ColumnKind(missing, is_required=True)),
        }
        if not present:
            yield {name: kind.missing_values(0) for name, kind in kinds.items()}
            return
        stored = {name: kinds[name] for name in kinds if name in present or name == "rowid"}
        for condition in self._row_ranges(table):
            block = self._read_block(table, stored, condition)
            if block is None:
                block = self._read_mixed_block(table, stored, condition)
            count = len(block["rowid"])
            yield {
                name: block[name] if name in block else kind.missing_values(count)
                for name, kind in kinds.items()
            }

    def rows(
        self, table: str, columns: str, *, where: str = "1", kinds: Sequence[type] = ()
    ) -> list[tuple[Any, ...]]:
        """Return rows as Python values, in the order of row ids; for small tables and strings.

        `columns` are names, separated by spaces. `where` is a further condition in SQL, on columns
        that the table has. The first values are converted to the types `kinds`, integers or
        strings: numbers may be stored as strings, and strings as blobs. Rows with other values are
        left out, and so are all rows if the table lacks such a column.
        """
        names = columns.split()
        present = [*self.columns_of(table), "rowid"]
        if table not in self.tables or not set(names[: len(kinds)]) <= set(present):
            return []
        selected = [_quote(name) if name in present else "null" for name in names]
        stored = self._select(selected, table, f"{where} order by rowid")
        self._report(_BYTES_PER_ROW * len(stored))
        count = len(kinds)
        # `map` stops at the end of its shortest argument, `kinds`.
        rows = [(*map(_as_kind, row, kinds), *row[count:]) for row in stored]
        return [row for row in rows if None not in row[:count]]

    def texts_of(self, table: str, column: str, *ids: Ints | Sequence[int]) -> dict[int, str]:
        """Return the strings in a column of the rows with these ids."""
        texts: dict[int, str] = {}
        wanted = np.unique(np.concatenate(ids, dtype=np.int64, casting="unsafe")).tolist()
        for start in range(0, len(wanted) if "id" in self.columns_of(table) else 0, _IDS_PER_QUERY):
            listed = ",".join(map(str, wanted[start : start + _IDS_PER_QUERY]))
            rows = self.rows(table, f"id {column}", where=f"id in ({listed})", kinds=(int, str))
            texts.update(rows)
        self.missing_texts[table].update(number for number in wanted if number > 0)
        self.missing_texts[table].difference_update(texts)
        return texts

    def report(self, problems: Problems) -> None:
        """Report rows of other types, tables of events that were not read, and a missing log."""
        for table, count in self.skipped.items():
            detail = f"rows of {table} with non-integer values in integer columns"
            problems.add("skipped", count, detail, file=self.path)
        for table, keys in self.missing_texts.items():
            detail = f"names missing from {table}; their events are named by id"
            problems.add("part", len(keys), detail, file=self.path)
        unread = [
            name
            for name in sorted(self.tables - self._columns.keys())
            if not _EVENT_COLUMNS.isdisjoint(self.columns_of(name)) and not self.is_empty(name)
        ]
        listed = ", ".join(unread[:_MAX_LISTED]) + (", …" if len(unread) > _MAX_LISTED else "")
        detail = f"event tables that are not read: {listed}"
        problems.add("part", len(unread), detail, file=self.path)
        detail = "the database was copied while it was being written, without its -wal file"
        problems.add("part", int(self.is_cut_off), detail, file=self.path)

    def _connect(self) -> sqlite3.Connection:
        with Path(self.path).open("rb") as file:
            header = file.read(100)
        if not header.startswith(SQLITE_MAGIC):
            return self._connect_compressed()
        self._size_bytes = Path(self.path).stat().st_size
        options = "mode=ro&immutable=1"
        if header[_VERSIONS] == _WRITE_AHEAD:
            log = Path(f"{self.path}-wal")
            self.is_cut_off = not (log.exists() and log.stat().st_size)
            options = options if self.is_cut_off else "mode=ro"
        return sqlite3.connect(f"file:{quote(self.path)}?{options}", uri=True)

    def _connect_compressed(self) -> sqlite3.Connection:
        text = bytearray(read_whole_file(self.path, Problems()))
        self.is_cut_off = text[_VERSIONS] == _WRITE_AHEAD
        text[_VERSIONS] = b"\1\1"  # a database in memory has no log
        self._size_bytes = len(text)
        connection = sqlite3.connect(":memory:")
        connection.deserialize(bytes(text))
        return connection

    def _prepare(self) -> None:
        connection = self._connection
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT_BYTES)
        connection.text_factory = lambda raw: str(raw, "utf-8", "replace")
        connection.execute("pragma trusted_schema = off")
        connection.execute("pragma query_only = on")
        connection.set_progress_handler(self._count_steps, _STEPS_PER_CALL)

    def _count_steps(self) -> int:
        """Return whether to interrupt a query. SQLite calls this function regularly."""
        try:
            self._steps += _STEPS_PER_CALL
            return int(self._steps > _MIN_STEPS + _STEPS_PER_BYTE * self._size_bytes)
        except BaseException as cause:  # noqa: BLE001 - SQLite would drop Ctrl-C
            self._interrupted = cause
            return 1

    @contextmanager
    def _errors_as_trace_errors(self) -> Iterator[None]:
        self._steps = 0
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as cause:  # a message may name a damaged table
            if self._interrupted is not None:
                raise self._interrupted from None
            slow = "interrupted" in str(cause)
            message = "takes too long to read for its size" if slow else f"is damaged: {cause}"
            raise TraceError(message, path=self.path, remedy=_COPY_AGAIN) from None
        except OSError as cause:
            raise TraceError(
                f"cannot be read: {cause.strerror or cause}",
                path=self.path,
                remedy="Check the file and its permissions.",
            ) from cause

    def _fetch_all(self, query: str) -> list[Any]:
        with self._errors_as_trace_errors():
            return self._connection.execute(query).fetchall()

    def _select(self, columns: Iterable[str], table: str, where: str) -> list[Any]:
        """Return rows; `columns` and `where` are SQL that this module made."""
        query = f"select {', '.join(columns)} from {_quote(table)} where {where}"  # noqa: S608
        return self._fetch_all(query)

    def _row_ranges(self, table: str) -> Iterator[str]:
        low = NO_TIME
        while True:
            after = f"rowid > {low}"
            last = self._select(
                ["rowid"], table, f"{after} order by rowid limit 1 offset {_ROWS_PER_QUERY - 1}"
            )
            if not last:
                yield after
                return
            high = last[0][0]
            yield f"{after} and rowid <= {high}"
            low = high

    def _read_block(
        self, table: str, kinds: dict[str, _ColumnKind], where: str
    ) -> dict[str, Array] | None:
        """Return columns of a table; None if a value is not of its column's kind."""
        lists = [f"group_concat({kind.expression(name)})" for name, kind in kinds.items()]
        ((count, *texts),) = self._select(["count(*)", *lists], table, where)
        self._report(sum(len(text or "") for text in texts) // 2)
        block = {}
        for (name, kind), text in zip(kinds.items(), texts, strict=True):
            column = _parse_numbers(text or "", count, kind.dtype)
            if column is None:
                return None
            block[name] = column
        return block

    def _report(self, size_bytes: int) -> None:
        """Report the estimated progress, at most the size of the file."""
        if self._advance is not None:
            self._advance(min(size_bytes, self._unreported_bytes))
            self._unreported_bytes -= min(size_bytes, self._unreported_bytes)

    def _read_mixed_block(
        self, table: str, kinds: dict[str, _ColumnKind], where: str
    ) -> dict[str, Array]:
        """Return a block, excluding rows in which a required value is not an integer."""
        expressions = [kind.expression(name) for name, kind in kinds.items()]
        stored_rows = self._select(expressions, table, where)
        rows = [
            [kind.convert(value) for kind, value in zip(kinds.values(), row, strict=True)]
            for row in stored_rows
        ]
        valid = [row for row in rows if None not in row]
        self.skipped[table] += len(rows) - len(valid)
        return {
            name: np.array([row[place] for row in valid], kind.dtype)
            for place, (name, kind) in enumerate(kinds.items())
        }


@dataclass(frozen=True, slots=True)
class _ColumnKind:
    missing: int
    is_required: bool = False
    is_real: bool = False

    @property
    def dtype(self) -> type[np.float64 | np.int64]:
        return np.float64 if self.is_real else np.int64

    def missing_values(self, count: int) -> Array:
        return np.full(count, np.nan if self.is_real else self.missing, self.dtype)

    def expression(self, name: str) -> str:
        """Return the value in SQL; real numbers as strings, as SQLite prints only 15 digits."""
        column = _quote(name)
        if self.is_real:  # SQLite has no iif() before 3.32
            is_number = f"typeof({column}) in ('integer', 'real')"
            return f"case when {is_number} then printf('%!.17g', {column}) else 'nan' end"
        return f"coalesce({column}, {self.missing})"

    def convert(self, value: object) -> float | None:
        """Return the value of `expression` as a number; None if it is required and not a number."""
        if self.is_real:
            return float(str(value))
        return _as_integer(value, None if self.is_required else self.missing)


def _as_kind(value: object, kind: type) -> object:
    if kind is int:
        return _as_integer(value, None)
    if isinstance(value, bytes):  # some writers store strings as blobs
        return str(value, "utf-8", "replace")
    return value if isinstance(value, str) else None


def _as_integer(value: object, default: int | None) -> int | None:
    """Return a 64-bit integer from an integer, string or whole real number; else `default`."""
    number = whole_number(value)
    return number if number is not None and -(1 << 63) <= number < 1 << 63 else default


def _parse_numbers(text: str, count: int, dtype: type[np.float64 | np.int64]) -> Array | None:
    """Parse `count` numbers separated by commas; None if the text has other values."""
    with warnings.catch_warnings():
        # At text that is not a number, NumPy stops with this warning.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(text, dtype, sep=",")
        except (DeprecationWarning, ValueError):
            return None
    return values if len(values) == count else None


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def table_names(path: str) -> set[str]:
    """Return the names of a database's tables; none if it is damaged."""
    try:
        with Database(path) as database:
            return database.tables
    except TraceError as error:
        if isinstance(error.__cause__, OSError):  # the disk is at fault, not the contents
            raise
        return set()
