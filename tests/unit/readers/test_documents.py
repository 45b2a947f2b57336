"""Several concatenated traces in one file, each with its own base time."""

import json

import pytest

import hta_widgets as hw
from hta_widgets.formats.kineto import reader

from .conftest import event

BASE_NS = 1_700_000_000_000_000_000


def document(name: str, first_us: int, **keys) -> str:
    records = [event(f"{name}{number}", first_us + 10 * number) for number in range(3)]
    return json.dumps({"traceEvents": records, **keys})


def load(source):
    return hw.load(source, cache=False, progress=False)


def starts_ns(traces) -> dict[str, int]:
    """Return the start of each event, relative to event ``a0``."""
    frame = traces.events(columns=["start_ns", "name"]).set_index("name")["start_ns"]
    return (frame - frame["a0"]).to_dict()


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "delta_us"),
    [
        ({"baseTimeNanoseconds": BASE_NS}, {"baseTimeNanoseconds": BASE_NS + 500_000}, 500),
        ({"baseTimeNanoseconds": 1_000_000}, {}, -1000),
        ({}, {"baseTimeNanoseconds": 1_000_000}, 1000),
    ],
)
def test_an_export_has_the_times_of_every_base(write, tmp_path, first, second, delta_us, stored):
    traces = load(write(document("a", 5_000, **first) + document("b", 5_100, **second)))
    begin = delta_us + 100
    expected = {f"a{number}": number * 10_000 for number in range(3)}
    expected |= {f"b{number}": 1000 * (begin + 10 * number) for number in range(3)}
    assert starts_ns(traces) == expected
    if stored:
        traces = load(traces.save(tmp_path / "kept.store"))
    assert starts_ns(load(hw.export_trace(traces, tmp_path / "again.json").path)) == expected


def test_events_before_what_is_no_trace_count_from_the_base_before_them(
    write, tmp_path, monkeypatch
):
    """A list is given up after many entries that are not events."""
    monkeypatch.setattr(reader, "_CHECKED_ENTRIES", 10_000)
    text = document("a", 100, baseTimeNanoseconds=BASE_NS) + document("b", 200)
    traces = load(write(text.removesuffix("]}") + ",0" * 25_000 + "]}"))
    assert starts_ns(traces)["b0"] == 100_000
    details = traces.problems["detail"]
    assert details.str.contains("text after the end of the trace").any()
    assert details.str.contains("truncated trace without baseTimeNanoseconds").any()
    again = load(hw.export_trace(traces, tmp_path / "again.json").path)
    assert starts_ns(again) == starts_ns(traces)


@pytest.mark.parametrize("cut", ['"dur"', '"schemaVersion"', ', "baseTime'])
def test_a_cut_trace_counts_from_the_base_of_the_trace_before_it(write, tmp_path, cut):
    keys = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS}
    text = document("a", 100, **keys) + document("b", 200, **keys)
    traces = load(write(text[: text.rindex(cut)]))
    assert starts_ns(traces)["b0"] == 100_000
    details = traces.problems["detail"][traces.problems["kind"] == "repaired"]
    assert details.str.contains("truncated trace without baseTimeNanoseconds").any()
    again = load(hw.export_trace(traces, tmp_path / "again.json").path)
    assert starts_ns(again) == starts_ns(traces)


def test_text_that_is_no_trace_needs_no_base(write):
    traces = load(write(document("a", 100, baseTimeNanoseconds=BASE_NS) + '{"garbage": [1'))
    assert not traces.problems["detail"].str.contains("truncated trace").any()
