"""From records to events: which become events, their order, and what else is kept."""

import numpy as np
import pandas as pd
import pytest
from support import small
from support.made_ranks import call, kernel, op

from hta_widgets.errors import TraceError


def test_frame_has_the_columns_and_dtypes_of_the_public_surface(make):
    frame = make(op("a", 1, 2), kernel("k", 2, 1)).events
    assert frame.index.name == "id"
    expected = {
        "start_ns": "int64", "dur_ns": "int64", "name": "category", "category": "category",
        "kind": "category", "track": "category", "pid": "category", "tid": "category",
        "depth": "int16", "parent": "int64", "stream": "int32", "correlation": "int64",
        "step": "int64", "phase": "category",
    }  # fmt: skip
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == expected
    assert list(frame.columns) == list(expected)


def test_events_are_sorted_by_start_longest_first_then_file_order(make):
    events = [("late", 5, 1), ("short", 1, 2), ("long", 1, 9), ("twin", 1, 2), ("first", 0, 1)]
    frame = make(*[op(*event) for event in events]).events
    assert frame["name"].tolist() == ["first", "long", "short", "twin", "late"]


def test_times_count_from_the_earliest_event_and_zero_is_its_absolute_time(make):
    trace = make(op("b", 30.5, 1), op("a", 20.25, 1), base_ns=10**18)
    assert trace.zero_ns == 10**18 + 20_250
    assert trace.events["start_ns"].tolist() == [0, 10_250]
    shifted = trace.replace(shift_ns=7)
    assert shifted.events["start_ns"].tolist() == [7, 10_257]
    assert (shifted.start_ns, shifted.end_ns) == (7, 11_257)


def without(record, key):
    return {name: value for name, value in record.items() if name != key}


def test_a_complete_event_without_duration_is_an_instant_and_is_counted(make):
    trace = make(op("a", 1, 2), without(op("bare", 3, 0), "dur"))
    assert trace.events["name"].tolist() == ["a"]
    assert trace.instants[["name", "time_ns"]].values.tolist() == [["bare", 2_000]]
    assert [(kind, count) for kind, count, _ in trace.found] == [("repaired", 1)]


def test_a_negative_duration_is_taken_as_zero_and_counted(make):
    trace = make(op("a", 1, -2))
    assert trace.events["dur_ns"].tolist() == [0]
    assert trace.found == [("repaired", 1, "negative durations; taken as zero")]


def begin(name, ts, tid=1, **args):
    return {"ph": "B", "cat": "c", "name": name, "pid": 1, "tid": tid, "ts": ts, "args": args}


def end(ts, tid=1, **args):
    return {"ph": "E", "pid": 1, "tid": tid, "ts": ts, "args": args}


def test_begins_and_ends_pair_as_a_stack_on_each_thread(make):
    trace = make(
        begin("outer", 0), begin("other", 1, tid=2), begin("inner", 2),
            end(3), end(4, tid=2), end(9)
    )  # fmt: skip
    assert trace.events[["name", "dur_ns", "phase", "parent"]].values.tolist() == [
        ["outer", 9_000, "B", -1],
        ["other", 3_000, "B", -1],
        ["inner", 1_000, "B", 0],
    ]
    assert not trace.found


def test_args_of_the_end_belong_to_the_event_too(make):
    trace = make(begin("a", 5, x=1, y=1), op("x", 0, 1, args={"z": 0.5}), end(6, y=2, w="é"))
    assert trace.args(0) == {"z": 0.5}
    assert trace.args(1) == {"x": 1, "y": 2, "w": "é"}


def test_brackets_without_a_partner_are_counted_per_direction(make):
    trace = make(end(1), begin("a", 2), begin("b", 3), end(4))
    assert trace.events["name"].tolist() == ["b"]
    assert sorted(trace.found) == [
        ("unpaired", 1, "begin records (B) without an end"),
        ("unpaired", 1, "end records (E) without a begin"),
    ]


def test_records_of_unknown_phases_or_without_time_are_counted(make):
    trace = make({"ph": "N", "ts": 1}, {"ts": 1}, without(op("t", 0, 1), "ts"), op("a", 1, 1))
    assert len(trace) == 1
    assert sorted(trace.found) == [
        ("skipped", 1, "records of phase 'N'"),
        ("skipped", 1, "records without a phase"),
        ("skipped", 1, "records without a time"),
    ]


def test_a_rank_without_events_is_empty_and_whole(make):
    trace = make({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}})
    assert len(trace) == 0
    assert trace.events.columns.tolist()[:2] == ["start_ns", "dur_ns"]
    assert len(trace.flows) == len(trace.instants) == len(trace.counters) == len(trace.asyncs) == 0
    assert (trace.start_ns, trace.end_ns, trace.tracks) == (0, 0, [])


def test_counters_are_one_row_per_series_and_sample(make):
    def sample(ts, **values):
        return {"ph": "C", "name": "memory", "pid": 1, "ts": ts, "args": values}

    trace = make(
        sample(4, used=7, free="1"), sample(2, used=5.5), sample(3, used="n/a"), op("a", 1, 1)
    )
    frame = trace.counters.sort_values(["series", "time_ns"])
    assert frame[["name", "series", "time_ns", "value"]].values.tolist() == [
        ["memory", "free", 3_000, 1],
        ["memory", "used", 1_000, 5.5],
        ["memory", "used", 3_000, 7],
    ]
    assert trace.found == [("skipped", 1, "counter samples that are not numbers")]


def test_instants_keep_their_scope(make):
    instant = {"name": "mark", "pid": 1, "tid": 2, "ts": 3}
    trace = make({"ph": "i", "s": "g"} | instant, {"ph": "I"} | instant | {"ts": 2}, op("a", 1, 1))
    rows = trace.instants[["time_ns", "scope", "tid"]].values.tolist()
    assert rows == [[1_000, "t", "2"], [2_000, "g", "2"]]


def test_async_intervals_pair_by_category_id_and_name(make):
    def record(phase, ts, ident, name="work"):
        return {"ph": phase, "cat": "c", "name": name, "id": ident, "pid": 1, "tid": 1, "ts": ts}

    trace = make(
        record("b", 1, 1), record("b", 2, 2), record("e", 5, 1), record("e", 9, 2),
            record("b", 3, 1, "other"), record("e", 4, 3), op("a", 0, 1)
    )  # fmt: skip
    frame = trace.asyncs
    assert frame[["start_ns", "dur_ns"]].values.tolist() == [
        [1_000, 4_000], [2_000, 7_000], [3_000, -1],
    ]  # fmt: skip
    assert {kind: count for kind, count, _ in trace.found} == {"unpaired": 1}
    assert sum(count for _, count, _ in trace.found) == 2


def test_writing_into_a_frame_changes_no_other(make):
    trace = make(op("a", 1, 2), op("b", 2, 1))
    frame = trace.events
    frame.loc[0, "dur_ns"] = 5
    frame["extra"] = 1
    assert trace.events["dur_ns"].tolist() == [2_000, 1_000]
    assert "extra" not in trace.events
    assert trace.table.dur_ns.tolist() == [2_000, 1_000]


def test_some_rows_and_columns_without_the_rest(make):
    trace = make(op("a", 1, 2), op("b", 2, 1), op("a", 4, 1))
    frame = trace.frame(np.array([1, 2]), ["name", "dur_ns"])
    assert frame.index.tolist() == [1, 2]
    assert frame["name"].tolist() == ["b", "a"]
    with pytest.raises(TraceError, match=r"no column 'nam'.*start_ns, dur_ns, name"):
        trace.frame(columns=["nam"])


def test_categories_hold_only_what_occurs(make):
    frame = make(op("a", 1, 2), {"ph": "M", "name": "thread_name", "args": {}}).events
    assert list(frame["name"].cat.categories) == ["a"]
    assert frame.groupby("name", observed=False).size().to_dict() == {"a": 1}


def test_names_that_are_no_valid_unicode_are_kept(make):
    name = "bad \udcff name"
    frame = make(op(name, 1, 2)).events
    assert frame["name"].tolist() == [name]
    assert isinstance(frame["name"].dtype, pd.CategoricalDtype)


def test_args_of_an_event_that_is_not_there_name_the_ids(make):
    trace = make(op("a", 1, 2))
    with pytest.raises(TraceError, match=r"rank 0 has no event 1\. Ids go from 0 to 0"):
        trace.args(1)
    with pytest.raises(TraceError, match="no event -1"):
        trace.args(-1)


def test_a_record_that_changed_under_our_feet_is_reported(make):
    trace = make(op("a", 1, 2))
    trace.source.texts[0] = b'{"name": '
    with pytest.raises(TraceError, match=r"rank-0.json: record 0: .*load it again"):
        trace.args(0)


def test_args_bear_control_characters(make):
    trace = make(op("a", 1, 2))
    trace.source.texts[0] = b'{"args": {"stack": "a\nb\tc"}}'
    assert trace.args(0) == {"stack": "a\nb\tc"}


def step(n, ts, dur, **more):
    record = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "pid": 7, "tid": 1}
    return record | {"ts": ts, "dur": dur} | more


#: Records, and the steps of their events.
STEPS = {
    "host events belong to the step in which they start": (
        [step(4, 10, 10), step(5, 20, 10), op("before", 9, 5), op("first", 10, 1, tid=2),
         op("over", 19, 5, tid=2), op("edge", 20, 1, tid=3), op("after", 30, 1)],
        {"before": -1, "ProfilerStep#4": 4, "first": 4, "over": 4, "ProfilerStep#5": 5, "edge": 5,
         "after": -1},
    ),
    "device events belong to the step of their launch": (
        [step(1, 0, 10), step(2, 10, 10), call("cudaLaunchKernel", 9, 1, 3),
         kernel("late", 15, 1, 3), kernel("unknown", 15, 1, 99, stream=8)],
        {"ProfilerStep#1": 1, "cudaLaunchKernel": 1, "ProfilerStep#2": 2, "late": 1,
         "unknown": -1},
    ),
    "device copies of a step do not count as steps": (
        [step(1, 0, 10), step(2, 30, 10, cat="gpu_user_annotation", pid=0, tid=7),
         kernel("k", 32, 1), op("op", 33, 1)],
        {"ProfilerStep#1": 1, "ProfilerStep#2": -1, "k": -1, "op": -1},
    ),
    "of steps within steps the inner one counts": (
        [step(1, 0, 100), step(7, 10, 10), op("in", 12, 1), op("out", 50, 1)],
        {"ProfilerStep#1": 1, "ProfilerStep#7": 7, "in": 7, "out": 1},
    ),
    "names that only look like steps": (
        [step("x", 0, 9), op("ProfilerStep", 0, 5), op("op", 1, 1)],
        {"ProfilerStep#x": -1, "ProfilerStep": -1, "op": -1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STEPS)
def test_steps_of_events(make, case):
    records, expected = STEPS[case]
    assert make(*records).events.set_index("name")["step"].to_dict() == expected


def profiler_step(number, start, end, tid=1):
    return small.event("user_annotation", f"ProfilerStep#{number}", start, end, pid=9, tid=tid)


REPEATED_STEPS = {
    # After a restart, the second #5 and #6 are separate steps.
    "restart": ([(5, 0, 10), (6, 10, 20), (5, 30, 40), (6, 40, 50)], [5, 6, 7, 8], 1),
    "each time #0": ([(0, 0, 5), (0, 10, 15), (0, 20, 25)], [0, 1, 2], 2),
    "gap in numbers": ([(2, 0, 5), (9, 5, 9), (2, 9, 12), (9, 12, 15)], [2, 9, 10, 17], 1),
    "on two threads at once": ([(1, 0, 10), (1, 1, 20, 2), (2, 20, 30)], [1, 1, 2], 0),
    "zero length": ([(3, 0, 0), (3, 4, 9)], [3, 4], 1),
}


@pytest.mark.parametrize("case", REPEATED_STEPS)
def test_steps_of_a_repeated_number_are_numbered_on(case, tmp_path):
    ranges, expected, repeated = REPEATED_STEPS[case]
    traces = small.load(tmp_path, [profiler_step(*step) for step in ranges])
    events = traces[0].events
    assert events.loc[events["name"].str.startswith("ProfilerStep"), "step"].tolist() == expected
    problems = [(problem.kind, problem.count) for problem in traces.problem_list]
    assert problems == [("merged", repeated)] * (repeated > 0)
