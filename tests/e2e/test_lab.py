"""Traces opened from the file browsers of JupyterLab and Notebook 7."""

import gzip
import os
import re
import shutil
import signal
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect
from support.browser import wait_for_frames, wait_until, wheel
from support.dashboard import GUTTER, HEAD, Dash
from support.notebooks import set_theme
from support.servers import SHARE

import hta_widgets as hw

FILE = "rank-5.pt.trace.json.gz"
# `close` would ask whether to save.
GO_TO = """async path => {
  for (const widget of [...jupyterapp.shell.widgets("main")]) widget.dispose();
  await jupyterapp.commands.execute("filebrowser:go-to-path", { path });
}"""
CLOSE = """kind => {
  for (const tab of jupyterapp.shell.widgets("main")) {
    if (kind === "console" ? "console" in tab : "context" in tab) tab.close();
  }
}"""


@pytest.fixture(scope="module", autouse=True)
def _extension():
    if not (SHARE / "labextensions/hta-widgets/package.json").exists():
        pytest.skip("JupyterLab's extension is not built (`make build` does it)")


@pytest.fixture(scope="module")
def files(lab, folder, pair):
    """A folder on the server with one rank, jobs in subfolders, and a truncated file."""
    root = lab.folder / "traces"
    shutil.copytree(folder, root / "runs/before")
    shutil.copytree(pair, root / "pair")
    shutil.copy(folder / "rank-5.trace.json.gz", root / FILE)
    (root / "cut off.trace.json").write_text('{"traceEvents": [7, ')
    (root / "settings.json.gz").write_bytes(gzip.compress(b'{"learning_rate": 0.1}'))
    shutil.copy(folder / "rank-2.trace.json.gz", root / "worker.json.gz")
    plain = gzip.decompress((folder / "rank-1.trace.json.gz").read_bytes())
    (root / "worker.json.zst").write_bytes(pa.compress(plain, codec="zstd", asbytes=True))
    return root


@pytest.fixture
def browse(lab, files, page):
    """`browse(folder)` opens JupyterLab's file browser in a folder."""

    def start(folder="traces"):
        if page.url.startswith(f"{lab.url}/lab"):
            page.evaluate(GO_TO, folder)
        else:
            page.goto(f"{lab.url}/lab/tree/{folder}?reset&token={lab.token}")
        expect(page.locator(".jp-DirListing-item").first).to_be_visible(timeout=60_000)
        return page

    yield start
    lab.end_sessions()


@pytest.fixture
def requests(page):
    """Addresses requested by pages of this context."""
    requested = []
    page.context.on("request", lambda request: requested.append(unquote(request.url)))
    return requested


def item(page, name):
    return page.locator(".jp-DirListing-item").filter(has=page.get_by_text(name, exact=True))


def choose(page, name, entry):
    item(page, name).click(button="right")
    page.locator(".lm-Menu-itemLabel").get_by_text(entry, exact=True).click()


def dash_of(page, traces):
    return Dash(page, traces, page.locator(".hta-lab .hta-dash:visible"))


def contents_of(requests, name):
    """Return the requests to the contents API for a file."""
    return [url for url in requests if "/api/contents" in url and name in url]


def run(page, code):
    """Run code in the view's console; return the output."""
    page.locator(".jp-CodeConsole-promptCell .cm-content").click()
    before = page.locator(".jp-CodeConsole .jp-OutputArea-executeResult").count()
    page.keyboard.type(code)
    page.keyboard.press("Shift+Enter")
    result = page.locator(".jp-CodeConsole .jp-OutputArea-executeResult").nth(before)
    expect(result).to_be_visible(timeout=30_000)
    return result


def reload_layout(page, lab, *words):
    """Reload JupyterLab with the same layout, once the saved layout contains `words`."""

    def is_saved():
        texts = [path.read_text("utf-8") for path in lab.workspaces.iterdir()]
        return all(any(word in text for text in texts) for word in words)

    wait_until(page, is_saved, f"a layout with {words}")
    page.goto(f"{lab.url}/lab?token={lab.token}")


def pid_of(lab, view):
    """Return the process id of a view's kernel."""
    (kernel,) = [entry["kernel"]["id"] for entry in lab.api("sessions") if view in entry["path"]]
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if kernel.encode() in command.read_bytes():
                return int(command.parent.name)
        except OSError:
            continue
    raise AssertionError("the kernel has no process")


def test_a_link_opens_the_file_with_its_window(browse, files, context):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page: Page = browse()
    item(page, FILE).dblclick()
    job = hw.load(files / FILE, progress=False, cache=False)
    dash = dash_of(page, job)
    dash.ready("breakdown")
    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    link = dash.copied_link()
    assert f"/lab/tree/traces/{FILE}#hta?view=" in link
    dash.undo()
    expect(dash.panel("selection")).not_to_contain_text("start_ns=")

    other = context.new_page()
    other.goto(link)
    opened = dash_of(other, job)
    opened.ready("breakdown")
    opened.selects(chosen)


def test_a_double_click_a_console_and_a_reload(browse, lab, files, requests, screenshot):
    page: Page = browse()
    item(page, FILE).dblclick()
    job = hw.load(files / FILE, progress=False, cache=False)
    dash = dash_of(page, job)
    dash.has_numbers_of(job.select(), ("breakdown", "kernels", "operators"))
    # The view requests the modification time of the file, but not its contents.
    assert contents_of(requests, FILE)
    assert all("content=0" in url for url in contents_of(requests, FILE))
    assert not list(files.rglob("*-checkpoint*.gz"))
    page.locator(".hta-lab").evaluate("node => node.scrollTo(0, 0)")
    screenshot(page, "lab_file")

    # The console uses the same kernel, has the variables, and shows linked views.
    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    page.locator(".hta-lab").evaluate("node => node.scrollTo(0, 0)")
    page.get_by_role("button", name="Console").click()
    expect(page.locator(".jp-CodeConsole-promptCell .cm-content")).to_be_visible(timeout=30_000)
    window = f"({chosen.start_ns}, {chosen.end_ns})"
    text = run(page, "(dash.selection.start_ns, dash.selection.end_ns)")
    expect(text).to_contain_text(window)
    expect(run(page, "len(traces[5])")).to_contain_text(str(len(job[5])))
    timeline = page.locator(".jp-CodeConsole .hta-root")
    page.locator(".jp-CodeConsole-promptCell .cm-content").click()
    page.keyboard.type("dash.timeline")
    page.keyboard.press("Shift+Enter")
    expect(timeline).to_be_visible(timeout=30_000)
    dash.root.locator(".hta-search input").first.fill("nccl")
    expect(timeline.locator(".hta-search input").first).to_have_value("nccl")
    screenshot(page, "lab_console")
    # A gesture becomes a step of the history shortly after it ends.
    steps = "len(dash.state._history.get('past'))"
    wait_until(
        page, lambda: run(page, steps).inner_text().endswith("2"), "both steps are in the history"
    )
    assert len(lab.api("kernels")) == 1

    reload_layout(page, lab, "console:", FILE)
    search = page.locator(".hta-lab .hta-search input").first
    expect(search).to_have_value("nccl", timeout=60_000)
    dash = dash_of(page, job)
    dash.ready("selection")
    dash.selects(chosen)
    dash.undo()
    expect(search).to_have_value("")
    dash.undo()
    expect(dash.panel("selection")).not_to_contain_text("start_ns=")
    assert len(lab.api("kernels")) == 1
    # A kernel lives as long as at least one document shows it.
    methods = []
    page.on("request", lambda request: methods.append(request.method))
    page.evaluate(CLOSE, "document")
    expect(dash.root).to_have_count(0)
    wait_for_frames(page)
    assert "DELETE" not in methods
    assert len(lab.api("kernels")) == 1
    page.evaluate(CLOSE, "console")
    page.evaluate(
        "path => jupyterapp.commands.execute('docmanager:open', { path })", f"traces/{FILE}"
    )
    expect(dash.root).to_be_visible(timeout=60_000)
    page.evaluate(CLOSE, "document")
    wait_until(page, lambda: lab.api("kernels") == [], "no kernel is left")


def test_a_folder_as_one_job(browse, lab, files, requests, screenshot):
    page = browse("traces/runs")
    choose(page, "before", "Open Trace Dashboard")
    job = hw.load(files / "runs/before", progress=False, cache=False).with_clock("fitted")
    dash = dash_of(page, job)
    dash.has_numbers_of(job.select(), ("breakdown", "kernels"))
    clock = dash.root.locator(".hta-clock .hta-if-wide")
    expect(clock).to_have_text(re.compile("^clock: fitted ±"))
    clock.click()
    expect(clock).to_have_text(re.compile("^clock: recorded, "))
    clock.click()
    expect(clock).to_have_text(re.compile("^clock: fitted ±"))
    dash.click_bar("breakdown", 5)
    dash.shows_ranks(1)
    dash.has_numbers_of(job.select(ranks=[5]), ("kernels", "operators"))
    wheel(dash.timeline, (GUTTER + 300, HEAD + 60), -600, keys=["Control"])

    dash.share("Trace…")
    dash.root.get_by_role("button", name="Write file").click()
    expect(dash.root.get_by_text(re.compile("^Wrote "))).to_be_visible(timeout=30_000)
    (file,) = (files / "runs").glob("*.json.gz")
    back = hw.load(file, progress=False, cache=False)
    file.unlink()
    assert len(back[5]) == len(job[5])
    dash.undo()
    dash.shows_ranks(8)
    set_theme(page, "dark")
    page.locator(".hta-lab").evaluate("node => node.scrollTo(0, 0)")
    expect(dash.root).to_have_attribute("data-theme", "dark")
    screenshot(page, "lab_job_dark")
    set_theme(page, "light")

    # Without its kernel, the page still works and offers a restart.
    expect(dash.root).to_have_attribute("data-page-data", "ready", timeout=60_000)
    os.kill(pid_of(lab, "before"), signal.SIGKILL)
    bar = page.locator(".hta-lab .hta-host-bar")
    expect(bar).to_contain_text("The kernel has ended", timeout=30_000)
    expect(dash.root.locator(".hta-kernel").first).to_have_text("Kernel gone · page data")
    dash.click_bar("breakdown", 5)
    dash.has_numbers_of(job.select(ranks=[5]), ("kernels",))
    page.locator(".hta-lab").evaluate("node => node.scrollTo(0, 0)")
    screenshot(page, "lab_dead_kernel")
    bar.get_by_role("button", name="Start again").click()
    expect(bar).to_be_hidden()
    dash.has_numbers_of(job.select(), ("breakdown",))
    expect(dash.root.locator(".hta-kernel").first).to_be_hidden()
    assert contents_of(requests, "rank-") == []


def test_two_to_compare(browse, lab, files, screenshot):
    page = browse("traces/pair")
    choose(page, "before", "Select for Compare")
    choose(page, "after", "Compare with “before”")
    root = page.locator(".hta-lab .hta-diff")
    findings = hw.TraceDiff(str(files / "pair/before"), str(files / "pair/after")).findings
    assert findings
    expect(root).to_contain_text(findings[0].text, timeout=60_000)
    stage = root.locator(".hta-stage-frame").first
    stage.scroll_into_view_if_needed()
    wheel(stage, (GUTTER + 300, HEAD + 30), -600, keys=["Control"])
    page.locator(".hta-lab").evaluate("node => node.scrollTo(0, 0)")
    screenshot(page, "lab_compare")
    reload_layout(page, lab, "hta-diff")
    expect(root).to_contain_text(findings[0].text, timeout=60_000)
    assert len(lab.api("kernels")) == 1
    page.get_by_role("button", name="Notebook").click()
    expect(page.locator(".jp-Notebook")).to_contain_text("hw.TraceDiff(before, after)")
    expect(page.locator(".jp-Notebook")).to_contain_text('hw.load("after")')


@pytest.mark.parametrize("name", ["worker.json.gz", "worker.json.zst"])
def test_a_compressed_file_of_any_name_opens(browse, files, name):
    page = browse()
    item(page, name).dblclick()
    job = hw.load(files / name, progress=False, cache=False)
    dash_of(page, job).has_numbers_of(job.select(), ("kernels",))


def test_a_file_that_holds_no_trace_says_so(browse, files):
    page = browse()
    item(page, "settings.json.gz").dblclick()
    view = page.locator(".hta-lab:visible")
    expect(view.get_by_role("alert")).to_contain_text("Holds no trace events", timeout=60_000)
    expect(view).to_contain_text("settings.json.gz")
    expect(view.get_by_role("button", name="Open as text")).to_have_count(0)


def test_what_does_not_open_says_why(browse, lab, files, screenshot):
    page = browse()
    with pytest.raises(hw.TraceError) as error:
        hw.load(files / "cut off.trace.json")
    item(page, "cut off.trace.json").dblclick()
    alert = page.locator(".hta-lab").get_by_role("alert")
    expect(alert).to_be_visible(timeout=60_000)
    assert error.value.message.lower() in alert.inner_text().lower()
    screenshot(page, "lab_broken")
    button = page.locator(".hta-lab:visible").get_by_role("button", name="Open as text")
    expect(button).to_have_css("border-radius", "4px", timeout=60_000)
    button.click()
    text = page.locator(".jp-FileEditor .cm-content:visible")
    expect(text).to_have_text('{"traceEvents": [7, ', timeout=30_000)

    # A kernel that is still starting can be closed, too.
    item(page, FILE).dblclick()
    view = page.locator(".hta-lab:visible")
    view.get_by_role("button", name="Cancel").click()
    expect(view).to_contain_text("Cancelled.")

    # Whitespace that takes seconds to decompress.
    blank = gzip.compress(b" " * (64 << 20), 1) * 16
    (files / "long.trace.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [') + blank)
    page.get_by_role("button", name="Refresh the file browser").click()
    item(page, "long.trace.json.gz").dblclick()
    expect(view).to_contain_text("Reading", timeout=60_000)
    expect(view).to_contain_text(re.compile(r"Reading [1-9].* of"))
    screenshot(page, "lab_loading")
    view.get_by_role("button", name="Cancel").click()
    # Canceling prevents the error about a file that ends in whitespace.
    expect(view).to_contain_text("Cancelled.", timeout=30_000)
    (files / "long.trace.json.gz").unlink()


def test_the_file_browser_of_notebook_7(lab, files, page, requests, screenshot):
    page.goto(f"{lab.url}/tree/traces?token={lab.token}")
    expect(item(page, FILE)).to_be_visible(timeout=60_000)
    with page.context.expect_page() as opened:
        item(page, FILE).dblclick()
    document = opened.value
    job = hw.load(files / FILE, progress=False, cache=False)
    dash = dash_of(document, job)
    dash.has_numbers_of(job.select(), ("breakdown", "kernels"))
    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    dash.has_numbers_of(dash.selection, ("kernels",))
    assert all("content=0" in url for url in contents_of(requests, FILE))
    assert not list(files.rglob("*-checkpoint*.gz"))
    document.locator(".hta-lab").evaluate("node => node.scrollTo(0, 0)")
    screenshot(document, "lab_notebook7")
    lab.end_sessions()
