"""The first of many, and one row that stands for all others."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from .formats import plural

__all__ = ["top_rows"]

_LEAST = ("min_ns", "least_ns")
_MOST = ("max_ns", "most_ns")


def top_rows(
    data: pd.DataFrame, by: str, top: int, noun: str, label: Callable[[str], str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows with most, the others added up in a last one, and the rows' labels.

    Parameters
    ----------
    data : DataFrame
        With a column ``name``.
    by : str
        The column that decides.
    top : int
        How many rows; where only one more is left, it is shown too.
    noun : str
        What a row is, to say how many others there are.
    label : callable
        From a name to what the chart shows of it.

    Returns
    -------
    DataFrame
        With ``row`` and ``names``, how many names the row stands for.
    list of str
    """
    ordered = data.sort_values(by, ascending=False, kind="stable", ignore_index=True)
    ordered["name"] = ordered["name"].astype(str)
    ordered["names"] = 1
    if len(ordered) <= top + 1:
        kept = ordered
        labels = [label(name) for name in kept["name"]]
    else:
        kept, rest = ordered.iloc[:top], ordered.iloc[top:]
        others = {
            column: _whole(rest[column], column)
            for column in rest.columns
            if pd.api.types.is_numeric_dtype(rest[column].dtype)
        }
        words = plural(len(rest), f"other {noun}")
        text = {column: "" for column in rest.columns if column not in others}
        row = pd.DataFrame([{**text, **others, "name": words, "names": len(rest)}])
        plain = kept.astype(dict.fromkeys(text, object))
        kept = pd.concat([plain, row[list(plain.columns)]], ignore_index=True)
        labels = [*(label(name) for name in kept["name"][:-1]), words]
    kept = kept.reset_index(drop=True)
    kept["row"] = range(len(kept))
    return kept, labels


def _whole(values: pd.Series, column: str) -> float:
    if column in _LEAST:
        return float(values.min())
    return float(values.max() if column in _MOST else values.sum())
