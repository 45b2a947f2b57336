"""Detection of a file's format by its first bytes, and descriptions of files that are not read.

A file is of the first format of the table whose `FileReading.sniff` accepts its beginning. For
other files the message names what they are, such as "compressed with zstd", and what to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hta_widgets.readers.formats import FileStart, all_formats, format_named, resolve_reference
from hta_widgets.readers.streams import decompressed_size, open_stream

#: Remedy for files of other formats.
SUPPORTED_FORMATS_TEXT = (
    "Load Kineto or other Chrome trace-event JSON, plain or gzip, or files of BytePS or mpitrace."
)

_SNIFFED_BYTES = 1 << 14
_MAX_BYTES_BEFORE_RECORDS = 1 << 20
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite format 3\0", "an SQLite database (an Nsight Systems export?)"),
    (b"NVTX", "an Nsight Systems report"),
    (b"\x7fELF", "an executable"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"BZh", "compressed with bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x04\x22\x4d\x18", "compressed with lz4"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML file"),
    (b"PERFILE2", "a Linux perf recording"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[")
_REMEDIES = {
    "compressed": "Decompress it first; of compressed files, only gzip is read.",
    "a zip": "Unpack it first.",
    "a 7z": "Unpack it first.",
    "UTF-16": "Convert it to UTF-8.",
    "a Git LFS": "Fetch the file with git lfs pull.",
    "a Perfetto": "Export it as Chrome JSON (traceconv json), and load that.",
}


class Sniffed(NamedTuple):
    """A file's `format`, or a description of `foreign` contents; neither for an empty file."""

    format: str | None = None
    foreign: str | None = None
    #: whether the file is skipped unless the user named it, or the folder has no other traces
    aside: bool = False


def sniff(path: str | Path, wanted: str = "auto") -> Sniffed:
    """Detect the format of a file, or check that the `wanted` format can read it."""
    with open_stream(path) as stream:
        text = stream.read(_SNIFFED_BYTES)
        if text.lstrip()[:1] == b"{" and b'"ph"' not in text:  # long keys before the records
            while b'"ph"' not in text and len(text) < _MAX_BYTES_BEFORE_RECORDS:
                more = stream.read(_SNIFFED_BYTES << 4)
                if not more:
                    break
                text += more
            text += stream.read(_SNIFFED_BYTES)
        fault = stream.fault
    if not text:
        return Sniffed(foreign="damaged gzip data") if fault else Sniffed()
    start = FileStart(str(path), text, decompressed_size(path))
    if not start.without_bom and len(text) < _SNIFFED_BYTES:
        return Sniffed()
    format_name = next(
        (
            format_.name
            for format_ in all_formats()
            if resolve_reference(format_.reading.sniff)(start)
        ),
        None,
    )
    if format_name is None:
        return Sniffed(foreign=_foreign_format_name(start))
    if wanted in ("auto", format_name):
        if format_name == "kineto" and _is_horovod(start):
            return Sniffed(format_name, "a Horovod timeline", aside=True)
        return Sniffed(format_name)
    if resolve_reference(format_named(wanted).reading.sniff)(start):
        return Sniffed(wanted)
    return Sniffed(foreign=f"of the format {format_name}")


def _is_horovod(start: FileStart) -> bool:
    """Whether the contents are a Horovod timeline; dPRO names such files ``comm.json``."""
    text = start.text
    if b'"schemaVersion"' in text or b'"deviceProperties"' in text:  # written by PyTorch
        return False
    return b'"NEGOTIATE_' in text or (b'"process_name"' in text and b"horovod_" in text)


def _foreign_format_name(start: FileStart) -> str:
    """Return the name of a format that is not read."""
    text = start.text
    for magic, name in _MAGIC:
        if text[: len(magic)].lower() == magic.lower():
            return name
    if text[257:262] == b"ustar":
        return "a tar archive"
    stripped = start.without_bom
    if not stripped:
        return "blank text"
    if stripped.startswith(_UTF16):
        return "UTF-16 text"
    if stripped[:1] == b"\x0a" or _is_perfetto(text):
        return "a Perfetto protobuf trace"
    if b"\0" in text:
        return "a binary file of unknown format"
    return "text that is not JSON"


def _is_perfetto(start: bytes) -> bool:
    """Whether bytes begin a Perfetto trace: a sequence of packets in length-delimited field 1."""
    position = 0
    for _ in range(3):
        if position + 2 > len(start) or start[position] != 0x0A:
            return False
        length, shift, position = 0, 0, position + 1
        while position < len(start) and shift < 35:
            byte = start[position]
            length |= (byte & 0x7F) << shift
            shift += 7
            position += 1
            if not byte & 0x80:
                break
        position += length
        if position >= len(start):
            return True
    return True


def remedy_for(name: str) -> str:
    """Return the remedy for a file of a format that is not read."""
    for beginning, remedy in _REMEDIES.items():
        if name.startswith(beginning):
            return remedy
    return SUPPORTED_FORMATS_TEXT
