"""Measure the speedup from a local cluster: load and analyze 16 ranks with Dask.

    python benchmarks/cluster.py [--ranks 16] [--workers 1 2] [--repeat 2] [FOLDER]

Rows: `load` without Dask; a `LocalCluster` with one worker; the same with two workers. Each run is
a fresh process with an empty cache and a new cluster. Starting the cluster is measured separately.
All rows must give bitwise identical frames.
"""

import argparse
import hashlib
import json
import logging
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _harness as harness
import pandas as pd
from _harness import Missing, Run
from _job import RANKS, STEPS, demo_job

ANALYSES = (
    "temporal_breakdown",
    "comm_comp_overlap",
    "idle_time_breakdown",
    "kernel_breakdown",
    "kernel_type_breakdown",
    "operators",
    "queue_length_summary",
    "memory_bandwidth_summary",
    "collectives",
    "stragglers",
    "step_times",
    "rank_clusters",
)
WITHOUT = "without Dask"


def measure_once(files: list[str], workers: int) -> dict[str, Any]:
    """Load and analyze once with a number of workers (0: without a cluster)."""
    if not workers:
        return {**_work(files, None), "start_s": 0.0}
    from distributed import Client, LocalCluster

    start = time.perf_counter()
    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,  # type: ignore[no-untyped-call]
    ):
        client.run(_import)
        start_s = time.perf_counter() - start
        result = _work(files, client.get_executor())
        start = time.perf_counter()
        for _ in range(100):
            client.submit(len, "", pure=False).result()
        task_ms = (time.perf_counter() - start) * 10
    return {**result, "start_s": start_s, "task_ms": task_ms}


def _import() -> None:
    import hta_widgets  # noqa: F401 - so that no row includes this import


def _work(files: list[str], executor: Any) -> dict[str, Any]:
    import hta_widgets as hw
    from hta_widgets import analysis

    sent = _count_bytes(executor)
    digest = hashlib.sha256()
    start = time.perf_counter()
    traces = hw.load(files, executor=executor, progress=False)
    load_s = time.perf_counter() - start
    load_bytes, seconds = sum(sent), {}
    for name in ANALYSES:
        start = time.perf_counter()
        frame = getattr(analysis, name)(traces)
        seconds[name] = time.perf_counter() - start
        digest.update(pd.util.hash_pandas_object(frame).to_numpy().tobytes())
    return {
        "load_s": load_s,
        "analyses_s": sum(seconds.values()),
        "seconds": seconds,
        "events": sum(map(len, traces.values())),
        "frames": digest.hexdigest(),
        "tasks": len(sent),
        "load_bytes": load_bytes,
        "bytes": sum(sent),
    }


def _count_bytes(executor: Any) -> list[int]:
    """Count the bytes of results. Other messages contain only names of files and functions."""
    sizes: list[int] = []
    if executor is not None:
        submit = executor.submit

        def counting(*args: Any, **more: Any) -> Any:
            future = submit(*args, **more)
            future.add_done_callback(
                lambda done: sizes.append(len(pickle.dumps(done.result(), protocol=5)))
            )
            return future

        executor.submit = counting
    return sizes


def case(files: list[Path], workers: int) -> Run:
    names = [str(file) for file in files]
    with tempfile.TemporaryDirectory(prefix="hta_widgets-bench-") as cache:
        os.environ["HTA_WIDGETS_CACHE"] = cache
        return harness.run_script(Path(__file__), "--once", str(workers), *names)


def line(row: harness.Row) -> str:
    run = min(row.runs, key=lambda run: run.seconds)
    it = run.extra
    cells = [
        row.name,
        f"{it['load_s']:.2f} s",
        f"{it['analyses_s']:.2f} s",
        f"{run.seconds:.2f} s",
        f"{it['start_s']:.1f} s" if it["start_s"] else "–",
        f"{run.peak_mb:,.0f} MB",
        f"{it['load_bytes'] / 1e3:,.0f} kB, {(it['bytes'] - it['load_bytes']) / 1e3:,.0f} kB"
        if it["tasks"]
        else "–",
    ]
    return f"| {' | '.join(cells)} |"


def report(rows: list[harness.Row]) -> str:
    head = "load | analyses | both | cluster startup | peak, all processes"
    lines = [
        f"| | {head} | size of results: load, analyses |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(line(row) for row in rows if row.runs),
    ]
    by_name = {row.name: row for row in rows if row.runs}
    first, two = by_name.get(name_of(1)), by_name.get(name_of(2))
    if first and two:
        tasks = min(run.extra["task_ms"] for run in (*first.runs, *two.runs))
        gain = first.seconds / two.seconds
        lines += ["", f"Two workers are {gain:.2f} times as fast as one."]
        lines += [f"The round trip of an empty task takes {tasks:.1f} ms."]
    frames = {run.extra["frames"] for row in rows for run in row.runs}
    lines.append(f"Frames: {'all equal' if len(frames) == 1 else 'THEY DIFFER'}.")
    return "\n".join(lines)


def name_of(workers: int) -> str:
    if not workers:
        return WITHOUT
    return f"{workers} worker{'' if workers == 1 else 's'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="default: the job of 64 ranks")
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=2, help="runs of each row; the best counts")
    options = parser.parse_args()
    folder = options.folder or demo_job(RANKS, STEPS)
    files = [folder / f"rank-{rank}.trace.json.gz" for rank in range(options.ranks)]
    missing = [file.name for file in files if not file.exists()]
    if missing:
        raise Missing(f"no {missing[0]} in {folder}")
    for file in files:
        file.read_bytes()  # fill the page cache, to exclude disk time
    cases = {
        name_of(workers): (lambda workers=workers: case(files, workers), options.repeat)
        for workers in (0, *options.workers)
    }
    print(harness.describe(harness.machine()) + "\n")
    rows = harness.measure(cases)
    events = next(run.extra["events"] for row in rows for run in row.runs)
    print(f"{len(files)} ranks, {events:,} events\n\n{report(rows)}\n")
    written = harness.save("cluster", {"events": events, "ranks": len(files), "rows": rows})
    print(f"written to {written.relative_to(harness.REPO)}")


def once(arguments: list[str]) -> None:
    workers, *files = arguments
    result = measure_once(files, int(workers))
    seconds = result["load_s"] + result["analyses_s"]
    print(json.dumps({"seconds": seconds, "added_mb": 0.0, "extra": result}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        once(sys.argv[2:])
    else:
        main()
