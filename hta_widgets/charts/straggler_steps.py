"""In which steps each rank keeps the others waiting: always, or at times."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.text import share

from hta_widgets.charts.across_ranks import listed
from hta_widgets.charts.across_ranks import ramp
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import mixed
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.frames import require_measure
from hta_widgets.charts.rows import NAMED_ROWS
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["stragglers_by_step"]

#: With more ranks than have a name, only those that cost most have a row.
_TOP = 16
_MOST_TOP = 40
#: More steps than this share cells.
_MOST_COLUMNS = 300
#: What `hta_widgets.analysis.stragglers` calls costly.
_COSTLY = 0.05
#: A stall: every share from here on has the darkest colour, whatever the other steps cost.
_STALL = 0.25
_SHADES = 64

_WORDS = {
    "lost_share": (
        "lost_share",
        "When each rank delays the others",
        "share of their time that the others lose, computing nothing, while they wait for the rank",
    ),
    "imposed_wait": (
        "imposed_wait_ns",
        "How long each rank keeps the others waiting, and when",
        "how long the others wait in collectives for the rank that comes last, added up",
    ),
}


@draws("stragglers_by_step")
def stragglers_by_step(
    frame: pd.DataFrame,
    *,
    measure: Literal["lost_share", "imposed_wait"] = "lost_share",
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "",
) -> Any:
    """Draw what each rank costs the others in each step.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.stragglers_by_step`.
    measure : {"lost_share", "imposed_wait"}, default "lost_share"
        Share of the step that the others lose, or all of their waiting for the rank, of which a
        part is hidden behind computing.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a rank and a cell a step: a rank that is always slow is a coloured row, one that was
        slow once a single cell. Costly is 5 % of a step. The source has the frame's rows. With
        more than 64 ranks those that cost most have a row, and the others share one; with more
        than 300 steps each cell is the costliest of several.

    Raises
    ------
    ValueError
        For an unknown measure.

    Examples
    --------
    >>> charts.stragglers_by_step(analysis.stragglers_by_step(traces))  # doctest: +SKIP
    """
    require_measure(measure, _WORDS)
    colors = theme_of(theme)
    column, named, defined = _WORDS[measure]
    title = title or named
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "stragglers_by_step", "rank", "step", "imposed_wait_ns", "lost_ns", "lost_share")
    every = frame.reset_index(drop=True)
    every["shown"] = every[column].fillna(0.0).astype(float)
    every["is_costly"] = every["lost_share"].fillna(0.0) >= _COSTLY
    steps = np.unique(every["step"])
    names, cells, by_row = _rows(every)
    fold = max(1, -(-len(steps) // _MOST_COLUMNS))
    cells["left"] = np.searchsorted(steps, cells["step"]) // fold * fold
    data = _costliest(cells)
    data["right"] = np.minimum(data["left"] + fold, len(steps))
    key = _paint(data, colors, measure)
    kind = "step" if str(frame.attrs.get("steps", "ProfilerStep")) == "ProfilerStep" else "stretch"
    total = by_row["lost_ns"] if measure == "lost_share" else by_row["imposed_wait_ns"]
    head = "lost" if measure == "lost_share" else "in all"
    often = [
        f"{count(bad)} of {count(met)}" if bad else ""
        for bad, met in zip(by_row["bad"], by_row["met"], strict=True)
    ]
    return rows_chart(
        data,
        names,
        [Bars("left", "right", "@fill", line="@fill")],
        x_end=float(len(steps)),
        title=title,
        subtitle=sentences(
            f"{defined}; {_counted(len(steps), kind)} from left to right",
            f"each cell the costliest of {count(fold)}" if fold > 1 else "",
            _finding(every, kind),
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=_ticks(steps),
        columns=[
            Column(f"costly {kind}s" if kind == "step" else "costly", often),
            Column(head, [duration(each) for each in total], 520),
        ],
        legend=key,
        tooltip=Tooltip(
            f"rank @{{rank}} · {kind} @{{step}}",
            [
                ("the others lose", "@{lost_text}"),
                ("the others wait", "@{imposed_text}"),
                *([("last in", "@{score_text} of collectives")] if "score" in data else []),
                *([("collectives", "@{collectives}")] if "collectives" in data else []),
            ],
        ),
    )


def _rows(every: pd.DataFrame) -> tuple[list[str], pd.DataFrame, pd.DataFrame]:
    """Return the names of the rows, the cells with their row, and the rows' sums."""
    ranks = np.unique(every["rank"])
    groups = every.groupby("rank", sort=True)
    sums = groups[["lost_ns", "imposed_wait_ns", "shown"]].sum()
    sums["bad"] = groups["is_costly"].sum()
    sums["met"] = groups.size()
    shown = ranks
    if len(ranks) > NAMED_ROWS:
        order = sums.sort_values(["bad", "shown"], ascending=False, kind="stable").index
        kept = max(_TOP, min(_MOST_TOP, int((sums["bad"] > 0).sum())))
        shown = np.sort(order[:kept].to_numpy())
    others = ~np.isin(ranks, shown)
    cells = every.copy()
    at = np.searchsorted(shown, cells["rank"])
    cells["row"] = np.where(np.isin(cells["rank"], shown), at, len(shown))
    names = [f"rank {rank}" for rank in shown]
    by_row = sums.loc[shown].reset_index(drop=True)
    if others.any():
        names.append(plural(int(others.sum()), "other rank"))
        left = sums.loc[ranks[others]].sum().to_frame().T
        # Of several ranks it would be no number of steps.
        left["bad"] = 0
        by_row = pd.concat([by_row, left], ignore_index=True)
    return names, cells, by_row


def _costliest(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each cell: that which costs most."""
    order = np.lexsort((cells["shown"], cells["left"], cells["row"]))
    at = cells[["row", "left"]].to_numpy()[order]
    most = np.append((np.diff(at, axis=0) != 0).any(axis=1), True)
    found: pd.DataFrame = cells.iloc[order[most]].reset_index(drop=True)
    return found


def _paint(data: pd.DataFrame, colors: Theme, measure: str) -> list[Bars]:
    """Add colours and words to the cells; return what the colours mean."""
    shown = data["shown"].to_numpy(float)
    late, pale = colors.late, mixed(colors.late_fill, colors.lane, 0.7)
    if measure == "lost_share":
        # What is costly begins with a step in colour, so that it shows without an outline.
        costly = mixed(late, colors.late_fill, 0.4)
        below = np.array(ramp((colors.lane, pale), _SHADES))
        above = np.array(ramp((costly, late), _SHADES))
        low = np.clip(shown / _COSTLY, 0, 1)
        high = np.clip((shown - _COSTLY) / (_STALL - _COSTLY), 0, 1)
        data["fill"] = np.where(
            data["is_costly"],
            above[(high * (_SHADES - 1)).astype(int)],
            below[(low * (_SHADES - 1)).astype(int)],
        )
        key = [
            Bars(0.0, "", late, f"{_pct(_STALL)} or more"),
            Bars(0.0, "", costly, f"{_pct(_COSTLY)} or more, costly"),
            Bars(0.0, "", pale, "less", line=colors.rule),
        ]
    else:
        most = float(shown.max()) or 1.0
        shades = np.array(ramp((colors.lane, pale, late), _SHADES))
        data["fill"] = shades[np.ceil(shown / most * (_SHADES - 1)).astype(int)]
        key = [
            Bars(0.0, "", late, duration(most)),
            Bars(0.0, "", mixed(late, colors.late_fill, 0.4), "less"),
            Bars(0.0, "", colors.lane, "nothing", line=colors.rule),
        ]
    data["lost_text"] = [
        f"{duration(lost)} · {share(part)}"
        for lost, part in zip(data["lost_ns"], data["lost_share"], strict=True)
    ]
    data["imposed_text"] = [duration(each) for each in data["imposed_wait_ns"]]
    if "score" in data:
        data["score_text"] = [share(each) for each in data["score"]]
    return key


def _pct(part: float) -> str:
    return f"{round(part * 100)}\u2009%"


def _ticks(steps: Any) -> list[tuple[float, str]]:
    """Name cells at their middle by the step's number."""
    every = max(1, -(-len(steps) // 10))
    return [(at + 0.5, str(steps[at])) for at in range(0, len(steps), every)]


def _counted(number: int, kind: str) -> str:
    return plural(number, kind) if kind == "step" or number == 1 else f"{count(number)} stretches"


def _finding(every: pd.DataFrame, kind: str) -> str:
    costly = every[every["is_costly"]]
    if costly.empty:
        return f"none costs {_pct(_COSTLY)} of a {kind} or more"
    each = costly.groupby("rank").size().sort_values(ascending=False, kind="stable")
    first = int(each.index[0])
    met = int((every["rank"] == first).sum())
    if len(each) == 1:
        own = costly["step"].tolist()
        where = f"in {kind} {own[0]} alone" if len(own) == 1 < met else ""
        where = where or (
            f"in each of {_counted(met, kind)}"
            if len(own) == met
            else f"in {count(len(own))} of {_counted(met, kind)}"
        )
        return f"rank {first} costs {_pct(_COSTLY)} or more {where}"
    often = each[each > every.groupby("rank").size().reindex(each.index) / 2]
    if len(often):
        verb = "costs" if len(often) == 1 else "cost"
        rest = each.index.difference(often.index).tolist()
        at_times = f", {listed(rest)} at times" if rest else ""
        return f"{listed(often.index.tolist())} {verb} {_pct(_COSTLY)} or more in most{at_times}"
    return f"{listed(each.index.tolist())} cost {_pct(_COSTLY)} or more at times, none in most"
