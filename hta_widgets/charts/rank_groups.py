"""Which group of each kind a rank is in, numbered in the order of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["KIND_ORDER", "groups_of_ranks", "placed"]

#: Neighbours first, as ranks are usually numbered; what has no purpose last.
KIND_ORDER = ("tensor", "context", "expert", "pipeline", "data", "all", "unknown")


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their column, the group's number in it and its code.

    Groups of one kind share a column unless a rank is in several of them.
    """
    data = frame.reset_index(drop=True)
    data["kind"] = data["kind"].astype(str)
    described = data["description"] if "description" in data else pd.Series("", index=data.index)
    data["described"] = described.astype(str)
    data["code"] = pd.factorize(data["group"].astype(str))[0]
    known = {kind: at for at, kind in enumerate(KIND_ORDER)}
    groups = (
        data.groupby("code")
        .agg(
            kind=("kind", "first"),
            described=("described", "first"),
            first=("rank", "min"),
            size=("rank", "size"),
            members=("rank", frozenset),
        )
        .assign(order=lambda each: each["kind"].map(known).fillna(len(known)))
        .sort_values(["order", "kind", "described", "first", "size"], kind="stable")
    )
    columns: list[dict[str, Any]] = []
    column_of, number_of = {}, {}
    for code, one in groups.iterrows():
        free = [
            at
            for at, column in enumerate(columns)
            if column["kind"] == one["kind"] and not column["members"] & one["members"]
        ]
        same = [at for at in free if columns[at]["described"] == one["described"]]
        if not free:
            free = [len(columns)]
            columns.append(
                {
                    "kind": one["kind"],
                    "described": one["described"],
                    "members": set(),
                    "groups": 0,
                }
            )
        at = (same or free)[0]
        column_of[code], number_of[code] = at, columns[at]["groups"]
        columns[at]["members"] |= one["members"]
        columns[at]["groups"] += 1
    data["column"] = data["code"].map(column_of)
    data["number"] = data["code"].map(number_of)
    return data


def groups_of_ranks(frame: pd.DataFrame, ranks: Any) -> tuple[list[str], Any]:
    """Return names of the groups of one kind, and for each of `ranks` the number of its group.

    That is the first kind in `KIND_ORDER` that has several groups, else the first; -1 is a rank
    in none.
    """
    data = placed(frame)
    if data.empty:
        return [], np.full(len(ranks), -1)
    several = data.groupby("column")["number"].max() > 0
    column = several.index[several][0] if several.any() else data["column"].min()
    own = data[data["column"] == column].drop_duplicates("rank")
    kind = own["kind"].iloc[0]
    numbers = own.set_index("rank")["number"].reindex(np.asarray(ranks)).fillna(-1)
    return [f"{kind} {each}" for each in range(own["number"].max() + 1)], numbers.to_numpy(int)
