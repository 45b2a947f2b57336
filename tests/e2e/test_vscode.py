"""The VS Code extension in a real editor: code-server in Chromium."""

import gzip
import io
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
from playwright.sync_api import expect
from support.browser import wait_until, wheel
from support.dashboard import GUTTER, HEAD, Dash
from support.editor import ENTRY, Editor, built_extension, code_server

import hta_widgets as hw
from hta_widgets.demo.job import write_demo

FILE = "rank-5.pt.trace.json.gz"
#: Hosts that the editor itself contacts: its marketplace, and a name served by its service worker.
WORKBENCH = re.compile(r"open-vsx\.org$|vscode-cdn\.net$")


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    if not ENTRY.exists():
        pytest.skip("no code-server in .tools (`make interop` installs it where it can be built)")
    return built_extension(tmp_path_factory.mktemp("vsix"))


@pytest.fixture(scope="module")
def files(tmp_path_factory, folder):
    """A folder with one rank, two runs, a truncated file and a module that must not be imported."""
    root = tmp_path_factory.mktemp("vscode") / "traces"
    shutil.copytree(folder, root / "before")
    write_demo(root / "after", ranks=8, steps=3, seed=0, changes=["slow_operator"])
    shutil.copy(folder / "rank-5.trace.json.gz", root / FILE)
    (root / "cut off.trace.json").write_text('{"traceEvents": [7, ')
    (root / "json.py").write_text("raise SystemExit('imported from the folder of the trace')\n")
    return root


@pytest.fixture(scope="module")
def server(tmp_path_factory, extension, files):
    with code_server(tmp_path_factory.mktemp("code"), extension, files) as url:
        yield url


class EditorDash(Dash):
    """A dashboard in an editor, which saves files through the editor's dialog."""

    def __init__(self, editor: Editor, traces, folder) -> None:
        self.editor, self.folder, self.saves = editor, folder, 0
        super().__init__(editor.page, traces, editor.view().locator(".hta-dash"))

    def numbers(self, name):
        self.ready(name)
        self.panel(name).get_by_role("button", name=re.compile("save, copy, hide")).click()
        self.root.locator(".hta-menu-item").get_by_text("Save as CSV").click()
        self.saves += 1
        written = self.editor.save_to(self.folder / f"{name}-{self.saves}.csv")
        return pd.read_csv(io.StringIO(written.decode()))


@pytest.fixture
def editor(server, new_context):
    context = new_context()
    requests = []
    context.on("request", lambda request: requests.append(urlsplit(request.url)))
    page = context.new_page()
    single = Editor(page, server, FILE)
    yield single
    hosts = {url.hostname for url in requests if url.scheme in {"http", "https", "ws", "wss"}}
    assert {host for host in hosts if not WORKBENCH.search(host)} <= {"127.0.0.1", "localhost"}
    assert [text for text in single.wrong if "POLICY ours" in text] == []


def hosts():
    """Return the processes started by editors."""
    result = []
    for item in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = item.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"hta_widgets.host" in words and b"--view" in words:
            result.append((int(item.parent.name), words))
    return result


def is_whole_gzip(path):
    try:
        gzip.decompress(path.read_bytes())
    except EOFError:
        return False
    return True


def holds(words, name):
    return any(name.encode() in word for word in words)


def test_one_file_has_the_numbers_of_python_and_outlives_it(
    editor, files, folder, tmp_path, screenshot
):
    editor.open(FILE)
    job = hw.load(folder / "rank-5.trace.json.gz", progress=False, cache=False)
    dash = EditorDash(editor, job, tmp_path)
    dash.has_numbers_of(job.select(), ("breakdown", "kernels"))
    dash.timeline.scroll_into_view_if_needed()
    screenshot(editor.page, "vscode_file")

    expect(dash.root).to_have_attribute("data-page-data", "ready", timeout=60_000)
    ours = [pid for pid, words in hosts() if holds(words, str(files / FILE))]
    assert len(ours) == 1
    os.kill(ours[0], signal.SIGKILL)
    bar = editor.view().locator(".hta-host-bar")
    expect(bar).to_contain_text("Python has ended", timeout=30_000)
    wheel(dash.timeline, (GUTTER + 300, HEAD + 60), -600, keys=["Control"])
    dash.root.locator(".hta-search input").first.fill("nccl")
    expect(dash.root.locator(".hta-search").first).to_contain_text(re.compile(r"\d"))
    screenshot(editor.page, "vscode_dead_host")
    bar.get_by_role("button", name="Start again").click()
    expect(bar).to_be_hidden(timeout=60_000)
    expect(dash.root).to_be_visible(timeout=60_000)
    editor.close_all()
    deadline = time.monotonic() + 20
    while [1 for _, words in hosts() if holds(words, str(files / FILE))]:
        assert time.monotonic() < deadline, "Python outlives its editor"
        time.sleep(0.2)


def test_a_folder_is_one_job_brushed_exported_and_undone(editor, job, tmp_path, screenshot):
    editor.open(FILE)
    editor.close_all()
    editor.command("before", "Open as one job")
    dash = EditorDash(editor, job, tmp_path)
    full = job.select()
    dash.has_numbers_of(full, ("breakdown",))
    screenshot(editor.page, "vscode_job")
    dash.click_bar("breakdown", 5)
    dash.shows_ranks(1)
    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    dash.has_numbers_of(chosen, ("kernels",))

    dash.share("Trace…")
    dash.root.get_by_role("button", name="Write file").click()
    file = tmp_path / "chosen.json.gz"
    editor.save_to(file)
    report = hw.export_trace(job, tmp_path / "python.json.gz", chosen)
    wait_until(editor.page, lambda: is_whole_gzip(file), "the file is copied")
    back, own = (hw.load(item, progress=False, cache=False) for item in (file, report.path))
    assert len(back[5]) == len(own[5]) == report.events
    dash.undo()
    dash.undo()
    dash.selects(full)


def test_two_folders_are_compared(editor, files, screenshot):
    editor.open(FILE)
    editor.close_all()
    editor.command("before", "Select trace for compare")
    editor.command("after", "Compare traces with selected")
    root = editor.view().locator(".hta-diff")
    expect(root).to_be_visible(timeout=120_000)
    findings = hw.TraceDiff(str(files / "before"), str(files / "after")).findings
    assert findings
    expect(root).to_contain_text(findings[0].text, timeout=60_000)
    screenshot(editor.page, "vscode_compare")


def test_a_broken_file_shows_its_trace_error(editor, files, screenshot):
    with pytest.raises(hw.TraceError) as error:
        hw.load(files / "cut off.trace.json")
    view = editor.open("cut off.trace.json")
    alert = view.get_by_role("alert")
    expect(alert).to_be_visible(timeout=60_000)
    assert error.value.message.lower() in alert.inner_text().lower()
    screenshot(editor.page, "vscode_broken")


def test_missing_python_and_a_dark_theme(
    tmp_path_factory, extension, files, new_context, tmp_path, screenshot
):
    root = tmp_path_factory.mktemp("dark")
    python = tmp_path / "python"
    dark = {"workbench.colorTheme": "Default Dark Modern", "hta.python": str(python)}
    with code_server(root, extension, files, **dark) as url:
        editor = Editor(new_context().new_page(), url, FILE)
        view = editor.open(FILE)
        expect(view.get_by_role("alert")).to_have_text("Python cannot be run.", timeout=60_000)
        expect(view.get_by_role("button", name="Choose Python")).to_be_visible()
        assert view.locator("body").get_attribute("data-vscode-theme-kind") == "vscode-dark"
        screenshot(editor.page, "vscode_no_python")
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        view.get_by_role("button", name="Try again").click()
        expect(view.locator(".hta-dash")).to_be_visible(timeout=60_000)
        expect(view.locator(".hta-dash")).to_have_attribute("data-theme", "dark")
        dash = EditorDash(editor, hw.load(files / FILE, progress=False), tmp_path)
        dash.ready("breakdown")
        screenshot(editor.page, "vscode_dark")
