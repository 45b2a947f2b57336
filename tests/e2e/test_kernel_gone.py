"""Replies in a live view while its kernel is unresponsive, shut down or dead."""

import os
import signal
import subprocess

import pytest
from playwright.sync_api import expect
from support.examples import only_in_all
from support.random_job import write_job

CELL = """
import os, signal, threading, time
from functools import partial
import anywidget
import hta_widgets as hw
from hta_widgets.export.pages.page import OfflineData, embed
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.live.operations import serve

traces = hw.load({job!r}, progress=False, cache=False)
tiles, panels = TileEngine(traces), PanelEngine(traces)
offline = OfflineData(partial(embed, tiles, tiles.scene(), dict()))

def answer(request):
    if request["op"] == "offline":
        return offline.chunk(request.get("chunk"))
    return (panels if request["op"] == "panels" else tiles).answer(request)

class Probe(anywidget.AnyWidget):
    _esm = open({module!r}).read()

probe = Probe()
serve(probe, answer)
probe
"""
ASK = "([op, request]) => liveProbe.ask(op, request)"
PANELS = ["panels", {"panels": ["breakdown", "kernels"], "selection": {"ranks": [1]}}]
LANES = ["stats", {"start": 0, "end": 1_000_000}]


@pytest.fixture
def probe(repo, tmp_path):
    """Return a cell that shows a live probe of a small job."""
    if not (repo / "node_modules" / "esbuild").is_dir():
        pytest.skip("the front end's packages are not installed (`make setup` does it)")
    module = tmp_path / "probe.js"
    source = repo / "tests" / "support" / "live_probe.ts"
    build = [str(repo / "node_modules/.bin/esbuild"), str(source)]
    options = ["--bundle", "--format=esm", f"--outfile={module}", "--log-level=error"]
    subprocess.run([*build, *options], check=True, cwd=repo)
    folder = tmp_path / "job"
    folder.mkdir()
    job = str(write_job(folder, 1))
    return CELL.format(job=job, module=str(module))


def state(page):
    return page.evaluate("liveProbe.state()")


def holding_data(page):
    """Return the kernel's replies, then let the page download the job."""
    expect(page.get_by_text("live probe")).to_be_visible()
    assert state(page) == {"status": "live", "holds": "nothing"}
    replies = [page.evaluate(ASK, requested)["reply"] for requested in (PANELS, LANES)]
    page.evaluate("liveProbe.fetch()")
    page.wait_for_function("liveProbe.state().holds === 'all'", timeout=60_000)
    return replies


def answers_alone(page, known):
    """Check that the page gives the same replies at once, without the kernel."""
    for requested, reply in zip((PANELS, LANES), known, strict=True):
        assert page.evaluate(ASK, requested)["reply"] == reply


def test_a_stopped_kernel_and_one_that_is_shut_down(notebook, kernel, probe):
    page = notebook(probe)
    expected = holding_data(page)
    # Newer kernels reply while a cell is running.
    process = kernel.value("os.getpid()")
    os.kill(process, signal.SIGSTOP)
    try:
        answers_alone(page, expected)
    finally:
        os.kill(process, signal.SIGCONT)

    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    # A kernel sends nothing when it is shut down. The page notices at the next request.
    page.wait_for_function(
        "async () => { await liveProbe.ask('stats', { start: 0, end: 9 });"
        " return liveProbe.state().status === 'none' }"
    )
    answers_alone(page, expected)


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("fixture", ["notebook", pytest.param("notebook7", marks=only_in_all)])
def test_a_kernel_that_died(request, fixture, kernel, probe):
    page = request.getfixturevalue(fixture)(probe)
    expected = holding_data(page)
    kernel("threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()")
    # JupyterLab starts another kernel, without this view.
    page.wait_for_function("liveProbe.state().status === 'none'", timeout=60_000)
    answers_alone(page, expected)
    # A server cannot end a kernel that is about to start.
    page.wait_for_function(
        "jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'",
        timeout=60_000,
    )
