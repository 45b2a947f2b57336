"""Measure how long a viewer takes to load a file, and its page's memory; print JSON.

    python _open.py perfetto|catapult FILE

The exit code is 3 if the viewer cannot open the file. The last line is then the reason.
"""

import json
import os
import sys
import time
from pathlib import Path

from _harness import FAILED
from _probe import status_kb
from _tree import process_tree
from _viewers import VIEWERS
from playwright.sync_api import Error, Page, sync_playwright
from support import perfetto
from support.browser import CHROMIUM, FLAGS
from support.servers import static_files


def page_processes() -> list[int]:
    """Return the Chromium page processes among the descendants of this process."""
    return [
        process.pid
        for process in process_tree(os.getpid())
        if "--type=renderer" in " ".join(process.cmdline())
    ]


def measured(page: Page, name: str, path: Path) -> dict[str, object]:
    pids = page_processes()
    baseline = {pid: status_kb("VmRSS", pid) for pid in pids}
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # Resets VmHWM.

    start = time.perf_counter()
    VIEWERS[name].open_trace(page, path)
    seconds = time.perf_counter() - start

    added = sum(status_kb("VmHWM", pid) - baseline[pid] for pid in pids)
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
