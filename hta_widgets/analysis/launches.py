"""Launches, their delays, inefficient launches, and launches of CUDA and HIP graphs.

Launched work starts after a delay. For example, a call from 10 to 15 ns whose kernel starts at 22
ns has a launch delay of 7 ns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import (
    categorical,
    columns_of_rows,
    int64,
    result_frame,
    stack_blocks,
)
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import prelaunched_note
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    Window,
    count_by_kind,
    rank_parts,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace import graph_captures
from hta_widgets.trace.arrays import Ints, Rows, stable_order
from hta_widgets.trace.event_columns import drop_unused_texts
from hta_widgets.trace.traceset import Selection, TraceSet

_OUTLIERS = ("short kernel", "long call", "late start")
_REPLAYS_SCHEMA: Final = {
    **dict.fromkeys(("rank", "graph", "launch_id", "kernels", "matched"), "int64"),
    "matched_share": "float64",
    **dict.fromkeys(("certainty", "capture"), "str"),
    "replays": "int64",
}


@check_arguments
def launch_stats(
    traces: TraceSet,
    *,
    include_memory: bool = True,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return every launch with the device work that it launched, and their durations.

    The launch calls of all vendors are included: runtime and driver calls that launch kernels,
    copies, fills, cooperative kernels or graphs. A graph launch has one row per launched event. Of
    several calls with the same id, the innermost counts. A window does not clip durations.

    Parameters
    ----------
    traces : TraceSet
    include_memory : bool, default True
        Whether to include copies and fills.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The device events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per launch and device event, ordered by rank and the start of the call:

        - ``rank, correlation`` (int64; -1 if the file links by other means)
        - ``kernel`` (the full name), ``kind``, ``launch`` (name of the call): categorical
        - ``stream`` (int64)
        - ``cpu_dur_ns, gpu_dur_ns`` (int64): durations of the call and of the device event
        - ``launch_delay_ns`` (int64): from the end of the call to the start of the device event; 0
          if that starts earlier
        - ``launch_id, kernel_id`` (int64): the two events

        ``.attrs["unlaunched"]`` counts selected device work whose launch is not in the files.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    kinds = DEVICE_WORK_KINDS if include_memory else DEVICE_WORK_KINDS[:2]
    results = list(map_ranks(chosen, _launches_of_rank, kinds))
    schema = {
        **int64("rank correlation"), "kernel": "category", "kind": "int64", "launch": "category",
        **int64("stream cpu_dur_ns gpu_dur_ns launch_delay_ns launch_id kernel_id"),
    }  # fmt: skip
    column = stack_blocks([columns for columns, _ in results], schema)
    column["kind"] = categorical(column["kind"], KINDS)
    return result_frame(
        column,
        matched={**count_by_kind(chosen, kinds), "launched": len(column["rank"])},
        note=prelaunched_note(chosen) if len(column["rank"]) else note_text("no_launches"),
        unlaunched=sum(unlaunched for _, unlaunched in results),
    )


def launch_pairs(part: RankPart, work: Rows) -> tuple[Ints, Rows, int]:
    """Return the launch calls, the device work of each, and the number of events without one."""
    call = part.trace.launch_of[work]
    is_launched = call >= 0
    return call[is_launched], work[is_launched], int(len(work) - is_launched.sum())


def _launches_of_rank(part: RankPart, kinds: Sequence[str]) -> tuple[dict[str, Any], int]:
    table = part.table
    call, work, unlaunched = launch_pairs(part, part.rows_of_kinds(*kinds))
    order = stable_order(call)
    call, work = call[order], work[order]
    call_end = table.start_ns[call] + table.dur_ns[call]
    columns = {
        "rank": part.rank,
        "correlation": table.correlation[work],
        "kernel": drop_unused_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "launch": drop_unused_texts(table.name[call], table.names),
        "stream": table.stream[work],
        "cpu_dur_ns": table.dur_ns[call],
        "gpu_dur_ns": table.dur_ns[work],
        "launch_delay_ns": np.maximum(table.start_ns[work] - call_end, 0),
        "launch_id": call,
        "kernel_id": work,
    }
    return columns, unlaunched


@check_arguments
def launch_outliers(
    traces: TraceSet,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    include_memory: bool = True,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the number of inefficient launches of each kernel.

    There are three kinds of outliers, and a launch may be of several kinds:

    - ``short kernel``: the call takes at most `runtime_cutoff_ns`, and the kernel takes less time
      than the call
    - ``long call``: the call takes more than `runtime_cutoff_ns`
    - ``late start``: the kernel starts more than `launch_delay_cutoff_ns` after the end of the call

    A call that launches several events counts once: for its first event, with the duration of all.

    Parameters
    ----------
    traces : TraceSet
    runtime_cutoff_ns : int, default 50 000
    launch_delay_cutoff_ns : int, default 100 000
    include_memory : bool, default True
        Whether to include copies and fills.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank, outlier and kernel, ordered by rank and outlier, most frequent first:
        ``rank, outlier, kernel`` (the latter two categorical), ``count`` and ``launches`` (int64:
        outliers, and all launches of the kernel), ``share`` (``count / launches``), ``cpu_sum_ns,
        gpu_sum_ns, launch_delay_sum_ns`` (int64, of the outliers).
    """
    events = launch_stats(
        traces, include_memory=include_memory, selection=selection, window=window, ranks=ranks
    )
    stats = _first_event_of_calls(events)
    call_ns, kernel_ns = stats["cpu_dur_ns"], stats["gpu_dur_ns"]
    masks = (
        (call_ns <= runtime_cutoff_ns) & (kernel_ns < call_ns),
        call_ns > runtime_cutoff_ns,
        stats["launch_delay_ns"] > launch_delay_cutoff_ns,
    )
    outliers = _outliers_by_kernel(stats, masks)
    columns = ("count", "launches", "share", "cpu_sum_ns", "gpu_sum_ns", "launch_delay_sum_ns")
    note = events.attrs.get("note", "")
    if len(stats) and not len(outliers):
        note = "no launch stands out"
    return result_frame(
        {
            "rank": outliers["rank"],
            "outlier": categorical(outliers["outlier"].to_numpy(), _OUTLIERS),
            "kernel": outliers["kernel"],
            **{name: outliers[name] for name in columns},
        },
        matched={
            **events.attrs["matched"],
            **{name: int(mask.sum()) for name, mask in zip(_OUTLIERS, masks, strict=True)},
        },
        note=note,
        unlaunched=events.attrs["unlaunched"],
    )


def _outliers_by_kernel(stats: pd.DataFrame, masks: Sequence[pd.Series[bool]]) -> pd.DataFrame:
    stacked = pd.concat([stats[mask].assign(outlier=code) for code, mask in enumerate(masks)])
    outliers = stacked.groupby(["rank", "outlier", "kernel"], observed=True).agg(
        count=("kernel_id", "size"),
        cpu_sum_ns=("cpu_dur_ns", "sum"),
        gpu_sum_ns=("gpu_dur_ns", "sum"),
        launch_delay_sum_ns=("launch_delay_ns", "sum"),
    )
    launches = stats.groupby(["rank", "kernel"], observed=True).size().rename("launches")
    outliers = outliers.reset_index().merge(launches.reset_index(), on=["rank", "kernel"])
    outliers["share"] = outliers["count"] / outliers["launches"]
    by = ["rank", "outlier", "count", "kernel"]
    return outliers.sort_values(by, ascending=[True, True, False, True], ignore_index=True)


def _first_event_of_calls(events: pd.DataFrame) -> pd.DataFrame:
    """Return the first event that each call launched, with the duration of all its events."""
    call = ["rank", "launch_id"]
    if not events.duplicated(call).any():
        return events
    sums = events.groupby(call)["gpu_dur_ns"].transform("sum")
    # Event ids are in the order of starts.
    first = events.assign(gpu_dur_ns=sums).sort_values([*call, "kernel_id"], kind="stable")
    return first.drop_duplicates(call)


@check_arguments
def graph_replays(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the launches of graphs, and how certain the operators of their kernels are.

    The operators come from the traces given as ``hw.load(replay, capture=...)``. A graph's kernels
    are compared with the launches that started no work while the graph was captured.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The launches, narrowed in time and to ranks; all by default.

    Returns
    -------
    DataFrame
        One row per rank and launch: ``graph``, a number by its kernels, ``launch_id``, ``kernels``,
        ``matched`` of them, ``matched_share``; ``replays``, launches of this graph on the rank;
        ``capture``, the annotation around the capture; and ``certainty``:

        - ``name``: same names in the same order
        - ``name-order``: the same number of each name, in another order, or equal graphs taken in
          turn
        - ``order``: the same number of calls, which do not name their kernels
        - ``partial``: the capture has calls that launched nothing
        - ``none``: no capture, fewer than 95 % match, or several captures fit
    """
    parts = rank_parts(traces, selection, window, ranks)
    rows = [row for rows_of_rank in map_ranks(parts, _replays_of_rank) for row in rows_of_rank]
    has_capture = any(trace.capture is not None for trace in parts.traces)
    note = "" if has_capture else "no capture: give hw.load the trace of the graph's capture"
    if not rows:
        note = "no graph was launched" if parts.traces else note_text("no_ranks")
    return result_frame(
        columns_of_rows(rows, _REPLAYS_SCHEMA), matched={"launches": len(rows)}, note=note
    )


def _replays_of_rank(part: RankPart) -> list[tuple[Any, ...]]:
    replays = graph_captures.graph_replays(part.trace)
    is_chosen = part.contains(np.array([replay.launch for replay in replays], dtype=np.int64))
    replays_of_graph = Counter(replay.graph for replay in replays)
    capture = part.trace.capture
    captures = graph_captures.captured_graphs(capture) if capture else []
    rows = []
    for replay in compress(replays, is_chosen):
        kernels, matched = len(replay.kernels), int((replay.calls >= 0).sum())
        identity = part.rank, replay.graph, replay.launch
        label = captures[replay.capture].label if replay.capture >= 0 else ""
        certainty = replay.certainty, label, replays_of_graph[replay.graph]
        rows.append((*identity, kernels, matched, matched / kernels, *certainty))
    return rows
