"""Operator costs of random call trees, compared with plain recursion."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings, strategies as st
from support import small
from support.examples import examples

from hta_widgets.analysis import operators
from hta_widgets.trace.host_stack import children_coverage, forest_of, nearest_ancestor

#: A call consists of kind, name and children. Launches have device work.
CATEGORIES = ("cpu_op", "python_function", "user_annotation", "launch")


@st.composite
def trees(draw, depth=5):
    category = draw(st.sampled_from(CATEGORIES if depth else ("launch", "cpu_op")))
    if category == "launch":
        return (category, "", [draw(st.integers(0, 9)) for _ in range(draw(st.integers(0, 2)))])
    children = draw(st.lists(trees(depth - 1), max_size=3)) if depth else []
    return (category, draw(st.sampled_from("abc")), children)


class Job:
    """Arranges trees in time: an event begins 10 ns after its parent or previous sibling."""

    def __init__(self, threads):
        self.records = []
        self.expected = {}
        self.device_ns = self.outside_ns = self.correlation = 0
        for tid, roots in enumerate(threads, start=1):
            at = 1000
            for root in roots:
                at = self.lay_out(root, at, tid, [])[0] + 10

    def write(self, cat, name, start, end, pid, tid, **args):
        self.records.append(small.event(cat, name, start, end, pid=pid, tid=tid, **args))

    def lay_out(self, node, start, tid, above):
        """Write an event and everything below it.

        `above` holds the names of enclosing operators. Return the end, and the time of operators
        that are outermost here.
        """
        category, name, below = node
        if category == "launch":
            return self.launch(below, start, tid, above), 0
        is_operator = category == "cpu_op"
        at, within = start + 10, 0
        for child in below:
            at, operators_ns = self.lay_out(
                child, at, tid, [*above, name] if is_operator else above
            )
            at, within = at + 10, within + operators_ns
        self.write(category, name, start, at, 10, tid)
        if not is_operator:
            return at, within
        sums = self.expected.setdefault(name, [0] * 5)
        sums[0] += 1
        sums[1] += 0 if name in above else at - start
        sums[2] += at - start - within
        return at, at - start

    def launch(self, kernels, start, tid, above):
        self.correlation += 1
        link = {"correlation": self.correlation}
        self.write("cuda_runtime", "cudaLaunchKernel", start, start + 5, 10, tid, **link)
        at = 1_000_000 + 1000 * self.correlation
        for time in kernels:
            self.write("kernel", "k", at, at + time, 0, 7, stream=7, **link)
            at += time
        total = sum(kernels)
        self.device_ns += total
        self.outside_ns += 0 if above else total
        for name in set(above):
            self.expected.setdefault(name, [0] * 5)[3] += total
        if above:
            self.expected[above[-1]][4] += total
        return start + 5


@settings(max_examples=examples(60))
@given(st.lists(st.lists(trees(), max_size=3), min_size=1, max_size=2))
def test_sums_of_random_trees(tmp_path_factory, threads):
    job = Job(threads)
    if not job.records:
        return
    frame = operators(small.read(small.write(tmp_path_factory.mktemp("job"), job.records)))
    columns = ["count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns"]
    result = {row[0]: list(row[1:]) for row in frame[["name", *columns]].itertuples(index=False)}
    assert result == job.expected
    assert frame.attrs["device_ns"] == job.device_ns
    assert frame.attrs["unattributed"]["outside_operators_ns"] == job.outside_ns


@settings(max_examples=examples(40))
@given(st.lists(trees(), min_size=1, max_size=3), st.lists(st.integers(0, 1_010_000), max_size=3))
def test_windows_side_by_side_add_up(tmp_path_factory, roots, edges):
    job = Job([roots])
    traces = small.read(small.write(tmp_path_factory.mktemp("job"), job.records))
    edges = [0, *sorted(set(edges) - {0}), traces.end_ns + 1]
    if edges != sorted(set(edges)):
        return
    columns = ["cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns"]
    full = operators(traces).set_index("name")[columns].to_dict("index")
    result = {name: dict.fromkeys(columns, 0) for name in full}
    device_ns = 0
    for window in pairwise(edges):
        frame = operators(traces, window=window)
        device_ns += frame.attrs["device_ns"]
        for name, sums in frame.set_index("name")[columns].to_dict("index").items():
            for column in columns:
                result[name][column] += sums[column]
    assert result == full
    assert device_ns == job.device_ns


PARENTS = st.lists(st.integers(-1, 30), max_size=30).map(
    lambda values: np.array(
        [min(value, place - 1) for place, value in enumerate(values)], dtype=np.int64
    )
)


def path_of(parent, row):
    path = [row]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path


@given(PARENTS, st.randoms(use_true_random=False))
def test_forests(parent, random):
    count = len(parent)
    forest = forest_of(parent)
    paths = [path_of(parent, row) for row in range(count)]
    values = np.array([random.randrange(-9, 99) for _ in range(count)], dtype=np.int64)
    group = np.array([random.randrange(3) for _ in range(count)], dtype=np.int64)
    stops = np.array([random.random() < 0.4 for _ in range(count)], dtype=bool)
    members = np.flatnonzero(np.array([random.random() < 0.7 for _ in range(count)], dtype=bool))
    assert forest.depth.tolist() == [len(path) - 1 for path in paths]
    assert forest.subtree_sums(values).tolist() == [
        sum(int(values[row]) for row in range(count) if top in paths[row]) for top in range(count)
    ]
    assert sorted(forest.preorder.tolist()) == list(range(count))
    assert forest.is_nested_in_group(members, group[members]).tolist() == [
        any(up in members and group[up] == group[row] for up in paths[row][1:]) for row in members
    ]
    result = nearest_ancestor(parent, stops)
    assert result.tolist() == [next((up for up in path if stops[up]), -1) for path in paths] + [-1]


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), min_size=1, max_size=12)


@given(SPANS, st.randoms(use_true_random=False))
def test_children_that_overlap_count_once(spans, random):
    start, length = (
        np.array(values, dtype=np.int64) for values in zip(*sorted(spans), strict=True)
    )
    end = start + length
    parent = np.array([random.randrange(-1, max(row, 1)) for row in range(len(start))])
    parent[0] = -1
    covered = children_coverage(parent, start, end)
    for row in range(len(start)):
        instants = {
            at
            for child in np.flatnonzero(parent == row)
            for at in range(start[child], end[child])
            if start[row] <= at < end[row]
        }
        assert covered[row] == len(instants)
