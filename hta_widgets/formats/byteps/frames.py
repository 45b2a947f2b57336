"""Frames of the BytePS panels, tables of pages, and the headline.

The selection's window and ranks apply. Selected ranks restrict only files of their own kind, so
selecting workers keeps all servers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.frames import text_column
from hta_widgets.facts import facts
from hta_widgets.formats.byteps.rows import node_label, requests_of, worker_rows
from hta_widgets.panels.frames import (
    BaseFrameMaker,
    Panel,
    catalog_panel,
    frame_to_json,
    small_frame_to_json,
    take_columns,
)
from hta_widgets.panels.headline import HeadlineFinding
from hta_widgets.panels.headline_words import Piece
from hta_widgets.text import count, duration, share
from hta_widgets.trace.traceset import Selection, TraceSet


def restrict_to_format(traces: TraceSet, selection: Selection, *formats: str) -> Selection:
    """Return a selection's window and ranks, with only the ranks of the given formats."""
    ranks = selection.ranks
    if ranks is not None:
        ranks = tuple(rank for rank in ranks if traces[rank].format in formats) or None
    return Selection(start_ns=selection.start_ns, end_ns=selection.end_ns, ranks=ranks)


def by_tensor(frame: pd.DataFrame) -> pd.DataFrame:
    """Sum `byteps_gradients` by tensor and worker, slowest tensors first.

    If a worker's root GPU has the tensor, only the root is used, because queues on the other GPUs
    include the root's work.
    """
    complete = frame[frame["busy_ns"] >= 0]
    complete = complete.assign(
        tensor=complete["tensor"].astype(str), job=complete["job"].fillna("")
    )
    keys = ["tensor", "job", "worker"]
    complete = complete[complete["root"] | ~complete.groupby(keys)["root"].transform("any")]
    groups = complete.astype({"critical": np.int64}).groupby(keys, sort=True)
    sums = groups[["total_ns", "busy_ns", "queue_ns", "tail_ns", "critical"]].sum()
    sums = sums.assign(root=groups["root"].any())
    sums.insert(0, "count", groups.size())
    tensors = sums.reset_index()
    slowest = (tensors["total_ns"] / tensors["count"]).groupby(tensors["tensor"]).transform("max")
    order = np.lexsort((tensors["worker"], tensors["job"], tensors["tensor"], -slowest))
    tensors = tensors.iloc[order].reset_index(drop=True)
    tensors["tensor"] = tensors["tensor"].astype(object)
    tensors["job"] = text_column(tensors["job"])
    tensors.attrs = dict(frame.attrs)
    return tensors


def by_iteration(frame: pd.DataFrame) -> pd.DataFrame:
    """Sum `byteps_arrivals` or `byteps_pulls` by iteration and worker.

    For pulls, a worker's lag is the longest PULL minus its own. The worker that pushes last pulls
    last and waits least.
    """
    pulls = "step" in frame
    data = frame.copy()
    if pulls:
        longest = data.groupby(["job", "key", "step"])["dur_ns"].transform("max")
        data["lag_ns"] = longest - data["dur_ns"]
        data = data.rename(columns={"step": "iteration", "worker": "node", "shortest": "last"})
    starts = data.groupby(["job", "iteration"], sort=True)["start_ns"]
    # An iteration extends from the first to the last start, inclusive.
    data["start"], data["end"] = starts.transform("min"), starts.transform("max") + 1
    iterations = data.groupby(["job", "node", "iteration"], sort=True, as_index=False).agg(
        keys=("lag_ns", "size"),
        lag_ns=("lag_ns", "sum"),
        last=("last", "sum"),
        start_ns=("start", "min"),
        end_ns=("end", "max"),
    )
    iterations = iterations.astype({"last": np.int64, "job": object})
    label = (lambda node: f"worker {node}") if pulls else node_label
    iterations["label"] = pd.Series([label(int(node)) for node in iterations["node"]], dtype=object)
    iterations.attrs = {**frame.attrs, "source": "workers" if pulls else "servers"}
    return iterations


def by_key(requests: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """Sum a server's requests by key, longest waits first; keys become text to keep all digits.

    ``last_node`` is the node that most often arrives last, followed by how often it does and its
    mean lag.
    """
    keys = ["rank", "key"]
    push = requests["op"] == "push"
    measures = requests[keys].assign(
        requests=1,
        pushes=push.astype(np.int64),
        push_ns=requests["dur_ns"].where(push, 0),
        pull_ns=requests["dur_ns"].where(~push, 0),
        wait_ns=requests["wait_ns"],
        service_ns=requests["service_ns"].where(~push, 0),
    )
    first = requests.groupby(keys, sort=True)[["server", "tensor", "partition", "job"]].first()
    rows = first.join(measures.groupby(keys, sort=True).sum()).reset_index()
    rows["job"] = rows["job"].fillna("")
    job_key = ["job", "server", "key"]
    nodes = arrivals.groupby([*job_key, "node"], sort=True, as_index=False).agg(
        last_share=("last", "mean"), last_lag_ns=("lag_ns", "mean")
    )
    nodes = nodes[nodes["last_share"] > 0].rename(columns={"node": "last_node"})
    nodes = nodes.sort_values(["last_share", "last_node"], ascending=[False, True], kind="stable")
    rows = rows.merge(nodes.drop_duplicates(job_key), how="left", on=job_key)
    rows["last_node"] = rows["last_node"].fillna(-1).astype(np.int64)
    rows.insert(0, "name", pd.Series([str(key) for key in rows.pop("key")], dtype=object))
    order = np.argsort(-rows["wait_ns"].to_numpy(), kind="stable")
    rows = rows.drop(columns="job").iloc[order].reset_index(drop=True)
    rows.attrs = dict(requests.attrs)
    return rows


def _analysis_function(name: str, *formats: str) -> BaseFrameMaker:
    def base_frame(traces: TraceSet, selection: Selection) -> pd.DataFrame:
        scope = restrict_to_format(traces, selection, *formats)
        frame: pd.DataFrame = getattr(analysis, name)(traces, selection=scope)
        return frame

    return base_frame


def _arrivals_frame(traces: TraceSet, selection: Selection) -> pd.DataFrame:
    """Return arrivals at the servers or, without servers, the workers' PULLs."""
    name = "byteps_arrivals" if "byteps-server" in traces.formats else "byteps_pulls"
    return _analysis_function(name, "byteps-server")(traces, selection)


def _iterations_frame(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    """Return sums by iteration, labeled with the worker if its node is known for certain."""
    iterations = by_iteration(_arrivals_frame(traces, selection))
    clock = analysis.byteps_clock(traces).fillna({"job": ""})
    certain = clock[clock["alternatives"] == 0].drop_duplicates(["job", "node"])
    for job, node, worker in zip(certain["job"], certain["node"], certain["worker"], strict=True):
        is_node = (iterations["node"] == node) & (iterations["job"] == job)
        iterations.loc[is_node, "label"] = f"worker {worker} (node {node})"
    return iterations


def _all_columns(frame: pd.DataFrame) -> pd.DataFrame:
    return take_columns(frame, [str(name) for name in frame])


def _panel(
    name: str,
    needs: str,
    shape: Callable[[pd.DataFrame], pd.DataFrame] = _all_columns,
    *,
    base_frame: BaseFrameMaker | None = None,
    fits: Callable[[set[str], int], bool] | None = None,
    ranks_of: str = "",
) -> Panel:
    """Return a chart panel for an analysis in format `needs`; `shape` converts its frame.

    With `ranks_of`, the column ``ranks`` lists the ranks of each row's worker or server, as text.
    """
    run = base_frame or _analysis_function(facts("panels")[name]["analysis"], needs)

    def frame(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
        shaped = shape(run(traces, selection))
        if not ranks_of:
            return shaped
        ranks: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        for trace in traces.values():
            ranks[getattr(trace, ranks_of), trace.job or ""].append(str(trace.rank))
        members = zip(shaped[ranks_of], shaped["job"].fillna(""), strict=True)
        texts = [",".join(ranks[member]) for member in members]
        return shaped.assign(ranks=pd.Series(texts, dtype=object))

    def has_format(formats: set[str], _workers: int) -> bool:
        return needs in formats

    return catalog_panel(name, frame=frame, base_frame=run, fits=fits or has_format)


def _requests_frame(traces: TraceSet, selection: Selection, _top: int | None) -> pd.DataFrame:
    scope = restrict_to_format(traces, selection, "byteps-server")
    return by_key(
        analysis.byteps_requests(traces, selection=scope),
        analysis.byteps_arrivals(traces, selection=scope),
    )


#: In the order in which they are offered to users.
PANELS = (
    catalog_panel(
        "byteps_stragglers",
        frame=_iterations_frame,
        base_frame=_arrivals_frame,
        fits=lambda formats, workers: "byteps-server" in formats or workers > 1,
    ),
    _panel("byteps_gradients", "byteps", by_tensor),
    _panel("byteps_stages", "byteps"),
    _panel(
        "byteps_blame",
        "byteps",
        fits=lambda formats, workers: "byteps" in formats and workers > 1,
        ranks_of="worker",
    ),
    _panel("byteps_servers", "byteps-server", ranks_of="server"),
    catalog_panel(
        "byteps_requests",
        frame=_requests_frame,
        base_frame=_analysis_function("byteps_requests", "byteps-server"),
        fits=lambda formats, _: "byteps-server" in formats,
    ),
    _panel(
        "byteps_clock",
        "byteps",
        base_frame=lambda traces, _: analysis.byteps_clock(traces),
        fits=lambda formats, _: formats >= {"byteps", "byteps-server"},
    ),
)


def base_tables(traces: TraceSet) -> dict[str, Any]:
    """Return the tables from which a page computes these panels."""
    formats = set(traces.formats)
    tables: dict[str, Any] = {"files": frame_to_json(_files(traces))}
    if "byteps" in formats:
        gradients = analysis.byteps_gradients(traces)
        names = ["rank", "tensor", "start_ns", "total_ns", "busy_ns", "queue_ns", "tail_ns"]
        rows = gradients[[*names, "critical"]]
        rows.attrs = {key: text for key, text in gradients.attrs.items() if key == "note"}
        tables["gradients"] = small_frame_to_json(rows)
        tables["stages"] = small_frame_to_json(_stage_rows(traces))
    if "byteps-server" in formats:
        tables["requests"] = small_frame_to_json(_request_rows(traces))
    if {"byteps", "byteps-server"} <= formats:
        tables["byteps_clock"] = frame_to_json(_all_columns(analysis.byteps_clock(traces)))
    return tables


def _files(traces: TraceSet) -> pd.DataFrame:
    files = list(traces.values())
    return pd.DataFrame(
        {
            "rank": [trace.rank for trace in files],
            "job": pd.Series([trace.job or "" for trace in files], dtype=object),
            "format": pd.Series([trace.format for trace in files], dtype=object),
            "worker": [trace.worker for trace in files],
            "local_rank": [trace.local_rank for trace in files],
            "server": [trace.server for trace in files],
            "root": [trace.format == "byteps" and worker_rows(trace).is_root for trace in files],
        }
    )


def _stage_rows(traces: TraceSet) -> pd.DataFrame:
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
    stages = pd.concat(frames, ignore_index=True)
    # Pages only compare keys, so small numbers, which take less space, suffice.
    stages["key"] = np.unique(stages["key"], return_inverse=True)[1]
    stages.attrs = {"stages": order}
    return stages


def _request_rows(traces: TraceSet) -> pd.DataFrame:
    """Return all requests; open requests have a ``dur_ns`` of -1."""
    answered = analysis.byteps_requests(traces)
    waits = answered.groupby(["rank", "id"])["wait_ns"].first()
    names = answered.groupby(["rank", "key"])[["tensor", "partition"]].first()
    frames: list[pd.DataFrame] = []
    keys: list[list[Any]] = []
    for trace in traces.values():
        if trace.format != "byteps-server":
            continue
        requests = requests_of(trace)
        keys_of_server, key_index = np.unique(requests.key, return_inverse=True)
        requests_frame = pd.DataFrame(
            {
                "rank": trace.rank,
                "key": key_index + len(keys),
                "push": requests.push.astype(np.int64),
                "node": requests.node,
                "iteration": requests.iteration,
                "start_ns": requests.start_ns + trace.shift_ns,
                "dur_ns": np.where(requests.is_answered, requests.end_ns - requests.start_ns, -1),
            }
        )
        events = pd.MultiIndex.from_arrays([requests_frame["rank"], requests.row])
        requests_frame["wait_ns"] = waits.reindex(events, fill_value=0).to_numpy()
        frames.append(requests_frame)
        for key in keys_of_server.tolist():
            has_name = (trace.rank, key) in names.index
            tensor, partition = names.loc[(trace.rank, key)] if has_name else ("", -1)
            keys.append([str(key), str(tensor), int(partition)])
    combined = pd.concat(frames, ignore_index=True)
    combined.attrs = {"keys": keys}
    return combined


#: A server is reported if its load exceeds the mean load by this factor.
_UNEVEN_RATIO = 1.25
#: Queues are reported if they take this share of gradients' time.
_MUCH_QUEUE = 0.25


def headline(traces: TraceSet) -> tuple[list[HeadlineFinding], list[list[Piece]], list[Piece]]:
    """Return findings, further sentences, and the sentence for a run without findings."""
    finding = _late_by_pulls(traces) or _late_by_servers(traces)
    details: list[list[Piece]] = []
    if "byteps" in traces.formats:
        details += _slowest_gradient(traces)
    if "byteps-server" in traces.formats:
        servers = analysis.byteps_servers(traces)
        busy_ns = servers["busy_ns"].to_numpy(float)
        if len(busy_ns) > 1 and busy_ns.max() >= _UNEVEN_RATIO * busy_ns.mean() > 0:
            busiest = int(servers["server"].iloc[int(busy_ns.argmax())])
            text = (
                f"Server {busiest} works {busy_ns.max() / busy_ns.mean():.2f} times as much as the"
                " average server: keys are distributed unevenly."
            )
            details.append([text])
    workers = {(trace.job, trace.worker) for trace in traces.values() if trace.format == "byteps"}
    no_findings: list[Piece] = ["No worker is last most of the time."] if len(workers) != 1 else []
    return finding, details, no_findings


def _slowest_gradient(traces: TraceSet) -> list[list[Piece]]:
    """Return a sentence about the slowest gradient and the queues or stage that explain it."""
    gradients = by_tensor(analysis.byteps_gradients(traces))
    if gradients.empty:
        return []
    has_only_roots = bool(gradients["root"].all())
    queueing = gradients if has_only_roots else gradients[~gradients["root"]]
    queue_share = int(queueing["queue_ns"].sum()) / max(int(queueing["total_ns"].sum()), 1)
    mean_ns = gradients["total_ns"] / gradients["count"]
    slowest = int(mean_ns.to_numpy().argmax())
    longest = f"{gradients['tensor'][slowest]} takes longest, {duration(float(mean_ns[slowest]))}"
    if gradients.groupby(["job", "worker"]).ngroups > 1:
        longest += f" on worker {gradients['worker'][slowest]}"
    if queue_share >= _MUCH_QUEUE:
        where = "in queues" if has_only_roots else "for the GPU that talks to the servers"
        waiting = f"{share(queue_share)} of a gradient's time is spent waiting {where}"
        return [[f"{waiting}; {longest}."]]
    stages = analysis.byteps_stages(traces)
    if has_only_roots:
        stages = stages[stages["root"]]
    longest_stage = stages["stage"].iloc[int(stages["mean_ns"].to_numpy().argmax())]
    return [[f"{longest}; the longest stage is {longest_stage}."]]


def _late_by_pulls(traces: TraceSet) -> list[HeadlineFinding]:
    """Return a finding for each worker whose PULLs are consistently the shortest."""
    if "byteps" not in traces.formats:
        return []
    workers = [trace for trace in traces.values() if trace.format == "byteps"]
    findings = []
    for _, blame in analysis.byteps_pull_blame(traces).groupby("job", dropna=False):
        cost_ns = int(blame["slack_ns"].sum())
        share_of_pulls = cost_ns / max(int(blame["pull_ns"].sum()), 1)
        for row in blame[blame["straggler"]].to_dict("records"):
            worker = row["worker"], row["job"]
            ranks = [trace.rank for trace in workers if (trace.worker, trace.job) == worker]
            times_last = count(round(row["blame"] * row["pulls"]))
            text = (
                f"{_of_job(row['job'], traces)} is last in {times_last} of"
                f" {count(row['pulls'])} partitions and steps: the others' PULLs wait"
                f" {duration(cost_ns)} for it, {share(share_of_pulls)} of all PULL time."
            )
            parts: list[Piece] = [{"rank": ranks[-1], "text": f"Worker {row['worker']}"}, text]
            label, chosen = f"Select worker {row['worker']}", Selection(ranks=tuple(ranks))
            findings.append(HeadlineFinding("waiting", share_of_pulls, parts, label, chosen))
    return findings


def _of_job(job: str | None, traces: TraceSet) -> str:
    """Return a phrase that names a worker's job; "" if the trace set has only one BytePS job."""
    jobs = {trace.job for trace in traces.values() if trace.format in {"byteps", "byteps-server"}}
    return f" of {job or 'the unnamed job'}" if len(jobs) > 1 else ""


def _late_by_servers(traces: TraceSet) -> list[HeadlineFinding]:
    if "byteps-server" not in traces.formats:
        return []
    lag = analysis.byteps_worker_lag(traces)
    pulls = Selection(query="name.str.startswith('pull-')")
    findings = []
    for row in lag[lag["straggler"]].to_dict("records"):
        times_last = count(round(row["score"] * row["iterations"]))
        text = (
            f"{row['label'].capitalize()}{_of_job(row['job'], traces)} is last in {times_last} of"
            f" {count(row['iterations'])} pushes, {duration(row['mean_lag_ns'])} behind: the"
            f" others' pulls wait {duration(row['imposed_wait_ns'])} for it."
        )
        findings.append(
            HeadlineFinding("waiting", float(row["score"]), [text], "Select pulls", pulls)
        )
    return findings
