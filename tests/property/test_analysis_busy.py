"""Device times of small random traces, compared with a count of single nanoseconds."""

from collections import Counter, defaultdict

import pytest
from hypothesis import given, strategies as st
from support.golden import cells
from support.small import call, copy, event, kernel, load, nccl

from hta_widgets.analysis import (
    comm_comp_overlap,
    communication_by_stream,
    device_idle_breakdown,
    device_idle_gaps,
    exposed_waits,
    idle_time_breakdown,
    kernel_breakdown,
    kernel_type_breakdown,
    rank_time_heatmap,
    temporal_breakdown,
)
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.analysis.totals import event_sums, totals_by

MAKE = {"compute": kernel, "communication": nccl, "memory": copy}
WORDS = {"compute": "COMPUTATION", "communication": "COMMUNICATION", "memory": "MEMORY"}

#: Kind, start, duration and stream, then start and duration of the launch.
ONE = st.tuples(
    st.sampled_from(list(MAKE)), st.integers(5, 60), st.integers(0, 15),
    st.sampled_from([0, 7, 20]), st.none() | st.tuples(st.integers(1, 70), st.integers(0, 9)),
)  # fmt: skip
WORK = st.lists(ONE, min_size=1, max_size=14)
#: Starts are unique, so that the order of events is defined.
APART = st.lists(ONE, min_size=1, max_size=14, unique_by=lambda one: one[1])
WINDOW = st.none() | st.builds(
    lambda start, length: (start, start + length), st.integers(0, 50), st.integers(1, 40)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def made(folder, work, *others, more=()):
    events = [event("cuda_sync", "Stream Sync", 0, 90, tid=7, stream=7)]
    events.append(call(20, 40, name="cudaStreamSynchronize"))
    for number, (kind, start, length, stream, launch) in enumerate(work, 1):
        correlation = None if launch is None else number
        events.append(MAKE[kind](start, start + length, stream=stream, launch=correlation))
        if launch is not None:
            at, lasts = launch
            # On separate threads; every other call is made during the waiting call.
            thread = 1 if number % 2 else 100 + number
            events.append(call(at, at + lasts, correlation, tid=thread))
    return load(folder, [*events, *more], *others)


def members(work, window):
    """Return the events in the window as (kind, start, end, stream), clipped to its edges."""
    low, high = window or (0, 1000)
    for kind, start, length, stream, _ in work:
        end = start + length
        if start < high and (end > low or start >= low):
            yield kind, max(start, low), min(end, high), stream


def span_of(work, window):
    """Return the span from the first start to the last end of all work in the window."""
    low, high = window or (0, 1000)
    return (
        max(low, min(start for _, start, _, _, _ in work)),
        min(high, max(start + length for _, start, length, _, _ in work)),
    )


@given(WORK, WINDOW)
def test_times_are_those_of_counting(folder, work, window):
    traces = made(folder, work)
    inside = list(members(work, window))
    first, last = span_of(work, window)
    if not inside and last <= first:
        assert temporal_breakdown(traces, window=window).empty
        return
    at = defaultdict(set)
    for kind, start, end, _ in inside:
        for instant in range(start, end):
            at[instant].add(kind)
    computing = sum("compute" in kinds for kinds in at.values())
    row = temporal_breakdown(traces, window=window).iloc[0]
    assert row["span_ns"] == last - first
    assert row["idle_ns"] == last - first - len(at)
    assert row["compute_ns"] == computing
    assert row["non_compute_ns"] == len(at) - computing
    assert row["idle_ns"] + row["compute_ns"] + row["non_compute_ns"] == row["span_ns"]
    assert row["busy_ns"] == len(at)
    for kind in ("communication", "memory"):
        assert row[f"{kind}_ns"] == sum(kind in kinds for kinds in at.values())
    assert row["exposed_communication_ns"] + row["exposed_memory_ns"] == row["non_compute_ns"]
    assert row["exposed_memory_ns"] == sum(kinds == {"memory"} for kinds in at.values())

    for used in (list(MAKE), list(MAKE)[:2]):
        labels = Counter(
            " overlapping ".join(WORDS[kind] for kind in used if kind in kinds)
            for kinds in at.values()
            if kinds & set(used)
        )
        frame = kernel_type_breakdown(traces, include_memory=len(used) == 3, window=window)
        assert dict(zip(frame["kernel_type"], frame["sum_ns"], strict=True)) == labels

    row = comm_comp_overlap(traces, window=window).iloc[0]
    both = sum({"compute", "communication"} <= kinds for kinds in at.values())
    assert (row["communication_ns"], row["overlapped_ns"]) == (
        sum("communication" in kinds for kinds in at.values()),
        both,
    )
    for _, row in communication_by_stream(traces, window=window).iterrows():
        ours = {
            instant
            for kind, start, end, stream in inside
            if kind == "communication" and stream == row["stream"]
            for instant in range(start, end)
        }
        assert row["communication_ns"] == len(ours)
        assert row["overlapped_ns"] == sum("compute" in at[instant] for instant in ours)

    frame = kernel_breakdown(traces, window=window)
    spent = Counter()
    for kind, start, end, _ in inside:
        spent[kind] += end - start
    assert dict(zip(frame["kind"], frame["sum_ns"], strict=True)) == spent
    assert frame["count"].sum() == len(inside)


@given(WORK, WINDOW, st.integers(0, 30))
def test_causes_of_idle_time_add_up(folder, work, window, delay):
    traces = made(folder, work)
    options = {"window": window, "consecutive_kernel_delay_ns": delay}
    total = temporal_breakdown(traces, window=window)["idle_ns"].sum()
    causes = device_idle_breakdown(traces, **options)
    assert causes["idle_ns"].sum() == total
    assert (causes["idle_ns"] >= 0).all()
    gaps = device_idle_gaps(traces, **options)
    assert gaps["dur_ns"].sum() == total
    for cause, time in zip(causes["idle_category"], causes["idle_ns"], strict=True):
        assert gaps[f"{cause}_ns"].sum() == time


#: Activities of threads. The first that applies counts; 0 is the waiting call.
DOES = {
    1: ("cpu_op", "enumerate(DataLoader)"),
    2: ("cpu_op", "aten::mm"),
    3: ("python_function", "train.py(1): step"),
}
CAUSES = ("sync_wait", "host_data_loading", "host_operator", "host_python", "host_nothing")
HOST = st.tuples(
    st.sampled_from(list(DOES)), st.integers(0, 60), st.integers(1, 15), st.integers(1, 4)
)


@given(APART, st.lists(HOST, max_size=8), st.integers(0, 30))
def test_causes_of_idle_time_are_those_of_each_instant(folder, work, host, delay):
    busy = {at for _, start, length, _, _ in work for at in range(start, start + length)}
    first = min(start for _, start, _, _, _ in work)
    last = max(start + length for _, start, length, _, _ in work)
    ends = {start: number for number, (_, start, _, _, _) in enumerate(work, 1)}
    launching = {
        number: 1 if number % 2 else 100 + number
        for number, (_, _, _, _, launch) in enumerate(work, 1)
        if launch is not None
    }
    does = [(0, 20, 40, 1), *((what, at, at + lasts, 100 + k) for what, at, lasts, k in host)]
    does += [(2, *(work[k - 1][4][0], sum(work[k - 1][4])), tid) for k, tid in launching.items()]
    events = [
        event(*DOES[what], start, end, pid=10, tid=tid)
        for what, start, end, tid in does[1 : 1 + len(host)]
    ]
    # Activities of threads that launch work.
    does = [activity for activity in does if activity[3] in launching.values()]

    def doing(instant, tid):
        of = [
            (activity[3] != tid, activity[0])
            for activity in does
            if activity[1] <= instant < activity[2]
        ]
        return CAUSES[min(of)[1]] if of else "host_nothing"

    expected = Counter()
    for instant in set(range(first, last)) - busy:
        before = next((at + 1 for at in range(instant, first - 1, -1) if at in busy), first)
        after = next((at for at in range(instant, last) if at in busy), last)
        number = ends[after]
        launch = work[number - 1][4]
        if launch is None:
            cause = "unknown"
        elif instant < launch[0]:
            cause = doing(instant, launching[number])
        elif instant < sum(launch):
            cause = "launch_call"
        elif sum(launch) > before:
            cause = "launch_latency"
        else:
            cause = "kernel_wait" if after - before < delay else "blocked"
        expected[cause] += 1
    frame = device_idle_breakdown(
        made(folder, work, more=events), consecutive_kernel_delay_ns=delay
    )
    got = dict(zip(frame["idle_category"], frame["idle_ns"], strict=True))
    assert {cause: time for cause, time in got.items() if time} == expected


@given(APART, WINDOW, st.integers(0, 30))
def test_gaps_of_streams_are_those_of_walking_along(folder, work, window, delay):
    low, high = window or (0, 1000)
    spent, gaps = Counter(), Counter()
    reached, present = {}, set()
    for _, start, length, stream, launch in sorted(work, key=lambda one: one[1]):
        end = start + length
        inside = start < high and (end > low or start >= low)
        if inside:
            present.add(stream)
        if stream in reached:
            gap = max(start - reached[stream], 0)
            late = launch is not None and launch[0] > reached[stream]
            category = "host_wait" if late else "kernel_wait" if gap < delay else "other"
            cut = max(min(start, high) - max(reached[stream], low), 0)
            spent[stream, category] += cut
            gaps[stream, category] += cut > 0 or (gap == 0 and low <= start < high)
            if cut:
                present.add(stream)
        reached[stream] = max(reached.get(stream, 0), end)
    frame = idle_time_breakdown(
        made(folder, work), window=window, consecutive_kernel_delay_ns=delay
    )
    assert set(frame["stream"]) == present
    for _, row in frame.iterrows():
        key = (row["stream"], row["idle_category"])
        assert (row["idle_ns"], row["gaps"]) == (spent[key], gaps[key])


def _totals_by_name(traces, **scope):
    return totals_by(event_sums(rank_parts(traces, **scope)), ["kind", "name"])


TIMES = {
    temporal_breakdown: ["rank"], device_idle_breakdown: ["rank", "idle_category"],
    idle_time_breakdown: ["rank", "stream", "idle_category"],
    kernel_type_breakdown: ["kernel_type"], comm_comp_overlap: ["rank"],
    communication_by_stream: ["rank", "stream"], exposed_waits: ["rank"],
    rank_time_heatmap: ["rank"], _totals_by_name: ["kind", "name"],
}  # fmt: skip
#: Columns with instants or with values that may not be finite.
NO_TIMES = {"start_ns", "end_ns", "max_ns", "min_ns", "mean_ns"}


@given(WORK, st.lists(st.integers(0, 90), min_size=3, max_size=3, unique=True), st.booleans())
def test_times_of_adjacent_windows_add_up(folder, work, cuts, is_narrow):
    # A second rank that arrives later at each collective.
    late = [
        MAKE[kind](start + 4, start + length + 4, stream=stream)
        for kind, start, length, stream, _ in work
    ]
    traces = made(folder, work, late)
    low, middle, high = sorted(cuts)
    chosen = traces.select("stream != 7") if is_narrow else None

    def times(analysis, start, end):
        options = {"metric": "idle", "bins": 1} if analysis is rank_time_heatmap else {}
        frame = analysis(traces, window=(start, end), selection=chosen, **options)
        names = [name for name in frame if name.endswith("_ns") and name not in NO_TIMES]
        # Unknown waits are -1.
        return +Counter(cells(frame, TIMES[analysis], names))

    for analysis in TIMES:
        both = times(analysis, low, middle) + times(analysis, middle, high)
        assert both == times(analysis, low, high), analysis.__name__
