"""Detection and reading of Chrome trace-event JSON: Kineto, BytePS workers and servers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from hta_widgets.formats.byteps.reader import (
    build_server,
    build_worker,
    is_server,
    is_worker,
)
from hta_widgets.formats.kineto.reader import FileContents, read_file
from hta_widgets.formats.kineto.records import split_merged
from hta_widgets.readers.formats import Outcome, Start
from hta_widgets.readers.ranks import stated_rank
from hta_widgets.readers.streams import stage
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import RankColumns, RecordSource
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

_UTF16 = (b"{\0", b"[\0")
_WORKER = re.compile(rb'"pid"\s*:\s*"Comm\.')
_SERVER = re.compile(rb'"name"\s*:\s*"(push|pull)-\d+"\s*,\s*"ph"\s*:\s*"[BE]"')


class _Build(Protocol):
    def __call__(
        self,
        rank: int | None,
        columns: RankColumns,
        metadata: dict[str, Any],
        source: RecordSource,
        path: str,
        problems: Problems,
    ) -> Trace: ...


def is_json(start: Start) -> bool:
    """Whether a file is JSON in UTF-8."""
    text = start.stripped
    return text[:1] in (b"{", b"[") and not text.startswith(_UTF16)


def is_worker_json(start: Start) -> bool:
    """Whether a file is the trace of a BytePS worker."""
    return is_json(start) and _WORKER.search(start.text) is not None


def is_server_json(start: Start) -> bool:
    """Whether a file is the profile of a BytePS server."""
    return is_json(start) and _SERVER.search(start.text) is not None


def read_kineto(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    """Read a file of Kineto, or any other trace-event JSON."""
    return _traces(read_file(path, advance=advance, keepalive=keepalive), path, build_plain)


def read_byteps(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    """Read a file of a BytePS worker or server, distinguished by its records."""
    contents = read_file(path, advance=advance, keepalive=keepalive)
    return _traces(contents, path, _builder(contents.columns))


def _traces(contents: FileContents, path: str, build: _Build) -> Outcome:
    """Build the traces of a file: one, or one per rank that was merged into it."""
    problems = Problems()
    for problem in contents.problems:
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    parts = split_merged(contents.columns, contents.metadata, contents.source, path, problems)
    if parts is not None:
        merged = []
        for part in parts:
            with stage("model"):
                build = _BUILDERS.get(part.format) or _builder(part.columns)
                merged.append(
                    build(part.rank, part.columns, part.metadata, part.source, path, problems)
                )
        return Outcome(tuple(merged), problems)
    stated, found = stated_rank(contents.metadata, problems, path), Problems()
    with stage("model"):
        trace = build(stated, contents.columns, contents.metadata, contents.source, path, found)
    for problem in found:  # the rank may change
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    return Outcome((trace,), problems)


def _builder(columns: RankColumns) -> _Build:
    """Return the function that builds traces of the program that wrote the records."""
    if is_worker(columns):
        return build_worker
    return build_server if is_server(columns) else build_plain


def build_plain(
    rank: int | None,
    columns: RankColumns,
    metadata: dict[str, Any],
    source: RecordSource,
    path: str,
    problems: Problems,
) -> Trace:
    """Build the trace of Kineto or other Chrome records."""
    return build_trace(
        columns,
        rank=0 if rank is None else rank,
        path=path,
        metadata=metadata,
        source=source,
        problems=problems,
        consume=True,
        format="kineto",
        stated_rank=rank,
    )


#: By the format that a merged file states for a rank.
_BUILDERS: dict[str, _Build] = {
    "kineto": build_plain,
    "byteps": build_worker,
    "byteps-server": build_server,
}
