"""Answer requests about single events: details, cells, neighbors, launches and edges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np

from hta_widgets.facts import facts
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.cells import kind_times
from hta_widgets.tiles.lanes import CounterLane, EventLane
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.tiles.rank_index import RankIndex, TableRows
from hta_widgets.tiles.replies import (
    Brief,
    Cell,
    DetailedEvent,
    EventDetail,
    Flow,
    LaunchedBy,
    LaunchedKernels,
    Launches,
    SameName,
    TableName,
)
from hta_widgets.tiles.windows import check_window
from hta_widgets.trace.arrays import Floats, Ints, Rows
from hta_widgets.trace.event import launched_rows
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.names import short_name
from hta_widgets.trace.short_paths import VerbatimNumber
from hta_widgets.trace.trace import Trace


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as key-value pairs, which preserve the file order and repeated keys."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs,
    parse_int=VerbatimNumber,
    parse_float=VerbatimNumber,
    parse_constant=VerbatimNumber,
    strict=False,
)


def args_of_record(record: bytes) -> list[tuple[str, str]]:
    """Return the args of a record as pairs of key and display text."""
    event = _DECODER.decode(record.decode("utf-8", "replace").strip())
    fields = event if isinstance(event, _Pairs) else _Pairs()
    args = next((value for key, value in reversed(fields) if key == "args"), None)
    if args is None:
        return []
    if not isinstance(args, _Pairs):
        return [("args", _display_text(args))]
    return [(key, _display_text(value)) for key, value in args]


def _display_text(value: object) -> str:
    return str(value) if isinstance(value, str) else _compact_json(value)


def _compact_json(value: object) -> str:
    match value:
        case VerbatimNumber():
            return str(value)
        case _Pairs():
            inner = ",".join(f"{_quote(key)}:{_compact_json(member)}" for key, member in value)
            return f"{{{inner}}}"
        case list():
            return f"[{','.join(map(_compact_json, value))}]"
        case str():
            return _quote(value)
        case _:
            return json.dumps(value)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def event_summary(index: RankIndex, table: TableRows, row: int) -> Brief:
    """Return the summary of an event, async or instant."""
    name = table.names[int(table.name[row])]
    return {
        "rank": index.rank.rank,
        "table": cast("TableName", table.table),
        "id": row,
        "lane": lane_of_row(index, table.table, row),
        "name": name,
        "short": short_name(name),
        "kind": KINDS[int(table.kind[row])],
        "start": int(table.start_ns[row]) + index.rank.shift_ns,
        "dur": int(table.dur_ns[row]),
    }


def lane_of_row(index: RankIndex, table: str, row: int) -> int:
    """Return the lane on which a row is drawn. For events, it follows from track and depth."""
    rank = index.rank
    if table == "events":
        return int(rank.track_lane0[rank.table.track[row]]) + int(rank.table.depth[row])
    return int(index.side_lanes(table)[row])


def validate_row(index: RankIndex, table: TableRows, row: Any) -> int:
    """Return `row` as an int, or raise a `ValueError` that states the valid rows."""
    number = int(row)
    if not 0 <= number < len(table.start_ns):
        raise ValueError(
            f"rank {index.rank.rank} has no {table.table[:-1]} {row}: "
            f"it has {len(table.start_ns)}, counted from 0"
        )
    return number


MAX_HISTOGRAM_BINS: int = facts("limits")["histogram_bins"]

#: Bins are logarithmic if the ratio of the longest to the shortest duration is at least this. With
#: bins of equal width, nearly all durations would fall into the first bin.
_LOG_FROM: int = facts("limits")["log_bins_ratio"]


def duration_figures(durs: Ints) -> SameName:
    """Return the statistics and the histogram of one or more durations.

    There are about twice as many bins as by Sturges' rule, but at most 40. Depending on ``scale``,
    bins have equal widths of at least 1 ns, or widths that grow by a constant factor.
    """
    low, high = int(durs.min()), int(durs.max())
    edges, scale = _histogram_edges(low, high, len(durs))
    counts, _ = np.histogram(durs, edges)
    return {
        "count": len(durs),
        "sum": int(durs.sum()),
        "mean": float(durs.mean()),
        "median": float(np.median(durs)),
        "min": low,
        "max": high,
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "scale": scale,
    }


def _histogram_edges(low: int, high: int, count: int) -> tuple[Floats, Literal["linear", "log"]]:
    if low == high:
        return np.array((low, low + 1), np.float64), "linear"
    wanted = min(MAX_HISTOGRAM_BINS, 2 * (count.bit_length() + 1))
    scale: Literal["linear", "log"] = "linear"
    if low > 0 and high / low >= _LOG_FROM:
        edges = np.geomspace(low, high, wanted + 1)
        scale = "log"
    else:
        edges = np.linspace(low, high, min(wanted, high - low) + 1)
    # Set the outer edges exactly, because rounding could exclude an event.
    edges[0], edges[-1] = low, high
    return edges, scale


def details(index: RankIndex, table: TableRows, row: int) -> EventDetail:
    """Answer ``event``."""
    args, error = _event_args(index, table, row)
    is_event = table.table == "events"
    has_same_name = (table.name == table.name[row]) & (table.category == table.category[row])
    return {
        "event": _detailed_event(index, table, row),
        "parents": list(_parent_summaries(index, table, row)) if is_event else [],
        "args": [list(pair) for pair in args],
        "args_error": error,
        "flows": _event_flows(index, row) if is_event else [],
        "launched_by": _launch_context(index, table, row) if is_event else None,
        "kernels": _launched_kernels(index, row) if is_event else None,
        "same": duration_figures(table.dur_ns[has_same_name]),
    }


def _detailed_event(index: RankIndex, table: TableRows, row: int) -> DetailedEvent:
    summary = event_summary(index, table, row)
    events, lane = index.rank.table, summary["lane"]
    is_event = table.table == "events"
    track = next(
        track for track in index.rank.tracks if track.lane0 <= lane < track.lane0 + track.lanes
    )
    return {
        **summary,
        "category": table.categories[int(table.category[row])],
        "process": track.process,
        "track": track.key,
        "depth": lane - track.lane0,
        "stream": int(events.stream[row]) if is_event else None,
        "step": int(events.step[row]) if is_event else None,
        "correlation": int(events.correlation[row]) if is_event else None,
    }


def _parent_summaries(index: RankIndex, table: TableRows, row: int) -> Iterator[Brief]:
    parent = index.rank.table.parent
    above = int(parent[row])
    while above >= 0:
        yield event_summary(index, table, above)
        above = int(parent[above])


def _launch_context(index: RankIndex, table: TableRows, row: int) -> LaunchedBy | None:
    """Return the events around the call that launched a device event, or None if it is unknown."""
    trace = index.rank.trace
    call = int(trace.launch_of[row])
    if call < 0:
        return None
    tree = operator_tree(trace)
    operators: list[Brief] = []
    node = int(tree.innermost[call])
    while node >= 0:
        operators.append(event_summary(index, table, int(tree.rows[node])))
        node = int(tree.forest.parent[node])
    modules: list[Brief] = []
    frames: list[Brief] = []
    for above in _parent_summaries(index, table, call):
        if above["name"].startswith("nn.Module: "):
            modules.append(above)
        elif table.categories[int(table.category[above["id"]])] == "python_function":
            frames.append(above)
    shapes = dict(_event_args(index, table, operators[0]["id"])[0]) if operators else {}
    forward = _forward_rows(trace, [operator["id"] for operator in operators])
    return {
        "operators": operators,
        "modules": modules,
        "frames": frames,
        "shapes": shapes.get("Input Dims", shapes.get("Input dims", "")),
        "forward": event_summary(index, table, forward[0]) if forward else None,
    }


def _forward_rows(trace: Trace, backward_rows: Sequence[int]) -> list[int]:
    forward, backward = trace.flow_table.of_kind("fwdbwd")
    rows: list[int] = forward[np.isin(backward, backward_rows)].tolist()
    return rows


#: Maximum number of event ids in a selection, to keep messages small.
MAX_SELECTED: int = facts("limits")["launch_ids"]


def _launched_kernels(index: RankIndex, row: int) -> LaunchedKernels | None:
    """Return statistics of the device events launched on a host event's thread while it runs."""
    table = index.rank.table
    ids, calls = launched_rows(index.rank.trace, row)
    if not len(ids):
        return None
    return {
        "count": len(ids),
        "dur": int(table.dur_ns[ids].sum()),
        "delay": float(np.median(table.start_ns[ids] - table.start_ns[calls])),
        "ids": ids.tolist() if len(ids) <= MAX_SELECTED else None,
    }


#: Maximum number of arrows drawn from an event. More would be impossible to follow by eye.
MAX_ARROWS: int = facts("limits")["launch_arrows"]


def launches(index: RankIndex, row: int) -> Launches:
    """Answer ``launches``: a device event's launch call, or a host event's device events."""
    table, call = index.events, int(index.rank.trace.launch_of[row])
    ids, _ = launched_rows(index.rank.trace, row)
    drawn = ids.tolist() if len(ids) <= MAX_ARROWS else []
    return {
        "call": event_summary(index, table, call) if call >= 0 else None,
        "kernels": [event_summary(index, table, kernel) for kernel in drawn],
        "count": len(ids),
    }


def _event_args(
    index: RankIndex, table: TableRows, row: int
) -> tuple[list[tuple[str, str]], str | None]:
    """Return the args in an event's records, and a message if they cannot be read."""
    source = index.rank.trace.source
    if source is None:
        return [], None
    records = [int(table.record[row])]
    if records[0] < 0:  # derived by a reader; has no record
        return [], None
    if table.table == "events" and row in index.rank.table.end_record:
        records.append(index.rank.table.end_record[row])
    pairs: list[tuple[str, str]] = []
    try:
        for record in records:
            pairs += args_of_record(source.record(record))
    except (OSError, ValueError, LookupError, RecursionError) as error:
        return pairs, str(error) or type(error).__name__
    return pairs, None


def _event_flows(index: RankIndex, row: int) -> list[Flow]:
    flows, table = index.rank.trace.flow_table, index.events
    event_flows: list[Flow] = []
    directions: tuple[tuple[Literal["out", "in"], Rows, Rows], ...] = (
        ("out", flows.source, flows.target),
        ("in", flows.target, flows.source),
    )
    for direction, near_rows, far_rows in directions:
        for flow in np.flatnonzero(near_rows == row).tolist():
            source, target = int(flows.source[flow]), int(flows.target[flow])
            end = int(table.start_ns[source] + table.dur_ns[source])
            event_flows.append(
                {
                    "kind": flows.kinds[int(flows.kind[flow])],
                    "direction": direction,
                    "brief": event_summary(index, table, int(far_rows[flow])),
                    "delay": int(table.start_ns[target]) - end,
                }
            )
    return sorted(event_flows, key=lambda flow: (flow["delay"], flow["brief"]["id"]))


def cell_details(index: RankIndex, number: int, start: int, end: int) -> Cell:
    """Answer ``cell``: the exact contents of a lane in a window."""
    check_window(start, end, "a cell")
    ref, lane = index.lane(number)
    low, high = start - index.rank.shift_ns, end - index.rank.shift_ns
    edges = np.array((low, high), np.int64)
    if isinstance(lane, CounterLane):
        smallest, largest = (float(column[0]) for column in lane.measure(edges))
        first, last = lane.times.searchsorted(edges)
        has_value = not np.isnan(smallest)
        return {
            "count": int(last - first),
            "busy": 0,
            "longest": None,
            "kinds": {},
            "min": smallest if has_value else None,
            "max": largest if has_value else None,
        }
    covered, count = lane.spans.measure(edges)
    # Lanes of waits show parts of events, which have no details of their own.
    has_event = bool(count[0]) and ref.role not in {"wait", "late"}
    row = _longest_row(index, ref, low, high) if has_event else None
    return {
        "count": int(count[0]),
        "busy": int(covered[0]),
        "longest": None if row is None else event_summary(index, index.table_of(ref), row),
        "kinds": {KINDS[code]: time for code, time in kind_times(lane, low, high).items()},
    }


def _longest_row(index: RankIndex, ref: LaneRef, low: int, high: int) -> int:
    """Return the row of the longest event in a non-empty window. Ties go to the first event."""
    table, rows = index.table_of(ref), index.rows_of_lane(ref)
    rows = rows[: np.searchsorted(table.start_ns[rows], high)]
    starts, durs = table.start_ns[rows], table.dur_ns[rows]
    inside = np.flatnonzero(np.where(durs > 0, starts + durs > low, starts >= low))
    return int(rows[inside[durs[inside].argmax()]])


def neighbor(index: RankIndex, table: TableRows, row: int, direction: int) -> Brief | None:
    """Answer ``neighbor``: the next or previous event in the same lane."""
    members = index.rows_of_lane(index.rank.ref(lane_of_row(index, table.table, row)))
    # Binary search does not work here, since asyncs with equal starts are not sorted by row.
    neighbor_index = int(np.flatnonzero(members == row)[0]) + (1 if direction > 0 else -1)
    if not 0 <= neighbor_index < len(members):
        return None
    return event_summary(index, table, int(members[neighbor_index]))


def snap(index: RankIndex, number: int, time: int, tolerance: int) -> int | None:
    """Answer ``snap``: the event edge nearest to a time. Ties go to the earlier edge."""
    _, lane = index.lane(number)
    local = time - index.rank.shift_ns
    edges = _neighboring_edges(lane, local)
    nearest = min(edges, key=lambda edge: (abs(edge - local), edge), default=None)
    if nearest is None or abs(nearest - local) > tolerance:
        return None
    return nearest + index.rank.shift_ns


def _neighboring_edges(lane: EventLane | CounterLane, time: int) -> list[int]:
    """Return the edges just before and after a time, among starts, ends and instants."""
    if isinstance(lane, CounterLane):
        edge_arrays = [lane.times]
    else:
        edge_arrays = [lane.spans.sorted_starts, lane.spans.sorted_ends, lane.spans.points]
    neighbors = []
    for edges in edge_arrays:
        index = int(edges.searchsorted(time))
        neighbors += edges[max(index - 1, 0) : index + 1].tolist()
    return neighbors
