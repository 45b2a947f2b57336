"""HTA's list of ranks that may be stragglers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.compat.analyzers.straggler import (
    find_stragglers_with_late_start_comm_kernels,
    step_number,
)
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.hta_frame import hta_frame, hta_rows
from hta_widgets.compat.show import in_notebook, say_where_figures_are, show
from hta_widgets.errors import TraceError

__all__ = ["StragglerAnalysis"]

_logger = logging.getLogger("hta")


class StragglerAnalysis:
    """Which ranks the others wait for."""

    @classmethod
    def get_profiler_steps(cls, t: Trace) -> list[int]:
        """Return the steps that are looked at; see `TraceAnalysis.get_profiler_steps`."""
        found: set[int] = set()
        for trace in t.kept.values():
            table = trace.table
            used = np.unique(table.name[table.stream < 0]).tolist()
            found.update(step_number(table.names[code]) for code in used)
        return sorted(found - {-1})

    @classmethod
    def get_potential_stragglers(
        cls,
        t: Trace,
        profiler_steps: Iterable[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[
            ..., pd.Series[Any]
        ] = find_stragglers_with_late_start_comm_kernels,
    ) -> list[int]:
        """Return ranks, most often late first; see `TraceAnalysis.get_potential_stragglers`."""
        steps = cls.get_profiler_steps(t)
        chosen = steps
        if profiler_steps is not None:
            asked = [int(step) for step in profiler_steps]
            chosen = [step for step in steps if step in asked]
            if not chosen:
                raise TraceError(f"no steps {asked}", remedy=f"The steps are {steps}.")
        if visualize and in_notebook():
            show("stragglers", analysis.stragglers(t.kept))
        elif visualize:
            say_where_figures_are()
        own = straggler_identification_impl is find_stragglers_with_late_start_comm_kernels
        events = pd.concat(
            [_events(t, rank, with_args=not own).assign(rank=rank) for rank in t.get_ranks()],
            ignore_index=True,
        )
        if chosen:
            events = events[events["iteration"].isin(chosen)]
        candidates = max(int(num_candidates), 1)
        counts = straggler_identification_impl(events, t.symbol_table, candidates, visualize)
        if not len(counts):
            _logger.warning("no collective is on two ranks: which rank is late cannot be told")
        ordered = counts.sort_values(ascending=False, kind="stable")
        return [int(rank) for rank in ordered.index[:candidates]]


def _events(t: Trace, rank: int, *, with_args: bool) -> pd.DataFrame:
    """Return a rank's frame; without columns of args, which must be read from the file."""
    if with_args:
        return t.get_trace(rank)
    trace = t.kept[rank]
    return hta_frame(trace, hta_rows(trace.table), t.symbol_table, zero_ns=0)
