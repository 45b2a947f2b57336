"""Idle time and its causes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.busy import without_work
from hta_widgets.analysis.lateness import loads_data
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    count_kinds,
    joined,
    over_ranks,
    parts,
    result,
    scoped,
    stacked,
    used_texts,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.grouping import group_order
from hta_widgets.trace.intervals import Covered, Intervals, union
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.trace import Trace, dtype_of
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: In the order in which they follow each other within a gap.
IDLE_CATEGORIES: tuple[str, ...] = (
    "sync_wait",
    "host_data_loading",
    "host_operator",
    "host_python",
    "host_nothing",
    "launch_call",
    "launch_latency",
    "kernel_wait",
    "stream_wait",
    "blocked",
    "unknown",
)
#: What a thread may do before it launches; of several at a time the first counts.
_ACTIVITIES = IDLE_CATEGORIES[:4]
#: What adds up to ``host_wait``.
_HOST = [name.startswith("host_") for name in IDLE_CATEGORIES]

#: Calls in which a host thread waits for its device.
_WAITS = re.compile(r"synchroni[sz]e|^(cuda|cu|hip|musa)Memcpy(?!.*Async)", re.IGNORECASE)
#: Calls that make a stream wait for work of another one.
STREAM_WAITS = re.compile(r"(cuda|hip|cu|mu|aclrt)StreamWaitEvent\w*", re.IGNORECASE)
_CALL_CATEGORY = re.compile(r"(.+_)?(runtime|driver)", re.IGNORECASE)

_NEVER = np.iinfo(np.int64).max
_CATEGORIES = ("host_wait", "kernel_wait", "other")
_STATS = ("mean_ns", "std_ns", "min_ns", "p25_ns", "p50_ns", "p75_ns", "max_ns")


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The gaps of one rank, in time order; `pieces` has a column per category."""

    start: Ints
    end: Ints
    next: Rows
    call: Ints
    pieces: Ints
    name: tuple[npt.NDArray[np.int32], list[str]]  # of each gap's `next`: codes, and the strings


@scoped
def device_idle_breakdown(
    traces: TraceSet, *, consecutive_kernel_delay_ns: int = 30_000, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long each rank's device as a whole idles, and what for.

    The gaps are the parts of the rank's span (see `temporal_breakdown`) in which none of its
    streams works. Each ends with the start of a kernel, copy or fill; where several start at that
    instant, the one that was launched first. A window cuts gaps at its edges; what each part of a
    gap is for is told by the whole of it. Every nanosecond of a gap goes to one category:

    - ``sync_wait``: the launch call had not begun, and its thread was inside a call that waits
      for the device, such as ``cudaStreamSynchronize``, or a copy that blocks.
    - ``host_data_loading, host_operator, host_python, host_nothing``: the launch call had not
      begun, and its thread loaded data, was inside an operator or another call, inside Python
      functions alone, or inside nothing that the file holds. Together they are the time in which
      the host has not launched the next work yet.
    - ``launch_call``: inside the launch call.
    - ``launch_latency``: from the end of the launch call to the start of the kernel, where the
      call ended within the gap.
    - ``kernel_wait``: the kernel had been launched before the gap, which is shorter than
      `consecutive_kernel_delay_ns`: what a device takes from one kernel to the next.
    - ``stream_wait``: the kernel had been launched before the gap, which is longer, and it is the
      first that its thread launched after a call such as ``cudaStreamWaitEvent``: it waited for
      another stream, or for another device through it.
    - ``blocked``: the same without such a call: what it waited for is not known.
    - ``unknown``: the file does not hold the launch call; of an export also what lies before its
      first and after its last work.

    While the thread of a launch call is inside nothing that the file holds, another thread that
    launches work counts in its place: a backward pass begins on a thread of its own.

    Parameters
    ----------
    consecutive_kernel_delay_ns : int, default 30_000
        Tells ``kernel_wait`` from ``stream_wait`` and ``blocked``.
    selection : Selection, optional
        The events to work on; all by default. Launch calls are found whether selected or not.

    Returns
    -------
    DataFrame
        One row per category and rank of `temporal_breakdown`:

        - ``rank`` (int64); ``idle_category`` (categorical)
        - ``idle_ns`` (int64): adds up to ``idle_ns`` of `temporal_breakdown`, to the nanosecond
        - ``gaps`` (int64): those that have any of it
        - ``idle_share`` (float): of the rank's idle time, 0..1; NaN where it has none
        - ``max_ns`` (int64): the most in one gap
    """
    chosen = parts(traces, **scope)
    sums = over_ranks(chosen, _gap_sums, consecutive_kernel_delay_ns)
    found = dict(zip(chosen.ranks, sums, strict=True))
    working = {rank: one for rank, one in found.items() if one is not None}
    size = len(IDLE_CATEGORIES)
    idle, gaps, most = (joined([one[k] for one in working.values()]) for k in range(3))
    of_rank = idle.reshape(-1, size).sum(axis=1).repeat(size)
    codes = np.tile(np.arange(size), len(working))
    return result(
        {
            "rank": np.array(list(working), dtype=np.int64).repeat(size),
            "idle_category": pd.Categorical.from_codes(codes, dtype=dtype_of(IDLE_CATEGORIES)),
            "idle_ns": idle,
            "gaps": gaps,
            "idle_share": idle / np.where(of_rank > 0, of_rank, np.nan),
            "max_ns": most,
        },
        matched=count_kinds(chosen),
        note=without_work(chosen.ranks, working),
    )


@scoped
def device_idle_gaps(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    top: int | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return the gaps in which each rank's device idles as a whole, and what ended them.

    Parameters
    ----------
    consecutive_kernel_delay_ns
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
        - ``sync_wait_ns, host_data_loading_ns, host_operator_ns, host_python_ns, host_nothing_ns,
          launch_call_ns, launch_latency_ns, kernel_wait_ns, stream_wait_ns, blocked_ns,
          unknown_ns`` (int64): its parts, which add up to ``dur_ns``
        - ``host_wait_ns`` (int64): those of the host together
    """
    chosen = parts(traces, **scope)
    of_rank = over_ranks(chosen, _longest_gaps, consecutive_kernel_delay_ns, top)
    by_rank = dict(zip(chosen.ranks, of_rank, strict=True))
    working = {rank: one for rank, one in by_rank.items() if one is not None}
    found = list(working.values())
    dur = joined([one.end - one.start for one in found])
    order: Rows | slice = slice(None)
    if top is not None:
        order = np.argsort(-dur, kind="stable")[:top]
    name = stacked([{"name": one.name} for one in found], {"name": str})["name"]
    pieces = joined([one.pieces.reshape(-1) for one in found]).reshape(-1, len(IDLE_CATEGORIES))[
        order
    ]
    most = pieces.argmax(axis=1) if len(pieces) else np.empty(0, np.int64)
    return result(
        {
            "rank": joined([np.full(len(one.start), rank) for rank, one in working.items()])[order],
            "start_ns": joined(
                [one.start + traces[rank].shift_ns for rank, one in working.items()]
            )[order],
            "dur_ns": dur[order],
            "idle_category": pd.Categorical.from_codes(most, dtype=dtype_of(IDLE_CATEGORIES)),
            "next_id": joined([one.next for one in found])[order],
            "next_name": name[order],
            "launch_id": joined([one.call for one in found])[order],
            **{f"{label}_ns": pieces[:, place] for place, label in enumerate(IDLE_CATEGORIES)},
            "host_wait_ns": pieces[:, _HOST].sum(axis=1),
        },
        matched=count_kinds(chosen),
        note=without_work(chosen.ranks, working),
    )


def _gap_sums(part: Part, short_ns: int) -> tuple[Ints, Ints, Ints] | None:
    """Return by category the time, the gaps that have any of it, and the most in one gap."""
    gaps = _gaps(part, short_ns)
    if gaps is None:
        return None
    # Of an export, what precedes or follows all its work: what ends that is not in the file.
    beyond = np.zeros((2, len(IDLE_CATEGORIES)), dtype=np.int64)
    beyond[:, -1] = _beyond_work(part)
    pieces = np.concatenate((gaps.pieces, beyond))
    return pieces.sum(axis=0), (pieces > 0).sum(axis=0), pieces.max(axis=0, initial=0)


def _beyond_work(part: Part) -> tuple[int, int]:
    """Return how much of a rank's span lies before the first selected work, and after the last."""
    low, high = part.span or (0, 0)
    start, end = part.whole.clipped(part.whole.busy_rows())
    first, last = (int(start.min()), int(end.max())) if len(start) else (high, high)
    return max(min(first, high) - low, 0), max(high - max(last, low), 0)


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
    pieces = gap_pieces(part.trace, (start, end), (low, high), call, short_ns)
    return _named(part, low, high, ends_gap, call, pieces)


def _whole_gaps(part: Part) -> tuple[Ints, Ints, Rows]:
    """Return start, end and the event that ends it of each gap between a rank's work."""
    rows = part.busy_rows()
    start, end = part.clipped(rows)
    if not len(rows):
        return start, end, rows
    busy = union(start, end)
    # Events without length bound the span as others do, though they cover nothing of it.
    gap_start = np.concatenate(([start.min()], busy.end))
    gap_end = np.concatenate((busy.start, [end.max()]))
    lasting = gap_end > gap_start
    gap_start, gap_end = gap_start[lasting], gap_end[lasting]
    return gap_start, gap_end, rows[launched_first(part.trace, rows, start, gap_end)]


def _named(part: Part, start: Ints, end: Ints, following: Rows, call: Ints, pieces: Ints) -> _Gaps:
    table = part.table
    name = used_texts(table.name[following], table.names)
    return _Gaps(start, end, following, call, pieces, name)


def launched_first(trace: Trace, rows: Rows, start: Ints, time: Ints) -> Rows:
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


def gap_pieces(
    trace: Trace, gap: tuple[Ints, Ints], cut: tuple[Ints, Ints], call: Ints, short_ns: int
) -> Ints:
    """Split what a window cuts out of gaps that end with what `call` launched."""
    table = trace.table
    start, end = cut
    pieces = np.zeros((len(start), len(IDLE_CATEGORIES)), dtype=np.int64)
    column = {name: pieces[:, place] for place, name in enumerate(IDLE_CATEGORIES)}
    known = call >= 0
    began = np.where(known, np.clip(table.start_ns[call], start, end), start)
    returned = table.start_ns[call] + table.dur_ns[call]
    left = np.clip(returned, began, end)
    queued = returned <= gap[0]
    short = gap[1] - gap[0] < short_ns
    behind = _behind_stream_waits(trace)[call]
    for activity, spent in zip(_ACTIVITIES, _before_calls(trace, start, began, call), strict=True):
        column[activity][:] = spent
    column["host_nothing"][:] = began - start - pieces[:, : len(_ACTIVITIES)].sum(axis=1)
    column["launch_call"][:] = np.where(known, left - began, 0)
    column["launch_latency"][:] = np.where(known & ~queued, end - left, 0)
    column["kernel_wait"][:] = np.where(known & queued & short, end - start, 0)
    column["stream_wait"][:] = np.where(known & queued & ~short & behind, end - start, 0)
    column["blocked"][:] = np.where(known & queued & ~short & ~behind, end - start, 0)
    column["unknown"][:] = np.where(known, 0, end - start)
    return pieces


def _before_calls(trace: Trace, start: Ints, end: Ints, call: Ints) -> list[Ints]:
    """Return how long the thread of each call does each of `_ACTIVITIES` between two instants."""
    spent = [np.zeros(len(start), dtype=np.int64) for _ in _ACTIVITIES]
    threads = trace.table.track[call]
    for thread, levels in _activity_by_thread(trace).items():
        of_gap = np.flatnonzero((threads == thread) & (call >= 0))
        below = np.zeros(len(of_gap), dtype=np.int64)
        for level, covered in enumerate(levels):
            reached = covered(end[of_gap]) - covered(start[of_gap])
            spent[level % len(_ACTIVITIES)][of_gap] += reached - below
            below = reached
    return spent


@memoized
def _activity_by_thread(trace: Trace) -> dict[int, list[Covered]]:
    """Return what each thread that launches work does, as levels of which each has those below.

    First its own activities, then those of all such threads.
    """
    table = trace.table
    threads = np.unique(table.track[_launch_calls(trace)])
    on_host = (table.stream < 0) & np.isin(table.track, threads)
    called = on_host & (table.kind == KINDS.index("cpu"))
    codes = [k for k, name in enumerate(table.names.values) if loads_data(name)]
    is_python = np.array(
        [name == "python_function" for name in table.categories.values], dtype=bool
    )
    python = is_python[table.category]
    waits = np.zeros(len(table), dtype=bool)
    waits[waiting_calls(trace)] = True
    loads = np.isin(table.name, codes)
    members = (on_host & waits, on_host & loads, called & ~python, called & python)
    rows = [np.flatnonzero(each) for each in members]
    end = table.start_ns + table.dur_ns
    shared = [union(table.start_ns[each], end[each]) for each in rows]
    found = {}
    for thread in threads.tolist():
        own = [each[table.track[each] == thread] for each in rows]
        level, levels = Intervals.none(), []
        for pieces in [*(union(table.start_ns[each], end[each]) for each in own), *shared]:
            level = union(*(np.concatenate(sides) for sides in zip(level, pieces, strict=True)))
            levels.append(Covered(*level))
        found[thread] = levels
    return found


@memoized
def _behind_stream_waits(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return of each event whether it launches the first work of its thread after a stream wait."""
    table = trace.table
    behind = np.zeros(len(table), dtype=bool)
    codes = [k for k, name in enumerate(table.names.values) if STREAM_WAITS.fullmatch(name)]
    waits = np.flatnonzero(np.isin(table.name, codes) & (table.stream < 0))
    calls = _launch_calls(trace)
    for thread in np.unique(table.track[waits]).tolist():
        own = calls[table.track[calls] == thread]
        at = np.searchsorted(
            table.start_ns[own], table.start_ns[waits[table.track[waits] == thread]]
        )
        behind[own[at[at < len(own)]]] = True
    return behind


def _launch_calls(trace: Trace) -> Rows:
    """Return the calls that launched device work, by start."""
    busy = np.isin(trace.table.kind, [KINDS.index(kind) for kind in BUSY])
    call = trace.launch_of[busy]
    return np.unique(call[call >= 0])


@memoized
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


@dataclass(frozen=True, slots=True)
class _StreamGaps:
    """The gaps of one rank: each stream's in time order, streams one after the other."""

    streams: Ints
    stream: Ints  # position in `streams`
    category: Ints
    length: Ints

    def by_cell(self) -> Ints:
        """Return the number of the stream and category of each gap."""
        return self.stream * len(_CATEGORIES) + self.category

    @property
    def cells(self) -> int:
        return len(self.streams) * len(_CATEGORIES)


@scoped
def idle_time_breakdown(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    streams: Iterable[int] | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return how long each stream idles between its kernels, and what for.

    A gap reaches from the latest end of what the stream ran before to the start of its next
    kernel, copy or fill; where these overlap it has no length. The whole of a gap goes to one
    category:

    - ``host_wait``: the call that launches the next kernel began after the gap did, so the host
      was late.
    - ``kernel_wait``: else, and the gap is shorter than `consecutive_kernel_delay_ns`, so it is
      what a device takes from one kernel to the next.
    - ``other``: else. Kernels that wait for other streams are here, and those whose launch the
      file does not hold after long gaps.

    Time before the first and after the last kernel of a stream is no gap. A window cuts the gaps
    at its edges, so that the times of adjacent windows add up to those of both. Streams idle while
    others work: `device_idle_breakdown` tells when nothing does.

    Parameters
    ----------
    consecutive_kernel_delay_ns : int, default 30_000
        Gaps shorter than this are ``kernel_wait`` unless the host was late.
    streams : iterable of int, optional
        Only these streams; all by default.

    Returns
    -------
    DataFrame
        Three rows per rank and stream that has device work or a gap in the window:

        - ``rank, stream`` (int64)
        - ``idle_category`` (categorical): ``host_wait, kernel_wait, other``
        - ``idle_ns`` (int64)
        - ``idle_share`` (float): of the stream's idle time, 0..1; NaN where it has none
        - ``gaps`` (int64): pairs of successive kernels in the category, those without a gap
          between them included

    Notes
    -----
    The definition is HTA's, which takes gaps from the end of the previous kernel alone, so that
    its gaps are negative where kernels of a stream overlap, and which counts the start of a
    stream as one of ``other``.
    """
    chosen = parts(traces, **scope)
    wanted = _wanted(streams)
    found = list(over_ranks(chosen, _sums, consecutive_kernel_delay_ns, wanted))
    idle = joined([time for _, time, _ in found])
    of_stream = idle.reshape(-1, len(_CATEGORIES)).sum(axis=1).repeat(len(_CATEGORIES))
    return result(
        {
            **_keys(chosen.ranks, [one for one, _, _ in found]),
            "idle_ns": idle,
            "idle_share": idle / np.where(of_stream > 0, of_stream, np.nan),
            "gaps": joined([gaps for _, _, gaps in found]),
        },
        matched=count_kinds(chosen),
        note="" if len(idle) else "no device work is selected: no stream has kernels or copies",
    )


@scoped
def idle_interval_stats(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    streams: Iterable[int] | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return how the lengths of the gaps on each stream are distributed, by category.

    Gaps and categories are those of `idle_time_breakdown`, as are all parameters.

    Parameters
    ----------
    consecutive_kernel_delay_ns, streams
        As in `idle_time_breakdown`.

    Returns
    -------
    DataFrame
        Three rows per rank and stream with device work:

        - ``rank, stream`` (int64); ``idle_category`` (categorical)
        - ``count`` (int64): the ``gaps`` of `idle_time_breakdown`
        - ``mean_ns, std_ns`` (float): the deviation is that of a sample (ddof 1)
        - ``min_ns, p25_ns, p50_ns, p75_ns, max_ns`` (float): quartiles are interpolated

        Floats are NaN where there are too few gaps to tell.

    Notes
    -----
    The statistics that HTA shows with its idle time breakdown.
    """
    chosen = parts(traces, **scope)
    wanted = _wanted(streams)
    found = list(over_ranks(chosen, _described_of, consecutive_kernel_delay_ns, wanted))
    tables = [table for _, table in found]
    described = joined(tables, np.float64).reshape(-1, 1 + len(_STATS))
    return result(
        {
            **_keys(chosen.ranks, [one for one, _ in found]),
            "count": described[:, 0].astype(np.int64),
            **{name: described[:, 1 + place] for place, name in enumerate(_STATS)},
        },
        matched=count_kinds(chosen),
        note=""
        if len(described)
        else "no device work is selected: no stream has kernels or copies",
    )


def _keys(ranks: Sequence[int], streams: Sequence[Ints]) -> dict[str, object]:
    """Return the columns that say which rank, stream and category each row is of."""
    size = len(_CATEGORIES)
    codes = np.tile(np.arange(size), sum(map(len, streams)))
    return {
        "rank": joined(
            [np.full(len(one) * size, rank) for rank, one in zip(ranks, streams, strict=True)]
        ),
        "stream": joined([one.repeat(size) for one in streams]),
        "idle_category": pd.Categorical.from_codes(codes, dtype=dtype_of(_CATEGORIES)),
    }


def _sums(part: Part, short_ns: int, wanted: Ints | None) -> tuple[Ints, Ints, Ints]:
    """Return a rank's streams, and by stream and category the time and number of gaps."""
    gaps = _stream_gaps(part, short_ns, wanted)
    cell = gaps.by_cell()
    time = np.zeros(gaps.cells, dtype=np.int64)
    np.add.at(time, cell, gaps.length)
    return gaps.streams, time, np.bincount(cell, minlength=gaps.cells)


def _described_of(
    part: Part, short_ns: int, wanted: Ints | None
) -> tuple[Ints, npt.NDArray[np.float64]]:
    gaps = _stream_gaps(part, short_ns, wanted)
    return gaps.streams, _described(gaps)


def _described(gaps: _StreamGaps) -> npt.NDArray[np.float64]:
    table = np.full((gaps.cells, 1 + len(_STATS)), np.nan)
    table[:, 0] = 0
    cell = gaps.by_cell()
    order = group_order(cell, gaps.cells)
    count = np.bincount(cell, minlength=gaps.cells)
    edge = np.concatenate(([0], np.cumsum(count)))
    length = gaps.length[order]
    for place in np.flatnonzero(count).tolist():
        some = length[edge[place] : edge[place + 1]]
        spread = some.std(ddof=1) if len(some) > 1 else np.nan
        table[place] = (
            len(some),
            some.mean(),
            spread,
            *np.quantile(some, (0, 0.25, 0.5, 0.75, 1)),
        )
    return table


def _wanted(streams: Iterable[int] | None) -> Ints | None:
    return None if streams is None else np.array(sorted({int(s) for s in streams}), np.int64)


def _stream_gaps(part: Part, short_ns: int, wanted: Ints | None) -> _StreamGaps:
    """Return the gaps between a rank's kernels of all times, cut at the window's edges."""
    table = part.table
    rows = part.whole.busy_rows()
    on_stream = table.stream[rows] >= 0
    if wanted is not None:
        on_stream &= np.isin(table.stream[rows], wanted)
    rows = rows[on_stream]
    streams, stream = np.unique(table.stream[rows], return_inverse=True)
    order = group_order(stream, len(streams))
    rows, stream = rows[order], stream[order].astype(np.int64)
    start = table.start_ns[rows]
    reach = start + table.dur_ns[rows]
    edge = np.searchsorted(stream, np.arange(len(streams) + 1)).tolist()
    for low, high in itertools.pairwise(edge):
        np.maximum.accumulate(reach[low:high], out=reach[low:high])
    pair = np.flatnonzero(stream[1:] == stream[:-1])
    before, after, following = reach[pair], start[pair + 1], rows[pair + 1]
    length = np.maximum(after - before, 0)
    call = part.trace.launch_of[following]
    late = (call >= 0) & (table.start_ns[call] > before)
    category = np.where(late, 0, np.where(length < short_ns, 1, 2))
    if part.whole is part:
        return _StreamGaps(streams.astype(np.int64), stream[pair], category, length)
    cut = np.subtract(*reversed(part.clipped_edges(before, after)))
    # Pairs without a gap between them count where the window holds the instant.
    begun = np.ones(len(after), dtype=bool) if part.low is None else after >= part.low
    kept = (cut > 0) | ((length == 0) & part.has(following) & begun)
    there = np.union1d(stream[pair[kept]], stream[part.has(rows)])
    number = np.searchsorted(there, stream[pair[kept]])
    return _StreamGaps(
        streams[there].astype(np.int64), number, category[kept], np.maximum(cut[kept], 0)
    )
