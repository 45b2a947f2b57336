"""Call graphs compared with HTA's: the number of threads and nodes, and the parent of each node."""

import pytest
from support import golden

import hta_widgets as hw
from hta_widgets.compat.common.trace_call_graph import CallGraph

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

#: Number of nodes in HTA and here, and why they differ.
NODES = {
    "hta_tests__amd_trace": (93, 109, "kernels of stream 0 hang below their launches too"),
    "hta_tests__triton_example": (8, 9, "Triton's operator is a host event"),
    "hta_tests__critical_path__alexnet": (868, 863, "stream 4294967295 of waits means none"),
    "hta_tests__critical_path__simple_add": (838, 833, "stream 4294967295 of waits means none"),
}


@pytest.mark.parametrize("name", golden.names("call_graph.json"))
def test_threads_and_nodes_are_htas(name):
    trace = hw.TraceAnalysis(trace_dir=golden.trace_path(name)).t
    graph = CallGraph(trace, ranks=trace.get_ranks()[:1])
    expected = golden.record(name, "call_graph.json")
    theirs, ours, _ = NODES.get(name, (expected["n_nodes"], expected["n_nodes"], ""))
    assert expected["n_nodes"] == theirs
    assert sum(map(len, graph.rank_to_nodes.values())) == ours
    assert len(graph.call_stacks) == expected["n_stacks"]
    mapping = golden.frame(name, "call_graph_mapping.csv")
    keys = ["rank", "pid", "tid", "label", "stack_root", "count"]

    def rows(frame):
        return sorted(map(tuple, frame[keys].astype(str).to_numpy().tolist()))

    assert rows(graph.mapping) == rows(mapping)
