"""Measure the time and the additional memory of some work in this process.

Reads `{"setup": code, "work": code, "extra": expression}` from standard input and prints JSON. It
uses only the standard library because it also runs in other environments.
"""

import gc
import json
import sys
import time
from pathlib import Path


def status_kb(field: str, process: int | str = "self") -> int:
    """Return a field from the status of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def main() -> None:
    task = json.load(sys.stdin)
    names: dict[str, object] = {}
    exec(task["setup"], names)
    gc.collect()
    baseline = status_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Resets VmHWM.
    start = time.perf_counter()
    exec(task["work"], names)
    seconds = time.perf_counter() - start
    peak = status_kb("VmHWM")
    extra = eval(task["extra"], names) if task.get("extra") else None
    result = {"seconds": seconds, "added_mb": (peak - baseline) / 1024, "extra": extra}
    print("\n" + json.dumps(result))


if __name__ == "__main__":  # not in child processes
    main()
