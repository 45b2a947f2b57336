"""Analyses without suitable data return an empty frame of the usual columns and a reason."""

from inspect import signature

import numpy as np
import pytest
from support import recorded
from support.flight_dumps import write_hang
from support.memory_snapshots import write_snapshot
from support.small import event, load

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.analysis.frames import stack_blocks
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.panels.frames import panels

pytestmark = pytest.mark.slow

WORK = "no device work is selected: no kernels and no copies"
STREAMS = "no device work is selected: no stream has kernels or copies"
LAUNCHED = "the files do not contain the launches of the selected device work"
COMMUNICATION = "no communication kernels matched"
COPIES = "no copies or fills are selected"
MPI = "no MPI profiles or time lines are loaded or selected"
STEPS = "no ProfilerStep is in the trace: call the profiler's step() once per iteration"
ALONE = "a single rank cannot keep others waiting: load several ranks"
COUNTERS = "no events of category cuda_profiler_range: set profiler_metrics in the profiler's"
WORKERS = "no BytePS worker traces (comm.json) are loaded"
SERVERS = "no BytePS server profiles (server_profile.json) are loaded"
DUMPS = "no flight recorder dumps are loaded"
SNAPSHOTS = "no device memory snapshots are loaded or selected"
NOTES = {
    "temporal_breakdown": WORK,
    "kernel_type_breakdown": "no kernels matched compute, communication, memory",
    "idle_time_breakdown": STREAMS,
    "idle_interval_stats": STREAMS,
    "device_idle_breakdown": WORK,
    "device_idle_gaps": WORK,
    "kernel_breakdown": WORK,
    "kernel_duration_by_rank": WORK,
    "launch_stats": LAUNCHED,
    "launch_outliers": LAUNCHED,
    "queue_length": LAUNCHED,
    "queue_length_summary": LAUNCHED,
    "time_blocked_on_full_queue": LAUNCHED,
    "operator_kernels": "no device work was launched by any operator",
    "operator_launch_delays": "no kernel was launched by an operator named aten::…",
    "communication_by_group": COMMUNICATION,
    "communication_by_stream": COMMUNICATION,
    "kernels_by_annotation": "no device events",
    "user_annotation_breakdown": "no ranges on the device",
    "collectives": "no communication on a device is selected",
    "stragglers_by_step": ALONE,
    "horovod_readiness": "no negotiations of Horovod: phases NEGOTIATE_… with an event for each"
    " rank, in files of HOROVOD_TIMELINE",
    "parallel_groups": "neither headers nor communication kernels name process groups",
    "step_times": STEPS,
    "phase_times": STEPS,
    "modules": "no module, annotation or repeated layer: record stacks with with_stack=True, or"
    " name layers with torch.profiler.record_function",
    "all_to_all_matrix": "no all-to-all collectives",
    "traffic": "no communication",
    **dict.fromkeys(
        ("pipeline_bubbles", "pipeline_passes"),
        "no process group is a pipeline: parallel_groups lists them",
    ),
    "graph_replays": "no graph was launched",
    "kernel_details": "no kernels matched compute",
    "fusion_candidates": "no operator has the shapes of its inputs: record them with"
    " record_shapes=True",
    "serving_steps": "no steps of an inference engine: annotations such as execute_context_… of"
    " vLLM or step[…] of SGLang",
    "memory_events": "no [memory] events: record with profile_memory=True",
    "cupti_counters": f"{COUNTERS} experimental_config to record counters",
    "memory_bandwidth": COPIES,
    "memory_bandwidth_summary": COPIES,
    **{name: WORKERS for name in analysis.__all__ if name.startswith("byteps_")},
    **dict.fromkeys(
        ("byteps_arrivals", "byteps_requests", "byteps_servers", "byteps_worker_lag"), SERVERS
    ),
    **{name: DUMPS for name in analysis.__all__ if name.startswith("collective_")},
    **{name: SNAPSHOTS for name in analysis.__all__ if name.startswith("snapshot_")},
    **{name: MPI for name in analysis.__all__ if name.startswith("mpi_")},
}


#: Arguments of analyses that need more than traces.
ARGUMENTS = {
    "byteps_bandwidth": {"sizes": {0: 4096, 1: 100}},
    "frequent_kernel_sequences": {"operator_name": "aten::mm"},
}
#: Functions that do not take traces or do not return a table.
OTHERS = {
    *("critical_path", "critical_path_summary", "job_path_summary", "memory_timeline"),
    *("path_selection", "with_counters", "with_critical_path"),
}
#: Panel columns that exist only for jobs with known work.
RATES = {"gb_per_s", "bound", "tflop_per_s", "roofline_share"}


def types(frame):
    return frame.dtypes.astype(str).to_dict()


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    return load(tmp_path_factory.mktemp("host"), [event("cpu_op", "aten::mm", 1, 2)])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """One job per format."""
    folder = tmp_path_factory.mktemp("jobs")
    write_byteps_job(folder / "byteps")
    write_mpi_job(folder / "mpi", traces=False)
    write_hang(folder / "hang")
    write_snapshot(folder / "memory" / "a.pickle")
    paths = {
        "byteps": folder / "byteps",
        "mpi": folder / "mpi",
        "collective_": folder / "hang",
        "snapshot": folder / "memory",
        "": recorded.DATA / "gpu",
    }
    return {name: hw.load(path, cache=False, progress=False) for name, path in paths.items()}


@pytest.mark.parametrize("name", NOTES)
def test_an_empty_frame_and_its_reason(nothing, jobs, name):
    job = jobs[next(prefix for prefix in jobs if name.startswith(prefix))]
    function = getattr(analysis, name)
    more = ({0: 4096, 1: 100},) if name == "byteps_bandwidth" else ()

    def call(traces, **scope):
        return function(traces, *((traces,) if name == "mpi_compare" else more), **scope)

    frame, full = call(nothing), call(job)
    assert frame.empty
    assert frame.attrs["note"] == NOTES[name]
    matched = {count for what, count in frame.attrs["matched"].items() if what != "operators"}
    assert matched == {0}
    for empty in (frame, call(hw.TraceSet([]))):
        assert types(empty) == types(full)
    if "ranks" in signature(function).parameters:
        assert call(job, ranks=[]).empty


def same_types(frames):
    """Return the columns of the widest frame; all frames have the same dtypes."""
    columns = types(max(frames, key=lambda frame: (len(frame) > 0, len(frame.columns))))
    for frame in frames:
        assert types(frame) == {name: columns[name] for name in frame}
        assert set(columns) - set(frame) <= RATES
    return columns


@pytest.mark.parametrize("name", sorted({*analysis.__all__} - OTHERS))
def test_a_table_has_the_same_types_with_and_without_rows(nothing, jobs, name):
    function = getattr(analysis, name)
    more = ARGUMENTS.get(name, {})

    def call(traces, **scope):
        sides = (traces, traces) if name in {"mpi_compare", "diff_ops"} else (traces,)
        return function(*sides, **more, **scope)

    frames = [call(traces) for traces in (*jobs.values(), nothing, hw.TraceSet([]))]
    scopes = {"ranks": [], "window": (0, 0), "selection": hw.Selection(query="name == 'none'")}
    accepted = scopes.keys() & signature(function).parameters.keys()
    frames += [call(jobs[""], **{key: scopes[key]}) for key in accepted]
    assert same_types(frames)


@pytest.fixture(scope="module")
def dashboards(nothing, jobs):
    return [hw.Dashboard(job) for job in (*jobs.values(), nothing, hw.TraceSet([]))]


@pytest.mark.parametrize("name", panels())
def test_a_panel_has_the_same_types_with_and_without_rows(dashboards, name):
    assert same_types([dashboard.panel_frame(name) for dashboard in dashboards])


def test_times_stay_exact_next_to_a_rank_without_rows():
    """NumPy turns an empty list into an array of floats."""
    time_ns = 1_700_000_000_000_000_001
    blocks = [{"time_ns": np.array([time_ns])}, {"time_ns": np.array([])}]
    assert stack_blocks(blocks, {"time_ns": "int64"})["time_ns"].tolist() == [time_ns]
