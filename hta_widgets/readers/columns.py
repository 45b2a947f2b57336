"""Decoded records become columns, slice by slice; no record outlives its slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.model.table import Ints, RankColumns

from .copies import Copies
from .exact_time import BAD, OK, TOO_LARGE, nanoseconds, resolution
from .flow_ids import FlowIds
from .growing import Codes, Column
from .notes import Notes
from .records import Record
from .small_args import SmallArgs

__all__ = ["Columns"]

_PHASES = "XBEiIRCstfbneSTFM"
_M, _C, _F = ord("M"), ord("C"), ord("f")
_KNOWN = np.zeros(256, np.bool_)
_KNOWN[np.frombuffer(_PHASES.encode(), np.uint8)] = True
_WITH_ARGS = np.zeros(256, np.bool_)
_WITH_ARGS[[_M, _C]] = True
_WITH_ID = np.zeros(256, np.bool_)
_WITH_ID[np.frombuffer(b"stfbneSTFC", np.uint8)] = True
_IS_INSTANT = np.zeros(256, np.bool_)
_IS_INSTANT[np.frombuffer(b"iIR", np.uint8)] = True
_THREAD_SCOPE = frozenset({None, "", "t"})
_INT64_MAX = (1 << 63) - 1


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

    def append(
        self,
        records: Sequence[Record],
        numbers: Ints,
        bodies: Callable[[], Sequence[Any]],
        offset_of: Callable[[int], int],
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
        """
        if not records:
            return
        phase = _phases(records)
        start, start_state = nanoseconds([record.ts for record in records])
        dur, dur_state = nanoseconds([record.dur for record in records])
        is_metadata = phase == _M
        keep = _KNOWN[phase]
        if start_state is not None:
            keep &= is_metadata | (start_state == OK)
        if not keep.all():
            self._note_skipped(records, phase, start_state, keep, offset_of)
        if dur_state is not None:
            self._note_durations(dur_state, keep, offset_of)
            dur[dur_state != OK] = -1
        negative = dur < 0
        if dur_state is not None:
            negative &= dur_state == OK
        if negative.any():
            self._repair_negative(dur, negative, keep, offset_of)
        self._note_resolution(start, dur, dur_state, keep & ~is_metadata)

        args = [record.args for record in records]
        joined = np.flatnonzero(_WITH_ID[phase])
        stream = _integers([-1 if arg is None else arg.stream for arg in args], np.int32)
        self._copies.take(args, np.flatnonzero(keep & (stream != -1)), numbers)
        flow = np.full(len(records), -1, np.int64)
        flow[joined] = self._flow_ids.codes([records[row].id for row in joined.tolist()])
        columns: dict[str, npt.NDArray[Any]] = {
            "phase": phase,
            "start_ns": start,
            "dur_ns": dur,
            "name": self._names.of([record.name for record in records]),
            "category": self._categories.of([record.cat for record in records]),
            "pid": self._pids.of([record.pid for record in records]),
            "tid": self._tids.of([record.tid for record in records]),
            "stream": stream,
            "correlation": _integers(
                [-1 if arg is None else arg.correlation for arg in args], np.int64
            ),
            "flow": flow,
            "record": numbers,
        }
        everything = bool(keep.all())
        first_row = self.rows
        for name, values in columns.items():
            self._columns[name].extend(values if everything else values[keep])
        self._keep_bindings(records, phase, keep, first_row)
        self._keep_small_args(np.flatnonzero(keep & _WITH_ARGS[phase]), numbers, bodies)

    @property
    def rows(self) -> int:
        """How many records were taken so far."""
        return self._columns["record"].size

    def add_base(self, base_ns: int) -> None:
        """Shift the records taken since the last call by the file's own base time."""
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

    def _keep_bindings(
        self,
        records: Sequence[Record],
        phase: npt.NDArray[np.uint8],
        keep: npt.NDArray[np.bool_],
        first_row: int,
    ) -> None:
        """Note what few flow ends and instants say of themselves."""
        ends = np.flatnonzero(keep & (phase == _F)).tolist()
        to_next = [place for place in ends if records[place].bp != "e"]
        instants = np.flatnonzero(keep & _IS_INSTANT[phase]).tolist()
        scoped = [place for place in instants if records[place].s not in _THREAD_SCOPE]
        if not to_next and not scoped:
            return
        row_of = first_row - 1 + np.cumsum(keep)
        self._ends_at_next.extend(row_of[to_next].tolist())
        for place in scoped:
            self._scope[int(row_of[place])] = records[place].s or ""

    def _keep_small_args(
        self, rows: npt.NDArray[np.intp], numbers: Ints, bodies: Callable[[], Sequence[Any]]
    ) -> None:
        if not len(rows):
            return
        texts = bodies()
        for row, number in zip(rows.tolist(), numbers[rows].tolist(), strict=True):
            self._small_args.add(number, texts[row])

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
        records: Sequence[Record],
        phase: npt.NDArray[np.uint8],
        start_state: npt.NDArray[np.uint8] | None,
        keep: npt.NDArray[np.bool_],
        offset_of: Callable[[int], int],
    ) -> None:
        for row in np.flatnonzero(~keep).tolist():
            kind = "skipped"
            if not _KNOWN[phase[row]]:
                letter = records[row].ph
                reason = f"records of phase {letter!r}" if letter else "records without a phase"
            elif start_state is not None and start_state[row] == TOO_LARGE:
                kind, reason = "overflow", "records whose time is beyond 64 bits"
            elif start_state is not None and start_state[row] == BAD:
                reason = "records whose time is not a number"
            else:
                reason = "records without a time"
            known = self.notes.knows(kind, reason)  # type: ignore[arg-type]
            self.notes.add(kind, reason, None if known else offset_of(row))  # type: ignore[arg-type]

    def _note_durations(
        self,
        state: npt.NDArray[np.uint8],
        keep: npt.NDArray[np.bool_],
        offset_of: Callable[[int], int],
    ) -> None:
        for code, reason in (
            (BAD, "durations that are not numbers, taken as missing"),
            (TOO_LARGE, "durations beyond 64 bits, taken as missing"),
        ):
            rows = np.flatnonzero((state == code) & keep)
            if len(rows):
                self.notes.add("repaired", reason, offset_of(int(rows[0])), len(rows))

    def _repair_negative(
        self,
        dur: Ints,
        negative: npt.NDArray[np.bool_],
        keep: npt.NDArray[np.bool_],
        offset_of: Callable[[int], int],
    ) -> None:
        dur[negative] = 0
        rows = np.flatnonzero(negative & keep)
        if len(rows):
            reason = "negative durations, taken as 0"
            self.notes.add("repaired", reason, offset_of(int(rows[0])), len(rows))


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
