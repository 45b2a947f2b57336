"""HTA's call graph: which event encloses or launched which, over HTA's frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.compat.common.stack_columns import (
    STACK_COLUMNS,
    Forest,
    Threads,
    forest_of_frame,
    threads_of,
)
from hta_widgets.compat.common.trace import Trace, get_cpu_gpu_correlation
from hta_widgets.compat.common.trace_call_stack import (
    CallStackGraph,
    CallStackIdentity,
    CallStackNode,
    Nodes,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.errors import TraceError

__all__ = ["CallGraph", "CallStackGraph", "CallStackIdentity", "CallStackNode"]

Ints = npt.NDArray[np.int64]

_BACKWARD = ("## backward ##", "ProfilerStep#")
_MAPPING = ["rank", "pid", "tid", "label", "stack_index", "stack_root", "count"]


class CallGraph:
    """The calls of the host's threads, and the device events that they launched.

    Parameters
    ----------
    trace : Trace
        Its frames get the columns ``parent, depth, height, num_kernels, kernel_dur_sum,
        kernel_span, first_kernel_start, last_kernel_end``: the event above by its ``index`` (at
        the top a negative number, the thread's root), how many are above, and what device events
        lie below, in µs (-1: none).
    ranks : list of int, optional
        All by default.

    Attributes
    ----------
    mapping : DataFrame
        One row per thread: ``rank, pid, tid, label`` (``main`` has steps, ``bwd`` runs
        ``autograd::`` functions, others have the name of their first event)``, stack_index,
        stack_root, count``.
    call_stacks : list of CallStackGraph
        By ``stack_index``.
    rank_to_nodes, rank_to_stacks : dict

    Notes
    -----
    Operators of a ``bwd`` thread lie below the ``## backward ##`` range of the main thread, or
    its step, that runs meanwhile. HTA does so with one such thread, here all are.
    """

    stack_columns: ClassVar = list(STACK_COLUMNS)

    def __init__(self, trace: Trace, ranks: Sequence[int] | None = None) -> None:
        self.trace_data = trace
        known = trace.get_ranks()
        self.ranks = [rank for rank in ranks if rank in known] if ranks else known
        if not self.ranks:
            raise TraceError("no such rank", remedy=f"The ranks are {known}.")
        self.call_stacks: list[CallStackGraph] = []
        self.rank_to_nodes: dict[int, Nodes] = {}
        self.rank_to_stacks: dict[int, dict[CallStackIdentity, CallStackGraph]] = {}
        rows: list[dict[str, Any]] = []
        for rank in self.ranks:
            rows += self._add_rank(rank)
        self.mapping = pd.DataFrame(rows, columns=_MAPPING)
        self._rank = self.ranks[0]

    @staticmethod
    def from_dataframe(
        df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None, rank: int = -1
    ) -> CallGraph:
        """Return the call graph of a frame; names must be text where no symbol table is given."""
        trace = Trace(trace_files={}, trace_dir="")
        frame = df.copy()
        if symbol_table is None:
            symbol_table = TraceSymbolTable.create_from_df(df)
            symbol_table.encode_df(frame)
        frame.index = pd.Index(frame["index"].to_numpy())
        trace.symbol_table = symbol_table
        trace.traces[rank] = frame
        trace.is_parsed = True
        return CallGraph(trace)

    def _add_rank(self, rank: int) -> list[dict[str, Any]]:
        frame = self.trace_data.get_trace(rank)
        threads = threads_of(frame, _device_categories(self.trace_data.symbol_table))
        forest = forest_of_frame(frame, threads)
        labels = [self._label(frame, threads, code) for code in range(len(threads.keys))]
        roots = _roots(threads)
        moved = self._below_main(frame, threads, forest, labels)
        # A thread whose calls all lie below the main one has no root of its own.
        own = [roots[moved.get(code, code)] for code in range(len(roots))]
        columns = forest.columns(frame)
        columns["parent_index"] = _parent_index(frame, threads, forest, roots)
        for name in STACK_COLUMNS:
            frame[name] = columns["parent_index" if name == "parent" else name]
        nodes = Nodes(frame, forest, columns, list(dict.fromkeys(own)))
        self.rank_to_nodes[rank] = nodes
        self.rank_to_stacks[rank] = {}
        correlations = get_cpu_gpu_correlation(frame)
        rows: list[dict[str, Any]] = []
        for code, (pid, tid) in enumerate(threads.keys):
            identity = CallStackIdentity(rank, pid, tid)
            events = frame[threads.code == code]
            symbols = self.trace_data.symbol_table
            stack = CallStackGraph(events, identity, correlations, frame, symbols, nodes)
            stack.root_index = own[code]
            label, index = labels[code], len(self.call_stacks)
            count = 1 + sum(row["stack_root"] == own[code] for row in rows)
            rows.append(
                dict(zip(_MAPPING, (rank, pid, tid, label, index, own[code], count), strict=True))
            )
            self.rank_to_stacks[rank][identity] = stack
            self.call_stacks.append(stack)
        return rows

    def _label(self, frame: pd.DataFrame, threads: Threads, code: int) -> str:
        names = frame["name"].to_numpy()[threads.code == code]
        symbols = self.trace_data.symbol_table.sym_table
        used = [symbols[number] for number in pd.unique(names).tolist()]
        if any(name.startswith("ProfilerStep#") for name in used):
            return "main"
        if any("autograd::" in name for name in used):
            return "bwd"
        return used[0] if used else "empty"

    def _below_main(
        self, frame: pd.DataFrame, threads: Threads, forest: Forest, labels: list[str]
    ) -> dict[int, int]:
        """Hang backward threads below the main one; return those that keep nothing of their own."""
        if labels.count("main") != 1:
            return {}
        main = labels.index("main")
        ranges = self._ranges(frame, threads.code == main)
        start = frame["ts"].to_numpy()
        end = start + frame["dur"].to_numpy()
        moved = {}
        for code, label in enumerate(labels):
            if label != "bwd":
                continue
            tops = np.flatnonzero((threads.code == code) & (forest.parent < 0))
            for row in ranges.tolist():
                inside = tops[(start[tops] >= start[row]) & (end[tops] <= end[row])]
                forest.parent[inside] = row
            if (forest.parent[tops] >= 0).all():
                moved[code] = main
        return moved

    def _ranges(self, frame: pd.DataFrame, member: npt.NDArray[np.bool_]) -> Ints:
        numbers = self.trace_data.symbol_table.sym_index
        for prefix in _BACKWARD:
            wanted = [number for name, number in numbers.items() if name.startswith(prefix)]
            found = np.flatnonzero(member & frame["name"].isin(wanted).to_numpy())
            if len(found):
                return found
        return np.empty(0, dtype=np.int64)

    # --- queries ----------------------------------------------------------------------------------

    def get_call_stacks(
        self,
        rank: int | None = None,
        pid: Any = None,
        tid: Any = None,
        stack_index: int | None = None,
    ) -> Iterator[CallStackGraph]:
        """Yield the call stacks of a rank, process or thread; all by default."""
        asked = {"rank": rank, "pid": pid, "tid": tid, "stack_index": stack_index}
        for row in self.mapping.to_dict("records"):
            if all(value is None or row[key] == value for key, value in asked.items()):
                yield self.call_stacks[row["stack_index"]]

    def get_node_attributes(self, index: int, rank: int | None = None) -> pd.Series[Any]:
        """Return an event's row; without a rank, of the one that was asked for last."""
        frame = self._frame(rank)
        if index not in frame.index:
            raise TraceError(f"no event {index} on rank {self._rank}")
        return frame.iloc[int(frame.index.get_indexer(pd.Index([index]))[0])]

    def get_csg_of_node(self, index: int, rank: int | None = None) -> CallStackGraph:
        """Return the call stack of an event's thread; of a device event, of its launch's."""
        node = self.get_node_attributes(index, rank)
        if node["stream"] >= 0:
            if node["parent"] < 0:
                raise TraceError(f"device event {index} has no launch in the frame")
            node = self.get_node_attributes(int(node["parent"]), rank)
        found = next(self.get_call_stacks(self._rank, node["pid"], node["tid"]), None)
        if found is None:
            raise TraceError(f"event {index} is on no thread of the host")
        return found

    def get_stack_of_node(
        self, index: int, rank: int | None = None, skip_ancestors: bool = False
    ) -> pd.DataFrame:
        """Return an event with all below it and, unless these are skipped, all above, by time."""
        stack = self.get_csg_of_node(index, rank)
        found = stack.get_descendants(index)
        if not skip_ancestors:
            found += stack.get_path_to_root(index)[1:]
        chosen = [one for one in dict.fromkeys(found) if one >= 0]
        return stack.full_df.loc[chosen].sort_values("ts", kind="stable")

    def get_gpu_kernels(self, rank: int | None = None) -> pd.DataFrame:
        """Return the device events; without a rank, of the one that was asked for last."""
        frame = self._frame(rank)
        return frame[frame["stream"] >= 0]

    def _frame(self, rank: int | None) -> pd.DataFrame:
        if rank is not None and rank in self.ranks:
            self._rank = rank
        return self.trace_data.get_trace(self._rank)


def _device_categories(symbols: TraceSymbolTable) -> frozenset[int]:
    """Return the numbers of categories of what is on no thread, though it has no stream."""
    return frozenset(
        number
        for symbol, number in symbols.sym_index.items()
        if taxonomy.is_device_category(symbol) or symbol == "cuda_profiler_range"
    )


def _roots(threads: Threads) -> list[int]:
    """Return a negative number for each thread, that of its id where that is free."""
    roots: list[int] = []
    for _, tid in threads.keys:
        root = -abs(int(tid)) if isinstance(tid, (int, np.integer)) else -3
        while root in roots or root > -3:
            root = min(root, -2) - 1
        roots.append(root)
    return roots


def _parent_index(frame: pd.DataFrame, threads: Threads, forest: Forest, roots: list[int]) -> Ints:
    index = frame["index"].to_numpy(dtype=np.int64)
    top = np.array([*roots, -1], dtype=np.int64)[threads.code]
    return np.where(forest.parent >= 0, index[forest.parent], top)
