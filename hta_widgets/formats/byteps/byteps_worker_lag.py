"""Which workers' pushes reach the servers last, and what that costs the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.byteps.byteps_requests import Requests
from hta_widgets.formats.byteps.byteps_requests import node_label

from hta_widgets.formats.byteps.byteps_files import CONSISTENT_SHARE
from hta_widgets.formats.byteps.byteps_files import NO_SERVERS
from hta_widgets.formats.byteps.byteps_files import server_parts
from hta_widgets.formats.byteps.requests import waits_of
from hta_widgets.analysis.results import by_column
from hta_widgets.analysis.results import joined_columns
from hta_widgets.analysis.results import result

__all__ = ["byteps_arrivals", "byteps_worker_lag"]

Ints = npt.NDArray[np.int64]


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

    Examples
    --------
    >>> analysis.byteps_worker_lag(traces)  # doctest: +SKIP
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

    Examples
    --------
    >>> arrivals = analysis.byteps_arrivals(traces)  # doctest: +SKIP
    >>> arrivals.pivot_table(index="iteration", columns="node", values="lag_ns")  # doctest: +SKIP
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
    data = joined_columns(blocks, _COLUMNS, key=np.uint64, last=np.bool_)
    note = "" if found else NO_SERVERS
    if found and not len(data["key"]):
        note = "no iteration was pushed by every node"
    return result(
        {"job": pd.Series(jobs, dtype=object), **data},
        matched={"push": matched},
        note=note,
        dropped=dropped,
    )


_COLUMNS = (
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
