"""The calls that captured the nodes of CUDA graphs, by the kernels that replays run.

A graph is captured once, instantiated, and launched often. Its kernels state the node of the
instance, which is a clone of the captured node. The row of the captured node has the time of its
call::

    KERNEL                  graphNodeId 9000000007, gemm
    CUDA_GRAPH_NODE_EVENTS  9000000007, original 7
                            7, start 1250 on thread 4050    during its cudaLaunchKernel

Captured calls launch nothing themselves. They get the args ``kernel`` and ``graph node id``, as
calls in PyTorch's traces have, so that a replay is attributed to the operators of its capture.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from hta_widgets.formats.event_rows import distinct_rows
from hta_widgets.formats.nsight.tables import ID_BITS, Columns, processes_of
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.arrays import Ints, first_positions
from hta_widgets.trace.columns import StringPool

_TABLE = "CUDA_GRAPH_NODE_EVENTS"
#: Clones of clones that are followed to the captured node.
_MAX_CLONES = 16


def captured_calls(
    database: Database, kernels: Columns, calls: Columns, names: StringPool
) -> dict[int, dict[str, Any]]:
    """Return args of the calls that captured the nodes of kernels, by row of `calls`."""
    nodes = database.integers(
        _TABLE, ("start", "globalTid", "graphNodeId"), optional=("originalGraphNodeId",)
    )
    if not len(nodes["start"]):
        return {}
    row_of_kernel = _captured_rows(nodes, kernels["graph_node"])
    is_captured = row_of_kernel >= 0
    is_captured &= processes_of(nodes["globalTid"])[row_of_kernel] == kernels["process"]
    kernels_of_thread = defaultdict(list)
    pairs, _ = distinct_rows(row_of_kernel[is_captured], kernels["name"][is_captured])
    for node_row, name in pairs:
        kernels_of_thread[int(nodes["globalTid"][node_row])].append((node_row, name))
    args = {}
    global_tid = (calls["process"] << ID_BITS) | calls["thread"]
    for thread, captured in kernels_of_thread.items():
        thread_calls = np.flatnonzero(global_tid == thread)
        thread_calls = thread_calls[np.argsort(calls["start_ns"][thread_calls], kind="stable")]
        captured_ns = nodes["start"][[node_row for node_row, _ in captured]]
        starts_ns = calls["start_ns"][thread_calls]
        last_begun = np.searchsorted(starts_ns, captured_ns, side="right") - 1
        for (node_row, name), time_ns, position in zip(
            captured, captured_ns.tolist(), last_begun.tolist(), strict=True
        ):
            call = int(thread_calls[position]) if position >= 0 else -1
            if call >= 0 and calls["end_ns"][call] >= time_ns:
                node = int(nodes["graphNodeId"][node_row])
                args[call] = {"kernel": names[name], "graph node id": node}
    return args


def _captured_rows(nodes: Columns, node_ids: Ints) -> Ints:
    """Return the row of the captured node of each node of an instance; -1 for none."""
    rows = first_positions(nodes["graphNodeId"], node_ids)
    rows[node_ids < 0] = -1
    for _ in range(_MAX_CLONES):
        originals = first_positions(nodes["graphNodeId"], nodes["originalGraphNodeId"][rows])
        rows = np.where((rows >= 0) & (originals >= 0), originals, rows)
    return rows
