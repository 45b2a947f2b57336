"""Whether a chart was given the frame that it draws."""

from __future__ import annotations

import pandas as pd

from hta_widgets.errors import TraceError

__all__ = ["require"]


def require(frame: pd.DataFrame, analysis: str, *columns: str) -> None:
    """Raise a `TraceError` where columns are missing: it names them and the frame's analysis."""
    missing = [name for name in columns if name not in frame]
    if missing:
        named = ", ".join(f"'{name}'" for name in missing)
        raise TraceError(
            f"the frame to draw has no column{'s' if len(missing) > 1 else ''} {named}",
            remedy=f"Give the frame of hta_widgets.analysis.{analysis}.",
        )
