"""All ranks of what was loaded, on one time axis."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, Literal

import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.workers import require_executor
from hta_widgets.text import Time

from hta_widgets.trace.choosing import chosen_events
from hta_widgets.trace.choosing import chosen_ranks
from hta_widgets.trace.choosing import listed
from hta_widgets.trace.clocks import common_clock
from hta_widgets.trace.frames import events_of
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.set_looks import facts_of
from hta_widgets.trace.set_looks import html_of
from hta_widgets.trace.set_looks import part_text
from hta_widgets.trace.set_looks import summary_of
from hta_widgets.trace.subset import trace_within
from hta_widgets.trace.trace import Trace

__all__ = ["TraceSet"]

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
            from hta_widgets.analysis.fitted_clock import fitted_offsets  # noqa: PLC0415

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
