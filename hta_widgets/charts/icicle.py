"""The operator tree of two runs as tiles, callers above callees, colored by their change."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.chart import draw_rows
from hta_widgets.charts.data import ChartFrame, diff_frame
from hta_widgets.charts.diffs import COLOURS, counts_text, relative_change
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.rows import Bars, RowsContent, Scale, Tooltip
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.panels.layers import left_edges
from hta_widgets.text import plural, share_delta
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.names import short_name

#: Minimum share of the tree's width for a tile.
_MIN_SHARE = 0.001
#: Minimum difference for each of a tile's three darker colours, as a share of the time before.
_STEPS = (0.05, 0.25, 1.0)
#: Prefix of the ranges that call the operators of a backward pass.
_AUTOGRAD = "autograd::engine::evaluate_function: "
#: Number of letters that fit into the chart; the page leaves out texts wider than their tile.
_MAX_LETTERS = 120


@check_arguments
def diff_icicle(
    frame: ChartFrame,
    *,
    depth: Positive = 14,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Operators of both runs",
) -> Figure:
    """Draw the operator tree of both runs: callers above callees.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.diff.icicle`.
    depth : int, default 14
        Number of levels.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One tile per path, coloured by the change. Its width is its time in a step, the mean of
        before and after, so that widths add up. Tiles narrower than 0.1 % of the whole are left
        out. Its source has the frame's columns.

    Examples
    --------
    >>> charts.diff_icicle(diff.icicle(both))  # doctest: +SKIP
    """
    frame = diff_frame(
        "diff_icicle",
        frame,
        *("node", "parent", "depth", "name", "before_ns", "after_ns", "diff_ns"),
        *("diff_self_ns", "before_count", "after_count", "path"),
    )
    theme = theme_of(theme)
    style = FigureStyle(title, theme, width)
    if frame.empty:
        return empty_figure(frame, style)
    size = ((frame["before_ns"] + frame["after_ns"]) / 2).to_numpy(dtype=np.float64)
    level = frame["depth"].to_numpy()
    total = float(size[level == 0].sum())
    if total <= 0:
        return empty_figure(frame, style, note="nothing below these operators takes time")
    left = left_edges(frame["parent"].to_numpy(), size)
    is_wide = size >= _MIN_SHARE * total
    is_shown = is_wide & (level < depth)
    data = frame[is_shown].reset_index(drop=True)
    data["row"] = data["depth"]
    data["low"] = left[is_shown]
    data["high"] = (left + size)[is_shown]
    data["name"] = data["name"].astype(str)
    data["label"] = [
        _cut_name(short_name(name).removeprefix(_AUTOGRAD), int(_MAX_LETTERS * width / total))
        for name, width in zip(data["name"], size[is_shown].tolist(), strict=True)
    ]
    shade = _shade_index(data)
    data["fill"] = [theme.delta[k] for k in shade.tolist()]
    # Texts have the background's colour on the ramp's dark ends, and ink on its pale middle.
    data["ink"] = [theme.bg if k in {0, 1, 5, 6} else theme.ink for k in shade.tolist()]
    relative = zip(relative_change(data), data["before_ns"], strict=True)
    data["share_text"] = [share_delta(change) if is_old else "new" for change, is_old in relative]
    data["counts_text"] = counts_text(data)
    for name in ("before", "after", "diff", "diff_self"):
        data[f"{name}_whole"] = data[f"{name}_ns"].round()
    deeper = int((is_wide & (level >= depth)).sum())
    narrow = int((~is_wide).sum())
    measure = str(frame.attrs.get("measure", ""))
    on_measure = f" on the {measure}" if measure else ""
    bars = Bars("low", "high", "fill", line=theme.bg, text="label", text_color="ink", height=0.96)
    return draw_rows(
        RowsContent(
            data=data,
            names=[""] * (int(data["depth"].max()) + 1),
            marks=[bars],
            scale=Scale(total),
            pitch=20.0,
            tooltip=Tooltip(
                "@{name}",
                [
                    ("time per step", "{before_whole:duration} → {after_whole:duration}"),
                    ("difference", "{diff_whole:duration_delta} {share_text}"),
                    ("self", "{diff_self_whole:duration_delta}"),
                    ("calls per step", "@{counts_text}"),
                    ("in", "@{path}"),
                ],
            ),
        ),
        style.with_subtitle(
            f"width: time{on_measure} per step, mean of both runs",
            COLOURS,
            f"{plural(narrow, 'narrow tile')} not drawn" if narrow else "",
            f"{plural(deeper, 'tile')} on deeper levels not drawn" if deeper else "",
            unmatched_note(frame, ()),
        ),
    )


def _cut_name(name: str, letters: int) -> str:
    return name if len(name) <= letters or letters < 6 else f"{name[: letters - 1]}…"


def _shade_index(data: pd.DataFrame) -> Ints:
    """Return each tile's index in the ramp of seven colours."""
    before = data["before_ns"].to_numpy(dtype=np.float64)
    change = data["diff_ns"].to_numpy(dtype=np.float64)
    share = np.where(before > 0, change / np.where(before > 0, before, 1.0), np.inf)
    share = np.where(change == 0, 0.0, share)
    steps = np.searchsorted(np.array(_STEPS), np.abs(share), side="right")
    shades: Ints = 3 + steps * np.sign(change).astype(np.int64)
    return shades
