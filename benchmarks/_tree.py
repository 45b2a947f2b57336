"""Measure the memory of a running process and its descendants."""

import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

__all__ = ["Watcher", "process_tree", "pss_mb"]

_PAUSE_S = 0.05


def process_tree(root: int) -> list[psutil.Process]:
    """Return a process and its descendants, including those in other sessions (browsers)."""
    process = psutil.Process(root)
    return [process, *process.children(recursive=True)]


def pss_mb(processes: Iterable[psutil.Process]) -> float:
    """Return the proportional set size of processes, which counts shared pages once."""
    total_bytes = 0
    for process in processes:
        with suppress(psutil.Error):  # It has ended.
            total_bytes += process.memory_full_info().pss
    return total_bytes / (1 << 20)


class Watcher(threading.Thread):
    """Samples a process tree until `stop` is called. `peak_mb` is the maximum."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root = root
        self.peak_mb = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            start = time.perf_counter()
            self.peak_mb = max(self.peak_mb, pss_mb(process_tree(self.root)))
            # Sampling many processes is slow. It must not take more than a tenth of the time.
            self._over.wait(max(_PAUSE_S, 9 * (time.perf_counter() - start)))

    def stop(self) -> float:
        """Return the peak."""
        self._over.set()
        self.join()
        return self.peak_mb
