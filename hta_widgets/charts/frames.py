"""Whether a chart was given a frame that it draws, and a measure that it has."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from hta_widgets.errors import TraceError

__all__ = ["require", "require_diff", "require_measure", "require_panel"]


def require(frame: pd.DataFrame, analysis: str, *columns: str) -> None:
    """Raise a `TraceError` where columns are missing: it names them and the frame's analysis."""
    _require(frame, f"Give the frame of hta_widgets.analysis.{analysis}.", columns)


def require_diff(frame: pd.DataFrame, table: str, *columns: str) -> None:
    """As `require`, of a frame that compares two runs."""
    _require(frame, f"Give the frame of hta_widgets.diff.{table}.", columns)


def require_panel(frame: pd.DataFrame, panel: str, *columns: str) -> None:
    """As `require`, of a frame that a dashboard's panel shows."""
    _require(frame, f'Give what a Dashboard\'s panel_frame("{panel}") returns.', columns)


def require_measure(measure: str, known: Collection[str]) -> None:
    """Raise a `ValueError` for a measure that is not one of the `known`."""
    if measure not in known:
        raise ValueError(f"no measure {measure!r}: there are {', '.join(known)}")


def _require(frame: pd.DataFrame, remedy: str, columns: tuple[str, ...]) -> None:
    missing = [name for name in columns if name not in frame]
    if missing:
        named = ", ".join(f"'{name}'" for name in missing)
        raise TraceError(
            f"the frame to draw has no column{'s' if len(missing) > 1 else ''} {named}",
            remedy=remedy,
        )
