"""The lanes of the timeline: their numbers, their order, and what each of them holds."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from hta_widgets.tiles.asyncs import AsyncGroup
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.table import EventTable

__all__ = ["Job", "LaneRef", "LaneRole", "Rank", "SummaryRole", "SummaryRow", "TrackRow"]

SummaryRole = Literal["gpu", "comm", "cpu"]
LaneRole = Literal["events", "gpu", "comm", "cpu", "counter", "async", "instant", "wait", "late"]


@dataclass(slots=True, frozen=True)
class LaneRef:
    """What a lane holds.

    Parameters
    ----------
    role : str
    sources : tuple of int
        For ``events`` and ``cpu`` positions in the table's tracks; of counters the series, of
        asyncs and instants the group; for ``wait`` and ``late`` the track whose collectives they
        are of, none for those of all tracks.
    depth : int
        Depth of the events, or layer of the asyncs.
    spilled : bool
        Whether the lane is there because its events overlap others without nesting.
    annotations : bool
        Whether a ``cpu`` lane holds annotations as well.
    """

    role: LaneRole
    sources: tuple[int, ...] = ()
    depth: int = 0
    spilled: bool = False
    annotations: bool = False


@dataclass(slots=True)
class SummaryRow:
    """A lane of the folded rank; `tracks` and `annotations` as in `LaneRef`."""

    lane: int
    role: SummaryRole
    label: str
    tracks: tuple[int, ...] = ()
    annotations: bool = False
    #: Lanes of the waits and of the late arrivals in a lane of communication, -1 for none.
    wait: int = -1
    late: int = -1

    @property
    def ref(self) -> LaneRef:
        """What the lane holds."""
        return LaneRef(self.role, self.tracks, annotations=self.annotations)


@dataclass(slots=True)
class TrackRow:
    """A track with the lanes ``lane0 … lane0 + lanes - 1``; the fields are the scene's.

    Which lanes these are, and which lie over them, is told when all rows above are known.
    """

    key: str
    process: str
    label: str
    role: str
    lane0: int
    source: int  # position of the track, the series or the group
    events: int
    stream: int = -1
    lanes: int = 1
    nested: int = 1
    communication: bool = False
    range: tuple[float, float] | None = None
    unit: str = ""
    wait: int = -1
    late: int = -1


@dataclass(slots=True)
class Rank:
    """One rank's lanes, and what they are filled from."""

    rank: int
    trace: Trace
    #: First start and last end of its events, or of what it has instead of events.
    range_ns: tuple[int, int]
    table: EventTable  # as it was laid out: kinds may change later, the scene does not
    lane0: int
    summary: list[SummaryRow]
    tracks: list[TrackRow]
    steps: npt.NDArray[np.intp]  # rows of its ProfilerSteps on the host
    async_groups: list[AsyncGroup]
    instant_groups: list[npt.NDArray[np.intp]]
    #: By position in the table's tracks: first lane of its events.
    track_lane0: npt.NDArray[np.int64]
    #: What the lanes behind those of its tracks hold; they are drawn over lanes of communication.
    overlays: list[LaneRef]
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [row.lane0 for row in self.tracks]

    @property
    def lanes(self) -> int:
        """How many lanes it has."""
        return len(self.summary) + sum(row.lanes for row in self.tracks) + len(self.overlays)

    @property
    def shift_ns(self) -> int:
        """To be added to the table's times for those that users see."""
        return self.trace.shift_ns

    def ref(self, lane: int) -> LaneRef:
        """Return what one of this rank's lanes holds."""
        offset = lane - self.lane0
        if offset < len(self.summary):
            return self.summary[offset].ref
        overlay = offset - (self.lanes - len(self.overlays))
        if overlay >= 0:
            return self.overlays[overlay]
        track = self.tracks[bisect_right(self._starts, lane) - 1]
        depth = lane - track.lane0
        match track.role:
            case "counter" | "async" | "instant":
                return LaneRef(track.role, (track.source,), depth)
            case _:
                return LaneRef("events", (track.source,), depth, depth >= track.nested)


@dataclass(slots=True)
class Job:
    """All ranks, in order of their number."""

    ranks: list[Rank]
    _starts: list[int] = field(init=False)
    _by_rank: dict[int, Rank] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [rank.lane0 for rank in self.ranks]
        self._by_rank = {rank.rank: rank for rank in self.ranks}

    @property
    def lanes(self) -> int:
        """How many lanes all ranks have."""
        return self.ranks[-1].lane0 + self.ranks[-1].lanes if self.ranks else 0

    @property
    def has_waits(self) -> bool:
        """Whether there are lanes of waits, whatever is on them."""
        return any(rank.overlays for rank in self.ranks)

    def of_lane(self, lane: int) -> Rank:
        """Return the rank that a lane belongs to."""
        if not 0 <= lane < self.lanes:
            raise ValueError(f"no lane {lane}; lanes go from 0 to {self.lanes - 1}")
        return self.ranks[bisect_right(self._starts, lane) - 1]

    def of_rank(self, number: int) -> Rank:
        """Return a rank by its number."""
        try:
            return self._by_rank[number]
        except KeyError:
            raise ValueError(f"no rank {number}") from None
