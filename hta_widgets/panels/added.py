"""Frames of panels that users add. Most frames cover the whole job and are in saved pages too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.clock_fit import drift_fit
from hta_widgets.analysis.cross_rank.comm_events import OPERATIONS, batched_sends
from hta_widgets.analysis.cross_rank.matching import Matching, matching
from hta_widgets.analysis.cross_rank.parallel_groups import pipelines
from hta_widgets.analysis.efficiency.call_efficiency import has_shapes
from hta_widgets.analysis.efficiency.modules import has_module_ranges
from hta_widgets.analysis.frames import text_column
from hta_widgets.errors import TraceError
from hta_widgets.panels.call_tree import call_tree
from hta_widgets.panels.groupings import GROUPED_FRAMES
from hta_widgets.panels.layers import layers
from hta_widgets.panels.savings import operator_savings
from hta_widgets.text import rank_list
from hta_widgets.trace.conditions import overlaps_window
from hta_widgets.trace.memo import memo
from hta_widgets.trace.names import short_name, short_operator
from hta_widgets.trace.traceset import Selection, TraceSet

#: Maximum number of bars in a chart, and of marks in the roofline.
MAX_BARS, MAX_MARKS = 12, 40
_SEND_RECV = OPERATIONS.index("send_recv")
_ALL_TO_ALL = OPERATIONS.index("all_to_all")
#: Display names for the values of ``bound_by`` of critical paths.
_PATH_CAUSES = {
    "cpu_bound": "host", "data_loading": "data loading", "gpu_compute_bound": "compute",
    "gpu_communication_bound": "communication", "gpu_memory_bound": "copies",
    "gpu_kernel_kernel_overhead": "between kernels", "gpu_kernel_launch_overhead": "launch",
    "cpu_outside_operators": "host, no operator", "cpu_blocked": "host blocked",
    "gpu_queue_wait": "queue wait", "sync_overhead": "synchronization",
    "unknown_wait": "unknown wait", "outside_path": "nothing recorded",
}  # fmt: skip


def path_cause_text(bound: str) -> str:
    """Return the display name of what limits a segment of the critical path."""
    return _PATH_CAUSES.get(bound, bound.replace("_", " "))


def _critical_path(traces: TraceSet) -> pd.DataFrame:
    window = traces.start_ns, traces.end_ns
    path = analysis.job_critical_path(traces, annotation="", window=window)
    summary = analysis.job_path_summary(path)
    causes = text_column(path_cause_text(str(bound)) for bound in summary["bound_by"])
    frame = summary[["rank", "count", "dur_ns", "share"]].assign(cause=causes)
    return _first_rows(frame[summary["bound_by"] != "outside_path"], path)


def _first_rows(frame: pd.DataFrame, source: pd.DataFrame, limit: int = MAX_BARS) -> pd.DataFrame:
    """Return the first rows of a frame, with the number of omitted rows and the source's note."""
    shown = frame.head(limit).reset_index(drop=True)
    shown.attrs = {"others": len(frame) - len(shown), "note": source.attrs.get("note", "")}
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
    # Each collective is represented by the last rank to arrive.
    last = calls.loc[calls.groupby("collective")["arrival_ns"].idxmax()]
    timed = last[last["busbw_gb_s"].notna()]
    key = ["operation", "size_bytes", "ranks"]
    total_ns = timed.groupby(key, observed=True)["transfer_ns"].transform("sum")
    timed = timed.assign(total_ns=total_ns)
    timed = timed.sort_values(["total_ns", *key, "arrival_ns"], ascending=False)
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
    members = [sorted(ranks_of_group) for ranks_of_group in groups["rank"].agg(list)]
    frame["label"] = text_column(rank_list(group, len(group)) for group in members)
    frame["members"] = text_column(",".join(map(str, group)) for group in members)
    frame["ranks"] = groups.size().array
    compute_ns = groups["compute_ns"]
    frame["spread"] = (compute_ns.max() / compute_ns.min().clip(lower=1) - 1).array
    frame["why"] = text_column(
        next((text for text in reasons if text), "") for reasons in groups["why"].agg(list)
    )
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
    return shown.assign(short=text_column(map(short_name, shown["kernel"])))


def _messages(traces: TraceSet) -> pd.DataFrame:
    """Return the bytes and number of messages for each pair of sender and receiver.

    If the splits of an all-to-all are unknown, each rank is assumed to send equal shares to all
    ranks of the group. The attr ``even`` is then 1.
    """
    match = matching(traces)
    sends = [_matched_sends(match), *map(batched_sends, traces.values())]
    matrix = analysis.all_to_all_matrix(traces)
    has_splits = len(matrix) > 0 and not matrix.attrs["unknown"]
    if has_splits:
        columns = {"sender": "rank", "receiver": "peer"}
        all_to_alls = matrix.rename(columns=columns)[["rank", "peer", "bytes", "count"]]
    else:
        all_to_alls = _even_shares(match)
    messages = pd.concat([*(frame.assign(count=1) for frame in sends), all_to_alls])
    messages = messages[messages["rank"] != messages["peer"]]
    frame: pd.DataFrame = messages.groupby(["rank", "peer"])[["count", "bytes"]].sum().reset_index()
    frame.attrs = {
        "note": "" if len(frame) else "no sends between ranks and no all-to-all",
        "even": int(not has_splits),
    }
    return frame


def _matched_sends(match: Matching) -> pd.DataFrame:
    source, target = match.event_field("source"), match.event_field("target")
    # The sender's and the receiver's entry count as one message.
    is_first_entry = np.zeros(len(match), dtype=bool)
    is_first_entry[match.starts] = True
    is_send = match.event_field("operation") == _SEND_RECV
    is_message = is_first_entry & is_send & (source >= 0) & (target >= 0)
    size_bytes = np.maximum(match.event_field("size_bytes"), 0)
    sends = pd.DataFrame({"rank": source, "peer": target, "bytes": size_bytes})
    messages: pd.DataFrame = sends[is_message]
    return messages


def _even_shares(match: Matching) -> pd.DataFrame:
    """Return, for each all-to-all, equally large messages between all of its ranks."""
    rank = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    size_bytes = np.maximum(match.event_field("size_bytes"), 0)
    calls = pd.DataFrame({"collective": match.collective, "rank": rank, "bytes": size_bytes})
    calls = calls[match.event_field("operation") == _ALL_TO_ALL]
    members = calls[["collective", "rank"]].rename(columns={"rank": "peer"})
    pairs: pd.DataFrame = calls.merge(members, on="collective")
    pairs["bytes"] //= pairs.groupby(["collective", "rank"])["peer"].transform("size").clip(lower=1)
    return pairs[["rank", "peer", "bytes"]].assign(count=1)


def _first_rows_of(
    make: Callable[[TraceSet], pd.DataFrame], limit: int = MAX_BARS
) -> Callable[[TraceSet], pd.DataFrame]:
    """Return a function that makes the first rows of a frame and keeps the frame's attributes."""

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
    """Return the passes of the pipeline with the largest bubble, in its median step."""
    bubbles, passes = analysis.pipeline_bubbles(traces), analysis.pipeline_passes(traces)
    shares = bubbles.groupby("pipeline")["bubble_share"].mean()
    pipeline = shares.idxmax() if len(shares) else ""
    bubbles = bubbles[bubbles["pipeline"] == pipeline]
    by_step = bubbles.groupby("step")["bubble_share"].mean().sort_values()
    step = by_step.index[len(by_step) // 2] if len(by_step) else -1
    frame = passes[(passes["pipeline"] == pipeline) & (passes["step"] == step)]
    by_rank = bubbles.groupby("rank")["bubble_share"].mean()
    frame = frame.assign(share=frame["rank"].map(by_rank)).drop(columns="pipeline")
    frame["direction"] = frame["direction"].astype(str)
    frame.attrs = {
        "note": passes.attrs.get("note", ""),
        "steps": len(by_step),
        "others": max(len(shares) - 1, 0),
    }
    if len(by_rank):
        frame.attrs["bubble_share"] = float(by_rank.mean())
    return frame.reset_index(drop=True)


def _kernel_geometry(traces: TraceSet) -> pd.DataFrame:
    """Return how well kernels fill the device, averaged over ranks, most time first."""
    rows = analysis.kernel_details(traces)
    rows = rows.assign(name=rows["name"].astype(str))
    groups = rows.groupby("name", sort=False)
    frame = groups[["count", "sum_ns"]].sum()
    for column in ("blocks_per_sm", "occupancy_share", "registers"):
        # The mean is weighted by time. Negative and missing values count as unknown.
        values = rows[column].astype("float64")
        known = rows[values.between(0, np.inf, inclusive="left")]
        known = known.assign(weighted=values * known["sum_ns"])
        sums = known.groupby("name", sort=False)[["weighted", "sum_ns"]].sum()
        frame[column] = sums["weighted"] / sums["sum_ns"].where(sums["sum_ns"] > 0)
    frame["registers"] = frame["registers"].round()
    first = groups[["tensor_core", "precision"]].first()
    frame["tensor_core"] = first["tensor_core"].astype(str)
    frame["precision"] = first["precision"].astype(str)
    ranks = max(rows["rank"].nunique(), 1)
    frame[["count", "sum_ns"]] //= ranks
    frame = frame.sort_values(["sum_ns", "count"], ascending=False).reset_index()
    frame.insert(1, "short", text_column(map(short_name, frame["name"])))
    frame.attrs = {"ranks": ranks, "note": rows.attrs.get("note", "")}
    for name in ("tensor_core_share", "short_kernels"):
        if np.isfinite(value := rows.attrs.get(name, np.nan)):
            frame.attrs[name] = value
    return frame


def _fusion_chains(traces: TraceSet) -> pd.DataFrame:
    """Return chains of pointwise operators, averaged over ranks, most saved bytes first."""
    rows = analysis.fusion_candidates(traces)
    groups = rows.groupby(["operators", "shape", "length"], sort=False)
    columns = ["count", "device_ns", "total_saved_bytes", "saving_ns"]
    frame = groups[columns].sum() // max(rows["rank"].nunique(), 1)
    frame = frame.sort_values(["total_saved_bytes", "device_ns"], ascending=False).reset_index()
    frame["short"] = text_column(
        " → ".join(map(short_operator, operators.split(" → "))) for operators in frame["operators"]
    )
    frame.attrs = {"ranks": rows["rank"].nunique(), "note": rows.attrs.get("note", "")}
    return frame


#: Functions that make the frames of the whole job, for panels with ``"added": "job"``.
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
    "kernel_details": _first_rows_of(_kernel_geometry),
    "fusion_candidates": _first_rows_of(_fusion_chains),
    **GROUPED_FRAMES,
}


#: Panels whose frames take seconds for jobs of many ranks. Saved pages of jobs with more than
#: `_MAX_SLOW_RANKS` ranks contain these frames only if the panels are shown.
_SLOW_PANELS = (
    *("critical_path", "memory", "roofline", "layers"),
    *("pipeline", "kernel_details", "fusion_candidates", *GROUPED_FRAMES),
)
_MAX_SLOW_RANKS = 16


def is_kept_in_pages(panel: str, traces: TraceSet, shown: Sequence[str]) -> bool:
    """Return whether a saved page contains the frame of a whole-job panel."""
    return panel not in _SLOW_PANELS or panel in shown or len(traces) <= _MAX_SLOW_RANKS


def whole_job_frame(traces: TraceSet, panel: str) -> pd.DataFrame:
    """Return the frame of a whole-job panel; it is computed only once."""

    def derive() -> pd.DataFrame:
        try:
            return WHOLE_JOB_FRAMES[panel](traces)
        except TraceError as error:
            frame = pd.DataFrame()
            frame.attrs["note"] = str(error)
            return frame

    return memo(traces, ("panel", panel, traces.clock), derive)


def _frame_in_window(
    traces: TraceSet, selection: Selection, _top: int | None, *, panel: str
) -> pd.DataFrame:
    """Return the rows of a whole-job panel that overlap the window, as in saved pages."""
    frame = whole_job_frame(traces, panel)
    if "start_ns" in frame:
        start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
        frame = frame[overlaps_window(start, end, selection.start_ns, selection.end_ns)]
    return frame.reset_index(drop=True)


#: Functions that make the frames of added panels, keyed by panel id.
SELECTION_FRAMES: dict[str, Callable[[TraceSet, Selection, int | None], pd.DataFrame]] = {
    "call_tree": partial(call_tree, measure="host"),
    "call_tree_device": partial(call_tree, measure="device"),
    **{panel: partial(_frame_in_window, panel=panel) for panel in WHOLE_JOB_FRAMES},
}


def without_data(traces: TraceSet, scene: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the added panels that would be empty, keyed by reason."""
    roles = {row["role"] for rank in scene["ranks"] for row in rank["summary"]}
    has_device_work = bool(roles - {"cpu"})
    names = {name.lower() for trace in traces.values() for name in trace.table.names.values}

    def has_word(*words: str) -> bool:
        return any(word in name for name in names for word in words)

    missing: dict[str, list[str]] = {}
    if not has_device_work:
        missing["no GPU work"] = [
            *("critical_path", "call_tree_device", "launch_outliers", "roofline"),
            *("kernel_details", "fusion_candidates"),
        ]
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
    if not any(map(has_module_ranges, traces.values())):
        missing["no modules: with_stack=True records them"] = ["layers"]
    if has_device_work and not has_shapes(next(iter(traces.values()))):
        missing["no shapes: record_shapes=True records them"] = ["roofline", "fusion_candidates"]
    return missing
