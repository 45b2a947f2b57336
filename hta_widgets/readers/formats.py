"""The table of trace formats, and what a format adds to the package.

A `Format` has groups of fields: how its files are read, and what it adds to analyses, views and
comparisons. A field refers to a function or constant as ``"module:name"``, which is imported on
first use. For example, this computes the findings of two runs of a format::

    for findings_of in load_references(
        format_.comparison.findings for format_ in formats_named(["mpi-trace"])
    ):
        findings += findings_of(diff)

Each format of this package is a record in the ``__init__.py`` of its folder; other packages add
records through entry points.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SQLITE_MAGIC = b"SQLite format 3\0"
#: Entry-point group through which other packages add formats.
ENTRY_POINTS = "hta_widgets.formats"
#: The records of this package in the order of detection. Kineto is last because it accepts any
#: JSON.
_RECORDS = (
    "hta_widgets.readers.formats:STORE", "hta_widgets.formats.byteps:WORKERS",
    "hta_widgets.formats.byteps:SERVERS", "hta_widgets.formats.nsight:NSIGHT",
    "hta_widgets.formats.flight_recorder:DUMPS", "hta_widgets.formats.memory_snapshot:SNAPSHOTS",
    "hta_widgets.formats.xplane:XPLANE", "hta_widgets.formats.ascend:TRACE_VIEW",
    "hta_widgets.formats.ascend:DATABASE", "hta_widgets.formats.rocm:ROCPD",
    "hta_widgets.formats.rocm:ROCPROF_JSON", "hta_widgets.formats.mpi:PROFILES",
    "hta_widgets.formats.mpi:TIME_LINES", "hta_widgets.formats.kineto:KINETO",
)  # fmt: skip

#: Called with the number of bytes read.
Advance = Callable[[int], object] | None


class Outcome(NamedTuple):
    """Result of reading a file: its traces, one per rank; or an error."""

    traces: tuple[Trace, ...]
    problems: Problems
    error: TraceError | None = None
    #: whether the error is due to the file's contents, instead of memory or disks
    is_of_contents: bool = True


@dataclass(frozen=True)
class FileStart:
    """The beginning of a file, from which its format is recognized."""

    path: str
    #: first decompressed bytes, not empty: at least 16 KiB, or all of a smaller file
    text: bytes
    #: decompressed size; a lower bound for gzip files that exceed 4 GiB or have several members
    size_bytes: int

    @property
    def without_bom(self) -> bytes:
        """The text without byte order mark and leading blanks."""
        return self.text.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")

    @property
    def is_json(self) -> bool:
        """Whether it may be JSON in UTF-8."""
        return self.without_bom[:1] in (b"{", b"[") and self.without_bom[1:2] != b"\0"

    @property
    def is_pickle(self) -> bool:
        """Whether it is a pickle of protocol 2 to 5."""
        return self.text[:1] == b"\x80" and b"\x02" <= self.text[1:2] <= b"\x05"

    @cached_property
    def tables(self) -> set[str]:
        """The table names of an SQLite database; empty for other contents."""
        if not self.text.startswith(SQLITE_MAGIC):
            return set()
        return set(resolve_reference("hta_widgets.readers.sqlite:table_names")(self.path))

    def is_of(self, format_: Format) -> bool:
        """Return whether the functions of a format recognize the file."""
        words = format_.reading.words
        if words and not any(word in self.text for word in words):
            return False
        return bool(resolve_reference(format_.reading.sniff)(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """Functions that recognize and read the files of a format.

    Attributes
    ----------
    sniff : (FileStart) -> bool
    words : tuple of bytes
        Byte strings. The beginning of each file of the format contains at least one of them. Files
        without any of them are not sniffed. If empty, every file is sniffed.
    read : (path, *, advance, keepalive) -> Outcome
        `advance` is called with the number of bytes read. `keepalive` is an object that `read`
        references while the file is needed. Both may be None.
    finish : (list of Trace, Problems) -> list of Trace
        Completes facts that depend on all files. Its input includes traces of `compared_with`.
    keyed_by_order : bool
        Whether files without a stated rank are numbered in file order.
    peek_rank : (path) -> int or None
        Returns the rank stated in the first bytes, so that files of other ranks can be skipped.
    sources : dict of str to str
        Class of the records that the cache restores, by kind of source.
    profile : type
        The class of `Trace.profile`.
    companions : (path) -> iterable of (path, whether it repeats the events)
        Files of the same recording that are skipped if this file is loaded: its source, its tables,
        and traces of the same events. Only the latter are reported.
    memory_factor : float
        Memory needed per byte of its files, relative to a byte of Chrome JSON.
    is_dump : bool
        Whether its files are dumps, which record no timed work. If a file of another format states
        the same rank, that file gets the rank.
    takes_steps : bool
        Whether `read` has the parameter ``steps`` of `hta_widgets.load`.
    shortens_paths : bool
        Whether to remove folders, which name users, from paths in names and args.
    shortens_paths_of : (Trace) -> bool
        The same for individual traces, for example of another profiler.
    """

    sniff: str
    read: str
    words: tuple[bytes, ...] = ()
    finish: str = ""
    keyed_by_order: bool = False
    peek_rank: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    profile: str = ""
    companions: str = ""
    memory_factor: float = 1.0
    is_dump: bool = False
    takes_steps: bool = False
    shortens_paths: bool = False
    shortens_paths_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatAnalyses:
    """Functions and values that a format adds to analyses.

    Attributes
    ----------
    functions : tuple of str
        Functions of `hta_widgets.analysis`.
    clock_offsets : (TraceSet) -> dict of rank to ns, or None
    collectives : (list of Trace) -> dict of place to CommEvents
        Calls on ranks without a device that are matched like collectives.
    late_ranks : (TraceSet) -> list of rank
        Ranks for which the other ranks wait.
    """

    functions: tuple[str, ...] = ()
    clock_offsets: str = ""
    collectives: str = ""
    late_ranks: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatViews:
    """Charts, panels and texts that a format adds.

    Attributes
    ----------
    charts : tuple of str
        Functions of `hta_widgets.charts`.
    panels : tuple of Panel
    shared_panels : tuple of str, or None
        The panels of Kineto traces that apply to it; None for all.
    base_tables : (TraceSet) -> dict of name to rows
        Rows for pages without a kernel. Default: the frames of `panels`.
    headline : (TraceSet) -> (findings, sentences, sentence without findings)
    is_urgent : bool
        Whether its findings come first in trace sets with several formats. The headline of the
        other formats is then computed without its traces.
    """

    charts: tuple[str, ...] = ()
    panels: str = ""
    shared_panels: tuple[str, ...] | None = None
    base_tables: str = ""
    headline: str = ""
    is_urgent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatComparison:
    """Functions and words for comparing two runs of a format.

    Attributes
    ----------
    tables : dict of name to (Comparison) -> DataFrame
    replaces : tuple of str
        Shared tables that the format replaces with its own.
    findings : (Comparison) -> iterator of Finding
    finding_words : dict of topic to (Finding, Comparison) -> str
        The sentences of findings, in order of importance.
    kind_words, kind_labels : dict of kind to str
        Words for kinds of time in sentences, and in charts.
    steps : (RankPart) -> (numbers, starts, ends)
    chain : (RunSide, rank) -> list of StepPiece
        The waits that make up the duration of a step.
    host_only : bool
        Whether its traces have calls on the host only.
    compared_with : tuple of str
        Other formats with which its runs can be compared.
    beside : str
        Another format of the same job, whose ranks are compared instead.
    """

    tables: str = ""
    replaces: tuple[str, ...] = ()
    findings: str = ""
    finding_words: str = ""
    kind_words: str = ""
    kind_labels: str = ""
    steps: str = ""
    chain: str = ""
    host_only: bool = False
    compared_with: tuple[str, ...] = ()
    beside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format of trace files; docs/formats.md describes how to add one.

    Attributes
    ----------
    name : str
        The value of `Trace.format`.
    label, plural : str
        Names of the format in headers, and of its files in error messages.
    """

    name: str
    label: str = ""
    plural: str = ""
    reading: FileReading
    analyses: FormatAnalyses = FormatAnalyses()
    views: FormatViews = FormatViews()
    comparison: FormatComparison = FormatComparison()


STORE = Format(
    name="store",
    reading=FileReading(
        sniff="hta_widgets.readers.discovery:is_store",
        read="hta_widgets.readers.discovery:read_store",
    ),
)


def references(module: str, names: str) -> tuple[str, ...]:
    """Return references to names in a module: ``"m:a", "m:b"`` for ``"a b"``."""
    return tuple(f"{module}:{name}" for name in names.split())


@cache
def resolve_reference(reference: str) -> Any:
    """Return the object to which ``"module:name"`` refers."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def load_references(references: Iterable[str]) -> list[Any]:
    """Return the objects of references, in order, without duplicates and empty references."""
    return [resolve_reference(text) for text in dict.fromkeys(references) if text]


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Return the entry points of a group; skip the slow import of their module if none exists."""
    name = group.encode()
    if not any(_may_name(name, folder) for folder in sys.path):
        return ()
    points: Iterable[EntryPoint] = import_module("importlib.metadata").entry_points(group=group)
    return points


def _may_name(group: bytes, folder: str) -> bool:
    """Return whether entry points of packages in a folder contain the name of a group."""
    with suppress(OSError):
        if Path(folder).is_file():  # packages in an archive
            return True
        for path in Path(folder).iterdir():
            if path.name.lower().endswith("-info"):
                with suppress(OSError):
                    if group in (path / "entry_points.txt").read_bytes():
                        return True
    return False


@cache
def _formats_and_faults() -> tuple[tuple[Format, ...], tuple[str, ...]]:
    """Return all formats, and the reasons why formats of other packages cannot be used."""
    *specific, fallback = map(resolve_reference, _RECORDS)
    added: list[Format] = []
    faults = []
    names = {format_.name for format_ in (*specific, fallback)}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            plugin = point.load()
            if not isinstance(plugin, Format):
                raise TypeError(f"{point.value} is not a Format")  # noqa: TRY301
            if plugin.name in names:
                raise ValueError(f"a format named {plugin.name!r} already exists")  # noqa: TRY301
            load_references([plugin.reading.sniff, plugin.reading.read])
        except Exception as error:  # noqa: BLE001 - other packages' code
            faults.append(f"the format {point.name!r} cannot be used: {error}")
            continue
        names.add(plugin.name)
        added.append(plugin)
    return (*specific, *added, fallback), tuple(faults)


def all_formats() -> tuple[Format, ...]:
    """Return the formats of the table, and those that other packages add."""
    return _formats_and_faults()[0]


def format_faults() -> tuple[str, ...]:
    """Return a sentence for each format of another package that cannot be used."""
    return _formats_and_faults()[1]


def format_names() -> tuple[str, ...]:
    """Return the values for the parameter ``format`` of `load`."""
    return ("auto", *(format_.name for format_ in all_formats()))


def formats_named(names: Collection[str]) -> list[Format]:
    """Return the formats with these names, in table order; unknown names are skipped."""
    return [format_ for format_ in all_formats() if format_.name in names]


def format_named(name: str) -> Format:
    """Return the format with this name."""
    return formats_named([name])[0]


def profile_type(name: str) -> type[Any]:
    """Return the class of `Trace.profile` for files of the format `name`."""
    return cast("type[Any]", resolve_reference(format_named(name).reading.profile))


def module_getattr(
    module: str, functions_of: Callable[[Format], Iterable[str]], own: Iterable[str] = ()
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for `module` that imports functions on first use.

    The functions are named by the references in `own`, or added by formats.
    """
    reference_of = {reference.rpartition(":")[2]: reference for reference in own}

    def getter(name: str) -> Any:
        if name in reference_of:
            return resolve_reference(reference_of[name])
        for format_ in all_formats():
            for reference in functions_of(format_):
                if reference.rpartition(":")[2] == name:
                    return resolve_reference(reference)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getter
