"""Critical paths of the facade, compared with those of HTA 0.5.0."""

from collections import Counter

import numpy as np
import pytest
from support import golden

from hta_widgets import TraceError
from hta_widgets.analysis.critical.graph import build_graph, critical_path_of
from hta_widgets.analysis.critical.nodes import HTA_RULES, analysis_range
from hta_widgets.compat.analyzers.critical_path_analysis import CPGraph, CriticalPathAnalysis
from hta_widgets.trace.trace_part import trace_within
from hta_widgets.trace.traceset import Selection

FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"

COPY = "HTA takes the step's copy on the device for a second step; there is one"
GRAPHS = "of 839 launched CUDA graphs HTA keeps the last kernel only"
#: Paths that differ for a reason: the length in HTA and here, in µs.
DIFFERENT = {
    ("hta_tests__amd_trace", "ProfilerStep.1"): (741, None, COPY),
    ("hta_tests__trace_diff__test", "ProfilerStep.0"): (118_122, 106_893, GRAPHS),
    ("hta_tests__trace_diff__test", "ProfilerStep.1"): (117_122, 108_585, GRAPHS),
}

CASES = [
    (name, path.name.removeprefix("critical_path.").removesuffix(".json"))
    for name in golden.names("critical_path.*.json")
    for path in sorted((golden.GOLDEN / name).glob("critical_path.*.json"))
]
pytestmark = pytest.mark.skipif(not CASES, reason=golden.MISSING)

ALIKE = [case for case in CASES if case not in DIFFERENT]


def asked(case):
    """Return the annotation and the instance that a file name contains."""
    annotation, _, instance = case.rpartition(".")
    if annotation == "FULL":
        return "", 0
    # HTA analyzed the second forward pass, which only the name of the table shows.
    return (annotation, int(instance)) if "ProfilerStep" in annotation else (FORWARD, 1)


def ours(name, case):
    remaining = golden.kept(name)
    graph, result = CriticalPathAnalysis.critical_path_analysis(
        remaining, remaining.ranks[0], *asked(case)
    )
    assert result
    return graph


def expected(name, case):
    return golden.record(name, f"critical_path.{case}.json")


def durations(graph):
    frame = graph.get_critical_path_breakdown()
    return frame.groupby("bound_by")["duration"].sum().to_dict()


def edges_of(frame):
    keys = zip(
        frame["event_idx"].fillna(-1),
        frame["duration"],
        frame["type"].astype(str),
        frame["bound_by"].fillna("").astype(str),
        strict=True,
    )
    return Counter(keys)


def differ_by_fractions(graph, theirs):
    """HTA rounds starts and durations and drops events whose duration is then 0."""
    most_us = max(theirs["critical_path_nodes"], len(graph.critical_path_nodes))
    result = durations(graph)
    for bound, time in theirs["duration_us"].items():
        assert abs(result.get(bound, 0) - time) <= most_us, bound
    assert abs(graph.path.length_ns / 1000 - theirs["total_us"]) <= most_us


@pytest.mark.parametrize(("name", "case"), ALIKE)
def test_paths_and_every_edge_are_hta_s(name, case):
    graph, theirs = ours(name, case), expected(name, case)
    if golden.resolution_ns(name) < 1000:
        differ_by_fractions(graph, theirs)
        return
    result = durations(graph)
    for bound in {*result, *theirs["duration_us"]}:
        assert result.get(bound, 0) == theirs["duration_us"].get(bound, 0), bound
    assert graph.path.length_ns == theirs["total_us"] * 1000
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (theirs["nodes"], theirs["edges"])
    assert len(graph.critical_path_nodes) == theirs["critical_path_nodes"]
    assert len(graph.critical_path_events_set) == theirs["critical_events"]
    shares = graph.summary()
    for bound, share in theirs["summary_pct"].items():
        assert shares.get(bound, 0) == pytest.approx(share)
    file = case if asked(case)[0] != FORWARD else f"{FORWARD}.1"
    breakdown = golden.frame(name, f"critical_path.{file}.breakdown.csv")
    frame = graph.get_critical_path_breakdown()
    assert edges_of(frame) == edges_of(breakdown)
    assert list(frame.columns) == list(breakdown.columns)


@pytest.mark.parametrize(("name", "case"), [case for case in DIFFERENT if case in CASES])
def test_deliberate_differences_are_those_of_the_table(name, case):
    theirs_us, ours_us, _ = DIFFERENT[name, case]
    assert expected(name, case)["total_us"] == theirs_us
    if ours_us is None:
        with pytest.raises(TraceError, match="no instance 1"):
            ours(name, case)
    else:
        assert ours(name, case).path.length_ns == ours_us * 1000


@pytest.mark.parametrize("instance", [0, 1])
def test_without_the_other_kernels_of_graph_launches_paths_are_hta_s(instance):
    name = "hta_tests__trace_diff__test"
    if name not in golden.names():
        pytest.skip(golden.MISSING)
    trace = next(iter(golden.kept(name).values()))
    theirs = expected(name, f"ProfilerStep.{instance}")
    rows = np.flatnonzero(trace.launch_of >= 0)
    call, record = trace.launch_of[rows], trace.table.record[rows]
    order = np.lexsort((record, call))
    earlier = order[:-1][call[order][1:] == call[order][:-1]]
    member = np.ones(len(trace), dtype=bool)
    member[rows[earlier]] = False
    last_only = trace_within(trace, member, Selection())
    path = build_graph(
        last_only, analysis_range(last_only, "ProfilerStep", instance, closed=True), HTA_RULES
    )
    graph = CPGraph(path)
    assert durations(graph) == theirs["duration_us"]
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (theirs["nodes"], theirs["edges"])


@pytest.mark.parametrize("name", golden.names())
def test_where_hta_fails_there_is_a_path(name):
    remaining = golden.kept(name)
    for rank, trace in remaining.items():
        if (name, "ProfilerStep.0") in CASES and rank == remaining.ranks[0]:
            continue  # tested above
        if CriticalPathAnalysis.critical_path_analysis(remaining, rank, "ProfilerStep", 0) is None:
            assert critical_path_of(trace, "ProfilerStep") is not None
            assert not trace.events["name"].str.contains("ProfilerStep").any()
