"""Create the pictures in README and docs with the current version, and extract their texts.

    python scripts/pictures.py            # docs/img/*.png, texts.json, and the animation tour.webp

A test makes the same pages and compares their texts with ``texts.json``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import hta_widgets as hw
from hta_widgets import analysis, charts
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests"))

from support.browser import CHROMIUM, FLAGS, wait_for_frames  # noqa: E402
from support.chart_reading import words_of  # noqa: E402
from support.dashboard import Dash  # noqa: E402

#: Elements whose texts are compared: headlines and status lines of timelines.
WORDS = ".hta-headline, .hta-status"


def pictured(browser: Browser, work: Path) -> Iterator[tuple[str, Page, list[str]]]:
    """Yield each page with a picture in README or docs: name, page and texts."""
    job, slower, byteps, mpi = jobs(work)
    page = show(browser, hw.Dashboard(job), work, 1440, 1010)
    yield "dashboard", page, words_on(page)
    dash = Dash(page, job)
    dash.click_bar("breakdown", 5)
    yield "dashboard_rank_5", page, words_on(page)
    dash.undo()
    dash.drag_window(80e6, 90e6, down=-12)
    yield "dashboard_window", page, words_on(page)
    for name, view, *looks in (
        ("dashboard_dark", hw.Dashboard(job), 1000, 900, "dark"),
        ("dashboard_byteps", hw.Dashboard(byteps), 1100, 1180),
        ("dashboard_mpi", hw.Dashboard(mpi), 1100, 1000),
        ("timeline", hw.Timeline(job), 1440, 600),
        ("collective", collective(job), 1240, 800),
        ("diff", hw.TraceDiff(job, slower), 1100, 2000),
    ):
        page = show(browser, view, work, *looks)
        yield name, page, words_on(page)
    for name, figure in drawn_charts(job).items():
        page = browser.new_page(viewport={"width": 800, "height": 60})
        page.goto(Path(charts.to_html(figure, work / "chart.html")).as_uri())
        page.wait_for_function("Bokeh.documents.length && Bokeh.documents[0].is_idle")
        yield name, page, [words_of(figure)]


def show(
    browser: Browser, view: Any, work: Path, width: int, height: int, theme: str = "light"
) -> Page:
    """Save a view and open the page."""
    size = {"width": width, "height": height}
    page = browser.new_page(viewport=size, color_scheme=theme, reduced_motion="reduce")
    page.goto(Path(view.save_html(work / "page.html")).as_uri())
    return page


def write_tour(browser: Browser, work: Path, path: Path) -> None:
    """Write an animation of a dashboard: late rank, undo, zoom, a window and its figures."""
    (work / "tour").mkdir()
    job = jobs(work / "tour")[0]
    page = show(browser, hw.Dashboard(job), work, 1200, 800)
    words_on(page)
    dash = Dash(page, job)
    frames: list[tuple[Image.Image, int]] = []

    def keep(milliseconds: int) -> None:
        with Image.open(BytesIO(page.screenshot())) as picture:
            frames.append((picture.convert("RGB").resize((900, 600)), milliseconds))

    keep(2000)
    dash.click_bar("breakdown", 5)
    words_on(page)
    keep(2500)
    dash.undo()
    page.evaluate("window.scrollTo(0, 0)")
    keep(800)
    box = dash.timeline.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 200)
    page.keyboard.down("Control")
    for _ in range(6):
        page.mouse.wheel(0, -120)
        wait_for_frames(page, 24)
        keep(250)
    page.keyboard.up("Control")
    keep(1500)
    for part in (0.45, 0.5, 0.55, 0.6, 0.65):
        page.mouse.move(box["x"] + box["width"] * part, box["y"] + 60)
        page.mouse.down()  # only the first call has an effect
        keep(150)
    page.mouse.up()
    words_on(page)
    keep(3000)
    pictures, durations = zip(*frames, strict=True)
    options = {"duration": list(durations), "loop": 0, "quality": 70, "method": 6}
    pictures[0].save(path, save_all=True, append_images=pictures[1:], **options)


def jobs(work: Path) -> list[hw.TraceSet]:
    """Write and load the jobs in the pictures: two for README, one of BytePS, one of MPI."""
    write_demo(work / "demo-job", ranks=8, steps=5, seed=0)
    changes = ["slow_operator", "extra_copy"]
    write_demo(work / "slower-job", ranks=8, steps=5, seed=0, changes=changes)
    write_byteps_job(work / "byteps-job", seed=0)
    write_mpi_job(work / "mpi-job", seed=0)
    names = ("demo-job", "slower-job", "byteps-job", "mpi-job")
    return [hw.load(work / name, cache=False, progress=False) for name in names]


def drawn_charts(job: hw.TraceSet) -> dict[str, Any]:
    """Return the charts in docs by picture name."""
    return {
        "charts_collectives": charts.collectives(job, clock="fitted"),
        "charts_rank_clusters": charts.rank_clusters(job),
    }


def collective(job: hw.TraceSet) -> hw.Timeline:
    """Return a timeline around the longest wait of rank 3 in one step, with the event selected."""
    frame = analysis.collectives(job, window=("70ms", "100ms"))
    frame = frame[frame["rank"] == 3]
    longest = frame.loc[frame["wait_ns"].idxmax()]
    timeline = hw.Timeline(job)
    timeline.selected_event = (3, int(longest["id"]))
    end_ns = int(longest["end_ns"])
    timeline.zoom_to(end_ns - 5_000_000, end_ns + 5_000_000)
    return timeline


def words_on(page: Page) -> list[str]:
    """Return the lines of text on a page after it has settled."""
    page.mouse.move(2, 2)
    page.evaluate("window.scrollTo(0, 0)")
    page.locator(WORDS).first.wait_for(timeout=60_000)
    before = b""
    for _ in range(60):
        wait_for_frames(page, 30)
        now = page.screenshot()
        if now == before and not page.get_by_text("Adding up").count():
            break
        before = now
    texts = page.locator(WORDS).all_inner_texts()
    lines = [line.strip() for text in texts for line in text.splitlines()]
    return list(dict.fromkeys(line for line in lines if line not in ("", "Saved view")))


def shoot(page: Page, path: Path) -> None:
    """Take a screenshot of a page. The image has only as many colors as needed."""
    if path.stem in ("timeline", "collective", "diff"):
        # The footer is left out because it contains the time of saving.
        page.locator(".hta-root").first.screenshot(path=path)
    else:
        page.screenshot(path=path, full_page=path.stem.startswith("charts"))
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def main(folder: Path) -> None:
    """Write all pictures and ``texts.json``."""
    texts: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as work, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        for name, page, words in pictured(browser, Path(work)):
            shoot(page, folder / f"{name}.png")
            texts[name] = words
        write_tour(browser, Path(work), folder / "tour.webp")
        browser.close()
    text = json.dumps(texts, indent=1, ensure_ascii=False)
    (folder / "texts.json").write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "docs/img")
