"""The command line: ``hta-widgets summary | export | report | diff | demo``."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from hta_widgets import __version__
from hta_widgets.demo import write_byteps_job, write_demo, write_mpi_job
from hta_widgets.errors import TraceError
from hta_widgets.export import export_trace
from hta_widgets.export.clock import refuse_unfitted
from hta_widgets.readers import load

if TYPE_CHECKING:
    from hta_widgets.model import TraceSet

__all__ = ["main", "parse_ranks", "parse_time"]

_UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 10**6, "s": 10**9}
_TIME = re.compile(r"(-?\d+(?:\.\d*)?|-?\.\d+)\s*(ns|us|µs|μs|ms|s)")
_RANKS = re.compile(r"(\d+)(?:-(\d+))?")
_MOST_PROBLEMS = 12

_PATHS_HELP = "files, directories (searched recursively) or glob patterns"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or 2 after a line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except TraceError as error:
        return _failed(str(error))
    except BrokenPipeError:
        # The reader, for example `head`, has seen enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _failed(message: str) -> int:
    print(f"hta-widgets: {' '.join(message.split())}", file=sys.stderr)
    return 2


# --- what is asked for --------------------------------------------------------------------------


def parse_time(text: str) -> int:
    """Return the ns of a time such as ``12.3ms``, ``1.5 s``, or ``250us``."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write a number and ns, us, ms or s, for example 12.3ms"
        )
    return round(Decimal(found[1]) * _UNITS_NS[found[2]])


def parse_ranks(text: str) -> list[int]:
    """Return the ranks of a list such as ``0-3,5``."""
    ranks: set[int] = set()
    for part in text.split(","):
        found = _RANKS.fullmatch(part.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise argparse.ArgumentTypeError(
                f"{text!r} are no ranks; write numbers and ranges, for example 0-3,5"
            )
        ranks.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return sorted(ranks)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hta-widgets",
        description="Look at, cut and make traces of distributed training.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_summary(
        commands.add_parser("summary", help="what files hold, and what is wrong with them")
    )
    _add_export(commands.add_parser("export", help="write a part of a job as a new trace file"))
    _add_report(commands.add_parser("report", help="write a dashboard as one interactive page"))
    _add_diff(commands.add_parser("diff", help="write two runs side by side as one page"))
    _add_demo(commands.add_parser("demo", help="write a made-up job whose truth is known"))
    return parser


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=_PATHS_HELP)
    parser.add_argument(
        "--ranks", type=parse_ranks, metavar="LIST", help="only these ranks, for example 0-3,5"
    )


def _add_summary(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show ranks, events and times of traces, and what had to be repaired."
    _add_input(parser)
    parser.set_defaults(run=_summary)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write selected events as Chrome trace JSON, which Perfetto, HTA and this package open. "
        "Times count from the earliest event of what is loaded."
    )
    _add_input(parser)
    parser.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="OUT",
        help="NAME.json or NAME.json.gz for one file (of several ranks merged), "
        "or NAME for a directory of one file a rank",
    )
    parser.add_argument("--start", type=parse_time, metavar="TIME", help="for example 12.3ms")
    parser.add_argument("--end", type=parse_time, metavar="TIME", help="for example 18ms")
    parser.add_argument(
        "--query",
        metavar="QUERY",
        help="a pandas query over event columns, for example \"kind == 'communication'\"",
    )
    parser.add_argument(
        "--clip", action="store_true", help="cut events at the window's edges, not whole"
    )
    parser.add_argument(
        "--no-parents",
        action="store_true",
        help="leave out events that enclose a selected one and are not selected themselves",
    )
    parser.add_argument(
        "--counters", action="store_true", help="write counters as well, also of queues and copies"
    )
    parser.add_argument(
        "--scrub", action="store_true", help="leave out host names, users, environment and paths"
    )
    parser.add_argument(
        "--fitted-clock",
        action="store_true",
        help="move each rank's times by its clock's offset, as fitted from collectives; "
        "--start and --end are then times of that clock",
    )
    parser.set_defaults(run=_export)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a dashboard as one HTML file that needs neither a kernel nor a network: headline, "
        "charts, tables and timeline, linked."
    )
    _add_input(parser)
    parser.add_argument("-o", "--out", default="report.html", metavar="OUT", help="%(default)s")
    parser.add_argument(
        "--timeline-only", action="store_true", help="write the timeline alone: a smaller file"
    )
    parser.add_argument(
        "--max-mb",
        type=float,
        default=25,
        metavar="MB",
        help="how large the file may become; what does not fit is left out, and the page says so "
        "(%(default)s)",
    )
    parser.set_defaults(run=_report)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a comparison of two runs as one HTML file that needs neither a kernel nor a "
        "network, and say what changed."
    )
    parser.add_argument("before", metavar="BEFORE", help="a file, a directory or a glob pattern")
    parser.add_argument("after", metavar="AFTER", help="the other one, or the same again")
    parser.add_argument(
        "--ranks", type=parse_ranks, metavar="LIST", help="only these ranks, for example 0-3,5"
    )
    parser.add_argument(
        "--after-ranks", type=parse_ranks, metavar="LIST", help="only these after, if others"
    )
    parser.add_argument("-o", "--out", default="diff.html", metavar="OUT", help="%(default)s")
    parser.add_argument(
        "--max-mb", type=float, default=25, metavar="MB", help="how large it may be (%(default)s)"
    )
    parser.set_defaults(run=_diff)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write one trace a rank of a realistic data-parallel training job with a slow rank and "
        "clocks that disagree, and the truth about it as DIR_truth.json."
    )
    parser.add_argument("directory", metavar="DIR", help="where the files go")
    parser.add_argument("--ranks", type=int, default=8, help="how many (%(default)s)")
    parser.add_argument("--steps", type=int, default=5, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of all noise (%(default)s)")
    parser.add_argument(
        "--straggler", type=int, default=5, metavar="RANK", help="the slow rank (%(default)s)"
    )
    parser.add_argument(
        "--factor", type=float, default=1.25, help="how many times slower it is (%(default)s)"
    )
    parser.add_argument(
        "--healthy", action="store_true", help="let no rank be slow, instead of --straggler"
    )
    parser.add_argument(
        "--missing", type=parse_ranks, default=[], metavar="LIST", help="ranks that leave no file"
    )
    parser.add_argument(
        "--uneven",
        type=parse_time,
        default=0,
        metavar="TIME",
        help="let recording begin up to this much later, differently on each rank",
    )
    parser.add_argument("--plain", action="store_true", help="write .json instead of .json.gz")
    parser.add_argument(
        "--format",
        choices=("kineto", "byteps", "mpi"),
        default="kineto",
        help="byteps: traces of two workers of two GPUs and of two servers; of the other options "
        "only --steps, --seed and --healthy hold. mpi: profiles and a time line of mpitrace; "
        "--ranks, --steps, --seed, --straggler, --factor and --healthy hold (%(default)s)",
    )
    parser.set_defaults(run=_demo)


# --- what is done ---------------------------------------------------------------------------------


def _load(options: argparse.Namespace) -> TraceSet:
    paths = options.paths
    return load(paths[0] if len(paths) == 1 else paths, ranks=options.ranks)


def _summary(options: argparse.Namespace) -> None:
    traces = _load(options)
    print(repr(traces).strip("<>"))
    rows = [("rank", "events", "start", "duration", "file")]
    rows += [
        (
            str(rank),
            f"{len(trace):,}",
            f"{trace.start_ns / 1e6:,.3f} ms",
            f"{(trace.end_ns - trace.start_ns) / 1e6:,.3f} ms",
            trace.path,
        )
        for rank, trace in traces.items()
    ]
    print()
    _print_table(rows)
    found: Counter[tuple[str, str]] = Counter()
    files: dict[tuple[str, str], set[str]] = {}
    for problem in traces.problems.to_dict("records"):
        what = str(problem["kind"]), str(problem["detail"])
        found[what] += int(problem["count"])
        files.setdefault(what, set()).add(str(problem["file"] or ""))
    if found:
        print("\nproblems")
        for what, count in list(found.items())[:_MOST_PROBLEMS]:
            kind, detail = what
            named = files[what]
            where = f"{len(named)} files" if len(named) > 1 else min(named)
            print(f"  {kind}: {count:,} × {detail}" + (f" ({where})" if where else ""))
        if len(found) > _MOST_PROBLEMS:
            print(f"  and {len(found) - _MOST_PROBLEMS} more: hw.load(…).problems lists them")


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        *numbers, last = row
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths, strict=False)]
        print("  ".join([*cells, last]))


def _export(options: argparse.Namespace) -> None:
    traces = _load(options)
    if options.fitted_clock:
        refuse_unfitted(traces)
        traces = traces.with_clock("fitted")
    report = export_trace(
        traces,
        options.out,
        traces.select(options.query, start_ns=options.start, end_ns=options.end),
        clip=options.clip,
        keep_parents=not options.no_parents,
        counters=options.counters,
        scrub=options.scrub,
        clock="set" if options.fitted_clock else "recorded",
    )
    print(
        f"{report.path}: {_count(report.events, 'event')} and {_count(report.flows, 'flow')} of "
        f"{_count(len(report.ranks), 'rank')}, {report.bytes / 1e6:,.1f} MB"
        + (", on the fitted clock" if report.clock == "fitted" else "")
    )
    if report.left_out:
        parts = [_count(count, what.removesuffix("s")) for what, count in report.left_out.items()]
        print(f"left out: {', '.join(parts)}")


def _report(options: argparse.Namespace) -> None:
    # The widget library takes its time to load, and the other commands need none of it.
    from hta_widgets.widgets import Dashboard, Timeline  # noqa: PLC0415

    viewer = Timeline if options.timeline_only else Dashboard
    path = Path(viewer(_load(options)).save_html(options.out, max_mb=options.max_mb))
    print(f"{path}: {path.stat().st_size / 1e6:,.1f} MB")


def _diff(options: argparse.Namespace) -> None:
    from hta_widgets.widgets import TraceDiff  # noqa: PLC0415 - see above

    before, after = load(options.before), load(options.after)
    ranks = options.ranks, options.after_ranks or options.ranks
    view = TraceDiff(before.select(ranks=ranks[0]), after.select(ranks=ranks[1]))
    path = Path(view.save_html(options.out, max_mb=options.max_mb))
    for finding in view.findings:
        print(finding.text)
    if not view.findings:
        print("Nothing changed beyond the noise.")
    print(f"{path}: {path.stat().st_size / 1e6:,.1f} MB")


def _demo_byteps(options: argparse.Namespace) -> None:
    slow = None if options.healthy else 1
    truth = write_byteps_job(
        options.directory, steps=options.steps, slow_worker=slow, seed=options.seed
    )
    print(
        f"{options.directory}: {_count(truth['workers'], 'worker')} of "
        f"{_count(truth['local_ranks'], 'GPU')}, {_count(truth['servers'], 'server')}, "
        f"{_count(truth['steps'], 'step')}, "
        + ("no worker is slow" if slow is None else f"worker {slow} is slow")
    )
    print(f"{truth['truth_path']}: what is true of it")


def _demo_mpi(options: argparse.Namespace) -> None:
    truth = write_mpi_job(
        options.directory,
        ranks=options.ranks,
        steps=options.steps,
        seed=options.seed,
        slow_rank=None if options.healthy else options.straggler,
        factor=options.factor,
        hosts=min(2, max(options.ranks, 1)),
    )
    slow = truth["slow_rank"]
    print(
        f"{options.directory}: {_count(truth['ranks'], 'rank')}, "
        f"{_count(truth['steps'], 'step')}, {_count(truth['events'], 'event')}, "
        + ("no rank is slow" if slow is None else f"rank {slow} is slow")
    )
    print(f"{truth['truth_path']}: what is true of it")


def _demo(options: argparse.Namespace) -> None:
    if options.format == "byteps":
        _demo_byteps(options)
        return
    if options.format == "mpi":
        _demo_mpi(options)
        return
    truth = write_demo(
        options.directory,
        ranks=options.ranks,
        steps=options.steps,
        seed=options.seed,
        straggler=None if options.healthy else options.straggler,
        factor=options.factor,
        missing=options.missing,
        uneven_us=options.uneven / 1000,
        format="json" if options.plain else "json.gz",
    )
    slow = truth["straggler"]
    print(
        f"{options.directory}: {_count(len(truth['files']), 'rank')}, "
        f"{_count(truth['steps'], 'step')}, {_count(sum(truth['events']), 'event')}, "
        + ("no rank is slow" if slow is None else f"rank {slow} is slow")
    )
    print(f"{truth['truth_path']}: what is true of it")


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


if __name__ == "__main__":
    sys.exit(main())
