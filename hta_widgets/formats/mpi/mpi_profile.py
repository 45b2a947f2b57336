"""mpitrace's text profiles as traces without events."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.trace.build import build_trace
from hta_widgets.formats.mpi.mpi_jobs import is_stale
from hta_widgets.formats.mpi.mpi_jobs import mpi_jobs
from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.table import Pool
from hta_widgets.trace.table import RankColumns
from hta_widgets.trace.trace import Trace

from hta_widgets.formats.mpi.mpi_profile_text import parse_profiles
from hta_widgets.readers.registry import Format
from hta_widgets.readers.registry import Outcome
from hta_widgets.readers.registry import Start
from hta_widgets.readers.whole import whole_file

__all__ = ["MPI_PROFILE", "job_of"]

_FIRST_LINE = re.compile(rb"Data for MPI rank \d+ of \d+:")
_NAME = re.compile(r"mpi_profile\.(?P<job>.+)\.\d+")


def _sniff(start: Start) -> bool:
    return _FIRST_LINE.match(start.stripped) is not None


def job_of(path: str) -> str:
    """Return the job that a profile's name tells; a file of another name is a job of its own."""
    name = Path(path).name.removesuffix(".gz")
    found = _NAME.fullmatch(name)
    if found:
        return found["job"]
    # Before 2018 names told the rank alone.
    return "" if re.fullmatch(r"mpi_profile\.\d+", name) else Path(name).stem


def _read(
    path: str,
    *,
    advance: Callable[[int], object] | None = None,
    keepalive: Any = None,  # noqa: ARG001 - nothing is read again
) -> Outcome:
    problems = Problems()
    text = whole_file(path, problems, advance).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    profiles = parse_profiles(text.decode("utf-8", "replace"), job_of(path))
    if not profiles:
        raise TraceError(
            "holds no MPI profile", path=path, remedy="Was the file changed? Copy it again."
        )
    for _, found in profiles:
        for problem in found:
            problems.add(problem.kind, problem.count, problem.detail, file=path)
    return Outcome(tuple(_trace(profile, path) for profile, _ in profiles), problems)


def _trace(profile: MpiProfile, path: str) -> Trace:
    return build_trace(
        _no_events(),
        rank=profile.rank,
        path=path,
        metadata={},
        source=None,
        problems=Problems(),
        format="mpi-profile",
        stated_rank=profile.rank,
        job=profile.job,
        profile=profile,
    )


def _no_events() -> RankColumns:
    codes, times = np.empty(0, np.int32), np.empty(0, np.int64)
    return RankColumns(
        phase=np.empty(0, np.uint8),
        start_ns=times,
        dur_ns=times,
        timed=np.empty(0, np.bool_),
        name=codes,
        category=codes,
        pid=codes,
        tid=codes,
        stream=codes,
        correlation=times,
        flow=codes,
        names=Pool(),
        categories=Pool(),
        pids=Pool(),
        tids=Pool(),
        flow_ids=Pool(),
    )


def _finish(traces: Sequence[Trace], problems: Problems) -> Sequence[Trace]:
    """Give ranks the hosts that rank 0's file tells, and find files of earlier runs."""
    told: dict[int, Trace] = {}
    for job in mpi_jobs(traces):
        head = job.head
        if head is None or head.summary is None:
            continue
        hosts = {row.rank: row.host or None for row in head.summary.ranks}
        for trace in job.profiles:
            stale = is_stale(trace.profile, head)
            if stale:
                problems.add(
                    "stale", 1, f"left over by another run of the job: {stale}", file=trace.path
                )
            told[id(trace)] = trace.replace(
                host=None if stale else hosts.get(trace.profile.rank),
                profile=replace(trace.profile, stale=bool(stale)),
            )
    return [told.get(id(trace), trace) for trace in traces]


MPI_PROFILE = Format("mpi-profile", _sniff, _read, _finish)
