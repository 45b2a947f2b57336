"""Why a whole device waits: the gaps in which none of its streams works, split by cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.model import Selection, Trace, TraceSet
from hta_widgets.model.derived import derived_once
from hta_widgets.model.frames import dtype_of
from hta_widgets.model.intervals import Covered, union

from .busy import without_work
from .over_ranks import over_ranks
from .results import categorical, joined, result
from .scope import Part, Window, count_kinds, parts

__all__ = ["device_idle_breakdown", "device_idle_gaps", "waiting_calls"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: In the order in which they follow each other within a gap.
_CATEGORIES = (
    "sync_wait",
    "host_wait",
    "launch_call",
    "launch_latency",
    "kernel_wait",
    "blocked",
    "unknown",
)

#: Calls in which a host thread waits for its device.
_WAITS = re.compile(r"synchroni[sz]e|^(cuda|cu|hip|musa)Memcpy(?!.*Async)", re.IGNORECASE)
_CALL_CATEGORY = re.compile(r"(.+_)?(runtime|driver)", re.IGNORECASE)

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The gaps of one rank, in time order; `pieces` has a column per category."""

    start: Ints
    end: Ints
    next: Rows
    call: Ints
    pieces: Ints
    #: of each gap's `next`, the code in `names`
    name: Ints
    names: list[str]


def device_idle_breakdown(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each rank's device as a whole idles, and what for.

    The gaps are the parts of the rank's span (see `temporal_breakdown`) in which none of its
    streams works. Each ends with the start of a kernel, copy or fill; where several start at that
    instant, the one that was launched first. A window cuts gaps at its edges; what each part of a
    gap is for is told by the whole of it. Every nanosecond of a gap goes to one category:

    - ``sync_wait``: the launch call had not begun, and its thread was inside a call that waits
      for the device, such as ``cudaStreamSynchronize``, or a copy that blocks.
    - ``host_wait``: the launch call had not begun, and its thread did anything else.
    - ``launch_call``: inside the launch call.
    - ``launch_latency``: from the end of the launch call to the start of the kernel, where the
      call ended within the gap.
    - ``kernel_wait``: the kernel had been launched before the gap, which is shorter than
      `consecutive_kernel_delay_ns`: what a device takes from one kernel to the next.
    - ``blocked``: the kernel had been launched before the gap, which is longer: it waited for
      something, such as an event of another stream.
    - ``unknown``: the file does not hold the launch call.

    Parameters
    ----------
    traces : TraceSet
    consecutive_kernel_delay_ns : int, default 30_000
        Tells ``kernel_wait`` from ``blocked``.
    selection : Selection, optional
        The events to work on; all by default. Launch calls are found whether selected or not.
    window : (start_ns, end_ns), optional
        Narrows the selection in time.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per category and rank of `temporal_breakdown`:

        - ``rank`` (int64); ``idle_category`` (categorical)
        - ``idle_ns`` (int64): adds up to ``idle_ns`` of `temporal_breakdown`, to the nanosecond
        - ``gaps`` (int64): those that have any of it
        - ``idle_share`` (float): of the rank's idle time, 0..1; NaN where it has none
        - ``max_ns`` (int64): the most in one gap

    Examples
    --------
    >>> idle = device_idle_breakdown(traces)  # doctest: +SKIP
    >>> idle.pivot(index="rank", columns="idle_category", values="idle_ns")  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    sums = over_ranks(chosen, _gap_sums, consecutive_kernel_delay_ns)
    found = dict(zip(chosen.ranks, sums, strict=True))
    working = {rank: one for rank, one in found.items() if one is not None}
    size = len(_CATEGORIES)
    idle, gaps, most = (joined([one[k] for one in working.values()]) for k in range(3))
    of_rank = idle.reshape(-1, size).sum(axis=1).repeat(size)
    codes = np.tile(np.arange(size), len(working))
    return result(
        {
            "rank": np.array(list(working), dtype=np.int64).repeat(size),
            "idle_category": pd.Categorical.from_codes(codes, dtype=dtype_of(_CATEGORIES)),
            "idle_ns": idle,
            "gaps": gaps,
            "idle_share": idle / np.where(of_rank > 0, of_rank, np.nan),
            "max_ns": most,
        },
        matched=count_kinds(chosen),
        note=without_work(chosen.ranks, working),
    )


def device_idle_gaps(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    top: int | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the gaps in which each rank's device idles as a whole, and what ended them.

    Parameters
    ----------
    traces : TraceSet
    consecutive_kernel_delay_ns, selection, window, ranks
        As in `device_idle_breakdown`.
    top : int, optional
        Only so many gaps, the longest, longest first; by default all, rank by rank in time order.

    Returns
    -------
    DataFrame
        One row per gap:

        - ``rank, start_ns, dur_ns`` (int64)
        - ``idle_category`` (categorical): of most of the gap
        - ``next_id`` (int64), ``next_name`` (categorical): the event that ended it
        - ``launch_id`` (int64): the call that launched that event, -1 if unknown
        - ``sync_wait_ns, host_wait_ns, launch_call_ns, launch_latency_ns, kernel_wait_ns,
          blocked_ns, unknown_ns`` (int64): its parts, which add up to ``dur_ns``

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> timeline = hw.Timeline(traces)  # doctest: +SKIP
    >>> gap = device_idle_gaps(traces, top=1).iloc[0]  # doctest: +SKIP
    >>> timeline.zoom_to(gap.start_ns, gap.start_ns + gap.dur_ns)  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    of_rank = over_ranks(chosen, _longest_gaps, consecutive_kernel_delay_ns, top)
    by_rank = dict(zip(chosen.ranks, of_rank, strict=True))
    working = {rank: one for rank, one in by_rank.items() if one is not None}
    found = list(working.values())
    dur = joined([one.end - one.start for one in found])
    order: Rows | slice = slice(None)
    if top is not None:
        order = np.argsort(-dur, kind="stable")[:top]
    codes: dict[str, int] = {}
    name = joined([_name_codes(one, codes) for one in found])
    pieces = joined([one.pieces.reshape(-1) for one in found]).reshape(-1, len(_CATEGORIES))[order]
    most = pieces.argmax(axis=1) if len(pieces) else np.empty(0, np.int64)
    return result(
        {
            "rank": joined([np.full(len(one.start), rank) for rank, one in working.items()])[order],
            "start_ns": joined(
                [one.start + traces[rank].shift_ns for rank, one in working.items()]
            )[order],
            "dur_ns": dur[order],
            "idle_category": pd.Categorical.from_codes(most, dtype=dtype_of(_CATEGORIES)),
            "next_id": joined([one.next for one in found])[order],
            "next_name": categorical(name[order], list(codes)),
            "launch_id": joined([one.call for one in found])[order],
            **{f"{label}_ns": pieces[:, place] for place, label in enumerate(_CATEGORIES)},
        },
        matched=count_kinds(chosen),
        note=without_work(chosen.ranks, working),
    )


def _name_codes(gaps: _Gaps, codes: dict[str, int]) -> Ints:
    number = [codes.setdefault(name, len(codes)) for name in gaps.names]
    of_gap: Ints = np.array(number, dtype=np.int64)[gaps.name]
    return of_gap


def _gap_sums(part: Part, short_ns: int) -> tuple[Ints, Ints, Ints] | None:
    """Return by category the time, the gaps that have any of it, and the most in one gap."""
    gaps = _gaps(part, short_ns)
    if gaps is None:
        return None
    pieces = gaps.pieces
    return pieces.sum(axis=0), (pieces > 0).sum(axis=0), pieces.max(axis=0, initial=0)


def _longest_gaps(part: Part, short_ns: int, top: int | None) -> _Gaps | None:
    gaps = _gaps(part, short_ns)
    if gaps is None or top is None or len(gaps.start) <= top:
        return gaps
    kept = np.sort(np.argsort(gaps.start - gaps.end, kind="stable")[:top])
    columns = (gaps.start, gaps.end, gaps.next, gaps.call, gaps.pieces)
    return _named(part, *(column[kept] for column in columns))


def _gaps(part: Part, short_ns: int) -> _Gaps | None:
    """Return the gaps of a rank, cut at the window's edges; None where it has no span there.

    What each is for is told by the whole gap, also where the window holds a part of it.
    """
    if part.span is None:
        return None
    whole = part.whole
    start, end, ends_gap = whole.once("gaps", lambda: _whole_gaps(whole))
    low, high = part.clipped_edges(start, end)
    inside = np.flatnonzero(high > low)
    start, end, ends_gap, low, high = (
        column[inside] for column in (start, end, ends_gap, low, high)
    )
    call = part.trace.launch_of[ends_gap]
    pieces = _pieces(part.trace, (start, end), (low, high), call, short_ns)
    return _named(part, low, high, ends_gap, call, pieces)


def _whole_gaps(part: Part) -> tuple[Ints, Ints, Rows]:
    """Return start, end and the event that ends it of each gap between a rank's work."""
    rows = part.busy_rows()
    start, end = part.clipped(rows)
    busy = union(start, end)
    # Events without length bound the span as others do, though they cover nothing of it.
    gap_start = np.concatenate(([start.min()], busy.end))
    gap_end = np.concatenate((busy.start, [end.max()]))
    lasting = gap_end > gap_start
    gap_start, gap_end = gap_start[lasting], gap_end[lasting]
    return gap_start, gap_end, rows[_launched_first(part.trace, rows, start, gap_end)]


def _named(part: Part, start: Ints, end: Ints, following: Rows, call: Ints, pieces: Ints) -> _Gaps:
    table = part.table
    codes, code = np.unique(table.name[following], return_inverse=True)
    names = [table.names[name] for name in codes.tolist()]
    return _Gaps(start, end, following, call, pieces, code.reshape(-1), names)


def _launched_first(trace: Trace, rows: Rows, start: Ints, time: Ints) -> Rows:
    """Return which of the events that start at each time was launched first; they are by start."""
    first = np.searchsorted(start, time, "left")
    count = np.searchsorted(start, time, "right") - first
    several = np.flatnonzero(count > 1)
    if len(several):
        number = count[several]
        group = np.repeat(np.arange(len(several)), number)
        within = np.arange(len(group)) - np.repeat(np.cumsum(number) - number, number)
        place = first[several][group] + within
        call = trace.launch_of[rows[place]]
        called = np.where(call >= 0, trace.table.start_ns[call], _NEVER)
        order = np.lexsort((called, group))
        first[several] = place[order[np.cumsum(number) - number]]
    return first


def _pieces(
    trace: Trace, gap: tuple[Ints, Ints], cut: tuple[Ints, Ints], call: Ints, short_ns: int
) -> Ints:
    """Split what a window cuts out of gaps that end with what `call` launched."""
    table = trace.table
    start, end = cut
    pieces = np.zeros((len(start), len(_CATEGORIES)), dtype=np.int64)
    column = {name: pieces[:, place] for place, name in enumerate(_CATEGORIES)}
    known = call >= 0
    began = np.clip(table.start_ns[call], start, end)
    returned = table.start_ns[call] + table.dur_ns[call]
    left = np.clip(returned, began, end)
    queued = returned <= gap[0]
    short = gap[1] - gap[0] < short_ns
    column["sync_wait"][:] = np.where(known, _in_waits(trace, start, began, call), 0)
    column["host_wait"][:] = np.where(known, began - start, 0) - column["sync_wait"]
    column["launch_call"][:] = np.where(known, left - began, 0)
    column["launch_latency"][:] = np.where(known & ~queued, end - left, 0)
    column["kernel_wait"][:] = np.where(known & queued & short, end - start, 0)
    column["blocked"][:] = np.where(known & queued & ~short, end - start, 0)
    column["unknown"][:] = np.where(known, 0, end - start)
    return pieces


def _in_waits(trace: Trace, start: Ints, end: Ints, call: Ints) -> Ints:
    """Return how long the thread of each call waits for the device between two instants."""
    table = trace.table
    inside = np.zeros(len(start), dtype=np.int64)
    threads = table.track[call]
    for thread, covered in _waits_by_thread(trace).items():
        of_gap = np.flatnonzero((threads == thread) & (call >= 0))
        inside[of_gap] = covered(end[of_gap]) - covered(start[of_gap])
    return inside


@derived_once("waits_by_thread")
def _waits_by_thread(trace: Trace) -> dict[int, Covered]:
    """Return how long each thread has waited for the device before any instant."""
    table, waits = trace.table, waiting_calls(trace)
    found = {}
    for thread in np.unique(table.track[waits]).tolist():
        rows = waits[table.track[waits] == thread]
        end = table.start_ns[rows] + table.dur_ns[rows]
        found[thread] = Covered(*union(table.start_ns[rows], end))
    return found


@derived_once("waiting_calls")
def waiting_calls(trace: Trace) -> Rows:
    """Return the calls in which a host thread waits for its device."""
    table = trace.table
    calls = [
        code
        for code, category in enumerate(table.categories.values)
        if _CALL_CATEGORY.fullmatch(category)
    ]
    rows = np.flatnonzero(np.isin(table.category, calls))
    waits = [
        name for name in np.unique(table.name[rows]).tolist() if _WAITS.search(table.names[name])
    ]
    return rows[np.isin(table.name[rows], waits)]
