"""Write a made-up BytePS job in BytePS's own formats, whose truth is known."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError

from hta_widgets.demo.byteps_job import Job
from hta_widgets.demo.byteps_job import Plan
from hta_widgets.demo.byteps_job import Request
from hta_widgets.demo.byteps_job import cut_into_partitions
from hta_widgets.demo.byteps_job import simulate

__all__ = ["write_byteps_job"]

_STAGES = (
    "COORDINATE_REDUCE",
    "REDUCE",
    "COPYD2H",
    "COORDINATE_PUSH",
    "PUSH",
    "PULL",
    "COPYH2D",
    "COORDINATE_BROADCAST",
    "BROADCAST",
)
_FLUSHED_BYTES = 8191  # of a file stream's buffer, which is all that a killed server has written


def write_byteps_job(
    path: str | Path,
    workers: int = 2,
    local_ranks: int = 2,
    servers: int = 2,
    steps: int = 5,
    slow_worker: int | None = 1,
    seed: int = 0,
    *,
    gradients: int = 12,
    first_step: int = 3,
    skew_us: int = 200,
    category: bool = True,
    killed: bool = False,
    truth_path: str | Path | None = None,
) -> dict[str, Any]:
    """Write workers' ``comm.json`` and servers' ``server_profile.json`` of a job, and its truth.

    Files are what BytePS writes, byte for byte: whole microseconds, ids as strings in workers'
    files and as numbers of 64 bits in servers', tensors in no order, servers' lists never closed.
    The same arguments give the same bytes.

    Parameters
    ----------
    path : path-like
        The folder; made if it is not there. It gets ``worker<w>/traces/<local rank>/comm.json``
        and ``server<s>/server_profile.json``.
    workers, local_ranks, servers : int
        Machines, GPUs on each, and servers. Without servers there must be one worker, and nothing
        is pushed.
    steps : int
        That workers trace.
    slow_worker : int or None, default 1
        Comes to every step 12 ms late; none if None, or if there are fewer workers.
    seed : int
        Of sizes, noise, clocks and node ids.
    gradients : int, default 12
    first_step : int, default 3
        Which one of the training is the first that workers trace; servers see all.
    skew_us : int, default 200
        Clocks are off by up to this much; worker 0's is right.
    category : bool, default True
        Whether workers write ``"cat"``, as they do since December 2019.
    killed : bool, default False
        Whether servers lose what was not flushed when they were killed.
    truth_path : path-like, optional
        Where the truth goes. Default ``<path>.truth.json``, beside the folder.

    Returns
    -------
    dict
        The truth, as in the file, and its ``truth_path``. Times are in µs. ``nodes`` is ps-lite's
        id of each worker, ``clock_us`` what the clocks of workers and servers show too much,
        ``keys`` each partition, ``stages`` per GPU (``"w0g1"``) and stage ``count, sum_us,
        queue_us``, ``total_us`` per GPU, ``requests`` per server, ``lag_us`` and ``last`` per node
        over all (key, iteration), and ``pull_waits_us`` per node.

    Raises
    ------
    TraceError
        If the job cannot be.

    Examples
    --------
    >>> truth = write_byteps_job("byteps-demo")  # doctest: +SKIP
    >>> truth["slow_worker"]  # doctest: +SKIP
    1
    """
    _check(workers, local_ranks, servers, steps, gradients, first_step)
    rng = random.Random(f"byteps {seed}")  # noqa: S311 - noise, not secrets
    slow = slow_worker if slow_worker is not None and 0 <= slow_worker < workers > 1 else None
    sizes = {
        f"byteps.gradient_{number}": rng.choice((256, 4096, 147_456, 1_048_576, 2_359_296))
        + 4 * rng.randrange(64)
        for number in range(gradients)
    }
    nodes = [2 * rank + 9 for rank in range(workers)]
    rng.shuffle(nodes)
    plan = Plan(
        workers,
        local_ranks,
        servers,
        steps,
        first_step,
        slow,
        cut_into_partitions(sizes, gradients, servers),
        nodes,
        rng,
    )
    clocks = {
        "worker": [0, *(rng.randint(-skew_us, skew_us) for _ in range(workers - 1))],
        "server": [rng.randint(-skew_us, skew_us) for _ in range(servers)],
    }
    job = simulate(plan)
    folder = Path(path)
    for worker in range(workers):
        for gpu in range(local_ranks):
            text = _worker_file(plan, job, worker, gpu, clocks["worker"][worker], cat=category)
            _write(folder / f"worker{worker}/traces/{gpu}/comm.json", text)
    for server in range(servers):
        text = _server_file(plan, job, server, clocks["server"][server])
        if killed:
            text = text[: len(text) // _FLUSHED_BYTES * _FLUSHED_BYTES]
        _write(folder / f"server{server}/server_profile.json", text)
    truth = _truth(plan, job, clocks, seed)
    target = Path(truth_path) if truth_path else folder.with_name(f"{folder.name}.truth.json")
    target.write_text(json.dumps(truth, indent=1) + "\n", "utf-8")
    return {**truth, "truth_path": str(target)}


def _check(*sizes: int) -> None:
    workers, local_ranks, servers, steps, gradients, first_step = sizes
    if min(workers, local_ranks, steps, gradients, first_step) < 1 or servers < 0:
        raise TraceError("a job has at least one worker, GPU, step and gradient")
    if workers > 1 and not servers:
        raise TraceError("several workers need a server", remedy="Give servers=1 or more.")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


# --- the files ------------------------------------------------------------------------------------


def _worker_file(plan: Plan, job: Job, worker: int, gpu: int, clock: int, *, cat: bool) -> str:
    tensors = list(dict.fromkeys(part.tensor for part in plan.partitions))
    random.Random(f"order {worker} {gpu}").shuffle(tensors)  # noqa: S311 - of an unordered_map
    records = [
        record
        for tensor in tensors
        for record in _tensor_records(plan, job, (worker, gpu), tensor, clock, cat=cat)
    ]
    body = ",\n".join(records)
    return f'{{\n    "traceEvents": [\n{body}\n\n    ],\n    "displayTimeUnit": "ms"\n}}\n'


def _tensor_records(
    plan: Plan, job: Job, gpu: tuple[int, int], tensor: str, clock: int, *, cat: bool
) -> Iterator[str]:
    pid = f"Comm.{tensor}"
    for whole in job.totals[(*gpu, tensor)]:
        yield _record(pid, pid, whole.start + clock, whole.dur, "total", cat=cat)
    keys = [part.key for part in plan.partitions if part.tensor == tensor]
    for key in reversed(keys):
        for stage in reversed(_STAGES):
            for start, dur in job.stages.get((*gpu, key, stage), ()):
                yield _record(pid, f"{pid}.{stage}", start + clock, dur, str(key), cat=cat)


def _record(pid: str, name: str, start: int, dur: int, tid: str, *, cat: bool) -> str:
    lines = [
        '            "ph": "X"',
        f'            "args": {{\n                "name": "{pid}"\n            }}',
        f'            "pid": "{pid}"',
        f'            "name": "{name}"',
        f'            "ts": {start}',
        f'            "dur": {dur}',
        f'            "tid": "{tid}"',
        *(['            "cat": "Comm"'] if cat else []),
    ]
    return "        {\n" + ",\n".join(lines) + "\n        }"


def _server_file(plan: Plan, job: Job, server: int, clock: int) -> str:
    stride = ((1 << 64) - 1) // plan.servers
    stamps = []
    for request in job.requests:
        if request.server == server:
            name = f"{'push' if request.push else 'pull'}-{request.node}"
            key = request.key + server * stride
            for phase, time in (("B", request.start), ("E", request.end)):
                where = f'"pid": {key}, "tid": {key}, "ts": {time + clock}'
                stamps.append((time, f'\t\t{{"name": "{name}", "ph": "{phase}", {where}}}'))
    if not stamps:
        return ""  # the beginning of the file never left the buffer
    stamps.sort(key=lambda stamp: stamp[0])
    return '{\n\t"traceEvents": [\n' + ",\n".join(text for _, text in stamps)


# --- the truth ------------------------------------------------------------------------------------


def _truth(plan: Plan, job: Job, clocks: dict[str, list[int]], seed: int) -> dict[str, Any]:
    stages: dict[str, dict[str, dict[str, int]]] = {}
    for (worker, gpu, _, stage), spans in job.stages.items():
        own = stages.setdefault(f"w{worker}g{gpu}", {}).setdefault(
            stage,
            {"count": 0, "sum_us": 0, "queue_us": job.queues[worker, gpu, stage]},
        )
        own["count"] += len(spans)
        own["sum_us"] += sum(dur for _, dur in spans)
    totals: dict[str, int] = {}
    for (worker, gpu, _), wholes in job.totals.items():
        place = f"w{worker}g{gpu}"
        totals[place] = totals.get(place, 0) + sum(whole.dur for whole in wholes)
    stride = ((1 << 64) - 1) // max(plan.servers, 1)
    return {
        "workers": plan.workers,
        "local_ranks": plan.local_ranks,
        "servers": plan.servers,
        "steps": plan.steps,
        "first_step": plan.first_step,
        "seed": seed,
        "slow_worker": plan.slow_worker,
        "root_local_rank": plan.local_ranks - 1,
        "nodes": plan.node_of,
        "clock_us": clocks,
        "keys": [
            {
                "tensor": part.tensor,
                "key": part.key,
                "size_bytes": part.size_bytes,
                "server": part.server,
                # As text: numbers of 64 bits do not survive every JSON reader.
                "wire_key": str(part.key + part.server * stride),
            }
            for part in plan.partitions
        ],
        "stages": stages,
        "total_us": totals,
        "requests": [
            sum(request.server == server for request in job.requests)
            for server in range(plan.servers)
        ],
        **_arrivals(job.requests, plan),
    }


def _arrivals(requests: list[Request], plan: Plan) -> dict[str, Any]:
    """Who pushed how late, and whose pulls waited how long for the last push."""
    pushes: dict[tuple[int, int], list[Request]] = {}
    pulls: dict[tuple[int, int], list[Request]] = {}
    count: dict[tuple[int, int, bool], int] = {}
    for request in requests:
        sender = (request.key, request.node, request.push)
        iteration = count.get(sender, 0)
        count[sender] = iteration + 1
        own = pushes if request.push else pulls
        own.setdefault((request.key, iteration), []).append(request)
    lag, last, waits = (dict.fromkeys(map(str, sorted(plan.node_of)), 0) for _ in range(3))
    for place, of_all in pushes.items():
        first = min(push.start for push in of_all)
        latest = max(push.start for push in of_all)
        alone = sum(push.start == latest for push in of_all) == 1 < len(of_all)
        ready = max(push.end for push in of_all)
        for push in of_all:
            lag[str(push.node)] += push.start - first
            last[str(push.node)] += alone and push.start == latest
        for pull in pulls[place]:
            waits[str(pull.node)] += max(min(ready, pull.end) - pull.start, 0)
    return {
        "iterations": len(pushes),
        "lag_us": lag,
        "last": last,
        "pull_waits_us": waits,
    }
