"""One thread's calls as a tree, with the device events that they launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.compat.common.stack_columns import (
    STACK_COLUMNS,
    Forest,
    Threads,
    forest_of_frame,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.common.types import DeviceType, infer_device_type
from hta_widgets.compat.configs.config import logger
from hta_widgets.errors import TraceError

__all__ = ["CallStackGraph", "CallStackIdentity", "CallStackNode", "Nodes"]

NON_EXISTENT_NODE_INDEX = -2
NULL_NODE_INDEX = -1

Ints = npt.NDArray[np.int64]


class CallStackIdentity(NamedTuple):
    """Whose calls."""

    rank: int = -1
    pid: Any = -1
    tid: Any = -1


@dataclass
class CallStackNode:
    """An event, or a thread's root, whose depth is -1.

    Attributes
    ----------
    parent : int
        ``index`` of the enclosing or launching event; a thread's root has a negative one, and
        its own parent is -1.
    depth : int
        How many events are above.
    height : int
        0 of device events; of others 1, or one more than the highest below.
    device : DeviceType
    children : list of int
    """

    parent: int = NULL_NODE_INDEX
    depth: int = -1
    height: int = -1
    device: DeviceType = DeviceType.CPU
    children: list[int] = field(default_factory=list)


class Nodes(Mapping[int, CallStackNode]):
    """The nodes of a rank by ``index``, each made when it is asked for."""

    def __init__(
        self, frame: pd.DataFrame, forest: Forest, columns: Mapping[str, Any], roots: list[int]
    ) -> None:
        self._index: Ints = frame["index"].to_numpy(dtype=np.int64)
        self._forest = forest
        self._columns = columns
        self._below, self._first = forest.children()
        self._row = {
            index: row for row, index in enumerate(self._index.tolist()) if forest.member[row]
        }
        parents = columns["parent_index"]
        self._tops = {
            root: np.flatnonzero(forest.member & (parents == root)).tolist() for root in roots
        }

    def __getitem__(self, index: int) -> CallStackNode:
        if index in self._tops:
            children = [int(self._index[row]) for row in self._tops[index]]
            heights = [int(self._columns["height"][row]) for row in self._tops[index]]
            return CallStackNode(height=1 + max(heights, default=0), children=children)
        row = self._row[index]
        rows = self._below[self._first[row] : self._first[row + 1]]
        return CallStackNode(
            int(self._columns["parent_index"][row]),
            int(self._columns["depth"][row]),
            int(self._columns["height"][row]),
            DeviceType.GPU if self._forest.device[row] else DeviceType.CPU,
            self._index[rows].tolist(),
        )

    def __iter__(self) -> Iterator[int]:
        yield from self._tops
        yield from self._row

    def __len__(self) -> int:
        return len(self._tops) + len(self._row)

    def __contains__(self, index: object) -> bool:
        return index in self._tops or index in self._row


class CallStackGraph:
    """The calls of one thread.

    Parameters
    ----------
    df : DataFrame
        The thread's events: ``index, ts, dur, stream, index_correlation``.
    identity : CallStackIdentity
    cpu_gpu_correlation : DataFrame
        Which call launched which device event: ``gpu_index, cpu_index``.
    full_df : DataFrame
        The rank's events. Where it has the columns of `CallGraph`, they are set.
    symbol_table : TraceSymbolTable, optional
        Kept as an attribute.
    nodes : mapping of int to CallStackNode, optional
        A dict, to which those of this thread are added; or those of a `CallGraph`.
    use_existing_stack_columns : bool
        Without meaning here: nodes are always those of the events.
    save_call_stack_to_df : bool, default True
        Whether the columns of `full_df` are set.

    Attributes
    ----------
    nodes : mapping of int to CallStackNode
        Of a `CallGraph` those of all threads of the rank.
    root_index : int
        Negative.
    correlations : DataFrame
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
        del use_existing_stack_columns
        self.df = df
        self.identity = identity
        self.correlations = cpu_gpu_correlation
        self.full_df = full_df
        self.symbol_table = symbol_table
        self.nodes = {} if nodes is None else nodes
        self.root_index = -abs(identity.tid) if hasattr(identity.tid, "__index__") else -1
        self.device_type = infer_device_type(df)
        if self.device_type is DeviceType.GPU:
            logger.error("%s is of a device; call stacks are of threads of the host", identity)
        elif isinstance(self.nodes, dict):
            self._add_nodes(self.nodes, save_call_stack_to_df)

    def _add_nodes(self, nodes: dict[int, CallStackNode], save: bool) -> None:
        """Add the thread's events, and what they launched, to the nodes and to `full_df`."""
        if "index_correlation" not in self.df.columns:
            raise TraceError("the frame has no column 'index_correlation'")
        host = self.df[self.df["stream"] == -1]
        pairs = self.correlations[
            self.correlations["cpu_index"].isin(host["index"])
            & ~self.correlations["gpu_index"].isin(host["index"])
        ].drop_duplicates("gpu_index")
        device = self.full_df[self.full_df["index"].isin(pairs["gpu_index"])]
        columns = ["index", "ts", "dur", "stream"]
        frame = pd.concat([host[columns], device[columns]], ignore_index=True)
        frame["index_correlation"] = -1
        code = np.where(np.arange(len(frame)) < len(host), 0, -1)
        key = self.identity.pid, self.identity.tid
        forest = forest_of_frame(frame, Threads([key], code))
        row_of = pd.Series(np.arange(len(frame)), index=frame["index"].to_numpy())
        call = pairs.set_index("gpu_index")["cpu_index"].reindex(device["index"])
        forest.parent[len(host) :] = row_of.reindex(call).to_numpy()
        forest.member[len(host) :] = True
        values = forest.columns(frame)
        index = frame["index"].to_numpy()
        up = values["parent"]
        values["parent_index"] = np.where(up >= 0, index[up], self.root_index)
        nodes.update(Nodes(frame, forest, values, [self.root_index]))
        if save and "parent" in self.full_df.columns:
            there = self.full_df["index"].isin(index)
            order = row_of.reindex(self.full_df.loc[there, "index"]).to_numpy()
            for name in STACK_COLUMNS:
                if name in self.full_df.columns:
                    saved = values["parent_index" if name == "parent" else name]
                    self.full_df.loc[there, name] = saved[order]

    def __repr__(self) -> str:
        return f"CallStackGraph({self.identity}, {len(self.df)} events)"

    def get_nodes(self) -> Mapping[int, CallStackNode]:
        """Return the nodes of all threads of the rank."""
        return self.nodes

    def get_dataframe(self) -> pd.DataFrame:
        """Return the thread's events."""
        return self.df

    def get_depth(self) -> pd.Series[Any]:
        """Return the depth of each of the thread's events."""
        if "depth" in self.full_df.columns:
            depth: pd.Series[Any] = self.full_df.loc[self.df["index"], "depth"]
            return depth
        found = {index: self.nodes[index].depth for index in self.df["index"].tolist()}
        return pd.Series(found, name="depth", dtype="Int16")

    def get_parent(self, idx: int) -> int:
        """Return the event above, a negative root, or -2 where there is no such node."""
        return self.nodes[idx].parent if idx in self.nodes else NON_EXISTENT_NODE_INDEX

    def get_children(self, idx: int) -> list[int]:
        """Return the events directly below."""
        return self.nodes[idx].children if idx in self.nodes else []

    def get_root(self, idx: int) -> int:
        """Return the root above an event; -1 where there is no such node."""
        path = self.get_path_to_root(idx)
        return path[-1] if path else NULL_NODE_INDEX

    def get_path_to_root(self, idx: int) -> list[int]:
        """Return an event and all above it, the root last."""
        path = []
        while idx in self.nodes:
            path.append(idx)
            if idx < 0:
                break
            idx = self.nodes[idx].parent
        return path

    def get_paths_to_leaves(self, idx: int, include_cuda_kernel: bool = False) -> list[list[int]]:
        """Return the paths from an event down to all that have nothing below.

        Device events are on them whether `include_cuda_kernel` is set or not, as in HTA; of a
        device event itself there are none where it is not set.
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
        """Return the events below that have nothing below; see `get_paths_to_leaves`."""
        return [path[-1] for path in self.get_paths_to_leaves(idx, include_gpu_kernel)]

    def get_descendants(self, idx: int, include_gpu_kernel: bool = False) -> list[int]:
        """Return an event and all below it, device events included."""
        del include_gpu_kernel
        found, pending = [], [idx] if idx in self.nodes else []
        while pending:
            node = pending.pop()
            found.append(node)
            pending += reversed(self.nodes[node].children)
        return found

    def dfs_traverse(
        self,
        enter_func: Callable[[int, CallStackNode], None],
        exit_func: Callable[[int, CallStackNode], None],
    ) -> None:
        """Call functions with each node, before and after all that is below it."""
        pending: list[tuple[int, CallStackNode, bool]] = []
        if self.root_index in self.nodes:
            pending.append((self.root_index, self.nodes[self.root_index], True))
        while pending:
            idx, node, entering = pending.pop()
            if not entering:
                exit_func(idx, node)
                continue
            enter_func(idx, node)
            pending.append((idx, node, False))
            pending += [(child, self.nodes[child], True) for child in reversed(node.children)]
