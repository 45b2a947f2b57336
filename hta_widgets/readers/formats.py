"""The formats that are read, and what a file is, told by its first bytes."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hta_widgets.formats.kineto.chrome_json import BYTEPS, BYTEPS_SERVER, KINETO
from hta_widgets.formats.mpi.profiles import MPI_PROFILE
from hta_widgets.formats.mpi.timelines import MPI_TRACE
from hta_widgets.readers.registry import Format, Start
from hta_widgets.readers.stored import STORE
from hta_widgets.readers.streams import decompressed_size, open_stream

__all__ = ["FORMATS", "READABLE", "WHAT_IS_READ", "Sniffed", "format_named", "remedy_for", "sniff"]

#: In the order in which they are asked whether a file is theirs; any JSON is Kineto's.
FORMATS: tuple[Format, ...] = (STORE, MPI_PROFILE, MPI_TRACE, BYTEPS, BYTEPS_SERVER, KINETO)

#: What `load` can be asked for by name.
READABLE: tuple[str, ...] = ("auto", *(known.name for known in FORMATS))

#: What to do about files that are something else.
WHAT_IS_READ = (
    "Load Kineto or other Chrome trace-event JSON, plain or gzip, or files of BytePS or mpitrace."
)

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


class Sniffed(NamedTuple):
    """What a file is: of a `format`, or something `foreign`, or neither: empty."""

    format: str | None = None
    foreign: str | None = None
    #: whether it is left out next to files of other formats
    aside: bool = False


def format_named(name: str) -> Format:
    """Return the format that is called so."""
    return next(known for known in FORMATS if known.name == name)


def sniff(path: str | Path, wanted: str = "auto") -> Sniffed:
    """Tell what a file is, or whether the `wanted` format can read it.

    Raises
    ------
    TraceError
        Where the file cannot be opened.
    """
    with open_stream(path) as stream:
        text = stream.read(_SNIFFED_BYTES)
        fault = stream.fault
    if not text:
        return Sniffed(foreign="damaged gzip data") if fault else Sniffed()
    start = Start(str(path), text, decompressed_size(path))
    if not start.stripped and len(text) < _SNIFFED_BYTES:
        return Sniffed()
    own = next((known.name for known in FORMATS if known.sniff(start)), None)
    if own is None:
        return Sniffed(foreign=_foreign(start))
    if wanted in ("auto", own):
        if own == KINETO.name and _is_horovod(start):
            return Sniffed(own, "a Horovod timeline", aside=True)
        return Sniffed(own)
    if format_named(wanted).sniff(start):
        return Sniffed(wanted)
    return Sniffed(foreign=f"of the format {own}")


def _is_horovod(start: Start) -> bool:
    """Whether JSON is a Horovod timeline, whatever its name: dPRO calls them ``comm.json``."""
    text = start.text
    if b'"schemaVersion"' in text or b'"deviceProperties"' in text:  # PyTorch's own
        return False
    return b'"NEGOTIATE_' in text or (b'"process_name"' in text and b"horovod_" in text)


def _foreign(start: Start) -> str:
    """Return the name of a format that is not read."""
    text = start.text
    for magic, name in _MAGIC:
        if text[: len(magic)].lower() == magic.lower():
            return name
    if text[257:262] == b"ustar":
        return "a tar archive"
    stripped = start.stripped
    if not stripped:
        return "blank text"
    if stripped.startswith(_UTF16):
        return "UTF-16 text"
    if stripped[:1] == b"\x0a" or _is_perfetto(text):
        return "a Perfetto protobuf trace"
    if b"\0" in text:
        return "a binary file of unknown format"
    return "text that is no JSON"


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
    return WHAT_IS_READ
