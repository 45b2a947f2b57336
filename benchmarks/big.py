"""Measure the time to load a job of many ranks, and the peak memory of all processes.

    python benchmarks/big.py [--folder benchmarks/.data/demo64x51] [--ranks 8] [--hta-ranks 4]
        [--only "load, empty" …] [--memory-limit "1 GB"] [--one-file-gb 2] [--repeat 1]

Rows: a bare `msgspec.json.decode` of the same bytes, file by file in one process, with and without
decompression; loading with an empty cache, without a cache, with a memory limit, from the cache and
from a saved store; HTA on a few of the ranks, scaled by the number of events; and a single 2 GB
JSON file from the demo generator, also with a limit of 3 GB. Memory is the peak proportional set
size of the process tree, including interpreters and imports.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _harness as harness
from _harness import DATA, REPO

HTA = REPO / ".venv-hta/bin/python"
#: Maximum memory of the process tree: a constant, plus an amount per event.
FIXED_BYTES, PER_EVENT_BYTES = 1_000_000_000, 60
#: Bytes of JSON that the demo generator writes per rank and step.
STEP_BYTES = 1_100_000

OURS = "import hta_widgets as hw"
COUNT = "sum(map(len, traces.values()))"

THEIRS = """
import logging, warnings
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
"""

BARE = """
import gzip, msgspec, time
spent = {"decode": 0.0, "decompress": 0.0, "bytes": 0, "records": 0}
"""
BARE_WORK = """
for path in %r:
    begun = time.perf_counter()
    data = open(path, "rb").read()
    if data[:2] == b"\\x1f\\x8b":
        data = gzip.decompress(data)
    middle = time.perf_counter()
    decoded = msgspec.json.decode(data)
    spent["decode"] += time.perf_counter() - middle
    spent["decompress"] += middle - begun
    spent["bytes"] += len(data)
    spent["records"] += len(decoded["traceEvents"])
    del data, decoded
"""

Row = dict[str, Any]


class Rows:
    """Measures the requested rows, one after another."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.options = options
        self.cache = scratch / "cache"
        os.environ["HTA_WIDGETS_CACHE"] = str(self.cache)
        self.rows: dict[str, Row] = {}

    def wanted(self, name: str) -> bool:
        """Return whether a row was requested."""
        only = self.options.only
        return only is None or any(name.startswith(start) for start in only)

    def add(self, name: str, setup: str, work: str, extra: str = COUNT, **more: Any) -> None:
        """Measure a row the requested number of times and keep the fastest run."""
        if not self.wanted(name):
            return

        def once() -> Row:
            if "empty" in name:
                shutil.rmtree(self.cache, ignore_errors=True)
            run = harness.run_code(setup, work, extra=extra, **more)
            peak_bytes = round(run.peak_mb * (1 << 20))
            return {"seconds": run.seconds, "peak_bytes": peak_bytes, "said": run.extra}

        runs = [once() for _ in range(self.options.repeat)]
        self.rows[name] = min(runs, key=lambda run: run["seconds"])
        print(f"  {name}: {self.rows[name]}", file=sys.stderr, flush=True)


def measure(paths: list[str], rows: Rows, scratch: Path) -> None:
    """Measure the job in these files."""
    source = repr(paths)
    limit = rows.options.memory_limit
    rows.add("bare msgspec", BARE, BARE_WORK % paths, "spent")
    load = f"traces = hw.load({source}, progress=False"
    rows.add("load, empty cache", OURS, load + ")")
    rows.add("load, cache", OURS, load + ")")
    rows.add("load, no cache", OURS, load + ", cache=False)")
    rows.add("load, limit", OURS, load + f", cache=False, memory_limit={limit!r})")
    if rows.wanted("load, store"):
        store = str(scratch / "job.store")
        rows.add("load, store: saving", f"{OURS}\n{load})", f"traces.save({store!r})")
        rows.add("load, store", OURS, f"traces = hw.load({store!r})")
    part = paths[: rows.options.hta_ranks]
    if part and HTA.exists() and rows.wanted("HTA, part"):
        files = dict(enumerate(part))
        work = f"analysis = TraceAnalysis(trace_files={files!r})"
        rows.add("HTA, part", THEIRS, work, "len(analysis.t.get_all_traces())", python=HTA)
        ours = f"traces = hw.load({part!r}, progress=False)"
        events = harness.run_code(OURS, ours, extra=COUNT).extra
        rows.rows["HTA, part"]["said"] = {"ranks": len(part), "events": events}


def measure_one_file(rows: Rows) -> int:
    """Measure one large file, writing it if needed, and return its size."""
    steps = max(1, round(rows.options.one_file_gb * 1e9 / STEP_BYTES))
    if not rows.options.one_file_gb or not (rows.wanted("one file")):
        return 0
    folder = DATA / f"demo1x{steps}"
    if not folder.exists():
        from hta_widgets.demo.job import write_demo

        print(f"  making {folder} …", file=sys.stderr, flush=True)
        write_demo(folder, ranks=1, steps=steps, straggler=None, format="json")
    (path,) = map(str, folder.glob("*.json"))
    load = f"traces = hw.load({path!r}, progress=False, cache=False"
    rows.add("one file", OURS, load + ")")
    rows.add("one file, limit 3 GB", OURS, load + ", memory_limit='3 GB')")
    return Path(path).stat().st_size


def table(rows: dict[str, Row], paths: list[str], one_file_bytes: int) -> str:
    """Markdown."""
    counts = [row["said"] for name, row in rows.items() if name.startswith("load")]
    events = next((count for count in counts if isinstance(count, int)), 0)
    bare = rows.get("bare msgspec")
    floor = bare["said"]["decode"] if bare else None
    head = f"{len(paths)} files, {events:,} events"
    if bare:
        head += f", {bare['said']['records']:,} records, {bare['said']['bytes'] / 1e9:.2f} GB"
    lines = [
        head,
        "",
        "| | time | relative to bare decoding | peak, all processes | limit |",
        "|---|---:|---:|---:|---:|",
    ]

    def line(name: str, seconds: float, peak_bytes: int | None, count: int = 0) -> None:
        allowed = (FIXED_BYTES + PER_EVENT_BYTES * count) / 1e6
        cells = [
            name,
            f"{seconds:,.3g} s",
            f"{seconds / floor:.3g}×" if floor and not name.startswith("one file") else "–",
            "–" if peak_bytes is None else f"{peak_bytes / 1e6:,.0f} MB",
            f"{allowed:,.0f} MB" if count else "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")

    if bare and floor:
        line("bare msgspec decoding", floor, None)
        line("the same, with decompression", floor + bare["said"]["decompress"], bare["peak_bytes"])
    for name, row in rows.items():
        if name.startswith("load"):
            line(name, row["seconds"], row["peak_bytes"], events)
    if "HTA, part" in rows:
        run = rows["HTA, part"]
        whole_s = run["seconds"] * events / run["said"]["events"]
        line(f"HTA 0.6.1, {run['said']['ranks']} ranks", run["seconds"], run["peak_bytes"])
        line("HTA 0.6.1, scaled to all events", whole_s, None)
    for name, row in rows.items():
        if name.startswith("one file"):
            size = f" ({one_file_bytes / 1e9:.2f} GB, {row['said']:,} events)"
            line(name + size, row["seconds"], row["peak_bytes"])
    if "HTA, part" in rows:
        for name in ("load, empty cache", "load, cache", "load, store"):
            if name in rows:
                times = whole_s / rows[name]["seconds"]
                lines += ["", f"{name}: {times:,.0f} times as fast as HTA, scaled to all events."]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DATA / "demo64x51")
    parser.add_argument("--ranks", type=int, help="only the first RANKS files")
    parser.add_argument("--hta-ranks", type=int, default=4, help="number of files for HTA; 0: none")
    parser.add_argument("--only", nargs="*", help="rows to measure, by the start of their names")
    parser.add_argument("--memory-limit", default="1 GB")
    parser.add_argument("--one-file-gb", type=float, default=2.0, help="size of the file; 0: none")
    parser.add_argument("--repeat", type=int, default=1)
    return parser.parse_args()


def in_order(folder: Path) -> list[str]:
    names: Callable[[str], tuple[int, str]] = lambda path: (len(path), path)  # noqa: E731
    return sorted(map(str, folder.glob("*.json*")), key=names)


def main() -> None:
    options = parse()
    paths = in_order(options.folder)[: options.ranks]
    if not paths:
        sys.exit(f"no traces in {options.folder}")
    for path in paths:  # fill the page cache, to exclude disk time
        Path(path).read_bytes()
    with tempfile.TemporaryDirectory(dir=DATA, prefix="big-") as name:
        rows = Rows(options, Path(name))
        measure(paths, rows, Path(name))
        one_file_bytes = measure_one_file(rows)
    print(harness.describe(harness.machine()) + "\n")
    print(table(rows.rows, paths, one_file_bytes))
    written = harness.save("big", {"rows": rows.rows, "files": len(paths)})
    print(f"\nwritten to {written.relative_to(REPO)}")


if __name__ == "__main__":
    main()
