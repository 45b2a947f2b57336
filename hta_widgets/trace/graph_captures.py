"""Operators and modules of graph-replayed kernels, from a trace of the graph's capture.

A graph is captured once: the host runs operators, whose launches record nodes without running
kernels. Later, one call launches all kernels of the graph, and the trace of that replay has no
operators. The captured launches are those without device work; ``StreamBeginCapture`` and
``StreamEndCapture`` separate graphs. The kernels of a replay are matched with the captured
launches, with a certainty:

=============  =====================================================================================
``name``       same names in the same order
``name-order``  the same number of each name, in another order; or several equal graphs, in turn
``order``      same count, if captured calls do not name their kernels
``partial``    the capture has more calls, which launched nothing
``none``       fewer than 95 % of the kernels match, or several captures fit equally
=============  =====================================================================================

For example, a capture has launches of ``a, b, a``, and a replay runs ``a, a, b``. The first ``a``
of the replay belongs to the first ``a`` of the capture, with certainty ``name-order``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.taxonomy import is_graph_launch
from hta_widgets.trace.arrays import Ints, Rows, first_positions, mask_of_rows, positions_of_rows
from hta_widgets.trace.columns import (
    EventTable,
    FlowTable,
    JoinedRecords,
    StringPool,
    Track,
    concatenate_tables,
    event_args,
    replace_columns,
    take_rows,
    to_int64,
)
from hta_widgets.trace.host_stack import (
    CALLS,
    add_enclosing_rows,
    category_mask,
    name_mask,
    nearest_ancestor,
    nested_parents,
)
from hta_widgets.trace.intervals import Intervals, union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_COPY: Final = re.compile("Mem(cpy|set)")
_LAUNCH: Final = re.compile(rf"(?!.*Graph)(.*Launch|.*{_COPY.pattern})")
_MIN_MATCHED: Final = 0.95
#: Certainties, best first.
_CERTAINTIES: Final = ("name", "name-order", "order", "partial", "none")


@dataclass(frozen=True, eq=False)
class CapturedGraph:
    """The launches of a captured graph: rows in the capture, and names of their kernels."""

    label: str
    calls: Rows
    nodes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class GraphReplay:
    """A launch of a graph: its kernels, and the captured call of each; -1 if unknown.

    `capture` is the position of the captured graph, -1 if none matches; `graph` numbers distinct
    graphs.
    """

    launch: int
    kernels: Rows
    calls: Ints
    certainty: str
    capture: int
    graph: int


class _GraphMatch(NamedTuple):
    """The captured graph of a replay, and the position of each kernel's node; -1 if unknown."""

    capture: int
    certainty: str
    nodes: list[int]


def _node_name(name: str) -> str:
    """Return the name of a node: the name of its kernel, ``Memcpy`` or ``Memset``."""
    if "emcpy" in name or "copyBuffer" in name:
        return "Memcpy"
    return "Memset" if "emset" in name or "fillBuffer" in name else name


def _capture_calls(trace: Trace) -> tuple[Rows, Rows]:
    """Return the calls that begin and end captures; empty if their counts differ."""
    begins = np.flatnonzero(name_mask(trace, lambda name: "StreamBeginCapture" in name))
    ends = np.flatnonzero(name_mask(trace, lambda name: "StreamEndCapture" in name))
    return (begins, ends) if len(begins) == len(ends) else (begins[:0], ends[:0])


def capture_times(trace: Trace) -> Intervals:
    """Return the times at which a trace's host captured graphs, on its table's time axis."""
    begins, ends = _capture_calls(trace)
    return union(trace.table.start_ns[begins], trace.table.end_ns[ends])


@memoize
def captured_graphs(trace: Trace) -> list[CapturedGraph]:
    """Return the graphs that a trace captured, in the order of capture."""
    table = trace.table
    calls = np.flatnonzero(name_mask(trace, _LAUNCH.match) & category_mask(trace, CALLS))
    has_work = np.zeros(len(table) + 1, dtype=bool)  # the last value is for launch -1
    has_work[trace.launch_of] = True
    label_of = nearest_ancestor(
        table.parent, name_mask(trace, lambda name: name.startswith("capture_"))
    )
    graphs = []
    for rows in filter(len, _calls_by_capture(trace, calls[~has_work[calls]])):
        label_row = int(label_of[rows[0]])
        label = table.names[table.name[label_row]] if label_row >= 0 else ""
        graphs.append(CapturedGraph(label, rows, _node_names(trace, rows)))
    return graphs


def _calls_by_capture(trace: Trace, calls: Rows) -> list[Rows]:
    """Return the calls within each capture, or all calls if captures are not recorded."""
    begins, ends = _capture_calls(trace)
    if not len(begins):
        return [calls]
    start_ns = trace.table.start_ns
    number = np.searchsorted(start_ns[begins], start_ns[calls], side="right") - 1
    is_inside = (number >= 0) & (start_ns[calls] < trace.table.end_ns[ends[number]])
    return [calls[is_inside & (number == capture)] for capture in range(len(begins))]


def _node_names(trace: Trace, calls: Rows) -> tuple[str, ...]:
    """Return the names of the nodes that the calls added to a graph."""
    table = trace.table
    nodes = []
    kernels = event_args(trace, calls, ("kernel",))["kernel"]
    for kernel, code in zip(kernels, table.name[calls].tolist(), strict=True):
        call_name = table.names[code]
        copy_name = call_name if _COPY.search(call_name) else ""
        nodes.append(_node_name(kernel if isinstance(kernel, str) else copy_name))
    return tuple(nodes)


@memoize
def graph_replays(trace: Trace) -> list[GraphReplay]:
    """Return the graph launches of a rank, matched with its capture."""
    table = trace.table
    graphs = captured_graphs(trace.capture) if trace.capture is not None else []
    is_launch = name_mask(trace, is_graph_launch)
    # `launch_of` is -1 for events without a launch, which selects the appended False.
    work = np.flatnonzero(np.append(is_launch, False)[trace.launch_of] & (table.stream >= 0))
    launch = trace.launch_of[work]
    node = to_int64(event_args(trace, work, ("graph node id",))["graph node id"])
    order = np.lexsort((work, node, launch))
    groups = np.split(work[order], np.flatnonzero(np.diff(launch[order])) + 1)
    codes: dict[tuple[str, ...], int] = {}
    turns: Counter[int] = Counter()
    replays = []
    for kernels in filter(len, groups):
        names = tuple(_node_name(table.names[code]) for code in table.name[kernels].tolist())
        graph = codes.setdefault(names, len(codes))
        match = _match_graph(names, graphs, turns[graph])
        turns[graph] += 1
        calls = np.full(len(kernels), -1, dtype=np.int64)
        if match.capture >= 0:
            calls = np.append(graphs[match.capture].calls, -1)[match.nodes]
        row = int(trace.launch_of[kernels[0]])
        replays.append(GraphReplay(row, kernels, calls, match.certainty, match.capture, graph))
    return replays


def graph_launch_of(trace: Trace, work: Rows) -> Ints:
    """Return the graph launch of each device event; -1 if it is not in a graph.

    The launch is found by correlation id, because in a `captured_trace` the captured calls launch
    the kernels.
    """
    table = trace.table
    launches = np.flatnonzero(name_mask(trace, is_graph_launch))
    correlation = table.correlation[launches].astype(np.int64)
    launches, correlation = launches[correlation >= 0], correlation[correlation >= 0]
    position = first_positions(correlation, table.correlation[work].astype(np.int64))
    return np.append(launches, -1)[position]


def _match_graph(
    kernels: tuple[str, ...], graphs: Sequence[CapturedGraph], turn: int
) -> _GraphMatch:
    """Return the best-matching captured graph; `turn` counts earlier replays of these kernels."""
    matches = [
        _GraphMatch(capture, *match_nodes(kernels, graph.nodes))
        for capture, graph in enumerate(graphs)
    ]
    no_match = _GraphMatch(-1, "none", [])
    best = min((match.certainty for match in matches), key=_CERTAINTIES.index, default="none")
    equal = [match for match in matches if match.certainty == best]
    if best == "none" or len({graphs[match.capture].nodes for match in equal}) > 1:
        return no_match
    match = equal[turn % len(equal)]
    return match._replace(certainty="name-order") if best == "name" and len(equal) > 1 else match


def match_nodes(kernels: Sequence[str], nodes: Sequence[str]) -> tuple[str, list[int]]:
    """Return the certainty, and the node position of each kernel of a replay; -1 if unknown.

    Examples
    --------
    >>> match_nodes(["a", "a", "b"], ["a", "b", "a"])
    ('name-order', [0, 2, 1])
    """
    if list(kernels) == list(nodes):
        return "name", list(range(len(nodes)))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(nodes):
        places[name].append(place)
    if Counter(kernels) == Counter(nodes):
        next_place = {name: iter(places_of_name) for name, places_of_name in places.items()}
        return "name-order", [next(next_place[name]) for name in kernels]
    if len(kernels) == len(nodes) and set(nodes) <= {"", "Memcpy", "Memset"}:
        return "order", list(range(len(nodes)))
    # Each kernel gets the next node with its name; skipped nodes launched nothing.
    matched, first_free = [], 0
    for name in kernels:
        place = next((place for place in places[name] if place >= first_free), -1)
        matched.append(place)
        first_free = max(first_free, place + 1)
    is_enough = sum(place >= 0 for place in matched) >= _MIN_MATCHED * max(len(kernels), 1)
    if is_enough and len(nodes) > len(kernels):
        return "partial", matched
    return "none", []


@memoize
def captured_trace(trace: Trace) -> Trace:
    """Return a rank with the captured operators and modules of its graphs' kernels.

    These host events are appended once per replay and launch its kernels, so that analyses find
    them through launches. If no capture matches, the rank itself is returned.
    """
    capture = trace.capture
    replays = [replay for replay in graph_replays(trace) if replay.capture >= 0]
    if capture is None or not replays:
        return trace
    names = StringPool(trace.table.names.values)
    categories = StringPool(trace.table.categories.values)
    copies = _copy_graphs(trace, capture, replays, names, categories)
    track = Track("", "captured", "thread", "captured", "capture", -1, (1 << 30,), 1, 1)
    table = concatenate_tables(
        [trace.table, *copies.tables],
        names=names,
        categories=categories,
        tracks=[*trace.tracks, track],
    )
    record_sources = [records for records in (trace.source, capture.source) if records is not None]
    return trace.replace(
        _table=table,
        _rules_version=-1,
        flow_table=_add_launches(trace.flow_table, copies.calls, copies.kernels),
        source=JoinedRecords(record_sources) if record_sources else None,
        capture=None,
    )


class _GraphCopies(NamedTuple):
    """Host events of captured graphs, one table per replay, and the launches by these events."""

    tables: list[EventTable]
    #: rows of the calls, which follow the events of the rank
    calls: Ints
    #: the kernel launched by each of `calls`
    kernels: Ints


def _copy_graphs(
    trace: Trace,
    capture: Trace,
    replays: Sequence[GraphReplay],
    names: StringPool,
    categories: StringPool,
) -> _GraphCopies:
    """Copy the captured host events of each replay, in the order in which replays run.

    The copies begin after all events of the rank, on an additional track.
    """
    graphs, parent = captured_graphs(capture), _host_parents(capture)
    tables: list[EventTable] = []
    calls, kernels = [], []
    first_record = len(trace.source) if trace.source is not None else 0
    first_row, start_ns = len(trace), trace.table.last_ns + 1
    for replay in replays:
        is_copied = mask_of_rows(graphs[replay.capture].calls, len(capture))
        add_enclosing_rows(is_copied, parent)
        rows = np.flatnonzero(is_copied)
        position = positions_of_rows(rows, len(capture))
        new_row = np.where(position >= 0, position + first_row, -1)
        copy = _copy_rows(capture, rows, names, categories)
        captured_ns = int(copy.start_ns[0])
        tables.append(
            replace_columns(
                copy,
                start_ns=copy.start_ns - captured_ns + start_ns,
                parent=new_row[parent[rows]].astype(np.int32),
                track=np.full(len(rows), len(trace.tracks), np.int32),
                step=np.full(len(rows), trace.table.step[replay.launch]),
                record=copy.record + first_record,
            )
        )
        is_matched = replay.calls >= 0
        calls.append(new_row[replay.calls[is_matched]])
        kernels.append(replay.kernels[is_matched])
        start_ns += int(copy.end_ns.max()) - captured_ns + 1
        first_row += len(rows)
    return _GraphCopies(tables, np.concatenate(calls), np.concatenate(kernels))


def _host_parents(capture: Trace) -> Ints:
    is_shown = name_mask(capture, lambda name: name.startswith("nn.Module: "))
    is_shown |= category_mask(capture, "user_annotation")
    parent = nested_parents(capture, is_shown)
    is_shown |= category_mask(capture, f"cpu_op|operator|{CALLS}")
    return nearest_ancestor(parent, is_shown)[parent]


def _copy_rows(capture: Trace, rows: Rows, names: StringPool, categories: StringPool) -> EventTable:
    """Return rows of a capture, recoded for the given pools, to which their strings are added.

    The copies have no correlation ids, because these would be ids of the capture.
    """
    table = capture.table
    columns: dict[str, Any] = {}
    pools = {"name": (table.names, names), "category": (table.categories, categories)}
    for column, (old, new) in pools.items():
        codes = getattr(table, column)[rows]
        used = np.unique(codes)
        new_code = np.zeros(len(old), dtype=codes.dtype)
        new_code[used] = [new.add(old[code]) for code in used.tolist()]
        columns[column] = new_code[codes]
    correlation = np.full(len(rows), -1, dtype=table.correlation.dtype)
    return take_rows(table, rows, correlation=correlation, **columns)


def _add_launches(flows: FlowTable, source: Ints, target: Ints) -> FlowTable:
    """Return the arrows; those that launch `target` are replaced by launches from `source`."""
    kind = flows.kinds.index("launch")
    is_other = (flows.kind != kind) | ~np.isin(flows.target, target)
    none = np.full(len(source), -1, dtype=np.int64)
    added = FlowTable(np.full(len(source), kind, flows.kind.dtype), source, target, flows.kinds)
    added.source_record = added.target_record = none
    return concatenate_tables([take_rows(flows, np.flatnonzero(is_other)), added])
