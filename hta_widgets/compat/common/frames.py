"""The frames of a `Trace`, and what users changed in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError

__all__ = ["REMEDY", "Frames"]

Ints = npt.NDArray[np.intp]

REMEDY = (
    "Analyses read the trace, not the frames: they leave out rows and ranks that are dropped from"
    " `traces`, but cannot take other values. Change a copy, get_trace(rank).copy(), and compute on"
    " that; or change the file (get_raw_trace_for_one_rank, write_raw_trace) and load it."
)

_ADDED = ["s_name", "s_cat"]  # by `Trace.decode_symbol_ids`
_COPY_ON_WRITE = int(pd.__version__.split(".")[0]) >= 3


class Frames(MutableMapping[int, pd.DataFrame]):
    """A frame per rank, each built when it is first asked for, and then kept.

    `originals` are the frames as they were built: under pandas' copy-on-write the same memory
    until one of them is changed.
    """

    def __init__(self, ranks: Iterable[int], build: Callable[[int], pd.DataFrame]) -> None:
        self._frames: dict[int, pd.DataFrame | None] = dict.fromkeys(ranks)
        self._build = build
        self.originals: dict[int, pd.DataFrame] = {}

    def __getitem__(self, rank: int) -> pd.DataFrame:
        frame = self._frames[rank]
        if frame is None:
            frame = self.original(rank)
            frame = self._frames[rank] = frame.copy(deep=not _COPY_ON_WRITE)
        return frame

    def original(self, rank: int) -> pd.DataFrame:
        """Return a rank's frame as it is built."""
        if rank not in self.originals:
            self.originals[rank] = self._build(rank)
        return self.originals[rank]

    def __setitem__(self, rank: int, frame: pd.DataFrame) -> None:
        self._frames[rank] = frame

    def __delitem__(self, rank: int) -> None:
        del self._frames[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def built(self) -> dict[int, pd.DataFrame]:
        """Return the frames that are there already."""
        return {rank: frame for rank, frame in self._frames.items() if frame is not None}

    def dropped(self, rank: int, frame: pd.DataFrame) -> Ints:
        """Return the places of the rows that a rank's frame does not hold any more.

        Raises
        ------
        TraceError
            Where rows were added, or values are others than when the frame was built.
        """
        built = self.original(rank)
        place = pd.Index(frame["index"] if "index" in frame.columns else frame.index)
        whole = place.equals(built.index)
        at = np.arange(len(built)) if whole else built.index.get_indexer(place)
        if (at < 0).any() or len(np.unique(at)) < len(at):
            raise TraceError(f"events were added to the frame of rank {rank}", remedy=REMEDY)
        changed = [
            column
            for column in built.columns.difference(_ADDED, sort=False)
            if column not in frame.columns
            or not _same(frame[column], built[column], None if whole else at)
        ]
        if changed:
            raise TraceError(
                f"the frame of rank {rank} was changed: {', '.join(map(repr, changed))}",
                remedy=REMEDY,
            )
        return np.setdiff1d(np.arange(len(built)), at, assume_unique=True)


def _same(frame: pd.Series[Any], built: pd.Series[Any], at: Ints | None) -> bool:
    """Tell whether a column holds what it held when it was built, there at the places `at`."""
    now, then = frame.to_numpy(), built.to_numpy()
    if at is None and now.__array_interface__["data"] == then.__array_interface__["data"]:
        return True  # the same memory
    if at is not None:
        then = then[at]
    if now.dtype.kind in "biuf" and then.dtype.kind in "biuf":
        return np.array_equal(now, then, equal_nan=True)
    return now.tolist() == then.tolist()
