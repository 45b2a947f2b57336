"""What a BytePS server was asked for, how long that took, and how much of it was waiting."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps import declared_key
from hta_widgets.formats.byteps.byteps import worker_rows
from hta_widgets.formats.byteps.byteps_requests import Requests
from hta_widgets.formats.byteps.byteps_requests import last_push_end
from hta_widgets.formats.byteps.byteps_requests import requests_of
from hta_widgets.formats.byteps.byteps_requests import servers_of_keys
from hta_widgets.trace.intervals import total
from hta_widgets.trace.intervals import union

from hta_widgets.formats.byteps.byteps_files import NO_SERVERS
from hta_widgets.formats.byteps.byteps_files import server_parts
from hta_widgets.analysis.results import by_column
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import joined_columns
from hta_widgets.analysis.results import result

__all__ = ["byteps_requests", "byteps_servers"]

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

    Examples
    --------
    >>> analysis.byteps_servers(traces)  # doctest: +SKIP
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
