"""How long steps and their phases take on each rank, against the median rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats import duration, plural, share_delta

from .across_ranks import median_of
from .canvas import blank, sentences, unmatched
from .frames import draws_panel, require_panel
from .rows import Column, Dots, Tooltip, nice_ticks, rows_chart
from .theme import Theme, theme_of

__all__ = ["step_phases"]

#: Takes this share longer than the median rank …
_LONGER = 0.05
#: … and is this many times as far from it as ranks usually are.
_STANDS_OUT = 4.0
_FARTHEST = 1.0
_NEAREST = 0.05
#: Part of a row over which the steps are spread.
_SPREAD = 0.56
_PITCH = 44.0


@draws_panel("steps")
def step_phases(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "",
) -> Any:
    """Draw how far each rank's steps, and the phases within them, are from the median rank's.

    Parameters
    ----------
    frame : DataFrame
        One row per phase, step and rank: ``phase, step, rank, start_ns, dur_ns, deviation_share``,
        the last against the median rank of that step and phase.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a phase, in it a line of dots a step, and in that a dot a rank. Coloured is the rank
        that takes longest in some phase: 5 % longer than the median rank, and four times the usual
        deviation. On one rank: a dot a step, against the median step.

    Examples
    --------
    >>> charts.step_phases(dash.panel_frame("steps"))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if len(frame):
        needed = ("phase", "step", "rank", "start_ns", "dur_ns", "deviation_share")
        require_panel(frame, "steps", *needed)
    alone = len(frame) > 0 and bool((frame["rank"] == frame["rank"].iloc[0]).all())
    title = title or f"Step and phase times against the median {'step' if alone else 'rank'}"
    if frame.empty:
        return blank(frame, title, colors, width)
    data = frame.reset_index(drop=True)
    data["phase"] = data["phase"].astype(str)
    phases = list(dict.fromkeys(data["phase"]))
    data["of_phase"] = data["phase"].map({phase: row for row, phase in enumerate(phases)})
    time = data["dur_ns"].to_numpy(float)
    middle = median_of(time, data["of_phase"])
    if alone:
        apart = np.divide(time, middle, out=np.ones(len(time)), where=middle > 0) - 1
    else:
        apart = data["deviation_share"].fillna(0.0).to_numpy(float)
    data["apart"] = apart
    steps = np.unique(data["step"])
    place = np.searchsorted(steps, data["step"]) - (len(steps) - 1) / 2
    data["row"] = data["of_phase"] + place * (_SPREAD / max(len(steps) - 1, 1))
    reach = min(max(float(np.abs(apart).max()) * 1.08, _NEAREST), _FARTHEST)
    data["at"] = np.clip(apart, -reach, reach)
    found = _farthest(data, phases)
    late = None if alone else _latest(found)
    data["color"] = np.where(data["rank"] == late, colors.late, colors.rule_strong)
    data["order"] = data["rank"] == late
    data = data.sort_values("order", kind="stable").reset_index(drop=True)
    data["dur_ns_text"] = [duration(each) for each in data["dur_ns"]]
    data["apart_text"] = [share_delta(each) for each in data["apart"]]
    usual = [float(data.loc[data["phase"] == phase, "dur_ns"].median()) for phase in phases]
    marked = nice_ticks(reach, 1 if reach < 0.1 else 2, -reach)
    what = "median step" if alone else "median rank"
    return rows_chart(
        data,
        phases,
        [Dots("at", "@color", 7 if len(steps) <= 8 else 4)],
        x_start=-reach * 1.04,
        x_end=reach * 1.04,
        title=title,
        subtitle=sentences(
            f"one dot per {'step' if alone else 'rank and step'}",
            plural(len(steps), "step"),
            ""
            if alone or len(phases) < 2
            else "steps look even where ranks wait for each other: see the phases",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, what if at == 0 else share_delta(at)) for at in marked],
        zero_line=True,
        pitch=_PITCH,
        columns=[
            Column("", [_told(data, row, found, late, alone=alone) for row in range(len(phases))]),
            Column("median", [duration(each) for each in usual], 520),
        ],
        tooltip=Tooltip(
            "rank @{rank} · @{phase} of step @{step}",
            [("takes", "@{dur_ns_text}"), (f"against the {what}", "@{apart_text}")],
        ),
    )


Found = dict[int, tuple[int, float, bool]]


def _farthest(data: pd.DataFrame, phases: list[str]) -> Found:
    """Return for each phase the rank that is farthest in the median, how far, and if it is late."""
    found: Found = {}
    for row in range(len(phases)):
        of_phase = data[data["of_phase"] == row]
        medians = of_phase.groupby("rank", sort=True)["apart"].median()
        far = medians.to_numpy(float)
        best = int(np.argmax(np.abs(far)))
        rank, apart = int(medians.index[best]), float(far[best])
        usual = float(np.median(np.abs(far)))
        late = apart >= _LONGER and apart >= _STANDS_OUT * usual
        found[row] = (rank, apart, late)
    return found


def _latest(found: Found) -> int | None:
    late = [(apart, rank) for rank, apart, is_late in found.values() if is_late]
    return max(late)[1] if late else None


def _told(data: pd.DataFrame, row: int, found: Found, late: int | None, *, alone: bool) -> str:
    of_phase = data[data["of_phase"] == row]
    if alone:
        return duration(float(of_phase["dur_ns"].median()))
    if late is None:
        rank, apart, _ = found[row]
        return f"rank {rank} {share_delta(apart)}"
    mine = of_phase.loc[of_phase["rank"] == late, "apart"]
    return f"rank {late} {share_delta(float(mine.median()))}" if len(mine) else ""
