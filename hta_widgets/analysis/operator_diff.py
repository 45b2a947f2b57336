"""Counts and times of operators and kernels in two runs, and the differences.

For example, ``aten::mm`` runs 10 times for 40 µs before, and 12 times for 36 µs after. Its counts
differ by 2 and its times by -4 µs, and it is ``changed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, result_frame
from hta_widgets.analysis.scope import RankPart, Window, narrow_selection
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.conditions import format_ranks, normalize_ranks
from hta_widgets.trace.names import short_name
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Anything whose events can be compared.
DiffSource = TraceSet | Trace | Selection

#: The values of ``change``.
CHANGES: tuple[str, ...] = ("added", "removed", "changed", "same")


@check_arguments
def diff_ops(
    before: DiffSource,
    after: DiffSource,
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
    """Return which operators and kernels were added, removed, or ran a different number of times.

    Counts and durations are totals over all given ranks and steps, so they are comparable only if
    both sides have equally many. An operator's duration includes nested operators.

    Parameters
    ----------
    before, after : TraceSet, Trace or Selection
        The two sides. For a selection, its events are used, clipped to its window.
    device : {"all", "cpu", "gpu"}, default "all"
        ``"gpu"``: events on device streams, including stream 0, without the device's copies of
        annotations; ``"cpu"``: host events; ``"all"``: both, and the copies of annotations.
    short_names : bool, default False
        Compare short names, which are equal for instances of a template and for versions of a
        library.
    before_ranks, after_ranks : int or iterable of int, optional
        Ranks of one side. Default: all.
    before_steps, after_steps : int or iterable of int, optional
        Numbers of training steps (``ProfilerStep#n``) of one side. Device events belong to the step
        of their launch. By default, all events are used, including those outside steps.
    selection : Selection, optional
        Restricts both sides, for example ``traces.select("kind == 'communication'")``.
    window : (start_ns, end_ns), optional
        Restricts both sides in time; durations are clipped to it.
    ranks : int or iterable of int, optional
        Restricts both sides to these ranks.

    Returns
    -------
    DataFrame
        One row per name, ordered by size of the difference in time:

        - ``name`` (str); ``kind`` (category): if a name has several, the kind with the most time
        - ``before_count, after_count, diff_count`` (int64); the difference is after − before
        - ``before_ns, after_ns, diff_ns`` (int64)
        - ``change`` (category): ``added`` (not before), ``removed`` (not after), ``changed`` (a
          different count), ``same`` (the same count; the time may differ)

        ``.attrs["matched"]`` counts the events of each side.

    Notes
    -----
    HTA's ``TraceDiff.compare_traces`` has the same counts and totals, by name over all categories,
    with two exceptions: it counts the device's copies of annotations as CPU, and finds no step for
    events on stream 0, so it reports all kernels of AMD runs as deleted.
    """
    sides = []
    for source, side_ranks, steps in (
        (before, before_ranks, before_steps),
        (after, after_ranks, after_steps),
    ):
        parts = side_parts(source, selection=selection, window=window)
        parts = _filter_ranks(_filter_ranks(parts, ranks), side_ranks)
        sides.append(_filter_steps(parts, steps))
    names, kind, (before_count, after_count), (before_ns, after_ns) = sums_by_name(
        sides, device, short_names=short_names
    )
    diff_count, diff_ns = after_count - before_count, after_ns - before_ns
    change = np.select([before_count == 0, after_count == 0, diff_count != 0], [0, 1, 2], 3)
    size_ns = np.abs(diff_ns).tolist()
    order = sorted(range(len(names)), key=lambda row: (-size_ns[row], names[row]))
    rows = np.array(order, dtype=np.intp)
    return result_frame(
        {
            "name": pd.Series([names[row] for row in order], dtype=object),
            "kind": categorical(kind[rows], KINDS),
            "before_count": before_count[rows],
            "after_count": after_count[rows],
            "before_ns": before_ns[rows],
            "after_ns": after_ns[rows],
            "diff_count": diff_count[rows],
            "diff_ns": diff_ns[rows],
            "change": categorical(change[rows], CHANGES),
        },
        matched={"before": int(before_count.sum()), "after": int(after_count.sum())},
        note="" if names else "no events on either side",
    )


def side_parts(
    source: DiffSource, *, selection: Selection | None = None, window: Window | None = None
) -> list[RankPart]:
    """Return one side's events, rank by rank, that are in both `source` and `selection`."""
    owner = source.owner if isinstance(source, Selection) else source
    traces = list(owner.values()) if isinstance(owner, TraceSet) else [owner]
    bound_to = owner if isinstance(owner, TraceSet) else TraceSet([])
    selections = [narrow_selection(bound_to, selection, window)]
    if isinstance(source, Selection):
        selections.append(source)
    starts = [chosen.start_ns for chosen in selections if chosen.start_ns is not None]
    ends = [chosen.end_ns for chosen in selections if chosen.end_ns is not None]
    parts = []
    for trace in traces:
        if not all(chosen.ranks is None or trace.rank in chosen.ranks for chosen in selections):
            continue
        masks = [
            chosen.mask(trace)
            for chosen in selections
            if not replace(chosen, ranks=None).is_everything
        ]
        rows = np.flatnonzero(np.logical_and.reduce(masks)) if masks else np.arange(len(trace))
        low = max(starts) - trace.shift_ns if starts else None
        high = min(ends) - trace.shift_ns if ends else None
        parts.append(RankPart(trace, rows, low, high))
    return parts


def sums_by_name(
    sides: Sequence[Sequence[RankPart]], device: str = "all", *, short_names: bool = False
) -> tuple[list[str], Ints, list[Ints], list[Ints]]:
    """Return all names, their kinds, and their counts and times on each side."""
    schema = {"name": object, "kind": np.int64, "count": np.int64, "time": np.int64}
    blocks = [
        _sums_of_rank(part, device, short_names=short_names).assign(side=number)
        for number, parts in enumerate(sides)
        for part in parts
    ]
    empty = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in schema.items()})
    table = pd.concat([empty.assign(side=0), *blocks])
    code, names = pd.factorize(table["name"])
    count, total = np.zeros((2, len(sides), len(names)), dtype=np.int64)
    kind_count, kind_time = np.zeros((2, len(names), len(KINDS)), dtype=np.int64)
    np.add.at(count, (table["side"], code), table["count"])
    np.add.at(total, (table["side"], code), table["time"])
    np.add.at(kind_count, (code, table["kind"]), table["count"])
    np.add.at(kind_time, (code, table["kind"]), table["time"])
    # The kind with the most time or, without any time, the kind that occurs.
    kind = (2 * kind_time + (kind_count > 0)).argmax(axis=1)
    return names.tolist(), kind, list(count), list(total)


def _filter_ranks(parts: list[RankPart], ranks: Iterable[int] | int | None) -> list[RankPart]:
    if ranks is None:
        return parts
    numbers = normalize_ranks(ranks)
    loaded = sorted(part.rank for part in parts)
    if missing := [rank for rank in numbers if rank not in loaded]:
        raise TraceError(
            f"no rank {', '.join(map(str, missing))}",
            remedy=f"The ranks are {format_ranks(loaded)}.",
        )
    return [part for part in parts if part.rank in numbers]


def _filter_steps(parts: list[RankPart], steps: Iterable[int] | int | None) -> list[RankPart]:
    if steps is None:
        return parts
    numbers = [int(steps)] if isinstance(steps, (int, np.integer)) else sorted(map(int, steps))
    recorded = {step for part in parts for step in np.unique(part.table.step).tolist()} - {-1}
    missing = [step for step in numbers if step not in recorded]
    if missing:
        listed = ", ".join(map(str, sorted(recorded)))
        raise TraceError(
            f"no step {', '.join(map(str, missing))}",
            remedy=f"The steps are {listed}." if listed else "No event lies in a ProfilerStep.",
        )
    return [
        replace(part, rows=part.rows[np.isin(part.table.step[part.rows], numbers)])
        for part in parts
    ]


def _sums_of_rank(part: RankPart, device: str, *, short_names: bool) -> pd.DataFrame:
    table, rows = part.table, part.rows
    if device != "all":
        on_device = table.stream[rows] >= 0
        is_work = on_device & (table.kind[rows] != KINDS.index("annotation"))
        rows = rows[is_work if device == "gpu" else ~on_device]
    events = pd.DataFrame(
        {"name": table.name[rows], "kind": table.kind[rows], "time": part.durations(rows)}
    )
    by_name = events.groupby(["name", "kind"])["time"]
    sums = by_name.agg(count="size", time="sum").reset_index()
    texts = [table.names[code] for code in sums["name"].tolist()]
    if short_names:
        texts = [short_name(text) for text in texts]
    return sums.assign(name=pd.Series(texts, dtype=object))
