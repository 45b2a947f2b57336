"""A made-up BytePS job: when each partition is in which stage, and what the servers see of it.

All times are whole microseconds on the true clock. A partition takes each resource in turn: its
GPU's reduction and copy engines, its worker's link to a server, that server's thread.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Job", "Partition", "Plan", "Request", "Whole", "simulate"]

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
