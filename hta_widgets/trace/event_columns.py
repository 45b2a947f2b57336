"""Names of event columns, construction of frames from columns, and queries on frames.

A string column consists of a code per event and the strings to which the codes refer. In frames, it
is a categorical.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype

from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Array, Bools, mask_of_rows
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.query import REGEXES, validate_query

#: Columns of `Trace.events`, in order.
EVENT_COLUMNS: tuple[str, ...] = (
    "start_ns", "dur_ns", "name", "category", "kind", "track", "pid", "tid", "depth", "parent",
    "stream", "correlation", "step", "phase",
)  # fmt: skip
#: Additional columns, computed on request and for queries.
_ON_DEMAND = ("prelaunched",)
_ALL_COLUMNS = (*EVENT_COLUMNS, *_ON_DEMAND)
STRING_COLUMNS = ("name", "category", "kind", "track", "pid", "tid", "phase")


def concat_columns(parts: list[Array]) -> Array:
    """Concatenate columns into new memory, because users may write to frames."""
    if len(parts) == 1:
        return parts[0] if parts[0].base is None else parts[0].copy()
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def drop_unused_texts(
    codes: Array, texts: Sequence[str] | StringPool
) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Return the codes renumbered for the strings that occur, and these strings.

    Otherwise, grouping by a categorical would give empty groups for the other strings.
    """
    is_used = mask_of_rows(codes, len(texts))
    new_code = np.cumsum(is_used, dtype=np.int32) - 1
    return new_code[codes], [texts[code] for code in np.flatnonzero(is_used).tolist()]


def concat_categoricals(parts: list[tuple[Array, Sequence[str]]], column: str) -> pd.Categorical:
    """Concatenate codes and strings of several ranks; each string occurs once in the result."""
    if not parts:
        return pd.Categorical([], categories=[])
    if column in {"kind", "phase"}:  # all ranks have the same strings
        codes, values = np.concatenate([part[0] for part in parts]), list(parts[0][1])
    elif len(parts) == 1:
        codes, values = drop_unused_texts(*parts[0])
    else:
        pool = StringPool()
        merged = []
        for part_codes, part_values in parts:
            used_codes, used_values = drop_unused_texts(part_codes, part_values)
            new_code = np.array([pool.add(value) for value in used_values], dtype=np.int32)
            merged.append(new_code[used_codes])
        codes, values = np.concatenate(merged), pool.values
    return pd.Categorical.from_codes(codes, dtype=categorical_dtype(values))


def categorical_dtype(values: Sequence[str]) -> pd.CategoricalDtype:
    """Return a categorical dtype for strings."""
    try:
        return pd.CategoricalDtype(pd.Index(values))
    except UnicodeError:
        # Arrow-backed strings reject invalid Unicode, which files may contain.
        return pd.CategoricalDtype(pd.Index(values, dtype=object))


def validate_columns(columns: Iterable[str] | None, extra: Collection[str] = ()) -> list[str]:
    """Return `columns` as a list (None: all columns); raise `TraceError` for unknown names."""
    if columns is None:
        return list(EVENT_COLUMNS)
    if not isinstance(columns, Iterable):
        raise TraceError(f"columns= must be a list of strings, not {columns!r}")
    requested = [columns] if isinstance(columns, str) else list(columns)
    available = (*extra, *_ALL_COLUMNS)
    unknown = [name for name in requested if name not in available]
    if unknown:
        raise TraceError(
            f"events have no column {', '.join(map(repr, unknown))}",
            remedy=f"The columns are {', '.join(available)}.",
        )
    return requested


def table_frame(data: dict[str, Any]) -> pd.DataFrame:
    """Return the frame of a small table; columns that are lists of strings become categorical."""
    columns = {
        name: pd.Categorical(values) if isinstance(values, list) else values
        for name, values in data.items()
    }
    return pd.DataFrame(columns, copy=False)


def columns_in(query: str) -> list[str]:
    """Return the event columns whose names occur as words in a query; at least one column."""
    words = set(re.findall(r"[A-Za-z_]\w*", query))
    return [column for column in _ALL_COLUMNS if column in words] or ["start_ns"]


def query_mask(frame: pd.DataFrame, query: str) -> Bools:
    """Return which rows of `frame` satisfy the pandas `query`."""
    text_columns = frame.select_dtypes(exclude=["number", "bool"]).columns
    try:
        safe_query = validate_query(query, text_columns)
        result: Any = frame.eval(safe_query, engine="python", local_dict=REGEXES, global_dict={})
    except Exception as cause:  # noqa: BLE001 - users write queries, which may raise anything
        kind = "" if type(cause) is ValueError else f"{type(cause).__name__}: "
        raise _query_error(query, f"{kind}{cause}") from None
    if isinstance(result, bool | np.bool_):
        return np.full(len(frame), bool(result))
    is_column = isinstance(result, pd.Series) and result.index.equals(frame.index)
    if not is_column or not (result.dtype == object or is_bool_dtype(result.dtype)):
        raise _query_error(query, "it is not a condition")
    try:
        # Missing results, such as comparisons with missing values, count as False.
        mask: Bools = result.astype("boolean").to_numpy(dtype=bool, na_value=False)
    except (TypeError, ValueError):
        raise _query_error(query, "it is not a condition") from None
    return mask


def _query_error(query: str, reason: str) -> TraceError:
    return TraceError(
        f"the query {query!r} does not work on events ({reason})",
        remedy=f"The columns are rank, {', '.join(_ALL_COLUMNS)}; "
        "for example: kind == 'communication' and dur_ns > 1_000_000.",
    )
