"""What a file is, told by its first bytes."""

from __future__ import annotations

from pathlib import Path

from .streams import open_stream

__all__ = ["READABLE", "sniff"]

#: Formats that `load` can be asked for by name.
READABLE = ("auto", "kineto")

_SNIFFED_BYTES = 4096
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


def sniff(path: str | Path) -> tuple[str, str | None]:
    """Return ``("json", None)``, ``("empty", None)``, or ``("foreign", name of the format)``.

    Raises
    ------
    TraceError
        Where the file cannot be opened.
    """
    with open_stream(path) as stream:
        start = stream.read(_SNIFFED_BYTES)
        fault = stream.fault
    if not start:
        return ("foreign", "damaged gzip data") if fault else ("empty", None)
    if start[257:262] == b"ustar":
        return "foreign", "a tar archive"
    return _sniff_text(start)


def _sniff_text(start: bytes) -> tuple[str, str | None]:
    for magic, name in _MAGIC:
        if start[: len(magic)].lower() == magic.lower():
            return "foreign", name
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if not text:
        return ("empty", None) if len(start) < _SNIFFED_BYTES else ("foreign", "blank text")
    if text.startswith(_UTF16):
        return "foreign", "UTF-16 text"
    if text[:1] in b"{[":
        return "json", None
    if text[:1] == b"\x0a" or _is_perfetto(start):
        return "foreign", "a Perfetto protobuf trace"
    if b"\0" in start:
        return "foreign", "a binary file of unknown format"
    return "foreign", "text that is no JSON"


def _is_perfetto(start: bytes) -> bool:
    """A Perfetto trace is a run of field 1, length-delimited: packets."""
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
    """Return what to do about a file of a format that is not read."""
    for beginning, remedy in _REMEDIES.items():
        if name.startswith(beginning):
            return remedy
    return "Load Kineto or other Chrome trace-event JSON, plain or gzip."
