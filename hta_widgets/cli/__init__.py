"""The command line: ``hta-widgets view | summary | tables | table | event | …``."""

from __future__ import annotations

import argparse
import atexit
import codecs
import gc
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO

from hta_widgets import options as settings
from hta_widgets.errors import TraceError
from hta_widgets.text import MINUS, THIN, UNKNOWN, as_ns, escape_controls, shorten_words, size

__all__ = ["main", "parse_ranks", "parse_time", "print_page", "run", "say"]

#: Modules of the commands that are not defined in `commands`.
_MODULES = {
    "view": "view",
    **dict.fromkeys(("tables", "table", "event", "sql"), "tables"),
    **dict.fromkeys(("diff", "baseline"), "comparison"),
    **dict.fromkeys(("mcp", "skill"), "agents"),
}
#: Replacements for characters missing from the output encoding.
_ASCII = {
    THIN: " ", MINUS: "-", UNKNOWN: "-", "→": "->", "…": "...", "µ": "u", "±": "+-", "×": "x",
    "·": "-", "≥": ">=", "≤": "<=", "█": "#", **dict.fromkeys("▏▎▍▌▋▊▉", ""),
}  # fmt: skip
_RANKS = re.compile(r"(\d+)(?:-(\d+))?")
_PATHS_HELP = "files, directories (searched recursively) or glob patterns"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 on errors, or a verdict's (`--fail-above`)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The output encoding may lack characters that occur in names and units.
        codecs.register_error("spell-out", _spell_out)
        sys.stdout.reconfigure(errors="spell-out")
    words = list(sys.argv[1:] if arguments is None else arguments)
    _Command.words = words
    options = parser().parse_args(words)
    try:
        settings.steps = getattr(options, "step_ranges", None)
        code = _import_command(options.command)(options)
        sys.stdout.flush()
    except TraceError as error:
        return _report_error(error, as_json=_has_json(words))
    except BrokenPipeError:
        # The reader has closed the pipe, as ``head`` does. Drop the remaining output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _report_error(TraceError(text), as_json=_has_json(words))
    except KeyboardInterrupt:
        return 130
    return int(code or 0)


def run() -> None:
    """Run the command line as a program, and exit without unloading modules."""
    codes: list[int] = []

    def end() -> None:
        if codes:  # empty if an exception was raised
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(codes[0])

    # Exit functions run after threads have ended. The function registered first runs last.
    atexit.register(end)
    codes.append(main())
    sys.exit(codes[0])


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    """Replace characters missing from an encoding with ASCII: ``−2 %`` becomes ``-2 %``."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    part = error.object[error.start : error.end]
    return "".join(_ASCII.get(character, "?") for character in part), error.end


def _import_command(name: str) -> Callable[[argparse.Namespace], int | None]:
    """Import the function of a command. `--help` does not need this import, which loads pandas."""
    # Garbage collection would take a fifth of the import time without freeing anything.
    gc.disable()
    try:
        module = import_module(f"hta_widgets.cli.{_MODULES.get(name, 'commands')}")
    finally:
        gc.freeze()
        gc.enable()
    command: Callable[[argparse.Namespace], int | None] = getattr(module, name)
    return command


def _has_json(words: Sequence[str]) -> bool:
    """Return whether the arguments include `--json` or an abbreviation that argparse accepts."""
    return any(len(word) > 2 and "--json".startswith(word) for word in words)


def _report_error(error: TraceError, *, as_json: bool) -> int:
    """Print an error, as JSON if `as_json`, and return the exit code."""
    if as_json:
        reply = import_module("hta_widgets.answers.reply")
        print(reply.json_text(reply.error_envelope(error)))
    else:
        say(f"hta-widgets: {' '.join(str(error).split())}", file=sys.stderr)
    return 2


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print lines that may contain text from traces: cut long words, escape control characters."""
    safe_lines = (escape_controls(shorten_words(line)) for line in lines)
    print(*safe_lines, sep="\n", file=file, flush=True)


def print_page(path: str, options: argparse.Namespace) -> None:
    """Print the address and size of a page, and open it if requested."""
    file = Path(path).resolve()
    say(f"{file.as_uri()} ({size(file.stat().st_size)})")
    if options.open and not import_module("webbrowser").open(file.as_uri()):
        say("no browser was found here; open the address above in one")


def parse_time(text: str) -> int:
    """Parse a time such as ``12.3ms``, ``1.5 s`` or ``250us`` and return it in ns."""
    try:
        return as_ns(text)
    except TraceError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_window(text: str) -> tuple[int, int]:
    """Parse two times such as ``12ms-18.5ms``, ``12ms,18ms`` or ``0ms:1s``; return them in ns."""
    parts = re.split(r"(?<=s)\s*[-,:]\s*", text.strip(), maxsplit=1)
    if len(parts) != 2:
        raise argparse.ArgumentTypeError(f"{text!r} does not name two times, such as 12ms-18.5ms")
    return parse_time(parts[0]), parse_time(parts[1])


def parse_words(text: str) -> list[str]:
    """Split a list such as ``slow_operator,extra_copy``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parse_ranks(text: str) -> list[int]:
    """Parse a list of ranks such as ``0-3,5``."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        part_ranks = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not part_ranks:
            raise argparse.ArgumentTypeError(
                f"{text!r} does not name ranks; write numbers and ranges, for example 0-3,5"
            )
        ranks.update(part_ranks)
    return sorted(ranks)


class _PrintVersion(argparse.Action):
    """Prints the version, which is looked up only on demand because that is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(parser.prog, import_module("hta_widgets").__version__)
        parser.exit()


class _Command(argparse.ArgumentParser):
    """Parser of a single command. Its errors show the usage of this command."""

    #: The command-line arguments.
    words: Sequence[str] = ()
    #: Adds the command's arguments when it is parsed. Doing so for all commands would be slow.
    add_arguments: Callable[[argparse.ArgumentParser], None]

    def error(self, message: str) -> NoReturn:
        """Report invalid arguments, as JSON if `--json` is given, and exit."""
        if _has_json(self.words):
            usage = " ".join(self.format_usage().split())
            self.exit(_report_error(TraceError(message, remedy=usage), as_json=True))
        super().error(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.add_arguments(self)
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


def parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    main_parser = argparse.ArgumentParser(
        prog="hta-widgets",
        description="View, analyse, export and compare traces of distributed training.",
    )
    main_parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version")
    commands = main_parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Command
    )
    for name, (words, add_arguments) in _COMMANDS.items():
        description = f"{words[0].upper()}{words[1:]}."
        command = commands.add_parser(name, help=words, description=description)
        command.add_arguments = add_arguments
    return main_parser


def _add_view(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Show traces in a browser until Ctrl+C; only this machine can connect. A folder of several "
        "jobs opens with a list of them; one job opens as a dashboard."
    )
    command.add_argument(
        "paths", nargs="+", metavar="PATH", help="a folder, or files and glob patterns of one job"
    )
    _add_steps(command)
    add = command.add_argument
    add("--compare", metavar="OTHER", help="show PATH and OTHER side by side")
    add("--port", type=int, default=0, metavar="N", help="the port to listen on (a free one)")
    idle_words = "end after MIN minutes without an open page (0: never)"
    add("--idle", type=float, default=0, metavar="MIN", help=idle_words)
    add("--no-browser", action="store_true", help="only print the address")


def _add_summary(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print the main findings of a job, how each rank spends its time, which ranks the others "
        "wait for, and what had to be repaired in the files."
    )
    _add_input(command)
    add = command.add_argument
    add("--json", action="store_true", help="print it as JSON, times in ns")
    efficiency_words = "also the MFU and operators far from the roofline"
    add("--efficiency", action="store_true", help=efficiency_words)


def _add_tables(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", nargs="+", metavar="JOB", help=_PATHS_HELP)
    _add_steps(command)
    _add_form(command)


def _add_table(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print rows of an analysis, or of events, ranks or problems. Times are ns since the "
        "earliest event."
    )
    _add_job(command)
    command.add_argument("name", metavar="NAME", help="a table of `hta-widgets tables JOB`")
    _add_ranks(command)
    add = command.add_argument
    window_words = "two times, for example 12ms-18.5ms"
    add("--window", type=parse_window, metavar="TIMES", help=window_words)
    add("--query", metavar="QUERY", help="a pandas query over event columns")
    add("--sort", default="", metavar="COLUMN", help="sort the rows")
    column_words = "for example name,count,sum_ns (all)"
    add("--columns", type=parse_words, default=[], metavar="NAMES", help=column_words)
    add("--descending", action="store_true", help="sort them in descending order")
    _add_limit(command)
    option_words = "a parameter of the analysis, for example by_name=true; may be repeated"
    add("--option", action="append", default=[], metavar="NAME=VALUE", help=option_words)
    _add_form(command)


def _add_event(command: argparse.ArgumentParser) -> None:
    _add_job(command)
    command.add_argument("rank", type=int, metavar="RANK")
    command.add_argument("id", type=int, metavar="ID", help="as in the tables")
    _add_form(command)


def _add_sql(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print the rows of a SELECT of DuckDB over events, args, flows, counters, ranks, problems "
        "and the analyses. Queries cannot read files or the network."
    )
    _add_job(command)
    command.add_argument(
        "query", metavar="QUERY", help='such as "select name, sum(dur_ns) from events group by all"'
    )
    _add_limit(command)
    _add_form(command)


def _add_limit(command: argparse.ArgumentParser) -> None:
    words = "maximum number of rows, 0 for all (50)"
    command.add_argument("--limit", type=int, default=50, metavar="N", help=words)


def _add_form(command: argparse.ArgumentParser) -> None:
    command.set_defaults(form="text")
    forms = command.add_mutually_exclusive_group()
    for form, words in (
        ("json", "as JSON, with units and meanings of the columns"),
        ("csv", "as CSV"),
        ("markdown", "as a Markdown table"),
    ):
        forms.add_argument(
            f"--{form}", action="store_const", const=form, dest="form", help=f"print it {words}"
        )


def _add_export(command: argparse.ArgumentParser) -> None:
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
        help="NAME.json or NAME.json.gz for one file, in which ranks are merged, "
        "or NAME for a directory with a file per rank",
    )
    add = command.add_argument
    add("--start", type=parse_time, metavar="TIME", help="for example 12.3ms")
    add("--end", type=parse_time, metavar="TIME", help="for example 18ms")
    query_words = "a pandas query over event columns, for example \"kind == 'communication'\""
    add("--query", metavar="QUERY", help=query_words)
    flags = {
        "--clip": "cut events at the edges of the window instead of writing them whole",
        "--no-parents": "leave out enclosing events that are not selected themselves",
        "--counters": "also write counters, including counters of queues and copies",
        "--scrub": "leave out host names, users, environment and paths",
        "--fitted-clock": "move each rank's times by its clock's offset, as fitted from "
        "collectives; --start and --end are then times of that clock",
        "--perfetto": "write NAME.tar for Perfetto 58 and newer: a file per rank, and a manifest "
        "with the offsets of their clocks, as fitted from collectives",
    }
    for flag, words in flags.items():
        add(flag, action="store_true", help=words)


def _add_report(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Write a dashboard as one HTML file that needs neither a kernel nor a network: headline, "
        "charts, tables and timeline, linked. Print the headline and the page's address."
    )
    _add_input(command)
    _add_page(command, "report.html")
    add = command.add_argument
    add("--timeline-only", action="store_true", help="write the timeline alone: a smaller file")
    add("--xlsx", metavar="FILE", help="also write all tables as one Excel workbook")


def _add_diff(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print what changed between two runs, and write the comparison as one HTML file that needs "
        "neither a kernel nor a network. With --fail-above, --json or --markdown the file is only "
        "written if -o names it. Exit codes of --fail-above: 0 within the limit, 1 regressed, 3 "
        "cannot tell, 2 errors."
    )
    command.add_argument(
        "before", metavar="BEFORE", help="a file, a directory, a glob pattern, or baseline:NAME"
    )
    command.add_argument("after", metavar="AFTER", help="the run to compare with it")
    _add_form(command)
    _add_steps(command)
    _add_ranks(command)
    add = command.add_argument
    limit_words = "judge whether a metric became worse, for example 5%%"
    add("--fail-above", metavar="LIMIT", help=limit_words)
    metric_words = "step, exposed_comm, idle, mfu, or kernel:REGEX (%(default)s)"
    add("--metric", default="step", metavar="METRIC", help=metric_words)
    rank_words = "ranks of AFTER, if not those of --ranks"
    add("--after-ranks", type=parse_ranks, metavar="LIST", help=rank_words)
    add("--svg", metavar="FILE", help="also write both timelines as a picture")
    add("--efficiency", action="store_true", help="also the MFU and operators by their shapes")
    _add_page(command, None, "the file to write (diff.html)")


def _add_baseline(command: argparse.ArgumentParser) -> None:
    command.add_argument("action", choices=("save", "remove", "list"))
    command.add_argument("name", nargs="?", metavar="NAME")
    command.add_argument("paths", nargs="*", metavar="JOB", help=_PATHS_HELP)


def _add_mcp(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Serve read-only tools of the Model Context Protocol on standard input and output: open a "
        "job, run analyses, look at events, compare runs, see the timeline."
    )
    command.add_argument(
        "roots", nargs="+", metavar="FOLDER", help="only paths below these folders are read"
    )


def _add_skill(command: argparse.ArgumentParser) -> None:
    command.description = "Print SKILL.md, or write it below a folder of skills."
    command.add_argument("folder", nargs="?", metavar="FOLDER", help="for example ~/.claude/skills")


def _add_demo(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Write one trace per rank of a realistic data-parallel training job with a slow rank and "
        "clocks that disagree, and the truth about it as DIR_truth.json."
    )
    command.add_argument("directory", metavar="DIR", help="where the files go")
    straggler_words = "the slow rank; the last rank if the number is too large (%(default)s)"
    uneven_words = "maximum delay of recording, which differs between ranks"
    change_words = (
        "differences from the default job, to be found by `hta-widgets diff`: slow_operator, "
        "fused_kernel, moved_collective, extra_copy"
    )
    factor_words = "slowdown of the slow rank (%(default)s)"
    add = command.add_argument
    add("--ranks", type=int, default=8, metavar="N", help="number of ranks (%(default)s)")
    add("--steps", type=int, default=5, metavar="N", help="number of steps (%(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="seed of all noise (%(default)s)")
    add("--straggler", type=int, default=5, metavar="RANK", help=straggler_words)
    add("--factor", type=float, default=1.25, metavar="FACTOR", help=factor_words)
    add("--missing", type=parse_ranks, default=[], metavar="LIST", help="ranks without a file")
    add("--uneven", type=parse_time, default=0, metavar="TIME", help=uneven_words)
    add("--changes", type=parse_words, default=[], metavar="LIST", help=change_words)
    flags = {
        "--healthy": "no slow rank; overrides --straggler",
        "--modules": "record module calls, as with with_stack=True",
        "--checkpoint": "recompute each layer in the backward pass",
        "--plain": "write .json instead of .json.gz",
    }
    for flag, words in flags.items():
        add(flag, action="store_true", help=words)
    _add_demo_kinds(command)


def _add_demo_kinds(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kind",
        choices=(
            *("training", "data_loading", "launch_bound", "memory_bound"),
            *("pipeline", "moe", "graph"),
        ),
        default="training",
        help="training, data_loading, launch_bound, memory_bound: what a step spends its time on. "
        "pipeline, moe, graph: a small job without noise, all of whose figures are known: 4 "
        "stages; 4 ranks with experts; a server that replays a graph, with its capture; no other "
        "option applies (%(default)s)",
    )
    command.add_argument(
        "--format",
        choices=("kineto", "byteps", "mpi"),
        default="kineto",
        help="byteps: traces of two workers of two GPUs and of two servers; of the other options "
        "only --steps, --seed and --healthy apply. mpi: profiles and a time line of mpitrace; "
        "--ranks, --steps, --seed, --straggler, --factor and --healthy apply (%(default)s)",
    )


def _add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="JOB", help="a file, a directory or a glob pattern")
    _add_steps(parser)


def _add_ranks(parser: argparse.ArgumentParser) -> None:
    words = "only these ranks, for example 0-3,5"
    parser.add_argument("--ranks", type=parse_ranks, metavar="LIST", help=words)


def _add_steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps",
        dest="step_ranges",
        metavar="REGEX",
        help="names of ranges to use as steps, for profilers that do not record steps",
    )


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=_PATHS_HELP)
    _add_steps(parser)
    _add_ranks(parser)


def _add_page(
    parser: argparse.ArgumentParser, out: str | None, words: str = "the file to write (%(default)s)"
) -> None:
    add = parser.add_argument
    add("-o", "--out", default=out, metavar="OUT", help=words)
    add("--open", action="store_true", help="open the page in a browser")
    size_words = "maximum file size; the page states what is left out (%(default)s)"
    add("--max-mb", type=float, default=25, metavar="MB", help=size_words)


#: The help text of each command, and the function that adds its arguments.
_COMMANDS = {
    "view": ("show traces in a browser", _add_view),
    "summary": ("the main findings and a line for each rank", _add_summary),
    "tables": ("the tables that a job has data for", _add_tables),
    "table": ("rows of one table of a job", _add_table),
    "event": ("one event with its args, callers and launches", _add_event),
    "sql": ("rows of a SELECT over the tables of a job", _add_sql),
    "export": ("write part of a job as a new trace file", _add_export),
    "report": ("write a dashboard as one interactive page", _add_report),
    "diff": ("what changed between two runs, with a verdict", _add_diff),
    "baseline": ("save runs by name, for `diff baseline:NAME`", _add_baseline),
    "demo": ("write a synthetic job with a known truth", _add_demo),
    "mcp": ("serve tools for language models on stdio", _add_mcp),
    "skill": ("instructions for language models", _add_skill),
}
