"""How long each rank takes for each step, against the median rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import duration_delta
from hta_widgets.text import share_delta

from hta_widgets.charts.across_ranks import late_ranks
from hta_widgets.charts.across_ranks import listed
from hta_widgets.charts.across_ranks import thinned
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.frames import require_measure
from hta_widgets.charts.rank_groups import groups_of_ranks
from hta_widgets.charts.rows import NAMED_ROWS
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Dots
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["step_times"]

#: An outlier takes this share longer than the median rank …
_LONGER = 0.05
#: … and is this many times as far from it as ranks usually are.
_STANDS_OUT = 4.0
_MOST_DOTS = 20_000

_WORDS = {
    "own": ("Own work per step", "a step less the time that the rank waits for others"),
    "dur": ("Time per step", "from begin to end on the host, waits included"),
}


@draws("step_times")
def step_times(
    frame: pd.DataFrame,
    *,
    measure: Literal["own", "dur"] = "own",
    groups: pd.DataFrame | None = None,
    late: Iterable[int] | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "",
) -> Any:
    """Draw how far each rank's steps are from those of the median rank.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.step_times`.
    measure : {"own", "dur"}, default "own"
        What is compared: ``own_ns`` or ``dur_ns``. Ranks that wait for each other take equally
        long, so the second hides who is slow.
    groups : DataFrame, optional
        Of `hta_widgets.analysis.parallel_groups`: steps have a row for each group of one kind,
        one group after the other. That is the first kind of tensor, context, expert, pipeline and
        data of which there are several groups; give the rows of another kind alone for that.
    late : iterable of int, optional
        Ranks to draw in red, such as those that are stragglers.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a step, or one for a group's step, and a dot a rank; with more than 64 such rows a
        group has one. Its source has the frame's rows. Dark is who takes 5 % longer than the
        median rank and four times the usual (median) deviation of the step. Above 20 000 dots one
        of each spot is drawn, outliers all, which the chart says.

    Raises
    ------
    ValueError
        For an unknown measure.

    Examples
    --------
    >>> charts.step_times(analysis.step_times(traces))  # doctest: +SKIP

    Row by row the ranks of one data-parallel group:

    >>> groups = analysis.parallel_groups(traces)  # doctest: +SKIP
    >>> data = groups[groups["kind"] == "data"]  # doctest: +SKIP
    >>> charts.step_times(analysis.step_times(traces), groups=data)  # doctest: +SKIP
    """
    require_measure(measure, _WORDS)
    colors = theme_of(theme)
    title = title or _WORDS[measure][0]
    if frame.empty:
        return blank(frame, title, colors, width)
    deviations = (f"{measure}_deviation_ns", f"{measure}_deviation_share")
    require(frame, "step_times", "rank", "step", f"{measure}_ns", *deviations)
    every = frame.reset_index(drop=True)
    steps = np.unique(every["step"])
    every["row"] = np.searchsorted(steps, every["step"])
    every["apart"] = every[f"{measure}_deviation_share"].fillna(0.0)
    every["is_outlier"] = _outliers(every)
    every["median_ns"] = every[f"{measure}_ns"] - every[f"{measure}_deviation_ns"]
    names = [f"step {step}" for step in steps]
    if groups is not None:
        require(groups, "parallel_groups", "group", "rank", "kind")
        names = _by_group(every, groups, names)
    median = every.groupby("row")["median_ns"].median()
    furthest = _furthest(every, len(names))
    said = ""
    data = every
    if len(every) > _MOST_DOTS:
        # Outliers each have a number of their own, so that none is put together with another.
        apart = np.where(every["is_outlier"], 1 + np.arange(len(every)), 0)
        rows = max(1, min(len(names), _MOST_DOTS // 100))
        kept, _ = thinned(every["apart"], every["row"], apart, columns=100, rows=rows)
        data = every.iloc[kept]
        said = f"{count(len(every))} dots, drawn as {count(len(kept))}, outliers all"
    marked = late_ranks(frame, late)
    is_late = data["rank"].isin(marked)
    data["order"] = np.select([is_late, data["is_outlier"]], [2, 1], default=0)
    data = data.sort_values("order", kind="stable").reset_index(drop=True)
    data["fill"] = np.array([colors.rule_strong, colors.ink, colors.late])[data["order"]]
    data["deviation_text"] = [
        f"{duration_delta(each)} · {share_delta(part)}"
        for each, part in zip(data[f"{measure}_deviation_ns"], data["apart"], strict=True)
    ]
    told = [
        (name, words)
        for name, words in (
            ("dur_ns", "step"),
            ("own_ns", "own work"),
            ("compute_ns", "computes"),
            ("exposed_wait_ns", "waits, computing nothing"),
            ("idle_ns", "idle"),
        )
        if name in data
    ]
    for name, _ in told:
        data[f"{name}_text"] = [duration(each) for each in data[name]]
    low, high = min(float(every["apart"].min()), 0.0), max(float(every["apart"].max()), 0.01)
    room = (high - low) * 0.05
    return rows_chart(
        data,
        names,
        [Dots("apart", "@fill", 7 if len(names) <= NAMED_ROWS else 4)],
        x_start=low - room,
        x_end=high + room,
        title=title,
        subtitle=sentences(
            f"a dot is a rank's step against the median rank's; {_WORDS[measure][1]}",
            _finding(every, len(steps)),
            said,
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, _signed(at)) for at in nice_ticks(high, 3, low)],
        zero_line=True,
        columns=[
            Column("stands out", furthest),
            Column("median rank", [duration(each) for each in median], 520),
        ],
        legend=[
            *([Dots("x", colors.late, 7, listed(marked))] if is_late.any() else []),
            *([Dots("x", colors.ink, 7, "stands out")] if (data["order"] == 1).any() else []),
            Dots("x", colors.rule_strong, 7, "a rank"),
        ],
        tooltip=Tooltip(
            "rank @{rank} · step @{step}" + ("" if groups is None else " · @{of_group}"),
            [
                ("against the median rank", "@{deviation_text}"),
                *((words, f"@{{{name}_text}}") for name, words in told),
            ],
        ),
    )


def _by_group(every: pd.DataFrame, groups: pd.DataFrame, steps: list[str]) -> list[str]:
    """Give each group a row a step, or one row where these were too many; return their names."""
    kinds, number = groups_of_ranks(groups, every["rank"])
    if (number < 0).any():
        kinds.append("no group")
        number = np.where(number < 0, len(kinds) - 1, number)
    every["of_group"] = np.array(kinds, dtype=object)[number]
    # Ranks of the frame need not be in all of the groups.
    present, number = np.unique(number, return_inverse=True)
    kinds = [kinds[each] for each in present]
    if len(kinds) * len(steps) > NAMED_ROWS:
        every["row"] = number
        return kinds
    every["row"] += number * len(steps)
    return [f"{kind} · {step}" for kind in kinds for step in steps]


def _signed(at: float) -> str:
    if abs(at) < 1e-9:
        return "median"
    return share_delta(at)


def _outliers(data: pd.DataFrame) -> npt.NDArray[np.bool_]:
    usual = data["apart"].abs().groupby(data["row"]).transform("median").to_numpy()
    apart = data["apart"].to_numpy()
    found: npt.NDArray[np.bool_] = (apart >= _LONGER) & (apart >= _STANDS_OUT * usual)
    return found


def _furthest(data: pd.DataFrame, steps: int) -> list[str]:
    """Return for each step who stands out most, and by how much."""
    found = [""] * steps
    late = data[data["is_outlier"]].sort_values("apart", kind="stable")
    late = late.drop_duplicates(["row", "rank"], keep="last")
    several = late.groupby("row").size()
    for one in late.drop_duplicates("row", keep="last").to_dict("records"):
        row = int(one["row"])
        more = int(several[row]) - 1
        also = f", {count(more)} more" if more else ""
        found[row] = f"rank {one['rank']} {share_delta(one['apart'])}{also}"
    return found


def _finding(data: pd.DataFrame, steps: int) -> str:
    late = data[data["is_outlier"]]
    if late.empty:
        return "no rank stands out"
    each = late.groupby("rank").size()
    often = each[each > steps / 2]
    if len(often):
        verb = "stands" if len(often) == 1 else "stand"
        return f"{listed(often.index.tolist())} {verb} out in most of {count(steps)} steps"
    return f"{listed(each.index.tolist())} in single steps"
