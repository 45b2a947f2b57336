"""Measure time and memory for opening traces in JupyterLab, VS Code and `hta-widgets view`.

    python benchmarks/hosts.py PATH… [--repeat 3]

VS Code is represented by code-server, if `make interop` has installed it. Each PATH is a file or a
folder. Times start with the double click or page request, and end with the dashboard, with the
first chart, and with an idle page. Memory is the peak growth of the server (JupyterLab or editor
processes) and of all browser processes after the start page; the Python processes that hold the
traces do not count.
"""

import argparse
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
import psutil
from _harness import REPO
from _tree import process_tree, pss_mb
from playwright.sync_api import FrameLocator, Page, sync_playwright

sys.path.insert(0, str(REPO / "tests"))
from support import browser as hands
from support.editor import ENTRY, Editor, built_extension, code_server
from support.servers import jupyterlab

#: True if the page is idle. Panels below the window do not count.
REST = """(dash) => {
  return [...dash.querySelectorAll("[aria-busy=true]")]
    .every((panel) => panel.getBoundingClientRect().top >= innerHeight)
    && !/fetching page data|preparing page data/.test(dash.innerText);
}"""
OPEN = "path => void jupyterapp.commands.execute('hta-widgets:open', { paths: [path] })"
QUIET_S = 3.0


def mb_of(is_counted: Callable[[str], bool]) -> float:
    """Return the memory of this script's descendants for which `is_counted` is True."""
    return pss_mb(
        process for process in process_tree(os.getpid()) if is_counted(command_of(process))
    )


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process, or "" if the process has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def is_browser(command: str) -> bool:
    return "chromium" in command.partition(" ")[0]


def is_lab(command: str) -> bool:
    """Return whether a process is the JupyterLab server."""
    return "jupyterlab" in command and not is_browser(command)


def is_editor(command: str) -> bool:
    """Return whether a process belongs to code-server and is not Python."""
    return "code-server" in command and "hta_widgets.host" not in command


class Peaks(threading.Thread):
    """Samples the memory of the browser and, if present, of a server."""

    def __init__(self, server: Callable[[str], bool] | None) -> None:
        super().__init__(daemon=True)
        self.server, self.over = server, threading.Event()
        self.first = self.most = self.now()

    def now(self) -> tuple[float, float]:
        """Return the memory of the browser and the server."""
        return mb_of(is_browser), 0 if self.server is None else mb_of(self.server)

    def run(self) -> None:
        """Sample until `growth` is called."""
        while not self.over.wait(0.3):
            browser_mb, server_mb = self.now()
            self.most = max(self.most[0], browser_mb), max(self.most[1], server_mb)

    def growth(self) -> dict[str, float]:
        """Return the peak growth since the first sample."""
        self.over.set()
        self.join()
        rows = zip(("browser", "server"), self.first, self.most, strict=True)
        return {
            f"{name}_{word}_mb": round(value)
            for name, first, most in rows
            for word, value in (("started", first), ("growth", most - first))
        }


def timed(
    page: Page, start: Callable[[], object], view: Page | FrameLocator | None = None
) -> dict[str, float]:
    """Open a path; return the seconds to the dashboard, the first chart and an idle page."""
    begun = time.perf_counter()
    start()

    def since() -> float:
        return round(time.perf_counter() - begun, 2)

    dash = (view or page).locator(".hta-dash")
    dash.wait_for(timeout=600_000)
    text = {"dashboard_s": since()}
    chart = dash.locator("[data-panel=breakdown][aria-busy=false] canvas").first
    chart.wait_for(timeout=600_000)
    text["chart_s"] = since()
    quiet = time.perf_counter()
    while time.perf_counter() - quiet < QUIET_S:
        if not dash.evaluate(REST):
            quiet = time.perf_counter()
        time.sleep(0.1)
    return text | {"rest_s": round(quiet - begun, 2)}


@contextmanager
def opened(url: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=hands.CHROMIUM, args=hands.FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        page.goto(url)
        yield page
        browser.close()


def link_to(path: Path, folder: Path) -> str:
    """Link to a path in a folder, using a name that hosts recognize as a trace; return the name."""
    name = path.name if path.is_dir() else f"{path.name.split('.')[0]}.trace.json"
    name += ".gz" if path.suffix == ".gz" else ""
    (folder / name).symlink_to(path)
    return name


def in_lab(path: Path) -> dict[str, float]:
    """Open a path in a fresh JupyterLab."""
    with tempfile.TemporaryDirectory() as root, jupyterlab(Path(root)) as lab:
        name = link_to(path, lab.folder)
        with opened(f"{lab.url}/lab?reset&token={lab.token}") as page:
            item = page.locator(".jp-DirListing-item").first
            item.wait_for(timeout=60_000)
            page.locator(".jp-Launcher").wait_for(timeout=60_000)
            time.sleep(QUIET_S)
            peaks = Peaks(is_lab)
            peaks.start()
            is_folder = path.is_dir()
            text = timed(page, lambda: page.evaluate(OPEN, name) if is_folder else item.dblclick())
            return text | peaks.growth()


def in_code(path: Path) -> dict[str, float]:
    """Open a path in a fresh editor after its extensions have started."""
    with tempfile.TemporaryDirectory() as folder:
        root, files = Path(folder), Path(folder) / "traces"
        files.mkdir()
        name = link_to(path, files)
        (files / "cut off.trace.json").write_text('{"traceEvents": [7, ')
        vsix = built_extension(root / "vsix")
        quiet = {"hta.askAboveMB": 0}
        with code_server(root, vsix, files, **quiet) as url, opened("about:blank") as page:
            editor = Editor(page, url, name)
            editor.open("cut off.trace.json").get_by_role("alert").wait_for()
            editor.close_all()
            time.sleep(QUIET_S)
            peaks = Peaks(is_editor)
            peaks.start()
            is_folder = path.is_dir()
            item = editor.item(name)
            text = timed(
                page,
                lambda: editor.command(name, "Open as one job") if is_folder else item.dblclick(),
                editor.view(),
            )
            return text | peaks.growth()


def in_view(path: Path) -> dict[str, float]:
    """Open a path with `hta-widgets view`. Times start with the page request."""
    command = [sys.executable, "-m", "hta_widgets", "view", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        url = next(line.strip() for line in host.stdout if "token=" in line)
        with opened("about:blank") as page:
            peaks = Peaks(None)
            peaks.start()
            text = timed(page, lambda: page.goto(url)) | peaks.growth()
        host.kill()
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    hosts = {"JupyterLab": in_lab, "view": in_view} | (
        {"VS Code": in_code} if ENTRY.exists() else {}
    )
    rows = []
    for path in options.paths:
        for host, run in hosts.items():
            for _ in range(options.repeat):
                with tempfile.TemporaryDirectory() as cache:
                    os.environ["HTA_WIDGETS_CACHE"] = cache
                    row = {"path": path.name, "host": host, **run(path.resolve())}
                rows.append(row)
                print(row, flush=True)
    harness.save("hosts", {"rows": rows})


if __name__ == "__main__":
    main()
