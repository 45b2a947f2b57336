"""How the time of all ranks of a run splits, added up."""

from __future__ import annotations

from dataclasses import dataclass

from hta_widgets import analysis
from hta_widgets.analysis.lateness import loading_while_idle
from hta_widgets.model import TraceSet
from hta_widgets.model.keeping import walked

from .frames import CLOCK

__all__ = ["RunTimes", "run_times"]

#: Device work of accelerators that are no GPUs.
_NO_GPU = {"mtia_ccp_events", "hpu_op"}


@dataclass(frozen=True)
class RunTimes:
    """Times of the ranks with device work, added up.

    Attributes
    ----------
    start_ns, run_ns : int
        The first start of any event of the job, and the time from it to the last end.
    ranks : list of int
        Those with device work.
    busy_ns, compute_ns, exposed_ns, exposed_memory_ns : int
        As in `temporal_breakdown`; ``exposed_ns`` is of communication.
    exposed_wait_ns : int
        Of ``exposed_ns``; 0 where it is not known.
    idle_ns : int
        The run less what is busy.
    idle_by_cause : dict of str to int
        As in `device_idle_breakdown`, which knows the time between a rank's first and last work.
    loading_ns : int
        How long devices are idle while their host loads data.
    is_gpu : bool
        Whether devices may be called GPUs.
    """

    start_ns: int
    run_ns: int
    ranks: list[int]
    busy_ns: int
    compute_ns: int
    exposed_ns: int
    exposed_memory_ns: int
    exposed_wait_ns: int
    idle_ns: int
    idle_by_cause: dict[str, int]
    loading_ns: int
    is_gpu: bool

    @property
    def all_ns(self) -> int:
        """The time of the run on all ranks with device work."""
        return max(self.run_ns * len(self.ranks), 1)


def run_times(traces: TraceSet) -> RunTimes:
    """Add up how the devices of a job spend the run."""
    frame = analysis.temporal_breakdown(traces)
    ranks = frame["rank"].tolist()
    # As the timeline and the header: with the profiler's own span, where the files have it.
    run_ns = max(traces.end_ns - traces.start_ns, 1)
    waits = analysis.exposed_waits(traces, clock=CLOCK)["exposed_wait_ns"]
    idle = analysis.device_idle_breakdown(traces)
    causes = idle.groupby("idle_category", observed=True)["idle_ns"].sum()
    busy_ns = int(frame["busy_ns"].sum())
    return RunTimes(
        traces.start_ns,
        run_ns,
        ranks,
        busy_ns,
        int(frame["compute_ns"].sum()),
        int(frame["exposed_communication_ns"].sum()),
        int(frame["exposed_memory_ns"].sum()),
        int(waits.clip(lower=0).sum()),
        run_ns * len(ranks) - busy_ns,
        {str(cause): int(spent) for cause, spent in causes.items()},
        sum(loading_while_idle(trace) for trace in walked([traces[rank] for rank in ranks])),
        all(_NO_GPU.isdisjoint(trace.table.categories.values) for trace in traces.values()),
    )
