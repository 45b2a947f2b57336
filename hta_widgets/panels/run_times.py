"""How the time of all ranks of a run splits, added up."""

from __future__ import annotations

from dataclasses import dataclass

from hta_widgets import analysis
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.panels.frames import CLOCK

__all__ = ["RunTimes", "run_times"]

#: Device work of accelerators that are no GPUs.
_NO_GPU = {"mtia_ccp_events", "hpu_op"}


@dataclass(frozen=True)
class RunTimes:
    """Times of the ranks with device work, added up.

    Attributes
    ----------
    start_ns, run_ns : int
        The first start of any event of the job, or of an export its window's, and the time to the
        last end.
    span_ns : dict of int to int
        By rank with device work the time from its first device work to its last, as in
        `temporal_breakdown`: what all shares are of.
    busy_ns, compute_ns, exposed_ns, exposed_memory_ns : int
        As in `temporal_breakdown`; ``exposed_ns`` is of communication.
    exposed_wait_ns : int
        Of ``exposed_ns``; 0 where it is not known.
    idle_ns : int
        The spans less what is busy.
    idle_by_cause : dict of str to int
        As in `device_idle_breakdown`; adds up to ``idle_ns``.
    is_gpu : bool
        Whether devices may be called GPUs.
    """

    start_ns: int
    run_ns: int
    span_ns: dict[int, int]
    busy_ns: int
    compute_ns: int
    exposed_ns: int
    exposed_memory_ns: int
    exposed_wait_ns: int
    idle_ns: int
    idle_by_cause: dict[str, int]
    is_gpu: bool

    @property
    def ranks(self) -> list[int]:
        """The ranks with device work."""
        return list(self.span_ns)

    @property
    def all_ns(self) -> int:
        """The spans of all ranks with device work."""
        return max(sum(self.span_ns.values()), 1)


def run_times(traces: TraceSet) -> RunTimes:
    """Add up how the devices of a job spend the run."""
    frame = analysis.temporal_breakdown(traces)
    # As the timeline and the header: with the profiler's own span, where the files have it.
    start_ns, end_ns = traces.span_ns
    run_ns = max(end_ns - start_ns, 1)
    waits = analysis.exposed_waits(traces, clock=CLOCK)["exposed_wait_ns"]
    idle = analysis.device_idle_breakdown(traces)
    causes = idle.groupby("idle_category", observed=True)["idle_ns"].sum()
    return RunTimes(
        start_ns,
        run_ns,
        dict(zip(frame["rank"].tolist(), frame["span_ns"].tolist(), strict=True)),
        int(frame["busy_ns"].sum()),
        int(frame["compute_ns"].sum()),
        int(frame["exposed_communication_ns"].sum()),
        int(frame["exposed_memory_ns"].sum()),
        int(waits.clip(lower=0).sum()),
        int(frame["idle_ns"].sum()),
        {str(cause): int(spent) for cause, spent in causes.items()},
        all(_NO_GPU.isdisjoint(trace.table.categories.values) for trace in traces.values()),
    )
