"""Traces that lie elsewhere: behind fsspec, and on a web server on loopback."""

import builtins
import errno
import functools
import http.client
import http.server
import os
import threading
from pathlib import Path

import pytest
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets.readers import cache, discovery

from .conftest import event


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "the cache"))


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


@pytest.fixture
def web(tmp_path):
    """Return the URL of a server of the files in tmp_path, and the list of its requests."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append((self.command, self.path))

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job").mkdir()
    return write_job(tmp_path / "job", 1, 2, 40, 4)


def renamed(traces, old, new):
    """The set, with its files called as they are elsewhere."""
    problems = traces.problems
    summary = traces.summary()
    for frame in (problems, summary):
        frame["file"] = frame["file"].map(lambda file: file.replace(old, new)).astype(object)
    return summary, problems


@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_a_pattern_and_a_file(memory, job, kept):
    memory.put(str(job), "/bucket/job", recursive=True)
    local = hw.load(job, cache=False)
    for url in ("memory://bucket/job", "memory://bucket/job/rank-*.json"):
        found = hw.load(url, cache=kept)
        summary, problems = renamed(local, str(job), "memory://bucket/job")
        assert found.summary().equals(summary)
        assert found.problems.equals(problems)
        assert found.events().equals(local.events())
        assert found[1].args(3) == local[1].args(3)
    one = hw.load(["memory://bucket/job/rank-1.json"], cache=kept)
    assert one.summary()["file"].tolist() == ["memory://bucket/job/rank-1.json"]
    assert hw.load({5: "memory://bucket/job/rank-1.json"}, cache=kept).ranks == [5]
    assert cache.folder().is_dir() == kept


def test_a_file_that_changed_is_copied_again(memory):
    for name in ("before", "behind it"):
        memory.pipe("/t.json", b'[{"ph": "X", "name": "%s", "ts": 1, "dur": 1}]' % name.encode())
        assert hw.load("memory://t.json").events()["name"].tolist() == [name]


def test_what_is_not_there(memory):
    memory.pipe("/bad.json", b"\x89PNG")
    with pytest.raises(hw.TraceError, match=r"memory://nowhere: does not exist"):
        hw.load("memory://nowhere")
    with pytest.raises(hw.TraceError, match=r"memory://bad\.json: is a PNG image"):
        hw.load("memory://bad.json")
    with pytest.raises(hw.TraceError, match=r"cannot be opened .*nosuch"):
        hw.load("nosuch://bucket/t.json")


def test_packages_that_are_missing_are_named(monkeypatch):
    original = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] in blocked:
            raise ImportError(f"Install {name}")
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    blocked = {"fsspec"}
    with pytest.raises(hw.TraceError, match=r"s3:// needs fsspec. pip install fsspec s3fs"):
        hw.load("s3://bucket/t.json")
    blocked = {"gcsfs"}
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(hw.TraceError, match=r"gs:// needs gcsfs. pip install gcsfs"):
        hw.load("gs://bucket/t.json")


def test_a_web_server(web, write):
    url, asked = web
    write([event("over the net", args={"i": 1})], "rank-3/trace.json.gz")
    found = hw.load(f"{url}/rank-3/trace.json.gz")
    assert found.ranks == [3]
    assert found[3].args(0) == {"i": 1}
    assert found[3].path == f"{url}/rank-3/trace.json.gz"
    hw.load(f"{url}/rank-3/trace.json.gz")
    assert [command for command, _ in asked] == ["HEAD", "GET", "HEAD"]
    with pytest.raises(hw.TraceError, match=r"/none\.json: the server answers 404"):
        hw.load(f"{url}/none.json")
    with pytest.raises(hw.TraceError, match="cannot be reached"):
        hw.load("http://127.0.0.1:9/t.json")


def test_a_download_that_ends_early_is_refused(web, write, monkeypatch):
    url, _ = web
    write([event("over the net")] * 3000, "rank-3.json")
    copied = http.server.SimpleHTTPRequestHandler.copyfile
    cut = lambda _, source, to: to.write(source.read(100_000))  # noqa: E731
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "copyfile", cut)
    with pytest.raises(hw.TraceError, match=r"rank-3\.json: .*ended [\d,]+ bytes early"):
        hw.load(f"{url}/rank-3.json")
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "copyfile", copied)
    assert len(hw.load(f"{url}/rank-3.json")[3]) == 3000


def test_a_download_that_fails_in_the_middle(web, write):
    url, _ = web
    write([event("over the net")] * 3000, "rank-3.json")
    read, sizes = http.client.HTTPResponse.read, []

    def failing(reply, size=None):
        sizes.append(size)
        if len(sizes) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(reply, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "_BLOCK_BYTES", 1000)
        patch.setattr(http.client.HTTPResponse, "read", failing)
        at = rf"{url}/rank-3\.json: rank-3\.json, byte 1,000: .*Input/output error"
        with pytest.raises(hw.TraceError, match=at):
            hw.load(f"{url}/rank-3.json")
    assert len(hw.load(f"{url}/rank-3.json")[3]) == 3000


def test_urls_that_the_library_refuses_are_refused(web):
    url, _ = web
    for path in ("/a b.json", "/a\nb.json", "/\x7f.json"):
        with pytest.raises(hw.TraceError):
            hw.load(url + path)


def test_stores_elsewhere(web, memory, job, tmp_path):
    url, _ = web
    traces = hw.load(job, cache=False)
    store = Path(traces.save(tmp_path / "job.store"))
    memory.put(str(store), "/job.store", recursive=True)
    assert_same(traces, hw.load(f"{url}/job.store"))
    assert_same(traces, hw.load("memory://job.store"))


def test_copies_from_elsewhere_go_with_the_others(memory):
    memory.pipe("/t.json", b'[{"ph": "X", "name": "op", "ts": 1, "dur": 1}]')
    hw.load("memory://t.json")
    assert cache.info().size_bytes > 0
    cache.clear()
    assert cache.info().size_bytes == 0
