"""HTA's call graph: for each event of a frame, the event that encloses or launched it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import taxonomy
from hta_widgets.compat.config import logger
from hta_widgets.compat.frames import TraceSymbolTable, compile_pattern
from hta_widgets.compat.trace import Trace, get_cpu_gpu_correlation
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows
from hta_widgets.trace.host_stack import forest_of
from hta_widgets.trace.tracks import assign_lanes

NON_EXISTENT_NODE_INDEX = -2
NULL_NODE_INDEX = -1

#: Columns that `CallGraph` adds to a frame.
STACK_COLUMNS = (
    "parent", "depth", "height", "first_kernel_start", "last_kernel_end", "num_kernels",
    "kernel_dur_sum", "kernel_span",
)  # fmt: skip

_BACKWARD = ("## backward ##", "ProfilerStep#")
_MAPPING = ["rank", "pid", "tid", "label", "stack_index", "stack_root", "count"]

#: Where an event runs.
DeviceType = Enum("DeviceType", "UNKNOWN CPU GPU ALL", start=0)

#: Direction of a copy.
MemcpyType = Enum("MemcpyType", "DTOD DTOH HTOD UNKNOWN", start=0)


@dataclass
class GroupingPattern:
    """Names whose start matches a pattern, or all other names."""

    pattern: re.Pattern[str]
    inverse_match: bool = False
    group_name: str = ""

    def match(self, name: str) -> bool:
        """Return whether a name belongs to the group."""
        return (self.pattern.match(name) is not None) != self.inverse_match

    def __hash__(self) -> int:
        return hash((self.pattern.pattern, self.pattern.flags, self.inverse_match))


def to_grouping_pattern(
    pattern: str | list[str] | re.Pattern[str] | GroupingPattern,
    group_name: str | None = None,
    inverse_match: bool | None = None,
) -> GroupingPattern:
    """Return a pattern, or several joined by ``|``, as a `GroupingPattern`."""
    if isinstance(pattern, GroupingPattern):
        return pattern
    if isinstance(pattern, list):
        pattern = "|".join(f"({text})" for text in pattern)
    if not isinstance(pattern, (str, re.Pattern)):
        raise TraceError(f"expected a pattern, got a {type(pattern).__name__}", remedy="Give text.")
    return GroupingPattern(compile_pattern(pattern), bool(inverse_match), group_name or "")


def infer_device_type(df: pd.DataFrame) -> DeviceType:
    """Return the `DeviceType` of the events of a thread or stream."""
    if "stream" not in df.columns or df.empty:
        return DeviceType.UNKNOWN
    if (df["stream"] >= 0).all():
        return DeviceType.GPU
    return DeviceType.CPU if (df["stream"] < 0).all() else DeviceType.UNKNOWN


@dataclass(frozen=True, eq=False)
class _Forest:
    """The rows of a frame as a forest: each row is below the row that encloses or launched it.

    `parent` is -1 at the top. `member` marks rows on host threads, and device events whose launch
    is in the frame.
    """

    index: Ints
    parent: Ints
    member: Bools
    device: Bools

    def columns(self, frame: pd.DataFrame, top: npt.ArrayLike) -> dict[str, Array]:
        """Return `STACK_COLUMNS` for the frame. Rows at the top have the parent `top`."""
        start, dur = frame["ts"].to_numpy(), frame["dur"].to_numpy()
        kernel = self.device & self.member
        count = kernel.astype(np.int64)
        total = np.where(kernel, dur, 0)
        # Without a kernel, the values are neutral in the minimum and maximum below.
        first = np.where(kernel, start, start.max(initial=0) + 1)
        last = np.where(kernel, start + dur, -1)
        height = np.where(self.device, 0, 1)
        nesting = forest_of(self.parent)
        for rows in reversed(nesting.levels[1:]):  # deepest first; rows at the top have no parent
            parents = self.parent[rows]
            np.add.at(count, parents, count[rows])
            np.add.at(total, parents, total[rows])
            np.minimum.at(first, parents, first[rows])
            np.maximum.at(last, parents, last[rows])
            np.maximum.at(height, parents, height[rows] + 1)
        has_kernels = count > 0
        return {
            "parent": np.where(self.parent >= 0, self.index[self.parent], top),
            "depth": np.where(self.member, nesting.depth, -1),
            "height": np.where(self.member, height, -1),
            "first_kernel_start": np.where(has_kernels, first, -1),
            "last_kernel_end": np.where(has_kernels, last, -1),
            "num_kernels": count,
            "kernel_dur_sum": total,
            "kernel_span": np.where(has_kernels, last - first, 0),
        }


def _threads_of(
    frame: pd.DataFrame, symbols: TraceSymbolTable
) -> tuple[list[tuple[Any, Any]], Ints]:
    """Return the host threads as (pid, tid), and the thread of each row (-1 on the device)."""
    # Some device categories have no stream: annotations, and waits for the whole device.
    device_categories = {
        number
        for symbol, number in symbols.sym_index.items()
        if taxonomy.is_device_category(symbol) or symbol == "cuda_profiler_range"
    }
    host = ~((frame["stream"] >= 0) | frame["cat"].isin(device_categories)).to_numpy()
    thread_of_row = np.full(len(frame), -1, dtype=np.int64)
    threads = frame[host].groupby(["pid", "tid"], sort=True)
    thread_of_row[host] = threads.ngroup().to_numpy()
    return [(pid, tid) for (pid, tid), _ in threads], thread_of_row


def _forest_of(frame: pd.DataFrame, thread_of_row: Ints, call: Ints) -> _Forest:
    """Return the rows of a frame as a forest.

    `thread_of_row` is -1 for rows on the device. `call` has the ``index`` of the call that launched
    each row, or -1.
    """
    index = frame["index"].to_numpy(dtype=np.int64)
    parent = _enclosing_rows(frame, index, thread_of_row)
    launched = np.flatnonzero(call >= 0)
    parent[launched] = pd.Index(index).get_indexer(pd.Index(call[launched]))
    member = thread_of_row >= 0
    member[launched] = parent[launched] >= 0
    return _Forest(index, parent, member, (frame["stream"] >= 0).to_numpy())


def _enclosing_rows(frame: pd.DataFrame, index: Ints, thread_of_row: Ints) -> Ints:
    """Return for each row the enclosing row on the same host thread, or -1."""
    start, dur = _ns(frame["ts"]), _ns(frame["dur"])
    begin = start - start.min(initial=0)
    rows = np.flatnonzero(thread_of_row >= 0)
    rows = rows[np.lexsort((index[rows], -dur[rows], begin[rows]))]
    has_whole_us = not ((start % 1000).any() or (dur % 1000).any())
    lanes = assign_lanes(
        begin[rows],
        np.maximum(dur[rows], 0),
        thread_of_row[rows].astype(np.int32),
        int(thread_of_row.max(initial=0)) + 1,
        1000 if has_whole_us else 1,
    )
    parent = np.full(len(frame), -1, dtype=np.int64)
    parent[rows] = np.append(rows, -1)[lanes.parent]
    return parent


def _ns(times: pd.Series[Any]) -> Ints:
    if times.dtype.kind in "iu":
        return times.to_numpy(dtype=np.int64) * 1000
    nanoseconds: Ints = np.rint(times.to_numpy(dtype=np.float64) * 1000).astype(np.int64)
    return nanoseconds


class CallStackIdentity(NamedTuple):
    """Identifies the thread of a `CallStackGraph`."""

    rank: int = -1
    pid: Any = -1
    tid: Any = -1


@dataclass
class CallStackNode:
    """An event, or the root of a thread (depth -1).

    `parent` is the ``index`` of an event, or a negative root. `height` is 0 for device events, 1
    for host events without children, and otherwise the largest height of a child plus 1.
    """

    parent: int = NULL_NODE_INDEX
    depth: int = -1
    height: int = -1
    device: DeviceType = DeviceType.CPU
    children: list[int] = field(default_factory=list)


class _Nodes(Mapping[int, CallStackNode]):
    """The nodes of a rank, keyed by ``index`` and created on access."""

    def __init__(self, forest: _Forest, columns: Mapping[str, Any], roots: list[int]) -> None:
        self._forest, self._columns = forest, columns
        members = np.flatnonzero(forest.member)
        self._below = members[np.argsort(columns["parent"][members], kind="stable")]
        self._parents = columns["parent"][self._below]
        self._row = dict.fromkeys(roots, -1)  # roots have no row
        self._row.update(zip(forest.index[members].tolist(), members.tolist(), strict=True))

    def __getitem__(self, index: int) -> CallStackNode:
        forest, columns, row = self._forest, self._columns, self._row[index]
        first, after = np.searchsorted(self._parents, (index, index + 1))
        rows = self._below[first:after]
        children: list[int] = forest.index[rows].tolist()
        if row < 0:
            height = 1 + int(columns["height"][rows].max(initial=0))
            return CallStackNode(height=height, children=children)
        parent, depth, height = (int(columns[name][row]) for name in ("parent", "depth", "height"))
        device = DeviceType.GPU if forest.device[row] else DeviceType.CPU
        return CallStackNode(parent, depth, height, device, children)

    def __iter__(self) -> Iterator[int]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, index: object) -> bool:
        return index in self._row


class CallStackGraph:
    """The calls in `df`, the events of one thread, and the device events launched by these calls.

    `cpu_gpu_correlation` has the columns ``gpu_index, cpu_index``. If `save_call_stack_to_df` is
    true, the columns of `CallGraph` that `full_df` has are filled in. `nodes` is a dict that
    receives the nodes of the thread, or contains the nodes of a `CallGraph`.
    `use_existing_stack_columns` is ignored.
    """

    def __init__(
        self,
        df: pd.DataFrame,
        identity: CallStackIdentity,
        cpu_gpu_correlation: pd.DataFrame,
        full_df: pd.DataFrame,
        symbol_table: TraceSymbolTable | None = None,
        nodes: Mapping[int, CallStackNode] | None = None,
        use_existing_stack_columns: bool = True,
        save_call_stack_to_df: bool = True,
    ) -> None:
        self.df = df
        self.identity = identity
        self.correlations = cpu_gpu_correlation
        self.full_df = full_df
        self.symbol_table = symbol_table
        self.nodes = {} if nodes is None else nodes
        self.root_index = -abs(identity.tid) if hasattr(identity.tid, "__index__") else -1
        self.device_type = infer_device_type(df)
        if self.device_type is DeviceType.GPU:
            logger.error("%s is on a device; only host threads have call stacks", identity)
        elif isinstance(self.nodes, dict):
            self._add_nodes(self.nodes, save_call_stack_to_df)

    def _add_nodes(self, nodes: dict[int, CallStackNode], save: bool) -> None:
        if "index_correlation" not in self.df.columns:  # unused, but required by HTA
            raise TraceError("the frame has no column 'index_correlation'")
        host = self.df[self.df["stream"] == -1]
        pairs = self.correlations[
            self.correlations["cpu_index"].isin(host["index"])
            & ~self.correlations["gpu_index"].isin(host["index"])
        ].drop_duplicates("gpu_index")
        device = self.full_df[self.full_df["index"].isin(pairs["gpu_index"])]
        used = ["index", "ts", "dur", "stream"]
        frame = pd.concat([host[used], device[used]], ignore_index=True)
        call_of = pairs.set_index("gpu_index")["cpu_index"]
        call = call_of.reindex(frame["index"], fill_value=-1).to_numpy(np.int64)
        forest = _forest_of(frame, np.repeat([0, -1], [len(host), len(device)]), call)
        columns = forest.columns(frame, self.root_index)
        nodes.update(_Nodes(forest, columns, [self.root_index]))
        if save and "parent" in self.full_df.columns:
            is_in_forest = self.full_df["index"].isin(forest.index)
            indexes = pd.Index(self.full_df.loc[is_in_forest, "index"])
            order = pd.Index(forest.index).get_indexer(indexes)
            for name in self.full_df.columns.intersection(pd.Index(STACK_COLUMNS)):
                self.full_df.loc[is_in_forest, name] = columns[name][order]

    def __repr__(self) -> str:
        return f"CallStackGraph({self.identity}, {len(self.df)} events)"

    def get_nodes(self) -> Mapping[int, CallStackNode]:
        """Return `nodes`."""
        return self.nodes

    def get_dataframe(self) -> pd.DataFrame:
        """Return the events of the thread."""
        return self.df

    def get_depth(self) -> pd.Series[Any]:
        """Return the depth of each event of the thread."""
        if "depth" in self.full_df.columns:
            depth: pd.Series[Any] = self.full_df.loc[self.df["index"], "depth"]
            return depth
        depths = {index: self.nodes[index].depth for index in self.df["index"].tolist()}
        return pd.Series(depths, name="depth", dtype="Int16")

    def get_parent(self, idx: int) -> int:
        """Return the parent, an event or a negative root; -2 if the node is unknown."""
        return self.nodes[idx].parent if idx in self.nodes else NON_EXISTENT_NODE_INDEX

    def get_children(self, idx: int) -> list[int]:
        """Return the children of an event."""
        return self.nodes[idx].children if idx in self.nodes else []

    def get_root(self, idx: int) -> int:
        """Return the root above an event; -1 if the node is unknown."""
        path = self.get_path_to_root(idx)
        return path[-1] if path else NULL_NODE_INDEX

    def get_path_to_root(self, idx: int) -> list[int]:
        """Return an event and its ancestors, ending with the root."""
        path = []
        while idx in self.nodes:
            path.append(idx)
            if idx < 0:
                break
            idx = self.nodes[idx].parent
        return path

    def get_paths_to_leaves(self, idx: int, include_cuda_kernel: bool = False) -> list[list[int]]:
        """Return the paths from an event down to each of its leaves.

        As in HTA, paths contain device events regardless of `include_cuda_kernel`, which only
        decides whether a device event itself has a path.
        """
        paths: list[list[int]] = []
        pending = [[idx]] if idx in self.nodes else []
        if pending and not include_cuda_kernel and self.nodes[idx].device is not DeviceType.CPU:
            return paths
        while pending:
            path = pending.pop()
            children = self.nodes[path[-1]].children
            if not children:
                paths.append(path)
            pending += [[*path, child] for child in reversed(children)]
        return paths

    def get_leaf_nodes(self, idx: int, include_gpu_kernel: bool = False) -> list[int]:
        """Return the last event of each path of `get_paths_to_leaves`."""
        return [path[-1] for path in self.get_paths_to_leaves(idx, include_gpu_kernel)]

    def get_descendants(self, idx: int, include_gpu_kernel: bool = False) -> list[int]:
        """Return an event and all its descendants, including device events."""
        descendants, pending = [], [idx] if idx in self.nodes else []
        while pending:
            node = pending.pop()
            descendants.append(node)
            pending += reversed(self.nodes[node].children)
        return descendants

    def dfs_traverse(
        self,
        enter_func: Callable[[int, CallStackNode], None],
        exit_func: Callable[[int, CallStackNode], None],
    ) -> None:
        """Call `enter_func` on each node before its children, and `exit_func` after them."""
        pending: list[tuple[int, CallStackNode, bool]] = []
        if self.root_index in self.nodes:
            pending.append((self.root_index, self.nodes[self.root_index], True))
        while pending:
            idx, node, is_entering = pending.pop()
            if not is_entering:
                exit_func(idx, node)
                continue
            enter_func(idx, node)
            pending.append((idx, node, False))
            pending += [(child, self.nodes[child], True) for child in reversed(node.children)]


class CallGraph:
    """The calls on host threads, and the device events that they launched.

    Adds ``parent, depth, height, num_kernels, kernel_dur_sum, kernel_span, first_kernel_start,
    last_kernel_end`` to the frames of the trace: the ``index`` of the parent (a negative root at
    the top), the number of ancestors, and the device events below in µs (-1: none). Operators of
    ``bwd`` threads are below the concurrent ``## backward ##`` range of the main thread, or below
    its step. HTA does so for only one such thread, this class for all of them.

    Attributes
    ----------
    mapping : DataFrame
        One row per thread: ``rank, pid, tid, label, stack_index, stack_root, count``; the label is
        ``main`` (has steps), ``bwd`` (runs ``autograd::`` functions) or a name of an event.
    call_stacks : list of CallStackGraph
        By ``stack_index``.
    rank_to_nodes, rank_to_stacks : dict
    """

    stack_columns: ClassVar = list(STACK_COLUMNS)

    def __init__(self, trace: Trace, ranks: Sequence[int] | None = None) -> None:
        self.trace_data = trace
        available = trace.get_ranks()
        self.ranks = [rank for rank in ranks if rank in available] if ranks else available
        if not self.ranks:
            raise TraceError("no such rank", remedy=f"The ranks are {available}.")
        self.call_stacks: list[CallStackGraph] = []
        self.rank_to_nodes: dict[int, Mapping[int, CallStackNode]] = {}
        self.rank_to_stacks: dict[int, dict[CallStackIdentity, CallStackGraph]] = {}
        rows = [row for rank in self.ranks for row in self._add_rank(rank)]
        self.mapping = pd.DataFrame(rows, columns=_MAPPING)
        self._rank = self.ranks[0]

    @staticmethod
    def from_dataframe(
        df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None, rank: int = -1
    ) -> CallGraph:
        """Return the call graph of a frame. Names must be text unless a symbol table is given."""
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

    def _add_rank(self, rank: int) -> list[tuple[Any, ...]]:
        """Add a rank's call stacks, and `STACK_COLUMNS` to its frame; return rows of `mapping`."""
        frame, symbols = self.trace_data.get_trace(rank), self.trace_data.symbol_table
        threads, thread_of_row = _threads_of(frame, symbols)
        call = frame["index_correlation"].where(frame["stream"] >= 0, -1).to_numpy(np.int64)
        forest = _forest_of(frame, thread_of_row, np.where(call > 0, call, -1))
        labels = [self._thread_label(frame, thread_of_row == code) for code in range(len(threads))]
        roots = _roots(threads)
        # The device has thread -1, which selects the last element, -1.
        top = np.array([*roots, -1], dtype=np.int64)[thread_of_row]
        for code in self._put_below_main(frame, thread_of_row, forest, labels):
            roots[code] = roots[labels.index("main")]
        columns = forest.columns(frame, top)
        for name in STACK_COLUMNS:
            frame[name] = columns[name]
        nodes = _Nodes(forest, columns, list(dict.fromkeys(roots)))
        self.rank_to_nodes[rank] = nodes
        stacks = self.rank_to_stacks[rank] = {}
        correlations = get_cpu_gpu_correlation(frame)
        rows = []
        for code, (pid, tid) in enumerate(threads):
            identity = CallStackIdentity(rank, pid, tid)
            events = frame[thread_of_row == code]
            stack = CallStackGraph(events, identity, correlations, frame, symbols, nodes)
            stack_index, root = len(self.call_stacks), roots[code]
            stack.root_index = root
            rows.append((*identity, labels[code], stack_index, root, roots[: code + 1].count(root)))
            stacks[identity] = stack
            self.call_stacks.append(stack)
        return rows

    def _thread_label(self, frame: pd.DataFrame, is_thread: Bools) -> str:
        """Return "main" for a thread with steps, "bwd" for autograd, or the name of an event."""
        symbols = self.trace_data.symbol_table.sym_table
        names = [symbols[code] for code in frame.loc[is_thread, "name"].unique().tolist()]
        if any(name.startswith("ProfilerStep#") for name in names):
            return "main"
        if any("autograd::" in name for name in names):
            return "bwd"
        return names[0] if names else "empty"

    def _put_below_main(
        self, frame: pd.DataFrame, thread_of_row: Ints, forest: _Forest, labels: list[str]
    ) -> list[int]:
        """Move backward threads below the main thread. Return those whose events all moved."""
        if labels.count("main") != 1:
            return []
        ranges = self._backward_ranges(frame, thread_of_row == labels.index("main"))
        start = frame["ts"].to_numpy()
        end = start + frame["dur"].to_numpy()
        moved = []
        for code in np.flatnonzero(np.array(labels) == "bwd").tolist():
            outermost = np.flatnonzero((thread_of_row == code) & (forest.parent < 0))
            for range_row in ranges.tolist():
                is_inside = start[outermost] >= start[range_row]
                is_inside &= end[outermost] <= end[range_row]
                forest.parent[outermost[is_inside]] = range_row
            if (forest.parent[outermost] >= 0).all():
                moved.append(code)
        return moved

    def _backward_ranges(self, frame: pd.DataFrame, is_thread: Bools) -> Rows:
        """Return the backward ranges of a thread; if it has none, its steps."""
        numbers = self.trace_data.symbol_table.sym_index
        for prefix in _BACKWARD:
            wanted = [number for name, number in numbers.items() if name.startswith(prefix)]
            rows = np.flatnonzero(is_thread & frame["name"].isin(wanted).to_numpy())
            if len(rows):
                return rows
        return np.empty(0, dtype=np.intp)

    def get_call_stacks(
        self,
        rank: int | None = None,
        pid: object = None,
        tid: object = None,
        stack_index: int | None = None,
    ) -> Iterator[CallStackGraph]:
        """Yield the call stacks of a rank, process or thread. The default is all call stacks."""
        wanted = {"rank": rank, "pid": pid, "tid": tid, "stack_index": stack_index}
        for row in self.mapping.to_dict("records"):
            if all(value is None or row[key] == value for key, value in wanted.items()):
                yield self.call_stacks[row["stack_index"]]

    def get_node_attributes(self, index: int, rank: int | None = None) -> pd.Series[Any]:
        """Return the row of an event. The default rank is that of the previous call."""
        frame = self._frame(rank)
        if index not in frame.index:
            raise TraceError(f"no event {index} on rank {self._rank}")
        return cast("pd.Series[Any]", frame.loc[index])

    def get_csg_of_node(self, index: int, rank: int | None = None) -> CallStackGraph:
        """Return the call stack of an event's thread, or of the thread that launched it."""
        node = self.get_node_attributes(index, rank)
        if node["stream"] >= 0:
            if node["parent"] < 0:
                raise TraceError(f"device event {index} has no launch in the frame")
            node = self.get_node_attributes(int(node["parent"]), rank)
        stack = next(self.get_call_stacks(self._rank, node["pid"], node["tid"]), None)
        if stack is None:
            raise TraceError(f"event {index} is not on a host thread")
        return stack

    def get_stack_of_node(
        self, index: int, rank: int | None = None, skip_ancestors: bool = False
    ) -> pd.DataFrame:
        """Return an event with its descendants and, unless skipped, ancestors, sorted by time."""
        stack = self.get_csg_of_node(index, rank)
        events = stack.get_descendants(index)
        if not skip_ancestors:
            events += stack.get_path_to_root(index)[1:]
        chosen = [event for event in dict.fromkeys(events) if event >= 0]
        return stack.full_df.loc[chosen].sort_values("ts", kind="stable")

    def get_gpu_kernels(self, rank: int | None = None) -> pd.DataFrame:
        """Return the device events. The default rank is that of the previous call."""
        frame = self._frame(rank)
        return frame[frame["stream"] >= 0]

    def _frame(self, rank: int | None) -> pd.DataFrame:
        if rank is not None and rank in self.ranks:
            self._rank = rank
        return self.trace_data.get_trace(self._rank)


def _roots(threads: list[tuple[Any, Any]]) -> list[int]:
    """Return a distinct negative number for each thread: its negated tid where possible."""
    roots: list[int] = []
    for _, tid in threads:
        root = -abs(int(tid)) if isinstance(tid, (int, np.integer)) else -3
        while root in roots or root > -3:  # -1 and -2 mean missing nodes
            root = min(root, -2) - 1
        roots.append(root)
    return roots
