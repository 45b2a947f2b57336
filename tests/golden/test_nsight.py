"""Nsight Systems exports, compared with figures from an independent program."""

import json
from collections import Counter

import numpy as np
import pytest
from support.golden import MISSING, SHARED

import hta_widgets as hw
from hta_widgets.analysis import (
    collectives,
    kernel_breakdown,
    step_times,
    stragglers,
    temporal_breakdown,
)
from hta_widgets.panels.headline import headline

FOLDER = SHARED / "traces/profilers/nsight"
NAMES = ("h100_2gpu_1s", "mock", "synthetic_node0", "synthetic_node1")
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=MISSING)


@pytest.fixture(scope="module", params=NAMES)
def export(request):
    figures = SHARED / "golden/profilers" / f"nsight_{request.param}.json"
    traces = hw.load(FOLDER / f"{request.param}.sqlite", cache=False, progress=False)
    return traces, json.loads(figures.read_text())


def ranks_of(export):
    """Yield each rank with its figures and the figures of its process."""
    traces, golden = export
    assert len(traces) == len(golden["ranks"])
    for (key, figures), trace in zip(golden["ranks"].items(), traces.values(), strict=True):
        yield trace, figures, golden["host"][key.split()[1]]


def test_device_work_is_that_of_the_file(export):
    for trace, figures, _ in ranks_of(export):
        device = trace.events[trace.events.stream >= 0]
        counts = device.category.value_counts()
        for category, key in (("kernel", "kernels"), ("gpu_memcpy", "memcpys"),
                              ("gpu_memset", "memsets")):  # fmt: skip
            assert counts.get(category, 0) == figures[key]
        assert (device.kind == "communication").sum() == figures["communication_kernels"]
        streams = Counter(map(str, device.stream.tolist()))
        assert streams == figures["streams"]
        start = trace.zero_ns - trace.metadata["baseTimeNanoseconds"] + device.start_ns
        start -= trace.shift_ns
        assert [start.min(), (start + device.dur_ns).max()] == [
            figures["first_ns"], figures["last_ns"]
        ]  # fmt: skip
        linked = (trace.launch_of[device.index] >= 0).sum()
        assert linked == figures["events_with_launch"]
        sizes = trace.copy_table.size_bytes.sum()
        copied = sum(size for _, size in figures["copies_by_kind_count_bytes"].values())
        assert sizes >= copied  # memory fills have sizes too


def test_analyses_agree(export):
    traces, _ = export
    kernels = kernel_breakdown(traces).groupby(["rank", "name"])[["count", "sum_ns"]].sum()
    breakdown = temporal_breakdown(traces).set_index("rank")
    for trace, figures, _ in ranks_of(export):
        row = breakdown.loc[trace.rank]
        for kind, busy_ns in figures["busy_by_kind_ns"].items():
            assert row[f"{kind}_ns"] == busy_ns
        assert row.busy_ns == figures["busy_ns"]
        assert row.exposed_communication_ns == figures["exposed_communication_ns"]
        own = kernels.loc[trace.rank]
        for name, count, sum_ns in figures["top_kernels"]:
            assert tuple(own.loc[name]) == (count, sum_ns)


def test_calls_and_ranges_are_those_of_the_file(export):
    for trace, _, figures in ranks_of(export):
        events = trace.events
        calls = events[events.category.isin(["cuda_runtime", "cuda_driver"])]
        assert len(calls) == figures["calls"]
        assert calls.dur_ns.sum() == figures["call_ns_sum"]
        by_type = Counter(figures["nvtx_by_type"])
        derived = events.name.astype(str).str.startswith("ProfilerStep#").sum()
        ranges = events[events.category.isin(["cpu_op", "user_annotation"])]
        assert len(ranges) - derived == by_type["59"] - figures["nvtx_open_ended"]
        assert len(trace.async_table) == by_type["60"]
        assert len(trace.instant_table) == by_type["34"]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    for node in (0, 1):
        name = f"synthetic_node{node}.sqlite"
        (folder / name).write_bytes((FOLDER / name).read_bytes())
        (folder / name).with_suffix(".nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report")
    truth = json.loads((FOLDER / "synthetic_truth.json").read_text())
    return hw.load(folder, cache=False, progress=False), truth


def test_two_nodes_are_one_job_on_one_clock(job):
    traces, truth = job
    assert traces.ranks == [0, 1, 2, 3]
    assert "foreign" not in traces.problems.kind.tolist()
    starts = {trace.zero_ns for trace in traces.values()}
    epochs = truth["epoch_ns"]
    first = {rank: steps["steps"][0][1] for rank, steps in truth["ranks"].items()}
    assert starts == {epochs["node0"] + first["0"]} == {epochs["node1"] + first["2"]}
    steps = step_times(traces).groupby("rank").step.apply(list)
    assert steps.tolist() == [[step[0] for step in truth["ranks"]["0"]["steps"]]] * 4


def test_the_late_rank_is_named_with_its_cost(job):
    traces, truth = job
    frame = collectives(traces)
    assert len(frame) == 20
    assert frame.attrs["matched"]["unmatched"] == 0
    assert frame.size_bytes.unique().tolist() == [truth["collective"]["bytes"]]
    late, late_ns = truth["late_rank"], truth["late_ns_per_step"]
    assert frame.last_rank.unique().tolist() == [late]
    assert np.sort(frame.wait_ns.unique()).tolist() == [0, late_ns]
    blamed = stragglers(traces).set_index("rank")
    assert blamed.index[blamed.is_straggler].tolist() == [late]
    assert blamed.imposed_wait_ns[late] == 5 * 3 * late_ns  # 5 steps, in which 3 ranks wait
    assert f"for rank {late}" in str(headline(traces))
