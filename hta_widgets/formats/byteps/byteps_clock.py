"""How far the clocks of BytePS's servers are from its workers', and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps import worker_rows
from hta_widgets.formats.byteps.byteps_requests import requests_of

from hta_widgets.formats.byteps.byteps_files import NO_SERVERS
from hta_widgets.formats.byteps.byteps_files import NO_WORKERS
from hta_widgets.formats.byteps.requests import raw_keys
from hta_widgets.analysis.results import by_column
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import parts

__all__ = ["byteps_clock", "byteps_offsets"]

Ints = npt.NDArray[np.int64]

#: A node, and how many iterations it was served before the worker's trace began.
_Place = tuple[int, int]

_NONE = np.iinfo(np.int64).min
_OPS = ("PUSH", "PULL")
#: An alignment that leaves out more of a worker's requests than this explains nothing.
_LEAST_MATCHED = 0.5


@dataclass(frozen=True, slots=True)
class _Fit:
    """One way in which a worker's requests can be those of a node at a server."""

    node: int
    offset: int
    low_ns: int
    high_ns: int
    requests: int

    @property
    def theta_ns(self) -> int:
        return (self.low_ns + self.high_ns) // 2


def byteps_clock(traces: TraceSet, *, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """Return per worker and server how far their clocks are apart, within which error.

    A request reaches the server after the worker sent it, and the server answers it before the
    worker has the answer. So for each PUSH and PULL, with theta what the server's clock is ahead,

        ``end at the server - end at the worker <= theta <= arrival - start at the worker``.

    All requests together leave an interval; its middle is the estimate, half its width the error.
    Which node a worker is, and how many iterations the server served before the worker's trace
    began, no file says: what leaves an interval for all servers is taken, the nearest to zero if
    several do.

    Parameters
    ----------
    traces : TraceSet
        Workers' and servers' files of one job, or of several.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per worker and server whose requests can be told apart, with

        ``worker, server`` : int64
        ``rank, server_rank`` : int64
            Of the worker's root GPU, and of the server.
        ``node`` : int64
            ps-lite's id of the worker.
        ``skipped_iterations`` : int64
            That the server served before the first step of the worker's file.
        ``offset_ns`` : int64
            Server's clock minus worker's clock, as recorded.
        ``error_ns`` : int64
            Half the width of the interval.
        ``low_ns, high_ns`` : int64
            The interval.
        ``requests`` : int64
        ``alternatives`` : int64
            How many other nodes or iterations would do as well: 0 is certain.
        ``job`` : object

    Examples
    --------
    >>> analysis.byteps_clock(traces)[
    ...     ["worker", "server", "offset_ns", "error_ns"]
    ... ]  # doctest: +SKIP
    """
    chosen = [part.trace for part in parts(traces, None, None, ranks)]
    workers = [t for t in chosen if t.format == "byteps" and _has_pulls(t)]
    servers = [t for t in chosen if t.format == "byteps-server"]
    raw = raw_keys(traces)
    rows: list[tuple[object, ...]] = []
    for job in sorted({t.job or "" for t in workers}):
        of_job = [t for t in servers if (t.job or "") == job]
        tables = {t.rank: _server_tables(t, raw[t.rank]) for t in of_job}
        options: list[_Options] = []
        for worker in (t for t in workers if (t.job or "") == job):
            own = {t.rank: _fits(worker, tables[t.rank]) for t in of_job}
            known = {rank: fits for rank, fits in own.items() if fits is not None}
            options.append(_Options(worker, known))
        for worker, place, others, fits_of in _chosen(options):
            for rank, fits in fits_of.items():
                fit = fits[place]
                rows.append(
                    (
                        worker.worker,
                        traces[rank].server,
                        worker.rank,
                        rank,
                        fit.node,
                        fit.offset,
                        fit.theta_ns,
                        (fit.high_ns - fit.low_ns + 1) // 2,
                        fit.low_ns,
                        fit.high_ns,
                        fit.requests,
                        others,
                        worker.job,
                    )
                )
    note = NO_WORKERS if not workers else NO_SERVERS if not servers else ""
    if workers and servers and not rows:
        note = "no worker's requests can be told apart at the servers: are they of one run?"
    return result(
        by_column(rows, dict.fromkeys(_COLUMNS, np.int64) | {"job": object}),
        matched={"workers": len(workers), "servers": len(servers)},
        note=note,
    )


def byteps_offsets(traces: TraceSet) -> dict[int, int]:
    """Return what the clock of each rank is ahead of the first worker's, where that is certain."""
    clocks = byteps_clock(traces)
    offsets: dict[int, int] = {}
    certain = clocks[clocks["alternatives"] == 0]
    for _, of_job in certain.groupby(certain["job"].fillna(""), sort=False):
        first = of_job[of_job["worker"] == of_job["worker"].min()]
        of_server = dict(zip(first["server_rank"], first["offset_ns"], strict=True))
        offsets |= {int(rank): int(offset) for rank, offset in of_server.items()}
        for worker, own in of_job.groupby("worker"):
            shared = own[own["server_rank"].isin(list(of_server))]
            ahead = [
                of_server[rank] - offset
                for rank, offset in zip(shared["server_rank"], shared["offset_ns"], strict=True)
            ]
            if not ahead:
                continue
            job = own["job"].iloc[0]
            for rank, trace in traces.items():
                if trace.format == "byteps" and (trace.worker, trace.job) == (worker, job):
                    offsets[rank] = round(sum(ahead) / len(ahead))
    return offsets


_COLUMNS = (
    "worker",
    "server",
    "rank",
    "server_rank",
    "node",
    "skipped_iterations",
    "offset_ns",
    "error_ns",
    "low_ns",
    "high_ns",
    "requests",
    "alternatives",
)

#: Of one node: begins and ends by (operation, raw key's place, iteration).
Tables = tuple[dict[int, int], dict[int, tuple[Ints, Ints]]]


def _has_pulls(trace: Trace) -> bool:
    rows = worker_rows(trace)
    return bool((rows.parts.stage == rows.stages.index("PULL")).any())


def _server_tables(trace: Trace, raw: dict[int, int]) -> Tables:
    """Return a place for each raw key, and per node begins and ends, `_NONE` where missing."""
    requests = requests_of(trace)
    places = {key: place for place, key in enumerate(sorted(set(raw.values())))}
    of_key = np.array([places.get(raw.get(k, -1), -1) for k in requests.key.tolist()], np.int64)
    iterations = int(requests.iteration.max(initial=-1)) + 1
    tables = {}
    for node in np.unique(requests.node).tolist():
        at = np.flatnonzero((requests.node == node) & requests.closed & (of_key >= 0))
        begin = np.full((2, len(places), iterations), _NONE)
        end = begin.copy()
        where = ((~requests.push[at]).astype(np.int64), of_key[at], requests.iteration[at])
        begin[where] = requests.start_ns[at] + trace.zero_ns
        end[where] = requests.end_ns[at] + trace.zero_ns
        tables[node] = (begin, end)
    return places, tables


def _fits(worker: Trace, tables: Tables) -> dict[_Place, _Fit] | None:
    """Return all (node, skipped iterations) that leave an interval; None: no keys in common."""
    rows = worker_rows(worker)
    places, by_node = tables
    part = rows.parts
    sent = np.isin(part.stage, [rows.stages.index(name) for name in _OPS])
    place = np.array([places.get(key, -1) for key in part.key.tolist()], np.int64)
    at = np.flatnonzero(sent & (place >= 0))
    if not len(at):
        return None
    op = (part.stage[at] == rows.stages.index("PULL")).astype(np.int64)
    where, step = place[at], part.step[at]
    start = part.start_ns[at] + worker.zero_ns
    end = start + part.dur_ns[at]
    found = {}
    for node, (begins, ends) in by_node.items():
        for offset in range(max(begins.shape[2] - int(step.min()), 0)):
            iteration = step + offset
            inside = np.flatnonzero(iteration < begins.shape[2])
            cell = (op[inside], where[inside], iteration[inside])
            begin = begins[cell]
            known = begin != _NONE
            if known.sum() < _LEAST_MATCHED * len(at):
                continue
            high = int((begin - start[inside])[known].min())
            low = int((ends[cell] - end[inside])[known].max())
            if low <= high:
                found[node, offset] = _Fit(node, offset, low, high, int(known.sum()))
    return found


@dataclass(slots=True)
class _Options:
    """What a worker may be at all servers, by server's rank."""

    worker: Trace
    fits: dict[int, dict[_Place, _Fit]]

    def common(self) -> set[_Place]:
        """Return what fits every server."""
        every = [set(own) for own in self.fits.values()]
        return set.intersection(*every) if every else set()


def _chosen(
    options: list[_Options],
) -> list[tuple[Trace, _Place, int, dict[int, dict[_Place, _Fit]]]]:
    """Choose a node for each worker, whose choice is smallest first; no two are the same.

    What is certain narrows the choice of the others; what is guessed does not make them certain.
    """
    left, taken, certain = list(options), set[int](), set[int]()
    found = []
    while left:

        def free(option: _Options, gone: set[int]) -> list[_Place]:
            return [place for place in option.common() if place[0] not in gone]

        left.sort(key=lambda option: (len(free(option, certain)), option.worker.worker))
        option = left.pop(0)
        possible = free(option, taken)
        if not possible:
            continue
        fits = option.fits

        def distance(place: _Place, fits: dict[int, dict[_Place, _Fit]] = fits) -> Any:
            return sum(abs(own[place].theta_ns) for own in fits.values()), place

        best = min(possible, key=distance)
        others = len(free(option, certain)) - 1
        taken.add(best[0])
        if not others:
            certain.add(best[0])
        found.append((option.worker, best, others, fits))
    return sorted(found, key=lambda choice: choice[0].worker)
