"""Measure how soon a timeline appears and how smoothly it moves, in a real JupyterLab.

A job is drawn in Chromium without a GPU, and zoomed and panned with wheel and keys. First paint is
the time from the start of the cell to the first frame with event colors. For every animation frame,
the time of all callbacks and the interval from the previous frame are measured. For every answer of
the kernel, wall time, processor time and size are measured.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _harness import REPO, Failed, describe, machine, percentile, save
from _job import demo_job, stored_job

sys.path.insert(0, str(REPO / "tests"))

from playwright.sync_api import Page, expect, sync_playwright
from support import browser as hands
from support.notebook_files import write_notebook
from support.notebooks import Kernel, run_notebook
from support.servers import jupyterlab

# Sums up the callbacks of each frame. Canvas drawing happens within the calls, so it is included.
COUNT_FRAMES = """
(() => {
  const plain = window.requestAnimationFrame.bind(window);
  const log = window.__frames = { on: false, work: [], gaps: [] };
  let at = 0, spent = 0, last = 0;
  window.requestAnimationFrame = call => plain(time => {
    if (time !== at) {
      if (log.on && spent > 0.05) { log.work.push(spent); }
      at = time; spent = 0;
    }
    const begin = performance.now();
    call(time);
    spent += performance.now() - begin;
  });
  const tick = time => {
    if (log.on && last) log.gaps.push(time - last);
    last = log.on ? time : 0;
    plain(tick);
  };
  plain(tick);
})();
"""

# Looks for the colors of compute and communication, in either theme, in the lanes' area.
FIND_PAINT = """
(() => {
  const colours = [[31,119,192], [224,99,15], [61,143,242], [245,130,31]];
  const look = () => {
    const canvas = document.querySelector(".hta-stage canvas");
    if (canvas !== null && canvas.width > 400 && canvas.height > 200) {
      const { data } = canvas.getContext("2d").getImageData(300, 100, 100, canvas.height - 100);
      for (let at = 0; at < data.length; at += 4) {
        if (colours.some(colour => colour.every((part, i) => data[at + i] === part))) {
          window.__painted = Date.now();
          return;
        }
      }
    }
    setTimeout(look, 25);
  };
  look();
})();
"""

BEGIN = """
import time
begun = time.time()
tl = hw.Timeline(ts, height=560)
made = time.time()
"""

COUNT_ANSWERS = """
import time
import hta_widgets.widgets.view as views
answers = []
answer = views.answer
def timed(request, *answerers):
    begin, cpu = time.perf_counter(), time.process_time()
    reply, buffer = answer(request, *answerers)
    spent = time.perf_counter() - begin, time.process_time() - cpu
    answers.append((request["op"], *spent, len(buffer or b"")))
    return reply, buffer
views.answer = timed
"""


def settle(page: Page, kernel: Kernel, seconds: float = 120) -> None:
    """Wait for the page's last request, which matches collectives after the first paint."""
    requested, quiet = -1, 0
    for _ in range(int(seconds)):
        now = kernel.value("len(answers)")
        quiet = quiet + 1 if now == requested else 0
        requested = now
        if quiet == 3:
            return
        page.wait_for_timeout(1000)


class Hands:
    """User interactions that start with a view of the whole job."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.root = page.locator(".hta-root")
        self.stage = self.root.locator(".hta-stage-frame")

    def _at(self, share: float, y: float = 220) -> tuple[float, float]:
        box = self.stage.bounding_box()
        if box is None:
            raise Failed("the timeline is not in the page")
        return 164 + share * (box["width"] - 292), y

    def zoom(self) -> None:
        """Turn the wheel to zoom far in and out again."""
        for delta, turns in ((-240, 30), (240, 30)):
            for _ in range(turns):
                hands.wheel(self.stage, self._at(0.4), delta, keys=["Control"])

    def pan(self) -> None:
        """Zoom in, then scroll horizontally and back."""
        for _ in range(8):
            hands.wheel(self.stage, self._at(0.4), -240, keys=["Control"])
        for delta in (240, -240):
            for _ in range(30):
                hands.wheel(self.stage, self._at(0.5), delta, keys=["Shift"])

    def keys(self) -> None:
        """Hold W, D, A, S."""
        self.root.focus()
        for key, held_ms in (("w", 900), ("d", 900), ("a", 900), ("s", 900)):
            self.page.keyboard.press(key, delay=held_ms)

    def scroll(self) -> None:
        """Scroll the ranks down and up."""
        self.root.focus()
        for delta in (90, -90):
            for _ in range(30):
                hands.wheel(self.stage, self._at(0.5), delta)


def measure(page: Page, kernel: Kernel, move: Callable[[], None]) -> dict[str, Any]:
    """Perform an interaction; return its frames and answers."""
    kernel("tl.view = (int(ts.start_ns), int(ts.end_ns)); answers.clear()")
    kernel.wait_for("True")
    page.evaluate("__frames.work = []; __frames.gaps = []; __frames.on = true")
    move()
    frames = page.evaluate("__frames.on = false; __frames")
    # Wait for the answers to the last view.
    page.wait_for_timeout(500)
    answers = json.loads(kernel("import json; print(json.dumps(answers))"))
    return {"work": frames["work"], "gaps": frames["gaps"], "answers": answers}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each interaction."""
    lines = [
        (
            "| move | frames | work p50 | work p95 | frames over 25 ms "
            "| tile answers | kernel p50 | p95 | max | processor p50 | p95 | max | largest |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, result in results.items():
        tiles = [entry for entry in result["answers"] if entry[0] == "tiles"]
        slow = sum(gap > 25 for gap in result["gaps"]) / max(1, len(result["gaps"]))
        walls = [wall * 1000 for _, wall, _, _ in tiles] or [0.0]
        cpus = [cpu * 1000 for _, _, cpu, _ in tiles] or [0.0]
        largest = max((size for *_, size in tiles), default=0)
        lines.append(
            f"| {name} | {len(result['gaps'])} | {percentile(result['work'], 0.5):.1f} ms "
            f"| {percentile(result['work'], 0.95):.1f} ms | {slow:.1%} | {len(tiles)} "
            f"| {spread(walls)} | {spread(cpus)} "
            f"| {largest / 1e6:.2f} MB |"
        )
    return "\n".join(lines)


def spread(milliseconds: list[float]) -> str:
    """Return the cells of a row: median, 95th percentile, maximum."""
    middle, high = statistics.median(milliseconds), percentile(milliseconds, 0.95)
    return f"{middle:.0f} ms | {high:.0f} ms | {max(milliseconds):.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, help="a job or a store on disk; default: 10 M events"
    )
    parser.add_argument("--ranks", type=int, help="use a demo job with RANKS ranks")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--events", type=int, help="events per rank and step")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        job = arguments.folder
    elif arguments.ranks is None:
        job = stored_job()
    else:
        job = demo_job(arguments.ranks, arguments.steps, arguments.events)
    results: dict[str, dict[str, Any]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        jupyterlab(Path(folder) / "lab") as lab,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=str(hands.CHROMIUM), args=hands.FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        page.add_init_script(COUNT_FRAMES)
        page.add_init_script(FIND_PAINT)
        write_notebook(
            lab.folder / "frames.ipynb",
            (
                "import hta_widgets as hw",
                f"ts = hw.load({str(job.resolve())!r}, progress=False)",
                BEGIN + COUNT_ANSWERS + "tl",
            ),
        )
        run_notebook(lab, page, "frames.ipynb", app="lab")
        page.wait_for_function("window.__painted !== undefined", timeout=60_000)
        page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
        expect(page.locator(".hta-words")).to_contain_text("Whole job")
        kernel = Kernel(page)
        events, ranks = kernel.value("[sum(len(trace) for trace in ts.values()), len(ts)]")
        begun, result = kernel.value("[begun, made]")
        paint = {
            "first_paint_s": page.evaluate("window.__painted") / 1000 - begun,
            "made_s": result - begun,
        }
        settle(page, kernel)
        paint["at_rest_s"] = kernel.value("time.time() - begun")
        moves = Hands(page)
        for name in ("zoom", "pan", "keys", "scroll"):
            results[name] = measure(page, kernel, getattr(moves, name))
        chromium.close()
    print(describe(machine()))
    print(f"\n{ranks} ranks, {events:,} events, Canvas2D without a GPU\n")
    print(
        f"First paint {paint['first_paint_s']:.1f} s after the cell began, of which "
        f"{paint['made_s']:.1f} s to make the timeline; at rest after {paint['at_rest_s']:.0f} s.\n"
    )
    print(table(results))
    save("frames", {"events": events, "ranks": ranks, **paint, "moves": results})


if __name__ == "__main__":
    main()
