"""Recording with a stand-in for PyTorch's profiler: file names, windows, magics."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from support import small

import hta_widgets as hw
from hta_widgets.errors import TraceError


class Profile:
    """Records the steps of a test; has the methods of ``torch.profiler.profile``."""

    def __init__(self, *, schedule=None, on_trace_ready=None, **options):
        self.schedule, self.on_trace_ready, self.options = schedule, on_trace_ready, options
        self.exported = False
        self.step_num, self.events = 0, [small.event("cpu_op", "aten::mm", 0, 10)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def step(self):
        self.step_num += 1
        if self.schedule and self.step_num == self.schedule["warmup"] + self.schedule["active"]:
            self.on_trace_ready(self)

    def export_chrome_trace(self, path):
        assert not self.exported, "PyTorch exports a trace once"
        self.exported = True
        Path(path).write_text(json.dumps({"traceEvents": self.events}), "utf-8")


Profile.__module__ = "torch.profiler"


@pytest.fixture
def torch(monkeypatch):
    """Make `import torch.profiler` return the stand-in."""
    profiler = ModuleType("torch.profiler")
    profiler.profile, profiler.schedule = Profile, dict
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    return profiler


@pytest.mark.parametrize(
    ("environment", "initialized", "expected"),
    [
        ({}, None, "0-of-1"),
        ({"RANK": "3", "WORLD_SIZE": "8"}, None, "3-of-8"),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, None, "5-of-6"),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (1, 2), "1-of-2"),
    ],
)
def test_files_have_rank_world_and_step_in_their_name(
    torch, tmp_path, monkeypatch, environment, initialized, expected
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if initialized:
        distributed = SimpleNamespace(
            is_available=lambda: True, is_initialized=lambda: True,
            get_rank=lambda: initialized[0], get_world_size=lambda: initialized[1],
        )  # fmt: skip
        monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    profiler = Profile()
    profiler.step_num = 5
    hw.trace_handler(tmp_path / "new" / "job", name="node 7")(profiler)
    (file,) = (tmp_path / "new" / "job").iterdir()
    assert file.name == f"node-7_rank-{expected}_step-5.pt.trace.json.gz"
    traces = hw.load(file.parent, progress=False)
    assert traces.ranks == [int(expected.split("-")[0])]
    assert not traces.problem_list  # the name contains the rank, so it is not guessed


def test_plain_files_and_failures_leave_nothing_behind(torch, tmp_path):
    hw.trace_handler(tmp_path, compress=False, name="x")(Profile())
    assert [file.name for file in tmp_path.iterdir()] == ["x_rank-0-of-1_step-0.pt.trace.json"]

    class Failing(Profile):
        def export_chrome_trace(self, path):
            super().export_chrome_trace(path)
            raise RuntimeError("no trace")

    with pytest.raises(RuntimeError, match="no trace"):
        hw.trace_handler(tmp_path, name="y")(Failing())
    assert len([*tmp_path.iterdir()]) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot be written"):
        hw.trace_handler(tmp_path / "file" / "folder")(Profile())


def test_record_calls_a_step_and_loads_the_trace(torch, tmp_path):
    calls = []
    for folder in (None, tmp_path):
        traces = hw.record(lambda: calls.append(1), steps=3, warmup=2, dir=folder)
        assert traces[0].events["name"].tolist() == ["aten::mm"]
    assert len(calls) == 10
    assert len([*tmp_path.iterdir()]) == 1


def test_recording_without_torch_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    with pytest.raises(TraceError, match="pip install torch"):
        hw.record(lambda: None)


def test_the_magic_profiles_a_cell_and_shows_its_timeline(torch):
    magics, names = {}, {}
    shell = SimpleNamespace(
        register_magic_function=lambda function, kind, name: magics.update(
            {(kind, name): function}
        ),
        run_cell=lambda cell: SimpleNamespace(success=cell != "1 / 0"),
        push=names.update,
    )
    hw.load_ipython_extension(shell)
    trace = magics["cell", "trace"]
    assert isinstance(trace("mine", "pass"), hw.Timeline)
    assert names["mine"].ranks == [0]
    with pytest.raises(Exception) as failed:  # noqa: PT011 - a run of all cells ends
        trace("", "1 / 0")
    assert failed.value._render_traceback_() == []  # IPython has already shown it
    with pytest.raises(TraceError, match="variable's name"):
        trace("a b", "pass")
