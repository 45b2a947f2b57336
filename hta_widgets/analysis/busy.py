"""Device time by kind, overlap, totals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    count_kinds,
    joined_columns,
    narrowed,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.grouping import dense, group_statistics
from hta_widgets.trace.intervals import Intervals, intersect, subtract, total
from hta_widgets.trace.memo import walked
from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace, dtype_of
from hta_widgets.trace.traceset import TraceSet

#: HTA's words, in the order in which a label puts them together.
_WORDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}

_TIMES = (
    "idle_ns",
    "compute_ns",
    "non_compute_ns",
    "span_ns",
    "busy_ns",
    "communication_ns",
    "memory_ns",
    "exposed_communication_ns",
    "exposed_memory_ns",
)


@scoped
def temporal_breakdown(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return how much of each rank's device time is idle, computing, or busy with other work.

    The span runs from the start of the first to the end of the last device work of the rank in
    the whole job, on all streams together; with a window, it is what of that lies in the window,
    also where the device idles all the time. So the times of adjacent windows add up to those of
    both together. Every instant of the span counts once: as computing if any compute kernel runs,
    else as non-compute if anything communicates or copies, else as idle. So
    ``idle_ns + compute_ns + non_compute_ns == span_ns`` and
    ``exposed_communication_ns + exposed_memory_ns == non_compute_ns``, to the nanosecond.
    Rows of synchronisation on a stream are waits, not work. Events that are not selected count
    for nothing: of a selection of communication, all of it is exposed.

    Returns
    -------
    DataFrame
        One row per rank whose span the window touches; times int64:

        - ``rank``
        - ``idle_ns, compute_ns, non_compute_ns, span_ns``
        - ``idle_pct, compute_pct, non_compute_pct``: of the span, 0..100; NaN where it has no
          length
        - ``busy_ns``: any work; ``communication_ns, memory_ns``: any of that kind, whatever else
          runs
        - ``exposed_communication_ns``: communicating and not computing; ``exposed_memory_ns``:
          copying, neither computing nor communicating

    Notes
    -----
    The definition is that of HTA's temporal breakdown, which counts waits on a stream as busy.
    """
    chosen = parts(traces, **scope)
    found = dict(zip(chosen.ranks, over_ranks(chosen, _split), strict=True))
    working = {rank: times for rank, times in found.items() if times is not None}
    times = np.array(list(working.values()), dtype=np.int64).reshape(-1, len(_TIMES))
    column = dict(zip(_TIMES, times.T, strict=True))
    span = np.where(column["span_ns"] > 0, column["span_ns"], np.nan)
    shares = {
        f"{name}_pct": 100 * column[f"{name}_ns"] / span
        for name in ("idle", "compute", "non_compute")
    }
    first, rest = _TIMES[:4], _TIMES[4:]
    return result(
        {
            "rank": np.array(list(working), dtype=np.int64),
            **{name: column[name] for name in first},
            **shares,
            **{name: column[name] for name in rest},
        },
        matched=count_kinds(chosen),
        note="; ".join(
            filter(None, [without_work(chosen.ranks, working), prelaunched_note(chosen)])
        ),
    )


def without_work(chosen: Sequence[int], working: Collection[int]) -> str:
    """Say which ranks are left out for want of device work; empty where none is."""
    idle = [str(rank) for rank in chosen if rank not in working]
    if not idle:
        return "" if chosen else "no ranks are selected"
    if not working:
        return "no device work is selected: no kernels and no copies"
    return f"no device work on rank{'s' * (len(idle) > 1)} {', '.join(idle)}"


def _split(part: Part) -> tuple[int, ...] | None:
    """Return the values of `_TIMES`; None where the device does nothing."""
    if part.span is None:
        return None
    start, end = part.span
    span = end - start
    busy = total(part.covered(*BUSY))
    compute, communication, memory = (part.covered(kind) for kind in BUSY)
    computing = total(compute)
    exposed = total(subtract(communication, compute))
    return (
        span - busy,
        computing,
        busy - computing,
        span,
        busy,
        total(communication),
        total(memory),
        exposed,
        busy - computing - exposed,
    )


@scoped
def kernel_type_breakdown(
    traces: TraceSet, *, include_memory: bool = True, per_rank: bool = False, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long which kinds of device work ran, alone and at the same time.

    Every instant at which a device of a rank is busy goes to exactly one label: the kinds that
    run then, such as ``COMPUTATION overlapping COMMUNICATION``. Times are added over ranks.

    Parameters
    ----------
    include_memory : bool, default True
        Whether copies and fills count. Without them, instants at which only they run count
        nowhere.
    per_rank : bool, default False
        One row per rank and label instead; shares are of the rank.

    Returns
    -------
    DataFrame
        One row per label that occurs, most time first:

        - ``rank`` (int64, only with `per_rank`; rows are then in order of ranks)
        - ``kernel_type`` (text): the label
        - ``sum_ns`` (int64)
        - ``share`` (float): of the sum of all rows, or of the rank's, 0..1

    Notes
    -----
    Labels and definition are those of the type table of HTA's GPU kernel breakdown.
    """
    chosen = parts(traces, **scope)
    kinds = BUSY if include_memory else BUSY[:2]
    found = list(over_ranks(chosen, _kinds_at_once, kinds))
    times = np.array(found, dtype=np.int64).reshape(-1, 1 << len(kinds))
    times[:, 0] = 0
    if not per_rank:
        times = times.sum(axis=0, keepdims=True)
    row, label = np.nonzero(times)
    spent = times[row, label]
    order = np.lexsort((label, -spent, row))
    row, label, spent = row[order], label[order], spent[order]
    rank = np.array(chosen.ranks, dtype=np.int64)
    matched = count_kinds(chosen, kinds)
    missing = [kind for kind, count in matched.items() if not count]
    return result(
        {
            **({"rank": rank[row]} if per_rank else {}),
            "kernel_type": pd.array([_label(code, kinds) for code in label.tolist()], dtype="str"),
            "sum_ns": spent,
            "share": spent / times.sum(axis=1)[row],
        },
        matched=matched,
        note=f"no kernels matched {', '.join(missing)}" if missing else "",
    )


def _label(code: int, kinds: Sequence[str]) -> str:
    return " overlapping ".join(_WORDS[kind] for bit, kind in enumerate(kinds) if code >> bit & 1)


def _kinds_at_once(part: Part, kinds: Sequence[str]) -> list[int]:
    return _at_once([part.covered(kind) for kind in kinds])


def _at_once(covers: Sequence[Intervals]) -> list[int]:
    """Return the time of each set of covers; bit n of the position stands for cover n."""
    time = np.concatenate([edge for cover in covers for edge in (cover.start, cover.end)])
    change = np.concatenate(
        [
            np.full(len(edge), sign << bit, dtype=np.int64)
            for bit, cover in enumerate(covers)
            for sign, edge in ((1, cover.start), (-1, cover.end))
        ]
    )
    order = np.argsort(time, kind="stable")
    running = np.cumsum(change[order])[:-1]
    length = np.diff(time[order])
    return [int(length[running == code].sum()) for code in range(1 << len(covers))]


@scoped
def comm_comp_overlap(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return which share of each rank's communication is hidden behind computing.

    ``overlap_share`` is the time in which the rank computes and communicates at once, over the
    time in which it communicates. Communication kernels that run at once count once. Of a
    selection its communication counts, and all computing of the rank in the window, selected or
    not: what hides communication does not depend on what one looks at.

    Returns
    -------
    DataFrame
        One row per rank, also where nothing communicates:

        - ``rank`` (int64)
        - ``communication_ns, overlapped_ns`` (int64): communicating at all, and while computing
        - ``overlap_share`` (float): 0..1, NaN where nothing communicates
        - ``exposed_ns`` (int64): communicating and not computing
        - ``compute_ns`` (int64): computing at all

        ``.attrs["note"]`` says where no kernels matched communication; `hta_widgets.taxonomy.add`
        teaches their names.

    Notes
    -----
    The formula is that of HTA's communication computation overlap.
    """
    chosen = parts(traces, **scope)
    times = np.array(list(over_ranks(chosen, _overlap)), dtype=np.int64).reshape(-1, 3)
    communicating, overlapped, computing = times.T
    silent = [
        str(rank)
        for rank, time in zip(chosen.ranks, communicating.tolist(), strict=True)
        if not time
    ]
    return result(
        {
            "rank": np.array(chosen.ranks, dtype=np.int64),
            "communication_ns": communicating,
            "overlapped_ns": overlapped,
            "overlap_share": overlapped / np.where(communicating > 0, communicating, np.nan),
            "exposed_ns": communicating - overlapped,
            "compute_ns": computing,
        },
        matched=count_kinds(chosen, BUSY[:2]),
        note=_silence(silent, len(chosen)),
    )


def _overlap(part: Part) -> tuple[int, int, int]:
    communication, compute = part.covered("communication"), part.covered_by_all("compute")
    return total(communication), total(intersect(communication, compute)), total(compute)


def _silence(silent: Sequence[str], ranks: int) -> str:
    if not ranks:
        return "no ranks are selected"
    if not silent:
        return ""
    where = "" if len(silent) == ranks else f" on rank{'s' * (len(silent) > 1)} {', '.join(silent)}"
    return f"no communication kernels matched{where}"


@scoped
def totals_by_kind(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the time of the selected events, added up by kind.

    Durations are added as they are: time in which events overlap or enclose each other counts
    for each of them. Durations are clipped to the window; counts are of the events that overlap
    it.

    Returns
    -------
    DataFrame
        One row per kind that occurs, by time: ``kind, count, sum_ns, mean_ns, min_ns, max_ns``;
        ``device_ns`` and ``host_ns`` are the parts of ``sum_ns`` on device streams and elsewhere.
    """
    return _ordered(_sum_up(traces, narrowed(traces, **scope)), ["kind"])


@scoped
def totals_by_name(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the time of the selected events, added up by kind and name.

    Parameters and meaning as in `totals_by_kind`.
    """
    return _ordered(_sum_up(traces, narrowed(traces, **scope)), ["kind", "name"])


def totals(traces: TraceSet, selection: Selection | None = None, most: int = 200) -> dict[str, Any]:
    """Return both tables as JSON values, for the panel next to a selection."""
    sums = _sum_up(traces, narrowed(traces, selection))
    by_name = _ordered(sums, ["kind", "name"])
    shown = _records(by_name.head(most))
    return {
        "events": int(by_name["count"].sum()),
        "kinds": _records(_ordered(sums, ["kind"])),
        "names": [{**one, "short": short_name(one["name"])} for one in shown],
        "names_total": len(by_name),
    }


def _sum_up(traces: TraceSet, selection: Selection) -> pd.DataFrame:
    """Add up each rank's events by kind and name, within the window."""
    found = [_sums_of(trace, selection) for trace in walked(traces.values())]
    names = ("kind", "name", "count", "sum_ns", "min_ns", "max_ns", "device_ns")
    return pd.DataFrame(joined_columns(found, names, name=object))


def _sums_of(trace: Trace, selection: Selection) -> dict[str, npt.NDArray[Any]]:
    table = trace.table
    rows = np.flatnonzero(selection.mask(trace))
    start, end = table.start_ns[rows], table.end_ns[rows]
    if selection.start_ns is not None:
        start = np.maximum(start, selection.start_ns - trace.shift_ns)
    if selection.end_ns is not None:
        end = np.minimum(end, selection.end_ns - trace.shift_ns)
    key = table.name[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
    code, occurring = dense(key, len(table.names) * len(KINDS))
    inside = group_statistics(code, len(occurring), end - start)
    device_ns = np.zeros(len(occurring), dtype=np.int64)
    np.add.at(device_ns, code, np.where(table.stream[rows] >= 0, end - start, 0))
    names = [table.names[name] for name in (occurring // len(KINDS)).tolist()]
    return {
        "kind": occurring % len(KINDS),
        "name": np.array(names, dtype=object),
        "count": inside.count,
        "sum_ns": inside.sum,
        "min_ns": inside.min,
        "max_ns": inside.max,
        "device_ns": device_ns,
    }


def _ordered(sums: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return one row per group, most time first, then most events, then by kind."""
    added = {"count": "sum", "sum_ns": "sum", "min_ns": "min", "max_ns": "max", "device_ns": "sum"}
    frame = sums.groupby(keys, sort=False).agg(added).reset_index()
    order = np.lexsort((frame["kind"], -frame["count"], -frame["sum_ns"]))
    frame = frame.iloc[order].reset_index(drop=True)
    frame["kind"] = pd.Categorical.from_codes(frame["kind"], dtype=dtype_of(KINDS))
    frame.insert(list(frame).index("min_ns"), "mean_ns", frame["sum_ns"] / frame["count"])
    frame["host_ns"] = frame["sum_ns"] - frame["device_ns"]
    counts = np.bincount(sums["kind"], sums["count"], len(KINDS)).astype(np.int64).tolist()
    frame.attrs["matched"] = {kind: n for kind, n in zip(KINDS, counts, strict=True) if n}
    if not len(frame):
        frame.attrs["note"] = "no events are selected"
    return frame


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {
        str(column).removesuffix("_ns"): frame[column].astype(object).tolist() for column in frame
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
