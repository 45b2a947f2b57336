"""Measure the memory of a process and its descendants while it runs."""

import threading
import time
from pathlib import Path

__all__ = ["Watcher", "tree_pss_mb"]

_PAUSE_S = 0.05


def tree_pss_mb(root: int) -> float:
    """Return the proportional set size of a process tree; shared pages count once."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    total_kb = 0
    for process in parents:
        single = process
        while single and single != root:
            single = parents.get(single, 0)
        if single == root:
            total_kb += _pss_kb(process)
    return total_kb / 1024


def _pss_kb(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:"), 0)


class Watcher(threading.Thread):
    """Samples a tree of processes until `stop`; then `peak_mb` is its maximum."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.peak_mb = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            start = time.perf_counter()
            self.peak_mb = max(self.peak_mb, tree_pss_mb(self.root))
            # Reading the memory of many processes takes long: at most a tenth of the time.
            self._over.wait(max(_PAUSE_S, 9 * (time.perf_counter() - start)))

    def stop(self) -> float:
        """Return the peak."""
        self._over.set()
        self.join()
        return self.peak_mb
