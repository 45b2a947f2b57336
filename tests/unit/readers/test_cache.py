"""Cached copies return the same data faster, and never that of another file."""

import dataclasses
import errno
import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import taxonomy
from hta_widgets.formats.kineto import record_source
from hta_widgets.readers import cache
from hta_widgets.store.ranks import StoredTrace
from hta_widgets.trace.call_args import call_args
from hta_widgets.trace.columns import event_args

from .conftest import event

pytestmark = pytest.mark.slow

module = importlib.import_module("hta_widgets.readers.load")  # not the function `load`
reader = importlib.import_module("hta_widgets.formats.kineto.reader")


@pytest.fixture(autouse=True)
def reads(tmp_path, monkeypatch):
    """Use a separate cache for files of any size; return the list of files that are read."""
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "the cache"))
    monkeypatch.setattr(module, "_MIN_CACHED_BYTES", 0)
    read = []
    original = reader.read_file
    monkeypatch.setattr(
        reader, "read_file", lambda path, **more: read.append(path) or original(path, **more)
    )
    return read


def copies():
    return sorted(cache.folder().glob("*"))


def test_a_merged_file_is_read_once(write, reads, tmp_path):
    records = [event(f"op {i}", i, args={"i": i}) for i in range(100)]
    paths = [write(records, f"rank-{rank}.json", distributedInfo={"rank": rank}) for rank in (3, 4)]
    merged = tmp_path / "merged.json"
    hw.export_trace(hw.load(paths), merged)
    reads.clear()
    hw.load(merged)
    again = hw.load(merged)
    assert [trace.args(17)["i"] for trace in again.values()] == [17, 17]
    assert reads == [str(merged)]


def test_loaded_again_it_is_the_same(write, reads):
    records = [event(f"op {i}", i, args={"i": i}) for i in range(100)]
    path = write([*records, {"ph": "X"}], "rank-3.json.gz", distributedInfo={"rank": 3})
    first, again = hw.load(path), hw.load(path)
    assert len(reads) == 1
    assert again[3].events.equals(first[3].events)
    assert again.problems.equals(first.problems)
    assert again.problems["kind"].tolist() == ["skipped"]
    assert again[3].metadata == first[3].metadata
    assert again[3].args(17) == {"i": 17}
    assert again[3].source.record(5) == first[3].source.record(5)
    assert np.array_equal(again[3].table.start_ns, first[3].table.start_ns)


def test_args_of_communication_need_no_second_read_of_the_file(write, monkeypatch):
    args = {"stream": 7, "Collective name": "allreduce", "In msg nelems": 64, "Seq": 3}
    path = write([event("ncclDevKernel_AllReduce", args=args, cat="kernel"), event("op")])
    first = hw.load(path)[0]
    monkeypatch.setattr(record_source.FileRecords, "_ascending", None)
    for trace in (first, hw.load(path)[0], pickle.loads(pickle.dumps(hw.load(path)[0]))):
        result = event_args(trace, np.array([0]), ("Collective name", "In msg nelems", "Seq"))
        assert result == {"Collective name": ["allreduce"], "In msg nelems": [64], "Seq": [3]}


def test_it_can_be_left_out(write, reads):
    path = write([event()])
    hw.load(path, cache=False)
    assert copies() == []
    hw.load(path, cache=False)
    assert len(reads) == 2


def test_a_file_that_changed_is_read_again(write, reads):
    path = write([event("before")])
    hw.load(path)
    write([event("behind")])
    os.utime(path, ns=(1, 1))
    assert hw.load(path)[0].events["name"].astype(str).tolist() == ["behind"]
    assert len(reads) == 2


def test_small_files_are_not_worth_it(write, monkeypatch):
    monkeypatch.setattr(module, "_MIN_CACHED_BYTES", 1_000_000)
    hw.load(write([event()]))
    assert copies() == []


def test_a_damaged_copy_is_replaced(write, reads):
    path = write([event()])
    hw.load(path)
    (file,) = copies()[0].glob("*.arrow")
    file.write_bytes(file.read_bytes()[:-3])
    assert len(hw.load(path)[0]) == 1
    assert len(reads) == 2
    hw.load(path)
    assert len(reads) == 2


def test_a_folder_that_cannot_be_written_costs_nothing(write, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "file" / "below"))
    assert len(hw.load(write([event()]))[0]) == 1


def test_errors_are_not_kept(write):
    path = write('{"traceEvents": [7]}')
    for _ in range(2):
        with pytest.raises(hw.TraceError):
            hw.load(path)
    assert copies() == []


def test_clear(write, reads):
    path = write([event()])
    hw.load(path)
    cache.clear()
    assert copies() == []
    hw.load(path)
    assert len(reads) == 2


def size(copy):
    return sum(file.stat().st_size for file in copy.iterdir())


def test_copies_do_not_grow_without_end(write, monkeypatch):
    paths = [write([event(f"of {number}")], f"{number}.json") for number in range(4)]
    hw.load(paths[0])
    (oldest,) = copies()
    os.utime(oldest, (1, 1))
    monkeypatch.setenv("HTA_WIDGETS_CACHE_MB", str(2.5e-6 * size(oldest)))
    for path in paths[1:3]:
        hw.load(path)
    assert len(copies()) == 2
    assert oldest not in copies()


def test_rules_of_the_user_reach_copies_but_do_not_stay_in_them(write, reads):
    path = write([event("my_op", cat="cpu_op")])
    hw.load(path)
    taxonomy.add("sync", "my_op", category="cpu_op")
    try:
        assert hw.load(path)[0].events["kind"].astype(str).tolist() == ["sync"]
        assert len(reads) == 1
        other = write([event("my_op", cat="cpu_op")], "other.json")
        assert hw.load(other)[0].events["kind"].astype(str).tolist() == ["sync"]
        assert len(copies()) == 1
    finally:
        taxonomy.reset()
    assert hw.load(path)[0].events["kind"].astype(str).tolist() == ["cpu"]


def test_only_the_user_may_look(write):
    hw.load(write([event()]))
    assert copies()[0].stat().st_mode & 0o077 == 0


def test_info(write, reads):
    path = write([event()])
    before = cache.info()
    hw.load(path)
    hw.load(path)
    info = cache.info()
    assert (info.folder, info.files) == (cache.folder(), 1)
    assert info.size_bytes == size(copies()[0])
    assert (info.hits - before.hits, info.misses - before.misses) == (1, 1)
    assert info.limit_bytes > info.size_bytes


def test_a_limit_that_is_no_number(write, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE_MB", "much")
    with pytest.raises(hw.TraceError, match=r"'much', not a number .* for example 5000"):
        cache.info()


def test_every_flipped_byte_is_found_or_meaningless(write, reads):
    """No matter how a broken disk changes a cache entry, loaded data equals the trace file."""
    path = write([event(f"op {i}", i, args={"i": i}) for i in range(3)], "rank-3.json")
    hw.load(path)
    true = hw.load(path, cache=False)
    expected = true[3].events
    (copy,) = copies()
    before = cache.info().rebuilt
    files = {file: file.read_bytes() for file in copy.iterdir()}
    rng = np.random.default_rng(0)
    for file, content in files.items():
        for at in rng.choice(len(content), min(len(content), 60), replace=False).tolist():
            for name, text in files.items():
                name.parent.mkdir(exist_ok=True)
                name.write_bytes(text)
            flipped = bytearray(content)
            flipped[at] ^= 1 << int(rng.integers(8))
            file.write_bytes(flipped)
            again = hw.load(path)
            assert again.summary().equals(true.summary())
            assert again[3].events.equals(expected)
            assert again[3].args(1) == {"i": 1}
            assert again[3].metadata == true[3].metadata
    assert cache.info().rebuilt > before + 25


def test_a_copy_that_is_removed_while_in_use_is_read_again(write, reads):
    path = write([event(args={"i": 5})])
    hw.load(path)
    traces = hw.load(path)
    cache.clear()
    assert traces[0].events["name"].astype(str).tolist() == ["op"]
    assert traces[0].args(0) == {"i": 5}
    assert len(reads) == 2


LOAD = """
import importlib, sys, hta_widgets as hw
importlib.import_module("hta_widgets.readers.load")._MIN_CACHED_BYTES = 0
print("ready", flush=True)
sys.stdin.readline()
print(len(hw.load(sys.argv[1], progress=False).events()))
"""


def test_two_processes_at_once_share_one_copy(write):
    path, pipe = write([event(f"op {i}", i) for i in range(2000)]), subprocess.PIPE
    command = [sys.executable, "-c", LOAD, str(path)]
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["2000\n"] * 2
    assert len(copies()) == 1


def test_nothing_of_a_copy_is_code(write):
    hw.load(write([event()]))
    for file in copies()[0].iterdir():
        assert b"pickle" not in file.read_bytes()
        assert file.read_bytes().startswith((b"ARROW1", b'{"hta_widgets_store":'))


# --- what the disk does ---------------------------------------------------------------------------


def same_as_without(path):
    traces, true = hw.load(path), hw.load(path, cache=False)
    assert traces.summary().equals(true.summary())
    assert traces.events().equals(true.events())
    assert traces.problems.equals(true.problems)
    return traces


@pytest.mark.parametrize("step", ["write_columns", "dump_manifest"])
def test_a_full_disk_keeps_nothing_and_loses_nothing(write, reads, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = write([event(f"op {i}", i) for i in range(10)])
    place = "hta_widgets.store.ranks" if step == "write_columns" else "hta_widgets.store.saving"
    with monkeypatch.context() as patch:
        patch.setattr(f"{place}.{step}", full)
        same_as_without(path)
    assert copies() == []
    same_as_without(path)
    assert len(copies()) == 1


def test_a_folder_of_others_that_may_only_be_read(write, reads, monkeypatch):
    path, other = write([event("one")], "1.json"), write([event("two")], "2.json")
    hw.load(path)

    def refused(*_, **__):
        raise PermissionError(errno.EROFS, "Read-only file system")

    for module_name, name in (("os", "utime"), ("tempfile", "mkdtemp"), ("shutil", "rmtree")):
        monkeypatch.setattr(importlib.import_module(module_name), name, refused)
    del reads[:]
    assert hw.load(path).events()["name"].astype(str).tolist() == ["one"]
    assert reads == []
    assert hw.load(other).events()["name"].astype(str).tolist() == ["two"]
    assert len(copies()) == 1


@pytest.mark.parametrize("version", [0, 99])
def test_copies_of_another_version_of_the_form_are_replaced(write, reads, monkeypatch, version):
    path = write([event(args={"i": 7})])
    with monkeypatch.context() as patch:
        patch.setattr("hta_widgets.store.files.VERSION", version)
        hw.load(path)
    before = cache.info().rebuilt
    assert same_as_without(path)[0].args(0) == {"i": 7}
    assert cache.info().rebuilt == before + 1
    del reads[:]
    hw.load(path)
    assert reads == []


# --- many files -----------------------------------------------------------------------------------


def test_what_was_kept_is_mapped_at_once(write):
    traces = hw.load(write([event(args={"i": 7})]))[0]
    assert isinstance(traces, StoredTrace)
    assert traces.args(0) == {"i": 7}
    assert pickle.loads(pickle.dumps(traces)).args(0) == {"i": 7}


def test_arguments_of_operators_are_mapped_until_the_rank_is_released(write):
    path = write([event(args={"Input Dims": [[2, 3]]}), event(args={"i": 7})])
    hw.load(path)
    trace = hw.load(path)[0]
    seen = []
    for _ in range(2):
        assert [row[0] for row in call_args(trace, np.array([0])).texts] == [b"[[2, 3]]"]
        seen.append(str(cache.folder()) in Path("/proc/self/maps").read_text())
        trace.release()
        seen.append(str(cache.folder()) in Path("/proc/self/maps").read_text())
    assert seen == [True, False, True, False]


def test_a_copy_by_its_fields_is_let_go_like_any_other(write):
    traces = hw.load(write([event(args={"i": 7})]))[0]
    copy = dataclasses.replace(traces, rank=3)
    copy.frame(), traces.frame()
    for trace in (copy, traces):
        trace.release()
    assert (traces.is_mapped, copy.is_mapped) == (True, False)
    assert copy.args(0) == traces.args(0) == {"i": 7}


def test_small_files_are_worth_it_where_there_are_many(write, reads, monkeypatch):
    monkeypatch.setattr(module, "_MIN_CACHED_BYTES", 1_000_000)
    monkeypatch.setattr(module, "_MIN_CACHED_BYTES_OF_MANY", 200)
    monkeypatch.setattr(module, "_MANY_BYTES", 1000)
    for rank in range(8):
        write([event("x" * 200, ts=rank)], f"job/rank-{rank}.json")
    write([event()], "job/rank-8.json")
    for _ in range(2):
        traces = hw.load(write([event()], "job/rank-9.json").parent)
    assert len(traces) == 10
    assert len(copies()) == 8
    assert len(reads) == 8 + 2 + 2


def test_no_more_is_kept_than_there_is_room_for(write, reads, monkeypatch):
    """Otherwise each copy would evict the one before, and none would ever be used."""
    monkeypatch.setattr(module, "_COPIED_SHARE", 100)  # for such small files
    paths = [write([event("x" * 300, ts=rank)], f"job/rank-{rank}.json") for rank in range(6)]
    monkeypatch.setenv("HTA_WIDGETS_CACHE_MB", str(1e-6 * 2.5 * 100 * paths[0].stat().st_size))
    hw.load(paths[0].parent)
    assert len(copies()) == 3
    del reads[:]
    assert len(hw.load(paths[0].parent)) == 6
    assert len(reads) == 3


def test_the_folder_is_not_looked_through_for_each_copy(write, monkeypatch):
    looked = []
    original = cache.evict
    monkeypatch.setattr(cache, "evict", lambda copy: looked.append(copy) or original(copy))
    for rank in range(12):
        write([event(ts=rank)], f"job/rank-{rank}.json")
    hw.load(write([event()], "job/rank-12.json").parent)
    assert len(copies()) == 13
    assert len(looked) == 1
