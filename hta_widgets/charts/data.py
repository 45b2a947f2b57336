"""Prepare frames for charts: run the analysis, select the top rows, compute medians and labels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets import analysis as analyses
from hta_widgets.analysis.frames import require_columns
from hta_widgets.charts.theme import color_channels
from hta_widgets.errors import TraceError
from hta_widgets.panels.frames import LATE_MARKED_PANELS, panel_task
from hta_widgets.panels.headline import headline
from hta_widgets.text import plural
from hta_widgets.trace.arrays import Bools, Floats, Ints, Rows
from hta_widgets.trace.summary import device_word_attrs
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Minimum number of collectives that a rank needs to be marked by `most_often_last`.
_MIN_COLLECTIVES = 4


def median_of(values: npt.ArrayLike, groups: npt.ArrayLike) -> Floats:
    """Return, for each value, the median of its group."""
    numbers = pd.Series(np.asarray(values, dtype=float))
    return numbers.groupby(np.asarray(groups)).transform("median").to_numpy(float)


def complete_rows(frame: pd.DataFrame) -> Bools:
    """Return a mask of the rows whose collective has an event from every rank.

    If an event is missing, its rank may have been the last to arrive.
    """
    if {"ranks", "group_size"} <= set(frame.columns):
        return (frame["ranks"] >= frame["group_size"]).to_numpy()
    return np.ones(len(frame), dtype=bool)


def most_often_last(frame: pd.DataFrame, late: Iterable[int] | None = None) -> list[int]:
    """Return the ranks to mark: those in `late`, or the rank that causes most of the waiting.

    Without `late`, a rank is marked if it takes part in at least four collectives, is the only last
    rank in more than half of them, and causes more than half of all waiting. Collectives with
    missing events are ignored. A marked rank is not necessarily a straggler:
    `hta_widgets.analysis.stragglers` uses more data than these rows to find stragglers.
    """
    if late is not None:
        wanted = set(late)
        return [int(rank) for rank in np.unique(frame["rank"]) if rank in wanted]
    frame = frame[complete_rows(frame)]
    is_last = frame["last_rank"] == frame["rank"]
    last_counts = is_last.groupby(frame["rank"]).agg(["size", "mean"])
    candidates = last_counts.index[
        (last_counts["size"] >= _MIN_COLLECTIVES) & (last_counts["mean"] > 0.5)
    ]
    wait_for = frame["wait_ns"].astype(float).groupby(frame["last_rank"]).sum()
    return [int(rank) for rank in candidates if wait_for.get(rank, 0.0) > wait_for.sum() / 2]


def thin_points(
    x: npt.ArrayLike, y: npt.ArrayLike, grids: npt.ArrayLike, *, columns: int, rows: int
) -> tuple[Rows, Ints]:
    """Return the index of one point per grid cell, and the number of points in each cell.

    In a cell that contains the highest point of its grid column, that point is kept; in other
    cells, the first point. Keeping the highest point of every cell would produce a visible pattern.
    `grids` assigns each point to a grid.
    """
    column = _cell_numbers(x, columns) + np.asarray(grids, dtype=np.int64) * columns
    cell = column * rows + _cell_numbers(y, rows)
    highest = pd.Series(np.asarray(y, dtype=float)).groupby(column).idxmax()
    is_lower = ~np.isin(np.arange(len(column)), highest)
    points = pd.DataFrame({"cell": cell, "is_lower": is_lower})
    groups = points.sort_values(["cell", "is_lower"], kind="stable").groupby("cell")
    return np.asarray(groups.head(1).index), np.asarray(groups.size())


def _cell_numbers(coordinates: npt.ArrayLike, cells: int) -> Ints:
    """Divide the range of the coordinates into equal cells, and return each coordinate's cell."""
    values = np.asarray(coordinates, dtype=float)
    low, high = float(values.min()), float(values.max())
    position = (values - low) / max(high - low, 1e-300) * cells
    return np.minimum(position, cells - 1).astype(np.int64)


def largest_of_cells(data: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the row with the largest `measure` in each cell (``row``, ``left``)."""
    cell = ["row", "left"]
    ordered = data.sort_values([*cell, measure], kind="stable")
    return ordered.drop_duplicates(cell, keep="last").reset_index(drop=True)


def color_ramp(stops: Sequence[str], steps: int) -> list[str]:
    """Return `steps` evenly spaced colors from the first stop to the last."""
    position = np.linspace(0, len(stops) - 1, steps)
    channels = [
        np.interp(position, np.arange(len(stops)), channel).round().astype(int).tolist()
        for channel in np.array([color_channels(stop) for stop in stops]).T
    ]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in zip(*channels, strict=True)]


def columns_of(data: pd.DataFrame) -> dict[str, Any]:
    """Return a frame's columns for a Bokeh source: numbers as arrays, other values as text."""
    return {
        str(name): column.to_numpy() if column.dtype.kind in "iufb" else list(map(str, column))
        for name, column in data.items()
    }


if TYPE_CHECKING:
    #: Input of charts: a frame, or traces to run the chart's analysis on.
    ChartSource = pd.DataFrame | TraceSet | Trace | Selection
    ChartFrame = pd.DataFrame
else:
    # `check_arguments` accepts anything here because `analysis_frame` raises clearer errors.
    ChartSource = ChartFrame = Any


def analysis_frame(
    chart: str,
    source: ChartSource,
    options: Mapping[str, Any],
    columns: str = "",
    *,
    analysis: str = "",
    input_analysis: str = "",
) -> pd.DataFrame:
    """Return the frame to draw: `source` itself, or the result of running the analysis on traces.

    The analysis has the same name as the chart unless `analysis` names another one; it is called
    with `options`. If it takes a frame instead of traces, `input_analysis` is run first to make
    that frame. Raises a `TypeError` if `options` are combined with a frame, and a `TraceError` if a
    frame with rows lacks any of the space-separated `columns`.
    """
    name = analysis or chart
    if isinstance(source, (TraceSet, Trace, Selection)):
        traces, arguments = _arguments_of(input_analysis or name, source, options)
        frame: pd.DataFrame = getattr(analyses, input_analysis or name)(traces, **arguments)
        if input_analysis:
            frame = getattr(analyses, name)(frame)
        if _leaves_out_events(arguments.get("selection")):
            frame = frame.copy(deep=False)
            frame.attrs["filtered"] = 1
    else:
        frame = require_frame(chart, source, f"hta_widgets.analysis.{name}", takes_traces=True)
        if options:
            unexpected = next(iter(options))
            raise TypeError(f"{chart}() got an unexpected keyword argument {unexpected!r}")
    if len(frame):
        require_columns_of(frame, f"analysis.{name}", columns)
    return frame


def _arguments_of(
    name: str, source: Any, options: Mapping[str, Any]
) -> tuple[TraceSet, dict[str, Any]]:
    """Return the traces and the arguments to call an analysis with; a `Selection` restricts them.

    Raises a `TypeError` if the analysis does not accept one of the options.
    """
    signature = inspect.signature(getattr(analyses, name))
    arguments = dict(options)
    traces = TraceSet([source]) if isinstance(source, Trace) else source
    if isinstance(source, Selection):
        traces = source.owner
        if "selection" in signature.parameters:
            arguments.setdefault("selection", source)
        else:
            traces = traces.subset(source.ranks, source.start_ns, source.end_ns)
    if "rank" in signature.parameters and len(traces) == 1:
        arguments.setdefault("rank", traces.ranks[0])
    try:
        signature.bind(traces, **arguments)
    except TypeError as error:
        raise TypeError(f"{error} (in analysis.{name}, which this chart calls)") from None
    return traces, arguments


def _leaves_out_events(selection: object) -> bool:
    """Return whether a selection restricts anything other than its window and ranks."""
    if not isinstance(selection, Selection):
        return selection is not None
    return any(part is not None for part in (selection.tracks, selection.query, selection.ids))


def panel_frame(chart: str, source: ChartSource, panel: str) -> pd.DataFrame:
    """Return the frame to draw: `source` itself, or the frame of a dashboard panel for traces."""
    if not isinstance(source, (TraceSet, Trace, Selection)):
        origin = f'a Dashboard\'s panel_frame("{panel}")'
        return require_frame(chart, source, origin, takes_traces=True)
    selection = source if isinstance(source, Selection) else None
    traces: Any = source if selection is None else selection.owner
    traces = (TraceSet([traces]) if isinstance(traces, Trace) else traces).on(None)
    make, chosen = panel_task(panel, selection)
    frame = make(traces, chosen, None)
    frame.attrs.update(device_word_attrs(traces))
    if panel in LATE_MARKED_PANELS:
        frame.attrs |= headline(traces).marked_ranks
    return frame


def diff_frame(chart: str, source: ChartFrame, columns: str) -> pd.DataFrame:
    """Return the frame of a comparison chart; it must have the `columns` unless it is empty."""
    name = chart.removeprefix("diff_")
    origin = f"hta_widgets.diff.{name}(diff.compare(before, after))"
    frame = require_frame(chart, source, origin)
    if len(frame):
        require_columns_of(frame, f"diff.{name}", columns)
    return frame


def require_frame(
    chart: str, source: object, origin: str, *, takes_traces: bool = False
) -> pd.DataFrame:
    """Return `source` if it is a frame; otherwise raise a `TraceError` that names `origin`."""
    if isinstance(source, pd.DataFrame):
        return source
    others = ", or a TraceSet, a Trace or a Selection" if takes_traces else ""
    raise TraceError(
        f"charts.{chart} takes the DataFrame of {origin}{others}, not a {type(source).__name__}",
        remedy="Load files first: traces = hw.load(path)." if takes_traces else None,
    )


def require_columns_of(frame: pd.DataFrame, source: str, columns: str) -> None:
    """Raise a `TraceError` that names `source` and the missing columns, if any column is missing.

    `source` is ``analysis.NAME``, ``diff.NAME`` or ``panel.NAME``. `columns` is space-separated.
    """
    package, _, name = source.partition(".")
    remedy = f"Give the frame of hta_widgets.{source}."
    if package == "panel":
        remedy = f'Give what a Dashboard\'s panel_frame("{name}") returns.'
    require_columns(frame, remedy, columns.split())


#: Purposes of process groups in the order of chart columns. Groups of neighboring ranks come first.
KIND_ORDER = ("tensor", "context", "expert", "pipeline", "data", "all", "unknown")


def group_positions(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the columns ``code``, ``column`` and ``number``, which locate the group of each row.

    ``code`` identifies the group, ``column`` is the chart column in which the group is drawn, and
    ``number`` counts the groups within a column. Groups of the same kind share a column unless a
    rank belongs to several of them.
    """
    data = frame.reset_index(drop=True)
    data["kind"] = data["kind"].astype(str)
    described = data["description"] if "description" in data else pd.Series("", index=data.index)
    data["described"] = described.astype(str)
    data["code"] = pd.factorize(data["group"].astype(str))[0]
    order_of = {kind: index for index, kind in enumerate(KIND_ORDER)}
    groups = (
        data.groupby("code")
        .agg(
            kind=("kind", "first"),
            described=("described", "first"),
            first=("rank", "min"),
            size=("rank", "size"),
            members=("rank", frozenset),
        )
        .assign(order=lambda group: group["kind"].map(order_of).fillna(len(order_of)))
        .sort_values(["order", "kind", "described", "first", "size"], kind="stable")
    )
    column_of, number_of = _place_groups(groups)
    data["column"] = data["code"].map(column_of)
    data["number"] = data["code"].map(number_of)
    return data


@dataclass
class _GroupColumn:
    """A chart column: groups of one kind that share no rank."""

    number: int
    kind: str
    described: str
    members: set[int] = field(default_factory=set)
    groups: int = 0


def _place_groups(groups: pd.DataFrame) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return the column of each group, and the group's number within the column.

    A group joins a column of its kind that contains none of its ranks, preferably with the same
    description. If no such column exists, it starts a new one.
    """
    columns: list[_GroupColumn] = []
    column_of: dict[Any, int] = {}
    number_of: dict[Any, int] = {}
    for code, group in groups.to_dict("index").items():
        kind, described, members = group["kind"], group["described"], group["members"]
        free = [
            column
            for column in columns
            if column.kind == kind and column.members.isdisjoint(members)
        ]
        if not free:
            free = [_GroupColumn(len(columns), kind, described)]
            columns += free
        column = next((column for column in free if column.described == described), free[0])
        column_of[code], number_of[code] = column.number, column.groups
        column.members |= members
        column.groups += 1
    return column_of, number_of


def groups_of_ranks(frame: pd.DataFrame, ranks: pd.Series) -> tuple[list[str], Ints]:
    """Return the names of the groups of one kind, and the group number of each rank.

    The kind is the first in `KIND_ORDER` with several groups, or else the frame's first kind. Ranks
    without a group get the number -1.
    """
    data = group_positions(frame)
    if data.empty:
        return [], np.full(len(ranks), -1)
    last_number = data.groupby("column")["number"].max()
    several = last_number.index[last_number > 0]
    column = several[0] if len(several) else last_number.index[0]  # in the order of `KIND_ORDER`
    ranks_of_column = data[data["column"] == column].drop_duplicates("rank")
    kind = ranks_of_column["kind"].iloc[0]
    names = [f"{kind} {number}" for number in range(ranks_of_column["number"].max() + 1)]
    numbers = ranks_of_column.set_index("rank")["number"].reindex(np.asarray(ranks)).fillna(-1)
    return names, numbers.to_numpy(np.int64)


#: Aggregations in `top_rows`. All other numeric columns are summed.
_AGGREGATIONS = {"min_ns": "min", "max_ns": "max"}


def top_rows(
    data: pd.DataFrame, by: str, top: int, noun: str, label: Callable[[str], str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the top rows by column `by` with one row for the rest, and the row labels."""
    ordered = data.sort_values(by, ascending=False, kind="stable", ignore_index=True)
    ordered["name"] = ordered["name"].astype(str)
    ordered["names"] = 1
    if len(ordered) <= top + 1:
        labels = [label(name) for name in ordered["name"]]
        return ordered.assign(row=range(len(ordered))), labels
    selected, rest = ordered.iloc[:top], ordered.iloc[top:]
    numbers = {
        column: float(rest[column].agg(_AGGREGATIONS.get(column, "sum")))
        for column in rest.columns
        if pd.api.types.is_numeric_dtype(rest[column].dtype)
    }
    texts = {column: "" for column in rest.columns if column not in numbers}
    others = plural(len(rest), f"other {noun}")
    row = pd.DataFrame([{**texts, **numbers, "name": others, "names": len(rest)}])
    labels = [*(label(name) for name in selected["name"]), others]
    # Categorical columns of the selected rows cannot hold the strings of the new row.
    selected = selected.astype(dict.fromkeys(texts, object))
    selected = pd.concat([selected, row[list(selected.columns)]], ignore_index=True)
    return selected.assign(row=range(len(selected))), labels


def spread_over_ranks(frame: pd.DataFrame, shown: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Add to the rows of `top_rows` the smallest and largest sum of any rank.

    ``least_ns`` and ``most_ns`` are the smallest and largest sum of ``sum_ns`` on one rank. A rank
    without events counts as 0. The last row covers every name not shown in another row.
    """
    named = shown.loc[shown["names"] == 1, keys].astype(str)
    row_of = dict(zip(named.itertuples(index=False, name=None), named.index, strict=True))
    by_rank = frame.pivot_table(
        "sum_ns", index=keys, columns="rank", aggfunc="sum", observed=True, fill_value=0
    )
    key_texts = by_rank.index.to_frame().astype(str)
    rows = [row_of.get(key, len(shown) - 1) for key in key_texts.itertuples(index=False, name=None)]
    sums = by_rank.groupby(np.array(rows)).sum()
    return shown.assign(least_ns=sums.min(axis=1), most_ns=sums.max(axis=1))
