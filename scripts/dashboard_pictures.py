"""Write the pictures of docs/dashboard.md: a page of the demo job, as a browser shows it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import hta_widgets as hw
from hta_widgets.demo import write_demo

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests"))

from support.browser import CHROMIUM, FLAGS  # noqa: E402
from support.dashboard import Dash  # noqa: E402

CHARTS = ("breakdown", "overlap", "heatmap", "steps")


def settle(dash: Dash, page: Page) -> None:
    """Wait until everything in the picture is drawn."""
    for panel in CHARTS:
        dash.chart(panel)
    dash.ready("kernels")
    page.mouse.move(2, 2)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(1500)


def shoot(page: Page, path: Path) -> None:
    """Write what is seen, in as many colours as it takes."""
    page.screenshot(path=path)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main(folder: Path) -> None:
    """Save a page, and look at it whole, brushed, and in the dark."""
    with tempfile.TemporaryDirectory() as work, sync_playwright() as play:
        job = Path(work) / "demo-job"
        write_demo(job, ranks=8, steps=5, seed=0)
        traces = hw.load(job, cache=False, progress=False)
        path = hw.Dashboard(traces).save_html(Path(work) / "page.html")
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        for name, width, height, theme in (
            ("dashboard", 1440, 1010, "light"),
            ("dashboard_dark", 1000, 900, "dark"),
        ):
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
            page.goto(f"file://{path}")
            dash = Dash(page, traces)
            settle(dash, page)
            shoot(page, folder / f"{name}.png")
            if theme == "dark":
                continue
            dash.click_bar("breakdown", 5)
            settle(dash, page)
            shoot(page, folder / "dashboard_rank_5.png")
            dash.undo()
            dash.drag_window(80e6, 90e6, down=-12)
            settle(dash, page)
            shoot(page, folder / "dashboard_window.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "docs/img")
