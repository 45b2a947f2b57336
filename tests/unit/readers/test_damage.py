"""Any damage anywhere: no other error than a `TraceError`, few events lost, none made up."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hta_widgets as hw
from hta_widgets.formats.kineto import reader as record_list
from hta_widgets.readers import streams as window

from .conftest import event

COUNT = 40
ARGS = {"stream": 3, "s": "} , {", "l": [[1], {"a": 2}]}
RECORDS = [event(f'k{i} ["q"]', 1000.125 + i * 7.5, 3.25, args=ARGS) for i in range(COUNT)]
KNOWN = {record["name"]: number for number, record in enumerate(RECORDS)}

edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 4),
        st.binary(max_size=1) | st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b"\\"]),
    ),
    min_size=1,
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits, st.sampled_from([300, 1000, 1 << 19]), st.sampled_from([None, 1]))
def test_edits_cost_few_events(tmp_path, edits, block_bytes, indent):
    text = ", ".join(json.dumps(record, indent=indent) for record in RECORDS)
    data = bytearray(f'{{"a": 1, "traceEvents": [{text}], "z": [{{"b": "c"}}]}}'.encode())
    for place, removed, inserted in edits:
        position = int(place * len(data))
        data[position : position + removed] = inserted
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "BLOCK_BYTES", block_bytes)
        patch.setattr(record_list, "_PIECE_BYTES", max(200, block_bytes // 8))
        try:
            traces = hw.load(path, cache=False)
        except hw.TraceError:
            # Only if the damage hits the fields that identify a trace.
            assert min(place for place, _, _ in edits) * len(data) < 40
            return
    trace = next(iter(traces.values()))
    names = trace.events["name"].astype(str).tolist()
    starts = (trace.table.start_ns + trace.zero_ns).tolist()
    numbers = [KNOWN.get(name, -1) for name in names]
    exact = [
        start == 1_000_125 + 7500 * number and dur == 3250
        for number, start, dur in zip(numbers, starts, trace.table.dur_ns.tolist(), strict=True)
        if number >= 0
    ]
    assert len(exact) >= COUNT - 3 * len(edits)
    assert len(exact) - sum(exact) <= len(edits)
    if len(names) < COUNT:
        assert len(traces.problems[traces.problems["kind"] != "guessed_rank"])
    for _, body in trace.source.records(trace.table.record):
        assert isinstance(json.loads(body), dict)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(60, 4000))
def test_cut_anywhere_all_whole_records_stay(tmp_path, size):
    data = json.dumps({"traceEvents": RECORDS}).encode()[:size]
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    whole = np.cumsum([len(json.dumps(record)) + 2 for record in RECORDS]) + 15
    expected = int(np.sum(whole <= size))
    if not expected:
        with pytest.raises(hw.TraceError):
            hw.load(path, cache=False)
        return
    traces = hw.load(path, cache=False)
    trace = next(iter(traces.values()))
    assert len(trace) == expected
    assert "truncated" in set(traces.problems["kind"])
