"""Small random jobs with everything a trace can hold, for engines that must agree."""

import json
import random
from pathlib import Path
from typing import Any

NAMES = [
    "aten::add_", "aten::mm", "cudaLaunchKernel",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void gemm_kernel<float, 128>(float*)", "Memcpy DtoH (Device -> Pageable)", "größe 漢字 🙂",
    "</script><img src=x onerror=alert(1)>", "<!-- not a comment", 'quote " \\ backslash',
    "\ud800 half a pair", "",
]  # fmt: skip
HOST = ["cpu_op", "cuda_runtime", "user_annotation", "python_function", "odd <b>category</b>"]
DEVICE = ["kernel", "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"]
ARGS = [
    {},
    {"External id": 7, "shape": [[2, 3], []], "text": "<b>bold</b>"},
    {"nested": {"a": [1, {"b": None}], "c": True}, "float": 1.50},
    {"z": 1, "a": "größe", "long": 12345678901234567890},
]


def write_job(folder: Path, seed: int, ranks: int = 2, events: int = 120, calls: int = 24) -> Path:
    """Write one file per rank, the same for the same seed. `calls`: collectives of all ranks."""
    rng = random.Random(seed)
    matched = _collectives(random.Random(seed + 1000), ranks, calls)
    for rank in range(ranks):
        document: dict[str, Any] = {
            "schemaVersion": 1,
            "distributedInfo": {"rank": rank},
            "baseTimeNanoseconds": 1_700_000_000_000_000_000 + rng.randrange(10**6),
            "traceEvents": [*_records(rng, events), *matched[rank]],
        }
        text = json.dumps(document)
        (folder / f"rank-{rank}.json").write_text(text, encoding="ascii")
    return folder


def _records(rng: random.Random, count: int):
    yield {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": "python <i>"}}
    yield {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}
    correlation = 0
    for thread in range(100, 100 + rng.randrange(1, 6)):
        yield from _thread(rng, thread, count // 3)
    for stream in rng.sample([7, 20, 24, 0], rng.randrange(0, 4)):
        now = rng.randrange(2000)
        for _ in range(count // 2):
            correlation += rng.randrange(1, 9)
            dur = rng.choice([0, rng.randrange(40), rng.randrange(3000)]) / 8
            # Some events of a stream overlap.
            now += rng.randrange(0, 60) / 8 if rng.random() < 0.9 else -dur / 2
            now = max(now, 0)
            yield _event(rng, rng.choice(DEVICE), 0, stream, now, dur, correlation, stream)
            if rng.random() < 0.4:
                launch = _event(rng, "cuda_runtime", 10, 100, max(now - 9, 0), 1.5, correlation)
                yield launch
                flow = {"id": correlation, "cat": "ac2g", "name": "ac2g"}
                yield {"ph": "s", **flow, "pid": 10, "tid": 100, "ts": launch["ts"]}
                yield {"ph": "f", "bp": "e", **flow, "pid": 0, "tid": stream, "ts": now}
            now += dur
    yield from _others(rng, count)


def _collectives(rng: random.Random, ranks: int, calls: int) -> list[list[dict[str, Any]]]:
    """Return, for each rank, collective kernels with args, on two concurrent streams.

    In some collectives one rank comes much later, several ranks come together, or one rank leaves
    before the last arrival or is missing from the file.
    """
    result: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    free = {(rank, stream): 0.0 for rank in range(ranks) for stream in (40, 44)}
    slow = rng.randrange(ranks)
    for call in range(calls):
        stream = rng.choice((40, 40, 44))
        pair = ranks > 2 and rng.random() < 0.3
        members = list(range(2)) if pair else list(range(ranks))
        start = max(free[rank, stream] for rank in members) + rng.randrange(900) / 8
        together = rng.random() < 0.2
        arrivals = {rank: start + (0 if together else rng.randrange(1600) / 8) for rank in members}
        if slow in arrivals and rng.random() < 0.7:
            arrivals[slow] = start + 300 + rng.randrange(800) / 8
        elements = rng.choice((7, 1024, 1 << 20))
        args = {
            "Collective name": rng.choice(("allreduce", "_allgather_base", "broadcast")),
            "Process Group Name": f"{stream}{'p' if pair else ''}",
            "Process Group Ranks": json.dumps(members),
            "Group size": len(members),
            "In msg nelems": elements,
            "Out msg nelems": elements * rng.choice((1, len(members))),
            "dtype": rng.choice(("Float", "BFloat16", "odd")),
            "stream": stream,
        }
        missing = rng.choice(members) if rng.random() < 0.1 else -1
        for rank in members:
            end = max(arrivals.values()) + rng.randrange(1, 1200) / 8
            if rng.random() < 0.05:
                end = arrivals[rank] + 1
            free[rank, stream] = end
            if rank != missing:
                kernel = {"ph": "X", "cat": "kernel", "name": NAMES[3], "pid": 0, "tid": stream}
                times = {"ts": arrivals[rank], "dur": end - arrivals[rank]}
                result[rank].append({**kernel, **times, "args": {**args, "seen by": call}})
    return result


def _thread(rng: random.Random, thread: int, count: int):
    open_until = [10**6 + 0.0]
    now = float(rng.randrange(500))
    for step in range(count):
        while len(open_until) > 1 and open_until[-1] <= now:
            open_until.pop()
        room = open_until[-1] - now
        dur = min(rng.choice([0, 0.125, rng.randrange(1, 90), rng.randrange(1, 2500)]), room)
        if step % 40 == 0:
            name = f"ProfilerStep#{step // 40}"
            event = _event(rng, "user_annotation", 10, thread, now, dur)
            yield {**event, "name": name}
        elif rng.random() < 0.1:
            event = _event(rng, rng.choice(HOST), 10, thread, now, dur)
            name = f"pair {step}"
            yield {**event, "ph": "B", "name": name}
            end = {"ph": "E", "pid": 10, "tid": thread, "ts": now + dur, "name": name}
            yield {**end, "args": {"at the end": step}}
        else:
            yield _event(rng, rng.choice(HOST), 10, thread, now, dur, rng.randrange(-1, 50))
        if dur > 1 and rng.random() < 0.6:
            open_until.append(now + dur)
            now += rng.randrange(0, 8) / 8
        else:
            now += dur + rng.choice([0, 0, rng.randrange(200) / 8])


def _event(rng, category, pid, tid, ts, dur, correlation=-1, stream=None) -> dict[str, Any]:
    args = dict(rng.choice(ARGS))
    if correlation >= 0:
        args["correlation"] = correlation
    if stream is not None:
        args["stream"] = stream
    event = {"ph": "X", "cat": category, "name": rng.choice(NAMES), "pid": pid, "tid": tid}
    return {**event, "ts": ts, "dur": dur, **({"args": args} if args else {})}


def _others(rng: random.Random, count: int):
    for at in range(count // 6):
        ts = rng.randrange(80_000) / 8
        yield {
            "ph": "C", "pid": 10, "name": "memory (bytes)", "ts": ts,
            "args": {"used": rng.choice([rng.randrange(1 << 40), -1.5, 0]), "free": at},
        }  # fmt: skip
        yield {
            "ph": "i", "s": rng.choice("tpg"), "pid": 10, "tid": 100, "ts": rng.choice([ts, 40]),
            "name": rng.choice(NAMES), "cat": "instant", "args": {"n": at},
        }  # fmt: skip
        asynchronous = {"id": at, "cat": rng.choice(["fetch", "io"]), "name": rng.choice(NAMES)}
        yield {"ph": "b", **asynchronous, "pid": 10, "tid": 1, "ts": ts, "args": {"k": [at]}}
        if rng.random() < 0.8:
            end = ts + rng.choice([0, rng.randrange(9000) / 8])
            yield {"ph": "e", **asynchronous, "pid": 10, "tid": 1, "ts": end}
