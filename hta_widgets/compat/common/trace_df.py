"""Looks into HTA's frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable

__all__ = [
    "find_events_by_name_patterns_using_decoded_names",
    "find_events_by_name_patterns_using_symbol_table",
    "find_op_occurrence",
    "get_iterations",
]


def get_iterations(df: pd.DataFrame) -> list[int]:
    """Return the numbers of the steps in which a frame has events."""
    if "iteration" not in df.columns or df.dtypes["iteration"].kind != "i":
        raise TypeError("the frame has no column 'iteration' of whole numbers")
    return sorted(number for number in df["iteration"].unique().tolist() if number != -1)


def find_op_occurrence(
    df: pd.DataFrame, op_name: str, position: int, name_column: str = "s_name"
) -> tuple[bool, pd.Series[Any]]:
    """Return whether an operator occurs so often, and the occurrence at a position by time.

    Position 0 is the first, -1 the last.
    """
    if df.empty or "ts" not in df.columns or name_column not in df.columns:
        return False, pd.Series(dtype=object)
    found = df[df[name_column] == op_name].sort_values("ts", kind="stable")
    if not -len(found) <= position < len(found):
        return False, pd.Series(dtype=object)
    return True, found.iloc[position]


def find_events_by_name_patterns_using_symbol_table(
    df: pd.DataFrame, list_name_patterns: Iterable[str], symbol_table: TraceSymbolTable
) -> pd.Series[Any]:
    """Return the ``index`` of events whose names begin with what any of the patterns matches."""
    pattern = "|".join(f"(?:{one})" for one in list_name_patterns) or "(?!)"
    numbers = symbol_table.get_sym_index_series()
    matched = numbers[numbers.index.str.match(pattern)]
    indices: pd.Series[Any] = df.loc[df["name"].isin(matched), "index"]
    return indices


def find_events_by_name_patterns_using_decoded_names(
    df: pd.DataFrame, list_name_patterns: Iterable[str], name_column: str = "s_name"
) -> pd.Series[Any]:
    """Return the ``index`` of events whose names begin with what any of the patterns matches."""
    pattern = "|".join(f"(?:{one})" for one in list_name_patterns) or "(?!)"
    indices: pd.Series[Any] = df.loc[df[name_column].str.match(pattern), "index"]
    return indices
