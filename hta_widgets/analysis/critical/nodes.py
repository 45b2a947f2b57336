"""The dependency graph: terms, nodes, and edge lists.

Nodes are starts and ends of events, in topological order: each edge leads to a later node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.scope import codes_of, device_work_rows
from hta_widgets.arguments import match_pattern
from hta_widgets.errors import TraceError
from hta_widgets.trace.arrays import Array, Bools, Codes, Ints, Rows, distinct_codes
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.memo import memo
from hta_widgets.trace.trace import Trace

#: Types of edges, in the order of their codes; ``lead`` is time before or after the path.
EDGE_TYPES: Final[tuple[str, ...]] = (
    "operator", "dependency", "kernel_launch_delay", "kernel_kernel_delay", "sync_dependency",
    "lead",
)  # fmt: skip
OPERATOR, DEPENDENCY, LAUNCH, KERNEL_KERNEL, SYNC, LEAD = range(len(EDGE_TYPES))

#: Causes of time on the path: HTA's terms, then causes that HTA lacks.
BOUNDS: Final[tuple[str, ...]] = (
    "cpu_bound", "data_loading", "gpu_compute_bound", "gpu_communication_bound", "gpu_memory_bound",
    "gpu_kernel_kernel_overhead", "gpu_kernel_launch_overhead", "cpu_outside_operators",
    "cpu_blocked", "gpu_queue_wait", "sync_overhead", "unknown_wait", "outside_path",
)  # fmt: skip

#: Name of PyTorch's step ranges.
PROFILER_STEP: Final = "ProfilerStep"
#: Common parts of step names, and how names begin: PyTorch, SGLang, vLLM and ATOM.
_STEPS: Final = {
    PROFILER_STEP: (PROFILER_STEP,), "step[": ("step[",), "execute_": ("execute_",),
    "[bs=": ("prefill[bs=", "decode[bs="),
}  # fmt: skip

#: Default name patterns of events that load data, for PyTorch's own ranges.
DATA_LOADING: Final[tuple[str, ...]] = (r"DataLoader",)

#: Names of calls that may wait for their own copy.
COPYING: Final = re.compile(r"(cuda|hip|cu|mu|acl|aclrt)\w*Mem(cpy|set)\w*", re.IGNORECASE)
#: Calls that HTA treats as blocking.
BLOCKING_IN_HTA: Final = {
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize",
    "cudaMemcpy", "cudaMemcpyAsync",
}  # fmt: skip

#: Longest time that a device needs between two kernels, and between a launch and its kernel. Longer
#: times are waits for something that is not in the file.
KERNEL_GAP_NS: Final = 30_000
LAUNCH_GAP_NS: Final = 1_000_000
NO_LIMIT: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class GraphRules:
    """Options for building the dependency graph."""

    as_hta: bool = False
    data_loading: tuple[str, ...] = DATA_LOADING


EXACT_RULES: Final = GraphRules()
HTA_RULES: Final = GraphRules(as_hta=True, data_loading=())


def pattern_mask(trace: Trace, rows: Rows, patterns: Sequence[str]) -> Bools:
    """Return whether the name of each event contains a match of a regular expression."""
    if not patterns:
        return np.zeros(len(rows), dtype=bool)
    used, name_of_row = distinct_codes(trace.table.name[rows])
    names = [trace.table.names[code] for code in used.tolist()]
    return match_pattern("|".join(f"(?:{text})" for text in patterns), names)[name_of_row]


Tracks = npt.NDArray[np.int32] | Ints

_CALLS = re.compile(r"cpu_op|operator|(.+_)?(runtime|driver)", re.IGNORECASE)
_CALLS_IN_HTA = re.compile(r"cpu_op|cuda_runtime|cuda_driver|mtia_runtime")
_NO_WORK = codes_of(("sync", "annotation"))


@dataclass(frozen=True)
class AnalysisRange:
    """A time range whose host events are analyzed together with the device work they launched."""

    start_ns: int | None
    end_ns: int | None
    rows: Rows  # events that delimit the range; none for the whole rank
    is_closed: bool = False  # whether events that start exactly at the end are analyzed

    def contains(self, time: Ints) -> Bools:
        """Return whether each instant is in the range."""
        inside = np.ones(len(time), dtype=bool)
        if self.start_ns is not None:
            inside &= time >= self.start_ns
        if self.end_ns is not None:
            inside &= time <= self.end_ns if self.is_closed else time < self.end_ns
        return inside


def analysis_range(
    trace: Trace, annotation: str, instance: int | tuple[int, int] | None, *, closed: bool = False
) -> AnalysisRange | None:
    """Return the time range of an annotation's instances; None if the rank has none of them."""
    first, last = instance_numbers(instance)
    if annotation == "":
        return AnalysisRange(None, None, np.empty(0, dtype=np.intp), closed)
    table, rows = trace.table, find_ranges(trace, annotation)
    if not len(rows):
        return None
    if last >= len(rows):
        names = [table.names[code] for code in table.name[rows[:5]].tolist()]
        raise TraceError(
            f"rank {trace.rank} has no instance {last} of {annotation!r}",
            path=trace.path,
            remedy=f"It has {len(rows)}, numbered from 0"
            f" ({', '.join(names)}{', …' if len(rows) > 5 else ''}).",
        )
    chosen = rows[first : last + 1]
    start, end = int(table.start_ns[chosen].min()), int(table.end_ns[chosen].max())
    return AnalysisRange(start, end, chosen, closed)


def find_ranges(trace: Trace, annotation: str) -> Rows:
    """Return the host events whose names contain `annotation`."""
    host = np.flatnonzero(trace.table.stream < 0)
    return host[names_match(trace, host, lambda name: annotation in name)]


def resolve_annotation(traces: Sequence[Trace], annotation: str) -> str:
    """Return the annotation to analyze; without ``ProfilerStep``, an engine's steps or ``""``."""
    if annotation != PROFILER_STEP:
        return annotation
    for part, starts in _STEPS.items():
        for table in (trace.table for trace in traces):
            codes = [k for k, name in enumerate(table.names.values) if name.startswith(starts)]
            if codes and (np.isin(table.name, codes) & (table.stream < 0)).any():
                return part
    return ""


def without_steps_note(requested: str, annotation: str) -> str:
    """Return a clause about what replaces the requested annotation; "" if nothing does."""
    if requested == annotation:
        return ""
    steps = f"the steps have {annotation!r} in their names" if annotation else ""
    return f"no event has {requested!r} in its name: {steps or 'all events are analyzed'}"


def instance_numbers(instance: int | tuple[int, int] | None) -> tuple[int, int]:
    """Return the first and last instance. Default: 0."""
    if instance is None:
        return 0, 0
    if isinstance(instance, (int, np.integer)) and not isinstance(instance, bool):
        pair = (int(instance), int(instance))
    elif isinstance(instance, (tuple, list)) and len(instance) == 2:
        pair = (int(instance[0]), int(instance[1]))
    else:
        pair = (-1, -1)
    if not 0 <= pair[0] <= pair[1]:
        raise TraceError(
            f"{instance!r} is not an instance, or a pair of instances, of a range",
            remedy="Give a number, counted from 0, or the first and the last as a pair.",
        )
    return pair


@dataclass(frozen=True, eq=False)
class Nodes:
    """Starts and ends of events, in topological order."""

    trace: Trace
    host: Rows  # the host events
    device: Rows  # the device work
    row: Rows  # each node's event
    time_ns: Ints
    is_start: Bools  # if not, the node is an end
    on_host: Bools

    def __len__(self) -> int:
        return len(self.row)

    @cached_property
    def of_start(self) -> Ints:
        """Each event's start node; -1 if it has none."""
        return self._lookup(self.is_start)

    @cached_property
    def of_end(self) -> Ints:
        """Each event's end node; -1 if it has none."""
        return self._lookup(~self.is_start)

    def _lookup(self, is_counted: Bools) -> Ints:
        node_of_row = np.full(len(self.trace) + 1, -1, dtype=np.int64)
        nodes = np.flatnonzero(is_counted)
        node_of_row[self.row[nodes]] = nodes
        return node_of_row


def find_nodes(trace: Trace, within: AnalysisRange, rules: GraphRules) -> Nodes:
    """Return nodes for the host events that start in the range and the work they launched.

    Unless the rules are HTA's, work that was launched before the range and is unfinished at its
    start is included, because the range's own work queues behind it.
    """
    inside = within.contains(trace.table.start_ns)
    device = _device_rows(trace, inside, rules)
    host = _host_rows(trace, inside, rules)
    if not rules.as_hta:
        calls = trace.launch_of[device]
        host = _union_rows(trace, host, calls[calls >= 0], without=within.rows)
        device = _union_rows(trace, device, _unfinished_work(trace, within, device))
    return _topological_nodes(trace, host.astype(np.intp), device, within)


def _union_rows(trace: Trace, *parts: Rows, without: Rows | Sequence[int] = ()) -> Rows:
    member = np.zeros(len(trace), dtype=bool)
    for rows in parts:
        member[rows] = True
    member[np.asarray(without, dtype=np.intp)] = False
    return np.flatnonzero(member)


def _unfinished_work(trace: Trace, within: AnalysisRange, device: Rows) -> Rows:
    """Return work unfinished at the range's start that was launched before or has no call.

    Work that ends later than all of the range's `device` work is excluded.
    """
    if within.start_ns is None or within.end_ns is None:
        return np.empty(0, dtype=np.intp)
    table, rows = trace.table, device_work_rows(trace)
    last_ns = int(table.end_ns[device].max(initial=within.end_ns))
    call, end_ns = trace.launch_of[rows], table.end_ns[rows]
    is_earlier = (call < 0) | (table.start_ns[call] < within.start_ns)
    return rows[is_earlier & (end_ns > within.start_ns) & (end_ns <= last_ns)]


def _host_rows(trace: Trace, inside: Bools, rules: GraphRules) -> Rows:
    """Return the operators, calls and data-loading events that start in the range."""
    table = trace.table
    pattern = _CALLS_IN_HTA if rules.as_hta else _CALLS
    codes = [k for k, name in enumerate(table.categories.values) if pattern.fullmatch(name)]
    is_call = np.isin(table.category, codes)
    is_candidate = (table.stream < 0) & inside
    if rules.as_hta:
        # HTA drops events without duration, which its call stacks cannot contain.
        is_candidate &= table.dur_ns > 0
    rows = np.flatnonzero(is_candidate & is_call)
    if not len(rows) and not rules.as_hta:
        # Other tools' formats lack these categories; the first of these kinds that occurs is used.
        for kinds in (("cpu",), ("other",), ("annotation", "communication")):
            rows = np.flatnonzero(is_candidate & np.isin(table.kind, codes_of(kinds)))
            if len(rows):
                return rows
    if rules.data_loading:
        others = np.flatnonzero(is_candidate & ~is_call)
        loading = others[pattern_mask(trace, others, rules.data_loading)]
        rows = _union_rows(trace, rows, loading)
    return rows


def _device_rows(trace: Trace, inside: Bools, rules: GraphRules) -> Rows:
    """Return the work launched in the range, or starting in it if its call is unknown."""
    table = trace.table
    if rules.as_hta:
        rows = np.flatnonzero((table.stream >= 0) & ~np.isin(table.kind, _NO_WORK))
        call = trace.launch_of[rows]
        return rows[(call >= 0) & inside[call] & (table.dur_ns[call] > 0)]
    rows = device_work_rows(trace)
    call = trace.launch_of[rows]
    return rows[np.where(call >= 0, inside[call], inside[rows])]


def _topological_nodes(trace: Trace, host: Rows, device: Rows, within: AnalysisRange) -> Nodes:
    """Return the nodes in topological order.

    Nodes at the same instant are in this order: ends on the device, ends on the host, starts on the
    host, starts on the device. Both nodes of an event without duration count as starts.
    """
    table = trace.table
    rows = np.concatenate((host, device))
    on_host = np.arange(len(rows)) < len(host)
    is_instant = table.dur_ns[rows] == 0
    class_of_start = np.where(on_host, 2, 3)
    class_of_end = np.select([is_instant, on_host], [class_of_start, 1], 0)
    # Rows are sorted by start, longest first. Of host events that end together, the later row is
    # the inner one and ends first. An event without duration ends before later rows start.
    order_of_end = np.where(on_host & ~is_instant, -rows, 2 * rows + 1)
    end = table.start_ns[rows] + table.dur_ns[rows]
    if within.end_ns is not None and not within.is_closed:
        end[: len(host)] = np.minimum(end[: len(host)], within.end_ns)
    start = table.start_ns[rows]
    if within.start_ns is not None:
        start = np.maximum(start, within.start_ns)
    time = np.concatenate((start, end))
    class_ = np.concatenate((class_of_start, class_of_end))
    order = np.lexsort((np.concatenate((2 * rows, order_of_end)), class_, time))
    return Nodes(
        trace, host, device, np.concatenate((rows, rows))[order], time[order], order < len(rows),
        np.concatenate((on_host, on_host))[order],
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Edges:
    """Dependencies between nodes, sorted by target; each `source` precedes its `target`."""

    source: Ints
    target: Ints
    weight_ns: Ints
    type: Codes  # into `EDGE_TYPES`
    event: Ints  # event to which the time belongs; -1 if there is none

    def __len__(self) -> int:
        return len(self.source)


@dataclass(eq=False)
class EdgeList:
    """Edges collected before sorting. Edges back in time are only counted."""

    nodes: Nodes
    backward: int = 0  # number of edges back in time
    _parts: list[tuple[Ints, Ints, Ints, Codes, Ints]] = field(default_factory=list)

    def add(
        self,
        source: Ints,
        target: Ints,
        type: Codes | int,
        event: Ints | int = -1,
        *,
        counts: Bools | bool,
        limit_ns: Ints | int = NO_LIMIT,
    ) -> int:
        """Add edges between nodes, where -1 is not analyzed; return the number added.

        Edges in `counts` weigh the time between their nodes, at most `limit_ns`; others weigh 0.
        """
        is_analysed = (source >= 0) & (target >= 0)
        is_forward = is_analysed & (source < target)
        self.backward += int((is_analysed & ~is_forward).sum())
        forward = np.flatnonzero(is_forward)

        def of_forward(values: Any, dtype: Any) -> Array:
            return np.broadcast_to(np.asarray(values, dtype), is_forward.shape)[forward]

        source, target = source[forward], target[forward]
        time_ns = self.nodes.time_ns[target] - self.nodes.time_ns[source]
        limited_ns = np.minimum(time_ns, of_forward(limit_ns, np.int64))
        weight = np.where(of_forward(counts, bool), limited_ns, 0)
        types, events = of_forward(type, np.uint8), of_forward(event, np.int64)
        self._parts.append((source, target, weight, types, events))
        return len(forward)

    def build(self) -> Edges:
        """Return all edges sorted by target; for the same target, by source, latest first."""
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        source, target, *_ = columns
        order = np.lexsort((-source, target))
        return Edges(*(column[order] for column in columns))


class DeviceWorkIndex:
    """Device work, searchable by stream and a time such as the end."""

    def __init__(self, trace: Trace, rows: Rows, time: Ints) -> None:
        table = trace.table
        #: Exceeds all times, so that track and time fit into one number.
        self._width = int(time.max(initial=0)) + 2
        key = table.track[rows].astype(np.int64) * self._width + time
        order = np.argsort(key, kind="stable")
        self._key, self._row = key[order], rows[order]
        self._track = table.track[self._row]

    @classmethod
    def by_end(cls, trace: Trace) -> DeviceWorkIndex:
        """Return an index of all work on the rank's devices by end, cached with the trace."""
        rows = device_work_rows(trace)
        return memo(
            trace, "ends of device work", lambda: cls(trace, rows, trace.table.end_ns[rows])
        )

    def last_until(self, track: Tracks, time: Ints, below: Rows | None = None) -> Ints:
        """Return the last row on `track` at or before `time`, below row `below`, or -1."""
        position = self._position(track, time, "right") - 1
        while below is not None and len(self._row):
            # Events of 0 ns end when they start, so later rows may also end by `time`.
            is_later = (position >= 0) & (self._row[position] >= below)
            is_later &= self._track[position] == track
            if not is_later.any():
                break
            position[is_later] -= 1
        return self._row_at(position, track)

    def last_before(self, track: Tracks, time: Ints) -> Ints:
        """Return the last row on `track` before `time`, or -1."""
        return self._row_at(self._position(track, time, "left") - 1, track)

    def first_from(self, track: Tracks, time: Ints) -> Ints:
        """Return the first row on `track` at or after `time`, or -1."""
        return self._row_at(self._position(track, time, "left"), track)

    def _position(self, track: Tracks, time: Ints, side: Literal["left", "right"]) -> Ints:
        key = track.astype(np.int64) * self._width + np.clip(time, -1, self._width - 1)
        return np.searchsorted(self._key, key, side=side)

    def _row_at(self, position: Ints, track: Tracks) -> Ints:
        rows = np.full(len(position), -1, dtype=np.int64)
        inside = np.flatnonzero((position >= 0) & (position < len(self._row)))
        inside = inside[self._track[position[inside]] == track[inside]]
        rows[inside] = self._row[position[inside]]
        return rows
