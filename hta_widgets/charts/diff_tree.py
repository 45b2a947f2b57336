"""The operator tree of two runs as one: who calls whom, slower or faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.text import duration_delta
from hta_widgets.text import plural
from hta_widgets.text import share_delta
from hta_widgets.trace.names import short_name

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.delta_rows import calls
from hta_widgets.charts.delta_rows import times
from hta_widgets.charts.frames import draws_only
from hta_widgets.charts.frames import require_diff
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["diff_icicle"]

_LEAST = 0.001  # of the whole: narrower tiles could not be seen
#: From where on a tile has the next colour, as a share of before.
_STEPS = (0.05, 0.25, 1.0)
#: What every operator of a backward pass is called by.
_AUTOGRAD = "autograd::engine::evaluate_function: "
_LETTERS = 120  # that fit into the whole; the page leaves out what its width has no room for


@draws_only("hta_widgets.diff.icicle(diff.compare(before, after))")
def diff_icicle(
    frame: pd.DataFrame,
    *,
    depth: int = 14,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Operators of both runs",
) -> Any:
    """Draw the operator tree of both runs: callers above those that they call.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.diff.icicle`.
    depth : int, default 14
        How many levels.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A tile a path, as wide as its time in a step, the mean of before and after, so that tiles
        add up; coloured by the change. Tiles narrower than 0.1 % of the whole are left out. Its
        source has the frame's columns.

    Examples
    --------
    >>> charts.diff_icicle(diff.icicle(both))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require_diff(
        frame, "icicle", "node", "parent", "depth", "name", "before_ns", "after_ns", "diff_ns"
    )
    require_diff(frame, "icicle", "diff_self_ns", "before_count", "after_count", "path")
    size = ((frame["before_ns"] + frame["after_ns"]) / 2).to_numpy(dtype=np.float64)
    level = frame["depth"].to_numpy()
    whole = float(size[level == 0].sum())
    if whole <= 0:
        return blank(frame, title, colors, width, note="nothing below these operators takes time")
    left = _lefts(frame["parent"].to_numpy(), size)
    wide = size >= _LEAST * whole
    kept = wide & (level < depth)
    data = frame[kept].reset_index(drop=True)
    data["row"] = data["depth"]
    data["low"] = left[kept]
    data["high"] = (left + size)[kept]
    data["name"] = data["name"].astype(str)
    data["label"] = [
        _cut(short_name(name).removeprefix(_AUTOGRAD), int(_LETTERS * wide / whole))
        for name, wide in zip(data["name"], size[kept].tolist(), strict=True)
    ]
    shade = _shades(data)
    data["fill"] = [colors.delta[k] for k in shade.tolist()]
    # The ramp's ends are strong; its middle is near the ground.
    data["ink"] = [colors.bg if k in {0, 1, 5, 6} else colors.ink for k in shade.tolist()]
    data["diff_text"] = [duration_delta(each) for each in data["diff_ns"].round()]
    data["self_text"] = [duration_delta(each) for each in data["diff_self_ns"].round()]
    share = data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)
    data["share_text"] = [
        share_delta(each) if was else "new"
        for each, was in zip(share, data["before_ns"], strict=True)
    ]
    data["times_text"] = times(data)
    data["counts_text"] = [
        f"{calls(was)} → {calls(now)}"
        for was, now in zip(data["before_count"], data["after_count"], strict=True)
    ]
    rows = int(data["depth"].max()) + 1
    deeper = int((wide & (level >= depth)).sum())
    narrow = int((~wide).sum())
    measure = str(frame.attrs.get("measure", ""))
    return rows_chart(
        data,
        [""] * rows,
        [
            Bars(
                "low",
                "high",
                "@fill",
                line=colors.bg,
                text="label",
                text_color="@ink",
                height=0.96,
            )
        ],
        x_end=whole,
        title=title,
        subtitle=sentences(
            f"as wide as its time on the {measure} in a step, mean of both runs"
            if measure
            else "as wide as its time in a step, mean of both runs",
            "green: less, magenta: more",
            f"{plural(narrow, 'narrow tile')} not drawn" if narrow else "",
            f"{plural(deeper, 'tile')} of deeper levels not drawn" if deeper else "",
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        pitch=20.0,
        tooltip=Tooltip(
            "@{name}",
            [
                ("time in a step", "@{times_text}"),
                ("difference", "@{diff_text} @{share_text}"),
                ("of itself", "@{self_text}"),
                ("calls in a step", "@{counts_text}"),
                ("in", "@{path}"),
            ],
        ),
    )


def _cut(name: str, letters: int) -> str:
    return name if len(name) <= letters or letters < 6 else f"{name[: letters - 1]}…"


def _lefts(parent: npt.NDArray[Any], size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return where each tile begins: siblings side by side from where their parent begins."""
    left = np.zeros(len(size))
    taken = np.zeros(len(size) + 1)
    for node, above in enumerate(parent.tolist()):  # paths, which are few; parents come first
        begin = left[above] if above >= 0 else 0.0
        left[node] = begin + taken[above]
        taken[above] += size[node]
    return left


def _shades(data: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return the place of each tile's colour on the ramp of seven."""
    before = data["before_ns"].to_numpy(dtype=np.float64)
    change = data["diff_ns"].to_numpy(dtype=np.float64)
    share = np.where(before > 0, change / np.where(before > 0, before, 1.0), np.inf)
    share = np.where(change == 0, 0.0, share)
    steps = np.searchsorted(np.array(_STEPS), np.abs(share), side="right")
    found: npt.NDArray[np.int64] = 3 + steps * np.sign(change).astype(np.int64)
    return found
