"""Memory over time, from PyTorch's export and from trace events."""

import gzip
import json
import os
import pickle

import numpy as np
import pytest
from support import recorded
from support.small import event, load, read, write as write_ranks

import hta_widgets as hw
from hta_widgets.analysis.memory import MEMORY_CATEGORIES, memory_events, memory_timeline

PREEXISTING, CREATE, INCREMENT, DESTROY = 1, 2, 3, 4
PARAMETER, INPUT, TEMPORARY, ACTIVATION, UNKNOWN = 0, 2, 3, 4, 7
START = 1_696_966_047_096_061_874
MEMORY = recorded.DATA / "memory"


@pytest.fixture
def write(tmp_path):
    def to_file(value, name="memory.raw.json.gz"):
        path = tmp_path / name
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path

    return to_file


EVENTS = [
    [-1, PREEXISTING, 1000, PARAMETER],
    [-1, PREEXISTING, 50, UNKNOWN],
    [START, CREATE, 64, INPUT],
    [START + 10, CREATE, 500, ACTIVATION],
    [START + 10, CREATE, 500, ACTIVATION],
    # A new version turns a temporary into an activation.
    [START + 20, CREATE, 8, TEMPORARY],
    [START + 30, INCREMENT, -8, TEMPORARY],
    [START + 30, INCREMENT, 8, ACTIVATION],
    [START + 40, DESTROY, -1008, ACTIVATION],
    [START + 40, DESTROY, -64, INPUT],
]


def used(frame):
    """Return the nonzero memory in use at each instant."""
    return {
        row["time_ns"]: {key: value for key, value in row.items() if value and key != "time_ns"}
        for row in frame.to_dict("records")
    }


def test_events_add_up_by_category(write):
    frame = memory_timeline(write(EVENTS))
    present = {"Parameter": 1000, "Unknown": 50}
    assert used(frame) == {
        0: present | {"Input": 64},
        10: present | {"Input": 64, "Activation": 1000},
        20: present | {"Input": 64, "Activation": 1000, "Temporary": 8},
        30: present | {"Input": 64, "Activation": 1008},
        40: present,
    }
    assert list(frame.columns) == ["time_ns", *MEMORY_CATEGORIES]
    assert (frame.dtypes == "int64").all()
    attrs = frame.attrs
    counts = {"preexisting": 2, "create": 4, "increment_version": 2, "destroy": 2}
    assert attrs["matched"] == counts
    assert attrs["origin_ns"] == START
    assert attrs["peak_total_bytes"] == 1050 + 64 + 1008
    assert attrs["peak_time_ns"] == 20
    assert list(attrs["at_peak_bytes"]) == list(MEMORY_CATEGORIES)
    assert list(attrs["at_peak_bytes"].values()) == [1000, 0, 64, 8, 1000, 0, 0, 50]
    assert attrs["peak_bytes"]["Activation"] == 1008
    assert attrs["preexisting_bytes"]["Parameter"] == 1000
    assert "note" not in attrs
    # Compression and order do not matter.
    assert memory_timeline(str(write(EVENTS, "plain.json"))).equals(frame)
    assert memory_timeline(write(EVENTS[2:] + EVENTS[:2])).equals(frame)


def test_sums_are_read_as_events_are(write):
    # Whole microseconds, and a 0 before the categories, as PyTorch writes them.
    first = START // 1000
    rows = [
        [0, 1000, 0, 0, 0, 0, 0, 0, 50],
        [0, 1000, 0, 64, 0, 0, 0, 0, 50],
        [0, 1000, 0, 64, 0, 1000, 0, 0, 50],
    ]
    sums = [[first, first, first + 4], rows]
    frame = memory_timeline(write(sums, "memory.json"))
    present = {"Parameter": 1000, "Input": 64, "Unknown": 50}
    assert used(frame) == {0: present, 4000: present | {"Activation": 1000}}
    assert frame.attrs["origin_ns"] == first * 1000
    assert frame.attrs["matched"] == {"instants": 3}
    assert frame.attrs["preexisting_bytes"] == {}


def test_nothing_is_an_empty_frame_with_a_reason(write):
    for empty in ([], [[], []]):
        frame = memory_timeline(write(empty))
        assert frame.empty
        assert "no events" in frame.attrs["note"]
    frame = memory_timeline(write(EVENTS[:2]))
    assert used(frame) == {0: {"Parameter": 1000, "Unknown": 50}}
    assert frame.attrs["origin_ns"] is None


@pytest.mark.parametrize(
    ("value", "name", "words"),
    [
        ({"traceEvents": []}, "a.json", r"is a trace .* memory_events"),
        ({"a": 1}, "a.json", r"not a memory timeline .*export_memory_timeline"),
        ([[1, 2, 3, 4], [1, 2, "x", 4]], "a.json", r"\$\[1\]\[2\]: is not a memory timeline"),
        ([[1, 2, 3]], "a.json", r"\$\[0\]: is no"),
        ([[1, 2, 3, 8]], "a.json.gz", r"event 0: unknown category 8\. Categories are 0 to 7"),
        ([[1 << 63, 2, 3, 4]], "a.json", "too large"),
        ([[1, 2], [[0] * 9]], "a.json", "2 times but 1 rows"),
        ([[1, 2], [[0] * 9, [0] * 4]], "a.json", "row 1: 4 sizes instead of 9"),
        (b"<html><body>", "a.html", "is a picture"),
        (b"{", "a.json", "not a memory timeline"),
        (b"", "a.json", "not a memory timeline"),
        (b"\xff\xfe", "a.json", "not a memory timeline"),
        (pickle.dumps({"segments": []}), "a.pickle", r"torch\.cuda\.memory are another format"),
    ],
)
def test_what_is_no_export_is_refused_with_place_and_remedy(write, value, name, words):
    path = write(value, name)
    with pytest.raises(hw.TraceError, match=words) as caught:
        memory_timeline(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.remedy


def test_damaged_and_missing_files_are_named(write, tmp_path):
    path = write(EVENTS)
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(hw.TraceError, match=r"memory\.raw\.json\.gz: the compressed data is dam"):
        memory_timeline(path)
    with pytest.raises(hw.TraceError, match="nowhere: does not exist"):
        memory_timeline(tmp_path / "nowhere")
    # Opening a pipe would block until something writes to it.
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(hw.TraceError, match="pipe: is a pipe, not a file"):
        memory_timeline(tmp_path / "pipe")


# --- traces ---------------------------------------------------------------------------------------


def operator(name, ts, dur, tid=1):
    return event("cpu_op", name, 1000 * ts, 1000 * (ts + dur), pid=7, tid=tid)


def memory(ts, amount, tid=1, **args):
    args = {"Bytes": amount, "Device Type": 0, "Device Id": -1} | args
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 7, "tid": tid, "ts": ts, "args": args}


GPU = {"Device Type": 1, "Device Id": 2}


@pytest.fixture
def job(tmp_path):
    ranks = [
        [
            operator("aten::add", 10, 20),
            operator("aten::empty", 12, 3),
            operator("aten::mul", 40, 10),
            memory(12, 64, **GPU, **{"Total Allocated": 64, "Total Reserved": 2048, "Addr": 5}),
            memory(15, 4),
            memory(35, -4),
            memory(45, 32, tid=2, **GPU),
            memory(49.5, -64, **GPU, **{"Total Allocated": 32, "Total Reserved": 2048}),
            {"ph": "i", "s": "t", "name": "other", "pid": 7, "tid": 1, "ts": 1, "args": {}},
        ],
        [operator("aten::add", 0, 20), memory(3, 1), memory(50, 7)],
    ]
    return read(write_ranks(tmp_path, *ranks))


def test_events_of_traces(job):
    frame = memory_events(job, ranks=[0])
    assert frame["time_ns"].tolist() == [12_000, 15_000, 35_000, 45_000, 49_500]
    assert frame["device"].tolist() == ["cuda:2", "cpu", "cpu", "cuda:2", "cuda:2"]
    assert frame["bytes"].tolist() == [64, 4, -4, 32, -64]
    assert frame["running_bytes"].tolist() == [64, 4, 0, 96, 32]
    assert frame["total_allocated_bytes"].tolist() == [64, -1, -1, -1, 32]
    assert frame["total_reserved_bytes"].tolist() == [2048, -1, -1, -1, 2048]
    assert frame["address"].tolist() == [5, -1, -1, -1, -1]
    # At 15, aten::empty has ended; the event at 45 is on another thread.
    assert frame["operator"].tolist() == ["aten::empty", "aten::add", "", "", "aten::mul"]
    names = job[0].events["name"]
    for row in frame[frame["operator_id"] >= 0].itertuples():
        assert names[row.operator_id] == row.operator
    assert frame["tid"].tolist() == ["1", "1", "1", "2", "1"]
    assert frame.attrs["matched"] == {"allocations": 3, "releases": 2}


def test_events_in_a_window_keep_the_sum_since_the_beginning(job):
    frame = memory_events(job, window=(45_000, 50_000))
    assert frame["rank"].tolist() == [0, 0]
    assert frame["running_bytes"].tolist() == [96, 32]
    assert memory_events(job)["rank"].tolist() == [0] * 5 + [1] * 2


@pytest.mark.parametrize("records", [[operator("a", 0, 1)], [memory(1, 2)]])
def test_traces_may_hold_memory_events_alone_or_none(tmp_path, records):
    frame = memory_events(load(tmp_path, records))
    assert len(frame) == (records[0]["ph"] == "i")


# --- PyTorch's own files --------------------------------------------------------------------------


def test_what_pytorch_exports_is_read_in_every_form():
    raw = memory_timeline(MEMORY / "memory.raw.json.gz")
    sums = memory_timeline(MEMORY / "memory.json")
    assert memory_timeline(MEMORY / "memory.json.gz").equals(sums)
    # Only the weight and the bias existed before.
    parameters = (64 * 64 + 64) * 4
    assert raw.attrs["preexisting_bytes"]["Parameter"] == parameters
    assert (raw["Parameter"] == parameters).all()
    assert raw["Gradient"].max() == parameters
    assert raw["Optimizer state"].iloc[-1] == parameters
    # Like PyTorch, take whole microseconds and the last total within each.
    origin = raw.attrs["origin_ns"]
    microsecond = [int((time + origin) / 1000) for time in raw["time_ns"].tolist()]
    last = raw.groupby(microsecond).last()
    names = list(MEMORY_CATEGORIES)
    assert sums[names].to_numpy().tolist() == last[names].to_numpy().tolist()
    assert ((sums["time_ns"] + sums.attrs["origin_ns"]) // 1000).tolist() == last.index.tolist()


def test_what_pytorch_traces_hold_adds_up():
    traces = hw.load(MEMORY / "trace.json.gz", cache=False, progress=False)
    frame = memory_events(traces)
    document = json.loads(gzip.decompress((MEMORY / "trace.json.gz").read_bytes()))
    records = [event for event in document["traceEvents"] if event["name"] == "[memory]"]
    assert len(frame) == len(records) > 10
    assert sorted(frame["bytes"]) == sorted(event["args"]["Bytes"] for event in records)
    assert set(frame["device"]) == {"cpu"}
    # The allocator's totals change by the sizes of the events.
    steps = np.diff(frame["total_allocated_bytes"])
    assert steps.tolist() == frame["bytes"].tolist()[1:]
    assert "aten::empty" in set(frame["operator"])


def test_devices_have_pytorch_s_numbers():
    autograd = pytest.importorskip("torch._C._autograd")
    from hta_widgets.analysis.memory import _DEVICES

    numbers = {
        name.lower(): int(getattr(value, "value", value))
        for name, value in autograd.DeviceType.__members__.items()
    }
    assert len(_DEVICES) == 21
    for number, name in enumerate(_DEVICES):
        assert numbers.get({"privateuseone": "privateuse1"}.get(name, name)) == number
