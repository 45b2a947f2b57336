"""Data for a page that outlives its kernel: prepared in the background, sent in chunks."""

import base64
import gzip
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets.export.pages import page as live
from hta_widgets.export.pages.page import OfflineData, embed
from hta_widgets.live.background import BackgroundTask, deadline_after
from hta_widgets.live.job import PanelEngine, TileEngine

pytestmark = pytest.mark.slow

#: Functions registered first run last.
EXIT = """
import atexit, sys
atexit.register(lambda: print(view._offline.join(0), background._queue.unfinished_tasks))
import hta_widgets as hw
from hta_widgets.live import background
from hta_widgets.trace.memo import raise_if_cancelled
view = getattr(hw, sys.argv[1])(*sys.argv[2:])
def compute():
    while True:
        raise_if_cancelled()
if {is_answering}:
    background.BackgroundTask(compute).wait_until(0)
print(view._offline.chunk()[0]["state"], flush=True)
"""


def offline_of(engine, make=embed, **options):
    return OfflineData(partial(make, engine, engine.scene(), {}), **options)


@pytest.fixture
def engine(tmp_path):
    return TileEngine(hw.load(write_job(tmp_path, 1), progress=False, cache=False))


def test_all_that_a_saved_page_holds(engine, monkeypatch):
    monkeypatch.setattr(live, "CHUNK_BYTES", 1000)
    offline = offline_of(engine)
    assert offline.join(60)
    text, buffer = offline.chunk()
    assert (text["state"], buffer) == ("ready", None)
    chunks = [offline.chunk(k)[1] for k in range(text["chunks"])]
    assert [len(chunk) for chunk in chunks[:-1]] == [1000] * (text["chunks"] - 1)
    content = b"".join(chunks)
    assert len(content) == text["bytes"] > 2000
    blocks = {name: content[at : at + size] for name, (at, size) in text["blocks"].items()}
    full = embed(engine, engine.scene(), {}, 25e6)
    assert {block.name: base64.b64decode(block.text) for block in full.blocks} == {
        name: block for name, block in blocks.items() if name != "document"
    }
    document = json.loads(gzip.decompress(blocks["document"]))
    assert document["scene"]["embedded"]["level"] == "all"
    assert [rank["rank"] for rank in document["ranks"]] == engine.traces.ranks
    with pytest.raises(
        ValueError, match=f"unknown chunk {text['chunks']}: the page has {text['chunks']}"
    ):
        offline.chunk(text["chunks"])


@pytest.mark.parametrize("max_mb", [25, 0.02], ids=["all events", "overviews"])
def test_answers_to_pages_come_first(engine, max_mb):
    is_prepared = []
    released = threading.Event()
    answer = BackgroundTask(lambda: released.wait(60) and is_prepared.append(offline.join(0.5)))
    assert not answer.wait_until(deadline_after(0))
    offline = offline_of(engine, max_mb=max_mb)
    released.set()
    assert answer.wait_until(deadline_after(60_000))
    assert is_prepared == [False]
    assert offline.join(60)


def test_no_more_than_asked_for(tmp_path):
    engine = TileEngine(hw.load(write_job(tmp_path, 1, events=3000), progress=False, cache=False))
    offline = offline_of(engine, max_mb=0.08)
    assert offline.join(60)
    full = offline_of(engine)
    assert full.join(60)
    few, all_ = offline.chunk()[0], full.chunk()[0]
    assert few["bytes"] <= 80_000 < all_["bytes"]


def test_answers_while_it_works(engine):
    go_on = threading.Event()

    def held_up(*arguments):
        go_on.wait(60)
        return embed(*arguments)

    offline = offline_of(engine, held_up)
    assert offline.chunk() == ({"state": "preparing"}, None)
    assert offline.chunk() == ({"state": "preparing"}, None)
    with pytest.raises(ValueError, match="unknown chunk 0: the page has 0"):
        offline.chunk(0)
    go_on.set()
    assert offline.join(60)
    assert offline.chunk()[0]["state"] == "ready"


def test_says_why_it_fails(engine):
    def broken(*_):
        raise OSError("the disk is full")

    offline = offline_of(engine, broken)
    assert offline.join(60)
    text = {"state": "failed", "message": "the disk is full"}
    assert offline.chunk() == (text, None)


def test_panels_answer_beside_it(tmp_path):
    traces = hw.load(write_job(tmp_path, 1, ranks=3), progress=False, cache=False)
    engine, panels = TileEngine(traces), PanelEngine(traces)
    failures = []

    def brush(first):
        start = first
        try:
            while not offline.join(0):
                start += 12
                selection = {"start_ns": start * 1000, "end_ns": start * 1000 + 10**5}
                panels.answer({"op": "panels", "panels": ["breakdown"], "selection": selection})
        except Exception as error:  # noqa: BLE001 - whatever a thread fails with
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        offline = offline_of(engine)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(brush, range(4)))
        assert offline.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
    assert offline.chunk()[0]["state"] == "ready"


@pytest.mark.parametrize("is_answering", [False, True], ids=["alone", "behind an answer"])
@pytest.mark.parametrize("view", ["Dashboard", "TraceDiff"])
def test_the_interpreter_ends_while_it_works(tmp_path, view, is_answering):
    job = str(write_job(tmp_path, 1, ranks=3, events=3000))
    paths = [job] if view == "Dashboard" else [job, job]
    command = [sys.executable, "-c", EXIT.format(is_answering=is_answering), view, *paths]
    end = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (end.returncode, end.stderr) == (0, "")
    assert end.stdout.split("\n") == ["preparing", "True 0", ""]
