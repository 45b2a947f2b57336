"""Several ranks together: one time axis, subsets, and the displayed summary."""

import pickle

import pytest
from support import small
from support.made_ranks import kernel, op

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.traceset import TraceSet

EPOCH = 1_700_000_000 * 10**9


def problems_of(traces):
    return [(row.rank, row.kind) for row in traces.problems.itertuples() if row.kind == "clock"]


def test_ranks_lie_on_the_clock_that_their_hosts_recorded(make):
    times = {1: 5, 0: 2.5}
    ranks = [make(op("a", at, 1), rank=rank, base_ns=EPOCH) for rank, at in times.items()]
    traces = TraceSet(ranks)
    assert traces.origin_ns == EPOCH + 2_500
    starts = {rank: trace.events["start_ns"].tolist() for rank, trace in traces.items()}
    assert list(starts.items()) == [(0, [0]), (1, [2_500])]
    assert (traces.start_ns, traces.end_ns) == (0, 3_500)
    assert not problems_of(traces)


def test_without_an_epoch_the_origin_is_not_known(make):
    traces = TraceSet([make(op("a", 4_203_669_604_595, 1))])
    assert traces.origin_ns is None
    assert traces.start_ns == 0


def test_a_clock_that_has_nothing_in_common_is_moved_and_reported(make):
    expected = [make(op("a", at, 50), rank=rank, base_ns=EPOCH) for rank, at in enumerate((1, 21))]
    traces = TraceSet([*expected, make(op("a", 10_000_000, 5), rank=2)])
    assert [trace.start_ns for trace in traces.values()] == [0, 20_000, 0]
    assert problems_of(traces) == [(2, "clock")]
    assert traces.origin_ns == EPOCH + 1_000
    assert "does not count from the epoch" in traces.problems["detail"].iloc[0]


def test_the_smaller_group_is_moved_as_a_whole(make):
    day = 86_400 * 10**6
    ranks = [make(op("a", first, 10), rank=k) for k, first in enumerate([day, day + 7, 3, 5, 9])]
    traces = TraceSet(ranks)
    assert [trace.start_ns for trace in traces.values()] == [0, 7_000, 0, 2_000, 6_000]
    assert problems_of(traces) == [(0, "clock"), (1, "clock")]
    assert "differs from other ranks' by +86,400 s" in traces.problems["detail"].iloc[0]


def test_gaps_that_a_long_job_explains_are_kept(make):
    hour = 3600 * 10**6
    traces = TraceSet([make(op("a", 3 * rank * hour, hour), rank=rank) for rank in (0, 1)])
    assert traces[1].start_ns == 3 * hour * 1000
    assert not problems_of(traces)


def test_a_rank_without_events_does_not_set_the_origin(make):
    traces = TraceSet([make(*[], rank=0), make(op("a", 5, 1), rank=1, base_ns=EPOCH)])
    assert traces.origin_ns == EPOCH + 5_000
    assert traces.end_ns == 1_000
    assert TraceSet([]).origin_ns is None


def test_it_is_a_mapping_by_rank(make):
    traces = TraceSet([make(op("a", 0, 1), rank=k) for k in (3, 1)])
    assert [(rank, trace.rank) for rank, trace in traces.items()] == [(1, 1), (3, 3)]
    assert 3 in traces
    assert len(traces) == 2
    with pytest.raises(KeyError, match=r"no rank 2\. The ranks are 1, 3"):
        traces[2]
    with pytest.raises(ValueError, match="must be unique"):
        TraceSet([make(*[], rank=1), make(*[], rank=1)])


def test_events_of_several_ranks_share_their_categories(make):
    first = make(op("a", 0, 1), op("b", 2, 1), rank=0)
    traces = TraceSet([first, make(kernel("k", 1, 1), op("b", 2, 1), rank=1)])
    frame = traces.events()
    assert frame.columns[0] == "rank"
    assert frame.index.name == "id"
    assert frame.index.tolist() == [0, 1, 0, 1]
    assert frame["name"].tolist() == ["a", "b", "k", "b"]
    assert sorted(frame["name"].cat.categories) == ["a", "b", "k"]
    for rank, trace in traces.items():
        part = frame[frame["rank"] == rank].drop(columns="rank")
        own = trace.events
        for column in own:
            assert part[column].tolist() == own[column].tolist()
            assert str(part[column].dtype) == str(own[column].dtype)
    some = traces.events(ranks=[1], columns=["name", "dur_ns"])
    assert list(some.columns) == ["rank", "name", "dur_ns"]
    with pytest.raises(TraceError, match="no column 'duration'"):
        traces.events(columns=["duration"])
    for wrong in (traces.select(ranks=[1]), "dur_ns > 1"):
        with pytest.raises(TraceError, match=r"selection\.events\(\)"):
            traces.events(wrong)
    assert TraceSet([]).events().empty


def test_summary_tells_where_ranks_come_from(make):
    single = make(op("a", 0, 1), rank=0, stated_rank=4, host="node1")
    other = make(op("a", 3, 1), rank=1, format="byteps", worker=2, local_rank=1)
    traces = TraceSet([single, other])
    assert traces.summary().iloc[:, :12].to_dict("list") == {
        "rank": [0, 1], "job": [None, None], "worker": [-1, 2], "local_rank": [-1, 1],
        "server": [-1, -1], "host": ["node1", None], "file": ["rank-0.json", "rank-1.json"],
        "format": ["kineto", "byteps"], "events": [1, 1], "start_ns": [0, 3_000],
        "end_ns": [1_000, 4_000], "stated_rank": [4, -1],
    }  # fmt: skip
    assert (traces.formats, traces.format) == (["byteps", "kineto"], "mixed")
    assert traces.subset([0]).format == "kineto"


def test_files_have_a_row_each_with_the_ranks_in_it(make):
    ranks = [make(op("a", start, 1), rank=rank) for rank, start in ((0, 1), (1, 4), (2, 0))]
    ranks[1].path = ranks[0].path
    assert TraceSet(ranks).files().to_dict("list") == {
        "path": ["rank-0.json", "rank-2.json"], "format": ["kineto", "kineto"], "ranks": [2, 1],
        "events": [2, 1], "start_ns": [1_000, 0], "end_ns": [5_000, 1_000],
    }  # fmt: skip


def test_a_summary_shows_only_columns_with_values(make):
    alone = TraceSet([make(op("a", 0, 1), rank=0)]).summary()
    assert {"job", "worker", "local_rank", "server", "host"} <= set(alone.columns)
    shown = alone._repr_html_() + repr(alone)
    assert not any(name in shown for name in ("job", "worker", "server", "host", "None"))
    mixed = [make(op("a", 0, 1), rank=0), make(op("a", 3, 1), rank=1, worker=0, local_rank=1)]
    assert "worker" in TraceSet(mixed).summary()._repr_html_()


def test_notes_are_counted_in_words(make):
    problems = Problems()
    problems.add("repaired", 5, "control characters", 0)
    assert "complete, 1 note in .problems" in repr(
        TraceSet([make(op("a", 0, 1))], problems=problems)
    )
    problems.add("rounding", 5, "half a ns", 0)
    assert "2 notes in .problems" in repr(TraceSet([make(op("a", 0, 1))], problems=problems))


def test_problems_without_a_rank_get_that_of_their_file(make):
    problems = Problems()
    problems.add("repaired", 2, "control characters", file="rank-1.json")
    problems.add("foreign", 1, "no trace", file="notes.json")
    traces = TraceSet([make(op("a", 0, 1), rank=1)], problems=problems)
    assert traces.problems[["rank", "file"]].values.tolist() == [
        [1, "rank-1.json"], [-1, "notes.json"],
    ]  # fmt: skip


def test_a_part_keeps_the_origin_and_its_problems(make):
    problems = Problems()
    for rank in (0, 1):
        problems.add("repaired", 1, "x", rank=rank)
    traces = TraceSet(
        [make(op("a", 10 * k, 5), rank=k, base_ns=EPOCH) for k in (0, 1)],
        problems=problems,
    )
    part = traces.subset([1])
    assert part.start_ns == 10_000
    assert part.origin_ns == traces.origin_ns
    assert part.problems["rank"].tolist() == [1]
    assert part.subset().ranks == [1]
    with pytest.raises(TraceError, match="no rank 0"):
        part.subset([0])


def test_a_window_keeps_whole_events_and_what_hangs_on_them(make):
    def flow(phase, ts, ident, tid):
        return {"ph": phase, "cat": "x", "name": "x", "id": ident, "pid": 7, "tid": tid} | {
            "ts": ts, "bp": "e",
        }  # fmt: skip

    events = [
        op("outer", 0, 100),
        op("gone", 1, 5),
        op("child", 50, 10),
        op("other", 55, 20, tid=2, args={"x": 1}),
        flow("s", 51, 1, 1), flow("f", 56, 1, 2), flow("s", 2, 2, 1), flow("f", 57, 2, 2),
        {"ph": "i", "name": "early", "pid": 7, "tid": 1, "ts": 5},
        {"ph": "i", "name": "in", "pid": 7, "tid": 1, "ts": 52},
        {"ph": "C", "name": "c", "pid": 7, "ts": 53, "args": {"v": 1}},
        {"ph": "C", "name": "c", "pid": 7, "ts": 70, "args": {"v": 2}},
        {"ph": "b", "cat": "y", "name": "y", "id": 1, "pid": 7, "ts": 0},
        {"ph": "e", "cat": "y", "name": "y", "id": 1, "pid": 7, "ts": 60},
        {"ph": "b", "cat": "y", "name": "z", "id": 1, "pid": 7, "ts": 1},
    ]  # fmt: skip
    full = TraceSet([make(*events)])
    assert len(full[0].flows) == 2
    part = full.subset(start_ns=50_000, end_ns=60_000)[0]
    assert part.events["name"].tolist() == ["outer", "child", "other"]
    assert part.events["parent"].tolist() == [-1, 0, -1]
    assert part.events["start_ns"].tolist() == [0, 50_000, 55_000]
    assert part.flows[["source", "target"]].values.tolist() == [[1, 2]]
    assert part.instants["name"].tolist() == ["in"]
    assert part.counters["value"].tolist() == [1]
    assert part.asyncs["name"].tolist() == ["y"]
    assert part.args(2) == {"x": 1}


def test_names_show_as_text_in_notebooks(make):
    evil = "<img src=x onerror=alert(1)>"
    problems = Problems()
    problems.add("foreign", 1, evil, file=evil)
    trace = make(op(evil, 0, 1)).replace(path=evil, format=evil)
    traces = TraceSet([trace], problems=problems)
    for shown in (traces._repr_html_(), traces[0]._repr_html_()):
        assert "<img" not in shown
        assert "&lt;img" in shown
    assert "1 rank" in repr(traces)


def test_sets_and_ranks_survive_another_process(make):
    traces = TraceSet([make(op("a", 3, 1), rank=2, base_ns=EPOCH)])
    traces[2].source = None
    copy = pickle.loads(pickle.dumps(traces))
    assert copy.ranks == [2]
    assert copy.origin_ns == traces.origin_ns
    assert copy[2].events.equals(traces[2].events)


def test_an_event_names_its_operator_and_the_work_that_it_launched(tmp_path):
    rank = [
        small.event("cpu_op", "aten::linear", 100, 400, pid=10, tid=1),
        small.event("cpu_op", "aten::addmm", 120, 300, pid=10, tid=1),
        small.call(200, 210, 1), small.kernel(500, 900, launch=1),
        small.call(350, 360, 2), small.kernel(900, 950, launch=2, name="bias"),
        small.call(450, 460, 3), small.kernel(950, 990, launch=3, name="alone"),
        small.kernel(1000, 1010, name="unknown"),
    ]  # fmt: skip
    single = small.load(tmp_path, rank)
    ids = {name: int(row) for row, name in single[0].events["name"].items()}
    gemm = single.event(ids["gemm"])
    assert gemm.operator.name == "aten::addmm"
    assert gemm.kernels.empty
    assert single.event(ids["bias"]).operator.name == "aten::linear"
    assert single.event(ids["alone"]).operator is None
    assert single.event(ids["unknown"]).operator is None
    assert list(gemm.operator.kernels["name"]) == ["gemm"]
    linear = single.event(ids["aten::linear"]).kernels
    assert list(linear["dur_ns"]) == [400, 50]
    assert list(linear.index) == [ids["gemm"], ids["bias"]]
    with pytest.raises(TraceError, match="has events 0 to 9, not 10"):
        single.event(10)
    with pytest.raises(TraceError, match="needs rank=, because this set has 2 ranks"):
        small.load(tmp_path, rank, rank).event(3)
