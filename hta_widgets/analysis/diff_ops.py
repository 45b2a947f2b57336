"""What two runs do differently: how often each operator and kernel runs, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import Part, Window, narrowed, result
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace, dtype_of
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]

#: Anything whose events can be compared.
Side = TraceSet | Trace | Selection

#: What can become of a name, in the order of the categories of ``change``.
CHANGES: tuple[str, ...] = ("added", "removed", "changed", "same")


def diff_ops(
    before: Side,
    after: Side,
    *,
    device: Literal["all", "cpu", "gpu"] = "all",
    short_names: bool = False,
    before_ranks: Iterable[int] | int | None = None,
    after_ranks: Iterable[int] | int | None = None,
    before_steps: Iterable[int] | int | None = None,
    after_steps: Iterable[int] | int | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
) -> pd.DataFrame:
    """Return which operators and kernels were added, removed or run another number of times.

    For each name, counts and durations are totals over all ranks and steps given: give as many
    of them on both sides where the totals are to be comparable. Durations are added as they are,
    so an operator holds the time of those that it calls.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        The two sides; of a selection its events, cut at its window.
    device : {"all", "cpu", "gpu"}, default "all"
        ``"gpu"``: what runs on device streams, stream 0 among them, less the device's copies of
        annotations, which are no work; ``"cpu"``: what runs on the host; ``"all"``: both, and
        the copies of annotations.
    short_names : bool, default False
        Compare short names, so that instances of a template and versions of a library meet.
    before_ranks, after_ranks : int or iterable of int, optional
        Ranks of one side; all by default.
    before_steps, after_steps : int or iterable of int, optional
        Numbers of training steps (``ProfilerStep#n``) of one side. Device events belong to the
        step of their launch. By default all events count, those outside of steps too.
    selection : Selection, optional
        Narrows both sides, for example ``traces.select("kind == 'communication'")``.
    window : (start_ns, end_ns), optional
        Narrows both sides in time; durations are cut at its edges.
    ranks : int or iterable of int, optional
        Narrows both sides to these ranks.

    Returns
    -------
    DataFrame
        One row per name, by size of the difference in time:

        ``name``
            str
        ``kind``
            category; where a name occurs under several, the one with most time
        ``before_count, after_count, diff_count``
            int64; the difference is after − before
        ``before_ns, after_ns, diff_ns``
            int64
        ``change``
            category: ``added`` (not before), ``removed`` (not after), ``changed`` (another
            count), ``same`` (the same count; the time may differ, as it does between any two
            runs)

        ``.attrs["matched"]`` counts the events of each side.

    Notes
    -----
    The counts and totals of HTA's ``TraceDiff.compare_traces``, which adds up by name over all
    categories too. HTA counts the device's copies of annotations as CPU. It finds no step for
    events on stream 0, so it calls all kernels of AMD runs deleted; here they take part.
    """
    if device not in {"all", "cpu", "gpu"}:
        raise TraceError(f"no device {device!r}", remedy='Give "all", "cpu" or "gpu".')
    sides = []
    for source, own_ranks, steps in (
        (before, before_ranks, before_steps),
        (after, after_ranks, after_steps),
    ):
        chosen = parts_of(source, selection=selection, window=window)
        sides.append(_of_steps(_of_ranks(_of_ranks(chosen, ranks), own_ranks), steps))
    names, kind, count, total = sums_by_name(sides, device, short_names=short_names)
    diff_count, diff_ns = count[1] - count[0], total[1] - total[0]
    change = np.select([count[0] == 0, count[1] == 0, diff_count != 0], [0, 1, 2], 3)
    order = sorted(range(len(names)), key=names.__getitem__)
    order.sort(key=(-np.abs(diff_ns)).__getitem__)
    rows = np.array(order, dtype=np.intp)
    return result(
        {
            "name": pd.Series([names[row] for row in order], dtype=object),
            "kind": pd.Categorical.from_codes(kind[rows], dtype=dtype_of(KINDS)),
            "before_count": count[0][rows],
            "after_count": count[1][rows],
            "before_ns": total[0][rows],
            "after_ns": total[1][rows],
            "diff_count": diff_count[rows],
            "diff_ns": diff_ns[rows],
            "change": pd.Categorical.from_codes(change[rows], dtype=dtype_of(CHANGES)),
        },
        matched={"before": int(count[0].sum()), "after": int(count[1].sum())},
        note="" if names else "no events on either side",
    )


def parts_of(
    source: Side, *, selection: Selection | None = None, window: Window | None = None
) -> list[Part]:
    """Return the events of one side, rank by rank."""
    traces, own = _opened(source)
    narrow = narrowed(traces if isinstance(traces, TraceSet) else TraceSet([]), selection, window)
    asked = [narrow] if own is None else [own, narrow]
    found = []
    for trace in traces.values() if isinstance(traces, TraceSet) else traces:
        if any(one.ranks is not None and trace.rank not in one.ranks for one in asked):
            continue
        if all(_everything(one) for one in asked):
            rows = np.arange(len(trace))
        else:
            rows = np.flatnonzero(np.logical_and.reduce([one.mask(trace) for one in asked]))
        starts = [one.start_ns - trace.shift_ns for one in asked if one.start_ns is not None]
        ends = [one.end_ns - trace.shift_ns for one in asked if one.end_ns is not None]
        found.append(Part(trace, rows, max(starts, default=None), min(ends, default=None)))
    return found


def sums_by_name(
    sides: Sequence[Sequence[Part]], device: str = "all", *, short_names: bool = False
) -> tuple[list[str], Ints, list[Ints], list[Ints]]:
    """Return the names of all sides, their kinds, and the counts and times of each side."""
    groups: dict[str, int] = {}
    seen = [[_of_rank(part, device, groups, short_names=short_names) for part in s] for s in sides]
    size = len(groups)
    count = [np.zeros(size, np.int64) for _ in sides]
    total = [np.zeros(size, np.int64) for _ in sides]
    by_kind = np.zeros((size, len(KINDS), 2), np.int64)
    for which, side_sums in enumerate(seen):
        for group, kind, counts, times in side_sums:
            np.add.at(count[which], group, counts)
            np.add.at(total[which], group, times)
            np.add.at(by_kind[:, :, 0], (group, kind), times)
            np.add.at(by_kind[:, :, 1], (group, kind), counts)
    # Most time; of kinds without any, the one that occurs.
    weight = 2 * by_kind[:, :, 0] + (by_kind[:, :, 1] > 0)
    return list(groups), weight.argmax(axis=1), count, total


def _opened(source: Side) -> tuple[TraceSet | list[Trace], Selection | None]:
    """Return the ranks of a side, and the selection of their events."""
    if isinstance(source, TraceSet):
        return source, None
    if isinstance(source, Trace):
        return [source], None
    if isinstance(source, Selection):
        if source.traces is None:
            raise TraceError(
                "this selection belongs to no traces",
                remedy="Make it with traces.select(...), or bind it with selection.of(traces).",
            )
        return source.traces, source
    raise TraceError(
        f"a {type(source).__name__} cannot be compared",
        remedy="Give what hw.load returns, one of its ranks, or a selection.",
    )


def _everything(selection: Selection) -> bool:
    return (
        selection.start_ns is None
        and selection.end_ns is None
        and selection.tracks is None
        and selection.query is None
        and selection.ids is None
    )


def _of_ranks(chosen: list[Part], ranks: Iterable[int] | int | None) -> list[Part]:
    if ranks is None:
        return chosen
    wanted = {int(ranks)} if isinstance(ranks, (int, np.integer)) else {int(r) for r in ranks}
    there = {part.rank for part in chosen}
    if wanted - there:
        raise TraceError(
            f"no rank {', '.join(map(str, sorted(wanted - there)))}",
            remedy=f"The ranks are {', '.join(map(str, sorted(there))) or 'none'}.",
        )
    return [part for part in chosen if part.rank in wanted]


def _of_steps(chosen: list[Part], steps: Iterable[int] | int | None) -> list[Part]:
    """Keep the events of some steps."""
    if steps is None:
        return chosen
    wanted = [int(steps)] if isinstance(steps, (int, np.integer)) else sorted(map(int, steps))
    there: set[int] = set()
    for part in chosen:
        there.update(np.unique(part.table.step).tolist())
    there.discard(-1)
    missing = [step for step in wanted if step not in there]
    if missing:
        known = ", ".join(map(str, sorted(there)))
        raise TraceError(
            f"no step {', '.join(map(str, missing))}",
            remedy=f"The steps are {known}." if known else "No event lies in a ProfilerStep.",
        )
    return [
        Part(
            part.trace,
            part.rows[np.isin(part.table.step[part.rows], np.array(wanted, dtype=np.int64))],
            part.low,
            part.high,
        )
        for part in chosen
    ]


def _of_rank(
    part: Part, device: str, groups: dict[str, int], *, short_names: bool
) -> tuple[Ints, Ints, Ints, Ints]:
    """Add up one rank: number in `groups`, kind, count and time of each of its names."""
    table = part.table
    rows = part.rows
    if device != "all":
        on_device = table.stream[rows] >= 0
        work = on_device & (table.kind[rows] != KINDS.index("annotation"))
        rows = rows[work if device == "gpu" else ~on_device]
    key = table.name[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
    count = np.bincount(key)
    time = np.zeros(len(count), dtype=np.int64)
    # As integers: floats, which bincount adds, are exact up to 104 days only.
    np.add.at(time, key, part.durations(rows))
    used = np.flatnonzero(count)
    texts = [table.names[code] for code in (used // len(KINDS)).tolist()]
    if short_names:
        texts = [short_name(text) for text in texts]
    group = np.array([groups.setdefault(text, len(groups)) for text in texts], dtype=np.int64)
    return group, used % len(KINDS), count[used], time[used]
