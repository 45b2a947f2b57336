"""Which events HTA looks at: it leaves out the last profiled step, which is cut short."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet, trace_within

__all__ = ["without_last_step"]

_STEP = "ProfilerStep"
_ANNOTATION = KINDS.index("annotation")


def without_last_step(traces: TraceSet, *, keep_last: bool = False) -> TraceSet:
    """Return the set without the last step of each rank.

    Kept are the host's events that start before the last ``ProfilerStep`` on the host does (with
    `keep_last` all of them), and
    the device's whose launch is kept. Device events whose launch the file does not hold belong
    to no step; they are left out as well, and `.problems` counts them. Where fewer than two
    different steps occur over all ranks, and on ranks without steps, all is kept.

    HTA takes the last step's copy on the device for its start where there is one; that copy
    begins later, so events of the last step stay. Here they do not.
    """
    names: set[str] = set()
    for trace in traces.values():
        names.update(trace.table.names[code] for code in _step_names(trace))
    if len(names) < 2:
        return traces
    problems = traces.found
    kept = []
    for trace in traces.values():
        member = _member(trace, problems, keep_last=keep_last)
        kept.append(trace if member is None else trace_within(trace, member, Selection()))
    return TraceSet(kept, like=traces, problems=problems)


def _step_names(trace: Trace) -> list[int]:
    """Return the codes of the names of steps that the host ran."""
    table = trace.table
    codes = [code for code, name in enumerate(table.names.values) if name.startswith(_STEP)]
    used = np.isin(table.name, np.array(codes, dtype=np.int32)) & (table.stream < 0)
    found: list[int] = np.unique(table.name[used]).tolist()
    return found


def _member(trace: Trace, problems: Problems, *, keep_last: bool) -> npt.NDArray[np.bool_] | None:
    table = trace.table
    steps = np.isin(table.name, np.array(_step_names(trace), dtype=np.int32)) & (table.stream < 0)
    if not steps.any():
        return None
    member: npt.NDArray[np.bool_] = keep_last | (table.start_ns < table.start_ns[steps].max())
    device = np.flatnonzero((table.stream >= 0) & (table.kind != _ANNOTATION))
    call = trace.launch_of[device]
    member[device] = (call >= 0) & member[call]
    problems.add(
        "unpaired",
        int((call < 0).sum()),
        "device events without a launch belong to no step; HTA leaves them out, so they are left"
        " out here",
        trace.rank,
        trace.path,
    )
    return member
