"""Write BytePS jobs with a known truth: ``comm.json`` of workers, profiles of servers."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from hta_widgets.arguments import Count, Size, check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.files import new_folder, target_path, write_text

_STAGES = (
    "COORDINATE_REDUCE", "REDUCE", "COPYD2H", "COORDINATE_PUSH", "PUSH", "PULL", "COPYH2D",
    "COORDINATE_BROADCAST", "BROADCAST",
)  # fmt: skip
_PARTITION_BYTES = 1_048_576
_LATENCY_US = 20
_BYTES_PER_US = 1250  # 10 Gbit/s
_COPY_BYTES_PER_US = 6000
_BETWEEN_GRADIENTS_US = 900
_FLUSHED_BYTES = 8191  # file buffer size; a killed server leaves a multiple of it
_IDS = (1 << 64) - 1  # range of keys, divided among the servers


@check_arguments
def write_byteps_job(
    path: str | Path,
    workers: Size = 2,
    local_ranks: Size = 2,
    servers: Annotated[int, range(1 << 16)] = 2,
    steps: Size = 5,
    slow_worker: int | None = 1,
    seed: Count = 0,
    *,
    gradients: Size = 12,
    first_step: Size = 3,
    skew_us: Count = 200,
    category: bool = True,
    killed: bool = False,
    truth_path: str | Path | None = None,
) -> dict[str, Any]:
    """Write the worker and server traces of a BytePS job, and the truth about it.

    The files are in BytePS's format: times in whole µs, ids as strings (workers) or 64-bit numbers
    (servers), tensors in arbitrary order, and unterminated JSON lists in server files. The output
    depends only on the arguments.

    Parameters
    ----------
    path : path-like
        Folder for ``worker<w>/traces/<local rank>/comm.json`` and
        ``server<s>/server_profile.json``; created if missing.
    workers, local_ranks, servers : int
        Number of machines, GPUs per machine, and servers. Without servers, there must be a single
        worker, and nothing is pushed.
    steps : int
        Number of steps that workers record.
    slow_worker : int or None, default 1
        Worker that starts every step 12 ms late. None, or a number beyond the workers, means no
        slow worker.
    seed : int
        Seed for sizes, noise, clocks and node ids.
    gradients : int, default 12
    first_step : int, default 3
        Number of the first step that workers record. Servers record all steps.
    skew_us : int, default 200
        Largest clock error. The clock of worker 0 is exact.
    category : bool, default True
        Write ``"cat"`` in worker files, as BytePS does since December 2019.
    killed : bool, default False
        Kill the servers before they flush the end of their files.
    truth_path : path-like, optional
        File for the truth. By default ``<path>.truth.json``, next to the folder.

    Returns
    -------
    dict
        The contents of the truth file, and its path in ``truth_path``. Times are in µs. ``nodes``
        has the ps-lite id of each worker, ``clock_us`` the clock errors of workers and servers,
        ``keys`` the key of each partition, ``stages`` for each GPU (``"w0g1"``) and stage ``count,
        sum_us, queue_us``, ``total_us`` the total per GPU, ``requests`` their number per server,
        ``lag_us`` and ``last`` the values per node over all pairs of key and iteration, and
        ``pull_waits_us`` the waiting time per node.
    """
    if workers > 1 and not servers:
        raise TraceError("several workers need a server", remedy="Give servers=1 or more.")
    rng = random.Random(f"byteps {seed}")
    slow = slow_worker if slow_worker is not None and 0 <= slow_worker < workers > 1 else None
    sizes = {
        f"byteps.gradient_{number}": rng.choice((256, 4096, 147_456, 1_048_576, 2_359_296))
        + 4 * rng.randrange(64)
        for number in range(gradients)
    }
    nodes = [2 * rank + 9 for rank in range(workers)]
    rng.shuffle(nodes)
    clocks = {
        "worker": [0, *(rng.randint(-skew_us, skew_us) for _ in range(workers - 1))],
        "server": [rng.randint(-skew_us, skew_us) for _ in range(servers)],
    }
    job = _BytepsJob(workers, local_ranks, servers, slow, _partitions(sizes, servers), nodes, rng)
    begin = 1_700_000_000_000_000 + rng.randrange(10**9)
    for step in range(1, first_step + steps):
        begin = job.run_step(begin, traced=step >= first_step)
    job.requests.sort(key=lambda request: request.start)
    folder = target_path(path).resolve()
    _write_files(folder, job, clocks, category=category, killed=killed)
    truth = {
        "workers": workers, "local_ranks": local_ranks, "servers": servers, "steps": steps,
        "first_step": first_step, "seed": seed, "slow_worker": slow,
        "root_local_rank": local_ranks - 1, "nodes": nodes, "clock_us": clocks, **_truth(job),
    }  # fmt: skip
    target = Path(truth_path) if truth_path else folder.with_name(f"{folder.name}.truth.json")
    write_text(target, json.dumps(truth, indent=1) + "\n")
    return {**truth, "truth_path": str(target)}


class _Partition(NamedTuple):
    """Part of a tensor. BytePS sends tensors in parts of at most 1 MiB."""

    tensor: str
    key: int
    size_bytes: int
    server: int


class _ServerRequest(NamedTuple):
    server: int
    node: int
    key: int
    push: bool
    start: int
    end: int


@dataclass(slots=True)
class _Lane:
    """A partition's stages on one GPU in one step; `at` is the end of the last stage."""

    enqueued: int
    at: int
    spans: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, stage: str, start: int, end: int) -> None:
        self.spans.append((stage, start, end))
        self.at = end


_Spans = list[tuple[int, int]]
_lists: Callable[[], Any] = partial(defaultdict, list)


@dataclass(slots=True)
class _BytepsJob:
    """A job and the records of its steps. Times are in µs."""

    workers: int
    local_ranks: int
    servers: int
    slow_worker: int | None
    partitions: list[_Partition]
    node_of: list[int]
    rng: random.Random
    #: (start, duration) of tensors by (worker, GPU, tensor), and of stages by (…, key, stage)
    totals: dict[tuple[int, int, str], _Spans] = field(default_factory=_lists)
    stages: dict[tuple[int, int, int, str], _Spans] = field(default_factory=_lists)
    #: waiting times before stages, keyed by (worker, GPU, stage)
    queues: dict[tuple[int, int, str], int] = field(default_factory=lambda: defaultdict(int))
    requests: list[_ServerRequest] = field(default_factory=list)
    #: current step: partitions in gradient order; lanes keyed by (worker, GPU, key)
    _order: list[_Partition] = field(default_factory=list)
    _lanes: dict[tuple[int, int, int], _Lane] = field(default_factory=dict)

    def run_step(self, begin: int, *, traced: bool) -> int:
        """Run a step, record it if `traced`, and return the start of the next step."""
        rng = self.rng
        tensors = list(dict.fromkeys(part.tensor for part in self.partitions))[::-1]
        ready = self._ready_times(begin, tensors)
        self._order = sorted(self.partitions, key=lambda part: tensors.index(part.tensor))
        gpus = list(itertools.product(range(self.workers), range(self.local_ranks)))
        enqueued = {
            (worker, gpu, tensor): ready[worker, tensor] + rng.randrange(6)
            for worker, gpu in gpus
            for tensor in tensors
        }
        self._lanes = {}
        for worker, gpu in gpus:
            for part in self._order:
                time_us = enqueued[worker, gpu, part.tensor]
                self._lanes[worker, gpu, part.key] = _Lane(time_us, time_us + rng.randrange(3))
        for worker in range(self.workers):
            self._copy_to_host(worker)
        if self.servers:
            self._push_and_pull()
        for worker in range(self.workers):
            self._copy_to_devices(worker)
        step_end = begin
        for (worker, gpu, tensor), start in enqueued.items():
            keys = [part.key for part in self._order if part.tensor == tensor]
            end = max(self._lanes[worker, gpu, key].at for key in keys) + rng.randrange(4)
            step_end = max(step_end, end)
            if traced:
                self.totals[worker, gpu, tensor].append((start, end - start))
        if traced:
            self._record_stages()
        return step_end + 20_000 + rng.randrange(1000)

    def _ready_times(self, begin: int, tensors: list[str]) -> dict[tuple[int, str], int]:
        ready: dict[tuple[int, str], int] = {}
        for worker in range(self.workers):
            is_slow = worker == self.slow_worker
            delay_us = 12_000 + self.rng.randrange(2000) if is_slow else self.rng.randrange(400)
            for number, tensor in enumerate(tensors, 1):
                computed_us = begin + delay_us + number * _BETWEEN_GRADIENTS_US
                ready[worker, tensor] = computed_us + self.rng.randrange(200)
        return ready

    def _record_stages(self) -> None:
        for (worker, gpu, key), lane in self._lanes.items():
            free = lane.enqueued
            for stage, start, stop in lane.spans:
                self.stages[worker, gpu, key, stage].append((start, stop - start))
                self.queues[worker, gpu, stage] += start - free
                free = stop

    def _copy_to_host(self, worker: int) -> None:
        """Reduce on the GPUs of a worker and copy the result to the host."""
        rng, root = self.rng, self.local_ranks - 1
        for gpu in range(self.local_ranks):
            reduce_end = copy_end = 0
            for part in self._order:
                lane = self._lanes[worker, gpu, part.key]
                if gpu != root:
                    start = lane.at + rng.randrange(8)
                    lane.add("COORDINATE_REDUCE", start, start + rng.randrange(3))
                start = max(lane.at + rng.randrange(8), reduce_end)
                reduce_end = start + 10 + part.size_bytes // _COPY_BYTES_PER_US + rng.randrange(5)
                lane.add("REDUCE", start, reduce_end)
                if not self.servers:
                    continue
                start = max(lane.at + rng.randrange(8), copy_end)
                copy_end = start + 4 + part.size_bytes // _COPY_BYTES_PER_US
                lane.add("COPYD2H", start, copy_end)
                if gpu != root:
                    start = lane.at + rng.randrange(8)
                    lane.add("COORDINATE_PUSH", start, start + rng.randrange(3))

    def _push_and_pull(self) -> None:
        """Push to the servers and pull from them. A server answers a pull after all pushes."""
        rng, root = self.rng, self.local_ranks - 1
        arrivals = []
        for worker in range(self.workers):
            link_free_us = [0] * self.servers
            for part in self._order:
                gpu_ends = [self._lanes[worker, gpu, part.key].at for gpu in range(root + 1)]
                sent_us = max(gpu_ends) + rng.randrange(8)
                begin_us = max(sent_us, link_free_us[part.server])
                link_free_us[part.server] = begin_us + part.size_bytes // _BYTES_PER_US
                arrived = link_free_us[part.server] + _LATENCY_US + rng.randrange(10)
                arrivals.append((arrived, worker, sent_us, part))
        thread_free_us = [0] * self.servers
        all_pushed_us: dict[int, int] = {}
        pulls = []
        for arrived, worker, sent_us, part in sorted(arrivals, key=itemgetter(0, 1)):
            done = max(arrived, thread_free_us[part.server]) + 6 + part.size_bytes // 5000
            thread_free_us[part.server] = done
            all_pushed_us[part.key] = max(all_pushed_us.get(part.key, 0), done)
            node = self.node_of[worker]
            self.requests.append(_ServerRequest(part.server, node, part.key, True, arrived, done))
            lane = self._lanes[worker, root, part.key]
            lane.add("PUSH", sent_us, done + _LATENCY_US + rng.randrange(10))
            pulls.append((lane, node, part, lane.at + rng.randrange(5)))
        for lane, node, part, sent_us in pulls:
            arrived = sent_us + _LATENCY_US + rng.randrange(10)
            done = max(arrived, all_pushed_us[part.key]) + 5 + rng.randrange(5)
            self.requests.append(_ServerRequest(part.server, node, part.key, False, arrived, done))
            received = done + _LATENCY_US + part.size_bytes // _BYTES_PER_US + rng.randrange(10)
            lane.add("PULL", sent_us, received)

    def _copy_to_devices(self, worker: int) -> None:
        """Copy to the GPUs and broadcast. GPUs wait for a signal from the root GPU."""
        rng, root = self.rng, self.local_ranks - 1
        signal: dict[int, int] = {}
        for gpu in reversed(range(self.local_ranks)):
            lanes = {part.key: self._lanes[worker, gpu, part.key] for part in self._order}
            copy_end = broadcast_end = 0
            arriving = sorted(self._order, key=lambda part: lanes[part.key].at)
            if self.servers and gpu != root:
                arriving = sorted(self._order, key=lambda part: signal[part.key])
            for part in arriving:
                lane = lanes[part.key]
                if self.servers:
                    start = max(lane.at, signal.get(part.key, 0)) + rng.randrange(8)
                    start = max(start, copy_end)
                    if gpu == root:
                        signal[part.key] = start + rng.randrange(4)
                    copy_end = start + 4 + part.size_bytes // _COPY_BYTES_PER_US
                    lane.add("COPYH2D", start, copy_end)
                if gpu != root:
                    start = lane.at + rng.randrange(8)
                    lane.add("COORDINATE_BROADCAST", start, start + rng.randrange(3))
                start = max(lane.at + rng.randrange(8), broadcast_end)
                broadcast_end = start + 10 + part.size_bytes // _COPY_BYTES_PER_US
                lane.add("BROADCAST", start, broadcast_end)


def _partitions(sizes: dict[str, int], servers: int) -> list[_Partition]:
    """Partition tensors, and assign keys to servers with BytePS's default hash."""
    parts = []
    for declared_key, (tensor, size) in enumerate(sizes.items(), len(sizes)):
        for number in range(-(-size // _PARTITION_BYTES)):
            key = declared_key << 16 | number
            length = min(_PARTITION_BYTES, size - number * _PARTITION_BYTES)
            djb2 = 5381
            for character in str(key):
                djb2 = (djb2 * 33 + ord(character)) % (1 << 64)
            parts.append(_Partition(tensor, key, length, djb2 % max(servers, 1)))
    return parts


def _write_files(
    folder: Path, job: _BytepsJob, clocks: Mapping[str, list[int]], *, category: bool, killed: bool
) -> None:
    texts: dict[str, str] = {}
    for worker, clock_us in enumerate(clocks["worker"]):
        for gpu in range(job.local_ranks):
            text = _worker_file(job, worker, gpu, clock_us, cat=category)
            texts[f"worker{worker}/traces/{gpu}/comm.json"] = text
    for server, clock_us in enumerate(clocks["server"]):
        text = _server_file(job, server, clock_us)
        written = len(text) // _FLUSHED_BYTES * _FLUSHED_BYTES if killed else len(text)
        texts[f"server{server}/server_profile.json"] = text[:written]
    for name, text in texts.items():
        path = folder / name
        write_text(new_folder(path.parent) / path.name, text)


def _worker_file(job: _BytepsJob, worker: int, gpu: int, clock: int, *, cat: bool) -> str:
    """Return a GPU's ``comm.json``, with tensors in arbitrary order."""
    tensors = list(dict.fromkeys(part.tensor for part in job.partitions))
    random.Random(f"order {worker} {gpu}").shuffle(tensors)
    records: list[dict[str, Any]] = []
    for tensor in tensors:
        pid = f"Comm.{tensor}"
        for name, start, dur, tid in _spans(job, worker, gpu, tensor):
            times = {"ts": start + clock, "dur": dur, "tid": tid}
            records.append(
                {"ph": "X", "args": {"name": pid}, "pid": pid, "name": f"Comm.{name}", **times}
            )
            if cat:
                records[-1]["cat"] = "Comm"
    text = json.dumps({"traceEvents": records, "displayTimeUnit": "ms"}, indent=4)
    return text.replace("\n    ],", "\n\n    ],") + "\n"


def _spans(
    job: _BytepsJob, worker: int, gpu: int, tensor: str
) -> Iterator[tuple[str, int, int, str]]:
    """Yield the name, start, duration and thread of each span of a tensor on a GPU."""
    for start, dur in job.totals[worker, gpu, tensor]:
        yield tensor, start, dur, "total"
    for part in reversed(job.partitions):
        if part.tensor == tensor:
            for stage in reversed(_STAGES):
                for start, dur in job.stages.get((worker, gpu, part.key, stage), ()):
                    yield f"{tensor}.{stage}", start, dur, str(part.key)


def _server_file(job: _BytepsJob, server: int, clock: int) -> str:
    """Return a server's profile without the closing brackets, because BytePS never writes them."""
    first_key = server * (_IDS // job.servers)
    stamps: list[tuple[int, str]] = []
    for request in job.requests:
        if request.server == server:
            name = f"{'push' if request.push else 'pull'}-{request.node}"
            key = first_key + request.key
            for phase, time in (("B", request.start), ("E", request.end)):
                fields = f'"pid": {key}, "tid": {key}, "ts": {time + clock}'
                stamps.append((time, f'\t\t{{"name": "{name}", "ph": "{phase}", {fields}}}'))
    if not stamps:
        return ""  # nothing has been flushed yet
    stamps.sort(key=lambda stamp: stamp[0])
    return '{\n\t"traceEvents": [\n' + ",\n".join(text for _, text in stamps)


def _truth(job: _BytepsJob) -> dict[str, Any]:
    stages: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for (worker, gpu, _, stage), spans in job.stages.items():
        initial = {"count": 0, "sum_us": 0, "queue_us": job.queues[worker, gpu, stage]}
        stage_totals = stages[f"w{worker}g{gpu}"].setdefault(stage, initial)
        stage_totals["count"] += len(spans)
        stage_totals["sum_us"] += sum(dur for _, dur in spans)
    totals: dict[str, int] = defaultdict(int)
    for (worker, gpu, _), spans in job.totals.items():
        totals[f"w{worker}g{gpu}"] += sum(dur for _, dur in spans)
    stride = _IDS // max(job.servers, 1)
    requests = Counter(request.server for request in job.requests)
    return {
        "keys": [
            # Text, because some JSON readers round 64-bit numbers.
            {**part._asdict(), "wire_key": str(part.key + part.server * stride)}
            for part in job.partitions
        ],
        "stages": dict(stages),
        "total_us": dict(totals),
        "requests": [requests[server] for server in range(job.servers)],
        **_arrivals(job),
    }


def _arrivals(job: _BytepsJob) -> dict[str, Any]:
    """Return how far each node's pushes lag behind the first push, and how long its pulls wait.

    Requests are compared with others of the same key and iteration.
    """
    # The iteration is the number of this node's earlier requests for the key.
    pushes: dict[tuple[int, int], list[_ServerRequest]] = defaultdict(list)
    pulls: dict[tuple[int, int], list[_ServerRequest]] = defaultdict(list)
    iterations = Counter[tuple[int, int, bool]]()
    for request in job.requests:
        sender = (request.key, request.node, request.push)
        requests = pushes if request.push else pulls
        requests[request.key, iterations[sender]].append(request)
        iterations[sender] += 1
    lag, last, waits = (dict.fromkeys(map(str, sorted(job.node_of)), 0) for _ in range(3))
    for key_and_iteration, group in pushes.items():
        starts = [push.start for push in group]
        alone = starts.count(max(starts)) == 1 < len(group)
        ready = max(push.end for push in group)
        for push in group:
            lag[str(push.node)] += push.start - min(starts)
            last[str(push.node)] += alone and push.start == max(starts)
        for pull in pulls[key_and_iteration]:
            waits[str(pull.node)] += max(min(ready, pull.end) - pull.start, 0)
    return {"iterations": len(pushes), "lag_us": lag, "last": last, "pull_waits_us": waits}
