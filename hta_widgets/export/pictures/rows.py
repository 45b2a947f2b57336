"""Lay out the rows of a picture like ``js/src/stage``, and draw their lanes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from hta_widgets.export.pictures.drawing import (
    EventClassing,
    Form,
    Label,
    Painter,
    fit_text,
    number,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import consecutive_runs, run_text
from hta_widgets.tiles.cells import NO_KIND, Cells, measure_cells
from hta_widgets.tiles.lanes import CounterLane, EventLane
from hta_widgets.tiles.rank_index import OF_EVENTS, RankIndex, TableRows
from hta_widgets.trace.arrays import Floats, Ints, Rows
from hta_widgets.trace.intervals import index_intervals
from hta_widgets.trace.names import short_name

RankScene = Mapping[str, Any]

#: Minimum and maximum heights in px of the GPU and communication lanes of a folded rank.
_GPU, _COMM, _GROWN_GPU, _GROWN_COMM = 16, 12, 24, 15
#: Spacing in px within a folded rank: above the lanes, between lanes, above the thread bars, and at
#: the bottom. The last number is the height of a thread bar.
_PAD, _GAP, _BEFORE_CPU, _BELOW, _BAR = 3, 1, 3, 2, 3
#: Maximum number of thread bars of a folded rank, by default and if space is short.
_MAX_BARS, _FEW_BARS = 3, 2
#: Above 40 ranks, rows have one line of text. Above 16, the ribbon (5 px) has priority over bars.
_MANY_RANKS, _RIBBON_FIRST, _RIBBON = 40, 16, 5
#: Height in px of a folded rank with two lines of text.
_TWO_LINES = 36

#: For each track role: lane pitch, space below the last lane, and how events are drawn.
_TRACKS: Mapping[str, tuple[int, int, Form]] = {
    "thread": (17, 4, "pale"), "stream": (21, 4, "solid"), "annotation": (16, 2, "pale"),
    "async": (17, 4, "solid"), "instant": (12, 3, "solid"), "counter": (30, 4, "counter"),
}  # fmt: skip

_CPU = KINDS.index("cpu")

#: Minimum width of a rectangle in px. Narrower events are merged into columns.
_RECT_PX = 2
_GAP_FROM_PX = 3
_LABEL_FROM_PX = 26
_LABEL_FROM_HEIGHT = 12
#: Number of distinct column heights per px. Adjacent columns of equal height are merged.
_STEPS = 4


@dataclass(frozen=True)
class Band:
    """A lane of a row; `top` is relative to the top of the row."""

    lane: int
    top: float
    height: float
    form: Form
    label: str = ""
    #: Lane numbers of the waits and of the late arrivals, or -1 if the lane has none.
    wait: int = -1
    late: int = -1
    #: Minimum and maximum of a counter.
    range: tuple[float, float] | None = None

    @property
    def bottom(self) -> float:
        """The lower edge of the lane."""
        return self.top + self.height


@dataclass(frozen=True)
class Row:
    """A folded rank, the header of an unfolded rank (`track` is None), or a track."""

    rank: RankScene
    track: Mapping[str, Any] | None
    names: tuple[str, ...]
    height: float
    bands: tuple[Band, ...]
    open: bool = False
    #: The ranks that the row represents, and why an outlier has its own row.
    like: tuple[int, ...] = ()
    why: str = ""
    #: Top and height of the ribbon of late arrivals, relative to the row.
    ribbon: tuple[float, float] | None = None
    top: float = 0


@dataclass(frozen=True)
class _FoldedSizes:
    """Sizes that are the same in all rows of folded ranks."""

    mode: Literal["full", "line", "compact"]
    height: float
    pad: float
    gpu: float
    comm: float
    bars: int
    ribbon: float = 0


def layout_rows(
    scene: Mapping[str, Any],
    height: float,
    *,
    pinned: Sequence[str] = (),
    opened: Collection[int] | None = None,
    only: Collection[int] | None = None,
    clusters: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Lay out the rows, pinned ones first. Folded ranks are enlarged to fill `height` px."""
    groups = [] if clusters is None else clusters["clusters"]
    similar = {
        group["representative"]: group["ranks"] for group in groups if len(group["ranks"]) > 1
    }
    outliers = clusters["outliers"] if clusters and similar else ()
    why = {outlier["rank"]: outlier["why"] for outlier in outliers}
    represented = {rank for ranks in similar.values() for rank in ranks} - similar.keys()
    hidden = {rank for rank in represented if str(rank) not in pinned}
    ranks = [
        rank
        for rank in scene["ranks"]
        if rank["rank"] not in hidden and (only is None or rank["rank"] in only)
    ]
    if opened is None:
        opened = {ranks[0]["rank"]} if len(ranks) == 1 else set()
    ribbons = has_waits(scene)
    fold = _folded_sizes(scene["ranks"], len(ranks), height, any_open=bool(opened), ribbons=ribbons)
    place_of_pin = {key: pinned.index(key) for key in pinned}
    blocks: list[tuple[float, list[Row]]] = []
    for rank in ranks:
        number = rank["rank"]
        is_open = number in opened and bool(_used_tracks(rank))
        like = tuple(similar.get(number, (number,)))
        head = _head_row(rank, fold, like, why.get(number, ""), is_open=is_open)
        blocks += _blocks_of_rank(head, place_of_pin)
    blocks.sort(key=itemgetter(0))
    in_order = [row for _, rows in blocks for row in rows]
    tops = accumulate((row.height for row in in_order), initial=0.0)
    return [replace(row, top=top) for row, top in zip(in_order, tops, strict=False)]


def _used_tracks(rank: RankScene) -> list[Mapping[str, Any]]:
    return [track for track in rank["tracks"] if track["events"] and track["lanes"]]


def _blocks_of_rank(
    head: Row, place_of_pin: Mapping[str, int]
) -> Iterator[tuple[float, list[Row]]]:
    """Yield the blocks of rows to keep together, each with its position among the pins.

    Each pinned track is a separate block. The last block contains the rank's `head` and, if the
    rank is unfolded, its remaining tracks. Its position is infinite if the rank is not pinned.
    """
    rank, rows = head.rank, [head]
    number = rank["rank"]
    for track in _used_tracks(rank):
        place = place_of_pin.get(f"{number}/{track['key']}")
        if place is not None:
            yield place, [_track_row(rank, track, f"rank {number} · {track['label']}")]
        elif head.open:
            rows.append(_track_row(rank, track, _track_name(rank, track)))
    yield place_of_pin.get(str(number), math.inf), rows


def has_waits(scene: Mapping[str, Any]) -> bool:
    """Return whether waits at collectives are drawn."""
    return any("wait" in row for rank in scene["ranks"] for row in rank["summary"])


def _of_role(rank: RankScene, role: str) -> list[Mapping[str, Any]]:
    return [row for row in rank["summary"] if row["role"] == role]


def _folded_sizes(
    ranks: Sequence[RankScene], count: int, height: float, *, any_open: bool, ribbons: bool
) -> _FoldedSizes:
    """Return sizes for which `count` folded ranks fit in `height`, as in the page."""
    if any_open:
        return _FoldedSizes("line", height=27, pad=3, gpu=9, comm=13, bars=_MAX_BARS)
    has_comm = any(_of_role(rank, "comm") for rank in ranks)
    has_gpu = has_comm or any(_of_role(rank, "gpu") for rank in ranks)
    threads = max((len(_of_role(rank, "cpu")) for rank in ranks), default=0)
    row_height = height // count if count else height
    device_height = (_GPU if has_gpu else 0) + (_COMM + _GAP if has_comm else 0)
    is_many = count > _MANY_RANKS
    max_bars = min(threads, _MAX_BARS)
    if is_many and not has_gpu:
        return _FoldedSizes("compact", height=18, pad=2, gpu=8, comm=6, bars=max_bars)
    min_height = _TWO_LINES - 2 if is_many else _TWO_LINES
    full_sizes = partial(_full_sizes, min_height, device_height)
    # To save height, bars are removed first: all of them if there are many ranks, otherwise most.
    bars = 0 if is_many else max_bars
    if full_sizes(bars).height > row_height:
        if is_many:
            return _compact_sizes(row_height, has_comm=has_comm)
        bars = min(threads, _FEW_BARS)
    sizes = full_sizes(bars, _RIBBON if ribbons else 0)
    if ribbons and sizes.height > row_height:
        keeps_ribbon = _RIBBON_FIRST < count <= _MANY_RANKS
        sizes = full_sizes(0, _RIBBON) if keeps_ribbon else full_sizes(bars)
    return _grow_lanes(sizes, row_height)


def _full_sizes(min_height: int, device_height: int, bars: int, ribbon: int = 0) -> _FoldedSizes:
    cpu_height = _BEFORE_CPU + bars * (_BAR + 1) - 1 if bars else 0
    ribbon_height = ribbon + _GAP if ribbon else 0
    content_height = _PAD + device_height + ribbon_height + cpu_height + _BELOW
    return _FoldedSizes("full", max(min_height, content_height), _PAD, _GPU, _COMM, bars, ribbon)


def _compact_sizes(row_height: float, *, has_comm: bool) -> _FoldedSizes:
    extra = max(0, min(row_height - 18, 14))
    extra_comm = math.floor(extra * 0.43) if has_comm else 0
    gpu = 8 + extra - extra_comm + (0 if has_comm else 6)
    return _FoldedSizes("compact", 18 + extra, 2, gpu, 6 + extra_comm, 0)


def _grow_lanes(fold: _FoldedSizes, row_height: float) -> _FoldedSizes:
    """Distribute the remaining height among the device lanes, up to their maximum heights."""
    max_growth = _GROWN_GPU - fold.gpu + (_GROWN_COMM - fold.comm)
    extra = max(0, min(row_height - fold.height, max_growth))
    extra_gpu = int(extra * (_GROWN_GPU - fold.gpu) / max_growth + 0.5)
    comm = fold.comm + extra - extra_gpu
    return replace(fold, height=fold.height + extra, gpu=fold.gpu + extra_gpu, comm=comm)


def _head_row(
    rank: RankScene, fold: _FoldedSizes, like: tuple[int, ...], why: str, *, is_open: bool
) -> Row:
    rank_name = rank["label"] or f"rank {rank['rank']}"
    names = _group_names(rank["rank"], like) if len(like) > 1 else (rank_name,)
    if rank_name.startswith("worker ") and len(like) == 1:
        names = (rank_name, rank_name.replace("worker ", "w"))
    bands = _folded_bands(rank, fold)
    waits = next((band for band in bands if band.wait >= 0), None)
    ribbon = None
    if fold.ribbon and waits is not None:
        ribbon = (waits.top + waits.height + _GAP, fold.ribbon)
    return Row(rank, None, names, fold.height, bands, is_open, like, why, ribbon)


def _group_names(rank: int, like: Sequence[int]) -> tuple[str, ...]:
    """Return names for a group of similar ranks, longest first."""
    short_names = (f"{len(like)} ranks like {rank}", f"{len(like)} like {rank}")
    runs = consecutive_runs(like)
    if len(runs) > 4:
        return short_names
    return (f"ranks {', '.join(map(run_text, runs))}", *short_names)


def _folded_bands(rank: RankScene, fold: _FoldedSizes) -> tuple[Band, ...]:
    gpu, comm, threads = (_of_role(rank, role) for role in ("gpu", "comm", "cpu"))
    has_labels = fold.mode == "full"
    if not gpu and not comm:
        return _host_bands(rank, threads, fold)
    bands: list[Band] = []
    top = fold.pad
    if gpu:
        height = fold.gpu + (fold.comm if not comm and not has_labels else 0)
        label = gpu[0]["label"] if has_labels else ""
        bands.append(Band(gpu[0]["lane"], top, height, "solid", label))
        top += height + _GAP
    if comm:
        row = comm[0]
        overlays = {"wait": row.get("wait", -1), "late": row.get("late", -1)}
        label = row["label"] if has_labels else ""
        bands.append(Band(row["lane"], top, fold.comm, "solid", label, **overlays))
        top += fold.comm + _GAP + (fold.ribbon + _GAP if fold.ribbon else 0)
    if has_labels and fold.bars:
        shown = _busiest_threads(rank, threads, fold.bars)
        label = f"CPU +{len(threads) - len(shown)}" if len(threads) > len(shown) else "CPU"
        bands += _thread_bars(shown, top + _BEFORE_CPU - _GAP, _BAR, label)
    return tuple(bands)


def _thread_bars(
    threads: list[Mapping[str, Any]], top: float, height: float, first_label: str
) -> list[Band]:
    labels = [first_label, *[""] * len(threads)]
    return [
        Band(thread["lane"], top + index * (height + 1), height, "bar", labels[index])
        for index, thread in enumerate(threads)
    ]


def _busiest_threads(
    rank: RankScene, threads: list[Mapping[str, Any]], max_threads: int
) -> list[Mapping[str, Any]]:
    if len(threads) <= max_threads:
        return threads
    tracks = [track for track in rank["tracks"] if track["role"] == "thread"]
    events = {track["label"]: track["events"] for track in tracks}
    busiest = sorted(threads, key=lambda row: -events.get(row["label"], 0))[:max_threads]
    return [row for row in threads if row in busiest]


def _host_bands(
    rank: RankScene, threads: list[Mapping[str, Any]], fold: _FoldedSizes
) -> tuple[Band, ...]:
    shown = _busiest_threads(rank, threads, max(1, fold.bars))
    if not shown:
        return ()
    gaps_px = len(shown) - 1
    height = max(2, min(_GROWN_GPU, (fold.height - 2 * fold.pad - gaps_px) // len(shown)))
    return tuple(_thread_bars(shown, fold.pad, height, "CPU" if fold.mode == "full" else ""))


def _track_row(rank: RankScene, track: Mapping[str, Any], name: str) -> Row:
    """Return the row of a track. Lanes for overlapping events are labeled ``+1``, ``+2``, etc."""
    role, lanes = track["role"], track["lanes"]
    pitch, below, form = _TRACKS["thread" if role == "other" else role]
    nested = lanes if role == "counter" else max(1, track["nested"])
    labels = [name, *[""] * (nested - 1), *(f"+{number + 1}" for number in range(lanes - nested))]
    is_disjoint = role == "stream" and lanes == 1
    bands = tuple(
        Band(
            lane=track["lane0"] + depth,
            top=depth * pitch + 1,
            height=pitch if is_disjoint else pitch - 1,
            form=form,
            label=labels[depth],
            wait=track.get("wait", -1) if depth == 0 else -1,
            late=track.get("late", -1) if depth == 0 else -1,
            range=tuple(track["range"]) if "range" in track else None,
        )
        for depth in range(lanes)
    )
    height = pitch * max(1, lanes) + below
    return Row(rank, track, (name,), height, bands, open=True, like=(rank["rank"],))


def _track_name(rank: RankScene, track: Mapping[str, Any]) -> str:
    """Return a track's label, preceded by its device or process and two spaces."""
    label: str = track["label"]
    match track["role"]:
        case "stream":
            streams = (other for other in rank["tracks"] if other["role"] == "stream")
            devices = {stream["process"] for stream in streams}
            device = track["process"] if len(devices) > 1 else rank.get("device", "GPU")
            return f"{device}  {label}{' · communication' if track['communication'] else ''}"
        case "thread":
            return f"CPU  {label}"
        case "instant" | "async":
            process = track["process"].removeprefix("process").strip()
            return f"{process}  {label}" if process else label
    return label


@dataclass(frozen=True)
class _Slices:
    """The events that are drawn as rectangles, in lane order, in ns since the job's origin."""

    start: Ints
    dur: Ints
    row: npt.NDArray[np.int32]

    @property
    def end(self) -> Ints:
        return self.start + self.dur

    def measure(self, edges: Ints) -> tuple[Ints, Ints]:
        return index_intervals(self.start, self.dur).measure(edges)


@dataclass(kw_only=True)
class LanePainter(Painter):
    """Draws the events of lanes, with waits on top of communication if `waits` is set."""

    by_name: bool
    classed: EventClassing | None
    waits: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self.by_name = self.by_name and self.classed is None
        self.labels: list[Label] = []  # names of the drawn events
        self.edges = self.area.edges
        self.x = self.area.xs(self.edges)

    def draw_lane(self, index: RankIndex, band: Band, *, is_late: bool) -> None:
        """Draw a lane and its background. The top of the band is relative to the picture.

        `is_late` marks a rank that others wait for.
        """
        low, high = map(self.area.x, index.rank.range_ns)
        self.drawing.rect(low, band.top, high - low, band.height, self.colors.ground(band.form))
        ref, lane = index.lane(band.lane)
        if isinstance(lane, CounterLane):
            self._draw_counter(lane, index.rank.shift_ns, band)
            return
        has_waits = self.waits and band.wait >= 0
        if has_waits:
            self._draw_late(index, band, is_late=is_late)
        slices = self._slices(lane, index.rank.shift_ns)
        cells = self._cells(index, band.lane, lane)
        self._draw_columns(cells, slices, band)
        table = index.table_of(ref)
        codes = self._codes(index, ref.role, band.form, table, slices.row)
        self._draw_rects(slices, codes, band, disjoint=lane.spans.is_disjoint)
        waits = self._draw_waits(index, band) if has_waits else None
        if band.height >= _LABEL_FROM_HEIGHT and band.form in {"solid", "pale"}:
            self._draw_labels(slices, codes, waits, table, band)

    def _slices(self, lane: EventLane, shift: int) -> _Slices:
        """Return the visible events of a lane that are at least `_RECT_PX` wide."""
        min_ns = max(1, math.ceil(_RECT_PX * self.area.ns_per_px))
        positions = lane.long_events(self.area.start - shift, self.area.end - shift, min_ns)
        if not len(positions):  # also empty if the lane keeps no rows
            none = np.empty(0, np.int64)
            return _Slices(none, none, np.empty(0, np.int32))
        return _Slices(
            lane.spans.sorted_starts[positions] + shift,
            lane.durations(positions),
            lane.rows_of(positions),
        )

    def _cells(self, index: RankIndex, lane_number: int, lane: EventLane) -> Cells:
        """Return the cells of a lane, by kind or class. Lanes without classes get the last one."""
        edges = self.edges - index.rank.shift_ns
        if self.classed is None:
            return measure_cells(lane, edges)
        classes = self.classed.classes_of(index.rank.rank)
        by_class = None if classes is None else index.lane_by_class(lane_number, classes)
        if by_class is not None:
            return measure_cells(by_class, edges, by_class=True)
        cells = measure_cells(lane, edges)
        unknown = np.uint8(len(self.classed.styles) - 1)
        return replace(cells, kind=np.where(cells.kind == NO_KIND, cells.kind, unknown))

    def _codes(
        self, index: RankIndex, role: str, form: Form, table: TableRows, rows: npt.NDArray[np.int32]
    ) -> Ints:
        """Return a code for each rectangle: 16 times its kind or class, plus its shade."""
        if self.classed is not None:
            classes = self.classed.classes_of(index.rank.rank)
            if classes is None or role not in OF_EVENTS:
                return np.full(len(rows), (len(self.classed.styles) - 1) * 16, np.int64)
            return classes[rows].astype(np.int64) * 16
        kinds = table.kind[rows].astype(np.int64)
        if not self.by_name:
            return kinds * 16
        shades = self._shades(table, rows)
        if form == "pale":
            shades = np.where(kinds == _CPU, self._shades(table, rows, host=True), shades)
        return kinds * 16 + shades

    def _draw_columns(self, cells: Cells, slices: _Slices, band: Band) -> None:
        """Draw events too short for rectangles as columns whose height is the busy share."""
        long_ns, long_count = slices.measure(self.edges)
        count = cells.count - long_count
        height = (cells.covered - long_ns) / np.diff(self.edges) * band.height
        height = np.where((count > 0) & (height < 1), min(1.0, band.height), height)
        height = np.round(np.minimum(height, band.height) * _STEPS) / _STEPS
        height[(count <= 0) | (cells.kind == NO_KIND)] = 0
        for code in np.unique(cells.kind[height > 0]).tolist():
            heights_px = np.where(cells.kind == code, height, 0)
            outline = self._column_outline(heights_px, band.bottom)
            self.drawing.path(outline, self.colors.column(code, band.form))

    def _column_outline(self, heights_px: Floats, base: float) -> str:
        """Return the outline of columns above `base`, merging adjacent columns of equal height."""
        starts = np.flatnonzero(np.diff(heights_px, prepend=-1.0))
        ends = np.append(starts[1:], len(heights_px))
        base_text = number(base)
        # Zero heights before the first and after the last column close all outlines.
        heights = [0.0, *heights_px[starts].tolist(), 0.0]
        parts: list[str] = []
        for run, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True), 1):
            if heights[run] <= 0:
                continue
            if heights[run - 1] <= 0:
                parts.append(f"M{number(self.x[start])} {base_text}")
            parts.append(f"V{number(base - heights[run])}H{number(self.x[end])}")
            if heights[run + 1] <= 0:
                parts.append(f"V{base_text}z")
        return "".join(parts)

    def _draw_rects(self, slices: _Slices, codes: Ints, band: Band, *, disjoint: bool) -> None:
        """Draw rectangles. A pale one has an edge at the start of its event, if that is visible."""
        if not len(slices.start):
            return
        lefts, ends = self.area.xs(slices.start), self.area.xs(slices.end)
        # Separate wide rectangles from the next one by a 1 px gap.
        rights = np.where(ends - lefts >= _GAP_FROM_PX, ends - 1, ends)
        for code, indices in _runs(codes, is_disjoint=disjoint):
            paint = self.colors.paint(*divmod(code, 16))
            left, right = lefts[indices], rights[indices]
            if band.form != "pale" and not paint.pale:
                self.drawing.rects(left, right, band.top, band.height, paint.fill)
                continue
            begins_before = slices.start[indices] < self.area.start
            edge_px = np.where(ends[indices] - left <= 8, 1.0, paint.edge_px)
            edge_end = left + np.where(begins_before, 0, np.minimum(edge_px, right - left))
            self.drawing.rects(edge_end, right, band.top, band.height, paint.tint)
            edges = left[~begins_before], edge_end[~begins_before]
            self.drawing.rects(*edges, band.top, band.height, paint.fill)

    def _shades(self, table: TableRows, rows: npt.NDArray[np.int32], *, host: bool = False) -> Ints:
        codes, inverse = np.unique(table.name[rows], return_inverse=True)
        names = [short_name(table.names[int(code)]) for code in codes]
        shades = [self.colors.shade(name, host=host) for name in names]
        return np.array(shades, np.int64)[inverse]

    def _draw_labels(
        self, slices: _Slices, codes: Ints, waits: _Slices | None, table: TableRows, band: Band
    ) -> None:
        """Draw the names of wide slices into their longest part not covered by later slices."""
        area = self.area
        baseline = round(band.top + band.height / 2 + 4)
        min_ns = _LABEL_FROM_PX * area.ns_per_px
        for index in np.flatnonzero(slices.dur >= min_ns).tolist():
            low = max(int(slices.start[index]), area.start)
            high = min(int(slices.end[index]), area.end)
            low, high = _longest_uncovered(low, high, slices, index + 1)
            if waits is not None:
                # Text over the hatching of a wait would be hard to read.
                low, high = _longest_uncovered(low, high, waits, 0)
            x0, x1 = area.x(low), area.x(high)
            if x1 - x0 < _LABEL_FROM_PX:
                continue
            row = int(slices.row[index])
            name = short_name(table.names[int(table.name[row])])
            paint = self.colors.paint(*divmod(int(codes[index]), 16))
            pale = band.form == "pale" or paint.pale
            label = fit_text(name, x1 - x0 - 8)
            color = self.theme.ink if pale else paint.text
            x = x0 + (5 if pale else 4)
            self.drawing.text(x, baseline, label, color)
            self.labels.append((x, baseline, label))

    def _overlay_slices(self, index: RankIndex, lane_number: int) -> tuple[_Slices, Floats]:
        """Return the long waits or late arrivals of a lane, and each cell's share of short ones."""
        lane = cast("EventLane", index.lane(lane_number)[1])
        slices = self._slices(lane, index.rank.shift_ns)
        covered = lane.spans.measure(self.edges - index.rank.shift_ns)[0]
        return slices, (covered - slices.measure(self.edges)[0]) / np.diff(self.edges)

    def _draw_waits(self, index: RankIndex, band: Band) -> _Slices:
        """Draw the waits of a lane, short ones as columns; return the long ones."""
        pattern = self.colors.wait_pattern
        slices, short = self._overlay_slices(index, band.wait)
        heights_px = np.round(np.minimum(short, 1) * band.height)
        self.drawing.path(self._column_outline(heights_px, band.bottom), pattern)
        left, right = self.area.xs(slices.start), self.area.xs(slices.end)
        self.drawing.rects(left, right, band.top, band.height, pattern)
        self.drawing.frames(left, right, band.top, band.height, self.theme.wait_line)
        return slices

    def _draw_late(self, index: RankIndex, band: Band, *, is_late: bool) -> None:
        """Draw a dotted line before each late kernel, beginning when the other ranks arrived."""
        slices, short = self._overlay_slices(index, band.late)
        cells = np.flatnonzero(short > 0)
        left = np.r_[self.x[cells], self.area.xs(slices.start)]
        right = np.r_[self.x[cells + 1], self.area.xs(slices.end)]
        color = self.theme.late if is_late else self.theme.ink3
        self.drawing.dotted_lines(left, right, band.top + band.height / 2, color)

    def _draw_counter(self, lane: CounterLane, shift: int, band: Band) -> None:
        """Draw a column up to each cell's minimum, its range up to the maximum, and a line."""
        if not len(lane.times):
            return
        smallest, largest = lane.measure(self.edges - shift)  # per cell; NaN if the cell is empty
        low, high = band.range or (0.0, 1.0)
        floor = min(0.0, low)
        scale = (band.height - 1) / (high - floor) if high > floor else 0.0
        range_top = np.nan_to_num(np.round((largest - floor) * scale))
        range_bottom = np.nan_to_num(np.round((smallest - floor) * scale))
        line_top = np.where(np.isnan(largest), 0, range_top + 1)
        for height, color in (
            (line_top, self.colors.counter_line),
            (range_top, self.colors.counter_range),
            (range_bottom, self.colors.counter_fill),
        ):
            self.drawing.path(self._column_outline(height, band.bottom), color)


def _runs(codes: Ints, *, is_disjoint: bool) -> Iterator[tuple[int, Rows]]:
    """Yield codes with their positions: once per code if `is_disjoint`, otherwise run by run."""
    if is_disjoint:
        for code in np.unique(codes).tolist():
            yield code, np.flatnonzero(codes == code)
        return
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    for low, high in zip(first.tolist(), [*first[1:].tolist(), len(codes)], strict=True):
        yield int(codes[low]), np.arange(low, high)


def _longest_uncovered(low: int, high: int, over: _Slices, first: int) -> tuple[int, int]:
    """Return the longest part of a range not covered by the slices from position `first` on."""
    starts, ends = over.start[first:], over.end[first:]
    overlaps = (starts < high) & (ends > low)
    gap_start, longest = low, (low, low)
    # The appended slice closes the last gap at the end of the range.
    covers = zip([*starts[overlaps].tolist(), high], [*ends[overlaps].tolist(), high], strict=True)
    for start, end in covers:
        if start - gap_start > longest[1] - longest[0]:
            longest = (gap_start, start)
        gap_start = max(gap_start, end)
    return longest
