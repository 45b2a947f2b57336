"""What charts of differences share: their words, colours and scales."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.text import axis_time
from hta_widgets.text import count
from hta_widgets.text import duration

from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.theme import Theme

__all__ = ["calls", "colour", "signed_ticks", "times"]

_SAME = 0.02  # of before: less is drawn grey


def times(data: pd.DataFrame) -> list[str]:
    """Return the times of both runs as words."""
    return [
        f"{duration(was)} → {duration(now)}"
        for was, now in zip(data["before_ns"].round(), data["after_ns"].round(), strict=True)
    ]


def calls(number: float) -> str:
    """Return a mean number of calls as words."""
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def colour(data: pd.DataFrame, colors: Theme) -> None:
    """Add columns ``fill`` and ``line``: less, more, or about the same."""
    relative = (data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)).abs()
    same = (relative <= _SAME).to_numpy(dtype=bool)
    more = (data["diff_ns"] > 0).to_numpy(dtype=bool)
    data["fill"] = np.where(same, colors.delta[3], np.where(more, colors.delta[5], colors.delta[1]))
    data["line"] = np.where(same, colors.rule_strong, data["fill"])


def signed_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round differences of time from `low` to `high`, and their labels."""
    ticks = nice_ticks(max(high, 0), 2, min(low, 0))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else max(high, -low, 1.0)
    return [(at, ("+" if at > 0 else "") + axis_time(at, step)) for at in ticks]
