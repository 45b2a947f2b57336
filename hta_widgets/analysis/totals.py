"""How much time a selection holds, by kind and by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.frames import dtype_of
from hta_widgets.trace.keeping import walked
from hta_widgets.trace.names import short_name
from hta_widgets.trace.ordering import dense
from hta_widgets.trace.ordering import group_order

from hta_widgets.analysis.scope import narrowed

__all__ = ["totals", "totals_by_kind", "totals_by_name"]

Ints = npt.NDArray[np.int64]

_MEASURES = ("count", "sum_ns", "mean_ns", "min_ns", "max_ns", "device_ns", "host_ns")
_MOST = np.iinfo(np.int64).max


def totals_by_kind(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the time of the selected events, added up by kind.

    Durations are added as they are: time in which events overlap or enclose each other counts
    for each of them. Durations are clipped to the window; counts are of the events that overlap
    it.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per kind that occurs, by time: ``kind, count, sum_ns, mean_ns, min_ns, max_ns``;
        ``device_ns`` and ``host_ns`` are the parts of ``sum_ns`` on device streams and elsewhere.
    """
    chosen = narrowed(traces, selection, window, ranks)
    sums = _sum_up(traces, chosen)
    return _frame(_by_kind(sums), sums).reset_index(drop=True)


def totals_by_name(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the time of the selected events, added up by kind and name.

    Parameters and meaning as in `totals_by_kind`.

    Returns
    -------
    DataFrame
        One row per kind and name, by time: ``kind, name, count, sum_ns, mean_ns, min_ns, max_ns,
        device_ns, host_ns``.
    """
    chosen = narrowed(traces, selection, window, ranks)
    sums = _sum_up(traces, chosen)
    frame = _frame(sums, sums)
    frame.insert(1, "name", pd.Series(sums.names, dtype=object)[frame.index].to_numpy())
    return frame.reset_index(drop=True)


def totals(traces: TraceSet, selection: Selection | None = None, most: int = 200) -> dict[str, Any]:
    """Return both tables as JSON values, for the panel beside a selection.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The events to work on; all by default.
    most : int, default 200
        How many names at most, those with most time.
    """
    sums = _sum_up(traces, narrowed(traces, selection, None, None))
    by_kind, by_name = _frame(_by_kind(sums), sums), _frame(sums, sums)
    return {
        "events": int(sums.count.sum()),
        "kinds": _records(by_kind),
        "names": [
            {"name": sums.names[row], "short": short_name(sums.names[row]), **record}
            for row, record in zip(by_name.index[:most], _records(by_name.head(most)), strict=True)
        ],
        "names_total": len(by_name),
    }


@dataclass(slots=True)
class _Sums:
    """Sums of groups of events; group k is of kind ``kind[k]`` and, if any, name ``names[k]``."""

    kind: Ints
    names: list[str]
    count: Ints
    sum: Ints
    least: Ints
    most: Ints
    device: Ints


def _sum_up(traces: TraceSet, selection: Selection) -> _Sums:
    """Add up by kind and name, over all ranks."""
    groups: dict[tuple[int, str], int] = {}
    parts = [_of_rank(trace, selection, groups) for trace in walked(traces.values())]
    size = len(groups)
    whole = _Sums(
        np.array([kind for kind, _ in groups], dtype=np.int64),
        [name for _, name in groups],
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.full(size, _MOST),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
    )
    for group, part in parts:
        whole.count[group] += part.count
        whole.sum[group] += part.sum
        whole.device[group] += part.device
        whole.least[group] = np.minimum(whole.least[group], part.least)
        whole.most[group] = np.maximum(whole.most[group], part.most)
    return whole


def _of_rank(
    trace: Trace, selection: Selection, groups: dict[tuple[int, str], int]
) -> tuple[Ints, _Sums]:
    """Add up one rank; return the number of each of its groups in `groups`, and their sums."""
    table = trace.table
    rows = np.flatnonzero(selection.mask(trace))
    start, end = table.start_ns[rows], table.end_ns[rows]
    if selection.start_ns is not None:
        start = np.maximum(start, selection.start_ns - trace.shift_ns)
    if selection.end_ns is not None:
        end = np.minimum(end, selection.end_ns - trace.shift_ns)
    key = table.name[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
    code, occurring = dense(key, len(table.names) * len(KINDS))
    names = [table.names[name] for name in (occurring // len(KINDS)).tolist()]
    kinds = occurring % len(KINDS)
    number = np.array(
        [
            groups.setdefault((kind, name), len(groups))
            for kind, name in zip(kinds.tolist(), names, strict=True)
        ],
        dtype=np.int64,
    )
    return number, _grouped(code, end - start, table.stream[rows] >= 0, kinds, names)


def _grouped(
    code: npt.NDArray[np.int32],
    inside: Ints,
    on_device: npt.NDArray[np.bool_],
    kinds: Ints,
    names: list[str],
) -> _Sums:
    """Add up the durations `inside` of groups that all occur, in integers."""
    count = np.bincount(code, minlength=len(kinds))
    if not len(code):
        return _Sums(kinds, names, count, *(np.empty(0, np.int64) for _ in range(4)))
    order = group_order(code, len(kinds))
    first = np.cumsum(count) - count
    sorted_inside = inside[order]
    return _Sums(
        kinds,
        names,
        count,
        np.add.reduceat(sorted_inside, first),
        np.minimum.reduceat(sorted_inside, first),
        np.maximum.reduceat(sorted_inside, first),
        np.add.reduceat(sorted_inside * on_device[order], first),
    )


def _by_kind(sums: _Sums) -> _Sums:
    size = len(KINDS)
    count, total, device = (np.zeros(size, np.int64) for _ in range(3))
    least, most = np.full(size, _MOST), np.zeros(size, np.int64)
    np.add.at(count, sums.kind, sums.count)
    np.add.at(total, sums.kind, sums.sum)
    np.add.at(device, sums.kind, sums.device)
    np.minimum.at(least, sums.kind, sums.least)
    np.maximum.at(most, sums.kind, sums.most)
    return _Sums(np.arange(size), [], count, total, least, most, device)


def _frame(groups: _Sums, matched: _Sums) -> pd.DataFrame:
    """Return the groups that occur, by time; the index is their number."""
    rows = np.flatnonzero(groups.count)
    rows = rows[np.lexsort((groups.kind[rows], -groups.count[rows], -groups.sum[rows]))]
    count, total = groups.count[rows], groups.sum[rows]
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical.from_codes(groups.kind[rows], dtype=dtype_of(KINDS)),
            "count": count,
            "sum_ns": total,
            "mean_ns": total / np.maximum(count, 1),
            "min_ns": groups.least[rows],
            "max_ns": groups.most[rows],
            "device_ns": groups.device[rows],
            "host_ns": total - groups.device[rows],
        },
        index=rows,
    )
    of_kind = np.bincount(matched.kind, weights=matched.count, minlength=len(KINDS))
    frame.attrs["matched"] = {
        kind: int(of_kind[code]) for code, kind in enumerate(KINDS) if of_kind[code]
    }
    if not len(frame):
        frame.attrs["note"] = "no events are selected"
    return frame


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {
        str(column).removesuffix("_ns"): frame[column].astype(object).tolist() for column in frame
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
