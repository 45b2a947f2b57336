"""Measure the time in which a viewer loads a file, and the memory of its page; print JSON.

    python _open.py perfetto|catapult FILE

Exits with 3 and a reason if the viewer cannot open the file.
"""

import json
import os
import sys
import time
from pathlib import Path

from _harness import FAILED
from _viewers import VIEWERS
from playwright.sync_api import Error, Page, sync_playwright
from support import perfetto
from support.browser import CHROMIUM, FLAGS
from support.servers import static_files

PROC = Path("/proc")


def status_kb(pid: int, field: str) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def page_processes() -> list[int]:
    """Return Chromium's page processes among the descendants of this process."""
    parents = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue  # it has ended
        # The name in brackets may have spaces.
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


def measured(page: Page, name: str, path: Path) -> dict[str, object]:
    pids = page_processes()
    baseline = {pid: status_kb(pid, "VmRSS") for pid in pids}
    for pid in pids:
        (PROC / str(pid) / "clear_refs").write_text("5")  # Resets VmHWM.

    start = time.perf_counter()
    VIEWERS[name].open_trace(page, path)
    seconds = time.perf_counter() - start

    added = sum(status_kb(pid, "VmHWM") - baseline[pid] for pid in pids)
    errors = perfetto.import_errors(page) if name == "perfetto" else {}
    return {"seconds": seconds, "added_mb": added / 1024, "extra": errors}


def main(name: str, path: Path) -> None:
    viewer = VIEWERS[name]
    crashed: list[Page] = []
    with sync_playwright() as playwright, static_files(viewer.folder) as url:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page()
        page.on("crash", lambda page: crashed.append(page))  # noqa: PLW0108 - it marks the function
        viewer.start(page, url)
        page.wait_for_timeout(1000)
        try:
            result = measured(page, name, path)
        except Error as error:
            reason = "its page crashed" if crashed else error.message.strip().splitlines()[0]
            print(reason, file=sys.stderr)
            os._exit(FAILED)
        browser.close()
    print(json.dumps(result))


main(sys.argv[1], Path(sys.argv[2]))
