"""What each panel shows: one frame a panel, of what the analyses return.

Every value is that of the analysis that `catalog.PANELS` names, called with the same selection;
what is put together over ranks is put together here and in `by_name`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.panels.by_name import durations
from hta_widgets.panels.by_name import kernels
from hta_widgets.panels.by_name import operators
from hta_widgets.formats.byteps.byteps_frames import BYTEPS_MAKERS
from hta_widgets.panels.columns import or_null
from hta_widgets.panels.columns import taken
from hta_widgets.panels.members import summary
from hta_widgets.formats.mpi.mpi_frames import MPI_MAKERS
from hta_widgets.panels.steps import steps

__all__ = ["CLOCK", "MAKERS", "TOP", "TOP_DURATIONS"]

#: Rows of tables, and of the chart of kernels' durations, unless more are asked for.
TOP = 200
TOP_DURATIONS = 12

#: Waits are told on the same clock as in the timeline.
CLOCK: Any = "fitted"

Maker = Callable[[TraceSet, Selection, int | None], pd.DataFrame]


def _breakdown(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.temporal_breakdown(traces, selection=selection)
    waits = analysis.exposed_waits(traces, clock=CLOCK, selection=selection)
    names = [
        "rank", "span_ns", "idle_ns", "compute_ns", "non_compute_ns", "busy_ns",
        "communication_ns", "exposed_communication_ns", "exposed_memory_ns",
    ]  # fmt: skip
    wait = dict(zip(waits["rank"].tolist(), waits["exposed_wait_ns"].tolist(), strict=True))
    found = taken(frame, names)
    found["exposed_wait_ns"] = or_null([wait[rank] for rank in frame["rank"].tolist()])
    found.attrs["missing_ranks"] = _missing(traces, selection, frame)
    return found


def _overlap(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.comm_comp_overlap(traces, selection=selection)
    return taken(frame, [str(name) for name in frame])


def _idle(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.device_idle_breakdown(traces, selection=selection)
    found = taken(frame, ["rank", "idle_category", "idle_ns", "gaps", "idle_share"])
    found.attrs["missing_ranks"] = _missing(traces, selection, frame)
    return found


def _queue(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.queue_length_summary(traces, selection=selection)
    return taken(frame, ["rank", "stream", "count", "time_weighted_mean", "max", "span_ns"])


def _kernel_types(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.kernel_type_breakdown(traces, selection=selection)
    return taken(frame, ["kernel_type", "sum_ns", "share"])


def _durations(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    frame = analysis.kernel_duration_by_rank(traces, selection=selection)
    return durations(frame, TOP_DURATIONS if top is None else min(top, TOP_DURATIONS))


def _kernels(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    frame = analysis.kernel_breakdown(traces, selection=selection)
    return kernels(traces, selection, frame, TOP if top is None else top, CLOCK)


def _operators(traces: TraceSet, selection: Selection, top: int | None) -> pd.DataFrame:
    frame = analysis.operators(traces, selection=selection)
    return operators(frame, TOP if top is None else top)


def _steps(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return steps(traces, selection, CLOCK)


def _heatmap(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return analysis.rank_time_heatmap(traces, clock=CLOCK, selection=selection)


def _summary(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return summary(traces, selection)


MAKERS: dict[str, Maker] = {
    "breakdown": _breakdown,
    "overlap": _overlap,
    "idle": _idle,
    "queue": _queue,
    "kernel_types": _kernel_types,
    "kernel_durations": _durations,
    "kernels": _kernels,
    "operators": _operators,
    "steps": _steps,
    "heatmap": _heatmap,
    "summary": _summary,
    **BYTEPS_MAKERS,
    **MPI_MAKERS,
}


def _missing(traces: TraceSet, selection: Selection, frame: pd.DataFrame) -> list[int]:
    """Return the selected ranks that a frame has no row of."""
    chosen = traces.ranks if selection.ranks is None else selection.ranks
    there = set(frame["rank"].tolist())
    return [rank for rank in traces.ranks if rank in set(chosen) and rank not in there]
