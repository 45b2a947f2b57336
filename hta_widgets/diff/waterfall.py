"""Splits the difference between two runs by kind, cause, operator, kernel or call path."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, result_frame
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.causes import (
    CAUSES,
    KIND_OF,
    chains,
    splits_communication,
    step_times_by_cause,
    work_shares,
)
from hta_widgets.diff.changes import path_times
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.match import Matches, match_ranks
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.stats import mean_parts
from hta_widgets.diff.trees import CALL, OPERATOR, WORK
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Floats, Ints, positions_of_rows, sum_by_group
from hta_widgets.trace.event_columns import categorical_dtype
from hta_widgets.trace.host_stack import forest_of, operator_tree

Level = Literal["kind", "cause", "operator", "kernel"]

_STATUSES = ("same", "changed", "added", "removed")
_KIND_OF_WORK = ("compute", "communication", "memory")


@check_arguments
def icicle(diff: Comparison, measure: Literal["device", "host"] = "device") -> pd.DataFrame:
    """Return the operator tree of both runs, with the calls of each path summed.

    Parameters
    ----------
    diff : Comparison
    measure : {"device", "host"}, default "device"
        ``"device"``: time of device work, which forms the leaves. A node's time covers all work
        below it. ``"host"``: time of operators on the host. The ``self`` time of a node excludes
        operators below it, and includes waits for the device.

    Returns
    -------
    DataFrame
        One row per path, parents before children, siblings ordered by the longer of their two
        times. Values are per step, as means over steps and paired ranks:

        - ``node`` (int64), counted from 0; ``parent`` (int64), -1 for the outermost; ``depth``
          (int64)
        - ``name`` (str); ``path`` (str), its callers, outermost first, joined by ``" > "``
        - ``kind`` (category): ``cpu`` for operators and annotations; for device work, its kind
        - ``before_count, after_count`` (float64)
        - ``before_ns, after_ns, diff_ns`` (float64): times including all nodes below
        - ``before_self_ns, after_self_ns, diff_self_ns`` (float64): times excluding nodes below
        - ``status`` (category): ``added, removed``; ``changed``: a different count; ``same``

        ``.attrs["without_waiting"]``: whether times of collectives exclude waits for other ranks,
        which must be known on both sides.
    """
    matches = match_ranks(diff)
    parent, kind, depth = matches.path_parent, matches.path_kind, matches.path_depth
    is_counted = kind != CALL if measure == "device" else kind == OPERATOR
    times_of_sides = path_times(diff)
    count = [times.count.mean(axis=0) for times in times_of_sides]
    if measure == "device":
        self_times = [times.device_ns.mean(axis=0) for times in times_of_sides]
        total = [_sums_of_subtrees(parent, depth, times) for times in self_times]
    else:
        total = [times.host_ns.mean(axis=0) for times in times_of_sides]
        inner = np.flatnonzero((parent >= 0) & is_counted)
        children = [np.bincount(parent[inner], times[inner], len(parent)) for times in total]
        self_times = [np.maximum(total[k] - children[k], 0.0) for k in (0, 1)]
    is_present = is_counted & ((count[0] > 0) | (count[1] > 0))
    order = _depth_first_order(parent, is_present, np.maximum(*total))
    names, callers = matches.pool.names, matches.callers
    before, after = (values[order] for values in count)
    status = np.select(
        [before == 0, after == 0, ~np.isclose(before, after)],
        [_STATUSES.index(word) for word in ("added", "removed", "changed")],
        0,
    )
    columns: dict[str, object] = {
        "node": np.arange(len(order), dtype=np.int64),
        "parent": positions_of_rows(order, len(parent))[parent[order]],
        "depth": depth[order],
        "name": pd.array([names[matches.path_name[path]] for path in order.tolist()], dtype="str"),
        "path": pd.array([callers[path] for path in order.tolist()], dtype="str"),
        "kind": categorical(_path_kinds(matches, order), KINDS),
        "before_count": before,
        "after_count": after,
    }
    for name, (before_ns, after_ns) in (("ns", total), ("self_ns", self_times)):
        columns[f"before_{name}"], columns[f"after_{name}"] = before_ns[order], after_ns[order]
        columns[f"diff_{name}"] = after_ns[order] - before_ns[order]
    columns["status"] = categorical(status, _STATUSES)
    return result_frame(
        columns,
        matched={"paths": len(order)},
        note="" if len(order) else "no operators in the compared steps",
        measure=measure,
        without_waiting=measure == "device" and splits_communication(diff),
        steps=diff.step_count,
    )


def _sums_of_subtrees(parent: Ints, depth: Ints, times: Floats) -> Floats:
    sums = times.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        members = np.flatnonzero(depth == level)
        np.add.at(sums, parent[members], sums[members])
    return sums


def _depth_first_order(parent: Ints, is_present: Bools, size: Floats) -> Ints:
    """Return the paths depth first: each before its children, largest child first."""
    paths = np.flatnonzero(is_present)
    by_size = paths[np.lexsort((-paths, -size[paths]))]
    forest = forest_of(positions_of_rows(by_size, len(parent))[parent[by_size]])
    return by_size[np.argsort(forest.preorder)]


def _path_kinds(matches: Matches, paths: Ints) -> Ints:
    kind = np.full(len(matches.path_name), KINDS.index("cpu"), dtype=np.int64)
    for matched in matches.ranks:
        for tree, path in zip(matched.trees, matched.path, strict=True):
            work = np.flatnonzero(tree.kind == WORK)
            kind[path[work]] = tree.part.table.kind[tree.rows[work]]
    return kind[paths]


@check_arguments
def waterfall(diff: Comparison, by: Level = "kind", *, step: int | None = None) -> pd.DataFrame:
    """Split the difference of the step times by kind, cause, operator or kernel.

    Every moment of a step counts once: as compute if a compute kernel runs, else as communication,
    else as copies, else as idle. It counts for the step whose window (`RunSide`) contains it,
    whichever step launched the work. If ranges overlap, it counts for the step that began last. The
    rows therefore add up to the step times, and their differences to the difference of the step
    times, to the nanosecond. Work outside of the compared steps is excluded, even if they launched
    it; a caution reports it if it differs by 1 % of the step time. `names` has whole durations.

    A BytePS step of a GPU extends from its first synchronization to that of the next step. Within a
    step, stages of the partition that ends last count as communication or copies, queues before
    these stages as idle, and the rest as host. In MPI timelines, calls count as communication and
    the rest as host.

    Parameters
    ----------
    diff : Comparison
    by : {"kind", "cause", "operator", "kernel"}, default "kind"
        - ``"kind"``: compute, exposed communication, exposed copies, idle
        - ``"cause"``: idle time by what the device waited for, as in
          `hta_widgets.analysis.device_idle_breakdown` (``nothing_launched``: after the rank's last
          work, or all time of a rank without work); exposed communication as waits for other ranks
          and transfer, if the waits are known on both sides; for BytePS, also the queue before a
          stage (``stage_queue``, ``root_wait``), the signal to other GPUs (``coordination``) and
          the return to the framework (``tail``)
        - ``"operator"``, ``"kernel"``: work by its innermost launching operator, or by its own
          name; if several pieces of a kind run at the same time, the time belongs to the first
          piece. For BytePS, by stage including the queue before it; for MPI, by routine
    step : int, optional
        Position of one pair of steps. Default: all pairs.

    Returns
    -------
    DataFrame
        One row per kind, cause, operator or kernel, ordered by the size of the difference: ``kind``
        (category: ``compute, communication, memory, idle``, and ``cpu`` if no rank has device
        work); ``cause`` (category); ``name`` (str) by operator or kernel, empty for idle; int64
        ``before_ns, after_ns, diff_ns``: sums over the compared steps, as means over a side's
        ranks, rounded so that they add up; ``change_share`` (float64): the difference as a share of
        ``before_ns``, NaN if that is 0.

        ``.attrs``: ``before_ns, after_ns`` (the totals), ``steps``, ``before_ranks, after_ranks``,
        ``communication_split``.
    """
    if step is not None and not 0 <= step < diff.step_count:
        remedy = f"Pairs are numbered from 0 to {diff.step_count - 1}."
        raise TraceError(f"no pair of steps {step}", remedy=remedy)
    keys, before, after = _mean_times(diff, by, step)
    change = after - before
    rows = np.argsort(-np.abs(change), kind="stable")
    if by != "kind":
        rows = rows[(before[rows] != 0) | (after[rows] != 0)]
    totals = int(before.sum()), int(after.sum())
    before, after, change = before[rows], after[rows], change[rows]
    causes = [keys[k][0] for k in rows.tolist()]
    kinds = [KIND_OF.get(cause, cause) for cause in causes]
    columns: dict[str, object] = {
        "kind": pd.Categorical(kinds, dtype=categorical_dtype((*KINDS, "idle"))),
        "cause": pd.Categorical(causes, dtype=categorical_dtype((*CAUSES, "idle"))),
    }
    if by in {"operator", "kernel"}:
        columns["name"] = pd.array([keys[k][1] for k in rows.tolist()], dtype="str")
    columns |= {"before_ns": before, "after_ns": after, "diff_ns": change}
    return result_frame(
        {**columns, "change_share": change / np.where(before > 0, before, np.nan)},
        matched={"before": totals[0], "after": totals[1]},
        note="" if len(rows) else "the steps have no length",
        before_ns=totals[0],
        after_ns=totals[1],
        steps=diff.step_count if step is None else 1,
        before_ranks=len(diff.before.ranks),
        after_ranks=len(diff.after.ranks),
        communication_split=splits_communication(diff),
    )


def _mean_times(
    diff: Comparison, by: str, step: int | None
) -> tuple[list[tuple[str, str]], Ints, Ints]:
    """Return causes and names with their times before and after, averaged over ranks."""
    sums_of_sides = [_time_by_cause_and_name(diff, side, by, step) for side in diff.sides]
    # With sorted keys, rounding does not depend on which side comes first.
    keys = sorted(sums_of_sides[0].keys() | sums_of_sides[1].keys())
    before, after = (
        mean_parts(np.array([sums[key] for key in keys], dtype=np.int64), len(side.ranks))
        for side, sums in zip(diff.sides, sums_of_sides, strict=True)
    )
    return keys, before, after


def _time_by_cause_and_name(
    diff: Comparison, side: RunSide, by: str, step: int | None
) -> Counter[tuple[str, str]]:
    """Return a side's time by cause and name; the name is "" for times not split by name."""
    sums: Counter[tuple[str, str]] = Counter()
    by_work = by in {"operator", "kernel"}
    for rank, causes in step_times_by_cause(diff, side).items():
        for cause, name, time_ns in _work_of_rank(diff, side, rank, by, step) if by_work else ():
            sums[cause, name] += time_ns
        is_chain = rank in chains(diff, side)
        for cause, times_ns in causes.items():
            kind = KIND_OF[cause]
            is_work = cause != "host" if is_chain else kind in _KIND_OF_WORK
            if by_work and is_work:
                continue  # already counted by name above
            if by == "kind" and cause == "host" and not times_ns.any():
                continue  # other kinds have a row even without time
            shown = kind if by == "kind" and kind in {"communication", "idle"} else cause
            sums[shown, ""] += _sum_of_steps(times_ns, step)
    return sums


def _sum_of_steps(times_ns: Ints, step: int | None) -> int:
    return int(times_ns.sum() if step is None else times_ns[step])


def _work_of_rank(
    diff: Comparison, side: RunSide, rank: int, by: str, step: int | None
) -> list[tuple[str, str, int]]:
    """Return the time of a rank's work by cause and name, or by stage if its format has stages."""
    if rank in chains(diff, side):
        pieces = chains(diff, side)[rank]
        return [(each.cause, each.stage, _sum_of_steps(each.times_ns, step)) for each in pieces]
    part = side.parts[rank]
    shares = work_shares(diff, side, rank)
    is_counted = shares.time_ns > 0
    if step is not None:
        is_counted &= shares.step == step
    rows, kind, time = shares.rows[is_counted], shares.kind[is_counted], shares.time_ns[is_counted]
    table = part.table
    owner = rows
    if by == "operator":
        tree = operator_tree(part.trace, annotations=True)
        # The appended entry is for work without an operator (position -1).
        launcher = np.append(tree.rows, -1)[tree.innermost[part.trace.launch_of[rows]]]
        owner = np.where(table.stream[rows] >= 0, launcher, rows)
    name = np.where(owner >= 0, table.name[owner], -1).astype(np.int64)
    packed, inverse = np.unique(name * 3 + kind, return_inverse=True)
    totals = sum_by_group(inverse, time, len(packed)).tolist()
    causes = ("compute", "communication", "copies")
    return [
        (causes[key % 3], table.names[key // 3] if key >= 0 else "", total)
        for key, total in zip(packed.tolist(), totals, strict=True)
    ]
