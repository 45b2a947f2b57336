"""The events of two runs with their partners, one row per pair."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, result_frame, stack_blocks
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.match import STATUSES, MatchedTrees, match_ranks
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.memo import memoize


@check_arguments
def pairs(diff: Comparison) -> pd.DataFrame:
    """Return operators, calls and device work of the paired ranks, each with its partner.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair or event without a partner, ordered by rank, then by time before:

        - ``pair`` (int64), counted from 0
        - ``before_rank, before_id, after_rank, after_id`` (int64): ids are -1 without a partner
        - ``name`` (category): the name after, or before if only the first run has the event;
          ``kind`` (category), as in events
        - ``path`` (category): the enclosing operators and annotations, outermost first, joined
          by ``" > "``, without threads and steps
        - ``before_step, after_step`` (int64): numbers of the steps, -1 if none
        - ``before_ns, after_ns, diff_ns`` (int64): durations, 0 without a partner
        - ``status`` (category): ``same``; ``changed``: durations differ by more than 5 % of the
          longer one and by more than three times the spread of differences on the same path;
          ``added, removed``; ``moved``: elsewhere in the same step; ``replaced``: other device work
          below the same operator, paired in order; ids are -1 if one piece of work replaced several

        Events of steps that are not compared are excluded. ``.attrs["matched"]`` counts the rows by
        status.
    """
    return _pair_frame(diff).copy()


@memoize
def _pair_frame(diff: Comparison) -> pd.DataFrame:
    matches = match_ranks(diff)
    blocks = list(map(_pairs_of_ranks, diff.rank_pairs, matches.ranks))
    column = stack_blocks(blocks, dict.fromkeys(blocks[0], "int64"))
    callers, distinct = pd.factorize(np.array(matches.callers, dtype=object))
    status = column["status"]
    ids = ("before_rank", "before_id", "after_rank", "after_id")
    steps_and_times = ("before_step", "after_step", "before_ns", "after_ns")
    return result_frame(
        {
            "pair": np.arange(len(status), dtype=np.int64),
            **{name: column[name] for name in ids},
            "name": categorical(column["name"], matches.pool.names),
            "kind": categorical(column["kind"], KINDS),
            "path": categorical(callers[column["path"]], distinct.tolist()),
            **{name: column[name] for name in steps_and_times},
            "diff_ns": column["after_ns"] - column["before_ns"],
            "status": categorical(status, STATUSES),
        },
        matched={word: int((status == code).sum()) for code, word in enumerate(STATUSES)},
        note="" if len(status) else "no events are compared",
    )


def _pairs_of_ranks(ranks: tuple[int, int], matched: MatchedTrees) -> dict[str, Ints]:
    """Return the rows of a pair of ranks, with codes for names, kinds, paths and statuses."""
    added = np.flatnonzero(matched.partner[1] < 0)
    # The node of each row on both sides; -1 without a partner.
    nodes = (
        np.append(np.arange(len(matched.trees[0])), np.full(len(added), -1)),
        np.append(matched.partner[0], added),
    )
    block = {}
    for k, word in enumerate(("before", "after")):
        tree, node = matched.trees[k], nodes[k]
        # Index -1 (no node) selects the appended item.
        block[f"{word}_rank"] = np.full(len(node), ranks[k])
        block[f"{word}_id"] = np.append(tree.rows, -1)[node]
        block[f"{word}_step"] = np.append(tree.part.table.step[tree.rows], -1)[node]
        block[f"{word}_ns"] = np.append(tree.durations, 0)[node]
    kinds = [tree.part.table.kind[tree.rows] for tree in matched.trees]
    names = [tree.name for tree in matched.trees]
    for name, (before, after) in (
        ("name", names), ("kind", kinds), ("path", matched.path), ("status", matched.status),
    ):  # fmt: skip
        values = np.append(before, -1)[nodes[0]], np.append(after, -1)[nodes[1]]
        block[name] = np.where(nodes[1] >= 0, values[1], values[0])
    return block
