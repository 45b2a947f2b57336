"""MPI demo jobs: reproducible bytes, and documentation whose code runs on them."""

import json

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import cli
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.errors import TraceError


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    first = write_mpi_job(tmp_path / "a", ranks=5, steps=3, seed=4)
    second = write_mpi_job(tmp_path / "b", ranks=5, steps=3, seed=4)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert {**first, "truth_path": ""} == {**second, "truth_path": ""}
    assert json.loads((tmp_path / "a_truth.json").read_text()) == first
    write_mpi_job(tmp_path / "c", ranks=5, steps=3, seed=5)
    assert contents(tmp_path / "a") != contents(tmp_path / "c")


def test_earlier_files_of_the_job_are_deleted(tmp_path):
    more = {"steps": 2, "truth_path": tmp_path / "truth.json"}
    write_mpi_job(tmp_path, ranks=6, **more)
    write_mpi_job(tmp_path, ranks=2, traces=False, hosts=1, **more)
    remaining = ["mpi_profile.90001.0", "mpi_profile.90001.1", "truth.json"]
    assert sorted(contents(tmp_path)) == remaining


def test_default_files_are_those_of_mpitrace(tmp_path):
    truth = write_mpi_job(tmp_path / "job", ranks=9, steps=4, files="default", traces=False)
    comm = np.array(truth["comm_s"])
    order = np.argsort(comm)
    chosen = sorted({0, int(order[0]), int(order[4]), int(order[-1])})
    assert truth["files"] == [f"mpi_profile.90001.{rank}" for rank in chosen]
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    roles = {trace.profile.rank: trace.profile.roles for trace in traces.values()}
    assert roles[int(order[0])] == ("minimum",)
    assert "median" in roles[int(order[4])]


def test_many_ranks_come_with_a_histogram(tmp_path):
    write_mpi_job(tmp_path / "job", ranks=40, steps=1, files="default", traces=False)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert traces.problems.empty
    histogram = traces[0].profile.histogram
    assert len(histogram) == 15
    assert histogram.ranks.sum() == 40


@pytest.mark.parametrize(
    "wrong", [{"ranks": 0}, {"steps": 0}, {"hosts": 9}, {"factor": 0}, {"files": "some"}]
)
def test_impossible_jobs_are_refused(tmp_path, wrong):
    with pytest.raises(TraceError, match=r"do not fit a job of|takes"):
        write_mpi_job(tmp_path / "job", **{"ranks": 4, **wrong})


def test_the_command_line_writes_one(tmp_path, capsys):
    folder = tmp_path / "job"
    arguments = ["demo", str(folder), "--format", "mpi", "--ranks", "3", "--straggler", "1"]
    assert cli.main(arguments) == 0
    assert "3 ranks" in capsys.readouterr().out
    assert (folder / "90001.trc").exists()
