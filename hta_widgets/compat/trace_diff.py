"""HTA's comparison of two traces: `LabeledTrace`, `TraceDiff` and `DeviceType`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.diff_ops import sums_by_name
from hta_widgets.compat.hta_frame import in_us
from hta_widgets.compat.labeled_trace import DeviceType, LabeledTrace, Numbers
from hta_widgets.compat.show import show
from hta_widgets.compat.utils.utils import shorten_name
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS

__all__ = ["DeviceType", "LabeledTrace", "TraceDiff", "TraceDir"]

#: HTA's word for the path of a folder of traces.
TraceDir = str

Ints = npt.NDArray[np.int64]

#: How many names a chart shows; the rest is smaller.
_DRAWN = 30


class TraceDiff:
    """Which operators and kernels two traces differ in."""

    @classmethod
    def compare_traces(
        cls,
        control: Any,
        test: Any,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
    ) -> pd.DataFrame:
        """Return counts and total times of each operator and kernel in both traces.

        Parameters
        ----------
        control, test : LabeledTrace, TraceSet, Trace, TraceAnalysis or path
            Labelled ``Control`` and ``Test`` where they have no label. Where both have the same
            label, the second becomes ``<label>_control_test``, as in HTA.
        control_rank, test_rank : int or list of int, optional
            The first rank by default.
        control_iteration, test_iteration : int or list of int, optional
            The first step by default.
        device_type : DeviceType, default ALL
        use_short_name : bool, default False
            Compare names without types and arguments.

        Returns
        -------
        DataFrame
            The index is the name (``name`` or ``short_name``). ``<label>_counts`` (int64) and
            ``<label>_total_duration`` (µs) of both, ``diff_counts, diff_duration`` (test −
            control) and ``counts_change_categories`` (``+``, ``-``, ``=``). ``.attrs["kinds"]``
            has the kind of each name.
        """
        first, second = _labeled(control, "Control"), _labeled(test, "Test")
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
        if use_short_name:
            names, kinds, counts, times = _shortened(names, kinds, counts, times)
        # As HTA has them: those of the control by name, then those that only the test has.
        order = sorted(range(len(names)), key=lambda row: (counts[0][row] == 0, names[row]))
        columns: dict[str, Any] = {}
        for label, count, time in zip((first.label, second_label), counts, times, strict=True):
            columns[f"{label}_counts"] = count[order]
            columns[f"{label}_total_duration"] = in_us(time[order])
        change = counts[1][order] - counts[0][order]
        columns["diff_counts"] = change
        columns["diff_duration"] = in_us(times[1][order] - times[0][order])
        columns["counts_change_categories"] = np.select([change > 0, change < 0], ["+", "-"], "=")
        index = pd.Index(
            [names[row] for row in order],
            name="short_name" if use_short_name else "name",
            dtype=object,
        )
        frame = pd.DataFrame(columns, index=index)
        frame.attrs["kinds"] = {
            name: KINDS[kind] for name, kind in zip(names, kinds.tolist(), strict=True)
        }
        return frame

    @classmethod
    def ops_diff(
        cls,
        control: Any,
        test: Any,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Return the names that were added, deleted, or run more or less often.

        Parameters
        ----------
        control, test, control_rank, test_rank, control_iteration, test_iteration, device_type
            As in `compare_traces`.

        Returns
        -------
        dict
            Lists of names under ``added, deleted, increased, decreased, unchanged``, by counts;
            each name is in one list.
        """
        frame = cls.compare_traces(
            control,
            test,
            control_rank,
            test_rank,
            control_iteration,
            test_iteration,
            device_type,
        )
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
        cls,
        df: pd.DataFrame,
        show_image: bool = True,
        export_image_path: str | None = None,
    ) -> None:
        """Draw the names whose count differs most.

        Parameters
        ----------
        df : DataFrame
            From `compare_traces`; may be some of its rows.
        show_image : bool, default True
            Show the chart, in notebooks.
        export_image_path : path-like, optional
            Where to write the chart, as a page: whatever its suffix, it becomes ``.html``.
        """
        _draw(df, "count", export_image_path, shown=show_image)

    @classmethod
    def visualize_duration_diff(
        cls,
        df: pd.DataFrame,
        show_image: bool = True,
        export_image_path: str | None = None,
    ) -> None:
        """Draw the names whose total time differs most; parameters as `visualize_counts_diff`."""
        _draw(df, "duration", export_image_path, shown=show_image)


def _labeled(given: Any, label: str) -> LabeledTrace:
    if isinstance(given, LabeledTrace):
        return given
    if isinstance(given, (str, os.PathLike)):
        return LabeledTrace(label=label, trace_dir=given)
    return LabeledTrace(label=label, t=given)


def _shortened(
    names: list[str], kinds: Ints, counts: list[Ints], times: list[Ints]
) -> tuple[list[str], Ints, list[Ints], list[Ints]]:
    """Add up what has the same name without types and arguments."""
    groups: dict[str, int] = {}
    number = [groups.setdefault(shorten_name(name), len(groups)) for name in names]
    summed = [np.zeros(len(groups), dtype=np.int64) for _ in range(4)]
    for target, values in zip(summed, (*counts, *times), strict=True):
        np.add.at(target, number, values)
    kind = np.zeros(len(groups), dtype=np.int64)
    kind[number] = kinds
    return list(groups), kind, summed[:2], summed[2:]


def _draw(df: pd.DataFrame, measure: str, path: str | None, *, shown: bool) -> None:
    suffix = "_total_duration"
    labels = [column.removesuffix(suffix) for column in df.columns if column.endswith(suffix)]
    if len(labels) != 2:
        raise TraceError(
            "this is no comparison of two traces", remedy="Give what compare_traces returned."
        )
    before, after = labels
    kinds = df.attrs.get("kinds", {})
    frame = pd.DataFrame(
        {
            "name": df.index.astype(str),
            "kind": [kinds.get(name, "other") for name in df.index],
            "before_count": df[f"{before}_counts"].to_numpy(),
            "after_count": df[f"{after}_counts"].to_numpy(),
            "before_ns": df[f"{before}{suffix}"].to_numpy() * 1000,
            "after_ns": df[f"{after}{suffix}"].to_numpy() * 1000,
        }
    )
    frame["diff_count"] = frame["after_count"] - frame["before_count"]
    frame["diff_ns"] = frame["after_ns"] - frame["before_ns"]
    what = "Calls" if measure == "count" else "Time"
    options: dict[str, Any] = {
        "measure": measure,
        "top": _DRAWN,
        "title": f"{what}, {after} against {before}",
    }
    if shown:
        show("diff_ops", frame, **options)
    if path is not None:
        from hta_widgets import charts  # noqa: PLC0415 - Bokeh takes a while to import

        charts.to_html(charts.diff_ops(frame, **options), Path(path).with_suffix(".html"))
