"""The frames that panels draw, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.matching import counted, matching
from hta_widgets.analysis.scope import narrowed, parts
from hta_widgets.analysis.stragglers import waiting, waits_of
from hta_widgets.readers.formats import provided
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import dtype_of
from hta_widgets.trace.traceset import TraceSet


def as_json(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as ``{rows, columns, attrs}``; missing values are None.

    Integers stay integers; text and categories are strings.
    """
    return {
        "rows": len(frame),
        "columns": {str(name): _values(frame[name]) for name in frame},
        "attrs": dict(frame.attrs),
    }


def _values(column: pd.Series[Any]) -> list[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        return column.to_numpy().tolist()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        values = column.to_numpy()
        known = np.isfinite(values)
        found = values.tolist()
        for place in np.flatnonzero(~known).tolist():
            found[place] = None
        return found
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = [str(value) for value in column.cat.categories]
        return [None if code < 0 else categories[code] for code in column.cat.codes.tolist()]
    return [None if value is None or value is pd.NA else value for value in column.tolist()]


#: A page gets no table with more rows than this; Python answers its requests instead.
MOST_ROWS = 100_000


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the tables of which the page makes its own frames, by name, as JSON.

    A table with more than `MOST_ROWS` rows is None.
    """
    tables: dict[str, Any] = {}
    for tables_of in provided("base_tables", traces.formats):
        tables |= tables_of(traces)
    return tables


def rows_or_none(frame: pd.DataFrame) -> Any:
    """Return a frame as JSON; None if it has more than `MOST_ROWS` rows."""
    return as_json(frame) if len(frame) <= MOST_ROWS else None


Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_COMMUNICATION = KINDS.index("communication")
#: Fewest ranks among which one can be an outlier.
_LEAST_RANKS = 3


def durations(frame: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the `top` kernels of `kernel_duration_by_rank` with most time, one row per rank."""
    names = _Names(frame)
    each, rows = names.rows_of(names.order[:top])
    measures = ("rank", "count", "mean_ns", "min_ns", "max_ns")
    found = pd.DataFrame(
        {
            **names.labels(each),
            "kind": names.kinds(each),
            **{name: frame[name].to_numpy()[rows] for name in measures},
        }
    )
    return _about(found, frame, len(names.order))


def kernels(
    traces: TraceSet, selection: Selection, frame: pd.DataFrame, top: int, clock: Any
) -> pd.DataFrame:
    """Return the `top` kernels of `kernel_breakdown`, and the outlier rank of each."""
    names = _Names(frame)
    mean, rank = frame["mean_ns"].to_numpy(np.float64), frame["rank"].to_numpy(np.int64)
    spent, count = names.sums(frame["sum_ns"]), names.sums(frame["count"])
    odd_rank, ratio = names.odd(mean, rank)
    order = names.order[:top]
    found = pd.DataFrame(
        {
            "kind": names.kinds(order),
            **names.labels(order),
            "count": count[order],
            "sum_ns": spent[order],
            "mean_ns": spent[order] / count[order],
            "min_ns": names.least(frame["min_ns"])[order],
            "max_ns": names.most(frame["max_ns"])[order],
            "ranks": names.ranks[order],
            "wait_ns": or_null(_waits(traces, selection, names, clock)[order]),
            "odd_rank": or_null(odd_rank[order]),
            "odd_ratio": ratio[order],
        }
    )
    found = _about(found, frame, len(names.order))
    found.attrs["rest_ns"] = int(spent.sum() - spent[order].sum())
    return found


def operators(frame: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the `top` operators of `operators` over all ranks."""
    measures = ("count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns")
    code, values = pd.factorize(frame["name"])
    names = values.tolist()
    sums = {}
    for measure in measures:
        sums[measure] = np.zeros(len(names), dtype=np.int64)
        np.add.at(sums[measure], code, frame[measure].to_numpy(np.int64))
    order = np.array(
        sorted(
            range(len(names)),
            key=lambda k: (-sums["device_total_ns"][k], -sums["cpu_self_ns"][k], names[k]),
        ),
        dtype=np.intp,
    )
    shown = order[:top]
    found = pd.DataFrame(
        {
            "name": texts([names[place] for place in shown.tolist()]),
            **{measure: sums[measure][shown] for measure in measures},
        }
    )
    return _about(found, frame, len(names))


def _about(found: pd.DataFrame, frame: pd.DataFrame, total: int) -> pd.DataFrame:
    found.attrs = {key: frame.attrs[key] for key in ("matched", "note") if key in frame.attrs}
    found.attrs["total"] = total
    return found


class _Names:
    """Rows of an analysis, one a rank, kind and name, put together by kind and name.

    Rows of a name are in the order of their ranks.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        name, distinct = pd.factorize(frame["name"])
        values = distinct.tolist()
        kind = frame["kind"].cat.codes.to_numpy(np.int64)
        pairs, self._code = np.unique(name * len(KINDS) + kind, return_inverse=True)
        self.names = [values[code] for code in (pairs // len(KINDS)).tolist()]
        self.kind = pairs % len(KINDS)
        self.ranks = np.bincount(self._code, minlength=len(pairs))
        self._rows = np.argsort(self._code, kind="stable")
        self._first = np.cumsum(self.ranks) - self.ranks
        spent, count = self.sums(frame["sum_ns"]), self.sums(frame["count"])
        place = np.array(_places(self.names), dtype=np.int64)
        self.order = np.lexsort((place, self.kind, -count, -spent))
        pairs_of = zip(self.kind.tolist(), self.names, strict=True)
        self.group = {pair: number for number, pair in enumerate(pairs_of)}

    def rows_of(self, order: npt.NDArray[np.intp]) -> tuple[Any, Any]:
        """Return the rows of some names, one name after the other, and of which name each is."""
        count = self.ranks[order]
        each = np.repeat(order, count)
        place = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        return each, self._rows[self._first[each] + place]

    def labels(self, order: npt.NDArray[np.intp]) -> dict[str, Any]:
        names = [self.names[place] for place in order.tolist()]
        return {"name": texts(names), "short": short_names(names)}

    def kinds(self, order: npt.NDArray[np.intp]) -> pd.Categorical:
        return pd.Categorical.from_codes(self.kind[order], dtype=dtype_of(KINDS))

    def _by(self, how: np.ufunc, values: Any) -> Any:
        ordered = np.asarray(values)[self._rows]
        return how.reduceat(ordered, self._first) if len(ordered) else ordered

    def sums(self, values: Any) -> Ints:
        found: Ints = self._by(np.add, np.asarray(values, dtype=np.int64))
        return found

    def least(self, values: Any) -> Ints:
        found: Ints = self._by(np.minimum, values)
        return found

    def most(self, values: Any) -> Ints:
        found: Ints = self._by(np.maximum, values)
        return found

    def extreme(self, values: Floats) -> npt.NDArray[np.intp]:
        """Return the row of the least value of each name; of equal ones the first."""
        by_value = self._rows[np.lexsort((values[self._rows], self._code[self._rows]))]
        found: npt.NDArray[np.intp] = by_value[self._first]
        return found

    def odd(self, mean: Floats, rank: Ints) -> tuple[Ints, Floats]:
        """Return the rank whose mean is farthest from the median rank's, and the ratio of both."""
        by_mean = mean[self._rows[np.lexsort((mean[self._rows], self._code[self._rows]))]]
        low, high = (self.ranks - 1) // 2, self.ranks // 2
        median = (by_mean[self._first + low] + by_mean[self._first + high]) / 2
        far = self.extreme(-np.abs(mean - median[self._code]))
        told = (self.ranks >= _LEAST_RANKS) & (self.kind != _COMMUNICATION) & (median > 0)
        ratio = mean[far] / np.where(median > 0, median, np.nan)
        return np.where(told, rank[far], -1), np.where(told, ratio, np.nan)


def _places(names: list[str]) -> list[int]:
    place = [0] * len(names)
    for number, code in enumerate(sorted(range(len(names)), key=names.__getitem__)):
        place[code] = number
    return place


def _waits(traces: TraceSet, selection: Selection, names: _Names, clock: Any) -> Ints:
    """Return how long ranks wait in the communication of each name; -1 if unknown."""
    found = np.full(len(names.names), -1, dtype=np.int64)
    if not (names.kind == _COMMUNICATION).any():
        return found
    waits = waits_of(traces, clock)
    for part in parts(traces, selection):
        rows, begin, until = waiting(part, waits.of_rank(part.rank))
        table = part.table
        for code in np.unique(table.name[rows]).tolist():
            group = names.group[_COMMUNICATION, table.names[code]]
            mine = table.name[rows] == code
            time = int((np.maximum(until, begin) - begin)[mine].sum())
            found[group] = max(found[group], 0) + time
    return found


def summary(traces: TraceSet, selection: Selection) -> pd.DataFrame:
    """Return how many events a selection holds, and from when to when."""
    chosen = parts(traces, selection)
    with_events = [part for part in chosen if len(part.rows)]
    starts, ends = [], []
    for part in with_events:
        start, end = part.clipped(part.rows)
        starts.append(int(start.min()) + part.trace.shift_ns)
        ends.append(int(end.max()) + part.trace.shift_ns)
    match = matching(traces)
    kept, _ = counted(match, narrowed(traces, selection))
    found = pd.DataFrame(
        {
            "events": [sum(len(part.rows) for part in chosen)],
            "device_events": [sum(len(part.busy_rows()) for part in chosen)],
            "collectives": [len(np.unique(match.collective[kept]))],
            "ranks": [len(with_events)],
            "start_ns": or_null([min(starts, default=-1)]),
            "end_ns": or_null([max(ends, default=-1)]),
        }
    )
    if not with_events:
        found.attrs["note"] = "no events are selected"
    return found


STEP = "step"
#: Phases that take less of all steps say little, and scatter much.
LEAST_PCT = 1


def steps(traces: TraceSet, selection: Selection, clock: Any) -> pd.DataFrame:
    """Return one row per phase, step and rank: the whole step first, then its phases.

    Phases are those of `phase_times` that take 1 % of the steps' time or more, as they follow each
    other; rows are by phase, rank and step.
    """
    whole = analysis.step_times(traces, clock=clock, selection=selection)
    phases = analysis.phase_times(traces, selection=selection)
    name, values = pd.factorize(phases["phase"])
    spent = np.zeros(len(values), dtype=np.int64)
    np.add.at(spent, name, phases["dur_ns"].to_numpy(np.int64))
    lasting = spent * 100 >= int(whole["dur_ns"].sum()) * LEAST_PCT
    phases = phases[lasting[name]] if len(whole) and len(phases) else phases.iloc[:0]
    found = pd.DataFrame(
        {
            "phase": texts([*[STEP] * len(whole), *phases["phase"].tolist()]),
            **{
                column: np.concatenate(
                    [whole[column].to_numpy(np.int64), phases[column].to_numpy(np.int64)]
                )
                for column in ("step", "rank", "start_ns", "dur_ns")
            },
            "deviation_share": np.concatenate(
                [whole["dur_deviation_share"], phases["deviation_share"]]
            ),
        }
    )
    found.attrs = {key: whole.attrs[key] for key in ("matched", "note") if key in whole.attrs}
    return found


#: Panels whose charts draw one dot per rank.
MARKED = ("kernel_durations", "steps")

#: Rows of tables, and of the chart of kernels' durations, unless more are asked for.
TOP = 200
TOP_DURATIONS = 12

#: Waits are told on the same clock as in the timeline.
CLOCK: Any = "fitted"

Maker = Callable[[TraceSet, Selection, int | None], pd.DataFrame]


def _breakdown(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.temporal_breakdown(traces, selection=selection)
    waits = analysis.exposed_waits(traces, clock=CLOCK, selection=selection)
    names = [
        "rank", "span_ns", "idle_ns", "compute_ns", "non_compute_ns", "busy_ns",
        "communication_ns", "exposed_communication_ns", "exposed_memory_ns",
    ]  # fmt: skip
    wait = dict(zip(waits["rank"].tolist(), waits["exposed_wait_ns"].tolist(), strict=True))
    found = taken(frame, names)
    found["exposed_wait_ns"] = or_null([wait[rank] for rank in frame["rank"].tolist()])
    found.attrs["missing_ranks"] = _missing(traces, selection, frame)
    return found


def _overlap(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.comm_comp_overlap(traces, selection=selection)
    return taken(frame, [str(name) for name in frame])


def _idle(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.device_idle_breakdown(traces, selection=selection)
    found = taken(frame, ["rank", "idle_category", "idle_ns", "gaps", "idle_share"])
    found.attrs["missing_ranks"] = _missing(traces, selection, frame)
    return found


def _queue(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.queue_length_summary(traces, selection=selection)
    return taken(frame, ["rank", "stream", "count", "time_weighted_mean", "max", "span_ns"])


def _kernel_types(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.kernel_type_breakdown(traces, selection=selection)
    return taken(frame, ["kernel_type", "sum_ns", "share"])


def _durations(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    frame = analysis.kernel_duration_by_rank(traces, selection=selection)
    return durations(frame, TOP_DURATIONS if top is None else min(top, TOP_DURATIONS))


def _kernels(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    frame = analysis.kernel_breakdown(traces, selection=selection)
    return kernels(traces, selection, frame, TOP if top is None else top, CLOCK)


def _operators(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    frame = analysis.operators(traces, selection=selection)
    return operators(frame, TOP if top is None else top)


def _steps(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return steps(traces, selection, CLOCK)


def _heatmap(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return analysis.rank_time_heatmap(traces, clock=CLOCK, selection=selection)


def _summary(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return summary(traces, selection)


MAKERS: dict[str, Maker] = {
    "breakdown": _breakdown,
    "overlap": _overlap,
    "idle": _idle,
    "queue": _queue,
    "kernel_types": _kernel_types,
    "kernel_durations": _durations,
    "kernels": _kernels,
    "operators": _operators,
    "steps": _steps,
    "heatmap": _heatmap,
    "summary": _summary,
}


def _missing(traces: TraceSet, selection: Selection, frame: pd.DataFrame) -> list[int]:
    """Return the selected ranks that a frame has no row of."""
    chosen = traces.ranks if selection.ranks is None else selection.ranks
    there = set(frame["rank"].tolist())
    return [rank for rank in traces.ranks if rank in set(chosen) and rank not in there]


def taken(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return some columns of an analysis, with its attrs ``matched`` and ``note``."""
    found = frame[names].reset_index(drop=True)
    found.attrs = {key: frame.attrs[key] for key in ("matched", "note") if key in frame.attrs}
    return found


def or_null(values: npt.ArrayLike) -> Any:
    """Return integers; negative ones become missing values."""
    numbers = np.asarray(values, dtype=np.int64)
    return pd.arrays.IntegerArray(numbers, numbers < 0)


def texts(values: Sequence[str]) -> Any:
    """Return strings as a column, even if some are not valid Unicode."""
    try:
        return pd.array(values, dtype="str")
    except UnicodeError:
        return np.array(values, dtype=object)


def short_names(names: Sequence[str]) -> Any:
    """Return short names as a column."""
    return texts([short_name(name) for name in names])
