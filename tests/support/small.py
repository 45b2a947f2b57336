"""Small hand-written jobs: a few kernels and calls, with times in whole nanoseconds."""

import json
import tempfile
from pathlib import Path
from typing import Any

import hta_widgets as hw

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(cat: str, name: str, start: int, end: int, *, pid=0, tid=1, **args: Any) -> dict:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
        "ts": start / 1000, "dur": (end - start) / 1000, "args": args,
    }  # fmt: skip


def kernel(start: int, end: int, *, name="gemm", stream=7, launch=None, cat="kernel", **args: Any):
    """Return device work on a stream; `launch` is the correlation id of its call."""
    if launch is not None:
        args["correlation"] = launch
    return event(cat, name, start, end, pid=0, tid=stream, stream=stream, device=0, **args)


def nccl(start: int, end: int, *, stream=20, **args: Any):
    """A communication kernel."""
    return kernel(start, end, name=NCCL, stream=stream, **args)


def copy(start: int, end: int, *, stream=7, **args: Any):
    return kernel(start, end, name="Memcpy HtoD", stream=stream, cat="gpu_memcpy", **args)


def call(start: int, end: int, launch=None, *, name="cudaLaunchKernel", tid=1, **args: Any):
    """Return a runtime call on a host thread."""
    if launch is not None:
        args["correlation"] = launch
    return event("cuda_runtime", name, start, end, pid=10, tid=tid, **args)


#: Start time in ns of jobs with a base time.
EPOCH_NS = 1_700_000_000_000_000_000

#: A host event at time 0, so that times in frames are those written in the test.
ORIGIN = event("cpu_op", "aten::origin", 0, 1, pid=10, tid=9)


def load(folder: Path, *ranks: list[dict]) -> hw.TraceSet:
    """Write one file per rank into a new folder below `folder` and load them."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    return read(write(folder, *([ORIGIN, *events] for events in ranks)))


def write(folder: Path, *ranks: list[dict], base_ns: int | None = None) -> Path:
    """Write ``rank-0.json``, ``rank-1.json``, …; times count from `base_ns`, if given."""
    for rank, events in enumerate(ranks):
        document: dict[str, Any] = {"distributedInfo": {"rank": rank}, "traceEvents": events}
        if base_ns is not None:
            document["baseTimeNanoseconds"] = base_ns
        (folder / f"rank-{rank}.json").write_text(json.dumps(document))
    return folder


def read(path: Path) -> hw.TraceSet:
    """Load a trace from its files, without the store."""
    return hw.load(path, cache=False, progress=False)
