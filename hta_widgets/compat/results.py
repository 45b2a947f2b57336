"""HTA's results and figures from our tables, and HTA's rules for names and stragglers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.step_series import STATISTICS
from hta_widgets.arguments import check_arguments
from hta_widgets.compat.config import logger
from hta_widgets.compat.frames import (
    TraceSymbolTable,
    find_events_by_name_patterns_using_decoded_names,
    find_events_by_name_patterns_using_symbol_table,
    get_symbol_column_names,
    hta_rows,
    in_us,
    is_comm_kernel,
    symbol_numbers,
)
from hta_widgets.compat.trace import Trace, owner_of
from hta_widgets.errors import TraceError
from hta_widgets.files import new_folder
from hta_widgets.readers.progress import in_notebook
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.traceset import Selection
from hta_widgets.widgets.timeline import Timeline as TraceTimeline

_OTHERS = "others"
#: Collectives shorter than this share of the mean iteration are ignored.
_MIN_SHARE = 0.01
_SERIES = ["stream", "iteration", "name"]  # kernels with equal values differ only in their order


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of HTA's frames, and our column with its values.

    `source` is our column, if its name differs. ns are converted to µs. `percent` multiplies a
    share by 100. Times are integers if all are whole, unless `decimals` or `dtype` is given.
    """

    name: str
    source: str = ""
    percent: bool = False
    decimals: int | None = None
    dtype: Literal["str", "int64", "float64"] | None = None

    def values_of(self, frame: pd.DataFrame) -> Any:
        source = self.source or self.name
        values: Any = 100 * frame[source] if self.percent else frame[source]
        is_plain = self.decimals is None and self.dtype is None
        if source.endswith("_ns"):
            values = in_us(values) if is_plain else values / 1000
        if self.decimals is not None:
            return values.round(self.decimals)
        return values if self.dtype is None else values.astype(self.dtype)


_STATISTICS = (
    _Column("name"), _Column("sum (us)", "sum_ns"), _Column("max (us)", "max_ns"),
    _Column("min (us)", "min_ns"), _Column("stddev", "std_ns", dtype="float64"),
    _Column("mean (us)", "mean_ns", dtype="float64"),
)  # fmt: skip
#: HTA's columns, keyed by analysis.
COLUMNS: dict[str, tuple[_Column, ...]] = {
    "temporal_breakdown": (
        _Column("rank"), _Column("idle_time(us)", "idle_ns"),
        _Column("compute_time(us)", "compute_ns"),
        _Column("non_compute_time(us)", "non_compute_ns"), _Column("kernel_time(us)", "span_ns"),
        _Column("idle_time_pctg", "idle_pct", decimals=2),
        _Column("compute_time_pctg", "compute_pct", decimals=2),
        _Column("non_compute_time_pctg", "non_compute_pct", decimals=2),
    ),
    "idle_time_breakdown": (
        _Column("rank"), _Column("stream"), _Column("idle_category", dtype="str"),
        _Column("idle_time", "idle_ns"), _Column("idle_time_ratio", "idle_share", decimals=2),
    ),
    "idle_interval_stats": (
        _Column("rank"), _Column("stream"), _Column("count", dtype="float64"),
        _Column("mean", "mean_ns", decimals=2), _Column("std", "std_ns", decimals=2),
        _Column("min", "min_ns", decimals=2), _Column("25%", "p25_ns", decimals=2),
        _Column("50%", "p50_ns", decimals=2), _Column("75%", "p75_ns", decimals=2),
        _Column("max", "max_ns", decimals=2), _Column("idle_category", dtype="str"),
    ),
    "kernel_type_breakdown": (
        _Column("kernel_type"), _Column("sum", "sum_ns"),
        _Column("percentage", "share", percent=True, decimals=1),
    ),
    "kernel_breakdown": (
        *_STATISTICS, _Column("kernel_type"), _Column("rank", dtype="int64"),
    ),
    "user_annotation_breakdown": (
        *_STATISTICS, _Column("rank", dtype="int64"),
    ),
    "comm_comp_overlap": (
        _Column("rank"),
        _Column("comp_comm_overlap_pctg", "overlap_share", percent=True, decimals=2),
    ),
    "launch_stats": (
        _Column("correlation"), _Column("cpu_duration", "cpu_dur_ns"),
        _Column("gpu_duration", "gpu_dur_ns"), _Column("launch_delay", "launch_delay_ns"),
        _Column("kernel"), _Column("launch"),
    ),
    "operator_launch_delays": (
        _Column("aten_op_name", "operator"), _Column("kernel_sequence"),
        _Column("occurrence_count"),
        _Column("avg_aten_op_launch_delay", "avg_operator_launch_delay_ns", decimals=3),
        _Column("avg_runtime_delay", "avg_runtime_delay_ns", decimals=3),
    ),
    "frequent_kernel_sequences": (
        _Column("pattern"), _Column("count"), _Column("GPU kernel duration (us)", "kernel_ns"),
        _Column("CPU op duration (us)", "operator_ns"),
    ),
    "memory_events": (
        _Column("ts", "time_ns"), _Column("device_id"), _Column("device_type"),
        _Column("bytes_delta", "bytes"), _Column("total_allocated", "total_allocated_bytes"),
        _Column("total_reserved", "total_reserved_bytes"), _Column("addr", "address"),
        _Column("operator"),
    ),
}  # fmt: skip
#: Our columns with the number of gaps. As in HTA, rows without gaps are left out, except `other`.
_GAPS = {"idle_time_breakdown": "gaps", "idle_interval_stats": "count"}


def hta_columns(
    name: str, frame: pd.DataFrame, attrs_of: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Convert the frame of an analysis to HTA's columns, with the attributes of `attrs_of`."""
    converted = pd.DataFrame({column.name: column.values_of(frame) for column in COLUMNS[name]})
    if name in _GAPS:
        is_shown = (frame[_GAPS[name]] > 0) | (frame["idle_category"] == "other")
        converted = converted[is_shown].reset_index(drop=True)
    return with_attrs_of(converted, frame if attrs_of is None else attrs_of)


def with_attrs_of(frame: pd.DataFrame, source: pd.DataFrame) -> pd.DataFrame:
    """Return `frame` with the attributes of `source`, and with a note if it is empty."""
    frame.attrs.update(source.attrs)
    if not len(frame):
        frame.attrs.setdefault("note", "no events match")
    return frame


def concat_below(frames: Sequence[pd.DataFrame], *, keep_index: bool = False) -> Any:
    """Concatenate the frames of several ranks; None if there are none."""
    if not frames:
        return None
    frame = pd.concat(frames, ignore_index=not keep_index)
    # The attributes of a rank do not apply to several ranks, except the note on an empty frame.
    frame.attrs = dict(frames[0].attrs) if len(frames) == 1 or not len(frame) else {}
    return frame


def describe_statistics(summary: pd.DataFrame, keys: list[str], counter: str) -> pd.DataFrame:
    """Return statistics as in HTA: below the counter's name, one row per value of `keys`."""
    frame = summary[list(STATISTICS)].astype(np.float64)
    frame.index = pd.MultiIndex.from_frame(summary[keys])
    frame.columns = pd.MultiIndex.from_product([[counter], STATISTICS])
    return with_attrs_of(frame, summary)


def shown_statistics(
    frame: pd.DataFrame, keys: list[str], limits: tuple[int, float], always: Collection[str] = ()
) -> pd.DataFrame:
    """Return the statistics of the names that HTA shows, selected by `top_names` per group."""
    shown = [
        top_names(group, *limits, always).assign(**group.iloc[0][keys])
        for _, group in frame.groupby(keys)
    ]
    return pd.concat(shown, ignore_index=True) if shown else frame


def top_names(
    frame: pd.DataFrame, num_kernels: int, duration_ratio: float, always: Collection[str] = ()
) -> pd.DataFrame:
    """Return the statistics of each name that HTA shows, and of ``others`` together.

    Up to `num_kernels` names are all shown. With more names, a name is shown if it is in `always`,
    or if it is among the `num_kernels` with the most time and the running sum of times up to it is
    at most the `duration_ratio` quantile of all running sums. HTA shows the same names, but
    computes the statistics of ``others`` from the sums of the names, not from the events.
    """
    columns = ["name", "count", "sum_ns", "min_ns", "max_ns", "mean_ns", "std_ns"]
    frame = frame.loc[:, columns].sort_values(
        "sum_ns", ascending=False, kind="stable", ignore_index=True
    )
    if len(frame) <= num_kernels:
        return frame
    running = frame["sum_ns"].cumsum().to_numpy()
    is_rest = running > np.quantile(running, duration_ratio)
    is_rest |= np.arange(len(frame)) >= num_kernels
    is_rest &= ~frame["name"].isin(list(always)).to_numpy()
    if not is_rest.any():
        return frame
    folded = frame[is_rest]
    count = folded["count"].to_numpy()
    total_ns, total_count = int(folded["sum_ns"].sum()), int(count.sum())
    mean_ns = total_ns / total_count
    # Squared deviations within each name, plus the deviations of the names' means.
    squares = (count - 1) * folded["std_ns"].to_numpy() ** 2
    squares += count * (folded["mean_ns"].to_numpy() - mean_ns) ** 2
    others = {
        "name": pd.Series([_OTHERS], dtype="str"),
        "count": [total_count],
        "sum_ns": [total_ns],
        "min_ns": [folded["min_ns"].min()],
        "max_ns": [folded["max_ns"].max()],
        "mean_ns": [mean_ns],
        "std_ns": [float(np.sqrt(squares.sum() / max(total_count - 1, 1)))],
    }
    shown: pd.DataFrame = frame.loc[~is_rest]
    return pd.concat([shown, pd.DataFrame(others)], ignore_index=True)


def step_number(name: str) -> int:
    """Return n for ``ProfilerStep#n``; -1 for other names."""
    return int(step_numbers([name])[0])


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

    Collectives that take less than 1 % of an iteration on every rank are ignored, unless all of
    them do. HTA requires 1 % on each rank, although the last rank does not wait. From these, the
    rule takes the last collective of each stream, iteration and name. It then selects the stream
    and name whose duration differs most between ranks, because the kernel of an early rank includes
    its wait. The result is empty if no collective is on two ranks. `df` has ``rank, ts, dur,
    stream, iteration, name``. Starts are on the recorded clock; `hta_widgets.analysis.stragglers`
    does not depend on it.
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
    is_long = longest >= span / max(df["iteration"].nunique(), 1) * _MIN_SHARE
    if is_long.any():
        kernels = kernels[is_long]
    last = kernels.groupby(_SERIES)["occurrence"].transform("max")
    return kernels[kernels["occurrence"] == last]


def show(chart: str, frame: pd.DataFrame | Callable[[], pd.DataFrame], **options: object) -> None:
    """Draw a frame with a function of `hta_widgets.charts`; do nothing if it is empty.

    If `frame` is a callable, it is called only in notebooks. Elsewhere, a line on stderr names the
    alternative, once per process.
    """
    if not in_notebook():
        if callable(frame) or len(frame):
            print_where_figures_show()
        return
    frame = frame() if callable(frame) else frame
    if frame.empty:
        return
    from IPython.display import display  # only available in notebooks

    from hta_widgets import charts  # importing Bokeh takes a while
    from hta_widgets.charts.figure import html_of

    figure = getattr(charts, chart)(frame, **options)
    output = {"text/html": html_of(figure), "text/plain": repr(figure)}
    display(output, raw=True)  # type: ignore[no-untyped-call]


@cache
def print_where_figures_show() -> None:
    """Print, once per process, that figures are shown in notebooks."""
    print(
        "figures are shown in notebooks only; hta_widgets.charts.to_html(figure, path) writes a"
        " page",
        file=sys.stderr,
    )


#: The stream that HTA uses for the ranges that `align_module_with_kernels` adds.
ANNOTATION_STREAM = -2

#: The processors that run the events in a figure of HTA.
EventType = Enum("EventType", "GPUEvents CPUEvents AllEvents", start=0)


class PlotFormat(Enum):
    """Where a figure of HTA is shown."""

    HTML = "html"
    Inline = "inline"
    File = "file"


@dataclass
class TimelinePlotSetting:
    """The settings of a figure of HTA. Ignored."""

    auto_detect: bool = True
    event_type: EventType = EventType.GPUEvents
    multi_ranks: bool = False
    multi_traces: bool = False
    multi_streams: bool = True
    task_height: int = 30
    amplify_short_events: bool = True
    short_events_display_duration: int = 1000
    use_global_time: bool = False
    plot_format: PlotFormat = PlotFormat.Inline
    compress_threads: bool = True


class Timeline:
    """Events of a `Trace`, or those returned by `filter_func`, to show in its timeline.

    The trace that owns `symbol_table` must still exist. `setting` and `hover_columns` are ignored.
    """

    def __init__(
        self,
        timeline_events: pd.DataFrame,
        symbol_table: TraceSymbolTable,
        filter_func: Callable[..., pd.DataFrame] | None = None,
        setting: TimelinePlotSetting | None = None,
        hover_columns: Sequence[str] | None = None,
    ) -> None:
        self.symbol_table = symbol_table
        self.setting = TimelinePlotSetting() if setting is None else setting
        self.hover_columns = list(hover_columns or ())
        self.timeline_events = timeline_events
        if filter_func is not None:
            self.timeline_events = filter_func(timeline_events, symbol_table)

    def plot(self, title: str, save_path: str | None = None) -> TraceTimeline | None:
        """Show the timeline, save it as a page if requested, and return it. `title` is ignored.

        Returns None without events, or if the trace no longer exists.
        """
        trace = owner_of(self.symbol_table)
        if trace is None or self.timeline_events.empty:
            logger.warning("no events to show" if trace else "the trace of these events is gone")
            return None
        selection = _selection_of(self.timeline_events, trace)
        timeline = TraceTimeline(trace)
        timeline.select(selection)
        chosen = selection.events()
        if len(chosen):
            start, end = chosen["start_ns"], chosen["start_ns"] + chosen["dur_ns"]
            timeline.zoom_to(int(start.min()), max(int(end.max()), int(start.min()) + 1))
        if save_path is not None:
            timeline.save_html(save_path)
        if in_notebook():
            from IPython.display import display  # only available in notebooks

            display(timeline)  # type: ignore[no-untyped-call]
        return timeline


def plot_timeline_gpu_kernels(
    title: str,
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    ranks: Iterable[int] | None = None,
    iterations: Iterable[int] | None = None,
    streams: Iterable[int] | None = None,
    duration_threshold: int = 1000,
) -> TraceTimeline | None:
    """Show the device events of a frame in the timeline of their trace, which must still exist.

    Events of several ranks need the column ``rank``. `title` and `duration_threshold` are ignored.
    """
    events = df[df["stream"] >= 0]
    for column, chosen in (("rank", ranks), ("iteration", iterations), ("stream", streams)):
        if chosen is not None and column in events.columns:
            events = events[events[column].isin(list(chosen))]
    return Timeline(events, symbol_table).plot(title)


def plot_timeline_gpu_kernels_from_trace(
    title: str,
    trace_data: Trace,
    ranks: Iterable[int] | None = None,
    iterations: Iterable[int] | None = None,
    streams: Iterable[int] | None = None,
    duration_threshold: int = 1000,
) -> TraceTimeline | None:
    """Show the device events of a trace in its timeline; see `plot_timeline_gpu_kernels`."""
    chosen = trace_data.get_ranks() if ranks is None else list(ranks)
    events = pd.concat([trace_data.get_trace(rank).assign(rank=rank) for rank in chosen])
    return plot_timeline_gpu_kernels(
        title, events, trace_data.symbol_table, None, iterations, streams
    )


def _selection_of(events: pd.DataFrame, trace: Trace) -> Selection:
    """Return events as a selection; without ``rank``, the first rank with all events is used."""
    if "rank" in events.columns:
        ids: list[tuple[int, int]] = []
        for rank in events["rank"].unique().tolist():
            ids += _event_ids(events[events["rank"] == rank], trace, rank) or []
        return trace.select(ids=ids)
    for rank in trace.ranks:
        event_ids = _event_ids(events, trace, rank)
        if event_ids is not None:
            return trace.select(ids=event_ids)
    raise TraceError(
        "the events belong to several ranks, or to another trace", remedy="Keep the column 'rank'."
    )


def _event_ids(events: pd.DataFrame, trace: Trace, rank: int) -> list[tuple[int, int]] | None:
    """Return the ids of events; None if the rank lacks one, by file position and name."""
    table = trace[rank].table
    shown = hta_rows(table)
    index = pd.Index(table.record[shown]).get_indexer(pd.Index(events["index"]))
    if (index < 0).any():
        return None
    rows = shown[index]
    if events["name"].dtype.kind == "i":
        numbers = symbol_numbers(trace.symbol_table, table.names.values)[table.name[rows]]
        if not np.array_equal(numbers, events["name"].to_numpy()):
            return None
    return [(rank, row) for row in rows.tolist()]


def align_module_with_kernels(
    events_df: pd.DataFrame,
    module_list: Sequence[str],
    sym_table: TraceSymbolTable | None = None,
    include_original_cpu_events: bool = False,
) -> pd.DataFrame:
    """Return device events, and host ranges moved to the time of their device events.

    Ranges are events whose names start with a match of `module_list`. They are put on stream -2,
    from the start of their first to the end of their last device event. `events_df` needs the
    columns of a `CallGraph`. If its names are numbers, `sym_table` is required.
    """
    needed = {"num_kernels", "first_kernel_start", "kernel_span"}
    if not needed <= set(events_df.columns):
        raise TraceError(
            f"the frame has no columns {sorted(needed - set(events_df.columns))}",
            remedy="Make a CallGraph of its trace first.",
        )
    ranges = events_df[(events_df["stream"] == -1) & (events_df["num_kernels"] > 0)]
    if sym_table is not None and events_df["name"].dtype.kind == "i":
        wanted = find_events_by_name_patterns_using_symbol_table(ranges, module_list, sym_table)
    else:
        column, _ = get_symbol_column_names(events_df)
        if not column:
            raise TraceError(
                "the frame has no names as text, in column `name` or `s_name`",
                remedy="Give the sym_table of its trace, or decode the frame with it.",
            )
        wanted = find_events_by_name_patterns_using_decoded_names(ranges, module_list, column)
    ranges = ranges[ranges["index"].isin(wanted)]
    ranges = ranges.assign(
        ts=ranges["first_kernel_start"],
        dur=ranges["kernel_span"],
        end=ranges["first_kernel_start"] + ranges["kernel_span"],
        stream=ANNOTATION_STREAM,
    )
    rest = events_df["stream"] >= (-1 if include_original_cpu_events else 0)
    return pd.concat([events_df[rest], ranges], ignore_index=True)


@check_arguments
class MemoryAnalysis:
    """The file that PyTorch's ``export_memory_timeline`` writes for a device."""

    def __init__(self, path: str | Path) -> None:
        self.path = path

    def plot_memory_timeline(self, save_graph: bool = False) -> None:
        """Draw the memory in use, by purpose.

        With `save_graph`, the chart is not shown but written to ``images/memory_plot.html`` (HTA
        writes a PNG).
        """
        frame = analysis.memory_timeline(self.path)
        if not save_graph:
            show("memory_timeline", frame)
            return
        from hta_widgets import charts  # importing Bokeh takes a while

        charts.to_html(charts.memory_timeline(frame), new_folder("images") / "memory_plot.html")
