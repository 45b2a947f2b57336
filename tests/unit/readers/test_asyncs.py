"""Files with async intervals only, and interval ends in another order than starts."""

from pathlib import Path

import pytest

import hta_widgets as hw
from hta_widgets import TraceError
from hta_widgets.answers.summary import job_summary
from hta_widgets.panels.headline import headline, text_of

from .conftest import event


def interval(number, start, dur):
    record = {"name": f"request {number}", "cat": "serve", "pid": 1, "tid": 1, "id": number}
    return [record | {"ph": "b", "ts": start}, record | {"ph": "e", "ts": start + dur}]


def intervals(count, first=3):
    return [record for k in range(count) for record in interval(k, first + 100 * k, 250 + k)]


@pytest.fixture
def traces(write):
    return hw.load(write(intervals(20)))


def test_intervals_give_span_and_counts(traces, tmp_path):
    for each in (traces, hw.load(traces.save(tmp_path / "kept.store"))):
        assert each.span_ns == (0, 2_169_000)
        assert "20 async intervals · 2.169\u202fms" in repr(each)
        assert each.summary()[["asyncs", "end_ns"]].to_numpy().tolist() == [[20, 2_169_000]]
        assert job_summary(each)["ranks"][0]["asyncs"] == 20
        assert text_of(headline(each).text_parts).replace("\u202f", " ") == (
            "20 async intervals of 1 rank over 2.17 ms; the longest is request 19 with 269 µs."
        )


def test_a_window_of_intervals_is_exported(traces, tmp_path):
    window = traces.select(start_ns=1_000_000, end_ns=1_100_000)
    hw.export_trace(traces, tmp_path / "part.json", window)
    names = set(hw.load(tmp_path / "part.json", cache=False)[0].asyncs["name"])
    assert names == {f"request {k}" for k in (8, 9, 10)}
    with pytest.raises(TraceError, match="nothing to export"):
        hw.export_trace(traces, tmp_path / "none.json", traces.select(start_ns=10**9))


def test_files_with_events_are_as_long_as_these(load_one):
    trace, _ = load_one([event("op", 0, 5), *intervals(2, 50)])
    assert (trace.start_ns, trace.end_ns) == (0, 5000)
    assert "1 events on" in repr(trace)


def test_crossing_names_of_begins_and_ends_are_noted(load_one):
    times = [("a", "B", 0), ("b", "B", 5), ("a", "E", 10), ("b", "E", 20), ("c", "B", 30)]
    records = [event(name, ts, ph=phase) for name, phase, ts in [*times, ("", "E", 40)]]
    for record in records:
        del record["dur"]
    trace, problems = load_one(records)
    assert trace.events["dur_ns"].tolist() == [20_000, 5000, 10_000]
    assert problems[["kind", "count"]].to_numpy().tolist() == [["overlap", 2]]


def test_an_end_without_a_name_ends_what_its_id_began(write):
    records = [*interval(1, 0, 9), *interval(2, 3, 5), *interval(3, 0, 7)]
    del records[1]["name"]
    records[3]["name"] = ""
    traces = hw.load(write(records))
    assert traces[0].asyncs["dur_ns"].tolist() == [9_000, 7_000, 5_000]
    assert "unpaired" not in set(traces.problems["kind"])


def test_the_cases_of_intervals_alone(shared):
    read = hw.load(shared / "cases" / "async-order" / "a.json", cache=False)
    assert read[0].asyncs[["start_ns", "dur_ns"]].to_numpy().tolist() == [
        [0, 5000],
        [0, 3000],
        [1000, 3000],
    ]
    assert read.span_ns == (0, 5000)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"ph": "i", "s": "p", "tid": 1}, "3 instants"),
        ({"ph": "C", "args": {"used": 5}}, "3 counter samples"),
    ],
)
def test_a_file_of_instants_or_counters_alone_has_their_time(load_one, record, words):
    trace, _ = load_one([record | {"name": "a", "pid": 1, "ts": ts} for ts in (30, 70, 50)])
    traces = hw.load(trace.path, cache=False)
    assert (words in repr(traces), traces.span_ns) == (True, (0, 40_000))
    hw.Dashboard(traces).save_html(Path(trace.path).with_suffix(".html"))


def test_time_0_is_the_first_record_of_a_file_without_events(load_one):
    records = [{"ph": phase, "name": "a", "id": 1, "pid": 1, "tid": 1} for phase in "STF"]
    trace, _ = load_one([record | {"ts": 5 + 2 * k} for k, record in enumerate(records)])
    assert trace.asyncs[["start_ns", "dur_ns"]].to_numpy().tolist() == [[0, 4_000]]
    assert trace.instants["time_ns"].tolist() == [2_000]
