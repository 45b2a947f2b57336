"""Compare each analysis in our HTA interface with the same analysis in HTA, on one core.

    python benchmarks/analyses.py [--only resnet50] [--repeat 5]

Both packages run the same calls of `TraceAnalysis` in fresh processes, in turns. The best of
several calls counts. Our caches are cleared before each call. Loading is not included.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import _harness as harness
from _harness import REPO, SHARED, Missing
from _job import demo_job

CORE = 0
HTA = REPO / ".venv-hta/bin/python"
SCRIPT = REPO / "benchmarks/_analyses.py"

Times = dict[str, float | str]


def resnet50() -> dict[int, Path]:
    return _single("kineto/resnet50_num_workers_0_a")


def control() -> dict[int, Path]:
    return _single("hta_tests/trace_diff__control")


def _single(folder: str) -> dict[int, Path]:
    files = sorted((SHARED / "traces" / folder).glob("*.json*"))
    if not files:
        raise Missing(f"no trace in {SHARED / 'traces' / folder}: set HTA_SHARED")
    return {0: files[0]}


def demo() -> dict[int, Path]:
    folder = demo_job(8, 5)
    return {rank: folder / f"rank-{rank}.trace.json.gz" for rank in range(8)}


def run(python: Path | str, module: str, files: dict[int, Path], repeat: int) -> harness.Run:
    with tempfile.TemporaryDirectory() as scratch:
        # The input files are copied, because HTA writes some results next to its input.
        copies = {rank: shutil.copy(path, scratch) for rank, path in files.items()}
        listing = Path(scratch) / "files.list"
        listing.write_text(json.dumps({str(rank): str(path) for rank, path in copies.items()}))
        out = Path(scratch) / "out"
        out.mkdir()
        os.environ["HTA_WIDGETS_CACHE"] = str(Path(scratch) / "cache")
        arguments = module, listing, str(repeat), out
        return harness.run_script(SCRIPT, *arguments, python=python, core=CORE)


def compare(files: dict[int, Path], repeat: int, turns: int) -> tuple[Times, Times]:
    if not HTA.exists():
        raise Missing("HTA is not installed (`make interop`)")
    ours: Times = {}
    theirs: Times = {}
    for _ in range(turns):
        _keep_best(theirs, run(HTA, "hta.trace_analysis", files, repeat).extra)
        _keep_best(ours, run(sys.executable, "hta_widgets", files, repeat).extra)
    return ours, theirs


def _keep_best(best: Times, times: Times) -> None:
    for name, seconds in times.items():
        earlier = best.get(name)
        if isinstance(seconds, float) and isinstance(earlier, float):
            best[name] = min(earlier, seconds)
        else:
            best[name] = seconds


def verdict(ours: float | str, theirs: float | str) -> str:
    if ours == theirs == "no answer":
        return "both have none"
    if isinstance(ours, str):
        return f"ours fails: {ours}"
    if isinstance(theirs, str):
        return "HTA has none" if theirs == "no answer" else "HTA fails"
    ratio = theirs / ours
    goal = 5 if theirs > 0.2 else 1
    shown = f"{ratio:.2g}×" if ratio < 10 else f"{ratio:,.0f}×"
    return shown if ratio >= goal else f"{shown} (goal {goal}×)"


def table(ours: Times, theirs: Times) -> str:
    lines = ["| analysis | ours | HTA 0.6.1 | faster |", "|---|---:|---:|---:|"]
    for name, seconds in ours.items():
        cells = [name, _time(seconds), _time(theirs[name]), verdict(seconds, theirs[name])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time(seconds: float | str) -> str:
    if isinstance(seconds, str):
        return seconds.partition(":")[0]
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


TRACES: dict[str, Callable[[], dict[int, Path]]] = {
    "resnet50": resnet50,
    "control": control,
    "demo": demo,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(TRACES))
    parser.add_argument("--repeat", type=int, default=5, help="calls per process")
    parser.add_argument("--turns", type=int, default=2, help="processes per package")
    options = parser.parse_args()
    print(harness.describe(harness.machine()) + "; one core\n")
    results = {}
    for name, find in TRACES.items():
        if options.only not in (None, name):
            continue
        try:
            ours, theirs = compare(find(), options.repeat, options.turns)
        except Missing as reason:
            print(f"{name}: {reason}\n")
            continue
        results[name] = {"ours": ours, "HTA 0.6.1": theirs}
        print(f"## {name}\n\n{table(ours, theirs)}\n")
    if results:
        print(f"written to {harness.save('analyses', results).relative_to(REPO)}")


if __name__ == "__main__":
    main()
