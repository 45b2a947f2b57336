"""What analyses return: frames that also say what they matched, and why they are empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.frames import dtype_of
from hta_widgets.trace.table import Pool

__all__ = ["by_column", "categorical", "common_codes", "joined", "joined_columns", "result"]


def result(
    columns: Mapping[str, Any],
    *,
    matched: Mapping[str, int],
    note: str = "",
    copy: bool = True,
    **attrs: Any,
) -> pd.DataFrame:
    """Return a frame of `columns`, in their order and with their dtypes.

    Parameters
    ----------
    columns : mapping of str to array
        All of one length.
    matched : mapping of str to int
        How many events each class matched, zeros included; becomes ``.attrs["matched"]``.
    note : str, optional
        Becomes ``.attrs["note"]``: why the frame is empty, or what readers must know of it.
    copy : bool, default True
        False where nobody else holds the columns: of many rows, copies take longer than the rest.
    **attrs
        Further entries of ``.attrs``; plain values only.
    """
    frame = pd.DataFrame(dict(columns), copy=copy)
    frame.attrs["matched"] = {key: int(count) for key, count in matched.items()}
    if note or not len(frame):
        frame.attrs["note"] = note or "no events match"
    frame.attrs.update(attrs)
    return frame


def joined(arrays: Sequence[npt.NDArray[Any]], dtype: Any = np.int64) -> npt.NDArray[Any]:
    """Put one array per rank below each other; of `dtype` also where there are none."""
    if not len(arrays):
        return np.empty(0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)


def joined_columns(
    blocks: Sequence[Mapping[str, npt.NDArray[Any]]], names: Iterable[str], **dtypes: Any
) -> dict[str, npt.NDArray[Any]]:
    """Put the columns of one block per rank below each other: int64, or what `dtypes` say."""
    return {
        name: joined([block[name] for block in blocks], dtypes.get(name, np.int64))
        for name in names
    }


def by_column(rows: Iterable[Sequence[Any]], dtypes: Mapping[str, Any]) -> dict[str, Any]:
    """Return rows, values in the order of `dtypes`, as columns; also where there are no rows."""
    values = list(zip(*rows, strict=True)) or [()] * len(dtypes)
    return {
        name: pd.Series(column, dtype=object) if dtype is object else np.array(column, dtype)
        for (name, dtype), column in zip(dtypes.items(), values, strict=True)
    }


def categorical(codes: npt.NDArray[Any], values: Sequence[str]) -> pd.Categorical:
    """Return strings given as codes into distinct `values`."""
    return pd.Categorical.from_codes(codes, dtype=dtype_of(values))


def common_codes(
    codes: npt.NDArray[np.int32], own: Sequence[str], common: Pool
) -> npt.NDArray[np.int32]:
    """Return codes into what one rank names as codes into what all ranks name."""
    new = np.array([common.add(name) for name in own], dtype=np.int32)
    return new[codes]
