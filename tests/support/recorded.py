"""Recorded traces for tests: small ones from the repository, and shared ones where available."""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import hta_widgets as hw

REPO = Path(__file__).resolve().parents[2]
DATA = REPO / "tests/data"
SHARED = Path(os.environ.get("HTA_SHARED", REPO.parent / "shared")) / "traces"

#: Folders and files in `DATA`: Python stacks, collectives on hosts, and devices.
JOBS = ("cpu_stacks.json.gz", "gloo", "gpu", "nccl", "cuda_graphs.json.gz", "streams.json.gz")


def paths(*shared: str, jobs: Sequence[str] = JOBS, files: bool = False) -> list:
    """Return parameters: paths of our own traces and of `shared`, which are skipped if missing.

    With `files`, each of our folders is replaced by its files, with one rank each.
    """
    own = [DATA / name for name in jobs]
    if files:
        own = [path for job in own for path in (sorted(job.iterdir()) if job.is_dir() else [job])]
    result = [pytest.param(path, id=str(path.relative_to(DATA))) for path in own]
    missing = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")
    return result + [pytest.param(SHARED / name, id=name, marks=missing) for name in shared]


@functools.cache
def load(path: Path) -> hw.TraceSet:
    """Load a trace from its files, once for all tests."""
    return hw.load(path, cache=False, progress=False)
