"""The command line: ``hta-widgets view | summary | export | report | diff | demo``."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO

from hta_widgets import __version__
from hta_widgets.errors import TraceError
from hta_widgets.text import as_ns, escape_controls, shorten_words

__all__ = ["main", "parse_ranks", "parse_time", "say"]

_RANKS = re.compile(r"(\d+)(?:-(\d+))?")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, or 2 after a line on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The encoding of the output may lack characters of names and units.
        sys.stdout.reconfigure(errors="replace")
    options = parser().parse_args(arguments)
    try:
        # Imported here, since `--help` needs no pandas.
        module = "view" if options.command == "view" else "commands"
        getattr(import_module(f"hta_widgets.cli.{module}"), options.command)(options)
        sys.stdout.flush()
    except TraceError as error:
        return _print_error(str(error))
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe; drop the remaining output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _print_error(message: str) -> int:
    say(f"hta-widgets: {' '.join(message.split())}", file=sys.stderr)
    return 2


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print lines whose parts may come from traces: long words shortened, no control characters."""
    print(
        *(escape_controls(shorten_words(line)) for line in lines), sep="\n", file=file, flush=True
    )


def parse_time(text: str) -> int:
    """Return the ns of a time such as ``12.3ms``, ``1.5 s``, or ``250us``."""
    try:
        return as_ns(text)
    except TraceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_words(text: str) -> list[str]:
    """Return the words of a list such as ``slow_operator,extra_copy``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_ranks(text: str) -> list[int]:
    """Return the ranks of a list such as ``0-3,5``."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise argparse.ArgumentTypeError(
                f"{text!r} does not name ranks; write numbers and ranges, for example 0-3,5"
            )
        ranks.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(ranks)


class _Command(argparse.ArgumentParser):
    """A command, which states its own usage, not the general one, at an unknown argument."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


def parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    main_parser = argparse.ArgumentParser(
        prog="hta-widgets", description="Look at, cut and make traces of distributed training."
    )
    main_parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = main_parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Command
    )
    for add_command in (_add_view, _add_summary, _add_export, _add_report, _add_diff, _add_demo):
        add_command(commands)
    return main_parser


def _add_view(commands: Any) -> None:
    command = commands.add_parser("view", help="show traces in a browser")
    command.description = (
        "Show traces in a browser, served by this machine for itself alone, until Ctrl+C. A folder "
        "of several jobs opens with a list of them; one job opens as a dashboard."
    )
    command.add_argument(
        "paths", nargs="+", metavar="PATH", help="a folder, or files and glob patterns of one job"
    )
    command.add_argument("--compare", metavar="OTHER", help="show PATH and OTHER side by side")
    command.add_argument(
        "--port", type=int, default=0, metavar="N", help="listen here, not at a free port"
    )
    command.add_argument("--no-browser", action="store_true", help="only print the address")
    command.add_argument(
        "--idle",
        type=float,
        default=0,
        metavar="MIN",
        help="end after MIN minutes without a page (0: never)",
    )


def _add_summary(commands: Any) -> None:
    command = commands.add_parser("summary", help="what matters most in a job, and a line a rank")
    command.description = (
        "Say what matters most in a job, how each rank's time is spent, which ranks the others "
        "wait for, and what had to be repaired."
    )
    _add_input(command)
    command.add_argument("--json", action="store_true", help="print it as JSON, times in ns")
    command.add_argument(
        "--efficiency", action="store_true", help="also the MFU and operators far from the roofline"
    )


def _add_export(commands: Any) -> None:
    command = commands.add_parser("export", help="write a part of a job as a new trace file")
    command.description = (
        "Write selected events as Chrome trace JSON, which Perfetto, HTA and this package open. "
        "Times count from the earliest event of what is loaded."
    )
    _add_input(command)
    command.add_argument(
        "-o",
        "--out",
        required=True,
        metavar="OUT",
        help="NAME.json or NAME.json.gz for one file (of several ranks merged), "
        "or NAME for a directory with a file per rank",
    )
    command.add_argument("--start", type=parse_time, metavar="TIME", help="for example 12.3ms")
    command.add_argument("--end", type=parse_time, metavar="TIME", help="for example 18ms")
    command.add_argument(
        "--query",
        metavar="QUERY",
        help="a pandas query over event columns, for example \"kind == 'communication'\"",
    )
    flags = {
        "--clip": "cut events at the window's edges, not whole",
        "--no-parents": "leave out events that enclose a selected one and are not selected "
        "themselves",
        "--counters": "write counters as well, also of queues and copies",
        "--scrub": "leave out host names, users, environment and paths",
        "--fitted-clock": "move each rank's times by its clock's offset, as fitted from "
        "collectives; --start and --end are then times of that clock",
    }
    for flag, words in flags.items():
        command.add_argument(flag, action="store_true", help=words)


def _add_report(commands: Any) -> None:
    command = commands.add_parser("report", help="write a dashboard as one interactive page")
    command.description = (
        "Write a dashboard as one HTML file that needs neither a kernel nor a network: headline, "
        "charts, tables and timeline, linked. Print the headline and the page's address."
    )
    _add_input(command)
    _add_page(command, "report.html")
    command.add_argument(
        "--timeline-only", action="store_true", help="write the timeline alone: a smaller file"
    )
    command.add_argument(
        "--xlsx", metavar="FILE", help="also write all tables as one Excel workbook"
    )


def _add_diff(commands: Any) -> None:
    command = commands.add_parser("diff", help="write two runs side by side as one page")
    command.description = (
        "Write a comparison of two runs as one HTML file that needs neither a kernel nor a "
        "network, and say what changed."
    )
    command.add_argument("before", metavar="BEFORE", help="a file, a directory or a glob pattern")
    command.add_argument("after", metavar="AFTER", help="the other one, or the same again")
    _add_ranks(command)
    command.add_argument(
        "--after-ranks", type=parse_ranks, metavar="LIST", help="only these after, if others"
    )
    command.add_argument(
        "--efficiency", action="store_true", help="also the MFU and operators by their shapes"
    )
    _add_page(command, "diff.html")


def _add_demo(commands: Any) -> None:
    command = commands.add_parser("demo", help="write a made-up job whose truth is known")
    command.description = (
        "Write one trace a rank of a realistic data-parallel training job with a slow rank and "
        "clocks that disagree, and the truth about it as DIR_truth.json."
    )
    command.add_argument("directory", metavar="DIR", help="where the files go")
    command.add_argument("--ranks", type=int, default=8, help="how many (%(default)s)")
    command.add_argument("--steps", type=int, default=5, help="how many (%(default)s)")
    command.add_argument("--seed", type=int, default=0, help="of all noise (%(default)s)")
    command.add_argument(
        "--straggler", type=int, default=5, metavar="RANK", help="the slow rank (%(default)s)"
    )
    command.add_argument(
        "--factor", type=float, default=1.25, help="how many times slower it is (%(default)s)"
    )
    command.add_argument(
        "--healthy", action="store_true", help="let no rank be slow, instead of --straggler"
    )
    command.add_argument(
        "--missing", type=parse_ranks, default=[], metavar="LIST", help="ranks that leave no file"
    )
    command.add_argument(
        "--uneven",
        type=parse_time,
        default=0,
        metavar="TIME",
        help="let recording begin up to this much later, differently on each rank",
    )
    command.add_argument(
        "--changes",
        type=parse_words,
        default=[],
        metavar="LIST",
        help="what this job does otherwise than the usual one, for `hta-widgets diff` to find: "
        "slow_operator, fused_kernel, moved_collective, extra_copy",
    )
    command.add_argument("--plain", action="store_true", help="write .json instead of .json.gz")
    command.add_argument(
        "--format",
        choices=("kineto", "byteps", "mpi"),
        default="kineto",
        help="byteps: traces of two workers of two GPUs and of two servers; of the other options "
        "only --steps, --seed and --healthy hold. mpi: profiles and a time line of mpitrace; "
        "--ranks, --steps, --seed, --straggler, --factor and --healthy hold (%(default)s)",
    )


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ranks", type=parse_ranks, metavar="LIST", help="only these ranks, for example 0-3,5"
    )


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files, directories (searched recursively) or glob patterns",
    )
    _add_ranks(parser)


def _add_page(parser: argparse.ArgumentParser, out: str) -> None:
    parser.add_argument(
        "-o", "--out", default=out, metavar="OUT", help="the file to write (%(default)s)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument(
        "--max-mb",
        type=float,
        default=25,
        metavar="MB",
        help="how large the file may become; what does not fit is left out, and the page says so "
        "(%(default)s)",
    )
