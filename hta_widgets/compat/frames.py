"""HTA's frames: the events of a rank in µs, with names and categories as symbol numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.compat.config import AttributeSpec
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows
from hta_widgets.trace.columns import EventTable, event_args
from hta_widgets.trace.intervals import union
from hta_widgets.trace.trace import Trace

ANNOTATION = taxonomy.KINDS.index("annotation")

_COMPLETE = 0
_WHOLE_NUMBER = re.compile(r"-?\d{1,18}")

_LAUNCHES = (
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx",
    "cudaMemcpyAsync", "cudaMemsetAsync", "runFunction - job_prep_and_submit_for_execution",
    "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync",
    "hipMemcpyWithStream",
)  # fmt: skip


def compile_pattern(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    """Compile a regular expression. Raise a `TraceError` if it is invalid."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError, TypeError) as cause:
        raise TraceError(f"{pattern!r} is not a regular expression ({cause})") from None


class TraceSymbolTable:
    """Symbols (names, categories) by number (`sym_table`), and numbers by symbol (`sym_index`)."""

    #: Number for a missing symbol.
    NULL = -128

    def __init__(self, symbols: Iterable[str] = ()) -> None:
        self.sym_table: list[str] = []
        self.sym_index: dict[str, int] = {}
        self.add_symbols(symbols)

    def is_empty(self) -> bool:
        """Return whether the table has no symbols."""
        return not self.sym_table

    def add_symbols(self, symbols: Iterable[str]) -> None:
        """Assign numbers to new symbols."""
        for symbol in symbols:
            if symbol not in self.sym_index:
                self.sym_index[symbol] = len(self.sym_table)
                self.sym_table.append(symbol)

    def add_symbols_mp(self, symbols_list: Iterable[Iterable[str]]) -> None:
        """Assign numbers to the new symbols in several lists."""
        for symbols in symbols_list:
            self.add_symbols(symbols)

    def get_sym_table(self) -> list[str]:
        """Return the list of symbols, indexed by number."""
        return self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        """Return the numbers, keyed by symbol."""
        return self.sym_index

    get_sym_index = get_sym_id_map

    def get_sym_index_series(self) -> pd.Series[int]:
        """Return the numbers as a Series indexed by symbol."""
        return pd.Series(self.sym_index, dtype="int64")

    def get_sym_table_series(self) -> pd.Series[Any]:
        """Return the symbols as a Series indexed by number."""
        return pd.Series(self.sym_table, dtype=object)

    def find_matches(self, patterns: Sequence[str]) -> list[int]:
        """Return the numbers of the symbols that contain a match of any pattern.

        Patterns are regular expressions, as HTA documents, although its code searches for plain
        text. An invalid expression is searched for as plain text.
        """
        wanted = []
        for pattern in patterns:
            try:
                wanted.append(compile_pattern(pattern))
            except TraceError:
                wanted.append(re.compile(re.escape(pattern)))
        return [
            number
            for number, symbol in enumerate(self.sym_table)
            if any(pattern.search(symbol) for pattern in wanted)
        ]

    def find_matched_symbols(self, patterns: Sequence[str]) -> list[str]:
        """Return the symbols that contain a match of any pattern; see `find_matches`."""
        return [self.sym_table[number] for number in self.find_matches(patterns)]

    def get_symbol_ids(self, symbol_pattern: Any) -> dict[str, int]:
        """Return the symbols that a `GroupingPattern` matches, with their numbers."""
        return {name: code for name, code in self.sym_index.items() if symbol_pattern.match(name)}

    def get_symbol_names(self, symbol_ids: Iterable[int]) -> dict[int, str]:
        """Return the symbols of all given numbers that exist."""
        valid_ids = sorted(set(symbol_ids) & set(range(len(self.sym_table))))
        return {int(number): self.sym_table[number] for number in valid_ids}

    def _ids_of_prefix(self, pattern: str) -> list[int]:
        matches = re.compile(pattern).match
        return [number for symbol, number in self.sym_index.items() if matches(symbol)]

    def get_profiler_step_ids(self) -> list[int]:
        """Return the symbol numbers of ``ProfilerStep#n``."""
        return self._ids_of_prefix(r"ProfilerStep#(\d+)")

    def get_kernel_launch_ids(self) -> list[int]:
        """Return the symbol numbers of calls that launch kernels."""
        return self._ids_of_prefix("(cuda|hip).*LaunchKernel|cuLaunchKernel|runFunction")

    def get_memory_name_ids(self) -> list[int]:
        """Return the symbol numbers of memory copies and fills."""
        return self._ids_of_prefix("(hip)?Mem(cpy|set)|dma")

    def get_cpu_event_cat_ids(self) -> list[int]:
        """Return the category numbers of operators, annotations and runtime calls."""
        return self._ids_of_prefix("cpu_op|user_annotation|.+_runtime")

    def get_gpu_kernel_cat_ids(self) -> list[int]:
        """Return the category numbers of kernels and copies."""
        return self._ids_of_prefix("kernel|gpu_mem.|mtia_ccp_events")

    def get_runtime_launch_events_mask(self, df: pd.DataFrame) -> pd.Series[bool]:
        """Return a mask of the calls that launched device events in the frame."""
        launches = [self.sym_index[name] for name in _LAUNCHES if name in self.sym_index]
        return df["name"].isin(launches) & (df["index_correlation"] > 0)

    def get_operator_or_cuda_runtime_mask(self, df: pd.DataFrame) -> pd.Series[bool]:
        """Return a mask of operators, runtime calls and driver calls."""
        categories = ("cpu_op", "cuda_runtime", "cuda_driver", "hip_runtime")
        return df["cat"].isin([self.sym_index[cat] for cat in categories if cat in self.sym_index])

    def get_events_mask(self, df: pd.DataFrame, events: Sequence[str] | None) -> pd.Series[bool]:
        """Return a mask of the events whose names contain a match of any pattern."""
        return df["name"].isin(self.find_matches(events or ()))

    def encode_df(self, df: pd.DataFrame) -> None:
        """Replace names and categories by numbers, in place."""
        for column in ("name", "cat"):
            if column in df.columns and pd.api.types.is_string_dtype(df[column]):
                df[column] = df[column].map(self.sym_index).astype("int64")

    def decode_df(self, df: pd.DataFrame, create_new_columns: bool = True) -> None:
        """Add names and categories as ``s_name`` and ``s_cat``, or replace the numbers by them."""
        for column in ("name", "cat"):
            if column in df.columns and df[column].dtype.kind == "i":
                target = "s_" + column if create_new_columns else column
                df[target] = _text(df[column], self.sym_table)

    def update_encoded_df(self, df: pd.DataFrame, old_symbol_table: TraceSymbolTable) -> None:
        """Convert the numbers of another table to the numbers of this table, in place."""
        numbers = np.array([self.sym_index[name] for name in old_symbol_table.sym_table])
        for column in ("cat", "name"):
            df[column] = numbers[df[column].to_numpy()]

    def add_symbols_to_trace_df(self, trace_df: pd.DataFrame, col: str) -> None:
        """Replace the numbers in a column by symbols, in place."""
        trace_df[col] = _text(trace_df[col], self.sym_table)

    @staticmethod
    def create_from_df(df: pd.DataFrame) -> TraceSymbolTable:
        """Return a table of the names and categories in a frame, which must be text."""
        for column in ("cat", "name"):
            if column not in df.columns or not pd.api.types.is_string_dtype(df[column]):
                raise TraceError(f"the frame has no column {column!r} of text")
        return TraceSymbolTable([*df["cat"].unique(), *df["name"].unique()])

    @staticmethod
    def create_from_symbol_id_map(symbol_id_map: dict[str, int]) -> TraceSymbolTable:
        """Return a table with these numbers. Missing numbers become ``Undefined-n``."""
        by_number = {number: symbol for symbol, number in symbol_id_map.items()}
        return TraceSymbolTable(
            by_number.get(number, f"Undefined-{number}") for number in range(max(by_number) + 1)
        )

    @staticmethod
    def combine_symbol_tables(tables: Iterable[TraceSymbolTable]) -> TraceSymbolTable:
        """Return a table with the symbols of several tables."""
        return TraceSymbolTable(symbol for table in tables for symbol in table.sym_table)

    @staticmethod
    def clone(symbol_table: TraceSymbolTable) -> TraceSymbolTable:
        """Return a copy."""
        return TraceSymbolTable(symbol_table.sym_table)

    @staticmethod
    def from_csv_file(file_path: str) -> TraceSymbolTable:
        """Read a table from a CSV file with the column ``symbol``."""
        if not Path(file_path).exists():
            raise FileNotFoundError(file_path)
        frame = pd.read_csv(file_path)
        if "symbol" not in frame.columns:
            raise TraceError("has no column 'symbol'", path=file_path)
        return TraceSymbolTable(frame["symbol"].tolist())


def decode_symbol_id_to_symbol_name(
    df: pd.DataFrame, symbol_table: TraceSymbolTable, use_shorten_name: bool
) -> None:
    """Add ``s_name``, ``s_cat`` and ``s_user_annotation`` for columns of numbers, in place."""
    symbols = symbol_table.sym_table
    if use_shorten_name:
        symbols = [shorten_name(symbol) for symbol in symbols]
    for column in ("name", "cat", "user_annotation"):
        if column in df.columns and df[column].dtype.kind == "i":
            df["s_" + column] = _text(df[column], symbols)


def _text(numbers: pd.Series[Any], symbols: Sequence[str]) -> Any:
    """Return the symbols for the given numbers; ``""`` for an unknown number."""
    lookup = np.array([*symbols, ""], dtype=object)
    codes = numbers.to_numpy()
    return lookup[np.where((codes >= 0) & (codes < len(symbols)), codes, -1)]


def in_us(nanoseconds: npt.ArrayLike) -> Array:
    """Return times in µs, as integers if all are whole numbers, otherwise as floats."""
    times = np.asarray(nanoseconds, dtype=np.int64)
    return times // 1000 if not (times % 1000).any() else times / 1000


def hta_rows(table: EventTable) -> Rows:
    """Return the rows in HTA's frames: complete events with a category, in file order.

    HTA drops the profiler's own span, which has the category ``Trace``.
    """
    rows = np.flatnonzero(_is_shown(table))
    return rows[np.argsort(table.record[rows], kind="stable")]


def first_event_ns(traces: Iterable[Trace]) -> int:
    """Return the earliest start in HTA's frames (their time 0) on the clock of the set."""
    starts = []
    for trace in traces:
        shown = _is_shown(trace.table)
        if shown.any():  # rows are sorted by start
            starts.append(int(trace.table.start_ns[int(shown.argmax())]) + trace.shift_ns)
    return min(starts, default=0)


def _is_shown(table: EventTable) -> Bools:
    excluded_codes = [
        code for code, text in enumerate(table.categories.values) if text in ("", "Trace")
    ]
    is_shown: Bools = table.phase == _COMPLETE
    return is_shown & ~np.isin(table.category, excluded_codes)


def symbols_of(table: EventTable, rows: Rows | None = None) -> list[str]:
    """Return the distinct categories and names of events, by default of those in HTA's frames."""
    rows = hta_rows(table) if rows is None else rows
    symbols: list[str] = []
    for codes, pool in ((table.category, table.categories), (table.name, table.names)):
        symbols += [pool[code] for code in np.unique(codes[rows]).tolist()]
    return symbols


def hta_frame(
    trace: Trace,
    rows: Rows,
    symbols: TraceSymbolTable,
    *,
    zero_ns: int,
    columns: Sequence[AttributeSpec] = (),
) -> pd.DataFrame:
    """Return the events in `rows` as in HTA's frames. `zero_ns` is time 0 on the set's clock.

    Returns
    -------
    DataFrame
        Index: the column ``index``, the position of an event in ``traceEvents``. ``cat, name`` are
        numbers of `symbols`; ``ts, dur, end`` are in µs (float64); ``stream`` is -1 on the host and
        for annotations; ``index_correlation`` is the ``index`` of a device event's launch call, and
        of the last event that a call launched (-1: no correlation, 0: the other end is not in the
        file); ``iteration`` is n of ``ProfilerStep#n``, or -1. Then the args in `columns`.
    """
    table = trace.table
    start = table.start_ns[rows] + trace.shift_ns - zero_ns
    data: dict[str, Any] = {
        "index": table.record[rows],
        "cat": symbol_numbers(symbols, table.categories.values)[table.category[rows]],
        "name": symbol_numbers(symbols, table.names.values)[table.name[rows]],
        "pid": by_track(table, "pid", table.track[rows]),
        "tid": by_track(table, "tid", table.track[rows]),
        "ts": start / 1000,
        "dur": table.dur_ns[rows] / 1000,
        "stream": np.where(table.kind[rows] == ANNOTATION, -1, table.stream[rows]).astype(np.int64),
        "correlation": table.correlation[rows],
        "index_correlation": _index_correlation(trace)[rows],
        "iteration": table.step[rows],
        "end": (start + table.dur_ns[rows]) / 1000,
    }
    if columns:
        args = event_args(trace, rows, [spec.raw_name for spec in columns])
        for spec in columns:
            if spec.name not in data:
                data[spec.name] = _arg_values(args[spec.raw_name], spec.default_value)
    frame = pd.DataFrame(data)
    frame.index = pd.Index(data["index"])
    return frame


def symbol_numbers(symbols: TraceSymbolTable, values: Sequence[str]) -> Ints:
    """Return the numbers of symbols; -1 if a symbol is missing."""
    return np.array([symbols.sym_index.get(value, -1) for value in values], dtype=np.int64)


def by_track(table: EventTable, name: Literal["pid", "tid"], tracks: Array) -> Array:
    """Return the process or thread ids of events, as numbers if possible, otherwise as text."""
    used, place = np.unique(tracks, return_inverse=True)
    return number_or_text([getattr(table.tracks[track], name) for track in used.tolist()])[place]


def number_or_text(values: Sequence[str]) -> Array:
    """Return int64 if every value is an integer, otherwise objects (numbers and text)."""
    parsed = [int(value) if _WHOLE_NUMBER.fullmatch(value) else value for value in values]
    if all(isinstance(value, int) for value in parsed):
        return np.array(parsed, dtype=np.int64)
    return _objects(parsed)


def _index_correlation(trace: Trace) -> Ints:
    table, launch = trace.table, trace.launch_of
    partner = np.where(table.correlation == -1, -1, 0)
    launched = np.flatnonzero(launch >= 0)
    partner[launched] = table.record[launch[launched]]
    partner[launch[launched]] = table.record[launched]
    return partner


def _arg_values(values: list[Any], default: object) -> Array:
    filled = _objects([default if value is None else value for value in values])
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        return pd.to_numeric(pd.Series(filled), errors="coerce").fillna(default).to_numpy()
    return filled


def _objects(values: list[Any]) -> Array:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def get_iterations(df: pd.DataFrame) -> list[int]:
    """Return the numbers of the steps in a frame."""
    if "iteration" not in df.columns or df.dtypes["iteration"].kind != "i":
        raise TypeError("the frame has no column 'iteration' of integers")
    return sorted(number for number in df["iteration"].unique().tolist() if number != -1)


def find_op_occurrence(
    df: pd.DataFrame, op_name: str, position: int, name_column: str = "s_name"
) -> tuple[bool, pd.Series[Any]]:
    """Return whether an occurrence of an operator exists, and its row.

    Occurrences are ordered by time. Position 0 is the first one, -1 the last one.
    """
    nothing = False, pd.Series(dtype=object)
    if df.empty or "ts" not in df.columns or name_column not in df.columns:
        return nothing
    occurrences = df[df[name_column] == op_name].sort_values("ts", kind="stable")
    if not -len(occurrences) <= position < len(occurrences):
        return nothing
    return True, occurrences.iloc[position]


def begin_with(
    names: pd.Series[Any], pattern: str, symbols: TraceSymbolTable | None = None
) -> pd.Series[bool]:
    """Return a mask of the names (text or symbol numbers) that start with a match."""
    expression = compile_pattern(pattern).pattern
    if symbols is None:
        return names.str.match(expression)
    numbers = symbols.get_sym_index_series()
    return names.isin(numbers[numbers.index.str.match(expression)])


def find_events_by_name_patterns_using_symbol_table(
    df: pd.DataFrame, list_name_patterns: Iterable[str], symbol_table: TraceSymbolTable
) -> pd.Series[Any]:
    """Return the ``index`` of the events whose names start with a match of any pattern."""
    return df["index"][begin_with(df["name"], _any_of(list_name_patterns), symbol_table)]


def find_events_by_name_patterns_using_decoded_names(
    df: pd.DataFrame, list_name_patterns: Iterable[str], name_column: str = "s_name"
) -> pd.Series[Any]:
    """Return the ``index`` of the events whose names start with a match of any pattern."""
    return df["index"][begin_with(df[name_column], _any_of(list_name_patterns))]


def _any_of(patterns: Iterable[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)"


def merge_kernel_intervals(kernel_df: pd.DataFrame) -> pd.DataFrame:
    """Return the union of events as intervals ``ts, end``. Adjacent intervals are joined."""
    start = kernel_df["ts"].to_numpy()
    end = start + kernel_df["dur"].to_numpy()
    if np.issubdtype(end.dtype, np.integer):
        pieces = union(start, end)
        return pd.DataFrame({"ts": pieces.start, "end": pieces.end})
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    opens = np.ones(len(start), dtype=bool)
    opens[1:] = start[1:] > end[:-1]
    closes = np.roll(opens, -1)  # the last event before each opening one, and the last event
    return pd.DataFrame({"ts": start[opens], "end": end[closes]})


def flatten_column_names(df: pd.DataFrame) -> None:
    """Join the levels of the column names with ``_``, in place."""
    if isinstance(df.columns, pd.MultiIndex):
        df.columns = pd.Index(["_".join(map(str, levels)).rstrip("_") for levels in df.columns])


def get_symbol_column_names(df: pd.DataFrame) -> tuple[str, str]:
    """Return the columns of names and categories as text; ``""`` if a column is missing."""

    def first(*candidates: str) -> str:
        for column in candidates:
            if column in df.columns and pd.api.types.is_string_dtype(df[column]):
                return column
        return ""

    return first("name", "s_name"), first("cat", "s_cat")


def normalize_gpu_stream_numbers(df: pd.DataFrame) -> None:
    """Convert ``stream`` to integers in place. Other values become -1."""
    if "stream" in df.columns:
        df["stream"] = pd.to_numeric(df["stream"], errors="coerce").fillna(-1).astype(int)


#: Kinds of device work.
KernelType = Enum("KernelType", "COMMUNICATION MEMORY COMPUTATION OTHER", start=0)

#: Causes of the idle time of a stream.
IdleTimeType = Enum("IdleTimeType", "HOST_WAIT KERNEL_WAIT OTHER", start=0)

#: HTA's names for the kinds of device work.
KERNEL_TYPE_OF_KIND = {
    "compute": KernelType.COMPUTATION.name,
    "communication": KernelType.COMMUNICATION.name,
    "memory": KernelType.MEMORY.name,
}

_CLOSING = {">": "<", ")": "("}


def get_kernel_type(name: str) -> str:
    """Return ``COMPUTATION``, ``COMMUNICATION``, ``MEMORY`` or ``OTHER``, by the taxonomy."""
    kind = taxonomy.kind_of("kernel", name)
    return KERNEL_TYPE_OF_KIND.get(kind, KernelType.OTHER.name)


def is_comm_kernel(name: str) -> bool:
    """Return whether a kernel with this name is communication."""
    return get_kernel_type(name) == KernelType.COMMUNICATION.name


def is_memory_kernel(name: str) -> bool:
    """Return whether a device event with this name is a memory copy or fill."""
    return get_kernel_type(name) == KernelType.MEMORY.name


def is_compute_kernel(name: str) -> bool:
    """Return whether a kernel with this name is computation."""
    return get_kernel_type(name) == KernelType.COMPUTATION.name


is_computer_kernel = is_compute_kernel


def get_memory_kernel_type(name: str) -> str:
    """Return the kind of a copy or fill, such as ``Memcpy HtoD`` or ``Memset``."""
    if name.startswith("Memset"):
        return "Memset"
    return name[: len("Memcpy DtoH")] if name.startswith("Memcpy") else "Memcpy Unknown"


def shorten_name(name: str) -> str:
    """Return the name of a kernel without return type, template arguments and parameters.

    Names of copies and names without brackets are returned unchanged.
    """
    if is_memory_kernel(name) or not any(bracket in name for bracket in "<("):
        return name
    letters: list[str] = []
    for letter in name.replace("->", ""):
        opening = _CLOSING.get(letter)
        if opening is None:
            letters.append(letter)
            continue
        while letters and letters.pop() != opening:  # drops the text inside the brackets
            pass
    return "".join(letters).split(" ")[-1]
