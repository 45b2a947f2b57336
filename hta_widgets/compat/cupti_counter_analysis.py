"""HTA's table of hardware counters over our own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.kernels import (
    CUDA_SASS_INSTRUCTION_COUNTER_FLOPS,
    cupti_counters,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.configs.parser_config import ParserConfig
from hta_widgets.compat.hta_frame import first_event_ns, hta_frame, symbols_of
from hta_widgets.trace.traceset import TraceSet

__all__ = ["CUDA_SASS_INSTRUCTION_COUNTER_FLOPS", "cupti_counter_data_with_operators"]

#: What HTA's frame shows of args, which such kernels do not have.
_NO_ARGS: dict[str, Any] = {
    spec.name: spec.default_value
    for spec in ParserConfig.ARGS_DEFAULT
    if spec not in ParserConfig.ARGS_MINIMUM
}

#: And of the call graph, of which such kernels are no part.
_NO_CALLS: dict[str, Any] = {
    "depth": -1,
    "height": -1,
    "parent": -1,
    "num_kernels": 0,
    "kernel_dur_sum": 0.0,
    "kernel_span": 0.0,
    "first_kernel_start": -1.0,
    "last_kernel_end": -1.0,
}

_OURS = {
    "rank",
    "id",
    "name",
    "start_ns",
    "dur_ns",
    "launch_id",
    "op_stack",
    "top_level_op",
    "bottom_level_op",
    "flops",
}


def cupti_counter_data_with_operators(
    traces: TraceSet, ranks: Iterable[int] | None = None
) -> list[pd.DataFrame]:
    """Return the hardware counters of kernels with their operators, as HTA does.

    Parameters
    ----------
    traces : TraceSet
    ranks : list of int, optional
        ``[0]`` by default.

    Returns
    -------
    list of DataFrame
        One per rank that holds counters: HTA's columns of an event (times in µs, ``index`` the
        place in ``traceEvents``), one column per counter, ``index_runtime``, the ``index`` of the
        launching call, ``op_stack, top_level_op, bottom_level_op``.
    """
    asked = list(ranks or ()) or [0]
    zero_ns = first_event_ns(traces.values())
    frames = []
    for rank in asked:
        found = cupti_counters(traces, ranks=[rank])
        if len(found):
            frames.append(_frame(traces, rank, found, zero_ns))
    return frames


def _frame(traces: TraceSet, rank: int, found: pd.DataFrame, zero_ns: int) -> pd.DataFrame:
    trace = traces[rank]
    rows = found["id"].to_numpy()
    symbols = TraceSymbolTable(symbols_of(trace.table, rows))
    events = hta_frame(trace, rows, symbols, zero_ns=zero_ns).reset_index(drop=True)
    symbols.decode_df(events, create_new_columns=False)
    launch = found["launch_id"].to_numpy()
    counters = {key: found[key] for key in found.columns if key not in _OURS}
    columns: dict[str, Any] = {
        **{key: events[key] for key in ("index", "cat", "name", "pid", "tid", "ts", "dur")},
        **{key: events[key] for key in ("stream", "correlation")},
        **_NO_ARGS,
        **counters,
        **{key: events[key] for key in ("index_correlation", "iteration", "end")},
        **_NO_CALLS,
        "index_runtime": np.where(launch >= 0, trace.table.record[launch], -1),
        **{key: found[key] for key in ("op_stack", "top_level_op", "bottom_level_op")},
    }
    frame = pd.DataFrame(columns)
    frame.attrs.update(found.attrs)
    return frame
