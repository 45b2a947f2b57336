"""The critical path of a whole job: which rank decided how long a step takes, and by what."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.clock_offsets import clock_fit
from hta_widgets.analysis.collectives import arrivals
from hta_widgets.analysis.critical.rules import BOUNDS
from hta_widgets.analysis.critical.rules import EDGE_TYPES
from hta_widgets.analysis.job_span import JobSpan
from hta_widgets.analysis.job_span import span_of_job
from hta_widgets.analysis.job_walk import COLLECTIVE
from hta_widgets.analysis.job_walk import Segments
from hta_widgets.analysis.job_walk import walked
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.matching import matching
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Window

__all__ = ["job_critical_path", "job_path_summary"]

Ints = npt.NDArray[np.int64]

#: How the path gets to a segment, by its type.
_VIA = ("event", "thread", "launch", "stream", "wait", "unknown", "collective")


def job_critical_path(
    traces: TraceSet,
    *,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] = 0,
    window: Window | None = None,
) -> pd.DataFrame:
    """Return the chain of dependencies that decides how long a step takes, over all ranks.

    Answers which rank the job waits for, and what that rank does in the meantime: time that the
    others spend waiting for it in collectives is not on the path.

    The path is walked back from the end of the rank that ends last. Within a rank it follows the
    dependencies of `critical_path`: from each start or end to what it waited for, which is the
    launching call, the kernel before on the stream, the work of another stream or the device that
    was waited for, or what came before on the thread. Where it comes to the end of a collective in
    which the rank waited, the transfer, from the last arrival on, belongs to the rank; from the
    last arrival the path goes on back on the rank that arrived last.

    Times are those of ``traces.with_clock("fitted")``, whatever clock the set lies on, since no
    other tells who came last.

    Parameters
    ----------
    traces : TraceSet
    annotation : str, default "ProfilerStep"
        Part of the name of a range on the host; ``""`` is everything.
    instance : int or (first, last), default 0
        Which of the ranges of that name, numbered from 0 by their earliest start on any rank. The
        same range on different ranks is told by its name (``ProfilerStep#4``), ranges of one name
        by their order. The span is from its earliest start on any rank to its latest end, or to
        the end of the last device work that it launched.
    window : (start_ns, end_ns), optional
        A span on the fitted clock instead of a range.

    Returns
    -------
    DataFrame
        One row per segment, in time; each starts where the one before ends, and ``dur_ns`` add up
        to the span.

        ``rank``; ``start_ns, dur_ns`` (int64); ``id`` of the event that the time belongs to, -1 for
        none; its ``name``, ``kind`` and ``stream`` (-1 on the host); ``bound_by`` and ``type`` as
        in `critical_path`, ``outside_path`` also where nothing is known that an event waited for;
        ``via``, how the path gets to the segment: ``event`` (within one), ``thread``, ``launch``,
        ``stream``, ``wait``, ``collective`` (from the rank of the row before, which arrived last at
        the event of this one), ``unknown``.

        ``.attrs``: ``span_ns``; ``clock``; ``residual_ns``, how well the fitted clock fits, the
        worst rank's of `clock_offsets`, -1 unknown; ``jumps``, how often the path changes ranks;
        ``clock_overlap_ns``: where a rank leaves a collective before the last one has come, the
        clocks contradict each other, and time on the last rank's side that would be counted twice
        is left out; this is by how much, added up over the jumps.

    Raises
    ------
    TraceError
        Where the range has fewer instances.

    Notes
    -----
    HTA's critical path is that of one rank. Here nothing is longest: the walk follows what each
    event last waited for, so the time of the path is that of the span. Collectives that lack ranks'
    files are left by the last rank that is there.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> path = job_critical_path(traces, instance=1)  # doctest: +SKIP
    >>> job_path_summary(path)  # doctest: +SKIP
    """
    match = matching(traces)
    fit = clock_fit(traces)
    times = arrivals(traces, match, "fitted")
    span = span_of_job(match.traces, times.shifts_ns, annotation, instance, window)
    found = Segments() if span is None else walked(match.traces, match, times, span)
    known = fit.residual_ns[fit.residual_ns >= 0]
    return _frame(
        match,
        found,
        span,
        residual_ns=int(known.max()) if len(known) else -1,
        note=_note(traces, match, span, annotation),
    )


def job_path_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how much of a job's critical path is on which rank, and bound by what.

    Parameters
    ----------
    frame : DataFrame
        From `job_critical_path`.

    Returns
    -------
    DataFrame
        One row per rank and cause that occurs, the most time first: ``rank`` (int64), ``bound_by``,
        ``count`` (int64, segments), ``dur_ns`` (int64), ``share`` (float64, 0..1 of the path).
        Its attributes are those of the path.

    Examples
    --------
    >>> path = job_critical_path(traces)  # doctest: +SKIP
    >>> job_path_summary(path).groupby("rank")["share"].sum()  # doctest: +SKIP
    """
    groups = frame.groupby(["rank", "bound_by"], observed=True, sort=False)["dur_ns"]
    table = groups.agg(["size", "sum"]).reset_index()
    table.columns = pd.Index(["rank", "bound_by", "count", "dur_ns"])
    table = table.astype({"rank": np.int64, "count": np.int64, "dur_ns": np.int64})
    table["share"] = table["dur_ns"] / max(int(table["dur_ns"].sum()), 1)
    table = table.sort_values(["dur_ns", "rank"], ascending=[False, True], kind="stable")
    table.attrs.update(frame.attrs)
    return table.reset_index(drop=True)


def _note(traces: TraceSet, match: Matching, span: JobSpan | None, annotation: str) -> str:
    if not len(traces):
        return "no ranks are loaded"
    if span is None:
        return (
            f"no event of any rank has {annotation!r} in its name"
            if annotation
            else "nothing happens on any rank by then"
        )
    if not len(match):
        return "no collective is found on two ranks, so the path is that of the rank that ends last"
    if match.missing_ranks:
        return f"files of {match.missing_ranks} ranks are missing, which may have come later"
    return ""


def _frame(
    match: Matching,
    found: Segments,
    span: JobSpan | None,
    *,
    residual_ns: int,
    note: str,
) -> pd.DataFrame:
    def column(values: list[int]) -> Ints:
        return np.array(values[::-1], dtype=np.int64)

    place, event, type_ = column(found.place), column(found.event), column(found.type)
    start, end = column(found.start), column(found.end)
    name, kind, stream = (np.full(len(place), -1, dtype=np.int64) for _ in range(3))
    names: dict[str, int] = {"": 0}
    for number, trace in enumerate(match.traces):
        mine = np.flatnonzero((place == number) & (event >= 0))
        if len(mine):
            rows, table = event[mine], trace.table
            kind[mine], stream[mine] = table.kind[rows], table.stream[rows]
            used, inverse = np.unique(table.name[rows], return_inverse=True)
            codes = [names.setdefault(table.names[code], len(names)) for code in used.tolist()]
            name[mine] = np.array(codes, dtype=np.int64)[inverse]
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)
    return result(
        {
            "rank": ranks[place] if len(ranks) else place,
            "start_ns": start,
            "dur_ns": end - start,
            "id": event,
            "name": categorical(np.maximum(name, 0), list(names)),
            "bound_by": categorical(column(found.bound), BOUNDS),
            "kind": categorical(kind, KINDS),
            "type": categorical(np.where(type_ == COLLECTIVE, 0, type_), EDGE_TYPES),
            "via": categorical(type_, _VIA),
            "stream": stream,
        },
        matched=match.counts,
        note=note,
        clock="fitted",
        residual_ns=residual_ns,
        span_ns=(0, 0) if span is None else (span.low, span.high),
        jumps=found.jumps,
        clock_overlap_ns=found.overlap_ns,
    )
