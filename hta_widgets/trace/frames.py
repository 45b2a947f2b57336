"""DataFrames over the columns of ranks: what users see, built only when they ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype

from hta_widgets.errors import TraceError

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.table import Pool

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace

__all__ = [
    "EVENT_COLUMNS",
    "columns_in",
    "dtype_of",
    "event_frame",
    "events_of",
    "run_query",
    "side_frame",
]

Rows = npt.NDArray[np.intp] | slice

#: Columns of `Trace.events`, in order.
EVENT_COLUMNS: tuple[str, ...] = (
    "start_ns",
    "dur_ns",
    "name",
    "category",
    "kind",
    "track",
    "pid",
    "tid",
    "depth",
    "parent",
    "stream",
    "correlation",
    "step",
    "phase",
)
#: And those that can be asked for besides, in queries as well.
_ON_DEMAND = ("prelaunched",)

_PHASES = ("X", "B")
_STRINGS = ("name", "category", "kind", "track", "pid", "tid", "phase")


def _coded(trace: Trace, column: str, rows: Rows) -> tuple[npt.NDArray[Any], Sequence[str]]:
    table = trace.table
    if column == "name":
        return table.name[rows], table.names.values
    if column == "category":
        return table.category[rows], table.categories.values
    if column == "kind":
        return table.kind[rows], KINDS
    if column == "phase":
        return table.phase[rows], _PHASES
    if column == "track":
        return table.track[rows], [track.key for track in table.tracks]
    pool = Pool()
    codes = np.array([pool.add(getattr(track, column)) for track in table.tracks], np.int32)
    return (codes[table.track[rows]] if len(codes) else table.track[rows]), pool.values


def _plain(trace: Trace, column: str, rows: Rows) -> npt.NDArray[Any]:
    table = trace.table
    if column == "start_ns":
        return table.start_ns[rows] + trace.shift_ns
    if column == "parent":
        return table.parent[rows].astype(np.int64)
    if column == "prelaunched":
        return trace.prelaunched[rows]
    values: npt.NDArray[Any] = getattr(table, column)[rows]
    return values


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Put columns one below the other, in memory of their own: users may write into frames."""
    if len(parts) == 1:
        return parts[0] if parts[0].base is None else parts[0].copy()
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _compressed(
    codes: npt.NDArray[Any], values: Sequence[str], *, keep_all: bool
) -> tuple[npt.NDArray[Any], list[str]]:
    """Drop the values that no row uses: grouping by a category must not invent empty groups."""
    if keep_all or not len(values):
        return codes, list(values)
    used = np.zeros(len(values), dtype=bool)
    used[codes] = True
    if used.all():
        return codes, list(values)
    lookup = np.cumsum(used, dtype=np.int32) - 1
    return lookup[codes], [values[code] for code in np.flatnonzero(used).tolist()]


def _categorical(parts: list[tuple[npt.NDArray[Any], Sequence[str]]], column: str) -> Any:
    keep_all = column in {"kind", "phase"}
    if len(parts) == 1 or keep_all:
        codes = parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts])
        codes, values = _compressed(codes, parts[0][1], keep_all=keep_all)
        codes = codes.copy() if codes is parts[0][0] else codes
    else:
        pool = Pool()
        merged = []
        for part, names in parts:
            part_codes, used = _compressed(part, names, keep_all=False)
            lookup = np.array([pool.add(value) for value in used], dtype=np.int32)
            merged.append(lookup[part_codes] if len(lookup) else part_codes.astype(np.int32))
        codes, values = np.concatenate(merged), pool.values
    return pd.Categorical.from_codes(codes, dtype=dtype_of(values))


def dtype_of(values: Sequence[str]) -> pd.CategoricalDtype:
    """Return the categorical dtype of some strings."""
    try:
        return pd.CategoricalDtype(pd.Index(values))
    except UnicodeError:
        # Arrow-backed strings refuse what is no valid Unicode; files hold it all the same.
        return pd.CategoricalDtype(pd.Index(values, dtype=object))


def _checked(columns: Iterable[str] | None, extra: Collection[str] = ()) -> list[str]:
    if columns is None:
        return list(EVENT_COLUMNS)
    asked = [columns] if isinstance(columns, str) else list(columns)
    known = (*extra, *EVENT_COLUMNS, *_ON_DEMAND)
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise TraceError(
            f"events have no column {', '.join(map(repr, unknown))}",
            remedy=f"The columns are {', '.join(known)}.",
        )
    return asked


def event_frame(
    trace: Trace, rows: Rows | None = None, columns: Iterable[str] | None = None
) -> pd.DataFrame:
    """Return events of one rank: the `rows` asked for (all) and the `columns` asked for (all)."""
    wanted = _checked(columns)
    picked: Rows = slice(None) if rows is None else rows
    data = {
        column: _categorical([_coded(trace, column, picked)], column)
        if column in _STRINGS
        else _joined([_plain(trace, column, picked)])
        for column in wanted
    }
    count = len(trace.table)
    index = (
        pd.RangeIndex(count, name="id")
        if rows is None
        else pd.Index(np.arange(count, dtype=np.int64)[picked], name="id")
    )
    return pd.DataFrame(data, index=index, copy=False)


def events_of(
    traces: Sequence[Trace],
    columns: Iterable[str] | None = None,
    rows: Callable[[Trace], Rows | None] = lambda _: None,
) -> pd.DataFrame:
    """Return events of several ranks, one below the other, with their ``rank`` in front."""
    wanted = ["rank", *(name for name in _checked(columns, ("rank",)) if name != "rank")]
    picked: list[Rows] = [slice(None) if (r := rows(trace)) is None else r for trace in traces]
    ids = [
        np.arange(len(trace.table), dtype=np.int64)[row]
        for trace, row in zip(traces, picked, strict=True)
    ]
    data: dict[str, Any] = {}
    for column in wanted:
        if column == "rank":
            data[column] = np.repeat(
                np.array([trace.rank for trace in traces], np.int64), [len(i) for i in ids]
            )
        elif column in _STRINGS:
            parts = [_coded(t, column, row) for t, row in zip(traces, picked, strict=True)]
            data[column] = (
                _categorical(parts, column) if parts else pd.Categorical([], categories=[])
            )
        else:
            plain = [_plain(t, column, row) for t, row in zip(traces, picked, strict=True)]
            data[column] = _joined(plain)
    index = pd.Index(np.concatenate(ids) if ids else np.empty(0, np.int64), name="id")
    return pd.DataFrame(data, index=index, copy=False)


def side_frame(data: dict[str, Any]) -> pd.DataFrame:
    """Return a frame of the small tables; columns of strings become categorical."""
    columns = {
        name: pd.Categorical(values) if isinstance(values, list) else values
        for name, values in data.items()
    }
    return pd.DataFrame(columns, copy=False)


def columns_in(query: str) -> list[str]:
    """Return the event columns that a query can touch: those that it mentions as words."""
    words = set(re.findall(r"[A-Za-z_]\w*", query))
    columns = (*EVENT_COLUMNS, *_ON_DEMAND)
    return [column for column in columns if column in words] or ["start_ns"]


def run_query(frame: pd.DataFrame, query: str) -> npt.NDArray[np.bool_]:
    """Return which rows of `frame` satisfy the pandas `query`.

    Raises
    ------
    TraceError
        Where the query cannot be evaluated or is no condition; it names the columns available.
    """
    try:
        result = frame.eval(query, engine="python", local_dict={}, global_dict={})
    except Exception as cause:  # noqa: BLE001 - a query is code of the user's
        raise _bad_query(query, f"{type(cause).__name__}: {cause}") from None
    if isinstance(result, bool | np.bool_):
        return np.full(len(frame), bool(result))
    answers = result if isinstance(result, pd.Series) else None
    if answers is None or not (answers.dtype == object or is_bool_dtype(answers.dtype)):
        raise _bad_query(query, "it is no condition")
    try:
        # What cannot be told, such as a comparison with nothing, does not hold.
        return answers.astype("boolean").to_numpy(dtype=bool, na_value=False)
    except (TypeError, ValueError):
        raise _bad_query(query, "it is no condition") from None


def _bad_query(query: str, reason: str) -> TraceError:
    return TraceError(
        f"the query {query!r} does not work on events ({reason})",
        remedy=f"The columns are rank, {', '.join((*EVENT_COLUMNS, *_ON_DEMAND))}; "
        "for example: kind == 'communication' and dur_ns > 1_000_000.",
    )
