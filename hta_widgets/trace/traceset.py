"""`TraceSet`: the ranks of a job on one time axis, and `Selection`: a part of them.

Some methods call functions of higher layers, which import this module. They are imported by name
when the method is called.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError, UnknownNameError
from hta_widgets.files import new_folder, write_atomically
from hta_widgets.lazy import import_name
from hta_widgets.text import Time
from hta_widgets.trace.conditions import (
    CONDITIONS,
    Conditions,
    check_query,
    format_ranks,
    ids_of_frame,
    resolve_ranks,
)
from hta_widgets.trace.event import Event
from hta_widgets.trace.intervals import union
from hta_widgets.trace.memo import iter_ranks, memo
from hta_widgets.trace.problems import Problem, Problems
from hta_widgets.trace.shared_clock import common_clock
from hta_widgets.trace.summary import exported_window, facts_line, html, part_text, summary_frame
from hta_widgets.trace.trace import Trace, event_batch, event_stream, events_of
from hta_widgets.trace.trace_part import trace_within
from hta_widgets.workers import require_executor

ClockName = Literal["host", "fitted"]
#: Key of the memoized fitted offsets, which are the same on each clock of a trace set.
FITTED_OFFSETS = "fitted offsets"


class TraceSet(Mapping[int, Trace]):
    """The loaded ranks, by number.

    Times are nanoseconds since the earliest loaded event; parts made with `subset` keep this
    origin.

    Parameters
    ----------
    traces : iterable of Trace
        Their ranks must differ.
    problems : Problems, optional
        Problems found while the traces were read.
    like : TraceSet, optional
        A trace set whose time axis these traces share.
    """

    HOW_TO_GET = "Pass what hw.load returns; for an analysis of one rank, add ranks=[number]."

    @check_arguments
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
            raise TraceError(f"ranks must be unique: {ranks}")
        self._problems = _with_ranks(problems or (), ordered)
        self._clock: ClockName = "host" if like is None else like.clock
        #: how much earlier instant 0 is than on the recorded clock
        self.origin_offset_ns: int = 0 if like is None else like.origin_offset_ns
        if like is None:
            self._origin_ns, shifts = common_clock(ordered, self._problems)
            ordered = [
                trace.replace(shift_ns=shift) for trace, shift in zip(ordered, shifts, strict=True)
            ]
        else:
            self._origin_ns = like.origin_ns
        self._traces = {trace.rank: trace for trace in ordered}
        if like is None and (limits := part_text(self)):
            self._problems.add("part", 1, limits)
        #: memoized results of analyses; see `hta_widgets.trace.memo`
        self.memo: dict[Any, Any] = {}
        #: runs the analyses of stored ranks; None if this process runs them
        self.executor: Executor | None = None if like is None else like.executor

    def __getstate__(self) -> dict[str, Any]:
        # Computing results again is faster than sending them.
        return {**self.__dict__, "memo": {}, "executor": None}

    @classmethod
    def restore(
        cls,
        traces: Iterable[Trace],
        problems: Problems,
        *,
        clock: ClockName,
        origin_ns: int | None,
        origin_offset_ns: int,
    ) -> TraceSet:
        """Return a stored trace set, whose traces are already shifted to its time axis."""
        restored_set = cls((), problems=problems)
        restored_set._traces = {trace.rank: trace for trace in traces}
        restored_set._clock, restored_set._origin_ns = clock, origin_ns
        restored_set.origin_offset_ns = origin_offset_ns
        return restored_set

    def __getitem__(self, rank: int) -> Trace:
        try:
            return self._traces[rank]
        except (KeyError, TypeError):
            remedy = f"The ranks are {format_ranks(self.ranks)}."
            raise UnknownNameError(f"no rank {rank!r}", remedy=remedy) from None

    def __iter__(self) -> Iterator[int]:
        return iter(self._traces)

    def __len__(self) -> int:
        return len(self._traces)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def ranks(self) -> list[int]:
        """The ranks, ascending."""
        return list(self._traces)

    @property
    def formats(self) -> list[str]:
        """Names of the formats in the set."""
        return sorted({trace.format for trace in self.values()})

    @property
    def format(self) -> str:
        """Name of the format; ``"mixed"`` for several, ``"none"`` without ranks."""
        return "mixed" if len(self.formats) > 1 else next(iter(self.formats), "none")

    @property
    def origin_ns(self) -> int | None:
        """Epoch time of instant 0; None if the files do not state it."""
        return self._origin_ns

    @property
    def clock(self) -> ClockName:
        """``"host"``, the clock recorded by the hosts, or ``"fitted"``."""
        return self._clock

    @property
    def start_ns(self) -> int:
        """Start of the earliest event."""
        return min((trace.start_ns for trace in self.values() if trace.has_times), default=0)

    @property
    def end_ns(self) -> int:
        """End of the last event."""
        return max((trace.end_ns for trace in self.values() if trace.has_times), default=0)

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """The window of the job that all files export; None if a file has no window."""
        return exported_window(self)

    @property
    def span_ns(self) -> tuple[int, int]:
        """First start and last end of events; for an export, its window."""
        return self.window_ns or (self.start_ns, self.end_ns)

    @property
    def windows(self) -> list[tuple[int, int]]:
        """The recorded time windows, in order; a single one unless ranks have several files.

        A profiler with ``schedule(repeat=2)`` records two windows of the same ranks. Analyses cover
        all windows and exclude the time between them. To analyze one window, pass
        ``window=traces.windows[1]``.

        Returns
        -------
        list of (int, int)
            Start and end of each window in ns, on the clock of the trace set.
        """
        edges: list[tuple[int, int]] = []
        has_several = False
        for trace in iter_ranks(list(self.values())):
            recorded = [
                (low + trace.shift_ns, high + trace.shift_ns) for low, high in trace.recorded_ns
            ]
            has_several |= bool(recorded)
            edges += recorded or [(trace.start_ns, trace.end_ns)]
        if not has_several:
            return [self.span_ns]
        low, high = np.array(edges, np.int64).T
        return [(int(start), int(end)) for start, end in zip(*union(low, high), strict=True)]

    @property
    def problems(self) -> pd.DataFrame:
        """Skipped, repaired and guessed data: ``rank, file, kind, count, detail``."""
        return self._problems.frame()

    @property
    def problem_list(self) -> Problems:
        """A copy of the problems, which the caller may extend."""
        return Problems(self._problems)

    def summary(self) -> pd.DataFrame:
        """Return one row per rank: its file, host and contents. `files` has a row per file.

        ``start_ns, end_ns`` are the start of the first event and the end of the last, within an
        export's window. Profiles are totals of a run; they have no events, and their times are -1.
        ``comm_s`` is the time in MPI in seconds, ``elapsed_s`` the duration of the run in seconds.
        ``profile`` is the file of a profile that was merged with a timeline. ``asyncs`` is the
        number of async intervals. Columns without values are not displayed.

        To find what costs a job time, see ``hta-widgets summary`` and `Dashboard.findings`.
        """
        return summary_frame(self, self.span_ns)

    def files(self) -> pd.DataFrame:
        """Return one row per file: ``path, format, ranks, events, start_ns, end_ns``.

        ``ranks`` is the number of ranks in the file. ``start_ns, end_ns`` are the start of its
        first event and the end of its last; -1 for profiles, which are totals of a run.
        """
        ranks = pd.DataFrame(self.summary()).rename(columns={"file": "path"})
        return ranks.groupby("path", sort=False, as_index=False).agg(
            format=("format", "first"),
            ranks=("rank", "size"),
            events=("events", "sum"),
            start_ns=("start_ns", "min"),
            end_ns=("end_ns", "max"),
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the events as an Arrow stream, for example for ``pa.table(traces)``."""
        return event_stream(list(self.values())).__arrow_c_stream__(requested_schema)

    @check_arguments
    def to_parquet(self, folder: str | os.PathLike[str]) -> str:
        """Write the events as Parquet: ``rank-N.parquet`` for each rank.

        Parameters
        ----------
        folder : path-like
            Created if it does not exist. Files with the same names are replaced.

        Returns
        -------
        str
            The folder.

        Raises
        ------
        TraceError
            If a file cannot be written.
        """
        from pyarrow import parquet  # slow to import

        target = new_folder(folder)
        for trace in iter_ranks(self.values()):
            events = pa.Table.from_batches([event_batch(trace)])
            with write_atomically(target / f"rank-{trace.rank}.parquet") as file:
                parquet.write_table(events, file, compression="zstd")
        return str(target)

    @check_arguments
    def sql(self, query: str) -> pd.DataFrame:
        """Return the rows of a SELECT over events and analyses, in DuckDB's SQL.

        Parameters
        ----------
        query : str
            One SELECT. Its tables are ``events`` (with ``rank`` and ``id``), ``args`` (``rank, id,
            key, value``), ``instants, asyncs, counters, flows, ranks, problems``, and each analysis
            that requires no argument except traces, with its defaults.

        Returns
        -------
        DataFrame

        Raises
        ------
        TraceError
            If DuckDB is not installed (the extra ``sql``), or the query fails, or reads anything
            other than these tables.

        Examples
        --------
        >>> traces.sql(
        ...     "select name, sum(dur_ns) as ns from events where kind = 'compute' "
        ...     "group by name order by ns desc limit 5"
        ... )  # doctest: +SKIP
        """
        run_sql = import_name("hta_widgets.answers.sql", "run_sql")
        return run_sql(self, query)  # type: ignore[no-any-return]

    def events(
        self, ranks: Iterable[int] | None = None, columns: Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return the events of all ranks, or of `ranks`, with a ``rank`` column.

        Parameters
        ----------
        ranks : iterable of int, optional
        columns : iterable of str, optional
            Columns of `Trace.events`; ``rank`` is always included.

        Returns
        -------
        DataFrame
            Rank by rank, ordered by start within a rank; the index ``id`` is unique within a rank.
        """
        if isinstance(ranks, Conditions | str):
            raise TraceError(
                "events() takes ranks; a selection has its own: selection.events(), or"
                " traces.select(query).events()"
            )
        return events_of([self[rank] for rank in resolve_ranks(self, ranks)], columns)

    @check_arguments
    def event(self, id: int, rank: int | None = None) -> Event:
        """Return an event, with its operator and the device work that it launched.

        Parameters
        ----------
        id : int
            As in the index of `events`.
        rank : int, optional
            Required if the trace set has several ranks.

        Returns
        -------
        Event
            With ``name``; ``operator``, an event or None; and ``kernels``, a frame like `events`.
        """
        if rank is None and len(self) != 1:
            raise TraceError(f"event() needs rank=, because this set has {len(self)} ranks")
        trace = self[next(iter(self)) if rank is None else rank]
        if not 0 <= id < len(trace):
            raise TraceError(f"rank {trace.rank} has events 0 to {len(trace) - 1}, not {id}")
        return Event(trace, int(id))

    @check_arguments
    def subset(
        self,
        ranks: Iterable[int] | None = None,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
    ) -> TraceSet:
        """Return some ranks, or the events that overlap a window, as a new trace set.

        Times are in ns, or strings such as ``"12.3ms"``; their origin does not change. Events are
        not clipped at the edges of the window. With a window, events get new ids.
        """
        chosen = [self[rank] for rank in resolve_ranks(self, ranks)]
        if start_ns is not None or end_ns is not None:
            window = Conditions(start_ns, end_ns)  # type: ignore[arg-type]
            chosen = [trace_within(trace, window.mask(trace), window) for trace in chosen]
        chosen_ranks = {trace.rank for trace in chosen}
        problems = (p for p in self._problems if p.rank is None or p.rank in chosen_ranks)
        return TraceSet(chosen, problems=Problems(problems), like=self)

    @check_arguments
    def with_clock(self, clock: ClockName) -> TraceSet:
        """Return the same ranks on another clock.

        Parameters
        ----------
        clock : {"host", "fitted"}
            ``"host"``: as recorded. ``"fitted"``: each rank is shifted by its offset from
            `hta_widgets.analysis.clock_offsets`, so that ranks leave collectives together. The
            lowest rank is not shifted, unless an event of another rank would start before 0; in
            this case all ranks and `origin_ns` are shifted. Ranks that no collective connects are
            not shifted. BytePS workers and servers are shifted to the clock of the first worker, by
            `hta_widgets.analysis.byteps_clock`.

        Returns
        -------
        TraceSet
            The trace set on that clock. ``with_clock("host")`` restores recorded times. Exports
            contain the recorded times unless requested otherwise.

        Raises
        ------
        TraceError
            For an unknown clock.
        """
        if clock == self._clock:
            return self
        offsets, origin_offset_ns = [0] * len(self), 0
        if clock == "fitted":
            module = "hta_widgets.analysis.cross_rank.clock_fit"
            fitted_offsets = import_name(module, "fitted_offsets")
            offsets, origin_offset_ns = memo(self, FITTED_OFFSETS, lambda: fitted_offsets(self))
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
            # Results of individual ranks do not depend on the clock.
            moved[rank].memo.update(trace.memo)
        # Results of the job that depend on the clock have its name in their key.
        moved.memo = self.memo
        moved._clock, moved.origin_offset_ns = clock, origin_offset_ns
        if moved._origin_ns is not None:
            moved._origin_ns += self.origin_offset_ns - origin_offset_ns
        return moved

    def on(self, executor: Executor | None) -> TraceSet:
        """Return the same trace set, with analyses of individual ranks run on an executor.

        Parameters
        ----------
        executor : concurrent.futures.Executor or None
            For example ``client.get_executor()`` of Dask's ``distributed``. With None, or after the
            executor was shut down, analyses run in this process. A loaded trace set has the
            executor that was passed to `hta_widgets.load`.

        Returns
        -------
        TraceSet
            Its analyses return the same results. Other processes map stored and cached ranks; ranks
            that are only in memory are analyzed in this process.

        Raises
        ------
        TraceError
            If `executor` is not an executor.
        """
        if executor is self.executor:
            return self
        if executor is not None:
            require_executor(executor)
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, executor=executor)
        return other

    @check_arguments
    def select(
        self,
        query: str | pd.DataFrame | Selection | None = None,
        *,
        start_ns: Time | None = None,
        end_ns: Time | None = None,
        ranks: Iterable[int] | int | None = None,
        tracks: Iterable[str | tuple[int, str]] | None = None,
        ids: Iterable[tuple[int, int]] | None = None,
        launches: bool | None = None,
    ) -> Selection:
        """Return the selection of events that satisfy all conditions.

        Parameters
        ----------
        query : str, DataFrame or Selection, optional
            A pandas query over event columns; a frame of events with ``rank`` and ``id``; or a
            selection to restrict.
        start_ns, end_ns, ranks, tracks, ids, launches
            See `Selection`; times are in ns, or strings such as ``"12.3ms"``. For example,
            ``select("name == 'aten::mm'", launches=True)`` includes the kernels of that operator.

        Raises
        ------
        TraceError
            If the query fails on events, or a rank is missing.
        """
        conditions: dict[str, Any] = {
            "start_ns": start_ns, "end_ns": end_ns, "ranks": ranks, "tracks": tracks, "ids": ids,
            "launches": launches,
        }  # fmt: skip
        stated = {name: value for name, value in conditions.items() if value is not None}
        if isinstance(query, Selection):
            # The window of `query` is on the clock of its traces, which a view may have fitted.
            traces = self if query.traces is None else self.with_clock(query.traces.clock)
            return replace(query, traces=traces, **stated)
        if isinstance(query, pd.DataFrame):
            stated.setdefault("ids", ids_of_frame(query, self.ranks))
            query = None
        if query is not None:
            check_query(self, query)
        if "ranks" in stated:
            stated["ranks"] = tuple(resolve_ranks(self, stated["ranks"]))
        return Selection(query=query, traces=self, **stated)

    @check_arguments
    def save(self, path: str | os.PathLike[str]) -> str:
        """Save everything as a store, a folder that `hta_widgets.load` opens in milliseconds.

        A store has the contents of the trace files and everything derived from them: events, args,
        small tables, the clock and the problems. It does not need the trace files.

        Parameters
        ----------
        path : path-like
            The folder. An existing store is replaced when the new one is complete; an interrupted
            save leaves the old store, or nothing.

        Returns
        -------
        str
            The path.

        Raises
        ------
        TraceError
            If the store cannot be written, or `path` exists and is not a store.

        Examples
        --------
        >>> hw.load("runs/llama-8b/").save("llama-8b.store")  # doctest: +SKIP
        >>> traces = hw.load("llama-8b.store")  # doctest: +SKIP
        """
        save_trace_set = import_name("hta_widgets.store.saving", "save_trace_set")
        return str(save_trace_set(self, path))

    def __repr__(self) -> str:
        return f"<TraceSet {self._facts_line()}>"

    def _repr_html_(self) -> str:
        return html(self._facts_line(), summary_frame(self, self.span_ns), self._problems)

    def _facts_line(self) -> str:
        return facts_line(self, self.format, self.span_ns, self._problems)


@dataclass(frozen=True)
class Selection(Conditions):
    """A part of a `TraceSet`; a field of None means "all".

    Parameters
    ----------
    start_ns, end_ns : int or str, optional
        In ns, or a string such as ``"12.3ms"``, which is converted to ns. The window is half-open,
        and events that overlap it are members. An event without duration is a member if its instant
        is in the window. An empty window has no members.
    ranks : iterable of int, optional
    tracks : iterable of str or of (rank, str), optional
        Values of the ``track`` column; a pair selects a track on one rank only.
    query : str, optional
        A pandas query over event columns.
    ids : iterable of (rank, id), optional
    launches : bool, default False
        Whether to include the device work launched by the selected operators or by operators below
        them. This work must overlap the window; the operators need not.
    """

    traces: TraceSet | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.traces, TraceSet | None):
            raise TraceError(f"a {type(self.traces).__name__} is not a set of traces")

    @check_arguments
    def events(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """Return the member events, not clipped, with their ``rank``; the index is ``id``."""
        return events_of(list(self.owner.values()), columns, self.rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the member events as an Arrow stream, for example for ``pa.table(selection)``."""
        stream = event_stream(list(self.owner.values()), self.rows)
        return stream.__arrow_c_stream__(requested_schema)

    @check_arguments
    def export(self, path: str | Path, **options: object) -> Any:
        """Write the member events as a trace file; for options see `hta_widgets.export_trace`."""
        export_trace = import_name("hta_widgets.export.traces.files", "export_trace")
        return export_trace(self.owner, path, selection=self, **options)

    @property
    def owner(self) -> TraceSet:
        """The traces of the selection; raises `TraceError` if it has none."""
        if self.traces is None:
            raise TraceError(
                "this selection is not bound to traces",
                remedy="Make it with traces.select(...), or bind it with selection.of(traces).",
            )
        return self.traces

    @check_arguments
    def of(self, traces: TraceSet) -> Selection:
        """Return the same selection for other `traces`."""
        return replace(self, traces=traces)

    @classmethod
    @check_arguments
    def from_json(
        cls, value: Mapping[str, Any] | None, traces: TraceSet | None = None
    ) -> Selection:
        """Return the selection described by `to_json`; None and missing keys mean "all"."""
        fields = dict(value or {})
        unknown = set(fields).difference(CONDITIONS)
        if unknown:
            raise TraceError(
                f"a selection has no {', '.join(sorted(map(repr, unknown)))}",
                remedy=f"Its fields are {', '.join(CONDITIONS)}.",
            )
        fields["launches"] = bool(fields.get("launches", False))
        return cls(**fields, traces=traces)


def _with_ranks(problems: Iterable[Problem], traces: Iterable[Trace]) -> Problems:
    """Set the rank of each problem whose file has a single rank; return all problems."""
    ranks_of_file: dict[str | None, set[int]] = defaultdict(set)
    for trace in traces:
        for path in filter(None, (trace.path, trace.profile_path)):
            ranks_of_file[path].add(trace.rank)
    result = Problems()
    for problem in problems:
        ranks = ranks_of_file[problem.file]
        result.merge([problem], min(ranks) if len(ranks) == 1 else None)
    return result


def replace_ranks(traces: TraceSet, changed: Mapping[int, Trace]) -> TraceSet:
    """Return the trace set with other traces for some of its ranks."""
    ranks = [changed.get(rank, trace) for rank, trace in traces.items()]
    return TraceSet(ranks, problems=traces.problem_list, like=traces)
