"""Where the difference comes from."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.host_stack import operator_tree
from hta_widgets.analysis.scope import result
from hta_widgets.diff.changes import path_times
from hta_widgets.diff.compare import Comparison, RunSide, is_host_only
from hta_widgets.diff.pairs import (
    CAUSES,
    KIND_OF,
    Matches,
    chains,
    match,
    moments,
    splits_communication,
    work_shares,
)
from hta_widgets.diff.statistics import mean_parts
from hta_widgets.diff.trees import CALL, OPERATOR, WORK
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.trace import dtype_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_STATUSES = ("same", "changed", "added", "removed")


def icicle(diff: Comparison, measure: Literal["device", "host"] = "device") -> pd.DataFrame:
    """Return the operator tree of both runs, calls of one path taken together.

    Parameters
    ----------
    diff : Comparison
    measure : {"device", "host"}, default "device"
        ``"device"``: time of device work, which forms the leaves; a node has that of all below it,
        so children add up to their parent less its own. ``"host"``: time of operators on the host;
        a node's ``self`` is what no operator below it covers, waiting for the device included.

    Returns
    -------
    DataFrame
        One row per path, parents before their children, siblings by after's or before's time,
        whichever is longer. Of the paired ranks, per step, means over steps and ranks:

        - ``node`` (int64), from 0; ``parent`` (int64), -1 for the outermost; ``depth`` (int64)
        - ``name`` (str); ``path`` (str), what encloses it, outermost first, ``" > "`` between
        - ``kind`` (category): ``cpu`` for operators and annotations, and of device work its own
        - ``before_count, after_count`` (float64)
        - ``before_ns, after_ns, diff_ns`` (float64): with all below
        - ``before_self_ns, after_self_ns, diff_self_ns`` (float64): without
        - ``status`` (category): ``added, removed``; ``changed``, another count; ``same``

        ``.attrs["without_waiting"]``: whether collectives count without waiting for other ranks,
        which both sides' files must tell.

    Examples
    --------
    >>> tree = icicle(diff)  # doctest: +SKIP
    >>> tree[tree["depth"] == 0]  # doctest: +SKIP
    """
    if measure not in {"device", "host"}:
        raise TraceError(f"no measure {measure!r}", remedy='Say "device" or "host".')
    matches = match(diff)
    parent = np.array(matches.path_parent, dtype=np.int64)
    kind = np.array(matches.path_kind, dtype=np.int64)
    taken = kind != CALL if measure == "device" else kind == OPERATOR
    depth = np.zeros(len(parent), dtype=np.int64)
    for path in range(len(parent)):  # paths, which are few; parents come first
        depth[path] = depth[parent[path]] + 1 if parent[path] >= 0 else 0
    count, total, alone = [], [], []
    for times in path_times(diff):
        count.append(_mean(times.count, len(parent)))
        own = _mean(times.device_ns if measure == "device" else times.host_ns, len(parent))
        if measure == "device":
            total.append(_summed(own, parent, depth))
            alone.append(own)
        else:
            below = np.zeros(len(parent))
            inner = np.flatnonzero((parent >= 0) & taken)
            np.add.at(below, parent[inner], own[inner])
            total.append(own)
            alone.append(np.maximum(own - below, 0.0))
    there = taken & ((count[0] > 0) | (count[1] > 0))
    order = _depth_first(parent, there, np.maximum(*total))
    position = np.full(len(parent) + 1, -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    names, callers = matches.pool.names, matches.callers
    before, after = (values[order] for values in count)
    status = np.select(
        [before == 0, after == 0, ~np.isclose(before, after)],
        [_STATUSES.index(word) for word in ("added", "removed", "changed")],
        0,
    )
    columns: dict[str, object] = {
        "node": np.arange(len(order), dtype=np.int64),
        "parent": position[parent[order]],
        "depth": depth[order],
        "name": pd.array([names[matches.path_name[path]] for path in order.tolist()], dtype="str"),
        "path": pd.array([callers[path] for path in order.tolist()], dtype="str"),
        "kind": pd.Categorical.from_codes(_kinds(matches, order), dtype=dtype_of(KINDS)),
        "before_count": before,
        "after_count": after,
    }
    for word, values in (("", total), ("self_", alone)):
        columns[f"before_{word}ns"] = values[0][order]
        columns[f"after_{word}ns"] = values[1][order]
        columns[f"diff_{word}ns"] = values[1][order] - values[0][order]
    columns["status"] = pd.Categorical.from_codes(status, dtype=dtype_of(_STATUSES))
    return result(
        columns,
        matched={"paths": len(order)},
        note="" if len(order) else "no operators in the steps that are compared",
        measure=measure,
        without_waiting=measure == "device" and splits_communication(diff),
        steps=diff.step_count,
    )


def _mean(values: Floats, size: int) -> Floats:
    found: Floats = values.mean(axis=0) if len(values) else np.zeros(size)
    return found


def _summed(own: Floats, parent: Ints, depth: Ints) -> Floats:
    """Return what each path and all below it hold."""
    total = own.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        members = np.flatnonzero(depth == level)
        np.add.at(total, parent[members], total[members])
    return total


def _depth_first(parent: Ints, there: npt.NDArray[np.bool_], size: Floats) -> Ints:
    """Return the paths with each one's children behind it, the largest first."""
    children: dict[int, list[int]] = {}
    for path in np.flatnonzero(there).tolist():
        children.setdefault(int(parent[path]), []).append(path)
    for mine in children.values():
        mine.sort(key=lambda path: (size[path], path))  # the last is taken first
    found = []
    waiting = list(children.get(-1, []))
    while waiting:
        path = waiting.pop()
        found.append(path)
        waiting += children.get(path, [])
    return np.array(found, dtype=np.int64)


def _kinds(matches: Matches, paths: Ints) -> Ints:
    """Return the kind of each path: of device work that of its events, else ``cpu``."""
    kind = np.full(len(matches.path_name), KINDS.index("cpu"), dtype=np.int64)
    for one in matches.ranks:
        for tree, path in zip(one.trees, one.path, strict=True):
            work = np.flatnonzero(tree.kind == WORK)
            kind[path[work]] = tree.part.table.kind[tree.rows[work]]
    return kind[paths]


Level = Literal["kind", "cause", "operator", "kernel"]

_KIND_OF_WORK = ("compute", "communication", "memory")


def waterfall(diff: Comparison, by: Level = "kind", *, step: int | None = None) -> pd.DataFrame:
    """Return where the difference of the step times comes from.

    Every moment of the steps counts once: as computing if any compute kernel runs, else as
    communicating, else as copying, else as idle. A moment belongs to the step of the host in whose
    range it lies, whichever step launched the work. So the rows add up to the step times, and their
    differences to the difference of the step times, to the nanosecond.

    Of BytePS, a step is what a GPU spends from its first synchronisation to that of the next step.
    Of the partition that ends last in it, the stages count as communicating or copying, the queues
    before them as idle; the rest is the host's. Of MPI time lines, calls count as communicating,
    the rest as the host's.

    Parameters
    ----------
    diff : Comparison
    by : {"kind", "cause", "operator", "kernel"}, default "kind"
        - ``"kind"``: compute, exposed communication, exposed copies, idle
        - ``"cause"``: idle parted by what the device waited for, as in
          `hta_widgets.analysis.device_idle_breakdown` (``nothing_launched``: after the rank's last
          work); exposed communication by waiting for other ranks and transfer, where the files of
          both sides tell; of BytePS the queue before a stage (``stage_queue``, ``root_wait``), the
          word given to other GPUs (``coordination``), and the time until the framework was told
          (``tail``)
        - ``"operator"``, ``"kernel"``: work parted further by the innermost operator that launched
          it, or by its own name; where several pieces of a kind run at once, the moment is that of
          the one that was there first; of BytePS by stage, queues before it included, and of MPI
          by routine
    step : int, optional
        One pair of steps, by its place; all by default.

    Returns
    -------
    DataFrame
        One row per kind, cause, operator or kernel, by size of the difference: ``kind``
        (category: ``compute, communication, memory, idle``, and ``cpu`` for ranks without device
        work); ``cause`` (category); ``name`` (str) where it is by operator or kernel, empty for
        idle; and int64 ``before_ns, after_ns, diff_ns``: sums over the steps that are compared, and
        of several ranks means over the ranks, rounded so that they add up. ``change_share``
        (float64): the difference as a share of before, NaN where that is 0.

        ``.attrs``: ``before_ns, after_ns`` (the totals), ``steps``, ``before_ranks, after_ranks``,
        ``communication_split``.

    Raises
    ------
    TraceError
        For an unknown level or step.

    Examples
    --------
    >>> waterfall(diff, "cause")[["cause", "diff_ns"]]  # doctest: +SKIP
    """
    if by not in {"kind", "cause", "operator", "kernel"}:
        raise TraceError(
            f"a waterfall cannot be by {by!r}",
            remedy='Say "kind", "cause", "operator" or "kernel".',
        )
    if step is not None and not 0 <= step < diff.step_count:
        raise TraceError(
            f"there is no pair of steps {step}",
            remedy=f"They are counted from 0 to {diff.step_count - 1}.",
        )
    keys: dict[tuple[str, str], int] = {}
    sums = [_sums(diff, side, by, step, keys) for side in diff.sides]
    size = len(keys)
    # What is left over by rounding must not go by which side came first.
    listed = list(keys)
    in_order = np.array(sorted(range(size), key=listed.__getitem__), dtype=np.intp)
    means = []
    for side, one in zip(diff.sides, sums, strict=True):
        values = np.zeros(size, dtype=np.int64)
        values[: len(one)] = one
        values[in_order] = mean_parts(values[in_order], len(side.ranks))
        means.append(values)
    before, after = means
    shown = [k for k, key in enumerate(keys) if before[k] or after[k] or (by == "kind" and key[0])]
    change = after - before
    order = sorted(shown, key=lambda k: (-abs(int(change[k])), listed[k]))
    rows = np.array(order, dtype=np.intp)
    causes = [listed[k][0] for k in order]
    columns: dict[str, object] = {
        "kind": pd.Categorical([KIND_OF.get(c, c) for c in causes], dtype=dtype_of(_kinds_of())),
        "cause": pd.Categorical(causes, dtype=dtype_of(_causes())),
    }
    if by in {"operator", "kernel"}:
        columns["name"] = pd.array([listed[k][1] for k in order], dtype="str")
    base = before[rows].astype(np.float64)
    return result(
        {
            **columns,
            "before_ns": before[rows],
            "after_ns": after[rows],
            "diff_ns": change[rows],
            "change_share": change[rows] / np.where(base > 0, base, np.nan),
        },
        matched={
            side: int(one.sum()) for side, one in zip(("before", "after"), means, strict=True)
        },
        note="" if len(rows) else "the steps have no length",
        before_ns=int(before.sum()),
        after_ns=int(after.sum()),
        steps=diff.step_count if step is None else 1,
        before_ranks=len(diff.before.ranks),
        after_ranks=len(diff.after.ranks),
        communication_split=splits_communication(diff),
    )


def _kinds_of() -> tuple[str, ...]:
    return (*KINDS, "idle")


def _causes() -> tuple[str, ...]:
    return (*CAUSES, "idle")


def _sums(
    diff: Comparison, side: RunSide, by: str, step: int | None, keys: dict[tuple[str, str], int]
) -> Ints:
    """Return the time of each key over all ranks of a side; new keys are added to `keys`."""
    found: dict[int, int] = {}

    def add(cause: str, name: str, time: int) -> None:
        key = keys.setdefault((cause, name), len(keys))
        found[key] = found.get(key, 0) + time

    chosen = slice(None) if step is None else slice(step, step + 1)
    by_work = by in {"operator", "kernel"}
    for rank, causes in moments(diff, side).items():
        pieces = chains(diff, side).get(rank)
        if by_work and pieces is not None:
            for piece in pieces:
                add(piece.cause, piece.stage, int(piece.times_ns[chosen].sum()))
        elif by_work:
            for cause, name, time in _work(diff, side, rank, by, step):
                add(cause, name, time)
        for cause, times in causes.items():
            kind = KIND_OF[cause]
            if by_work and (kind in _KIND_OF_WORK if pieces is None else cause != "host"):
                continue
            if by == "kind":
                cause = {"communication": "communication", "idle": "idle"}.get(kind, cause)  # noqa: PLW2901
                if cause == "host" and not times.any():
                    continue
            add(cause, "", int(times[chosen].sum()))
    values = np.zeros(len(keys), dtype=np.int64)
    for key, time in found.items():
        values[key] = time
    return values


def _work(
    diff: Comparison, side: RunSide, rank: int, by: str, step: int | None
) -> list[tuple[str, str, int]]:
    """Return cause, name and time of a rank's work."""
    part = side.parts[rank]
    shares = work_shares(diff, side, rank)
    kept = shares.time_ns > 0
    if step is not None:
        kept &= shares.step == step
    rows, kind, time = shares.rows[kept], shares.kind[kept], shares.time_ns[kept]
    table = part.table
    owner = rows
    if by == "operator" and not is_host_only(part.trace.format):
        tree = operator_tree(part.trace, annotations=True)
        position = tree.innermost[part.trace.launch_of[rows]]
        if not len(tree.rows):
            owner = np.full(len(rows), -1, dtype=np.int64)
        else:
            owner = np.where(position >= 0, tree.rows[position], -1)
    name = np.where(owner >= 0, table.name[owner], -1).astype(np.int64)
    packed, inverse = np.unique(name * 3 + kind, return_inverse=True)
    sums = np.zeros(len(packed), dtype=np.int64)
    np.add.at(sums, inverse, time)
    causes = ("compute", "communication", "copies")
    return [
        (causes[key % 3], table.names[key // 3] if key >= 0 else "", total)
        for key, total in zip(packed.tolist(), sums.tolist(), strict=True)
    ]
