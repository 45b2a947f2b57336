"""Jobs and files in a folder, what pages may open, and traces added later."""

import asyncio
import json
import os
import shutil

import pytest
from support import small

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.host import web
from hta_widgets.host.verdicts import job_verdict, read_verdict
from hta_widgets.host.web import AllowedPaths, Folder

pytestmark = pytest.mark.slow

EVENT = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 2, "ts": 0.0, "dur": 1.0}


@pytest.fixture
def write(tmp_path):
    """`write(name)` writes a trace with a modification time in s after 2020; returns its path."""

    def _write(name, changed_s=0, contents=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents or json.dumps({"traceEvents": [EVENT]}))
        os.utime(path, (1_577_836_800 + changed_s,) * 2)
        return path

    return _write


def looked(path):
    folder = Folder(path)
    folder.refresh()
    return folder


def listed(folder):
    return [(entry.path, entry.files) for entry in folder.entries]


def test_jobs_and_files_newest_first(write, tmp_path):
    for rank in range(3):
        write(f"run/rank-{rank}.json", 10 + rank)
    write("single.json", 20)
    write("other/only.json", 5)
    write("run/notes.txt", 99, "notes")
    write("settings.json", 99, '{"theme": "dark"}')
    write(".hidden/rank-0.json", 99)
    folder = Folder(tmp_path)
    assert folder.refresh()
    assert listed(folder) == [("single.json", 1), ("run", 3), ("other/only.json", 1)]
    run = folder.entries[1]
    assert [part.path for part in run.parts] == [f"run/rank-{rank}.json" for rank in range(3)]
    assert run.bytes == sum(part.bytes for part in run.parts)
    assert run.changed_ns == (1_577_836_800 + 12) * 10**9
    assert run.formats == ["Kineto"]
    assert not folder.refresh()


def test_jobs_are_read_ahead_newest_first_and_again_when_they_change(write, tmp_path, monkeypatch):
    write("new/rank-0.json", 20)
    write("old/rank-0.json", 5)
    folder = looked(tmp_path)
    assert folder.next_unread().path == "new/rank-0.json"
    verdict = job_verdict([folder.next_unread().source])
    assert verdict["ranks"] == 1
    assert verdict["step_ns"] is None
    assert set(verdict["picture"]) == {"cpu"}
    folder.verdicts[folder.next_unread().key] = verdict
    assert [entry["verdict"] for entry in folder.to_json()] == [verdict, None]
    assert [entry["note"] for entry in folder.to_json()] == ["", "not read yet"]
    assert folder.next_unread().path == "old/rank-0.json"
    write("new/rank-0.json", 30)
    folder.refresh()
    assert folder.next_unread().path == "new/rank-0.json"
    monkeypatch.setattr(web, "MAX_VERDICT_BYTES", 10)
    assert folder.next_unread() is None
    assert folder.to_json()[0]["note"] == "larger than 0 MiB: read when it is opened"


def test_a_job_that_cannot_be_read_says_so(write, tmp_path):
    write("job/rank-0.json", 20)
    folder = looked(tmp_path)
    folder.verdicts[folder.next_unread().key] = None
    assert [entry["note"] for entry in folder.to_json()] == ["could not be read in advance"]


def test_a_picture_shows_when_ranks_work(tmp_path):
    work = [small.kernel(0, 400), small.nccl(300, 900), small.kernel(900, 1200)]
    picture = job_verdict([str(small.write(tmp_path, work))])["picture"]
    # 60 bins of 20 ns. Communication counts only while no kernel computes.
    assert picture["compute"] == [100] * 20 + [0] * 25 + [100] * 15
    assert picture["communication"] == [0] * 20 + [100] * 25 + [0] * 15


def test_a_process_of_its_own_reads_a_verdict(tmp_path, monkeypatch):
    write_demo(tmp_path / "job", ranks=2, steps=3, seed=0)
    # Modules in the folder of the traces must not be imported.
    (tmp_path / "pandas.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    verdict = asyncio.run(read_verdict([str(tmp_path / "job")]))
    assert verdict == job_verdict([str(tmp_path / "job")])
    assert verdict["step_ns"] == hw.analysis.step_times(hw.load("job"))["dur_ns"].median() // 1
    assert "rank" in verdict["text"].lower()
    assert asyncio.run(read_verdict([str(tmp_path / "nothing.json")])) is None


def test_a_verdicts_step_is_the_devices_if_the_host_is_ahead_of_it(tmp_path):
    """The host leaves three steps of 900 ns each; the device needs 10 µs for each."""
    events = []
    for step in range(3):
        at = 1_000 * step
        events += [
            small.event("user_annotation", f"ProfilerStep#{step}", at, at + 900, pid=10),
            small.call(at + 100, at + 200, step + 1),
            small.kernel(10_000 * (step + 1), 10_000 * (step + 2), launch=step + 1),
        ]
    small.write(tmp_path, events)
    assert job_verdict([str(tmp_path)])["step_ns"] == 10_000


def test_a_job_is_loaded_without_the_jobs_below_it(write, tmp_path):
    for name in ("rank-0.json", "rank-1.json", "old/rank-0.json", "old/rank-1.json"):
        write(name)
    folder = looked(tmp_path)
    assert sorted(listed(folder)) == [(".", 2), ("old", 2)]
    assert hw.load(folder.source("."), progress=False).ranks == [0, 1]
    assert folder.source("old") == str(tmp_path / "old")


@pytest.mark.parametrize(
    ("loose", "entries"),
    [
        (["alpha.json", "beta.json"], [("alpha.json", 1), ("beta.json", 1), ("run", 2)]),
        (["rank-2.json", "rank-10.json"], [(".", 2), ("run", 2)]),
    ],
)
def test_loose_files_next_to_jobs_are_files_unless_they_look_like_ranks(
    write, tmp_path, loose, entries
):
    for name in ("run/rank-0.json", "run/rank-1.json", *loose):
        write(name)
    assert sorted(listed(looked(tmp_path))) == entries


def test_workers_of_byteps_are_one_job(shared, tmp_path):
    [worker, *_] = sorted((shared / "traces/byteps").rglob("comm.json"))
    for gpu in range(2):
        (tmp_path / f"worker/{gpu}").mkdir(parents=True)
        shutil.copy(worker, tmp_path / f"worker/{gpu}/comm.json")
    folder = looked(tmp_path)
    assert listed(folder) == [("worker", 2)]
    assert folder.entries[0].formats == ["BytePS"]


@pytest.mark.parametrize("place", ["", "runs/first"])
def test_workers_and_servers_of_byteps_are_one_job(shared, tmp_path, place):
    job = tmp_path / place
    shutil.copytree(shared / "traces/byteps/emulated", job, dirs_exist_ok=True)
    folder = looked(tmp_path)
    assert listed(folder) == [(place or ".", 6)]
    [entry] = folder.entries
    assert entry.formats == ["BytePS", "BytePS server"]
    # 2 workers with 2 GPUs each, and 2 servers, as in truth.json
    assert len(hw.load(entry.source, progress=False)) == 6


@pytest.mark.parametrize("place", ["", "runs/first"])
def test_the_folders_of_the_ranks_of_ascend_are_one_job(shared, tmp_path, place):
    source = shared / "traces/profilers/ascend/text_level1"
    shutil.copytree(source, tmp_path / place, dirs_exist_ok=True)
    folder = looked(tmp_path)
    assert listed(folder) == [(place or ".", 2)]
    assert len(hw.load(folder.entries[0].source, progress=False)) == 2


def test_a_byteps_job_beside_other_jobs_stays_one_job(shared, write, tmp_path):
    shutil.copytree(shared / "traces/byteps/emulated", tmp_path, dirs_exist_ok=True)
    write("profiles/rank-0.json")
    write("profiles/rank-1.json")
    folder = looked(tmp_path)
    assert sorted(listed(folder)) == [(".", 6), ("profiles", 2)]
    assert len(hw.load(folder.source("."), progress=False)) == 6


def test_a_store_is_one_entry(write, tmp_path):
    hw.load(write("rank-0.json"), progress=False).save(tmp_path / "job.store")
    (tmp_path / "rank-0.json").unlink()
    folder = looked(tmp_path)
    [entry] = folder.entries
    assert (entry.path, entry.files) == ("job.store", 1)
    assert entry.bytes == sum(path.stat().st_size for path in (tmp_path / "job.store").iterdir())
    assert len(hw.load(folder.source("job.store"), progress=False)) == 1


def test_a_trace_that_comes_later_is_listed_when_it_is_written(write, tmp_path):
    write("a.json")
    folder = looked(tmp_path)
    write("b.json", 1, '{"traceEvents": [')
    assert not folder.refresh()
    write("b.json", 2)
    assert not folder.refresh()  # the file is still changing
    assert folder.refresh()
    assert listed(folder) == [("b.json", 1), ("a.json", 1)] or listed(folder) == [(".", 2)]
    (tmp_path / "a.json").unlink()
    assert folder.refresh()
    assert listed(folder) == [("b.json", 1)]
    shutil.rmtree(tmp_path)
    assert folder.refresh()
    assert folder.entries == []


@pytest.mark.parametrize(
    "path", ["../secret.json", "run/../../secret.json", "/etc/passwd", "", "run/", "nothing"]
)
def test_only_what_is_listed_can_be_opened(write, tmp_path, path):
    write("secret.json")
    write("jobs/run/rank-0.json")
    write("jobs/run/rank-1.json")
    write("jobs/a.json")
    offered = AllowedPaths([str(tmp_path / "jobs")], None)
    assert offered.source("run") == str(tmp_path / "jobs/run")
    assert offered.source("run/rank-1.json") == str(tmp_path / "jobs/run/rank-1.json")
    assert offered.source(path) is None
    assert offered.source(str(tmp_path / "secret.json")) is None


def test_what_a_page_opens_first(write, tmp_path):
    first, two = str(write("x/a.json")), str(write("x/b.json"))
    assert AllowedPaths([first], None).request == {"view": "dashboard", "paths": [first]}
    assert AllowedPaths([first, two], None).request == {"view": "dashboard", "paths": [first, two]}
    assert AllowedPaths([first], two).request == {"view": "diff", "paths": [first, two]}
    assert AllowedPaths([str(tmp_path / "x")], None).request == {
        "view": "dashboard",
        "paths": ["."],
    }
    write("y.json")
    assert AllowedPaths([str(tmp_path)], None).request is None
    assert AllowedPaths([first, two], None).title == "a.json, b.json"


def test_paths_that_are_not_there(tmp_path):
    with pytest.raises(hw.TraceError, match="does not exist"):
        AllowedPaths([str(tmp_path / "no")], None)


def test_pages_see_urls_without_their_secrets():
    urls = [f"https://me:s3cret@host/a/t.json?id={number}" for number in (1, 2)]
    offered = AllowedPaths(urls, None)
    names = offered.request["paths"]
    assert names == ["https://host/a/t.json", "https://host/a/t.json (2)"]
    assert [offered.source(name) for name in names] == urls
    assert offered.title == "t.json, t.json (2)"
    assert offered.source(urls[0]) is None
