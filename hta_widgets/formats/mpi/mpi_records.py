"""The records of mpitrace's binary time lines: 48 bytes each, in either byte order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.formats.mpi.mpi_names import IO_FROM
from hta_widgets.formats.mpi.mpi_names import MPI_CATEGORY
from hta_widgets.formats.mpi.mpi_names import MPI_IO_CATEGORY
from hta_widgets.formats.mpi.mpi_names import ROOT_RECEIVES
from hta_widgets.formats.mpi.mpi_names import ROOT_SENDS
from hta_widgets.formats.mpi.mpi_names import ROUTINES
from hta_widgets.trace.numbered_records import NumberedRecords
from hta_widgets.trace.table import Ints

from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.readers.streams import open_stream

__all__ = [
    "RECORD_BYTES",
    "TimeLineRecords",
    "dtype_of_order",
    "looks_valid",
    "naming",
    "nanoseconds",
]

RECORD_BYTES = 48
_MOST_RANKS = 1 << 24
_LONGEST_S = 1e9
_RECEIVES = frozenset(
    ROUTINES.index(f"MPI_{name}") for name in ("Recv", "Irecv", "Recv_init", "Probe", "Iprobe")
)
_SENDS = frozenset(range(ROUTINES.index("MPI_Send"), ROUTINES.index("MPI_Recv_init")))
_ROOT_SENDS = frozenset(ROUTINES.index(name) for name in ROOT_SENDS)
_ROOT_RECEIVES = frozenset(ROUTINES.index(name) for name in ROOT_RECEIVES)


def dtype_of_order(order: str) -> np.dtype[Any]:
    """Return the layout of a record; `order` is ``<`` or ``>``."""
    return np.dtype(
        [
            ("begin_s", f"{order}f8"),
            ("end_s", f"{order}f8"),
            ("rank", f"{order}i4"),
            ("routine", f"{order}i4"),
            # Of file operations both together are the offset, low word first in either order:
            # what swaps a file's bytes does so word by word.
            ("source", f"{order}i4"),
            ("target", f"{order}i4"),
            ("bytes", f"{order}i4"),
            ("caller", f"{order}u4"),
            ("callers_caller", f"{order}u4"),
            ("is_io", f"{order}i4"),
        ]
    )


def looks_valid(records: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which records can be what a time line holds."""
    begin, end = records["begin_s"], records["end_s"]
    with np.errstate(invalid="ignore"):
        timed = np.isfinite(begin) & np.isfinite(end) & (begin >= 0) & (end >= begin)
        timed &= end < _LONGEST_S
        # Doubles made of bytes in the wrong order are tiny more often than they are large.
        timed &= ((begin == 0) | (begin > 1e-12)) & ((end == 0) | (end > 1e-12))
    routine, rank = records["routine"], records["rank"]
    known = (routine >= 0) & (routine < len(ROUTINES)) & (rank >= 0) & (rank < _MOST_RANKS)
    return np.asarray(timed & known)


def _micros(time_ns: int) -> str:
    """Write a time in µs, exactly."""
    whole, rest = divmod(time_ns, 1000)
    return f"{whole}.{rest:03d}" if rest else str(whole)


def nanoseconds(seconds: npt.NDArray[Any]) -> Ints:
    """Return times as whole nanoseconds."""
    found: Ints = np.rint(seconds * 1e9).astype(np.int64)
    return found


class TimeLineRecords(NumberedRecords):
    """Gives the records of one rank as JSON objects, read from the file when asked for.

    Further ones, behind the events, name the process and its tracks.

    Parameters
    ----------
    path : str
    numbers : array of int
        Positions of the rank's records in the file.
    order : str
        ``<`` or ``>``.
    rank : int
    state : FileState
        Of the file when it was read.
    has_io : bool
        Whether any of the calls works on files.
    """

    def __init__(
        self, path: str, numbers: Ints, order: str, rank: int, state: FileState, *, has_io: bool
    ) -> None:
        self.path = path
        info = {"backend": "mpi", "rank": rank}
        self.metadata_text = {"distributedInfo": json.dumps(info).encode()}
        self._first, self._count = (int(numbers[0]) if len(numbers) else 0), len(numbers)
        # Ranks follow one another in genuine files, so a range says it all.
        apart = len(numbers) and int(numbers[-1]) - self._first + 1 != len(numbers)
        self._numbers = numbers if apart else None
        self._order, self._rank, self._state = order, rank, state
        self._has_io = has_io
        self._named = naming(rank, has_io=has_io)

    def __len__(self) -> int:
        return self._count + len(self._named)

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        events = wanted[wanted < self._count]
        if len(events):
            yield from zip(events.tolist(), self._texts(self._read(events)), strict=True)
        for index in wanted[wanted >= self._count].tolist():
            yield index, json.dumps(self._named[index - self._count]).encode()

    def arg_columns(self, records: Ints, keys: Sequence[str]) -> dict[str, list[int | None]] | None:
        """Return some args of some events, in the order asked for; None if others are wanted."""
        if not set(keys) <= {"bytes", "root"} or (len(records) and records.max() >= self._count):
            return None
        wanted, place = np.unique(records, return_inverse=True)
        told = self._read(wanted) if len(wanted) else np.empty(0, dtype_of_order(self._order))
        told = told[place.reshape(-1)]
        routine, none = told["routine"], np.full(len(told), -1, np.int64)
        root = np.where(np.isin(routine, list(_ROOT_SENDS)), told["source"], none)
        root = np.where(np.isin(routine, list(_ROOT_RECEIVES)), told["target"], root)
        values = {"bytes": told["bytes"], "root": root}
        return {
            key: [None if value == -1 else value for value in values[key].tolist()] for key in keys
        }

    def _read(self, events: Ints) -> npt.NDArray[Any]:
        numbers = events + self._first if self._numbers is None else self._numbers[events]
        try:
            same = FileState.of(self.path) == self._state
        except OSError:
            same = False
        if not same:
            raise TraceError(
                "was changed or removed after it was loaded, so the details of its events cannot"
                " be read",
                path=self.path,
                remedy="Put the file back, or load it again.",
            )
        low, high = int(numbers.min()), int(numbers.max()) + 1
        with open_stream(self.path, low * RECORD_BYTES) as stream:
            text = stream.exactly((high - low) * RECORD_BYTES)
        records = np.frombuffer(text, dtype_of_order(self._order))
        return records[numbers - low]

    def _texts(self, records: npt.NDArray[Any]) -> Iterator[bytes]:
        start = nanoseconds(records["begin_s"])
        dur = nanoseconds(records["end_s"]) - start
        columns = (
            records[name].tolist()
            for name in (
                "routine", "source", "target", "bytes", "caller", "callers_caller", "is_io",
            )
        )  # fmt: skip
        for begin, length, routine, source, target, size, caller, above, io in zip(
            start.tolist(), dur.tolist(), *columns, strict=True
        ):
            category, tid = (MPI_IO_CATEGORY, 1) if routine >= IO_FROM else (MPI_CATEGORY, 0)
            args = _args(routine, source, target, size, io=bool(io))
            if caller:
                args["caller"] = f"0x{caller:08x}"
            if above:
                args["callers_caller"] = f"0x{above:08x}"
            yield (
                f'{{"ph": "X", "cat": "{category}", "name": "{ROUTINES[routine]}", '
                f'"pid": {self._rank}, "tid": {tid}, '
                f'"ts": {_micros(begin)}, "dur": {_micros(length)}, "args": {json.dumps(args)}}}'
            ).encode()


def _args(routine: int, source: int, target: int, size: int, *, io: bool) -> dict[str, Any]:
    """Return what a record says besides its times; -1 stands for nothing."""
    args: dict[str, Any] = {}
    if size != -1:
        args["bytes"] = size
    # Older writers leave the last word as it was, so it counts for file operations alone.
    if routine >= IO_FROM:
        offset = (target << 32) | (source & 0xFFFFFFFF)
        if io and offset != -1:
            args["offset"] = offset
        return args
    if source != -1:
        args["src"] = source
    if target != -1:
        args["dest"] = target
    if routine in _ROOT_SENDS and source != -1:
        args["root"] = source
    elif routine in _ROOT_RECEIVES and target != -1:
        args["root"] = target
    elif routine in _SENDS and target != -1:
        args["peer"] = target
    elif routine in _RECEIVES and source != -1:
        args["peer"] = source
    return args


def naming(rank: int, *, has_io: bool) -> tuple[dict[str, Any], ...]:
    """Return the records that name the process and its tracks; file calls have one of their own."""
    at = {"ph": "M", "pid": rank, "tid": 0}
    named: tuple[dict[str, Any], ...] = (
        {"name": "process_name", **at, "args": {"name": "MPI"}},
        {"name": "thread_name", **at, "args": {"name": "calls"}},
    )
    files = {**at, "tid": 1, "name": "thread_name", "args": {"name": "file calls"}}
    return (*named, files) if has_io else named
