"""Build frames from the columns or rows of several ranks.

A schema has the dtype of each column, so that empty frames have the same dtypes as others. For
example, two ranks return one block each, where ``name`` is a pair of codes and strings::

    schema = {**int64("rank id"), "name": "category"}
    stack_blocks(
        [
            {"rank": 0, "id": np.array([4, 7]), "name": (np.array([0, 1]), ["gemm", "copy"])},
            {"rank": 1, "id": np.array([2]), "name": (np.array([0]), ["copy"])},
        ],
        schema,
    )

These are the columns ``rank`` [0, 0, 1], ``id`` [4, 7, 2] and ``name`` [gemm, copy, copy].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Array
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.event_columns import categorical_dtype

#: Pandas dtype of each column in a frame: ``{"rank": "int64", "name": "category"}``.
Schema = Mapping[str, str]


def require_columns(frame: pd.DataFrame, remedy: str, columns: Iterable[str]) -> None:
    """Raise a `TraceError` that names the missing columns, if there are any."""
    missing = [name for name in columns if name not in frame]
    if missing:
        named = ", ".join(f"'{name}'" for name in missing)
        noun = "columns" if len(missing) > 1 else "column"
        raise TraceError(f"the frame has no {noun} {named}", remedy=remedy)


def result_frame(
    columns: Mapping[str, Any],
    *,
    matched: Mapping[str, int],
    note: str | Iterable[str] = "",
    copy: bool = True,
    **attrs: Any,
) -> pd.DataFrame:
    """Return a frame of `columns` in their order and with their dtypes, and set its ``attrs``."""
    frame = pd.DataFrame(dict(columns), copy=copy)
    note = note if isinstance(note, str) else "; ".join(filter(None, note))
    frame.attrs["matched"] = {key: int(count) for key, count in matched.items()}
    if note or not len(frame):
        frame.attrs["note"] = note or "no events match"
    frame.attrs.update(attrs)
    return frame


def concat_arrays(arrays: Sequence[Array], dtype: Any = np.int64) -> Array:
    """Concatenate one array per rank; the result has `dtype` even without arrays."""
    if not len(arrays):
        return np.empty(0, dtype=dtype)
    return np.concatenate(arrays, dtype=dtype, casting="unsafe")


def int64(names: str) -> dict[str, str]:
    """Return the schema of integer columns, given their names separated by spaces."""
    return dict.fromkeys(names.split(), "int64")


def float64(names: str) -> dict[str, str]:
    """Return the schema of floating-point columns, given their names separated by spaces."""
    return dict.fromkeys(names.split(), "float64")


def stack_blocks(blocks: Sequence[Mapping[str, Any]], schema: Schema) -> dict[str, Any]:
    """Concatenate the columns of one block per rank.

    Each block has at least one array. A scalar is repeated for each row of its block. Categories
    are pairs of codes and strings.
    """
    sizes = [
        next(len(column) for column in block.values() if isinstance(column, np.ndarray))
        for block in blocks
    ]
    stacked: dict[str, Any] = {}
    for name, dtype in schema.items():
        columns = [block[name] for block in blocks]
        if dtype == "category":
            stacked[name] = _concat_categories(columns)
        elif dtype == "str":
            lists = (
                [column] * size if isinstance(column, str) else column
                for column, size in zip(columns, sizes, strict=True)
            )
            stacked[name] = pd.array([text for texts in lists for text in texts], dtype="str")
        else:
            arrays = [
                column if isinstance(column, np.ndarray) else np.full(size, column, dtype)
                for column, size in zip(columns, sizes, strict=True)
            ]
            stacked[name] = _to_column(concat_arrays(arrays, dtype), dtype)
    return stacked


def _concat_categories(columns: Iterable[tuple[Array, Iterable[str]]]) -> pd.Categorical:
    pool = StringPool()
    codes = [
        np.array([pool.add(text) for text in texts], np.int32)[column_codes]
        for column_codes, texts in columns
    ]
    return categorical(concat_arrays(codes, np.int32), pool.values)


def columns_of_rows(rows: Iterable[Iterable[Any]], schema: Schema) -> dict[str, Any]:
    """Return the columns of rows, with the dtypes of `schema`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return {
        name: _to_column(column, dtype)
        for (name, dtype), column in zip(schema.items(), columns, strict=True)
    }


def _to_column(column: Any, dtype: str) -> Any:
    if dtype == "str":
        return text_column(column)
    # Without a dtype, pandas would infer one from arrays of objects.
    return pd.Series(column, dtype=object) if dtype == "object" else np.asarray(column, dtype)


def text_column(values: Iterable[str]) -> Any:
    """Return strings as a column of dtype ``str``, or of objects if any is invalid Unicode."""
    texts = list(values)
    try:
        return pd.array(texts, dtype="str")
    except UnicodeError:
        return np.array(texts, dtype=object)


def categorical(codes: Array, values: Sequence[str]) -> pd.Categorical:
    """Return a categorical of strings, given codes into distinct `values`."""
    return pd.Categorical.from_codes(codes, dtype=categorical_dtype(values))
