"""Stores and copies whose writing is killed at each step, or done by two writers at once."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets import files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

#: Repeats some work in child processes. The first is killed at the first step that touches the
#: disk, the second at the second step, and so on until one survives.
KILL_AT_EACH_STEP = """
import os, shutil, signal, sys
from pathlib import Path
import hta_widgets as hw
import hta_widgets.store.ranks as traces_module
import importlib
importlib.import_module("hta_widgets.readers.load")._MIN_CACHED_BYTES = 0

job, results, what = sys.argv[1:]
loaded = hw.load(job, cache=False, progress=False)
part = loaded.subset(ranks=[0])

def steps(kill_at):
    done = 0
    def counted(original):
        def step(*args, **more):
            nonlocal done
            done += 1
            if done == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **more)
        return step
    for name in ("rename", "replace", "unlink", "write_bytes", "chmod"):
        setattr(Path, name, counted(getattr(Path, name)))
    os.fsync = counted(os.fsync)
    whole = traces_module.write_columns
    def half_written(path, *args):
        nonlocal done
        done += 1
        frame = whole(path, *args)
        if done == kill_at:
            os.truncate(path, os.path.getsize(path) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return frame
    traces_module.write_columns = half_written

for kill_at in range(1, 60):
    folder = Path(results, str(kill_at))
    folder.mkdir()
    if what == "old":
        part.save(folder / "a.store")
    child = os.fork()
    if not child:
        steps(kill_at)
        if what == "cache":
            os.environ["HTA_WIDGETS_CACHE"] = str(folder / "cache")
            hw.load(job, progress=False)
        else:
            loaded.save(folder / "a.store")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
print(kill_at)
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return write_job(tmp_path_factory.mktemp("job"), 3, 2, 40, 4)


@pytest.fixture(scope="module")
def traces(job):
    return hw.load(job, cache=False, progress=False)


def run(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def killed_at_each_step(job, results, what):
    with run(KILL_AT_EACH_STEP, job, results, what) as process:
        survived = int(process.communicate()[0])
    assert survived == len(list(results.iterdir()))
    return [results / str(number) for number in range(1, survived + 1)]


@pytest.mark.parametrize("what", ["new", "old"])
def test_a_killed_save_leaves_the_old_or_nothing_or_the_new(traces, job, tmp_path, what):
    old = traces.subset(ranks=[0])
    result = []
    for folder in killed_at_each_step(job, tmp_path, what):
        if not (folder / "a.store").exists():
            result.append("nothing")
        else:
            again = hw.load(folder / "a.store", progress=False)
            result.append("old" if again.ranks == [0] else "new")
            assert_same(old if result[-1] == "old" else traces, again)
        old.save(folder / "a.store")
        assert_same(old, hw.load(folder / "a.store", progress=False))
        # Remains of the interrupted run are removed.
        assert [file.name for file in folder.iterdir()] == ["a.store"]
    before = "nothing" if what == "new" else "old"
    turned = result.index("new")
    assert result == [before] * turned + ["new"] * (len(result) - turned)
    assert turned > 4
    assert len(result) - turned >= 2


def test_a_killed_cache_write_is_not_seen(traces, job, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("hta_widgets.readers.load"), "_MIN_CACHED_BYTES", 0)
    folders = killed_at_each_step(job, tmp_path, "cache")
    assert len(folders) > 5
    for folder in folders:
        monkeypatch.setenv("HTA_WIDGETS_CACHE", str(folder / "cache"))
        before = hw.cache.info()
        assert_same(traces, hw.load(job, progress=False))
        again = hw.load(job, progress=False)
        assert_same(traces, again)
        after = hw.cache.info()
        assert after.rebuilt == before.rebuilt
        assert after.files == 2
        assert after.hits - before.hits >= 2


def test_two_that_save_at_once_leave_the_store_of_one(traces, tmp_path, monkeypatch):
    """One writer stops with its files in place but without a manifest; the files must stay."""
    pytest.importorskip("fcntl")
    path = tmp_path / "both.store"
    traces.save(path)
    stopped, go_on = threading.Event(), threading.Event()
    original = Path.replace

    def replace(self, target):
        if self.name == "store.json" and not stopped.is_set():
            stopped.set()
            go_on.wait(30)
        return original(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    savers = [
        threading.Thread(target=traces.subset(ranks=[rank]).save, args=[path]) for rank in (0, 1)
    ]
    savers[0].start()
    assert stopped.wait(30)
    savers[1].start()
    savers[1].join(1)  # would have finished without a lock
    go_on.set()
    for saver in savers:
        saver.join(30)
    loaded = hw.load(path, progress=False)
    assert_same(traces.subset(ranks=[1]), loaded)
    assert len(list(path.iterdir())) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["both.store"]


def test_what_others_may_be_saving_stays(traces, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / ".a.store.mine.part").mkdir()
    elsewhere = tmp_path / ".a.store.word.0badcafe.part"
    elsewhere.mkdir()
    at_work = tmp_path / f".a.store.word{files._OWN_PARTIAL_SUFFIX}"
    at_work.mkdir()
    remaining = sorted(tmp_path.iterdir())
    handle = os.open(at_work, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    traces.save(tmp_path / "a.store")
    assert sorted(tmp_path.iterdir()) == sorted([*remaining, tmp_path / "a.store"])
    os.close(handle)
    os.utime(elsewhere, (0, 0))
    traces.save(tmp_path / "a.store")
    assert sorted(tmp_path.iterdir()) == sorted([remaining[0], tmp_path / "a.store"])


def test_a_save_that_others_overtake_replaces_theirs(traces, tmp_path, monkeypatch):
    """The path is free when it is checked, but taken when the store is renamed to it."""
    path = tmp_path / "a.store"
    other = Path(traces.subset(ranks=[0]).save(tmp_path / "other.store"))
    original = Path.rename

    def rename(self, target):
        if not path.exists():
            shutil.copytree(other, path)
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    traces.save(path)
    monkeypatch.undo()
    assert_same(traces, hw.load(path, progress=False))
    assert len(list(path.iterdir())) == 3


def test_signals_are_what_kills(tmp_path, job):
    """If children failed otherwise, the tests above would only see complete stores."""
    code = KILL_AT_EACH_STEP.replace("if os.waitpid(child, 0)[1] == 0:", "if False:").replace(
        "range(1, 60)", "range(1, 2)"
    )
    code = code.replace("print(kill_at)", "print(os.waitpid(child, 0)[1])")
    with run(code, job, tmp_path, "new") as process:
        assert int(process.communicate()[0]) == signal.SIGKILL
