"""The stored index of lanes: equal to a new one, mapped, and ignored if unusable."""

import importlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.random_job import write_job
from support.same_lanes import assert_kept_lanes_are_right, assert_same_lane, fresh_lanes
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.live.job import TileEngine
from hta_widgets.readers import cache
from hta_widgets.store import ranks as stored_traces
from hta_widgets.tiles import stored_lanes as stored
from hta_widgets.tiles.stored_lanes import stored_lane_columns, stored_lanes

pytestmark = pytest.mark.slow

loading = importlib.import_module("hta_widgets.readers.load")  # not the function `load`

COLUMNS = ("lanes.ns", "lanes.rows", "lanes.kinds")


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job").mkdir()
    return write_job(tmp_path / "job", 11, 3)


@pytest.fixture
def traces(job):
    return hw.load(job, cache=False, progress=False)


@pytest.fixture
def store(traces, tmp_path):
    return Path(traces.save(tmp_path / "job.store"))


def every_tile(traces):
    """Return the replies for all lanes at three zoom levels, as the page receives them."""
    engine = TileEngine(traces)
    scene = engine.scene()
    start, end = scene["range"]
    answers = []
    for level in (0, 8, max((end - start).bit_length() - 9, 0)):
        first, last = start >> (level + 8), (end >> (level + 8)) + 1
        parts = [
            {"lanes": [lane], "first": first, "last": min(last, first + 300)}
            for lane in range(scene["lanes"])
        ]
        answers.append(engine.answer({"op": "tiles", "level": level, "parts": parts}))
    return answers


def counted(traces):
    """Count the stored lanes of a set after comparing each with its events."""
    return [assert_kept_lanes_are_right(trace.table) for trace in traces.values()]


# --- the same as a new one ------------------------------------------------------------------------


def test_each_array_is_that_of_a_new_index(traces, store):
    loaded = counted(hw.load(store))
    assert loaded == [len(fresh_lanes(trace.table)) for trace in traces.values()]
    assert sum(loaded) > 6


@pytest.mark.parametrize("write", [write_byteps_job, write_mpi_job])
def test_jobs_of_other_formats(write, tmp_path):
    write(tmp_path / "job")
    traces = hw.load(tmp_path / "job", cache=False)
    again = hw.load(traces.save(tmp_path / "job.store"))
    assert sum(counted(again)) == sum(len(fresh_lanes(t.table)) for t in traces.values()) > 0
    assert every_tile(again) == every_tile(traces)


def test_tiles_are_the_same_to_the_byte(traces, store):
    again = hw.load(store)
    assert every_tile(again) == every_tile(traces)
    moved = traces.with_clock("fitted")
    assert every_tile(again.with_clock("fitted")) == every_tile(moved)


def test_it_is_mapped_and_not_copied(store):
    for lane in stored_lanes(hw.load(store)[0].table).values():
        for array in (lane.spans.cover.starts, lane.spans.cover.prefix, lane.longest):
            assert not array.flags.owndata
            assert not array.flags.writeable


def test_a_set_that_came_from_a_store_keeps_it_as_well(traces, store, tmp_path):
    again = hw.load(hw.load(store).save(tmp_path / "again.store"))
    assert counted(again) == counted(hw.load(store))


def test_lanes_that_make_room_come_back(traces, store, monkeypatch):
    monkeypatch.setattr("hta_widgets.live.job.MIN_LANE_BYTES", 1)
    monkeypatch.setattr("hta_widgets.live.job.BYTES_PER_EVENT", 0)
    assert every_tile(hw.load(store)) == every_tile(traces)


def test_what_is_written_is_what_the_version_says(tmp_path):
    """A change of this layout must raise the version, or older stores are misread."""
    kernels = {"ph": "X", "pid": 0, "tid": 7, "args": {"stream": 7}}
    calls = {"ph": "X", "pid": 1, "tid": 1}
    events = [
        {**calls, "name": "step", "cat": "user_annotation", "ts": 0, "dur": 9},
        {**calls, "name": "outer", "cat": "cpu_op", "ts": 0, "dur": 3},
        {**kernels, "name": "gemm", "cat": "kernel", "ts": 1, "dur": 2},
        {**calls, "name": "inner", "cat": "cpu_op", "ts": 1, "dur": 1},
        {**kernels, "name": "Memcpy DtoH", "cat": "gpu_memcpy", "ts": 4, "dur": 1},
    ]
    (tmp_path / "one.json").write_text(json.dumps({"traceEvents": events}))
    columns, fact = stored_lane_columns(hw.load(tmp_path / "one.json", cache=False)[0].table)
    compute, memory, cpu = (hw.taxonomy.KINDS.index(kind) for kind in ("compute", "memory", "cpu"))
    device = [1000, 4000, 0, 2000, 3000, 2000, 4000, 0, 1000]
    host = [0, 0, 3000, 0, 1000, 2000, 3000]
    assert {name: values.tolist() for name, values in columns.items()} == {
        "lanes.ns": device + host,
        "lanes.rows": [2, 4],
        "lanes.kinds": [],
    }
    of_device = [2, 3, -1, -1, 0, compute, 2, 1, -1, compute, -1, -1, 1, memory]
    of_device += [1, 2, -1, -1, 0, 0]
    of_host = [1, 2, 2, 2, 0, cpu, -1, 0, -1, -1]
    begin = dict.fromkeys(columns, 0)
    after = {"lanes.ns": len(device), "lanes.rows": 2, "lanes.kinds": 0}
    assert json.loads(json.dumps(fact)) == {
        "version": 2,
        "lanes": [["gpu", [], False, begin, of_device], ["cpu", [0], False, after, of_host]],
    }


# --- unusable files -------------------------------------------------------------------------------


def broken(folder, column):
    """Change one byte of a column in each file of a store that contains it."""
    changed = 0
    for path in folder.glob("*.arrow"):
        with pa.memory_map(str(path)) as file:
            full = file.read_buffer()
            data = pa.ipc.open_file(full).get_batch(0).column(column).values.buffers()[-1]
            at = data.address - full.address if data is not None and data.size else None
        if at is not None:
            content = bytearray(path.read_bytes())
            content[at] ^= 1
            path.write_bytes(content)
            changed += 1
    return changed


@pytest.mark.parametrize("column", COLUMNS)
def test_a_damaged_one_is_made_anew_without_a_word(traces, store, column):
    assert broken(store, column)
    again = hw.load(store)
    assert 0 in counted(again)
    assert every_tile(again) == every_tile(traces)
    assert_same(traces, again)


def has_none_and_needs_none(traces, path):
    again = hw.load(path)
    assert sum(counted(again)) == 0
    assert every_tile(again) == every_tile(traces)
    assert_same(traces, again)


def test_one_of_another_version_is_made_anew(traces, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "VERSION", 99)
    store = traces.save(tmp_path / "newer.store")
    assert sum(counted(hw.load(store))) > 0
    monkeypatch.undo()
    has_none_and_needs_none(traces, store)


@pytest.fixture
def old_store(traces, tmp_path, monkeypatch):
    """A store from before this index existed."""
    full = stored_traces.write_columns

    def without(path, columns, facts):
        columns = {name: column for name, column in columns.items() if name not in COLUMNS}
        return full(path, columns, {key: fact for key, fact in facts.items() if key != "lanes"})

    monkeypatch.setattr(stored_traces, "write_columns", without)
    path = Path(traces.save(tmp_path / "old.store"))
    monkeypatch.setattr(stored_traces, "write_columns", full)
    return path


def test_older_stores_open_and_need_none(traces, old_store):
    has_none_and_needs_none(traces, old_store)


@pytest.fixture
def ruled():
    hw.taxonomy.add("communication", "gemm", category="kernel")
    yield
    hw.taxonomy.reset()


def test_users_rules_have_lanes_of_their_own(traces, store, ruled):
    again = hw.load(store)
    assert sum(counted(again)) == 0
    by_rules = every_tile(again)
    assert by_rules == every_tile(traces)
    hw.taxonomy.reset()
    assert by_rules != every_tile(hw.load(store))


def test_those_of_users_rules_are_not_kept(traces, tmp_path, ruled):
    traces.events()
    store = traces.save(tmp_path / "ruled.store")
    hw.taxonomy.reset()
    assert sum(counted(hw.load(store))) == 0


@pytest.mark.parametrize("which", ["store", "old_store"])
def test_nothing_is_written_where_a_store_is_read(traces, which, request):
    path = request.getfixturevalue(which)
    files = {file: file.read_bytes() for file in path.iterdir()}
    for file in (*files, path):
        file.chmod(0o555)
    try:
        assert every_tile(hw.load(path)) == every_tile(traces)
        assert {file: file.read_bytes() for file in path.iterdir()} == files
    finally:
        path.chmod(0o755)


# --- in the cache ---------------------------------------------------------------------------------


def test_copies_of_trace_files_have_it(traces, job, tmp_path, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "_MIN_CACHED_BYTES", 0)
    hw.load(job, progress=False)
    again = hw.load(job, progress=False)
    assert 0 not in counted(again)
    assert every_tile(again) == every_tile(traces)
    (copy, *_) = (tmp_path / "cache").glob("*.trace-cache")
    rebuilt = cache.info().rebuilt
    assert broken(copy, "lanes.ns") == 1
    again = hw.load(job, progress=False)
    assert counted(again).count(0) == 1
    assert every_tile(again) == every_tile(traces)
    assert_same(traces, again)
    assert cache.info().rebuilt == rebuilt


# --- the yardstick --------------------------------------------------------------------------------


def test_a_lane_that_differs_is_seen(store):
    lanes = fresh_lanes(hw.load(store)[0].table)
    first, other = list(lanes.values())[:2]
    with pytest.raises(AssertionError):
        assert_same_lane(first, other)
    starts = first.spans.cover.starts.copy()
    assert_same_lane(starts, first.spans.cover.starts)
    starts[-1] += 1
    with pytest.raises(AssertionError):
        assert_same_lane(starts, first.spans.cover.starts)
    with pytest.raises(AssertionError):
        assert_same_lane(starts, starts.astype(np.int32))
