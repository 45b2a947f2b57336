import gzip
import json

import pytest

import hta_widgets as hw


def event(name="op", ts=0.0, dur=1.0, **more):
    record = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": dur}
    return record | more


@pytest.fixture
def write(tmp_path):
    """Write a trace from records, or from verbatim bytes or text."""

    def _write(contents, name="trace.json", **top):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(contents, list):
            contents = json.dumps({**top, "traceEvents": contents})
        if isinstance(contents, str):
            contents = contents.encode()
        if path.suffix == ".gz" and not contents.startswith(b"\x1f\x8b"):
            contents = gzip.compress(contents)
        path.write_bytes(contents)
        return path

    return _write


@pytest.fixture
def load_one(write):
    """Write and load one trace; return it and its problems without the guess of its rank."""

    def _load(contents, name="trace.json", **top):
        traces = hw.load(write(contents, name, **top), progress=False)
        problems = traces.problems
        problems = problems[problems["kind"] != "guessed_rank"]
        return next(iter(traces.values())), problems

    return _load
