"""The timeline in a real JupyterLab: gestures reach Python, and traits reach the page."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser import (
    click,
    colors_of,
    drag,
    hover,
    wait_for_colors,
    wait_until,
    wheel,
)
from support.notebooks import Kernel, run_cells, set_theme

from hta_widgets.demo.job import write_demo

GUTTER, MARGIN = 164, 128
HEAD = 32 + 20 + 48  # overview, axis; steps, phases, last ranks
LAST_RANKS = 32 + 4 + 20 + 32 + 8  # middle of the row of last ranks
NARROW = 900  # below this width, the gutter is narrower and the margin is hidden


class Screen:
    """Positions on a drawn timeline."""

    def __init__(self, page: Page, root, kernel) -> None:
        self.page, self.root, self.kernel = page, root, kernel
        self.stage = root.locator(".hta-stage-frame")

    def x(self, time_ns: float) -> float:
        """Return the x coordinate of an instant, in px from the left edge of the stage."""
        start, end = self.kernel.value("list(tl.view)")
        width = self.stage.bounding_box()["width"]
        assert width >= NARROW, "the test's window is too narrow"
        return GUTTER + (time_ns - start) / (end - start) * (width - GUTTER - MARGIN)

    def row(self, rank: int) -> float:
        """Return the top of a folded rank's row, in px from the top of the stage."""
        boxes = self.kernel.value("len(ts)")
        height = self.stage.bounding_box()["height"] - HEAD
        pitch = max(44, min(61, height / boxes))
        return HEAD + pitch * rank

    def focus(self) -> None:
        """Focus the timeline without selecting anything."""
        self.root.focus()


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A job of eight ranks and 68 ms; the sixth rank is slow."""
    folder = tmp_path_factory.mktemp("demo") / "job"
    write_demo(folder, ranks=8, steps=5, tensor_ranks=1, events_per_step=900)
    return folder


@pytest.fixture(scope="module")
def opened(kept_notebook, job) -> Page:
    """A notebook with a timeline."""
    return kept_notebook(
        "import hta_widgets as hw",
        f"ts = hw.load({str(job)!r}); tl = hw.Timeline(ts, height=560); tl",
    )


@pytest.fixture
def ddp(opened) -> Screen:
    """An untouched timeline."""
    opened.set_viewport_size({"width": 1440, "height": 1000})
    run_cells(opened)
    root = opened.locator(".hta-root")
    expect(root.locator(".hta-words")).to_contain_text("Whole job")
    root.evaluate("el => el.scrollIntoView()")
    return Screen(opened, root, Kernel(opened))


@pytest.fixture
def nccl(ddp) -> dict:
    """Return the longest collective of rank 0."""
    rows = ddp.kernel.value(
        "ts[0].events.query(\"kind == 'communication'\").nlargest(1, 'dur_ns')"
        ".reset_index()[['id', 'name', 'start_ns', 'dur_ns']].astype({'name': str})"
        ".to_dict('records')"
    )
    return rows[0]


def test_first_paint_shows_every_rank_in_the_kinds_colors(ddp, screenshot):
    expect(ddp.root.locator("[role=row]")).to_have_count(8)
    wait_for_colors(ddp.stage, "#1f77c0", "#e0630f")
    expect(ddp.root).to_contain_text("21 848 events, 0 dropped")
    screenshot(ddp.root, "timeline_light")
    set_theme(ddp.page, "dark")
    expect(ddp.root).to_have_css("background-color", "rgb(20, 24, 31)")
    wait_for_colors(ddp.stage, "#3d8ff2", "#f5821f")
    screenshot(ddp.root, "timeline_dark")
    set_theme(ddp.page, "light")


def test_ctrl_wheel_zooms_at_the_pointer(ddp):
    start, end = ddp.kernel.value("list(tl.view)")
    at = start + (end - start) * 0.25
    x = ddp.x(at)
    wheel(ddp.stage, (x, 200), -400, keys=["Control"])
    ddp.kernel.wait_for(f"tl.view[1] - tl.view[0] < {end - start} * 0.9")
    ddp.kernel.wait_for("not tl.state._history['past'] == []")
    assert ddp.x(at) == pytest.approx(x, abs=3)


def test_plain_wheel_scrolls_the_notebook_and_says_how_to_zoom(ddp):
    view = ddp.kernel.value("list(tl.view)")
    wheel(ddp.stage, (400, 200), 120)
    expect(ddp.root.locator(".hta-wheel-hint")).to_be_visible()
    assert ddp.kernel.value("list(tl.view)") == view


def test_keys_zoom_pan_and_undo_without_reaching_the_notebook(ddp):
    cells = ddp.page.locator(".jp-Notebook .jp-Cell").count()
    full = ddp.kernel.value("list(tl.view)")
    ddp.focus()
    hover(ddp.stage, (ddp.x(40_000_000), 200))
    ddp.page.keyboard.press("w", delay=120)
    ddp.kernel.wait_for(f"tl.view[1] - tl.view[0] < {full[1] - full[0]} - 1000")
    ddp.kernel.wait_for("len(tl.state._history['past']) == 1")
    zoomed = ddp.kernel.value("list(tl.view)")
    ddp.page.keyboard.press("d", delay=120)
    ddp.kernel.wait_for(f"tl.view[0] > {zoomed[0]}")
    ddp.kernel.wait_for("len(tl.state._history['past']) == 2")
    ddp.page.keyboard.press("Control+z")
    ddp.kernel.wait_for(f"list(tl.view) == {zoomed}")
    ddp.page.keyboard.press("Control+z")
    ddp.kernel.wait_for(f"list(tl.view) == {full}")
    ddp.page.keyboard.press("Control+Shift+z")
    ddp.kernel.wait_for(f"list(tl.view) != {full}")
    assert ddp.page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_drag_selects_a_window_of_the_rows_crossed(ddp, screenshot):
    left, right = ddp.x(30_000_000), ddp.x(50_000_000)
    drag(ddp.stage, (left, ddp.row(2) + 20), (right, ddp.row(3) + 20), keys=["Alt"])
    ddp.kernel.wait_for("tl.selection.start_ns is not None")
    result = ddp.kernel.value("tl.selection.to_json()")
    assert result["start_ns"] == pytest.approx(30_000_000, abs=200_000)
    assert result["end_ns"] == pytest.approx(50_000_000, abs=200_000)
    assert result["ranks"] == [2, 3]
    panel = ddp.root.locator(".hta-area")
    events = ddp.kernel.value("len(tl.selected_events())")
    expect(panel).to_contain_text(f"{events:,}".replace(",", " "))
    kinds = ddp.kernel.value(
        "{k: int(v) for k, v in tl.selected_events().groupby('kind', observed=True).size().items()}"
    )
    expect(panel).to_contain_text(f"{kinds['communication']}")
    screenshot(ddp.root, "timeline_selection")
    ddp.page.keyboard.press("Escape")
    ddp.page.keyboard.press("Escape")
    ddp.kernel.wait_for("tl.selection.is_everything")


def test_click_on_a_kernel_shows_details_and_the_arrow_to_its_launch(ddp, nccl, screenshot):
    middle = nccl["start_ns"] + nccl["dur_ns"] // 2
    ddp.kernel(f"tl.zoom_to({nccl['start_ns'] - 200_000}, {nccl['start_ns'] + nccl['dur_ns'] * 2})")
    expect(ddp.root.locator(".hta-words")).not_to_contain_text("Whole job")
    click(ddp.stage, (ddp.x(middle), ddp.row(0) + 3 + 24 + 1 + 7))
    ddp.kernel.wait_for(f"tl.selected_event == (0, {nccl['id']})")
    ddp.kernel.wait_for(f"tl.selection == ts.select(ids=[(0, {nccl['id']})])")
    details = ddp.root.locator(".hta-details")
    expect(details).to_contain_text(nccl["name"][:40])
    for key, value in ddp.kernel.value(f"ts[0].args({nccl['id']})").items():
        shown = value if isinstance(value, str) else json.dumps(value, separators=(", ", ": "))
        row = details.locator(".hta-arglist .hta-fact").filter(
            has=ddp.page.get_by_text(key, exact=True)
        )
        expect(row).to_contain_text(shown[:30].split(",")[0])
    screenshot(ddp.root, "timeline_details")
    launch = ddp.kernel.value(
        f"int(ts[0].flows.query(\"kind == 'launch' and target == {nccl['id']}\")['source'].iloc[0])"
    )
    ddp.page.keyboard.press("[")
    ddp.kernel.wait_for(f"tl.selected_event == (0, {launch})")
    ddp.page.keyboard.press("]")
    ddp.kernel.wait_for(f"tl.selected_event == (0, {nccl['id']})")


def test_search_marks_counts_and_steps_through_hits(ddp, screenshot):
    ddp.focus()
    ddp.page.keyboard.press("/")
    ddp.page.keyboard.type("nccl")
    total = ddp.kernel.value("int(ts.events()['name'].str.contains('nccl', case=False).sum())")
    expect(ddp.root.locator(".hta-search .hta-count")).to_contain_text(f"{total}")
    ddp.page.keyboard.press("Enter")
    ddp.kernel.wait_for("tl.search == 'nccl' and tl.selected_event is not None")
    first = ddp.kernel.value("list(tl.selected_event)")
    ddp.page.keyboard.press("Enter")
    ddp.kernel.wait_for(f"list(tl.selected_event) != {first}")
    rank, row = ddp.kernel.value("list(tl.selected_event)")
    assert "nccl" in ddp.kernel.value(f"ts[{rank}].events.loc[{row}, 'name']").lower()
    screenshot(ddp.root, "timeline_search")


def test_every_trait_set_from_python_changes_the_screen(ddp, nccl):
    details, words = ddp.root.locator(".hta-details"), ddp.root.locator(".hta-words")
    ddp.kernel("tl.view = (10_000_000, 20_000_000)")
    expect(words).to_contain_text("10.0–20.0")
    ddp.kernel(f"tl.selected_event = (0, {nccl['id']})")
    expect(details).to_contain_text(nccl["name"][:40])
    ddp.kernel("tl.selected_event = None")
    expect(details).to_have_count(0)
    ddp.kernel("tl.search = 'gemm'")
    expect(ddp.root.locator(".hta-search input").first).to_have_value("gemm")
    before = colors_of(ddp.stage)
    ddp.kernel("tl.color = 'name'")
    expect(ddp.root.locator(".hta-color")).to_have_attribute("aria-pressed", "true")
    wait_until(ddp.page, lambda: colors_of(ddp.stage) != before, "the colours of names")
    ddp.kernel("tl.pinned = ['5']")
    expect(ddp.root.locator("[role=row]").first).to_contain_text("rank 5")
    ddp.kernel("tl.search = ''; tl.select(\"kind == 'communication'\")")
    expect(words).to_contain_text("120 events")
    ddp.kernel("tl.height = 700")
    ddp.page.wait_for_function("el => el.clientHeight > 600", arg=ddp.stage.element_handle())


def test_export_button_writes_what_is_selected(ddp, tmp_path):
    path = tmp_path / "part.json.gz"
    ddp.kernel("tl.select(ts.select(start_ns=30_000_000, end_ns=31_000_000, ranks=[2, 3]))")
    expect(ddp.root.locator(".hta-area")).to_be_visible()
    ddp.focus()
    ddp.page.keyboard.press("x")
    ddp.root.locator(".hta-export .hta-path").fill(str(path))
    ddp.root.get_by_role("button", name="Write file").click()
    expect(ddp.root.locator(".hta-result")).to_contain_text("part.json.gz")
    assert ddp.kernel.value(f"hw.load({str(path)!r}, progress=False).ranks") == [2, 3]


def test_two_timelines_linked_in_the_page_and_undo_from_python(ddp):
    words = ddp.root.locator(".hta-words")
    ddp.kernel("other = hw.Timeline(ts); tl.link(other)")
    ddp.kernel("tl.zoom_to(10_000_000, 20_000_000)")
    expect(words).to_contain_text("10.0–20.0")
    assert ddp.kernel.value("list(other.view)") == [10_000_000, 20_000_000]
    ddp.kernel("other.undo()")
    expect(words).to_contain_text("Whole job")
    assert ddp.kernel.value("list(tl.view)") == ddp.kernel.value(
        "[tl.traces.start_ns, tl.traces.end_ns]"
    )


def test_like_ranks_fold_from_the_page_and_from_python(ddp):
    assert ddp.kernel.value("tl.folded") is False
    ddp.root.locator(".hta-fold").click()
    message = ddp.root.locator(".hta-words")
    expect(message).to_contain_text("2 of 8 ranks shown; similar ranks are folded.")
    ddp.kernel.wait_for("tl.folded is True")
    rows = ddp.root.locator("[role=rowheader]")
    expect(rows).to_have_text([
        "ranks 0–4, 6, 7, folded into rank 4, closed",
        "rank 5, closed",
    ])  # fmt: skip
    # Rows of events selected in Python are never hidden.
    ddp.kernel("tl.selected_event = (3, 100)")
    expect(rows).to_have_count(3)
    ddp.kernel("tl.selected_event = None")
    expect(rows).to_have_count(2)
    ddp.kernel("tl.folded = False")
    expect(rows).to_have_count(8)
    expect(message).not_to_contain_text("ranks shown")


def test_a_tick_of_who_comes_last_selects_its_collective(ddp):
    # According to the job's truth, rank 5 is last in the tenth collective.
    time = ddp.kernel.value(
        "(lambda f: int(f[(f['rank'] == 5) & (f['collective'] == f['collective'].unique()[9])]"
        ".arrival_ns.iloc[0]))(hw.analysis.collectives(tl.traces))"
    )
    ddp.kernel(f"tl.zoom_to({time} - 500_000, {time} + 500_000)")
    middle = GUTTER + (ddp.stage.bounding_box()["width"] - GUTTER - MARGIN) / 2

    def is_pointed_at():
        for x in (middle - 3, middle):
            ddp.stage.hover(position={"x": x, "y": LAST_RANKS})
        return ddp.root.locator(".hta-tooltip").is_visible()

    wait_until(ddp.page, is_pointed_at, "the tooltip of a tick")
    expect(ddp.root.locator(".hta-tooltip")).to_contain_text("rank 5 comes last")
    click(ddp.stage, (middle, LAST_RANKS))
    ddp.kernel.wait_for("tl.selected_event is not None and tl.selected_event[0] == 5")
    expect(ddp.root.locator(".hta-collective")).to_contain_text("on 8 ranks")


def test_details_and_the_full_window_in_a_notebook(ddp):
    page = ddp.page
    page.set_viewport_size({"width": 1440, "height": 620})
    stage = ddp.stage.bounding_box()
    assert stage["y"] + stage["height"] > 620, "the test's window is too high"
    click(ddp.stage, (ddp.x(30_000_000), ddp.row(1) + 12))
    dock = ddp.root.locator(".hta-dock")
    expect(dock).to_contain_text("rank 1")
    # The panel moves up again when more event details arrive.
    expect(dock).to_be_in_viewport(ratio=1)
    ddp.root.focus()
    page.keyboard.press("Shift+F")
    covers = {"x": 0, "y": 0, "width": 1440, "height": 620}
    wait_until(page, lambda: ddp.root.bounding_box() == covers, "the view covers the window")
    on_top = "el => el.contains(document.elementFromPoint(720, 5))"
    wait_until(page, lambda: ddp.root.evaluate(on_top), "the view is on top")
    page.keyboard.press("Shift+F")
    wait_until(page, lambda: ddp.root.bounding_box()["height"] != 620, "the view is as before")
    wait_until(page, lambda: not ddp.root.evaluate(on_top), "the view is in its cell")


def test_the_lower_edge_sets_the_height_and_empty_lanes_shrink(ddp):
    edge = ddp.root.get_by_role("separator", name="Height of the rows")
    drag(edge, (200, 4), (200, -90))
    ddp.kernel.wait_for("300 < tl.height < 480")
    ddp.focus()
    ddp.page.keyboard.press("g")
    ddp.kernel("tl.zoom_to(tl.traces.start_ns, tl.traces.start_ns + 500_000)")
    expect(ddp.root.locator(".hta-words")).to_contain_text("reduced height")
    ddp.focus()
    ddp.page.keyboard.press("e")
    expect(ddp.root.locator(".hta-words")).not_to_contain_text("reduced height")


HOSTILE = "<img src=x onerror=\"document.title='pwned'\">"


# This test must be the last one, because it closes the shared notebook.
def test_a_hostile_name_is_text_everywhere(notebook, kernel, page, tmp_path, screenshot):
    records = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": HOSTILE,
            "pid": 0,
            "tid": 7,
            "ts": 10 * k,
            "dur": 8,
            "args": {"stream": 7, HOSTILE: HOSTILE},
        }
        for k in range(3)
    ]
    meta = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": HOSTILE}}]
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"traceEvents": records + meta, "distributedInfo": {"rank": 0}}))
    notebook(
        "import hta_widgets as hw",
        f"ts = hw.load({str(path)!r}); display(ts); display(ts.problems); tl = hw.Timeline(ts); tl",
    )
    root = page.locator(".hta-root")
    expect(root).to_be_visible()
    kernel("tl.selected_event = (0, 1); tl.search = 'img'")
    expect(root.locator(".hta-details")).to_contain_text("<img src=x")
    kernel("tl.selected_event = None; tl.select(ts.select(start_ns=0, end_ns=30_000))")
    expect(root.locator(".hta-area")).to_contain_text("<img src=x")
    root.focus()
    page.keyboard.press("?")
    assert page.locator("img[src='x']").count() == 0
    assert page.title() != "pwned"
    screenshot(root, "timeline_hostile")
