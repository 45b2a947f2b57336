"""Every event of both runs beside its partner."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.derived import derived_once
from hta_widgets.trace.frames import dtype_of

from hta_widgets.diff.matching import match
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.tree_matching import STATUSES
from hta_widgets.diff.trees import RankTree

__all__ = ["pairs"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def pairs(diff: Comparison) -> pd.DataFrame:
    """Return every operator, call and piece of device work of the paired ranks with its partner.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair, or event without a partner, by rank, then time before:

        - ``pair`` (int64), from 0
        - ``before_rank, before_id, after_rank, after_id`` (int64): ids are -1 without a partner
        - ``name`` (category): after's where there is one; ``kind`` (category), as in events
        - ``path`` (category): the operators and annotations that enclose it, outermost first,
          ``" > "`` between; threads and steps are no part of it
        - ``before_step, after_step`` (int64): numbers of the steps, -1 for none
        - ``before_ns, after_ns, diff_ns`` (int64): durations, 0 without a partner
        - ``status`` (category): ``same``; ``changed``: longer or shorter by more than 5 % of the
          longer, and than three times the spread that the differences of events of the same path
          have; ``added, removed``; ``moved``: in another place of its step;
          ``replaced``: other device work below the same operator, in order; ids are -1 where one
          piece of work took the place of several

        Events of steps that are not compared are left out. ``.attrs["matched"]`` counts the rows
        of each status.

    Examples
    --------
    >>> found = pairs(diff)  # doctest: +SKIP
    >>> found[found.status == "replaced"]  # doctest: +SKIP
    """
    return _pairs(diff).copy()


@derived_once("pairs")
def _pairs(diff: Comparison) -> pd.DataFrame:
    matches = match(diff)
    columns: dict[str, list[npt.NDArray[np.integer]]] = {
        name: []
        for name in (
            "before_rank", "before_id", "after_rank", "after_id", "name", "kind", "path",
            "before_step", "after_step", "before_ns", "after_ns", "status",
        )
    }  # fmt: skip
    for (before, after), one in zip(diff.rank_pairs, matches.ranks, strict=True):
        added = np.flatnonzero(one.partner[1] < 0)
        a = np.concatenate([np.arange(len(one.trees[0])), np.full(len(added), -1)])
        b = np.concatenate([one.partner[0], added])
        picked = [_picked(tree, nodes) for tree, nodes in zip(one.trees, (a, b), strict=True)]
        columns["before_rank"].append(np.full(len(a), before))
        columns["after_rank"].append(np.full(len(a), after))
        for k, word in enumerate(("before", "after")):
            for name, values in picked[k].items():
                columns[f"{word}_{name}"].append(values)
        theirs = b >= 0
        last = np.where(theirs, b, 0), np.where(a >= 0, a, 0)
        for name, of in (
            ("name", [tree.name for tree in one.trees]),
            ("kind", [tree.part.table.kind[tree.rows] for tree in one.trees]),
            ("path", list(one.path)),
            ("status", list(one.status)),
        ):
            columns[name].append(_either(of[1], of[0], last[0], last[1], theirs))
    column = {name: joined(values) for name, values in columns.items()}
    texts = matches.callers
    distinct = list(dict.fromkeys(texts))
    number = {text: k for k, text in enumerate(distinct)}
    path = np.array([number[text] for text in texts], dtype=np.int64)[column["path"]]
    status = column["status"]
    return result(
        {
            "pair": np.arange(len(status), dtype=np.int64),
            **{
                name: column[name]
                for name in ("before_rank", "before_id", "after_rank", "after_id")
            },
            "name": categorical(column["name"], matches.pool.names),
            "kind": pd.Categorical.from_codes(column["kind"], dtype=dtype_of(KINDS)),
            "path": categorical(path, distinct),
            **{
                name: column[name]
                for name in ("before_step", "after_step", "before_ns", "after_ns")
            },
            "diff_ns": column["after_ns"] - column["before_ns"],
            "status": pd.Categorical.from_codes(status, dtype=dtype_of(STATUSES)),
        },
        matched={word: int((status == code).sum()) for code, word in enumerate(STATUSES)},
        note="" if len(status) else "no events are compared",
    )


def _picked(tree: RankTree, nodes: Ints) -> dict[str, Ints]:
    there = nodes >= 0
    if not len(tree):
        none = np.full(len(nodes), -1, dtype=np.int64)
        return {"id": none, "step": none, "ns": np.zeros(len(nodes), dtype=np.int64)}
    at = np.where(there, nodes, 0)
    return {
        "id": np.where(there, tree.rows[at], -1),
        "step": np.where(there, tree.part.table.step[tree.rows[at]], -1),
        "ns": np.where(there, tree.durations[at], 0),
    }


def _either(
    one: npt.NDArray[np.integer],
    other: npt.NDArray[np.integer],
    at_one: Ints,
    at_other: Ints,
    takes_one: Flags,
) -> Ints:
    """Return values of the one, or where it has none, of the other."""
    if not len(one):
        return other[at_other].astype(np.int64)
    if not len(other):
        return one[at_one].astype(np.int64)
    found: Ints = np.where(takes_one, one[at_one], other[at_other]).astype(np.int64)
    return found
