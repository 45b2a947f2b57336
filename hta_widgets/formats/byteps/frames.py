"""What panels show of BytePS's traces: the analyses' rows, put together as panels tell apart.

Ranks and window of a selection count. Ranks narrow the files of their own kind alone: whoever
selects a worker still sees the servers, which no worker is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.formats.byteps.rows import node_label, requests_of, worker_rows
from hta_widgets.panels.catalog import Panel
from hta_widgets.panels.frames import as_json, rows_or_none, taken
from hta_widgets.panels.headline import Finding, Piece
from hta_widgets.text import count, duration, share
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet


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


def _whole(analysed: str, *formats: str) -> Callable[[TraceSet, Selection], pd.DataFrame]:
    """Return what calls an analysis with what of a selection is of these formats."""

    def whole(traces: TraceSet, selection: Selection) -> pd.DataFrame:
        scope = of_format(traces, selection, *formats)
        found: pd.DataFrame = getattr(analysis, analysed)(traces, selection=scope)
        return found

    return whole


def _has_workers(formats: set[str], _workers: int) -> bool:
    return "byteps" in formats


def _has_servers(formats: set[str], _workers: int) -> bool:
    return "byteps-server" in formats


#: In the order of the list from which users choose.
PANELS = (
    Panel(
        "byteps_stragglers",
        "byteps_arrivals",
        ("window", "ranks"),
        is_chart=True,
        frame=_stragglers,
        whole=lambda traces, selection: arrivals_of(
            traces, of_format(traces, selection, "byteps-server")
        ),
        fits=lambda formats, workers: "byteps-server" in formats or workers > 1,
    ),
    Panel(
        "byteps_gradients",
        "byteps_gradients",
        ("names",),
        is_chart=True,
        frame=_gradients,
        whole=_whole("byteps_gradients", "byteps"),
        fits=_has_workers,
    ),
    Panel(
        "byteps_stages",
        "byteps_stages",
        ("ranks",),
        is_chart=True,
        frame=_stages,
        whole=_whole("byteps_stages", "byteps"),
        fits=_has_workers,
    ),
    Panel(
        "byteps_blame",
        "byteps_pull_blame",
        ("ranks",),
        is_chart=True,
        frame=_blame,
        whole=_whole("byteps_pull_blame", "byteps"),
        # A single worker waits for nobody.
        fits=lambda formats, workers: "byteps" in formats and workers > 1,
    ),
    Panel(
        "byteps_servers",
        "byteps_servers",
        ("ranks",),
        is_chart=True,
        frame=_servers,
        whole=_whole("byteps_servers", "byteps-server"),
        fits=_has_servers,
    ),
    Panel(
        "byteps_requests",
        "byteps_requests",
        ("ranks",),
        frame=_requests,
        whole=_whole("byteps_requests", "byteps-server"),
        fits=_has_servers,
    ),
    Panel(
        "byteps_clock",
        "byteps_clock",
        ("ranks", "window"),
        is_chart=True,
        frame=_clock,
        whole=lambda traces, _selection: analysis.byteps_clock(traces),
        fits=lambda formats, _workers: formats >= {"byteps", "byteps-server"},
    ),
)


# --- tables with which a page counts --------------------------------------------------------------


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the rows with which a page computes these panels."""
    formats = set(traces.formats)
    tables: dict[str, Any] = {"files": as_json(_files(traces))}
    if "byteps" in formats:
        gradients = analysis.byteps_gradients(traces)
        names = ["rank", "tensor", "start_ns", "total_ns", "busy_ns", "queue_ns", "tail_ns"]
        kept = gradients[[*names, "critical"]]
        kept.attrs = {key: gradients.attrs[key] for key in ("note",) if key in gradients.attrs}
        tables["gradients"] = rows_or_none(kept)
        tables["stages"] = rows_or_none(_stage_rows(traces))
    if "byteps-server" in formats:
        tables["requests"] = rows_or_none(_request_rows(traces))
    if {"byteps", "byteps-server"} <= formats:
        tables["byteps_clock"] = as_json(_clock(traces, Selection(), None))
    return tables


def _files(traces: TraceSet) -> pd.DataFrame:
    """Return what the ranks of the set are."""
    of = list(traces.values())
    return pd.DataFrame(
        {
            "rank": [trace.rank for trace in of],
            "job": pd.Series([trace.job or "" for trace in of], dtype=object),
            "format": pd.Series([trace.format for trace in of], dtype=object),
            "worker": [trace.worker for trace in of],
            "local_rank": [trace.local_rank for trace in of],
            "server": [trace.server for trace in of],
            "root": [trace.format == "byteps" and worker_rows(trace).is_root for trace in of],
        }
    )


def _stage_rows(traces: TraceSet) -> pd.DataFrame:
    """Return every stage of every partition; stages in the order of `byteps_stages`."""
    order = list(analysis.byteps_stages(traces)["stage"].cat.categories)
    frames = []
    for trace in traces.values():
        if trace.format != "byteps":
            continue
        rows = worker_rows(trace)
        parts = rows.parts
        frames.append(
            pd.DataFrame(
                {
                    "rank": trace.rank,
                    "stage": np.array([order.index(name) for name in rows.stages])[parts.stage],
                    "key": parts.key,
                    "step": parts.step,
                    "start_ns": parts.start_ns + trace.shift_ns,
                    "dur_ns": parts.dur_ns,
                    "queue_ns": np.where(parts.complete, parts.queue_ns, 0),
                }
            )
        )
    found = pd.concat(frames, ignore_index=True)
    # They only tell partitions apart.
    found["key"] = np.unique(found["key"], return_inverse=True)[1]
    found.attrs = {"stages": order}
    return found


def _request_rows(traces: TraceSet) -> pd.DataFrame:
    """Return every request, those without an end too: of these ``dur_ns`` is -1."""
    known = analysis.byteps_requests(traces)
    waits = known.groupby(["rank", "id"])["wait_ns"].first()
    names = known.groupby(["rank", "key"])[["tensor", "partition"]].first()
    frames: list[pd.DataFrame] = []
    keys: list[list[Any]] = []
    for trace in traces.values():
        if trace.format != "byteps-server":
            continue
        requests = requests_of(trace)
        unique, at = np.unique(requests.key, return_inverse=True)
        meant = [
            names.loc[(trace.rank, key)] if (trace.rank, key) in names.index else None
            for key in unique
        ]
        found = pd.DataFrame(
            {
                "rank": trace.rank,
                "key": at.reshape(-1) + len(keys),
                "push": requests.push.astype(np.int64),
                "node": requests.node,
                "iteration": requests.iteration,
                "start_ns": requests.start_ns + trace.shift_ns,
                "dur_ns": np.where(requests.closed, requests.end_ns - requests.start_ns, -1),
            }
        )
        place = pd.MultiIndex.from_arrays([found["rank"], requests.row])
        found["wait_ns"] = waits.reindex(place).fillna(0).astype(np.int64).to_numpy()
        frames.append(found)
        keys += [
            [
                str(key),
                "" if mean is None else str(mean["tensor"]),
                -1 if mean is None else int(mean["partition"]),
            ]
            for key, mean in zip(unique.tolist(), meant, strict=True)
        ]
    whole = pd.concat(frames, ignore_index=True)
    whole.attrs = {"keys": keys}
    return whole


# --- the headline ---------------------------------------------------------------------------------

#: From here on the busiest server is busier than others.
_UNEVEN = 1.25
#: Queues are told of from this share of gradients' time on.
_MUCH_QUEUE = 0.25


def headline(traces: TraceSet) -> tuple[list[Finding], list[list[Piece]], list[Piece]]:
    """Return what matters most: findings, more sentences, and one for where nothing is found."""
    found = _late_by_pulls(traces) or _late_by_servers(traces)
    more: list[list[Piece]] = []
    if "byteps" in traces.formats:
        more += _slowest_gradient(traces)
    if "byteps-server" in traces.formats:
        servers = analysis.byteps_servers(traces)
        busy = servers["busy_ns"].to_numpy(float)
        if len(busy) > 1 and busy.mean() > 0 and busy.max() >= _UNEVEN * busy.mean():
            first = int(servers["server"].iloc[int(busy.argmax())])
            more.append(
                [
                    (
                        f"Server {first} works {busy.max() / busy.mean():.2f} times as much as the"
                        " mean server: keys are shared out unevenly."
                    )
                ]
            )
    workers = {(one.job, one.worker) for one in traces.values() if one.format == "byteps"}
    nothing: list[Piece] = ["No worker is last most of the time."] if len(workers) != 1 else []
    return found, more, nothing


def _slowest_gradient(traces: TraceSet) -> list[list[Piece]]:
    """Say which gradient takes longest, and whether gradients wait in queues or in a stage."""
    slowest = by_tensor(analysis.byteps_gradients(traces))
    if slowest.empty:
        return []
    of_root = bool(slowest["root"].all())
    part = slowest if of_root else slowest[~slowest["root"]]
    queue = int(part["queue_ns"].sum()) / max(int(part["total_ns"].sum()), 1)
    mean = slowest["total_ns"] / slowest["count"]
    first = int(mean.to_numpy().argmax())
    longest = f"{slowest['tensor'][first]} takes longest, {duration(float(mean[first]))}"
    if slowest.groupby(["job", "worker"]).ngroups > 1:
        longest += f" on worker {slowest['worker'][first]}"
    if queue >= _MUCH_QUEUE:
        where = "in queues" if of_root else "for the GPU that talks to the servers"
        return [[f"{share(queue)} of a gradient's time is waiting {where}; {longest}."]]
    stages = analysis.byteps_stages(traces)
    if of_root:
        stages = stages[stages["root"]]
    most = int(stages["mean_ns"].to_numpy().argmax())
    return [[f"{longest}; the longest stage is {stages['stage'].iloc[most]}."]]


def _late_by_pulls(traces: TraceSet) -> list[Finding]:
    if "byteps" not in traces.formats:
        return []
    blame = analysis.byteps_pull_blame(traces)
    cost = int(blame["slack_ns"].sum())
    whole = max(int(blame["pull_ns"].sum()), 1)
    found = []
    for worker, part, pulls, job in zip(
        *(blame[name][blame["straggler"]] for name in ("worker", "blame", "pulls", "job")),
        strict=True,
    ):
        ranks = [
            trace.rank
            for trace in traces.values()
            if trace.format == "byteps" and trace.worker == worker and trace.job == job
        ]
        parts: list[Piece] = [
            {"rank": ranks[-1], "text": f"Worker {worker}"},
            (
                f" is last in {count(round(part * pulls))} of {count(pulls)} partitions and steps:"
                f" the others' PULLs wait {duration(cost)} for it, {share(cost / whole)} of all"
                " PULLs."
            ),
        ]
        label, chosen = f"Select worker {worker}", Selection(ranks=tuple(ranks))
        found.append(Finding("waiting", cost / whole, parts, label, chosen))
    return found


def _late_by_servers(traces: TraceSet) -> list[Finding]:
    if "byteps-server" not in traces.formats:
        return []
    lag = analysis.byteps_worker_lag(traces)
    late = lag[lag["straggler"]]
    found = []
    for label, score, iterations, mean, cost in zip(
        *(
            late[name]
            for name in ("label", "score", "iterations", "mean_lag_ns", "imposed_wait_ns")
        ),
        strict=True,
    ):
        parts: list[Piece] = [
            (
                f"N{label[1:]} is last in {count(round(score * iterations))} of {count(iterations)}"
                f" pushes, {duration(mean)} behind: the others' pulls wait {duration(cost)} for it."
            ),
        ]
        found.append(Finding("waiting", float(score), parts, "Select pulls", _PULLS))
    return found


_PULLS = Selection(query="name.str.startswith('pull-')")
