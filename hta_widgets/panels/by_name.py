"""Panels with one row a name: kernels and operators, put together over ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.collective_waits import waits_of
from hta_widgets.analysis.exposed_waits import waiting
from hta_widgets.analysis.scope import parts
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.frames import dtype_of
from hta_widgets.trace.turns import rest

from hta_widgets.panels.columns import or_null
from hta_widgets.panels.columns import short_names
from hta_widgets.panels.columns import texts

__all__ = ["durations", "kernels", "operators"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_COMMUNICATION = KINDS.index("communication")
#: Of fewer ranks none can be odd.
_LEAST_RANKS = 3


def durations(frame: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the kernels with most time, name by name, as long as they take on each rank.

    Parameters
    ----------
    frame : DataFrame
        Of `kernel_duration_by_rank`.
    top : int
        How many names, those with most time.
    """
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
    """Return what each kernel costs over all ranks, and which rank is odd.

    Parameters
    ----------
    frame : DataFrame
        Of `kernel_breakdown`.
    """
    rest()
    names = _Names(frame)
    rest()
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
    """Return what each operator costs over all ranks; `frame` is of `operators`."""
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
    """Return how long ranks wait in the communication of each name; -1 where that is not known."""
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
