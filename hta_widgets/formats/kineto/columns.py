"""The columns of a file, to which records are added slice by slice.

Records are collected in a batch, because single slices are too small for the overhead of NumPy
calls. A full batch is converted: records that cannot be kept are counted, and the fields of the
remaining records are appended to growing columns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Raw

from hta_widgets.formats.kineto.growing import (
    ID_SEPARATOR,
    CallArgColumns,
    CodeTable,
    CommunicationColumns,
    CopyColumns,
    FlowIds,
    GrowingColumn,
    LaunchArgColumns,
    SmallArgs,
)
from hta_widgets.formats.kineto.lenient import BACKSLASHES_KEPT, with_backslashes_of_path
from hta_widgets.formats.kineto.records import Args, Record
from hta_widgets.formats.kineto.times import BAD, OK, TOO_LARGE, Times, nanoseconds, resolution
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import PARAM_COMMS, Binding, RankColumns, StringPool
from hta_widgets.trace.problems import NoteCounts, ProblemKind
from hta_widgets.trace.record_times import FIRST_NS, LAST_NS
from hta_widgets.trace.tracks import integer_of

_INT64 = 1 << 63
_M, _C, _F = map(ord, "MCf")


def _set_of(letters: str) -> npt.NDArray[np.bool_]:
    is_member = np.zeros(256, np.bool_)
    is_member[np.frombuffer(letters.encode(), np.uint8)] = True
    return is_member


_NO_STREAM = (1 << 32) - 1  # CUPTI's number for waits without a stream
_KNOWN_PHASES = _set_of("XBEiIRCstfbneSTFM")
_WITH_ARGS = _set_of("MC")
_WITH_ID = _set_of("stfbneSTFC")
_INSTANTS = _set_of("iIR")
_THREAD_SCOPE = frozenset({None, "", "t"})
_OPERATORS = ("cpu_op", "operator")
_INT64_MAX = (1 << 63) - 1
_BATCH_RECORDS = 1 << 14
_NO_ID = Record().bind_id
_FALSE = tuple(map(Raw, (b"", b"false", b"null", b"0")))
_FAR = "records that begin or end more than 2**60 ns before 0 or 3 * 2**60 ns after it"
_PARTS = ("phase", "name", "category", "pid", "tid", "stream", "correlation", "record")
#: Problem of a record, by the state of its start (unless it is missing).
_BAD_TIMES: dict[int, tuple[ProblemKind, str]] = {
    BAD: ("skipped", "records whose time is not a number"),
    TOO_LARGE: ("overflow", "records whose time does not fit in 64 bits"),
}
#: Initial column types. They are widened if values do not fit.
_NARROWEST_TYPES: dict[str, type[np.integer[Any]]] = {
    "phase": np.uint8, "start_ns": np.int64, "dur_ns": np.int64, "name": np.int32,
    **dict.fromkeys(("category", "pid", "tid", "stream"), np.int16),
    **dict.fromkeys(("correlation", "flow", "record"), np.int32),
}  # fmt: skip


class _Batch:
    def __init__(self) -> None:
        self.count = 0
        self.parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _PARTS}
        self.start: list[Times] = []
        self.dur: list[Times] = []
        # In each pair, the first item is the record's row in the batch.
        self.copies: list[tuple[int, Args]] = []
        self.communication: list[tuple[int, Args]] = []
        self.calls: list[tuple[int, Args]] = []
        self.kernels: list[tuple[int, Args]] = []
        # The ids of flows and async records and, for each slice, the rows that have an id.
        self.ids: list[Any] = []
        self.id_rows: list[npt.NDArray[np.intp]] = []
        self.ends_at_next: list[int] = []
        self.scoped: list[tuple[int, str]] = []
        self.unknown_phase: dict[int, str] = {}
        # Per slice:
        self.first_rows: list[int] = []
        self.bodies: list[Callable[[], Sequence[Any]]] = []
        self.offsets: list[Callable[[int], int]] = []

    def offset_of(self, row: int) -> int:
        index = bisect_right(self.first_rows, row) - 1
        return self.offsets[index](row - self.first_rows[index])


class Columns:
    """The records of a file as columns, to which records are added."""

    def __init__(self, notes: NoteCounts, expected: int = 0) -> None:
        self.notes = notes
        self._names, self._categories = CodeTable(), CodeTable()
        self._pids, self._tids = CodeTable(), CodeTable()
        self._flow_ids = FlowIds()
        self._copies = CopyColumns()
        self.communication = CommunicationColumns()
        self.calls = CallArgColumns()
        self.kernels = LaunchArgColumns()
        self._columns = {
            name: GrowingColumn(dtype, expected) for name, dtype in _NARROWEST_TYPES.items()
        }
        self._small_args = SmallArgs()
        self._ends_at_next: list[int] = []
        self._scope: dict[int, str] = {}
        self._bindings: dict[int, Binding] = {}
        self._resolution_ns = 1000
        self._based = 0
        self._batch = _Batch()

    def append(
        self,
        records: Sequence[Record],
        numbers: Ints,
        bodies: Callable[[], Sequence[Any]],
        offset_of: Callable[[int], int],
        times: tuple[Times, Times] | None = None,
    ) -> None:
        """Add the records of a slice; `offset_of` returns the byte at which a record begins."""
        if not records:
            return
        batch, first_row = self._batch, self._batch.count
        phase = _phases(records)
        args = [record.args for record in records]
        stream = _integers([-1 if arg is None else arg.stream for arg in args])
        stream[stream == _NO_STREAM] = -1
        arrays: dict[str, npt.NDArray[Any]] = {
            "phase": phase,
            "name": self._names.codes_of([record.name for record in records]),
            "category": self._categories.codes_of([record.cat for record in records]),
            "pid": self._pids.codes_of([record.pid for record in records]),
            "tid": self._tids.codes_of([record.tid for record in records]),
            "stream": stream,
            "correlation": self._correlations(args),
            "record": numbers,
        }
        for name, values in arrays.items():
            batch.parts[name].append(values)
        start, dur = times or (
            nanoseconds([record.ts for record in records]),
            nanoseconds([record.dur for record in records]),
        )
        batch.start.append(start)
        batch.dur.append(dur)
        self._take_args(arrays, args, first_row)
        self._take_special(records, phase, first_row)
        self._take_bindings(records, numbers)
        batch.first_rows.append(first_row)
        batch.bodies.append(bodies)
        batch.offsets.append(offset_of)
        batch.count += len(records)
        if batch.count >= _BATCH_RECORDS:
            self._flush()

    def _correlations(self, args: list[Args | None]) -> Ints:
        """Return the correlation ids. Paddle's files, which have this category, use another key."""
        if self._categories.get("CudaRuntime", -1) < 0:
            return _integers([-1 if arg is None else arg.correlation for arg in args])
        return _integers([-1 if arg is None else arg.correlation_id for arg in args])

    def _take_args(
        self, arrays: dict[str, npt.NDArray[Any]], args: list[Args | None], first_row: int
    ) -> None:
        """Collect args that become columns; only device work, communication and calls have any."""
        batch = self._batch
        with_args = (arrays["stream"] != -1) | (arrays["name"] == self._names.get(PARAM_COMMS, -1))
        for row in np.flatnonzero(with_args).tolist():
            row_args = args[row]
            if row_args is None:
                continue
            if row_args.bandwidth or row_args.bytes:
                batch.copies.append((first_row + row, row_args))
            if row_args.collective:
                batch.communication.append((first_row + row, row_args))
            if row_args.grid:
                batch.kernels.append((first_row + row, row_args))
        names = self._categories.pool.values
        is_operator = np.array([name.lower() in _OPERATORS for name in names])
        for row in np.flatnonzero(is_operator[arrays["category"]]).tolist():
            row_args = args[row]
            if row_args and (row_args.node or row_args.dims or row_args.old_dims):
                batch.calls.append((first_row + row, row_args))

    def _take_special(
        self, records: Sequence[Record], phase: npt.NDArray[np.uint8], first_row: int
    ) -> None:
        """Collect ids, ends of flows, scopes of instants and unknown phases."""
        batch = self._batch
        id_rows = np.flatnonzero(_WITH_ID[phase])
        batch.id_rows.append(first_row + id_rows)
        with_id = [records[row] for row in id_rows.tolist()]
        batch.ids += [
            _scoped_id(record) if record.scope or record.id2 else record.id for record in with_id
        ]
        flow_ends = np.flatnonzero(phase == _F).tolist()
        batch.ends_at_next += [first_row + row for row in flow_ends if records[row].bp != "e"]
        for row in np.flatnonzero(_INSTANTS[phase]).tolist():
            if records[row].s not in _THREAD_SCOPE:
                batch.scoped.append((first_row + row, records[row].s or ""))
        for row in np.flatnonzero(~_KNOWN_PHASES[phase]).tolist():
            batch.unknown_phase[first_row + row] = records[row].ph

    def _take_bindings(self, records: Sequence[Record], numbers: Ints) -> None:
        if [record.bind_id for record in records].count(_NO_ID) == len(records):
            return
        for record, number in zip(records, numbers.tolist(), strict=True):
            if record.bind_id != _NO_ID:
                ends, begins = (flag not in _FALSE for flag in (record.flow_in, record.flow_out))
                self._bindings[number] = Binding(bytes(record.bind_id), ends, begins)

    def _flush(self) -> None:
        batch, self._batch = self._batch, _Batch()
        if not batch.count:
            return
        parts = {name: np.concatenate(pieces) for name, pieces in batch.parts.items()}
        phase = parts["phase"]
        start_ns, start_state = _join_times(batch.start)
        is_metadata = phase == _M
        keep = _KNOWN_PHASES[phase]
        if start_state is not None:
            keep &= is_metadata | (start_state == OK)
        keeps_all = bool(keep.all())
        if not keeps_all:
            self._note_skipped(batch, phase, start_state, ~keep)
        dur_ns = self._durations(batch, keep)
        is_timed = keep & ~is_metadata
        if self._resolution_ns > 1:
            finest_ns = resolution(start_ns[is_timed], dur_ns[is_timed & (dur_ns >= 0)])
            self._resolution_ns = min(self._resolution_ns, finest_ns)
        self._add_args(batch, parts["record"], keep)
        flow = np.full(batch.count, -1, np.int64)
        flow[np.concatenate(batch.id_rows)] = self._flow_ids.codes(batch.ids)
        parts.update(start_ns=start_ns, dur_ns=dur_ns, flow=flow)
        file_row = self._columns["record"].size - 1 + np.cumsum(keep)
        for name, column in self._columns.items():
            column.extend(parts[name] if keeps_all else parts[name][keep])
        self._ends_at_next.extend(int(file_row[row]) for row in batch.ends_at_next if keep[row])
        self._scope.update((int(file_row[row]), scope) for row, scope in batch.scoped if keep[row])
        self._keep_small_args(batch, np.flatnonzero(keep & _WITH_ARGS[phase]), parts["record"])

    def _durations(self, batch: _Batch, keep: npt.NDArray[np.bool_]) -> Ints:
        """Return the durations in ns; -1 if missing. Report faults only in rows of `keep`."""
        dur_ns, state = _join_times(batch.dur)
        is_negative = dur_ns < 0
        dur_ns[is_negative] = 0
        if state is not None:
            reason = "durations that are not numbers, taken as missing"
            self._note_rows(batch, (state == BAD) & keep, reason)
            reason = "durations that do not fit in 64 bits, taken as missing"
            self._note_rows(batch, (state == TOO_LARGE) & keep, reason, "overflow")
            dur_ns[state != OK] = -1
            is_negative &= state == OK
        self._note_rows(batch, is_negative & keep, "negative durations, taken as 0")
        return dur_ns

    def _add_args(self, batch: _Batch, record: Ints, keep: npt.NDArray[np.bool_]) -> None:
        for columns, pairs in (
            (self._copies, batch.copies),
            (self.communication, batch.communication),
            (self.calls, batch.calls),
            (self.kernels, batch.kernels),
        ):
            kept = [(row, args) for row, args in pairs if keep[row]]
            if kept:
                rows, args = zip(*kept, strict=True)
                columns.add(record[list(rows)], args)

    @property
    def rows(self) -> int:
        """Number of records added so far."""
        self._flush()
        return self._columns["record"].size

    @property
    def has_records(self) -> bool:
        """Whether any record was added."""
        return bool(self._batch.count or self._columns["record"].size)

    @property
    def names(self) -> list[str]:
        """Names of the records added so far."""
        return self._names.pool.values

    def add_base(self, base_ns: int) -> None:
        """Add a base time to the starts of all records added since the last call."""
        self._flush()
        start = self._columns["start_ns"].filled_part(self._based)
        self._based = self.rows
        if base_ns and len(start):
            # Clipped values are still out of range and are therefore excluded later.
            np.clip(start, -_INT64_MAX - min(base_ns, 0), _INT64_MAX - max(base_ns, 0), out=start)
            start += base_ns

    def finish(self) -> RankColumns:
        """Return the columns."""
        self._flush()
        columns = {name: column.filled_part() for name, column in self._columns.items()}
        self._exclude_far(columns)
        names = self._repair_paths(columns)
        columns["flow"], flow_ids = self._flow_ids.finish(columns["flow"])
        self._columns = {}
        return RankColumns(
            **columns,
            timed=columns["phase"] != _M,
            names=names,
            categories=self._categories.pool,
            pids=self._pids.pool,
            tids=self._tids.pool,
            flow_ids=flow_ids,
            small_args=self._small_args,
            resolution_ns=self._resolution_ns,
            ends_at_next=np.array(self._ends_at_next, np.int64),
            scope=self._scope,
            bindings=self._bindings,
            copies=self._copies.finish(),
        )

    def _exclude_far(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        """Drop records with times so far away that sums of them would overflow."""
        start, dur = columns["start_ns"], columns["dur_ns"]
        is_far = (start < FIRST_NS) | (start > LAST_NS)
        is_far |= dur > LAST_NS - np.clip(start, FIRST_NS, LAST_NS)
        is_far &= columns["phase"] != _M
        if not is_far.any():
            return
        self.notes.add("overflow", _FAR, None, int(is_far.sum()))
        new_row = np.where(is_far, -1, np.cumsum(~is_far) - 1)
        for name, values in columns.items():
            columns[name] = values[~is_far]
        self._ends_at_next = [int(new_row[row]) for row in self._ends_at_next if new_row[row] >= 0]
        self._scope = {
            int(new_row[row]): scope for row, scope in self._scope.items() if new_row[row] >= 0
        }

    def _repair_paths(self, columns: dict[str, npt.NDArray[Any]]) -> StringPool:
        """Return the names, restoring backslashes of Windows paths that were read as escapes."""
        paths = [with_backslashes_of_path(name) for name in self.names]
        if paths == self.names:
            return self._names.pool
        is_changed = [path != name for path, name in zip(paths, self.names, strict=True)]
        count = int(np.array(is_changed)[columns["name"]].sum())
        self.notes.add("repaired", BACKSLASHES_KEPT, None, count)
        pool = StringPool()
        columns["name"] = np.array([pool.add(path) for path in paths], np.int32)[columns["name"]]
        return pool

    def _keep_small_args(self, batch: _Batch, rows: npt.NDArray[np.intp], numbers: Ints) -> None:
        slice_of = np.searchsorted(batch.first_rows, rows, side="right") - 1
        for number in np.unique(slice_of).tolist():
            texts, first = batch.bodies[number](), batch.first_rows[number]
            for row in rows[slice_of == number].tolist():
                self._small_args.add(int(numbers[row]), texts[row - first])

    def _note_skipped(
        self,
        batch: _Batch,
        phase: npt.NDArray[np.uint8],
        start_state: npt.NDArray[np.uint8] | None,
        is_skipped: npt.NDArray[np.bool_],
    ) -> None:
        # JAX ends its list with an empty object, and rocprof begins its list with one.
        for row in (0, -1):
            if not phase[row] and bytes(batch.bodies[row]()[row]).split() == [b"{}"]:
                is_skipped[row] = False
        for row in np.flatnonzero(is_skipped).tolist():
            if not _KNOWN_PHASES[phase[row]]:
                letter = batch.unknown_phase[row]
                reason = f"records of phase {letter!r}" if letter else "records without a phase"
                kind: ProblemKind = "skipped"
            else:
                state = OK if start_state is None else int(start_state[row])
                kind, reason = _BAD_TIMES.get(state, ("skipped", "records without a time"))
            has_note = self.notes.has(kind, reason)
            self.notes.add(kind, reason, None if has_note else batch.offset_of(row))

    def _note_rows(
        self,
        batch: _Batch,
        where: npt.NDArray[np.bool_],
        reason: str,
        kind: ProblemKind = "repaired",
    ) -> None:
        rows = np.flatnonzero(where)
        if len(rows):
            self.notes.add(kind, reason, batch.offset_of(int(rows[0])), len(rows))


def _join_times(parts: Sequence[Times]) -> Times:
    ns = np.concatenate([times.ns for times in parts])
    if all(times.state is None for times in parts):
        return Times(ns, None)
    states = [np.zeros(len(ns), np.uint8) if state is None else state for ns, state in parts]
    return Times(ns, np.concatenate(states))


def _phases(records: Sequence[Record]) -> npt.NDArray[np.uint8]:
    """Return the code of each phase; 0 if the phase is not a single letter."""
    letters = [record.ph for record in records]
    count = len(letters)
    text = ",".join(letters)  # usually, every second byte is a phase
    if len(text) != 2 * count - 1 or not text.isascii() or text[1::2].strip(","):
        text = ",".join(
            letter if len(letter) == 1 and letter.isascii() else "\0" for letter in letters
        )
    return np.frombuffer(text.encode(), np.uint8)[::2]


def _scoped_id(record: Record) -> bytes:
    """Return the id, with the scope and process in which it is unique; empty if there is none.

    An id in ``id2`` may be unique only within its process.
    """
    parts = [bytes(record.id)]
    if not record.id and record.id2 is not None:
        local = bytes(record.id2.local)
        parts = [local, str(record.pid).encode()] if local else [bytes(record.id2.everywhere)]
    if parts[0] and record.scope:
        parts.append(bytes(record.scope))
    return ID_SEPARATOR.join(parts)


_SCOPED = re.compile(r"[0-9]{4,10}:([0-9]{1,18})")


def _integers(values: list[Any]) -> Ints:
    try:
        return np.fromiter(values, np.int64, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_wrap_integer(value) for value in values], np.int64)


def _wrap_integer(value: Any) -> int:
    """Return an integer wrapped to 64 bits; -1 for values of other types.

    In merged files, ids of high ranks are strings such as ``"10000:7"``: id 7 of rank 10,000.
    """
    try:
        match = _SCOPED.fullmatch(str(value))
        number = integer_of(match[1] if match else str(value))
    except ValueError:
        return -1
    if -_INT64 <= number < _INT64:
        return number
    return number - 2 * _INT64 if 0 <= number < 2 * _INT64 else -1
