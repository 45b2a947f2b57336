"""Two small tables, one of each side, as one: what each says of the same thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import result
from hta_widgets.diff.compare import Comparison


def of_sides(
    diff: Comparison, table: Callable[..., pd.DataFrame]
) -> tuple[list[pd.DataFrame], list[str]]:
    """Return an analysis of both sides, before and after, and what it says of them."""
    found = [table(side.traces, ranks=side.table_ranks) for side in diff.sides]
    notes = dict.fromkeys(frame.attrs.get("note", "") for frame in found)
    return found, [note for note in notes if note]


def beside(
    sides: Sequence[pd.DataFrame],
    keys: Sequence[str],
    measures: Sequence[str],
    facts: Sequence[str] = (),
    *,
    by: str = "",
    note: str = "",
    **attrs: Any,
) -> pd.DataFrame:
    """Return rows of two tables that have the same keys as one."""
    before, after = sides
    listed = [list(zip(*(side[key].tolist() for key in keys), strict=True)) for side in sides]
    every = list(dict.fromkeys([*listed[0], *listed[1]]))
    place = {key: number for number, key in enumerate(every)}
    columns: dict[str, Any] = {
        name: pd.Series([key[k] for key in every], dtype=_dtype(sides, name))
        for k, name in enumerate(keys)
    }
    at = [np.array([place[key] for key in one], dtype=np.intp) for one in listed]
    for name in measures:
        values = [np.full(len(every), np.nan) for _ in range(2)]
        for side, rows, value in zip(sides, at, values, strict=True):
            value[rows] = side[name].to_numpy(dtype=np.float64)
        columns[f"before_{name}"], columns[f"after_{name}"] = values
        columns[f"diff_{name}"] = values[1] - values[0]
    for name in facts:
        for word, side, rows in zip(("before", "after"), sides, at, strict=True):
            found = np.full(len(every), None, dtype=object)
            found[rows] = side[name].to_numpy(dtype=object)
            columns[f"{word}_{name}"] = pd.Series(found, dtype=object)
    frame = result(
        columns, matched={"before": len(before), "after": len(after)}, note=note, **attrs
    )
    if by:
        kept = frame.attrs
        order = np.argsort(-np.nan_to_num(np.abs(frame[f"diff_{by}"].to_numpy())), kind="stable")
        frame = frame.iloc[order].reset_index(drop=True)
        frame.attrs = kept
    return frame


def _dtype(sides: Sequence[pd.DataFrame], name: str) -> Any:
    kinds = {side[name].dtype for side in sides}
    only = kinds.pop()
    return only if not kinds and only == np.int64 else object


def rows_of(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows of a frame, with its columns as attributes."""
    yield from frame.itertuples(index=False)
