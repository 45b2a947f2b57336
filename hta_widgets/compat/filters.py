"""HTA's filters: callables that take a frame and a symbol table and return some of the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pandas as pd
import pyarrow as pa

from hta_widgets.compat.config import logger
from hta_widgets.compat.frames import (
    TraceSymbolTable,
    begin_with,
    find_op_occurrence,
    get_symbol_column_names,
)
from hta_widgets.errors import TraceError

#: Waits for the whole device, which are not on any stream.
_DEVICE_WAITS = ("Event Sync", "Context Sync")
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "mtia_runtime", "Runtime")
_NO_TEXT = "the frame has no names as text: call decode_symbol_ids first"

_Symbols = TraceSymbolTable | None
_Numbers = int | Sequence[int]


class Filter:
    """Base class of filters. Filters written by users define ``__call__``.

    If the frame lacks the column of a filter, the filter logs a warning and returns every row.

    Examples
    --------
    >>> events = pd.DataFrame({"ts": [0, 5, 9], "dur": [2, 2, 2], "rank": [0, 1, 1]})
    >>> choose = CompositeFilter([RankFilter(1), TimeRangeFilter((0, 8))])
    >>> choose(events)["ts"].tolist()
    [5]
    """

    _column = ""  # the column that the frame must have

    def __call__(
        self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None
    ) -> pd.DataFrame:
        """Return the matching rows. An empty frame is returned unchanged."""
        if df.empty:
            return df
        if self._column and self._column not in df.columns:
            logger.warning("the frame has no column %r", self._column)
            return df
        try:
            return self._matching(df, symbol_table)
        except (re.error, pa.ArrowInvalid) as cause:
            raise TraceError(f"the pattern is not a regular expression ({cause})") from None

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        raise NotImplementedError


class _NumberFilter(Filter):
    """Keep events whose `_column` has one of the given numbers, the filter's only attribute."""

    def __post_init__(self) -> None:
        ((name, value),) = vars(self).items()
        if isinstance(value, str) or not isinstance(value, int | Sequence):
            raise TypeError(f"{name} must be an integer or a list of integers")
        vars(self)[name] = [value] if isinstance(value, int) else list(value)

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        (numbers,) = vars(self).values()
        return df[df[self._column].isin(numbers)]


@dataclass(eq=False)
class IterationFilter(_NumberFilter):
    """Keep the events of the steps with the given numbers."""

    iterations: _Numbers
    _column = "iteration"


@dataclass(eq=False)
class IterationIndexFilter(_NumberFilter):
    """Keep the events of the steps at the given positions among the steps of the frame."""

    iteration_index: _Numbers
    _column = "iteration"

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        steps = sorted(step for step in df["iteration"].unique().tolist() if step >= 0)
        (positions,) = vars(self).values()
        chosen = [step for position, step in enumerate(steps) if position in positions]
        return df[df["iteration"].isin(chosen)] if steps else df


@dataclass(eq=False)
class FirstIterationFilter(IterationIndexFilter):
    """Keep the events of the first step."""

    iteration_index: _Numbers = field(default_factory=lambda: [0], init=False)


@dataclass(eq=False)
class RankFilter(_NumberFilter):
    """Keep the events of some ranks, given in the column ``rank``."""

    ranks: _Numbers
    _column = "rank"


class TimeRangeFilter(Filter):
    """Keep events that lie entirely within a time range."""

    _column = "ts"

    def __init__(self, time_range: tuple[float, float]) -> None:
        if not isinstance(time_range, tuple) or len(time_range) != 2:
            raise ValueError("time_range must be a tuple of start and end")
        self.time_start, self.time_end = time_range
        if self.time_start > self.time_end:
            raise ValueError("time_range ends before it starts")

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        return df[(df["ts"] >= self.time_start) & (df["ts"] + df["dur"] <= self.time_end)]


@dataclass(eq=False)
class NameStringColumnFilter(Filter):
    """Keep events whose name, as text, starts with a match of a regular expression."""

    name_pattern: str

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        column, _ = get_symbol_column_names(df)
        if not column:
            logger.warning("the frame has no names as text")
            return df
        return df[begin_with(df[column], self.name_pattern)]


@dataclass(eq=False)
class NameIdColumnFilter(Filter):
    """Keep events whose name is the number of a symbol that starts with a match of a pattern."""

    name_pattern: str

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        if symbols is None:
            logger.warning("names as numbers need a symbol table")
            return df
        return df[begin_with(df["name"], self.name_pattern, symbols)]


@dataclass(eq=False)
class NameFilter(Filter):
    """Keep events whose name starts with a match of a regular expression.

    With a symbol table, names are numbers; otherwise they are text.
    """

    name_pattern: str
    symbol_table: _Symbols = None
    name_column: str | None = None

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        table = self.symbol_table if symbols is None else symbols
        if table is None or not pd.api.types.is_numeric_dtype(df["name"]):
            return NameStringColumnFilter(self.name_pattern)(df)
        return NameIdColumnFilter(self.name_pattern)(df, table)


class QueryFilter(Filter):
    """Keep events that match a pandas query."""

    def __init__(self, query_str: str) -> None:
        self.filter_query = query_str

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        return df.query(self.filter_query)


#: Keeps events that have a duration.
ZeroDurationFilter = QueryFilter("dur > 0")


class GPUKernelFilter(Filter):
    """Keep device events and, if there is a symbol table, waits for the whole device."""

    _column = "stream"
    _on_device = True

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        device = (df["stream"] >= 0) & (df["correlation"] >= 0)
        if symbols is not None:
            waits = [symbols.sym_index.get(name, symbols.NULL) for name in _DEVICE_WAITS]
            device |= df["name"].isin(waits)
        return df[device == self._on_device]


class CPUOperatorFilter(GPUKernelFilter):
    """Keep the events that `GPUKernelFilter` drops."""

    _on_device = False


@dataclass(eq=False)
class MemCopyEventFilter(Filter):
    """Keep the copies with one name, such as ``Memcpy DtoH (Device -> Pinned)``."""

    memory_copy_type: str
    symbol_table: _Symbols = None

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        table = self.symbol_table if symbols is None else symbols
        numbers = {} if table is None else table.sym_index
        name = numbers.get(self.memory_copy_type, TraceSymbolTable.NULL)
        copies = [numbers[category] for category in ("gpu_memcpy", "Memcpy") if category in numbers]
        return df[(df["name"] == name) & df["cat"].isin(copies)]


class CompositeFilter(Filter):
    """Apply several filters in order."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        if not all(isinstance(filter_, Filter) for filter_ in filters):
            raise TypeError("a CompositeFilter takes filters only")
        if any(filter_ is self for filter_ in filters):
            raise ValueError("a CompositeFilter cannot hold itself")
        self.filters = list(filters)

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        for filter_ in self.filters:
            df = filter_(df, symbols)
        return df


#: Position of events relative to an operator. As in HTA, the last two values are never used.
OperatorFilterMethod = Enum("OperatorFilterMethod", "Under After Before Ancestors Stack", start=0)


def get_matching_kernels(
    df_ops: pd.DataFrame, df_both: pd.DataFrame, cat_column: str
) -> pd.DataFrame:
    """Return the device events in `df_both` launched by calls in `df_ops`."""
    calls = df_ops.loc[df_ops[cat_column].isin(_CALLS), "index"]
    return df_both[(df_both["stream"] >= 0) & df_both["index_correlation"].isin(calls)]


@dataclass(eq=False)
class OperatorFilter(Filter):
    """Keep host events under, after or before one occurrence of an operator.

    `position` counts occurrences by time (-1: the last one). Without such an occurrence, the result
    is empty. `include_gpu_kernels` adds the device events that the remaining calls launched. Names
    and categories must be text, as added by `Trace.decode_symbol_ids`.
    """

    op_name: str
    position: int
    method: OperatorFilterMethod
    include_gpu_kernels: bool = False
    name_column: str | None = None

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        name_column, cat_column = get_symbol_column_names(df)
        if self.name_column:
            name_column = self.name_column
            cat_column = self.name_column.replace("name", "cat")
        if name_column not in df.columns or cat_column not in df.columns:
            logger.warning(_NO_TEXT)
            return df
        exists, operator = find_op_occurrence(df, self.op_name, self.position, name_column)
        if not exists:
            logger.warning("%r has no occurrence %d", self.op_name, self.position)
            return df.iloc[:0]
        is_chosen = self._is_placed(df, operator) & (df["stream"] == operator["stream"])
        chosen: pd.DataFrame = df[is_chosen]
        if not self.include_gpu_kernels:
            return chosen
        return pd.concat([chosen, get_matching_kernels(chosen, df, cat_column)])

    def _is_placed(self, df: pd.DataFrame, operator: pd.Series[Any]) -> Any:
        start, end = df["ts"], df["ts"] + df["dur"]
        began, ended = operator["ts"], operator["ts"] + operator["dur"]
        match self.method.name:
            case "Under":
                return (start >= began) & (end <= ended)
            case "After":
                return start >= ended
            case "Before":
                return end <= began
        raise TraceError(f"{self.method} is not offered", remedy="Choose Under, After or Before.")


@dataclass(eq=False)
class UnderOperatorFilter(OperatorFilter):
    """Keep an occurrence of an operator, and the events within it."""

    method: OperatorFilterMethod = field(default=OperatorFilterMethod.Under, init=False)


@dataclass(eq=False)
class AfterOperatorFilter(OperatorFilter):
    """Keep events that start after an occurrence of an operator."""

    method: OperatorFilterMethod = field(default=OperatorFilterMethod.After, init=False)


@dataclass(eq=False)
class BeforeOperatorFilter(OperatorFilter):
    """Keep events that end before an occurrence of an operator."""

    method: OperatorFilterMethod = field(default=OperatorFilterMethod.Before, init=False)


@dataclass(eq=False)
class CombinedOperatorFilter(Filter):
    """Keep events of the first step that are under one operator and between two others.

    The events are under the first occurrence of that operator, after the last of
    `preceding_op_name`, and before the first of `following_op_name`. Operators that do not occur
    set no bound. `stack_depths` restricts host events to these depths; it needs the columns that a
    `CallGraph` adds.
    """

    root_op_name: str
    preceding_op_name: str
    following_op_name: str
    include_gpu_kernels: bool = False
    stack_depths: Sequence[int] | None = None

    def _matching(self, df: pd.DataFrame, symbols: _Symbols) -> pd.DataFrame:
        name_column, cat_column = get_symbol_column_names(df)
        if not name_column or not cat_column:
            logger.warning(_NO_TEXT)
            return df
        chosen = FirstIterationFilter()(df)
        bounds: list[OperatorFilter] = [
            UnderOperatorFilter(self.root_op_name, 0),
            AfterOperatorFilter(self.preceding_op_name, -1),
            BeforeOperatorFilter(self.following_op_name, 0),
        ]
        for bound in bounds:
            if find_op_occurrence(chosen, bound.op_name, bound.position, name_column)[0]:
                chosen = bound(chosen)
        if self.include_gpu_kernels:
            chosen = pd.concat([get_matching_kernels(chosen, df, cat_column), chosen])
        if self.stack_depths and "depth" in chosen.columns:
            chosen = chosen[(chosen["stream"] >= 0) | chosen["depth"].isin(self.stack_depths)]
        return chosen
