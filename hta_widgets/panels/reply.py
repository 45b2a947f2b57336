"""Panel frames as JSON values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["as_json"]


def as_json(frame: pd.DataFrame) -> dict[str, Any]:
    """Return a frame as ``{rows, columns, attrs}``; what is not known is None.

    Integers stay integers; text and categories are strings.
    """
    return {
        "rows": len(frame),
        "columns": {str(name): _values(frame[name]) for name in frame},
        "attrs": dict(frame.attrs),
    }


def _values(column: pd.Series[Any]) -> list[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        return column.to_numpy().tolist()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        values = column.to_numpy()
        known = np.isfinite(values)
        found = values.tolist()
        for place in np.flatnonzero(~known).tolist():
            found[place] = None
        return found
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = [str(value) for value in column.cat.categories]
        return [None if code < 0 else categories[code] for code in column.cat.codes.tolist()]
    return [None if value is None or value is pd.NA else value for value in column.tolist()]
