"""Records of made-up ranks, as the builders of `tests/unit/trace` take them; times in µs."""


def op(name, ts, dur, tid=1, **more):
    """Return an operator on the host."""
    record = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur}
    return record | more


def call(name, ts, dur, correlation, tid=1):
    """Return a runtime call."""
    return op(name, ts, dur, tid, cat="cuda_runtime", args={"correlation": correlation})


def kernel(name, ts, dur, correlation=None, stream=7, **more):
    """Return a kernel on a device stream."""
    args = {"stream": stream} | ({} if correlation is None else {"correlation": correlation})
    return op(name, ts, dur, stream, pid=0, cat="kernel", args=args) | more
