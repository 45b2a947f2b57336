"""Nesting of host events: the nearest operator above an event, and sums over events below."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    Rows,
    concatenate_ranges,
    distinct_codes,
    positions_of_rows,
)
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import assign_lanes

_STEP = "ProfilerStep#"
_BACKWARD = "## backward ##"
_OPERATORS = "cpu_op|operator"
CALLS = "(.+_)?(runtime|driver)"
_NODE_PREFIX = "autograd::engine::evaluate_function"
_NODE_SUFFIXES = tuple(f"Backward{number}" for number in ("", *range(10)))


def category_mask(trace: Trace, pattern: str, rows: Rows | slice = slice(None)) -> Bools:
    """Return which events are host events whose whole category matches, ignoring case."""
    table = trace.table
    matches = re.compile(pattern, re.IGNORECASE).fullmatch
    wanted = np.array([*(matches(text) is not None for text in table.categories.values), False])
    return wanted[table.category[rows]] & (table.stream[rows] < 0)


def name_mask(trace: Trace, matches: Callable[[str], object]) -> Bools:
    """Return which events are host events with a matching name."""
    table = trace.table
    wanted = np.array([*map(bool, map(matches, table.names.values)), False])
    return wanted[table.name] & (table.stream < 0)


def names_match(trace: Trace, rows: Rows, matches: Callable[[str], object]) -> Bools:
    """Return which of the given events have a matching name."""
    used, place = distinct_codes(trace.table.name[rows])
    wanted = [bool(matches(trace.table.names[code])) for code in used.tolist()]
    return np.array(wanted, dtype=bool)[place]


def autograd_nodes(trace: Trace) -> Bools:
    """Return which events are autograd nodes, judging by their names."""

    def is_node(name: str) -> bool:
        is_function = name.endswith(_NODE_SUFFIXES) and "::" not in name
        return is_function or name.startswith(_NODE_PREFIX)

    return name_mask(trace, is_node)


def nearest_ancestor(parent: npt.NDArray[np.signedinteger], stops: Bools) -> Ints:
    """Return each event's nearest ancestor in `stops`, or the event itself; -1 if none."""
    count = len(parent)
    ancestor = np.empty(count + 1, dtype=np.int64)
    # Each entry is the event itself or an event above it. Each iteration doubles the distance.
    ancestor[:-1] = np.where(stops, np.arange(count), parent)
    ancestor[ancestor < 0] = count
    ancestor[-1] = count
    while True:
        farther = ancestor[ancestor]
        if np.array_equal(farther, ancestor):
            break
        ancestor = farther
    ancestor[ancestor == count] = -1
    return ancestor


def nested_parents(trace: Trace, stops: Bools | None = None) -> npt.NDArray[np.int32]:
    """Return the parent of each event when only operators, calls and `stops` are nested."""
    # Otherwise, a Python frame that crosses the end of an operator would be the parent of the calls
    # that the operator makes within the frame.
    table = trace.table
    crossed = np.array([track.lanes > track.nested for track in table.tracks], dtype=bool)
    if not crossed.any():
        return table.parent
    among = category_mask(trace, f"{_OPERATORS}|{CALLS}")
    if stops is not None:
        among |= stops
    rows = np.flatnonzero(among & crossed[table.track])
    lanes = assign_lanes(
        table.start_ns[rows],
        table.dur_ns[rows],
        table.track[rows],
        len(table.tracks),
        trace.resolution_ns,
    )
    parent = table.parent.copy()
    parent[rows] = np.append(rows, -1)[lanes.parent]
    return parent


@dataclass(frozen=True, eq=False)
class Forest:
    """The nesting of a set of events; the children of a parent keep their order."""

    parent: Ints
    levels: list[Rows]  # events by depth
    children: Rows  # events ordered by parent; those without a parent come first
    first: Ints  # for each event, the position of its first child in `children`

    @cached_property
    def depth(self) -> Ints:
        """Number of events that enclose each event."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        for level, members in enumerate(self.levels):
            depth[members] = level
        return depth

    @cached_property
    def subtree_size(self) -> Ints:
        """Number of events that each event encloses, including itself."""
        size = np.ones(len(self.parent), dtype=np.int64)
        for members in reversed(self.levels[1:]):
            np.add.at(size, self.parent[members], size[members])
        return size

    @cached_property
    def preorder(self) -> Ints:
        """Position of each event in depth-first order."""
        sizes = self.subtree_size[self.children]
        # Total size of the subtrees before each event in `children`.
        size_before = np.empty(len(self.parent), dtype=np.int64)
        size_before[self.children] = np.cumsum(sizes) - sizes
        position = size_before.copy()
        for members in self.levels[1:]:
            parent = self.parent[members]
            first_child = self.children[self.first[parent]]
            position[members] += position[parent] + 1 - size_before[first_child]
        return position

    def subtree_sums(self, values: Ints) -> Ints:
        """Return the sum of values over each event and everything that it encloses."""
        # A subtree is a range of positions in depth-first order.
        sum_before = np.zeros(len(values) + 1, dtype=np.int64)
        sum_before[self.preorder + 1] = values
        np.cumsum(sum_before, out=sum_before)
        sums: Ints = sum_before[self.preorder + self.subtree_size] - sum_before[self.preorder]
        return sums

    def is_nested_in_group(self, members: Rows, group: npt.NDArray[np.signedinteger]) -> Bools:
        """Return whether each member is enclosed by another member of its group."""
        is_nested = np.zeros(len(members), dtype=bool)
        if not len(members):
            return is_nested
        # A subtree is a range of positions; ranges of different groups do not overlap.
        begin = group.astype(np.int64) * (len(self.parent) + 1) + self.preorder[members]
        order = np.argsort(begin, kind="stable")
        latest_end = np.maximum.accumulate((begin + self.subtree_size[members])[order])
        is_nested[order[1:]] = latest_end[:-1] > begin[order[1:]]
        return is_nested


def forest_of(parent: Ints) -> Forest:
    """Return the forest of events with these parents (positions in this array, or -1)."""
    count = len(parent)
    children = np.argsort(parent, kind="stable")
    # The children of event `k` are children[bounds[k] : bounds[k + 1]]; events without a parent
    # precede them.
    bounds = np.searchsorted(parent[children], np.arange(count + 1))
    first, child_count = bounds[:-1], np.diff(bounds)
    level = children[: bounds[0]]
    levels: list[Rows] = []
    while len(level):
        levels.append(level)
        level = children[concatenate_ranges(first[level], child_count[level])]
    return Forest(parent, levels, children, first)


def add_enclosing_rows(is_chosen: Bools, parent: Array) -> None:
    """Mark, in `is_chosen`, all events that enclose a marked event."""
    rows = np.flatnonzero(is_chosen)
    while len(rows):
        above = np.unique(parent[rows])
        rows = above[above >= 0]
        rows = rows[~is_chosen[rows]]
        is_chosen[rows] = True


def children_coverage(parent: Ints, start: Ints, end: Ints) -> Ints:
    """Return how long the direct children of each event cover it, counting overlaps once."""
    covered = np.zeros(len(parent), dtype=np.int64)
    children = np.flatnonzero(parent >= 0)
    if not len(children):
        return covered
    children = children[np.argsort(parent[children], kind="stable")]
    above = parent[children]
    low = np.maximum(start[children], start[above])
    high = np.minimum(end[children], end[above])
    has_same_parent = above[1:] == above[:-1]
    if (has_same_parent & (high[:-1] > low[1:])).any():
        # A child's time counts from the latest end of its earlier siblings. This is a running
        # maximum by parent, for which the parent and the code of the end are packed into one int64.
        ends, end_code = np.unique(high, return_inverse=True)
        latest_code = np.maximum.accumulate(above * len(ends) + end_code) % len(ends)
        low[1:][has_same_parent] = np.maximum(low[1:], ends[latest_code[:-1]])[has_same_parent]
    np.add.at(covered, above, np.maximum(high - low, 0))
    return covered


@memoize
def backward_parents(trace: Trace) -> Ints:
    """Return the parents of a rank's events, with its backward thread attached."""
    return attach_backward_threads(trace, trace.table.parent)


def attach_backward_threads(trace: Trace, parents: npt.NDArray[np.int32]) -> Ints:
    """Return `parents` with the backward thread attached below steps, as in HTA's call graph.

    If exactly one thread runs the steps and exactly one other thread runs ``autograd::``, the
    outermost events of the latter get the ``## backward ##`` ranges around them as parents or,
    without such ranges, the steps.
    """
    table = trace.table
    parent = parents.astype(np.int64)
    is_step = _events_with_prefix(trace, _STEP)
    step_tracks = np.unique(table.track[is_step])
    if len(step_tracks) != 1:
        return parent
    autograd_tracks = np.unique(table.track[name_mask(trace, lambda name: "autograd::" in name)])
    backward_tracks = autograd_tracks[autograd_tracks != step_tracks[0]]
    if len(backward_tracks) != 1:
        return parent
    is_on_main = table.track == step_tracks[0]
    ranges = np.flatnonzero(is_on_main & _events_with_prefix(trace, _BACKWARD))
    if not len(ranges):
        ranges = np.flatnonzero(is_step)  # all steps are on the main thread
    outermost = np.flatnonzero((table.track == backward_tracks[0]) & (parent < 0))
    start, end = table.start_ns, table.end_ns
    for row in ranges.tolist():
        low = np.searchsorted(start[outermost], start[row], side="left")
        high = np.searchsorted(start[outermost], end[row], side="right")
        inside = outermost[low:high]
        parent[inside[end[inside] <= end[row]]] = row
    return parent


def _events_with_prefix(trace: Trace, prefix: str) -> Bools:
    return name_mask(trace, lambda name: name.startswith(prefix))


def repeats_step(trace: Trace) -> Bools:
    """Return whether each event is a range that only repeats the step around it.

    Programs mark steps themselves, as in ``iteration 7`` within ``ProfilerStep#7``. For formats
    without steps, readers derive the steps from such ranges.
    """
    table = trace.table
    parent = np.maximum(table.parent, 0)
    within_step = (table.parent >= 0) & _events_with_prefix(trace, _STEP)[parent]
    return np.asarray(within_step & (table.dur_ns == table.dur_ns[parent]))


@dataclass(frozen=True, eq=False)
class OperatorTree:
    """The operators of one rank."""

    rows: Rows
    forest: Forest  # of the operators
    innermost: Ints  # position in `rows` of each event's innermost operator, or -1


@memoize
def operator_tree(trace: Trace, *, annotations: bool = False) -> OperatorTree:
    """Return the operators of a rank: host events of category ``cpu_op`` or ``operator``.

    ``ProfilerStep``, which has this category in files of 2021, is excluded.
    """
    is_step = _events_with_prefix(trace, "ProfilerStep")
    is_operator = category_mask(trace, _OPERATORS) & ~is_step
    if annotations:
        is_operator |= category_mask(trace, "user_annotation") | is_step
    parent = nested_parents(trace, is_operator)
    rows = np.flatnonzero(is_operator)
    positions = positions_of_rows(rows, len(parent))[nearest_ancestor(parent, is_operator)]
    return OperatorTree(rows, forest_of(positions[parent[rows]]), positions)
