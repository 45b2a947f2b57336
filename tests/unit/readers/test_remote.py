"""Traces on other file systems: through fsspec, and on a local web server."""

import builtins
import contextlib
import errno
import functools
import http.client
import http.server
import os
import threading
import time
from pathlib import Path

import pytest
from support.random_job import write_job
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets.readers import cache, web as http_module

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
    """Serve the files in tmp_path; return the URL and the list of requests."""
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            requests.append((self.command, self.path))

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", requests
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def job(tmp_path):
    (tmp_path / "job").mkdir()
    return write_job(tmp_path / "job", 1, 2, 40, 4)


def renamed(traces, old, new):
    """Return the summary and the problems, with file names changed to the other file system."""
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
        traces = hw.load(url, cache=kept)
        summary, problems = renamed(local, str(job), "memory://bucket/job")
        assert traces.summary().equals(summary)
        assert traces.problems.equals(problems)
        assert traces.events().equals(local.events())
        assert traces[1].args(3) == local[1].args(3)
    single = hw.load(["memory://bucket/job/rank-1.json"], cache=kept)
    assert single.summary()["file"].tolist() == ["memory://bucket/job/rank-1.json"]
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
    url, requested = web
    write([event("over the net", args={"i": 1})], "rank-3/trace.json.gz")
    traces = hw.load(f"{url}/rank-3/trace.json.gz")
    assert traces.ranks == [3]
    assert traces[3].args(0) == {"i": 1}
    assert traces[3].path == f"{url}/rank-3/trace.json.gz"
    hw.load(f"{url}/rank-3/trace.json.gz")
    assert [command for command, _ in requested] == ["HEAD", "GET", "HEAD"]
    with pytest.raises(hw.TraceError, match=r"/none\.json: the server answered 404"):
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
    read, sizes = http.client.HTTPResponse.read1, []

    def failing(reply, size=-1):
        sizes.append(size)
        if len(sizes) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(reply, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_module, "_BLOCK_BYTES", 1000)
        patch.setattr(http.client.HTTPResponse, "read1", failing)
        at = rf"{url}/rank-3\.json: rank-3\.json, byte 1,000: .*Input/output error"
        with pytest.raises(hw.TraceError, match=at):
            hw.load(f"{url}/rank-3.json")
    assert len(hw.load(f"{url}/rank-3.json")[3]) == 3000


def test_urls_that_the_library_refuses_are_refused(web):
    url, _ = web
    for path in ("/a b.json", "/a\nb.json", "/\x7f.json"):
        with pytest.raises(hw.TraceError):
            hw.load(url + path)
    bad = (
        "http://[x",
        "http://h:port/a.json",
        "https://h:99999/a",
        "s3://[x",
        "http://",
        "file://[x",
    )
    for url in bad:
        with pytest.raises(hw.TraceError):
            hw.load(url)


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


SECRETS = ("s3cret", "4f2a9c1d77e0")


def has_secret(text):
    return any(secret in str(text) for secret in SECRETS)


def test_secrets_of_a_url_are_nowhere(web, write, tmp_path):
    url, requested = web
    write([event("gemm", cat="kernel", pid=0, tid=7)], "job/rank-3.json")
    signed = (
        url.replace("://", "://me:s3cret@")
        + "/job/rank-3.json?X-Amz-Signature=4f2a9c1d77e0#4f2a9c1d77e0"
    )
    traces = hw.load(signed)
    assert ("GET", "/job/rank-3.json?X-Amz-Signature=4f2a9c1d77e0") in requested
    assert traces[3].path == f"{url}/job/rank-3.json"
    assert not has_secret(traces.summary().to_csv() + traces.problems.to_csv() + repr(traces))
    view = hw.Timeline(traces)
    outputs = [view.save_html(tmp_path / "page.html"), view.to_svg(tmp_path / "picture.svg")]
    outputs.append(f"{traces.save(tmp_path / 'job.store')}/store.json")
    outputs.append(hw.export_trace(traces, tmp_path / "part.json").path)
    assert not any(has_secret(Path(path).read_text("utf-8")) for path in outputs)
    result = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")]
    assert not has_secret(result)


@pytest.mark.parametrize("scheme", ["http", "memory", "sftp", "nosuch", "s3", "HTTPS"])
def test_errors_do_not_repeat_secrets(scheme):
    with pytest.raises(hw.TraceError) as error:
        hw.load(f"{scheme}://me:s3cret@127.0.0.1:9/job/t.json?sig=4f2a9c1d77e0")
    assert not has_secret([str(error.value), repr(error.value), error.value.path])


def test_errors_of_libraries_do_not_repeat_secrets():
    error = hw.TraceError(
        "failed for url: https://me:s3cret@host/a/t.json?sig=4f2a9c1d77e0 at 'http://h/y?z'"
    )
    assert error.message == "failed for url: https://host/a/t.json at 'http://h/y'"


@pytest.fixture
def serve():
    """Return a function that starts a server with a GET handler and returns its URL."""
    servers = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

        Handler.do_GET = Handler.do_HEAD = answer
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def endless(block, pause_s=0.0):
    """Return a handler that sends a block repeatedly until the client disconnects."""

    def answer(handler):
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(block)
                time.sleep(pause_s)

    return answer


def test_a_manifest_without_end_is_refused(serve, monkeypatch):
    monkeypatch.setattr(http_module, "_MAX_MANIFEST_BYTES", 1 << 20)
    with pytest.raises(hw.TraceError, match=r"/job/store\.json: is larger than 1 MB"):
        hw.load(serve(endless(b" " * 65_536)) + "/job")


@pytest.mark.parametrize("name", ["job", "rank-0.json"])
def test_a_server_that_hardly_sends_is_given_up(serve, monkeypatch, name):
    monkeypatch.setattr(http_module, "_TIMEOUT_S", 0.1)
    with pytest.raises(hw.TraceError, match=rf"/{name}.*the server has sent [\d,]+ bytes in"):
        hw.load(f"{serve(endless(b' ', 0.02))}/{name}")


def trickle_headers(handler):
    with contextlib.suppress(OSError):
        for byte in b"HTTP/1.1 200 OK\r\nX-Trace: " + b"x" * 1000 + b"\r\n\r\n":
            handler.wfile.write(bytes([byte]))
            time.sleep(0.02)


def trickle_chunks(handler):
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"1;extension=1\r\n \r\n")
            time.sleep(0.1)


@pytest.mark.parametrize("answer", [trickle_headers, trickle_chunks])
@pytest.mark.parametrize("name", ["job", "rank-0.json"])
def test_a_reply_that_comes_byte_by_byte_is_given_up(serve, monkeypatch, answer, name):
    monkeypatch.setattr(http_module, "_TIMEOUT_S", 0.2)
    with pytest.raises(hw.TraceError, match=r"the server has sent [\d,]+ bytes in \d+ s"):
        hw.load(f"{serve(answer)}/{name}")


def test_headers_without_end_are_refused(serve):
    def answer(handler):
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    with pytest.raises(hw.TraceError, match="bytes of headers"):
        hw.load(serve(answer) + "/rank-0.json")


def test_what_a_redirect_sends_is_not_read(serve):
    sent = []

    def answer(handler):
        handler.send_response(302 if handler.path == "/t.json" else 404)
        handler.send_header("Location", "/other.json")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while handler.path == "/t.json" and len(sent) < 200:
                sent.append(handler.wfile.write(b" " * (1 << 20)))

    with pytest.raises(hw.TraceError, match="answered 404"):
        hw.load(serve(answer) + "/t.json")
    assert len(sent) < 100


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/t.json", "file:///etc/hostname"])
def test_redirects_to_other_protocols_are_refused(serve, target):
    def answer(handler):
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.end_headers()

    with pytest.raises(hw.TraceError, match="answered 302"):
        hw.load(serve(answer) + "/t.json")


def test_a_password_is_not_sent_to_the_target_of_a_redirect(serve):
    headers = []

    def answer(handler):
        headers.append(handler.headers["Authorization"])
        handler.send_response(302 if handler.path == "/t.json" else 404)
        handler.send_header("Location", "/other.json")
        handler.end_headers()

    with pytest.raises(hw.TraceError, match="answered 404"):
        hw.load(serve(answer).replace("://", "://me:pass%20word@") + "/t.json")
    assert headers == ["Basic bWU6cGFzcyB3b3Jk", None]


def test_the_setting_of_steps_is_ignored_for_remote_files_of_other_formats(web, job, monkeypatch):
    monkeypatch.setattr(hw.options, "steps", "step.*")
    url, _ = web
    name = min(Path(job).rglob("*.json*")).relative_to(Path(job).parent).as_posix()
    assert hw.load(f"{url}/{name}").formats == ["kineto"]
    with pytest.raises(hw.TraceError, match="steps= is for"):
        hw.load(f"{url}/{name}", steps="step.*")
