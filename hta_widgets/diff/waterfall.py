"""Where the difference of two runs' step times comes from, every moment counted once."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.host_stack import operator_tree
from hta_widgets.analysis.results import result
from hta_widgets.errors import TraceError
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.frames import dtype_of

from hta_widgets.diff.families import MPI
from hta_widgets.diff.means import mean_parts
from hta_widgets.diff.moments import CAUSES
from hta_widgets.diff.moments import KIND_OF
from hta_widgets.diff.moments import chains
from hta_widgets.diff.moments import moments
from hta_widgets.diff.moments import splits_communication
from hta_widgets.diff.moments import work_shares
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide

__all__ = ["waterfall"]

Ints = npt.NDArray[np.int64]

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
        "kind": pd.Categorical([KIND_OF.get(c, c) for c in causes], dtype=dtype_of(_kinds())),
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


def _kinds() -> tuple[str, ...]:
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
    if by == "operator" and part.trace.format not in MPI:
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
