"""Kineto and any other Chrome trace-event JSON as traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hta_widgets.model.build import build_trace
from hta_widgets.model.problems import Problems
from hta_widgets.model.table import RankColumns, RecordSource
from hta_widgets.model.trace import Trace

from .kineto import read_file
from .merged import split_merged
from .ranks import stated_rank
from .registry import Format, Outcome, Start
from .stages import stage

__all__ = ["KINETO"]

_UTF16 = (b"{\0", b"[\0")


def _sniff(start: Start) -> bool:
    text = start.stripped
    return text[:1] in (b"{", b"[") and not text.startswith(_UTF16)


def _read(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    contents = read_file(path, advance=advance, keepalive=keepalive)
    problems = Problems()
    for problem in contents.problems:
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    parts = split_merged(contents.columns, contents.metadata, contents.source, path, problems)
    if parts is not None:
        merged = [_built(*part, path, problems) for part in parts]
        return Outcome(tuple(merged), problems)
    stated, found = stated_rank(contents.metadata), Problems()
    trace = _built(stated, contents.columns, contents.metadata, contents.source, path, found)
    for problem in found:  # the rank may become another one
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    return Outcome((trace,), problems)


def _built(
    rank: int | None,
    columns: RankColumns,
    metadata: dict[str, Any],
    source: RecordSource,
    path: str,
    problems: Problems,
) -> Trace:
    with stage("model"):
        return build_trace(
            columns,
            rank=0 if rank is None else rank,
            path=path,
            metadata=metadata,
            source=source,
            problems=problems,
            format="kineto",
            stated_rank=rank,
        )


KINETO = Format("kineto", _sniff, _read)
