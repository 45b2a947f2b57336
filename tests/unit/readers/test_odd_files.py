"""Odd files and links: each loads once or is refused at once, without affecting other files."""

import errno
import importlib
import io
import json
import os
import re
import socket
import sys
from pathlib import Path

import pytest
from fuzz.inputs import samples

import hta_widgets as hw
from hta_widgets.formats.kineto import reader
from hta_widgets.readers.discovery import find_files
from hta_widgets.readers.load import read_trace
from hta_widgets.store.files import MANIFEST

from .conftest import event

pytestmark = pytest.mark.slow

loading = importlib.import_module("hta_widgets.readers.load")  # not the function `load`
TRACE = json.dumps({"traceEvents": [event(), event("b", 5)]})


def load(source, **more):
    return hw.load(source, progress=False, **{"cache": False, **more})


@pytest.fixture
def tangle(write, tmp_path):
    """A folder with one trace that links lead to repeatedly, also in cycles."""
    write(TRACE, "job/run/rank-3.json")
    job = tmp_path / "job"
    (job / "run/up").symlink_to("..")
    (job / "again").symlink_to(".")
    (job / "latest").symlink_to("run")
    (job / "first.json").symlink_to("run/rank-3.json")
    (job / "second.json").hardlink_to(job / "run/rank-3.json")
    (job / "lost.json").symlink_to("nowhere")
    (job / "circle").symlink_to("circle")
    return job


@pytest.mark.parametrize(
    "source",
    [
        lambda job: job,
        lambda job: [job, job / "latest", job / "run/rank-3.json"],
        lambda job: [job / "first.json", job / "run/rank-3.json"],
        lambda job: f"{job}/**",
        lambda job: f"{job}/**/*.json",
        lambda job: f"{job}/*/**/*.json",
        lambda job: f"{job}/**/run/**/rank*",
        lambda job: f"{job}/*/*.json",
    ],
)
def test_what_links_lead_to_again_loads_once(tangle, source):
    assert len(load(source(tangle))) == 1


def test_a_folder_goes_by_its_own_name(tangle):
    (tangle / "second.json").unlink()
    assert load(tangle)[3].path == str(tangle / "run/rank-3.json")


def test_a_mapping_may_name_a_file_twice(write):
    path = write(TRACE)
    assert load({0: path, 5: path}).ranks == [0, 5]


def special(kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as single:
            single.bind(str(path))
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_other_things_than_files_are_refused_at_once(write, tmp_path, kind):
    path = special(kind, tmp_path)
    for source in (path, [path], {0: path}):
        with pytest.raises(hw.TraceError, match=f"is a {kind}, not a file"):
            load(source)
    write(TRACE, "rank-1.json")
    assert load(tmp_path).ranks == [1]
    traces = load(f"{tmp_path}/*.json")
    assert traces.ranks == [1]
    assert f"is a {kind}" in traces.problems["detail"].iloc[0]


def test_a_pipe_by_the_name_of_a_manifest(write, tmp_path):
    write(TRACE, "rank-1.json")
    os.mkfifo(tmp_path / MANIFEST)
    assert load(tmp_path).ranks == [1]


@pytest.mark.parametrize(
    "path",
    [
        "a" * 300,
        "a" * 5000,
        "/" + "a/" * 3000,
        "*" * 300,
        "a\0b",
        Path("a\0b"),
        b"a\0b",
        b"/nowhere",
        b"",
        "~not-a-user/x.json",
        7,
        1.5,
        object(),
    ],
)
def test_paths_that_cannot_be_opened(path):
    for source in (path, [path], {0: path}):
        with pytest.raises(hw.TraceError):
            load(source)


@pytest.mark.parametrize("rank", [-1, 1 << 31, 1 << 70, True, 1.5, "0", None])
def test_ranks_that_a_mapping_cannot_give(write, rank):
    with pytest.raises(hw.TraceError, match="is not a rank"):
        load({rank: write(TRACE)})


def test_bytes_are_a_path(write):
    path = os.fsencode(write(TRACE))
    for source in (path, [path], {0: path}):
        assert len(load(source)) == 1


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file to fail reading")
def test_a_file_that_cannot_be_read(write, tmp_path):
    write(TRACE, "rank-1.json")
    (tmp_path / "rank-2.json").symlink_to("/proc/self/mem")
    with pytest.raises(hw.TraceError, match="cannot be read: Input/output error"):
        load(tmp_path / "rank-2.json")
    traces = load(tmp_path)
    assert traces.ranks == [1]
    assert "Input/output error" in traces.problems["detail"].iloc[0]


def test_an_error_in_the_reader_costs_one_file(write, tmp_path, monkeypatch):
    good, bad = write(TRACE, "rank-1.json"), write(TRACE, "rank-2.json")
    real = reader.read_file

    def failing(path, **more):
        if path == str(bad):
            raise ZeroDivisionError("by design")
        return real(path, **more)

    monkeypatch.setattr(reader, "read_file", failing)
    traces = load(tmp_path)
    assert traces.ranks == [1]
    assert "ZeroDivisionError: by design" in traces.problems["detail"].iloc[0]
    with pytest.raises(hw.TraceError, match="by design"):
        load([good, bad])
    assert isinstance(read_trace(str(bad)).error.__cause__, ZeroDivisionError)


def test_other_contents_of_the_same_size_and_time_are_noticed(write):
    path = write(json.dumps({"traceEvents": [event("before", i) for i in range(90_000)]}))
    assert load(path, cache=True)[0].events["name"].iloc[0] == "before"
    before = path.stat()
    path.write_text(path.read_text().replace("before", "after!"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert load(path, cache=True)[0].events["name"].iloc[0] == "after!"


def test_file_names_that_are_not_text(tmp_path):
    folder = os.fsencode(tmp_path)
    Path(os.fsdecode(folder + b"/rank-4\xff\xed\xa0\x80.json")).write_text(TRACE)
    traces = load(tmp_path)
    assert traces.ranks == [4]
    hw.export_trace(traces, tmp_path / "rank-4")
    assert len(load(tmp_path / "rank-4")[4]) == 2
    assert load(traces.save(tmp_path / "rank-4.store")).ranks == [4]


class _Failing:
    """Fails one open or list operation in a folder, using Python's audit hook."""

    def __init__(self) -> None:
        self.folder, self.left = "", -1
        sys.addaudithook(self._called)  # audit hooks cannot be removed

    def at(self, folder, place):
        self.folder, self.left = str(folder), place

    def _called(self, name, arguments):
        is_watched = self.left >= 0 and name in {"open", "os.scandir", "os.listdir"}
        if is_watched and str(arguments[0]).startswith(self.folder):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO), arguments[0])


@pytest.fixture(scope="module")
def failing():
    return _Failing()


@pytest.fixture(scope="module", params=[*samples(), "store"])
def job(request, tmp_path_factory):
    """A job of each format, and a store."""
    folder = tmp_path_factory.mktemp("failing")
    for path, text in samples()["kineto" if request.param == "store" else request.param].items():
        (folder / "job" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "job" / path).write_bytes(text)
    return Path(load(folder / "job").save(folder / "store")) if request.param == "store" else (
        folder / "job")  # fmt: skip


def test_a_disk_that_fails_at_any_opening_is_an_error_or_a_problem(job, failing):
    def contents(traces):
        return traces.ranks, len(traces.events())

    full = contents(load(job))
    for place in range(1000):
        failing.at(job, place)
        try:
            traces = load(job)
            result, stated = contents(traces), str(traces.problems.to_dict("list"))
        except hw.TraceError as error:
            result, stated = None, str(error)
        finally:
            is_over, failing.left = failing.left >= 0, -1
        if is_over:
            return
        if result != full:
            assert "Input/output error" in stated, place
            assert str(job) in stated, place
    raise AssertionError("it opens files without end")


def test_a_disk_that_fails_while_it_is_read(job, monkeypatch):
    real = io.open

    class Torn(io.FileIO):
        def readinto(self, buffer):
            if self.tell() >= 64:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().readinto(memoryview(buffer)[:64])

    def opened(path, mode="r", buffering=-1, *more, **named):
        if "b" in mode and str(path).startswith(str(job)):
            return io.BufferedReader(Torn(path), 64)
        return real(path, mode, buffering, *more, **named)

    monkeypatch.setattr(io, "open", opened)
    file = rf"{re.escape(str(job))}[^:]*"
    stated = "cannot be read: Input/output error"
    with pytest.raises(hw.TraceError, match=rf"{file}: byte [\d,]+: {stated}"):
        load(job)


def test_a_file_in_a_thousand_nested_folders_is_found(tmp_path, request):
    folder = tmp_path
    for _ in range(1200):
        folder = folder / "d"
        folder.mkdir()
    # The tree cannot be removed recursively, just as it cannot be listed.
    request.addfinalizer(lambda: os.removedirs(folder))
    file = folder / "rank-0.json"
    file.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}')
    request.addfinalizer(file.unlink)
    assert hw.load(tmp_path)[0].path == str(file)
    assert len(hw.load(tmp_path / "**/rank-*.json")) == 1


def test_a_file_that_is_removed_after_the_listing_costs_no_other(write, tmp_path, monkeypatch):
    removed = write(TRACE, "job/rank-0.json")
    write(TRACE, "job/rank-1.json")

    def find_and_remove(*args):
        files = find_files(*args)
        removed.unlink(missing_ok=True)
        return files

    monkeypatch.setattr(loading, "find_files", find_and_remove)
    traces = load(tmp_path / "job")
    assert traces.ranks == [1]
    [skipped] = [problem for problem in traces.problem_list if problem.kind == "skipped"]
    assert skipped.file == str(removed)
    removed.write_text(TRACE)
    with pytest.raises(hw.TraceError, match="does not exist"):
        load(removed)


@pytest.mark.parametrize("name", ["~.trace.json", "~nobody-at-all.json", "~"])
def test_names_that_begin_with_a_tilde_are_no_homes(write, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(TRACE, name)
    path = f"./{name}" if name == "~" else name
    traces = load(path)
    assert len(traces[0]) == 2
    assert hw.export_trace(traces, f"out-{name}.json" if name == "~" else f"~out{name}").events == 2
