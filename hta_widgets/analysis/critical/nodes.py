"""The nodes of the graph: the start and the end of each host call and of each piece of device work.

Nodes are numbered in an order in which time never goes back and every dependency goes forward, so
the number of a node is its place in a topological order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.trace import Trace

from hta_widgets.analysis.critical.rules import Rules
from hta_widgets.analysis.critical.rules import named
from hta_widgets.analysis.critical.rules import patterns_of
from hta_widgets.analysis.critical.window import Stretch

__all__ = ["Nodes", "busy_rows", "find_nodes"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_CALLS = re.compile(r"cpu_op|operator|(.+_)?(runtime|driver)", re.IGNORECASE)
_CALLS_IN_HTA = re.compile(r"cpu_op|cuda_runtime|cuda_driver")
_BUSY = [KINDS.index(kind) for kind in ("compute", "communication", "memory")]
_NO_WORK = [KINDS.index(kind) for kind in ("sync", "annotation")]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Instants in order.

    Attributes
    ----------
    trace : Trace
    host, device : arrays of int
        Ids of the events that have nodes, ascending.
    row : array of int
        Id of the event of each node.
    time_ns : array of int64
        On the clock of the rank's table; never descends.
    is_start, on_host : arrays of bool
    """

    trace: Trace
    host: Rows
    device: Rows
    row: Rows
    time_ns: Ints
    is_start: Mask
    on_host: Mask

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def of_start(self) -> Ints:
        """The node at which each event of the rank starts, -1 where it has none."""
        return self._lookup(self.is_start)

    @cached_property
    def of_end(self) -> Ints:
        """The node at which each event of the rank ends, -1 where it has none."""
        return self._lookup(~self.is_start)

    def _lookup(self, wanted: Mask) -> Ints:
        found = np.full(len(self.trace) + 1, -1, dtype=np.int64)
        nodes = np.flatnonzero(wanted)
        found[self.row[nodes]] = nodes
        return found


def busy_rows(trace: Trace) -> Rows:
    """Return the device work of a rank: computing, communicating and copying."""
    table = trace.table
    return np.flatnonzero((table.stream >= 0) & np.isin(table.kind, _BUSY))


def find_nodes(trace: Trace, stretch: Stretch, rules: Rules) -> Nodes:
    """Return the nodes of what starts on the host within the stretch, and of what it launched."""
    table = trace.table
    inside = stretch.holds(table.start_ns)
    device = _device_rows(trace, inside, rules)
    host = _host_rows(trace, inside, rules)
    if not rules.as_hta:
        calls = trace.launch_of[device]
        host = np.setdiff1d(np.union1d(host, calls[calls >= 0]), stretch.rows)
    return _ordered(trace, host.astype(np.intp), device, stretch)


def _host_rows(trace: Trace, inside: Mask, rules: Rules) -> Rows:
    table = trace.table
    pattern = _CALLS_IN_HTA if rules.as_hta else _CALLS
    codes = [k for k, name in enumerate(table.categories.values) if pattern.fullmatch(name)]
    is_call = np.zeros(len(table.categories), dtype=bool)
    is_call[codes] = True
    member = (table.stream < 0) & inside
    if rules.as_hta:
        # HTA drops what has no duration, as it confuses its stacks.
        member &= table.dur_ns > 0
    rows = np.flatnonzero(member & is_call[table.category])
    if not len(rows) and not rules.as_hta:
        # Other tools' formats: whatever ran on the host, ranges last.
        for kinds in (("cpu",), ("other",), ("annotation",)):
            wanted = np.isin(table.kind, [KINDS.index(kind) for kind in kinds])
            rows = np.flatnonzero(member & wanted)
            if len(rows):
                return rows
    if rules.data_loading:
        others = np.flatnonzero(member & ~is_call[table.category])
        rows = np.union1d(rows, others[named(trace, others, patterns_of(rules.data_loading))])
    return rows


def _device_rows(trace: Trace, inside: Mask, rules: Rules) -> Rows:
    table = trace.table
    member = table.stream >= 0
    member &= ~np.isin(table.kind, _NO_WORK) if rules.as_hta else np.isin(table.kind, _BUSY)
    rows = np.flatnonzero(member)
    call = trace.launch_of[rows]
    launched = call >= 0
    if rules.as_hta:
        return rows[launched & inside[call] & (table.dur_ns[call] > 0)]
    return rows[np.where(launched, inside[call], inside[rows])]


def _ordered(trace: Trace, host: Rows, device: Rows, stretch: Stretch) -> Nodes:
    """Number the nodes.

    At one instant what ends comes before what starts, what the device ends before what the host
    does, the host's launch before the kernel; events without duration start and end among what
    starts. Rows are ordered by start, longest first, so of what ends together the later row is
    the inner one.
    """
    table = trace.table
    rows = np.concatenate((host, device))
    on_host = np.arange(len(rows)) < len(host)
    instant = table.dur_ns[rows] == 0
    started = np.where(on_host, 2, 3)
    ended = np.where(instant, started, np.where(on_host, 1, 0))
    last = np.where(instant, 2 * rows + 1, np.where(on_host, -rows, 2 * rows + 1))
    end = table.start_ns[rows] + table.dur_ns[rows]
    end[: len(host)] = stretch.cut(end[: len(host)])
    time = np.concatenate((table.start_ns[rows], end))
    order = np.lexsort((np.concatenate((2 * rows, last)), np.concatenate((started, ended)), time))
    return Nodes(
        trace,
        host,
        device,
        np.concatenate((rows, rows))[order],
        time[order],
        order < len(rows),
        np.concatenate((on_host, on_host))[order],
    )
