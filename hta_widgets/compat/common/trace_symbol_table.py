"""The table by which HTA's frames give names and categories as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.compat.utils.utils import shorten_name
from hta_widgets.errors import TraceError

__all__ = ["TraceSymbolTable", "decode_symbol_id_to_symbol_name"]

_STEP = re.compile(r"ProfilerStep#(\d+)")
_LAUNCH = re.compile(r"(cuda.*LaunchKernel)|(hip.*LaunchKernel)|(cuLaunchKernel)|(runFunction)")
_MEMORY = re.compile(r"(hip)?Mem(cpy|set)|dma")
_HOST_CATEGORY = re.compile(r"cpu_op|user_annotation|.+_runtime")
_DEVICE_CATEGORY = re.compile(r"kernel|gpu_mem.|mtia_ccp_events")
_LAUNCHES = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "runFunction - job_prep_and_submit_for_execution",
        "hipLaunchKernel",
        "hipExtModuleLaunchKernel",
        "hipMemsetAsync",
        "hipMemcpyAsync",
        "hipMemcpyWithStream",
    }
)


class TraceSymbolTable:
    """Numbers of names and categories, shared by all ranks of a `Trace`.

    Attributes
    ----------
    sym_table : list of str
        Symbols by number.
    sym_index : dict of str to int
        Numbers by symbol.
    """

    #: what stands for a symbol that is not there
    NULL = -128

    def __init__(self, symbols: Iterable[str] = ()) -> None:
        self.sym_table: list[str] = []
        self.sym_index: dict[str, int] = {}
        self.add_symbols(symbols)

    # --- content ----------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Tell whether no symbols are there."""
        return not self.sym_table

    def add_symbols(self, symbols: Iterable[str]) -> None:
        """Give numbers to symbols that have none."""
        for symbol in symbols:
            if symbol not in self.sym_index:
                self.sym_index[symbol] = len(self.sym_table)
                self.sym_table.append(symbol)

    def add_symbols_mp(self, symbols_list: Iterable[Iterable[str]]) -> None:
        """Give numbers to the symbols of several lists; no processes are started for it."""
        for symbols in symbols_list:
            self.add_symbols(symbols)

    def get_sym_table(self) -> list[str]:
        """Return symbols by number."""
        return self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        """Return numbers by symbol."""
        return self.sym_index

    get_sym_index = get_sym_id_map

    def get_sym_index_series(self) -> pd.Series[int]:
        """Return numbers by symbol, as a Series."""
        return pd.Series(self.sym_index, dtype="int64")

    def get_sym_table_series(self) -> pd.Series[Any]:
        """Return symbols by number, as a Series."""
        return pd.Series(self.sym_table, dtype=object)

    # --- search -----------------------------------------------------------------------------------

    def find_matches(self, patterns: Sequence[str]) -> list[int]:
        """Return the numbers of symbols in which any of the patterns is found.

        Patterns are regular expressions, as HTA's documentation says; its code takes them for
        plain text. One that is no valid expression is taken for text.
        """
        compiled = [_pattern(pattern) for pattern in patterns]
        return [
            number
            for number, symbol in enumerate(self.sym_table)
            if any(pattern.search(symbol) for pattern in compiled)
        ]

    def find_matched_symbols(self, patterns: Sequence[str]) -> list[str]:
        """Return the symbols in which any of the patterns is found; see `find_matches`."""
        return [self.sym_table[number] for number in self.find_matches(patterns)]

    def get_symbol_ids(self, symbol_pattern: Any) -> dict[str, int]:
        """Return the symbols that a ``GroupingPattern`` matches, with their numbers."""
        return {
            symbol: number
            for symbol, number in self.sym_index.items()
            if symbol_pattern.match(symbol)
        }

    def get_symbol_names(self, symbol_ids: Iterable[int]) -> dict[int, str]:
        """Return symbols by number, for these numbers; none for numbers that there are not."""
        asked = set(symbol_ids)
        return {number: name for number, name in enumerate(self.sym_table) if number in asked}

    def get_profiler_step_ids(self) -> list[int]:
        """Return the numbers of names of steps."""
        return self._beginning_with(_STEP)

    def get_kernel_launch_ids(self) -> list[int]:
        """Return the numbers of names of calls that launch kernels."""
        return self._beginning_with(_LAUNCH)

    def get_memory_name_ids(self) -> list[int]:
        """Return the numbers of names of copies and sets of memory."""
        return self._beginning_with(_MEMORY)

    def get_cpu_event_cat_ids(self) -> list[int]:
        """Return the numbers of categories of operators, annotations and calls of runtimes."""
        return self._beginning_with(_HOST_CATEGORY)

    def get_gpu_kernel_cat_ids(self) -> list[int]:
        """Return the numbers of categories of kernels and copies."""
        return self._beginning_with(_DEVICE_CATEGORY)

    def _beginning_with(self, pattern: re.Pattern[str]) -> list[int]:
        return [number for symbol, number in self.sym_index.items() if pattern.match(symbol)]

    def get_runtime_launch_events_mask(self, df: pd.DataFrame) -> pd.Series[bool]:
        """Tell which rows are calls that launched kernels or copies that the frame holds."""
        launches = [self.sym_index[name] for name in _LAUNCHES if name in self.sym_index]
        return df["name"].isin(launches) & (df["index_correlation"] > 0)

    def get_operator_or_cuda_runtime_mask(self, df: pd.DataFrame) -> pd.Series[bool]:
        """Tell which rows are operators, or calls of the runtime or driver."""
        categories = ("cpu_op", "cuda_runtime", "cuda_driver", "hip_runtime")
        wanted = [self.sym_index[name] for name in categories if name in self.sym_index]
        return df["cat"].isin(wanted)

    def get_events_mask(self, df: pd.DataFrame, events: Sequence[str] | None) -> pd.Series[bool]:
        """Tell in which rows' names any of the patterns is found."""
        return df["name"].isin(self.find_matches(events or ()))

    # --- frames -----------------------------------------------------------------------------------

    def encode_df(self, df: pd.DataFrame) -> None:
        """Turn names and categories into numbers, in place."""
        for column in ("name", "cat"):
            if column in df.columns and pd.api.types.is_string_dtype(df[column]):
                df[column] = df[column].map(self.sym_index).astype("int64")

    def decode_df(
        self,
        df: pd.DataFrame,
        create_new_columns: bool = True,
    ) -> None:
        """Turn numbers into names and categories, in place, in columns with ``s_`` before."""
        for column in ("name", "cat"):
            if column in df.columns and df[column].dtype.kind == "i":
                df["s_" + column if create_new_columns else column] = _text(
                    df[column], self.sym_table
                )

    def update_encoded_df(self, df: pd.DataFrame, old_symbol_table: TraceSymbolTable) -> None:
        """Renumber a frame's names and categories that another table gave numbers to."""
        numbers = np.array([self.sym_index[name] for name in old_symbol_table.sym_table])
        for column in ("cat", "name"):
            df[column] = numbers[df[column].to_numpy()]

    def add_symbols_to_trace_df(self, trace_df: pd.DataFrame, col: str) -> None:
        """Turn the numbers of one column into text, in place."""
        trace_df[col] = _text(trace_df[col], self.sym_table)

    # --- other tables -----------------------------------------------------------------------------

    @staticmethod
    def create_from_df(df: pd.DataFrame) -> TraceSymbolTable:
        """Return a table of a frame's names and categories, which must be text."""
        for column in ("cat", "name"):
            if column not in df.columns or not pd.api.types.is_string_dtype(df[column]):
                raise TraceError(f"the frame has no column {column!r} of text")
        return TraceSymbolTable([*df["cat"].unique(), *df["name"].unique()])

    @staticmethod
    def create_from_symbol_id_map(symbol_id_map: dict[str, int]) -> TraceSymbolTable:
        """Return a table with these numbers; gaps are filled with ``Undefined-n``."""
        by_number = {number: symbol for symbol, number in symbol_id_map.items()}
        return TraceSymbolTable(
            by_number.get(number, f"Undefined-{number}") for number in range(max(by_number) + 1)
        )

    @staticmethod
    def combine_symbol_tables(tables: Iterable[TraceSymbolTable]) -> TraceSymbolTable:
        """Return a table of the symbols of several."""
        return TraceSymbolTable(symbol for table in tables for symbol in table.sym_table)

    @staticmethod
    def clone(symbol_table: TraceSymbolTable) -> TraceSymbolTable:
        """Return a copy."""
        return TraceSymbolTable(symbol_table.sym_table)

    @staticmethod
    def from_csv_file(file_path: str) -> TraceSymbolTable:
        """Return the table of a CSV file with a column ``symbol``."""
        if not Path(file_path).exists():
            raise FileNotFoundError(file_path)
        frame = pd.read_csv(file_path)
        if "symbol" not in frame.columns:
            raise TraceError("has no column 'symbol'", path=file_path)
        return TraceSymbolTable(frame["symbol"].tolist())


def decode_symbol_id_to_symbol_name(
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    use_shorten_name: bool,
) -> None:
    """Add ``s_name``, ``s_cat`` and ``s_user_annotation``, in place, for columns of numbers."""
    symbols = symbol_table.sym_table
    if use_shorten_name:
        symbols = [shorten_name(symbol) for symbol in symbols]
    for column in ("name", "cat", "user_annotation"):
        if column in df.columns and df[column].dtype.kind == "i":
            df["s_" + column] = _text(df[column], symbols)


def _text(numbers: pd.Series[Any], symbols: Sequence[str]) -> Any:
    """Symbols by number; the last place holds what stands for -1."""
    lookup = np.array([*symbols, ""], dtype=object)
    codes = numbers.to_numpy()
    return lookup[np.where((codes >= 0) & (codes < len(symbols)), codes, -1)]


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error:
        return re.compile(re.escape(text))
