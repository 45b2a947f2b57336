"""Why streams wait: the gaps between a stream's kernels, by cause."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.frames import dtype_of
from hta_widgets.trace.ordering import group_order

from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import parts

__all__ = ["idle_interval_stats", "idle_time_breakdown"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_CATEGORIES = ("host_wait", "kernel_wait", "other")
_STATS = ("mean_ns", "std_ns", "min_ns", "p25_ns", "p50_ns", "p75_ns", "max_ns")


@dataclass(frozen=True, slots=True)
class _Gaps:
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


def idle_time_breakdown(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    streams: Iterable[int] | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
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
    traces : TraceSet
    consecutive_kernel_delay_ns : int, default 30_000
        Gaps shorter than this are ``kernel_wait`` unless the host was late.
    streams : iterable of int, optional
        Only these streams; all by default.
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

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

    Examples
    --------
    >>> idle = idle_time_breakdown(traces, streams=[7])  # doctest: +SKIP
    >>> idle.pivot(index="rank", columns="idle_category", values="idle_ns")  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
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


def idle_interval_stats(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = 30_000,
    streams: Iterable[int] | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how the lengths of the gaps on each stream are distributed, by category.

    Gaps and categories are those of `idle_time_breakdown`, as are all parameters.

    Parameters
    ----------
    traces : TraceSet
    consecutive_kernel_delay_ns, streams, selection, window, ranks
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

    Examples
    --------
    >>> idle_interval_stats(traces).query("idle_category == 'host_wait'")  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
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
    gaps = _gaps(part, short_ns, wanted)
    cell = gaps.by_cell()
    time = np.zeros(gaps.cells, dtype=np.int64)
    np.add.at(time, cell, gaps.length)
    return gaps.streams, time, np.bincount(cell, minlength=gaps.cells)


def _described_of(
    part: Part, short_ns: int, wanted: Ints | None
) -> tuple[Ints, npt.NDArray[np.float64]]:
    gaps = _gaps(part, short_ns, wanted)
    return gaps.streams, _described(gaps)


def _described(gaps: _Gaps) -> npt.NDArray[np.float64]:
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


def _gaps(part: Part, short_ns: int, wanted: Ints | None) -> _Gaps:
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
        return _Gaps(streams.astype(np.int64), stream[pair], category, length)
    cut = np.subtract(*reversed(part.clipped_edges(before, after)))
    # Pairs without a gap between them count where the window holds the instant.
    kept = (cut > 0) | ((length == 0) & part.has(following) & (after >= _low(part)))
    there = np.union1d(stream[pair[kept]], stream[part.has(rows)])
    number = np.searchsorted(there, stream[pair[kept]])
    return _Gaps(streams[there].astype(np.int64), number, category[kept], np.maximum(cut[kept], 0))


def _low(part: Part) -> int:
    return np.iinfo(np.int64).min if part.low is None else part.low
