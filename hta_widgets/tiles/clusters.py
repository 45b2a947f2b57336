"""Which ranks look alike, so that one row can stand for them."""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["clusters"]


def clusters(frame: pd.DataFrame) -> dict[str, Any]:
    """Answer ``clusters``: groups of ranks that are alike, and the ranks that are like no other.

    Parameters
    ----------
    frame : DataFrame
        What ``analysis.rank_clusters`` returned.

    Returns
    -------
    dict
        ``clusters`` by representative, ``outliers`` by rank, and the frame's ``note``.
    """
    alone = frame["is_outlier"].to_numpy(bool)
    reason = dict(zip(frame["rank"].tolist(), frame["why"].astype(str).tolist(), strict=True))
    groups = []
    for _, group in frame[~alone].groupby("cluster", sort=False):
        ranks = sorted(int(rank) for rank in group["rank"])
        stands = int(group["representative"].iloc[0])
        stands = stands if stands in ranks else ranks[0]
        groups.append({"representative": stands, "ranks": ranks, "why": reason[stands]})
    outliers = sorted(int(rank) for rank in frame["rank"][alone])
    return {
        "clusters": sorted(groups, key=lambda group: group["representative"]),
        "outliers": [{"rank": rank, "why": reason[rank]} for rank in outliers],
        "note": str(frame.attrs.get("note", "")),
    }
