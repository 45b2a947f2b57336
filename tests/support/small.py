"""Small jobs written out in a test: a few kernels and calls, times in whole nanoseconds."""

import json
import tempfile
from pathlib import Path
from typing import Any

import hta_widgets as hw

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(cat: str, name: str, start: int, end: int, *, pid=0, tid=1, **args: Any) -> dict:
    """A complete event from `start` to `end`."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
        "ts": start / 1000, "dur": (end - start) / 1000, "args": args,
    }  # fmt: skip


def kernel(start: int, end: int, *, name="gemm", stream=7, launch=None, cat="kernel", **args: Any):
    """Device work on a stream; `launch` is the correlation id of its call."""
    if launch is not None:
        args["correlation"] = launch
    return event(cat, name, start, end, pid=0, tid=stream, stream=stream, device=0, **args)


def nccl(start: int, end: int, *, stream=20, **args: Any):
    """A communication kernel."""
    return kernel(start, end, name=NCCL, stream=stream, **args)


def copy(start: int, end: int, *, stream=7, **args: Any):
    """A copy."""
    return kernel(start, end, name="Memcpy HtoD", stream=stream, cat="gpu_memcpy", **args)


def call(start: int, end: int, launch=None, *, name="cudaLaunchKernel", tid=1, **args: Any):
    """A call of the runtime on a host thread."""
    if launch is not None:
        args["correlation"] = launch
    return event("cuda_runtime", name, start, end, pid=10, tid=tid, **args)


#: A host event at the very start, so that times in frames are those written in the test.
ORIGIN = event("cpu_op", "aten::origin", 0, 1, pid=10, tid=9)


def load(folder: Path, *ranks: list[dict]) -> hw.TraceSet:
    """Write one file per rank, into a new folder in `folder`, and load them."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    paths = {}
    for rank, events in enumerate(ranks):
        path = folder / f"rank-{rank}.json"
        document = {"distributedInfo": {"rank": rank}, "traceEvents": [ORIGIN, *events]}
        path.write_text(json.dumps(document))
        paths[rank] = str(path)
    return hw.load(paths, cache=False, progress=False)
