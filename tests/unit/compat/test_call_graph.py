"""HTA's call graph, from small hand-written frames."""

import pandas as pd
import pytest

from hta_widgets.compat.common.trace_call_graph import CallGraph
from hta_widgets.compat.common.trace_call_stack import (
    CallStackGraph,
    CallStackIdentity,
    CallStackNode,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.common.types import DeviceType

# index, name, cat, tid, ts, dur, stream, index_correlation
EVENTS = [
    (1, "ProfilerStep#1", "user_annotation", 10, 0, 100, -1, -1),
    (2, "aten::linear", "cpu_op", 10, 5, 30, -1, -1),
    (3, "aten::addmm", "cpu_op", 10, 10, 20, -1, -1),
    (4, "cudaLaunchKernel", "cuda_runtime", 10, 12, 5, -1, 7),
    (5, "aten::relu", "cpu_op", 10, 40, 10, -1, -1),
    (6, "autograd::engine::evaluate_function: AddBackward0", "cpu_op", 11, 60, 20, -1, -1),
    (7, "gemm", "kernel", 7, 20, 15, 7, 4),
    (8, "cudaLaunchKernel", "cuda_runtime", 11, 65, 5, -1, 9),
    (9, "relu_backward", "kernel", 7, 90, 30, 7, 8),
    (10, "lost", "kernel", 7, 130, 1, 7, 0),
]
COLUMNS = ["index", "name", "cat", "tid", "ts", "dur", "stream", "index_correlation"]


def frame(events=EVENTS):
    result = pd.DataFrame(events, columns=COLUMNS)
    return result.assign(pid=1, correlation=-1, iteration=1)


@pytest.fixture
def graph():
    return CallGraph.from_dataframe(frame(), rank=3)


@pytest.fixture
def events(graph):
    return graph.trace_data.get_trace(3)


def test_parents_and_depths(events):
    assert events["parent"].to_dict() == {
        1: -10, 2: 1, 3: 2, 4: 3, 5: 1, 6: 1, 7: 4, 8: 6, 9: 8, 10: -1,
    }  # fmt: skip
    assert events["depth"].to_dict() == {
        1: 0, 2: 1, 3: 2, 4: 3, 5: 1, 6: 1, 7: 4, 8: 2, 9: 3, 10: -1,
    }  # fmt: skip
    assert events["height"].to_dict() == {
        1: 4, 2: 3, 3: 2, 4: 1, 5: 1, 6: 2, 7: 0, 8: 1, 9: 0, 10: -1,
    }  # fmt: skip


def test_device_events_below_each(events):
    below = [
        "num_kernels", "kernel_dur_sum", "kernel_span", "first_kernel_start", "last_kernel_end",
    ]  # fmt: skip
    assert events.loc[1, below].tolist() == [2, 45, 100, 20, 120]
    assert events.loc[2, below].tolist() == [1, 15, 15, 20, 35]
    assert events.loc[5, below].tolist() == [0, 0, 0, -1, -1]
    assert events.loc[7, below].tolist() == [1, 15, 15, 20, 35]


def test_backward_threads_are_below_the_step(graph):
    assert graph.mapping.to_dict("list") == {
        "rank": [3, 3], "pid": [1, 1], "tid": [10, 11], "label": ["main", "bwd"],
        "stack_index": [0, 1], "stack_root": [-10, -10], "count": [1, 2],
    }  # fmt: skip


def test_traversals(graph):
    stack = next(graph.get_call_stacks(tid=10))
    assert stack.get_path_to_root(7) == [7, 4, 3, 2, 1, -10]
    assert stack.get_root(7) == -10
    assert stack.get_parent(99) == -2
    assert stack.get_children(1) == [2, 5, 6]
    assert stack.get_paths_to_leaves(2) == [[2, 3, 4, 7]]
    assert sorted(stack.get_leaf_nodes(1)) == [5, 7, 9]
    assert sorted(stack.get_descendants(6)) == [6, 8, 9]
    assert stack.nodes[7].device == DeviceType.GPU
    assert stack.nodes[-10].children == [1]
    entered, left = [], []
    stack.dfs_traverse(lambda index, _: entered.append(index), lambda index, _: left.append(index))
    assert entered == [-10, 1, 2, 3, 4, 7, 5, 6, 8, 9]
    assert left == [7, 4, 3, 2, 5, 9, 8, 6, 1, -10]


def test_stack_of_a_node(graph):
    assert graph.get_stack_of_node(3)["index"].tolist() == [1, 2, 3, 4, 7]
    assert graph.get_stack_of_node(3, skip_ancestors=True)["index"].tolist() == [3, 4, 7]
    assert graph.get_stack_of_node(9)["index"].tolist() == [1, 6, 8, 9]
    assert graph.get_csg_of_node(9).identity.tid == 11
    assert graph.get_node_attributes(5)["depth"] == 1
    assert graph.get_gpu_kernels()["index"].tolist() == [7, 9, 10]
    with pytest.raises(ValueError, match="no event 99"):
        graph.get_node_attributes(99)
    with pytest.raises(ValueError, match="no launch"):
        graph.get_csg_of_node(10)


def test_threads_may_be_text_and_empty():
    events = [(*event[:3], "main", *event[4:]) for event in EVENTS[1:3]]
    graph = CallGraph.from_dataframe(frame(events))
    assert graph.trace_data.get_trace(-1)["parent"].tolist() == [-3, 2]
    nothing = CallGraph.from_dataframe(frame([]).astype({"name": "str", "cat": "str"}))
    assert nothing.call_stacks == []


def test_the_stack_of_one_thread_takes_htas_arguments():
    events = frame()
    symbols = TraceSymbolTable.create_from_df(events)
    symbols.encode_df(events)
    thread = events[events["tid"] == 10]
    launches = pd.DataFrame({"cpu_index": [4], "gpu_index": [7]})
    full = events.assign(parent=-1, depth=-1, num_kernels=0).set_index("index", drop=False)
    stack = CallStackGraph(thread, CallStackIdentity(0, 1, 10), launches, full, symbols)
    assert stack.get_nodes() == {
        -10: CallStackNode(-1, -1, 5, children=[1]),
        1: CallStackNode(-10, 0, 4, children=[2, 5]),
        2: CallStackNode(1, 1, 3, children=[3]),
        3: CallStackNode(2, 2, 2, children=[4]),
        4: CallStackNode(3, 3, 1, children=[7]),
        5: CallStackNode(1, 1, 1),
        7: CallStackNode(4, 4, 0, DeviceType.GPU),
    }
    assert stack.get_path_to_root(7) == [7, 4, 3, 2, 1, -10]
    assert stack.get_depth().tolist() == [0, 1, 2, 3, 1]
    assert full.loc[[1, 4, 7, 6], "parent"].tolist() == [-10, 3, 4, -1]
    assert full.loc[[1, 5, 8], "num_kernels"].tolist() == [1, 0, 0]
    nodes = dict(stack.nodes)
    other = events[events["tid"] == 11]
    identity = CallStackIdentity(0, 1, 11)
    second = CallStackGraph(
        other, identity, launches, events, symbols, nodes, save_call_stack_to_df=False
    )
    assert second.nodes is nodes
    assert second.root_index == -11
    assert {-10, -11, 1, 6, 8} <= set(nodes)
    assert second.get_depth().tolist() == [0, 1]
    with pytest.raises(ValueError, match="index_correlation"):
        CallStackGraph(thread.drop(columns="index_correlation"), identity, launches, events)


def test_streams_have_no_call_stacks(caplog):
    events = frame()
    kernels = events[events["stream"] == 7]
    stack = CallStackGraph(kernels, CallStackIdentity(0, 1, 7), pd.DataFrame(), events)
    assert stack.device_type is DeviceType.GPU
    assert not stack.nodes
    assert "only host threads" in caplog.text
