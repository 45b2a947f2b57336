"""HTA's filters by operator: events under, after or before an occurrence of one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar

import pandas as pd

from hta_widgets.compat.common.trace_df import find_op_occurrence
from hta_widgets.compat.common.trace_filter import Filter, FirstIterationFilter
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.utils.utils import get_symbol_column_names
from hta_widgets.errors import TraceError

__all__ = [
    "AfterOperatorFilter",
    "BeforeOperatorFilter",
    "CombinedOperatorFilter",
    "OperatorFilter",
    "OperatorFilterMethod",
    "UnderOperatorFilter",
    "get_matching_kernels",
]

_logger = logging.getLogger("hta")
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime", "mtia_runtime", "Runtime")


class OperatorFilterMethod(Enum):
    """How events lie to an operator. The last two are names only, as in HTA."""

    Under = 0
    After = 1
    Before = 2
    Ancestors = 3
    Stack = 4


def get_matching_kernels(
    df_ops: pd.DataFrame, df_both: pd.DataFrame, cat_column: str
) -> pd.DataFrame:
    """Return the device events of a frame that calls in another one launched."""
    calls = df_ops.loc[df_ops[cat_column].isin(_CALLS), "index"]
    return df_both[(df_both["stream"] >= 0) & df_both["index_correlation"].isin(calls)]


class OperatorFilter(Filter):
    """Events that lie to one occurrence of an operator in some way, on the operator's side.

    Parameters
    ----------
    op_name : str
        The whole name.
    position : int
        Which occurrence by time; 0 is the first, -1 the last.
    method : OperatorFilterMethod
    include_gpu_kernels : bool, default False
        Whether to add what the chosen calls launched.
    name_column : str, optional
        The column with names as text.

    Notes
    -----
    Names and categories must be text, as `Trace.decode_symbol_ids` gives them. An operator that
    does not occur gives no events.
    """

    def __init__(
        self,
        op_name: str,
        position: int,
        method: OperatorFilterMethod,
        include_gpu_kernels: bool = False,
        name_column: str | None = None,
    ) -> None:
        self.op_name = op_name
        self.position = position
        self.method = method
        self.include_gpu_kernels = include_gpu_kernels
        self.name_column = name_column or ""

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        name_column, cat_column = get_symbol_column_names(df)
        if self.name_column:
            name_column = self.name_column
            cat_column = self.name_column.replace("name", "cat")
        if name_column not in df.columns or cat_column not in df.columns:
            _logger.warning("the frame has no names as text: call decode_symbol_ids first")
            return df
        found, operator = find_op_occurrence(df, self.op_name, self.position, name_column)
        if not found:
            _logger.warning("%r does not occur so often", self.op_name)
            return df.iloc[:0]
        chosen: pd.DataFrame = df[self._lies(df, operator) & (df["stream"] == operator["stream"])]
        if not self.include_gpu_kernels:
            return chosen
        return pd.concat([chosen, get_matching_kernels(chosen, df, cat_column)])

    def _lies(self, df: pd.DataFrame, operator: pd.Series[Any]) -> Any:
        start, end = df["ts"], df["ts"] + df["dur"]
        began, ended = operator["ts"], operator["ts"] + operator["dur"]
        if self.method.value == OperatorFilterMethod.Under.value:
            return (start >= began) & (end <= ended)
        if self.method.value == OperatorFilterMethod.After.value:
            return start >= ended
        if self.method.value == OperatorFilterMethod.Before.value:
            return end <= began
        raise TraceError(f"{self.method} is not offered", remedy="Choose Under, After or Before.")


class _OneMethod(OperatorFilter):
    _method: ClassVar[OperatorFilterMethod]

    def __init__(
        self,
        op_name: str,
        position: int,
        include_gpu_kernels: bool = False,
        name_column: str | None = None,
    ) -> None:
        super().__init__(op_name, position, self._method, include_gpu_kernels, name_column)


class UnderOperatorFilter(_OneMethod):
    """Events within an occurrence of an operator, the operator included."""

    _method = OperatorFilterMethod.Under


class AfterOperatorFilter(_OneMethod):
    """Events that start once an occurrence of an operator has ended."""

    _method = OperatorFilterMethod.After


class BeforeOperatorFilter(_OneMethod):
    """Events that end before an occurrence of an operator starts."""

    _method = OperatorFilterMethod.Before


class CombinedOperatorFilter(Filter):
    """Events of the first step, under one operator, after a second and before a third.

    Parameters
    ----------
    root_op_name : str
        Events must lie under its first occurrence.
    preceding_op_name : str
        They must lie after its last occurrence there.
    following_op_name : str
        And before its first occurrence among these.
    include_gpu_kernels : bool, default False
        Whether to add what the chosen calls launched.
    stack_depths : sequence of int, optional
        Only host events of these depths, of frames that a `CallGraph` was made of.

    Notes
    -----
    An operator that does not occur sets no bound.
    """

    def __init__(
        self,
        root_op_name: str,
        preceding_op_name: str,
        following_op_name: str,
        include_gpu_kernels: bool = False,
        stack_depths: Sequence[int] | None = None,
    ) -> None:
        self.root_op_name = root_op_name
        self.preceding_op_name = preceding_op_name
        self.following_op_name = following_op_name
        self.include_gpu_kernels = include_gpu_kernels
        self.stack_depths = list(stack_depths or ())

    def _chosen(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.DataFrame:
        name_column, cat_column = get_symbol_column_names(df)
        if not name_column or not cat_column:
            _logger.warning("the frame has no names as text: call decode_symbol_ids first")
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
