"""Which pairs a row of `hta_widgets.diff.changes` is about."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]

_DEVICE = ("compute", "communication", "memory")
_BETWEEN = " > "


def rows_of_change(pairs: pd.DataFrame, change: pd.Series) -> Ints:
    """Return the rows of `pairs` that a change is about.

    Operators of its name, as far as their calls are what it says, and the device work that belongs
    to them: of what came, went or moved all work below, of slower and faster ones what they
    launched themselves, of replaced work that alone.
    """
    word, name = str(change["change"]), str(change["name"])
    status = pairs["status"].to_numpy()
    named = _of_texts(pairs["name"], lambda text: text == name)
    device = pairs["kind"].isin(_DEVICE).to_numpy()
    launched = device & _of_texts(
        pairs["path"], lambda text: text == name or text.endswith(_BETWEEN + name)
    )
    if word in {"slower", "faster"}:
        matched = (pairs["before_id"] >= 0).to_numpy() & (pairs["after_id"] >= 0).to_numpy()
        return np.flatnonzero(matched & (status != "replaced") & (named & ~device | launched))
    if word == "replaced":
        return np.flatnonzero((status == word) & launched)
    if str(change["measure"]) == "kernel":
        return np.flatnonzero((status == word) & named & device)
    within = f"{_BETWEEN}{name}{_BETWEEN}"
    below = _of_texts(pairs["path"], lambda text: within in f"{_BETWEEN}{text}{_BETWEEN}")
    return np.flatnonzero((status == word) & (named & ~device | below & device))


def _of_texts(column: pd.Series, holds: Callable[[str], bool]) -> Flags:
    """Return where a category holds; asked once for each distinct text."""
    asked = np.array([holds(text) for text in column.cat.categories], dtype=np.bool_)
    codes = column.cat.codes.to_numpy()
    found: Flags = asked[codes] & (codes >= 0) if len(asked) else np.zeros(len(codes), np.bool_)
    return found
