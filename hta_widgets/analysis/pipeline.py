"""Forward and backward passes of pipeline stages, and the bubbles between them.

Stages of a pipeline pass micro-batches on, so some wait while others compute. The *schedule* of a
step extends from the start of its first pass to the end of its last. The *bubble* of a stage is the
part of the schedule in which it runs no pass. For example, with two stages and one micro-batch::

    stage 0   F F . . . . B B B B
    stage 1   . . F F B B B B . .

The schedule takes 10, and each stage computes for 6, so its bubble is 4, or 40 %.

Work is backward if autograd launched it, including recomputation. Passes exclude the optimizer. A
pass ends where the other direction begins, where its result is sent, or where the stage waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import Clock, shared_clock
from hta_widgets.analysis.cross_rank.comm_events import OPERATIONS, comm_events, stated_rank
from hta_widgets.analysis.cross_rank.parallel_groups import pipelines
from hta_widgets.analysis.frames import categorical, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, RankParts, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import consecutive_runs, run_text
from hta_widgets.trace.arrays import Bools, Ints, Rows, edges_by_group
from hta_widgets.trace.host_stack import autograd_nodes, name_mask, nearest_ancestor, nested_parents
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, total_length, union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_COMPUTE: Final = KINDS.index("compute")
_SEND_RECV: Final = OPERATIONS.index("send_recv")
_DIRECTIONS: Final = ("forward", "backward")
_STAGE: Final = int64("rank step pipeline stage stages")
_TIMES: Final = "start_ns schedule_ns forward_ns backward_ns bubble_ns before_ns after_ns"
_NO_PIPELINE: Final = "no process group is a pipeline: parallel_groups lists them"
_NO_PASSES: Final = "no steps with forward and backward passes: record ProfilerStep ranges"


@check_arguments
def pipeline_bubbles(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each pipeline stage does not compute while a step's passes run.

    The schedule of a step extends from the first forward pass of any stage to the last end of a
    backward pass. The subsequent gradient reduction and optimizer are not part of it.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock on which stages are compared. Default: fitted, or the trace set's if no collective
        spans two ranks.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The kernels to analyze, restricted by time and ranks. Default: all. Schedules include all
        kernels of all stages, and are clipped to the window.

    Returns
    -------
    DataFrame
        One row per rank of a pipeline and step, in this order: ``rank, step``; ``pipeline`` (str),
        the ranks of the pipeline; ``stage, stages`` (int64), the rank's position in it, and the
        number of stages; ``start_ns, schedule_ns``, start and duration of the step's schedule;
        ``forward_ns, backward_ns``, the time during which the stage computes each; ``bubble_ns``,
        the rest of the schedule, and its parts ``before_ns`` before the stage's first pass and
        ``after_ns`` after its last; ``bubble_share`` (float64).

        ``.attrs``: ``bubble_share`` of all rows, None without rows; ``clock``.
    """
    job = _staged_job(clock, rank_parts(traces, selection, window, ranks))
    results = list(map_ranks(job.parts, _bubbles_of_rank, each=[*zip(job.schedules)]))
    columns = stack_blocks(results, _STAGE | int64(_TIMES) | {"bubble_share": "float64"})
    schedule_ns = int(columns["schedule_ns"].sum())
    share = float(columns["bubble_ns"].sum() / schedule_ns) if schedule_ns else None
    return _frame(job, columns, "steps", bubble_share=share)


@check_arguments
def pipeline_passes(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the forward and backward passes of each pipeline stage.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock on which stages are compared. Default: fitted, or the trace set's if no collective
        spans two ranks.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The kernels to analyze, restricted by time and ranks. Default: all. Passes are clipped to
        the window.

    Returns
    -------
    DataFrame
        One row per pass, ordered by rank and start: ``rank, step, pipeline, stage, stages`` as in
        `pipeline_bubbles`; ``direction``: ``forward`` or ``backward``; ``start_ns, end_ns``, from
        its first kernel to its last; ``compute_ns``, the part during which a kernel runs.
        Successive passes are one row if nothing is sent or waited for between them.

        ``.attrs``: ``clock``.
    """
    job = _staged_job(clock, rank_parts(traces, selection, window, ranks))
    results = list(map_ranks(job.parts, _passes_of_rank, each=[*zip(job.schedules)]))
    columns = stack_blocks(results, _STAGE | int64("direction start_ns end_ns compute_ns"))
    columns["direction"] = categorical(columns["direction"], _DIRECTIONS)
    return _frame(job, columns, "passes")


@dataclass(frozen=True, slots=True)
class _Schedules:
    """The schedules of a rank's steps, on the clock of its table."""

    ranks: tuple[int, ...]  # of the pipeline
    pipeline: int  # index of the pipeline
    steps: Ints
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, slots=True)
class _StagedJob:
    """The selected ranks in pipelines, each with the schedules of its steps."""

    parts: RankParts
    schedules: list[_Schedules]
    texts: list[str]  # the ranks of each pipeline as text
    clock: str
    has_pipelines: bool


def _staged_job(clock: Clock | None, chosen: RankParts) -> _StagedJob:
    traces = chosen.owner
    on_clock = traces.with_clock(clock or shared_clock(traces))
    pipeline_of = pipelines(traces)
    staged = [trace for trace in traces.values() if pipeline_of[trace.rank]]
    steps_of = _steps_of_pipelines(staged, pipeline_of, on_clock)
    number_of = {pipeline: number for number, pipeline in enumerate(steps_of)}
    members = [trace for trace in chosen.traces if pipeline_of[trace.rank] in steps_of]
    schedules = []
    for trace in members:
        pipeline = pipeline_of[trace.rank]
        steps, start, end = steps_of[pipeline]
        number, shift_ns = number_of[pipeline], on_clock[trace.rank].shift_ns
        schedules.append(_Schedules(pipeline, number, steps, start - shift_ns, end - shift_ns))
    texts = [
        ", ".join(run_text(run, "-") for run in consecutive_runs(pipeline)) for pipeline in steps_of
    ]
    parts = RankParts(members, chosen.selection, traces.executor)
    return _StagedJob(parts, schedules, texts, on_clock.clock, bool(staged))


def _steps_of_pipelines(
    staged: list[Trace], pipeline_of: dict[int, tuple[int, ...]], on_clock: TraceSet
) -> dict[tuple[int, ...], tuple[Ints, Ints, Ints]]:
    edges_of: dict[tuple[int, ...], list[tuple[Ints, Ints, Ints]]] = {}
    results = map_ranks(staged, _edges_of_steps, executor=on_clock.executor)
    for trace, (steps, start, end) in zip(staged, results, strict=True):
        shift_ns = on_clock[trace.rank].shift_ns
        on_job_clock = steps, start + shift_ns, end + shift_ns
        edges_of.setdefault(pipeline_of[trace.rank], []).append(on_job_clock)
    return {
        pipeline: edges_by_group(*(np.concatenate(column) for column in zip(*edges, strict=True)))
        for pipeline, edges in edges_of.items()
    }


def _frame(job: _StagedJob, columns: dict[str, Any], counted: str, **attrs: Any) -> pd.DataFrame:
    texts = [job.texts[number] for number in columns["pipeline"].tolist()]
    columns["pipeline"] = pd.array(texts, dtype="str")
    none = _NO_PASSES if job.has_pipelines else _NO_PIPELINE
    return result_frame(
        columns,
        matched={counted: len(columns["rank"])},
        note="" if len(columns["rank"]) else none,
        clock=job.clock,
        **attrs,
    )


def _edges_of_steps(trace: Trace) -> tuple[Ints, Ints, Ints]:
    rows, _ = _pass_kernels(trace)
    table = trace.table
    return edges_by_group(table.step[rows], table.start_ns[rows], table.end_ns[rows])


@memoize
def _pass_kernels(trace: Trace) -> tuple[Rows, Bools]:
    """Return the compute kernels of passes in steps, and whether each is backward."""
    table = trace.table
    is_optimizer = name_mask(trace, lambda name: name.startswith("Optimizer."))
    stops = autograd_nodes(trace) | is_optimizer
    above = nearest_ancestor(nested_parents(trace, stops), stops)
    is_kernel = (table.kind == _COMPUTE) & (table.stream >= 0) & (table.step >= 0)
    rows = np.flatnonzero(is_kernel & (trace.launch_of >= 0))
    cause = above[trace.launch_of[rows]]
    is_pass = (cause < 0) | ~is_optimizer[cause]
    return rows[is_pass], cause[is_pass] >= 0


def _selected_kernels(part: RankPart) -> tuple[Rows, Bools, Ints, Ints]:
    """Return the selected kernels of passes, whether each is backward, and its start and end."""
    rows, is_backward = _pass_kernels(part.trace)
    start, end = part.clip_rows(rows)
    is_selected = part.contains(rows) & (end > start)
    return rows[is_selected], is_backward[is_selected], start[is_selected], end[is_selected]


def _stage(trace: Trace, schedules: _Schedules) -> dict[str, Any]:
    return {
        "rank": trace.rank,
        "pipeline": schedules.pipeline,
        "stage": schedules.ranks.index(stated_rank(trace)),
        "stages": len(schedules.ranks),
    }


def _bubbles_of_rank(part: RankPart, schedules: _Schedules) -> dict[str, Any]:
    rows, is_backward, kernel_start, kernel_end = _selected_kernels(part)
    step_of_kernel = part.table.step[rows]

    def times_of(is_counted: Bools) -> Intervals:
        return union(kernel_start[is_counted], kernel_end[is_counted])

    start, end = part.clip_edges(schedules.start_ns, schedules.end_ns)
    is_inside = end > start
    steps, start, end = schedules.steps[is_inside], start[is_inside], end[is_inside]
    forward, backward, bubble, before, after = np.zeros((5, len(steps)), dtype=np.int64)
    for row, (step, low, high) in enumerate(zip(steps, start, end, strict=True)):
        is_in_step = step_of_kernel == step
        work = times_of(is_in_step)
        forward[row] = total_length(times_of(is_in_step & ~is_backward))
        backward[row] = total_length(times_of(is_in_step & is_backward))
        bubble[row] = high - low - total_length(work)
        before[row] = min(work.start.min(initial=high), high) - low
        after[row] = high - max(work.end.max(initial=low), low)
    return {
        **_stage(part.trace, schedules),
        "step": steps,
        "start_ns": start + part.trace.shift_ns,
        "schedule_ns": end - start,
        "forward_ns": forward,
        "backward_ns": backward,
        "bubble_ns": bubble,
        "before_ns": before,
        "after_ns": after,
        "bubble_share": bubble / np.maximum(end - start, 1),
    }


def _passes_of_rank(part: RankPart, schedules: _Schedules) -> dict[str, Any]:
    rows, is_backward, start, end = _selected_kernels(part)
    step = part.table.step[rows]
    order = np.lexsort((start, step))
    start, end, step = (values[order] for values in (start, end, step))
    is_backward = is_backward[order]
    keys = np.stack([step, is_backward])
    begins_pass = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))[: len(start)]
    last_end = np.maximum.accumulate(end)
    begins_pass[1:] |= _has_message_between(part.trace, schedules.ranks, last_end[:-1], start[1:])
    first = np.flatnonzero(begins_pass)
    covered = CumulativeCoverage(*union(start, end))
    pass_end = np.maximum.reduceat(end, first) if len(first) else end
    return {
        **_stage(part.trace, schedules),
        "step": step[first],
        "direction": is_backward[first].astype(np.int64),
        "start_ns": start[first] + part.trace.shift_ns,
        "end_ns": pass_end + part.trace.shift_ns,
        "compute_ns": covered(pass_end) - covered(start[first]),
    }


def _has_message_between(
    trace: Trace, ranks: tuple[int, ...], last_end: Ints, start: Ints
) -> Bools:
    """Return whether a message, sent or received, ends the pass before each kernel.

    `last_end` is the last end of earlier kernels, and `start` the start of each kernel. A message
    that arrives during a kernel is for a later pass.
    """
    events = comm_events(trace)
    of_pipeline = [set(group.ranks) <= set(ranks) for group in events.groups]
    is_message = (events.operation == _SEND_RECV) & np.array(of_pipeline, bool)[events.group]
    is_sender = events.source == stated_rank(trace)
    sent = events.start_ns[is_message & is_sender]
    received = np.sort(events.end_ns[is_message & ~is_sender])
    next_kernel = np.searchsorted(start, sent, "left")
    # The last item serves messages sent after all kernels.
    is_sent = np.zeros(len(start) + 1, dtype=bool)
    is_sent[next_kernel] = np.append(last_end, 0)[next_kernel] <= sent
    received_before, received_after = (
        np.searchsorted(received, time_ns, "right") for time_ns in (last_end, start)
    )
    has_received: Bools = received_after > received_before
    return is_sent[:-1] | has_received
