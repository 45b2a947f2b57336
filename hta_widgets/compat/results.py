"""HTA's results as tables of ours, and its rules for the names shown and for stragglers."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
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

# --- HTA's columns --------------------------------------------------------------------------------

_NAMES = (
    "name, sum (us)=sum_ns, max (us)=max_ns, min (us)=min_ns, stddev=std_ns:us,"
    " mean (us)=mean_ns:us"
)
#: HTA's columns by analysis, each with the name of ours if it differs. Columns in ns become µs;
#: after a colon follows the number of digits to round to, or the type.
COLUMNS = {
    "temporal_breakdown": "rank, idle_time(us)=idle_ns, compute_time(us)=compute_ns,"
    " non_compute_time(us)=non_compute_ns, kernel_time(us)=span_ns, idle_time_pctg=idle_pct:2,"
    " compute_time_pctg=compute_pct:2, non_compute_time_pctg=non_compute_pct:2",
    "idle_time_breakdown": "rank, stream, idle_category:str, idle_time=idle_ns,"
    " idle_time_ratio=idle_share:2",
    "idle_interval_stats": "rank, stream, count:float64, mean=mean_ns:2, std=std_ns:2, "
    "min=min_ns:2, 25%=p25_ns:2, 50%=p50_ns:2, 75%=p75_ns:2, max=max_ns:2, idle_category:str",
    "kernel_type_breakdown": "kernel_type, sum=sum_ns, percentage=100*share:1",
    "kernel_breakdown": f"{_NAMES}, kernel_type, rank:int64",
    "user_annotation_breakdown": f"{_NAMES}, rank:int64",
    "comm_comp_overlap": "rank, comp_comm_overlap_pctg=100*overlap_share:2",
    "launch_stats": "correlation, cpu_duration=cpu_dur_ns, gpu_duration=gpu_dur_ns,"
    " launch_delay=launch_delay_ns, kernel, launch",
    "operator_launch_delays": "aten_op_name=operator, kernel_sequence, occurrence_count,"
    " avg_aten_op_launch_delay=avg_operator_launch_delay_ns:3,"
    " avg_runtime_delay=avg_runtime_delay_ns:3",
    "frequent_kernel_sequences": "pattern, count, GPU kernel duration (us)=kernel_ns,"
    " CPU op duration (us)=operator_ns",
    "memory_events": "ts=time_ns, device_id, device_type, bytes_delta=bytes,"
    " total_allocated=total_allocated_bytes, total_reserved=total_reserved_bytes, addr=address,"
    " operator",
}
_COLUMN = re.compile(r"([^=:]+)(?:=(100\*)?(\w+))?(?::(\w+))?")
#: Our columns with the number of gaps; as in HTA, only `other` has a row without gaps.
_GAPS = {"idle_time_breakdown": "gaps", "idle_interval_stats": "count"}


def hta_columns(
    name: str, frame: pd.DataFrame, attrs_of: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the frame of one of our analyses as in HTA, with the attributes of `attrs_of`."""
    data: dict[str, Any] = {}
    for text in COLUMNS[name].split(", "):
        column, factor, own, form = _COLUMN.findall(text)[0]
        own = own or column
        values = 100 * frame[own] if factor else frame[own]
        if own.endswith("_ns"):
            values = values / 1000 if form else in_us(values)
        if (form or "us").isdecimal():
            values = values.round(int(form))
        elif form and form != "us":
            values = values.astype(form)
        data[column] = values
    made = pd.DataFrame(data)
    if name in _GAPS:
        there = (frame[_GAPS[name]] > 0) | (frame["idle_category"] == "other")
        made = made[there].reset_index(drop=True)
    return with_attrs_of(made, frame if attrs_of is None else attrs_of)


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


def names_shown(
    frame: pd.DataFrame, keys: list[str], limits: tuple[int, float], always: Collection[str] = ()
) -> pd.DataFrame:
    """Return the statistics of the names that HTA shows, chosen by `top_names` for each group."""
    shown = [
        top_names(group, *limits, always).assign(**group.iloc[0][keys])
        for _, group in frame.groupby(keys)
    ]
    return pd.concat(shown, ignore_index=True) if shown else frame


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
