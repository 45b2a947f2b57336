"""`hta-widgets view` in a browser: a file, a job, a comparison, a folder, a host that dies."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser import drag, wait_until, wheel
from support.dashboard import GUTTER, HEAD, Dash

import hta_widgets as hw
from hta_widgets.host.web import redirect_file

REPORTS = (
    "addEventListener('securitypolicyviolation', event =>"
    " (window.reports ??= []).push(`${event.violatedDirective} ${event.blockedURI}`))"
)


@dataclass
class Host:
    """A running `hta-widgets view`."""

    process: subprocess.Popen
    url: str

    @property
    def base(self) -> str:
        return self.url.split("/?")[0]


@contextmanager
def serving(repo, *arguments, cwd=None) -> Iterator[Host]:
    command = [sys.executable, "-m", "hta_widgets", "view", *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": str(repo)}
    process = subprocess.Popen(
        [*command, "--no-browser"], env=env, cwd=cwd, stdout=subprocess.PIPE, text=True
    )
    try:
        url = next((line.strip() for line in process.stdout if "token=" in line), None)
        assert url is not None, f"the host ended with {process.wait()}"
        yield Host(process, url)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def view(repo, context, built):
    """`view(*arguments)` starts a host and opens its page; policy violations fail the test."""
    context.add_init_script(REPORTS)
    running, pages = [], []

    def start(*arguments, cwd=None) -> tuple[Host, Page]:
        manager = serving(repo, *arguments, cwd=cwd)
        running.append(manager)
        host = manager.__enter__()
        page = context.new_page()
        pages.append(page)
        page.goto(host.url)
        return host, page

    yield start
    reports = [report for page in pages for report in page.evaluate("window.reports ?? []")]
    for manager in running:
        manager.__exit__(None, None, None)
    assert reports == []


def until(page, expression):
    """Wait for a condition; the page's policy forbids `wait_for_function`."""
    wait_until(page, lambda: page.evaluate(expression), expression)


def holds_data(page):
    """Wait until the page can work without its host."""
    expect(page.locator(".hta-dash")).to_have_attribute("data-page-data", "ready", timeout=60_000)


def test_one_file_has_the_numbers_of_python(view, folder, screenshot):
    path = folder / "rank-5.trace.json.gz"
    host, page = view(path)
    job = hw.load(path, progress=False, cache=False)
    dash = Dash(page, job)
    assert page.url == f"{host.base}/"
    dash.has_numbers_of(job.select(), ("breakdown", "kernels", "operators"))
    expect(page).to_have_title("rank-5.trace.json.gz")
    screenshot(page, "view_file")


def test_a_job_of_eight_ranks_brushed_exported_and_undone(view, folder, job, tmp_path, screenshot):
    host, page = view(folder)
    dash = Dash(page, job)
    full = job.select()
    dash.has_numbers_of(full, ("breakdown", "kernels"))
    screenshot(page, "view_job")

    dash.click_bar("breakdown", 5)
    dash.shows_ranks(1)
    dash.selects(job.select(ranks=[5]))
    dash.has_numbers_of(dash.selection, ("kernels", "operators", "breakdown"))

    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    assert chosen.ranks == (5,)
    dash.has_numbers_of(chosen, ("kernels",))

    # The host writes the same file as an export in Python.
    dash.share("Trace…")
    with page.expect_download() as started:
        dash.root.get_by_role("button", name="Write file").click()
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    report = hw.export_trace(job, tmp_path / "python.json.gz", chosen, keep_launches=True)
    expect(dash.root.get_by_text(re.compile("^Wrote demo-window"))).to_be_visible()
    back, own = (hw.load(item, progress=False, cache=False) for item in (file, report.path))
    assert len(back[5]) == len(own[5]) == report.events
    names = [sorted(item.events()["name"].astype(str)) for item in (back, own)]
    assert names[0] == names[1]

    with page.expect_download() as started:
        dash.share("Page…")
        dash.root.get_by_role("button", name="Write file").last.click()
    assert b"Content-Security-Policy" in started.value.path().read_bytes()[:1000]
    page.keyboard.press("Escape")

    # Another page in the same browser shares the state, and so does this page after a reload.
    other = page.context.new_page()
    other.goto(host.base)
    second = Dash(other, job)
    second.ready("selection")
    second.selects(chosen)
    second.undo()
    second.undo()
    second.shows_ranks(8)
    dash.shows_ranks(8)
    dash.selects(full)
    page.locator(".hta-search input").first.fill("nccl")
    expect(other.locator(".hta-search input").first).to_have_value("nccl")
    page.reload()
    expect(page.locator(".hta-search input").first).to_have_value("nccl", timeout=60_000)
    other.close()


def test_zoom_and_a_timeline_that_fills_the_window(view, folder, job, screenshot):
    _, page = view(folder)
    # In a taller window, all rows have their maximum height and no space remains below them.
    page.set_viewport_size({"width": 1440, "height": 860})
    dash = Dash(page, job)
    dash.ready("breakdown")
    canvas = dash.timeline.locator("canvas").first
    before = canvas.bounding_box()["height"]
    page.get_by_role("button", name="Timeline", exact=True).click()
    expect(dash.panel("breakdown")).to_be_hidden()
    until(
        page,
        "document.documentElement.scrollHeight <= innerHeight"
        " && document.querySelector('.hta-dash').getBoundingClientRect().bottom > innerHeight - 24"
        f" && document.querySelector('.hta-stage-frame canvas').clientHeight > {before + 100}",
    )
    expect(page).to_have_url(re.compile(r"#/timeline/\.$"))
    dash.timeline.scroll_into_view_if_needed()
    wheel(dash.timeline, (GUTTER + 300, HEAD + 60), -600, keys=["Control"])
    expect(dash.root.locator(".hta-status .hta-words")).not_to_contain_text("Whole job")
    screenshot(page, "view_timeline")
    page.set_viewport_size({"width": 1200, "height": 700})
    until(page, "document.documentElement.scrollHeight <= innerHeight")
    page.reload()
    expect(dash.root).to_be_visible(timeout=60_000)
    expect(dash.panel("breakdown")).to_be_hidden()
    page.get_by_role("button", name="Dashboard", exact=True).click()
    expect(dash.panel("breakdown")).to_be_visible()
    page.go_back()
    expect(dash.panel("breakdown")).to_be_hidden()


def test_a_link_restores_the_view_of_one_job_among_others(view, folder, job, tmp_path, context):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    shutil.copytree(folder, tmp_path / "runs/first")
    shutil.copytree(folder, tmp_path / "runs/second")
    host, page = view(tmp_path / "runs")
    page.get_by_role("button", name="second", exact=True).click()
    dash = Dash(page, job)
    dash.ready("breakdown")
    # Keys work without a click, and the hint stays visible when the column scrolls.
    expect(page.locator(".hta-host-view")).to_be_focused()
    page.keyboard.press("/")
    expect(dash.root.locator(".hta-search input")).to_be_focused()
    page.keyboard.press("Escape")
    wheel(dash.timeline, (GUTTER + 300, HEAD + 60), 200)
    expect(dash.root.locator(".hta-wheel-hint")).to_be_in_viewport()
    dash.click_bar("breakdown", 5)
    dash.shows_ranks(1)
    page.wait_for_url(re.compile(r"#/dashboard/second\?ranks=5"))
    link = dash.copied_link()
    dash.undo()
    dash.shows_ranks(8)
    page.wait_for_url(f"{host.base}/#/dashboard/second")
    # A link with another state, pasted into the same page.
    page.goto(link)
    dash.shows_ranks(1)
    dash.selects(job.select(ranks=[5]))
    # An invalid address opens the list.
    page.goto(f"{host.base}/#/dashboard/%E0%A4%A?ranks=5")
    expect(page.get_by_role("heading", name="Traces in runs")).to_be_visible()


def test_two_to_compare(view, pair, screenshot):
    before, after = pair / "before", pair / "after"
    _, page = view(before, "--compare", after)
    root = page.locator(".hta-diff")
    expect(root).to_be_visible(timeout=60_000)
    findings = hw.TraceDiff(str(before), str(after)).findings
    assert findings
    expect(root).to_contain_text(findings[0].text, timeout=60_000)
    stage = root.locator(".hta-stage-frame").first
    stage.scroll_into_view_if_needed()
    wheel(stage, (GUTTER + 300, HEAD + 30), -600, keys=["Control"])
    drag(stage, (GUTTER + 200, HEAD + 20), (GUTTER + 400, HEAD + 40), keys=["Alt"])
    page.keyboard.press("Control+z")
    screenshot(page, "view_compare")


def test_a_folder_is_listed_watched_and_compared(view, folder, pair, tmp_path, screenshot):
    runs = tmp_path / "runs"
    shutil.copytree(pair / "before", runs / "first")
    shutil.copytree(pair / "after", runs / "second")
    name = "<img src=x onerror=alert(1)>.json.gz"
    shutil.copy(folder / "rank-0.trace.json.gz", runs / name)
    os.utime(runs / name, (1_700_000_000,) * 2)
    (runs / "broken.pt.trace.json").write_text('{"traceEvents": [7, ')
    (runs / "settings.json").write_text("{}")
    _, page = view("runs", cwd=tmp_path)
    rows = page.locator(".hta-host-list tbody tr")
    expect(page.get_by_role("heading", name="Traces in runs")).to_be_visible()
    expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    expect(page.locator(".hta-host-list img")).to_have_count(0)
    expect(rows.last).to_contain_text("2023-11-14")
    screenshot(page, "view_folder")

    shutil.copytree(pair / "before", tmp_path / "third")
    (tmp_path / "third").rename(runs / "third")
    third = rows.filter(has=page.get_by_role("button", name="third", exact=True))
    expect(third).to_contain_text("new")

    # Error messages are the same as in Python.
    with pytest.raises(hw.TraceError) as error:
        hw.load(runs / "broken.pt.trace.json")
    broken = page.get_by_role("button", name="broken.pt.trace.json", exact=True)
    broken.press("Enter")
    expect(page.get_by_role("heading", name="broken.pt.trace.json", level=1)).to_be_visible()
    alert = page.get_by_role("alert")
    expect(alert).to_be_visible(timeout=60_000)
    expect(page.locator(".hta-host-view")).to_be_focused()
    assert error.value.message.lower() in alert.inner_text().lower()
    expect(page.locator(".hta-host-path")).to_contain_text("broken.pt.trace.json")
    screenshot(page, "view_broken")

    page.go_back()
    expect(broken).to_be_focused()
    for run in ("first", "second"):
        page.get_by_role("checkbox", name=f"Compare {run}", exact=True).check()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.locator(".hta-diff")).to_be_visible(timeout=60_000)
    # The address contains the windows of both runs, unless the whole runs are shown.
    whole, timeline = "#/diff/(first/second|second/first)", page.locator(".hta-part").first
    timeline.press("w")
    expect(page).to_have_url(re.compile(whole + r"\?before=view%3D\d+_\d+&after=view%3D\d+_\d+$"))
    timeline.press("z")
    expect(page).to_have_url(re.compile(whole + "$"))
    page.go_back()
    page.get_by_role("button", name="third", exact=True).click()
    expect(page.locator(".hta-dash")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("heading", name="third", level=1)).to_have_count(1)


def test_a_host_that_is_killed_leaves_a_page_that_works(view, folder, job, screenshot):
    host, page = view(folder)
    dash = Dash(page, job)
    dash.ready("breakdown", "kernels")
    page.evaluate("scrollTo(0, 0)")
    holds_data(page)
    host.process.send_signal(signal.SIGKILL)
    bar = page.locator(".hta-host-bar")
    expect(bar).to_contain_text("Python has ended", timeout=30_000)
    expect(bar).to_contain_text(f"hta-widgets view {folder}")
    expect(bar.get_by_role("button", name=re.compile("^Copy"))).to_be_visible()
    expect(dash.root.locator(".hta-kernel").first).to_have_text("Python gone · page data")
    dash.click_bar("breakdown", 5)
    dash.has_numbers_of(job.select(ranks=[5]), ("kernels", "breakdown"))
    dash.undo()
    dash.shows_ranks(8)
    wheel(dash.timeline, (GUTTER + 300, HEAD + 60), -600, keys=["Control"])
    page.locator(".hta-search input").first.fill("nccl")
    expect(page.locator(".hta-search").first).to_contain_text(re.compile(r"\d"))
    page.evaluate("scrollTo(0, 0)")
    screenshot(page, "view_dead_host")


def test_a_file_leads_in_and_a_host_that_is_ended_says_so_at_once(view, folder, context):
    """Browsers are started with a file, because process lists expose addresses to other users."""
    host, page = view(folder / "rank-0.trace.json.gz")
    expect(page.locator(".hta-dash")).to_be_visible(timeout=60_000)
    context.clear_cookies()
    page.emulate_media(color_scheme="dark")
    page.goto(Path(redirect_file(host.url)).as_uri())
    expect(page.locator(".hta-dash")).to_have_attribute("data-theme", "dark", timeout=60_000)
    assert page.url == f"{host.base}/"
    host.process.send_signal(signal.SIGTERM)
    expect(page.locator(".hta-host-bar")).to_contain_text("Python has ended")
    assert host.process.wait(20) == 0


def test_a_badge_switches_between_fitted_and_recorded_clocks(view, folder, job, report, screenshot):
    """The whole page follows: its copy of the job, the findings in the headline, the timeline."""
    _, page = view(folder)
    dash = Dash(page, job)
    dash.ready("breakdown")
    holds_data(page)
    badge = dash.root.locator(".hta-clock")
    expect(badge.locator(".hta-if-wide")).to_have_text(re.compile("^clock: fitted ±"))
    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    dash.has_numbers_of(chosen, ("breakdown", "idle"))
    screenshot(page, "view_fitted_clock")
    badge.click()
    offsets = hw.analysis.clock_offsets(job)["offset_ns"]
    apart = round((offsets.max() - offsets.min()) / 1000)
    expect(badge.locator(".hta-if-wide")).to_have_text(f"clock: recorded, {apart}\u202fµs apart")
    expect(badge).to_have_attribute("aria-pressed", "false")
    window = {"start_ns": chosen.start_ns, "end_ns": chosen.end_ns}
    window = {key: time - job.origin_offset_ns for key, time in window.items()}
    recorded = job.with_clock("host")
    expect(dash.panel("selection")).to_contain_text(f"start_ns={window['start_ns']:_}")
    chosen = recorded.select(ranks=chosen.ranks, **window)
    on_recorded = Dash(page, recorded)
    on_recorded.has_numbers_of(chosen, ("breakdown", "idle"))
    holds_data(page)
    on_recorded.selects(chosen)
    on_recorded.undo()
    on_recorded.selects(recorded.select())
    on_recorded.has_numbers_of(recorded.select(), ("breakdown",))
    expect(badge.locator(".hta-if-wide")).to_have_text(re.compile("^clock: recorded"))

    page.goto(report.as_uri())
    badge = page.locator(".hta-clock")
    expect(badge).to_have_attribute("title", re.compile("This page has only the fitted clock"))
