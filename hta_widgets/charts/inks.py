"""The marks of charts of BytePS and MPI: parts of bars, and cells, alike in all of them.

In a dashboard they are one sheet, which the page gives columns by the names of these inks
(``js/src/dash/by_format/inks.ts``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import duration

from hta_widgets.charts.marks import Bars
from hta_widgets.charts.marks import Whiskers
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme

__all__ = ["INKS", "add_times", "ink", "inks_sheet", "note_of", "stacked"]

#: In the order of the sheet's marks.
INKS = (
    "compute", "communication", "queue", "wait", "memory", "sync", "other", "cpu", "late",
)  # fmt: skip


def ink(name: str, colors: Theme, words: str = "") -> Bars:
    """Return bars from column ``left_<ink>`` to ``right_<ink>``."""
    left, right, said = f"left_{name}", f"right_{name}", words or name
    if name == "queue":
        return Bars(left, right, colors.idle, said, line=colors.idle_line)
    if name == "wait":
        return Bars(
            left,
            right,
            colors.wait_fill,
            said,
            line=colors.wait_line,
            hatch="/",
            hatch_color=colors.wait_line,
            text_color=colors.ink,
        )
    if name == "late":
        return Bars(left, right, colors.late_fill, said, line=colors.late)
    return Bars(left, right, colors.kind[name], said, text_color=colors.on_kind[name])


def stacked(
    data: pd.DataFrame, parts: Sequence[tuple[str, str, Any]], colors: Theme
) -> tuple[list[Bars], list[float]]:
    """Put parts of bars behind each other: add their columns, return the marks and the ends.

    Parameters
    ----------
    data : DataFrame
        Gets the columns.
    parts : sequence of (ink, words, values)
    """
    marks = []
    left = np.zeros(len(data))
    for name, words, values in parts:
        size = np.nan_to_num(np.asarray(values, dtype=float))
        # Outlines of nothing would be seen.
        data[f"left_{name}"] = np.where(size > 0, left, np.nan)
        data[f"right_{name}"] = np.where(size > 0, left + size, np.nan)
        left = left + size
        if (size > 0).any():
            marks.append(ink(name, colors, words))
    return marks, left.tolist()


def inks_sheet(theme: Theme) -> Any:
    """Return the sheet of all charts of this kind: every ink, cells, and thin lines."""
    columns: Mapping[str, Any] = {
        "row": [0],
        **{f"{side}_{name}": [float("nan")] for name in INKS for side in ("left", "right")},
        "left_cell": [float("nan")],
        "right_cell": [float("nan")],
        "fill": [theme.lane],
        "low": [float("nan")],
        "high": [float("nan")],
    }
    return rows_chart(
        pd.DataFrame(columns),
        [""],
        [
            *(ink(name, theme) for name in INKS),
            Bars("left_cell", "right_cell", "@fill"),
            Whiskers("low", "high", theme.ink),
        ],
        x_end=1.0,
        title="",
        subtitle="",
        theme=theme,
        width=None,
    )


def note_of(frame: pd.DataFrame) -> str:
    """Return what the analysis says of its frame."""
    return str(frame.attrs.get("note", ""))


def add_times(data: pd.DataFrame, **columns: Any) -> None:
    """Add durations as words."""
    for name, values in columns.items():
        data[name] = [duration(each) for each in values]
