"""HTA's ``TraceAnalysis``: our analyses with the columns, containers and µs of HTA.

docs/moving-from-hta.md and docs/differences-from-hta.md list the differences and their reasons.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag, auto
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.bandwidth import bandwidth_steps
from hta_widgets.analysis.kernels import CUDA_SASS_INSTRUCTION_COUNTER_FLOPS  # noqa: F401
from hta_widgets.analysis.queues import queue_steps
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.analysis.step_series import describe
from hta_widgets.arguments import check_arguments
from hta_widgets.compat.config import (
    CUDA_MAX_LAUNCH_QUEUE_PER_STREAM,
    DEFAULT_TRACE_DIR,
    ParserConfig,
    logger,
)
from hta_widgets.compat.frames import (
    KERNEL_TYPE_OF_KIND,
    TraceSymbolTable,
    by_track,
    decode_symbol_id_to_symbol_name,
    first_event_ns,
    hta_frame,
    hta_rows,
    in_us,
    symbols_of,
)
from hta_widgets.compat.results import (
    concat_below,
    describe_statistics,
    find_stragglers_with_late_start_comm_kernels,
    hta_columns,
    show,
    shown_statistics,
    step_number,
    with_attrs_of,
)
from hta_widgets.compat.trace import Trace, kept_of
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.overlays import add_counters, export_patterns
from hta_widgets.files import new_folder
from hta_widgets.trace.traceset import TraceSet

if TYPE_CHECKING:  # imports networkx if installed, which takes a while
    from hta_widgets.compat.critical_path import CPGraph

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]

_FULL = "duration_at_max_queue_length", "relative_duration_at_max_queue_length"

#: HTA's event columns, and our columns that are not counters.
_EVENT = ["index", "cat", "name", "pid", "tid", "ts", "dur", "stream", "correlation"]
_OPERATORS = ["op_stack", "top_level_op", "bottom_level_op"]
_NOT_COUNTERS = ["rank", "id", "name", "start_ns", "dur_ns", "launch_id", "flops", *_OPERATORS]
#: Default values for HTA's args and call graph columns, which kernels with counters lack.
_NO_ARGS = {
    spec.name: spec.default_value
    for spec in ParserConfig.ARGS_DEFAULT
    if spec not in ParserConfig.ARGS_MINIMUM
}
_NO_CALLS = {
    "depth": -1,
    "height": -1,
    "parent": -1,
    "num_kernels": 0,
    "kernel_dur_sum": 0.0,
    "kernel_span": 0.0,
    "first_kernel_start": -1.0,
    "last_kernel_end": -1.0,
}


class TimeSeriesTypes(Flag):
    """Counters to add. Combine them with ``|``."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


_COUNTERS: dict[TimeSeriesTypes, Literal["queue_length", "memory_bandwidth"]] = {
    TimeSeriesTypes.QUEUE_LENGTH: "queue_length",
    TimeSeriesTypes.MEMCPY_BANDWIDTH: "memory_bandwidth",
}


@check_arguments
class TraceAnalysis:
    """The analyses of Holistic Trace Analysis, based on `hta_widgets.analysis`.

    The methods have the parameters, containers, column names and units (µs) of HTA, and follow the
    rules of HTA 0.5.0, but handle launches like 0.6. Times are exact. An empty frame keeps its
    columns and has ``.attrs["note"]``. `ranks` defaults to rank 0 or, without it, the first rank.
    Figures are shown only in notebooks, and nothing is written next to the traces.
    docs/differences-from-hta.md lists the numbers that differ.

    Parameters
    ----------
    trace_files : dict of int to str, or list of str, optional
        Files keyed by rank, or files that contain their ranks. Names may be relative to
        `trace_dir`.
    trace_dir : str, optional
        A folder with one trace file per rank, used if no files are given. Default: ``/tmp/trace``.
        If it does not contain traces itself, its subfolders are searched.
    include_last_profiler_step : bool, default False
        Keep the last ``ProfilerStep``, which the end of the profiler cuts short. By default, it is
        left out if the trace has two or more steps.

    Attributes
    ----------
    t : Trace
        Everything that was loaded: a `TraceSet` with HTA's methods such as ``get_trace(rank)``.
        `hta_widgets.Timeline` and `hta_widgets.analysis` accept it.
    kept : TraceSet
        The events that the methods use: all except the last step, events after its start, and their
        device events.

    Raises
    ------
    TraceError
        If no traces are found. This is also a ValueError.
    """

    def __init__(
        self,
        trace_files: Mapping[int, str | Path] | Sequence[str | Path] | None = None,
        trace_dir: str | Path | None = None,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        files: Any = trace_files
        self.t = Trace(files, DEFAULT_TRACE_DIR if trace_dir is None else str(trace_dir))
        self.t.load_traces(include_last_profiler_step)

    @property
    def kept(self) -> TraceSet:
        """The events that the methods use."""
        return kept_of(self.t)

    def __repr__(self) -> str:
        return f"<TraceAnalysis of {self.t!r}>"

    def _hta_result(
        self, name: str, figure: Mapping[str, Any] | None = None, /, **options: object
    ) -> pd.DataFrame:
        """Return a result of our analyses as in HTA. Show its chart if `figure` is given."""
        frame = getattr(analysis, name)(self.kept, **options)
        if figure is not None:
            show(name, frame, **figure)
        return hta_columns(name, frame)

    def _by_rank(
        self,
        name: str,
        ranks: Iterable[int] | None,
        figure: Mapping[str, Any] | None = None,
        /,
        **options: object,
    ) -> dict[int, pd.DataFrame]:
        chosen = self._ranks(ranks)
        return {rank: self._hta_result(name, figure, ranks=[rank], **options) for rank in chosen}

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:
        """Return idle, compute and other time per rank; see `analysis.temporal_breakdown`."""
        return self._hta_result("temporal_breakdown", {} if visualize else None)

    def get_idle_time_breakdown(
        self,
        ranks: Iterable[int] | None = None,
        streams: Iterable[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: float = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return idle time per stream and cause, and on request statistics of the gaps.

        `consecutive_kernel_delay` is in µs; see `analysis.idle_time_breakdown`.
        """
        options: dict[str, Any] = {
            "streams": None if streams is None else list(streams) or None,
            "consecutive_kernel_delay_ns": round(Fraction(consecutive_kernel_delay) * 1000),
        }
        figure: dict[str, Any] | None = {} if visualize else None
        idle = self._by_rank("idle_time_breakdown", ranks, figure, **options)
        stats = {}
        if show_idle_interval_stats:
            stats = self._by_rank("idle_interval_stats", ranks, **options)
        by_cause = [frame.set_index("idle_category") for frame in stats.values()]
        return concat_below(list(idle.values())), concat_below(by_cause, keep_index=True)

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the time per kernel type, and statistics per kernel.

        Names beyond `num_kernels`, or beyond the `duration_ratio` quantile of the running sum, are
        combined as ``others``; see `analysis.kernel_type_breakdown` and `kernel_breakdown`.
        """
        traces, options = self.kept, dict[str, Any](include_memory=include_memory_kernels)
        types = self._hta_result("kernel_type_breakdown", {} if visualize else None, **options)
        kernels = analysis.kernel_breakdown(traces, **options)
        if visualize:
            show("kernel_breakdown", kernels, top=num_kernels)
            if len(kernels):
                by_rank = analysis.kernel_duration_by_rank
                show("kernel_duration_by_rank", lambda: by_rank(traces, top=num_kernels, **options))
        kind = kernels["kind"].astype("str").map(KERNEL_TYPE_OF_KIND).astype("str")
        shown = kernels.assign(kernel_type=kind)
        shown = shown_statistics(shown, ["rank", "kernel_type"], (num_kernels, duration_ratio))
        shown = shown.sort_values(["kernel_type", "name", "rank"], ignore_index=True)
        return types, hta_columns("kernel_breakdown", shown, kernels)

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:
        """Return, per rank, the share of communication that runs during computation.

        The share is NaN without communication; see `analysis.comm_comp_overlap`.
        """
        return self._hta_result("comm_comp_overlap", {} if visualize else None)

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: Sequence[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame:
        """Return statistics per annotation; see `analysis.user_annotation_breakdown`.

        Names that contain a match of `allowlist_patterns` are never combined as ``others``.
        """
        ranges = analysis.user_annotation_breakdown(self.kept, use_device=use_gpu_annotation)
        if visualize:
            show("user_annotation_breakdown", ranges)
        shown = ranges
        if (ranges["rank"].value_counts() > num_kernels).any():
            always = self.t.symbol_table.find_matched_symbols(allowlist_patterns or ())
            shown = shown_statistics(ranges, ["rank"], (num_kernels, duration_ratio), always)
        shown = shown.sort_values(["rank", "name"], ignore_index=True)
        return hta_columns("user_annotation_breakdown", shown, ranges)

    def get_gpu_kernels_with_user_annotations(
        self,
        rank: int,
        expand_names: bool = True,
        shorten_names: bool = True,
        *,
        shortern_names: bool | None = None,
    ) -> pd.DataFrame | None:
        """Return the device events of a rank with ``user_annotation`` (-1: none).

        As in HTA, the result is None if no trace has annotations on devices. `shortern_names` is
        spelled as in HTA 0.5; see `analysis.kernels_by_annotation`.
        """
        traces, symbols = self.kept, self.t.symbol_table
        if "gpu_user_annotation" not in symbols.sym_index:
            logger.warning(
                "the traces have no annotations on devices; hta_widgets.analysis."
                "kernels_by_annotation takes the host's annotations at the launch"
            )
            return None
        kernels = analysis.kernels_by_annotation(traces, ranks=[rank], source="device")
        frame = hta_frame(
            traces[rank],
            kernels["id"].to_numpy(),
            symbols,
            zero_ns=self._zero_ns,
            columns=self.t.parser_config.get_args(),
        ).reset_index(drop=True)
        ranges = kernels["annotation"].cat
        numbers = [symbols.sym_index.get(name, -1) for name in ranges.categories]
        frame["user_annotation"] = np.array(numbers, dtype=np.int64)[ranges.codes]
        if expand_names:
            shorten = shorten_names if shortern_names is None else shortern_names
            decode_symbol_id_to_symbol_name(frame, symbols, shorten)
        return with_attrs_of(frame, kernels)

    def get_cuda_kernel_launch_stats(
        self,
        ranks: Iterable[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """Return durations and delay of each launch, keyed by rank; see `analysis.launch_stats`.

        The cutoffs, in µs, affect only the figure.
        """
        cutoffs = {
            "runtime_cutoff_ns": runtime_cutoff * 1000,
            "launch_delay_cutoff_ns": launch_delay_cutoff * 1000,
        }
        return self._by_rank(
            "launch_stats",
            ranks,
            cutoffs if visualize else None,
            include_memory=include_memory_events,
        )

    def get_aten_op_kernels_and_delay(
        self, ranks: Iterable[int] | None = None, sort_by: Sequence[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return the kernels that operators launch with their delays in µs, keyed by rank.

        Rows are sorted by `sort_by`, by default ``["occurrence_count"]``; see
        `analysis.operator_launch_delays`.
        """
        sort_columns = list(sort_by or ["occurrence_count"])
        frames = self._by_rank("operator_launch_delays", ranks)
        for frame in frames.values():
            if unknown := [name for name in sort_columns if name not in frame]:
                remedy = f"The columns are {', '.join(map(str, frame))}."
                raise TraceError(f"no columns {unknown} to sort by", remedy=remedy)
        return {
            rank: frame.sort_values(sort_columns, ascending=False, kind="stable")
            for rank, frame in frames.items()
        }

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = True,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Return the kernel sequences that an operator launches, most frequent first.

        ``overlaid_<file>`` in `output_dir` marks the `top_k` most frequent sequences as
        ``Patterns``. `compress_other_kernels` drops args and names of other kernels. See
        `analysis.frequent_kernel_sequences`.
        """
        traces = self.kept
        patterns = analysis.frequent_kernel_sequences(
            traces, operator_name, min_pattern_len=min_pattern_len, ranks=[rank]
        )
        frame = hta_columns("frequent_kernel_sequences", patterns)
        if not len(patterns):
            return with_attrs_of(pd.DataFrame(columns=frame.columns), patterns)
        if visualize:
            show("frequent_kernel_sequences", patterns.head(top_k))
        export_patterns(
            traces,
            operator_name,
            new_folder(output_dir),
            rank=rank,
            min_pattern_len=min_pattern_len,
            top_k=top_k,
            compress_other_kernels=compress_other_kernels,
            beside_input=True,  # the caller chose the folder; `_trace_files_in` skips this file
        )
        return frame

    def get_queue_length_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return the launch queue length of each stream after each change, keyed by rank.

        The columns are ``ts, pid, tid, stream, queue_length``. A launched graph waits until its
        first event on the stream starts; see `analysis.queue_length`.
        """
        zero_ns, frames = self._zero_ns, {}
        for part in rank_parts(self.kept, ranks=self._ranks(ranks)):
            table, steps = part.table, queue_steps(part, launches=True)
            tracks = table.track[steps.device_row]
            frame = pd.DataFrame(
                {
                    "ts": in_us(steps.time_ns + part.trace.shift_ns - zero_ns),
                    "pid": by_track(table, "pid", tracks),
                    "tid": by_track(table, "tid", tracks),
                    "stream": steps.streams[steps.code],
                    "queue_length": steps.queue_length,
                },
                index=pd.Index(table.record[steps.row], name="index"),
            )
            frame.attrs["unlaunched"] = steps.unlaunched
            if not len(frame):
                frame.attrs["note"] = "no device work with a launch in the file"
            frames[part.rank] = frame
        return frames

    def get_queue_length_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame:
        """Return statistics of queue lengths by rank and stream."""
        series = self.get_queue_length_time_series(ranks)
        return self.get_queue_length_summary_from_time_series(series)

    def get_queue_length_summary_from_time_series(
        self, queue_length_dict: Mapping[int, pd.DataFrame]
    ) -> pd.DataFrame:
        """Return the statistics of `get_queue_length_summary` for the given series."""
        columns = ["place", "rank", "stream", "queue_length"]  # sorted by position in the dict
        frames = [pd.DataFrame(columns=columns, dtype="int64")]
        frames += [
            frame.assign(place=place, rank=rank)[columns]
            for place, (rank, frame) in enumerate(queue_length_dict.items())
        ]
        series = pd.concat(frames, ignore_index=True)
        groups = series.groupby(columns[:3])
        summary = groups.size().index.to_frame(index=False)
        code, length = groups.ngroup().to_numpy(), series["queue_length"].to_numpy()
        summary = summary.assign(**describe(code, len(summary), length))
        return describe_statistics(summary, ["rank", "stream"], "queue_length")

    def get_time_spent_blocked_on_full_queue(
        self,
        queue_length_dict: Mapping[int, pd.DataFrame],
        max_queue_length: int = CUDA_MAX_LAUNCH_QUEUE_PER_STREAM,
    ) -> pd.DataFrame:
        """Return for how long each queue was full, with `max_queue_length` launches or more.

        The time is given in µs, and as a share of the time from the first to the last start on the
        rank.
        """
        rows: list[tuple[int, int, Any, float]] = []
        for rank, frame in queue_length_dict.items():
            span = self.t.get_trace_duration(rank)
            for stream, group in frame.groupby("stream", sort=False):
                is_full = (group["queue_length"] >= max_queue_length).to_numpy()
                if is_full.any():
                    spent = np.diff(group["ts"].to_numpy())[is_full[:-1]].sum()
                    rows.append((rank, stream, spent, spent / span if span else np.nan))  # type: ignore[arg-type]
        blocked = pd.DataFrame(rows, columns=["rank", "stream", *_FULL])
        if not rows:
            blocked = blocked.astype("int64").astype({_FULL[1]: "float64"})
            blocked.attrs["note"] = f"no queue holds {max_queue_length} launches at any time"
        return blocked

    def get_memory_bw_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return the bandwidth of each kind of copy after each change, keyed by rank.

        The columns are ``ts, pid, name, memory_bw_gbps``; see `analysis.memory_bandwidth`.
        """
        zero_ns, frames = self._zero_ns, {}
        for part in rank_parts(self.kept, ranks=self._ranks(ranks)):
            table, steps = part.table, bandwidth_steps(part)
            kinds = [steps.kinds[code] for code in steps.code.tolist()]
            frame = pd.DataFrame(
                {
                    "ts": in_us(steps.time_ns + part.trace.shift_ns - zero_ns),
                    "pid": by_track(table, "pid", table.track[steps.row]),
                    "name": pd.Series(kinds, dtype="str"),
                    "memory_bw_gbps": steps.gb_per_s,
                }
            )
            if not len(frame):
                frame.attrs["note"] = "no copies or fills with a rate in the file"
            frames[part.rank] = frame
        return frames

    def get_memory_bw_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame:
        """Return statistics of bandwidths by rank and kind of copy.

        See `analysis.memory_bandwidth_summary`.
        """
        summary = analysis.memory_bandwidth_summary(self.kept, ranks=self._ranks(ranks))
        copies = summary[summary["count"] > 0]
        copies = copies.assign(name=copies["copy_kind"].astype("str"))
        return describe_statistics(copies, ["rank", "name"], "memory_bw_gbps")

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Iterable[int] | None = None,
        output_suffix: str = "_with_counters",
        output_dir: str | Path | None = None,
    ) -> list[Path]:
        """Write traces with counters for queue lengths and memory bandwidth. Return their paths.

        `output_suffix` is inserted before ``.json``. By default, files are written to the current
        folder, or to a new temporary folder if HTA would find the traces there and read both.
        """
        selected = TimeSeriesTypes(0) if time_series is None else time_series
        kinds = [kind for flag, kind in _COUNTERS.items() if flag in selected or not selected]
        suffix = _file_stem(output_suffix) or "_with_counters"
        if output_dir is None:
            output_dir = Path.cwd()
            if output_dir in {Path(trace.path).resolve().parent for trace in self.t.values()}:
                output_dir = tempfile.mkdtemp(prefix="hta-widgets-")
        traces, folder, written = self.kept, new_folder(output_dir), []
        for rank in self._ranks(ranks):
            name = Path(self.t[rank].path).name
            ending = ".json.gz" if name.endswith(".gz") else ".json"
            target = folder / f"{_file_stem(name)}{suffix}{ending}"
            report = add_counters(traces, target, kinds=kinds, ranks=[rank])
            written.append(Path(report.path))
            print(f"rank {rank} with counters: {report.path}")
        return written

    def get_cupti_counter_data_with_operators(
        self, ranks: Iterable[int] | None = None
    ) -> list[pd.DataFrame]:
        """Return the hardware counters of kernels and their operators, for ranks that have any.

        See `analysis.cupti_counters`.
        """
        traces, frames = self.kept, []
        zero_ns = first_event_ns(traces.values())
        for rank in self._ranks(ranks):
            counters = analysis.cupti_counters(traces, ranks=[rank])
            if not len(counters):
                continue
            trace, rows = traces[rank], counters["id"].to_numpy()
            symbols = TraceSymbolTable(symbols_of(trace.table, rows))
            events = hta_frame(trace, rows, symbols, zero_ns=zero_ns).reset_index(drop=True)
            symbols.decode_df(events, create_new_columns=False)
            launch = counters["launch_id"].to_numpy()
            frame = pd.DataFrame(
                {
                    **events.loc[:, _EVENT],
                    **_NO_ARGS,
                    **counters.drop(columns=_NOT_COUNTERS, errors="ignore"),
                    **events[["index_correlation", "iteration", "end"]],
                    **_NO_CALLS,
                    "index_runtime": np.where(launch >= 0, trace.table.record[launch], -1),
                    **counters[_OPERATORS],
                }
            )
            frames.append(with_attrs_of(frame, counters))
        return frames

    get_counter_data_with_operators = get_cupti_counter_data_with_operators

    def get_memory_timeline(self, rank: int | None = None, visualize: bool = True) -> pd.DataFrame:
        """Return the memory allocations and releases of a rank.

        Newer versions of HTA have this method. `device_type` is 0 for the host and 1 for CUDA.
        `visualize` is ignored. See `analysis.memory_events`.
        """
        events = analysis.memory_events(
            self.kept, ranks=self._ranks(None if rank is None else [rank])
        )
        devices = [str(device) for device in events["device"].cat.categories]
        numbers = [int(name.partition(":")[2] or -1) for name in devices]
        codes = events["device"].cat.codes.to_numpy()
        events = events.assign(
            time_ns=events["time_ns"] - self._zero_ns,
            device_id=np.array(numbers, dtype=np.int64)[codes],
            device_type=np.array([name != "cpu" for name in devices], dtype=np.int64)[codes],
        )
        return hta_columns("memory_events", events)

    def get_profiler_steps(self) -> list[int]:
        """Return the numbers of the steps that are used."""
        steps: set[int] = set()
        for trace in self.kept.values():
            table = trace.table
            used = np.unique(table.name[table.stream < 0]).tolist()
            steps.update(step_number(table.names[code]) for code in used)
        return sorted(steps - {-1})

    def get_potential_stragglers(
        self,
        profiler_steps: Iterable[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[
            ..., Any
        ] = find_stragglers_with_late_start_comm_kernels,
    ) -> list[int]:
        """Return up to `num_candidates` ranks that most often start collectives late.

        The rule of HTA compares starts, not lost time, so it names candidates even in a job without
        stragglers. Use `analysis.stragglers` to decide. The list is empty if no collective is on
        two ranks.
        """
        steps = self.get_profiler_steps()
        if profiler_steps is not None:
            wanted = [int(step) for step in profiler_steps]
            chosen = [step for step in steps if step in wanted]
            if not chosen:
                raise TraceError(f"no steps {wanted}", remedy=f"The steps are {steps}.")
            steps = chosen
        if visualize:
            show("stragglers", lambda: analysis.stragglers(self.kept))
        rule = straggler_identification_impl
        needs_args = rule is not find_stragglers_with_late_start_comm_kernels
        frames = [self._events(rank, with_args=needs_args) for rank in self.t.get_ranks()]
        events = pd.concat(frames, ignore_index=True)
        if steps:
            events = events[events["iteration"].isin(steps)]
        candidates = max(int(num_candidates), 1)
        counts = rule(events, self.t.symbol_table, candidates, visualize)
        if not len(counts):
            logger.warning("no collective is on two ranks, so no rank can be late")
        ordered = counts.sort_values(ascending=False, kind="stable")
        return [int(rank) for rank in ordered.index[:candidates]]

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CPGraph, bool] | None:
        """Return the critical-path graph of a range, and whether it has a critical path.

        `annotation` is part of the name of the range (``""``: the whole rank). `instance_id` is its
        number (None: the first one) or a pair (first, last). `data_load_events` are regular
        expressions. The result is None if no range has such a name. If the rank or instance does
        not exist, a TraceError is raised. See `analysis.critical_path`.
        """
        from hta_widgets.compat.critical_path import graph_of  # imports networkx, which is slow

        graph = graph_of(self.t, rank, annotation, instance_id, data_load_events)
        return None if graph is None else (graph, graph.critical_path())

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write ``overlaid_critical_path_<file>``, with the path as arrows. Return its path.

        The folder is created if necessary. The trace file itself is never replaced.
        """
        from hta_widgets.compat.critical_path import overlay_graph

        return overlay_graph(
            rank,
            critical_path_graph,
            output_dir,
            only_path=only_show_critical_events,
            all_edges=show_all_edges,
        )

    @property
    def _zero_ns(self) -> int:
        """Time 0 of HTA's frames, on the clock of the set."""
        return first_event_ns(self.t.values())

    def _ranks(self, ranks: Iterable[int] | None) -> list[int]:
        """Return the given ranks; by default, rank 0 as in HTA, or the first rank."""
        if requested := [] if ranks is None else [int(rank) for rank in ranks]:
            return requested
        traces = self.kept
        return [0] if 0 in traces else traces.ranks[:1]

    def _events(self, rank: int, *, with_args: bool) -> pd.DataFrame:
        """Return a rank's frame with ``rank``. Args are read from the file only if requested."""
        if with_args:
            return self.t.get_trace(rank).assign(rank=rank)
        trace = self.kept[rank]
        frame = hta_frame(trace, hta_rows(trace.table), self.t.symbol_table, zero_ns=0)
        return frame.assign(rank=rank)


def _file_stem(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".json")
