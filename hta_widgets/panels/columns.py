"""Columns of panel frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.names import short_name


def taken(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return some columns, with what the analysis says of them."""
    found = frame[names].reset_index(drop=True)
    found.attrs = {key: frame.attrs[key] for key in ("matched", "note") if key in frame.attrs}
    return found


def or_null(values: npt.ArrayLike) -> Any:
    """Return integers that are not known where they are negative."""
    numbers = np.asarray(values, dtype=np.int64)
    return pd.arrays.IntegerArray(numbers, numbers < 0)


def texts(values: Sequence[str]) -> Any:
    """Return strings as a column, also such as are no valid Unicode."""
    try:
        return pd.array(values, dtype="str")
    except UnicodeError:
        return np.array(values, dtype=object)


def short_names(names: Sequence[str]) -> Any:
    """Return short names as a column."""
    return texts([short_name(name) for name in names])
