"""Launch delays and queue lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    categorical,
    count_kinds,
    narrowed,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
    stacked,
    used_texts,
)
from hta_widgets.analysis.steps import in_order, running_total
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.grouping import stable_order
from hta_widgets.trace.trace import dtype_of
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_OUTLIERS = ("short kernel", "long call", "late start")
NOTHING = "no device work is selected whose launch the files hold"


@scoped
def launch_stats(
    traces: TraceSet, *, include_memory: bool = True, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return every launch with the device work that it launched, and how long each took.

    All calls that launch count, of every vendor: runtime and driver, kernels, copies and fills,
    cooperative launches, graphs. A graph launch has as many rows as it launched events. Of calls
    that share an id, the innermost that launches is taken, so no kernel counts twice. Rows are of
    the selected device work; durations are whole, also where a window cuts the event.

    Parameters
    ----------
    include_memory : bool, default True
        Whether launches of copies and fills count.
    selection : Selection, optional
        The device events to work on; all by default.

    Returns
    -------
    DataFrame
        One row per launch and device event, by rank and the call's start:

        - ``rank, correlation`` (int64, -1 where the file links by other means)
        - ``kernel`` (the full name), ``kind``, ``launch`` (name of the call): categorical
        - ``stream`` (int64)
        - ``cpu_dur_ns, gpu_dur_ns`` (int64): the call's duration and the device event's
        - ``launch_delay_ns`` (int64): from the call's end to the device event's start, 0 where
          it starts earlier
        - ``launch_id, kernel_id`` (int64): the two events

        ``.attrs["unlaunched"]`` counts selected device work whose launch the files do not hold.

    Notes
    -----
    Durations and delay are those of HTA's CUDA kernel launch statistics, which knows three of the
    calls, and does not tell which kernel it was.
    """
    chosen = parts(traces, **scope)
    kinds = BUSY if include_memory else BUSY[:2]
    found = list(over_ranks(chosen, _launches_of, kinds))
    column = stacked([columns for columns, _ in found], _LAUNCHES)
    column["kind"] = pd.Categorical.from_codes(column["kind"], dtype=dtype_of(KINDS))
    return result(
        column,
        matched={**count_kinds(chosen, kinds), "launched": len(column["rank"])},
        note=prelaunched_note(chosen) if len(column["rank"]) else NOTHING,
        unlaunched=sum(lost for _, lost in found),
    )


#: Columns of `launch_stats`, and their dtypes.
_LAUNCHES = {
    "rank": np.int64,
    "correlation": np.int64,
    "kernel": str,
    "kind": np.uint8,
    "launch": str,
    **dict.fromkeys(("stream", "cpu_dur_ns", "gpu_dur_ns", "launch_delay_ns"), np.int64),
    **dict.fromkeys(("launch_id", "kernel_id"), np.int64),
}


def launched_rows(part: Part, work: Rows) -> tuple[Ints, Rows, int]:
    """Return the calls that launched device events, these events, and how many have no call."""
    call = part.trace.launch_of[work]
    known = call >= 0
    if known.all():
        return call, work, 0
    return call[known], work[known], int(len(work) - known.sum())


def _launches_of(part: Part, kinds: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return a rank's columns, and how many of its events have no call."""
    table = part.table
    call, work, lost = launched_rows(part, part.of_kinds(*kinds))
    order = stable_order(call)
    call, work = call[order], work[order]
    call_end = table.start_ns[call] + table.dur_ns[call]
    columns = {
        "rank": np.full(len(work), part.rank),
        "correlation": table.correlation[work],
        "kernel": used_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "launch": used_texts(table.name[call], table.names),
        "stream": table.stream[work],
        "cpu_dur_ns": table.dur_ns[call],
        "gpu_dur_ns": table.dur_ns[work],
        "launch_delay_ns": np.maximum(table.start_ns[work] - call_end, 0),
        "launch_id": call,
        "kernel_id": work,
    }
    return columns, lost


@scoped
def launch_outliers(
    traces: TraceSet,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    include_memory: bool = True,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return which kernels are launched at a bad price, and how often.

    Three things stand out, and a launch may be several of them:

    - ``short kernel``: the call takes at most `runtime_cutoff_ns`, and the kernel less than it
    - ``long call``: the call takes more than `runtime_cutoff_ns`
    - ``late start``: the kernel starts more than `launch_delay_cutoff_ns` after the call's end

    Parameters
    ----------
    runtime_cutoff_ns : int, default 50 000
    launch_delay_cutoff_ns : int, default 100 000
    include_memory
        As in `launch_stats`.

    Returns
    -------
    DataFrame
        One row per rank, outlier and kernel, most frequent first within the first two: ``rank,
        outlier, kernel`` (the latter two categorical), ``count`` and ``launches`` (int64: outliers,
        and all launches of the kernel), ``share`` (count of launches), ``cpu_sum_ns, gpu_sum_ns,
        launch_delay_sum_ns`` (int64, of the outliers).

    Notes
    -----
    The cutoffs and the three views are those of HTA's CUDA kernel launch statistics, which draws
    them as histograms. `launch_stats` has the single launches.
    """
    stats = launch_stats(traces, include_memory=include_memory, **scope)
    call, kernel, delay = (
        stats[name].to_numpy() for name in ("cpu_dur_ns", "gpu_dur_ns", "launch_delay_ns")
    )
    masks = (
        (call <= runtime_cutoff_ns) & (kernel < call),
        call > runtime_cutoff_ns,
        delay > launch_delay_cutoff_ns,
    )
    names = list(stats["kernel"].cat.categories)
    at, group = np.unique(
        stats["rank"].to_numpy() * max(len(names), 1) + stats["kernel"].cat.codes.to_numpy(),
        return_inverse=True,
    )
    launches = np.bincount(group, minlength=len(at))
    rows = [
        (code, place, int(count))
        for code, mask in enumerate(masks)
        for place, count in enumerate(np.bincount(group[mask], minlength=len(at)).tolist())
        if count
    ]
    outlier, place, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    sums = {
        f"{name}_sum_ns": _sums(values, masks, group, len(at))[outlier, place]
        for name, values in (("cpu", call), ("gpu", kernel), ("launch_delay", delay))
    }
    rank, name = at[place] // max(len(names), 1), at[place] % max(len(names), 1)
    order = np.lexsort((name, -count, outlier, rank))
    frame = result(
        {
            "rank": rank[order],
            "outlier": categorical(outlier[order], _OUTLIERS),
            "kernel": categorical(name[order], names),
            "count": count[order],
            "launches": launches[place][order],
            "share": (count / launches[place])[order],
            **{key: values[order] for key, values in sums.items()},
        },
        matched={
            **stats.attrs["matched"],
            **{name: int(mask.sum()) for name, mask in zip(_OUTLIERS, masks, strict=True)},
        },
        note=stats.attrs.get("note", ""),
        unlaunched=stats.attrs["unlaunched"],
    )
    if not len(frame) and len(stats):
        frame.attrs["note"] = "no launch stands out"
    return frame


def _sums(values: Ints, masks: tuple[npt.NDArray[np.bool_], ...], group: Rows, groups: int) -> Ints:
    """Return the sums of the values that each mask takes, by mask and group, in integers."""
    sums = np.zeros((len(masks), groups), dtype=np.int64)
    for code, mask in enumerate(masks):
        np.add.at(sums[code], group[mask], values[mask])
    return sums


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueueSteps:
    """All changes of a rank's queues, by stream and time; launches before starts at an instant."""

    streams: Ints
    code: npt.NDArray[np.intp]
    time_ns: Ints
    queue_length: Ints
    row: Ints
    device_row: Ints
    early: int
    unlaunched: int
    kinds: dict[str, int]


def queue_steps(part: Part, *, launches: bool = False) -> QueueSteps:
    """Return all changes of the queues of one rank's selected device work."""
    table = part.table
    call, work, unlaunched = launched_rows(part, part.busy_rows())
    if launches:
        # Work is sorted by start, so the first of a call and stream is the first to start.
        entry = call * (int(table.stream.max(initial=0)) + 1) + table.stream[work]
        first = np.sort(np.unique(entry, return_index=True)[1])
        call, work = call[first], work[first]
    enters, leaves = table.start_ns[call], table.start_ns[work]
    early = leaves < enters
    streams, code = np.unique(table.stream[work].astype(np.int64), return_inverse=True)
    code = np.concatenate((code, code))
    time_ns = np.concatenate((enters, np.maximum(enters, leaves)))
    order = in_order(code, len(streams), time_ns)
    change = np.repeat(np.array([1, -1]), len(work))
    return QueueSteps(
        streams,
        code[order],
        time_ns[order],
        running_total(code[order], change[order]),
        np.concatenate((call, work))[order],
        np.concatenate((work, work))[order],
        int(early.sum()),
        unlaunched,
        count_kinds([part], BUSY),
    )


@dataclass(frozen=True, slots=True)
class OfQueues(Generic[T]):
    """What was found of one rank's queues, and how many events are in them."""

    found: T
    kinds: dict[str, int]
    launched: int
    unlaunched: int
    early: int


def over_queues(
    traces: TraceSet,
    scope: Scope,
    function: Callable[..., T],
    *args: Any,
    launches: bool = False,
) -> list[OfQueues[T]]:
    """Return what a function says of each rank's selected events of all times, and its queues.

    It is given them with the window's edges, since what waits through the whole window is in none
    of the events that overlap it.
    """
    chosen = narrowed(traces, **scope)
    always = parts(traces, replace(chosen, start_ns=None, end_ns=None))
    edges = (chosen.start_ns, chosen.end_ns)
    return list(over_ranks(always, _queue_steps_of_rank, function, edges, launches, *args))


def _queue_steps_of_rank(
    part: Part,
    function: Callable[..., T],
    edges: tuple[int | None, int | None],
    launches: bool,  # noqa: FBT001 - from the function above alone
    *args: Any,
) -> OfQueues[T]:
    steps = part.once(("queue_steps", launches), partial(queue_steps, part, launches=launches))
    low, high = (None if edge is None else edge - part.trace.shift_ns for edge in edges)
    found = function(replace(part, low=low, high=high, plain=False), steps, *args)
    return OfQueues(found, steps.kinds, len(steps.row) // 2, steps.unlaunched, steps.early)


def counts_of(found: Sequence[OfQueues[Any]]) -> dict[str, Any]:
    """Return what frames of these queues say of them in ``attrs``."""
    return {
        "matched": {
            **{kind: sum(one.kinds.get(kind, 0) for one in found) for kind in BUSY},
            "launched": sum(one.launched for one in found),
        },
        "unlaunched": sum(one.unlaunched for one in found),
        "early": sum(one.early for one in found),
    }
