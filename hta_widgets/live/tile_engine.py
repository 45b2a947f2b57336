"""Answers what the page asks: the one object between a `TraceSet` and what draws it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from hta_widgets.analysis.collectives import collectives
from hta_widgets.analysis.stragglers import judgement
from hta_widgets.analysis.totals import totals
from hta_widgets.tiles.lay_out import lay_out
from hta_widgets.tiles.layout import Job
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.turns import in_turns
from hta_widgets.tiles.briefs import checked_row
from hta_widgets.tiles.clusters import clusters
from hta_widgets.tiles.details import details
from hta_widgets.tiles.lateness import Lateness
from hta_widgets.tiles.marks import Members
from hta_widgets.tiles.marks import View
from hta_widgets.tiles.marks import marks
from hta_widgets.live.matched import matched
from hta_widgets.tiles.names import NameKeys
from hta_widgets.trace.patience import PENDING
from hta_widgets.trace.patience import Deadline
from hta_widgets.trace.patience import Gradual
from hta_widgets.trace.patience import Recent
from hta_widgets.tiles.rank_index import Budget
from hta_widgets.tiles.rank_index import Classes
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.ribbon import Ribbon
from hta_widgets.tiles.scene import describe
from hta_widgets.tiles.scene import whole_range
from hta_widgets.tiles.search import TABLES
from hta_widgets.tiles.search import Search
from hta_widgets.tiles.spots import cell
from hta_widgets.tiles.spots import neighbor
from hta_widgets.tiles.spots import snap
from hta_widgets.tiles.stats import DeviceTimes
from hta_widgets.tiles.stats import compute_of
from hta_widgets.tiles.stats import minimap
from hta_widgets.tiles.stats import stats
from hta_widgets.tiles.tile_op import Answer
from hta_widgets.tiles.tile_op import answer_tiles

__all__ = ["TileEngine"]

Request = Mapping[str, Any]

#: What indexed lanes may take: enough for each event once, within limits.
BYTES_PER_EVENT = 24
LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20
#: What does not tell one question from another.
_NOT_ASKED = frozenset(("rpc", "within_ms"))
#: So many answers are made at a time, or kept: several pages may ask.
_MOST_ANSWERS = 16
NO_WAITS = "there is no communication between ranks on their devices"


class TileEngine:
    """Tiles, figures and details of a job, made when they are asked for.

    Parameters
    ----------
    traces : TraceSet
        The job. Kinds are taken as they are now: rules added to the taxonomy later show in a
        new engine.

    Examples
    --------
    >>> engine = TileEngine(traces)
    >>> lanes = [row["lane"] for row in engine.scene()["ranks"][0]["summary"]]
    >>> reply, buffer = engine.answer(
    ...     {"op": "tiles", "level": 16, "parts": [{"lanes": lanes, "first": 0, "last": 8}]}
    ... )
    """

    def __init__(self, traces: TraceSet) -> None:
        # Pages are answered at once, whatever a cluster is busy with.
        self.traces = traces = traces.on(None)
        self.job: Job = lay_out(traces)
        events = sum(len(rank.table) for rank in self.job.ranks)
        self._budget = Budget(min(max(LEAST_BYTES, BYTES_PER_EVENT * events), MOST_BYTES))
        self._indices = {
            rank.rank: RankIndex(rank, self._budget, lambda: self.lateness)
            for rank in self.job.ranks
        }
        self._names = NameKeys()
        self._device = Gradual(lambda: DeviceTimes.steps(list(self._indices.values())))
        self._matched = Gradual(self._match)
        self._ribbons = Gradual(self._ribbon_steps)
        self._alike = Gradual(self._cluster_steps)
        #: Answers that are made little by little, by what was asked.
        self._answers: Recent[Answer] = Recent(_MOST_ANSWERS)
        self._search = Search(list(self._indices.values()))
        self._searchable = Gradual(lambda: in_turns(self._search.prepare))
        #: Gives a rank's events a class each, which tiles tell where the page asks for it.
        self.classes_of: Callable[[int], Classes | None] | None = None
        self._ops: dict[str, tuple[Callable[[Request], Answer], set[str]]] = {
            "tiles": (self._tiles, {"level", "parts"}),
            "stats": (self._stats, {"start", "end"}),
            "minimap": (self._minimap, {"bins"}),
            "event": (self._event, {"rank", "id"}),
            "cell": (self._cell, {"lane", "start", "end"}),
            "search": (self._summary, {"text"}),
            "find": (self._find, {"text"}),
            "marks": (self._marks, {"start", "end", "bins", "lanes"}),
            "totals": (self._totals, set()),
            "neighbor": (self._neighbor, {"rank", "id"}),
            "snap": (self._snap, {"lane", "time", "tolerance"}),
            "lateness": (self._late, {"start", "end"}),
            "collective": (self._collective, {"rank", "id"}),
            "ribbon": (self._ribbon, {"start", "end", "bins"}),
            "clusters": (self._clusters, set()),
        }

    def scene(self) -> dict[str, Any]:
        """Return what does not change with the view, as JSON values."""
        return self._scene

    @property
    def index_bytes(self) -> int:
        """What the lanes that are indexed now take; beyond a limit the oldest go."""
        return self._budget.used

    @cached_property
    def _scene(self) -> dict[str, Any]:
        return describe(self.job, self.traces)

    def answer(self, request: Request) -> Answer:
        """Answer one request of docs/protocol.md.

        Parameters
        ----------
        request : mapping
            With the name of the operation as ``op``.

        Returns
        -------
        reply : dict
            JSON values.
        buffer : bytes or None
            The columns that ``reply["columns"]`` names.

        Raises
        ------
        ValueError
            If there is no such operation, or it cannot be answered as asked.
        """
        op = request.get("op")
        if op not in self._ops:
            raise ValueError(f"unknown op {op!r}; the ops are {', '.join(self._ops)}")
        handler, fields = self._ops[op]
        missing = sorted(fields - request.keys())
        if missing:
            raise ValueError(f"a request for {op} also needs {', '.join(missing)}")
        return handler(request)

    # --- operations -------------------------------------------------------------------------------

    def _tiles(self, request: Request) -> Answer:
        classes_of = self.classes_of if request.get("classed") else None
        return answer_tiles(request, self._of_lane, self._names, classes_of)

    def _stats(self, request: Request) -> Answer:
        if not self._device.by(Deadline.of(request)):
            return dict(PENDING), None
        start, end = int(request["start"]), int(request["end"])
        indices, of = list(self._indices.values()), request.get("ranks")
        return stats(start, end, indices, self._device.value, ranks=of), None

    def _minimap(self, request: Request) -> Answer:
        return self._little_by_little(request, lambda: self._minimap_steps(int(request["bins"])))

    def _minimap_steps(self, bins: int) -> Generator[None, None, Answer]:
        device = yield from self._device.steps()
        start, end = whole_range(self.job, self.traces)
        indices = list(self._indices.values())
        made = yield from minimap(start, end, bins, indices=indices, device=device)
        return made

    def _event(self, request: Request) -> Answer:
        return details(*self._row(request)), None

    def _cell(self, request: Request) -> Answer:
        lane = int(request["lane"])
        return cell(self._of_lane(lane), lane, int(request["start"]), int(request["end"])), None

    def _summary(self, request: Request) -> Answer:
        if not self._searchable.by(Deadline.of(request)):
            return dict(PENDING), None
        return self._search.summary(str(request["text"])), None

    def _find(self, request: Request) -> Answer:
        if not self._searchable.by(Deadline.of(request)):
            return dict(PENDING), None
        text, direction = str(request["text"]), int(request.get("direction", 1))
        return self._search.step(text, request.get("from"), direction), None

    def _marks(self, request: Request) -> Answer:
        return self._little_by_little(request, lambda: self._marks_steps(request))

    def _marks_steps(self, request: Request) -> Generator[None, None, Answer]:
        view = View.of(
            int(request["start"]), int(request["end"]), int(request["bins"]), request["lanes"]
        )
        if request.get("selection") is not None:
            members, error = self._selected(request["selection"]), None
        else:
            yield from self._searchable.steps()
            hits = self._search.hits(str(request.get("text", "")))
            error = hits.error
            members = (
                Members(one.index, one.index.rows(table), one.rows(table))
                for one in hits.ranks
                if one.count
                for table in TABLES
            )
        reply, buffer = yield from marks(view, members)
        return {**reply, "error": error}, buffer

    def _totals(self, request: Request) -> Answer:
        selection = Selection.from_json(request.get("selection"))

        def summed() -> Answer:
            return totals(self.traces, selection), None

        return self._little_by_little(request, lambda: in_turns(summed))

    def _neighbor(self, request: Request) -> Answer:
        found = neighbor(*self._row(request), int(request.get("direction", 1)))
        return {"brief": found}, None

    def _snap(self, request: Request) -> Answer:
        lane = int(request["lane"])
        time, tolerance = int(request["time"]), int(request["tolerance"])
        return {"time": snap(self._of_lane(lane), lane, time, tolerance)}, None

    def _late(self, request: Request) -> Answer:
        if not self._matched.by(Deadline.of(request)):
            return dict(PENDING), None
        return self.lateness.within(int(request["start"]), int(request["end"])), None

    def _collective(self, request: Request) -> Answer:
        index, _, row = self._row({**request, "table": "events"})
        if not self._matched.by(Deadline.of(request)):
            return dict(PENDING), None
        return {"collective": self.lateness.collective(index.rank.rank, row)}, None

    def _ribbon(self, request: Request) -> Answer:
        if not self._ribbons.by(Deadline.of(request)):
            return dict(PENDING), None
        start, end, bins = (int(request[name]) for name in ("start", "end", "bins"))
        return self._ribbons.value.within(start, end, bins, request.get("ranks"))

    def _clusters(self, request: Request) -> Answer:
        if not self._alike.by(Deadline.of(request)):
            return dict(PENDING), None
        return self._alike.value, None

    # --- what requests name -----------------------------------------------------------------------

    def _of_lane(self, lane: int) -> RankIndex:
        return self._indices[self.job.of_lane(lane).rank]

    def _row(self, request: Request) -> tuple[RankIndex, Any, int]:
        index = self._indices[self.job.of_rank(int(request["rank"])).rank]
        table = index.rows(str(request.get("table", "events")))
        return index, table, checked_row(index, table, request["id"])

    def _selected(self, value: Mapping[str, Any]) -> Iterator[Members]:
        selection = Selection.from_json(value)
        for index in self._indices.values():
            rows = np.flatnonzero(selection.mask(index.rank.trace))
            yield Members(index, index.events, rows)

    @property
    def lateness(self) -> Lateness:
        """The matched collectives; found when they are first asked for."""
        return self._matched.value

    def _match(self) -> Generator[None, None, Lateness]:
        if not self.job.has_waits:
            return Lateness.nothing(self.traces, NO_WAITS)
        compute = {}
        for index in self._indices.values():
            compute[index.rank.rank] = compute_of(index)
            yield
        yield from matched(self.traces).steps()

        def late() -> Lateness:
            ranks = judgement(self.traces).stragglers
            return Lateness(self.traces, collectives(self.traces, clock="fitted"), compute, ranks)

        return (yield from in_turns(late))

    def _ribbon_steps(self) -> Generator[None, None, Ribbon]:
        lateness = yield from self._matched.steps()
        return (yield from in_turns(lambda: Ribbon(lateness)))

    def _cluster_steps(self) -> Generator[None, None, dict[str, Any]]:
        from hta_widgets.analysis import rank_clusters  # noqa: PLC0415 - slow to import

        # It asks of the collectives as well: they are matched little by little.
        yield from matched(self.traces).steps()
        frame = yield from in_turns(lambda: rank_clusters(self.traces))
        return clusters(frame)

    # --- what takes long --------------------------------------------------------------------------

    def _little_by_little(
        self, request: Request, steps: Callable[[], Generator[None, None, Answer]]
    ) -> Answer:
        asked = {key: value for key, value in request.items() if key not in _NOT_ASKED}
        made = self._answers.get(json.dumps(asked, sort_keys=True, default=str), steps)
        return made.value if made.by(Deadline.of(request)) else (dict(PENDING), None)

    def stop(self) -> None:
        """End what is unfinished, as where the page is closed; who asks again begins anew."""
        self._answers.stop()
        for one in (
            matched(self.traces),
            self._searchable,
            self._device,
            self._matched,
            self._ribbons,
            self._alike,
        ):
            one.stop()
