"""Columns of one rank, and args of its events, which are read from the file."""

from __future__ import annotations

import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw

from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Array, Bools, Codes, Floats, Ints, Rows, positions_in
from hta_widgets.trace.memo import MemoOwner, memo
from hta_widgets.trace.short_paths import shorten_record

#: int16, or int32 if a file has too many categories
CategoryCodes = npt.NDArray[np.int16] | npt.NDArray[np.int32]

#: int32, or int64 if an id in the file requires it, such as a HIP handle
StreamIds = npt.NDArray[np.int32] | Ints

TrackRole = Literal["thread", "stream", "annotation", "other"]


class StringPool:
    """A dictionary of strings: `add` returns a string's code, `values` lists strings by code."""

    __slots__ = ("_codes", "values")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values: list[str] = list(values)
        self._codes: dict[str, int] = {value: code for code, value in enumerate(self.values)}

    def add(self, value: str) -> int:
        """Return the code of `value`; a new value gets the next code."""
        code = self._codes.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def find(self, value: str) -> int:
        """Return the code of `value`; -1 if it is missing."""
        return self._codes.get(value, -1)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, code: int) -> str:
        return self.values[code]

    def __reduce__(self) -> tuple[object, ...]:
        return (StringPool, (self.values,))


@dataclass(slots=True)
class CopyTable:
    """Recorded rate and size of copies and fills, by record number.

    Few events have these values, so they are not event columns. Record numbers remain valid if
    events are dropped.
    """

    record: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # ascending
    #: rate as computed by the profiler; NaN if the record has none
    gb_per_s: Floats = field(default_factory=lambda: np.empty(0, np.float64))
    size_bytes: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # -1 for none

    def __len__(self) -> int:
        return len(self.record)

    def lookup(self, records: Ints) -> tuple[Floats, Ints]:
        """Return rate and size of each record; NaN and -1 if it has none."""
        positions = positions_in(self.record, records)  # -1 selects the appended value
        rate, size = np.append(self.gb_per_s, np.nan), np.append(self.size_bytes, -1)
        return rate[positions], size[positions]


class ArgsByRecord(Protocol):
    """Args of records, by record number."""

    def get(self, number: int, default: Any = None, /) -> Any:
        """Return the args of a record, or `default`."""


class Binding(NamedTuple):
    """The ``bind_id`` of an event as JSON, and whether its arrows end or begin at the event."""

    bind_id: bytes
    ends: bool
    begins: bool


@dataclass(slots=True)
class RankColumns:
    """The decoded records of a file, of all phases, in file order.

    Times are absolute nanoseconds on the recorded clock, including ``baseTimeNanoseconds``.
    `start_ns` is meaningless if `timed` is False (metadata records). Codes, ids and record numbers
    may have narrower types than stated here.
    """

    phase: Codes  # ord of the phase letter; 0 if missing
    start_ns: Ints
    dur_ns: Ints  # -1 for none
    timed: Bools
    name: npt.NDArray[np.int32]  # codes into `names`
    category: npt.NDArray[np.int32]  # codes into `categories`
    pid: npt.NDArray[np.int32]  # codes into `pids`
    tid: npt.NDArray[np.int32]  # codes into `tids`
    stream: StreamIds  # args.stream, -1 if absent
    correlation: Ints  # args.correlation, -1 if absent
    flow: npt.NDArray[np.int32]  # top-level "id" as a code into `flow_ids`, -1 if absent
    names: StringPool
    categories: StringPool
    pids: StringPool
    tids: StringPool
    flow_ids: StringPool  # ids keep their JSON text, so 7 and "7" remain different
    #: args of records of phases M and C, by record number (the value in `record`)
    small_args: ArgsByRecord = field(default_factory=dict[int, dict[str, Any]])
    #: position of each row in the file's traceEvents
    record: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    #: value in ns of the last digit of the file's times: 1000 for whole microseconds
    resolution_ns: int = 1
    #: rows (not record numbers) of ``f`` records without ``"bp": "e"``, whose arrows end at the
    #: next event on the thread instead of the enclosing one
    ends_at_next: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    #: scope of instants by row, if it differs from the default ``"t"``
    scope: dict[int, str] = field(default_factory=dict)
    #: by record number
    bindings: dict[int, Binding] = field(default_factory=dict)
    copies: CopyTable = field(default_factory=CopyTable)


@dataclass(slots=True, frozen=True)
class Track:
    """A row group of the timeline: a thread, a device stream, or its annotations."""

    pid: str
    tid: str
    role: TrackRole
    label: str  # e.g. "thread 25738 (python)" or "stream 7"
    process: str  # e.g. "python" or "GPU 0"
    stream: int  # -1 for host tracks
    sort: tuple[int, ...]  # display order: indices of process and thread, role, first start
    nested: int  # lanes 0 .. nested-1 contain properly nested events
    lanes: int  # lanes nested .. lanes-1 contain events that overlap others without nesting

    @property
    def key(self) -> str:
        """Name of the track, unique within a rank; the value in the ``track`` column."""
        suffix = " annotations" if self.role == "annotation" else ""
        return f"{self.process} · {self.label}{suffix}"


class TableFile(Protocol):
    """The file from which the columns of a table are mapped, with its other contents."""

    def fact(self, name: str) -> Any:
        """Return the JSON value stored under a name; None if it is missing."""

    def read(self, name: str) -> Array:
        """Return a numeric column; raise `TraceError` if it is missing or damaged."""


@dataclass(slots=True)
class EventTable:
    """Complete and paired events of a rank, sorted by (start, longest first, file order)."""

    start_ns: Ints  # since Trace.zero_ns
    dur_ns: Ints
    name: npt.NDArray[np.int32]
    category: CategoryCodes
    kind: Codes  # codes into KINDS
    track: npt.NDArray[np.int32]  # position in `tracks`
    depth: npt.NDArray[np.int16]
    parent: npt.NDArray[np.int32]  # row; -1 if it has no parent
    stream: StreamIds
    correlation: Ints
    step: Ints
    phase: Codes  # 0: X, 1: B
    record: Ints  # of the X or B record
    names: StringPool
    categories: StringPool
    tracks: list[Track]
    #: end record (E) by row, for events with two records; these have the args of both
    end_record: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Ints:
        """Ends of the events, relative to `Trace.zero_ns`."""
        return self.start_ns + self.dur_ns

    @property
    def first_ns(self) -> int:
        """Start of the earliest event; 0 if the table is empty."""
        return int(self.start_ns[0]) if len(self) else 0

    @property
    def last_ns(self) -> int:
        """End of the last event; 0 if the table is empty."""
        return int(self.end_ns.max()) if len(self) else 0

    @property
    def file(self) -> TableFile | None:
        """The file with exactly these events and kinds, or None."""
        return None

    def with_kinds(self, kind: Codes) -> EventTable:
        """Return the same events with other kinds."""
        return replace_columns(self, kind=kind)


@dataclass(slots=True)
class FlowTable:
    """Arrows between events; `source` and `target` are rows of the EventTable."""

    kind: Codes  # codes into `kinds`
    source: Ints
    target: Ints
    kinds: list[str]
    #: records of the s/f (and t) events of each arrow; -1 for arrows joined by correlation
    source_record: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    target_record: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.source)

    def of_kind(self, kind: str) -> tuple[Ints, Ints]:
        """Return the sources and the targets of the arrows of a kind."""
        code = self.kinds.index(kind) if kind in self.kinds else -1
        return self.source[self.kind == code], self.target[self.kind == code]


@dataclass(slots=True)
class CounterTable:
    """Counter samples (phase C), one row per series and sample, sorted by series, then time."""

    time_ns: Ints  # since Trace.zero_ns
    series_id: npt.NDArray[np.int32]  # position in `series`
    value: Floats
    series: list[tuple[str, str, str]]  # (pid, counter name, series name)
    record: Ints

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(slots=True)
class InstantTable:
    """Instant events (phases i, I, R; n and T within async intervals), sorted by time."""

    time_ns: Ints
    name: npt.NDArray[np.int32]  # codes into EventTable.names
    category: CategoryCodes
    pid: list[str]
    tid: list[str]
    scope: list[str]
    record: Ints

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(slots=True)
class AsyncTable:
    """Async intervals (phases b/e and S/F), paired by category, id and name."""

    start_ns: Ints
    dur_ns: Ints  # -1 if no end was found
    name: npt.NDArray[np.int32]
    category: CategoryCodes
    async_id: list[str]
    pid: list[str]
    record: Ints

    def __len__(self) -> int:
        return len(self.start_ns)


Table = TypeVar("Table", EventTable, FlowTable, CounterTable, InstantTable, AsyncTable, CopyTable)
#: Fields of tables that do not have one value per row.
_SHARED_FIELDS = {"names", "categories", "tracks", "end_record", "kinds", "series"}


def replace_columns(table: Table, **changes: object) -> Table:
    """Return an in-memory copy of a table with some fields replaced."""
    # A mapped table is an instance of a subclass, which `dataclasses.replace` cannot create.
    table_class = next(cls for cls in type(table).__mro__ if "__dataclass_fields__" in vars(cls))
    kept_names = [column.name for column in fields(table) if column.name not in changes]
    columns = {name: getattr(table, name) for name in kept_names}
    return table_class(**columns, **changes)  # type: ignore[no-any-return]


def take_rows(table: Table, rows: Rows, **changes: object) -> Table:
    """Return the given rows as a table; `changes` are fields of the result."""
    columns = dict(changes)
    for name in (column.name for column in fields(table) if column.name not in changes):
        values = getattr(table, name)
        if isinstance(values, np.ndarray):
            columns[name] = values[rows]
        elif name not in _SHARED_FIELDS:
            columns[name] = [values[row] for row in rows.tolist()]
    return replace_columns(table, **columns)


def concatenate_tables(tables: Sequence[Table], **changes: object) -> Table:
    """Concatenate tables. Fields other than columns come from `changes` or the first table."""
    columns = dict(changes)
    for name in {column.name for column in fields(tables[0])} - _SHARED_FIELDS - set(changes):
        values = [getattr(table, name) for table in tables]
        is_text = isinstance(values[0], list)
        columns[name] = list(chain(*values)) if is_text else np.concatenate(values)
    return replace_columns(tables[0], **columns)


class RecordSource(ABC):
    """Records of a file as JSON, by position in ``traceEvents``; implemented by readers."""

    path: str
    #: whether folders are removed from paths in records; see `hta_widgets.trace.short_paths`
    shortens_paths = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    def record(self, index: int) -> bytes:
        """Return the JSON object of a record, verbatim, or repaired if it is not valid JSON."""
        for _, text in self.records(np.array([index], np.int64)):
            return text
        raise TraceError(
            f"has no readable record {index:,}", path=self.path, remedy="Load the file again."
        )

    def records(self, indices: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield ``(index, JSON object)`` of requested records that are readable, in file order."""
        wanted = np.unique(np.asarray(indices, np.int64))
        if not len(wanted):
            return
        if wanted[0] < 0 or wanted[-1] >= len(self):
            raise IndexError(f"records go from 0 to {len(self) - 1}: {wanted[[0, -1]].tolist()}")
        records = self._ascending(wanted)
        if self.shortens_paths:
            records = ((number, shorten_record(text)) for number, text in records)
        yield from records

    @abstractmethod
    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield the records `wanted`; their numbers are valid, distinct and ascending."""


class JoinedRecords(RecordSource):
    """The records of several sources, numbered consecutively."""

    def __init__(self, sources: Sequence[RecordSource]) -> None:
        self.path = sources[0].path
        self.sources = list(sources)
        #: number of the first record of each source, followed by the number of all records
        self.first: list[int] = np.cumsum([0, *map(len, sources)]).tolist()

    def __len__(self) -> int:
        return self.first[-1]

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        bounds = np.searchsorted(wanted, self.first).tolist()
        parts = zip(self.sources, self.first[:-1], pairwise(bounds), strict=True)
        for source, first, (low, high) in parts:
            for record, text in source.records(wanted[low:high] - first):
                yield record + first, text


#: A JSON object whose values are still text.
Fields = dict[str, bytes]

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def decode_fields(text: bytes) -> Fields | None:
    """Return the members of a JSON object; None for other text."""
    try:
        return {key: bytes(raw) for key, raw in _decode(text).items()}
    except (msgspec.DecodeError, RecursionError):
        return None


def encode_fields(fields: Mapping[str, bytes]) -> bytes:
    """Return a JSON object with these members."""
    return _encode({key: Raw(value) for key, value in fields.items()})


#: Operator whose args apply to communication kernels without args.
PARAM_COMMS = "record_param_comms"
#: Communication args of PyTorch and NCCL, which readers and stores keep as columns.
COMMUNICATION_KEYS: tuple[str, ...] = (
    "Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size",
    "Process Group Name", "Process Group Description", "Process Group Ranks", "Src Rank",
    "Dst Rank", "Seq",
)  # fmt: skip


_INTEGER = re.compile(r"-?[0-9]{1,20}").fullmatch
_SHORT_INT = re.compile(rb"[1-9][0-9]{0,17}").fullmatch


def decode_json(text: bytes, *, strict: bool = True) -> Any:
    """Decode JSON; integers with more digits than Python converts become text."""
    decoder = _json_decoder(sys.get_int_max_str_digits() or sys.maxsize, strict=strict)
    return decoder.decode(text.decode("utf-8", "strict" if strict else "replace"))


def parse_json(text: Any) -> Any:
    """Return the value of a JSON text; None for other text."""
    # msgspec takes a quarter of the time, but rejects NaN, infinities, lone surrogates and byte
    # order marks.
    for decode in (msgspec.json.decode, json.loads):
        with suppress(ValueError, RecursionError, TypeError):
            return decode(text)
    return None


def decode_args(record: bytes) -> dict[str, Any]:
    """Return the args in a JSON record; if they are not an object, it is the value of ``args``.

    Raises `ValueError` or `RecursionError` if the record is not JSON.
    """
    event = decode_json(record, strict=False)
    args = event.get("args") if isinstance(event, dict) else None
    if args is None:
        return {}
    return args if isinstance(args, dict) else {"args": args}


@cache
def _json_decoder(max_digits: int, *, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        strict=strict,
        parse_int=lambda digits: int(digits) if len(digits) <= max_digits else digits,
    )


@dataclass(frozen=True)
class ArgTable:
    """`COMMUNICATION_KEYS` of records that name a collective."""

    record: Ints  # ascending
    code: npt.NDArray[np.int32]  # index into `texts`, by record and key
    texts: list[bytes]  # JSON; empty for an arg that a record lacks

    def __len__(self) -> int:
        return len(self.record)

    def validate(self, records: int) -> ArgTable:
        """Return the table; raise `ValueError` if it does not fit a file of `records` records."""
        if self.code.shape != (len(self.record), len(COMMUNICATION_KEYS)):
            raise ValueError(
                "the number of communication args differs from the number of their records"
            )
        if (np.diff(self.record, prepend=-1, append=records) <= 0).any():
            raise ValueError("the communication records are not in order")
        if self.code.min(initial=0) < 0 or self.code.max(initial=0) >= len(self.values):
            raise ValueError("a communication arg has no text")
        return self

    @cached_property
    def values(self) -> list[Any]:
        """The decoded values of `texts`."""
        # Most args are sequence numbers, for which a JSON decoder takes ten times as long.
        return [
            int(text) if _SHORT_INT(text) else decode_json(text) if text else None
            for text in self.texts
        ]

    def positions(self, records: Ints) -> Ints:
        """Return the positions of records in the table; -1 for other records."""
        return positions_in(self.record, records)

    def column(self, positions: Ints, key: str) -> list[Any]:
        """Return the values of an arg at the given positions."""
        values, codes = self.values, self.code[positions, COMMUNICATION_KEYS.index(key)]
        return [values[code] for code in codes.tolist()]


def arg_table(records: Sequence[int], texts: Iterable[bytes]) -> ArgTable | None:
    """Return the args of ascending records from NUL-joined JSON; None if `records` is empty."""
    code_of: dict[bytes, int] = {}
    shared_codes: dict[bytes, list[int]] = {}
    code_rows = []
    # Most records differ only in the last arg, their sequence number.
    for text in texts:
        shared, _, last = text.rpartition(b"\0")
        codes = shared_codes.get(shared)
        if codes is None:
            codes = [code_of.setdefault(value, len(code_of)) for value in shared.split(b"\0")]
            shared_codes[shared] = codes
        code_rows.append([*codes, code_of.setdefault(last, len(code_of))])
    if not code_rows:
        return None
    code = np.array(code_rows, np.int32).reshape(-1, len(COMMUNICATION_KEYS))
    return ArgTable(np.array(records, np.int64), code, list(code_of))


class RecordedEvents(MemoOwner, Protocol):
    """A rank with the records from which its events were read."""

    @property
    def table(self) -> EventTable:
        """Events of the rank."""

    @property
    def source(self) -> RecordSource | None:
        """Records of the rank, or None if it has no file."""


def event_args(trace: RecordedEvents, rows: Rows, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Return args of events, by key as in the file; memoized with the trace.

    A value is None if the event lacks the arg or the trace has no file.
    """
    return memo(trace, (tuple(keys), rows.tobytes()), lambda: _event_args(trace, rows, keys))


def _event_args(trace: RecordedEvents, rows: Rows, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Return args of events, from columns of the source if it has them."""
    table: ArgTable | None = getattr(trace.source, "comm_args", None)
    if table is None or not set(keys) <= set(COMMUNICATION_KEYS):
        return _read_args(trace, rows, keys)
    positions = table.positions(trace.table.record[rows])
    if ends := trace.table.end_record:  # these events have the args of two records
        positions[np.isin(rows, np.fromiter(ends, np.int64))] = -1
    others = np.flatnonzero(positions < 0)
    args = {key: table.column(positions, key) for key in keys}
    for key, values in _read_args(trace, rows[others], keys).items():
        for position, value in zip(others.tolist(), values, strict=True):
            args[key][position] = value
    return args


def event_arg_texts(
    trace: RecordedEvents, rows: Rows, keys: Sequence[str]
) -> list[tuple[bytes, ...]]:
    """Return args of events as JSON text from the file; empty for an arg that an event lacks.

    If most events have the same args, comparing texts is faster than decoding values.
    """
    values = _read_args(trace, rows, keys, Raw)
    columns = [list(map(_text, values[key])) for key in keys]
    return list(zip(*columns, strict=True))


def _text(value: object) -> bytes:
    if type(value) is Raw:
        return bytes(value)
    return b"" if value is None else json.dumps(value).encode()


def whole_number(value: object) -> int | None:
    """Return the integer in an integer, a string of digits or a whole float; otherwise None."""
    if isinstance(value, str):
        return int(value) if _INTEGER(value) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_integer(value: object, limit: float = 1 << 62) -> int:
    """Return a `whole_number` that is at least 0 and below `limit`; -1 for other values."""
    number = whole_number(value)
    return number if number is not None and 0 <= number < limit else -1


def to_int64(values: Sequence[Any], missing: int = -1) -> Ints:
    """Return args as int64; `missing` for values that cannot be converted."""

    def to_integer(value: Any) -> int:
        try:
            integer = int(value)
        except (TypeError, ValueError, OverflowError):
            return missing
        return integer if -(1 << 63) <= integer < 1 << 63 else missing

    if set(map(type, values)) <= {int, type(None)}:
        try:
            return np.array([missing if value is None else value for value in values], np.int64)
        except OverflowError:
            pass
    return np.array(list(map(to_integer, values)), dtype=np.int64)


def _read_args(
    trace: RecordedEvents, rows: Rows, keys: Sequence[str], kind: object = Any
) -> dict[str, list[Any]]:
    """Read args of events from their records, as values of `kind`; None if missing."""
    source, table = trace.source, trace.table
    if source is None or not len(rows):
        return {key: [None] * len(rows) for key in keys}
    records = table.record[rows]
    # Binary files store args in columns, so no text is parsed.
    read_columns = getattr(source, "arg_columns", None)
    columns = read_columns(records, keys) if read_columns is not None else None
    if columns is not None:
        return {key: list(columns[key]) for key in keys}
    decoder = _decoder(keys, kind)
    ends = {
        position: table.end_record[row]
        for position, row in enumerate(rows.tolist())
        if row in table.end_record
    }
    read_records = np.concatenate((records, np.fromiter(ends.values(), np.int64, len(ends))))
    args_of_record = {
        record: _selected_args(body, keys, decoder) for record, body in source.records(read_records)
    }
    no_args = [None] * len(keys)  # for unreadable records
    args_of_rows = [args_of_record.get(record, no_args) for record in records.tolist()]
    for position, end_record in ends.items():  # events with two records have the args of both
        end_args = args_of_record.get(end_record, no_args)
        pairs = zip(args_of_rows[position], end_args, strict=True)
        args_of_rows[position] = [begin if end is None else end for begin, end in pairs]
    return {key: [args[number] for args in args_of_rows] for number, key in enumerate(keys)}


def record_args(keys: Sequence[str]) -> Callable[[bytes], list[Any]]:
    """Return a function that extracts the values of the given args from a record's JSON."""
    decoder = _decoder(keys)
    return lambda body: _selected_args(body, keys, decoder)


def _decoder(keys: Sequence[str], kind: object = Any) -> msgspec.json.Decoder[Any]:
    """Return a record decoder that decodes only these args, as values of `kind`."""
    fields = [(f"a{number}", kind, None) for number in range(len(keys))]
    names = {f"a{number}": key for number, key in enumerate(keys)}
    args = msgspec.defstruct("Args", fields, rename=names, gc=False)
    record = msgspec.defstruct("Record", [("args", args | None, None)], gc=False)
    return msgspec.json.Decoder(record)


def _selected_args(
    body: bytes, keys: Sequence[str], decoder: msgspec.json.Decoder[Any]
) -> list[Any]:
    """Return the args that `decoder` decodes from a record; None for missing args."""
    try:
        args = decoder.decode(body).args
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The strict decoder rejects control characters, and args that are not an object.
        with suppress(ValueError, RecursionError):
            return list(map(decode_args(body).get, keys))
        return [None] * len(keys)
    return [None] * len(keys) if args is None else list(msgspec.structs.astuple(args))
