"""Analyses of BytePS servers: requests, load, arrivals of pushes, clock offsets to workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import (
    categorical,
    columns_of_rows,
    int64,
    result_frame,
    stack_blocks,
)
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.formats.byteps.rows import (
    Requests,
    last_push_end,
    node_label,
    requests_of,
    servers_of_keys,
    worker_rows,
)
from hta_widgets.formats.byteps.workers import CONSISTENT_SHARE, NO_WORKERS, with_job_last
from hta_widgets.formats.event_rows import map_distinct
from hta_widgets.trace.arrays import Array, Bools, Ints
from hta_widgets.trace.intervals import total_length, union
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

NO_SERVERS = note_text("no_byteps_servers")


def _server_parts(
    traces: TraceSet,
    selection: Selection | None,
    window: Window | None,
    ranks: Iterable[int] | None,
) -> list[tuple[RankPart, Requests, Bools]]:
    """Return the servers, their requests, and a mask of the selected requests.

    Requests that were never answered have no event. They are selected if all events are, or if they
    begin in the given window.
    """
    parts = []
    for part in rank_parts(traces, selection, window, ranks):
        if part.trace.format != "byteps-server":
            continue
        requests = requests_of(part.trace)
        is_selected = requests.is_answered & part.contains(requests.row)
        if len(part.rows) == len(part.trace) or (part.low, part.high) != (None, None):
            is_selected |= ~requests.is_answered & part.is_in_window(requests.start_ns)
        parts.append((part, requests, is_selected))
    return parts


@check_arguments
def byteps_requests(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each answered request with its sender, key, waiting time and service time.

    A begin is paired with the first open end of its key and name. The n-th push (pull) of a node
    for a key belongs to iteration n. If a pull arrives before the last push of its iteration, it
    waits until that push has ended; the rest of its time is service. A push counts entirely as
    service, including its time in the queue of the server's thread. Requests that overlap the
    window are not clipped.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per request, ordered by arrival:

        - ``server`` (int64)
        - ``key`` (uint64): as sent on the wire; may exceed what int64 and doubles can hold
        - ``op`` (category): ``push`` or ``pull``
        - ``node`` (int64): ps-lite's id. The node's rank is ``(node - 8) // 2``, which may differ
          from the number of the worker's folder
        - ``iteration`` (int64): counted from 0 in the file
        - ``start_ns, dur_ns, wait_ns, service_ns`` (int64): ``dur_ns = wait_ns + service_ns``
        - ``tensor`` (object): name from the workers' traces, if these are loaded
        - ``declared_key, partition`` (int64): meaning of the key; -1 if unknown
        - ``rank, id`` (int64): the event; ``job`` (object)

        ``.attrs["open"]``: the number of requests without an end, which are excluded.
    """
    parts = _server_parts(traces, selection, window, ranks)
    raw_keys, names = _raw_keys(traces), _tensor_names(traces)
    blocks: list[dict[str, Any]] = []
    open_count = 0
    matched = {"push": 0, "pull": 0}
    for part, requests, is_selected in parts:
        trace = part.trace
        open_count += int((is_selected & ~requests.is_answered).sum())
        positions = np.flatnonzero(is_selected & requests.is_answered)
        is_pull = ~requests.push[positions]
        matched["push"] += int((~is_pull).sum())
        matched["pull"] += int(is_pull.sum())
        wait_ns = _waits(requests)[positions]
        dur_ns = requests.end_ns[positions] - requests.start_ns[positions]
        key = requests.key[positions]
        raw_key = _map_keys(key, raw_keys[trace.rank])
        declared_key = np.where(raw_key >= 0, raw_key >> 16, -1)
        tensors = names.get(trace.job, {})
        blocks.append(
            {
                "server": trace.server,
                "key": key,
                "op": is_pull,
                "node": requests.node[positions],
                "iteration": requests.iteration[positions],
                "start_ns": requests.start_ns[positions] + trace.shift_ns,
                "dur_ns": dur_ns,
                "wait_ns": wait_ns,
                "service_ns": dur_ns - wait_ns,
                "tensor": [tensors.get(number, "") for number in declared_key.tolist()],
                "declared_key": declared_key,
                "partition": np.where(raw_key >= 0, raw_key & 0xFFFF, -1),
                "rank": trace.rank,
                "id": requests.row[positions],
                "job": trace.job,
            }
        )
    schema = {
        "server": "int64", "key": "uint64",
        **int64("op node iteration start_ns dur_ns wait_ns service_ns"), "tensor": "object",
        **int64("declared_key partition rank id"), "job": "object",
    }  # fmt: skip
    data = stack_blocks(blocks, schema)
    return result_frame(
        {**data, "op": categorical(data["op"], ("push", "pull"))},
        matched={**matched, "open": open_count},
        note="" if parts else NO_SERVERS,
        open=open_count,
    )


def _map_keys(keys: Array, numbers: Mapping[int, int]) -> Ints:
    return map_distinct(keys, lambda key: numbers.get(key, -1))


def _waits(requests: Requests) -> Ints:
    """Return how long each pull waited for the last push of its iteration; 0 for pushes."""
    until = np.minimum(last_push_end(requests), requests.end_ns)
    wait = np.maximum(until - requests.start_ns, 0)
    return np.where(requests.push | ~requests.is_answered, 0, wait)


def _raw_keys(traces: TraceSet) -> dict[int, dict[int, int]]:
    """Return, for each server's rank, its raw keys by the keys sent on the wire."""
    servers_of_job: dict[str | None, list[Trace]] = {}
    for trace in traces.values():
        if trace.format == "byteps-server":
            servers_of_job.setdefault(trace.job, []).append(trace)
    raw_keys: dict[int, dict[int, int]] = {}
    for servers in servers_of_job.values():
        keys = [np.unique(requests_of(trace).key) for trace in servers]
        for trace, meaning in zip(servers, servers_of_keys(keys)[1], strict=True):
            raw_keys[trace.rank] = {key: raw_key for key, (_, raw_key) in meaning.items()}
    return raw_keys


def _tensor_names(traces: TraceSet) -> dict[str | None, dict[int, str]]:
    """Return the tensor names of each job, keyed by declared key."""
    names: dict[str | None, dict[int, str]] = {}
    for trace in traces.values():
        if trace.format == "byteps":
            rows = worker_rows(trace)
            pairs = np.unique(np.stack([rows.parts.key >> 16, rows.parts.tensor]), axis=1)
            for key, tensor in pairs.T.tolist():
                names.setdefault(trace.job, {})[key] = rows.tensors[tensor]
    return names


@check_arguments
def byteps_servers(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the load of each server, which shows whether keys are unevenly distributed.

    Each selected request is counted in full.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per server: ``server, requests, open, keys, iterations`` (int64; iterations that
        every node pushed), ``busy_ns`` (int64, time during which at least one push is served),
        ``push_ns, wait_ns, service_ns`` (int64, total time of pushes, and the two parts of the time
        of pulls) and ``job``.
    """
    parts = _server_parts(traces, selection, window, ranks)
    rows: list[tuple[object, ...]] = []
    matched = {"push": 0, "pull": 0}
    for part, requests, is_selected in parts:
        answered = is_selected & requests.is_answered
        push, pull = answered & requests.push, answered & ~requests.push
        matched["push"] += int(push.sum())
        matched["pull"] += int(pull.sum())
        dur_ns, wait_ns = requests.end_ns - requests.start_ns, _waits(requests)
        pushed = requests.push & is_selected
        nodes = pd.Series(requests.node[pushed])
        pushes = nodes.groupby([requests.key[pushed], requests.iteration[pushed]]).size()
        rows.append(
            (
                part.trace.server,
                int(answered.sum()),
                int((is_selected & ~requests.is_answered).sum()),
                len(np.unique(requests.key[is_selected])),
                int((pushes == nodes.nunique()).sum()),
                total_length(union(requests.start_ns[push], requests.end_ns[push])),
                int(dur_ns[push].sum()),
                int(wait_ns[pull].sum()),
                int((dur_ns - wait_ns)[pull].sum()),
                part.trace.job,
            )
        )
    schema = {
        **int64("server requests open keys iterations busy_ns push_ns wait_ns service_ns"),
        "job": "object",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema), matched=matched, note="" if parts else NO_SERVERS
    )


@check_arguments
def byteps_worker_lag(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the delay of each node's pushes, and how long other nodes wait for them.

    For each key and iteration, the lag of a push is its arrival minus the first arrival from any
    node. All arrivals are measured on the server's clock, so the workers' clocks need not agree. If
    a single node arrives last, the other nodes' pulls waited for it.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per node, over all servers of its job:

        - ``node`` (int64)
        - ``score`` (float64): share of (key, iteration) pairs in which only this node arrives last
        - ``mean_lag_ns`` (float64); ``median_lag_ns, max_lag_ns`` (int64): the median is an actual
          lag, the upper of the middle two if their number is even
        - ``imposed_wait_ns`` (int64): total wait of other nodes' pulls, over the (key, iteration)
          pairs in which this node is last
        - ``iterations`` (int64): number of (key, iteration) pairs that every node pushed; other
          pairs do not count
        - ``label`` (object): the node's ps-lite rank; the profile does not show which worker it is
        - ``straggler`` (bool): ``score`` is at least 0.8. By chance, it is 1 / number of nodes
        - ``job`` (object)
    """
    arrivals = byteps_arrivals(traces, selection=selection, window=window, ranks=ranks)
    lags = arrivals.groupby(["job", "node"], sort=True, as_index=False).agg(
        score=("last", "mean"),
        mean_lag_ns=("lag_ns", "mean"),
        median_lag_ns=("lag_ns", lambda lag: np.sort(lag)[len(lag) // 2]),
        max_lag_ns=("lag_ns", "max"),
        imposed_wait_ns=("imposed_wait_ns", "sum"),
        iterations=("last", "size"),
    )
    lags["label"] = pd.Series([node_label(node) for node in lags["node"]], dtype=object)
    lags["straggler"] = lags["score"] >= CONSISTENT_SHARE
    return with_job_last(lags, arrivals)


@check_arguments
def byteps_arrivals(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return when each node's pushes arrive at the server, by key and iteration.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per key, iteration and node, for iterations that every node of the server pushed:
        ``job`` (object, empty if there is none), ``server, iteration, node, start_ns`` (int64),
        ``key`` (uint64), ``lag_ns`` (int64, after the first arrival), ``last`` (bool, whether only
        this node is last) and ``imposed_wait_ns`` (int64, of other nodes' pulls if it is last).
        ``.attrs["dropped"]``: the number of pushes excluded because another node lacks the push of
        that key and iteration.
    """
    selected_parts = _server_parts(traces, selection, window, ranks)
    blocks: list[pd.DataFrame] = []
    matched = 0
    for part, requests, is_selected in selected_parts:
        frame = _requests_frame(part.trace, requests)
        pushes = frame[requests.push & is_selected]
        matched += len(pushes)
        nodes = pushes["node"].nunique()
        if nodes > 1:
            pulls = frame[~requests.push & requests.is_answered & is_selected]
            blocks.append(_lags_of_pushes(pushes, pulls))
    schema = {
        "job": "object", "server": "int64", "key": "uint64",
        **int64("iteration node start_ns lag_ns"), "last": "bool", "imposed_wait_ns": "int64",
    }  # fmt: skip
    data = stack_blocks(
        [{str(name): column.to_numpy() for name, column in block.items()} for block in blocks],
        schema,
    )
    rows = len(data["key"])
    note = "" if rows else "no iteration was pushed by every node"
    return result_frame(
        data,
        matched={"push": matched},
        note=note if selected_parts else NO_SERVERS,
        dropped=matched - rows,
    )


def _lags_of_pushes(pushes: pd.DataFrame, pulls: pd.DataFrame) -> pd.DataFrame:
    """Return the pushes of iterations that every node pushed, with the columns of the lag."""
    iteration, sender = ["key", "iteration"], ["key", "iteration", "node"]
    is_complete = pushes.groupby(iteration)["node"].transform("size") == pushes["node"].nunique()
    lags = pushes[is_complete].sort_values(sender, ignore_index=True)
    pull_waits = pulls.groupby(sender)["wait_ns"].last()
    senders = pd.MultiIndex.from_frame(lags[sender])
    lags["wait_ns"] = pull_waits.reindex(senders, fill_value=0).to_numpy()
    iterations = lags.groupby(iteration)
    lags["lag_ns"] = lags["start_ns"] - iterations["start_ns"].transform("min")
    lags["last"] = lags["lag_ns"] == iterations["lag_ns"].transform("max")
    lags["last"] &= iterations["last"].transform("sum") == 1
    waits_of_others = iterations["wait_ns"].transform("sum") - lags["wait_ns"]
    lags["imposed_wait_ns"] = waits_of_others.where(lags["last"], 0)
    return lags


def _requests_frame(trace: Trace, requests: Requests) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job": pd.Series([trace.job or ""] * len(requests), dtype=object),
            "server": trace.server,
            "key": requests.key,
            "iteration": requests.iteration,
            "node": requests.node,
            "start_ns": requests.start_ns + trace.shift_ns,
            "wait_ns": _waits(requests),
        }
    )


#: A candidate node for a worker, and the number of iterations that the servers served before the
#: worker's trace began.
_Place = tuple[int, int]

_NONE = np.iinfo(np.int64).min
#: An alignment must match at least this share of a worker's requests.
_MIN_MATCHED = 0.5


@dataclass(frozen=True, slots=True)
class _Fit:
    """Clock offset of a server if a worker is assumed to be a certain node."""

    low_ns: int
    high_ns: int
    requests: int

    @property
    def theta_ns(self) -> int:
        return (self.low_ns + self.high_ns) // 2


#: The candidate nodes of a worker, for each server's rank.
_Fits = dict[int, dict[_Place, _Fit]]


@dataclass(frozen=True, slots=True)
class _RequestTimes:
    """Times of a server's requests in ns; `_NONE` for requests that were not served."""

    #: index of each raw key
    positions: dict[int, int]
    #: for each node, begins and ends with the axes operation (push, pull), key and iteration
    times_of_node: dict[int, tuple[Ints, Ints]]


@check_arguments
def byteps_clock(traces: TraceSet, *, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """Return the clock offset between each worker and server, and its error.

    A request arrives at the server after the worker has sent it, and the server answers before the
    worker has the answer. With theta as the server's clock minus the worker's clock, each PUSH and
    PULL gives ``end at the server - end at the worker <= theta <= arrival - start at the worker``.

    The bounds of all requests form an interval. Its middle is the estimate and half its width is
    the error. No file states which node a worker is, or how many iterations the server served
    before the worker's trace began. The pair of both for which no server's interval is empty is
    used; if several pairs are possible, the one with offsets closest to zero.

    Parameters
    ----------
    traces : TraceSet
        Worker and server files of one or more jobs.
    ranks : iterable of int, optional
        Restricts the files to these ranks.

    Returns
    -------
    DataFrame
        One row per worker and server whose requests can be matched:

        - ``worker, server`` (int64)
        - ``rank, server_rank`` (int64): of the worker's root GPU, and of the server
        - ``node`` (int64): ps-lite's id of the worker
        - ``skipped_iterations`` (int64): iterations served before the first step in the worker's
          file
        - ``offset_ns`` (int64): server's clock minus worker's clock, as recorded
        - ``error_ns`` (int64): half the width of the interval; ``low_ns, high_ns`` (int64): the
          interval
        - ``requests`` (int64)
        - ``alternatives`` (int64): number of other nodes or iterations that are possible; if 0, the
          match is certain
        - ``job`` (object)
    """
    chosen = [part.trace for part in rank_parts(traces, None, None, ranks)]
    workers = [
        trace
        for trace in chosen
        if trace.format == "byteps" and "PULL" in worker_rows(trace).recorded_stages
    ]
    servers = [trace for trace in chosen if trace.format == "byteps-server"]
    raw_keys = _raw_keys(traces)
    rows: list[tuple[object, ...]] = []
    for job in sorted({trace.job or "" for trace in workers}):
        workers_of_job = [trace for trace in workers if (trace.job or "") == job]
        servers_of_job = [trace for trace in servers if (trace.job or "") == job]
        times = {
            trace.rank: _request_times(trace, raw_keys[trace.rank]) for trace in servers_of_job
        }
        for assigned in _assign_nodes([(trace, _fits(trace, times)) for trace in workers_of_job]):
            worker = assigned.worker
            for rank, fits in assigned.fits.items():
                fit = fits[assigned.place]
                error = (fit.high_ns - fit.low_ns + 1) // 2
                pair = worker.worker, traces[rank].server, worker.rank, rank, *assigned.place
                interval = fit.theta_ns, error, fit.low_ns, fit.high_ns, fit.requests
                rows.append((*pair, *interval, assigned.alternatives, worker.job))
    note = ""
    if not workers:
        note = NO_WORKERS
    elif not servers:
        note = NO_SERVERS
    elif not rows:
        note = "no worker's requests match those of the servers: are the files from one run?"
    schema = {
        **int64("worker server rank server_rank node skipped_iterations offset_ns error_ns"),
        **int64("low_ns high_ns requests alternatives"), "job": "object",
    }  # fmt: skip
    matched = {"workers": len(workers), "servers": len(servers)}
    return result_frame(columns_of_rows(rows, schema), matched=matched, note=note)


def byteps_offsets(traces: TraceSet) -> dict[int, int] | None:
    """Return each rank's clock offset to the first worker, for ranks with a certain match.

    Return None if the set lacks workers or servers.
    """
    if not {"byteps", "byteps-server"} <= set(traces.formats):
        return None
    clocks = byteps_clock(traces)
    offsets: dict[int, int] = {}
    certain = clocks[clocks["alternatives"] == 0]
    for _, clocks_of_job in certain.groupby(certain["job"].fillna(""), sort=False):
        first_worker = clocks_of_job[clocks_of_job["worker"] == clocks_of_job["worker"].min()]
        server_offset_ns = first_worker.set_index("server_rank")["offset_ns"]
        offsets |= {int(rank): int(offset) for rank, offset in server_offset_ns.items()}
        shared = clocks_of_job[clocks_of_job["server_rank"].isin(server_offset_ns.index)]
        # Offset of a worker's clock to the first worker's, one from each server that both use.
        ahead_ns = shared["server_rank"].map(server_offset_ns) - shared["offset_ns"]
        job = clocks_of_job["job"].iloc[0]
        for worker, ahead_of_worker in ahead_ns.groupby(shared["worker"]):
            for rank, trace in traces.items():
                if trace.format == "byteps" and (trace.worker, trace.job) == (worker, job):
                    offsets[rank] = round(sum(ahead_of_worker.tolist()) / len(ahead_of_worker))
    return offsets


def _request_times(trace: Trace, raw_key_of: dict[int, int]) -> _RequestTimes:
    """Return the times of a server's requests; `raw_key_of` is keyed by the keys on the wire."""
    requests = requests_of(trace)
    positions = {key: position for position, key in enumerate(sorted(set(raw_key_of.values())))}
    position_of = {key: positions[raw_key] for key, raw_key in raw_key_of.items()}
    key_position = _map_keys(requests.key, position_of)
    iterations = int(requests.iteration.max(initial=-1)) + 1
    times_of_node = {}
    for node in np.unique(requests.node).tolist():
        is_of_node = (requests.node == node) & requests.is_answered & (key_position >= 0)
        rows = np.flatnonzero(is_of_node)
        begins = np.full((2, len(positions), iterations), _NONE)
        ends = begins.copy()
        operation = (~requests.push[rows]).astype(np.int64)
        cells = operation, key_position[rows], requests.iteration[rows]
        begins[cells] = requests.start_ns[rows] + trace.zero_ns
        ends[cells] = requests.end_ns[rows] + trace.zero_ns
        times_of_node[node] = begins, ends
    return _RequestTimes(positions, times_of_node)


def _fits(worker: Trace, times: dict[int, _RequestTimes]) -> _Fits:
    """Return a worker's possible fits at each server that shares keys with it."""
    fits = {rank: _possible_fits(worker, server) for rank, server in times.items()}
    return {rank: fit for rank, fit in fits.items() if fit is not None}


def _possible_fits(worker: Trace, server: _RequestTimes) -> dict[_Place, _Fit] | None:
    """Return a server's possible clock offsets, keyed by place; None if no keys are shared.

    A server begins a request after the worker has sent it, and ends it before the worker's stage
    ends.
    """
    stages, parts = worker_rows(worker).stages, worker_rows(worker).parts
    pull = stages.index("PULL")
    is_sent = np.isin(parts.stage, [stages.index("PUSH"), pull])
    key_position = _map_keys(parts.key, server.positions)
    rows = np.flatnonzero(is_sent & (key_position >= 0))
    if not len(rows):
        return None
    operation = (parts.stage[rows] == pull).astype(np.int64)
    key, step = key_position[rows], parts.step[rows]
    start = parts.start_ns[rows] + worker.zero_ns
    end = start + parts.dur_ns[rows]
    fits = {}
    for node, (begins, ends) in server.times_of_node.items():
        iterations = begins.shape[2]
        for skipped in range(max(iterations - int(step.min()), 0)):
            recorded = np.flatnonzero(step + skipped < iterations)
            cells = operation[recorded], key[recorded], step[recorded] + skipped
            is_served = begins[cells] != _NONE
            served = int(is_served.sum())
            if served < _MIN_MATCHED * len(rows):
                continue
            high = int((begins[cells] - start[recorded])[is_served].min())
            low = int((ends[cells] - end[recorded])[is_served].max())
            if low <= high:
                fits[node, skipped] = _Fit(low, high, served)
    return fits


class _Assignment(NamedTuple):
    """The node assigned to a worker, and how many other places are possible."""

    worker: Trace
    place: _Place
    alternatives: int
    fits: _Fits


def _assign_nodes(options: list[tuple[Trace, _Fits]]) -> list[_Assignment]:
    """Assign a node to each worker, beginning with the workers with the fewest candidates.

    No node is assigned twice. Only certain assignments can make other assignments certain.
    """
    left, used_nodes, certain = list(options), set[int](), set[int]()
    assigned = []

    def places_with_free_node(fits: _Fits, taken_nodes: set[int]) -> list[_Place]:
        places_of_servers = [set(fits_of_place) for fits_of_place in fits.values()]
        common = set.intersection(*places_of_servers) if places_of_servers else set()
        return [(node, skipped) for node, skipped in common if node not in taken_nodes]

    def choices_and_number(option: tuple[Trace, _Fits]) -> tuple[int, int]:
        worker, fits = option
        return len(places_with_free_node(fits, certain)), worker.worker

    while left:
        left.sort(key=choices_and_number)
        worker, fits = left.pop(0)
        distance_ns = {
            place: sum(abs(fits_of_place[place].theta_ns) for fits_of_place in fits.values())
            for place in places_with_free_node(fits, used_nodes)
        }
        if not distance_ns:
            continue
        best = min(distance_ns, key=lambda place: (distance_ns[place], place))
        alternatives = len(places_with_free_node(fits, certain)) - 1
        used_nodes.add(best[0])
        if not alternatives:
            certain.add(best[0])
        assigned.append(_Assignment(worker, best, alternatives, fits))
    return sorted(assigned, key=lambda assignment: assignment.worker.worker)
