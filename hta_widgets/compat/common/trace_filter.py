"""HTA's filters: callables that take a frame and a symbol table, and return some of its rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.utils.utils import get_symbol_column_names

__all__ = [
    "CPUOperatorFilter",
    "CompositeFilter",
    "Filter",
    "FirstIterationFilter",
    "GPUKernelFilter",
    "IterationFilter",
    "IterationIndexFilter",
    "MemCopyEventFilter",
    "NameFilter",
    "NameIdColumnFilter",
    "NameStringColumnFilter",
    "QueryFilter",
    "RankFilter",
    "TimeRangeFilter",
    "ZeroDurationFilter",
]

_logger = logging.getLogger("hta")

#: Waits for the whole device; they are on no stream.
_DEVICE_WAITS = ("Event Sync", "Context Sync")


class Filter:
    """A choice of events, to be called with a frame and, where names count, its symbol table.

    Filters of users define ``__call__``.

    Examples
    --------
    >>> events = pd.DataFrame({"ts": [0, 5, 9], "dur": [2, 2, 2], "rank": [0, 1, 1]})
    >>> choose = CompositeFilter([RankFilter(1), TimeRangeFilter((0, 8))])
    >>> choose(events)["ts"].tolist()
    [5]
    """

    def __call__(
        self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None
    ) -> pd.DataFrame:
        """Return the chosen rows; an empty frame as it is."""
        return df if df.empty else self._chosen(df, symbol_table)

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        raise NotImplementedError


class IterationFilter(Filter):
    """Events of one or several steps, by their numbers."""

    def __init__(self, iterations: int | Sequence[int]) -> None:
        self.iterations = _several(iterations, "iterations")

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        return df[df["iteration"].isin(self.iterations)] if _has(df, "iteration") else df


class IterationIndexFilter(Filter):
    """Events of one or several steps, by their place among the frame's steps."""

    def __init__(self, iteration_index: int | Sequence[int]) -> None:
        self.iteration_index = _several(iteration_index, "iteration_index")

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        if not _has(df, "iteration"):
            return df
        steps = sorted(step for step in df["iteration"].unique().tolist() if step >= 0)
        if not steps:
            return df
        chosen = [step for place, step in enumerate(steps) if place in self.iteration_index]
        return df[df["iteration"].isin(chosen)]


class FirstIterationFilter(IterationIndexFilter):
    """Events of the frame's first step."""

    def __init__(self) -> None:
        super().__init__(0)


class RankFilter(Filter):
    """Events of one or several ranks, by the column ``rank``."""

    def __init__(self, ranks: int | Sequence[int]) -> None:
        self.ranks = _several(ranks, "ranks")

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        return df[df["rank"].isin(self.ranks)] if _has(df, "rank") else df


class TimeRangeFilter(Filter):
    """Events that lie within a range of time as a whole."""

    def __init__(self, time_range: tuple[float, float]) -> None:
        if not isinstance(time_range, tuple) or len(time_range) != 2:
            raise ValueError("time_range must be a tuple of start and end")
        self.time_start, self.time_end = time_range
        if self.time_start > self.time_end:
            raise ValueError("time_range ends before it starts")

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        if not _has(df, "ts"):
            return df
        return df[(df["ts"] >= self.time_start) & (df["ts"] + df["dur"] <= self.time_end)]


class NameStringColumnFilter(Filter):
    """Events whose name, as text, begins with what a regular expression matches."""

    def __init__(self, name_pattern: str) -> None:
        self.name_pattern = name_pattern

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        column, _ = get_symbol_column_names(df)
        if not column:
            _logger.warning("the frame has no names as text")
            return df
        return df[df[column].str.match(self.name_pattern)]


class NameIdColumnFilter(Filter):
    """Events whose name, as a number, stands for one that a regular expression matches."""

    def __init__(self, name_pattern: str) -> None:
        self.name_pattern = name_pattern

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        if symbol_table is None:
            _logger.warning("without a symbol table, numbers stand for no names")
            return df
        numbers = symbol_table.get_sym_index_series()
        return df[df["name"].isin(numbers[numbers.index.str.match(self.name_pattern)])]


class NameFilter(Filter):
    """Events whose name begins with what a regular expression matches.

    With a symbol table names are numbers, else text.
    """

    def __init__(
        self,
        name_pattern: str,
        symbol_table: TraceSymbolTable | None = None,
        name_column: str | None = None,
    ) -> None:
        self.name_pattern = name_pattern
        self.symbol_table = symbol_table
        self.name_column = name_column

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        table = self.symbol_table if symbol_table is None else symbol_table
        if table is None or not pd.api.types.is_numeric_dtype(df["name"]):
            return NameStringColumnFilter(self.name_pattern)(df)
        return NameIdColumnFilter(self.name_pattern)(df, table)


class QueryFilter(Filter):
    """Events that satisfy a pandas query."""

    def __init__(self, query_str: str) -> None:
        self.filter_query = query_str

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        return df.query(self.filter_query)


#: Events that last.
ZeroDurationFilter = QueryFilter("dur > 0")


class GPUKernelFilter(Filter):
    """Device events; with a symbol table also waits for a whole device, which are on no stream."""

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        return df[_on_device(df, symbol_table)] if _has(df, "stream") else df


class CPUOperatorFilter(Filter):
    """Events that are no device events."""

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        return df[~_on_device(df, symbol_table)] if _has(df, "stream") else df


class MemCopyEventFilter(Filter):
    """Copies of one name, such as ``Memcpy DtoH (Device -> Pinned)``."""

    def __init__(self, memory_copy_type: str, symbol_table: TraceSymbolTable | None = None) -> None:
        self.memory_copy_type = memory_copy_type
        self.symbol_table = symbol_table

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        table = self.symbol_table if symbol_table is None else symbol_table
        numbers = {} if table is None else table.sym_index
        name = numbers.get(self.memory_copy_type, TraceSymbolTable.NULL)
        copies = [numbers[category] for category in ("gpu_memcpy", "Memcpy") if category in numbers]
        return df[(df["name"] == name) & df["cat"].isin(copies)]


class CompositeFilter(Filter):
    """Events that all of several filters choose, one after the other."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        if not all(isinstance(one, Filter) for one in filters):
            raise TypeError("a CompositeFilter is made of filters")
        if any(one is self for one in filters):
            raise ValueError("a CompositeFilter cannot hold itself")
        self.filters = list(filters)

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        for one in self.filters:
            df = one(df, symbol_table)
        return df


def _several(value: int | Sequence[int], name: str) -> list[int]:
    if isinstance(value, int):
        return [value]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name} must be a whole number or a list of them")
    return list(value)


def _has(df: pd.DataFrame, column: str) -> bool:
    if column not in df.columns:
        _logger.warning("the frame has no column %r", column)
    return column in df.columns


def _on_device(df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> Any:
    device = (df["stream"] >= 0) & (df["correlation"] >= 0)
    if symbol_table is None:
        return device
    waits = [symbol_table.sym_index.get(name, TraceSymbolTable.NULL) for name in _DEVICE_WAITS]
    return device | df["name"].isin(waits)
