"""How long steps and their phases take on each rank, against the median rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.formats import axis_time, duration, duration_delta, plural, share_delta

from .across_ranks import fact_ranks, late_ranks, median_of
from .canvas import blank, sentences, unmatched
from .frames import draws_panel, require_panel
from .rows import Column, Dots, Tooltip, nice_ticks, rows_chart
from .theme import Theme, theme_of

__all__ = ["step_phases"]

#: A rank stands out where it takes this share longer than the median rank …
_LONGER = 0.05
#: … this many times as far from it as ranks usually are …
_STANDS_OUT = 4.0
#: … and this share of a whole step: what is far off in per cent may cost next to nothing.
_OF_STEP = 0.02
#: The scale goes this share of a step to either side, or farther.
_NEAREST = 0.05
#: Part of a row over which the steps are spread.
_SPREAD = 0.56
_PITCH = 44.0


@draws_panel("steps")
def step_phases(
    frame: pd.DataFrame,
    *,
    late: Iterable[int] | None = None,
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
    late : iterable of int, optional
        Ranks to draw in red, such as those that are stragglers; by default those that the
        headline names, which frames of a dashboard have as ``.attrs["late_ranks"]``.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a phase, in it a line of dots a step, and in that a dot a rank, as far from the
        median rank in time. Dark are ranks that stand out in a phase and are not `late`: 5 %
        longer than the median rank, four times the usual deviation, and 2 % of a step; and ranks
        that the headline states as a fact. On one rank: a dot a step, against the median step.

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
    steps, step = np.unique(data["step"], return_inverse=True)
    time = data["dur_ns"].to_numpy(float)
    same = data["of_phase"] if alone else data["of_phase"] * len(steps) + step
    middle = median_of(time, same)
    data["at"] = time - middle
    data["apart"] = np.divide(time - middle, middle, out=np.zeros(len(time)), where=middle > 0)
    place = step - (len(steps) - 1) / 2
    data["row"] = data["of_phase"] + place * (_SPREAD / max(len(steps) - 1, 1))
    usual = [float(data.loc[data["phase"] == phase, "dur_ns"].median()) for phase in phases]
    whole = max(usual)
    reach = max(float(data["at"].abs().max()) * 1.08, _NEAREST * whole, 1.0)
    by_rank = data.groupby(["of_phase", "rank"], sort=True)[["at", "apart"]].median()
    odd = np.zeros(len(by_rank), dtype=bool) if alone else _stands_out(by_rank, whole)
    keys = pd.MultiIndex.from_frame(data[["of_phase", "rank"]])
    is_late = data["rank"].isin([] if alone else late_ranks(frame, late)).to_numpy()
    is_fact = data["rank"].isin([] if alone else fact_ranks(frame)).to_numpy()
    is_odd = odd[by_rank.index.get_indexer(keys)] | is_fact
    data["color"] = np.select(
        [is_late, is_odd], [colors.late, colors.ink], default=colors.rule_strong
    )
    # What is marked is drawn last, over the others.
    data["order"] = np.select([is_late, is_odd], [2, 1], default=0)
    data = data.sort_values("order", kind="stable").reset_index(drop=True)
    data["dur_ns_text"] = [duration(each) for each in data["dur_ns"]]
    data["apart_text"] = [
        f"{duration_delta(ns)} · {share_delta(part)}"
        for ns, part in zip(data["at"], data["apart"], strict=True)
    ]
    marked = nice_ticks(reach, 2, -reach)
    what = "median step" if alone else "median rank"
    told = [] if alone else _farthest(by_rank)
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
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, _signed(at, marked)) for at in marked],
        zero_line=True,
        pitch=_PITCH,
        columns=[
            *told,
            Column("median", [duration(each) for each in usual], 520),
        ],
        tooltip=Tooltip(
            "rank @{rank} · @{phase} of step @{step}",
            [("takes", "@{dur_ns_text}"), (f"against the {what}", "@{apart_text}")],
        ),
    )


def _stands_out(by_rank: pd.DataFrame, whole_ns: float) -> npt.NDArray[np.bool_]:
    """Say of each phase and rank if it takes longer than others, and enough to matter."""
    apart = by_rank["at"].to_numpy(float)
    usual = median_of(np.abs(apart), by_rank.index.get_level_values("of_phase"))
    longer = by_rank["apart"].to_numpy(float) >= _LONGER
    found: npt.NDArray[np.bool_] = (
        longer & (apart >= _STANDS_OUT * usual) & (apart >= _OF_STEP * whole_ns)
    )
    return found


def _farthest(by_rank: pd.DataFrame) -> list[Column]:
    """Return for each phase the rank that is farthest, in time, in the median of its steps."""
    far = by_rank["at"].abs().groupby(level="of_phase", sort=True).idxmax()
    found = by_rank.loc[far]
    words = [
        f"rank {rank} {duration_delta(ns)}"
        for rank, ns in zip(found.index.get_level_values("rank"), found["at"], strict=True)
    ]
    return [
        Column("farthest", words),
        Column("", [share_delta(each) for each in found["apart"]], 440),
    ]


def _signed(at: float, ticks: list[float]) -> str:
    if at == 0:
        return "median"
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(at)
    return f"{'+' if at > 0 else ''}{axis_time(at, step)}"
