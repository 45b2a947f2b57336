"""Where the time of a load goes, for benchmarks: seconds by stage, in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["reset", "seconds", "stage"]

_seconds: dict[str, float] = {}


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the time that the block takes to `name`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        _seconds[name] = _seconds.get(name, 0.0) + time.perf_counter() - start


def seconds() -> dict[str, float]:
    """Return the seconds spent in each stage since `reset`."""
    return dict(_seconds)


def reset() -> None:
    """Start from nothing."""
    _seconds.clear()
