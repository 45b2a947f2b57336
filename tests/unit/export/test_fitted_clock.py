"""Exports on the fitted clock shift all times of a rank by one offset and change nothing else."""

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from support.collective_job import collective
from support.small import call, kernel

from hta_widgets import cli
from hta_widgets.analysis import clock_offsets
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import export_trace
from hta_widgets.trace.record_times import add_ns

pytestmark = pytest.mark.slow

#: Lead of rank 1's clock in ns; not a whole number of µs, so that digits have to change.
AHEAD = 300_017
#: How much earlier than rank 0 it then begins, so that negative times have to be avoided.
FIRST = 5_000
EPOCH = 1_735_689_600_000_000_000
#: Base time and first time of the file: with the epoch, since boot, and zero.
BASES = {"epoch": (EPOCH, 7_000_000), "boot": (0, 7_000_000), "zero": (0, 0)}


def at(time_ns):
    """Return a time in µs as text, so that it is not rounded as a float."""
    return f"{Decimal(time_ns) / 1000:f}"


def records_of(rank, first_ns):
    """Return the text of all kinds of records that have a time."""
    own = first_ns + (AHEAD if rank else 0)
    timed = [call(10, 40, launch=1), kernel(50, 90, launch=1, note="9.5")]
    if rank:
        timed.append(call(-FIRST, -FIRST + 20))
    for turn in range(5):
        begin, end = 2000 * turn + 1000 + 400 * rank, 2000 * turn + 2000
        timed.append(collective(begin, end, seq=turn))
    texts = [json.dumps({"ph": "M", "name": "thread_name", "pid": 10, "tid": 1, "ts": 0,
                         "args": {"name": "main"}})]  # fmt: skip
    for record in timed:
        start, dur = round(record.pop("ts") * 1000), round(record.pop("dur") * 1000)
        body = json.dumps(record)[1:]
        texts.append(f'{{"ts": {at(own + start)}, "dur": {at(dur)}, {body}')
    rest = [
        (0, '"ph": "B", "name": "outer", "pid": 10, "tid": 3'),
        (700, '"ph": "E", "pid": 10, "tid": 3'),
        (60, '"ph": "i", "s": "t", "name": "mark", "pid": 10, "tid": 3'),
        (70, '"ph": "C", "name": "used", "pid": 0, "args": {"bytes": 5}'),
        (80, '"ph": "b", "cat": "a", "id": "x", "name": "wait", "pid": 10, "tid": 3'),
        (85, '"ph": "n", "cat": "a", "id": "x", "name": "wait", "pid": 10, "tid": 3'),
        (95, '"ph": "e", "cat": "a", "id": "x", "name": "wait", "pid": 10, "tid": 3'),
        (10, '"ph": "s", "cat": "ac2g", "id": 1, "name": "ac2g", "pid": 10, "tid": 1'),
        (50, '"ph": "f", "bp": "e", "cat": "ac2g", "id": 1, "name": "ac2g", "pid": 0, "tid": 7'),
    ]
    return texts + [f'{{"ts": {at(own + time)}, {body}}}' for time, body in rest]


@pytest.fixture(params=BASES)
def kind(request):
    return request.param


@pytest.fixture
def job(trace_file, load, kind):
    """Load two ranks; the clock of the second is ahead."""
    base_ns, first_ns = BASES[kind]
    keys = {"baseTimeNanoseconds": base_ns} if base_ns else {}
    for rank in (0, 1):
        about = {"distributedInfo": {"rank": rank}, "host_name": f"node-{rank}", **keys}
        trace_file(records_of(rank, first_ns), f"rank-{rank}.json", **about)
    traces = load(trace_file([], "none.json").parent.glob("rank-*.json"))
    assert clock_offsets(traces).offset_ns.tolist() == [0, AHEAD]
    return traces


@pytest.fixture
def form(request, tmp_path):
    return tmp_path / request.param


FORMS = pytest.mark.parametrize("form", ["merged.json", "folder"], indirect=True)


def times_of(traces, rank):
    """Return all times of a rank on the clock of the set."""
    trace = traces[rank]
    starts = (trace.events.start_ns, trace.asyncs.start_ns)
    return np.concatenate([*starts, trace.instants.time_ns, trace.counters.time_ns])


def by_time_without(records):
    rest = [{key: value for key, value in record.items() if key != "ts"} for record in records]
    return rest, [record.get("ts") for record in records]


@FORMS
def test_all_times_are_those_of_the_fitted_clock_when_loaded_again(job, form, load):
    fitted = job.with_clock("fitted")
    report = export_trace(fitted, form, clock="set", counters="own")
    assert report.clock == "fitted"
    back = load(form)
    assert back.ranks == [0, 1]
    for rank in (0, 1):
        # Loaded times count from the earliest event.
        expected = times_of(fitted, rank) - fitted.start_ns
        assert times_of(back, rank).tolist() == expected.tolist()
        old = job[rank].events.drop(columns="start_ns")
        pd.testing.assert_frame_equal(back[rank].events.drop(columns="start_ns"), old)
        pd.testing.assert_frame_equal(back[rank].flows, job[rank].flows)
        assert [back[rank].args(row) for row in range(len(old))] == [
            job[rank].args(row) for row in range(len(old))
        ]
    if fitted.origin_ns is not None:
        assert back.origin_ns == fitted.origin_ns + fitted.start_ns
    assert clock_offsets(back).offset_ns.tolist() == [0, 0]
    # By construction, the ranks leave their first all-reduce together.
    ends = [
        (frame.start_ns + frame.dur_ns)[frame.name.str.startswith("nccl")].min()
        for frame in (back[0].events, back[1].events)
    ]
    assert ends[0] == ends[1] == FIRST + 2000


def test_records_keep_all_but_their_times(job, kind, tmp_path, document):
    export_trace(job.with_clock("fitted"), tmp_path / "out", clock="set", counters="own")
    for rank in (0, 1):
        own = document(tmp_path / f"rank-{rank}.json")
        written = document(tmp_path / f"out/rank-{rank}.trace.json.gz")
        old_rest, old_ts = by_time_without(own.pop("traceEvents"))
        new_rest, new_ts = by_time_without(written.pop("traceEvents"))
        assert new_rest == old_rest
        # If the origin of the times is unknown, they stay nonnegative.
        lift = 0 if kind == "epoch" else FIRST
        offset = rank * AHEAD - lift
        assert old_ts[0] == new_ts[0] == 0, "a name has no time"
        assert [int(1000 * (old - new)) for old, new in zip(old_ts, new_ts, strict=True)] == [
            0,
            *[offset] * (len(old_ts) - 1),
        ]
        assert written.pop("hta_widgets") == {"clock": "fitted", "offset_ns": offset}
        assert written == own


@FORMS
def test_recorded_times_go_out_unless_asked(job, form, load, tmp_path):
    report = export_trace(job.with_clock("fitted"), form)
    assert report.clock == "recorded"
    back = load(form)
    for rank in (0, 1):
        assert "hta_widgets" not in back[rank].metadata
        pd.testing.assert_frame_equal(back[rank].events, job[rank].events, check_exact=True)


def test_a_set_on_the_recorded_clock_is_written_as_ever(job, tmp_path):
    report = export_trace(job, tmp_path / "set.json", clock="set")
    export_trace(job, tmp_path / "recorded.json")
    assert report.clock == "recorded"
    assert (tmp_path / "set.json").read_bytes() == (tmp_path / "recorded.json").read_bytes()


@FORMS
def test_windows_are_in_the_times_of_the_set(job, form, load):
    fitted = job.with_clock("fitted")
    low, high = FIRST + 1500, FIRST + 6100
    chosen = fitted.select(start_ns=low, end_ns=high)
    export_trace(fitted, form, chosen, clip=True, keep_parents=False, clock="set")
    back = load(form)
    zero = max(low, fitted.subset(start_ns=low, end_ns=high).start_ns)
    for rank in (0, 1):
        frame = chosen.events()
        frame = frame[frame["rank"] == rank]
        start = np.maximum(frame.start_ns, low)
        end = np.minimum(frame.start_ns + frame.dur_ns, high)
        assert len(frame) == 3
        assert back[rank].events.start_ns.tolist() == (start - zero).tolist()
        assert (back[rank].events.dur_ns).tolist() == (end - start).tolist()


def test_derived_counters_move_along(job, tmp_path, load):
    fitted = job.with_clock("fitted")
    plain = load(export_trace(job, tmp_path / "plain.json", counters=True).path)
    report = export_trace(fitted, tmp_path / "moved.json", counters=True, clock="set")
    assert report.samples > 0
    moved = load(report.path)
    for rank in (0, 1):
        apart = plain[rank].events.start_ns[0] - moved[rank].events.start_ns[0]
        assert apart == rank * AHEAD - FIRST
        assert len(moved[rank].counters) > 1
        assert (plain[rank].counters.time_ns - moved[rank].counters.time_ns).unique() == [apart]


def test_a_part_of_the_set_lies_on_the_same_clock(job, tmp_path, load):
    fitted = job.with_clock("fitted")
    paths = [
        export_trace(fitted.subset(ranks=[rank]), tmp_path / f"{rank}.json", clock="set").path
        for rank in (0, 1)
    ]
    back = load(paths)
    for rank in (0, 1):
        expected = fitted[rank].events.start_ns - fitted.start_ns
        assert back[rank].events.start_ns.tolist() == expected.tolist()


def test_offsets_add_up_and_survive_scrubbing(job, kind, tmp_path, load):
    first = load(export_trace(job.with_clock("fitted"), tmp_path / "1.json", clock="set").path)
    lift = 0 if kind == "epoch" else FIRST
    again = first.with_clock("fitted")
    export_trace(again, tmp_path / "2", clock="set", scrub=True)
    back = load(export_trace(load(tmp_path / "2"), tmp_path / "3.json", scrub=True).path)
    noted = [back[rank].metadata["hta_widgets"] for rank in (0, 1)]
    assert noted == [{"clock": "fitted", "offset_ns": offset - lift} for offset in (0, AHEAD)]
    for rank in (0, 1):
        pd.testing.assert_frame_equal(back[rank].events, first[rank].events, check_exact=True)


def test_clocks_that_have_nothing_in_common_become_one(trace_file, load, tmp_path):
    """Otherwise readers would align the files by their first events again."""
    for rank, (base_ns, first_ns) in enumerate((BASES["epoch"], BASES["boot"])):
        keys = {"baseTimeNanoseconds": base_ns} if base_ns else {}
        records = records_of(rank, first_ns)
        trace_file(records, f"rank-{rank}.json", distributedInfo={"rank": rank}, **keys)
    traces = load(tmp_path.glob("rank-*.json"))
    assert "clock" in traces.problems["kind"].tolist()
    fitted = traces.with_clock("fitted")
    for form in ("merged.json", "folder"):
        back = load(export_trace(fitted, tmp_path / form, clock="set").path)
        assert "clock" not in back.problems["kind"].tolist()
        for rank in (0, 1):
            expected = fitted[rank].events.start_ns - fitted.start_ns
            assert back[rank].events.start_ns.tolist() == expected.tolist()


def test_nothing_fitted_is_refused_in_words(trace_file, load, tmp_path, job, kind, capsys):
    for rank in (0, 1):
        name = f"alone-{rank}.json"
        trace_file([json.dumps(call(5, 9))], name, distributedInfo={"rank": rank})
    traces = load(tmp_path.glob("alone-*.json")).with_clock("fitted")
    with pytest.raises(TraceError, match="no collective is found on two ranks"):
        export_trace(traces, tmp_path / "out.json", clock="set")
    with pytest.raises(TraceError, match="clock= takes 'recorded' or 'set', not 'fitted'"):
        export_trace(job, tmp_path / "out.json", clock="fitted")
    ranks = job.with_clock("fitted").values()
    moved = [trace for trace in ranks if trace.clock_offset_ns]
    with pytest.raises(TraceError, match="no reference for its fitted clock"):
        export_trace(moved[0], tmp_path / "out.json", clock="set")
    assert not (tmp_path / "out.json").exists()
    inputs = str(tmp_path / "rank-0.json")
    out = str(tmp_path / "out.json")
    assert cli.main(["export", inputs, "-o", out, "--fitted-clock"]) == 2
    assert "two ranks or more" in capsys.readouterr().err


def test_on_the_command_line(job, kind, tmp_path, load, capsys):
    inputs = [str(tmp_path / f"rank-{rank}.json") for rank in (0, 1)]
    out = tmp_path / "out.json.gz"
    assert cli.main(["export", *inputs, "-o", str(out), "--fitted-clock"]) == 0
    assert "on the fitted clock" in capsys.readouterr().out
    assert clock_offsets(load(out)).offset_ns.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("raw", "move_ns", "expected"),
    [
        ("1712195495997093.2", -17, "1712195495997093.183"),
        ("12", 1, "12.001"),
        ("0.5", -500, "0"),
        ("0.500", -501, "-0.001"),
        ("-1.5", 1, "-1.499"),
        ("1.2e1", 5, "12.005"),
        ('"7.25"', 250, "7.5"),
        ("1.0001", 1000, "2.0001"),
        ("1.0005", 1, "1.001"),  # read as 1000 ns; half to even, 1001.5 would be 1002
        ("null", 5, "null"),
        ("", 5, ""),
    ],
)
def test_times_move_by_whole_nanoseconds(raw, move_ns, expected):
    assert add_ns(raw.encode(), move_ns).decode() == expected


def test_a_made_job_comes_back_on_the_fitted_clock(shared, tmp_path, load):
    folder = shared / "traces/made/ddp_8rank"
    if not folder.is_dir():
        pytest.skip(f"no made job at {folder}")
    traces = load([folder / f"rank-{rank}.json.gz" for rank in (0, 5)])
    fitted = traces.with_clock("fitted")
    offsets = dict(zip(traces.ranks, clock_offsets(traces).offset_ns.tolist(), strict=True))
    assert len(set(offsets.values())) == 2
    for form in ("merged.json.gz", "folder"):
        back = load(export_trace(fitted, tmp_path / form, clock="set").path)
        assert Counter(back.problems["kind"]) == Counter(traces.problems["kind"])
        assert back.origin_ns == fitted.origin_ns + fitted.start_ns
        for rank in back:
            expected = fitted[rank].events.start_ns - fitted.start_ns
            assert np.array_equal(back[rank].events.start_ns, expected)
            noted = back[rank].metadata["hta_widgets"]
            assert noted == {"clock": "fitted", "offset_ns": offsets[rank]}
