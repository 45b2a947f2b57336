"""A saved dashboard, opened as a file and used without a kernel or network."""

import itertools
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.browser import click, hover, wait_for_frames, wait_until
from support.collective_job import US, collective
from support.dashboard import GUTTER, HEAD, MARGIN, PANELS, Dash
from support.small import call, copy, event, kernel, load

import hta_widgets as hw
from hta_widgets.facts import facts


def test_brushes_in_a_page_have_the_numbers_of_the_analyses(context, job, report, screenshot):
    context.set_offline(True)
    page = context.new_page()
    page.set_viewport_size({"width": 1440, "height": 1000})
    requests, text = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda line: text.append(line.text))
    page.goto(report.as_uri())
    dash = Dash(page, job)
    expect(dash.root).to_contain_text("rank 5")
    full = job.select()
    dash.has_numbers_of(full, ("breakdown", "overlap"))

    dash.click_bar("breakdown", 5)
    expect(dash.panel("selection")).to_contain_text("rank 5")
    dash.selects(job.select(ranks=[5]))
    dash.shows_ranks(1)
    dash.has_numbers_of(dash.selection, ("kernels", "operators", "breakdown"))
    screenshot(page, "dashboard_saved_rank_5")

    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    assert chosen.ranks == (5,)
    assert chosen.end_ns - chosen.start_ns == pytest.approx(10_000_000, rel=0.05)
    dash.has_numbers_of(chosen)

    with page.expect_download() as started:
        dash.share("Picture")
    picture = started.value.path().read_text("utf-8")
    assert "1 of 8 ranks" in picture
    assert "rank 5" in picture
    assert ">rank 4<" not in picture
    assert dash.saved("breakdown", "Save as PNG").startswith(b"\x89PNG")
    assert b"<svg" in dash.saved("breakdown", "Save as SVG")[:200]

    dash.undo()
    dash.undo()
    dash.selects(full)
    dash.has_numbers_of(full, ("breakdown", "kernels"))
    dash.shows_ranks(8)

    # A row grouped by shape selects its kernels on all ranks.
    kernels = dash.panel("kernels")
    kernels.get_by_role("combobox").select_option("shape")
    row = kernels.locator(".hta-name-row", has_text="×").first
    row.locator(".hta-name-button").click()
    wait_until(page, lambda: dash.selection.ids is not None, "the kernels of a shape are selected")
    events = dash.selection.events()
    assert (events["name"].nunique(), set(events["rank"])) == (1, set(job.ranks))
    assert f"{events['dur_ns'].sum() / 1e6:.3g}\u202fms" in row.inner_text()
    dash.undo()
    dash.selects(full)
    kernels.get_by_role("combobox").select_option("name")
    dash.has_numbers_of(full, ("kernels",))

    # The page loads only its own file and scripts unpacked from it.
    assert {url for url in requests if not url.startswith("blob:")} == {report.as_uri()}
    assert [line for line in text if "readback" not in line] == []
    assert set(PANELS) <= {
        item.get_attribute("data-panel") for item in page.locator("[data-panel]").all()
    }


@pytest.mark.parametrize(("width", "height"), [(1440, 1000), (700, 900)])
def test_what_a_click_opens_is_in_the_window(page, job, report, width, height):
    page.set_viewport_size({"width": width, "height": height})
    page.goto(report.as_uri())
    dash = Dash(page, job)
    expect(dash.root.locator(".hta-said")).to_contain_text("compute")

    def box_of(selector):
        return page.locator(selector).first.bounding_box()

    def is_in_window(selector):
        expect(page.locator(selector).first).to_be_visible()
        # The page scrolls to opened content and shrinks one frame later.
        wait_until(
            page,
            lambda: (
                (box := box_of(selector))["x"] >= 0 <= box["y"]
                and box["x"] + box["width"] <= width
                and box["y"] + box["height"] <= height
            ),
            f"{selector} is in the window",
        )
        return box_of(selector)

    dash.chart("breakdown")
    # The first row is only half visible, so its details do not fit below the lanes.
    top = dash.timeline.bounding_box()["y"]
    page.evaluate("y => window.scrollTo(0, y)", top + HEAD + 260 - height)
    wait_for_frames(page)
    row = dash.timeline.bounding_box()["y"] + HEAD
    busy = job[0].events.query("kind == 'compute'").nlargest(1, "dur_ns").iloc[0]
    share = (busy.start_ns + busy.dur_ns / 2 - job.start_ns) / (job.end_ns - job.start_ns)
    left, across = (GUTTER, -GUTTER - MARGIN) if width > 900 else (SLIM, -SLIM)
    x = left + share * (dash.timeline.bounding_box()["width"] + across)
    click(dash.timeline, (x, HEAD + 12))
    expect(dash.root.locator(".hta-details")).to_contain_text("rank 0")
    page.wait_for_function(
        "() => document.querySelector('.hta-dock').getBoundingClientRect().bottom <= innerHeight"
    )
    details = is_in_window(".hta-dock")
    assert details["y"] >= row + 30 or details["y"] + details["height"] <= row

    page.evaluate("window.scrollTo(0, 0)")
    dash.share("Trace…")
    is_in_window(".hta-export")
    page.keyboard.press("Escape")
    dash.root.get_by_role("button", name="Keys and gestures").first.click()
    is_in_window(".hta-help h3")
    page.keyboard.press("Escape")

    full = dash.root.get_by_role("button", name="Full window")
    if width > 1100:
        # Only the columns scroll, and none of the buttons fills the window.
        expect(full).to_have_count(0)
        is_in_window(".hta-dash")
        dash.panel("queue").scroll_into_view_if_needed()
        is_in_window("[data-panel=timeline]")
        return
    full.click()
    covers = {"x": 0, "y": 0, "width": width, "height": height}
    wait_until(page, lambda: box_of(".hta-dash") == covers, "the view covers the window")
    full.click()
    wait_until(page, lambda: box_of(".hta-dash")["height"] > height, "the view is as before")


@pytest.mark.parametrize("width", [400, 480, 700, 1000, 1440, 1800])
def test_controls_of_the_heatmap_stand_apart_and_cover_no_title(page, report, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(report.as_uri())
    heatmap = page.locator("[data-panel=heatmap]")
    heatmap.scroll_into_view_if_needed()
    expect(heatmap.get_by_role("button")).to_have_count(2)
    controls = [heatmap.locator("select"), *(heatmap.get_by_role("button").all())]
    pane, *boxes = [control.bounding_box() for control in (heatmap, *controls)]
    assert len(boxes) == 3
    for one, other in itertools.combinations(boxes, 2):
        across = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        assert across or abs(one["y"] - other["y"]) >= min(one["height"], other["height"]) - 4
    # The title and its text are at the left; in narrow panels they are below the controls.
    if width >= 700:
        assert min(box["x"] for box in boxes) - pane["x"] > 200
    else:
        chart = heatmap.locator("canvas").first.bounding_box()
        assert max(box["y"] + box["height"] for box in boxes) <= chart["y"] + 12


def test_a_link_restores_window_ranks_selection_and_panels(page, context, job, report):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(path_url := report.as_uri())
    dash = Dash(page, job)
    dash.ready("breakdown")
    assert page.url == path_url
    dash.click_bar("breakdown", 5)
    dash.panel("overlap").get_by_role("button", name=re.compile("save, copy, hide")).click()
    dash.root.locator(".hta-menu-item").get_by_text("Hide this panel").click()
    link = dash.copied_link()
    assert link.startswith(f"{path_url}#?view=")
    expect(page).to_have_url(re.compile(r"#\?ranks=5&from=breakdown&panels="))

    other = context.new_page()
    other.goto(link)
    restored = Dash(other, job)
    restored.ready("breakdown")
    restored.selects(job.select(ranks=[5]))
    restored.shows_ranks(1)
    expect(restored.panel("overlap")).to_have_count(0)

    # Links may come from untrusted sources.
    other.goto(f"{path_url}#?ranks=7&panels=breakdown.selection.%3Cimg%3E&query=%40x&event=99_1")
    expect(restored.root.locator(".hta-said")).to_contain_text("panel <img>")
    expect(restored.root.locator(".hta-said")).to_contain_text("event 99_1")
    restored.ready("breakdown")
    restored.selects(job.select(ranks=[7]))


def test_the_longest_gap_is_shown_with_its_cause(page, tmp_path, built):
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    job = load(
        tmp_path,
        [
            call(0, 1_000, launch=1), kernel(1_000, 100_000, launch=1),
            event("user_annotation", loader, 120_000, 700_000, pid=10, tid=1),
            event("cpu_op", "aten::stack", 200_000, 300_000, pid=10, tid=1),
            call(710_000, 715_000, launch=2), kernel(720_000, 900_000, launch=2),
        ],
    )  # fmt: skip
    page.goto(f"file://{hw.Dashboard(job).save_html(tmp_path / 'gap.html')}")
    dash = Dash(page, job)
    expect(dash.root.locator(".hta-said")).to_contain_text("idle")
    panel = dash.root.locator(".hta-gap")

    def is_explained():
        expect(panel).to_contain_text(re.compile(r"GPU idle 620\s*µs"))
        expect(panel).to_contain_text("The host loads data, 94")
        expect(panel).to_contain_text("num_workers")
        expect(panel.locator(".hta-gap-row").first).to_contain_text(re.compile(r"480\s*µs"))
        dash.selects(job.select(start_ns=100_000, end_ns=720_000, ranks=[0]))
        assert dash.numbers("breakdown")["idle_ns"].tolist() == [620_000]

    button = dash.root.get_by_role("button", name="Longest gap", exact=True)
    button.evaluate("el => el.scrollIntoView({ block: 'start' })")
    button.click()
    is_explained()
    expect(panel).to_be_in_viewport(ratio=0.9)
    # Selection and zoom are undone in one step.
    dash.undo()
    expect(panel).to_be_hidden()
    expect(dash.root.locator(".hta-said")).to_contain_text("Whole ")
    across = dash.timeline.bounding_box()["width"] - GUTTER - MARGIN
    point = GUTTER + across * 400 / 900, HEAD + 10
    hover(dash.timeline, point)
    expect(dash.root.locator(".hta-tooltip")).to_contain_text("loads data")
    click(dash.timeline, point)
    is_explained()


def test_a_small_page_says_in_each_panel_which_ranks_it_lacks(page, job, tmp_path, built):
    with pytest.warns(UserWarning, match="at least an overview"):
        least = Path(hw.Dashboard(job).save_html(tmp_path / "least.html", max_mb=0.1))
    room = least.stat().st_size / 1e6 + 0.06
    path = Path(hw.Dashboard(job).save_html(tmp_path / "small.html", max_mb=room))
    assert path.stat().st_size <= room * 1e6
    page.goto(path.as_uri())
    dash = Dash(page, job)
    expect(dash.root).to_contain_text("Others: overview only")
    for panel in ("breakdown", "kernels", "selection"):
        dash.ready(panel)
    lacking = re.compile(r"without ranks .*: not in this page")
    expect(dash.panel("kernels").locator(".hta-about")).to_have_text(lacking)
    expect(dash.panel("selection")).to_have_text(lacking)
    full = sorted(dash.numbers("breakdown")["rank"])
    assert 5 in full
    assert len(full) < 8
    exact = dash.engine.frame("kernels", job.select(ranks=full))
    assert dash.numbers("kernels")["sum_ns"].tolist() == exact["sum_ns"].tolist()


SLIM = 104  # gutter width of a narrow timeline
LONG = "void " + "very_long_namespace_of_templates::" * 6 + "kernel<float, 128>(int*)"
HOST = [
    event("user_annotation", "ProfilerStep#0", 0, 50_000, pid=10, tid=1),
    event("cpu_op", "aten::mm", 100, 5_000, pid=10, tid=1),
    event("user_annotation", "ProfilerStep#1", 50_000, 90_000, pid=10, tid=1),
]
DEVICE = [call(200, 300, launch=1), kernel(1_000, 9_000, launch=1), copy(20_000, 21_000)]


def reduced(rank):
    """Return one rank's events: a collective of 256 ranks that arrive one after the other."""
    return collective((30 + rank % 5) * US, 40 * US, seq=1, ranks=tuple(range(256)))


ODD_JOBS = {
    "without a GPU": (
        [HOST, HOST],
        "No GPU work in these files",
        ["breakdown", "overlap", "idle", "queue", "kernel_types", "kernel_durations", "kernels"],
    ),
    "of one rank": ([HOST + DEVICE], "aten::mm", ["overlap"]),
    "without collectives": ([HOST + DEVICE] * 3, "no communication kernels", ["overlap"]),
    "with a long name": (
        [[*HOST, kernel(1_000, 30_000, name=LONG)]] * 2,
        "kernel 128",
        ["overlap"],
    ),
    "of 256 ranks": ([[*HOST, *DEVICE, reduced(rank)] for rank in range(256)], "256 ranks", []),
}


def test_odd_jobs_are_sensible_views_without_empty_boxes(page, tmp_path, built, screenshot):
    text = []
    page.on("console", lambda line: text.append(line.text))
    page.set_viewport_size({"width": 1300, "height": 1500})
    for name, (ranks, words, silent) in ODD_JOBS.items():
        traces = load(tmp_path, *ranks)
        view = hw.Dashboard(traces)
        page.goto(f"file://{view.save_html(tmp_path / 'odd.html')}")
        dash = Dash(page, traces)
        expect(dash.root, name).to_contain_text(words)
        # Panels without data are listed at the bottom instead.
        assert [panel for panel in PANELS if panel not in view.panels] == silent, name
        left_out = page.locator(".hta-dash-left-out")
        expect(left_out, name).to_contain_text(re.compile(r"^Not in this job: .*\)\.$"))
        titles = {
            panel: facts("panels")[panel]["title"].replace("{device_word}", "GPU")
            for panel in PANELS
        }
        listed = left_out.inner_text()
        assert [panel for panel, title in titles.items() if title in listed] == silent, name
        for panel in view.panels:
            if panel in {"timeline", "selection", "problems"}:
                continue
            dash.ready(panel)
            pane = dash.panel(panel)
            if panel in {"kernels", "operators"}:
                expect(pane.locator(".hta-name-row").first, f"{panel}, {name}").to_be_visible()
            else:
                drawn = pane.locator("canvas").locator("visible=true").first
                empty = (
                    pane.get_by_text(re.compile(r"^(No |Never|The files do not contain)"))
                    .locator("visible=true")
                    .first
                )
                expect(drawn.or_(empty).first, f"{panel}, {name}").to_be_visible(timeout=20_000)
        assert page.get_by_role("alert").count() == 0, name
        assert page.get_by_text("cannot be").count() == 0, name
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{name}: the page is {wide} px too wide"
    screenshot(page, "dashboard_256_ranks")
    assert text == []


def test_many_ranks_leave_the_timeline_half_of_its_column(page, tmp_path, built):
    """The heatmap of 64 ranks is taller than the column."""
    page.set_viewport_size({"width": 1440, "height": 800})
    traces = load(tmp_path, *[[*HOST, *DEVICE, reduced(rank)] for rank in range(64)])
    view = hw.Dashboard(traces, folded=False)
    page.goto(f"file://{view.save_html(tmp_path / 'many.html')}")
    dash = Dash(page, traces)
    dash.ready("heatmap")
    column = page.locator(".hta-band-column:has([data-panel=timeline])")
    half = column.bounding_box()["height"] / 2
    assert dash.panel("heatmap").bounding_box()["height"] > half
    wait_until(
        page,
        lambda: dash.timeline.bounding_box()["height"] >= half - 1,
        "the timeline has half of the height",
    )


def test_panels_are_added_in_a_saved_page(page, job, tmp_path, built, screenshot):
    """Call tree and arrivals follow the dragged window; the critical path covers the job."""
    view = hw.Dashboard(job, panels=["timeline", "selection", "messages"])
    page.goto(f"file://{view.save_html(tmp_path / 'added.html')}")
    dash = Dash(page, job)
    # The panel was added by name, although the job has no messages.
    expect(dash.panel("messages")).to_contain_text("No sends between ranks")
    page.get_by_role("button", name="Choose which panels are shown").click()
    added = ("call_tree_device", "arrivals", "critical_path")
    for title in ("Call tree: GPU time", "Arrivals at collectives", "Critical path"):
        page.get_by_role("checkbox", name=title).check()
    page.keyboard.press("Escape")
    expect(dash.panel("critical_path")).to_be_in_viewport()
    dash.has_numbers_of(job.select(), added)
    screenshot(page, "dashboard_added_panels")
    middle = (job.start_ns + job.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    dash.has_numbers_of(dash.selection, added)


def test_charts_fold_and_unfold_with_the_timeline(page, job, tmp_path, built, screenshot):
    """Two rows, one of them for rank 5; the button, `U` and undo affect the whole page."""
    others = [rank for rank in job.ranks if rank != 5]
    view = hw.Dashboard(job, folded=True)
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.goto(f"file://{view.save_html(tmp_path / 'folded.html')}")
    dash = Dash(page, job)
    names = {}
    for panel in ("breakdown", "overlap", "idle", "queue"):
        dash.chart(panel)
        pane = dash.panel(panel)
        pane.get_by_role("button", name="Show table").click()
        names[panel] = pane.locator(".hta-chart-table tbody tr td:first-child")
        folded = ["rank 5", "7 ranks: 0–4, 6, 7"]
        causes = len(facts("causes")) if panel == "idle" else 1
        expect(names[panel]).to_have_text([name for name in folded for _ in range(causes)])
    screenshot(page, "dashboard_folded")

    plot = dash.panel("breakdown").locator(".hta-chart-plot")
    plot.focus()
    for key in ("End", "Enter"):
        page.keyboard.press(key)
    expect(dash.panel("selection")).to_contain_text("ranks 0–4 and 6–7")
    dash.selects(job.select(ranks=others))
    expect(names["breakdown"]).to_have_count(2)
    page.keyboard.press("u")
    # Unfolded, each rank shows its own numbers.
    expect(names["breakdown"]).to_have_count(8)
    dash.shows_ranks(7)
    dash.undo()
    dash.selects(job.select())
    expect(names["breakdown"]).to_have_count(8)
    dash.shows_ranks(8)
    fold = dash.root.locator(".hta-dash-toolbar").get_by_role("button", name="Fold similar ranks")
    expect(fold).to_have_attribute("aria-pressed", "false")
    fold.click()
    expect(fold).to_have_attribute("aria-pressed", "true")
    expect(names["breakdown"]).to_have_count(2)
    expect(dash.root.locator(".hta-said")).to_contain_text("2 of 8 ranks shown; similar ranks")


def test_details_are_one_column_in_narrow_windows(page, job, report):
    page.set_viewport_size({"width": 400, "height": 1000})
    page.goto(report.as_uri())
    Dash(page, job).ready("breakdown")
    page.keyboard.press("/")
    page.keyboard.type("gemm")
    page.keyboard.press("Enter")
    dock = page.locator(".hta-dock")
    expect(dock.locator(".hta-what")).to_contain_text("Launched by")
    facts = dock.locator(".hta-what").bounding_box()
    assert facts["width"] >= 300


def test_tab_closes_a_menu_and_moves_on_from_its_button(page, report):
    page.goto(report.as_uri())
    toolbar = page.get_by_role("toolbar").first
    button = toolbar.get_by_role("button", name="Share")
    button.press("Enter")
    popover = page.locator(".hta-popover")
    expect(popover).to_be_visible()
    page.keyboard.press("Tab")
    expect(popover).to_have_count(0)
    expect(toolbar.locator(":focus")).to_have_count(0)
    button.press("Enter")
    page.keyboard.press("Shift+Tab")
    expect(popover).to_have_count(0)
    expect(button).to_be_focused()
    page.get_by_role("button", name="Choose which panels are shown").press("Enter")
    page.keyboard.press("Tab")
    expect(popover).to_be_visible()
    page.keyboard.press("Escape")
    expect(popover).to_have_count(0)
