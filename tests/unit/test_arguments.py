"""Public calls with arbitrary arguments succeed or raise a `TraceError`."""

import inspect
import math
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support import chart_frames
from support.small import ORIGIN, call, copy, event, kernel, nccl, read, write

import hta_widgets as hw
from hta_widgets import analysis, cache, charts, compat, demo, diff, taxonomy
from hta_widgets.demo import write_byteps_job, write_mpi_job

pytestmark = pytest.mark.slow

NASTY = [
    *(None, True, -1, 0, 10**12, 2**63, 10**400, 0.5, -1e308, math.nan, math.inf),
    *("a", "", "\0", "(", b"a", Path("a"), [], {}, (1,), ("a", "b"), [[]], [None], [2**70]),
    *([math.nan], {"a": "b"}, {1}, object(), int, pd.DataFrame(), pd.Series([None])),
]
FACES = (analysis, charts, diff, taxonomy, cache, demo)
VIEWS = (hw.Timeline, hw.Dashboard, hw.TraceDiff)
CLASSES = (hw.TraceSet, hw.Trace, hw.Selection, compat.TraceAnalysis, *VIEWS)
#: Calls for stores and formats, and calls that would end the views shared by all tests.
INTERNAL = {
    "TraceSet.restore",
    "Trace.replace",
    "Trace.release",
    "Timeline.close",
    "Dashboard.close",
    "TraceDiff.close",
}
if find_spec("duckdb") is None:
    INTERNAL.add("TraceSet.sql")
#: Exceptions raised by the caller's functions are passed on.
CALLBACKS = {
    ("load", "progress"),
    ("diff.add_table", "table"),
    ("TraceAnalysis.get_potential_stragglers", "straggler_identification_impl"),
}


def _public():
    for face in FACES:
        for name in dir(face):
            if callable(single := getattr(face, name)) and not inspect.isclass(single):
                yield f"{face.__name__.rpartition('.')[2]}.{name}"
    yield from ("load", "export_trace", "TraceSet", "Selection", "Timeline", "Dashboard")
    yield from ("TraceDiff", "TraceAnalysis", "MemoryAnalysis")
    for kind in CLASSES:
        own = [single for single in kind.__mro__ if single.__module__.startswith("hta_widgets")]
        for name in sorted({name for single in own for name in vars(single) if name[0] != "_"}):
            is_call = isinstance(inspect.getattr_static(kind, name), (FunctionType, classmethod))
            if is_call and f"{kind.__name__}.{name}" not in INTERNAL:
                yield f"{kind.__name__}.{name}"


def _rank(late):
    return [
        *(ORIGIN, event("user_annotation", "ProfilerStep#1", 0, 900, pid=10)),
        *(event("cpu_op", "aten::mm", 10, 200, pid=10), call(20, 40, 1), kernel(60, 200, launch=1)),
        *(call(50, 60, 2), kernel(210, 300, launch=2, name="add")),
        *(call(100, 120, 3, name="cudaMemcpyAsync"), copy(310, 350, launch=3, bytes=100)),
        nccl(400 + late, 500, **{"Process Group Name": "0", "In msg nelems": 8, "dtype": "Float"}),
        *(event("user_annotation", "ProfilerStep#2", 900, 1800, pid=10), call(920, 940, 4)),
        kernel(960, 1200, launch=4),
    ]


@pytest.fixture(scope="module")
def given(tmp_path_factory, built):
    """Inputs of calls: a small job of each format, and everything derived from it."""
    folder = tmp_path_factory.mktemp("jobs")
    for name in ("kineto", "byteps", "mpi"):
        (folder / name).mkdir()
    write(folder / "kineto", _rank(0), _rank(20))
    (folder / "memory.json").write_text("[[-1, 1, 1000, 0], [1700000000000000000, 2, 64, 2]]")
    write_byteps_job(folder / "byteps", steps=1, gradients=2)
    write_mpi_job(folder / "mpi", ranks=2, steps=1)
    traces, byteps, mpi = (read(folder / name) for name in ("kineto", "byteps", "mpi"))
    return SimpleNamespace(
        folder=folder,
        jobs={"byteps": byteps, "mpi": mpi},
        traces=traces,
        both=diff.compare(traces, traces),
        owners={
            "TraceSet": traces,
            "Trace": traces[0],
            "Selection": traces.select(ranks=[0]),
            "TraceAnalysis": compat.TraceAnalysis(trace_dir=str(folder / "kineto")),
            **{view.__name__: view(traces, *[traces] * (view is hw.TraceDiff)) for view in VIEWS},
        },
    )


def _parameters(function):
    every = inspect.signature(function).parameters.values()
    return [item for item in every if item.name[0] != "_" and item.kind is not item.VAR_KEYWORD]


def _is_tried(name, parameter):
    """All charts have these parameters from the same decorator, and drawing is slow."""
    is_shared = name.startswith("charts.") and parameter in {"width", "theme", "title"}
    return not is_shared or name in {"charts.operators", "charts.stragglers", "charts.to_html"}


def _frame(name, given):
    traces, both = given.traces, given.both
    job = given.jobs.get(name.partition("_")[0], traces)
    others = {
        "arrivals": lambda: analysis.collectives(traces),
        "critical_path": lambda: analysis.critical_path(traces, 0),
        "critical_path_summary": lambda: analysis.critical_path(traces, 0),
        "job_path_summary": lambda: analysis.job_path_summary(analysis.job_critical_path(traces)),
        "path_selection": lambda: analysis.critical_path(traces, 0),
        "diff_ops": lambda: analysis.diff_ops(traces, traces),
        "frequent_kernel_sequences": chart_frames.sequences,
        "memory_timeline": chart_frames.memory,
        "mpi_compare": lambda: analysis.mpi_compare(job, job),
        "step_phases": lambda: analysis.phase_times(traces),
    }
    if name in others:
        return others[name]()
    if name.startswith("diff_"):
        return getattr(diff, name.removeprefix("diff_"))(both)
    return getattr(analysis, name)(job)


def _arguments(name, function, given, folder):
    """Return arguments with which a call succeeds."""
    own = name.rpartition(".")[2]
    job = given.jobs.get(own.partition("_")[0], given.traces)
    by_name = {
        **dict.fromkeys(("traces", "before", "after"), lambda: [] if name == "TraceSet" else job),
        "source": lambda: given.folder / "kineto",
        "output_dir": lambda: str(folder),
        "critical_path_graph": lambda: given.owners["TraceAnalysis"].critical_path_analysis(
            0, "ProfilerStep", 0
        )[0],
        "path": lambda: folder / ("a.csv" if own == "export_table" else "a.json"),
        "problems": lambda: None,
        "directory": lambda: folder / "demo",
        "folder": lambda: folder / "events",
        "query": lambda: "select count(*) from ranks",
        "diff": lambda: given.both,
        "frame": lambda: _frame(own, given),
        "chart": lambda: charts.operators(analysis.operators(given.traces)),
        "table": lambda: lambda _: None,
        "trace": lambda: given.traces[0],
        "rows": lambda: np.arange(1),
        "other": lambda: hw.Timeline(given.traces),
        "start_ns": lambda: 0,
        "end_ns": lambda: 1000,
    }
    plain = {
        "rank": 0, "operator_name": "aten::mm", "sizes": {0: 4}, "panel": "kernels",
        "name": "kernels", "id": 0, "kind": "compute", "pattern": "x", "category": "kernel",
        "annotation": "ProfilerStep", "instance_id": 0, "queue_length_dict": {},
        "clock": "host", "executor": None, "what": None, "value": {}, "request": {"op": "totals"},
    }  # fmt: skip
    small = dict.fromkeys(("ranks", "steps", "workers", "gradients", "local_ranks"), 1)
    small |= {"hosts": 1, "events_per_step": 100}
    arguments = {}
    for item in _parameters(function):
        if item.default is item.empty and item.kind is not item.VAR_POSITIONAL:
            arguments[item.name] = (
                by_name[item.name]() if item.name in by_name else plain[item.name]
            )
        elif name.startswith("demo.") and item.name in small:
            arguments[item.name] = small[item.name]
    own_arguments = {
        "TraceSet.event": {"rank": 0},
        "TraceAnalysis": {"trace_dir": str(given.folder / "kineto")},
        "TraceDiff.answer": {"request": {"op": "classes"}},
        "analysis.memory_timeline": {"path": given.folder / "memory.json"},
    }
    return arguments | own_arguments.get(name, {})


@pytest.mark.parametrize("name", list(_public()))
@pytest.mark.filterwarnings("ignore")
def test_arguments_of_any_type_and_value(name, given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("hta_widgets.diff.tables"), "_ADDED_TABLES", {})
    where, _, own = name.rpartition(".")
    owner = given.owners.get(where) or getattr(hw, where) if where else hw
    function = getattr(owner if hasattr(owner, own) else compat, own)
    arguments = _arguments(name, function, given, tmp_path)
    wrong = []
    try:
        if not any(item.kind is item.VAR_POSITIONAL for item in _parameters(function)):
            function(**arguments)
        for item in [item for item in _parameters(function) if _is_tried(name, item.name)]:
            for nasty in NASTY:
                if (name, item.name) in CALLBACKS and callable(nasty):
                    continue
                try:
                    if item.kind is item.VAR_POSITIONAL:
                        function(nasty)
                    else:
                        function(**{**arguments, item.name: nasty})
                except hw.TraceError:
                    pass
                except Exception as error:  # noqa: BLE001 - to be found
                    wrong.append(f"{item.name}={nasty!r:.30}: {type(error).__name__} {error!s:.90}")
    finally:
        taxonomy.reset()
    assert wrong == []


FIRST_USES = """
import sys, threading
from msgspec import defstruct
from hta_widgets.arguments import convert
sys.setswitchinterval(1e-6)
inner = [defstruct(f"Inner{i}", [("numbers", list[int] | None, None)]) for i in range(40)]
kinds = [defstruct("Outer", [("a", one), ("b", list[one])]) for one in inner]
start = threading.Barrier(8)
def use():
    start.wait()
    for kind in kinds:
        convert({"a": {"numbers": [1]}, "b": []}, kind)
threads = [threading.Thread(target=use) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
"""


def test_types_may_be_used_first_in_several_threads():
    subprocess.run([sys.executable, "-c", FIRST_USES], check=True)


@pytest.mark.parametrize(
    "use",
    [
        lambda traces, text: hw.load(traces[0].path, steps=text, cache=False),
        lambda traces, text: hw.Timeline(traces, tracks=text),
        lambda _, text: hw.devices.add("X", pattern=text, bf16=1),
        lambda _, text: taxonomy.add("compute", text),
        lambda _, text: taxonomy.add("compute", "gemm", category=text),
        lambda traces, text: analysis.critical_path(traces, 0, data_load_events=["a", text]),
    ],
)
@pytest.mark.parametrize("text", ["(", r"(g)\1", "a(?!b)"])
def test_regular_expressions_are_those_of_an_engine_that_does_not_backtrack(tmp_path, use, text):
    traces = read(write(tmp_path, [call(0, 9), kernel(1, 2)]))
    with pytest.raises(hw.TraceError, match=r"is not a regular expression \(.*Use RE2 syntax"):
        use(traces, text)
