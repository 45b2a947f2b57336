"""Every writer leaves a complete file or the previous one, and names the failure."""

import errno
import os
import signal
from pathlib import Path

import pandas as pd
import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets import charts, files
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.export.traces.files import export_pair
from hta_widgets.files import write_table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 3, 2, 60), cache=False, progress=False)


@pytest.fixture(scope="module")
def timeline(traces):
    return hw.Timeline(traces)


#: A file name and its writer.
WRITERS = {
    "export": ("a.json", lambda one, path: hw.export_trace(one.traces, path)),
    "gzip": ("a.json.gz", lambda one, path: hw.export_trace(one.traces, path, scrub=True)),
    "directory": ("a", lambda one, path: hw.export_trace(one.traces, path)),
    "pair": ("a.json", lambda one, path: export_pair(one.traces, one.traces, path)),
    "page": ("a.html", lambda one, path: one.save_html(path)),
    "picture": ("a.svg", lambda one, path: one.to_svg(path)),
    "csv": ("a.csv", lambda one, path: write_table(one.traces.events(), path)),
    "csv.gz": ("a.csv.gz", lambda one, path: write_table(one.traces.events(), path)),
    "parquet": ("a.parquet", lambda one, path: write_table(one.traces.events(), path)),
    "store": ("a.store", lambda one, path: one.traces.save(path)),
    "chart": (
        "a.html",
        lambda one, path: charts.to_html(
            charts.kernel_breakdown(hw.analysis.kernel_breakdown(one.traces)), path
        ),
    ),
}


@pytest.fixture(params=WRITERS)
def writer(request, timeline, tmp_path):
    """A folder, the name of the file written there, and a function that writes it."""
    folder = tmp_path / "out"
    folder.mkdir()
    name, write = WRITERS[request.param]
    return folder, name, lambda: write(timeline, folder / name)


def contents(folder):
    return {
        str(item.relative_to(folder)): item.read_bytes()
        for item in folder.rglob("*")
        if item.is_file()
    }


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_leaves_what_was_there(writer, monkeypatch, is_there):
    resource = pytest.importorskip("resource")
    folder, name, write = writer
    if is_there:
        write()
    before = contents(folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(hw.TraceError, match=r"cannot be written: .*File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with monkeypatch.context() as patch:
        for call in ("replace", "rename"):
            patch.setattr(files.Path, call, full)
        with pytest.raises(hw.TraceError, match=r"a\b.*No space left.* Free some space"):
            write()
    assert contents(folder) == before
    assert [item.name for item in folder.iterdir()] == ([name] if is_there else [])


@pytest.mark.parametrize("write", [write_demo, write_mpi_job, write_byteps_job])
def test_a_full_disk_leaves_a_demo_job(write, tmp_path):
    resource = pytest.importorskip("resource")
    write(tmp_path / "job", steps=1)
    before = contents(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(hw.TraceError, match=r"cannot be written: .*File too large"):
            write(tmp_path / "job", steps=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(tmp_path) == before
    with pytest.raises(hw.TraceError, match="cannot be written"):
        write(next(tmp_path.rglob("*.*")) / "below a file", steps=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_kill_leaves_what_was_there(writer, is_there):
    folder, name, write = writer
    if is_there:
        write()
    before = contents(folder)
    child = os.fork()
    if not child:
        for call in ("replace", "rename"):
            setattr(Path, call, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        write()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    left = contents(folder)
    assert {path: text for path, text in left.items() if ".part" not in path} == before
    assert len(left) > len(before)
    write()
    assert [item.name for item in folder.iterdir()] == [name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kill_at", [1, 2, 3, 4, 5])
def test_a_kill_does_not_mix_the_ranks_of_two_exports(traces, tmp_path, kill_at):
    folder = tmp_path / "job"
    hw.export_trace(traces, folder)
    (folder / "notes.txt").write_text("mine")
    old = contents(folder)
    hw.export_trace(traces, tmp_path / "new", "dur_ns > 3")
    new = contents(tmp_path / "new") | {"notes.txt": b"mine"}
    child = os.fork()
    if not child:
        calls = iter(range(1, 100))
        for name in ("replace", "rename", "unlink"):
            move = getattr(Path, name)

            def move_or_die(path, *args, move=move):
                if next(calls) == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return move(path, *args)

            setattr(Path, name, move_or_die)
        hw.export_trace(traces, folder, "dur_ns > 3")
        os._exit(0)
    os.waitpid(child, 0)
    left = contents(folder)
    assert left in (old, new, {}) or left | {"notes.txt": b"mine"} == new
    assert b"mine" in contents(tmp_path).values()


def test_links_are_not_followed_and_the_mask_is_not_touched(writer, tmp_path, monkeypatch):
    folder, name, write = writer
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir() if name in {"a", "a.store"} else elsewhere.write_text("kept")
    (folder / name).symlink_to(elsewhere)
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("changed the mask"))
    if elsewhere.is_dir():
        with pytest.raises(hw.TraceError, match="is a link"):
            write()
        assert not list(elsewhere.iterdir())
    else:
        write()
        assert elsewhere.read_text() == "kept"
        assert not (folder / name).is_symlink()
        assert (folder / name).stat().st_mode == elsewhere.stat().st_mode


@pytest.mark.parametrize(
    "bad", ["nowhere/a", "x" * 300, "zero\0byte", "~no such user/a", "pipe", "folder", b"\xff\0", 5]
)
def test_places_that_are_no_files(timeline, tmp_path, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    for suffix in (".json", ".html", ".svg", ".csv", ".store"):
        path = bad if isinstance(bad, int) else bad + (suffix if isinstance(bad, str) else b".csv")
        if bad == "pipe":
            os.mkfifo(path)
        elif bad == "folder":
            Path(path).mkdir()
            Path(path, "file").touch()
        write = next(write for name, write in WRITERS.values() if name == f"a{suffix}")
        if (bad, suffix) == ("nowhere/a", ".store"):
            continue  # this writer creates folders
        with pytest.raises(hw.TraceError):
            write(timeline, path)


MORE_FORMULAS = ["\n=1+1", "\n", " \r\n +1", "\uff1d1+1", "\u2003\uff20a", "\uff0b1", "\uff0d1"]


def test_formulas_in_tables_are_text(tmp_path):
    frame = pd.DataFrame(
        {"name": ["=1+1", "+a", "-a", "@a", "\ta", "\ra", *MORE_FORMULAS, "a", ""], "n": -1}
    )
    for name in ("a.csv", "a.csv.gz", "b.CSV.GZ"):
        read = pd.read_csv(write_table(frame, tmp_path / name), keep_default_na=False)
        assert read["name"].str.startswith("'").tolist() == [True] * (len(frame) - 2) + [False] * 2
        assert read["n"].tolist() == [-1] * len(frame)
    assert frame["name"][0] == "=1+1"
