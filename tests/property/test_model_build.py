"""Random records of every phase: each is either used or counted as a problem."""

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import RankColumns, StringPool
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.traceset import TraceSet

PHASES = "XXXBEbensSTFtfiIRCMNv"


def column(dtype, values):
    return np.array(values, dtype=dtype)


@st.composite
def decoded(draw):
    """Draw columns as a reader may return them, even for nonsensical files."""
    count = draw(st.integers(0, 25))

    def some(strategy):
        return draw(st.lists(strategy, min_size=count, max_size=count))

    phase = some(st.sampled_from(PHASES))
    small = st.integers(0, 3)
    base = draw(st.sampled_from([0, 1_700_000_000 * 10**9, -(10**15)]))
    return RankColumns(
        phase=column(np.uint8, [ord(letter) for letter in phase]),
        start_ns=column(np.int64, some(st.integers(0, 60))) + base,
        dur_ns=column(np.int64, some(st.one_of(st.integers(-3, 20)))),
        timed=column(bool, some(st.booleans() | st.just(value=True))),
        name=column(np.int32, some(st.integers(0, 5))),
        category=column(np.int32, some(small)),
        pid=column(np.int32, some(st.integers(0, 1))),
        tid=column(np.int32, some(small)),
        stream=column(np.int32, some(st.integers(-1, 2))),
        correlation=column(np.int64, some(st.integers(-1, 6))),
        flow=column(np.int32, some(st.integers(-1, 3))),
        names=StringPool(
            ["a", "ProfilerStep#1", "ncclKernel", "process_name", "thread_name", "ac2g"]
        ),
        categories=StringPool(["cpu_op", "kernel", "gpu_user_annotation", "ac2g"]),
        pids=StringPool(["0", "host"]),
        tids=StringPool(["1", "stream 7", "x", "-1"]),
        flow_ids=StringPool(["1", '"1"', "2", '"0x3"']),
        small_args={
            row: {"name": "n", "v": draw(st.sampled_from([1, 2.5, "3", "n/a", None]))}
            for row in range(count)
            if phase[row] in "CM"
        },
        record=np.arange(count, dtype=np.int64),
        resolution_ns=1,
        ends_at_next=column(np.int64, [r for r in range(count) if phase[r] == "f" and r % 2]),
    )


def built(columns):
    problems = Problems()
    trace = build_trace(columns, rank=0, path="made", metadata={}, source=None, problems=problems)
    return trace, {problem.detail: problem.count for problem in problems}


@given(decoded())
def test_every_record_is_shown_or_counted(columns):
    trace, counted = built(columns)
    letters = np.array([chr(code) for code in columns.phase], dtype="U1")
    timed = Counter(letters[columns.timed].tolist())
    events = (letters == "X") & columns.timed
    complete = np.flatnonzero(events & (columns.dur_ns != -1)).tolist()
    frame = trace.events
    assert sorted(trace.table.record[(frame["phase"] == "X").to_numpy()].tolist()) == complete
    assert (frame["dur_ns"] >= 0).all()
    assert frame["start_ns"].is_monotonic_increasing
    assert not len(frame) or frame["start_ns"].iloc[0] == 0

    paired = int((frame["phase"] == "B").sum())
    alone = counted.get("begin records (B) without an end", 0)
    alone += counted.get("end records (E) without a begin", 0)
    assert 2 * paired + alone == timed["B"] + timed["E"]

    bare = counted.get("complete events without a duration; kept as instants", 0)
    assert len(trace.instants) == sum(timed[letter] for letter in "iIRnT") + bare
    assert bare == events.sum() - len(complete)

    closed = int((trace.asyncs["dur_ns"] >= 0).sum())
    open_ = len(trace.asyncs) - closed
    lost = counted.get("async ends without a begin", 0)
    assert 2 * closed + open_ + lost == sum(timed[letter] for letter in "beSF")

    no_numbers = counted.get("counter samples that are not numbers", 0)
    assert len(trace.counters) + no_numbers == 2 * timed["C"]

    skipped = sum(count for detail, count in counted.items() if detail.startswith("records"))
    assert skipped == (np.isin(letters, ["N", "v"]) | (~columns.timed & (letters != "M"))).sum()


@given(decoded())
def test_flows_are_drawn_or_counted(columns):
    trace, counted = built(columns)
    ends = np.flatnonzero(np.isin(columns.phase, [ord("t"), ord("f")]) & columns.timed)
    drawn = trace.flow_table.target_record
    drawn = drawn[drawn >= 0].tolist()
    without_id = (columns.flow[ends] < 0).sum()
    lost = counted.get("flow ends without a start; kept, no arrow is drawn", 0)
    unmet = counted.get("flows that end outside any event; no arrow is drawn", 0)
    assert len(drawn) + unmet + lost + without_id == len(ends)
    assert len(drawn) == len(set(drawn))
    flows = trace.flows
    assert flows["source"].between(0, len(trace) - 1).all()
    assert flows["target"].between(0, len(trace) - 1).all()


@given(decoded())
def test_what_is_built_can_be_shown_cut_and_sent(columns):
    trace, _ = built(columns)
    traces = TraceSet([trace])
    part = traces.subset(start_ns=5, end_ns=20)[0]
    frame = traces.events()
    inside = (frame["start_ns"] < 20) & (
        (frame["start_ns"] + frame["dur_ns"] > 5) | (frame["start_ns"] >= 5)
    )
    assert len(part) == inside.sum()
    assert part.events["name"].tolist() == frame.loc[inside, "name"].tolist()
    assert (part.table.parent < np.arange(len(part))).all()
    assert traces.select("dur_ns > 3 and kind != 'cpu'").events().shape[1] == frame.shape[1]
    assert "TraceSet" in traces._repr_html_()
    keys = [track.key for track in trace.tracks]
    assert len(set(keys)) == len(keys)
