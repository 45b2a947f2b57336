"""Recognizes files that are not read, and states what to do with them.

A file is recognized by its beginning and by words in it. A report of Nsight is also recognized by
its suffix. For example, JSON with ``"schema"`` and ``"nodes"`` is an execution trace. The words of
a database are its table names, which may be anywhere in the file.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import msgspec

from hta_widgets.facts import facts
from hta_widgets.readers.formats import SQLITE_MAGIC, FileStart

SUPPORTED_FORMATS_TEXT = (
    "Load Kineto or other Chrome trace-event JSON, plain, gzip or zstd, exports of Nsight Systems,"
    " XPlane profiles of JAX, files of Ascend's profiler and of rocprofv3,"
    " dumps of PyTorch's flight recorder and memory, or files of BytePS or mpitrace."
)
#: Names of formats that are recognized by functions instead of first bytes.
JSON_LINES, _PERFETTO = "JSON Lines, one object per line", "a Perfetto protobuf trace"
#: Bytes that do not occur in text; logs may have bells, backspaces and escapes.
_CONTROL = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")


class ForeignFormat(msgspec.Struct, frozen=True):
    """A format in ``foreign_formats.json``, which is recognized but not read."""

    name: str  # as in "is an Nsight Systems report"
    remedy: str = SUPPORTED_FORMATS_TEXT
    begins: str = ""  # regular expression; "" if the first bytes do not identify it
    holds: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()

    def is_of(self, path: str, start: bytes) -> bool:
        """Return whether a file with this beginning has the format."""
        if Path(path).suffix.lower() in self.endings:
            return True
        has_all = self.begins and all(word.encode() in start for word in self.holds)
        return bool(has_all and re.match(self.begins.encode("latin-1"), start, re.DOTALL))


@cache
def _foreign_formats() -> list[ForeignFormat]:
    return msgspec.convert(facts("foreign_formats"), list[ForeignFormat])


def foreign_format(start: FileStart) -> ForeignFormat | None:
    """Return the format of a file of another program; None if it is not recognized."""
    text = start.without_bom if start.is_json else start.text
    if text.startswith(SQLITE_MAGIC):
        text = SQLITE_MAGIC + "".join(f"\n{name}\n" for name in start.tables).encode()
    return next(
        (format_ for format_ in _foreign_formats() if format_.is_of(start.path, text)), None
    )


def has_json_lines(start: bytes) -> bool:
    """Return whether the first line of a file is a JSON object and another object follows."""
    line, _, rest = start.partition(b"\n")
    if not line.startswith(b"{") or not rest.lstrip().startswith(b"{") or b"traceEvents" in line:
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def foreign_remedy(name: str) -> str:
    """Return the remedy for files of the format called `name`."""
    remedies = (format_.remedy for format_ in _foreign_formats() if format_.name == name)
    return next(remedies, SUPPORTED_FORMATS_TEXT)


def describe_unknown(start: FileStart) -> str:
    """Describe contents whose format is not recognized."""
    if not start.without_bom:
        return "blank text"
    if _is_perfetto(start.text):
        return _PERFETTO
    is_binary = _CONTROL.search(start.text) is not None
    return "a binary file of unknown format" if is_binary else "text that is not JSON"


def _is_perfetto(start: bytes) -> bool:
    """Return whether bytes begin a Perfetto trace: packets, each in length-delimited field 1."""
    first_packet = re.match(rb"\x0a([\x80-\xff]{0,4}[\x00-\x7f])", start)
    if first_packet is None or _CONTROL.search(start) is None:
        return False
    digits = enumerate(first_packet[1])  # base-128 digits, lowest first
    length = sum((digit & 0x7F) << 7 * place for place, digit in digits)
    next_packet = start[first_packet.end() + length :]
    return next_packet[:1] in (b"", b"\x0a")
