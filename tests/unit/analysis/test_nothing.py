"""Analyses of traces that hold nothing for them: an empty frame of the usual columns, and why."""

import pytest
from support import recorded
from support.small import event, load

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job

DEVICE = "no device work is selected"
LAUNCH = "launch"
MPI = "no MPI profiles or time lines are loaded or selected"
REASONS = {
    "temporal_breakdown": DEVICE,
    "kernel_type_breakdown": "no kernels matched",
    "idle_time_breakdown": DEVICE,
    "idle_interval_stats": DEVICE,
    "device_idle_breakdown": DEVICE,
    "device_idle_gaps": DEVICE,
    "kernel_breakdown": "no device work is selected: no kernels and no copies",
    "kernel_duration_by_rank": "no device work is selected: no kernels and no copies",
    "launch_stats": LAUNCH,
    "launch_outliers": LAUNCH,
    "queue_length": LAUNCH,
    "queue_length_summary": LAUNCH,
    "time_blocked_on_full_queue": LAUNCH,
    "operator_kernels": "no ",
    "operator_launch_delays": "no ",
    "communication_by_group": "no communication kernels matched",
    "communication_by_stream": "no communication kernels matched",
    "kernels_by_annotation": "no device events",
    "memory_bandwidth": "no copies or fills are selected",
    "memory_bandwidth_summary": "no copies or fills are selected",
    **{name: "BytePS" for name in analysis.__all__ if name.startswith("byteps_")},
    **{name: MPI for name in analysis.__all__ if name.startswith("mpi_")},
}


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    return load(tmp_path_factory.mktemp("host"), [event("cpu_op", "aten::mm", 1, 2)])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A job of each format."""
    folder = tmp_path_factory.mktemp("jobs")
    write_byteps_job(folder / "byteps")
    write_mpi_job(folder / "mpi", traces=False)
    paths = {"byteps": folder / "byteps", "mpi": folder / "mpi", "": recorded.DATA / "gpu"}
    return {name: hw.load(path, cache=False, progress=False) for name, path in paths.items()}


@pytest.mark.parametrize("name", REASONS)
def test_an_empty_frame_and_a_reason(nothing, jobs, name):
    job = jobs[next(prefix for prefix in jobs if name.startswith(prefix))]
    more = ({0: 4096, 1: 100},) if name == "byteps_bandwidth" else ()

    def call(traces):
        return getattr(analysis, name)(traces, *((traces,) if name == "mpi_compare" else more))

    frame, full = call(nothing), call(job)
    assert frame.empty
    assert REASONS[name] in frame.attrs["note"]
    matched = {count for what, count in frame.attrs["matched"].items() if what != "operators"}
    assert matched == {0}
    assert frame.columns.tolist() == full.columns.tolist()
    plain = [column for column in full if str(full[column].dtype) != "category"]
    if len(full):
        assert frame[plain].dtypes.equals(full[plain].dtypes)
