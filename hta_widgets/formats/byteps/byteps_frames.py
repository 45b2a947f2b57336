"""What panels show of BytePS's traces: the analyses' rows, put together as panels tell apart.

Ranks and window of a selection count. Ranks narrow the files of their own kind alone: whoever
selects a worker still sees the servers, which no worker is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.formats.byteps.rows import node_label
from hta_widgets.panels.columns import taken
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

__all__ = [
    "BYTEPS_MAKERS",
    "by_iteration",
    "by_key",
    "by_tensor",
    "of_format",
]


def of_format(traces: TraceSet, selection: Selection, *formats: str) -> Selection:
    """Return window and ranks of a selection, as far as ranks are of these formats."""
    ranks = selection.ranks
    if ranks is not None:
        ranks = tuple(rank for rank in ranks if traces[rank].format in formats) or None
    return Selection(start_ns=selection.start_ns, end_ns=selection.end_ns, ranks=ranks)


def by_tensor(frame: pd.DataFrame) -> pd.DataFrame:
    """Add up `byteps_gradients` by tensor and worker, the slowest tensors first.

    Of a worker's GPUs the root counts, where it has the tensor: the others' queues hold its work.
    """
    known = frame[frame["busy_ns"] >= 0]
    keys = [known["tensor"].astype(str), known["job"].fillna(""), known["worker"]]
    known = known[known["root"] | ~known["root"].groupby(keys).transform("any")]
    keys = [key[known.index] for key in keys]
    groups = known.assign(critical=known["critical"].astype(np.int64)).groupby(keys, sort=True)
    names = ["total_ns", "busy_ns", "queue_ns", "tail_ns", "critical"]
    found = groups[names].sum().assign(root=groups["root"].any())
    found.insert(0, "count", groups.size())
    found = found.reset_index()
    mean = found["total_ns"] / found["count"]
    slowest = mean.groupby(found["tensor"]).max()
    order = np.lexsort(
        (found["worker"], found["job"], found["tensor"], -slowest[found["tensor"]].to_numpy())
    )
    found = found.iloc[order].reset_index(drop=True)
    found["tensor"] = found["tensor"].astype(object)
    found.attrs = dict(frame.attrs)
    return found


def by_iteration(frame: pd.DataFrame) -> pd.DataFrame:
    """Add up `byteps_arrivals` or `byteps_pulls` by iteration and worker.

    Of pulls, a lag is how much shorter a worker's PULL was than the longest: who pushes last
    pulls last, and waits least.
    """
    pulls = "step" in frame
    data = frame.copy()
    if pulls:
        longest = data.groupby(["job", "key", "step"])["dur_ns"].transform("max")
        data["lag_ns"] = longest - data["dur_ns"]
        data = data.rename(columns={"step": "iteration", "worker": "node", "shortest": "last"})
    groups = data.groupby(["job", "iteration"], sort=True)["start_ns"]
    data["start"], data["end"] = groups.transform("min"), groups.transform("max") + 1
    found = (
        data.groupby(["job", "node", "iteration"], sort=True)
        .agg(
            keys=("lag_ns", "size"),
            lag_ns=("lag_ns", "sum"),
            last=("last", "sum"),
            start_ns=("start", "min"),
            end_ns=("end", "max"),
        )
        .reset_index()
    )
    found["last"] = found["last"].astype(np.int64)
    found["job"] = found["job"].astype(object)
    label = (lambda node: f"worker {node}") if pulls else node_label
    found["label"] = pd.Series([label(int(node)) for node in found["node"]], dtype=object)
    found.attrs = {**frame.attrs, "source": "workers" if pulls else "servers"}
    return found


def by_key(requests: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """Add up a server's requests by key, longest waits first; keys are text, to the last digit."""
    keys = ["rank", "key"]
    push = requests["op"] == "push"
    columns = pd.DataFrame(
        {
            "requests": 1,
            "pushes": push.astype(np.int64),
            "push_ns": requests["dur_ns"].where(push, 0),
            "pull_ns": requests["dur_ns"].where(~push, 0),
            "wait_ns": requests["wait_ns"],
            "service_ns": requests["service_ns"].where(~push, 0),
        }
    )
    groups = [requests[name] for name in keys]
    found = columns.groupby(groups, sort=True).sum()
    first = requests.groupby(groups, sort=True)[["server", "tensor", "partition", "job"]].first()
    found = pd.concat([first, found], axis=1).reset_index()
    last = _last(arrivals)
    place = list(zip(found["job"].fillna(""), found["server"], found["key"], strict=True))
    none = (-1, np.nan, np.nan)
    told = [last.get(each, none) for each in place]
    for at, (column, dtype) in enumerate(_LAST.items()):
        found[column] = np.array([each[at] for each in told], dtype)
    found.insert(0, "name", pd.Series([str(key) for key in found.pop("key")], dtype=object))
    order = np.lexsort((np.arange(len(found)), -found["wait_ns"].to_numpy()))
    found = found.iloc[order].reset_index(drop=True)
    found = found.drop(columns="job")
    found.attrs = dict(requests.attrs)
    return found


_LAST = {"last_node": np.int64, "last_share": np.float64, "last_lag_ns": np.float64}


def _last(arrivals: pd.DataFrame) -> dict[tuple[str, int, int], tuple[int, float, float]]:
    """Return for each key who comes last most often, in what share, and how late on average."""
    keys = ["job", "server", "key"]
    groups = arrivals.groupby([*keys, "node"], sort=True)
    each = groups.agg(last=("last", "mean"), lag=("lag_ns", "mean")).reset_index()
    each = each.sort_values(["last", "node"], ascending=[False, True], kind="stable")
    told = each[each["last"] > 0].drop_duplicates(keys)
    columns = [told[name].tolist() for name in (*keys, "node", "last", "lag")]
    return {
        (job, server, key): (node, share, lag)
        for job, server, key, node, share, lag in zip(*columns, strict=True)
    }


# --- the panels -----------------------------------------------------------------------------------


def _gradients(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    scope = of_format(traces, selection, "byteps")
    return by_tensor(analysis.byteps_gradients(traces, selection=scope))


def _stages(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.byteps_stages(traces, selection=of_format(traces, selection, "byteps"))
    return taken(frame, [str(name) for name in frame])


def _stragglers(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    return by_iteration(arrivals_of(traces, of_format(traces, selection, "byteps-server")))


def arrivals_of(traces: TraceSet, selection: Selection) -> pd.DataFrame:
    """Return who comes when: by the servers, else by the workers' pulls."""
    if "byteps-server" in traces.formats:
        return analysis.byteps_arrivals(traces, selection=selection)
    return analysis.byteps_pulls(traces, selection=selection)


def _blame(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.byteps_pull_blame(traces, selection=of_format(traces, selection, "byteps"))
    found = taken(frame, [str(name) for name in frame])
    return _with_ranks(found, "worker", traces)


def _servers(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    scope = of_format(traces, selection, "byteps-server")
    frame = analysis.byteps_servers(traces, selection=scope)
    found = taken(frame, [str(name) for name in frame])
    return _with_ranks(found, "server", traces)


def _with_ranks(frame: pd.DataFrame, column: str, traces: TraceSet) -> pd.DataFrame:
    """Add which ranks of the set rows stand for, as text: `2,3`."""
    told = []
    for number, job in zip(frame[column], frame["job"], strict=True):
        files = [
            str(trace.rank)
            for trace in traces.values()
            if getattr(trace, column) == number and (trace.job or "") == (job or "")
        ]
        told.append(",".join(files))
    frame["ranks"] = pd.Series(told, dtype=object)
    return frame


def _requests(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    scope = of_format(traces, selection, "byteps-server")
    return by_key(
        analysis.byteps_requests(traces, selection=scope),
        analysis.byteps_arrivals(traces, selection=scope),
    )


def _clock(traces: TraceSet, _selection: Selection, _top: int | None) -> pd.DataFrame:
    frame = analysis.byteps_clock(traces)
    return taken(frame, [str(name) for name in frame])


BYTEPS_MAKERS: dict[str, Any] = {
    "byteps_gradients": _gradients,
    "byteps_stages": _stages,
    "byteps_stragglers": _stragglers,
    "byteps_blame": _blame,
    "byteps_servers": _servers,
    "byteps_requests": _requests,
    "byteps_clock": _clock,
}
