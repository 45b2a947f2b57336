"""Sums up GPU time by shape, module or source line, for tables of kernels and operators.

A kernel or copy belongs to the innermost operator that launched it, and to the shapes, the module
and the innermost Python function of that operator. For example, two kernels ``gemm`` launched by
``aten::mm`` with 64×64 · 64×64 and 8×64 · 64×64 are one row by name and two by shape. Rows by
module or source line are the same for kernels and operators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.efficiency.call_efficiency import call_efficiency
from hta_widgets.analysis.efficiency.modules import module_owners
from hta_widgets.analysis.frames import columns_of_rows, int64
from hta_widgets.analysis.operator_times import call_stacks
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.facts import facts, note_text
from hta_widgets.panels.savings import assign_rates, call_figures
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Rows, distinct_codes
from hta_widgets.trace.call_args import call_args, short_shapes
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.names import short_name, short_operator
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Grouping = Literal["shape", "module", "source line"]

_MAX_ROWS: Final = 100
#: Maximum total number of events in rows that list their events; a click on later rows selects
#: none.
_MAX_EVENTS: Final = 20_000
#: Note of a frame in which no work has a label, for each grouping.
_NOTES: Final[dict[str, str]] = {
    "shape": "no shapes: record_shapes=True records them",
    "module": "no modules: with_stack=True records them",
    "source line": "no Python functions: with_stack=True records them",
}
_SOURCE_LINE: Final = re.compile(r"\.py\(\d+\)")
#: Labels of work that belongs to no module, keyed by owner number.
_LAYER_NAMES: Final = {-1: "", -2: "(backward, unattributed)", -3: "(optimizer)"}
#: Columns of a frame without the rates of `_with_rates`.
_SCHEMA: Final = {
    "name": "str", "label": "str", **int64("sum_ns count"), "mean_ns": "float64",
    **int64("min_ns max_ns"), "kind": "str", "events": "str",
}  # fmt: skip


def grouped_time(traces: TraceSet, panel: str, by: Grouping) -> pd.DataFrame:
    """Return the GPU time of all ranks grouped by `by`; for shapes, also by kernel or operator."""
    blocks = [_work_of_rank(trace, panel, by) for trace in traces.values()]
    work = pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame({"label": []})
    work = work[work["label"] != ""]
    if not len(work):
        frame = pd.DataFrame(columns_of_rows((), _SCHEMA))
        frame.attrs = {"note": _NOTES[by] if sum(map(len, blocks)) else note_text("no_device_work")}
        return frame
    groups = work.groupby(["name", "label"], sort=False, observed=True)
    frame = groups["work_ns"].agg(["sum", "size", "mean", "min", "max"]).reset_index()
    frame.columns = ["name", "label", "sum_ns", "count", "mean_ns", "min_ns", "max_ns"]
    frame["kind"] = groups["kind"].first().to_numpy()
    frame = _with_rates(frame, work)
    frame = frame.sort_values(["sum_ns", "count"], ascending=False)
    shown = frame.head(_MAX_ROWS)
    is_listed = shown["count"].cumsum() <= _MAX_EVENTS
    events = work[["rank", "row"]].to_numpy()
    events_of_rows = [
        json.dumps(events[groups.indices[name, label]].tolist(), separators=(",", ":"))
        if listed
        else ""
        for name, label, listed in zip(shown["name"], shown["label"], is_listed, strict=True)
    ]
    shown = shown.assign(events=events_of_rows).reset_index(drop=True)
    shown.attrs = {
        "total": len(frame),
        "rest_ns": int(frame["sum_ns"].sum() - shown["sum_ns"].sum()),
        "by": by,
    }
    return shown


def _work_of_rank(trace: Trace, panel: str, by: Grouping) -> pd.DataFrame:
    """Return a rank's device work launched by operators, with name and label."""
    tree, table = operator_tree(trace), trace.table
    work = device_work_rows(trace)
    # Launch -1 selects the last entry, -1: work without a call has no operator.
    operator = tree.innermost[trace.launch_of[work]]
    work, operator = work[operator >= 0], operator[operator >= 0]
    used, position = distinct_codes(operator)
    labels = np.array(_LABELS[by](trace, tree.rows[used]), dtype=object)[position]
    if by != "shape":
        name: Any = ""
    elif panel == "kernels":
        name = _short_names(trace, work, short_name)
    else:
        name = _short_names(trace, tree.rows[operator], short_operator)
    kinds = np.array(KINDS, dtype=object)
    block = pd.DataFrame(
        {
            "name": name,
            "label": labels,
            "rank": trace.rank,
            "row": work,
            "kind": kinds[table.kind[work]],
            "work_ns": table.dur_ns[work],
        }
    )
    return block.join(_figures(trace, work))


def _short_names(trace: Trace, rows: Rows, short: Callable[[str], str]) -> Any:
    codes, position = distinct_codes(trace.table.name[rows].astype(np.int64))
    return np.array([short(trace.table.names[code]) for code in codes.tolist()], object)[position]


def _figures(trace: Trace, work: Rows) -> pd.DataFrame:
    """Return the figures of calls, each in the row of the call's longest kernel."""
    efficiency = call_efficiency(trace)
    if efficiency is None:
        return pd.DataFrame()
    is_longest = np.isin(work, efficiency.calls["longest"].to_numpy())
    figures = call_figures(efficiency, efficiency.call_of_event[work[is_longest]])
    figures.index = pd.Index(np.flatnonzero(is_longest))
    return figures.reindex(np.arange(len(work)))


def _with_rates(frame: pd.DataFrame, work: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the rates of its calls; unchanged if no call has figures."""
    if "device_ns" not in work:
        return frame
    key = work["name"].astype(str) + "\n" + work["label"].astype(str)
    calls = work[work["device_ns"].notna()].assign(name=key)
    return assign_rates(frame, calls, frame["name"] + "\n" + frame["label"])


def _shape_labels(trace: Trace, rows: Rows) -> list[str]:
    args = call_args(trace, rows)
    texts = [short_shapes(row[0].decode("utf-8", "replace")) for row in args.texts]
    return [texts[code] for code in args.code.tolist()]


def _module_labels(trace: Trace, rows: Rows) -> list[str]:
    owners = module_owners(trace)
    paths: list[str] = []
    for name, parent in zip(owners.names, owners.parent.tolist(), strict=True):
        paths.append(f"{paths[parent]}.{name}" if parent >= 0 else name)
    return [
        paths[owner] if owner >= 0 else _LAYER_NAMES.get(owner, "")
        for owner in owners.owner[rows].tolist()
    ]


def _source_labels(trace: Trace, rows: Rows) -> list[str]:
    """Return the innermost Python function with a source line, else the innermost function."""
    labels = []
    for stack in call_stacks(trace, rows):
        functions = stack.split(";")
        labels.append(next(filter(_SOURCE_LINE.search, functions), functions[0]))
    return labels


_LABELS: Final[dict[str, Any]] = {
    "shape": _shape_labels,
    "module": _module_labels,
    "source line": _source_labels,
}
#: Functions that make the frames, keyed by id. Tables by module or source line are the same for
#: kernels and operators, so they have common ids, ``work by module`` and ``work by source line``.
GROUPED_FRAMES: Final = {
    f"{panel if by == 'shape' else 'work'} by {by}": partial(grouped_time, panel=panel, by=by)
    for panel, entry in facts("panels").items()
    for by in entry.get("by", ())
}
