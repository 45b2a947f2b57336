"""Measure how long two real runs take to open side by side, and how smoothly they move.

`trace_diff__control` and `trace_diff__test` are compared in a real JupyterLab in Chromium without a
GPU. The kernel times the cell that loads both runs without a cache. The page times the cell that
shows them, from its start until each part is drawn. Each repetition uses a new kernel and a new
page. The results are medians of times and of their ratios to the load time in the same kernel.
Finally, the wheel zooms and pans the upper timeline while the lower one follows, and the callbacks
of each animation frame are timed.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from _harness import REPO, SHARED, describe, machine, percentile, save
from frames import COUNT_FRAMES

sys.path.insert(0, str(REPO / "tests"))

from playwright.sync_api import Page, expect, sync_playwright
from support import browser as hands
from support.notebook_files import write_notebook
from support.notebooks import Kernel, run_notebook
from support.servers import Lab, jupyterlab

FOLDER = SHARED / "traces" / "hta_tests"
RUNS = (FOLDER / "trace_diff__control", FOLDER / "trace_diff__test")

LOAD = """
import time
import hta_widgets as hw
from pathlib import Path
begin, begin_cpu = time.perf_counter(), time.process_time()
before, after = (hw.load(path, cache=False, progress=False) for path in {paths})
loads = time.perf_counter() - begin
loads_cpu = time.process_time() - begin_cpu
"""
SHOW = """
begin, begin_cpu = time.perf_counter(), time.process_time()
view = hw.TraceDiff(before, after)
made = time.perf_counter() - begin
view
"""
PARTS = (
    ("timelines", ".hta-diff-second .hta-words"),
    ("steps", ".hta-diff-slot"),
    ("names", ".hta-diff-names .hta-name-row"),
    ("tree", ".hta-diff-tile"),
)


# Records when each part appears. Polling from outside the page would be too coarse.
RUN_AND_WATCH = """parts => {
  const seen = window.__seen = {};
  const look = () => {
    for (const [part, selector] of parts) {
      if (!(part in seen) && document.querySelector(selector)) {
        seen[part] = (performance.now() - begin) / 1000;
      }
    }
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  const begin = performance.now();
  jupyterapp.commands.execute('notebook:run-all-below');
}"""


def show(lab: Lab, page: Page, name: str) -> None:
    """Load both runs in a new notebook, and prepare the cell that shows them."""
    write_notebook(lab.folder / name, (LOAD.format(paths=repr(tuple(map(str, RUNS)))),))
    run_notebook(lab, page, name, app="lab")
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    page.evaluate(
        """code => {
          const { content } = jupyterapp.shell.currentWidget;
          content.model.sharedModel.addCell({ cell_type: 'code', source: code });
          content.activeCellIndex = content.widgets.length - 1;
        }""",
        SHOW.strip(),
    )


def opened(page: Page, kernel: Kernel) -> dict[str, float]:
    """Return the seconds from the start of the cell until each part is drawn."""
    page.evaluate(RUN_AND_WATCH, PARTS)
    page.wait_for_function("count => Object.keys(__seen).length === count", arg=len(PARTS))
    result = {part: float(page.evaluate("part => __seen[part]", part)) for part, _ in PARTS}
    # Processor time excludes other work on the machine.
    result["kernel until tree, processor"] = float(kernel("print(time.process_time() - begin_cpu)"))
    result["loads"] = float(kernel("print(loads)"))
    result["loads, processor"] = float(kernel("print(loads_cpu)"))
    result["made"] = float(kernel("print(made)"))
    return result


def move(page: Page, keys: list[str], wheel: list[tuple[float, int]]) -> dict[str, Any]:
    """Turn the wheel on the upper timeline; return the work in each frame."""
    stage = page.locator(".hta-stage-frame").first
    stage.scroll_into_view_if_needed()
    page.evaluate("__frames.work = []; __frames.gaps = []; __frames.on = true")
    for delta, turns in wheel:
        for _ in range(turns):
            hands.wheel(stage, (500, 120), delta, keys=keys)
    result: dict[str, Any] = page.evaluate("__frames.on = false; __frames")
    page.wait_for_timeout(600)
    return result


def table(moves: dict[str, dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each interaction."""
    lines = [
        "| move | frames | work p50 | work p95 | frames over 25 ms |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, result in moves.items():
        slow = sum(gap > 25 for gap in result["gaps"]) / max(1, len(result["gaps"]))
        work = [percentile(result["work"], share) for share in (0.5, 0.95)]
        lines.append(
            f"| {name} | {len(result['gaps'])} | {work[0]:.1f} ms | {work[1]:.1f} ms | {slow:.1%} |"
        )
    return "\n".join(lines)


def medians(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the median of each figure in seconds, and relative to the time to load both runs."""
    return {
        name: {
            "seconds": statistics.median(run[name] for run in runs),
            "loads": statistics.median(run[name] / run["loads"] for run in runs),
        }
        for name in runs[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    runs: list[dict[str, float]] = []
    moves: dict[str, dict[str, Any]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        jupyterlab(Path(folder) / "lab") as lab,
        sync_playwright() as playwright,
    ):
        for number in range(repeat):
            chromium = playwright.chromium.launch(
                executable_path=str(hands.CHROMIUM), args=hands.FLAGS
            )
            page = chromium.new_page(viewport={"width": 1440, "height": 1000})
            page.add_init_script(COUNT_FRAMES)
            show(lab, page, f"diff-{number}.ipynb")
            runs.append(opened(page, Kernel(page)))
            expect(page.locator(".hta-headline")).to_contain_text("longer")
            if number == repeat - 1:
                moves = {
                    "zoom": move(page, ["Control"], [(-240, 30), (240, 30)]),
                    "zoom in": move(page, ["Control"], [(-240, 8)]),
                    "pan": move(page, ["Shift"], [(240, 30), (-240, 30)]),
                }
            chromium.close()
            lab.end_sessions()
    print(describe(machine()))
    result = medians(runs)
    print("\n| | seconds | times both loads |\n|---|---:|---:|")
    for name, value in result.items():
        print(f"| {name} | {value['seconds']:.2f} | {value['loads']:.2f} |")
    print(f"\n{table(moves)}")
    save("diff", {"seconds": result, "runs": runs, "moves": moves})


if __name__ == "__main__":
    main()
