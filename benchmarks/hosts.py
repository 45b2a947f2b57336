"""Measure times to open traces in JupyterLab and `hta-widgets view`, and the browser's memory.

    python benchmarks/hosts.py PATH… [--repeat 3]

Each PATH is a file or a folder. Times are from the double click, or the request of a page, to the
dashboard, to the first chart, and until nothing is computed or fetched any more. Memory is the
growth of JupyterLab's server and of all processes of the browser, each at its peak, beyond the
started page; kernels and the process of `view`, which hold the traces, are left out.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import _harness as harness
from _harness import REPO
from _tree import _pss_kb
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(REPO / "tests"))
from support import browser as hands
from support.servers import jupyterlab

#: Nothing is drawn, computed or fetched; panels below the window wait until they are seen.
REST = """() => {
  const dash = document.querySelector(".hta-dash");
  return dash !== null && [...dash.querySelectorAll("[aria-busy=true]")]
    .every((panel) => panel.getBoundingClientRect().top >= innerHeight)
    && !/fetching page data|preparing page data/.test(dash.innerText);
}"""
OPEN = "path => void jupyterapp.commands.execute('hta-widgets:open', { paths: [path] })"
QUIET_S = 3.0


def browser_mb() -> float:
    """Return what all processes of the browser that this script started take."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_browser = b"chromium" in entry.read_bytes().split(b"\0")[0]
        except OSError:
            continue
        if is_browser and _is_ours(int(entry.parent.name)):
            total += _pss_kb(int(entry.parent.name))
    return total / 1024


def _is_ours(process: int) -> bool:
    while process > 1 and process != os.getpid():
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            return False
        process = int(text.rpartition(")")[2].split()[1])
    return process > 1


class Peaks(threading.Thread):
    """Samples the browser, and a server if there is one."""

    def __init__(self, server: int | None) -> None:
        super().__init__(daemon=True)
        self.server, self.over = server, threading.Event()
        self.first = self.most = self.now()

    def now(self) -> tuple[float, float]:
        """Return what both take now."""
        return browser_mb(), 0 if self.server is None else _pss_kb(self.server) / 1024

    def run(self) -> None:
        """Sample until `growth` is called."""
        while not self.over.wait(0.3):
            self.most = tuple(map(max, self.most, self.now()))

    def growth(self) -> dict[str, float]:
        """Return the peaks beyond the first sample."""
        self.over.set()
        self.join()
        rows = zip(("browser", "server"), self.first, self.most, strict=True)
        return {
            f"{name}_{word}_mb": round(value)
            for name, first, most in rows
            for word, value in (("started", first), ("growth", most - first))
        }


def timed(page: Page, start: Callable[[], object]) -> dict[str, float]:
    """Open, and return the seconds to the dashboard, the first chart and to rest."""
    begun = time.perf_counter()
    start()

    def since() -> float:
        return round(time.perf_counter() - begun, 2)

    page.locator(".hta-dash").wait_for(timeout=600_000)
    said = {"dashboard_s": since()}
    chart = page.locator(".hta-dash [data-panel=breakdown][aria-busy=false] canvas").first
    chart.wait_for(timeout=600_000)
    said["chart_s"] = since()
    quiet = time.perf_counter()
    while time.perf_counter() - quiet < QUIET_S:
        if not page.evaluate(REST):
            quiet = time.perf_counter()
        time.sleep(0.1)
    return said | {"rest_s": round(quiet - begun, 2)}


@contextmanager
def opened(url: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=hands.CHROMIUM, args=hands.FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(url)
        yield page
        browser.close()


def in_lab(path: Path) -> dict[str, float]:
    """Open a path in a fresh JupyterLab."""
    with tempfile.TemporaryDirectory() as root, jupyterlab(Path(root)) as lab:
        name = path.name if path.is_dir() else f"{path.name.split('.')[0]}.trace.json"
        name += ".gz" if path.suffix == ".gz" else ""
        (lab.folder / name).symlink_to(path)
        (note,) = Path(root).glob("runtime/jpserver-*.json")
        with opened(f"{lab.url}/lab?reset&token={lab.token}") as page:
            item = page.locator(".jp-DirListing-item").first
            item.wait_for(timeout=60_000)
            page.locator(".jp-Launcher").wait_for(timeout=60_000)
            time.sleep(QUIET_S)
            peaks = Peaks(json.loads(note.read_text())["pid"])
            peaks.start()
            is_folder = path.is_dir()
            said = timed(page, lambda: page.evaluate(OPEN, name) if is_folder else item.dblclick())
            return said | peaks.growth()


def in_view(path: Path) -> dict[str, float]:
    """Open a path with `hta-widgets view`, from the request of the page on."""
    command = [sys.executable, "-m", "hta_widgets.cli", "view", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        url = next(line.strip() for line in host.stdout if "token=" in line)
        with opened("about:blank") as page:
            peaks = Peaks(None)
            peaks.start()
            said = timed(page, lambda: page.goto(url)) | peaks.growth()
        host.kill()
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    rows = []
    for path in options.paths:
        for host, run in (("JupyterLab", in_lab), ("view", in_view)):
            for _ in range(options.repeat):
                with tempfile.TemporaryDirectory() as cache:
                    os.environ["HTA_WIDGETS_CACHE"] = cache
                    row = {"path": path.name, "host": host, **run(path.resolve())}
                rows.append(row)
                print(row, flush=True)
    harness.save("hosts", {"rows": rows})


if __name__ == "__main__":
    main()
