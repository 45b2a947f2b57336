"""How far each rank's clock is off, by whatever its files tell of it."""

from __future__ import annotations

from hta_widgets.trace.traceset import TraceSet

from hta_widgets.formats.byteps.byteps_clock import byteps_offsets
from hta_widgets.analysis.clock_offsets import clock_fit

__all__ = ["fitted_offsets"]


def fitted_offsets(traces: TraceSet) -> tuple[list[int], int]:
    """Return what to subtract from each rank's times, and how much of it brings all above 0.

    BytePS's requests tell clocks of workers and servers apart; of other files collectives do.
    """
    if {"byteps", "byteps-server"} <= set(traces.formats):
        known = byteps_offsets(traces)
        offsets = [known.get(rank, 0) for rank in traces]
        starts = [
            trace.start_ns + trace.clock_offset_ns - offset
            for trace, offset in zip(traces.values(), offsets, strict=True)
        ]
        lift = max(-min(starts), 0)
        return [offset - lift for offset in offsets], lift
    fit = clock_fit(traces)
    return (fit.offset_ns - fit.lift_ns).tolist(), fit.lift_ns
