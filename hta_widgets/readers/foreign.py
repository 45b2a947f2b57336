"""Recognize files that are not read, and state what to do with them.

A file is recognized by its beginning and by words in it, a report of Nsight also by suffix.
For example, JSON with ``"schema"`` and ``"nodes"`` is an execution trace. The words of a database
are the names of its tables, wherever they are in the file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from hta_widgets.readers.formats import SQLITE_MAGIC, FileStart

#: Remedy for files of other formats.
SUPPORTED_FORMATS_TEXT = (
    "Load Kineto or other Chrome trace-event JSON, plain, gzip or zstd, exports of Nsight Systems,"
    " XPlane profiles of JAX, files of Ascend's profiler and of rocprofv3,"
    " dumps of PyTorch's flight recorder and memory, or files of BytePS or mpitrace."
)
_DECOMPRESS = "Decompress it first; only gzip and zstd can be read."
_UNPACK = "Unpack it first."
_RECORD_INSTEAD = "Record the run with torch.profiler, and load its JSON."


@dataclass(frozen=True)
class ForeignFormat:
    """A format that is recognized and not read."""

    name: str  # as in "is an Nsight Systems report"
    remedy: str
    begins: str = r"(?!)"  # regular expression; by default, it matches nothing
    holds: tuple[bytes, ...] = ()
    endings: tuple[str, ...] = ()

    def is_of(self, path: str, start: bytes) -> bool:
        """Return whether a file with this beginning has the format."""
        if Path(path).suffix.lower() in self.endings:
            return True
        has_all = all(word in start for word in self.holds)
        return has_all and re.match(self.begins.encode("latin-1"), start, re.DOTALL) is not None


_DATABASES_REMEDY = (
    "The databases that can be read are exports of Nsight Systems (nsys export --type sqlite),"
    " rocpd of rocprofv3 and torch_npu's ascend_pytorch_profiler_N.db."
    f" {_RECORD_INSTEAD}"
)
_DATABASE = "SQLite format 3\0"
#: Bytes that do not occur in text.
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
#: Recognized by `_is_perfetto`.
_PERFETTO = ForeignFormat(
    "a Perfetto protobuf trace",
    "Export it as Chrome JSON (traceconv json), and load that.",
)

#: Recognized by `has_json_lines`, not by its first bytes.
JSON_LINES = ForeignFormat(
    "JSON lines, one object a line",
    "If these are trace events, join them into one list: jq -s . FILE > trace.json",
)
FOREIGN_FORMATS = (
    JSON_LINES,
    ForeignFormat(
        "an Nsight Systems report",
        "Export it: nsys export --type sqlite --include-blobs true FILE",
        r"NVIDIA Tegra Profiler Report|NVTX",
        endings=(".nsys-rep", ".qdrep"),
    ),
    ForeignFormat(
        "raw data of Nsight Systems",
        "Open it once with nsys-ui, or convert it with QdstrmImporter, and export the report:"
        " nsys export --type sqlite --include-blobs true FILE",
        endings=(".qdstrm",),
    ),
    ForeignFormat(
        "an Nsight Compute report",
        "It describes individual kernels and has no time line. Open it with ncu-ui.",
        endings=(".ncu-rep",),
    ),
    ForeignFormat(
        "a database of ROCm's compute profiler (SQLite)",
        f"It describes individual kernels and has no time line. {_RECORD_INSTEAD}",
        _DATABASE,
        holds=(b"\ncompute_",),
    ),
    ForeignFormat(
        "an Nsight Systems export without events",
        "Record with nsys profile --trace=cuda,nvtx, and export again.",
        _DATABASE,
        holds=(b"\nStringIds\n",),
    ),
    ForeignFormat(
        "an empty or damaged SQLite database",
        f"Copy or export it again, with its -wal file if there is one. {_DATABASES_REMEDY}",
        _DATABASE.replace("\0", "\\0[^\n]*$"),
    ),
    ForeignFormat("an SQLite database of another program", _DATABASES_REMEDY, _DATABASE),
    ForeignFormat(
        "an execution trace (Chakra)",
        "It has no durations. Load the profiler's trace of the same run.",
        r"\{",
        holds=(b'"schema"', b'"nodes"'),
    ),
    ForeignFormat(
        "a speedscope profile",
        "Write Chrome trace-event JSON instead, as with py-spy record --format chrometrace.",
        r"\{",
        holds=(b"speedscope.app/file-format-schema",),
    ),
    ForeignFormat("a tar archive", _UNPACK, r"[\x00-\xff]{257}ustar"),
    ForeignFormat("a zip archive", _UNPACK, r"PK(\x03\x04|\x05\x06)"),
    ForeignFormat("a 7z archive", _UNPACK, r"7z\xbc\xaf\x27\x1c"),
    ForeignFormat("compressed twice", "Decompress it once.", r"\x1f\x8b|\x28\xb5\x2f\xfd"),
    ForeignFormat("compressed with xz", _DECOMPRESS, r"\xfd7zXZ\0"),
    ForeignFormat("compressed with bzip2", _DECOMPRESS, "BZh"),
    ForeignFormat("compressed with lz4", _DECOMPRESS, r"\x04\x22\x4d\x18"),
    ForeignFormat(
        "a Git LFS pointer, not the file itself",
        "Fetch the file with git lfs pull.",
        "version https://git-lfs",
    ),
    ForeignFormat(
        "UTF-16 text", "Convert it to UTF-8.", r"\s*(\xff\xfe|\xfe\xff|[{[]\0|(\0\s)*\0[{[])"
    ),
    _PERFETTO,
    *(
        ForeignFormat(name, SUPPORTED_FORMATS_TEXT, begins)
        for name, begins in (
            ("a PNG image", r"\x89PNG"),
            ("a JPEG image", r"\xff\xd8\xff"),
            ("a GIF image", "GIF8"),
            ("a PDF document", "%PDF"),
            ("a Parquet file", "PAR1"),
            ("an Arrow file", "ARROW1"),
            ("an executable", r"\x7fELF"),
            ("an HDF5 file", r"\x89HDF"),
            ("a NumPy array", r"\x93NUMPY"),
            ("a Python pickle", r"\x80[\x02-\x05]"),
            ("an HTML page", "(?i)<!DOCTYPE|<html"),
            ("an XML file", r"(?i)<\?xml"),
            ("a Linux perf recording", "PERFILE2"),
        )
    ),
)


def foreign_format(start: FileStart) -> ForeignFormat | None:
    """Return the format of a file of another program; None if it is not recognized."""
    text = start.without_bom if start.is_json else start.text
    if text.startswith(SQLITE_MAGIC):
        text = SQLITE_MAGIC + "".join(f"\n{name}\n" for name in start.tables).encode()
    return next((format_ for format_ in FOREIGN_FORMATS if format_.is_of(start.path, text)), None)


def has_json_lines(start: bytes) -> bool:
    """Return whether the first line of a file is a JSON object, and another object follows."""
    line, _, rest = start.partition(b"\n")
    if not line.startswith(b"{") or not rest.lstrip().startswith(b"{") or b"traceEvents" in line:
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def foreign_remedy(name: str) -> str:
    """Return the remedy for files of the format called `name`."""
    remedies = (format_.remedy for format_ in FOREIGN_FORMATS if format_.name == name)
    return next(remedies, SUPPORTED_FORMATS_TEXT)


def describe_unknown(start: FileStart) -> str:
    """Describe contents whose format is not recognized."""
    if not start.without_bom:
        return "blank text"
    if _is_perfetto(start.text):
        return _PERFETTO.name
    return "a binary file of unknown format" if b"\0" in start.text else "text that is not JSON"


def _is_perfetto(start: bytes) -> bool:
    """Return whether bytes begin a Perfetto trace: packets, each in length-delimited field 1."""
    first_packet = re.match(rb"\x0a([\x80-\xff]{0,4}[\x00-\x7f])", start)
    if first_packet is None or _CONTROL.search(start) is None:
        return False
    digits = enumerate(first_packet[1])  # of base 128, the lowest first
    length = sum((digit & 0x7F) << 7 * place for place, digit in digits)
    next_packet = start[first_packet.end() + length :]
    return next_packet[:1] in (b"", b"\x0a")
