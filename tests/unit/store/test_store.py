"""Stores: complete or absent, lazy, recognized by contents, refused if implausible."""

import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.store import files as manifest_module, rank_file, saving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    return write_job(folder, 3, 2, 60, 6)


@pytest.fixture(scope="module")
def traces(job):
    return hw.load(job, cache=False, progress=False)


@pytest.fixture
def store(traces, tmp_path):
    return Path(traces.save(tmp_path / "a store"))


def run(code, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# --- finding it -----------------------------------------------------------------------------------


def test_told_by_its_contents(traces, store, tmp_path):
    assert_same(traces, hw.load(store, format="store"))
    assert_same(traces, hw.load(store / "store.json"))
    (tmp_path / "above").mkdir()
    shutil.copytree(store, tmp_path / "above" / "named as it likes")
    assert_same(traces, hw.load(tmp_path / "above"))
    with pytest.raises(hw.TraceError, match="of the format store"):
        hw.load(store, format="mpi-trace")


def test_beside_other_files_it_is_one_of_them(traces, store, job, tmp_path):
    (tmp_path / "rank-7.json").write_bytes((job / "rank-0.json").read_bytes())
    loaded = hw.load(tmp_path, cache=False)
    assert len(loaded) == 3
    assert len(loaded.events()) == len(traces.events()) + len(traces[0])
    assert sorted(loaded.problems["kind"]).count("duplicate_rank") == 1


def test_some_ranks(store, job):
    assert_same(hw.load(job, ranks=[1], cache=False), hw.load(store, ranks=1))
    with pytest.raises(hw.TraceError, match=r"no rank 9\. The ranks are 0, 1"):
        hw.load(store, ranks=[9])


@pytest.mark.parametrize("write", [write_byteps_job, write_mpi_job])
def test_all_formats(write, tmp_path):
    write(tmp_path / "job")
    traces = hw.load(tmp_path / "job", cache=False)
    assert_same(traces, hw.load(traces.save(tmp_path / "job.store")))


# --- opening it -----------------------------------------------------------------------------------


def test_opening_reads_no_columns(traces, store):
    for file in store.glob("*.arrow"):
        file.write_bytes(bytes(file.stat().st_size))
    opened = hw.load(store)
    assert repr(opened) == repr(traces)
    assert opened.summary().equals(traces.summary())
    with pytest.raises(hw.TraceError, match=r"rank-0.*\.arrow: was changed.*Copy the store again"):
        opened.events()


def test_another_process_maps_the_file_itself(traces, store):
    opened = hw.load(store)
    opened.events()
    sent = pickle.dumps(dict(opened))
    assert len(sent) < 20_000
    assert pickle.loads(sent)[1].events.equals(traces[1].events)


def test_columns_that_were_let_go_come_back(traces, store):
    with rank_file.limit_columns(1):
        assert_same(traces, hw.load(store))


def test_a_window_of_a_store_has_its_own_span(traces, store):
    stored = hw.load(store)
    assert stored.end_ns == traces.end_ns  # read before the window is applied
    half_ns = traces.end_ns // 2
    window = traces.subset(end_ns=half_ns)
    ends_ns = [trace.events.eval("start_ns + dur_ns").max() for trace in window.values()]
    assert [trace.end_ns for trace in stored.subset(end_ns=half_ns).values()] == ends_ns


def test_replaced_while_in_use(traces, store):
    opened = hw.load(store)
    traces.subset(ranks=[0]).save(store)
    with pytest.raises(hw.TraceError, match="If it was replaced after it was loaded"):
        opened.events()
    assert hw.load(store).ranks == [0]


# --- what it must not be --------------------------------------------------------------------------


def manifest(store, change):
    content = json.loads((store / "store.json").read_text())
    change(content)
    (store / "store.json").write_text(json.dumps(content).replace(": ", ":", 1))


@pytest.mark.parametrize(
    ("version", "message"),
    [(0, "version 0, by an older .* Load the trace files again"), (99, "99, by a newer .* Update")],
)
def test_another_version(store, version, message):
    manifest(store, lambda content: content.update(hta_widgets_store=version))
    with pytest.raises(hw.TraceError, match=message):
        hw.load(store)


def test_a_changed_fact(store):
    manifest(store, lambda content: content["body"]["ranks"][0]["trace"].update(zero_ns=5))
    with pytest.raises(
        hw.TraceError, match=r"store\.json: was changed: its checksum does not match"
    ):
        hw.load(store)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [([{"file": "../x.arrow"}], "refers to a file outside its folder"), ([], "contains no ranks")],
)
def test_manifests_that_cannot_be(store, ranks, message):
    body = manifest_module.read_manifest(store / "store.json")
    body["ranks"] = [body["ranks"][0] | rank for rank in ranks]
    (store / "store.json").write_bytes(manifest_module.dump_manifest(body))
    with pytest.raises(hw.TraceError, match=message):
        hw.load(store)


def test_a_missing_file(store):
    next(store.glob("rank-1*")).unlink()
    with pytest.raises(hw.TraceError, match=r"rank-1.*\.arrow: is missing\. Copy the store"):
        hw.load(store)


def test_nothing_else_is_written_over(traces, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (tmp_path / "file.json").write_text("mine")
    for name, what in (("notes", "folder with other files"), ("file.json", "a file")):
        with pytest.raises(hw.TraceError, match=what):
            traces.save(tmp_path / name)
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"
    assert names(tmp_path) == ["file.json", "notes"]


# --- being written --------------------------------------------------------------------------------


LIMITED = """
import resource, signal, sys, hta_widgets as hw
traces = hw.load(sys.argv[1], cache=False, progress=False)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    traces.save(sys.argv[2])
except hw.TraceError as error:
    print(error)
"""


def test_what_cannot_be_written_leaves_the_old(traces, store, job):
    with run(LIMITED, job, store, stdout=subprocess.PIPE, text=True) as process:
        text = process.communicate()[0]
    assert "cannot be written" in text
    assert "Nothing was changed there." in text
    assert_same(traces, hw.load(store))
    assert names(store.parent) == [store.name]


def test_a_full_disk(traces, store, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saving.os, "fsync", full)
    with pytest.raises(hw.TraceError, match=r"No space left on device\. Nothing was .* Free some"):
        traces.save(store)
    with pytest.raises(hw.TraceError, match="No space left"):
        traces.save(store.parent / "new")
    assert_same(traces, hw.load(store))
    assert names(store.parent) == [store.name]


# --- on network disks -----------------------------------------------------------------------------


def mounted_as(kind, store, tmp_path, monkeypatch):
    """Simulate a store on a file system of type `kind`."""
    device = store.stat().st_dev
    mounts = tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        f"27 1 {number} / /data rw,noatime shared:1 - {kind} server:/data rw,vers=4.2\n"
    )
    monkeypatch.setattr("hta_widgets.files._MOUNTS", mounts)


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "fuse", "fuse.sshfs", "lustre", "gpfs", "9p", "ceph"]
)
def test_a_file_on_a_network_disk_can_be_cut_while_in_use(
    kind, traces, store, tmp_path, monkeypatch
):
    mounted_as(kind, store, tmp_path, monkeypatch)
    opened = hw.load(store)
    assert len(opened[0].events) == len(traces[0])
    for file in store.glob("*.arrow"):
        os.truncate(file, 100)
    assert opened[0].events.equals(traces[0].events)
    assert opened[0].flows.equals(traces[0].flows)
    with pytest.raises(hw.TraceError, match=r"rank-1.*has 100 bytes instead of"):
        opened[1].events  # noqa: B018


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs", "overlay", "fuseblk", "nfsd"])
def test_files_on_other_disks_are_mapped(kind, store, tmp_path, monkeypatch):
    mounted_as(kind, store, tmp_path, monkeypatch)
    opened = hw.load(store)
    assert len(opened[0].events)
    assert str(store) in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("size", [0, 100, 4096])
@pytest.mark.parametrize("is_read_before", [False, True])
def test_a_store_that_is_cut_off_after_loading_is_an_error(store, size, is_read_before):
    opened = hw.load(store)
    if is_read_before:
        assert opened[0].start_ns < opened[0].end_ns
        opened[0].args(3)
    for file in store.glob("*.arrow"):
        os.truncate(file, size)
    time.sleep(0.02)  # sizes checked less than 10 ms ago are not checked again
    for read in (
        opened.events,
        lambda: opened[0].args(7),
        lambda: analysis.temporal_breakdown(opened),
    ):
        with pytest.raises(hw.TraceError, match=r"cut off after|bytes instead of"):
            read()


CUT_WHILE_SHOWN = """
import os, sys, time
from pathlib import Path
import hta_widgets as hw
from hta_widgets import analysis

def answers(ask):
    try:
        return "answer" if ask() is not None else "nothing"
    except hw.TraceError as error:
        return "error" if "cut off after" in str(error) else str(error)

traces = hw.load(sys.argv[1], progress=False)
dashboard = hw.Dashboard(traces)
parts = [{"lanes": [lane], "first": 0, "last": 2} for lane in range(4)]
start, end = traces.span_ns
requests = [{"op": "tiles", "level": 12, "parts": parts}, {"op": "minimap", "bins": 50}]
requests += [{"op": "stats", "start": start, "end": end}, {"op": "search", "text": "a"}]
requests += [{"op": "panels", "panels": [panel]} for panel in ("kernels", "idle")]
asked = [lambda r=r: dashboard.answer(r) for r in requests]
asked += [lambda f=f: getattr(analysis, f)(traces) for f in ("operators", "idle_interval_stats")]
print(*{answers(ask) for ask in asked})
for file in Path(sys.argv[1]).glob("*.arrow"):
    os.truncate(file, 4096)
time.sleep(0.02)  # sizes that were checked less than 10 ms ago are not checked again
print(*{answers(ask) for ask in asked})
"""


def test_a_store_that_is_cut_off_ends_no_process_that_shows_it(tmp_path):
    (tmp_path / "job").mkdir()
    job = write_job(tmp_path / "job", 1, events=2000)  # larger than a memory page
    path = hw.load(job, cache=False, progress=False).save(tmp_path / "a.store")
    with run(CUT_WHILE_SHOWN, path, stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0] == "answer\nerror\n"
    assert process.returncode == 0


def test_an_analysis_of_mapped_ranks_checks_sizes_rarely(store, job, monkeypatch):
    with pytest.warns(RuntimeWarning, match="memory_limit"):  # the limit ends with this load
        hw.load(job, cache=False, progress=False, memory_limit=4)
    opened = hw.load(store)
    paths = []

    def stat(path, stat_path=Path.stat, **options):
        # Threads of other tests may still read their own stores.
        if path.parent == store and threading.current_thread() is threading.main_thread():
            paths.append(path)
        return stat_path(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    for module in (manifest_module, rank_file):
        monkeypatch.setattr(module, "CHECK_INTERVAL_S", 3600.0)
    analysis.stragglers(opened)
    # Opening a file takes two calls; all columns read later share the check.
    assert len(paths) == 2 * len(opened)


def test_a_store_that_is_replaced_stays_readable(store, traces):
    opened = hw.load(store)
    assert opened[0].args(3) == traces[0].args(3)
    traces.save(store)
    assert opened[0].args(7) == traces[0].args(7)
