"""HTA's result frames made of ours, and its rules for the names shown and for stragglers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.launches import STATISTICS
from hta_widgets.compat.frames import TraceSymbolTable, in_us, is_comm_kernel
from hta_widgets.compat.trace import Trace

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
_OTHERS = "others"
#: A collective counts from this share of an iteration on.
_LEAST_SHARE = 0.01
_SERIES = ["stream", "iteration", "name"]  # kernels that only their order distinguishes

# --- frames ---------------------------------------------------------------------------------------


def hta_columns(
    source: pd.DataFrame, columns: Mapping[str, Any], rows: pd.Series[bool] | None = None
) -> pd.DataFrame:
    """Return columns under HTA's names: values, or columns of `source`; those in ns become µs."""
    data: dict[str, Any] = {}
    for name, value in columns.items():
        data[name] = source[value] if isinstance(value, str) else value
        if isinstance(value, str) and value.endswith("_ns"):
            data[name] = in_us(data[name])
    frame = pd.DataFrame(data)
    if rows is not None:
        frame = frame[rows].reset_index(drop=True)
    return with_attrs_of(frame, source)


def with_attrs_of(frame: pd.DataFrame, source: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the attributes of our frame, and a note if it is empty."""
    frame.attrs.update(source.attrs)
    if not len(frame):
        frame.attrs.setdefault("note", "no events match")
    return frame


def one_below(frames: Sequence[pd.DataFrame], *, keep_index: bool = False) -> Any:
    """Return the ranks' frames as one; None without ranks."""
    if not frames:
        return None
    whole = pd.concat(frames, ignore_index=not keep_index)
    whole.attrs = dict(frames[0].attrs) if len(frames) == 1 or not len(whole) else {}
    return whole


def described(summary: pd.DataFrame, keys: list[str], counter: str) -> pd.DataFrame:
    """Return statistics as in HTA: columns below the counter's name, by rank and series."""
    frame = summary[list(STATISTICS)].astype(np.float64)
    frame.index = pd.MultiIndex.from_frame(summary[keys])
    frame.columns = pd.MultiIndex.from_product([[counter], STATISTICS])
    return with_attrs_of(frame, summary)


def statistics_us(every: pd.DataFrame, source: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Return the statistics of names as in HTA."""
    columns = {
        "name": every["name"],
        "sum (us)": "sum_ns",
        "max (us)": "max_ns",
        "min (us)": "min_ns",
        "stddev": every["std_ns"] / 1000,
        "mean (us)": every["mean_ns"] / 1000,
        **{key: every[key] for key in keys},
        "rank": every["rank"].astype(np.int64),
    }
    return with_attrs_of(hta_columns(every, columns), source)


def top_names(
    frame: pd.DataFrame, num_kernels: int, duration_ratio: float, always: Collection[str] = ()
) -> pd.DataFrame:
    """Return the statistics of each name that HTA shows, and of ``others`` together.

    With at most `num_kernels` names, all are shown. Otherwise a name is shown if it is among the
    `num_kernels` with most time, and the running sum of times up to it is at most the
    `duration_ratio` quantile of all running sums; or if it is one of `always`. HTA's choice; its
    statistics of ``others`` describe the names' sums, here they describe the events.
    """
    columns = ["name", "count", "sum_ns", "min_ns", "max_ns", "mean_ns", "std_ns"]
    frame = frame.loc[:, columns].sort_values(
        "sum_ns", ascending=False, kind="stable", ignore_index=True
    )
    if len(frame) <= num_kernels:
        return frame
    running = frame["sum_ns"].cumsum().to_numpy()
    apart = running > np.quantile(running, duration_ratio)
    apart |= np.arange(len(frame)) >= num_kernels
    apart &= ~frame["name"].isin(list(always)).to_numpy()
    if not apart.any():
        return frame
    folded = frame[apart]
    count = folded["count"].to_numpy()
    total, every = int(folded["sum_ns"].sum()), int(count.sum())
    mean = total / every
    # The spread of events within each name, and that of the names' means.
    squares = (count - 1) * folded["std_ns"].to_numpy() ** 2
    squares += count * (folded["mean_ns"].to_numpy() - mean) ** 2
    others = {
        "name": pd.Series([_OTHERS], dtype="str"),
        "count": [every],
        "sum_ns": [total],
        "min_ns": [folded["min_ns"].min()],
        "max_ns": [folded["max_ns"].max()],
        "mean_ns": [mean],
        "std_ns": [float(np.sqrt(squares.sum() / max(every - 1, 1)))],
    }
    shown: pd.DataFrame = frame.loc[~apart]
    return pd.concat([shown, pd.DataFrame(others)], ignore_index=True)


# --- stragglers -----------------------------------------------------------------------------------


def step_number(name: str) -> int:
    """Return n of ``ProfilerStep#n``, -1 for other names."""
    match = _STEP.match(name)
    return int(match[1]) if match else -1


def extract_iteration_info(trace: Trace) -> pd.DataFrame:
    """Return the steps of each rank: ``rank, iter, ts, dur, end``, in µs."""
    symbols = trace.symbol_table
    numbers = {
        code: step_number(symbols.sym_table[code]) for code in symbols.get_profiler_step_ids()
    }
    frames = []
    for rank in trace.get_ranks():
        frame = trace.get_trace(rank)
        steps = frame[frame["name"].isin(list(numbers))]
        end = steps["ts"] + steps["dur"]
        steps = steps.assign(rank=rank, iter=steps["name"].map(numbers), end=end)
        frames.append(steps[["rank", "iter", "ts", "dur", "end"]])
    if not frames:
        return pd.DataFrame(columns=["rank", "iter"])
    return pd.concat(frames, ignore_index=True)


def find_stragglers_with_late_start_comm_kernels(
    df: pd.DataFrame, symbol_table: TraceSymbolTable, n_stragglers: int = 2, visualize: bool = False
) -> pd.Series[int]:
    """Return how often each rank is among the last `n_stragglers` to start a collective.

    Among collectives that take at least 1 % of an iteration on any rank, or all if none does, the
    last of each stream, iteration and name counts. The rule takes the stream and name whose
    duration differs most between ranks, since an early rank's kernel lasts as long as it waits. The
    result is empty if no collective is on two ranks. HTA requires 1 % on each rank, although the
    last rank waits for none. `df` has ``rank, ts, dur, stream, iteration, name``; starts are on the
    recorded clock, which `hta_widgets.analysis.stragglers` does not depend on.
    """
    kernels = _last_collectives(df, symbol_table)
    spread = kernels.groupby(_SERIES)["dur"].std().groupby(["stream", "name"]).mean().dropna()
    if not len(spread):
        return pd.Series(dtype="int64")
    stream, name = spread.index[int(np.argmax(spread.to_numpy()))]
    chosen = kernels[(kernels["stream"] == stream) & (kernels["name"] == name)]
    order = chosen.groupby("iteration")["ts"].rank(method="min", ascending=False)
    late = (order <= max(n_stragglers, 1)).astype("int64")
    counts: pd.Series[int] = late.groupby(chosen["rank"]).sum()
    return counts


def _last_collectives(df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
    """Return the last long collective of each stream, iteration and name, on all its ranks."""
    names = symbol_table.sym_table
    used = df.loc[df["stream"] >= 0, "name"].unique().tolist()
    collectives = [code for code in used if is_comm_kernel(names[code])]
    span = (df["ts"] + df["dur"]).max() - df["ts"].min()
    kernels = df[(df["stream"] >= 0) & df["name"].isin(collectives)]
    kernels = kernels.sort_values("ts", kind="stable")
    kernels = kernels.assign(occurrence=kernels.groupby(["rank", *_SERIES]).cumcount())
    longest = kernels.groupby([*_SERIES, "occurrence"])["dur"].transform("max")
    is_long = longest >= span / max(df["iteration"].nunique(), 1) * _LEAST_SHARE
    if is_long.any():
        kernels = kernels[is_long]
    last = kernels.groupby(_SERIES)["occurrence"].transform("max")
    return kernels[kernels["occurrence"] == last]
