"""TraceSet: all ranks on one clock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.text import Time
from hta_widgets.trace.columns import (
    AsyncTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
)
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.selection import Selection, chosen_events, chosen_ranks, listed
from hta_widgets.trace.trace import Trace, events_of
from hta_widgets.workers import require_executor

#: 2005-01-01 and 2100-01-01: a clock that reads between them counts from the epoch.
_EPOCH_FROM_NS = 1_104_537_600_000_000_000
_EPOCH_TO_NS = 4_102_444_800_000_000_000

#: Ranks of one job start together. Apart by more than this, and by more than ten times the longest
#: of them, they are on different clocks, or of different runs.
_FAR_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """The common time axis of a set."""

    origin_ns: int | None  # epoch time of instant 0
    shifts_ns: list[int]  # to be added to the times of each trace's table


def is_epoch(time_ns: int) -> bool:
    """Whether an absolute time is plainly one since 1970."""
    return _EPOCH_FROM_NS <= time_ns < _EPOCH_TO_NS


def common_clock(traces: Sequence[Trace], problems: Problems) -> Clock:
    """Place ranks on one axis: as recorded, unless their clocks have nothing in common.

    Ranks that lie far apart form groups. The largest keeps its recorded times; each other group is
    moved as a whole to start with it, and reported as a ``clock`` problem.
    """
    filled = [trace for trace in traces if len(trace)]
    if not filled:
        return Clock(None, [0] * len(traces))
    groups = _groups(filled)
    main = max(groups, key=len)
    origin = min(trace.zero_ns for trace in main)
    shift = {id(trace): trace.zero_ns - origin for trace in main}
    for group in groups:
        if group is main:
            continue
        start = min(trace.zero_ns for trace in group)
        for trace in group:
            shift[id(trace)] = trace.zero_ns - start
            problems.add("clock", 1, _apart(start, origin), trace.rank, trace.path)
    return Clock(
        origin if is_epoch(origin) else None,
        [shift.get(id(trace), 0) for trace in traces],
    )


def _groups(traces: Sequence[Trace]) -> list[list[Trace]]:
    def span(trace: Trace) -> int:
        return trace.table.last_ns

    far = max(_FAR_NS, 10 * max(span(trace) for trace in traces))
    groups: list[list[Trace]] = []
    reach = 0
    for trace in sorted(traces, key=lambda trace: trace.zero_ns):
        if not groups or trace.zero_ns - reach > far:
            groups.append([])
            reach = trace.zero_ns
        groups[-1].append(trace)
        reach = max(reach, trace.zero_ns + span(trace))
    return groups


def _apart(start_ns: int, origin_ns: int) -> str:
    moved = "moved to start with them"
    if is_epoch(start_ns) and not is_epoch(origin_ns):
        return f"its clock counts from the epoch, other ranks' clocks do not; {moved}"
    if is_epoch(origin_ns) and not is_epoch(start_ns):
        return f"its clock does not count from the epoch, other ranks' clocks do; {moved}"
    return f"its clock is {(start_ns - origin_ns) / 1e9:+,.0f} s from other ranks'; {moved}"


def summary_of(traces: TraceSet) -> pd.DataFrame:
    """Return one row per rank: where it comes from and what it holds."""
    ranks = list(traces.values())

    def text(values: Iterable[str | None]) -> pd.Series[Any]:
        return pd.Series(list(values), dtype=object)

    def numbers(values: Iterable[int]) -> Any:
        return np.array(list(values), dtype=np.int64)

    return pd.DataFrame(
        {
            "rank": numbers(t.rank for t in ranks),
            "job": text(t.job for t in ranks),
            "worker": numbers(t.worker for t in ranks),
            "local_rank": numbers(t.local_rank for t in ranks),
            "server": numbers(t.server for t in ranks),
            "host": text(t.host for t in ranks),
            "file": text(t.path for t in ranks),
            "format": text(t.format for t in ranks),
            "events": numbers(len(t) for t in ranks),
            "start_ns": numbers(t.start_ns for t in ranks),
            "end_ns": numbers(t.end_ns for t in ranks),
            "stated_rank": numbers(-1 if t.stated_rank is None else t.stated_rank for t in ranks),
        }
    )


def part_of_job(traces: TraceSet) -> dict[str, Any] | None:
    """Return what the files of an export say of the job; None where one of them is no export."""
    if traces.window_ns is None:
        return None
    parts = [part for trace in traces.values() if (part := trace.export_part) is not None]
    return {
        "job_ranks": max(part.job_ranks for part in parts),
        "all_time": all(part.all_time for part in parts),
        "all_events": all(part.all_events for part in parts),
        "cut_events": sum(part.cut_events for part in parts),
    }


def part_text(traces: TraceSet) -> str:
    """Say of what part of their ranks the files are exports; empty where they hold all of them."""
    window_ns, part = traces.window_ns, part_of_job(traces)
    if window_ns is None or part is None or (part["all_time"] and part["all_events"]):
        return ""
    text, cut = "" if part["all_events"] else "chosen events of ", int(part["cut_events"])
    text += (
        "a job" if part["all_time"] else f"{(window_ns[1] - window_ns[0]) / 1e6:,.3f} ms of a job"
    )
    return f"{text}; {cut:,} events cross the window's edges" if cut else text


def facts_of(traces: TraceSet, problems: Problems) -> str:
    """Return a line: how many ranks and events of which format, how long, what was amiss."""
    events = sum(len(trace) for trace in traces.values())
    notes = len(problems)
    missing = sum(not problem.is_harmless for problem in problems)
    amiss = f"{missing} problem{'' if missing == 1 else 's'}" if missing else "complete"
    if notes > missing:
        amiss += f", {notes - missing} notes in .problems"
    start_ns, end_ns = traces.span_ns
    facts = [
        f"{traces.format}",
        ranks_of_job(traces) or f"{len(traces)} rank{'' if len(traces) == 1 else 's'}",
        f"{events:,} events",
        f"{(end_ns - start_ns) / 1e6:,.3f} ms",
        amiss,
    ]
    return " · ".join(facts)


def ranks_of_job(traces: TraceSet) -> str:
    """Return ``5 of 8 ranks`` where files say that there are more ranks; else nothing."""
    stated = int((part_of_job(traces) or {}).get("job_ranks", 0))
    of = max([stated, *(trace.world_size for trace in traces.values())])
    loaded = len(
        {one.rank if one.stated_rank is None else one.stated_rank for one in traces.values()}
    )
    return f"{loaded} of {of} ranks" if loaded < of else ""


def html_of(traces: TraceSet, problems: Problems) -> str:
    """Return the same for a notebook, with tables of the first ranks and problems."""
    summary = summary_of(traces)
    shown = summary[["rank", "file", "format", "events", "start_ns", "end_ns"]].head(16)
    parts = [f"<p><b>TraceSet</b> {escape(facts_of(traces, problems))}</p>", _table(shown)]
    if len(summary) > len(shown):
        parts.append(f"<p>and {len(summary) - len(shown)} ranks more: .summary()</p>")
    if len(problems):
        parts.append("<p>Problems found: .problems</p>" + _table(problems.frame().head(8)))
    return "".join(parts)


def _table(frame: pd.DataFrame) -> str:
    def row(cells: Iterable[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(values, "td") for values in frame.itertuples(index=False, name=None))
    return f"<table><thead>{row(frame.columns, 'th')}</thead><tbody>{body}</tbody></table>"


def trace_within(trace: Trace, member: npt.NDArray[np.bool_], window: Selection) -> Trace:
    """Return the member events, numbered anew, and what else lies in the window."""
    rows = np.flatnonzero(member)
    new_row = np.full(len(member) + 1, -1, dtype=np.int64)
    new_row[rows] = np.arange(len(rows))
    low = None if window.start_ns is None else window.start_ns - trace.shift_ns
    high = None if window.end_ns is None else window.end_ns - trace.shift_ns
    return trace.replace(
        _table=_events(trace.table, rows, new_row),
        flow_table=_flows(trace.flow_table, new_row),
        counter_table=_counters(trace.counter_table, low, high),
        instant_table=_instants(trace.instant_table, low, high),
        async_table=_asyncs(trace.async_table, low, high),
        part=True,
    )


def _events(
    table: EventTable, rows: npt.NDArray[np.intp], new_row: npt.NDArray[np.int64]
) -> EventTable:
    columns: dict[str, Any] = {
        name: getattr(table, name)[rows]
        for name in (
            "start_ns",
            "dur_ns",
            "name",
            "category",
            "kind",
            "track",
            "depth",
            "stream",
            "correlation",
            "step",
            "phase",
            "record",
        )
    }
    return EventTable(
        **columns,
        parent=new_row[table.parent[rows]].astype(np.int32),
        names=table.names,
        categories=table.categories,
        tracks=table.tracks,
        end_record={
            int(new_row[row]): record
            for row, record in table.end_record.items()
            if new_row[row] >= 0
        },
    )


def _flows(table: FlowTable, new_row: npt.NDArray[np.int64]) -> FlowTable:
    source, target = new_row[table.source], new_row[table.target]
    kept = (source >= 0) & (target >= 0)
    return FlowTable(
        table.kind[kept],
        source[kept],
        target[kept],
        table.kinds,
        table.source_record[kept],
        table.target_record[kept],
    )


def _between(
    start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], low: int | None, high: int | None
) -> npt.NDArray[np.bool_]:
    kept = np.ones(len(start), dtype=bool)
    if low is not None:
        kept &= (end > low) | (start >= low)
    if high is not None:
        kept &= start < high
    return kept


def _counters(table: CounterTable, low: int | None, high: int | None) -> CounterTable:
    kept = _between(table.time_ns, table.time_ns, low, high)
    return CounterTable(
        table.time_ns[kept],
        table.series_id[kept],
        table.value[kept],
        table.series,
        table.record[kept],
    )


def _instants(table: InstantTable, low: int | None, high: int | None) -> InstantTable:
    kept = np.flatnonzero(_between(table.time_ns, table.time_ns, low, high))
    return InstantTable(
        table.time_ns[kept],
        table.name[kept],
        table.category[kept],
        [table.pid[row] for row in kept],
        [table.tid[row] for row in kept],
        [table.scope[row] for row in kept],
        table.record[kept],
    )


def _asyncs(table: AsyncTable, low: int | None, high: int | None) -> AsyncTable:
    # Without an end an interval is known to have started, not to have gone on.
    end = table.start_ns + np.maximum(table.dur_ns, 0)
    kept = np.flatnonzero(_between(table.start_ns, end, low, high))
    return AsyncTable(
        table.start_ns[kept],
        table.dur_ns[kept],
        table.name[kept],
        table.category[kept],
        [table.async_id[row] for row in kept],
        [table.pid[row] for row in kept],
        table.record[kept],
    )


ClockName = Literal["host", "fitted"]


class TraceSet(Mapping[int, Trace]):
    """The ranks of what was loaded, by rank.

    Times are nanoseconds since the earliest event of what was loaded; parts made with `subset`
    keep that origin.

    Parameters
    ----------
    traces : iterable of Trace
        Their ranks must differ.
    problems : Problems, optional
        What was found while they were read.
    like : TraceSet, optional
        A set whose time axis these traces already lie on, and keep.
    """

    def __init__(
        self,
        traces: Iterable[Trace],
        *,
        problems: Problems | None = None,
        like: TraceSet | None = None,
    ) -> None:
        ordered = sorted(traces, key=lambda trace: trace.rank)
        ranks = [trace.rank for trace in ordered]
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"ranks must differ: {ranks}")
        found = Problems()
        by_file = {trace.path: trace.rank for trace in ordered}
        for problem in problems or ():
            rank = problem.rank if problem.rank is not None else by_file.get(problem.file or "")
            found.add(problem.kind, problem.count, problem.detail, rank, problem.file)
        self._clock: ClockName = "host" if like is None else like.clock
        #: how much earlier than recorded instant 0 is
        self.lift_ns: int = 0 if like is None else like.lift_ns
        if like is None:
            clock = common_clock(ordered, found)
            self._origin_ns = clock.origin_ns
            ordered = [
                trace.replace(shift_ns=shift)
                for trace, shift in zip(ordered, clock.shifts_ns, strict=True)
            ]
        else:
            self._origin_ns = like.origin_ns
        self._traces = {trace.rank: trace for trace in ordered}
        if like is None:
            told = part_text(self)
            found.add("part", 1 if told else 0, told)
        self._problems = found
        #: what analyses derived of all ranks together, on the clock that the hosts recorded
        self.memo: dict[Any, Any] = {}
        #: where analyses work on stored ranks, one by one; None: in this process
        self.executor: Executor | None = None if like is None else like.executor

    def __getstate__(self) -> dict[str, Any]:
        # Connections stay here, and what was derived is quicker to derive again than to send.
        return {**self.__dict__, "memo": {}, "executor": None}

    @classmethod
    def restored(
        cls,
        traces: Iterable[Trace],
        problems: Problems,
        *,
        clock: ClockName,
        origin_ns: int | None,
        lift_ns: int,
    ) -> TraceSet:
        """Return a set as it was: traces that lie on its time axis, and the facts of the axis."""
        found = cls((), problems=problems)
        found._traces = {trace.rank: trace for trace in traces}
        found._clock, found._origin_ns, found.lift_ns = clock, origin_ns, lift_ns
        return found

    # --- mapping ----------------------------------------------------------------------------------

    def __getitem__(self, rank: int) -> Trace:
        try:
            return self._traces[rank]
        except KeyError:
            raise KeyError(f"no rank {rank!r}; the ranks are {listed(self.ranks)}") from None

    def __iter__(self) -> Iterator[int]:
        return iter(self._traces)

    def __len__(self) -> int:
        return len(self._traces)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    # --- facts ------------------------------------------------------------------------------------

    @property
    def ranks(self) -> list[int]:
        """The ranks, ascending."""
        return list(self._traces)

    @property
    def formats(self) -> list[str]:
        """Names of the formats found."""
        return sorted({trace.format for trace in self.values()})

    @property
    def format(self) -> str:
        """Name of the format, or ``"mixed"``."""
        formats = self.formats
        return formats[0] if len(formats) == 1 else "mixed" if formats else "none"

    @property
    def origin_ns(self) -> int | None:
        """Epoch time of instant 0, or None where the files do not say."""
        return self._origin_ns

    @property
    def clock(self) -> ClockName:
        """``"host"``, the clock that the hosts recorded, or ``"fitted"``."""
        return self._clock

    @property
    def start_ns(self) -> int:
        """Start of the earliest event."""
        return min((trace.start_ns for trace in self.values() if len(trace)), default=0)

    @property
    def end_ns(self) -> int:
        """End of the last event."""
        return max((trace.end_ns for trace in self.values() if len(trace)), default=0)

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """The window of the job that all files are exports of; None where one of them is none."""
        windows = [trace.window_ns for trace in self.values() if len(trace)]
        known = [window for window in windows if window is not None]
        if not known or len(known) < len(windows):
            return None
        return min(low for low, _ in known), max(high for _, high in known)

    @property
    def span_ns(self) -> tuple[int, int]:
        """From the first start to the last end of events; of an export its window."""
        return self.window_ns or (self.start_ns, self.end_ns)

    @property
    def problems(self) -> pd.DataFrame:
        """What was skipped, repaired or guessed: ``rank, file, kind, count, detail``."""
        return self._problems.frame()

    @property
    def found(self) -> Problems:
        """A copy of what `problems` shows, to add to."""
        copy = Problems()
        for problem in self._problems:
            copy.add(problem.kind, problem.count, problem.detail, problem.rank, problem.file)
        return copy

    def summary(self) -> pd.DataFrame:
        """Return one row per rank: where it comes from and what it holds."""
        return summary_of(self)

    # --- events and parts -------------------------------------------------------------------------

    def events(
        self, ranks: Iterable[int] | None = None, columns: Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return the events of all ranks, or of `ranks`, with a ``rank`` column.

        Parameters
        ----------
        ranks : iterable of int, optional
        columns : iterable of str, optional
            Of `Trace.events`; the ``rank`` is always there.

        Returns
        -------
        DataFrame
            Rank by rank, by start within a rank; the index ``id`` is unique within a rank.
        """
        if isinstance(ranks, Selection | str):
            raise TypeError(
                "events() takes ranks; a selection has its own: selection.events(), or"
                " traces.select(query).events()"
            )
        return events_of([self[rank] for rank in chosen_ranks(self, ranks)], columns)

    def subset(
        self,
        ranks: Iterable[int] | None = None,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
    ) -> TraceSet:
        """Return some ranks, or the events that overlap a window, as a set of its own.

        Times are ns, or text such as ``"12.3ms"``; the origin of time stays. Events are whole. With
        a window, events are numbered anew.
        """
        chosen = [self[rank] for rank in chosen_ranks(self, ranks)]
        if start_ns is not None or end_ns is not None:
            window = Selection(start_ns, end_ns)  # type: ignore[arg-type]
            chosen = [trace_within(trace, window.mask(trace), window) for trace in chosen]
        kept = {trace.rank for trace in chosen}
        problems = Problems()
        for problem in self._problems:
            if problem.rank is None or problem.rank in kept:
                problems.add(
                    problem.kind, problem.count, problem.detail, problem.rank, problem.file
                )
        return TraceSet(chosen, problems=problems, like=self)

    def with_clock(self, clock: ClockName) -> TraceSet:
        """Return the same ranks on another clock.

        Parameters
        ----------
        clock : {"host", "fitted"}
            ``"host"``: as recorded. ``"fitted"``: each rank moved by its offset of
            `hta_widgets.analysis.clock_offsets`, so that ranks leave collectives together. The
            lowest rank stays where it is, unless an event of another would then lie before 0: that
            moves all, and `origin_ns` with them. Ranks that no collective connects stay. BytePS
            workers and servers move by `hta_widgets.analysis.byteps_clock`, onto the first
            worker's clock.

        Returns
        -------
        TraceSet
            Recorded times stay known: ``with_clock("host")`` gives them again, and exports hold
            them unless asked.

        Raises
        ------
        TraceError
            For an unknown clock.
        """
        if clock not in {"host", "fitted"}:
            raise TraceError(
                f"there is no clock {clock!r}", remedy='The clocks are "host" and "fitted".'
            )
        if clock == self._clock:
            return self
        offsets, lift = [0] * len(self), 0
        if clock == "fitted":
            # A room above this one, handed on to for the user's convenience.
            from hta_widgets.analysis.clocks import fitted_offsets  # noqa: PLC0415

            offsets, lift = fitted_offsets(self)
        moved = TraceSet(
            [
                trace.replace(
                    shift_ns=trace.shift_ns + trace.clock_offset_ns - offset, clock_offset_ns=offset
                )
                for trace, offset in zip(self.values(), offsets, strict=True)
            ],
            problems=self._problems,
            like=self,
        )
        for rank, trace in self.items():
            # What was derived from the columns knows nothing of the clock.
            moved[rank].memo.update(trace.memo)
        moved.memo = self.memo
        moved._clock, moved.lift_ns = clock, lift
        if moved._origin_ns is not None:
            moved._origin_ns += self.lift_ns - lift
        return moved

    def on(self, executor: Executor | None) -> TraceSet:
        """Return the same set, of which analyses work on each rank elsewhere.

        Parameters
        ----------
        executor : concurrent.futures.Executor or None
            For example ``client.get_executor()`` of Dask's ``distributed``; None: in this process,
            as where the executor was shut down. `hta_widgets.load` remembers the one that it read
            the files with.

        Returns
        -------
        TraceSet
            Its frames are the same. Stored and cached ranks are named to other processes, which
            map them; ranks that are in memory alone are worked on here.

        Raises
        ------
        TraceError
            If that is no executor.
        """
        if executor is self.executor:
            return self
        if executor is not None:
            require_executor(executor)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, executor=executor)
        return other

    def select(
        self,
        query: str | pd.DataFrame | Selection | None = None,
        *,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        ranks: Iterable[int] | int | None = None,
        tracks: Iterable[str | tuple[int, str]] | None = None,
        ids: Iterable[tuple[int, int]] | None = None,
    ) -> Selection:
        """Return the selection of what satisfies all that is given.

        Parameters
        ----------
        query : str, DataFrame or Selection, optional
            A pandas query over event columns; or events (their ``rank`` and ``id`` count); or a
            selection to narrow.
        start_ns, end_ns, ranks, tracks, ids
            See `Selection`; times are ns, or text such as ``"12.3ms"``.

        Raises
        ------
        TraceError
            Where the query does not work on events, or a rank is not there.
        """
        return chosen_events(
            self,
            query,
            start_ns=start_ns,
            end_ns=end_ns,
            ranks=ranks,
            tracks=tracks,
            ids=ids,
        )

    # --- keeping ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> str:
        """Save everything as a store, a folder that `hta_widgets.load` opens in milliseconds.

        A store holds all that the trace files do and all that was worked out of them: events,
        args, small tables, the clock and the problems. It needs the trace files no more.

        Parameters
        ----------
        path : path-like
            The folder. A store that is there already is replaced at once, when the new one is
            whole; whoever kills this leaves the old one, or nothing.

        Returns
        -------
        str
            The path.

        Raises
        ------
        TraceError
            Where it cannot be written, or something else is there.

        Examples
        --------
        >>> hw.load("runs/llama-8b/").save("llama-8b.store")  # doctest: +SKIP
        >>> traces = hw.load("llama-8b.store")  # doctest: +SKIP
        """
        # A room above this one, handed on to for the user's convenience.
        from hta_widgets.store.saving import save_set  # noqa: PLC0415

        return save_set(self, path)

    # --- looks ------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<TraceSet {facts_of(self, self._problems)}>"

    def _repr_html_(self) -> str:
        return html_of(self, self._problems)
