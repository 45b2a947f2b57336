"""The scene: JSON that describes ranks, tracks, lanes, steps and problems for the page.

The scene does not depend on the view, so the page receives it before the first tile. This module
also computes figures that are drawn next to the lanes: `stats_reply` (device time by rank) and
`minimap_reply`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.taxonomy import KINDS
from hta_widgets.text import count, plural
from hta_widgets.tiles.cells import Cells, measure_cells
from hta_widgets.tiles.lanes import CounterLane
from hta_widgets.tiles.layout import (
    JobLayout,
    RankLayout,
    SummaryRow,
    TrackRow,
    job_title,
    place_label,
)
from hta_widgets.tiles.packing import pack
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.replies import Stats
from hta_widgets.tiles.windows import bin_edges, check_bins, check_window
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.intervals import Intervals, IntervalUnion, subtract, union, union_of_sorted
from hta_widgets.trace.memo import raise_if_cancelled
from hta_widgets.trace.problems import Problem
from hta_widgets.trace.summary import device_word, part_of_job, rank_coverage_text
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_ANNOTATION = KINDS.index("annotation")

#: Shortest phase with a label, as a share of its step.
MIN_SHARE = 0.005


def step_strip(job: JobLayout) -> dict[str, Any]:
    """Return the fields ``steps_rank``, ``steps`` and ``phases`` of the scene."""
    rank = _median_rank(job)
    if rank is None:
        return {"steps_rank": None, "steps": [], "phases": []}
    return {
        "steps_rank": rank.rank,
        "steps": [_span(rank, row) for row in rank.steps.tolist()],
        "phases": [
            {**_span(rank, row), "name": name}
            for row in _phases(rank).tolist()
            if (name := phase_name(rank.table.names[int(rank.table.name[row])]))
        ],
    }


def phase_name(name: str) -> str:
    """Strip hash signs from the name of an annotation: ``## forward ##`` gives ``forward``."""
    return name.strip("# \t").partition("#")[0].strip()


def _median_rank(job: JobLayout) -> RankLayout | None:
    """Return the rank with the median step time or, without steps, the first with events."""
    timed = sorted(
        (int(rank.table.dur_ns[rank.steps].sum()), rank.rank)
        for rank in job.ranks
        if len(rank.steps)
    )
    if timed:
        return job.of_rank(timed[(len(timed) - 1) // 2][1])
    return next((rank for rank in job.ranks if len(rank.table)), None)


def _phases(rank: RankLayout) -> Rows:
    """Return annotations directly within steps or, without steps, the outermost annotations."""
    table = rank.table
    on_host = np.array([track.role == "thread" for track in table.tracks], np.bool_)
    rows = np.flatnonzero((table.kind == _ANNOTATION) & on_host[table.track])
    rows = rows[~np.isin(rows, rank.steps)]
    above = _annotation_above(rank, rows)
    if len(rank.steps):
        inside = np.isin(above, rank.steps)
        enclosing_ns = table.dur_ns[above]
    else:
        inside = above < 0
        enclosing_ns = np.full(len(rows), rank.range_ns[1] - rank.range_ns[0])
    dur_ns = table.dur_ns[rows]
    is_long = (dur_ns >= MIN_SHARE * enclosing_ns) & (dur_ns > 0)
    phase_rows: Rows = rows[inside & is_long]
    return phase_rows


def _annotation_above(rank: RankLayout, rows: Rows) -> Rows:
    """Return the innermost annotation around each row, or -1 if it has none."""
    table = rank.table
    above = table.parent[rows].astype(np.intp)
    while True:
        climbing = np.flatnonzero((above >= 0) & (table.kind[above] != _ANNOTATION))
        if not len(climbing):
            return above
        above[climbing] = table.parent[above[climbing]]


def _span(rank: RankLayout, row: int) -> dict[str, Any]:
    table = rank.table
    return {
        "name": table.names[int(table.name[row])],
        "start": int(table.start_ns[row]) + rank.shift_ns,
        "dur": int(table.dur_ns[row]),
    }


#: Singular and plural texts for kinds of problems with records or files.
_WORDS = {
    "skipped": ("record skipped", "records skipped"),
    "truncated": ("file ends early", "files end early"),
    "empty": ("file is empty", "files are empty"),
    "foreign": ("file not read", "files not read"),
    "unpaired": ("record unpaired", "records unpaired"),
    "overflow": ("value out of range", "values out of range"),
    "stale": ("file changed", "files changed"),
    "duplicate_rank": ("rank stated twice", "ranks stated twice"),
}

#: Problems that concern a whole file. Each file is counted once.
_OF_FILES = frozenset({"truncated", "empty", "foreign", "stale"})

MAX_LISTED = 200


def data_quality(
    events: int, problems: Iterable[Problem], ranks: str = "", asyncs: int = 0
) -> dict[str, Any]:
    """Return the field ``truth`` of the scene. `ranks` is a phrase about missing ranks, or "".

    Without events, the text states the number of async intervals.
    """
    all_problems = list(problems)
    phrases = _problem_phrases(all_problems)
    shown = plural(events, "event") if events or not asyncs else plural(asyncs, "async interval")
    if phrases or ranks:
        level, text = "warn", " · ".join(filter(None, [ranks, shown, *phrases]))
    else:
        level, text = "ok", f"exact: {shown}, 0 dropped"
    listed = group_problems(all_problems)
    if ranks:
        detail = f"only {ranks} loaded; a rank that others wait for may be missing"
        listed.insert(
            0, {"kind": "ranks", "count": 1, "detail": detail, "rank": None, "file": None}
        )
    return {"level": level, "text": text, "problems": listed}


def _problem_phrases(problems: list[Problem]) -> list[str]:
    """Return phrases for problems, missing parts first; empty if all are notes."""
    counts: Counter[str] = Counter()
    files: dict[str, set[str | None]] = {}
    for problem in problems:
        if not problem.is_note:
            counts[problem.kind] += problem.count
            files.setdefault(problem.kind, set()).add(problem.file)
    for kind in _OF_FILES & counts.keys():
        counts[kind] = len(files[kind])
    if not counts:
        return []
    # The detail of a part begins with what is missing.
    parts = [problem.detail.partition(";")[0] for problem in problems if problem.kind == "part"]
    counts.pop("part", None)
    return [*parts, *(_problem_phrase(kind, count) for kind, count in counts.items())]


def group_problems(problems: list[Problem]) -> list[dict[str, Any]]:
    """Convert problems to JSON; if more than `MAX_LISTED`, group them by kind and text."""
    if len(problems) <= MAX_LISTED:
        return [asdict(problem) for problem in problems]
    counts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for problem in problems:
        counts[problem.kind, problem.detail].append(problem.count)
    grouped = []
    for (kind, detail), numbers in sorted(counts.items(), key=lambda item: -sum(item[1])):
        text = f"{detail} ({len(numbers)} ranks)" if len(numbers) > 1 else detail
        total = sum(numbers)
        grouped.append({"kind": kind, "count": total, "detail": text, "rank": None, "file": None})
    return grouped


def _problem_phrase(kind: str, number: int) -> str:
    if kind == "clock":
        return "clocks not aligned"
    singular, plural_form = _WORDS.get(kind, (kind, kind))
    return f"{count(number)} {singular if number == 1 else plural_form}"


VERSION = 1


def describe_job(job: JobLayout, traces: TraceSet) -> dict[str, Any]:
    """Return the scene of a job. ``Scene`` in ``js/src/protocol/source.ts`` describes it."""
    problems = list(traces.problem_list)
    events = sum(len(rank.table) for rank in job.ranks)
    ranks = rank_coverage_text(traces)
    counts: Counter[int | None] = Counter()
    cut: dict[int | None, str] = {}
    for problem in problems:
        if not problem.is_note:
            counts[problem.rank] += problem.count
        if problem.kind == "truncated":
            cut.setdefault(problem.rank, problem.detail)
    return {
        "version": VERSION,
        "title": job_title([rank.trace.path for rank in job.ranks]),
        "events": events,
        "range": list(whole_range(job, traces)),
        "kinds": list(KINDS),
        "host_kinds": _host_kinds(job.ranks),
        "ranks_of_job": ranks,
        "ranks": [
            _rank_scene(
                rank,
                problems=counts[rank.rank],
                truncated=cut.get(rank.rank),
                window_ns=traces.window_ns,
            )
            for rank in job.ranks
        ],
        "lanes": job.lanes,
        "part": part_of_job(traces),
        **step_strip(job),
        **({"clock": "fitted"} if traces.clock == "fitted" else {}),
        "truth": data_quality(
            events, problems, ranks, sum(len(rank.trace.async_table) for rank in job.ranks)
        ),
    }


def _host_kinds(ranks: Iterable[RankLayout]) -> list[str]:
    is_on_host = np.zeros(len(KINDS), np.bool_)
    for rank in ranks:
        if not any(row.role in {"gpu", "comm"} for row in rank.summary):
            is_on_host |= np.bincount(rank.table.kind, minlength=len(KINDS)) > 0
    return list(compress(KINDS, is_on_host))


def whole_range(job: JobLayout, traces: TraceSet) -> tuple[int, int]:
    """Return the time range of all ranks, or the window of an export."""
    if traces.window_ns is not None:
        return traces.window_ns
    filled = [rank.range_ns for rank in job.ranks if rank.tracks]
    start = min((low for low, _ in filled), default=0)
    end = max((high for _, high in filled), default=0)
    return start, max(end, start + 1)


def _rank_scene(
    rank: RankLayout, *, problems: int, truncated: str | None, window_ns: tuple[int, int] | None
) -> dict[str, Any]:
    label, host = place_label(rank.trace), rank.trace.host
    if label and not host and (rank.trace.worker >= 0 or rank.trace.server >= 0):
        # The label already names a worker or server, so the second line names the rank.
        host = f"rank {rank.rank}"
    word = device_word([rank.trace])
    start_ns, end_ns = rank.range_ns
    if window_ns is not None:
        start_ns, end_ns = max(start_ns, window_ns[0]), min(end_ns, window_ns[1])
    return {
        "rank": rank.rank,
        "label": label or f"rank {rank.rank}",
        "host": host,
        "file": Path(rank.trace.path).name,
        "events": len(rank.table),
        "range": [start_ns, end_ns],
        "truncated": truncated,
        "problems": problems,
        **({} if word == "GPU" else {"device": word}),
        "summary": [_summary_scene(row) for row in rank.summary],
        "tracks": [_track_scene(row) for row in rank.tracks],
    }


def _summary_scene(row: SummaryRow) -> dict[str, Any]:
    lanes = {"wait": row.wait, "late": row.late} if row.wait >= 0 else {}
    return {"lane": row.lane, "role": row.role, "label": row.label, **lanes}


#: Fields of `TrackRow` that are always in the scene. The others are included only if set.
_TRACK_FIELDS = (
    "key", "process", "label", "role", "stream", "lane0", "lanes", "nested", "events",
    "communication",
)  # fmt: skip


def _track_scene(row: TrackRow) -> dict[str, Any]:
    track: dict[str, Any] = {name: getattr(row, name) for name in _TRACK_FIELDS}
    if row.range is not None:
        track["range"] = list(row.range)
    if row.unit:
        track["unit"] = row.unit
    if row.wait >= 0:
        track |= {"wait": row.wait, "late": row.late}
    if row.stacks:
        track["stacks"] = [list(stack) for stack in row.stacks]
    return track


_WORK_KINDS = tuple(map(KINDS.index, ("compute", "communication", "memory")))
#: Maximum number of edges to measure at a time.
_MAX_EDGES = 1 << 16

#: Unions per kind, communication without compute, and memory without compute or communication.
_WORK = ("compute", "communication", "memory", "exposed", "memory_alone")
#: Time without recorded work that does not count as idle: the device was probably busy, or
#: recording was paused.
_NOT_IDLE = ("unrecorded", "between_windows")
_PARTS = (*_WORK, *_NOT_IDLE)


@dataclass(slots=True, frozen=True)
class DeviceTimes:
    """Cumulative device time of all ranks, exact at any point in time.

    The time ranges of the ranks are concatenated, so that a single search covers all ranks.
    """

    #: Start and end of each rank's data.
    low: Ints
    high: Ints
    #: Start of each rank's first device work, and end of its last.
    first: Ints
    last: Ints
    #: Unions of intervals, keyed by the names in `_PARTS`.
    covers: dict[str, IntervalUnion]
    has_work: bool

    @classmethod
    def of(
        cls,
        indices: Sequence[RankIndex],
        not_idle: Callable[[Trace], tuple[Intervals, Intervals]],
    ) -> DeviceTimes:
        """Collect device times; `not_idle` returns the parts `_NOT_IDLE` of a trace."""
        ranges = np.array([index.rank.range_ns for index in indices], np.int64).reshape(-1, 2)
        spans = np.array([device_range(index) for index in indices], np.int64).reshape(-1, 2)
        has_work = any(len(index.device_rows) for index in indices)
        times = cls(ranges[:, 0], ranges[:, 1], spans[:, 0], spans[:, 1], {}, has_work)
        intervals = {name: [Intervals.empty()] for name in _PARTS}
        for index, offset in zip(indices, times.offsets.tolist(), strict=True):
            offset_ns = index.rank.shift_ns + offset
            covers = (*_covers_of_rank(index), *not_idle(index.rank.trace))
            for name, cover in zip(_PARTS, covers, strict=True):
                intervals[name].append(Intervals(cover.start + offset_ns, cover.end + offset_ns))
            raise_if_cancelled()
        for name, of_ranks in intervals.items():
            start = np.concatenate([of_rank.start for of_rank in of_ranks])
            end = np.concatenate([of_rank.end for of_rank in of_ranks])
            times.covers[name] = union_of_sorted(start, end)
        return times

    @property
    def offsets(self) -> Ints:
        """The offset that maps each rank's times to the concatenated time axis."""
        lengths = self.high - self.low
        before: Ints = np.cumsum(lengths) - lengths
        return before - self.low

    def times_between(
        self, edges: Ints, names: Sequence[str] = _PARTS
    ) -> Iterator[dict[str, Ints]]:
        """Yield the time of each part between `edges`, as arrays for a few ranks at a time."""
        at_once = max(1, _MAX_EDGES // len(edges))
        for first in range(0, len(self.low), at_once):
            ranks = slice(first, first + at_once)
            inside = np.clip(edges, self.low[ranks, None], self.high[ranks, None])
            inside += self.offsets[ranks, None]
            times = {}
            for name in names:
                _, before = self.covers[name].count_and_length_before(inside.ravel())
                times[name] = np.diff(before.reshape(inside.shape))
            yield times


def _clipped_length(start: int, end: int, low: Ints, high: Ints) -> Ints:
    lengths: Ints = np.maximum(np.minimum(high, end) - np.maximum(low, start), 0)
    return lengths


def device_range(index: RankIndex) -> tuple[int, int]:
    """Return the first start and last end of a rank's device work; (0, 0) if it has none.

    For an export, the work of the whole job is used, clipped to the export's window.
    """
    table, rows = index.rank.table, index.device_rows
    rows = rows[np.isin(table.kind[rows], _WORK_KINDS)]
    shift, trace = index.rank.shift_ns, index.rank.trace
    start = table.start_ns[rows] + shift
    edges = [start.min(), (start + table.dur_ns[rows]).max()] if len(rows) else []
    if trace.window_ns is not None and trace.stated_work_ns is not None:
        edges += np.clip(np.array(trace.stated_work_ns) + shift, *trace.window_ns).tolist()
    return (int(min(edges)), int(max(edges))) if edges else (0, 0)


def _covers_of_rank(index: RankIndex) -> tuple[Intervals, ...]:
    """Return the unions `_WORK` of a rank, before the clock shift."""
    table, rows = index.rank.table, index.device_rows
    kind = table.kind[rows]

    def union_of_kind(code: int) -> Intervals:
        rows_of_kind = rows[kind == code]
        start = table.start_ns[rows_of_kind]
        return union(start, start + table.dur_ns[rows_of_kind])

    compute, communication, memory = map(union_of_kind, _WORK_KINDS)
    exposed = subtract(communication, compute)
    memory_alone = subtract(subtract(memory, compute), communication)
    return compute, communication, memory, exposed, memory_alone


def compute_with_shift(index: RankIndex) -> Intervals:
    """Return the compute intervals of a rank with the clock shift applied."""
    compute, shift_ns = _covers_of_rank(index)[0], index.rank.shift_ns
    return Intervals(compute.start + shift_ns, compute.end + shift_ns)


def stats_reply(
    start: int,
    end: int,
    indices: Sequence[RankIndex],
    device: DeviceTimes,
    *,
    ranks: Sequence[int] | None = None,
) -> Stats:
    """Answer ``stats``: times in a window by rank, and shares over `ranks` (default: all ranks)."""
    check_window(start, end)
    blocks = list(device.times_between(np.array((start, end), np.int64)))
    nothing = np.empty((0, 1), np.int64)
    times = {
        name: np.concatenate([nothing, *(parts[name] for parts in blocks)])[:, 0] for name in _PARTS
    }
    span = _clipped_length(start, end, device.first, device.last) - times["between_windows"]
    parts_of_span = ("compute", "exposed", "memory_alone", "unrecorded")
    idle = span - sum(times[name] for name in parts_of_span)
    rank_numbers = [index.rank.rank for index in indices]
    is_chosen = np.array([ranks is None or rank in ranks for rank in rank_numbers], np.bool_)
    total_span = int(span[is_chosen].sum())
    shares: dict[str, float] = {}
    if total_span and device.has_work:
        for name in ("compute", "communication", "memory"):
            shares[name] = int(times[name][is_chosen].sum()) / total_span
    return {
        "start": start,
        "end": end,
        "ranks": rank_numbers,
        "compute": times["compute"].tolist(),
        "communication": times["communication"].tolist(),
        "exposed": times["exposed"].tolist(),
        "memory": times["memory_alone"].tolist(),
        "data": _clipped_length(start, end, device.low, device.high).tolist(),
        "span": span.tolist(),
        "idle": idle.tolist(),
        "unrecorded": times["unrecorded"].tolist(),
        "kinds": shares,
    }


def minimap_reply(
    start: int, end: int, bins: int, *, indices: Sequence[RankIndex], device: DeviceTimes
) -> tuple[dict[str, Any], bytes]:
    """Answer ``minimap``: for each bin and kind of work, the share of time averaged over ranks.

    Without device work, the share is averaged over the folded host lanes, and each bin is assigned
    to its main kind. A bin with only zero-duration events counts as 1 ns.
    """
    check_bins(bins)
    edges = bin_edges(start, end, bins)
    if device.has_work:
        totals, lanes = _device_totals(device, edges), len(indices)
    else:
        totals, lanes = _host_totals(indices, edges)
    weight = np.diff(edges).astype(np.float64) * lanes
    header, buffer = pack(
        {
            name: ("f32", np.divide(total, weight, out=np.zeros(bins), where=weight > 0))
            for name, total in totals.items()
        }
    )
    return {"start": start, "end": end, "bins": bins, "columns": header}, buffer


def _device_totals(device: DeviceTimes, edges: Ints) -> dict[str, Ints]:
    part_of_kind = {"compute": "compute", "exposed": "exposed", "memory": "memory_alone"}
    totals = {kind: np.zeros(len(edges) - 1, np.int64) for kind in part_of_kind}
    for parts in device.times_between(edges, tuple(part_of_kind.values())):
        for kind, part in part_of_kind.items():
            totals[kind] += parts[part].sum(axis=0)
    return totals


def _host_totals(indices: Sequence[RankIndex], edges: Ints) -> tuple[dict[str, Ints], int]:
    totals = {kind: np.zeros(len(edges) - 1, np.int64) for kind in KINDS}
    lanes = 0
    for index in indices:
        for cells in _host_cells(index, edges):
            lanes += 1
            times = np.maximum(cells.covered, cells.count > 0)
            for code, kind in enumerate(KINDS):
                totals[kind] += np.where(cells.kind == code, times, 0)
        raise_if_cancelled()
    return {kind: time for kind, time in totals.items() if time.any() or kind == "cpu"}, lanes


def _host_cells(index: RankIndex, edges: Ints) -> Iterator[Cells]:
    for row in index.rank.summary:
        lane = index.lane(row.lane)[1]
        if row.role == "cpu" and not isinstance(lane, CounterLane):
            yield measure_cells(lane, edges - index.rank.shift_ns)
