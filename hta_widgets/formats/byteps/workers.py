"""Gradients, stages, pull blame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import (
    Part,
    by_column,
    categorical,
    joined_columns,
    parts,
    result,
)
from hta_widgets.errors import TraceError
from hta_widgets.formats.byteps.rows import (
    STAGES,
    Requests,
    StageRows,
    TotalRows,
    WorkerRows,
    partition,
    requests_of,
    worker_rows,
)
from hta_widgets.trace.intervals import total, union
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

Bools = npt.NDArray[np.bool_]

#: Who is last this often is late by more than chance.
CONSISTENT_SHARE = 0.8
NO_WORKERS = "no BytePS worker traces (comm.json) among what was loaded"
NO_SERVERS = "no BytePS server profiles (server_profile.json) among what was loaded"


def worker_parts(
    traces: TraceSet,
    selection: Selection | str | None,
    window: tuple[int, int] | None,
    ranks: Iterable[int] | None,
) -> list[tuple[Part, WorkerRows, Bools]]:
    """Return the workers' GPUs, their rows, and which events are selected, by id."""
    found = []
    for part in parts(traces, selection, window, ranks):
        if part.trace.format == "byteps":
            chosen = np.zeros(len(part.trace), np.bool_)
            chosen[part.rows] = True
            found.append((part, worker_rows(part.trace), chosen))
    return found


def server_parts(
    traces: TraceSet,
    selection: Selection | str | None,
    window: tuple[int, int] | None,
    ranks: Iterable[int] | None,
) -> list[tuple[Part, Requests, Bools]]:
    """Return the servers, their requests, and which of these are selected.

    Requests that were never answered are no events: they count where nothing is selected by name,
    kind or id, and where they begin in the window.
    """
    found = []
    for part in parts(traces, selection, window, ranks):
        if part.trace.format != "byteps-server":
            continue
        requests = requests_of(part.trace)
        chosen = np.zeros(len(part.trace) + 1, np.bool_)
        chosen[part.rows] = True
        picked = chosen[requests.row]  # row -1 is the last entry: not chosen
        if len(part.rows) == len(part.trace) or (part.low, part.high) != (None, None):
            opened = ~requests.closed
            if part.low is not None:
                opened &= requests.start_ns >= part.low
            if part.high is not None:
                opened &= requests.start_ns < part.high
            picked |= opened
        found.append((part, requests, picked))
    return found


def told_jobs(found: Iterable[Part]) -> list[str]:
    """Return the jobs of some ranks, in order; nothing for those that no folder names."""
    return sorted({part.trace.job or "" for part in found})


Ints = npt.NDArray[np.int64]


def byteps_gradients(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return what each synchronisation of each tensor spent its time on.

    BytePS cuts a tensor into partitions, which go through the stages of a pipeline one by one. A
    stage ends the moment its task enters the next queue, so the gap to the next stage is waiting
    in that queue and nothing else. Of the partition that ends last, the critical one,

        total = work (its stages) + queue (its gaps) + tail (until the framework was told),

    exactly. Stages of other partitions overlap with these and are not added.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only synchronisations whose ``total`` event is selected; each counts whole.
    window : (int, int), optional
        Only those that overlap it.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per worker, GPU, tensor and step, with

        ``rank`` : int64
        ``worker, local_rank`` : int64
        ``tensor`` : category
            Without the ``Comm.`` of the file.
        ``step`` : int64
            From 0 in the file; BytePS does not write which step of the training it was.
        ``start_ns, total_ns`` : int64
        ``busy_ns, queue_ns, tail_ns`` : int64
            Of the critical partition; -1 where the file has no stage of the tensor and step.
        ``critical_partition`` : int64
            ``key & 0xFFFF``, -1 for none.
        ``critical_key`` : int64
        ``critical`` : bool
            Whether it ends last of all tensors of its GPU and step: what the step waits for.
        ``root`` : bool
            Whether the GPU is the one that talks to the servers. On other GPUs ``queue_ns`` holds
            the way to the servers and back.
        ``job`` : object

        ``.attrs["unfinished"]``: how many totals state no duration; they are left out.
        ``.attrs["incomplete"]``: rows that have partitions which lack a stage, as the file was cut
        off; these cannot be found critical.

    Notes
    -----
    Definition: BytePS's source; a maintainer's remark that bars "may include queuing" holds within
    REDUCE, BROADCAST, PUSH and PULL alone, whose own queues are not seen.
    """
    found = worker_parts(traces, selection, window, ranks)
    names: dict[str, int] = {}
    blocks: list[dict[str, Ints]] = []
    jobs: list[str | None] = []
    matched = {"totals": 0, "stages": 0}
    unfinished = incomplete = 0
    for part, rows, chosen in found:
        totals = rows.totals
        kept = chosen[totals.row] & (totals.dur_ns > 0)
        unfinished += int((chosen[totals.row] & (totals.dur_ns == 0)).sum())
        matched["totals"] += int(kept.sum())
        matched["stages"] += int(chosen[rows.parts.row].sum())
        of_total = _critical(rows)
        own = _sorted(totals, np.flatnonzero(kept))
        incomplete += int(of_total["incomplete"][own].sum())
        code = np.array([names.setdefault(name, len(names)) for name in rows.tensors], np.int64)
        count = len(own)
        jobs += [part.trace.job] * count
        blocks.append(
            {
                "rank": np.full(count, part.rank),
                "worker": np.full(count, part.trace.worker),
                "local_rank": np.full(count, part.trace.local_rank),
                "tensor": code[totals.tensor[own]] if count else np.empty(0, np.int64),
                "step": totals.step[own],
                "start_ns": totals.start_ns[own] + part.trace.shift_ns,
                "total_ns": totals.dur_ns[own],
                "busy_ns": of_total["busy"][own],
                "queue_ns": of_total["queue"][own],
                "tail_ns": of_total["tail"][own],
                "critical_partition": of_total["partition"][own],
                "critical_key": of_total["key"][own],
                "critical": of_total["last"][own],
                "root": np.full(count, rows.is_root),
            }
        )
    data = joined_columns(blocks, _COLUMNS, critical=np.bool_, root=np.bool_)
    return result(
        {
            **{name: data[name] for name in ("rank", "worker", "local_rank")},
            "tensor": categorical(data["tensor"], list(names)),
            **{name: data[name] for name in _COLUMNS[4:]},
            "job": pd.Series(jobs, dtype=object),
        },
        matched=matched,
        note=_note(len(found), unfinished, incomplete),
        unfinished=unfinished,
        incomplete=incomplete,
    )


_COLUMNS = (
    "rank",
    "worker",
    "local_rank",
    "tensor",
    "step",
    "start_ns",
    "total_ns",
    "busy_ns",
    "queue_ns",
    "tail_ns",
    "critical_partition",
    "critical_key",
    "critical",
    "root",
)


def _note(workers: int, unfinished: int, incomplete: int) -> str:
    if not workers:
        return NO_WORKERS
    notes = []
    if unfinished:
        notes.append(f"{unfinished} synchronisations were not finished and are left out")
    if incomplete:
        notes.append(
            f"{incomplete} have partitions that the file cuts off: another may be the critical one"
        )
    return "; ".join(notes)


def _sorted(totals: TotalRows, at: Ints) -> Ints:
    return at[np.lexsort((totals.tensor[at], totals.start_ns[at], totals.step[at]))]


def _critical(rows: WorkerRows) -> dict[str, Ints]:
    """Return for each total what its critical partition did; -1 where it has none."""
    totals, parts = rows.totals, rows.parts
    none = np.full(len(totals.row), -1, np.int64)
    answer = {name: none.copy() for name in ("busy", "queue", "tail", "partition", "key")}
    answer["incomplete"] = np.zeros(len(none), np.int64)  # totals that have incomplete ones
    answer["last"] = _last_of_step(totals)
    starts = np.flatnonzero(parts.first)
    if not len(starts) or not len(none):
        return answer
    end = parts.start_ns + parts.dur_ns
    of_partition = {
        "busy": np.add.reduceat(parts.dur_ns, starts),
        "queue": np.add.reduceat(parts.queue_ns, starts),
        "end": np.maximum.reduceat(end, starts),
    }
    tensor, step, key = parts.tensor[starts], parts.step[starts], parts.key[starts]
    # The last to end; of several that end at once, the one with the lowest key.
    steps = int(max(totals.step.max(), step.max())) + 1
    whole = parts.complete[starts]
    torn = np.zeros(len(rows.tensors) * steps, np.int64)
    torn[(tensor * steps + step)[~whole]] = 1
    answer["incomplete"] = torn[totals.tensor * steps + totals.step]
    order = np.lexsort((-key, of_partition["end"], step, tensor))
    order = order[whole[order]]
    if not len(order):
        return answer
    last = np.append((np.diff(tensor[order]) != 0) | (np.diff(step[order]) != 0), True)
    critical = order[last]
    place = np.full(len(rows.tensors) * steps, -1, np.int64)
    place[tensor[critical] * steps + step[critical]] = critical
    at = place[totals.tensor * steps + totals.step]
    known = at >= 0
    found = at[known]
    answer["busy"][known] = of_partition["busy"][found]
    answer["queue"][known] = of_partition["queue"][found]
    answer["tail"][known] = (totals.start_ns + totals.dur_ns)[known] - of_partition["end"][found]
    answer["key"][known] = key[found]
    answer["partition"][known] = partition(key[found])
    return answer


def _last_of_step(totals: TotalRows) -> Ints:
    """Tell the total that ends last in each step."""
    last = np.zeros(len(totals.row), np.int64)
    # Of several that end at once, the one that began first.
    order = np.lexsort((-totals.start_ns, totals.start_ns + totals.dur_ns, totals.step))
    ends = np.append(np.diff(totals.step[order]) != 0, True) if len(order) else order[:0]
    last[order[np.flatnonzero(ends)]] = 1
    return last


def byteps_gradient_stages(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return, stage by stage, what the critical partition of each synchronisation did.

    The rows of one tensor and step, and the ``tail_ns`` of `byteps_gradients`, add up to its
    ``total_ns``: a stage's own time, and the queue before it. On GPUs other than the root the queue
    before COPYH2D is the whole way to the servers and back: waiting for the root, not copying.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        As for `byteps_gradients`.

    Returns
    -------
    DataFrame
        One row per stage of a critical partition: ``rank, worker, local_rank`` (int64)``, tensor``
        (category)``, step, stage`` (category, in the order of the pipeline)``, start_ns, dur_ns,
        queue_ns`` (int64) and ``waits_for_root`` (bool).
    """
    found = worker_parts(traces, selection, window, ranks)
    gradients = byteps_gradients(traces, selection=selection, window=window, ranks=ranks)
    tensors: dict[str, int] = {}
    stages: list[str] = []
    for _, rows, _ in found:
        stages += [name for name in rows.stages if name not in stages]
        for name in rows.tensors:
            tensors.setdefault(name, len(tensors))
    blocks: list[dict[str, npt.NDArray[np.generic]]] = []
    for part, rows, _ in found:
        mine = gradients[(gradients["rank"] == part.rank) & (gradients["critical_partition"] >= 0)]
        at = _of_partitions(rows.parts, mine["critical_key"], mine["step"])
        tensor_code = np.array([tensors[name] for name in rows.tensors], np.int64)
        stage_code = np.array([stages.index(name) for name in rows.stages], np.int64)
        parts = rows.parts
        copy = rows.stages.index("COPYH2D")
        waits = (parts.stage[at] == copy) & (parts.queue_ns[at] > 0) & (not rows.is_root)
        blocks.append(
            {
                "rank": np.full(len(at), part.rank),
                "worker": np.full(len(at), part.trace.worker),
                "local_rank": np.full(len(at), part.trace.local_rank),
                "tensor": tensor_code[parts.tensor[at]] if len(at) else at,
                "step": parts.step[at],
                "stage": stage_code[parts.stage[at]],
                "start_ns": parts.start_ns[at] + part.trace.shift_ns,
                "dur_ns": parts.dur_ns[at],
                "queue_ns": parts.queue_ns[at],
                "waits_for_root": waits,
            }
        )
    data = joined_columns(blocks, _STAGE_COLUMNS, waits_for_root=np.bool_)
    return result(
        {
            **data,
            "tensor": categorical(data["tensor"], list(tensors)),
            "stage": categorical(data["stage"], stages),
        },
        matched=gradients.attrs["matched"],
        note=gradients.attrs.get("note", ""),
    )


_STAGE_COLUMNS = (
    "rank",
    "worker",
    "local_rank",
    "tensor",
    "step",
    "stage",
    "start_ns",
    "dur_ns",
    "queue_ns",
    "waits_for_root",
)


def _of_partitions(rows: StageRows, key: pd.Series, step: pd.Series) -> Ints:
    steps = int(rows.step.max(initial=0)) + 1
    wanted = key.to_numpy() * steps + step.to_numpy()
    return np.flatnonzero(np.isin(rows.key * steps + rows.step, wanted))


def byteps_pull_blame(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per worker how often its pull was the shortest, and how long others waited longer.

    A server answers a pull when all workers' pushes of the same partition and iteration are in.
    Who pushes last pulls last and waits least: the worker with the *shortest* PULL is the one that
    the others waited for. This compares durations only, so clocks need not agree.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only selected PULLs count.
    window : (int, int), optional
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per worker, with

        ``worker`` : int64
        ``blame`` : float64
            Share of (partition, step) in which it alone had the shortest PULL. About one over the
            number of workers means chance; above 0.8 it is a consistent straggler.
        ``slack_ns`` : int64
            Sum of how much longer its PULLs took than the shortest: its wait for others.
        ``pulls`` : int64
            How many (partition, step) all workers have; others do not count.
        ``pull_ns`` : int64
            Sum of its PULLs among them.
        ``straggler`` : bool
        ``job`` : object
    """
    pulls = byteps_pulls(traces, selection=selection, window=window, ranks=ranks)
    rows: list[tuple[int, float, int, int, int, bool, str | None]] = []
    for job in pulls["job"].unique().tolist() if len(pulls) else []:
        of_job = pulls[pulls["job"] == job]
        workers = sorted(of_job["worker"].unique().tolist())
        count = len(of_job) // len(workers)
        for worker in workers:
            own = of_job[of_job["worker"] == worker]
            blame = float(own["shortest"].mean())
            rows.append(
                (
                    worker,
                    blame,
                    int(own["slack_ns"].sum()),
                    count,
                    int(own["dur_ns"].sum()),
                    blame > CONSISTENT_SHARE,
                    job or None,
                )
            )
    return result(
        by_column(rows, _BLAME),
        matched=pulls.attrs["matched"],
        note=pulls.attrs.get("note", ""),
        dropped=pulls.attrs["dropped"],
    )


_BLAME = {
    "worker": np.int64,
    "blame": np.float64,
    "slack_ns": np.int64,
    "pulls": np.int64,
    "pull_ns": np.int64,
    "straggler": np.bool_,
    "job": object,
}


def byteps_pulls(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the PULLs of all workers for the same partition and step beside each other.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        As for `byteps_pull_blame`.

    Returns
    -------
    DataFrame
        One row per partition, step and worker: ``job`` (object, empty for none)``, key, step,
        worker, rank, id, start_ns, dur_ns, slack_ns`` (int64, over the shortest)`` and
        ``shortest`` (bool, whether it alone is). ``.attrs["dropped"]``: PULLs of which another
        worker has none.
    """
    found = worker_parts(traces, selection, window, ranks)
    blocks: list[dict[str, Ints]] = []
    jobs: list[str] = []
    matched = dropped = 0
    few = True
    for job in told_jobs(part for part, _, _ in found):
        own: list[dict[str, Ints]] = []
        for part, rows, chosen in found:
            if (part.trace.job or "") != job:
                continue
            pull = rows.parts.stage == rows.stages.index("PULL")
            at = np.flatnonzero(pull & chosen[rows.parts.row])
            own.append(
                {
                    "key": rows.parts.key[at],
                    "step": rows.parts.step[at],
                    "worker": np.full(len(at), part.trace.worker),
                    "rank": np.full(len(at), part.rank),
                    "id": rows.parts.row[at],
                    "start_ns": rows.parts.start_ns[at] + part.trace.shift_ns,
                    "dur_ns": rows.parts.dur_ns[at],
                }
            )
        data = joined_columns(own, _PULL_BLAME_COLUMNS[:-2])
        matched += len(data["key"])
        workers = len(np.unique(data["worker"]))
        if workers < 2:
            continue
        few = False
        data, lost = _of_all(data, workers)
        dropped += lost
        shortest = data["dur_ns"].reshape(-1, workers).min(axis=1)
        slack = data["dur_ns"] - np.repeat(shortest, workers)
        alone = (slack.reshape(-1, workers) == 0).sum(axis=1) == 1
        data["slack_ns"], data["shortest"] = slack, (slack == 0) & np.repeat(alone, workers)
        blocks.append(data)
        jobs += [job] * len(slack)
    note = NO_WORKERS if not found else "it takes PULLs of two workers or more" if few else ""
    whole = joined_columns(blocks, _PULL_BLAME_COLUMNS, shortest=np.bool_)
    return result(
        {"job": pd.Series(jobs, dtype=object), **whole},
        matched={"PULL": matched},
        note=note,
        dropped=dropped,
    )


_PULL_BLAME_COLUMNS = (
    "key",
    "step",
    "worker",
    "rank",
    "id",
    "start_ns",
    "dur_ns",
    "slack_ns",
    "shortest",
)


def _of_all(data: dict[str, Ints], workers: int) -> tuple[dict[str, Ints], int]:
    """Keep what every worker has exactly once, in the order of (key, step, worker)."""
    order = np.lexsort((data["worker"], data["step"], data["key"]))
    data = {name: values[order] for name, values in data.items()}
    new = np.append(True, (np.diff(data["key"]) != 0) | (np.diff(data["step"]) != 0))
    group = np.cumsum(new) - 1
    size = np.bincount(group)
    same = np.append(False, ~new[1:] & (np.diff(data["worker"]) == 0))
    twice = np.bincount(group[same], minlength=len(size)) > 0
    kept = ((size == workers) & ~twice)[group]
    return {name: values[kept] for name, values in data.items()}, int((~kept).sum())


def byteps_stages(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per GPU and stage how often, how long, how concurrently, and the queue before it.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only selected events count.
    window : (int, int), optional
        Only events that overlap it; their times are clipped to it, queues are whole.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per GPU and stage, along the pipeline, with

        ``rank, worker, local_rank`` : int64
        ``stage`` : category
            In the order of the pipeline; stages that BytePS itself does not have are placed
            behind those that they follow.
        ``count, sum_ns, union_ns`` : int64
            ``union_ns`` is when at least one partition was in the stage: ``sum_ns / union_ns``
            were at a time.
        ``mean_ns`` : float64
        ``max_ns`` : int64
        ``queue_ns`` : int64
            What tasks waited before the stage, since the one before ended or, of first stages,
            since the synchronisation began. Of a cut file, partitions that lack a stage in a step
            do not count here.
        ``root`` : bool
            Whether the GPU is the one that talks to the servers.
        ``waits_for_root`` : bool
            Whether ``queue_ns`` is waiting for the root's word: on other GPUs, the whole way to
            the servers and back lies in the queue before COPYH2D.
        ``job`` : object

    Notes
    -----
    Facts: BytePS's source. Grouped REDUCE and BROADCAST calls overlap and end together; PUSH and
    PULL include the network's and the server's queues, and PULL the other workers' pushes.
    """
    found = worker_parts(traces, selection, window, ranks)
    order: list[str] = list(STAGES)
    for _, rows, _ in found:
        order = _merged(order, rows.stages)
    lines: list[tuple[object, ...]] = []
    matched = dict.fromkeys(STAGES, 0)
    others = 0
    for part, rows, chosen in found:
        others += rows.others
        for code, name in enumerate(rows.stages):
            at = np.flatnonzero((rows.parts.stage == code) & chosen[rows.parts.row])
            matched[name] = matched.get(name, 0) + len(at)
            if not len(at):
                continue
            start, end = part.clipped(rows.parts.row[at])
            lines.append(
                (
                    part.rank,
                    part.trace.worker,
                    part.trace.local_rank,
                    order.index(name),
                    len(at),
                    int((end - start).sum()),
                    total(union(start, end)),
                    float((end - start).mean()),
                    int((end - start).max()),
                    int(rows.parts.queue_ns[at][rows.parts.complete[at]].sum()),
                    rows.is_root,
                    name == "COPYH2D" and not rows.is_root,
                    part.trace.job,
                )
            )
    columns = by_column(lines, _STAGE_FRAME_COLUMNS)
    return result(
        {**columns, "stage": categorical(columns["stage"], order)},
        matched={**matched, "others": others},
        note="" if found else NO_WORKERS,
    )


_STAGE_FRAME_COLUMNS = {
    "rank": np.int64,
    "worker": np.int64,
    "local_rank": np.int64,
    "stage": np.int64,
    "count": np.int64,
    "sum_ns": np.int64,
    "union_ns": np.int64,
    "mean_ns": np.float64,
    "max_ns": np.int64,
    "queue_ns": np.int64,
    "root": np.bool_,
    "waits_for_root": np.bool_,
    "job": object,
}


def _merged(order: list[str], more: list[str]) -> list[str]:
    """Put stages that are not known yet behind the one that they follow."""
    result_ = list(order)
    before = ""
    for name in more:
        if name not in result_:
            result_.insert(result_.index(before) + 1 if before else 0, name)
        before = name
    return result_


def byteps_steps(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per GPU and step how long its synchronisations took together, and what came last.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        Which synchronisations count; each counts whole.

    Returns
    -------
    DataFrame
        One row per GPU and step, with ``rank, worker, local_rank, step`` (int64), ``start_ns,
        span_ns`` (int64, from the first start to the last end of a synchronisation), ``sum_ns,
        union_ns`` (int64, of the synchronisations), ``concurrency`` (float64, their ratio),
        ``tensor`` (object, the one that ends last) and ``critical_key`` (int64).
    """
    gradients = byteps_gradients(traces, selection=selection, window=window, ranks=ranks)
    rows = []
    keys = ["rank", "worker", "local_rank", "step"]
    for place, group in gradients.groupby(keys, sort=True):
        start = group["start_ns"].to_numpy()
        end = start + group["total_ns"].to_numpy()
        last = (
            group[group["critical"]].iloc[0]
            if group["critical"].any()
            else group.iloc[int(end.argmax())]
        )
        covered = total(union(start, end))
        rows.append(
            (
                *place,
                int(start.min()),
                int(end.max() - start.min()),
                int((end - start).sum()),
                covered,
                float((end - start).sum() / covered),
                str(last["tensor"]),
                int(last["critical_key"]),
            )
        )
    names = [*keys, "start_ns", "span_ns", "sum_ns", "union_ns"]
    others = {"concurrency": np.float64, "tensor": object, "critical_key": np.int64}
    return result(
        by_column(rows, dict.fromkeys(names, np.int64) | others),
        matched=gradients.attrs["matched"],
        note=gradients.attrs.get("note", ""),
    )


def byteps_bandwidth(
    traces: TraceSet,
    sizes: Mapping[int, int],
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the rate at which root GPUs push to and pull from the servers.

    Traces state no sizes, so the caller must. The rate is bytes per time in which anything was
    under way: pushes overlap, so a mean of single ones would be too low. Pulls wait for the other
    workers, so theirs is a lower bound.

    Parameters
    ----------
    traces : TraceSet
    sizes : mapping of int to int
        Bytes of each partition by its key.
    selection, window, ranks
        Which events count; each counts whole.

    Returns
    -------
    DataFrame
        One row per root GPU and stage: ``rank, worker, local_rank`` (int64)``, stage``
        (category)``, bytes, union_ns`` (int64)``, mb_per_s`` (float64) and ``without_size``
        (int64, events that were left out because their key has none).

    Raises
    ------
    TraceError
        Where no key has a size.
    """
    if not sizes:
        raise TraceError("no sizes given", remedy="Give the bytes of each partition by its key.")
    stages = ("PUSH", "PULL")
    lines: list[tuple[float, ...]] = []
    matched = dict.fromkeys(stages, 0)
    found = worker_parts(traces, selection, window, ranks)
    for part, rows, chosen in found:
        known = np.array([int(sizes.get(key, -1)) for key in rows.parts.key.tolist()], np.int64)
        for code, stage in enumerate(stages):
            at = (rows.parts.stage == rows.stages.index(stage)) & chosen[rows.parts.row]
            matched[stage] += int(at.sum())
            sized = at & (known >= 0)
            if not sized.any():
                continue
            start = rows.parts.start_ns[sized]
            covered = total(union(start, start + rows.parts.dur_ns[sized]))
            size = int(known[sized].sum())
            rate = size / covered * 1e3 if covered else np.nan
            trace = part.trace
            lines.append(
                (
                    *(part.rank, trace.worker, trace.local_rank),
                    *(code, size, covered, rate),
                    int((at & ~sized).sum()),
                )
            )
    names = ("rank", "worker", "local_rank", "stage", "bytes", "union_ns")
    others = {"mb_per_s": np.float64, "without_size": np.int64}
    whole = by_column(lines, dict.fromkeys(names, np.int64) | others)
    return result(
        {**whole, "stage": categorical(whole["stage"], stages)},
        matched=matched,
        note="" if found else NO_WORKERS,
    )
