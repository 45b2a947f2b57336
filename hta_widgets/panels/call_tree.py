"""The call tree: operators by call path, as bars of a flame graph.

The width of a bar is the time of all calls of its path, on all selected ranks. Callees are below
their caller and begin at its left edge, longest first. For example, ``aten::linear`` takes 240 ns,
including 120 ns in calls to ``aten::addmm``::

    depth 0   aten::linear  0 ... 240    120 ns of its own
    depth 1   aten::addmm   0 ... 120
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows, int64, text_column
from hta_widgets.analysis.scope import RankPart, rank_parts
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.names import short_name
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Smallest width of a shown bar, as a share of the tree's width.
MIN_SHARE = 0.002
#: Columns that are summed per path; device time includes callees.
_SUMS = ("count", "host_ns", "device_ns")
_SCHEMA = {
    "depth": "int64", "name": "str", **int64("left_ns right_ns own_ns"),
    **int64("count host_ns device_ns"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _CallPaths:
    """The distinct call paths of a rank's operators; parents precede children."""

    rows: Rows  # the operators
    path: Ints  # path of each operator; the last entry, -1, is for events without an operator
    operator: Ints  # position in `rows` of each event's innermost operator, or -1
    parent: list[int] = field(default_factory=list)  # parent of each path, or -1
    name: list[str] = field(default_factory=list)


class _MergedPaths:
    """The call paths of several ranks, merged by name, and the `_SUMS` of each path."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.name: list[str] = []
        self.sums: list[Ints] = []
        self._numbers: dict[tuple[int, str], int] = {}

    def add(self, paths: _CallPaths, sums: Ints) -> None:
        merged: list[int] = []  # the merged path of each of the rank's paths
        for parent, name, path_sums in zip(paths.parent, paths.name, sums, strict=True):
            merged_parent = merged[parent] if parent >= 0 else -1
            number = self._numbers.setdefault((merged_parent, name), len(self.name))
            if number == len(self.name):
                self.parent.append(merged_parent)
                self.name.append(name)
                self.sums.append(np.zeros(len(_SUMS), np.int64))
            self.sums[number] += path_sums
            merged.append(number)


def call_tree(
    traces: TraceSet,
    selection: Selection,
    _top: int | None = None,
    *,
    measure: Literal["host", "device"],
) -> pd.DataFrame:
    """Return bars for the operators in a selection's window, on its ranks."""
    window = Selection(ranks=selection.ranks, start_ns=selection.start_ns, end_ns=selection.end_ns)
    merged = _MergedPaths()
    work_ns, outside_ns = 0, 0
    for part in rank_parts(traces, window):
        paths = _call_paths(part.trace)
        work = part.device_work_rows()
        work = work[part.table.stream[work] >= 0]
        path_of_work = paths.path[paths.operator[part.trace.launch_of[work]]]
        work_dur = part.durations(work)
        work_ns += int(work_dur.sum())
        outside_ns += int(work_dur[path_of_work < 0].sum())
        merged.add(paths, _path_sums(part, paths, path_of_work, work_dur))
    bars = _flame_bars(merged, _SUMS.index(f"{measure}_ns"))
    if measure == "device":
        bars.attrs["outside"] = outside_ns / max(work_ns, 1)
    return bars


@memoize
def _call_paths(trace: Trace) -> _CallPaths:
    tree, names = operator_tree(trace), trace.table.names
    name = trace.table.name[tree.rows]
    path = np.full(len(tree.rows) + 1, -1, dtype=np.int64)
    paths = _CallPaths(tree.rows, path, tree.innermost)
    for operators in tree.forest.levels:
        # Operators on one path have the same caller path and the same name.
        caller_path = path[tree.forest.parent[operators]]
        keys = (caller_path + 1) * len(names) + name[operators]
        distinct_keys, position = np.unique(keys, return_inverse=True)
        path[operators] = len(paths.name) + position
        parent, code = np.divmod(distinct_keys, len(names))
        paths.parent.extend((parent - 1).tolist())
        paths.name.extend(names[name_code] for name_code in code.tolist())
    return paths


def _path_sums(part: RankPart, paths: _CallPaths, path_of_work: Ints, work_dur: Ints) -> Ints:
    """Return the `_SUMS` of a rank's paths, (paths, sums)."""
    is_selected = part.contains(paths.rows)
    path = paths.path[:-1][is_selected]
    has_path = path_of_work >= 0
    sums = np.zeros((len(paths.name), len(_SUMS)), dtype=np.int64)
    count, host_ns, device_ns = sums.T
    np.add.at(count, path, 1)
    np.add.at(host_ns, path, part.durations(paths.rows[is_selected]))
    np.add.at(device_ns, path_of_work[has_path], work_dur[has_path])
    # Device time includes callees, which follow their callers.
    for index, parent in reversed(list(enumerate(paths.parent))):
        if parent >= 0:
            device_ns[parent] += device_ns[index]
    return sums


def _flame_bars(paths: _MergedPaths, measure: int) -> pd.DataFrame:
    """Return call paths as bars, whose widths are the sums at index `measure` of `_SUMS`."""
    sums, names = [path_sums.tolist() for path_sums in paths.sums], paths.name
    width_ns = [path_sums[measure] for path_sums in sums]
    callees: dict[int, list[int]] = {}
    for path, parent in enumerate(paths.parent):
        callees.setdefault(parent, []).append(path)
    total_ns = sum(width_ns[path] for path in callees.get(-1, ()))
    rows, left_out = [], 0
    callers = [(-1, 0, 0)]  # path, depth of its callees, left edge; the loop appends the callees
    for caller, depth, left_ns in callers:
        called = [path for path in callees.get(caller, ()) if width_ns[path] > 0]
        for path in sorted(called, key=lambda path: (-width_ns[path], names[path])):
            if width_ns[path] < total_ns * MIN_SHARE:
                left_out += 1
                continue
            right_ns = left_ns + width_ns[path]
            inner_ns = sum(width_ns[callee] for callee in callees.get(path, ()))
            own_ns = max(width_ns[path] - inner_ns, 0)
            rows.append((depth, names[path], left_ns, right_ns, own_ns, *sums[path]))
            callers.append((path, depth + 1, left_ns))
            left_ns = right_ns  # noqa: PLW2901 - the next bar begins there
    frame = pd.DataFrame(columns_of_rows(rows, _SCHEMA))
    frame.insert(2, "short", text_column(map(short_name, frame["name"])))
    frame.attrs = {"left_out": left_out}
    if not rows:
        frame.attrs["note"] = note_text("no_operators_selected" if names else "no_operators")
    return frame
