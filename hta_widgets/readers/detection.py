"""Detection of a file's format from its first bytes.

The format of a file is the first in the table whose `FileReading.sniff` accepts the file's
beginning. The module `foreign` describes other contents, for example as "a PNG image".
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hta_widgets.readers.foreign import (
    JSON_LINES,
    describe_unknown,
    foreign_format,
    has_json_lines,
)
from hta_widgets.readers.formats import FileStart, all_formats, format_named
from hta_widgets.readers.streams import Stream, decompressed_size, open_stream
from hta_widgets.taxonomy import HOROVOD_PHASE

_SNIFFED_BYTES = 1 << 14
_MAX_BYTES_BEFORE_RECORDS = 1 << 20
#: Maximum number of reads of blanks before the contents, 64 MiB in total.
_MAX_BLANK_READS = 256
_KEYS_OF_A_RANK = ("schemaVersion", "deviceProperties", "distributedInfo")


class Sniffed(NamedTuple):
    """A file's `format`, or a description of `foreign` contents; neither for an empty file."""

    format: str | None = None
    foreign: str | None = None
    #: whether to skip the file if the user did not name it and the folder has other traces
    aside: bool = False


def sniff(path: str | Path, wanted: str = "auto") -> Sniffed:
    """Detect the format of a file, or check that the `wanted` format can read it."""
    with open_stream(path) as stream:
        text = _read_beginning(stream)
        is_damaged = stream.fault is not None
    if not text:
        return Sniffed(foreign="damaged compressed data") if is_damaged else Sniffed()
    start = FileStart(str(path), text, decompressed_size(path))
    if not start.without_bom and len(text) < _SNIFFED_BYTES:
        return Sniffed()
    format_name = next((format_.name for format_ in all_formats() if start.is_of(format_)), None)
    other_contents = _contents_of_other(start, format_name)
    if format_name is None or other_contents is not None:
        return Sniffed(foreign=other_contents or describe_unknown(start))
    if wanted in ("auto", format_name):
        if format_name == "kineto" and _begins_horovod_timeline(start):
            return Sniffed(format_name, "a Horovod timeline", aside=True)
        return Sniffed(format_name)
    if start.is_of(format_named(wanted)):
        return Sniffed(wanted)
    return Sniffed(foreign=f"of the format {format_name}")


def _contents_of_other(start: FileStart, format_name: str | None) -> str | None:
    """Describe a file of another program; return None if it may be of format `format_name`.

    JSON without records is examined as well, because Kineto's format accepts any JSON.
    """
    if format_name not in {None, "kineto"}:
        return None
    if has_json_lines(start.without_bom):
        return JSON_LINES
    is_json = format_name == "kineto"
    if is_json and (b'"ph"' in start.text or b'"traceEvents"' in start.text):
        return None
    other = foreign_format(start)
    return None if other is None else other.name


def _read_beginning(stream: Stream) -> bytes:
    """Return the first bytes of a file; for a JSON object, everything up to its first records."""
    text = stream.read(_SNIFFED_BYTES)
    for _ in range(_MAX_BLANK_READS):
        if not text.isspace():
            break
        text = stream.read(_SNIFFED_BYTES << 4) or text
    if text.lstrip()[:1] != b"{" or b'"ph"' in text:
        return text
    while b'"ph"' not in text and len(text) < _MAX_BYTES_BEFORE_RECORDS:
        more = stream.read(_SNIFFED_BYTES << 4)
        if not more:
            break
        text += more
    return text + stream.read(_SNIFFED_BYTES)


def _begins_horovod_timeline(start: FileStart) -> bool:
    """Return whether the contents are a Horovod timeline; dPRO names such files ``comm.json``."""
    text = start.text
    # PyTorch and exports of this package write these keys. An exported timeline is read as a rank.
    if any(f'"{key}"'.encode() in text for key in _KEYS_OF_A_RANK):
        return False
    has_phase = f'"{HOROVOD_PHASE}'.encode() in text
    return has_phase or (b'"process_name"' in text and b"horovod_" in text)
