"""Shared parts of the benchmarks: fresh processes, one core, tables, result files."""

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypedDict, Unpack

import _guard as guard

HERE = Path(__file__).resolve().parent
REPO = HERE.parent
DATA = HERE / ".data"
RESULTS = HERE / "results"
SHARED = Path(os.environ.get("HTA_SHARED", REPO.parent / "shared"))

TIMEOUT_S = 1800
#: Maximum memory of a run, including all of its processes, to protect the machine.
LIMIT_MB = 16_000
#: Exit code of a script that cannot run here. The last line of its output is the reason.
FAILED = 3


class Missing(Exception):  # noqa: N818 - not an error: a reason to leave something out
    """Raised if an anchor is not installed or a file is missing."""


class Failed(Exception):  # noqa: N818 - a finding
    """Raised if the measured program fails. The message is the reason."""


class Limits(TypedDict, total=False):
    """Limits of a process. If it exceeds them, it is stopped."""

    timeout_s: float
    limit_mb: float


@dataclass(frozen=True)
class Run:
    """Time and memory growth of some work in a fresh process."""

    seconds: float
    added_mb: float
    extra: Any = None
    #: Sampled peak of all processes together, including interpreters and imports.
    peak_mb: float = 0.0


@dataclass
class Row:
    """A table row: several runs of the same work."""

    name: str
    runs: list[Run] = field(default_factory=list)
    note: str = ""

    @property
    def seconds(self) -> float:
        # Other work on the machine can only add time, so the minimum counts.
        return min(run.seconds for run in self.runs)

    @property
    def added_mb(self) -> float:
        return statistics.median(run.added_mb for run in self.runs)


def _start(
    command: Sequence[str | Path], core: int | None, stdin: str | None, limits: Limits
) -> Run:
    words = [str(word) for word in command]
    if core is not None:
        if shutil.which("taskset") is None:
            raise Missing("taskset is not installed (util-linux)")
        words = ["taskset", "-c", str(core), *words]
    ended = guard.run(
        words,
        stdin=stdin,
        timeout_s=limits.get("timeout_s", TIMEOUT_S),
        limit_mb=limits.get("limit_mb", LIMIT_MB),
    )
    last = (ended.stderr.strip().splitlines() or [""])[-1]
    if ended.stopped:
        raise Failed(f"{ended.stopped} ({last})" if last else ended.stopped)
    if ended.code == FAILED:
        raise Failed(last)
    if ended.code:
        raise RuntimeError(f"{words} failed:\n{ended.stderr[-4000:]}")
    return Run(**json.loads(ended.stdout.splitlines()[-1]), peak_mb=ended.peak_mb)


def run_code(
    setup: str,
    work: str,
    *,
    extra: str = "",
    python: Path | str = sys.executable,
    core: int | None = None,
    **limits: Unpack[Limits],
) -> Run:
    """Run code in a fresh interpreter, and measure `work` but not `setup`.

    Parameters
    ----------
    setup, work : str
        Python source. Names defined in `setup` are available in `work` and `extra`.
    extra : str
        Expression for an additional result, which must be serializable as JSON.
    python : path
        Another environment's interpreter.
    core : int, optional
        The processor to run on.
    **limits
        `timeout_s` and `limit_mb`. If a limit is exceeded, the process is stopped and `Failed` is
        raised.
    """
    task = json.dumps({"setup": setup, "work": work, "extra": extra})
    return _start([python, HERE / "_probe.py"], core, task, limits)


def run_script(
    script: Path,
    *arguments: str | Path,
    python: Path | str = sys.executable,
    core: int | None = None,
    **limits: Unpack[Limits],
) -> Run:
    """Run a script that measures itself and prints the fields of a `Run` as its last line."""
    return _start([python, script, *arguments], core, None, limits)


def measure(cases: Mapping[str, tuple[Callable[[], Run], int]]) -> list[Row]:
    """Run each case several times, in turns, so that other work affects all cases equally.

    The note of a row without runs states what is missing, or why the runs failed.
    """
    rows = {name: Row(name) for name in cases}
    for turn in range(max(repeat for _, repeat in cases.values())):
        for name, (once, repeat) in cases.items():
            row = rows[name]
            if turn >= repeat or row.note:
                continue
            _tell(f"  {name} … {turn + 1}/{repeat}")
            try:
                row.runs.append(once())
            except (Missing, Failed) as reason:
                row.note = str(reason)
    _tell("")
    return list(rows.values())


def _tell(what: str) -> None:
    """Show progress on a single line of a terminal, but not in log files."""
    if sys.stderr.isatty():
        print(f"\r{what:<78}", end="\r", file=sys.stderr, flush=True)


def _cell(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "×":
        return f"{value:.2g}×" if value < 10 else f"{value:,.0f}×"
    if value >= 100:
        return f"{value:,.0f} {unit}"
    return f"{value:,.{3 if unit == 's' and value < 10 else 1}f} {unit}"


def table(rows: Sequence[Row], anchor: str) -> str:
    """Return a Markdown table that compares rows with the row `anchor`. Higher ratios are better.

    A row with the ratio 2 takes half the time of the anchor, or adds half the memory.
    """
    against = next((row for row in rows if row.name == anchor and row.runs), None)
    lines = [
        f"| | time | faster than {anchor} | added memory | less than {anchor} | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        if not row.runs:
            lines.append(f"| {row.name} | – | – | – | – | {row.note} |")
            continue
        faster = against.seconds / row.seconds if against else None
        less = against.added_mb / max(row.added_mb, 0.1) if against else None
        cells = [
            row.name,
            _cell(row.seconds, "s"),
            _cell(faster, "×"),
            _cell(row.added_mb, "MB"),
            _cell(less, "×"),
            row.note,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """Return the machine and the versions used for the measurement."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    versions = {}
    for package in ("hta_widgets", "numpy", "pandas", "msgspec", "pyarrow"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "processor": models[0] if models else platform.processor(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        **versions,
    }


def time_text(seconds: float) -> str:
    """Format a time in s with three digits, or in ms."""
    if seconds < 0.1:
        return f"{seconds * 1e3:.2g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"


def round_text(ratio: float) -> str:
    """Format a number with two significant digits, without an exponent."""
    return f"{ratio:.2g}" if ratio < 100 else f"{float(f'{ratio:.2g}'):,.0f}"


def describe(facts: dict[str, Any]) -> str:
    """Describe the machine in one line, as the heading of a table."""
    return (
        f"{facts['processor']}, {facts['processors']} processors, load {facts['load']:.1f}; "
        f"Python {facts['python']}, commit {facts['commit'] or 'none'}"
    )


def save(name: str, results: dict[str, Any]) -> Path:
    """Write benchmarks/results/NAME.json with the machine and the results; return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    plain = {
        key: [asdict(item) for item in value]
        if isinstance(value, list) and value and isinstance(value[0], Row)
        else value
        for key, value in results.items()
    }
    path.write_text(json.dumps({"machine": machine(), **plain}, indent=1) + "\n")
    return path


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the maximum."""
    return {
        "p50": statistics.median(values),
        "p95": percentile(values, 0.95),
        "max": max(values),
    }


def quantile_table(head: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return a Markdown table with the `quantiles` of each row."""
    lines = [f"| {head} | p50 | p95 | max |", "|---|---:|---:|---:|"]
    lines += [
        f"| {name} | {row['p50']:.1f} | {row['p95']:.1f} | {row['max']:.1f} |"
        for name, row in rows.items()
    ]
    return "\n".join(lines)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the quantile `share` (0..1) of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
