"""A real cluster of two processes: the same frames as locally, and a worker that is killed."""

import importlib
import inspect
import logging
import pickle

import pandas as pd
import pytest
from support import mortal
from support.examples import only_in_all
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets import analysis, taxonomy
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import rank_parts
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.live.job import PanelEngine, TileEngine

module = importlib.import_module("hta_widgets.readers.load")  # not the function `load`

pytestmark = pytest.mark.slow

RANKS = 5


@pytest.fixture(scope="module")
def flag(tmp_path_factory):
    return tmp_path_factory.mktemp("flag") / "died"


@pytest.fixture(scope="module")
def distributed():
    return pytest.importorskip("distributed", reason="Dask is not installed")


@pytest.fixture(scope="module")
def client(distributed, flag):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(mortal.FLAG, str(flag))
        options = {"n_workers": 2, "threads_per_worker": 1, "silence_logs": logging.CRITICAL}
        local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        with (
            distributed.LocalCluster(**options, **local) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    write_demo(folder / "job", ranks=RANKS, steps=2, seed=2)
    return folder / "job"


@pytest.fixture(scope="module")
def here(job):
    return hw.load(job, cache=False, progress=False)


@pytest.fixture(scope="module")
def there(client, job):
    return hw.load(job, executor=client.get_executor(), progress=False)


def one_of_two_was_replaced(client, before):
    client.wait_for_workers(2, timeout=30)
    return len(before & pids(client)) == 1


def pids(client):
    return set(client.run(mortal.os.getpid).values())


def test_only_names_of_files_come_back(here, there):
    assert all(trace.in_file for trace in there.values())
    assert max(len(pickle.dumps(trace)) for trace in there.values()) < 8_000
    assert_same(here, there)


# --- analyses -------------------------------------------------------------------------------------

ARGUMENTS = {
    "byteps_bandwidth": {"sizes": {0: 4096, 1: 100}},
    "critical_path": {"rank": 1},
    "frequent_kernel_sequences": {"operator_name": "aten::mm"},
}
#: Functions that work on frames, files or two sets, or return a set.
OTHERS = {
    "critical_path_summary", "diff_ops", "job_path_summary", "memory_timeline", "mpi_compare",
    "path_selection", "with_counters", "with_critical_path",
}  # fmt: skip
NAMES = {
    "kineto": [name for name in analysis.__all__ if not name.startswith(("byteps_", "mpi_"))],
    "fitted": ["collectives", "exposed_waits", "rank_time_heatmap", "step_times", "stragglers"],
    "byteps": [name for name in analysis.__all__ if name.startswith("byteps_")],
    "mpi": [name for name in analysis.__all__ if name.startswith("mpi_")],
}


#: Functions of one rank or one trace file, which run in the notebook.
NOT_SENT = {"critical_path", "cupti_counters", "memory_events"}


@pytest.fixture(scope="module")
def sets(client, here, there, tmp_path_factory):
    """Local and remote sets: of PyTorch, on both clocks, and of the formats that have analyses."""
    result = {
        "kineto": (here, there),
        "fitted": (here.with_clock("fitted"), there.with_clock("fitted")),
    }
    folder = tmp_path_factory.mktemp("others")
    for name, write in (("byteps", write_byteps_job), ("mpi", write_mpi_job)):
        write(folder / name, truth_path=folder / f"{name}.truth")
        executor = client.get_executor()
        result[name] = (
            hw.load(folder / name, cache=False, progress=False),
            hw.load(folder / name, executor=executor, progress=False),
        )
    return result


@only_in_all
@pytest.mark.parametrize("kind", list(NAMES))
def test_every_analysis_gives_the_same_frame(sets, kind, monkeypatch):
    here, present = sets[kind]
    calls = []
    submit = type(present.executor).submit
    monkeypatch.setattr(
        type(present.executor), "submit", lambda *a, **k: calls.append(a) or submit(*a, **k)
    )
    window = (here.start_ns + 1_000, (here.start_ns + here.end_ns) // 2)
    for name in set(NAMES[kind]) - OTHERS:
        calls.clear()
        present.memo.clear()
        function, more = getattr(analysis, name), ARGUMENTS.get(name, {})
        windows = [{}, {"window": window}]
        if "window" not in inspect.signature(function).parameters:
            windows.pop()
        for where in windows:
            first, other = function(here, **more, **where), function(present, **more, **where)
            pd.testing.assert_frame_equal(other, first, check_exact=True, obj=name)
            assert repr(other.attrs) == repr(first.attrs), name
        assert calls or kind in {"byteps", "mpi"} or name in NOT_SENT, name


def test_selections_and_rules_go_along(here, there):
    taxonomy.add("communication", "gemm")
    try:
        for where in ({"selection": "dur_ns > 3000"}, {"ranks": [1, 4]}, {}):
            single = analysis.temporal_breakdown(here, **where)
            other = analysis.temporal_breakdown(there, **where)
            pd.testing.assert_frame_equal(other, single, check_exact=True)
        with_rule = single
    finally:
        taxonomy.reset()
    other = analysis.temporal_breakdown(there)
    pd.testing.assert_frame_equal(other, analysis.temporal_breakdown(here), check_exact=True)
    assert other["compute_ns"].sum() > with_rule["compute_ns"].sum()


def test_pages_of_it_are_the_same_and_do_not_wait_for_the_cluster(here, there, monkeypatch):
    monkeypatch.setattr(type(there.executor), "submit", None)
    first, other = TileEngine(here), TileEngine(there)
    assert other.scene() == first.scene()
    lanes = [row["lane"] for row in first.scene()["ranks"][3]["summary"]]
    request = {"op": "tiles", "level": 16, "parts": [{"lanes": lanes, "first": 0, "last": 8}]}
    assert other.answer(request) == first.answer(request)
    for panel in ("breakdown", "kernels", "steps"):
        pd.testing.assert_frame_equal(
            PanelEngine(there).frame(panel), PanelEngine(here).frame(panel)
        )


def test_a_set_knows_where_it_works_but_does_not_take_it_along(there):
    assert there.subset(ranks=[1]).executor is there.executor
    assert there.with_clock("fitted").executor is there.executor
    assert pickle.loads(pickle.dumps(there)).executor is None
    assert there.on(None).executor is None
    assert there.executor is not None


# --- what goes wrong ------------------------------------------------------------------------------


def test_an_error_there_says_as_much_as_here(client, job, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [7]}')
    with pytest.raises(hw.TraceError) as here:
        hw.load([job / "rank-0.trace.json.gz", bad], progress=False)
    with pytest.raises(hw.TraceError) as present:
        hw.load([job / "rank-0.trace.json.gz", bad], executor=client.get_executor(), progress=False)
    facts = [
        (e.value.message, e.value.path, e.value.place, e.value.remedy) for e in (here, present)
    ]
    assert facts[0] == facts[1]
    assert str(present.value) == str(here.value)


def test_a_worker_that_is_killed_while_it_reads(client, job, here, flag, monkeypatch):
    flag.unlink(missing_ok=True)
    monkeypatch.setattr(module, "read_trace", mortal.read_or_die)
    before = pids(client)
    present = hw.load(job, executor=client.get_executor(), cache=False, progress=False)
    assert flag.exists()
    assert all(trace.in_file for trace in present.values())
    pd.testing.assert_frame_equal(present.events(), here.events(), check_exact=True)
    assert one_of_two_was_replaced(client, before)


def test_a_worker_that_is_killed_while_it_analyses(client, there, flag):
    flag.unlink(missing_ok=True)
    before = pids(client)
    result = list(map_ranks(rank_parts(there), mortal.events_or_die, "note"))
    assert flag.exists()
    assert result == [(rank, len(trace), "note") for rank, trace in there.items()]
    assert one_of_two_was_replaced(client, before)


def test_work_that_kills_its_workers_is_an_error(client, there, monkeypatch):
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(hw.TraceError, match=r"ended unexpectedly\. Was it out of memory\?"):
        list(map_ranks(there.subset(ranks=[0]), mortal.die_always))
    client.wait_for_workers(2, timeout=30)


def test_once_the_client_is_closed_analyses_work_here(distributed, client, job, here):
    with distributed.Client(client.cluster, set_as_default=False) as other:
        executor = other.get_executor()
        traces = hw.load(job, executor=executor, progress=False)
    frame = analysis.temporal_breakdown(traces)
    pd.testing.assert_frame_equal(frame, analysis.temporal_breakdown(here))
    with pytest.raises(hw.TraceError, match=r"shut down.* Start another"):
        hw.load(job, executor=executor, cache=False, progress=False)
