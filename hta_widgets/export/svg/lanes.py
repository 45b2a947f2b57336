"""The marks in lanes: exact cells, rectangles with names, waits, late arrivals, counters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hta_widgets.charts.theme import Theme
from hta_widgets.export.svg.class_colours import Classed
from hta_widgets.export.svg.colours import Colours
from hta_widgets.export.svg.drawing import Drawing
from hta_widgets.export.svg.drawing import Numbers
from hta_widgets.export.svg.drawing import mixed
from hta_widgets.export.svg.drawing import number
from hta_widgets.export.svg.fonts import fitted
from hta_widgets.export.svg.place import Place
from hta_widgets.export.svg.rows import Band
from hta_widgets.export.svg.rows import Form
from hta_widgets.tiles.lane_index import CounterLane
from hta_widgets.tiles.lane_index import Lane
from hta_widgets.trace.spans import spans_of
from hta_widgets.trace.names import short_name
from hta_widgets.tiles.cells import NO_KIND
from hta_widgets.tiles.cells import Cells
from hta_widgets.tiles.cells import measure
from hta_widgets.tiles.rank_index import OF_EVENTS
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.rank_index import Rows

__all__ = ["Lanes"]

#: Rectangles begin at this width; shorter events are columns of cells.
_RECT_PX = 2
_GAP_FROM_PX = 3
_LATE_FILLED_FROM_PX = 4
_LAST_TINT = 0.12
_LABEL_FROM_PX = 26
_LABEL_FROM_HEIGHT = 12
#: Heights of columns are told apart in so many steps a px: neighbours of equal height are one.
_STEPS = 4

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Slices:
    """Events long enough for a rectangle, in lane order; times as the page sees them."""

    start: Ints
    dur: Ints
    row: npt.NDArray[np.int32]

    @property
    def end(self) -> Ints:
        return self.start + self.dur


class Lanes:
    """Draws lanes, from the rank's events themselves.

    Parameters
    ----------
    drawing : Drawing
    place : Place
    colours : Colours
    by_name : bool
        Give each name a shade of its kind's colour.
    classed : Classed, optional
        Colour by these classes instead of kinds.
    """

    def __init__(
        self,
        drawing: Drawing,
        place: Place,
        colours: Colours,
        *,
        by_name: bool,
        classed: Classed | None = None,
    ) -> None:
        self.drawing = drawing
        self.place = place
        self.colours = colours
        self.theme: Theme = colours.theme
        self.by_name = by_name and classed is None
        self.classed = classed
        self.edges = place.edges
        self.x = place.xs(self.edges)

    def draw(self, index: RankIndex, band: Band, y: float, *, waits: bool, named: bool) -> None:
        """Draw one lane with its ground.

        `waits`: also what lies over it; `named`: the rank is one that the others wait for.
        """
        self._ground(index, band.form, y, band.height)
        ref, lane = index.lane(band.lane)
        if isinstance(lane, CounterLane):
            self._counter(lane, index.rank.shift_ns, band, y)
            return
        over = waits and band.wait >= 0
        if over:
            self._late(index, band, y, named=named)
        slices = self._slices(lane, index.rank.shift_ns)
        cells = self._cells(index, band.lane, lane)
        self._columns(cells, slices, index.rank.shift_ns, band, y)
        table = index.table_of(ref)
        codes = self._codes(index, ref.role, table, slices.row)
        self._rects(slices, codes, table, band, y, disjoint=lane.spans.disjoint)
        waiting = self._waits(index, band.wait, y, band.height) if over else None
        if band.height >= _LABEL_FROM_HEIGHT and band.form in {"solid", "pale"}:
            self._labels(slices, codes, waiting, table, band, y)

    # --- what is behind ---------------------------------------------------------------------------

    def _ground(self, index: RankIndex, form: Form, y: float, height: float) -> None:
        low, high = index.rank.range_ns
        x0, x1 = self.place.x(low), self.place.x(high)
        self.drawing.rect(x0, y, x1 - x0, height, self.colours.ground(form))

    # --- events -----------------------------------------------------------------------------------

    def _slices(self, lane: Lane, shift: int) -> _Slices:
        least = max(1, math.ceil(_RECT_PX * self.place.ns_per_px))
        at = lane.long_events(self.place.start - shift, self.place.end - shift, least)
        if not len(at):
            none = np.empty(0, np.int64)
            return _Slices(none, none, np.empty(0, np.int32))
        return _Slices(lane.spans.begins[at] + shift, lane.durations(at), lane.rows_of(at))

    def _cells(self, index: RankIndex, number_: int, lane: Lane) -> Cells:
        """Return what lies in each px, with the kind of most of it, or the class."""
        edges = self.edges - index.rank.shift_ns
        if self.classed is None:
            return measure(lane, edges)
        classes = self.classed.classes_of(index.rank.rank)
        by_class = None if classes is None else index.classed(number_, classes)
        if by_class is not None:
            return measure(by_class, edges)
        cells = measure(lane, edges)
        unknown = np.uint8(len(self.classed.looks) - 1)
        return replace(cells, kind=np.where(cells.kind == NO_KIND, cells.kind, unknown))

    def _codes(self, index: RankIndex, role: str, table: Rows, rows: npt.NDArray[np.int32]) -> Ints:
        """Return the kind of each rectangle, or the class."""
        if self.classed is None:
            return table.kind[rows].astype(np.int64)
        classes = self.classed.classes_of(index.rank.rank)
        if classes is None or role not in OF_EVENTS:
            return np.full(len(rows), len(self.classed.looks) - 1, np.int64)
        return classes[rows].astype(np.int64)

    def _columns(self, cells: Cells, slices: _Slices, shift: int, band: Band, y: float) -> None:
        """Draw what is too short for a rectangle: as high as the share of time that it takes."""
        edges = self.edges - shift
        covered, count = cells.covered, cells.count
        if len(slices.start):
            long, longs = spans_of(slices.start - shift, slices.dur).measure(edges)
            covered, count = covered - long, count - longs
        size = covered / np.diff(edges) * band.height
        size = np.where((count > 0) & (size < 1), min(1.0, band.height), size)
        size = np.round(np.minimum(size, band.height) * _STEPS) / _STEPS
        size[(count <= 0) | (cells.kind == NO_KIND)] = 0
        for code in np.unique(cells.kind[size > 0]).tolist():
            of_kind = np.where(cells.kind == code, size, 0)
            self.drawing.path(
                self._skyline(of_kind, y + band.height), self.colours.column(code, band.form)
            )

    def _skyline(self, size: Numbers, base: float) -> str:
        """Return the outline of columns that stand on `base`; equal neighbours are one step."""
        steps = np.flatnonzero(np.diff(size, prepend=-1.0))
        ends = np.append(steps[1:], len(size))
        foot = number(base)
        parts: list[str] = []
        within = False
        for first, last in zip(steps.tolist(), ends.tolist(), strict=True):
            height = float(size[first])
            if height <= 0:
                parts.append("z" if within else "")
                within = False
                continue
            if not within:
                parts.append(f"M{number(self.x[first])} {foot}")
            parts.append(f"V{number(base - height)}H{number(self.x[last])}")
            # A step down to nothing, or the end: back to the foot.
            if last == len(size) or size[last] <= 0:
                parts.append(f"V{foot}")
            within = True
        return "".join(parts) + ("z" if within else "")

    def _rects(
        self,
        slices: _Slices,
        kinds: Ints,
        table: Rows,
        band: Band,
        y: float,
        *,
        disjoint: bool,
    ) -> None:
        if not len(slices.start):
            return
        left, right = self.place.xs(slices.start), self.place.xs(slices.end)
        shown = np.where(right - left >= _GAP_FROM_PX, right - 1, right)
        shades = self._shades(slices, table) if self.by_name else np.zeros(len(kinds), np.int64)
        codes = kinds * 3 + shades
        for code, at in _runs(codes, whole=disjoint):
            kind, shade = divmod(code, 3)
            if band.form != "pale" and not self.colours.is_pale(kind):
                colour = self.colours.solid(kind, shade)
                self.drawing.rects(left[at], shown[at], y, band.height, colour)
                continue
            edge = self.colours.edge_px(kind)
            widths = np.minimum(
                np.where(right[at] - left[at] <= 8, 1.0, edge), shown[at] - left[at]
            )
            begun = slices.start[at] < self.place.start
            inner = left[at] + np.where(begun, 0, widths)
            tint = self.colours.tint(kind, shade)
            self.drawing.rects(inner, shown[at], y, band.height, tint)
            here = at[~begun]
            self.drawing.rects(
                left[here],
                left[here] + widths[~begun],
                y,
                band.height,
                self.colours.solid(kind, shade),
            )

    def _shades(self, slices: _Slices, table: Rows) -> Ints:
        codes, inverse = np.unique(table.name[slices.row], return_inverse=True)
        shades = [self.colours.shade(short_name(table.names[int(code)])) for code in codes]
        return np.array(shades, np.int64)[inverse]

    def _labels(
        self,
        slices: _Slices,
        kinds: Ints,
        waits: _Slices | None,
        table: Rows,
        band: Band,
        y: float,
    ) -> None:
        place = self.place
        baseline = round(y + band.height / 2 + 4)
        least = _LABEL_FROM_PX * place.ns_per_px
        for at in np.flatnonzero(slices.dur >= least).tolist():
            low = max(int(slices.start[at]), place.start)
            high = min(int(slices.end[at]), place.end)
            low, high = _widest_free(low, high, slices, at + 1)
            if waits is not None:
                # Letters over the hatch of a wait would be hard to read.
                low, high = _widest_free(low, high, waits, 0)
            x0, x1 = place.x(low), place.x(high)
            if x1 - x0 < _LABEL_FROM_PX:
                continue
            row = int(slices.row[at])
            kind = int(kinds[at])
            pale = band.form == "pale" or self.colours.is_pale(kind)
            name = short_name(table.names[int(table.name[row])])
            label = fitted(name, x1 - x0 - 8)
            colour = self.theme.ink if pale else self._text_on(kind, name)
            self.drawing.text(x0 + (5 if pale else 4), baseline, label, colour)

    def _text_on(self, kind: int, name: str) -> str:
        return self.colours.text_on(kind, self.colours.shade(name) if self.by_name else 0)

    # --- waits and late arrivals ------------------------------------------------------------------

    def _over(self, index: RankIndex, number_: int, height: float) -> tuple[_Slices, Numbers]:
        """Return rectangles of a lane of waits, and heights of the columns of what is left."""
        lane = index.lane(number_)[1]
        shift = index.rank.shift_ns
        if isinstance(lane, CounterLane) or not len(lane.spans):
            none = np.empty(0, np.int64)
            return _Slices(none, none, np.empty(0, np.int32)), np.empty(0)
        slices = self._slices(lane, shift)
        edges = self.edges - shift
        covered = lane.spans.measure(edges)[0]
        if len(slices.start):
            covered = covered - spans_of(slices.start - shift, slices.dur).measure(edges)[0]
        size = np.minimum(covered / np.diff(edges), 1) * height
        return slices, np.round(size)

    def _waits(self, index: RankIndex, lane: int, y: float, height: float) -> _Slices:
        slices, columns = self._over(index, lane, height)
        if len(columns):
            self.drawing.path(self._skyline(columns, y + height), self.colours.wait_pattern)
        left, right = self.place.xs(slices.start), self.place.xs(slices.end)
        self.drawing.rects(left, right, y, height, self.colours.wait_pattern)
        self.drawing.frames(left, right, y, height, self.theme.wait_line)
        return slices

    def _late(self, index: RankIndex, band: Band, y: float, *, named: bool) -> None:
        theme, height = self.theme, band.height
        line = theme.late if named else theme.ink3
        fill = theme.late_fill if named else mixed(theme.ink3, theme.bg, _LAST_TINT)
        slices, columns = self._over(index, band.late, height)
        if len(columns):
            self.drawing.path(self._skyline(columns, y + height), line)
        left, right = self.place.xs(slices.start), self.place.xs(slices.end)
        filled = right - left >= _LATE_FILLED_FROM_PX
        self.drawing.rects(left[filled], right[filled], y, height, fill)
        self.drawing.frames(left, right, y, height, line)

    # --- counters ---------------------------------------------------------------------------------

    def _counter(self, lane: CounterLane, shift: int, band: Band, y: float) -> None:
        if not len(lane.times):
            return
        smallest, largest = lane.measure(self.edges - shift)
        low, high = band.range or (0.0, 1.0)
        floor = min(0.0, low)
        scale = (band.height - 1) / (high - floor) if high > floor else 0.0
        known = ~np.isnan(largest)
        top = np.where(known, np.round((np.nan_to_num(largest) - floor) * scale) + 1, 0)
        bottom = np.where(known, np.round((np.nan_to_num(smallest) - floor) * scale), 0)
        base = y + band.height
        self.drawing.path(self._skyline(top, base), self.colours.counter_line)
        self.drawing.path(
            self._skyline(np.minimum(bottom, top - 1).clip(0), base), self.colours.counter_fill
        )


def _runs(codes: Ints, *, whole: bool) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Yield codes with their places: each once, or, to keep the order, run by run."""
    if whole:
        for code in np.unique(codes).tolist():
            yield code, np.flatnonzero(codes == code)
        return
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    for low, high in zip(first.tolist(), [*first[1:].tolist(), len(codes)], strict=True):
        yield int(codes[low]), np.arange(low, high)


def _widest_free(low: int, high: int, over: _Slices, first: int) -> tuple[int, int]:
    """Return the longest part of a stretch over which none of these lies."""
    start, end = over.start[first:], over.end[first:]
    near = (start < high) & (end > low)
    cursor, widest = low, (low, low)
    for begin, stop in zip(start[near].tolist(), end[near].tolist(), strict=True):
        if begin - cursor > widest[1] - widest[0]:
            widest = (cursor, begin)
        cursor = max(cursor, stop)
    return (cursor, high) if high - cursor > widest[1] - widest[0] else widest
