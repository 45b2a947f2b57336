"""Ranks built from a few records in the form of a trace file."""

import json

import numpy as np
import pytest

from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import RankColumns, StringPool
from hta_widgets.trace.problems import Problems


class Source:
    """Returns records as readers do: as the bytes of their JSON objects."""

    path = "made.json"

    def __init__(self, records):
        self.texts = [json.dumps(record).encode() for record in records]

    def record(self, index):
        return self.texts[index]

    def records(self, indices):
        return ((int(index), self.texts[index]) for index in sorted(indices))


def whole_number(value):
    """Return an integer arg, or -1 if it is not an integer."""
    return value if isinstance(value, int) and value >= 0 else -1


def columns_of(records, base_ns=0, resolution_ns=1):
    """Decode records with times in microseconds one by one, in the simplest way."""
    names, categories, pids, tids, flow_ids = (StringPool() for _ in range(5))
    count = len(records)
    return RankColumns(
        phase=np.array([ord(r.get("ph", "\0")) for r in records], np.uint8),
        start_ns=np.array([round(r.get("ts", 0) * 1000) + base_ns for r in records], np.int64),
        dur_ns=np.array([round(r["dur"] * 1000) if "dur" in r else -1 for r in records], np.int64),
        timed=np.array(["ts" in r and r.get("ph") != "M" for r in records], bool),
        name=np.array([names.add(r.get("name", "")) for r in records], np.int32),
        category=np.array([categories.add(r.get("cat", "")) for r in records], np.int32),
        pid=np.array([pids.add(str(r.get("pid", ""))) for r in records], np.int32),
        tid=np.array([tids.add(str(r.get("tid", ""))) for r in records], np.int32),
        stream=np.array([whole_number(r.get("args", {}).get("stream")) for r in records], np.int32),
        correlation=np.array(
            [whole_number(r.get("args", {}).get("correlation")) for r in records], np.int64
        ),
        flow=np.array(
            [flow_ids.add(json.dumps(r["id"])) if "id" in r else -1 for r in records], np.int32
        ),
        names=names,
        categories=categories,
        pids=pids,
        tids=tids,
        flow_ids=flow_ids,
        small_args={
            k: r.get("args", {}) for k, r in enumerate(records) if r.get("ph") in ("M", "C")
        },
        record=np.arange(count, dtype=np.int64),
        resolution_ns=resolution_ns,
        ends_at_next=np.array(
            [k for k, r in enumerate(records) if r.get("ph") == "f" and r.get("bp") != "e"],
            np.int64,
        ),
        scope={k: r["s"] for k, r in enumerate(records) if "s" in r},
    )


@pytest.fixture
def make():
    """Return a function that builds a rank; `problems` holds (kind, count, detail)."""

    def build(*records, rank=0, base_ns=0, resolution_ns=1, metadata=None, **about):
        problems = Problems()
        trace = build_trace(
            columns_of(records, base_ns, resolution_ns),
            rank=rank,
            path=f"rank-{rank}.json",
            metadata=metadata or {},
            source=Source(records),
            problems=problems,
            **about,
        )
        trace.found = [(p.kind, p.count, p.detail) for p in problems]
        trace.all_problems = problems
        return trace

    return build
