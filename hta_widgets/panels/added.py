"""The frames of panels that users add; most cover the whole job and are kept in saved pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.clock_fit import drift_fit
from hta_widgets.analysis.cross_rank.comm_events import OPERATIONS, batched_sends
from hta_widgets.analysis.cross_rank.matching import matching
from hta_widgets.analysis.cross_rank.parallel_groups import pipelines
from hta_widgets.analysis.efficiency.call_efficiency import has_shapes
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.errors import TraceError
from hta_widgets.facts import note_text
from hta_widgets.panels.groupings import GROUPED_FRAMES
from hta_widgets.panels.kernels import fusion_chains, kernel_geometry
from hta_widgets.panels.layers import has_layers, layers
from hta_widgets.panels.savings import operator_savings
from hta_widgets.text import rank_list
from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.memo import memo
from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection, overlaps_window
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

#: Maximum number of bars, one per name, and minimum share of a node in a call tree's width.
MAX_BARS = 12
MAX_MARKS = 40
MIN_SHARE = 0.002
_SEND_RECV = OPERATIONS.index("send_recv")
_ALL_TO_ALL = OPERATIONS.index("all_to_all")


def _critical_path(traces: TraceSet) -> pd.DataFrame:
    start, end = traces.start_ns, traces.end_ns
    path = analysis.job_critical_path(traces, annotation="", window=(start, end))
    summary = analysis.job_path_summary(path)
    frame = summary[["rank", "count", "dur_ns", "share"]].assign(
        cause=summary["bound_by"]
        .astype(str)
        .str.replace("kernel_kernel", "kernel_to_kernel")
        .str.replace("_", " ")
    )
    return _first_rows(frame[summary["bound_by"] != "outside_path"], path)


def _first_rows(
    frame: pd.DataFrame, reference: pd.DataFrame, limit: int = MAX_BARS
) -> pd.DataFrame:
    """Return the first rows of a panel's frame, with the number of others and the note."""
    shown = frame.head(limit).reset_index(drop=True)
    shown.attrs = {"others": len(frame) - len(shown), "note": reference.attrs.get("note", "")}
    return shown


def _arrivals(traces: TraceSet) -> pd.DataFrame:
    calls = analysis.collectives(traces, clock="fitted")
    first = calls.groupby("collective")["arrival_ns"].transform("min")
    frame = pd.DataFrame(
        {
            "rank": calls["rank"],
            "start_ns": calls["arrival_ns"],
            "end_ns": calls["end_ns"],
            "lag_ns": calls["arrival_ns"] - first,
            "last": calls["rank"] == calls["last_rank"],
        }
    ).sort_values(["rank", "start_ns"], ignore_index=True)
    residual_ns = drift_fit(traces).residual_ns
    frame.attrs = {"note": calls.attrs.get("note", ""), "residual_ns": residual_ns}
    return frame


def _bandwidth(traces: TraceSet) -> pd.DataFrame:
    calls = analysis.collectives(traces, clock="fitted")
    # One row per collective: that of the last rank, or of one of the ranks that are last together.
    last = calls.loc[calls.groupby("collective")["arrival_ns"].idxmax()]
    timed = last[last["busbw_gb_s"].notna()]
    key = ["operation", "size_bytes", "ranks"]
    spent = timed.groupby(key, observed=True)["transfer_ns"].transform("sum")
    timed = timed.assign(spent=spent).sort_values(["spent", *key, "arrival_ns"], ascending=False)
    group = timed.groupby(key, observed=True, sort=False).ngroup()
    frame = timed[group < MAX_BARS][[*key, "arrival_ns", "end_ns", "busbw_gb_s"]]
    frame = frame.rename(columns={"arrival_ns": "start_ns"}).reset_index(drop=True)
    frame["operation"] = frame["operation"].astype(str)
    frame.attrs = {
        "others": max(int(group.max()) + 1 - MAX_BARS, 0) if len(group) else 0,
        "note": calls.attrs.get("note", ""),
    }
    return frame


def _clusters(traces: TraceSet) -> pd.DataFrame:
    ranks = analysis.rank_clusters(traces)
    means = [
        *("step_ns", "compute_ns", "idle_ns"),
        *("exposed_communication_ns", "exposed_wait_ns", "unmatched_exposed_ns"),
    ]
    groups = ranks.groupby("cluster", sort=True)
    frame = groups[means].mean().reset_index(drop=True)
    members = [sorted(ranks) for ranks in groups["rank"].agg(list)]
    frame["label"] = [rank_list(ranks, len(ranks)) for ranks in members]
    frame["members"] = [",".join(map(str, ranks)) for ranks in members]
    frame["ranks"] = [len(ranks) for ranks in members]
    frame["spread"] = (
        groups["compute_ns"].agg(lambda times: times.max() / max(times.min(), 1) - 1).array
    )
    frame["why"] = [
        next((text for text in reasons if text), "") for reasons in groups["why"].agg(list)
    ]
    frame.attrs = {"note": ranks.attrs.get("note", "")}
    return frame


def _clocks(traces: TraceSet) -> pd.DataFrame:
    frame = analysis.clock_offsets(traces)
    frame.attrs = {"note": frame.attrs.get("note", "")}
    return frame


def _memory(traces: TraceSet) -> pd.DataFrame:
    events = analysis.memory_events(traces)
    groups = events.groupby(["rank", "device"], observed=True)
    totals = groups[["total_allocated_bytes", "total_reserved_bytes", "running_bytes"]].max()
    frame = totals.assign(count=groups.size()).reset_index()
    frame["device"] = frame["device"].astype(str)
    frame.attrs = {"note": events.attrs.get("note", "")}
    return frame


def _launch_outliers(traces: TraceSet) -> pd.DataFrame:
    rows = analysis.launch_outliers(traces)
    sums = rows.groupby(["outlier", "kernel"], observed=True)[["count", "launches"]].sum()
    frame = sums.reset_index().sort_values(
        ["count", "outlier", "kernel"], ascending=[False, True, True]
    )
    frame = frame.assign(outlier=frame["outlier"].astype(str), kernel=frame["kernel"].astype(str))
    shown = _first_rows(frame, rows)
    return shown.assign(short=[short_name(name) for name in shown["kernel"]])


def _messages(traces: TraceSet) -> pd.DataFrame:
    """Return one row per sender and receiver.

    An all-to-all whose splits are not in the file sends equal shares to its members.
    """
    match = matching(traces)
    operation, size = match.event_field("operation"), np.maximum(match.event_field("size_bytes"), 0)
    source, target = match.event_field("source"), match.event_field("target")
    rank = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    first = np.zeros(len(match), dtype=bool)
    first[match.starts] = True
    is_message = (operation == _SEND_RECV) & (source >= 0) & (target >= 0) & first
    blocks = [pd.DataFrame({"rank": source, "peer": target, "bytes": size})[is_message]]
    blocks += map(batched_sends, traces.values())
    matrix = analysis.all_to_all_matrix(traces)
    is_exact = len(matrix) > 0 and not matrix.attrs["unknown"]
    shares = pd.DataFrame({"of": match.collective, "rank": rank, "bytes": size})
    shares = shares[operation == _ALL_TO_ALL]
    pairs = shares.merge(shares[["of", "rank"]].rename(columns={"rank": "peer"}), on="of")
    pairs["bytes"] //= pairs.groupby(["of", "rank"])["peer"].transform("size").clip(lower=1)
    blocks.append(pairs[["rank", "peer", "bytes"]][: 0 if is_exact else None])
    messages = pd.concat(blocks).assign(count=1)
    if is_exact:
        split = matrix.rename(columns={"sender": "rank", "receiver": "peer"})
        messages = pd.concat([messages, split[["rank", "peer", "bytes", "count"]]])
    messages = messages[messages["rank"] != messages["peer"]]
    frame: pd.DataFrame = messages.groupby(["rank", "peer"])[["count", "bytes"]].sum().reset_index()
    frame.attrs = {
        "note": "" if len(frame) else "no sends between ranks, and no all-to-all",
        "even": int(not is_exact),
    }
    return frame


@dataclass(frozen=True, slots=True)
class _Paths:
    """The distinct call paths of one rank's operators; parents come before children."""

    rows: Rows  # the operators
    path: Ints  # by operator; -1 after the last one, for none
    operator: Ints  # by event: the position in `rows` of its innermost operator, -1 for none
    parent: list[int] = field(default_factory=list)  # by path, -1 for none
    name: list[str] = field(default_factory=list)


def _paths(trace: Trace) -> _Paths:
    def derive() -> _Paths:
        tree = operator_tree(trace)
        names = trace.table.name[tree.rows]
        path = np.full(len(tree.rows) + 1, -1, dtype=np.int64)
        paths = _Paths(tree.rows, path, tree.innermost)
        for members in tree.forest.levels:
            key = (path[tree.forest.parent[members]] + 1) * len(trace.table.names) + names[members]
            pairs, code = np.unique(key, return_inverse=True)
            path[members] = len(paths.name) + code
            above, name = np.divmod(pairs, len(trace.table.names))
            paths.parent.extend((above - 1).tolist())
            paths.name.extend(trace.table.names[code] for code in name.tolist())
        return paths

    return memo(trace, "operator_paths", derive)


def _call_tree(
    traces: TraceSet, selection: Selection, _top: int | None, *, measure: str
) -> pd.DataFrame:
    """Return the bars of a flame graph: operators by call path, summed over the selected ranks."""
    window = Selection(ranks=selection.ranks, start_ns=selection.start_ns, end_ns=selection.end_ns)
    parent: list[int] = []
    name: list[str] = []
    sums: list[list[int]] = []  # calls, host time, and device time with callees
    numbers: dict[tuple[int, str], int] = {}  # by number of the caller, and name
    work_ns, outside_ns = 0, 0
    for part in rank_parts(traces, window):
        paths = _paths(part.trace)
        size = len(paths.name)
        is_selected = part.contains(paths.rows)
        path, work = paths.path[:-1][is_selected], part.device_work_rows()
        work = work[part.table.stream[work] >= 0]
        path_of_work = paths.path[paths.operator[part.trace.launch_of[work]]]
        has_path = path_of_work >= 0
        work_dur = part.durations(work)
        work_ns += int(work_dur.sum())
        outside_ns += int(work_dur[~has_path].sum())
        values = np.zeros((size, 3), dtype=np.int64)
        np.add.at(values[:, 0], path, 1)
        np.add.at(values[:, 1], path, part.durations(paths.rows[is_selected]))
        np.add.at(values[:, 2], path_of_work[has_path], work_dur[has_path])
        for index in range(size - 1, -1, -1):
            if paths.parent[index] >= 0:
                values[paths.parent[index], 2] += values[index, 2]
        places: list[int] = []
        for index, (above, path_name) in enumerate(zip(paths.parent, paths.name, strict=True)):
            key = (places[above] if above >= 0 else -1, path_name)
            if key not in numbers:
                numbers[key] = len(name)
                parent.append(key[0])
                name.append(path_name)
                sums.append([0, 0, 0])
            places.append(numbers[key])
            both = zip(sums[places[index]], values[index].tolist(), strict=True)
            sums[places[index]] = [value + other for value, other in both]
    if measure == "host":
        return _flame_bars(parent, name, sums, 1)
    bars = _flame_bars(parent, name, sums, 2)
    bars.attrs["outside"] = outside_ns / max(work_ns, 1)
    return bars


def _flame_bars(parent: list[int], name: list[str], sums: list[list[int]], by: int) -> pd.DataFrame:
    """Lay out call paths as bars: children below their parent, the longest first."""
    children: dict[int, list[int]] = {}
    for index, above in enumerate(parent):
        children.setdefault(above, []).append(index)
    total = sum(sums[index][by] for index in children.get(-1, ()))
    rows, left_out = [], 0
    below = [(-1, 0, 0)]
    while below:
        above, depth, left = below.pop(0)
        callees = [index for index in children.get(above, ()) if sums[index][by] > 0]
        for index in sorted(callees, key=lambda callee: (-sums[callee][by], name[callee])):
            value = sums[index][by]
            if value < total * MIN_SHARE:
                left_out += 1
                continue
            inner = sum(sums[child][by] for child in children.get(index, ()))
            rows.append(
                (depth, name[index], left, left + value, max(value - inner, 0), *sums[index])
            )
            below.append((index, depth + 1, left))
            left += value
    columns = ("depth", "name", "left_ns", "right_ns", "own_ns", "count", "host_ns", "device_ns")
    frame = pd.DataFrame(rows, columns=columns)
    frame.insert(2, "short", [short_name(full_name) for full_name in frame["name"]])
    frame.attrs = {"left_out": left_out}
    if not rows:
        frame.attrs["note"] = note_text("no_operators_selected" if name else "no_operators")
    return frame


def _first_rows_of(
    make: Callable[[TraceSet], pd.DataFrame], limit: int = MAX_BARS
) -> Callable[[TraceSet], pd.DataFrame]:
    """Return a function of the first rows of a frame, with all of the frame's attributes."""

    def first_rows(traces: TraceSet) -> pd.DataFrame:
        rows = make(traces)
        shown = _first_rows(rows, rows, limit)
        shown.attrs |= rows.attrs
        return shown

    return first_rows


def _serving(traces: TraceSet) -> pd.DataFrame:
    steps = analysis.serving_steps(traces)
    on_device = steps["device_span_ns"] > 0
    start_ns = steps["device_start_ns"].where(on_device, steps["start_ns"])
    time_ns = steps["device_span_ns"].where(on_device, steps["host_ns"])
    frame = steps.assign(start_ns=start_ns, end_ns=start_ns + time_ns, time_ns=time_ns)
    frame["phase"] = frame["phase"].where(frame["phase"] != "", frame["engine"])
    frame.attrs = {"note": steps.attrs.get("note", "")}
    if "all" in (rates := steps.attrs["tokens_per_s"]):
        frame.attrs["all_tokens_per_s"] = rates["all"]
    columns = ["rank", "step", "name", "phase", "tokens", "start_ns", "end_ns", "time_ns"]
    times = ["device_span_ns", "device_ns", "host_ns", "tokens_per_s"]
    return frame[[*columns, *times]]


def _pipeline(traces: TraceSet) -> pd.DataFrame:
    """Return the passes of a usual step of the pipeline with the largest bubble."""
    bubbles, passes = analysis.pipeline_bubbles(traces), analysis.pipeline_passes(traces)
    shares = bubbles.groupby("pipeline")["bubble_share"].mean()
    is_largest = bubbles["pipeline"] == (shares.idxmax() if len(shares) else "")
    by_step = bubbles[is_largest].groupby("step")["bubble_share"].mean().sort_values()
    step = by_step.index[len(by_step) // 2] if len(by_step) else -1
    pipeline = bubbles["pipeline"][is_largest].head(1).sum()
    frame = passes[(passes["pipeline"] == pipeline) & (passes["step"] == step)]
    of_rank = bubbles[is_largest].groupby("rank")["bubble_share"].mean()
    frame = frame.assign(share=frame["rank"].map(of_rank)).drop(columns="pipeline")
    frame["direction"] = frame["direction"].astype(str)
    frame.attrs = {
        "note": passes.attrs.get("note", ""),
        "steps": len(by_step),
        "others": max(len(shares) - 1, 0),
    }
    if len(of_rank):
        frame.attrs["bubble_share"] = float(of_rank.mean())
    return frame.reset_index(drop=True)


#: The functions of frames of the whole job: panels with ``"added": "job"`` in the catalogue.
WHOLE_JOB_FRAMES: Mapping[str, Callable[[TraceSet], pd.DataFrame]] = {
    "critical_path": _critical_path,
    "arrivals": _arrivals,
    "bandwidth": _bandwidth,
    "clusters": _clusters,
    "clocks": _clocks,
    "memory": _memory,
    "launch_outliers": _launch_outliers,
    "messages": _messages,
    "roofline": _first_rows_of(operator_savings, MAX_MARKS),
    "layers": layers,
    "serving": _serving,
    "pipeline": _pipeline,
    "kernel_details": _first_rows_of(kernel_geometry),
    "fusion_candidates": _first_rows_of(fusion_chains),
    **GROUPED_FRAMES,
}


#: Panels whose frames take seconds in jobs of many ranks. Saved pages of more ranks than
#: `_MAX_SLOW_RANKS` have these frames only if the panels are shown.
_SLOW_PANELS = (
    *("critical_path", "memory", "roofline", "layers"),
    *("pipeline", "kernel_details", "fusion_candidates", *GROUPED_FRAMES),
)
_MAX_SLOW_RANKS = 16


def is_kept_in_pages(panel: str, traces: TraceSet, shown: Sequence[str]) -> bool:
    """Return whether a saved page has the frame of a panel of the whole job."""
    return panel not in _SLOW_PANELS or panel in shown or len(traces) <= _MAX_SLOW_RANKS


def whole_job_frame(traces: TraceSet, panel: str) -> pd.DataFrame:
    """Return the frame of a panel of the whole job, cached for all selections."""

    def derive() -> pd.DataFrame:
        try:
            return WHOLE_JOB_FRAMES[panel](traces)
        except TraceError as error:
            frame = pd.DataFrame()
            frame.attrs["note"] = str(error)
            return frame

    return memo(traces, ("panel", panel), derive)


def _frame_in_window(
    traces: TraceSet, selection: Selection, _top: int | None, *, panel: str
) -> pd.DataFrame:
    """Return the rows that overlap the window, as saved pages do."""
    frame = whole_job_frame(traces, panel)
    rows = frame.reset_index(drop=True)
    if "start_ns" in frame:
        start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
        is_inside = overlaps_window(start, end, selection.start_ns, selection.end_ns)
        rows = frame[is_inside].reset_index(drop=True)
    rows.attrs = dict(frame.attrs)
    return rows


#: The functions of the frames of added panels, by id.
SELECTION_FRAMES: dict[str, Callable[[TraceSet, Selection, int | None], pd.DataFrame]] = {
    "call_tree": partial(_call_tree, measure="host"),
    "call_tree_device": partial(_call_tree, measure="device"),
    **{panel: partial(_frame_in_window, panel=panel) for panel in WHOLE_JOB_FRAMES},
}


def without_data(traces: TraceSet, scene: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the added panels that would be empty, by reason; `scene` is the job's."""
    roles = {row["role"] for rank in scene["ranks"] for row in rank["summary"]}
    names = {name.lower() for trace in traces.values() for name in trace.table.names.values}

    def has_word(*words: str) -> bool:
        return any(word in name for name in names for word in words)

    missing: dict[str, list[str]] = {}
    if not roles - {"cpu"}:
        missing["no GPU work"] = ["critical_path", "call_tree_device", "launch_outliers"]
    if len(traces) == 1:
        missing["one rank"] = ["arrivals", "bandwidth", "clusters", "clocks", "messages"]
    elif "comm" not in roles and not has_word("gloo:", "mpi:", "ucc:"):
        missing["no communication kernels"] = ["arrivals", "bandwidth", "clocks", "messages"]
    elif not has_word("send", "recv", "alltoall", "all_to_all"):
        missing["no sends between ranks"] = ["messages"]
    if not any(pipelines(traces).values()):
        missing["no group of ranks is a pipeline"] = ["pipeline"]
    if not has_word("[memory]"):
        missing["no memory events: profile_memory=True records them"] = ["memory"]
    if not has_word("execute_context", "execute_diffusion", "step[", "decode[", "prefill["):
        missing["no steps of an inference engine"] = ["serving"]
    if not has_layers(traces):
        missing["no modules: with_stack=True records them"] = ["layers"]
    if not roles - {"cpu"}:
        missing["no GPU work"] += ["roofline", "kernel_details", "fusion_candidates"]
    elif not has_shapes(next(iter(traces.values()))):
        without = ["roofline", "fusion_candidates"]
        missing["no shapes: record_shapes=True records them"] = without
    return missing
