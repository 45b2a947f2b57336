"""Mpitrace's text profiles of every generation, read section by section."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.mpi.model import (
    CallStack,
    CommunicatorBin,
    Context,
    MpiProfile,
    RankRow,
    RoutineRow,
    SizeRow,
    StackFrame,
    Summary,
    is_stale,
    mpi_jobs,
)
from hta_widgets.readers.formats import Outcome, Start
from hta_widgets.readers.streams import whole_file
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import Pool, RankColumns
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

# --- lines, and numbers in them -------------------------------------------------------------------

# Widths and separators differ between generations, and long names push columns to the right;
# blanks between the columns are always there.

#: Programs that set a locale print a comma as decimal mark.
_N = r"([-+]?(?:\d+(?:[.,]\d*)?(?:[eE][-+]?\d+)?|nan|inf))"

HEAD = re.compile(r"Data for MPI rank (\d+) of (\d+):\s*(?:\((all communicators)\))?\s*$")
REGION = re.compile(r"Times(?: and statistics)? from (.+?) to (.+?)\.?\s*$")
ROUTINE = re.compile(rf"\s*(MPI_\w+)\s+(\d+)\s+{_N}\s+{_N}\s*$")
STACK_ROUTINE = re.compile(rf"\s*(MPI_\w+)\s+(\d+)\s+{_N}\s*$")
SIZE_HEAD = re.compile(r"\s*(MPI_\w+)\s+#calls\s+avg\. ?bytes\s+time\(sec\)\s*$")
BIN = re.compile(rf"\s*(\d+)\s+{_N}\s+{_N}\s*$")
ROLE = re.compile(r"MPI task (\d+) of (\d+) had the (minimum|maximum|median) communication time")
VALUE = re.compile(
    r"(synchronization time|total communication time|total elapsed time|exclusive elapsed time"
    r"|user cpu time|system time|max resident set size|maximum memory size|total MPI-IO time)"
    rf"\s*=\s*{_N}\s*(\w+)"
)
LARGEST = re.compile(
    rf"\s*Rank (\d+) reported the largest (memory utilization|elapsed time)\s*:\s*{_N}\s*(\w+)"
)
CONTEXT = re.compile(r"Data for context = (.*), call count = (\d+)\s*$")
COMMUNICATOR = re.compile(rf"\s*Data for communicator sizes (\d+) to (\d+)\s*, avg size = {_N}\s*:")
STACKS = re.compile(r"number of stacks = (\d+)")
STACK = re.compile(
    rf"(?:time in MPI routines|communication time) = {_N} sec,"
    r" call (?:stack index = (\d+)|site address = (0x[0-9a-fA-F]+))"
)
FILE = re.compile(r"\s+filename = (.*?)\s*$")
ADDRESS = re.compile(r"\s+address = (\w+),\s*offset\s*= (\w+)\s*$")
TRANSLATED = re.compile(r"\s+(function|source) = (.*?)\s*$")
SUMMARY_LINE = re.compile(
    rf"\s*(minimum|median|maximum|average)\s+(communication|MPI-IO) time = {_N} sec\w*"
    r"(?: for task (\d+))?"
)

#: Headings, and what follows them.
SECTIONS = (
    (re.compile(r"\s*MPI Routine\s+#calls"), "routines"),
    (re.compile(r"Message size distributions:"), "sizes"),
    (re.compile(r"\s*Profile data by communicator size:"), "communicators"),
    (re.compile(r"Profile by call (stack|site), traceback level"), "stacks"),
    (re.compile(r"(Communication s|S)ummary for all tasks:"), "summary"),
    (re.compile(r"\s*Histogram of times spent in MPI"), "histogram"),
    (
        re.compile(r"MPI (timing summary for all ranks|tasks sorted by communication time):"),
        "table",
    ),
)

#: Lines that only separate or explain.
NOTHING = re.compile(
    r"\s*(-{5,}|call stack:|time-bin\s+#ranks|Use addr2line .*|For addresses in .*"
    r"|addr2line .*|Or translate all .*|Ensure -g .*|MPI time for this communicator bin.*)?\s*$"
)


def number(text: str) -> float:
    """Return a printed number, whatever its decimal mark."""
    return float(text.replace(",", "."))


@dataclass(slots=True)
class Unread:
    """Lines of no known form."""

    count: int = 0
    first: int = field(default=-1)

    def add(self, line: int) -> None:
        """Count the line of this number, from 1."""
        self.count += 1
        if self.first < 0:
            self.first = line


# --- profiles -------------------------------------------------------------------------------------

_NAN = float("nan")
#: Columns of the table of all ranks, by what their headings begin with.
_COLUMNS = {
    "taskid": "rank",
    "host": "host",
    "cpu": "cpu",
    "comm": "comm_s",
    "elapsed": "elapsed_s",
    "user": "user_s",
    "system": "system_s",
    "size": "rss_mib",
    "switches": "switches",
}


def routine_row(line: str) -> RoutineRow | None:
    """Return what a line says of a routine; None where it is no such line."""
    row = ROUTINE.match(line)
    if row is None:
        return None
    return RoutineRow(row[1], int(row[2]), number(row[3]), number(row[4]))


def rank_columns(headings: list[str]) -> list[str]:
    """Return the columns of the table of all ranks, of whatever generation."""
    return [
        next((to for start, to in _COLUMNS.items() if word.startswith(start)), word)
        for word in headings
    ]


def rank_row(row: dict[str, str], memory_scale: float) -> RankRow:
    """Return what a line of that table says, by column."""
    return RankRow(
        int(row["rank"]),
        row.get("host", ""),
        int(row.get("cpu", "-1")),
        number(row["comm_s"]),
        number(row["elapsed_s"]),
        float_of(row.get("user_s", "")),
        float_of(row.get("system_s", "")),
        float_of(row.get("rss_mib", "")) * memory_scale,
        int(row.get("switches", "-1")),
    )


def float_of(text: str) -> float:
    """Return a printed number; NaN for what is none."""
    try:
        return number(text)
    except ValueError:
        return _NAN


_VALUES = {
    "synchronization time": "sync_s",
    "total communication time": "comm_s",
    "total elapsed time": "elapsed_s",
    "exclusive elapsed time": "exclusive_s",
    "user cpu time": "user_s",
    "system time": "system_s",
    "max resident set size": "rss_mib",
    "maximum memory size": "rss_mib",
    "total MPI-IO time": "io_s",
}
_MOST_STACKS = 50  # no more are printed
_COMM_ORDER = ("minimum", "median", "maximum")
_IO_ORDER = ("minimum", "average", "maximum")


def parse_profiles(text: str, job: str) -> list[tuple[MpiProfile, Problems]]:
    """Return the profiles of a file: one, or several that were put one after another."""
    found: list[_Parser] = []
    for place, line in enumerate(text.splitlines(), 1):
        head = HEAD.match(line)
        if head is not None:
            found.append(_Parser(job, int(head[1]), int(head[2])))
        elif found:
            found[-1].take(line, place)
    # Genuine files end with a line break; only the last profile can be cut.
    whole = text.endswith(("\n", "\r"))
    return [parser.finish(ended=whole or parser is not found[-1]) for parser in found]


@dataclass(slots=True)
class _Block:
    """A table of routines and their message sizes: of the whole run, or of a context."""

    name: str = ""
    call_count: int = 0
    values: dict[str, float] = field(default_factory=dict)
    routines: list[RoutineRow] = field(default_factory=list)
    sizes: list[SizeRow] = field(default_factory=list)


@dataclass(slots=True)
class _Stack:
    index: int
    time_s: float
    frames: list[StackFrame] = field(default_factory=list)
    routines: list[RoutineRow] = field(default_factory=list)


class _Parser:
    """Takes the lines of one profile."""

    def __init__(self, job: str, rank: int, ntasks: int) -> None:
        self.job, self.rank, self.ntasks = job, rank, ntasks
        self.region = ("", "")
        self.roles: list[str] = []
        self.main = _Block()
        self.contexts: list[_Block] = []
        self.bins: list[tuple[CommunicatorBin, list[RoutineRow]]] = []
        self.stacks: list[_Stack] = []
        self.stacks_told = 0
        self.columns: list[str] = []
        self.memory_scale = 1.0
        self.ranks: list[RankRow] = []
        self.histogram: list[tuple[float, int]] = []
        self.io: dict[str, float] = {}
        self.comm: dict[str, tuple[float, int]] = {}
        self.largest: dict[str, tuple[float, int]] = {}
        self.unread = Unread()
        self.seen: set[str] = set()
        self._section = "head"
        self._routine = ""
        self._last_blank = False
        self._readers: dict[str, Callable[[str], bool]] = {
            "head": self._value,
            "routines": self._routine_line,
            "sizes": self._size_line,
            "communicators": self._communicator_line,
            "stacks": self._stack_line,
            "summary": self._summary_line,
            "histogram": self._histogram_line,
            "table": self._table_line,
        }

    @property
    def block(self) -> _Block:
        return self.contexts[-1] if self.contexts else self.main

    def take(self, line: str, place: int) -> None:
        """Take one line."""
        self._last_blank = not line.strip()
        if self._last_blank or self._opens(line) or self._readers[self._section](line):
            return
        if self._value(line) or NOTHING.match(line) or self._largest(line):
            return
        self.unread.add(place)

    def _opens(self, line: str) -> bool:
        """Whether a line begins a section."""
        context = CONTEXT.match(line)
        if context is not None:
            self.contexts.append(_Block(context[1], int(context[2])))
            self._section = "head"
            return True
        for pattern, section in SECTIONS:
            if pattern.match(line):
                inside = self._section in {"communicators", "stacks"} and section == "routines"
                if not inside:
                    self._section = section
                    self.seen.add(section)
                if told := STACKS.search(line):
                    self.stacks_told = min(int(told[1]), _MOST_STACKS)
                return True
        return False

    # --- lines of each section --------------------------------------------------------------------

    def _value(self, line: str) -> bool:
        if found := VALUE.match(line):
            scale = 1 / 1024 if found[3].lower() in {"kbytes", "kib"} else 1.0
            self.block.values[_VALUES[found[1]]] = number(found[2]) * scale
        elif region := REGION.match(line):
            self.region = (region[1], region[2])
        elif role := ROLE.match(line):
            self.roles.append(role[3])
        else:
            return False
        return True

    def _largest(self, line: str) -> bool:
        found = LARGEST.match(line)
        if found is not None:
            scale = 1 / 1024 if found[4].lower() in {"kbytes", "kib"} else 1.0
            self.largest[found[2]] = (number(found[3]) * scale, int(found[1]))
        return found is not None

    def _routine_line(self, line: str) -> bool:
        row = routine_row(line)
        if row is not None:
            self.block.routines.append(row)
        return row is not None

    def _size_line(self, line: str) -> bool:
        if head := SIZE_HEAD.match(line):
            self._routine = head[1]
        elif self._routine and (row := BIN.match(line)):
            self.block.sizes.append(
                SizeRow(self._routine, int(row[1]), number(row[2]), number(row[3]))
            )
        else:
            return False
        return True

    def _communicator_line(self, line: str) -> bool:
        if head := COMMUNICATOR.match(line):
            self.bins.append((CommunicatorBin(int(head[1]), int(head[2]), number(head[3])), []))
            return True
        if not self.bins:
            return False
        if (row := routine_row(line)) is not None:
            self.bins[-1][1].append(row)
            return True
        if line.strip().startswith("MPI time for this communicator bin") and "=" in line:
            text = line.partition("=")[2].split()
            one, rows = self.bins[-1]
            self.bins[-1] = (replace(one, time_s=float_of(text[0] if text else "")), rows)
            return True
        return False

    def _stack_line(self, line: str) -> bool:
        if head := STACK.match(line):
            site = [StackFrame("", head[3], "")] if head[3] else []
            index = int(head[2]) if head[2] else len(self.stacks)
            self.stacks.append(_Stack(index, number(head[1]), site))
            return True
        if not self.stacks:
            return False
        stack = self.stacks[-1]
        if file := FILE.match(line):
            stack.frames.append(StackFrame(file[1], "", ""))
        elif stack.frames and (place := ADDRESS.match(line)):
            stack.frames[-1] = stack.frames[-1]._replace(address=place[1], offset=place[2])
        elif stack.frames and (told := TRANSLATED.match(line)):
            stack.frames[-1] = stack.frames[-1]._replace(**{told[1]: told[2]})
        elif (row := routine_row(line)) is not None:
            stack.routines.append(row)
        elif bare := STACK_ROUTINE.match(line):
            stack.routines.append(RoutineRow(bare[1], int(bare[2]), _NAN, number(bare[3])))
        else:
            return False
        return True

    def _summary_line(self, line: str) -> bool:
        found = SUMMARY_LINE.match(line)
        if found is None:
            return False
        if found[2] == "MPI-IO":
            self.io[found[1]] = number(found[3])
        else:
            self.comm[found[1]] = (number(found[3]), int(found[4] or -1))
        return True

    def _histogram_line(self, line: str) -> bool:
        words = line.split()
        if len(words) != 2 or not words[1].isdigit():
            return False
        self.histogram.append((float_of(words[0]), int(words[1])))
        return True

    def _table_line(self, line: str) -> bool:
        words = line.split()
        if words[0] == "taskid":
            self.columns = rank_columns(words)
            self.memory_scale = 1 / 1024 if "size(KB)" in words else 1.0
            return True
        if len(words) != len(self.columns):
            return False
        row = dict(zip(self.columns, words, strict=True))
        try:
            self.ranks.append(rank_row(row, self.memory_scale))
        except ValueError:
            return False
        return True

    # --- the whole --------------------------------------------------------------------------------

    def finish(self, *, ended: bool) -> tuple[MpiProfile, Problems]:
        """Return the profile and what is wrong with it."""
        summary = None
        if {"summary", "table"} & self.seen:
            io = tuple(self.io[name] for name in _IO_ORDER if name in self.io)
            summary = Summary(
                tuple(self.ranks),
                tuple(self.histogram),
                io,
                tuple(self.comm[name] for name in _COMM_ORDER if name in self.comm),
                self.largest.get("memory utilization", (_NAN, -1)),
                self.largest.get("elapsed time", (_NAN, -1)),
            )
        values: dict[str, Any] = {**self.main.values}
        profile = MpiProfile(
            self.job,
            self.rank,
            self.ntasks,
            self.region,
            tuple(self.roles),
            **values,
            routine_rows=tuple(self.main.routines),
            size_rows=tuple(self.main.sizes),
            contexts=tuple(
                Context(
                    one.name,
                    one.call_count,
                    one.values.get("comm_s", _NAN),
                    one.values.get("elapsed_s", _NAN),
                    tuple(one.routines),
                    tuple(one.sizes),
                )
                for one in self.contexts
            ),
            communicator_bins=tuple(replace(one, routines=tuple(rows)) for one, rows in self.bins),
            call_stacks=tuple(
                CallStack(one.index, one.time_s, tuple(one.frames), tuple(one.routines))
                for one in self.stacks
            ),
            summary=summary,
        )
        return profile, self._problems(profile, ended=ended)

    def _problems(self, profile: MpiProfile, *, ended: bool) -> Problems:
        problems = Problems()
        what = self._missing(profile) or ("" if ended else "its last line does not end")
        if what:
            problems.add("truncated", 1, f"the profile is cut off: {what}")
        if self.unread.count > (not ended):
            problems.add(
                "skipped",
                self.unread.count,
                f"lines of no known form, the first is line {self.unread.first}",
            )
        if not what:
            for routine, calls in _without_size(profile).items():
                problems.add(
                    "overflow",
                    calls,
                    f"calls of {routine} with 2 GiB or more, whose size is not counted: its bytes"
                    " are too few",
                )
        return problems

    def _missing(self, profile: MpiProfile) -> str:
        """Return what a whole profile would have and this one lacks."""
        if "routines" not in self.seen:
            return "the table of routines is missing"
        if "comm_s" not in self.main.values:
            return "the communication time is missing"
        if "rss_mib" not in self.main.values:
            return "what follows the communication time is missing"
        if "sizes" not in self.seen:
            return "the message sizes are missing"
        if self.rank == 0:
            if profile.summary is None:
                return "the summary of all ranks is missing"
            if len(self.ranks) < self.ntasks:
                return f"its table lists {len(self.ranks)} of {self.ntasks} ranks"
            return ""
        if len(self.stacks) < self.stacks_told:
            return f"it lists {len(self.stacks)} of {self.stacks_told} call stacks"
        if not self._last_blank and (self._section != "sizes" or _without_size(profile)):
            return "its end is missing"
        # A bin or two may be gone together with the blank line before the next heading.
        sized = [row.routine for row in self.main.routines if row.avg_bytes > 0]
        if sized and sized[-1] not in {row.routine for row in self.main.sizes}:
            return f"the message sizes of {sized[-1]} are missing"
        return ""


def _without_size(profile: MpiProfile) -> dict[str, int]:
    """Return by routine how many of its calls are in no bin, where there are bins."""
    binned: dict[str, int] = {}
    for row in profile.size_rows:
        binned[row.routine] = binned.get(row.routine, 0) + row.calls
    return {
        row.routine: row.calls - binned[row.routine]
        for row in profile.routine_rows
        if row.calls > binned.get(row.routine, row.calls)
    }


_FIRST_LINE = re.compile(rb"Data for MPI rank \d+ of \d+:")
_NAME = re.compile(r"mpi_profile\.(?P<job>.+)\.\d+")


def is_profile(start: Start) -> bool:
    """Whether a file begins as mpitrace's profiles do."""
    return _FIRST_LINE.match(start.stripped) is not None


def job_of(path: str) -> str:
    """Return the job that a profile's name tells; a file of another name is a job of its own."""
    name = Path(path).name.removesuffix(".gz")
    found = _NAME.fullmatch(name)
    if found:
        return found["job"]
    # Before 2018 names told the rank alone.
    return "" if re.fullmatch(r"mpi_profile\.\d+", name) else Path(name).stem


def read_profiles(
    path: str,
    *,
    advance: Callable[[int], object] | None = None,
    keepalive: Any = None,  # noqa: ARG001 - nothing is read again
) -> Outcome:
    """Read the profiles in a file."""
    problems = Problems()
    text = whole_file(path, problems, advance).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    profiles = parse_profiles(text.decode("utf-8", "replace"), job_of(path))
    if not profiles:
        raise TraceError(
            "holds no MPI profile", path=path, remedy="Was the file changed? Copy it again."
        )
    for _, found in profiles:
        for problem in found:
            problems.add(problem.kind, problem.count, problem.detail, file=path)
    return Outcome(tuple(_trace(profile, path) for profile, _ in profiles), problems)


def _trace(profile: MpiProfile, path: str) -> Trace:
    return build_trace(
        _no_events(),
        rank=profile.rank,
        path=path,
        metadata={},
        source=None,
        problems=Problems(),
        format="mpi-profile",
        stated_rank=profile.rank,
        job=profile.job,
        profile=profile,
    )


def _no_events() -> RankColumns:
    codes, times = np.empty(0, np.int32), np.empty(0, np.int64)
    return RankColumns(
        phase=np.empty(0, np.uint8),
        start_ns=times,
        dur_ns=times,
        timed=np.empty(0, np.bool_),
        name=codes,
        category=codes,
        pid=codes,
        tid=codes,
        stream=codes,
        correlation=times,
        flow=codes,
        names=Pool(),
        categories=Pool(),
        pids=Pool(),
        tids=Pool(),
        flow_ids=Pool(),
    )


def finish(traces: Sequence[Trace], problems: Problems) -> Sequence[Trace]:
    """Give ranks the hosts that rank 0's file tells, and find files of earlier runs."""
    told: dict[int, Trace] = {}
    for job in mpi_jobs(traces):
        head = job.head
        if head is None or head.summary is None:
            continue
        hosts = {row.rank: row.host or None for row in head.summary.ranks}
        for trace in job.profiles:
            stale = is_stale(trace.profile, head)
            if stale:
                problems.add(
                    "stale", 1, f"left over by another run of the job: {stale}", file=trace.path
                )
            told[id(trace)] = trace.replace(
                host=None if stale else hosts.get(trace.profile.rank),
                profile=replace(trace.profile, stale=bool(stale)),
            )
    return [told.get(id(trace), trace) for trace in traces]
