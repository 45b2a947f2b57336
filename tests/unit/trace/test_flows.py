"""Arrows: launches by correlation, and flow records in the file."""

import pytest
from support.made_ranks import call, kernel, op


def arrows(trace):
    """Return (kind, source name, target name) of every arrow."""
    names = trace.events["name"]
    return [(f.kind, names[f.source], names[f.target]) for f in trace.flows.itertuples()]


def flow(phase, ts, ident, tid=1, pid=7, category="x", bind=True, **more):
    bind = {"bp": "e"} if phase == "f" and bind else {}
    record = {"ph": phase, "cat": category, "name": category, "id": ident, "pid": pid, "tid": tid}
    return record | {"ts": ts} | bind | more


def ops(names):
    return [op(name, 10 * k, 5) for k, name in enumerate(names)]


def without_stream(record):
    del record["args"]["stream"]
    return record


#: Records, and the arrows between their events: kind, source and target.
CASES = {
    "one call launches many kernels": (
        [call("cudaGraphLaunch", 0, 5, 9), *(kernel(f"k{k}", 10 + k, 1, 9) for k in range(3))],
        ["launch: cudaGraphLaunch → k0", "launch: cudaGraphLaunch → k1",
         "launch: cudaGraphLaunch → k2"],
    ),
    "of calls that share an id the innermost that launches is the source": (
        [call("cudaLaunchKernel", 0, 9, 4), call("cuLaunchKernel", 1, 5, 4),
         call("cuCtxGetCurrent", 2, 1, 4), kernel("k", 20, 1, 4)],
        ["launch: cuLaunchKernel → k"],
    ),
    "an id that is used again belongs to the call before": (
        [call("cudaLaunchKernel", 0, 1, 4), kernel("first", 5, 1, 4),
         call("cudaMemcpyAsync", 10, 1, 4), kernel("second", 15, 1, 4)],
        ["launch: cudaLaunchKernel → first", "launch: cudaMemcpyAsync → second"],
    ),
    "a zero is not an id, of several calls or of one": (
        [call("cudaLaunchKernel", 0, 1, 0), kernel("k", 5, 1, 0)], [],
    ),
    "device events without a call have no arrow": (
        [call("cudaLaunchKernel", 0, 1, 1), kernel("k", 5, 1, 2)], [],
    ),
    "a wait for the device is linked to its call": (
        [call("cudaDeviceSynchronize", 0, 6, 8),
         without_stream(kernel("Context Sync", 2, 3, 8, cat="cuda_sync", tid=-1))],
        ["launch: cudaDeviceSynchronize → Context Sync"],
    ),
    "events with equal starts are distinguished by id": (
        [call("cudaLaunchKernel", 0, 9, 4), call("cudaStreamIsCapturing", 0, 3, 5),
         flow("s", 0, 4, category="ac2g"), kernel("k", 9, 3, 4),
         flow("f", 9, 4, tid=7, pid=0, category="ac2g")],
        ["launch: cudaLaunchKernel → k"],
    ),
    "arrows between operators bind to the innermost running event": (
        [op("forward", 0, 10), op("mul", 2, 3), flow("s", 3, 1), op("backward", 20, 10, tid=2),
         op("inner", 21, 2, tid=2), flow("f", 25, 1, tid=2)],
        ["x: mul → backward"],
    ),
    "an end without a binding point goes to the next event": (
        [op("a", 0, 5), flow("s", 1, 1), op("b", 9, 1), flow("f", 8, 1, bind=False)],
        ["x: a → b"],
    ),
    "steps hand an arrow on": (
        [*ops("abc"), flow("s", 1, 1), flow("t", 11, 1), flow("f", 21, 1)],
        ["x: a → b", "x: b → c"],
    ),
    "ids that start again pair by time": (
        [*ops("abcd"), flow("s", 1, 1), flow("f", 11, 1), flow("s", 21, 1), flow("f", 31, 1)],
        ["x: a → b", "x: c → d"],
    ),
    "an end that another clock puts before its start still pairs": (
        [op("late", 10, 5), op("early", 0, 5, tid=2), flow("s", 11, 1), flow("f", 1, 1, tid=2)],
        ["x: late → early"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_arrows(make, case):
    records, expected = CASES[case]
    trace = make(*records)
    assert [f"{kind}: {source} → {target}" for kind, source, target in arrows(trace)] == expected
    assert not trace.found


def test_flow_records_that_say_what_correlation_says_add_no_second_arrow(make):
    trace = make(
        op("aten::add", 0, 20),
        call("cudaLaunchKernel", 2, 5, 4),
        flow("s", 2, 4, category="ac2g"),
        kernel("k", 9, 3, 4),
        flow("f", 9, 4, tid=7, pid=0, category="ac2g"),
    )
    assert arrows(trace) == [("launch", "cudaLaunchKernel", "k")]
    assert trace.flow_table.source_record.tolist() == [2]
    assert trace.flow_table.target_record.tolist() == [4]


NO_ID = {key: value for key, value in flow("s", 1, 1).items() if key != "id"}


@pytest.mark.parametrize(
    ("records", "found"),
    [
        (
            [*ops("ab"), flow("s", 1, 1, category="y"), flow("f", 11, 1, category="z")],
            {"flow starts without an end; kept, no arrow is drawn": 1,
             "flow ends without a start; kept, no arrow is drawn": 1},
        ),
        (
            [*ops("ab"), flow("s", 2, 7), flow("f", 12, "7")],
            {"flow starts without an end; kept, no arrow is drawn": 1,
             "flow ends without a start; kept, no arrow is drawn": 1},
        ),
        (
            [op("a", 0, 5), flow("s", 1, 1), flow("f", 50, 1), flow("s", 2, 2, tid=99),
             flow("f", 3, 2)],
            {"flows that end outside any event; no arrow is drawn": 2},
        ),
        (
            [flow("s", 1, 1), flow("f", 2, 1)],
            {"flows that end outside any event; no arrow is drawn": 1},
        ),
        ([op("a", 0, 5), NO_ID], {"flow records without an id": 1}),
    ],
    ids=["other categories", "other types", "no event there", "no events", "no id"],
)  # fmt: skip
def test_flows_that_are_not_drawn_are_counted(make, records, found):
    trace = make(*records)
    assert len(trace.flows) == 0
    assert {detail: count for _, count, detail in trace.found} == found
    assert {kind for kind, _, _ in trace.found} == {"unpaired"}


@pytest.mark.parametrize(
    ("category", "name"), [("ac2g", "ac2g"), ("async_cpu_to_gpu", "async_gpu"), ("async", "launch")]
)
def test_launch_arrows_have_one_name_in_files_of_all_years(make, category, name):
    trace = make(
        op("a", 0, 5),
        kernel("k", 9, 2),
        flow("s", 1, 1, category=category, name=name),
        flow("f", 9, 1, tid=7, pid=0, category=category, name=name),
    )
    assert arrows(trace) == [("launch", "a", "k")]


def test_any_number_of_kinds_of_arrows(make):
    count, records = 300, []
    for k in range(count):
        records += [op("a", 20 * k, 5), op("b", 20 * k + 10, 5)]
        records += [
            flow("s", 20 * k, k, category=f"c{k}"),
            flow("f", 20 * k + 10, k, category=f"c{k}"),
        ]
    assert make(*records).flows["kind"].tolist() == [f"c{k}" for k in range(count)]
