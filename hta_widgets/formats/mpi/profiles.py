"""Reader of mpitrace's text profiles of all generations, section by section."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.mpi.model import (
    CallRow,
    CallStack,
    CommunicatorBin,
    Context,
    MpiProfile,
    RankRow,
    StackFrame,
    Summary,
    mpi_jobs,
    stale_reason,
)
from hta_widgets.readers.formats import Advance, FileStart, Outcome
from hta_widgets.readers.streams import read_whole_file
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import RankColumns, StringPool
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

_NAN = float("nan")

# Widths and separators differ between generations, and long names shift columns to the right, but
# blanks always separate the columns.


def _numeric(name: str) -> str:
    """Return a pattern that captures a number as the group `name`.

    The decimal mark is a comma if the program set such a locale.
    """
    return rf"(?P<{name}>[-+]?(?:\d+(?:[.,]\d*)?(?:[eE][-+]?\d+)?|nan|inf))"


#: Counts with this many digits are damaged. Their sums would overflow.
_HUGE = re.compile(r"(?<![\w.,])\d{16,}(?![\w.,])")
_HEAD = re.compile(
    r"Data for MPI rank (?P<rank>\d+) of (?P<ntasks>\d+):\s*(?:\(all communicators\))?\s*$"
)
_REGION = re.compile(r"Times(?: and statistics)? from (?P<first>.+?) to (?P<last>.+?)\.?\s*$")
_CALLS = r"(?P<routine>MPI_\w+)\s+(?P<calls>\d+)"
_ROUTINE = re.compile(rf"\s*{_CALLS}\s+{_numeric('bytes')}\s+{_numeric('seconds')}\s*$")
_STACK_ROUTINE = re.compile(rf"\s*{_CALLS}\s+{_numeric('seconds')}\s*$")
_SIZE_HEAD = re.compile(r"\s*(?P<routine>MPI_\w+)\s+#calls\s+avg\. ?bytes\s+time\(sec\)\s*$")
_BIN = re.compile(rf"\s*(?P<calls>\d+)\s+{_numeric('bytes')}\s+{_numeric('seconds')}\s*$")
_ROLE = re.compile(
    r"MPI task \d+ of \d+ had the (?P<role>minimum|maximum|median) communication time"
)
#: Field for each label of a value in the head.
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
_VALUE = re.compile(rf"(?P<name>{'|'.join(_VALUES)})\s*=\s*{_numeric('value')}\s*(?P<unit>\w+)")
_LARGEST = re.compile(
    r"\s*Rank (?P<rank>\d+) reported the largest (?P<name>memory utilization|elapsed time)"
    rf"\s*:\s*{_numeric('value')}\s*(?P<unit>\w+)"
)
_CONTEXT = re.compile(r"Data for context = (?P<name>.*), call count = (?P<calls>\d+)\s*$")
_COMMUNICATOR = re.compile(
    r"\s*Data for communicator sizes (?P<low>\d+) to (?P<high>\d+)\s*,"
    rf" avg size = {_numeric('mean')}\s*:"
)
_STACKS = re.compile(r"number of stacks = (?P<count>\d+)")
_STACK = re.compile(
    rf"(?:time in MPI routines|communication time) = {_numeric('seconds')} sec,"
    r" call (?:stack index = (?P<index>\d+)|site address = (?P<address>0x[0-9a-fA-F]+))"
)
_FILE = re.compile(r"\s+filename = (?P<file>.*?)\s*$")
_ADDRESS = re.compile(r"\s+address = (?P<address>\w+),\s*offset\s*= (?P<offset>\w+)\s*$")
_TRANSLATED = re.compile(r"\s+(?P<name>function|source) = (?P<text>.*?)\s*$")
_SUMMARY_LINE = re.compile(
    r"\s*(?P<kind>minimum|median|maximum|average)\s+(?P<of>communication|MPI-IO) time"
    rf" = {_numeric('seconds')} sec\w*(?: for task (?P<rank>\d+))?"
)

#: Headings, with the section that each begins.
_SECTIONS = (
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

#: Separators and explanations. These lines are skipped.
_IGNORED_LINE = re.compile(
    r"\s*(-{5,}|call stack:|time-bin\s+#ranks|Use addr2line .*|For addresses in .*"
    r"|addr2line .*|Or translate all .*|Ensure -g .*|MPI time for this communicator bin.*)?\s*$"
)
_BIN_TIME = re.compile(r"\s*MPI time for this communicator bin.*?=\s*(?P<seconds>\S*)")
#: Field for each column heading, given its first words.
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
_MAX_STACKS = 50  # maximum printed by mpitrace
_COMM_ORDER = ("minimum", "median", "maximum")
_IO_ORDER = ("minimum", "average", "maximum")
#: Limit for times and sizes; larger values are damaged.
_MAX_NUMBER = 1e12


def parse_profiles(text: str, job: str) -> list[tuple[MpiProfile, Problems]]:
    """Return the profiles in a file: one, or several that were concatenated."""
    parsers: list[_Parser] = []
    for line_number, line in enumerate(text.splitlines(), 1):
        head = _HEAD.match(line)
        if head is not None and max(map(len, head.group("rank", "ntasks"))) < 10:
            parsers.append(_Parser(job, int(head["rank"]), int(head["ntasks"])))
        elif parsers:
            parsers[-1].parse_line(line, line_number)
    # A complete file ends with a line break. Only the last profile can be incomplete.
    is_complete = text.endswith(("\n", "\r"))
    return [
        parser.finish(is_complete=is_complete or parser is not parsers[-1]) for parser in parsers
    ]


@dataclass(slots=True)
class _Block:
    """Rows of the whole run, or of the context, communicator bin or call stack in `head`."""

    head: Any = None
    values: dict[str, float] = field(default_factory=dict)
    frames: list[StackFrame] = field(default_factory=list)
    routines: list[CallRow] = field(default_factory=list)
    sizes: list[CallRow] = field(default_factory=list)

    def build(self, *values: str, **more: Any) -> Any:
        """Return `head` built from these values, further fields and the routines."""
        fields = {name: self.values.get(name, _NAN) for name in values}
        return replace(self.head, **fields, **more, routines=tuple(self.routines))


class _Parser:
    def __init__(self, job: str, rank: int, ntasks: int) -> None:
        self.job, self.rank, self.ntasks = job, rank, ntasks
        self.region = ("", "")
        self.roles: list[str] = []
        self.main = _Block()
        self.contexts: list[_Block] = []
        self.bins: list[_Block] = []
        self.stacks: list[_Block] = []
        self.stated_stacks = 0
        self.columns: list[str] = []
        self.memory_scale = 1.0
        self.ranks: list[RankRow] = []
        self.histogram: list[tuple[float, int]] = []
        self.io: dict[str, float] = {}
        self.comm: dict[str, tuple[float, int]] = {}
        self.largest: dict[str, tuple[float, int]] = {}
        self.unread: list[int] = []  # numbers of unrecognized lines
        self.implausible = 0
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
        """The context to which lines belong, or else the whole run."""
        return self.contexts[-1] if self.contexts else self.main

    def parse_line(self, line: str, line_number: int) -> None:
        self._last_blank = not line.strip()
        if _HUGE.search(line):
            self.unread.append(line_number)
            return
        if self._last_blank or self._start_section(line) or self._readers[self._section](line):
            return
        if not (self._value(line) or _IGNORED_LINE.match(line) or self._largest(line)):
            self.unread.append(line_number)

    def _number(self, text: str) -> float:
        """Return a printed number with either decimal mark; NaN if it is implausibly large."""
        number = float(text.replace(",", "."))
        self.implausible += abs(number) >= _MAX_NUMBER
        return number if abs(number) < _MAX_NUMBER else _NAN

    def _number_or_nan(self, text: str) -> float:
        try:
            return self._number(text)
        except ValueError:
            return _NAN

    def _calls(self, row: re.Match[str], routine: str) -> CallRow:
        """Return the calls in a table row; their bytes are NaN if the table lacks them."""
        mean_bytes = self._number_or_nan(row.groupdict().get("bytes", ""))
        return CallRow(routine, int(row["calls"]), mean_bytes, self._number(row["seconds"]))

    def _scale(self, text: str, unit: str) -> float:
        return self._number(text) * (1 / 1024 if unit.lower() in {"kbytes", "kib"} else 1.0)

    def _start_section(self, line: str) -> bool:
        if context := _CONTEXT.match(line):
            self.contexts.append(_Block(Context(context["name"], int(context["calls"]))))
            self._section = "head"
            return True
        section = next((name for pattern, name in _SECTIONS if pattern.match(line)), None)
        if section is None:
            return False
        # Communicators and call stacks contain tables of routines.
        if section != "routines" or self._section not in {"communicators", "stacks"}:
            self._section = section
            self.seen.add(section)
        if stated := _STACKS.search(line):
            self.stated_stacks = min(int(stated["count"]), _MAX_STACKS)
        return True

    def _value(self, line: str) -> bool:
        if value := _VALUE.match(line):
            self.block.values[_VALUES[value["name"]]] = self._scale(value["value"], value["unit"])
        elif region := _REGION.match(line):
            self.region = region["first"], region["last"]
        elif role := _ROLE.match(line):
            self.roles.append(role["role"])
        else:
            return False
        return True

    def _largest(self, line: str) -> bool:
        match = _LARGEST.match(line)
        if match is not None:
            value = self._scale(match["value"], match["unit"])
            self.largest[match["name"]] = value, int(match["rank"])
        return match is not None

    def _routine_line(self, line: str, block: _Block | None = None) -> bool:
        row = _ROUTINE.match(line)
        if row is not None:
            (block or self.block).routines.append(self._calls(row, row["routine"]))
        return row is not None

    def _size_line(self, line: str) -> bool:
        if head := _SIZE_HEAD.match(line):
            self._routine = head["routine"]
        elif self._routine and (row := _BIN.match(line)):
            self.block.sizes.append(self._calls(row, self._routine))
        else:
            return False
        return True

    def _communicator_line(self, line: str) -> bool:
        if head := _COMMUNICATOR.match(line):
            size_lo, size_hi = int(head["low"]), int(head["high"])
            self.bins.append(_Block(CommunicatorBin(size_lo, size_hi, self._number(head["mean"]))))
            return True
        if self.bins and (time := _BIN_TIME.match(line)):
            self.bins[-1].values["time_s"] = self._number_or_nan(time["seconds"])
            return True
        return bool(self.bins) and self._routine_line(line, self.bins[-1])

    def _stack_line(self, line: str) -> bool:
        """Read a line of a call stack; return False if it has another form."""
        if head := _STACK.match(line):
            index = int(head["index"]) if head["index"] else len(self.stacks)
            site = [StackFrame("", head["address"], "")] if head["address"] else []
            self.stacks.append(_Block(CallStack(index, self._number(head["seconds"])), frames=site))
            return True
        if not self.stacks:
            return False
        stack = self.stacks[-1]
        frames = stack.frames
        if file := _FILE.match(line):
            frames.append(StackFrame(file["file"], "", ""))
        elif frames and (place := _ADDRESS.match(line)):
            frames[-1] = frames[-1]._replace(**place.groupdict())
        elif frames and (translated := _TRANSLATED.match(line)):
            frames[-1] = frames[-1]._replace(**{translated["name"]: translated["text"]})
        elif row := _STACK_ROUTINE.match(line):
            stack.routines.append(self._calls(row, row["routine"]))
        else:
            return self._routine_line(line, stack)
        return True

    def _summary_line(self, line: str) -> bool:
        match = _SUMMARY_LINE.match(line)
        if match is None:
            return False
        seconds = self._number(match["seconds"])
        if match["of"] == "MPI-IO":
            self.io[match["kind"]] = seconds
        else:
            self.comm[match["kind"]] = seconds, int(match["rank"] or -1)
        return True

    def _histogram_line(self, line: str) -> bool:
        words = line.split()
        if len(words) != 2 or not words[1].isdigit():
            return False
        self.histogram.append((self._number_or_nan(words[0]), int(words[1])))
        return True

    def _table_line(self, line: str) -> bool:
        words = line.split()
        if words[0] == "taskid":
            # Column heads have units and differ between generations.
            self.columns = [
                next((name for start, name in _COLUMNS.items() if head.startswith(start)), head)
                for head in words
            ]
            self.memory_scale = 1 / 1024 if "size(KB)" in words else 1.0
            return True
        if len(words) != len(self.columns):
            return False
        cells = dict(zip(self.columns, words, strict=True))
        try:
            row = RankRow(
                rank=int(cells["rank"]),
                host=cells.get("host", ""),
                cpu=int(cells.get("cpu", "-1")),
                comm_s=self._number(cells["comm_s"]),
                elapsed_s=self._number(cells["elapsed_s"]),
                user_s=self._number_or_nan(cells.get("user_s", "")),
                system_s=self._number_or_nan(cells.get("system_s", "")),
                rss_mib=self._number_or_nan(cells.get("rss_mib", "")) * self.memory_scale,
                switches=int(cells.get("switches", "-1")),
            )
        except ValueError:
            return False
        self.ranks.append(row)
        return True

    def finish(self, *, is_complete: bool) -> tuple[MpiProfile, Problems]:
        """Return the profile and its problems; the last line is cut off unless `is_complete`."""
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
                context.build("comm_s", "elapsed_s", sizes=tuple(context.sizes))
                for context in self.contexts
            ),
            communicator_bins=tuple(bin_.build("time_s") for bin_ in self.bins),
            call_stacks=tuple(stack.build(frames=tuple(stack.frames)) for stack in self.stacks),
            summary=self._summary() if {"summary", "table"} & self.seen else None,
        )
        return profile, self._problems(profile, is_complete=is_complete)

    def _problems(self, profile: MpiProfile, *, is_complete: bool) -> Problems:
        problems = Problems()
        incomplete = "" if is_complete else "its last line is incomplete"
        missing = self._missing_part(profile) or incomplete
        if missing:
            problems.add("truncated", 1, f"the profile is cut off: {missing}")
        if len(self.unread) > (0 if is_complete else 1):  # an incomplete line was reported above
            detail = f"unrecognized lines; the first is line {self.unread[0]}"
            problems.add("skipped", len(self.unread), detail)
        problems.add(
            "overflow", self.implausible, "times or sizes of 1e12 or more, taken as unknown"
        )
        for routine, calls in ({} if missing else _without_size(profile)).items():
            detail = (
                f"calls of {routine} with 2 GiB or more, whose size mpitrace does not count: the"
                " routine's bytes are too low"
            )
            problems.add("overflow", calls, detail)
        return problems

    def _summary(self) -> Summary:
        return Summary(
            tuple(self.ranks),
            tuple(self.histogram),
            tuple(self.io[name] for name in _IO_ORDER if name in self.io),
            tuple(self.comm[name] for name in _COMM_ORDER if name in self.comm),
            self.largest.get("memory utilization", (_NAN, -1)),
            self.largest.get("elapsed time", (_NAN, -1)),
        )

    def _missing_part(self, profile: MpiProfile) -> str:
        """Describe the first part missing from `profile`; "" if it is complete."""
        if "routines" not in self.seen:
            return "the table of routines is missing"
        if "comm_s" not in self.main.values:
            return "the communication time is missing"
        if "rss_mib" not in self.main.values:
            return "the lines after the communication time are missing"
        if "sizes" not in self.seen:
            return "the message sizes are missing"
        if self.rank == 0:
            if profile.summary is None:
                return "the summary of all ranks is missing"
            if len(self.ranks) < self.ntasks:
                return f"its table lists {len(self.ranks)} of {self.ntasks} ranks"
            return ""
        if len(self.stacks) < self.stated_stacks:
            return f"it lists {len(self.stacks)} of {self.stated_stacks} call stacks"
        if not self._last_blank and (self._section != "sizes" or _without_size(profile)):
            return "its end is missing"
        # One or two bins may be lost together with the blank line before the next heading.
        sized = [row.routine for row in self.main.routines if row.avg_bytes > 0]
        if sized and sized[-1] not in {row.routine for row in self.main.sizes}:
            return f"the message sizes of {sized[-1]} are missing"
        return ""


def _without_size(profile: MpiProfile) -> dict[str, int]:
    """Return, for each routine with bins, the number of calls outside of them."""
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


def is_profile(start: FileStart) -> bool:
    """Return whether a file begins like an mpitrace profile."""
    return _FIRST_LINE.match(start.without_bom) is not None


def _job_of(path: str) -> str:
    """Return the job in a profile's file name; any other file is a job of its own."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".zst")
    if match := _NAME.fullmatch(name):
        return match["job"]
    # Until 2017, names only contained the rank.
    return "" if re.fullmatch(r"mpi_profile\.\d+", name) else Path(name).stem


def read_profiles(path: str, *, advance: Advance = None, **_: object) -> Outcome:
    """Read the profiles in a file."""
    problems = Problems()
    text = read_whole_file(path, problems, advance).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    profiles = parse_profiles(text.decode("utf-8", "replace"), _job_of(path))
    if not profiles:
        raise TraceError("holds no MPI profile", path=path, remedy="Copy the original file again.")
    traces = []
    for profile, problems_of_profile in profiles:
        problems.merge(problems_of_profile, file=path)
        trace = build_trace(
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
        traces.append(trace)
    return Outcome(tuple(traces), problems)


def _no_events() -> RankColumns:
    columns: dict[str, Any] = {
        "phase": np.empty(0, np.uint8),
        "timed": np.empty(0, np.bool_),
        **dict.fromkeys(
            ("name", "category", "pid", "tid", "stream", "flow"), np.empty(0, np.int32)
        ),
        **dict.fromkeys(("start_ns", "dur_ns", "correlation"), np.empty(0, np.int64)),
        **{name: StringPool() for name in ("names", "categories", "pids", "tids", "flow_ids")},
    }
    return RankColumns(**columns)


def finish(traces: Sequence[Trace], problems: Problems) -> Sequence[Trace]:
    """Set each rank's host from rank 0's table, and mark files left by earlier runs.

    If a rank also has a time line of the same run, its profile is merged into that trace.
    """
    changed: dict[int, Trace | None] = {}
    for job in mpi_jobs(traces):
        head = job.head
        ranks = () if head is None or head.summary is None else head.summary.ranks
        hosts = {row.rank: row.host or None for row in ranks}
        lines = {trace.stated_rank: trace for trace in reversed(job.lines)}
        for trace in job.profiles:
            stale = "" if head is None else stale_reason(trace.profile, head)
            if stale:
                problems.add(
                    "stale", 1, f"left over by another run of the job: {stale}", file=trace.path
                )
            line = lines.pop(trace.stated_rank, None)
            changed[id(trace)] = None  # replaced below unless merged into another trace
            holder = trace if line is None else line
            changed[id(holder)] = holder.replace(
                host=None if stale else hosts.get(trace.profile.rank),
                profile=replace(trace.profile, stale=bool(stale)),
                profile_path=None if line is None else trace.path,
            )
    remaining = (changed.get(id(trace), trace) for trace in traces)
    return [trace for trace in remaining if trace is not None]
