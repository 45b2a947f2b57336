"""Decode the records of Chrome JSON, and split files that hold the merged traces of several ranks.

`Record` and `Args` are the fields that become columns; all other fields stay in the file's bytes.
A merged file puts the rank before ids that would collide; `MergedRecords` gives each rank its
records back as they were before the merge.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Raw, Struct, ValidationError

from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.times import resolution
from hta_widgets.readers.cache import source_from_store
from hta_widgets.readers.ranks import LAST_RANK, is_rank
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.call_args import CALL_KEYS, LAUNCH_KEYS, NODE_KEYS, OLD_DIMS
from hta_widgets.trace.columns import (
    COMMUNICATION_KEYS,
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

_VERSION = 1
_M = ord("M")
_HAS_SMALL_ARGS = np.isin(np.arange(256), np.frombuffer(b"MC", np.uint8))


#: Stands for a rank if the ids of the records were not changed.
UNSCOPED = -1


class MergedRank(NamedTuple):
    """One rank of a merged file."""

    rank: int | None
    columns: RankColumns
    metadata: dict[str, Any]
    source: MergedRecords
    format: str
    #: number of the device, if the rank is one of several devices in a file
    device: int = -1


class _Entry(Struct):
    """Entry of a merged file about one of its ranks."""

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
) -> list[MergedRank] | None:
    """Split a file's columns by rank; None if it is not a merged file."""
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
        detail = f"its list of merged ranks is damaged ({error}); read as one rank"
        problems.add("repaired", 1, detail, file=path)
        return None
    introduced, generated = _introductions(columns)
    rank_of_pid = np.array(
        [
            introduced.get(code, (_rank_of(columns.pids[code]), None))[0]
            for code in range(len(columns.pids))
        ],
        np.int64,
    )
    rank_of_row = rank_of_pid[columns.pid] if len(rank_of_pid) else np.empty(0, np.int64)
    ours = np.ones(len(rank_of_row), np.bool_)
    ours[generated] = False
    parts = []
    for entry in entries:
        rank = entry.rank
        rows = np.flatnonzero(ours & (rank_of_row == rank))
        pids = {
            columns.pids[code]: pid for code, (owner, pid) in introduced.items() if owner == rank
        }
        records = MergedRecords(
            source, columns.record[rows], rank, entry.shift_ns, pids,
            {key: json.dumps(value).encode() for key, value in entry.metadata.items()},
        )  # fmt: skip
        rank_columns = columns_of_rank(columns, rows, rank, pids)
        parts.append(MergedRank(rank, rank_columns, entry.metadata, records, entry.format))
        ours[rows] = False
    problems.add("skipped", int(ours.sum()), "records of no rank of the merged file", file=path)
    return parts


def _introductions(columns: RankColumns) -> tuple[dict[int, tuple[int, bytes]], list[int]]:
    """Return the rank and original pid of each pid code, and the rows that only state them."""
    stated: dict[int, tuple[int, bytes]] = {}
    generated: list[int] = []
    for row in np.flatnonzero(columns.phase == _M).tolist():
        args = columns.small_args.get(int(columns.record[row]), {})
        if columns.names[columns.name[row]] == MARK_KEY and is_rank(args.get("rank")):
            pid = json.dumps(args["pid"]).encode() if "pid" in args else b""
            stated[int(columns.pid[row])] = (args["rank"], pid)
            generated.append(row)
        elif MARK_KEY in args and args[MARK_KEY] is None:
            generated.append(row)
    return stated, generated


def _rank_of(pid: str) -> int:
    """Return the rank encoded in a process number, or -1."""
    is_number = pid.isdecimal() and len(pid) <= 18 and int(pid)
    return (int(pid) - 1) // PID_STRIDE if is_number else -1


def columns_of_rank(
    columns: RankColumns, rows: Rows, rank: int, pids: Mapping[str, bytes]
) -> RankColumns:
    """Return a rank's rows as if they were read from its own file."""
    codes, pid = np.unique(columns.pid[rows], return_inverse=True)
    names = [columns.pids[code] for code in codes]
    if rank != UNSCOPED:
        names = [_pid_text(name, pids) for name in names]
    low = rank * ID_STRIDE
    correlation = columns.correlation[rows].astype(np.int64)
    if rank == UNSCOPED or low + ID_STRIDE >= LARGEST_ID:  # the ids of such ranks are texts
        low = 0
    scoped = (correlation >= low) & (correlation < low + ID_STRIDE)
    positions = np.flatnonzero(_HAS_SMALL_ARGS[columns.phase[rows]])
    numbers = columns.record[rows[positions]].tolist()
    small_args = {
        position: _unscope_args(columns.small_args[number], rank)
        for position, number in zip(positions.tolist(), numbers, strict=True)
        if number in columns.small_args
    }
    at_next = np.searchsorted(rows, columns.ends_at_next)
    at_next = at_next[np.isin(columns.ends_at_next, rows)]
    place = {int(row): position for position, row in enumerate(rows)} if columns.scope else {}
    column_names = ("phase", "start_ns", "dur_ns", "timed", "name", "category", "tid", "stream")
    own_columns = {name: getattr(columns, name)[rows] for name in column_names}
    flow = columns.flow[rows]
    flow_codes, flow[flow >= 0] = np.unique(flow[flow >= 0], return_inverse=True)
    timed = own_columns["timed"]
    stated = timed & (own_columns["dur_ns"] >= 0)
    place_of = np.searchsorted(columns.record[rows], columns.copies.record)
    copied = np.flatnonzero(np.isin(columns.copies.record, columns.record[rows]))
    return replace(
        columns,
        **own_columns,
        flow=flow,
        flow_ids=_UnscopedIds(columns.flow_ids, flow_codes, rank),
        resolution_ns=resolution(own_columns["start_ns"][timed], own_columns["dur_ns"][stated]),
        pid=pid.astype(np.int32),
        pids=StringPool(names),
        correlation=np.where(scoped, correlation - low, correlation),
        small_args=small_args,
        record=np.arange(len(rows), dtype=np.int64),
        ends_at_next=at_next.astype(np.int64),
        scope={place[row]: scope for row, scope in columns.scope.items() if row in place},
        copies=CopyTable(
            place_of[copied].astype(np.int64),
            columns.copies.gb_per_s[copied],
            columns.copies.size_bytes[copied],
        ),
    )


def _pid_text(pid: str, pids: Mapping[str, bytes]) -> str:
    own_pid = pids.get(pid, pid.encode())
    return (
        "" if not own_pid else str(json.loads(own_pid)) if own_pid[:1] == b'"' else own_pid.decode()
    )


def _unscope_args(args: dict[str, Any], rank: int) -> dict[str, Any]:
    if isinstance(args.get(MARK_KEY), dict):
        return dict(args[MARK_KEY])
    return {
        key: json.loads(original_id(json.dumps(value).encode(), rank)) if key in ID_ARGS else value
        for key, value in args.items()
    }


class _UnscopedIds(StringPool):
    """A pool of ids without the prefix of the merge, made on access."""

    __slots__ = ("_codes_there", "_pool", "_rank")

    def __init__(self, pool: StringPool, codes: npt.NDArray[np.int32], rank: int) -> None:
        self._pool, self._codes_there, self._rank = pool, codes, rank

    def __len__(self) -> int:
        return len(self._codes_there)

    def __getitem__(self, code: int) -> str:
        return original_id(self._pool[self._codes_there[code]].encode(), self._rank).decode()

    @property
    def values(self) -> list[str]:  # type: ignore[override]
        return [self[code] for code in range(len(self))]

    def add(self, value: str) -> int:
        raise TypeError(f"ids are read-only; cannot add {value!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_UnscopedIds, (self._pool, self._codes_there, self._rank))


def as_text(texts: Mapping[str, bytes]) -> dict[str, str]:
    """Decode bytes as Latin-1, one character per byte, so that JSON can hold them."""
    return {key: bytes(text).decode("latin-1") for key, text in texts.items()}


def as_bytes(texts: Mapping[str, str]) -> dict[str, bytes]:
    """Return the bytes that `as_text` converted."""
    return {key: text.encode("latin-1") for key, text in texts.items()}


class MergedRecords:
    """The records of one rank of a merged file, as they were before merging."""

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
        stored: StoredSource = self._source.to_stored()  # type: ignore[attr-defined]
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

    def record(self, index: int) -> bytes:
        """Return the JSON object of one record."""
        return self._restore_record(self._source.record(int(self._numbers[index])))

    def records(self, indices: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield ``(index, JSON object)`` of some records, in file order."""
        wanted = np.unique(np.asarray(indices, dtype=np.int64))
        for place, (_, text) in zip(
            wanted.tolist(), self._source.records(self._numbers[wanted]), strict=True
        ):
            yield place, self._restore_record(text)

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
        for name, ids in (("id2", ("local", "global")), ("args", (*ID_ARGS, MARK_KEY))):
            self._restore(fields, name, ids)
        if self._shift_ns and "ts" in fields:
            fields["ts"] = shift_time(fields["ts"], -self._shift_ns)
        return encode_fields(fields)

    def _restore(self, fields: Fields, name: str, ids: tuple[str, ...]) -> None:
        members = decode_fields(fields[name]) if name in fields else None
        scoped_keys = [key for key in ids if key in members] if members else []
        if members is None or not scoped_keys:
            return
        if MARK_KEY in scoped_keys:
            fields[name] = members[MARK_KEY]
            return
        for key in scoped_keys:
            members[key] = original_id(members[key], self._rank)
        fields[name] = encode_fields(members)


_INT64 = 1 << 63
_BANDWIDTH = "memory bandwidth (GB/s)"
#: The fields of `Args` for `COMMUNICATION_KEYS`.
COMMUNICATION_FIELDS = (
    "collective",
    "dtype",
    "elements_in",
    "elements_out",
    "group_size",
    "group",
    "group_description",
    "group_ranks",
    "source",
    "target",
    "sequence",
)

#: The fields of `Args` for the arguments of operators' calls.
_CALL_NAMES = dict(
    zip(
        ("dims", "types", "strides", "values", "old_dims", "node", "forward"),
        (*CALL_KEYS, OLD_DIMS, *NODE_KEYS),
        strict=True,
    )
)
#: The fields of `Args` for `LAUNCH_KEYS`.
LAUNCH_FIELDS = ("grid", "block", "registers", "shared", "blocks_per_sm", "occupancy", "limits")
_ARG_NAMES = {
    "bandwidth": _BANDWIDTH,
    **dict(zip(LAUNCH_FIELDS, LAUNCH_KEYS, strict=True)),
    **dict(zip(COMMUNICATION_FIELDS, COMMUNICATION_KEYS, strict=True)),
    **_CALL_NAMES,
}


class Args(Struct, gc=False, rename=_ARG_NAMES):
    """The args that become columns; except streams and correlations, they stay text until used."""

    stream: int | str | None = -1
    correlation: int | str | None = -1
    bandwidth: Raw = Raw(b"")
    bytes: Raw = Raw(b"")
    collective: Raw = Raw(b"")
    dtype: Raw = Raw(b"")
    elements_in: Raw = Raw(b"")
    elements_out: Raw = Raw(b"")
    group_size: Raw = Raw(b"")
    group: Raw = Raw(b"")
    group_description: Raw = Raw(b"")
    group_ranks: Raw = Raw(b"")
    source: Raw = Raw(b"")
    target: Raw = Raw(b"")
    sequence: Raw = Raw(b"")
    dims: Raw = Raw(b"")
    types: Raw = Raw(b"")
    strides: Raw = Raw(b"")
    values: Raw = Raw(b"")
    old_dims: Raw = Raw(b"")
    node: Raw = Raw(b"")
    forward: Raw = Raw(b"")
    grid: Raw = Raw(b"")
    block: Raw = Raw(b"")
    registers: Raw = Raw(b"")
    shared: Raw = Raw(b"")
    blocks_per_sm: Raw = Raw(b"")
    occupancy: Raw = Raw(b"")
    limits: Raw = Raw(b"")


class Record(Struct, gc=False):
    """The fields that become columns, in Kineto's order; numbers that must stay exact are text."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = Raw(b"")
    dur: Raw = Raw(b"")
    args: Args | None = None
    id: Raw = Raw(b"")
    bp: str | None = None
    s: str | None = None


#: Placeholder of a missing time in starts that are decoded as integers.
NO_INTEGER = -(1 << 63)


def _timed_decoder(ts: type) -> Callable[[bytes], list[Any]]:
    """Return a decoder of records that gives starts as `ts` and durations as doubles."""
    missing = {int: NO_INTEGER, float: math.nan, Raw: Raw(b"")}[ts]
    changed = {"ts": ("ts", ts, missing), "dur": ("dur", float, math.nan)}
    fields = [
        changed.get(field.name, (field.name, field.type, field.default))
        for field in msgspec.structs.fields(Record)
    ]
    record = msgspec.defstruct("TimedRecord", fields, gc=False)
    return msgspec.json.Decoder(list[record]).decode  # type: ignore[valid-type]


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

decode_records = msgspec.json.Decoder(list[Record]).decode
#: Decoders for files whose durations a double holds exactly, by the type that holds their starts.
decode_timed = {kind: _timed_decoder(kind) for kind in (int, float, Raw)}
decode_bodies = msgspec.json.Decoder(list[Raw]).decode


def end_of_value(error: msgspec.DecodeError) -> int | None:
    """Return the length of the JSON value if the error is about text after it, else None."""
    trailing = _TRAILING.search(str(error))
    return int(trailing.group(1)) - _TRAILING_SHIFT if trailing else None


def _trailing_shift() -> int:
    """Return the distance from a value's end to the position in msgspec's error."""
    try:
        decode_bodies(b"[]x")
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing:
            return int(trailing.group(1)) - 2
    return 0


_TRAILING_SHIFT = _trailing_shift()


class _Number(str):
    """Text of a number, as opposed to a string."""

    __slots__ = ()


def decode_leniently(body: bytes) -> Any:
    """Decode JSON that may hold control characters, bad UTF-8, NaN or any number, exactly."""
    return json.loads(
        body.decode("utf-8", "replace"),
        strict=False,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
    )


def record_of(value: dict[str, Any]) -> Record:
    """Convert a result of `decode_leniently` to a record, whatever the types of its fields."""
    args = value.get("args")
    phase = value.get("ph")
    return Record(
        ph=phase if isinstance(phase, str) and not isinstance(phase, _Number) else "",
        ts=_json_text(value.get("ts")),
        dur=_json_text(value.get("dur")),
        name=_text(value.get("name")),
        cat=_text(value.get("cat")),
        pid=_text(value.get("pid")),
        tid=_text(value.get("tid")),
        id=_json_text(value.get("id")),
        bp=_text(value.get("bp")),
        s=_text(value.get("s")),
        args=Args(
            _integer(args.get("stream")),
            _integer(args.get("correlation")),
            _json_text(args.get(_BANDWIDTH)),
            _json_text(args.get("bytes")),
            **{field: _json_text(args.get(key)) for field, key in _CALL_NAMES.items()},
        )
        if isinstance(args, dict)
        else None,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return encodable(str(value))
    return bytes(_json_text(value)).decode()


def _json_text(value: Any) -> Raw:
    return Raw(b"") if value is None else Raw(encode_json(value))


def encode_json(value: Any) -> bytes:
    """Encode what `decode_leniently` returns, keeping numbers as text; quote NaN and infinity."""
    return msgspec.json.encode(_encodable_value(value))


def _encodable_value(value: Any) -> Any:
    if isinstance(value, _Number):
        return str(value) if value.lstrip("-") in {"NaN", "Infinity"} else Raw(value.encode())
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(key): _encodable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable_value(item) for item in value]
    return value


def _integer(value: Any) -> int:
    try:
        number = int(float(value)) if "." in str(value) or "e" in str(value) else int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -_INT64 <= number < 2 * _INT64 else -1


def encodable(text: str) -> str:
    """Replace halves of surrogate pairs, which no other program would accept."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


#: A text; one without an end goes on to the end, so that no byte is looked at twice.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_BACKSLASHES = re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_DRIVE = re.compile(rb'"[A-Za-z]:\\[bfnrtu]')
_JSON_VALUE = re.compile(
    rb"true|false|null|NaN|-?Infinity|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\s*"
)
#: A text, a comma or colon with nothing after it, or a value without quotes.
_BARE_VALUE = re.compile(
    _TEXT.pattern
    + rb"|(?P<comma>,\s*)(?=[}\]])|(?P<colon>:\s*)(?=[,}\]])"
    + rb'|(?P<before>[:,\[]\s*)(?P<value>[^\s"\[\]{},:][^"\[\]{},]*)',
    re.DOTALL,
)


def with_backslashes_escaped(body: bytes) -> bytes:
    r"""Double the backslashes of texts that hold one that begins no escape.

    In ``"torch\nn\modules"`` no backslash is meant as an escape, as ``\m`` cannot be one.
    """
    return _TEXT.sub(lambda text: _escape_backslashes(text[0]), body)


def _escape_backslashes(text: bytes) -> bytes:
    is_json = all(match[1] for match in _BACKSLASHES.finditer(text))
    if is_json and not _DRIVE.match(text):
        return text
    # Quotes stay escaped, as they would have ended the text otherwise.
    return _ESCAPE.sub(
        lambda match: match[0] if match[1] == b'"' else match[0].replace(b"\\", b"\\\\"), text
    )


def names_windows_drive(body: bytes) -> bool:
    r"""Return whether a text of a record begins with a drive and one backslash (``"D:\new"``)."""
    return _DRIVE.search(body) is not None


def with_words_quoted(body: bytes) -> bytes:
    """Quote values that are not JSON, such as ``ncclFloat32``, ``0x7f`` or ``-inf``.

    A missing value becomes null, and a comma before a closing bracket is left out.
    """

    def repair(match: re.Match[bytes]) -> bytes:
        if match["comma"]:
            return b""
        if match["colon"]:
            return match["colon"] + b"null"
        value = match["value"]
        is_valid = value is None or _JSON_VALUE.fullmatch(value.rstrip())
        return match[0] if is_valid else b'%s"%s"' % (match["before"], value.rstrip())

    return _BARE_VALUE.sub(repair, body)
