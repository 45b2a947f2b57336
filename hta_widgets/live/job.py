"""Answer the requests of dashboard and timeline pages about one job.

Fast answers are computed immediately, slow ones in `hta_widgets.live.background`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from msgspec.structs import replace

from hta_widgets import analysis, taxonomy
from hta_widgets.analysis.clusters import HEATMAP_METRICS
from hta_widgets.analysis.cross_rank.clock_fit import MIN_COLLECTIVES, clock_fit, drift_error_ns
from hta_widgets.analysis.cross_rank.collectives import collectives
from hta_widgets.analysis.cross_rank.matching import matching
from hta_widgets.analysis.cross_rank.stragglers import straggler_report
from hta_widgets.analysis.efficiency.call_efficiency import (
    bound_classes,
    call_efficiency,
    has_call_figures,
)
from hta_widgets.analysis.idle import IdleGap, gap_at, times_not_idle
from hta_widgets.analysis.scope import DEVICE_WORK_KINDS
from hta_widgets.analysis.totals import totals
from hta_widgets.facts import facts
from hta_widgets.live import operations
from hta_widgets.live.background import BackgroundTask, NotReadyError, T, TaskCache
from hta_widgets.live.operations import Answer, Request, answer, error_reply
from hta_widgets.panels.frames import (
    ADDED,
    CLOCK,
    LATE_MARKED_PANELS,
    frame_to_json,
    panel_of,
    panel_task,
    without_panel_filters,
)
from hta_widgets.panels.headline import Headline, headline
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.details import (
    cell_details,
    details,
    event_summary,
    launches,
    neighbor,
    snap,
    validate_row,
)
from hta_widgets.tiles.lateness import LatenessIndex, Ribbon, clusters_reply
from hta_widgets.tiles.layout import JobLayout, lay_out
from hta_widgets.tiles.rank_index import Classes, LaneBudget, RankIndex
from hta_widgets.tiles.replies import ClockFacts, Clusters, Gap, HostTime, LaneGap
from hta_widgets.tiles.scene import (
    DeviceTimes,
    compute_with_shift,
    describe_job,
    minimap_reply,
    stats_reply,
    whole_range,
)
from hta_widgets.tiles.search import (
    TABLES,
    MarkedRows,
    MarksView,
    NameSearch,
    SearchHits,
    marks_reply,
)
from hta_widgets.tiles.tile_reply import NameKeys, answer_tiles
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.memo import LRU, memo, raise_if_cancelled, raise_limit_for_pages
from hta_widgets.trace.summary import device_word_attrs
from hta_widgets.trace.traceset import Selection, TraceSet

MAX_FRAMES = 100
#: Memory for indexed lanes: bytes per event, enough to index each once, and limits on the total.
BYTES_PER_EVENT = 24
MIN_LANE_BYTES, MAX_LANE_BYTES = 64 << 20, 512 << 20
_MAX_ANSWERS = 16  # finished or being computed
NO_WAITS = "no communication between ranks was recorded on devices"


def _match_task(traces: TraceSet) -> BackgroundTask[Any]:
    """Return the task that matches a job's collectives. Most other answers require its result.

    The timeline and the panels share this task. A new selection does not cancel it.
    """
    return memo(traces, "matched", lambda: BackgroundTask(lambda: clock_fit(traces)))


def _clock_facts(traces: TraceSet) -> ClockFacts | None:
    """Return how far apart the recorded clocks are, or None if fewer than two can be compared."""
    fit = clock_fit(traces)
    is_compared = fit.collectives >= MIN_COLLECTIVES
    if is_compared.sum() < 2:
        return None
    offsets = pd.Series(fit.offset_ns[is_compared]).groupby(fit.part[is_compared])
    clock_facts: ClockFacts = {
        "is_fitted": traces.clock == "fitted",
        "apart_ns": int((offsets.max() - offsets.min()).max()),
        "residual_ns": int(fit.residual_ns[is_compared].max()),
        "is_off": fit.is_needed,
    }
    if drift_ns := drift_error_ns(traces):
        clock_facts["drift_ns"] = drift_ns
    return clock_facts


class PanelEngine:
    """The frames of a dashboard's panels for a given selection."""

    def __init__(self, traces: TraceSet) -> None:
        # Requests are answered in this process, since a cluster's workers may be busy.
        self.traces = traces.on(None)
        raise_limit_for_pages()
        self._frames: LRU[Hashable, pd.DataFrame] = LRU(MAX_FRAMES)
        self._headline = BackgroundTask(lambda: headline(self.traces))
        self._tasks = TaskCache(8)

    def frame(
        self, panel: str, selection: Selection | None = None, *, top: int | None = None
    ) -> pd.DataFrame:
        """Return the frame of a panel."""
        panel_frame = self._frame(panel, selection, top, math.inf).copy()
        panel_frame.attrs.update(device_word_attrs(self.traces))
        if panel in LATE_MARKED_PANELS:
            panel_frame.attrs |= self._headline.value.marked_ranks
        return panel_frame

    def analysis(self, name: str, selection: Selection | None = None) -> pd.DataFrame:
        """Return the full result of the analysis that a panel shows."""
        panel = panel_of(name)
        if not panel.analysis:
            return self.frame(panel.id, selection)
        chosen = without_panel_filters(panel, selection)
        if panel.base_frame is not None:
            return panel.base_frame(self.traces, chosen)
        options = {"selection": chosen}
        if panel.id in ADDED:
            # These panels show the job or a window. Some of their analyses do not take a selection.
            window = Selection(start_ns=chosen.start_ns, end_ns=chosen.end_ns)
            options = {} if window == Selection() else {"selection": window}
        analysis_frame: pd.DataFrame = getattr(analysis, panel.analysis)(self.traces, **options)
        return analysis_frame

    @property
    def job_headline(self) -> Headline:
        """The headline of the whole job, with its findings."""
        return self._headline.value

    def headline(self) -> dict[str, Any]:
        """Return the headline of the whole job as JSON."""
        return self.job_headline.to_json()

    def headline_until(self, deadline: float) -> dict[str, Any] | None:
        """Return the headline, or None if it is not ready by `deadline`."""
        is_matched = _match_task(self.traces).wait_until(deadline)
        # Queue the headline even if the deadline has passed.
        is_ready = self._headline.wait_until(deadline)
        return self.headline() if is_matched and is_ready else None

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer a ``panels`` or ``heatmap`` request; see docs/protocol-requests.md."""
        return answer(request, self)

    def wait_for_frame(self, panel: str, selection: Selection | None, deadline: float) -> None:
        """Compute the frame of a panel; raise `NotReadyError` if it is not ready by `deadline`."""
        self._frame(panel, selection, None, deadline)

    def _frame(
        self, panel: str, selection: Selection | None, top: int | None, deadline: float
    ) -> pd.DataFrame:
        make, chosen = panel_task(panel, selection)
        key = (panel, top, taxonomy.version(), chosen)
        compute = partial(make, self.traces, chosen, top)
        return self._frames.get_or_compute(key, lambda: self._result_by(deadline, key, compute))

    def _result_by(self, deadline: float, key: Hashable, make: Callable[[], T]) -> T:
        """Return a result. Without a deadline, it is computed in this thread."""
        if deadline == math.inf:
            return make()
        task = self._tasks.get(key, make)
        _match_task(self.traces).value_by(deadline)
        return task.value_by(deadline)

    def stop(self) -> None:
        """Cancel all work, for example when the page is closed. Later requests restart it."""
        self._tasks.clear()
        _match_task(self.traces).cancel()
        self._headline.cancel()

    def _on_panels(self, request: operations.PanelsRequest) -> Answer:
        selection, panels = Selection.from_json(request.selection), request.panels
        deadline = request.deadline
        reply: dict[str, Any] = {"panels": {}}
        for index, panel in enumerate(panels):
            if index and time.perf_counter() >= deadline:
                return {**reply, "left": panels[index:]}, None
            try:
                frame = self._frame(panel, selection, request.top, deadline)
                reply["panels"][panel] = frame_to_json(frame)
            except NotReadyError:
                return {**reply, "left": panels[index:]}, None
            except Exception as failure:  # noqa: BLE001 - other panels may succeed
                reply.setdefault("errors", {})[panel] = error_reply(failure)
        return reply, None

    def _on_heatmap(self, request: operations.HeatmapRequest) -> Answer:
        metric, start, end, bins = request.metric, request.start, request.end, request.bins
        if metric not in HEATMAP_METRICS:
            raise ValueError(f"unknown metric {metric!r}; expected {', '.join(HEATMAP_METRICS)}")
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        _, selection = panel_task("heatmap", Selection.from_json(request.selection))

        def compute_bins() -> pd.DataFrame:
            return analysis.rank_time_heatmap(
                self.traces,
                metric=metric,
                bins=bins,
                clock=CLOCK,
                selection=selection,
                window=(start, end),
            )

        key = ("heatmap", taxonomy.version(), metric, start, end, bins, selection)
        frame = self._result_by(request.deadline, key, compute_bins)
        names = ("matched", "note", "span_ns")
        reply = {
            "ranks": frame["rank"].to_numpy()[::bins].tolist(),
            "start": start,
            "end": end,
            "bins": bins,
            "exact": True,
            "attrs": {name: frame.attrs[name] for name in names if name in frame.attrs},
        }
        return reply, frame["value_ns"].to_numpy("<f8").tobytes()


class TileEngine:
    """The tiles, statistics and event details of a job, computed on first request."""

    def __init__(self, traces: TraceSet) -> None:
        # Requests are answered in this process, since a cluster's workers may be busy.
        self.traces = traces = traces.on(None)
        self.job: JobLayout = lay_out(traces)
        events = sum(len(rank.table) for rank in self.job.ranks)
        self._budget = LaneBudget(
            min(max(MIN_LANE_BYTES, BYTES_PER_EVENT * events), MAX_LANE_BYTES)
        )
        self._indices = {
            rank.rank: RankIndex(rank, self._budget, lambda: self.lateness)
            for rank in self.job.ranks
        }
        self._names = NameKeys()
        self._device = BackgroundTask(
            lambda: DeviceTimes.of(list(self._indices.values()), times_not_idle)
        )
        self._matched = BackgroundTask(self._match)
        self._ribbons = BackgroundTask(lambda: Ribbon(self.lateness))
        self._clusters = BackgroundTask(self._cluster)
        self._answers = TaskCache(_MAX_ANSWERS)
        self._search = NameSearch(list(self._indices.values()))
        self._searchable = BackgroundTask(self._search.names_used)
        #: Function that returns the class of each event of a rank, for tiles with classes.
        self.classes_of: Callable[[int], Classes | None] = lambda rank: bound_classes(
            self.job.of_rank(rank).trace
        )

    def scene(self) -> dict[str, Any]:
        """Return the description of the job that the page needs for drawing, as JSON."""
        return self._scene

    @cached_property
    def _scene(self) -> dict[str, Any]:
        scene = describe_job(self.job, self.traces)
        return {**scene, "without_bounds": self._without_bounds(scene)}

    def _without_bounds(self, scene: Mapping[str, Any]) -> str:
        """Return why events cannot be colored by what limits them, or "" if they can."""
        if not any(row["role"] != "cpu" for rank in scene["ranks"] for row in rank["summary"]):
            return "no GPU work"
        has_figures = has_call_figures(next(iter(self.traces.values())))
        return "" if has_figures else "no shapes: record_shapes=True records them"

    def answer(self, request: Mapping[str, Any]) -> Answer:
        """Answer a request; see docs/protocol-requests.md."""
        return answer(request, self)

    def _on_tiles(self, request: operations.TilesRequest) -> Answer:
        classes_of = self.classes_of if request.classed else None
        return answer_tiles(request, self._index_of_lane, self._names, classes_of)

    def _on_stats(self, request: operations.StatsRequest) -> Answer:
        device, indices = self._device.value_by(request.deadline), list(self._indices.values())
        return stats_reply(request.start, request.end, indices, device, ranks=request.ranks), None

    def _on_minimap(self, request: operations.MinimapRequest) -> Answer:
        def compute_reply() -> Answer:
            start, end = whole_range(self.job, self.traces)
            indices, device = list(self._indices.values()), self._device.value
            return minimap_reply(start, end, request.bins, indices=indices, device=device)

        return self._in_background(request, compute_reply)

    def _on_event(self, request: operations.EventRequest) -> Answer:
        return details(*self._row(request.rank, request.id, request.table)), None

    def _on_cell(self, request: operations.CellRequest) -> Answer:
        lane = request.lane
        return cell_details(self._index_of_lane(lane), lane, request.start, request.end), None

    def _on_gap(self, request: operations.GapRequest) -> Answer:
        lane_gap = None
        if request.lane is not None:
            index = self._index_of_lane(request.lane)
            lane_gap = lane_gap_of(index, request.lane, request.time)
        index = self._indices[self.job.of_rank(request.rank).rank]
        return {"gap": gap_of(index, request.time), "lane_gap": lane_gap}, None

    def _on_launches(self, request: operations.LaunchesRequest) -> Answer:
        index, _, row = self._row(request.rank, request.id, "events")
        return launches(index, row), None

    def _on_search(self, request: operations.SearchTextRequest) -> Answer:
        self._searchable.value_by(request.deadline)
        return self._search.counts_reply(request.text), None

    def _on_find(self, request: operations.FindRequest) -> Answer:
        self._searchable.value_by(request.deadline)
        return self._search.next_match(request.text, request.from_, request.direction), None

    def _on_marks(self, request: operations.MarksRequest) -> Answer:
        view = MarksView.of(request.start, request.end, request.bins, request.lanes)
        hits: SearchHits | None = None
        if request.selection is None:
            self._searchable.value_by(request.deadline)
            # Regular expressions can be interrupted only in the main thread.
            hits = self._search.search(request.text)

        def compute_reply() -> Answer:
            if hits is None:
                marked, error = self._selected_rows(request.selection or {}), None
            else:
                error = hits.error
                marked = (
                    MarkedRows(rank_hits.index, rank_hits.index.rows(table), rank_hits.rows(table))
                    for rank_hits in hits.ranks
                    if rank_hits.count
                    for table in TABLES
                )
            reply, buffer = marks_reply(view, marked)
            return {**reply, "error": error}, buffer

        return self._in_background(request, compute_reply)

    def _on_totals(self, request: operations.TotalsRequest) -> Answer:
        selection = Selection.from_json(request.selection)
        return self._in_background(request, lambda: (totals(self.traces, selection), None))

    def _on_neighbor(self, request: operations.NeighborRequest) -> Answer:
        row = self._row(request.rank, request.id, request.table)
        return {"brief": neighbor(*row, request.direction)}, None

    def _on_snap(self, request: operations.SnapRequest) -> Answer:
        index = self._index_of_lane(request.lane)
        return {"time": snap(index, request.lane, request.time, request.tolerance)}, None

    def _on_lateness(self, request: operations.LatenessRequest) -> Answer:
        lateness = self._matched.value_by(request.deadline)
        return lateness.sums_in_window(request.start, request.end), None

    def _on_collective(self, request: operations.CollectiveRequest) -> Answer:
        index, _, row = self._row(request.rank, request.id, "events")
        lateness = self._matched.value_by(request.deadline)
        return {"collective": lateness.collective_reply(index.rank.rank, row)}, None

    def _on_efficiency(self, request: operations.EfficiencyRequest) -> Answer:
        index, events, row = self._row(request.rank, request.id, "events")

        def compute_reply() -> Answer:
            efficiency = call_efficiency(index.rank.trace)
            call = -1 if efficiency is None else int(efficiency.call_of_event[row])
            if efficiency is None or call < 0:
                return {"figures": None}, None
            figures = efficiency.figures_of(call)
            brief = event_summary(index, events, figures.pop("row"))
            return {"figures": {"call": brief, **figures}}, None

        return self._in_background(request, compute_reply)

    def _on_ribbon(self, request: operations.RibbonRequest) -> Answer:
        ribbon = self._ribbons.value_by(request.deadline)
        return ribbon.bins_in_window(request.start, request.end, request.bins, request.ranks)

    def _on_clusters(self, request: operations.ClustersRequest) -> Answer:
        return self._clusters.value_by(request.deadline), None

    def _index_of_lane(self, lane: int) -> RankIndex:
        return self._indices[self.job.of_lane(lane).rank]

    def _row(self, rank: int, event: int, name: str) -> tuple[RankIndex, Any, int]:
        """Return the index of a rank, its table `name`, and an event's row in that table."""
        index = self._indices[self.job.of_rank(rank).rank]
        table = index.rows(name)
        return index, table, validate_row(index, table, event)

    def _selected_rows(self, value: Mapping[str, Any]) -> Iterator[MarkedRows]:
        selection = Selection.from_json(value)
        for index in self._indices.values():
            yield MarkedRows(index, index.events, selection.rows(index.rank.trace))

    @property
    def lateness(self) -> LatenessIndex:
        """The matched collectives, computed on first access."""
        return self._matched.value

    def _match(self) -> LatenessIndex:
        if not self.job.has_waits and (len(self.traces) < 2 or not len(matching(self.traces))):
            return LatenessIndex.empty(self.traces, NO_WAITS)
        compute = {}
        for index in self._indices.values():
            compute[index.rank.rank] = compute_with_shift(index)
            raise_if_cancelled()
        late = straggler_report(self.traces).stragglers
        frame = collectives(self.traces, clock="fitted")
        return LatenessIndex(self.traces, frame, compute, late, _clock_facts(self.traces))

    def _cluster(self) -> Clusters:
        from hta_widgets.analysis import rank_clusters  # slow to import

        return clusters_reply(rank_clusters(self.traces))

    def _in_background(self, request: Request, make: Callable[[], Answer]) -> Answer:
        # The key omits the deadline, which does not affect the answer.
        key = repr(replace(request, within_ms=None))
        return self._answers.get(key, make).value_by(request.deadline)

    def stop(self) -> None:
        """Cancel all work, for example when the page is closed. Later requests restart it."""
        self._answers.clear()
        tasks: tuple[BackgroundTask[Any], ...] = (
            self._searchable, self._device, self._matched, self._ribbons, self._clusters,
        )  # fmt: skip
        for task in tasks:
            task.cancel()


MAX_NAMES: int = facts("limits")["gap_names"]
_WORK_KINDS = [KINDS.index(kind) for kind in DEVICE_WORK_KINDS]
_HOST_KINDS = [KINDS.index(kind) for kind in ("cpu", "annotation", "sync")]


def gap_of(index: RankIndex, time: int) -> Gap | None:
    """Return the idle gap of a rank's device at a time, or None if the time is not in a gap."""
    rank = index.rank
    idle_gap = gap_at(rank.trace, time - rank.shift_ns)
    if idle_gap is None:
        return None
    events = index.events
    rows, spent = _host_times_in_gap(index, idle_gap)
    causes = sorted(idle_gap.pieces.items(), key=lambda item: -item[1])
    return {
        "rank": rank.rank,
        "start": idle_gap.start + rank.shift_ns,
        "end": idle_gap.end + rank.shift_ns,
        "causes": [{"cause": cause, "time": ns} for cause, ns in causes if ns > 0],
        "ends": event_summary(index, events, idle_gap.next),
        "launch": None if idle_gap.call < 0 else event_summary(index, events, idle_gap.call),
        "host": _times_by_group(index, rows, spent, rank.table.name[rows].astype(np.int64)),
        "host_time": int(spent.sum()),
    }


def lane_gap_of(index: RankIndex, lane: int, time: int) -> LaneGap | None:
    """Return the gap of a device lane at a time, or None if the time is not in a gap."""
    rank, table = index.rank, index.rank.table
    ref = rank.ref(lane)
    rows = np.flatnonzero(np.isin(index.events.kind, _WORK_KINDS) & (table.stream >= 0))
    if ref.role == "events":
        is_in_lane = table.track[rows] == ref.sources[0]
    elif ref.role in {"gpu", "comm"}:
        is_communication = index.events.kind[rows] == KINDS.index("communication")
        is_in_lane = is_communication == (ref.role == "comm")
    else:
        return None
    start, end, time_ns = table.start_ns[rows], table.end_ns[rows], time - rank.shift_ns
    has_begun = start <= time_ns
    earlier_ends, later_starts = end[is_in_lane & has_begun], start[is_in_lane & ~has_begun]
    if not len(earlier_ends) or not len(later_starts):
        return None
    low, high = int(earlier_ends.max()), int(later_starts.min())
    if low > time_ns:
        return None
    time_in_gap = np.minimum(end, high) - np.maximum(start, low)
    others = np.flatnonzero(~is_in_lane & (time_in_gap > 0))
    running, spent = rows[others], time_in_gap[others]
    group = table.track[running].astype(np.int64) * len(table.names) + table.name[running]
    return {
        "start": low + rank.shift_ns,
        "end": high + rank.shift_ns,
        "running": _times_by_group(index, running, spent, group),
    }


def _times_by_group(index: RankIndex, rows: Rows, spent: Ints, group: Ints) -> list[HostTime]:
    """Return the longest event, count and total of the `MAX_NAMES` groups with the most time.

    `spent` contains the time of each event, and `group` the number of its group.
    """
    times: list[HostTime] = []
    for code in np.unique(group):
        is_member = group == code
        members, time_ns = rows[is_member], spent[is_member]
        longest = event_summary(index, index.events, int(members[np.argmax(time_ns)]))
        times.append({"longest": longest, "count": len(members), "time": int(time_ns.sum())})
    times.sort(key=lambda entry: (-entry["time"], entry["longest"]["id"]))
    return times[:MAX_NAMES]


def _host_times_in_gap(index: RankIndex, gap: IdleGap) -> tuple[Rows, Ints]:
    """Return the events of one host thread during a gap, with their self times.

    The thread is the one whose call ended the gap. If no such call exists, or if that thread was
    idle, the busiest thread is used.
    """
    rank, table = index.rank, index.rank.table
    end = table.end_ns
    is_host = np.isin(index.events.kind, _HOST_KINDS) & (table.stream < 0)
    rows = np.flatnonzero(
        is_host & (table.start_ns < gap.end) & (end > gap.start) & (table.dur_ns > 0)
    )
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    time_in_gap = np.minimum(end[rows], gap.end) - np.maximum(table.start_ns[rows], gap.start)
    spent = np.zeros(len(table), dtype=np.int64)
    spent[rows] = time_in_gap
    # The self time of an event excludes its nested events.
    parent = table.parent[rows]
    is_nested = (parent >= 0) & (spent[parent] > 0)
    np.subtract.at(spent, parent[is_nested], time_in_gap[is_nested])
    spent = np.maximum(spent[rows], 0)
    track = table.track[rows]
    by_track = np.bincount(track, spent, minlength=len(rank.track_lane0))
    thread = table.track[gap.call] if gap.call >= 0 else -1
    if thread < 0 or by_track[thread] == 0:
        thread = min(
            np.unique(track), key=lambda number: (-by_track[number], rank.track_lane0[number])
        )
    is_on_thread = (track == thread) & (spent > 0)
    return rows[is_on_thread], spent[is_on_thread]
