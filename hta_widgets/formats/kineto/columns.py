"""Decoded records become columns, slice by slice; no record outlives its slice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.problems import ProblemKind
from hta_widgets.trace.table import Ints
from hta_widgets.trace.table import RankColumns

from hta_widgets.formats.kineto.copies import Copies
from hta_widgets.formats.kineto.exact_time import BAD
from hta_widgets.formats.kineto.exact_time import OK
from hta_widgets.formats.kineto.exact_time import TOO_LARGE
from hta_widgets.formats.kineto.exact_time import Times
from hta_widgets.formats.kineto.exact_time import joined_texts
from hta_widgets.formats.kineto.exact_time import nanoseconds
from hta_widgets.formats.kineto.exact_time import resolution
from hta_widgets.formats.kineto.flow_ids import FlowIds
from hta_widgets.formats.kineto.growing import Codes
from hta_widgets.formats.kineto.growing import Column
from hta_widgets.readers.notes import Notes
from hta_widgets.formats.kineto.records import Args
from hta_widgets.formats.kineto.records import Record
from hta_widgets.formats.kineto.small_args import SmallArgs

__all__ = ["Columns", "SliceTimes"]

_M, _C = ord("M"), ord("C")


def _set_of(letters: str) -> npt.NDArray[np.bool_]:
    found = np.zeros(256, np.bool_)
    found[np.frombuffer(letters.encode(), np.uint8)] = True
    return found


_KNOWN = _set_of("XBEiIRCstfbneSTFM")
_WITH_ARGS = _set_of("MC")
_WITH_ID = _set_of("stfbneSTFC")
_INSTANTS = _set_of("iIR")
_THREAD_SCOPE = frozenset({None, "", "t"})
_INT64_MAX = (1 << 63) - 1
#: Numpy is called once for so many records: a slice has too few for what the calls cost.
_BATCH_RECORDS = 1 << 14
_PARTS = ("phase", "name", "category", "pid", "tid", "stream", "correlation", "record")

#: Times of a slice: converted, or as texts (`joined_texts`) with their number.
SliceTimes = Times | tuple[bytes, int]


class _Batch:
    """What was taken from the records of some slices and is not converted yet."""

    def __init__(self) -> None:
        self.count = 0
        self.parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _PARTS}
        self.start: list[SliceTimes] = []
        self.dur: list[SliceTimes] = []
        self.copies: list[tuple[int, Args]] = []  # row, what it states
        self.ids: list[tuple[int, Any]] = []  # row, id
        self.ends_at_next: list[int] = []
        self.scoped: list[tuple[int, str]] = []  # row, scope
        self.unknown_phase: dict[int, str] = {}
        self.first_rows: list[int] = []  # by slice
        self.bodies: list[Callable[[], Sequence[Any]]] = []
        self.offsets: list[Callable[[int], int]] = []

    def offset_of(self, row: int) -> int:
        """Return the byte offset in the file of the record at a row."""
        at = bisect_right(self.first_rows, row) - 1
        return self.offsets[at](row - self.first_rows[at])


class Columns:
    """Collects the records of one file.

    Parameters
    ----------
    notes : Notes
        Takes what is skipped and repaired.
    expected : int
        How many records there are, about.
    """

    def __init__(self, notes: Notes, expected: int = 0) -> None:
        self.notes = notes
        self._names, self._categories = Codes(), Codes()
        self._pids, self._tids = Codes(), Codes()
        self._flow_ids = FlowIds()
        self._copies = Copies()
        self._columns = {
            name: Column(dtype, expected)
            for name, dtype in (
                ("phase", np.uint8),
                ("start_ns", np.int64),
                ("dur_ns", np.int64),
                ("name", np.int32),
                # As narrow as what they hold allows.
                ("category", np.int16),
                ("pid", np.int16),
                ("tid", np.int16),
                ("stream", np.int16),
                ("correlation", np.int32),
                ("flow", np.int32),
                ("record", np.int32),
            )
        }
        self._small_args = SmallArgs()
        self._ends_at_next: list[int] = []
        self._scope: dict[int, str] = {}
        self._resolution_ns = 1000
        self._based = 0
        self._batch = _Batch()

    def append(
        self,
        records: Sequence[Record],
        numbers: Ints,
        bodies: Callable[[], Sequence[Any]],
        offset_of: Callable[[int], int],
        times: tuple[SliceTimes, SliceTimes] | None = None,
    ) -> None:
        """Take over a slice's records.

        Parameters
        ----------
        records : sequence of Record
        numbers : int64 array
            Their positions in the file's list of events.
        bodies : callable
            Gives the JSON text of each, if it is asked for.
        offset_of : callable
            Gives the byte offset in the file of the record at a position of `records`.
        times : pair of SliceTimes, optional
            Starts and durations, where they are converted already.
        """
        if not records:
            return
        batch, first = self._batch, self._batch.count
        phase = _phases(records)
        args = [record.args for record in records]
        stream = _integers([-1 if arg is None else arg.stream for arg in args], np.int32)
        found: dict[str, npt.NDArray[Any]] = {
            "phase": phase,
            "name": self._names.of([record.name for record in records]),
            "category": self._categories.of([record.cat for record in records]),
            "pid": self._pids.of([record.pid for record in records]),
            "tid": self._tids.of([record.tid for record in records]),
            "stream": stream,
            "correlation": _integers(
                [-1 if arg is None else arg.correlation for arg in args], np.int64
            ),
            "record": numbers,
        }
        for name, values in found.items():
            batch.parts[name].append(values)
        start, dur = times or (
            (joined_texts([record.ts for record in records]), len(records)),
            (joined_texts([record.dur for record in records]), len(records)),
        )
        batch.start.append(start)
        batch.dur.append(dur)
        for row in np.flatnonzero(stream != -1).tolist():
            said = args[row]
            if said is not None and (len(said.bandwidth) or len(said.bytes)):
                batch.copies.append((first + row, said))
        self._take_special(records, phase, first)
        batch.first_rows.append(first)
        batch.bodies.append(bodies)
        batch.offsets.append(offset_of)
        batch.count += len(records)
        if batch.count >= _BATCH_RECORDS:
            self._flush()

    def _take_special(
        self, records: Sequence[Record], phase: npt.NDArray[np.uint8], first: int
    ) -> None:
        """Note ids, bindings and scopes of the few records that have any."""
        batch = self._batch
        special = _WITH_ID[phase] | _INSTANTS[phase] | ~_KNOWN[phase]
        for row in np.flatnonzero(special).tolist():
            record, code = records[row], phase[row]
            if _WITH_ID[code]:
                batch.ids.append((first + row, record.id))
                if record.ph == "f" and record.bp != "e":
                    batch.ends_at_next.append(first + row)
            elif not _INSTANTS[code]:
                batch.unknown_phase[first + row] = record.ph
            elif record.s not in _THREAD_SCOPE:
                batch.scoped.append((first + row, record.s or ""))

    def _flush(self) -> None:
        """Convert the records taken so far and append them to the columns."""
        batch, self._batch = self._batch, _Batch()
        if not batch.count:
            return
        parts = {name: np.concatenate(found) for name, found in batch.parts.items()}
        phase = parts["phase"]
        start, start_state = _joined_times(batch.start)
        dur, dur_state = _joined_times(batch.dur)
        is_metadata = phase == _M
        keep = _KNOWN[phase]
        if start_state is not None:
            keep &= is_metadata | (start_state == OK)
        if not keep.all():
            self._note_skipped(batch, phase, start_state, keep)
        if dur_state is not None:
            self._note_durations(batch, dur_state, keep)
            dur[dur_state != OK] = -1
        negative = dur < 0
        if dur_state is not None:
            negative &= dur_state == OK
        if negative.any():
            dur[negative] = 0
            self._note_repaired(batch, negative & keep, "negative durations, taken as 0")
        self._note_resolution(start, dur, dur_state, keep & ~is_metadata)
        for row, said in batch.copies:
            if keep[row]:
                self._copies.add(int(parts["record"][row]), said)
        flow = np.full(batch.count, -1, np.int64)
        flow[[row for row, _ in batch.ids]] = self._flow_ids.codes([id_ for _, id_ in batch.ids])
        parts.update(start_ns=start, dur_ns=dur, flow=flow)
        everything = bool(keep.all())
        row_of = self._columns["record"].size - 1 + np.cumsum(keep)
        for name, column in self._columns.items():
            column.extend(parts[name] if everything else parts[name][keep])
        self._ends_at_next.extend(int(row_of[row]) for row in batch.ends_at_next if keep[row])
        self._scope.update((int(row_of[row]), scope) for row, scope in batch.scoped if keep[row])
        self._keep_small_args(batch, np.flatnonzero(keep & _WITH_ARGS[phase]), parts["record"])

    @property
    def rows(self) -> int:
        """How many records were kept so far."""
        self._flush()
        return self._columns["record"].size

    @property
    def started(self) -> bool:
        """Whether any record was taken."""
        return bool(self._batch.count or self._columns["record"].size)

    def add_base(self, base_ns: int) -> None:
        """Shift the records taken since the last call by the file's own base time."""
        self._flush()
        start = self._columns["start_ns"].filled(self._based)
        self._based = self.rows
        if not base_ns or not len(start):
            return
        if not (
            int(start.min()) + base_ns >= -_INT64_MAX and int(start.max()) + base_ns <= _INT64_MAX
        ):
            self.notes.add("overflow", "baseTimeNanoseconds is too large and was left out", None)
            return
        start += base_ns

    def finish(self) -> RankColumns:
        """Return the columns."""
        self._flush()
        columns = {name: column.filled() for name, column in self._columns.items()}
        columns["flow"], flow_ids = self._flow_ids.finish(columns["flow"])
        self._columns = {}
        return RankColumns(
            **columns,
            timed=columns["phase"] != _M,
            names=self._names.pool,
            categories=self._categories.pool,
            pids=self._pids.pool,
            tids=self._tids.pool,
            flow_ids=flow_ids,
            small_args=self._small_args,
            resolution_ns=self._resolution_ns,
            ends_at_next=np.array(self._ends_at_next, np.int64),
            scope=self._scope,
            copies=self._copies.finish(),
        )

    def _keep_small_args(self, batch: _Batch, rows: npt.NDArray[np.intp], numbers: Ints) -> None:
        slice_of = np.searchsorted(batch.first_rows, rows, side="right") - 1
        for number in np.unique(slice_of).tolist():
            texts, first = batch.bodies[number](), batch.first_rows[number]
            for row in rows[slice_of == number].tolist():
                self._small_args.add(int(numbers[row]), texts[row - first])

    def _note_resolution(
        self,
        start: Ints,
        dur: Ints,
        dur_state: npt.NDArray[Any] | None,
        timed: npt.NDArray[np.bool_],
    ) -> None:
        if self._resolution_ns == 1 or not timed.any():
            return
        has_dur = timed if dur_state is None else timed & (dur_state == OK)
        step = resolution(start[timed], dur[has_dur])
        self._resolution_ns = min(self._resolution_ns, step)

    def _note_skipped(
        self,
        batch: _Batch,
        phase: npt.NDArray[np.uint8],
        start_state: npt.NDArray[np.uint8] | None,
        keep: npt.NDArray[np.bool_],
    ) -> None:
        for row in np.flatnonzero(~keep).tolist():
            kind: ProblemKind = "skipped"
            if not _KNOWN[phase[row]]:
                letter = batch.unknown_phase[row]
                reason = f"records of phase {letter!r}" if letter else "records without a phase"
            elif start_state is not None and start_state[row] == TOO_LARGE:
                kind, reason = "overflow", "records whose time is beyond 64 bits"
            elif start_state is not None and start_state[row] == BAD:
                reason = "records whose time is not a number"
            else:
                reason = "records without a time"
            known = self.notes.knows(kind, reason)
            self.notes.add(kind, reason, None if known else batch.offset_of(row))

    def _note_durations(
        self, batch: _Batch, state: npt.NDArray[np.uint8], keep: npt.NDArray[np.bool_]
    ) -> None:
        for code, reason in (
            (BAD, "durations that are not numbers, taken as missing"),
            (TOO_LARGE, "durations beyond 64 bits, taken as missing"),
        ):
            self._note_repaired(batch, (state == code) & keep, reason)

    def _note_repaired(self, batch: _Batch, where: npt.NDArray[np.bool_], reason: str) -> None:
        rows = np.flatnonzero(where)
        if len(rows):
            self.notes.add("repaired", reason, batch.offset_of(int(rows[0])), len(rows))


def _joined_times(parts: Sequence[SliceTimes]) -> Times:
    """Return the times of several slices. Texts of slices in a row are parsed together."""
    found: list[Times] = []
    for is_converted, run in groupby(parts, lambda part: isinstance(part, Times)):
        if is_converted:
            found += cast("Iterable[Times]", run)
        else:
            texts, counts = zip(*cast("Iterable[tuple[bytes, int]]", run), strict=True)
            found.append(nanoseconds(b",".join(texts), sum(counts)))
    ns = np.concatenate([times.ns for times in found])
    if all(times.state is None for times in found):
        return Times(ns, None)
    states = [np.zeros(len(ns), np.uint8) if state is None else state for ns, state in found]
    return Times(ns, np.concatenate(states))


def _phases(records: Sequence[Record]) -> npt.NDArray[np.uint8]:
    letters = [record.ph for record in records]
    count = len(letters)
    text = ",".join(letters)
    if len(text) != 2 * count - 1 or not text.isascii() or text[1::2].strip(","):
        text = ",".join(
            letter if len(letter) == 1 and letter.isascii() else "\0" for letter in letters
        )
    return np.frombuffer(text.encode(), np.uint8)[::2]


def _integers(values: list[Any], dtype: Any) -> npt.NDArray[Any]:
    try:
        return np.fromiter(values, dtype, len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_wrapped(value, dtype) for value in values], dtype)


def _wrapped(value: Any, dtype: Any) -> int:
    """Ids beyond the type keep their bits; what is no integer is as good as absent."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        return -1
    bits = 8 * np.dtype(dtype).itemsize
    if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        return number
    return number - (1 << bits) if 0 <= number < 1 << bits else -1
