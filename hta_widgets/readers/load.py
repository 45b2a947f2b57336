"""`load`: from whatever names traces to a `TraceSet`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

from ..errors import TraceError
from ..model.build import build_trace
from ..model.problems import Problems
from ..model.trace import Trace
from ..model.traceset import TraceSet
from .discovery import Found, find_files, report_foreign
from .formats import READABLE
from .kineto import read_file
from .ranks import assign_ranks, stated_rank
from .stages import stage

__all__ = ["load"]


def load(
    source: Any,
    *,
    ranks: int | Iterable[int] | None = None,
    format: str = "auto",  # noqa: A002 - the contract's name
    executor: Executor | None = None,
    cache: bool = True,  # noqa: ARG001
    progress: bool = True,  # noqa: ARG001
) -> TraceSet:
    if format not in READABLE:
        raise TraceError(
            f"unknown format {format!r}", remedy=f"The formats are {', '.join(READABLE)}."
        )
    problems = Problems()
    files = find_files(source, problems)
    traces: list[Trace] = []
    kept: list[Found] = []
    foreign: list[tuple[str, str]] = []
    for file in files:
        try:
            trace, found = read_trace(file.path)
        except TraceError as error:
            if file.named or len(files) == 1:
                raise
            foreign.append((file.path, error.message))
            continue
        problems.merge(found)
        traces.append(trace)
        kept.append(file)
    report_foreign(foreign, problems)
    if not traces:
        raise TraceError("holds no traces", path=str(source))
    keys = assign_ranks(
        [file.path for file in kept],
        [file.rank for file in kept],
        [trace.stated_rank for trace in traces],
        problems,
    )
    return TraceSet(
        (trace.replace(rank=key) for trace, key in zip(traces, keys, strict=True)),
        problems=problems,
    )


def read_trace(path: str | os.PathLike[str]) -> tuple[Trace, Problems]:
    contents = read_file(path)
    stated = stated_rank(contents.metadata)
    found = Problems()
    with stage("model"):
        trace = build_trace(
            contents.columns,
            rank=0 if stated is None else stated,
            path=str(path),
            metadata=contents.metadata,
            source=contents.source,
            problems=found,
            format="kineto",
            stated_rank=stated,
        )
    problems = Problems()
    for problem in (*contents.problems, *found):
        problems.add(problem.kind, problem.count, problem.detail, file=str(path))
    return trace, problems
