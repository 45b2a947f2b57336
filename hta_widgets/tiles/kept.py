"""The indexed lanes of a folded rank as columns of its file, and back, without a copy.

A view of many folded ranks asks for all their lanes at once. To index them takes most of the time
that the first such view takes; mapped from the file they are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.tiles.folded import device_rows
from hta_widgets.tiles.folded import folded_lane
from hta_widgets.tiles.lane_index import Kinds
from hta_widgets.tiles.lane_index import Lane
from hta_widgets.tiles.lay_out import folded
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.trace.spans import Cover
from hta_widgets.trace.spans import Spans
from hta_widgets.trace.table import EventTable

__all__ = ["FACT", "VERSION", "kept_columns", "kept_lanes"]

#: Grows whenever the same events would give other arrays, or the same arrays be read otherwise.
VERSION = 1
#: What says where in the columns each lane is.
FACT = "lanes"

_COLUMNS: dict[str, npt.DTypeLike] = {
    "lanes.ns": np.int64,
    "lanes.rows": np.int32,
    "lanes.kinds": np.uint8,
}
_NS, _ROWS, _KINDS = _COLUMNS
_NONE = -1

Array = npt.NDArray[Any]


def kept_columns(table: EventTable) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the columns that hold a rank's folded lanes, and what says where they are in them."""
    device = device_rows(table)
    writer = _Writer()
    lanes = []
    for ref in folded(table):
        begin = writer.place
        _write_lane(writer, folded_lane(table, ref, device))
        lanes.append([ref.role, ref.sources, ref.annotations, begin, writer.tape()])
    return writer.columns(), {"version": VERSION, "lanes": lanes}


def kept_lanes(table: EventTable) -> dict[LaneRef, Lane]:
    """Return the lanes that the file of a stored rank holds; none where it holds no table as this.

    What is damaged, missing or of another version does not count: what it was made of is there.
    """
    file = table.file
    if file is None:
        return {}
    try:
        fact: Mapping[str, Any] | None = file.fact(FACT)
        if fact is None or fact["version"] != VERSION:
            return {}
        columns = {name: file.read(name) for name in _COLUMNS}
    except TraceError:
        return {}
    return {
        LaneRef(role, tuple(sources), annotations=annotations): _read_lane(
            _Reader(columns, begin, tape)
        )
        for role, sources, annotations, begin, tape in fact["lanes"]
    }


class _Writer:
    """Lays arrays one behind the other into the column of their type, and notes their lengths."""

    def __init__(self) -> None:
        self._arrays: dict[str, list[Array]] = {name: [] for name in _COLUMNS}
        self._lengths = dict.fromkeys(_COLUMNS, 0)
        self._tape: list[int] = []

    @property
    def place(self) -> dict[str, int]:
        """Where in each column the next array will be."""
        return dict(self._lengths)

    def number(self, value: int) -> None:
        self._tape.append(value)

    def array(self, column: str, values: Array | None) -> None:
        self.number(_NONE if values is None else len(values))
        if values is not None:
            self._arrays[column].append(values)
            self._lengths[column] += len(values)

    def tape(self) -> list[int]:
        """Return what was noted since this was last asked."""
        noted, self._tape = self._tape, []
        return noted

    def columns(self) -> dict[str, Array]:
        return {
            name: np.concatenate([np.empty(0, dtype), *self._arrays[name]], dtype=dtype)
            for name, dtype in _COLUMNS.items()
        }


class _Reader:
    """Gives back what a `_Writer` took, in the same order."""

    def __init__(self, columns: dict[str, Array], begin: dict[str, int], tape: list[int]) -> None:
        self._columns = columns
        self._at = dict(begin)
        self._tape = iter(tape)

    def number(self) -> int:
        return next(self._tape)

    def array(self, column: str) -> Any:
        length = self.number()
        if length == _NONE:
            return None
        first = self._at[column]
        self._at[column] = first + length
        return self._columns[column][first : first + length]


def _write_lane(to: _Writer, lane: Lane) -> None:
    _write_spans(to, lane.spans)
    to.number(lane.kind)
    to.array(_ROWS, lane.rows)
    to.array(_NS, lane.longest)
    to.array(_NS, lane.durs)
    kinds = lane.kinds
    to.number(_NONE if kinds is None else kinds.major)
    if kinds is not None:
        _write_cover(to, kinds.major_cover)
        to.number(len(kinds.minor))
        for code, spans in kinds.minor:
            to.number(code)
            _write_spans(to, spans)
        to.array(_KINDS, kinds.of_points)


def _read_lane(of: _Reader) -> Lane:
    spans, kind = _read_spans(of), of.number()
    rows, longest, durs = of.array(_ROWS), of.array(_NS), of.array(_NS)
    kinds, major = None, of.number()
    if major != _NONE:
        cover = _read_cover(of)
        minor = tuple((of.number(), _read_spans(of)) for _ in range(of.number()))
        kinds = Kinds(major, cover, minor, of.array(_KINDS))
    return Lane(spans, kind, kinds, rows, longest, durs)


def _write_spans(to: _Writer, spans: Spans) -> None:
    _write_cover(to, spans.cover)
    for array in (spans.starts, spans.ends, spans.points):
        to.array(_NS, array)


def _read_spans(of: _Reader) -> Spans:
    cover = _read_cover(of)
    if cover is None:
        raise ValueError("spans have a cover, be it empty")
    return Spans(cover, of.array(_NS), of.array(_NS), of.array(_NS))


def _write_cover(to: _Writer, cover: Cover | None) -> None:
    to.array(_NS, None if cover is None else cover.starts)
    to.array(_NS, None if cover is None else cover.prefix)


def _read_cover(of: _Reader) -> Cover | None:
    starts, prefix = of.array(_NS), of.array(_NS)
    return None if starts is None else Cover(starts, prefix)
