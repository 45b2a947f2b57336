"""Compare how smoothly viewers move in one file: this package, Perfetto's UI, catapult.

    python benchmarks/viewers.py [--only small] [--moves zoom pan keys]

All viewers run in Chromium without a GPU, with 1440 by 1000 pixels, all rows expanded, and the same
wheel turns and keys. Ours runs in JupyterLab and asks its kernel. Perfetto's UI asks its trace
processor in a worker. Catapult has all data in its page. The zoom per wheel turn differs between
viewers.

For every animation frame, the total time of its callbacks and the interval from the previous frame
are measured. The browser reports how busy the main thread was, including events, style and canvas
painting.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import load
from _harness import Missing, describe, machine, percentile, save
from _report import moves_table
from _viewers import CATAPULT, PERFETTO, Viewer
from frames import COUNT_FRAMES
from playwright.sync_api import Browser, Error, Locator, Page, ViewportSize, expect, sync_playwright
from support import browser as hands
from support.notebook_files import write_notebook
from support.notebooks import run_notebook
from support.servers import jupyterlab, static_files

WINDOW: ViewportSize = {"width": 1440, "height": 1000}
#: Timeline height that fills the window below JupyterLab's toolbars.
HEIGHT = 800
TURNS, TURN_MS = 30, 50
HELD_MS, REPEAT_MS = 900, 30
SLOW_MS = 25


class Mover:
    """User interactions in a viewer with an open trace."""

    def __init__(
        self,
        page: Page,
        stage: Locator,
        whole: Callable[[], None],
        zoom_key: str = "Control",
        drag_key: str = "Shift",
    ) -> None:
        self.page = page
        self.stage = stage
        #: Function that shows the whole trace again.
        self.whole = whole
        self.zoom_key = zoom_key
        self.drag_key = drag_key

    def _at(self, share: float) -> tuple[float, float]:
        box = self.stage.bounding_box()
        assert box is not None
        left = 0.2 * box["width"]  # right of the track names
        return left + share * (box["width"] - left), 0.45 * box["height"]

    def _turn(self, turns: int, delta: float) -> None:
        """Turn the wheel as fast as a user, or more slowly if the page is slow."""
        left, top = self._at(0.4)
        box = self.stage.bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + left, box["y"] + top)
        self.page.keyboard.down(self.zoom_key)
        for _ in range(turns):
            self.page.mouse.wheel(0, delta)
            self.page.wait_for_timeout(TURN_MS)
        self.page.keyboard.up(self.zoom_key)

    def zoom(self) -> None:
        """Turn the wheel to zoom far in and out again."""
        self._turn(TURNS, -240)
        self._turn(TURNS, 240)

    def pan(self) -> None:
        """Zoom in, then drag sideways and back."""
        self._turn(8, -240)
        for start, end in ((0.9, 0.1), (0.1, 0.9)):
            hands.drag(
                self.stage, self._at(start), self._at(end), keys=[self.drag_key], steps=TURNS
            )

    def keys(self) -> None:
        """Hold W, D, A, S, repeated as by a keyboard."""
        for key in ("w", "d", "a", "s"):
            for _ in range(HELD_MS // REPEAT_MS):
                self.page.keyboard.down(key)
                self.page.wait_for_timeout(REPEAT_MS)
            self.page.keyboard.up(key)


def measure(mover: Mover, name: str) -> dict[str, Any]:
    """Perform an interaction; return its frames, and the main-thread time per frame."""
    page = mover.page
    mover.whole()
    page.wait_for_timeout(600)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(item["value"]) for item in metrics if item["name"] == "TaskDuration")

    page.evaluate("__frames.work = []; __frames.gaps = []; __frames.on = true")
    before, begin = busy(), time.perf_counter()
    getattr(mover, name)()
    spent, took = busy() - before, time.perf_counter() - begin
    frames = page.evaluate("__frames.on = false; __frames")
    session.detach()
    gaps = frames["gaps"] or [0.0]
    work = frames["work"] or [0.0]
    return {
        "took_s": took,
        "busy_s": spent,
        "frames": len(gaps),
        "drawn": len(work),
        "work_p50_ms": percentile(work, 0.5),
        "work_p95_ms": percentile(work, 0.95),
        "gap_p95_ms": percentile(gaps, 0.95),
        "gap_max_ms": max(gaps),
        "slow_share": sum(gap > SLOW_MS for gap in gaps) / len(gaps),
    }


@contextmanager
def ours(browser: Browser, path: Path) -> Iterator[Mover]:
    """Open the file in our timeline in JupyterLab."""
    with tempfile.TemporaryDirectory() as folder, jupyterlab(Path(folder) / "lab") as lab:
        page = new_page(browser)
        cells = (
            "import hta_widgets as hw",
            f"traces = hw.load({str(path)!r}, progress=False)",
            f"hw.Timeline(traces, height={HEIGHT})",
        )
        write_notebook(lab.folder / "viewers.ipynb", cells)
        run_notebook(lab, page, "viewers.ipynb", app="lab")
        page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
        # A single rank is expanded from the start.
        expect(page.locator(".hta-words")).to_contain_text("Whole", timeout=60_000)
        root = page.locator(".hta-root")

        def whole() -> None:
            # A busy page may handle wheel turns after the key press.
            words = page.locator(".hta-words")
            for _ in range(10):
                root.focus()
                page.keyboard.press("0")
                page.wait_for_timeout(800)
                if "Whole" in words.inner_text():
                    return
            expect(words).to_contain_text("Whole")

        yield Mover(page, root.locator(".hta-stage-frame"), whole)
        page.close()


@contextmanager
def perfetto(browser: Browser, path: Path) -> Iterator[Mover]:
    """Open the file in Perfetto's UI and expand all groups."""
    with opened(browser, PERFETTO, path) as page:
        page.evaluate(
            """() => {
              app.commands.runCommand('dev.perfetto.ExpandAllGroups');
              window.__whole = app.trace.timeline.visibleWindow;
            }"""
        )
        yield Mover(
            page,
            page.locator(PERFETTO.stage).first,
            lambda: page.evaluate("() => { app.trace.timeline.updateVisibleTimeHP(__whole); }"),
        )


@contextmanager
def catapult(browser: Browser, path: Path) -> Iterator[Mover]:
    """Open the catapult viewer, in which all rows are expanded."""
    with opened(browser, CATAPULT, path) as page:
        stage = page.locator(CATAPULT.stage)
        yield Mover(page, stage, lambda: page.keyboard.press("0"), "Alt", "Space")


@contextmanager
def opened(browser: Browser, viewer: Viewer, path: Path) -> Iterator[Page]:
    """Yield a page with a viewer that has loaded the file."""
    if viewer.missing:
        raise Missing(viewer.missing)
    with static_files(viewer.folder) as url:
        page = new_page(browser)
        viewer.start(page, url)
        viewer.open_trace(page, path)
        page.wait_for_timeout(1000)
        yield page
        page.close()


def new_page(browser: Browser) -> Page:
    page = browser.new_page(viewport=WINDOW)
    page.add_init_script(COUNT_FRAMES)
    return page


VIEWS = {"ours": ours, "Perfetto UI": perfetto, "catapult viewer": catapult}
MOVES = ("zoom", "pan", "keys")


def compare(
    path: Path, viewers: list[str], moves: list[str], pictures: Path | None
) -> dict[str, Any]:
    """Return the figures by viewer and interaction, or the reason why they are missing."""
    result: dict[str, Any] = {}
    for name in viewers:
        # Each viewer gets a new browser, so that memory of earlier viewers does not count.
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=str(hands.CHROMIUM), args=hands.FLAGS
            )
            try:
                with VIEWS[name](browser, path) as mover:
                    result[name] = {move: measure(mover, move) for move in moves}
                    if pictures:
                        mover.whole()
                        mover.page.wait_for_timeout(1000)
                        mover.page.screenshot(path=pictures / f"{name.replace(' ', '-')}.png")
            except Missing as reason:
                result[name] = str(reason)
            except Error as error:
                result[name] = f"failed: {error.message.strip().splitlines()[0]}"
            browser.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["small", "large"])
    parser.add_argument("--moves", nargs="+", choices=MOVES, default=list(MOVES))
    parser.add_argument("--viewer", choices=list(VIEWS), nargs="+", default=list(VIEWS))
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each viewer")
    options = parser.parse_args()
    print(describe(machine()) + "\n")
    results: dict[str, Any] = {}
    for name, find in (("small", load.small), ("large", load.large)):
        if options.only not in (None, name):
            continue
        try:
            path = find()
        except Missing as reason:
            results[name] = str(reason)
            print(f"{name}: {reason}\n")
            continue
        results[name] = compare(path, options.viewer, options.moves, options.pictures)
        print(f"{path.name}\n\n{moves_table(results[name])}\n")
    save("viewers", results)


if __name__ == "__main__":
    main()
