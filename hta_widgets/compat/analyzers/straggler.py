"""HTA's rule for stragglers: who starts late into the collective whose length varies most."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.utils.utils import is_comm_kernel

__all__ = ["extract_iteration_info", "find_stragglers_with_late_start_comm_kernels", "step_number"]

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")

_METRIC = "normalized_start_time"
#: A collective counts from this share of an iteration on.
_LEAST_SHARE = 0.01
#: Kernels that are told apart by their order alone.
_SERIES = ["stream", "iteration", "name"]


def step_number(name: str) -> int:
    """Return n of ``ProfilerStep#n``, -1 of other names.

    Examples
    --------
    >>> step_number("ProfilerStep#12")
    12
    """
    match = _STEP.match(name)
    return int(match[1]) if match else -1


def extract_iteration_info(trace: Trace) -> pd.DataFrame:
    """Return the steps of each rank: ``rank, iter, ts, dur, end``, in µs."""
    symbols = trace.symbol_table
    numbers = {
        code: step_number(symbols.sym_table[code]) for code in symbols.get_profiler_step_ids()
    }
    found = []
    for rank in trace.get_ranks():
        frame = trace.get_trace(rank)
        steps = frame[frame["name"].isin(list(numbers))]
        found.append(
            pd.DataFrame(
                {
                    "rank": rank,
                    "iter": steps["name"].map(numbers),
                    "ts": steps["ts"],
                    "dur": steps["dur"],
                    "end": steps["ts"] + steps["dur"],
                }
            )
        )
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["rank", "iter"])


def find_stragglers_with_late_start_comm_kernels(
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    n_stragglers: int = 2,
    visualize: bool = False,
) -> pd.Series[int]:
    """Return how often each rank is among the last to start into one collective.

    Of the collectives that take at least 1 % of an iteration on any rank, the last of each
    stream, iteration and name counts. The stream and name are chosen whose length differs most
    between ranks: the longer a rank's kernel, the longer it waited, so who starts last is late. In
    each iteration the `n_stragglers` ranks that start it last are counted.

    Parameters
    ----------
    df : DataFrame
        Events of all ranks: ``rank, ts, dur, stream, iteration, name``.
    symbol_table : TraceSymbolTable
        What the numbers in ``name`` stand for.
    n_stragglers : int, default 2
    visualize : bool
        Without meaning here.

    Returns
    -------
    Series
        Counts by rank; empty where no collective is on two ranks.

    Notes
    -----
    The rule is HTA's, but for what makes it miss stragglers: HTA asks for 1 % of an iteration on
    each rank, and who comes last waits for nobody, so that its kernel is short. It also knows only
    names that begin with ``ncclKernel``; here `hta_widgets.taxonomy` tells what communicates.
    Stream 0 and iteration 0 count, and where no collective takes 1 % of an iteration, all do.
    Starts are compared on the clock that the hosts recorded; `hta_widgets.analysis.stragglers`
    does without and says how long the others waited.
    """
    del visualize
    kernels = _last_collectives(df, symbol_table)
    spread = kernels.groupby(_SERIES)["duration"].std()
    spread = spread.groupby(["stream", "name"]).mean().dropna()
    if not len(spread):
        return pd.Series(dtype="int64")
    stream, name = spread.index[int(np.argmax(spread.to_numpy()))]
    chosen = kernels[(kernels["stream"] == stream) & (kernels["name"] == name)]
    order = chosen.groupby("iteration")[_METRIC].rank(method="min", ascending=False)
    late = (order <= max(n_stragglers, 1)).astype("int64")
    counts: pd.Series[int] = late.groupby(chosen["rank"]).sum()
    return counts


def _last_collectives(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
    """The last long collective of each stream, iteration and name, on all its ranks."""
    names = symbol_table.sym_table
    used = df.loc[df["stream"] >= 0, "name"].unique().tolist()
    collectives = [code for code in used if is_comm_kernel(names[code])]
    start = df["ts"].min()
    iteration = ((df["ts"] + df["dur"]).max() - start) / max(df["iteration"].nunique(), 1)
    kernels = df[(df["stream"] >= 0) & df["name"].isin(collectives)]
    kernels = kernels.sort_values("ts", kind="stable")
    occurrence = kernels.groupby(["rank", *_SERIES]).cumcount()
    kernels = kernels.assign(occurrence=occurrence)
    longest = kernels.groupby([*_SERIES, "occurrence"])["dur"].transform("max")
    long = longest >= iteration * _LEAST_SHARE
    if long.any():
        kernels = kernels[long]
    last = kernels["occurrence"] == kernels.groupby(_SERIES)["occurrence"].transform("max")
    kernels = kernels[last]
    return kernels.assign(
        duration=kernels["dur"] / iteration, **{_METRIC: (kernels["ts"] - start) / iteration}
    )
