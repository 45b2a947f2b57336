"""HTA's ``TraceAnalysis``: the same methods, parameters, containers, column names and µs.

A notebook moves by changing an import::

    from hta_widgets.compat.trace_analysis import TraceAnalysis, TimeSeriesTypes

What differs from HTA on purpose:

- Numbers are exact: times keep their nanoseconds, so that µs are whole where the file's are, and
  fractions elsewhere; kernels of stream 0, graph launches and every vendor's calls count; and
  `hta_widgets.taxonomy`, which can be extended, tells what computes, communicates or copies.
- Nothing to work on gives an empty frame with its columns, and ``.attrs["note"]`` says why. HTA
  returns None in places, and fails in others.
- Without `ranks`, rank 0 is taken; where there is none, the first there is.
- Only the last step is left out. HTA keeps it in part where the trace has the step's copy on the
  device.
- Figures are Bokeh's. They show in notebooks only; `image_renderer` has no meaning.
- Nothing is written beside the traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from hta_widgets.compat.analyzers.cupti_counter_analysis import CuptiCounterAnalysis
from hta_widgets.compat.analyzers.memory_events import memory_timeline_of
from hta_widgets.compat.analyzers.straggler import (
    find_stragglers_with_late_start_comm_kernels,
)
from hta_widgets.compat.analyzers.straggler_analysis import StragglerAnalysis
from hta_widgets.compat.analyzers.trace_with_counters import TimeSeriesTypes
from hta_widgets.compat.breakdown_methods import BreakdownMethods
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.configs.default_values import DEFAULT_TRACE_DIR
from hta_widgets.compat.launch_methods import LaunchMethods
from hta_widgets.trace.traceset import TraceSet

if TYPE_CHECKING:  # it imports networkx where that is installed, which takes a while
    from hta_widgets.compat.analyzers.critical_path_analysis import CPGraph

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]


class TraceAnalysis(BreakdownMethods, LaunchMethods):
    """The analyses of Holistic Trace Analysis, over `hta_widgets.analysis`.

    Parameters
    ----------
    trace_files : dict of int to str, or list of str, optional
        Files by rank, or files that state their ranks. Names may be relative to `trace_dir`.
    trace_dir : str, optional
        A folder with one trace file per rank, used where no files are given; ``/tmp/trace`` by
        default. Where none lie directly in it, its folders are searched.
    include_last_profiler_step : bool, default False
        Whether the last ``ProfilerStep`` is looked at too. It is cut short by the profiler's end,
        so it is left out where the trace has two or more.

    Attributes
    ----------
    t : Trace
        All that was loaded: a `TraceSet`, so `hta_widgets.Timeline`, `hta_widgets.analysis` and
        everything else works on it. It also has HTA's methods, such as ``get_trace(rank)``.
    kept : TraceSet
        The events that the methods below look at: without the last step, without events after
        its start, and without what they launched on devices.

    Raises
    ------
    TraceError
        A ValueError, where no traces are found.

    Examples
    --------
    >>> analyzer = hw.TraceAnalysis(trace_dir="runs/job")  # doctest: +SKIP
    >>> analyzer.get_temporal_breakdown(visualize=False)  # doctest: +SKIP
    """

    def __init__(
        self,
        trace_files: Mapping[int, str] | Sequence[str] | None = None,
        trace_dir: str | Path | None = None,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        files: Any = trace_files
        if isinstance(trace_files, Mapping):
            files = {int(rank): str(name) for rank, name in trace_files.items()}
        elif trace_files is not None and not isinstance(trace_files, str):
            files = [str(name) for name in trace_files]
        folder = DEFAULT_TRACE_DIR if trace_dir is None else str(trace_dir)
        self.t = Trace(files, folder)
        self.t.load_traces(include_last_profiler_step)

    @property
    def kept(self) -> TraceSet:
        """The events that the methods look at."""
        return self.t.kept

    def __repr__(self) -> str:
        return f"<TraceAnalysis of {self.t!r}>"

    # --- hardware counters, memory, stragglers, the critical path ---------------------------------

    def get_cupti_counter_data_with_operators(
        self, ranks: Iterable[int] | None = None
    ) -> list[pd.DataFrame]:
        """Return the hardware counters of kernels with the operators that launched them.

        Returns
        -------
        list of DataFrame
            One per rank that has counters; see `hta_widgets.analysis.cupti_counters`.
        """
        return CuptiCounterAnalysis.get_counter_data_with_operators(self.t, ranks)

    get_counter_data_with_operators = get_cupti_counter_data_with_operators

    def get_memory_timeline(self, rank: int | None = None, visualize: bool = True) -> pd.DataFrame:
        """Return the allocations and releases of memory of a rank; later versions of HTA have it.

        Returns
        -------
        DataFrame
            ``ts`` in µs, ``device_id, device_type`` (0: host, 1: CUDA), ``bytes_delta,
            total_allocated, total_reserved, addr``, and the ``operator`` that runs meanwhile. See
            `hta_widgets.analysis.memory_events`; it is not drawn.
        """
        del visualize
        return memory_timeline_of(self.t, rank)

    def get_profiler_steps(self) -> list[int]:
        """Return the numbers of the steps that are looked at."""
        return StragglerAnalysis.get_profiler_steps(self.t)

    def get_potential_stragglers(
        self,
        profiler_steps: Iterable[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[
            ..., pd.Series[Any]
        ] = find_stragglers_with_late_start_comm_kernels,
    ) -> list[int]:
        """Return the ranks that most often start late into the collective that varies most.

        See `find_stragglers_with_late_start_comm_kernels` for the rule, and
        `hta_widgets.analysis.stragglers` for who is late, how late, and how long others waited.

        HTA's rule compares start times, not time lost, and always names candidates: on a job
        without stragglers too, and on one with a straggler possibly a healthy rank. On the demo
        job, of which rank 5 is slow, one candidate is ``[4]``. Decide by
        `hta_widgets.analysis.stragglers`.

        Returns
        -------
        list of int
            At most `num_candidates`; none where no collective is on two ranks.
        """
        return StragglerAnalysis.get_potential_stragglers(
            self.t, profiler_steps, num_candidates, visualize, straggler_identification_impl
        )

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CPGraph, bool] | None:
        """Return the graph of what waits for what, and whether a critical path was found.

        `annotation` is part of the name of a range, ``""`` stands for the whole rank;
        `instance_id` says which of these ranges, or from which to which. None, where no range has
        such a name. See `CPGraph` and `hta_widgets.analysis.critical_path`.
        """
        from hta_widgets.compat.analyzers.critical_path_analysis import (  # noqa: PLC0415
            CriticalPathAnalysis,
        )

        return CriticalPathAnalysis.critical_path_analysis(
            self.t, rank, annotation, instance_id, data_load_events
        )

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write ``overlaid_critical_path_<file>``, with the path's edges as arrows; return it."""
        from hta_widgets.compat.analyzers.critical_path_analysis import (  # noqa: PLC0415
            CriticalPathAnalysis,
        )

        return CriticalPathAnalysis.overlay_critical_path_analysis(
            self.t,
            rank,
            critical_path_graph,
            output_dir,
            only_show_critical_events,
            show_all_edges,
        )
