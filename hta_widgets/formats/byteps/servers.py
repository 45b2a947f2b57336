"""Requests, worker lag, clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import (
    by_column,
    categorical,
    joined_columns,
    parts,
    result,
)
from hta_widgets.formats.byteps.rows import (
    Requests,
    declared_key,
    last_push_end,
    node_label,
    requests_of,
    servers_of_keys,
    worker_rows,
)
from hta_widgets.formats.byteps.workers import (
    CONSISTENT_SHARE,
    NO_SERVERS,
    NO_WORKERS,
    server_parts,
)
from hta_widgets.trace.intervals import total, union
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]


def byteps_requests(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return every request that was answered: whose, for what, how long, waiting for whom.

    A begin is paired with the first open end of its key and name. The n-th push (pull) of a node
    for a key is of iteration n. Of a pull that came before the last push of its iteration, the
    time until that push was done is waiting; the rest is service. A push only takes service, in
    which the queue of the server's thread is included.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only selected requests.
    window : (int, int), optional
        Only those that overlap it; each counts whole.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per request, by arrival, with

        ``server`` : int64
        ``key`` : uint64
            As sent on the wire; larger than int64 and doubles can hold.
        ``op`` : category
            ``push`` or ``pull``.
        ``node`` : int64
            ps-lite's id: its rank is ``(node - 8) // 2``, which need not be the number of a
            worker's folder.
        ``iteration`` : int64
            From 0 in the file.
        ``start_ns, dur_ns, wait_ns, service_ns`` : int64
            ``dur_ns = wait_ns + service_ns``.
        ``tensor`` : object
            Name by the workers' traces, where they are loaded too.
        ``declared_key, partition`` : int64
            What the key means; -1 where the keys do not tell.
        ``rank, id`` : int64
            The event.
        ``job`` : object

        ``.attrs["open"]``: requests without an end, which are left out.

    Examples
    --------
    >>> requests = analysis.byteps_requests(traces)  # doctest: +SKIP
    >>> requests.groupby(["server", "node", "op"], observed=True)[
    ...     "wait_ns"
    ... ].mean()  # doctest: +SKIP
    """
    found = server_parts(traces, selection, window, ranks)
    meaning = _meanings(traces)
    blocks: list[dict[str, npt.NDArray[np.generic]]] = []
    tensors: list[str] = []
    jobs: list[str | None] = []
    open_ = 0
    matched = {"push": 0, "pull": 0}
    for part, requests, chosen in found:
        trace = part.trace
        open_ += int((chosen & ~requests.closed).sum())
        at = np.flatnonzero(chosen & requests.closed)
        wait = waits_of(requests)[at]
        dur = requests.end_ns[at] - requests.start_ns[at]
        raw, names = meaning[trace.rank]
        unique, where = np.unique(requests.key[at], return_inverse=True)
        of_raw = np.array([raw.get(key, -1) for key in unique.tolist()], np.int64)[where]
        declared = np.where(of_raw >= 0, declared_key(of_raw), -1)
        tensors += [names.get(key, "") for key in declared.tolist()]
        jobs += [trace.job] * len(at)
        matched["push"] += int(requests.push[at].sum())
        matched["pull"] += int((~requests.push[at]).sum())
        blocks.append(
            {
                "server": np.full(len(at), trace.server),
                "key": requests.key[at],
                "op": (~requests.push[at]).astype(np.int64),
                "node": requests.node[at],
                "iteration": requests.iteration[at],
                "start_ns": requests.start_ns[at] + trace.shift_ns,
                "dur_ns": dur,
                "wait_ns": wait,
                "service_ns": dur - wait,
                "declared_key": declared,
                "partition": np.where(of_raw >= 0, of_raw & 0xFFFF, -1),
                "rank": np.full(len(at), trace.rank),
                "id": requests.row[at],
            }
        )
    data = joined_columns(blocks, _COLUMNS, key=np.uint64)
    return result(
        {
            **{name: data[name] for name in ("server", "key")},
            "op": categorical(data["op"], ("push", "pull")),
            **{name: data[name] for name in _COLUMNS[3:9]},
            "tensor": pd.Series(tensors, dtype=object),
            **{name: data[name] for name in _COLUMNS[9:]},
            "job": pd.Series(jobs, dtype=object),
        },
        matched={**matched, "open": open_},
        note="" if found else NO_SERVERS,
        open=open_,
    )


_COLUMNS = (
    "server",
    "key",
    "op",
    "node",
    "iteration",
    "start_ns",
    "dur_ns",
    "wait_ns",
    "service_ns",
    "declared_key",
    "partition",
    "rank",
    "id",
)


def waits_of(requests: Requests) -> Ints:
    """Return how long each pull waited for the last push of its iteration; 0 for pushes."""
    until = np.minimum(last_push_end(requests), requests.end_ns)
    wait = np.maximum(until - requests.start_ns, 0)
    return np.where(requests.push | ~requests.closed, 0, wait)


def raw_keys(traces: TraceSet) -> dict[int, dict[int, int]]:
    """Return for each server's rank what its keys are without the server's part."""
    by_job: dict[str | None, list[Trace]] = {}
    for trace in traces.values():
        if trace.format == "byteps-server":
            by_job.setdefault(trace.job, []).append(trace)
    found: dict[int, dict[int, int]] = {}
    for servers in by_job.values():
        keys = [np.unique(requests_of(trace).key) for trace in servers]
        for trace, meaning in zip(servers, servers_of_keys(keys)[1], strict=True):
            found[trace.rank] = {key: raw for key, (_, raw) in meaning.items()}
    return found


def _meanings(traces: TraceSet) -> dict[int, tuple[dict[int, int], dict[int, str]]]:
    """Return for each server's rank the raw keys, and names of tensors by their declared key."""
    names: dict[str | None, dict[int, str]] = {}
    for trace in traces.values():
        if trace.format != "byteps":
            continue
        rows = worker_rows(trace)
        pairs = np.unique(np.stack([declared_key(rows.parts.key), rows.parts.tensor]), axis=1)
        for key, tensor in pairs.T.tolist():
            names.setdefault(trace.job, {})[key] = rows.tensors[tensor]
    return {rank: (raw, names.get(traces[rank].job, {})) for rank, raw in raw_keys(traces).items()}


def byteps_servers(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how much each server had to do: a hash of keys that shares badly shows here.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        Which requests count; each counts whole.

    Returns
    -------
    DataFrame
        One row per server: ``server, requests, open, keys, iterations`` (int64; of iterations those
        that every node pushed)``, busy_ns`` (int64, when any push was worked on)``, push_ns,
        wait_ns, service_ns`` (int64, sums of pushes, and of the two parts of pulls) and ``job``.
    """
    found = server_parts(traces, selection, window, ranks)
    rows: list[tuple[object, ...]] = []
    matched = {"push": 0, "pull": 0}
    for part, requests, chosen in found:
        closed = chosen & requests.closed
        push, pull = closed & requests.push, closed & ~requests.push
        matched["push"] += int(push.sum())
        matched["pull"] += int(pull.sum())
        dur, wait = requests.end_ns - requests.start_ns, waits_of(requests)
        rows.append(
            (
                part.trace.server,
                int(closed.sum()),
                int((chosen & ~requests.closed).sum()),
                len(np.unique(requests.key[chosen])),
                complete_iterations(requests, chosen),
                total(union(requests.start_ns[push], requests.end_ns[push])),
                int(dur[push].sum()),
                int(wait[pull].sum()),
                int((dur - wait)[pull].sum()),
                part.trace.job,
            )
        )
    names = (
        "server", "requests", "open", "keys", "iterations", "busy_ns", "push_ns", "wait_ns",
        "service_ns",
    )  # fmt: skip
    return result(
        by_column(rows, dict.fromkeys(names, np.int64) | {"job": object}),
        matched=matched,
        note="" if found else NO_SERVERS,
    )


def complete_iterations(requests: Requests, chosen: npt.NDArray[np.bool_]) -> int:
    """Return of how many (key, iteration) every node's push is there."""
    push = np.flatnonzero(requests.push & chosen)
    if not len(push):
        return 0
    nodes = len(np.unique(requests.node[push]))
    pairs = np.stack([requests.key[push].view(np.int64), requests.iteration[push]])
    return int((np.unique(pairs, axis=1, return_counts=True)[1] == nodes).sum())


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
        by_column(rows, dict.fromkeys(_CLOCK_COLUMNS, np.int64) | {"job": object}),
        matched={"workers": len(workers), "servers": len(servers)},
        note=note,
    )


def byteps_offsets(traces: TraceSet) -> dict[int, int] | None:
    """Return what the clock of each rank is ahead of the first worker's, where that is certain.

    None without both workers and servers.
    """
    if not {"byteps", "byteps-server"} <= set(traces.formats):
        return None
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


_CLOCK_COLUMNS = (
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


def byteps_worker_lag(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per worker node how late its pushes are, and how long others wait for it.

    For each key and iteration, a push's lag is its arrival minus the first arrival of all nodes'
    pushes. A server's own clock tells all of them, so clocks need not agree. Who arrives last, and
    alone, made the others' pulls wait.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only selected requests.
    window : (int, int), optional
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per node, over all servers of its job, with

        ``node`` : int64
        ``score`` : float64
            Share of (key, iteration) in which it alone arrives last.
        ``mean_lag_ns`` : float64
        ``median_lag_ns, max_lag_ns`` : int64
            The median is one of the lags: of an even number, the upper one of the middle two.
        ``imposed_wait_ns`` : int64
            Sum, over those in which it is last, of the other nodes' waits in their pulls.
        ``iterations`` : int64
            How many (key, iteration) every node pushed; others do not count.
        ``label`` : object
            The node's ps-lite rank; which worker that is, the profile does not say.
        ``straggler`` : bool
            ``score`` of 0.8 or more, and a median lag above 0. Chance is one over the number of
            nodes.
        ``job`` : object
    """
    arrivals = byteps_arrivals(traces, selection=selection, window=window, ranks=ranks)
    rows: list[tuple[object, ...]] = []
    for job in sorted(arrivals["job"].unique().tolist()) if len(arrivals) else []:
        of_job = arrivals[arrivals["job"] == job]
        for node in sorted(of_job["node"].unique().tolist()):
            own = of_job[of_job["node"] == node]
            lag = own["lag_ns"].to_numpy()
            score = float(own["last"].mean())
            rows.append(
                (
                    node,
                    score,
                    float(lag.mean()),
                    _median(lag),
                    int(lag.max()),
                    int(own["imposed_wait_ns"].sum()),
                    len(own),
                    node_label(node),
                    score >= CONSISTENT_SHARE and _median(lag) > 0,
                    job or None,
                )
            )
    return result(
        by_column(rows, _LAG),
        matched=arrivals.attrs["matched"],
        note=arrivals.attrs.get("note", ""),
        dropped=arrivals.attrs["dropped"],
    )


_LAG = {
    "node": np.int64,
    "score": np.float64,
    "mean_lag_ns": np.float64,
    "median_lag_ns": np.int64,
    "max_lag_ns": np.int64,
    "imposed_wait_ns": np.int64,
    "iterations": np.int64,
    "label": object,
    "straggler": np.bool_,
    "job": object,
}


def _median(lag: Ints) -> int:
    return int(np.sort(lag)[len(lag) // 2])


def byteps_arrivals(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return when each node's push of each key and iteration reached the server.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        As for `byteps_worker_lag`.

    Returns
    -------
    DataFrame
        One row per key, iteration and node, of iterations that every node of the server pushed:
        ``job`` (object, empty for none)``, server`` (int64)``, key`` (uint64)``, iteration, node,
        start_ns, lag_ns`` (int64, behind the first)``, last`` (bool, alone)`` and
        ``imposed_wait_ns`` (int64, of the others' pulls where it is last).
        ``.attrs["dropped"]``: pushes of iterations that lack one of another node.
    """
    found = server_parts(traces, selection, window, ranks)
    blocks: list[dict[str, npt.NDArray[np.generic]]] = []
    jobs: list[str] = []
    matched = dropped = 0
    for part, requests, chosen in found:
        pushes = np.flatnonzero(requests.push & chosen)
        matched += len(pushes)
        at, nodes = _complete(requests, pushes)
        dropped += len(pushes) - len(at)
        if not len(at):
            continue
        start = requests.start_ns[at].reshape(-1, nodes)
        lag = start - start.min(axis=1, keepdims=True)
        latest = lag == lag.max(axis=1, keepdims=True)
        last = latest & (latest.sum(axis=1, keepdims=True) == 1)
        waits = _pull_waits(requests, chosen, at).reshape(-1, nodes)
        imposed = np.where(last, waits.sum(axis=1, keepdims=True) - waits, 0)
        blocks.append(
            {
                "server": np.full(len(at), part.trace.server),
                "key": requests.key[at],
                "iteration": requests.iteration[at],
                "node": requests.node[at],
                "start_ns": requests.start_ns[at] + part.trace.shift_ns,
                "lag_ns": lag.ravel(),
                "last": last.ravel(),
                "imposed_wait_ns": imposed.ravel(),
            }
        )
        jobs += [part.trace.job or ""] * len(at)
    data = joined_columns(blocks, _LAG_COLUMNS, key=np.uint64, last=np.bool_)
    note = "" if found else NO_SERVERS
    if found and not len(data["key"]):
        note = "no iteration was pushed by every node"
    return result(
        {"job": pd.Series(jobs, dtype=object), **data},
        matched={"push": matched},
        note=note,
        dropped=dropped,
    )


_LAG_COLUMNS = (
    "server",
    "key",
    "iteration",
    "node",
    "start_ns",
    "lag_ns",
    "last",
    "imposed_wait_ns",
)


def _complete(requests: Requests, pushes: Ints) -> tuple[Ints, int]:
    """Return the pushes of iterations that every node has, sorted, and the number of nodes."""
    nodes = len(np.unique(requests.node[pushes]))
    if nodes < 2:
        return pushes[:0], max(nodes, 1)
    order = pushes[
        np.lexsort((requests.node[pushes], requests.iteration[pushes], requests.key[pushes]))
    ]
    key, iteration = requests.key[order], requests.iteration[order]
    new = np.append(True, (key[1:] != key[:-1]) | (np.diff(iteration) != 0))
    group = np.cumsum(new) - 1
    return order[(np.bincount(group) == nodes)[group]], nodes


def _pull_waits(requests: Requests, chosen: npt.NDArray[np.bool_], pushes: Ints) -> Ints:
    """Return for each push how long the same node's pull of the iteration waited."""
    pulls = np.flatnonzero(~requests.push & requests.closed & chosen)
    both = np.concatenate([pushes, pulls])
    place = np.stack(
        [requests.key[both].view(np.int64), requests.iteration[both], requests.node[both]]
    )
    group = np.unique(place, axis=1, return_inverse=True)[1].reshape(-1)
    wait = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    wait[group[len(pushes) :]] = waits_of(requests)[pulls]
    return wait[group[: len(pushes)]]
