"""Similar ranks as one row or mark of a chart: their mean, and the spread of one measure.

``js/src/charts/folding.ts`` does the same in the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts.data import listed, require_of
from hta_widgets.charts.language import Scope, codes, evaluate, fill, is_rows
from hta_widgets.text import count, number_runs, run_text

#: Ranks that share a row, ascending, by each of them.
Groups = Mapping[int, Sequence[int]]


def groups_of(frame: pd.DataFrame) -> Groups:
    """Return the groups of a frame's ranks, largest first, from its attribute ``folded``.

    Ranks that the headline names are in none.
    """
    marked = {*frame.attrs.get("late_ranks", ()), *frame.attrs.get("fact_ranks", ())}
    there = set(frame["rank"].tolist()) - marked if "rank" in frame else set()
    given = [sorted(there.intersection(ranks)) for ranks in frame.attrs.get("folded", ())]
    groups = sorted((ranks for ranks in given if len(ranks) > 1), key=lambda one: (-len(one), one))
    return {rank: ranks for ranks in groups for rank in ranks}


def row_name(ranks: Sequence[int]) -> str:
    """Return ``rank 5`` or ``59 ranks: 0–4, 6 …``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs = [run_text(run) for run in number_runs(ranks)]
    return f"{count(len(ranks))} ranks: {', '.join(runs[:2])}{' …' if len(runs) > 2 else ''}"


#: Addition to a subtitle if ranks share rows.
TOGETHER = "similar ranks together: mean"


def folded_words(fold: Mapping[str, Any]) -> str:
    """Return the same, of charts that draw the spread."""
    return f"{TOGETHER}, line: least to most {fold['spread']['name']}"


def set_members(scope: Scope, members: Sequence[Sequence[int]]) -> None:
    """Set what definitions may name of each item: `who` it is of, and its `members`."""
    scope["members"] = _lists(members)
    scope["who"] = np.array([row_name(ranks) for ranks in members], object)


def _lists(values: Sequence[Any]) -> Any:
    found = np.empty(len(values), object)
    found[:] = [list(each) for each in values]
    return found


def fold_items(
    scope: Scope, fold: Mapping[str, Any], groups: Groups, apart: Sequence[Any] = ()
) -> None:
    """Fold the items of a scope: `groups` become one each, for every value of `apart`.

    Where rows are ranks, single ranks come first. Adds ``members``, ``who``, ``mean_of``,
    ``fold_low``, ``fold_high`` and ``spread_text``.
    """
    items, rules, spread = len(scope["rank"]), fold.get("by", {}), fold["spread"]
    place_of: dict[int, int] = {}
    for ranks in groups.values():
        if ranks[0] not in place_of:
            place_of |= dict.fromkeys(ranks, max(place_of.values(), default=0) + 1)
    place = np.array([place_of.get(int(rank), 0) for rank in scope["rank"]], int)
    if "keep" in fold:
        place = np.where(np.asarray(evaluate(fold["keep"], scope), bool), 0, place)
    columns = [name for name, value in scope.items() if is_rows(value) and len(value) == items]
    if not apart:
        order = np.argsort(place, kind="stable")
        scope |= {name: scope[name][order] for name in columns}
        place = place[order]
    rank = scope["rank"]
    of = np.broadcast_to(evaluate(spread["of"], scope), items)
    at = np.broadcast_to(evaluate(spread.get("at", spread["of"]), scope), items)
    own = np.where(place > 0, -place, rank)
    inner = {"fold": codes([*apart, own, *(scope[name] for name in fold.get("each", ()))])}
    inner |= {"measure": of, "position": at, "rank": rank}

    def found(code: str, value: Any = rank) -> Any:
        return evaluate(f"{code}, by=fold)", {**inner, "value": value})

    members = [sorted({int(one) for one in some}) for some in found("lists(rank")]
    alone = np.array([len(ranks) == 1 for ranks in members])
    for name in columns:
        value = scope[name]
        rule = "min" if name == "rank" else rules.get(name, "mean")
        if rule == "same":
            first = found("first(value", value)
            none: Any = "" if first.dtype.kind in "OU" else np.nan
            scope[name] = np.where(found("distinct(value", value) == 1, first, none)
        else:
            is_text = np.asarray(value).dtype.kind in "OU"
            scope[name] = found("first(value" if is_text else f"{rule}(value", value)
    set_members(scope, members)
    scope["fold_low"] = np.where(alone, np.nan, found("min(position").astype(float))
    scope["fold_high"] = np.where(alone, np.nan, found("max(position").astype(float))
    ends = {"low": found("min(measure"), "high": found("max(measure")}
    ends |= {"of_low": found("pick(rank, -measure"), "of_high": found("pick(rank, measure")}
    how = spread["as"]
    said = fill(f"{{low:{how}}} (rank {{of_low}}) – {{high:{how}}} (rank {{of_high}})", ends)
    scope["spread_text"] = np.where(alone, "", said)
    scope["mean_of"] = np.array(
        ["" if len(own) == 1 else listed(own, 8) for own in members], object
    )


def draw_folded(frame: pd.DataFrame, clusters: pd.DataFrame | None) -> pd.DataFrame:
    """Return the frame with the groups of `analysis.rank_clusters`, to be drawn folded."""
    if clusters is None:
        return frame
    require_of("analysis.rank_clusters", clusters, "cluster", "rank")
    found = frame.copy(deep=False)
    groups = clusters.groupby("cluster")["rank"].agg(list).tolist()
    found.attrs = {**frame.attrs, "folded": [ranks for ranks in groups if len(ranks) > 1]}
    return found
