"""The first of many, and one row that stands for all others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from hta_widgets.text import plural

__all__ = ["spread_over_ranks", "top_rows"]


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


def spread_over_ranks(frame: pd.DataFrame, kept: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the rows of `top_rows` with ``least_ns`` and ``most_ns`` of a rank.

    That is the sum of a row's ``sum_ns`` on the rank with least and with most; a rank that has
    none of a row has 0 of it. The last row's sums are of all names that it stands for.

    Parameters
    ----------
    frame : DataFrame
        What the rows were added up from, with ``rank``, ``sum_ns`` and the `keys`.
    kept : DataFrame
        Of `top_rows`.
    keys : list of str
        Columns that together tell rows apart.
    """
    group = frame.groupby(keys, observed=True, sort=False).ngroup().to_numpy()
    groups, first = np.unique(group, return_index=True)
    named = kept[kept["names"] == 1]
    row_of = {
        tuple(map(str, key)): row
        for *key, row in named[[*keys, "row"]].itertuples(index=False, name=None)
    }
    rows = np.full(len(groups), len(kept) - 1)
    for number, key in enumerate(frame[keys].iloc[first].itertuples(index=False, name=None)):
        rows[number] = row_of.get(tuple(map(str, key)), len(kept) - 1)
    rank, ranks = pd.factorize(frame["rank"])
    place = rows[np.searchsorted(groups, group)] * len(ranks) + rank
    sums = np.bincount(
        place, weights=frame["sum_ns"].to_numpy(float), minlength=len(kept) * len(ranks)
    ).reshape(len(kept), len(ranks))
    return kept.assign(least_ns=sums.min(axis=1), most_ns=sums.max(axis=1))


def _whole(values: pd.Series, column: str) -> float:
    if column == "min_ns":
        return float(values.min())
    return float(values.max() if column == "max_ns" else values.sum())
