"""Measure the time and memory of loading a trace, in one run.

    python benchmarks/load.py [--only small] [--repeat 5] [--profile]

A single file on one core: our loader without a cache, from the cache and from a store, with and
without all events as a frame (every column is read and verified); HTA (`TraceAnalysis`, only
loading); Perfetto's UI and the catapult viewer (from opening the file to loaded); `json` and
`orjson` with pandas; and, as a lower bound, decompressing and decoding the same bytes with msgspec.

The job of ten million events: other tools only. `big.py` measures this package and HTA.
"""

import argparse
import gzip
import os
import subprocess
import sys
from pathlib import Path

import _anchors as anchors
import _harness as harness
from _harness import DATA, REPO, SHARED, Missing

OURS_STAGES = "import hta_widgets as hw\nfrom hta_widgets.readers import stages; stages.reset()"
#: Rows that run only once for the large file.
SLOW = {
    anchors.HTA_ROW,
    anchors.PERFETTO_ROW,
    anchors.CATAPULT_ROW,
    anchors.JSON_ROW,
    anchors.ORJSON_ROW,
}


def small() -> Path:
    """Return the path of a file with 35 MB of JSON and 45 thousand events."""
    folder = SHARED / "traces/kineto/resnet50_num_workers_0_a"
    result = sorted(folder.glob("*.json.gz"))
    if not result:
        raise Missing(f"no trace in {folder}: set HTA_SHARED")
    return result[0]


def large() -> Path:
    """Return the path of a file with 311 MB and 1.62 million records: 40 copies of a real rank."""
    path = DATA / "repeat40/rank-0.json"
    if not path.exists():
        tool = SHARED / "tools/make_multirank.py"
        base = SHARED / "traces/hta_tests/nccl_parser_config/nccl_data.json.gz"
        if not tool.exists() or not base.exists():
            raise Missing(f"no {tool} or no {base}: set HTA_SHARED")
        print("  making the 311 MB file …", file=sys.stderr)
        options = ["--ranks", "1", "--slow", "0", "--factor", "1.0", "--repeat", "40", "--plain"]
        command = [sys.executable, str(tool), str(base), str(path.parent), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def job() -> list[Path]:
    """Return the files of a demo job: 64 ranks, 4.3 GB of JSON and ten million events."""
    from _job import RANKS, STEPS, demo_job

    folder = demo_job(RANKS, STEPS)
    return sorted(folder.glob("*.json.gz"), key=lambda path: (len(path.name), path.name))


def saved(path: Path) -> Path:
    """Save a trace as a store, and leave it in the cache; return the path of the store."""
    import hta_widgets as hw

    os.environ["HTA_WIDGETS_CACHE"] = str(DATA / "cache")
    store = DATA / f"{path.name}.store"
    hw.load(path, progress=False)
    hw.load(path, cache=False, progress=False).save(store)
    return store


def stage_table(path: Path) -> str:
    """Return a table with the time of each loading stage in this package."""
    work = f"traces = hw.load({str(path)!r}, cache=False, progress=False)"
    runs = [
        harness.run_code(OURS_STAGES, work, extra="stages.seconds()", core=anchors.CORE)
        for _ in range(3)
    ]
    run = min(runs, key=lambda run: run.seconds)
    rest = run.seconds - sum(run.extra.values())
    lines = ["| stage | time | share |", "|---|---:|---:|"]
    for name, seconds in [*sorted(run.extra.items(), key=lambda item: -item[1]), ("rest", rest)]:
        lines.append(f"| {name} | {seconds:.3f} s | {seconds / run.seconds:.0%} |")
    return "\n".join([*lines, f"| all | {run.seconds:.3f} s | |"])


def size_mb(path: Path) -> float:
    """Return the size of the uncompressed JSON text."""
    if path.suffix != ".gz":
        return path.stat().st_size / 1e6
    with gzip.open(path) as file:
        return file.seek(0, 2) / 1e6


def compare(path: Path, repeat: int, *, slow_repeat: int) -> list[harness.Row]:
    """Measure all rows for a file."""
    path.read_bytes()  # fill the page cache, to exclude disk time
    store = saved(path)
    rows = harness.measure(
        {
            name: (once, min(repeat, slow_repeat) if name in SLOW else repeat)
            for name, once in anchors.rows_of_file(path, store).items()
        }
    )
    return with_errors(rows)


def with_errors(rows: list[harness.Row]) -> list[harness.Row]:
    """Add the number of import errors reported by viewers to the notes of their rows."""
    for row in rows:
        if row.runs and row.runs[0].extra:
            counts = [f"{name} {count}" for name, count in row.runs[0].extra.items()]
            row.note = "import errors: " + ", ".join(counts)
    return rows


def compare_job(paths: list[Path], **limits: float) -> list[harness.Row]:
    """Run each tool that is not in `big.py` once; some run out of memory."""
    for path in paths:
        path.read_bytes()
    rows = anchors.rows_of_job(paths, **limits)
    return with_errors(harness.measure({name: (once, 1) for name, once in rows.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["small", "large", "job"])
    parser.add_argument("--repeat", type=int, default=5, help="runs of each row; the best counts")
    parser.add_argument("--profile", action="store_true", help="show the time of each stage")
    parser.add_argument("--ranks", type=int, help="only the first RANKS ranks of the job")
    parser.add_argument("--limit-gb", type=float, default=8, help="memory limit for the job")
    parser.add_argument("--timeout-s", type=float, default=290, help="time limit for the job")
    options = parser.parse_args()

    print(harness.describe(harness.machine()) + "\n")
    results: dict[str, object] = {}
    for name, find in (("small", small), ("large", large), ("job", job)):
        if options.only not in (None, name) or (options.profile and name == "job"):
            continue
        try:
            result = find()
        except Missing as reason:
            print(f"{name}: {reason}\n")
            results[name] = str(reason)
            continue
        if isinstance(result, list):
            limits = {"timeout_s": options.timeout_s, "limit_mb": options.limit_gb * 1000}
            paths = result[: options.ranks]
            results[name] = rows = compare_job(paths, **limits)
            results["job_ranks"] = len(paths)
            print(f"{paths[0].parent.name}, {len(paths)} ranks\n")
            print(harness.table(rows, anchors.JSON_ROW) + "\n")
            continue
        print(f"{result.name}, {size_mb(result):.0f} MB of JSON; one core\n")
        if options.profile:
            print(stage_table(result) + "\n")
            continue
        rows = compare(result, options.repeat, slow_repeat=2 if name == "small" else 1)
        results[name] = rows
        results[f"{name}_mb"] = size_mb(result)
        print(harness.table(rows, anchors.HTA_ROW) + "\n")
    if not options.profile:
        print(f"written to {harness.save('load', results).relative_to(REPO)}")


if __name__ == "__main__":
    main()
