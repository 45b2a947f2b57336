"""A host on a pipe in a separate process, as editors start it."""

import contextlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets.host.session import pack, unpack

pytestmark = pytest.mark.slow


class Pipe:
    """A running host, and what was read from it."""

    def __init__(self, repo, *arguments):
        env = os.environ | {"PYTHONPATH": str(repo)}
        command = [sys.executable, "-m", "hta_widgets.host", *map(str, arguments)]
        ways = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, env=env, **ways)

    def put(self, **message):
        self.write(pack(message))

    def write(self, frame):
        self.process.stdin.write(struct.pack("<I", len(frame)) + frame)
        self.process.stdin.flush()

    def read(self):
        (size,) = struct.unpack("<I", self.process.stdout.read(4))
        return unpack(self.process.stdout.read(size))

    def next(self, kind):
        while True:
            message, buffers = self.read()
            if message["type"] == kind:
                return message, buffers


@pytest.fixture
def pipe(repo, built):
    started = []

    def start(*arguments):
        started.append(Pipe(repo, *arguments))
        return started[-1]

    yield start
    for item in started:
        item.process.kill()
        item.process.wait()
        for stream in (item.process.stdin, item.process.stdout, item.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    return str(write_job(folder, 1))


def test_a_page_opens_what_the_host_was_started_for(pipe, job):
    host = pipe(job)
    hello, _ = host.next("hello")
    assert hello["request"] == {"view": "dashboard", "paths": [job]}
    host.put(type="open", id=1, **hello["request"])
    states = []
    while True:
        message, _ = host.read()
        if message["type"] == "opened":
            break
        if message["type"] == "comm_open":
            states.append(message["data"]["state"])
    ranks = [item["rank"] for state in states for item in state.get("_scene", {}).get("ranks", [])]
    assert ranks == hw.load(job, progress=False, cache=False).ranks
    key = next(state["_esm"] for state in states if "_esm" in state)
    host.put(type="text", key=key)
    message, (text,) = host.next("text")
    assert message["key"] == key
    assert b"export" in bytes(text)


def test_no_other_file_can_be_opened(pipe, job, tmp_path):
    host = pipe(job)
    host.put(type="open", id=1, view="dashboard", paths=[str(tmp_path)])
    failed, _ = host.next("failed")
    assert failed["kind"] == "TraceError"
    assert failed["message"] == "is not among the files of this host"


def test_files_that_pages_write_are_named_by_where_they_are_kept(pipe, job):
    host = pipe(job)
    host.put(type="open", id=1, view="dashboard", paths=[job])
    model = host.next("opened")[0]["model"]
    content = {"rpc": "1", "op": "save_html", "path": "page.html"}
    host.put(type="comm_msg", comm=model, data={"method": "custom", "content": content})
    while True:
        data = host.next("comm_msg")[0]["data"]
        if data["method"] == "custom" and data["content"].get("rpc") == "1":
            break
    reply = data["content"]["reply"]
    assert reply["path"] == "page.html"
    with Path(reply["download"]).open("rb") as file:
        assert file.read(15) == b"<!doctype html>"
    host.process.stdin.close()
    assert host.process.wait(20) == 0
    assert not Path(reply["download"]).exists()


@pytest.mark.parametrize("garbage", [b"\x01", struct.pack("<I", 9) + b"not JSON.", b"\xff" * 4])
def test_the_end_of_its_input_or_other_bytes_end_the_host(pipe, job, garbage):
    host = pipe(job)
    host.next("hello")
    host.process.stdin.write(garbage)
    host.process.stdin.close()
    assert host.process.wait(20) == 0


def test_a_load_ends_with_the_input(pipe, tmp_path):
    fifo = tmp_path / "endless.trace.json"
    fifo.write_text(
        '{"traceEvents": [' + '{"ph": "i", "name": "x", "ts": 1, "pid": 1, "tid": 1},' * 2_000_000
    )
    host = pipe(fifo)
    host.put(type="open", id=1, view="dashboard", paths=[str(fifo)])
    host.next("progress")
    host.process.stdin.close()
    assert host.process.wait(20) == 0
