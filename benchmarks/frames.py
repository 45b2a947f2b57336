"""Measure how smoothly the timeline moves, in a real JupyterLab in Chromium without a GPU.

The demo job is drawn at 64 ranks; wheel and keys zoom and pan it as a user's hands would. Of every
animation frame the time that callbacks take is measured from outside, around all of them, and the
interval to the frame before. In the kernel, the time and size of every answer are measured.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _harness import DATA, REPO, describe, machine, save

sys.path.insert(0, str(REPO / "tests"))

from playwright.sync_api import Page, expect, sync_playwright
from support import browser as hands
from support.notebooks import Kernel, run_notebook, write_notebook
from support.servers import jupyterlab

from hta_widgets.demo import write_demo

# Every frame's callbacks, whoever asked for them, add up to one figure; drawing to a canvas happens
# in the call, so nothing of it is left out.
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

COUNT_ANSWERS = """
import time
answers = []
answer = tl.engine.answer
def timed(request):
    begin = time.perf_counter()
    reply, buffer = answer(request)
    answers.append((request["op"], time.perf_counter() - begin, len(buffer or b"")))
    return reply, buffer
tl.engine.answer = timed
"""


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of the others do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Hands:
    """Moves that a user makes, each from the whole job."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.root = page.locator(".hta-root")
        self.stage = self.root.locator(".hta-stage-frame")

    def _at(self, share: float, y: float = 220) -> tuple[float, float]:
        return 164 + share * (self.stage.bounding_box()["width"] - 292), y

    def zoom(self) -> None:
        """Turn the wheel far in and out again."""
        for delta, turns in ((-240, 30), (240, 30)):
            for _ in range(turns):
                hands.wheel(self.stage, self._at(0.4), delta, keys=["Control"])

    def pan(self) -> None:
        """Zoom in, then push sideways and back."""
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
    """One move's frames and answers."""
    kernel("tl.view = (int(ts.start_ns), int(ts.end_ns)); answers.clear()")
    kernel.wait_for("True")
    page.evaluate("__frames.work = []; __frames.gaps = []; __frames.on = true")
    move()
    frames = page.evaluate("__frames.on = false; __frames")
    # What the last view still asks for belongs to it.
    page.wait_for_timeout(500)
    answers = json.loads(kernel("import json; print(json.dumps(answers))"))
    return {"work": frames["work"], "gaps": frames["gaps"], "answers": answers}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown: one row a move."""
    lines = [
        (
            "| move | frames | work p50 | work p95 | frames over 25 ms "
            "| tile answers | kernel p50 | kernel max | largest |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, result in results.items():
        tiles = [entry for entry in result["answers"] if entry[0] == "tiles"]
        slow = sum(gap > 25 for gap in result["gaps"]) / max(1, len(result["gaps"]))
        kernel = [seconds * 1000 for _, seconds, _ in tiles] or [0.0]
        largest = max((size for *_, size in tiles), default=0)
        lines.append(
            f"| {name} | {len(result['gaps'])} | {percentile(result['work'], 0.5):.1f} ms "
            f"| {percentile(result['work'], 0.95):.1f} ms | {slow:.1%} | {len(tiles)} "
            f"| {statistics.median(kernel):.0f} ms | {max(kernel):.0f} ms "
            f"| {largest / 1e6:.2f} MB |"
        )
    return "\n".join(lines)


def main() -> None:
    """Write the job, draw it, move it, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--events", type=int, help="events per rank and step")
    arguments = parser.parse_args()
    job = DATA / f"demo-{arguments.ranks}x{arguments.steps}-{arguments.events or 'default'}"
    if not job.exists():
        partial = job.with_name(job.name + ".partial")
        write_demo(
            partial,
            ranks=arguments.ranks,
            steps=arguments.steps,
            seed=0,
            events_per_step=arguments.events,
        )
        partial.rename(job)
    results: dict[str, dict[str, Any]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        jupyterlab(Path(folder) / "lab") as lab,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(executable_path=str(hands.CHROMIUM), args=hands.FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 1000})
        page.add_init_script(COUNT_FRAMES)
        write_notebook(
            lab,
            "frames.ipynb",
            (
                "import hta_widgets as hw",
                f"ts = hw.load({str(job)!r}, progress=False); tl = hw.Timeline(ts, height=560)",
                COUNT_ANSWERS,
                "tl",
            ),
        )
        run_notebook(lab, page, "frames.ipynb", app="lab")
        page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
        expect(page.locator(".hta-words")).to_contain_text("Whole job")
        kernel = Kernel(page)
        events = kernel.value("sum(len(trace) for trace in ts.values())")
        moves = Hands(page)
        for name in ("zoom", "pan", "keys", "scroll"):
            results[name] = measure(page, kernel, getattr(moves, name))
        chromium.close()
    print(describe(machine()))
    print(f"\n{arguments.ranks} ranks, {events:,} events, Canvas2D without a GPU\n")
    print(table(results))
    save("frames", {"events": events, "moves": results})


if __name__ == "__main__":
    main()
