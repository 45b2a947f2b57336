"""Reader of Ascend's ``trace_view.json``: Chrome JSON in a folder that states the rank.

::

    host_123_ascend_pt/profiler_info_0.json            {…, "rank_id": 0}
    host_123_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json, step_trace_time.csv, …

`hta_widgets.formats.kineto.ascend_rows` interprets the rows. An exported file therefore has the
same figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hta_widgets.formats.ascend import TRACE_NAME
from hta_widgets.formats.event_rows import parse_json_object
from hta_widgets.formats.kineto.reader import read_kineto
from hta_widgets.readers.formats import Advance, Outcome
from hta_widgets.readers.ranks import is_rank

_OUTPUTS = ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")
#: Recording folders of torch_npu, MindSpore or msprof.
_RECORDING = re.compile(r".*_ascend_(pt|ms)|PROF_.*")
_INFO = re.compile(r"profiler_info(?:_(\d{1,9}))?\.json")
_EXPORT = re.compile(r"msprof_.*\.json")
_DATABASE = re.compile(r"(ascend_pytorch_profiler|msprof).*\.db")
_TABLES = re.compile(r".*\.(csv|json|db|xlsx|log|txt)(-wal|-shm)?")
_MAX_INFO_BYTES = 1 << 20


def read_trace_view(path: str, *, advance: Advance = None, keepalive: Any = None) -> Outcome:
    """Read a time line, which has a single rank."""
    outcome = read_kineto(path, advance=advance, keepalive=keepalive)
    rank = rank_of_folder(path) if len(outcome.traces) == 1 else None
    ranks = {} if rank is None else {"stated_rank": rank, "rank": rank}
    traces = tuple(trace.replace(format="ascend", **ranks) for trace in outcome.traces)
    return outcome._replace(traces=traces)


def companions_of(path: str) -> Iterator[tuple[Path, bool]]:
    """Yield tables and raw data of a trace's recording, and files with the same events."""
    trace = Path(path)
    is_view = TRACE_NAME.fullmatch(trace.name) is not None
    if trace.parent.name not in _OUTPUTS:
        return
    recording = trace.parent.parent
    is_sole = _RECORDING.fullmatch(recording.name) is not None
    files = recording.rglob("*") if is_sole else (*recording.glob("*"), *trace.parent.glob("*"))
    for file in files:
        if _DATABASE.fullmatch(file.name) or _EXPORT.fullmatch(file.name):
            if is_view:
                yield file, True
        elif not TRACE_NAME.fullmatch(file.name) and (is_sole or _TABLES.fullmatch(file.name)):
            yield file, False


def rank_of_folder(path: str) -> int | None:
    """Return the rank stated by ``profiler_info_N.json`` in a folder of the recording."""
    for folder in Path(path).parents[:2]:
        files = list(folder.glob("profiler_info*.json"))
        rank = _stated_rank(files[0]) if len(files) == 1 else None
        if rank is not None:
            return rank
    return None


def _stated_rank(file: Path) -> int | None:
    """Return the rank stated in a file or, failing that, in its name."""
    rank = None
    with suppress(OSError), file.open("rb") as stream:
        rank = parse_json_object(stream.read(_MAX_INFO_BYTES)).get("rank_id")
    if is_rank(rank):
        return rank
    match = _INFO.fullmatch(file.name)
    return int(match[1]) if match is not None and match[1] else None
