"""The matched collectives of a job, as a page needs them: for all ranks, whatever else it holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.export.blocks import Block
from hta_widgets.export.blocks import ColumnWriter
from hta_widgets.export.full_rank import place_of_track
from hta_widgets.export.names import Names
from hta_widgets.tiles.layout import Job
from hta_widgets.trace.intervals import Covered
from hta_widgets.trace.table import Pool
from hta_widgets.tiles.lateness import Lateness

__all__ = ["Collectives"]

#: Pages count no further than this.
_LARGEST = (1 << 53) - 1
#: Bandwidths of the algorithm and of the bus differ by simple fractions: the last digit is noise.
_DIGITS = 15

Ints = npt.NDArray[np.int64]


class Collectives:
    """Which events wait for which, in the page's document and in a block of their own.

    Parameters
    ----------
    job : Job
    lateness : callable
        Gives the matched collectives; called where there are lanes of them.
    names : Names
        Takes up the events' names.

    Attributes
    ----------
    header : dict
        What the page's document says of them.
    blocks : list of Block
        Empty where nothing is matched.
    lateness : Lateness or None
        Where anything is.
    """

    def __init__(self, job: Job, lateness: Callable[[], Lateness], names: Names) -> None:
        self.lateness: Lateness | None = None
        self.blocks: list[Block] = []
        self.header: dict[str, Any] = {"note": "", "columns": {}}
        try:
            found = lateness()
        except (OSError, ValueError, LookupError) as error:
            # Arguments are read from the files, which may be gone by now.
            self.header["note"] = str(error) or type(error).__name__
            return
        self.header["note"] = found.note
        frame = found.frame
        if not len(frame):
            return
        self.lateness = found
        self.header["late"] = found.late
        writer = ColumnWriter()
        _entries(writer, job, frame, names)
        self.header |= _calls(writer, frame)
        ranks = frame["rank"].to_numpy()
        self.header["counts"] = [int((ranks == rank.rank).sum()) for rank in job.ranks]
        self.header["columns"] = writer.specs
        self.blocks.append(writer.block("collectives"))

    @property
    def size_bytes(self) -> int:
        """What the block adds to the page."""
        return sum(block.size_bytes for block in self.blocks)

    def late(self, start: int, end: int) -> list[int]:
        """Return the ranks that the others wait for in a window."""
        return [] if self.lateness is None else self.lateness.within(start, end)["late"]

    def exposed_wait(self, rank: int) -> Covered | None:
        """Return when a rank waits and computes nothing, as users see times; None if never."""
        return None if self.lateness is None else self.lateness.rank(rank).exposed


def _entries(writer: ColumnWriter, job: Job, frame: pd.DataFrame, names: Names) -> None:
    """Write one entry per event, by rank and start."""

    def column(name: str) -> Ints:
        values: Ints = frame[name].to_numpy(np.int64)
        return values

    track, name = np.empty(len(frame), np.int64), np.empty(len(frame), np.int64)
    ranks, rows = column("rank"), column("id")
    for rank in job.ranks:
        mine = np.flatnonzero(ranks == rank.rank)
        table = rank.table
        track[mine] = _mapped(table.track[rows[mine]], partial(place_of_track, rank))
        name[mine] = _mapped(table.name[rows[mine]], partial(_pooled, names, table.names))
    size = column("size_bytes")
    writer.ints("call", column("call"), delta=True)
    writer.ints("id", rows, delta=True)
    writer.ints("start", column("start_ns"), delta=True)
    writer.ints("dur", column("dur_ns"))
    writer.ints("wait", column("wait_ns"))
    writer.ints("transfer_added", column("transfer_ns") - column("dur_ns") + column("wait_ns"))
    # On the clock that collectives were matched by, which differs by a constant.
    writer.ints("clock", column("arrival_ns") - column("start_ns"), delta=True)
    writer.ints("late", column("late_ns"))
    writer.ints("imposed", column("imposed_ns"))
    writer.ints("size", np.where(size <= _LARGEST, size, -1))
    writer.ints("track", track)
    writer.ints("name", name)


def _pooled(names: Names, own: Pool, code: int) -> int:
    return names.names.add(own[code])


def _mapped(values: npt.NDArray[Any], what: Callable[[int], int]) -> Ints:
    """Return `what` of each value, asked once for each that there is."""
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([what(value) for value in distinct.tolist()], np.int64)[inverse]


def _calls(writer: ColumnWriter, frame: pd.DataFrame) -> dict[str, Any]:
    """Write what all members of a collective share; return the names that it refers to."""
    # Members are in order of their ranks: the first of each speaks for all, as in `Lateness`.
    row_of_call = frame.drop_duplicates("call").sort_values("call").index.to_numpy()
    header: dict[str, Any] = {}
    place: dict[str, Ints] = {}
    for field, plural in (("name", "names"), ("group", "groups")):
        # Sorted, as the answers of `Ribbon` name them.
        codes, texts = pd.factorize(frame[field].astype(str), sort=True)
        place[field] = codes.astype(np.int64)
        writer.ints(f"call_{field}", place[field][row_of_call])
        header[plural] = [str(text) for text in texts]
    # Ranks may name one call differently; nearly always these are zeros.
    shared = place["name"][row_of_call][frame["call"].to_numpy(np.int64)]
    writer.ints("call_name_added", place["name"] - shared)
    first = frame.iloc[row_of_call]
    writer.ints("call_last_rank", first["last_rank"].to_numpy(np.int64))
    factor = frame["busbw_gb_s"] / frame["algbw_gb_s"]
    of_call = factor.groupby(frame["call"]).max()
    writer.floats("call_bus_factor", np.round(of_call.to_numpy(np.float64), _DIGITS))
    return header
