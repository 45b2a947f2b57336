"""A small job of two ranks whose figures can all be checked by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support import small

from hta_widgets.live.job import TileEngine
from hta_widgets.tiles.lateness import LatenessIndex
from hta_widgets.tiles.packing import unpack
from hta_widgets.trace.intervals import union

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()"
REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)"
REDUCE_ARGS = {"In msg nelems": 12345678901234567890, "ratio": 1.50, "note": 'say "a"'}
AC2G = {"cat": "ac2g", "name": "ac2g", "bp": "e"}


def event(name, cat, tid, ts, dur, *, pid=10, **args):
    return {
        "ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def meta(kind, pid, tid=0, **args):
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": args}


def rank_events(late=0):
    """Return events with times in µs, all shifted by `late`."""
    host = [
        event("ProfilerStep#1", "user_annotation", 100, 0, 100),
        event("## forward ##", "user_annotation", 100, 5, 40),
        event("aten::add", "cpu_op", 100, 10, 20),
        event("cudaLaunchKernel", "cuda_runtime", 100, 15, 5, correlation=1),
        event("cudaLaunchKernel", "cuda_runtime", 100, 22, 4, correlation=2),
        event("cudaDeviceSynchronize", "cuda_runtime", 100, 60, 35, correlation=9),
        event("tiny", "user_annotation", 100, 50, 0.1),
        event("autograd::engine::evaluate_function: AddBackward0", "cpu_op", 200, 46, 8, Fwd=7),
        event("worker", "cpu_op", 300, 1, 2),
    ]
    device = [
        event(KERNEL, "kernel", 7, 30, 20, pid=0, stream=7, correlation=1, grid=[8, 1, 1]),
        event(KERNEL, "kernel", 7, 60, 10, pid=0, stream=7, correlation=3),
        event("Memcpy DtoH (Device -> Pageable)", "gpu_memcpy", 7, 75, 10, pid=0, stream=7),
        event(REDUCE, "kernel", 40, 40, 25, pid=0, stream=40, correlation=2, **REDUCE_ARGS),
        event("## forward ##", "gpu_user_annotation", 7, 30, 20, pid=0, stream=7),
    ]
    flows = [
        {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": ts, **AC2G}
        for phase, number, pid, tid, ts in (
            ("s", 1, 10, 100, 15),
            ("f", 1, 0, 7, 30),
            ("s", 2, 10, 100, 22),
            ("f", 2, 0, 40, 40),
        )
    ]
    side = [
        {"ph": "C", "name": "memory (MB)", "pid": 10, "ts": 10, "args": {"used": 5}},
        {"ph": "C", "name": "memory (MB)", "pid": 10, "ts": 50, "args": {"used": 9}},
        {"ph": "i", "name": "marker", "pid": 10, "tid": 100, "ts": 33, "s": "t", "cat": "note"},
        {"ph": "b", "name": "request", "cat": "io", "id": 1, "pid": 10, "tid": 1, "ts": 20},
        {"ph": "b", "name": "request", "cat": "io", "id": 2, "pid": 10, "tid": 1, "ts": 25},
        {"ph": "e", "name": "request", "cat": "io", "id": 1, "pid": 10, "tid": 1, "ts": 40},
        {"ph": "e", "name": "request", "cat": "io", "id": 2, "pid": 10, "tid": 1, "ts": 45},
    ]
    names = [
        meta("process_name", 10, name="python"),
        meta("process_labels", 10, labels="CPU"),
        meta("process_name", 0, name="python"),
        meta("process_labels", 0, labels="GPU 0"),
        meta("thread_name", 10, 100, name="thread 100 (python)"),
        meta("thread_name", 10, 200, name="thread 200 (pt_autograd_0)"),
        meta("thread_name", 10, 300, name="thread 300 (python)"),
        meta("thread_name", 0, 7, name="stream 7 "),
        meta("thread_name", 0, 40, name="stream 40 "),
    ]
    timed = host + device + flows + side
    for record in timed:
        record["ts"] = record["ts"] + late
    return names + timed


def _write_job(folder, lates=(0, 3)):
    return small.read(small.write(folder, *map(rank_events, lates), base_ns=small.EPOCH_NS))


@pytest.fixture(scope="session")
def write_job():
    """Return a function that writes and loads the job, with one rank for each of `lates`."""
    return _write_job


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    return _write_job(tmp_path_factory.mktemp("two_ranks"))


def _lateness_of(case, shift):
    traces, rows, compute = {}, [], {}
    for rank in case["ranks"]:
        number, entries = rank["rank"], rank["entries"]
        start = np.array([entry["start"] for entry in entries])
        dur = np.array([entry.get("dur", 1 << 40) for entry in entries])
        table = SimpleNamespace(start_ns=start - shift, dur_ns=dur)
        traces[number] = SimpleNamespace(table=table, shift_ns=shift)
        compute[number] = union(*np.array(rank.get("compute", []), np.int64).reshape(-1, 2).T)
        rows += [
            {
                "collective": 3 * entry["call"], "name": entry.get("name", "AllReduce"),
                "rank": number, "id": entry["id"], "arrival_ns": entry["start"] + rank["clock"],
            }
            for entry in entries
        ]  # fmt: skip
    if not rows:
        return LatenessIndex.empty(traces, "nothing")
    frame = pd.DataFrame(rows).sort_values(["collective", "rank"]).reset_index(drop=True)
    # As in `collectives`: until the last arrival, even if the event ends earlier.
    last = frame.groupby("collective")["arrival_ns"].transform("max")
    frame["wait_ns"] = last - frame["arrival_ns"]
    return LatenessIndex(traces, frame, compute, case.get("late", ()))


@pytest.fixture(scope="session")
def lateness_of():
    """Return a function that builds a case's lateness; own times are less by `shift`."""
    return _lateness_of


@pytest.fixture(scope="session")
def engine(traces):
    return TileEngine(traces)


@pytest.fixture(scope="session")
def scene(engine):
    return engine.scene()


@pytest.fixture(scope="session")
def ask(engine):
    """Return a function that returns the reply, with its columns if there are any."""

    def ask(op, **request):
        reply, buffer = engine.answer({"rpc": "1", "op": op, **request})
        assert json.loads(json.dumps(reply, allow_nan=False)) == reply
        return reply if buffer is None else (reply, unpack(reply["columns"], buffer))

    return ask
