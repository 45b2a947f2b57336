"""Files of other profilers, compared with figures from independent programs."""

import json

import pytest
from support.golden import MISSING, SHARED

import hta_widgets as hw
from hta_widgets.analysis import collectives, step_times, stragglers, temporal_breakdown

TRACES, GOLDEN = SHARED / "traces/profilers", SHARED / "golden/profilers"
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason=MISSING)


def load(path):
    return hw.load(path, cache=False, progress=False)


def test_devices_of_a_jax_profile():
    golden = json.loads((GOLDEN / "xplane_jax_conv_8gpu.json").read_text())
    traces = load(TRACES / "xprof/jax_conv_8gpu.xplane.pb")
    planes = [one for one in golden["planes"] if one.get("gpu")]
    breakdown = temporal_breakdown(traces).set_index("rank")
    assert len(traces) == len(planes)
    linked = 0
    for trace, figures in zip(traces.values(), planes, strict=True):
        work = trace.events.query("category == 'kernel'")
        gpu, row = figures["gpu"], breakdown.loc[trace.rank]
        assert len(work) == gpu["events"]
        # Each interval is rounded to ns; the figures are in ps.
        assert row.busy_ns * 1000 == pytest.approx(gpu["busy_ps"], abs=1000 * len(work))
        assert row.communication_ns * 1000 == gpu["communication_ps"]
        assert row.compute_ns + row.memory_ns == row.busy_ns
        totals = work.groupby("name", observed=True).dur_ns.agg(["count", "sum"])
        for name, count, total_ps in gpu["top"]:
            assert totals.loc[name, "count"] == count
            assert totals.loc[name, "sum"] * 1000 == pytest.approx(total_ps, abs=1000 * count)
        linked += (trace.launch_of[work.index] >= 0).sum()
    assert [linked, sum(one["gpu"]["events"] for one in planes)] == golden["launches_found"]


def test_tasks_and_collectives_of_ascend():
    golden = json.loads((GOLDEN / "ascend.json").read_text())
    traces = load(TRACES / "ascend/text_level1")
    assert set(traces.problems.kind) == {"overlap"}
    breakdown = temporal_breakdown(traces).set_index("rank")
    for rank, trace in traces.items():
        figures, row = golden[f"text_level1 rank{rank}"], breakdown.loc[rank]
        events = trace.events
        compute = events.query("kind == 'compute'")
        assert len(compute) == figures["compute_kernels"]
        assert row.compute_ns == figures["compute_union_ns"]
        assert row.communication_ns == figures["collective_union_ns"]
        assert row.exposed_communication_ns == figures["exposed_collective_ns"]
        groups = events.query("kind == 'communication'")
        ends = trace.zero_ns - trace.shift_ns + groups.start_ns + groups.dur_ns
        assert ends.tolist() == [end for _, _, end, _, _ in figures["collectives"]]
        assert groups.name.tolist() == [name for name, *_ in figures["collectives"]]
        totals = compute.groupby("name", observed=True).dur_ns.agg(["count", "sum"])
        for name, count, total_ns in figures["top_kernels"]:
            assert tuple(totals.loc[name]) == (count, total_ns)
        launches = trace.launch_of[events.stream >= 0]
        launches = launches[launches >= 0]
        by_operators = (events.category[launches] != "cuda_runtime").sum()
        flows = figures["flows"]
        assert len(launches) == flows["HostToDevice f"]
        assert by_operators == flows["async_npu f"]
        assert (events.category == "python_function").sum() == figures["python_functions"]
        (step,) = step_times(traces).query("rank == @rank").itertuples()
        assert [f"ProfilerStep#{step.step}"] == list(figures["steps"])
        assert [step.dur_ns] == [dur_ns for _, dur_ns in figures["steps"].values()]


def test_the_late_rank_of_an_ascend_job():
    frame = collectives(load(TRACES / "ascend/text_level1"))
    first = frame.query("collective == 0").set_index("rank")
    assert first.last_rank.tolist() == [1, 1]
    assert first.wait_ns[0] == pytest.approx(5_600_000, abs=50_000)
    assert frame.attrs["matched"]["unmatched"] == 0
    assert stragglers(load(TRACES / "ascend/text_level1")).imposed_wait_ns.idxmax() == 1


@pytest.mark.parametrize("name", ["mi350x_results.json.gz", "rank0_results.db", "rank1_results.db"])
def test_devices_of_rocm(name):
    golden = json.loads((GOLDEN / "rocm_samples.json").read_text())[name]
    is_database = name.endswith(".db")
    figures = golden if is_database else next(iter(golden[0]["devices"].values()))
    traces = load(TRACES / "rocm" / name)
    (trace,) = traces.values()
    work = trace.events.query("category == 'kernel'")
    row = temporal_breakdown(traces).iloc[0]
    assert len(work) == figures["kernels"]
    for kind in ("busy", "communication", "compute", "exposed_communication"):
        assert row[f"{kind}_ns"] == figures[f"{kind}_ns"]
    assert row.memory_ns == figures["memory_kernels_ns"]
    if is_database:
        assert (trace.launch_of[work.index] >= 0).sum() == figures["linked_by_stack_id"]
        assert dict(work.stream.astype(str).value_counts()) == figures["streams"]
    else:
        assert work.stream.nunique() == figures["streams"]
        assert trace.zero_ns == figures["first_ns"]
