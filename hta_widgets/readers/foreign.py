"""Names of other programs' files, and what their users can do.

A file is recognized by how it begins and by words that it holds, a report of Nsight also by its
ending. For example a pickle that holds ``device_traces`` is a snapshot of CUDA's memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_RECORD_INSTEAD = "Record the run with torch.profiler, and load its JSON."


@dataclass(frozen=True)
class ForeignFormat:
    """A format that is recognized and not read."""

    name: str  # as in "is an Nsight Systems report"
    remedy: str
    begins: str  # regular expression
    holds: tuple[bytes, ...] = ()
    endings: tuple[str, ...] = ()

    def is_of(self, path: str, start: bytes) -> bool:
        """Return whether a file with this beginning is of the format."""
        if Path(path).suffix.lower() in self.endings:
            return True
        has_all = all(word in start for word in self.holds)
        return has_all and re.match(self.begins.encode("latin-1"), start, re.DOTALL) is not None


_OBJECT, _NEVER = r"\{", r"(?!)"
#: Field 1 of a protobuf message, and in it an optional field 1 (a number) and field 2 (a text).
_NAMED_FIELD = (
    r"\x0a[\x80-\xff]*[\x00-\x7f](\x08[\x80-\xff]*[\x00-\x7f])?\x12[\x00-\xff]"
    r"(/host:|/device:|Task Environment)"
)
_NSIGHT_REMEDY = (
    "Nsight Systems' files are not read yet, neither reports nor their export (nsys export --type"
    f" sqlite --include-blobs true FILE). {_RECORD_INSTEAD}"
)

FOREIGN_FORMATS = (
    ForeignFormat(
        "an Nsight Systems report",
        _NSIGHT_REMEDY,
        r"NVIDIA Tegra Profiler Report|NVTX",
        endings=(".nsys-rep", ".qdrep", ".qdstrm"),
    ),
    ForeignFormat(
        "an Nsight Compute report",
        "It describes single kernels and has no time line. Open it with ncu-ui.",
        _NEVER,
        endings=(".ncu-rep",),
    ),
    ForeignFormat(
        "a rocpd database of rocprofv3 (SQLite)",
        f"SQLite files are not read yet. {_RECORD_INSTEAD}",
        "SQLite format 3\0",
        holds=(b"rocpd_",),
    ),
    ForeignFormat(
        "an SQLite database (an Nsight Systems export?)", _NSIGHT_REMEDY, "SQLite format 3\0"
    ),
    ForeignFormat(
        "an XPlane profile of JAX or TensorFlow",
        "Load the .trace.json.gz file that the profiler writes beside it.",
        _NAMED_FIELD,
    ),
    ForeignFormat(
        "a snapshot of CUDA's memory",
        "Open it at pytorch.org/memory_viz. For memory over time, record the run with"
        " torch.profiler and profile_memory=True.",
        r"\x80[\x02-\x05].*(segment_type|device_traces)",
    ),
    ForeignFormat(
        "a flight recorder's dump of collectives",
        "Compare the dumps of all ranks with torchfrtrace. For a time line, record the job with"
        " torch.profiler.",
        r"(\x80[\x02-\x05]|\{).*(pg_config|profiling_name)",
        holds=(b"entries",),
    ),
    ForeignFormat(
        "an execution trace (Chakra)",
        "It has no durations. Load the profiler's trace of the same run.",
        _OBJECT,
        holds=(b'"schema"', b'"nodes"'),
    ),
    ForeignFormat(
        "a speedscope profile",
        "Write Chrome trace-event JSON instead, as with py-spy record --format chrometrace.",
        _OBJECT,
        holds=(b"speedscope.app/file-format-schema",),
    ),
    ForeignFormat(
        "rocprofv3's JSON",
        "Write it again with rocprofv3 --output-format pftrace, convert that with traceconv json,"
        " and load the result.",
        r'\{\s*"rocprofiler-sdk-tool"',
    ),
    ForeignFormat("a tar archive", "Unpack it first.", r"[\x00-\xff]{257}ustar"),
)


def foreign_format(path: str, start: bytes) -> ForeignFormat | None:
    """Return the format of a file of another program; None if it is not recognized.

    `start` is the beginning of the contents, without a byte order mark and blanks before it.
    """
    return next((known for known in FOREIGN_FORMATS if known.is_of(path, start)), None)


def foreign_remedy(name: str) -> str | None:
    """Return the remedy for files of the format called `name`; None if it is not known."""
    return next((known.remedy for known in FOREIGN_FORMATS if known.name == name), None)
