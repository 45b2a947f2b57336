"""Windows of real traces: exported, loaded again, and counted with another decoder."""

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.export.traces.files import export_trace

pytestmark = pytest.mark.slow

REAL = {
    "resnet50": "traces/kineto/resnet50_num_workers_0_a",
    "ddp": "traces/made/ddp_8rank",
    "nanoseconds": "traces/hta_tests/ns_resolution_trace",
    "amd": "traces/hta_tests/amd_trace",
    "graphs and syncs": "traces/hta_tests/critical_path__cuda_event_sync_multi_stream",
}


@pytest.fixture(scope="module", params=[*REAL, "demo"])
def traces(request, tmp_path_factory):
    if request.param == "demo":
        folder = tmp_path_factory.mktemp("demo") / "job"
        write_demo(folder, ranks=4, steps=2)
    else:
        folder = request.getfixturevalue("shared") / REAL[request.param]
    loaded = hw.load(folder, progress=False)
    return loaded if len(loaded) < 8 else loaded.subset(ranks=[0, 5])


def _window(traces):
    length = traces.end_ns - traces.start_ns
    start_ns = traces.start_ns + length // 3
    return traces.select(start_ns=start_ns, end_ns=start_ns + length // 7)


def _records(path):
    data = path.read_bytes()
    data = gzip.decompress(data) if path.name.endswith(".gz") else data
    result = json.loads(data, parse_float=Decimal)
    return result["traceEvents"] if isinstance(result, dict) else result


def test_a_window_comes_back_with_its_events_args_and_flows(traces, tmp_path):
    window = _window(traces)
    report = export_trace(traces, tmp_path / "window.json.gz", window, keep_parents=False)
    back = hw.load(report.path, progress=False)
    # Without a base time, file origins differ, so each rank is compared on its own clock.
    columns = ["start_ns", "dur_ns", "name", "category", "pid", "tid", "stream", "correlation"]
    for rank in report.ranks:
        own = traces[rank].events[window.mask(traces[rank])]
        again = back[rank].events
        shift = int(own["start_ns"].iloc[0] - again["start_ns"].iloc[0])
        assert len(again) == len(own)
        for column in columns:
            expected = own[column] - shift if column == "start_ns" else own[column]
            assert again[column].astype(str).tolist() == expected.astype(str).tolist(), column
        old = dict(enumerate(own.index))
        for row in range(0, len(again), max(1, len(again) // 50)):
            assert back[rank].args(row) == traces[rank].args(old[row])
        places = {row: place for place, row in enumerate(own.index)}
        flows = traces[rank].flows
        inside = flows[flows["source"].isin(own.index) & flows["target"].isin(own.index)]
        expected = {
            (kind, places[source], places[target])
            for kind, source, target in inside.astype({"kind": str}).itertuples(index=False)
        }
        got = set(back[rank].flows.astype({"kind": str}).itertuples(index=False, name=None))
        assert got == expected
        # Except for the mark of a partial file.
        assert back[rank].metadata.pop("hta_widgets")["part"]["all_events"] is True
        assert back[rank].metadata == {
            key: value for key, value in traces[rank].metadata.items() if key != "traceEvents"
        }


def test_one_rank_is_copied_record_by_record(traces, tmp_path):
    rank = traces.ranks[-1]
    chosen = traces.select(ranks=[rank])
    report = export_trace(traces, tmp_path / "rank.json", chosen, counters="own")
    # Decimals compare by value. As text, digits and types count as well.
    own = _records(Path(traces[rank].path))
    assert [repr(record) for record in _records(report.path)] == [repr(record) for record in own]
    assert report.dropped == 0


def test_clipped_sums_are_those_of_the_window(traces, tmp_path):
    window = _window(traces)
    report = export_trace(traces, tmp_path / "clip", window, clip=True, keep_parents=False)
    for rank in report.ranks:
        trace, expected, got, starts, ends = traces[rank], Counter(), Counter(), [], []
        events = trace.events.loc[window.mask(trace), ["name", "start_ns", "dur_ns"]]
        for name, start_ns, dur_ns in events.itertuples(index=False):
            inside = min(start_ns + dur_ns, window.end_ns) - max(start_ns, window.start_ns)
            expected[name] += inside
        for record in _records(report.path / f"rank-{rank}.trace.json.gz"):
            if record["ph"] == "X":
                start, dur = (Decimal(str(record[key])) * 1000 for key in ("ts", "dur"))
                got[record["name"]] += int(dur)
                starts.append(start)
                ends.append(start + dur)
        assert got == expected
        assert max(ends) - min(starts) <= window.end_ns - window.start_ns


def test_nothing_connects_across_ranks(traces, tmp_path):
    if len(traces) == 1:
        pytest.skip("one rank has nothing to mix with")
    report = export_trace(traces, tmp_path / "all.json", _window(traces))
    records = _records(report.path)
    rank_of = {r["pid"]: r["args"]["rank"] for r in records if r["name"] == "hta_widgets"}
    assert set(rank_of.values()) == set(traces)
    ends = {}
    for record in records:
        args = record.get("args", {})
        for field, number in (
            ("flow", record.get("id")),
            ("correlation", args.get("correlation")),
            ("External id", args.get("External id")),
        ):
            if isinstance(number, int) and number >= 0:
                ends.setdefault((field, number), set()).add(rank_of[record["pid"]])
    assert ends
    assert all(len(ranks) == 1 for ranks in ends.values())
