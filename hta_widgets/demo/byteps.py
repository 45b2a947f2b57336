"""BytePS runs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError

_ROOT = ("REDUCE", "COPYD2H", "PUSH", "PULL", "COPYH2D", "BROADCAST")
_PARTITION_BYTES = 1_048_576
_LATENCY_US = 20
_BYTES_PER_US = 1250  # 10 Gbit/s
_COPY_BYTES_PER_US = 6000
_BETWEEN_GRADIENTS_US = 900


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a tensor, as BytePS cuts it."""

    tensor: str
    key: int
    size_bytes: int
    server: int


@dataclass(slots=True)
class Plan:
    """What is drawn before anything happens."""

    workers: int
    local_ranks: int
    servers: int
    steps: int
    first_step: int
    slow_worker: int | None
    partitions: list[Partition]
    node_of: list[int]
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Whole:
    """One synchronisation of a tensor on one GPU."""

    tensor: str
    start: int
    dur: int


@dataclass(frozen=True, slots=True)
class Request:
    """One push or pull as its server saw it."""

    server: int
    node: int
    key: int
    push: bool
    start: int
    end: int


@dataclass(slots=True)
class Job:
    """What happened; stages by (worker, GPU, key, stage), each a list of (start, dur) by step."""

    totals: dict[tuple[int, int, str], list[Whole]] = field(default_factory=dict)
    stages: dict[tuple[int, int, int, str], list[tuple[int, int]]] = field(default_factory=dict)
    #: waited before the stage, by (worker, GPU, stage)
    queues: dict[tuple[int, int, str], int] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)


@dataclass(slots=True)
class _Lane:
    """One partition's way through the stages of one GPU in one step."""

    at: int  # when it entered the queue that it is in
    spans: list[tuple[str, int, int]] = field(default_factory=list)

    def take(self, stage: str, start: int, end: int) -> None:
        self.spans.append((stage, start, end))
        self.at = end


def simulate(plan: Plan) -> Job:
    """Let all steps happen, those before the traced ones included."""
    job = Job()
    begin = 1_700_000_000_000_000 + plan.rng.randrange(10**9)
    for step in range(1, plan.first_step + plan.steps):
        traced = step >= plan.first_step
        begin = _step(plan, job, begin, traced=traced)
    job.requests.sort(key=lambda request: request.start)
    return job


def _step(plan: Plan, job: Job, begin: int, *, traced: bool) -> int:
    rng = plan.rng
    tensors = list(dict.fromkeys(part.tensor for part in plan.partitions))[::-1]
    ready: dict[tuple[int, str], int] = {}
    for worker in range(plan.workers):
        late = 12_000 + rng.randrange(2000) if worker == plan.slow_worker else rng.randrange(400)
        for place, tensor in enumerate(tensors):
            at = begin + late + (place + 1) * _BETWEEN_GRADIENTS_US + rng.randrange(200)
            ready[worker, tensor] = at
    order = [part for tensor in tensors for part in plan.partitions if part.tensor == tensor]
    enqueued = {
        (worker, gpu, tensor): ready[worker, tensor] + rng.randrange(6)
        for worker in range(plan.workers)
        for gpu in range(plan.local_ranks)
        for tensor in tensors
    }
    lanes = {
        (worker, gpu, part.key): _Lane(enqueued[worker, gpu, part.tensor] + rng.randrange(3))
        for worker in range(plan.workers)
        for gpu in range(plan.local_ranks)
        for part in order
    }
    for worker in range(plan.workers):
        _to_host(plan, worker, order, lanes)
    if plan.servers:
        _over_the_net(plan, job, order, lanes)
    end = begin
    for worker in range(plan.workers):
        _to_devices(plan, worker, order, lanes)
    for (worker, gpu, tensor), start in enqueued.items():
        own = [lanes[worker, gpu, part.key] for part in order if part.tensor == tensor]
        last = max(lane.at for lane in own) + rng.randrange(4)
        end = max(end, last)
        if traced:
            whole = Whole(tensor, start, last - start)
            job.totals.setdefault((worker, gpu, tensor), []).append(whole)
    if traced:
        _keep(job, order, lanes, enqueued)
    return end + 20_000 + rng.randrange(1000)


def _to_host(
    plan: Plan, worker: int, order: list[Partition], lanes: dict[tuple[int, int, int], _Lane]
) -> None:
    """Reduce among the worker's GPUs, and copy to the host."""
    rng, root = plan.rng, plan.local_ranks - 1
    for gpu in range(plan.local_ranks):
        reducing = copying = 0
        for part in order:
            lane = lanes[worker, gpu, part.key]
            if gpu != root:
                start = lane.at + rng.randrange(8)
                lane.take("COORDINATE_REDUCE", start, start + rng.randrange(3))
            start = max(lane.at + rng.randrange(8), reducing)
            reducing = start + 10 + part.size_bytes // _COPY_BYTES_PER_US + rng.randrange(5)
            lane.take("REDUCE", start, reducing)
            if not plan.servers:
                continue
            start = max(lane.at + rng.randrange(8), copying)
            copying = start + 4 + part.size_bytes // _COPY_BYTES_PER_US
            lane.take("COPYD2H", start, copying)
            if gpu != root:
                start = lane.at + rng.randrange(8)
                lane.take("COORDINATE_PUSH", start, start + rng.randrange(3))


def _over_the_net(
    plan: Plan, job: Job, order: list[Partition], lanes: dict[tuple[int, int, int], _Lane]
) -> None:
    """Push to the servers and pull from them: a pull is answered when all have pushed."""
    rng, root = plan.rng, plan.local_ranks - 1
    arrivals = []
    for worker in range(plan.workers):
        link = dict.fromkeys(range(plan.servers), 0)
        for part in order:
            lane = lanes[worker, root, part.key]
            others = [lanes[worker, gpu, part.key].at for gpu in range(root)]
            sent = max(lane.at, *others, 0) + rng.randrange(8)
            leaves = max(sent, link[part.server])
            link[part.server] = leaves + part.size_bytes // _BYTES_PER_US
            arrived = link[part.server] + _LATENCY_US + rng.randrange(10)
            arrivals.append((arrived, worker, sent, part))
    thread = dict.fromkeys(range(plan.servers), 0)
    pushed: dict[int, int] = {}
    sent_pulls = []
    for arrived, worker, sent, part in sorted(arrivals, key=lambda a: a[:2]):
        done = max(arrived, thread[part.server]) + 6 + part.size_bytes // 5000
        thread[part.server] = done
        pushed[part.key] = max(pushed.get(part.key, 0), done)
        job.requests.append(
            Request(part.server, plan.node_of[worker], part.key, True, arrived, done)
        )
        lane = lanes[worker, root, part.key]
        lane.take("PUSH", sent, done + _LATENCY_US + rng.randrange(10))
        sent_pulls.append((worker, part, lane.at + rng.randrange(5)))
    for worker, part, sent in sent_pulls:
        arrived = sent + _LATENCY_US + rng.randrange(10)
        done = max(arrived, pushed[part.key]) + 5 + rng.randrange(5)
        job.requests.append(
            Request(part.server, plan.node_of[worker], part.key, False, arrived, done)
        )
        data = done + _LATENCY_US + part.size_bytes // _BYTES_PER_US + rng.randrange(10)
        lanes[worker, root, part.key].take("PULL", sent, data)


def _to_devices(
    plan: Plan, worker: int, order: list[Partition], lanes: dict[tuple[int, int, int], _Lane]
) -> None:
    """Copy to the devices and broadcast there; others than the root wait for its word."""
    rng, root = plan.rng, plan.local_ranks - 1
    word: dict[int, int] = {}
    for gpu in reversed(range(plan.local_ranks)):
        arriving = sorted(order, key=lambda part: lanes[worker, gpu, part.key].at)
        copying = casting = 0
        if plan.servers and gpu != root:
            arriving = sorted(order, key=lambda part: word[part.key])
        for part in arriving:
            lane = lanes[worker, gpu, part.key]
            if plan.servers:
                told = lane.at if gpu == root else max(lane.at, word[part.key])
                start = max(told + rng.randrange(8), copying)
                if gpu == root:
                    word[part.key] = start + rng.randrange(4)
                copying = start + 4 + part.size_bytes // _COPY_BYTES_PER_US
                lane.take("COPYH2D", start, copying)
            if gpu != root:
                start = lane.at + rng.randrange(8)
                lane.take("COORDINATE_BROADCAST", start, start + rng.randrange(3))
            start = max(lane.at + rng.randrange(8), casting)
            casting = start + 10 + part.size_bytes // _COPY_BYTES_PER_US
            lane.take("BROADCAST", start, casting)


def _keep(
    job: Job,
    order: list[Partition],
    lanes: dict[tuple[int, int, int], _Lane],
    enqueued: dict[tuple[int, int, str], int],
) -> None:
    tensor_of = {part.key: part.tensor for part in order}
    for (worker, gpu, key), lane in lanes.items():
        free = enqueued[worker, gpu, tensor_of[key]]
        for stage, start, end in lane.spans:
            job.stages.setdefault((worker, gpu, key, stage), []).append((start, end - start))
            place = (worker, gpu, stage)
            job.queues[place] = job.queues.get(place, 0) + start - free
            free = end


def cut_into_partitions(sizes: dict[str, int], first_key: int, servers: int) -> list[Partition]:
    """Cut tensors as BytePS does, and spread the keys over the servers by its default hash."""
    parts = []
    for place, (tensor, size) in enumerate(sizes.items()):
        for number in range(-(-size // _PARTITION_BYTES)):
            key = (first_key + place) << 16 | number
            length = min(_PARTITION_BYTES, size - number * _PARTITION_BYTES)
            parts.append(Partition(tensor, key, length, _djb2(str(key)) % max(servers, 1)))
    return parts


def _djb2(text: str) -> int:
    value = 5381
    for character in text:
        value = (value * 33 + ord(character)) % (1 << 64)
    return value


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
