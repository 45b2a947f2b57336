"""Edges on the device: what each kernel had to wait for before it could start."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.critical.edges import EdgeList
from hta_widgets.analysis.critical.ends import Ends
from hta_widgets.analysis.critical.launch_queue import found_empty
from hta_widgets.analysis.critical.nodes import Nodes
from hta_widgets.analysis.critical.rules import KERNEL_KERNEL
from hta_widgets.analysis.critical.rules import LAUNCH
from hta_widgets.analysis.critical.rules import OPERATOR
from hta_widgets.analysis.critical.rules import SYNC
from hta_widgets.analysis.critical.rules import Rules

__all__ = ["add_device_work"]

Ints = npt.NDArray[np.int64]

#: Stands for "never" among ends.
_NEVER = np.iinfo(np.int64).min


def add_device_work(
    edges: EdgeList, nodes: Nodes, kernel_waits: tuple[Ints, Ints], rules: Rules
) -> int:
    """Join device work to its launches, to what runs before it, and to what it waits for.

    A kernel can start when it is launched, when the one before it on its stream has ended, and
    when what its stream waits for has ended. The last of these bound it, so the time from there
    on counts: from the start of the launching call, or from the end of the kernel before.

    Parameters
    ----------
    kernel_waits : (awaited, waiting)
        Ids of device events.

    Returns
    -------
    int
        How many launches of analysed calls there are.
    """
    table, rows = nodes.trace.table, nodes.device
    edges.add(nodes.of_start[rows], nodes.of_end[rows], OPERATOR, rows, counts=True)
    end = table.start_ns + table.dur_ns
    previous = _previous(nodes, rules)
    previous_end = np.where(previous >= 0, end[previous], _NEVER)

    awaited, waiting = kernel_waits
    known = nodes.of_end[awaited] >= 0
    awaited, waiting = awaited[known], waiting[known]
    edges.add(nodes.of_end[awaited], nodes.of_start[waiting], SYNC, waiting, counts=False)
    latest = np.full(len(nodes.trace), _NEVER, dtype=np.int64)
    np.maximum.at(latest, waiting, end[awaited])
    awaited_end = latest[rows]

    call = nodes.trace.launch_of[rows]
    called = np.where(call >= 0, table.start_ns[call], _NEVER)
    if not rules.as_hta:
        # A call that returned before the kernel started may have taken until then to launch it.
        returned = np.where(call >= 0, end[call], _NEVER)
        called = np.where(returned <= table.start_ns[rows], returned, called)
    by_launch = (call >= 0) & (previous_end < called) & (awaited_end < called)
    if rules.as_hta:
        by_launch &= found_empty(nodes.trace, rows)
    by_previous = ~by_launch & (previous >= 0) & (awaited_end < previous_end)
    launches = call >= 0 if not rules.as_hta else by_launch
    launched = edges.add(
        nodes.of_start[call[launches]],
        nodes.of_start[rows[launches]],
        LAUNCH,
        rows[launches],
        counts=by_launch[launches],
    )
    edges.add(
        nodes.of_end[previous[by_previous]],
        nodes.of_start[rows[by_previous]],
        KERNEL_KERNEL,
        previous[by_previous],
        counts=True,
    )
    return launched


def _previous(nodes: Nodes, rules: Rules) -> Ints:
    """Return for each piece of device work the one before it on its stream, -1 for none."""
    table, rows = nodes.trace.table, nodes.device
    if not rules.as_hta:
        # Also what is not analysed may keep a stream busy.
        return Ends.of_work(nodes.trace).before(table.track[rows], table.start_ns[rows], rows)
    order = np.argsort(table.track[rows], kind="stable")
    sorted_rows = rows[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = table.track[sorted_rows[1:]] != table.track[sorted_rows[:-1]]
    before = np.concatenate(([-1], sorted_rows[:-1]))
    previous = np.empty(len(rows), dtype=np.int64)
    previous[order] = np.where(first, -1, before[: len(rows)])
    return previous
