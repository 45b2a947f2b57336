"""The calls that captured the nodes of CUDA graphs, by the kernels that replays run.

A graph is captured once, instantiated, and launched often. Its kernels state the node of the
instance, which is a clone of the captured node; the row of that has the time of the captured call::

    KERNEL                  graphNodeId 9000000007, gemm
    CUDA_GRAPH_NODE_EVENTS  9000000007, original 7
                            7, start 1250 on thread 4050    during its cudaLaunchKernel

Captured calls launch nothing themselves. They get the args that PyTorch's have, ``kernel`` and
``graph node id``, so that a replay is attributed to the operators of its capture.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from hta_widgets.formats.event_rows import distinct_rows
from hta_widgets.formats.nsight.tables import ID_BITS, Columns, processes_of
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.arrays import first_positions
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
    node = kernels["graph_node"]
    at = first_positions(nodes["graphNodeId"], node)
    for _ in range(_MAX_CLONES):
        original = first_positions(nodes["graphNodeId"], nodes["originalGraphNodeId"][at])
        at = np.where((at >= 0) & (original >= 0), original, at)
    rows_of_thread = defaultdict(list)
    is_node = (node >= 0) & (at >= 0)
    is_node &= processes_of(nodes["globalTid"])[at] == kernels["process"]
    for place, name in distinct_rows(at[is_node], kernels["name"][is_node])[0]:
        rows_of_thread[int(nodes["globalTid"][place])].append((place, name))
    args = {}
    global_tid = (calls["process"] << ID_BITS) | calls["thread"]
    for thread, captured in rows_of_thread.items():
        of_thread = np.flatnonzero(global_tid == thread)
        of_thread = of_thread[np.argsort(calls["start_ns"][of_thread], kind="stable")]
        places = np.array([place for place, _ in captured])
        start_ns = nodes["start"][places]
        before = np.searchsorted(calls["start_ns"][of_thread], start_ns, side="right") - 1
        for (place, name), start, position in zip(
            captured, start_ns.tolist(), before.tolist(), strict=True
        ):
            row = int(of_thread[position]) if position >= 0 else -1
            if row >= 0 and calls["end_ns"][row] >= start:
                node_id = int(nodes["graphNodeId"][place])
                args[row] = {"kernel": names[name], "graph node id": node_id}
    return args
