"""Traces that tests read as they are: small ones for everyone, the shared ones where they are."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import hta_widgets as hw

REPO = Path(__file__).resolve().parents[2]
DATA = REPO / "tests/data"
SHARED = Path(os.environ.get("HTA_SHARED", REPO.parent / "shared")) / "traces"

#: Folders and files of `DATA`: Python stacks, collectives on hosts, and devices.
JOBS = ("cpu_stacks.json.gz", "gloo", "gpu", "nccl", "cuda_graphs.json.gz", "streams.json.gz")


def paths(*shared: str, jobs: Sequence[str] = JOBS, files: bool = False) -> list:
    """Return parameters: paths of our own traces, and of `shared`, skipped if it is missing.

    With `files` our own folders count as their files, each of one rank.
    """
    own = [DATA / name for name in jobs]
    if files:
        own = [path for job in own for path in (sorted(job.iterdir()) if job.is_dir() else [job])]
    result = [pytest.param(path, id=str(path.relative_to(DATA))) for path in own]
    missing = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")
    return result + [pytest.param(SHARED / name, id=name, marks=missing) for name in shared]


@functools.cache
def load(path: Path) -> hw.TraceSet:
    """Load a trace once for all tests, from its files."""
    return hw.load(path, cache=False, progress=False)
