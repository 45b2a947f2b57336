"""HTA's comparison of two traces: `LabeledTrace`, `TraceDiff` and `DeviceType`."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.operator_diff import sums_by_name
from hta_widgets.analysis.scope import RankPart
from hta_widgets.compat.frames import (
    ANNOTATION,
    TraceSymbolTable,
    first_event_ns,
    hta_frame,
    hta_rows,
    in_us,
    shorten_name,
    symbols_of,
)
from hta_widgets.compat.results import show
from hta_widgets.compat.trace import Trace
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.trace import Trace as RankTrace
from hta_widgets.trace.traceset import TraceSet

__all__ = ["DeviceType", "LabeledTrace", "TraceDiff", "TraceDir"]

#: Path of a folder of traces.
TraceDir = str

#: One rank or step, or several. None means the first one.
Numbers = int | Iterable[int] | None

_DRAWN = 30  # names per chart
_TIME = "_total_duration"
_labels = itertools.count()

#: Whether to compare operators, kernels, or both.
DeviceType = Enum("DeviceType", "CPU GPU ALL")


class LabeledTrace:
    """The traces of a job under a label, which becomes part of column names.

    All events are compared, including those in the last step. Traces without ``ProfilerStep``,
    which HTA does not accept, are compared as a whole. `t` is a result of `load`, or HTA's `Trace`,
    which is parsed if necessary. `trace_dir` is a folder or a file.

    Attributes
    ----------
    s_tab, s_map : Series
        Names and categories by number, and numbers by name.
    iteration_df : DataFrame
        ``symbol, id, iteration``: the names of the steps.
    """

    def __init__(self, label: str | None = None, t: Any = None, trace_dir: Any = None) -> None:
        if t is None and trace_dir is None:
            raise TraceError("no traces to compare", remedy="Give t= or trace_dir=.")
        self.label = label or f"t{next(_labels)}"
        self.t: Any = Trace(trace_dir=os.fspath(trace_dir)) if t is None else t
        if isinstance(self.t, Trace) and not self.t.is_parsed:
            self.t.parse_traces()
        traces = _trace_set(self.t)
        self._symbols = traces.symbol_table if isinstance(traces, Trace) else TraceSymbolTable()
        for trace in traces.values():
            self._symbols.add_symbols(symbols_of(trace.table))
        self.s_map = self._symbols.get_sym_index_series()
        self.s_tab = self._symbols.get_sym_table_series()
        self.iteration_df = self._steps_frame()

    def _steps_frame(self) -> pd.DataFrame:
        numbers: set[int] = set()
        for trace in self._traces.values():
            numbers.update(np.unique(trace.table.step[hta_rows(trace.table)]).tolist())
        steps = sorted(numbers - {-1})
        names = [f"ProfilerStep#{step}" for step in steps]
        ids = [self._symbols.sym_index.get(name, -1) for name in names]
        symbols = pd.Series(names, dtype=object)
        return pd.DataFrame({"symbol": symbols, "id": ids, "iteration": steps})

    @property
    def _traces(self) -> TraceSet:
        """The current events, without those dropped from the frames of `t`.

        HTA parses the trace of an analysis again, which restores dropped events and last steps.
        """
        traces = _trace_set(self.t)
        return traces.kept if isinstance(traces, Trace) and not traces.is_aligned else traces

    def ranks(self) -> list[int]:
        """Return the ranks in ascending order."""
        return self._traces.ranks

    def iterations(self) -> list[int]:
        """Return the step numbers of all ranks in ascending order."""
        return list(map(int, self.iteration_df["iteration"]))

    def extract_ops(
        self,
        rank: Numbers = None,
        iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> pd.DataFrame:
        """Return HTA's frame for some ranks and steps, by default the first rank and step.

        ``cat, name`` are numbers of `s_tab`. ``s_cat, s_name`` and ``rank`` are added.
        """
        zero_ns = first_event_ns(_trace_set(self.t).values())
        frames = []
        for part in self.parts(rank, iteration, device_type):
            frame = hta_frame(part.trace, part.rows, self._symbols, zero_ns=zero_ns)
            self._symbols.decode_df(frame)
            frames.append(frame.assign(rank=part.rank))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def get_ops_summary(self, ops: pd.DataFrame) -> pd.DataFrame:
        """Return counts and total times (µs) of the events of `extract_ops`, by name."""
        sums = ops.groupby(["cat", "name"])["dur"].agg(["count", "sum"]).reset_index()
        symbols = self._symbols.sym_table
        return pd.DataFrame(
            {
                "cat": [symbols[number] for number in sums["cat"]],
                "name": [symbols[number] for number in sums["name"]],
                "short_name": [shorten_name(symbols[number]) for number in sums["name"]],
                "counts": sums["count"],
                "total_duration": sums["sum"],
                "cat_id": sums["cat"],
                "name_id": sums["name"],
            }
        )

    def parts(
        self,
        rank: Numbers = None,
        iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> list[RankPart]:
        """Return the events of `extract_ops` in the form that our analyses accept."""
        traces = self._traces
        steps = self._choose("iteration", iteration, self.iterations())
        parts = []
        for number in self._choose("rank", rank, traces.ranks):
            table = traces[number].table
            rows = hta_rows(table)
            if steps:
                rows = rows[np.isin(table.step[rows], steps)]
            if device_type is not DeviceType.ALL:
                device = (table.stream[rows] >= 0) & (table.kind[rows] != ANNOTATION)
                rows = rows[device == (device_type is DeviceType.GPU)]
            parts.append(RankPart(traces[number], rows, None, None))
        return parts

    def _choose(self, word: str, wanted: Numbers, available: list[int]) -> list[int]:
        """Return the requested ranks or steps, by default the first. Raise if one is missing."""
        if wanted is None:
            return available[:1]
        numbers = [wanted] if isinstance(wanted, (int, np.integer)) else list(map(int, wanted))
        for number in numbers:
            if number not in available:
                raise TraceError(
                    f"{self.label} has no {word} {number}",
                    remedy=f"The {word}s are {', '.join(map(str, available)) or 'none'}.",
                )
        return numbers


class TraceDiff:
    """Operators and kernels in which two traces differ."""

    @classmethod
    def compare_traces(
        cls,
        control: object,
        test: object,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
    ) -> pd.DataFrame:
        """Return counts and total times of each operator and kernel in both traces.

        `control` and `test` are a LabeledTrace, TraceSet, Trace, TraceAnalysis or path. Without a
        label, they are called ``Control`` and ``Test``. If the labels are equal, the second one
        becomes ``<label>_control_test``, as in HTA. Default: the first rank and step of each trace.

        Returns
        -------
        DataFrame
            Index: ``name``, or ``short_name`` without types and arguments. ``<label>_counts``
            (int64) and ``<label>_total_duration`` (µs) of both traces, ``diff_counts,
            diff_duration`` (test − control), ``counts_change_categories`` (``+``, ``-``, ``=``);
            ``.attrs["kinds"]``: kinds by name.
        """
        first, second = _as_labeled_trace(control, "Control"), _as_labeled_trace(test, "Test")
        second_label = second.label
        if first.label == second.label:
            second_label = f"{second.label}_control_test"
            if first is not second:
                second.label = second_label
        names, kinds, counts, times = sums_by_name(
            [
                first.parts(control_rank, control_iteration, device_type),
                second.parts(test_rank, test_iteration, device_type),
            ]
        )
        index = "short_name" if use_short_name else "name"
        if use_short_name:
            names = [shorten_name(name) for name in names]
        measures = {"before": counts[0], "after": counts[1]}
        measures |= {"before_ns": times[0], "after_ns": times[1]}
        sums = pd.DataFrame({index: names, "kind": kinds, **measures})
        sums = sums.groupby(index).agg({"kind": "last", **dict.fromkeys(measures, "sum")})
        # As in HTA, names that only the test trace has come last.
        sums = sums.iloc[np.argsort((sums["before"] == 0).to_numpy(), kind="stable")]
        change = sums["after"] - sums["before"]
        frame = pd.DataFrame(
            {
                f"{first.label}_counts": sums["before"],
                f"{first.label}{_TIME}": in_us(sums["before_ns"]),
                f"{second_label}_counts": sums["after"],
                f"{second_label}{_TIME}": in_us(sums["after_ns"]),
                "diff_counts": change,
                "diff_duration": in_us(sums["after_ns"] - sums["before_ns"]),
                "counts_change_categories": np.select([change > 0, change < 0], ["+", "-"], "="),
            }
        )
        frame.index = pd.Index(sums.index, dtype=object, name=index)
        frame.attrs["kinds"] = {name: KINDS[kind] for name, kind in sums["kind"].items()}
        return frame

    @classmethod
    def ops_diff(
        cls,
        control: object,
        test: object,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Return the names that are ``added, deleted, increased, decreased, unchanged``."""
        ranks_and_steps = control_rank, test_rank, control_iteration, test_iteration
        frame = cls.compare_traces(control, test, *ranks_and_steps, device_type)
        before, after = frame.iloc[:, 0], frame.iloc[:, 2]
        both = (before > 0) & (after > 0)
        groups = {
            "added": (before == 0) & (after > 0),
            "deleted": (before > 0) & (after == 0),
            "increased": both & (after > before),
            "decreased": both & (after < before),
            "unchanged": both & (after == before),
        }
        return {word: frame.index[rows].tolist() for word, rows in groups.items()}

    @classmethod
    def visualize_counts_diff(
        cls, df: pd.DataFrame, show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Draw the names whose counts differ most, from a frame of `compare_traces`.

        The chart is shown in notebooks, and written to `export_image_path` with the suffix
        ``.html``.
        """
        _draw_differences(df, "count", export_image_path, is_shown=show_image)

    @classmethod
    def visualize_duration_diff(
        cls, df: pd.DataFrame, show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Draw the names whose total times differ most; see `visualize_counts_diff`."""
        _draw_differences(df, "duration", export_image_path, is_shown=show_image)


def _trace_set(source: object) -> TraceSet:
    """Return the set in a user's object: a set, a rank, or an object of HTA's classes."""
    if isinstance(source, TraceSet):
        return source
    if isinstance(source, RankTrace):
        return TraceSet([source])
    if isinstance(inner := getattr(source, "t", None), TraceSet):
        return inner
    raise TraceError(
        f"a {type(source).__name__} holds no traces",
        remedy="Give what hw.load returns, a TraceAnalysis, or the path of a folder.",
    )


def _as_labeled_trace(trace: Any, label: str) -> LabeledTrace:
    if isinstance(trace, LabeledTrace):
        return trace
    if isinstance(trace, (str, os.PathLike)):
        return LabeledTrace(label=label, trace_dir=trace)
    return LabeledTrace(label=label, t=trace)


def _draw_differences(df: pd.DataFrame, measure: str, path: str | None, *, is_shown: bool) -> None:
    """Show the chart of a comparison's counts or times, and write it to `path` if given."""
    labels = [column.removesuffix(_TIME) for column in df.columns if column.endswith(_TIME)]
    if len(labels) != 2:
        raise TraceError(
            "expected the columns of a comparison of two traces",
            remedy="Give what compare_traces returned.",
        )
    before, after = labels
    kinds = df.attrs.get("kinds", {})
    frame = pd.DataFrame(
        {
            "name": df.index.astype(str),
            "kind": [kinds.get(name, "other") for name in df.index],
            "before_count": df[f"{before}_counts"].to_numpy(),
            "after_count": df[f"{after}_counts"].to_numpy(),
            "before_ns": df[f"{before}{_TIME}"].to_numpy() * 1000,
            "after_ns": df[f"{after}{_TIME}"].to_numpy() * 1000,
        }
    )
    frame["diff_count"] = frame["after_count"] - frame["before_count"]
    frame["diff_ns"] = frame["after_ns"] - frame["before_ns"]
    title = f"{'Calls' if measure == 'count' else 'Time'}, {after} against {before}"
    options: dict[str, Any] = {"measure": measure, "top": _DRAWN, "title": title}
    if is_shown:
        show("diff_ops", frame, **options)
    if path is not None:
        from hta_widgets import charts  # importing Bokeh takes a while

        charts.to_html(charts.diff_ops(frame, **options), Path(path).with_suffix(".html"))
