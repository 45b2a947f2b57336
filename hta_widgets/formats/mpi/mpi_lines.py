"""The lines of mpitrace's text profiles, of every generation: patterns, and numbers in them.

Widths and separators differ between generations, and long names push columns to the right; blanks
between the columns are always there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = [
    "ADDRESS",
    "BIN",
    "COMMUNICATOR",
    "CONTEXT",
    "FILE",
    "HEAD",
    "LARGEST",
    "NOTHING",
    "REGION",
    "ROLE",
    "ROUTINE",
    "SECTIONS",
    "SIZE_HEAD",
    "STACK",
    "STACKS",
    "STACK_ROUTINE",
    "SUMMARY_LINE",
    "TRANSLATED",
    "VALUE",
    "Unread",
    "number",
]

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
