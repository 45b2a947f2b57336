"""Traces with their critical path marked, read back as JSON and as a set."""

import ast
import gzip
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import hta_widgets as hw
from hta_widgets.analysis import critical_path, with_critical_path
from hta_widgets.compat.analyzers.critical_path_analysis import (
    CriticalPathAnalysis,
    restore_cpgraph,
)
from hta_widgets.compat.critical_path import _DiGraph
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.overlays import export_critical_path
from tests.support.small import call, event, kernel, load


def op(start, end, name, *, tid=1):
    return event("cpu_op", name, start, end, pid=10, tid=tid)


@pytest.fixture
def job(tmp_path):
    return load(
        tmp_path,
        [
            event("user_annotation", "ProfilerStep#1", 90_000, 420_000, pid=10, tid=1),
            op(100_000, 130_000, "aten::mm"),
            call(110_000, 120_000, 1),
            op(140_000, 150_000, "aside", tid=2),
            kernel(150_500, 390_000, launch=1),
            call(160_000, 400_000, 2, name="cudaDeviceSynchronize"),
            op(402_000, 410_000, "after"),
        ],
    )


def events_of(path):
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(text)["traceEvents"]


def marked(events):
    return [e["name"] for e in events if e["ph"] == "X" and e.get("args", {}).get("critical")]


PATH = ["aten::mm", "cudaLaunchKernel", "gemm", "cudaDeviceSynchronize", "after"]
ARROWS = list(pairwise(PATH[1:]))


def arrows_of(trace):
    """Return the names at both ends of the path's arrows."""
    names = trace.events["name"].astype(str)
    arrows = trace.flows.query("kind == 'critical_path'")
    return [(names[a], names[b]) for a, b in zip(arrows["source"], arrows["target"], strict=True)]


def test_only_the_path_and_named_ranges_are_written(job, tmp_path):
    report = export_critical_path(job, tmp_path / "path.json.gz", 0)
    events = events_of(report.path)
    assert marked(events) == PATH
    assert [e["name"] for e in events if e["ph"] == "X"] == ["ProfilerStep#1", *PATH]
    assert (report.events, report.dropped) == (6, 2)
    arrows = [e for e in events if e.get("cat") == "critical_path"]
    assert [e["ph"] for e in arrows] == ["s", "f"] * report.flows
    assert [a["args"]["type"] for a in arrows[::2]] == [
        "critical_path_kernel_launch_delay",
        "critical_path_sync_dependency",
        "critical_path_dependency",
    ]
    launch, arrival = arrows[:2]
    assert (launch["pid"], launch["tid"], launch["ts"]) == (10, 1, 110)
    assert (arrival["pid"], arrival["tid"], arrival["ts"]) == (0, 7, 150.5)
    assert launch["args"] == {
        "weight": 40,
        "critical": True,
        "type": "critical_path_kernel_launch_delay",
    }


def test_all_other_events_are_written_unchanged(job, tmp_path):
    report = export_critical_path(job, tmp_path / "all.json", 0, only_path=False)
    before, after = events_of(Path(job[0].path)), events_of(report.path)
    remaining = after[: len(before)]
    for item in remaining:
        item["args"].pop("critical", None)
    assert remaining == before
    assert report.dropped == 0
    back = hw.load(report.path, cache=False, progress=False)
    assert arrows_of(back[0]) == ARROWS


def test_all_edges_can_be_drawn(job, tmp_path):
    report = export_critical_path(job, tmp_path / "all.json", 0, only_path=False, all_edges=True)
    arrows = [e for e in events_of(report.path) if e.get("cat") == "critical_path"]
    assert len(arrows) == 2 * report.flows > 6
    assert {e["args"]["critical"] for e in arrows} == {True, False}


def test_the_input_is_not_replaced_by_default(job):
    own = Path(job[0].path)
    before = own.read_bytes()
    with pytest.raises(hw.TraceError, match="was read from"):
        export_critical_path(job, own, 0)
    assert own.read_bytes() == before
    export_critical_path(job, own, 0, replace_input=True)
    assert marked(events_of(own)) == PATH


def test_wrong_places_and_ranges_are_refused(job, tmp_path):
    with pytest.raises(hw.TraceError, match="not the name of a trace file"):
        export_critical_path(job, tmp_path / "folder", 0)
    with pytest.raises(hw.TraceError, match="in its name"):
        export_critical_path(job, tmp_path / "path.json", 0, "NoSuchRange")
    with pytest.raises(hw.TraceError, match="no rank 4"):
        export_critical_path(job, tmp_path / "path.json", 4)
    assert not (tmp_path / "path.json").exists()


def test_a_timeline_gets_the_path_as_arrows(job):
    result = with_critical_path(job, 0)
    assert arrows_of(result[0]) == ARROWS
    assert (result[0].launch_of == job[0].launch_of).all()
    assert critical_path(result, 0).equals(critical_path(job, 0))
    assert with_critical_path(job, 0, "NoSuchRange") is job


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("cuLaunchKernelEx", "cuda_driver"),
        ("runFunction - job_prep_and_submit_for_execution", "mtia_runtime"),
    ],
)
def test_calls_that_hta_counts_since_0_6_launch(tmp_path, name, category):
    launch = {**call(100, 120, 1, name=name), "cat": category}
    traces = load(tmp_path, [launch, kernel(200, 300, launch=1)])
    graph, _ = CriticalPathAnalysis.critical_path_analysis(traces, 0, "", 0)
    sums = graph.get_critical_path_breakdown().groupby("bound_by")["duration"].sum()
    assert sums["gpu_kernel_launch_overhead"] == pytest.approx(0.1)


def test_hta_s_names_and_places(job, tmp_path):
    graph, result = CriticalPathAnalysis.critical_path_analysis(job, 0, "ProfilerStep", 0)
    assert result
    target = CriticalPathAnalysis.overlay_critical_path_analysis(
        job, 0, graph, str(tmp_path / "new" / "folder")
    )
    assert Path(target).name == "overlaid_critical_path_rank-0.json"
    assert set(marked(events_of(Path(target)))) == {
        job[0].events["name"][row] for row in graph.path.path_events
    }
    assert CriticalPathAnalysis.critical_path_analysis(job, 0, "NoSuchRange", 0) is None
    with pytest.raises(hw.TraceError, match="no instance 7"):
        CriticalPathAnalysis.critical_path_analysis(job, 0, "ProfilerStep", 7)


def test_hta_s_graph_answers_what_if(job):
    graph, _ = CriticalPathAnalysis.critical_path_analysis(job, 0, "ProfilerStep", 0)
    record = int(job[0].table.record[job[0].events.query("name == 'aten::mm'").index[0]])
    start, end = graph.get_nodes_for_event(record)
    assert (start.ts, end.ts, start.is_start, end.is_start) == (100, 130, True, False)
    edges = graph.get_edges_attributed_to_event(record)
    assert sorted(edge.weight for edge in edges) == [10, 10]
    assert graph.get_events_for_edge(edges[0])[0] == record
    assert graph.get_event_attribution_for_edge(edges[0]) == record
    before = graph.path.length_ns
    for edge in edges:
        graph.edges[edge.begin, edge.end]["weight"] = 0
    assert graph.critical_path()
    assert graph.path.length_ns < before


def test_the_graph_is_one_of_networkx(job):
    networkx = pytest.importorskip("networkx")
    graph, _ = CriticalPathAnalysis.critical_path_analysis(job, 0, "ProfilerStep", 0)
    assert isinstance(graph, networkx.DiGraph)
    assert len(graph.edges) == graph.number_of_edges() == len(graph.path.edges)
    first, second = graph.critical_path_nodes[:2]
    assert graph.edges[first, second].keys() == {"weight", "object"}
    assert networkx.dag_longest_path_length(graph) * 1000 == graph.path.length_ns
    assert list(graph.subgraph([first, second]).edges) == [(first, second)]
    assert graph.copy().number_of_nodes() == len(graph)


def test_edges_may_change_in_weight_only(job):
    graph, _ = CriticalPathAnalysis.critical_path_analysis(job, 0, "ProfilerStep", 0)
    length_ns, (begin, end) = graph.path.length_ns, graph.critical_path_nodes[:2]
    weight = graph.edges[begin, end]["weight"]
    graph.edges[begin, end]["weight"] = weight + 1000
    assert graph.critical_path()
    assert graph.path.length_ns == length_ns + 1_000_000
    graph.edges[begin, end]["weight"] = weight
    graph.critical_path()
    assert graph.path.length_ns == length_ns
    graph.add_edges_from([(end, begin, {"weight": 1})])
    with pytest.raises(TraceError, match="added or removed"):
        graph.critical_path()


WITHOUT = """
import sys
sys.modules["networkx"] = None
from hta_widgets import load
from hta_widgets.compat.analyzers.critical_path_analysis import CriticalPathAnalysis
traces = load(sys.argv[1], cache=False, progress=False)
graph, _ = CriticalPathAnalysis.critical_path_analysis(traces, 0, "", 0)
print([type(graph).__mro__[1].__module__, len(graph), sorted(graph.edges.data("weight"))])
"""


def test_without_networkx_the_graph_is_the_same(job):
    networkx = pytest.importorskip("networkx")
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT, job[0].path], check=True, capture_output=True, text=True
    )
    graph, _ = CriticalPathAnalysis.critical_path_analysis(job, 0, "", 0)
    base, count, weights = ast.literal_eval(result.stdout)
    assert base == "hta_widgets.compat.critical_path"
    assert (count, weights) == (len(graph), sorted(graph.edges.data("weight")))
    ours, theirs = _DiGraph(), networkx.DiGraph()
    for item in (ours, theirs):
        item.add_nodes_from(range(6))
        item.add_edges_from([(0, 1, {"w": 5}), (0, 2, {}), (2, 1, {"w": 7}), (1, 4, {})])
    for read in (
        list, len, lambda g: 5 in g, lambda g: g[0], lambda g: g.nodes[3],
        lambda g: list(g.nodes(data=True)), lambda g: list(g.nodes.data("w", 1)),
        lambda g: sorted(g.edges), lambda g: list(g.edges(0)), lambda g: list(g.edges([0, 2])),
        lambda g: sorted(g.edges(data=True), key=str), lambda g: sorted(g.edges(1, "w")),
        lambda g: list(g.out_edges(2, data=True)), lambda g: sorted(g.in_edges(1, data="w")),
        lambda g: list(g.successors(0)), lambda g: list(g.neighbors(2)), lambda g: dict(g.adj[0]),
        lambda g: sorted(g.predecessors(1)), lambda g: (g.in_degree(1), g.out_degree(0)),
        lambda g: (g.has_edge(0, 1), g.has_edge(1, 0), g.has_node(9), g.get_edge_data(0, 1)),
        lambda g: (g.number_of_nodes(), g.order(), g.number_of_edges(), g.size()),
        lambda g: (g.is_directed(), g.is_multigraph(), dict(g.pred[1]), dict(g.succ[2])),
    ):  # fmt: skip
        assert read(ours) == read(theirs)


def test_hta_s_graph_is_saved_and_restored(job, tmp_path):
    graph, _ = CriticalPathAnalysis.critical_path_analysis(job, 0, "ProfilerStep", 0)
    name = graph.save(str(tmp_path / "kept"))
    assert name == str(tmp_path / "kept.zip")
    again = restore_cpgraph(name, job, 0)
    assert again.critical_path_nodes == graph.critical_path_nodes
    assert again.get_critical_path_breakdown().equals(graph.get_critical_path_breakdown())
    other = load(tmp_path, [event("user_annotation", "ProfilerStep#1", 0, 9_000, pid=10, tid=1)])
    with pytest.raises(hw.TraceError, match="another trace"):
        restore_cpgraph(name, other, 0)
    (tmp_path / "no.zip").write_text("no")
    with pytest.raises(hw.TraceError, match="holds no graph"):
        restore_cpgraph(str(tmp_path / "no.zip"), job, 0)
