"""Scope of analyses: ranks, windows, and iteration over ranks."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from support import small
from support.collective_job import collective
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets import analysis, taxonomy
from hta_widgets.analysis.cross_rank.matching import matching
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import narrow_selection, rank_part, rank_parts
from hta_widgets.demo.job import write_demo
from hta_widgets.store.rank_file import StoredRank
from hta_widgets.store.ranks import StoredTrace
from hta_widgets.trace import memo as kept_results
from hta_widgets.trace.columns import COMMUNICATION_KEYS, event_args

pytestmark = pytest.mark.slow

RANKS = 6

ANALYSES = [
    "temporal_breakdown", "kernel_type_breakdown", "comm_comp_overlap", "kernel_breakdown",
    "idle_time_breakdown", "device_idle_breakdown", "device_idle_gaps", "communication_by_stream",
    "communication_by_group", "user_annotation_breakdown", "kernels_by_annotation", "launch_stats",
    "operators", "operator_launch_delays", "phase_times", "memory_bandwidth",
    "memory_bandwidth_summary", "queue_length_summary", "rank_time_heatmap", "step_times",
    "exposed_waits", "collectives", "stragglers", "stragglers_by_step", "rank_clusters",
    "parallel_groups", "clock_offsets", "horovod_readiness", "operator_efficiency",
    "step_efficiency", "modules", "serving_steps",
    "graph_replays", "kernel_details", "fusion_candidates", "all_to_all_matrix",
    "traffic", "pipeline_bubbles", "pipeline_passes",
]  # fmt: skip


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory):
    job = tmp_path_factory.mktemp("job") / "job"
    write_demo(job, ranks=RANKS, steps=2, seed=3)
    return hw.load(job, cache=False, progress=False)


@pytest.fixture(scope="module")
def path(in_memory, tmp_path_factory):
    return in_memory.save(tmp_path_factory.mktemp("store") / "demo.store")


@pytest.fixture
def keep():
    """Return a function that sets the number of bytes kept during a test."""
    before = kept_results.set_memory_limit(0)
    yield kept_results.set_memory_limit
    kept_results.set_memory_limit(before)


@pytest.fixture
def stored(path, keep):
    return hw.load(path, progress=False)


def columns_read(trace):
    stored: StoredRank = trace.__dict__["_stored"]
    return sorted(stored._values)


def assert_same(found, expected):
    pd.testing.assert_frame_equal(found, expected)
    assert found.attrs == expected.attrs


@pytest.mark.parametrize("name", ANALYSES)
def test_one_rank_at_a_time_gives_the_same(name, in_memory, stored, monkeypatch):
    held = []
    let_go = StoredTrace.release

    def counted(trace):
        held.append(sum(bool(value.memo) or bool(columns_read(value)) for value in stored.values()))
        let_go(trace)

    monkeypatch.setattr(StoredTrace, "release", counted)
    function = getattr(analysis, name)
    window = in_memory.end_ns // 4, in_memory.end_ns // 2
    for options in ({}, {"ranks": [1, 4]}, {"window": window}):
        assert_same(function(stored, **options), function(in_memory, **options))
    # If one iteration is nested in another, the ranks of both are kept.
    assert max(held) <= 2
    assert [rank for rank, trace in stored.items() if trace.memo or columns_read(trace)] == []


@pytest.mark.parametrize("name", ANALYSES)
def test_times_are_on_the_clock_of_the_selection(name, in_memory):
    fitted = in_memory.with_clock("fitted")
    window = fitted.select(start_ns=fitted.end_ns // 4, end_ns=fitted.end_ns // 2)
    assert any(trace.shift_ns for trace in fitted.values())
    function = getattr(analysis, name)
    assert_same(function(in_memory, selection=window), function(fitted, selection=window))


def test_what_fits_stays(stored, in_memory, keep):
    analysis.temporal_breakdown(in_memory)
    assert all(trace.memo for trace in in_memory.values()), "not read from a store"
    keep(1 << 30)
    analysis.temporal_breakdown(stored)
    remaining = {rank: trace.memo for rank, trace in stored.items()}
    assert all(remaining.values())
    analysis.temporal_breakdown(stored)
    assert all(trace.memo is remaining[rank] for rank, trace in stored.items())
    keep(0)
    assert not any(trace.memo for trace in stored.values())


def test_who_walks_over_all_leaves_those_that_someone_looks_at(stored, keep):
    keep(200 * max(map(len, stored.values())))
    analysis.temporal_breakdown(stored, ranks=[2])
    looked_at = stored[2].memo
    analysis.temporal_breakdown(stored)
    assert [rank for rank, trace in stored.items() if trace.memo] == [2]
    assert stored[2].memo is looked_at
    # The most recently used rank stays.
    analysis.temporal_breakdown(stored, ranks=[5])
    assert [rank for rank, trace in stored.items() if trace.memo] == [5]


@pytest.mark.parametrize("closed", [False, True])
def test_an_executor_gives_the_same_in_the_same_order(path, in_memory, closed, keep):
    traces = hw.load(path, progress=False)
    with ThreadPoolExecutor(2) as executor:
        traces.executor = executor
        if closed:
            # After a shutdown, work runs in this process.
            executor.shutdown()
        for name in ("temporal_breakdown", "step_times", "stragglers", "rank_clusters"):
            function = getattr(analysis, name)
            assert_same(function(traces), function(in_memory))
        each = [(10 * rank,) for rank in traces.ranks]
        assert list(map_ranks(traces, _rank_and, "x", each=each)) == [
            (rank, "x", 10 * rank) for rank in traces.ranks
        ]
        assert traces.subset(ranks=[1]).executor is executor
        assert traces.with_clock("fitted").executor is executor
        assert pickle.loads(pickle.dumps(traces)).executor is None


def _rank_and(trace, one, other):
    return trace.rank, one, other


def test_parts_are_found_when_asked_for(stored):
    chosen = rank_parts(stored, ranks=[1, 3])
    assert (len(chosen), chosen.ranks) == (2, [1, 3])
    assert not any(trace.memo for trace in stored.values())
    assert [part.rank for part in chosen] == [1, 3]
    assert chosen[0].rank == 1
    counts = chosen.counts()
    assert counts.sum() == len(stored[1]) + len(stored[3])


def test_a_store_has_what_communication_says_as_columns(stored, in_memory):
    for rank, trace in stored.items():
        rows = np.flatnonzero(trace.events["kind"].eq("communication") & (trace.table.stream >= 0))
        assert len(rows)
        result = event_args(trace, rows, COMMUNICATION_KEYS)
        assert result == event_args(in_memory[rank], rows, COMMUNICATION_KEYS)
        # Reading the args does not read records of the files.
        assert not trace.source._blocks.values()
        others = event_args(trace, np.arange(20), COMMUNICATION_KEYS)
        assert others == event_args(in_memory[rank], np.arange(20), COMMUNICATION_KEYS)


def test_args_of_communication_come_back_as_they_are(tmp_path, keep):
    rank = [
        collective(0, 100, seq=1, dtype="Half", **{"Process Group Description": "dp"}),
        collective(200, 300, seq=2, name="_allgather_base", elements=7, **{"Src Rank": None}),
        small.nccl(400, 500),
    ]
    loaded = small.load(tmp_path, rank, rank)
    again = hw.load(loaded.save(tmp_path / "a.store"), progress=False)
    twice = hw.load(again.save(tmp_path / "b.store"), progress=False)
    for traces in (again, twice):
        for rank, trace in traces.items():
            rows = np.arange(len(trace))
            expected = event_args(loaded[rank], rows, COMMUNICATION_KEYS)
            assert event_args(trace, rows, COMMUNICATION_KEYS) == expected
        pd.testing.assert_frame_equal(analysis.collectives(traces), analysis.collectives(loaded))


def test_clocks_share_what_does_not_depend_on_them(stored):
    analysis.stragglers(stored)
    moved = stored.with_clock("fitted")
    assert matching(moved).collective is matching(stored).collective
    times = analysis.collectives(stored, clock="fitted")
    pd.testing.assert_frame_equal(analysis.collectives(moved), times)
    # A subset is another set, without the other ranks.
    assert moved.subset(ranks=[0, 1]).memo == {}


def test_windows_on_another_clock_are_not_the_kept_ones(in_memory):
    window = in_memory.select(start_ns=0, end_ns=in_memory.end_ns // 2)
    analysis.temporal_breakdown(in_memory, selection=window)
    for trace in in_memory.with_clock("fitted").values():
        part = rank_part(trace, window)
        assert (part.low, part.high) == (-trace.shift_ns, window.end_ns - trace.shift_ns)


def test_rules_that_were_added_hold_after_a_rank_was_let_go(stored, in_memory):
    taxonomy.add("memory", "gemm")
    try:
        for _ in range(2):
            assert_same(analysis.temporal_breakdown(stored), analysis.temporal_breakdown(in_memory))
        sent = pickle.loads(pickle.dumps(stored[0]))
        assert (sent.table.kind == in_memory[0].table.kind).all()
    finally:
        taxonomy.reset()
    assert_same(analysis.temporal_breakdown(stored), analysis.temporal_breakdown(in_memory))


def test_metadata_come_back(stored, in_memory):
    trace = stored[0]
    assert trace.metadata == in_memory[0].metadata
    trace.release()
    assert trace.metadata == in_memory[0].metadata
    changed = trace.replace(metadata={"mine": 1})
    changed.release()
    assert changed.metadata == {"mine": 1}


def test_letting_go_while_others_are_at_work(stored, in_memory):
    expected = analysis.step_times(in_memory)
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            for trace in stored.values():
                trace.release()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(3):
            pd.testing.assert_frame_equal(analysis.step_times(stored), expected)
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 1), cache=False, progress=False)


def test_a_window_narrows_a_selection(traces):
    chosen = narrow_selection(traces, traces.select(start_ns=100, end_ns=500), (200, 900), [1])
    assert (chosen.start_ns, chosen.end_ns, chosen.ranks) == (200, 500, (1,))
    # Windows may be given as text.
    chosen = narrow_selection(traces, window=("0.2us", "0.0009 ms"))
    assert (chosen.start_ns, chosen.end_ns) == (200, 900)
    # Windows that do not overlap contain nothing.
    result = rank_parts(traces, traces.select(start_ns=100, end_ns=200), (300, 400))
    assert [len(part.rows) for part in result] == [0, 0]


def test_a_text_is_a_query(traces):
    text = "kind == 'communication'"
    result = [part.rows.tolist() for part in rank_parts(traces, text)]
    assert result == [part.rows.tolist() for part in rank_parts(traces, traces.select(text))]
    assert any(result)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"traces": "/runs/job"}, r"a TraceSet, not '/runs/job'\. Pass what hw\.load returns"),
        ({"selection": 5}, "5 is not a selection"),
        ({"window": "1ms"}, r"not a window.*\(start_ns, end_ns\)"),
        ({"window": ("1ms", "later")}, "'later' is not a time"),
        ({"ranks": "01"}, "ranks= takes a list of whole numbers, not '01'"),
        ({"window": (5,)}, "not a window"),
        ({"window": (500, 100)}, "before it starts"),
        ({"window": ("9us", "1us")}, "ends"),
        ({"ranks": [0, 9]}, "no rank 9"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(traces, arguments, words):
    with pytest.raises(hw.TraceError, match=words):
        analysis.temporal_breakdown(**{"traces": traces, **arguments})
    with pytest.raises(hw.TraceError, match=r"a TraceSet, not <Trace rank 0.*ranks="):
        analysis.temporal_breakdown(traces[0])


def test_what_hides_communication_need_not_be_selected(traces):
    full = analysis.comm_comp_overlap(traces)
    chosen = analysis.comm_comp_overlap(traces, selection="kind == 'communication'")
    assert full["overlapped_ns"].sum() > 0
    columns = ["communication_ns", "overlapped_ns", "exposed_ns"]
    assert chosen[columns].equals(full[columns])
