"""Measure time and memory of analyses of a thousand ranks, and the growth of the memory.

    python benchmarks/ranks.py [--ranks 1024] [--source store|json] [--quick] [--large] [--dask]

The script prints three tables. *In one process* runs the analyses of a notebook in one process,
which keeps what ranks have in common. *Each in its own process* starts a process per analysis.
*Memory growth* runs the same analyses on 64 ranks and on all ranks, and compares the memory.

The job is a demo job of 1 024 ranks, two steps and 6.4 million events. The job and its store are
written once. `--large` adds ranks of 51 steps and 160 000 events each: 64 generated ranks, and 1
024 ranks that are hard links to these files. Only analyses of single ranks run on them. `--quick`
runs fewer analyses, two of them for *memory growth*, and 256 ranks in the first table. `--dask`
runs all analyses in one process on a `LocalCluster` of two workers. The memory is then the sum over
all processes.

Stored ranks stay in memory as long as they fit in half a gigabyte, as the 64 small ranks do. Beyond
this limit, the least recently used ones are released. A thousand ranks may therefore take less
memory than a few hundred.
"""

import argparse
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _harness as harness
from _job import demo_job, stored_job

from hta_widgets.store.files import MANIFEST, dump_manifest, read_manifest

FEW = 64
STEPS = 2
LARGE_STEPS = 51
LIMIT_MB = 4096
FLAT = 0.20

QUICKLY = ("temporal breakdown", "rank clusters")

OPEN = "traces = hw.load({path!r}, progress=False)"
SETUP = """
import time
import hta_widgets as hw
from hta_widgets import analysis

def peak_mb():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
"""

#: Two workers. Pages shared between processes count once.
ON_DASK = """
import logging, os
from distributed import Client, LocalCluster
from _tree import Watcher

cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
    silence_logs=logging.CRITICAL,
)
client = Client(cluster)
client.run(__import__, "hta_widgets")
watcher = Watcher(os.getpid())
watcher.start()

def peak_mb():
    return watcher.peak_mb
"""
OPEN_ON_DASK = "traces = hw.load({path!r}, executor=client.get_executor(), progress=False)"


@dataclass(frozen=True)
class Question:
    """An analysis, as code that uses the variable ``traces``."""

    name: str
    code: str
    of_single_ranks: bool = False
    quick: bool = True


QUESTIONS = (
    Question("summary", "traces.summary()", True),
    Question("temporal breakdown", "analysis.temporal_breakdown(traces)", True),
    Question("kernel breakdown", "analysis.kernel_breakdown(traces)", True, quick=False),
    Question("idle time breakdown", "analysis.idle_time_breakdown(traces)", True, quick=False),
    Question("device idle breakdown", "analysis.device_idle_breakdown(traces)", True, quick=False),
    Question("operators", "analysis.operators(traces)", True, quick=False),
    Question("phase times", "analysis.phase_times(traces)", True, quick=False),
    Question("step times", "analysis.step_times(traces)"),
    Question("rank clusters", "analysis.rank_clusters(traces)"),
    Question("collectives", "analysis.collectives(traces)"),
    Question("lateness (stragglers)", "analysis.stragglers(traces)"),
    Question("clock offsets", "analysis.clock_offsets(traces)"),
    Question("on the fitted clock", "traces.with_clock('fitted')"),
    Question(
        "lateness on the fitted clock",
        "analysis.stragglers(traces.with_clock('fitted'))",
        quick=False,
    ),
)


@dataclass(frozen=True)
class Line:
    """The time of an analysis, and the peak memory of the process until the analysis ends."""

    name: str
    seconds: float
    peak_mb: float


def part_of(store: Path, ranks: int, times: int = 1) -> Path:
    """Make a store with `times` copies of the first ranks of a store, as links to its files."""
    path = store.with_name(f"{store.stem}-{ranks}x{times}.store")
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    body = read_manifest(store / MANIFEST)
    chosen: list[dict[str, Any]] = []
    for copy in range(times):
        for entry in body["ranks"][:ranks]:
            rank = entry["trace"]["rank"] + copy * ranks
            file = f"rank-{rank}-{len(chosen)}.linked.arrow"
            os.link(store / entry["file"], path / file)
            chosen.append({**entry, "file": file, "trace": {**entry["trace"], "rank": rank}})
    (path / MANIFEST).write_bytes(dump_manifest({**body, "ranks": chosen}))
    return path


def one_after_the_other(load: str, questions: list[Question], setup: str = SETUP) -> list[Line]:
    """Run all analyses in one process. The code `load` defines ``traces``."""
    steps = [("open", load), *((question.name, question.code) for question in questions)]
    code = ["found = []"]
    for name, work in steps:
        code += [
            "start = time.perf_counter()",
            work,
            f"found.append(({name!r}, time.perf_counter() - start, peak_mb()))",
        ]
    run = harness.run_code(setup, "\n".join(code), extra="found")
    return [Line(*line) for line in run.extra]


def by_itself(load: str, question: Question) -> Line:
    """Run one analysis in a new process, including loading."""
    run = harness.run_code(SETUP, f"{load}\n{question.code}", extra="peak_mb()")
    return Line(question.name, run.seconds, run.extra)


def lines_table(lines: list[Line], title: str) -> str:
    rows = [f"**{title}**", "", "| | time | peak memory |", "|---|---:|---:|"]
    rows += [f"| {line.name} | {line.seconds:.2f} s | {line.peak_mb:,.0f} MB |" for line in lines]
    return "\n".join(rows)


def flat_table(few: list[Line], many: list[Line], title: str) -> str:
    rows = [f"**{title}**", "", "| | peak, few | peak, many | increase |", "|---|---:|---:|---:|"]
    for single, other in zip(few, many, strict=True):
        more = other.peak_mb / single.peak_mb - 1
        verdict = "" if more <= FLAT else " (!)"
        cells = (single.name, f"{single.peak_mb:,.0f} MB", f"{other.peak_mb:,.0f} MB")
        rows.append(f"| {' | '.join(cells)} | {more:+.0%}{verdict} |")
    return "\n".join(rows)


def flat(few: Path, many: Path, questions: list[Question]) -> tuple[list[Line], list[Line]]:
    """Run each analysis on both stores, in a new process each time."""
    result: tuple[list[Line], list[Line]] = ([], [])
    for question in questions:
        for lines, store in zip(result, (few, many), strict=True):
            lines.append(by_itself(OPEN.format(path=str(store)), question))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--source", choices=("store", "json"), default="store")
    parser.add_argument("--quick", action="store_true", help="256 ranks, fewer analyses")
    parser.add_argument("--large", action="store_true", help="also with 160 000 events per rank")
    parser.add_argument("--dask", action="store_true", help="on a cluster of two processes")
    options = parser.parse_args()
    questions = [item for item in QUESTIONS if item.quick or not options.quick]
    ranks = min(options.ranks, 256) if options.quick else options.ranks
    facts = harness.machine()
    print(f"## {ranks:,} ranks\n\n{harness.describe(facts)}\n")
    results: dict[str, object] = {"ranks": ranks, "source": options.source}

    def show(key: str, text: str, **lines: list[Line]) -> None:
        print(text, end="\n\n", flush=True)
        results[key] = {name: [vars(item) for item in some] for name, some in lines.items()}

    if options.source == "json":
        folder = demo_job(options.ranks, STEPS)
        load = (
            f"traces = hw.load({str(folder)!r}, ranks=range({ranks}), cache=False, progress=False,"
            " memory_limit='3 GB')"
        )
        lines = one_after_the_other(load, questions)
        show("in_one", lines_table(lines, "In one process, from JSON"), lines=lines)
        harness.save("ranks-json", results)
        return
    full = stored_job(options.ranks, STEPS)
    store = full if ranks == options.ranks else part_of(full, ranks)
    if options.dask:
        load = OPEN_ON_DASK.format(path=str(store))
        lines = one_after_the_other(load, questions, SETUP + ON_DASK)
        show("in_one", lines_table(lines, "In one process, on Dask"), lines=lines)
        print(f"Peak memory: {lines[-1].peak_mb:,.0f} MB of {LIMIT_MB:,} MB.\n")
        harness.save("ranks-dask", results)
        return
    load = OPEN.format(path=str(store))
    lines = one_after_the_other(load, questions)
    show("in_one", lines_table(lines, "In one process, from a store"), lines=lines)
    requested = [item for item in questions if item.name in QUICKLY] if options.quick else questions
    few, many = flat(part_of(full, FEW), full, requested)
    show("each", lines_table(many, "Each in its own process, including opening"), lines=many)
    title = f"Memory growth: {FEW} and {options.ranks:,} ranks, of 6 300 events each"
    show("flat", flat_table(few, many, title), few=few, many=many)
    most = max(item.peak_mb for item in (*lines, *many))
    print(f"Peak memory: {most:,.0f} MB of {LIMIT_MB:,} MB.\n")
    results["most_mb"] = most
    if options.large:
        large = stored_job(FEW, LARGE_STEPS)
        alone = [item for item in questions if item.of_single_ranks]
        few, many = flat(large, part_of(large, FEW, ranks // FEW), alone)
        title = f"Memory growth: {FEW} and {ranks:,} ranks (hard links), of 160 000 events each"
        show("flat_large", flat_table(few, many, title), few=few, many=many)
    harness.save("ranks", results)


if __name__ == "__main__":
    main()
