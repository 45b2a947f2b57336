"""Critical paths of random programs, compared with plain recursion over their dependencies."""

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given, strategies as st
from support.small import call, event, kernel, load

from hta_widgets.analysis import critical_path

DURATIONS = st.integers(1, 40)
STREAMS = st.sampled_from([7, 9])
ITEMS = st.one_of(
    st.tuples(st.just("op"), DURATIONS, st.booleans()),
    st.tuples(st.just("launch"), DURATIONS, STREAMS, DURATIONS, st.integers(0, 60)),
    st.tuples(st.just("wait"), STREAMS, DURATIONS),
    st.tuples(st.just("gap"), DURATIONS),
)
PROGRAMS = st.lists(st.lists(ITEMS, min_size=1, max_size=6), min_size=1, max_size=3)


class Program:
    """Simulates threads one after another and records all dependencies."""

    def __init__(self, threads):
        self.events, self.time, self.edges = [], {}, []
        self.stream_end = {}  # stream: (last kernel, its end)
        self.kernels = 0
        clock = 100
        for number, items in enumerate(threads):
            self.tid, self.now, self.last = number + 1, clock, None
            for item in items:
                getattr(self, item[0])(*item[1:])
            # The next thread starts later, so kernels are in the order of their launches.
            clock = self.now + 5

    def node(self, name, end, at):
        self.time[name, end] = at
        return name, end

    def edge(self, source, target, counts):
        self.edges.append((source, target, self.time[target] - self.time[source] if counts else 0))

    def begin(self, name, counts=False):
        start = self.node(name, 0, self.now)
        if self.last is not None:
            self.edge(self.last, start, counts)
        self.last = start
        return start

    def finish(self, name, counts=True):
        end = self.node(name, 1, self.now)
        self.edge(self.last, end, counts)
        self.last = end
        return end

    def gap(self, dur):
        self.now += dur

    def op(self, dur, nested):
        name, start = f"op{len(self.events)}", self.now
        self.begin(name)
        if nested:
            self.now += 3
            inner, begun = f"{name}.inner", self.now
            self.begin(inner, counts=True)
            self.now += dur
            self.finish(inner)
            self.events.append(event("cpu_op", inner, begun, self.now, pid=10, tid=self.tid))
        self.now += dur
        self.finish(name)
        self.events.append(event("cpu_op", name, start, self.now, pid=10, tid=self.tid))

    def launch(self, dur, stream, work, late):
        self.kernels += 1
        name, number, start = f"call{self.kernels}", self.kernels, self.now
        begin = self.begin(name)
        self.now += dur
        self.finish(name)
        self.events.append(call(start, self.now, number, tid=self.tid))
        before, before_end = self.stream_end.get(stream, (None, -1))
        at = max(start + 1 + late, before_end)
        kernel_start = self.node(f"kernel{number}", 0, at)
        kernel_end = self.node(f"kernel{number}", 1, at + work)
        self.edge(kernel_start, kernel_end, counts=True)
        ready = self.now if self.now <= at else start
        self.edge(begin, kernel_start, counts=before_end < ready)
        if before_end >= ready:
            self.edge(before, kernel_start, counts=True)
        self.events.append(kernel(at, at + work, launch=number, stream=stream))
        self.stream_end[stream] = (kernel_end, at + work)

    def wait(self, stream, dur):
        awaited, end = self.stream_end.get(stream, (None, -1))
        self.kernels += 1
        name, number, start = f"wait{self.kernels}", self.kernels, self.now
        self.begin(name)
        self.now = max(start, end) + dur
        waited = self.finish(name, counts=end <= start)
        if awaited is not None:
            self.edge(awaited, waited, counts=False)
        self.events.append(
            call(start, self.now, number, name="cudaStreamSynchronize", tid=self.tid)
        )
        self.events.append(
            event(
                "cuda_sync", "Stream Sync", start, self.now, pid=0, tid=stream, stream=stream,
                device=0, correlation=number,
            )
        )  # fmt: skip

    def longest(self):
        into = {}
        for source, target, weight in self.edges:
            into.setdefault(target, []).append((source, weight))

        @cache
        def length(node):
            return max(
                (length(source) + weight for source, weight in into.get(node, [])), default=0
            )

        return max((length(node) for node in self.time), default=0)


@given(PROGRAMS)
def test_no_chain_of_dependencies_is_longer(threads):
    program = Program(threads)
    if not program.events:
        return
    with tempfile.TemporaryDirectory() as folder:
        traces = critical_path(load(Path(folder), program.events), 0, "")
    assert traces.attrs["length_ns"] == max(program.longest(), 1)  # 1: the helper's own first event
    start, end = traces.attrs["span_ns"]
    assert (start, end) == (0, max(program.time.values()))
    assert traces["dur_ns"].sum() == end - start
    ends = (traces["start_ns"] + traces["dur_ns"]).tolist()
    assert traces["start_ns"].tolist() == [start, *ends[:-1]]
    assert (traces["dur_ns"] > 0).all()
    waits = {"sync_dependency", "dependency", "lead"}
    counted = traces[~traces["type"].isin(waits)]
    counted = counted[~counted["bound_by"].isin(["cpu_blocked", "gpu_queue_wait"])]
    assert counted["dur_ns"].sum() == traces.attrs["length_ns"]
