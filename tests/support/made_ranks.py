"""Build records of made-up ranks in the form used by `tests/unit/trace`; times are in µs."""


def op(name, ts, dur, tid=1, **more):
    record = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur}
    return record | more


def call(name, ts, dur, correlation, tid=1):
    return op(name, ts, dur, tid, cat="cuda_runtime", args={"correlation": correlation})


def kernel(name, ts, dur, correlation=None, stream=7, **more):
    args = {"stream": stream} | ({} if correlation is None else {"correlation": correlation})
    return op(name, ts, dur, stream, pid=0, cat="kernel", args=args) | more
