"""Workers pass results in files, or send them if files are not possible."""

import concurrent.futures
import contextlib
import multiprocessing
import pickle
import subprocess
import sys

import pandas as pd
import pytest
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets import analysis, taxonomy, workers as calls
from hta_widgets.readers import cache, parallel as from_workers
from hta_widgets.readers.load import read_trace
from hta_widgets.workers import WorkerPool

pytestmark = pytest.mark.slow


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job").mkdir()
    return write_job(tmp_path / "job", 4, 5, 200, 4)


@pytest.fixture(scope="module")
def pool():
    with WorkerPool(2) as result:
        yield result


@pytest.mark.parametrize("kept", [True, False])
def test_columns_stay_in_files(job, pool, kept, tmp_path, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "own"))
    present = hw.load(job, executor=pool, cache=kept)
    assert all(trace.in_file for trace in present.values())
    assert max(len(pickle.dumps(trace)) for trace in present.values()) < 8_000
    assert cache.info().files == (5 if kept else 0)
    assert list((tmp_path / "own").glob("seen-*")) == []
    here = hw.load(job, cache=False)
    assert_same(here, present)
    frame = analysis.kernel_breakdown(present)
    pd.testing.assert_frame_equal(frame, analysis.kernel_breakdown(here), check_exact=True)


def test_threads_of_this_process_leave_nothing_anywhere(job, tmp_path, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "own"))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        traces = hw.load(job, executor=threads)
    assert not any(trace.in_file for trace in traces.values())
    assert cache.info().files == 0
    assert_same(hw.load(job, cache=False), traces)
    # The threads have ended.
    assert len(analysis.temporal_breakdown(traces)) == 5


def test_who_sees_no_common_folder_sends_and_it_is_said(job, pool, monkeypatch):
    elsewhere = cache.folder() / "elsewhere"
    present = from_workers._Handover(elsewhere, elsewhere, "sign")
    monkeypatch.setattr(from_workers, "_handover", lambda: contextlib.nullcontext(present))
    with pytest.warns(RuntimeWarning, match=r"5 of 5 files were sent over the network.*elsewhere"):
        traces = hw.load(job, executor=pool)
    assert not any(trace.in_file for trace in traces.values())
    assert_same(hw.load(job, cache=False), traces)
    assert not elsewhere.exists()


def test_a_worker_that_does_not_see_the_files_says_which_and_what_to_do(pool):
    files = [from_workers.FileToRead("/only/here/rank-0.json", "kineto", 1, to_cache=True)]
    with pytest.raises(hw.TraceError) as caught:
        from_workers.read_on_executor(pool, read_trace, files, None, print)
    assert caught.value.path == "/only/here/rank-0.json"
    assert "does not exist on the worker" in caught.value.message
    assert "same path" in caught.value.remedy


def test_so_it_does_where_it_does_not_see_a_store(job, pool, tmp_path):
    hw.load(job, cache=False).save(tmp_path / "a store")
    traces = hw.load(tmp_path / "a store", executor=pool)
    (tmp_path / "a store").rename(tmp_path / "another store")
    with pytest.raises(hw.TraceError, match=r"rank-0.*arrow: does not exist on the worker"):
        analysis.temporal_breakdown(traces)


def test_another_version_there_is_an_error(job, pool, monkeypatch):
    monkeypatch.setattr(calls, "package_version", lambda _package: "0.0.1")
    with pytest.raises(hw.TraceError, match=r"on the worker .* 0\.0\.1"):
        hw.load(job, executor=pool)


def test_rules_hold_there_too(job, pool):
    present = hw.load(job, executor=pool)
    before = analysis.temporal_breakdown(present)
    taxonomy.add("communication", "gemm")
    try:
        changed = analysis.temporal_breakdown(present)
        expected = analysis.temporal_breakdown(hw.load(job, cache=False))
    finally:
        taxonomy.reset()
    pd.testing.assert_frame_equal(changed, expected, check_exact=True)
    pd.testing.assert_frame_equal(analysis.temporal_breakdown(present), before)
    assert changed["compute_ns"].sum() < before["compute_ns"].sum()


def test_a_pool_that_broke_is_an_error_that_says_so(job):
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawned) as pool:
        traces = hw.load(job, executor=pool)
        for process in pool._processes.values():
            process.kill()
        with pytest.raises(hw.TraceError, match="lost its workers"):
            analysis.temporal_breakdown(traces)


def test_workers_take_no_modules_from_where_the_user_works(job, tmp_path):
    """A file in the working folder may have the name of a standard module."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("json", "queue", "msgspec"):
        (folder / f"{name}.py").write_text("raise SystemExit('not the module')")
    # In notebooks, the working folder comes first on the path.
    script = (
        "import sys; from hta_widgets.workers import WorkerPool\n"
        "sys.path.insert(0, '')\n"
        "with WorkerPool(1) as pool: print(pool.submit(len, 'abc').result())"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr
