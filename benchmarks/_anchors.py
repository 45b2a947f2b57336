"""Readers of a trace file: this package and its anchors, each in a fresh process."""

import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

import _harness as harness
from _harness import DATA, REPO, Missing, Run

CORE = 0
HTA = REPO / ".venv-hta/bin/python"
ORJSON = REPO / ".tools/orjson"

#: Row names, as used in the report.
OURS = "ours"
CACHE, CACHE_EVENTS = "ours, from the cache", "ours, from the cache, and all events"
STORE, STORE_EVENTS = "ours, from a store", "ours, from a store, and all events"
HTA_ROW = "HTA 0.6.1"
PERFETTO_ROW, CATAPULT_ROW = "Perfetto UI", "catapult viewer"
JSON_ROW, ORJSON_ROW = "json + pandas", "orjson + pandas"
FLOOR_ROW = "msgspec, decoding alone"

_HTA_SETUP = """
import logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
"""
_FLOOR_SETUP = """
import gzip, msgspec
class Event(msgspec.Struct, gc=False):
    ph: str = ""
    name: str = ""
    cat: str = ""
    pid: msgspec.Raw = msgspec.Raw(b"")
    tid: msgspec.Raw = msgspec.Raw(b"")
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")
    id: msgspec.Raw = msgspec.Raw(b"")
    args: msgspec.Raw = msgspec.Raw(b"")
class File(msgspec.Struct, gc=False):
    traceEvents: list[Event]
decoder = msgspec.json.Decoder(File)
"""
_FLOOR_WORK = """
with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
    decoded = decoder.decode(file.read())
"""
# A loader as users typically write it: a frame of records, with args as dictionaries.
_FRAMES_WORK = """
import sys
frames = []
for path in paths:
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        records = loads(file.read())["traceEvents"]
    frames.append(pd.DataFrame(records))
    del records
    print(f"{len(frames)} of {len(paths)} files", file=sys.stderr, flush=True)
"""
_JSON_SETUP = "import gzip, json, pandas as pd; loads = json.loads"
_ORJSON_SETUP = (
    f"import sys; sys.path.insert(0, {str(ORJSON)!r})\n"
    "import gzip, orjson, pandas as pd; loads = orjson.loads"
)


def ours(path: Path) -> Run:
    """Load a file without the cache."""
    work = f"traces = hw.load({str(path)!r}, cache=False, progress=False)"
    return harness.run_code("import hta_widgets as hw", work, core=CORE)


def ours_again(path: Path, *, events: bool) -> Run:
    """Load from the cache or a store. With `events`, every column is read and verified."""
    work = f"traces = hw.load({str(path)!r}, progress=False)"
    if events:
        work += "; frame = traces.events()"
    return harness.run_code("import hta_widgets as hw", work, core=CORE)


def hta(path: Path) -> Run:
    """Time how long HTA takes to load a file."""
    if not HTA.exists():
        raise Missing("HTA is not installed (`make interop`)")
    work = f"analysis = TraceAnalysis(trace_files={{0: {str(path)!r}}})"
    return harness.run_code(_HTA_SETUP, work, python=HTA, core=CORE)


def msgspec_floor(path: Path) -> Run:
    """Time only the decompression and decoding of the same bytes."""
    return harness.run_code(_FLOOR_SETUP, f"path = {str(path)!r}{_FLOOR_WORK}", core=CORE)


def json_pandas(paths: Sequence[Path], **limits: Unpack[harness.Limits]) -> Run:
    """Time the standard library's decoder, including the conversion of the records to a frame."""
    return harness.run_code(_JSON_SETUP, _frames_of(paths), core=CORE, **limits)


def orjson_pandas(paths: Sequence[Path], **limits: Unpack[harness.Limits]) -> Run:
    """Time the fastest whole-document decoder, including the conversion of records to a frame."""
    if not ORJSON.exists():
        raise Missing("orjson is not installed (`make interop`)")
    return harness.run_code(_ORJSON_SETUP, _frames_of(paths), core=CORE, **limits)


def _frames_of(paths: Sequence[Path]) -> str:
    return f"paths = {[str(path) for path in paths]!r}{_FRAMES_WORK}"


def viewer(
    name: str, path: Path, *, core: int | None = CORE, **limits: Unpack[harness.Limits]
) -> Run:
    """Time how long a viewer takes to open and load a file."""
    try:
        from _viewers import VIEWERS
    except ImportError as error:
        raise Missing(f"no browser to open it in ({error})") from None
    if VIEWERS[name].missing:
        raise Missing(VIEWERS[name].missing)
    return harness.run_script(REPO / "benchmarks/_open.py", name, path, core=core, **limits)


def together(paths: Sequence[Path]) -> Path:
    """Return an archive with the files of many ranks, for Perfetto's UI."""
    archive = DATA / f"{paths[0].parent.name}-{len(paths)}.tar"
    if not archive.exists():
        partial = archive.with_suffix(".partial")
        # Perfetto does not support the headers of later formats.
        with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as into:
            for path in paths:
                into.add(path, path.name)
        partial.rename(archive)
    return archive


def rows_of_file(path: Path, store: Path) -> dict[str, Callable[[], Run]]:
    """Return functions that read one file on one core, keyed by row name."""
    return {
        OURS: lambda: ours(path),
        CACHE: lambda: ours_again(path, events=False),
        CACHE_EVENTS: lambda: ours_again(path, events=True),
        STORE: lambda: ours_again(store, events=False),
        STORE_EVENTS: lambda: ours_again(store, events=True),
        HTA_ROW: lambda: hta(path),
        PERFETTO_ROW: lambda: viewer("perfetto", path),
        CATAPULT_ROW: lambda: viewer("catapult", path),
        JSON_ROW: lambda: json_pandas([path]),
        ORJSON_ROW: lambda: orjson_pandas([path]),
        FLOOR_ROW: lambda: msgspec_floor(path),
    }


def rows_of_job(
    paths: Sequence[Path], **limits: Unpack[harness.Limits]
) -> dict[str, Callable[[], Run]]:
    """Return functions that load a job in tools other than ours and HTA (see `big.py`)."""
    viewers: harness.Limits = {**limits, "limit_mb": harness.LIMIT_MB}

    def catapult() -> Run:
        raise Missing("shows only one rank's file, not a job")

    return {
        JSON_ROW: lambda: json_pandas(paths, **limits),
        ORJSON_ROW: lambda: orjson_pandas(paths, **limits),
        PERFETTO_ROW: lambda: viewer("perfetto", together(paths), core=None, **viewers),
        CATAPULT_ROW: catapult,
    }
