"""Table of the trace formats, and detection of a file's format.

A record refers to what its format provides as ``"module:name"``, imported on first use. Other
packages add records through entry points.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, cast

from hta_widgets.errors import TraceError
from hta_widgets.readers.streams import decompressed_size, open_stream
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

#: Group of the entry points by which other packages add formats.
ENTRY_POINTS = "hta_widgets.formats"


class Outcome(NamedTuple):
    """Result of reading one file: its traces, several if ranks were merged into it; or an error."""

    traces: tuple[Trace, ...]
    problems: Problems
    error: TraceError | None = None
    #: whether an error is about the file's contents, not about memory or disks
    is_of_contents: bool = True


@dataclass(frozen=True, slots=True)
class FileStart:
    """The beginning of a file, by which its format is recognised."""

    path: str
    #: first decompressed bytes, not empty: at least 16 KiB, or the whole of a smaller file
    text: bytes
    #: decompressed size; a lower bound for gzip files over 4 GiB or of several members
    size_bytes: int

    @property
    def without_bom(self) -> bytes:
        """The text without a byte order mark and blanks before it."""
        return self.text.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of trace files: its reader, and its additions to the other packages.

    Texts such as ``"module:name"`` refer to functions and constants with the types below. All
    fields except `name`, `sniff` and `read` are optional; docs/formats.md describes them.
    """

    name: str
    sniff: str  # (Start) -> bool
    # (path, *, advance, keepalive) -> Outcome. `advance` is called with the number of bytes read,
    # `keepalive` is an object to hold while the file is needed; both may be None.
    read: str
    label: str = ""
    plural: str = ""
    finish: str = ""  # (list[Trace], Problems) -> list[Trace]
    keyed_by_order: bool = False
    peek_rank: str = ""  # (path) -> int | None
    sources: Mapping[str, str] = field(default_factory=dict)  # kind: class of records
    profile: str = ""  # class of `Trace.profile`
    analyses: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()
    panels: str = ""  # tuple[Panel, ...]
    shared_panels: tuple[str, ...] | None = None
    base_tables: str = ""  # (TraceSet) -> dict[str, rows]
    headline: str = ""  # (TraceSet) -> (findings, sentences, sentence without findings)
    clock_offsets: str = ""  # (TraceSet) -> dict[rank, ns] | None
    collectives: str = ""  # (list[Trace]) -> dict[place, CommEvents]
    late_ranks: str = ""  # (TraceSet) -> list[rank]
    host_only: bool = False
    compared_with: tuple[str, ...] = ()
    beside: str = ""
    diff: str = ""  # dict[name, (Comparison) -> DataFrame]
    replaces: tuple[str, ...] = ()
    findings: str = ""  # (Comparison) -> Iterator[Finding]
    kind_words: str = ""  # dict[kind, words]
    kind_labels: str = ""  # dict[kind, label]
    steps: str = ""  # (Part) -> (numbers, starts, ends)
    chain: str = ""  # (RunSide, rank) -> list[Piece]


_BYTEPS = "hta_widgets.formats.byteps"
_MPI = "hta_widgets.formats.mpi"
_KINETO = "hta_widgets.formats.kineto"


def _references(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}:{name}" for name in names.split())


#: Fields common to workers and servers, and to profiles and time lines.
_OF_BYTEPS: dict[str, Any] = {
    "panels": f"{_BYTEPS}.frames:PANELS",
    "shared_panels": ("timeline",),
    "base_tables": f"{_BYTEPS}.frames:base_tables",
    "headline": f"{_BYTEPS}.frames:headline",
    "clock_offsets": f"{_BYTEPS}.servers:byteps_offsets",
    "replaces": ("changes", "names", "operators"),
    "findings": f"{_BYTEPS}.diff:findings",
    "kind_words": f"{_BYTEPS}.diff:KIND_WORDS",
    "kind_labels": f"{_BYTEPS}.diff:KIND_LABELS",
}
_OF_MPI: dict[str, Any] = {
    "panels": f"{_MPI}.frames:PANELS",
    "base_tables": f"{_MPI}.frames:base_tables",
    "headline": f"{_MPI}.frames:headline",
    "late_ranks": f"{_MPI}.ranks:late_ranks",
    "host_only": True,
    "replaces": ("steps", "operators"),
    "findings": f"{_MPI}.diff:findings",
    "kind_words": f"{_MPI}.diff:KIND_WORDS",
    "kind_labels": f"{_MPI}.diff:KIND_LABELS",
}

#: In the order of detection: Kineto comes last because it accepts any JSON.
FORMATS: tuple[Format, ...] = (
    Format(
        name="store",
        sniff="hta_widgets.readers.discovery:is_store",
        read="hta_widgets.readers.discovery:read_store",
    ),
    Format(
        name="byteps",
        label="BytePS",
        plural="BytePS workers' traces",
        sniff=f"{_KINETO}.reader:is_worker_json",
        read=f"{_KINETO}.reader:read_byteps",
        finish=f"{_BYTEPS}.reader:place_workers",
        keyed_by_order=True,
        analyses=_references(
            f"{_BYTEPS}.workers",
            "byteps_bandwidth byteps_gradient_stages byteps_gradients byteps_pull_blame"
            " byteps_pulls byteps_stages byteps_steps",
        ),
        charts=_references(
            f"{_BYTEPS}.views", "byteps_gradients byteps_pull_blame byteps_stages byteps_clock"
        ),
        diff=f"{_BYTEPS}.diff:WORKER_TABLES",
        **_OF_BYTEPS,
        steps=f"{_BYTEPS}.diff:iterations",
        chain=f"{_BYTEPS}.diff:byteps_chain",
    ),
    Format(
        name="byteps-server",
        label="BytePS server",
        plural="BytePS servers' profiles",
        sniff=f"{_KINETO}.reader:is_server_json",
        read=f"{_KINETO}.reader:read_byteps",
        finish=f"{_BYTEPS}.reader:place_servers",
        keyed_by_order=True,
        analyses=_references(
            f"{_BYTEPS}.servers",
            "byteps_arrivals byteps_clock byteps_requests byteps_servers byteps_worker_lag",
        ),
        charts=_references(f"{_BYTEPS}.views", "byteps_arrivals byteps_servers"),
        beside="byteps",
        diff=f"{_BYTEPS}.diff:SERVER_TABLES",
        **_OF_BYTEPS,
    ),
    Format(
        name="mpi-profile",
        label="MPI profile",
        plural="MPI profiles",
        sniff=f"{_MPI}.profiles:is_profile",
        read=f"{_MPI}.profiles:read_profiles",
        finish=f"{_MPI}.profiles:finish",
        profile=f"{_MPI}.model:MpiProfile",
        analyses=(
            *_references(f"{_MPI}.ranks", "mpi_hosts mpi_imbalance mpi_ranks"),
            *_references(
                f"{_MPI}.routines",
                "mpi_call_stacks mpi_compare mpi_message_sizes mpi_negotiation mpi_routines",
            ),
        ),
        charts=_references(f"{_MPI}.views", "mpi_compare mpi_message_sizes mpi_ranks mpi_routines"),
        shared_panels=(),
        compared_with=("mpi-trace",),
        beside="mpi-trace",
        diff=f"{_MPI}.diff:PROFILE_TABLES",
        **_OF_MPI,
    ),
    Format(
        name="mpi-trace",
        label="MPI trace",
        plural="MPI time lines",
        sniff=f"{_MPI}.timelines:is_time_line",
        read=f"{_MPI}.timelines:read_time_lines",
        sources={"time line": f"{_MPI}.timelines:TimeLineRecords"},
        profile=f"{_MPI}.model:MpiProfile",
        shared_panels=("timeline", "heatmap"),
        collectives=f"{_MPI}.timelines:mpi_calls",
        compared_with=("mpi-profile",),
        diff=f"{_MPI}.diff:TIME_LINE_TABLES",
        **_OF_MPI,
    ),
    Format(
        name="kineto",
        label="Kineto",
        plural="Kineto traces",
        sniff=f"{_KINETO}.reader:is_json",
        read=f"{_KINETO}.reader:read_kineto",
        peek_rank=f"{_KINETO}.reader:peek_rank",
        sources={
            "file": f"{_KINETO}.record_source:FileRecords",
            "merged": f"{_KINETO}.records:MergedRecords",
        },
    ),
)


@cache
def _formats_and_faults() -> tuple[tuple[Format, ...], tuple[str, ...]]:
    """Return all formats, and the faults of formats from other packages."""
    added: list[Format] = []
    faults = []
    names = {known.name for known in FORMATS}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            plugin = point.load()
            if not isinstance(plugin, Format):
                raise TypeError(f"{point.value} is not a Format")  # noqa: TRY301
            if plugin.name in names:
                raise ValueError(f"there is a format {plugin.name!r} already")  # noqa: TRY301
            resolve_reference(plugin.sniff), resolve_reference(plugin.read)
        except Exception as error:  # noqa: BLE001 - other packages' code
            faults.append(f"the format {point.name!r} cannot be used: {error}")
            continue
        names.add(plugin.name)
        added.append(plugin)
    return (*FORMATS[:-1], *added, FORMATS[-1]), tuple(faults)


def all_formats() -> tuple[Format, ...]:
    """Return the formats of the table, and those that other packages add."""
    return _formats_and_faults()[0]


def format_faults() -> tuple[str, ...]:
    """Return one sentence per format of another package that cannot be used."""
    return _formats_and_faults()[1]


def format_names() -> tuple[str, ...]:
    """Return the values of `load`'s parameter ``format``."""
    return ("auto", *(known.name for known in all_formats()))


def format_named(name: str) -> Format:
    """Return the format called `name`."""
    return next(known for known in all_formats() if known.name == name)


def profile_type(name: str) -> type[Any]:
    """Return the class of `Trace.profile` for files of the format called `name`."""
    return cast("type[Any]", resolve_reference(format_named(name).profile))


@cache
def resolve_reference(reference: str) -> Any:
    """Return the object that ``"module:name"`` refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def format_hooks(what: str, names: Collection[str] | None = None) -> list[Any]:
    """Return the objects that formats refer to in a field, in order and without duplicates."""
    chosen = (format_ for format_ in all_formats() if names is None or format_.name in names)
    return [
        resolve_reference(text)
        for text in dict.fromkeys(getattr(one, what) for one in chosen)
        if text
    ]


def module_getattr(module: str, what: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for `module` that finds the objects of the formats' field `what`."""

    def getter(name: str) -> Any:
        for known in all_formats():
            for reference in getattr(known, what):
                if reference.rpartition(":")[2] == name:
                    return resolve_reference(reference)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getter


#: Remedy for files of other formats.
SUPPORTED_FORMATS_TEXT = (
    "Load Kineto or other Chrome trace-event JSON, plain, gzip or zstd, or files of BytePS or"
    " mpitrace."
)

_SNIFFED_BYTES = 1 << 14
_MOST_BEFORE_RECORDS = 1 << 20
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
    "compressed": "Decompress it first; of compressed files, gzip and zstd are read.",
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
            while b'"ph"' not in text and len(text) < _MOST_BEFORE_RECORDS:
                more = stream.read(_SNIFFED_BYTES << 4)
                if not more:
                    break
                text += more
            text += stream.read(_SNIFFED_BYTES)
        fault = stream.fault
    if not text:
        return Sniffed(foreign="damaged compressed data") if fault else Sniffed()
    start = FileStart(str(path), text, decompressed_size(path))
    if not start.without_bom and len(text) < _SNIFFED_BYTES:
        return Sniffed()
    format_name = next(
        (format_.name for format_ in all_formats() if resolve_reference(format_.sniff)(start)), None
    )
    if format_name is None:
        return Sniffed(foreign=_foreign_format_name(start))
    if wanted in ("auto", format_name):
        if format_name == "kineto" and _is_horovod(start):
            return Sniffed(format_name, "a Horovod timeline", aside=True)
        return Sniffed(format_name)
    if resolve_reference(format_named(wanted).sniff)(start):
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
