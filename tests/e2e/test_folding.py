"""Folding similar ranks, and the row of the last rank, in a real JupyterLab."""

import pytest
from playwright.sync_api import expect
from support.browser import click

import hta_widgets.analysis

if not hasattr(hta_widgets.analysis, "rank_clusters"):
    pytest.skip("this version cannot group similar ranks", allow_module_level=True)

GUTTER, MARGIN = 164, 128
LAST_RANKS = 32 + 4 + 20 + 32 + 8  # the middle of the row of last ranks


@pytest.fixture
def root(notebook, shared, page):
    job = shared / "traces/made/ddp_8rank"
    notebook(
        "import hta_widgets as hw",
        f"ts = hw.load({str(job)!r}); tl = hw.Timeline(ts, height=560); tl",
    )
    root = page.locator(".hta-root")
    expect(root.locator(".hta-words")).to_contain_text("Whole job")
    return root


def test_like_ranks_fold_from_the_page_and_from_python(root, page, kernel):
    assert kernel.value("tl.folded") is False
    root.locator(".hta-fold").click()
    said = root.locator(".hta-words")
    expect(said).to_contain_text("2 of 8 ranks shown, the others folded with the like.")
    kernel.wait_for("tl.folded is True")
    rows = root.locator("[role=rowheader]")
    expect(rows).to_have_text([
        "ranks 0–4, 6, 7, folded into rank 0, closed",
        "rank 5, closed",
    ])  # fmt: skip
    # Python's selection is never hidden.
    kernel("tl.selected_event = (3, 100)")
    expect(rows).to_have_count(3)
    kernel("tl.selected_event = None")
    expect(rows).to_have_count(2)
    kernel("tl.folded = False")
    expect(rows).to_have_count(8)
    expect(said).not_to_contain_text("ranks shown")


def test_a_tick_of_who_comes_last_selects_its_collective(root, page, kernel):
    # The last rank of the tenth collective is rank 5, by the job's own truth.
    time = kernel.value(
        "(lambda f: int(f[(f['rank'] == 5) & (f['collective'] == f['collective'].unique()[9])]"
        ".arrival_ns.iloc[0]))(hw.analysis.collectives(ts))"
    )
    kernel(f"tl.zoom_to({time} - 5_000_000, {time} + 5_000_000)")
    stage = root.locator(".hta-stage-frame")
    width = stage.bounding_box()["width"]
    middle = GUTTER + (width - GUTTER - MARGIN) / 2
    for _ in range(50):
        page.wait_for_timeout(200)
        stage.hover(position={"x": middle - 3, "y": LAST_RANKS})
        stage.hover(position={"x": middle, "y": LAST_RANKS})
        if root.locator(".hta-tooltip").is_visible():
            break
    expect(root.locator(".hta-tooltip")).to_contain_text("rank 5 comes last")
    click(stage, (middle, LAST_RANKS))
    kernel.wait_for("tl.selected_event is not None and tl.selected_event[0] == 5")
    expect(root.locator(".hta-collective")).to_contain_text("on 8 ranks")
