"""Real traces, compared with an independent reading of their JSON to the nanosecond."""

import gzip
import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from support import recorded

import hta_widgets as hw

FOLDERS = ("hta_tests", "kineto", "made")
NO_TRACE = ("memory_analysis", "ddp_8rank_truth.json")


def trace_files():
    files = (
        path.relative_to(recorded.SHARED)
        for folder in FOLDERS
        for path in sorted((recorded.SHARED / folder).rglob("*"))
        if path.is_file()
    )
    shared = [str(path) for path in files if not any(part in str(path) for part in NO_TRACE)]
    return recorded.paths(*shared, files=True)


def read_json(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return json.loads(data, parse_float=Decimal)


def to_ns(value):
    return round(Decimal(value) * 1000)  # half to even


@pytest.mark.parametrize("path", trace_files())
def test_trace_equals_an_independent_reading(path):
    document = read_json(path)
    records = document["traceEvents"]
    complete = [record for record in records if record.get("ph") == "X" and "dur" in record]
    base = int(document.get("baseTimeNanoseconds", 0))

    trace = next(iter(hw.load(path, progress=False).values()))
    events = trace.events

    assert len(events) == len(complete)
    assert (events["dur_ns"] >= 0).all()

    lengths = [to_ns(record["dur"]) for record in complete]
    sums = Counter()
    for record, length in zip(complete, lengths, strict=True):
        sums[record.get("name", "")] += length
    ours = events.groupby(events["name"].astype(str), observed=True)["dur_ns"].sum()
    assert ours.to_dict() == dict(sums)

    order = np.argsort(trace.table.record)
    places = trace.table.record[order]
    assert [records[place]["ph"] for place in places.tolist()] == ["X"] * len(complete)
    starts = trace.table.start_ns[order] + trace.zero_ns
    assert starts.tolist() == [to_ns(record["ts"]) + base for record in complete]
    assert trace.table.dur_ns[order].tolist() == lengths

    step = max(1, len(events) // 40)
    for row in range(0, len(events), step):
        record = records[int(trace.table.record[row])]
        assert trace.args(row) == json.loads(json.dumps(record.get("args", {}), default=float))
    for column, key in (("pid", "pid"), ("tid", "tid"), ("category", "cat")):
        values = events[column].astype(str).to_numpy()[order]
        assert values.tolist() == [str(record.get(key, "")) for record in complete]

    # Records are returned exactly as in the file.
    wanted = np.unique(np.linspace(0, len(records) - 1, 60).astype(int))
    for place, body in trace.source.records(wanted):
        assert json.loads(body, parse_float=Decimal) == records[place]
    assert trace.source.record(len(records) - 1).startswith(b"{")
    metadata = trace.source.metadata_text.items()
    own = {key: json.loads(text, parse_float=Decimal) for key, text in metadata}
    assert own == {key: value for key, value in document.items() if key != "traceEvents"}
