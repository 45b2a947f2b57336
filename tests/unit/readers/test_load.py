"""`load`: executors, progress, what is kept of a file, and profilers still in memory."""

import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from functools import partial
from pathlib import Path

import pytest
from support import mortal
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets import files
from hta_widgets.formats.kineto import reader as kineto
from hta_widgets.readers import (
    cache,
    file_traces,
    parallel as memory,
    progress as bar,
)
from hta_widgets.store.ranks import StoredTrace
from hta_widgets.workers import WorkerPool

from .conftest import event

pytestmark = pytest.mark.slow

module = importlib.import_module("hta_widgets.readers.load")  # not the function `load`


@pytest.fixture
def job(write, tmp_path):
    for rank in range(3):
        records = [event(f"op {i % 5}", i * 2.5 + rank) for i in range(500)]
        write(records, f"rank-{rank}.json.gz", distributedInfo={"rank": rank})
    write("notes", "notes.txt")
    return tmp_path


def wait_for(condition):
    while not condition():
        time.sleep(0.01)


@pytest.fixture
def pools(monkeypatch):
    """The pools that `load` creates on two cores, with their tasks."""
    result = []

    class Pool(WorkerPool):
        def __init__(self, workers):
            super().__init__(workers)
            self.tasks = []
            result.append(self)

        def submit_reporting(self, *args, **kwargs):
            self.tasks.append(super().submit_reporting(*args, **kwargs))
            return self.tasks[-1]

    monkeypatch.setattr(module, "WorkerPool", Pool)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    return result


def test_a_pool_is_used_where_it_pays(job, pools, monkeypatch):
    hw.load(job)
    assert not pools
    monkeypatch.setattr(module, "_PARALLEL_BYTES", 1000)
    assert hw.load(job).ranks == [0, 1, 2]
    hw.load(job, ranks=1)
    assert [len(pool.tasks) for pool in pools] == [3]


def test_errors_come_back_from_workers(job, write):
    bad = write('{"traceEvents": [7]}', "bad.json")
    with WorkerPool(1) as pool, pytest.raises(hw.TraceError, match="none of its 1 entries"):
        hw.load([job / "rank-0.json.gz", bad], executor=pool)


def test_a_worker_that_dies_twice_is_an_error_and_the_next_task_gets_a_new_one():
    with WorkerPool(1) as pool:
        with pytest.raises(hw.TraceError, match=r"ended unexpectedly.*memory"):
            pool.submit(os._exit, 3).result()
        assert pool.submit(len, "abc").result() == 3


def test_workers_that_are_killed_between_tasks_are_replaced():
    with WorkerPool(1) as pool:
        assert pool.submit(len, "abc").result() == 3
        for process in pool._workers:
            process.kill()
            process.wait()
        assert pool.submit(len, "abcd").result() == 4


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_load_survives_one_killed_worker_and_names_the_file_of_two(
    job, pools, monkeypatch, tmp_path_factory, deaths
):
    monkeypatch.setattr(module, "_PARALLEL_BYTES", 1000)
    monkeypatch.setattr(module, "read_trace", partial(mortal.read_or_die, deaths=deaths))
    monkeypatch.setenv(mortal.FLAG, str(tmp_path_factory.mktemp("flags") / "flag"))
    (job / "rank-2.json.gz").rename(job / "rank-3.json.gz")
    if deaths == 1:
        assert hw.load(job, cache=False).ranks == [0, 1, 2]
        return
    with pytest.raises(hw.TraceError, match=r"rank-3\.json\.gz: .*ended.*memory"):
        hw.load(job, cache=False)


def test_an_error_in_the_block_ends_workers_and_drops_tasks():
    pool = WorkerPool(2)
    tasks = [pool.submit(time.sleep, 60) for _ in range(3)]
    wait_for(lambda: len(pool._workers) == 2)
    processes = list(pool._workers)
    with pytest.raises(KeyboardInterrupt), pool:
        raise KeyboardInterrupt
    assert [process.returncode for process in processes] == [-signal.SIGKILL] * 2
    assert [task.cancelled() for task in tasks] == [False, False, True]
    assert all(isinstance(task.exception(), (OSError, EOFError)) for task in tasks[:2])


def test_an_interrupt_does_not_wait_for_the_pool(job, write, pools, monkeypatch, request):
    for rank in range(3, 24):
        write([event("op", rank)], f"rank-{rank}.json.gz", distributedInfo={"rank": rank})
    monkeypatch.setattr(module, "_PARALLEL_BYTES", 1000)
    # Shells ignore the signal in commands they start in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupted(done, of):
        if 0 < done < of:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        hw.load(job, progress=interrupted)
    [pool] = pools
    assert all(task.done() for task in pool.tasks)
    assert any(task.cancelled() for task in pool.tasks)
    assert not pool._workers
    assert not any(thread.is_alive() for thread in pool._threads)
    assert hw.load(job).ranks == list(range(24))


def test_a_worker_reports_while_it_works():
    values = []
    with WorkerPool(1) as pool:
        file = Path(__file__).parents[2] / "data/cpu_stacks.json.gz"
        task = pool.submit_reporting(values.append, module.read_trace, str(file), "kineto")
        assert task.result().error is None
    assert sum(values) == file.stat().st_size


@pytest.mark.parametrize("parallel_bytes", [1000, 10**9])
def test_progress_is_reported_in_bytes(job, monkeypatch, capfd, parallel_bytes):
    monkeypatch.setattr(module, "_cores", lambda: 2)
    monkeypatch.setattr(module, "_PARALLEL_BYTES", parallel_bytes)
    monkeypatch.setattr(bar, "_is_terminal", lambda _stream: True)
    monkeypatch.setattr(bar, "_BAR_DELAY_S", 0)
    of = sum(path.stat().st_size for path in job.iterdir() if path.suffix == ".gz")
    reports = []
    hw.load(job, progress=lambda *report: reports.append(report))
    assert {total for _, total in reports} == {of}
    done = [at for at, _ in reports]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, of)
    assert len(set(done)) >= 4  # once for each of three files
    assert capfd.readouterr() == ("", "")


def test_the_bar_of_a_notebook_is_emptied(job, monkeypatch):
    outputs = []

    class Handle:
        def update(self, output, raw):
            outputs.append(output)

    monkeypatch.setattr(
        "IPython.display.display", lambda output, **_: outputs.append(output) or Handle()
    )
    monkeypatch.setattr(bar, "in_notebook", lambda: True)
    monkeypatch.setattr(bar, "_BAR_DELAY_S", 0)
    monkeypatch.setattr(bar, "REPORT_EVERY_S", 0)
    hw.load(job)
    *bars, last = outputs
    assert len(bars) >= 3
    assert all("<progress" in output["text/html"] for output in bars)
    assert bars[0]["text/plain"].startswith("Loading 3 traces: ")
    assert last == {"text/html": "", "text/plain": ""}
    with pytest.raises(hw.TraceError):
        hw.load([job / "rank-0.json.gz", job / "none.json"])
    assert outputs[-1] == last


def test_what_tasks_print_does_not_disturb_the_answers():
    with WorkerPool(1) as pool:
        assert pool.submit(print, "hello").result() is None
        assert pool.submit(sum, [1, 2]).result() == 3
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()


def test_a_script_without_a_main_guard_loads_once(job, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        print("started")
        import hta_widgets as hw
        from importlib import import_module
        module = import_module("hta_widgets.readers.load")
        module._PARALLEL_BYTES = 1000
        module._cores = lambda: 2
        print(len(hw.load({str(job)!r})))
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "started\n3\n", done.stderr
    assert done.stderr == ""


def test_nothing_is_written_where_no_one_looks(job, capfd):
    hw.load(job, progress=True)
    assert capfd.readouterr() == ("", "")


def test_base_time_and_metadata(write):
    base = 1_700_000_000_000_000_001
    trace = hw.load(write([event("a", 1.5)], baseTimeNanoseconds=base, traceName="x"))[0]
    assert trace.zero_ns == base + 1500
    assert trace.metadata["traceName"] == "x"


def test_a_base_time_beyond_64_bits_is_left_out_and_told(write):
    traces = hw.load(write([event("a", 1.5)], baseTimeNanoseconds=2**63 - 1))
    assert traces[0].zero_ns == 1500
    assert "overflow" in set(traces.problems["kind"])


def test_all_phases_are_kept(write):
    at = {"pid": 1, "tid": 2}
    flow = {"id": 7, "name": "f", "cat": "f", **at}
    load = {"id": "0x1", "cat": "async", "name": "load", "pid": 1}
    records = [
        event("x", 10, 5),
        {"ph": "B", "name": "b", **at, "ts": 20, "args": {"in": 1}},
        {"ph": "E", "name": "b", **at, "ts": 25, "args": {"out": 2}},
        {"ph": "i", "name": "instant", **at, "ts": 11, "s": "g"},
        {"ph": "C", "name": "memory", "pid": 1, "ts": 12, "args": {"bytes": 5}},
        {"ph": "s", **flow, "ts": 11},
        {"ph": "f", **flow, "ts": 21, "bp": "e"},
        {"ph": "s", **flow, "id": "7", "ts": 11},
        {"ph": "b", **load, "ts": 13},
        {"ph": "e", **load, "ts": 19},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    ]
    trace = hw.load(write(records))[0]
    assert trace.events["name"].astype(str).tolist() == ["x", "b"]
    assert trace.args(1) == {"in": 1, "out": 2}
    assert trace.instants["name"].tolist() == ["instant"]
    assert trace.counters["value"].tolist() == [5.0]
    assert len(trace.flows) == 1
    assert trace.asyncs["dur_ns"].tolist() == [6000]
    assert trace.tracks[0].process == "python"


def test_where_flows_end_and_how_far_instants_reach(write):
    instant = {"ph": "i", "name": "i", "pid": 1, "tid": 2, "ts": 1}
    end = {"ph": "f", "id": 1, "name": "f", "cat": "c", "pid": 1, "tid": 2, "ts": 1}
    records = [
        {"name": "of no phase", "ts": 0},
        instant,
        {**instant, "s": "t"},
        {**instant, "s": "g"},
        {**end, "bp": "e"},
        end,
        {**instant, "s": "p", "ph": "I"},
        {**end, "pid": 1.5},
    ]
    columns = kineto.read_file(write(records)).columns
    assert columns.scope == {2: "g", 5: "p"}
    assert columns.ends_at_next.tolist() == [4, 6]
    assert columns.record.tolist() == [1, 2, 3, 4, 5, 6, 7]


# --- torch ----------------------------------------------------------------------------------------
@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed (`make interop` does it)")


def test_a_profiler_that_has_stopped(torch):
    with torch.profiler.profile(record_shapes=True) as profiler:
        torch.ones(8, 8) @ torch.ones(8, 8)
    traces = hw.load(profiler)
    trace = traces[traces.ranks[0]]
    events = trace.events
    assert "aten::matmul" in set(events["name"].astype(str))
    row = int(events.index[events["name"].astype(str) == "aten::matmul"][0])
    assert trace.args(row)["Input Dims"] == [[8, 8], [8, 8]]
    assert json.loads(trace.source.record(0))


def test_a_profiler_that_recorded_nothing(torch):
    profiler = torch.profiler.profile()
    with pytest.raises(hw.TraceError, match="no trace to export"):
        hw.load(profiler)


def test_what_takes_no_calls_is_no_executor(write):
    path = write([event()])
    with pytest.raises(hw.TraceError, match=r"3 is not an executor\. Pass a concurrent"):
        hw.load(path, executor=3)
    with pytest.raises(hw.TraceError, match="not an executor"):
        hw.load(path).on("threads")


def test_ranks_wait_on_disk(tmp_path):
    traces = hw.load(write_job(tmp_path, 2, 2, 40, 4), cache=False, memory_limit="2 GB")
    assert all(isinstance(trace, StoredTrace) for trace in traces.values())
    assert_same(hw.load(tmp_path, cache=False), traces)


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_temporary_folder_is_named(tmp_path, monkeypatch):
    job = write_job(tmp_path, 2, 2, 40, 4)
    monkeypatch.setattr(cache, "write_files", full_disk)
    with pytest.raises(hw.TraceError, match=r"rank-0\S+: cannot be written to .*No space.*TMPDIR"):
        hw.load(job, cache=False, memory_limit="2 GB")
    monkeypatch.setattr(files.tempfile, "mkdtemp", full_disk)
    files.temporary_folder.cache_clear()
    with pytest.raises(hw.TraceError, match=r"no temporary folder .*No space.*TMPDIR"):
        hw.load(job, cache=False, memory_limit="2 GB")


def test_a_file_that_does_not_fit_into_memory_is_skipped_not_foreign(job, monkeypatch):
    resolve = file_traces.resolve_reference

    def read(path, **options):
        if "rank-2" in path:
            raise MemoryError
        return kineto.read_kineto(path, **options)

    monkeypatch.setattr(
        file_traces,
        "resolve_reference",
        lambda reference: read if reference.endswith(":read_kineto") else resolve(reference),
    )
    traces = hw.load(job, cache=False)
    assert len(traces) == 2
    assert [problem.detail for problem in traces.problem_list if problem.kind == "skipped"] == [
        "the file does not fit in memory"
    ]


@pytest.mark.parametrize(
    ("given", "size"), [("3 GB", 3e9), ("512MiB", 1 << 29), ("1.5g", 1.5e9), (7, 7), ("9", 9)]
)
def test_sizes(given, size):
    assert memory.as_bytes(given) == size


@pytest.mark.parametrize("given", ["much", "", "-1", 0, "1 XB", float("nan")])
def test_what_is_no_size(given, tmp_path):
    with pytest.raises(
        hw.TraceError, match=r"is not a size\. Give bytes, or a string|takes a number or a string"
    ):
        hw.load(tmp_path, memory_limit=given)


def test_fewer_files_at_a_time_under_a_limit():
    sizes = [400_000_000] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert memory.plan_workers(sizes, 8_000_000_000, 8) == memory.WorkerPlan(
            8, spills_to_disk=True
        )
        assert memory.plan_workers(sizes, 1_100_000_000, 8) == memory.WorkerPlan(
            2, spills_to_disk=True
        )
        assert memory.plan_workers(sizes, 500_000_000, 8) == memory.WorkerPlan(
            1, spills_to_disk=True
        )
    with pytest.warns(RuntimeWarning, match=r"largest file takes about 0\.4 GB .* of 0\.3 GB"):
        assert memory.plan_workers(sizes, 300_000_000, 8).workers == 1


def test_a_load_that_cannot_fit_is_told_before(monkeypatch):
    monkeypatch.setattr(memory, "_available_bytes", lambda: 2_000_000_000)
    sizes = [1_000_000_000] * 9 + [1_400_000_000]
    with pytest.warns(RuntimeWarning, match=r"3\.7 GB of memory but only 2\.0 GB is .*1\.4 GB"):
        memory.plan_workers(sizes, None, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Cached ranks need not stay in memory, and two of these would not fit together.
        assert memory.plan_workers(sizes, None, 2, is_mapped=True) == memory.WorkerPlan(
            1, spills_to_disk=False
        )


def test_the_warning_points_to_the_call(write, monkeypatch):
    monkeypatch.setattr(memory, "_available_bytes", lambda: 10)
    with pytest.warns(RuntimeWarning, match="of memory but only") as caught:
        hw.load(write([event()]), cache=False)
    assert caught[0].filename == __file__
