"""How much memory a load takes, told before it does, and what to do where that is too much."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hta_widgets.errors import TraceError

__all__ = ["Plan", "as_bytes", "plan_load"]

#: Measured on real and made-up traces of PyTorch, per byte of JSON: what a loaded trace takes, and
#: what reading it takes at most.
_KEPT_SHARE = 0.3
_PEAK_SHARE = 0.7
#: Of each process, with the libraries that it imports.
_PROCESS_BYTES = 150_000_000

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"\s*([\d.]+)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to load: in how many processes at most, and whether ranks are set aside on disk."""

    workers: int
    set_aside: bool


def as_bytes(limit: float | str) -> int:
    """Return a size such as ``"3 GB"``, ``"512MiB"`` or ``3e9`` in bytes.

    Raises
    ------
    TraceError
        Where it is none.
    """
    match = _SIZE.fullmatch(str(limit)) if isinstance(limit, str) else None
    try:
        if match is not None:
            units = _BINARY if match[3] else _UNITS
            size = float(match[1]) * units[match[2].lower()]
        else:
            size = float(limit)
        if 0 < size < float("inf"):
            return int(size)
    except (TypeError, ValueError):
        pass
    raise TraceError(
        f"memory_limit={limit!r} is no size", remedy='Give bytes, or a text such as "3 GB".'
    )


def plan_load(
    sizes_bytes: Sequence[int], limit_bytes: int | None, cores: int, *, kept: bool = False
) -> Plan:
    """Decide how to load files of these (decompressed) sizes, and warn where they will not fit.

    Parameters
    ----------
    sizes_bytes : sequence of int
    limit_bytes : int or None
    cores : int
    kept : bool
        Whether what was read is kept in the cache, and so need not stay in memory.
    """
    largest, total = max(sizes_bytes, default=0), sum(sizes_bytes)
    workers = max(1, min(cores, len(sizes_bytes)))
    one = _PEAK_SHARE * largest
    if limit_bytes is None:
        stays = 0.0 if kept else _KEPT_SHARE * (total - largest)
        free = _available_bytes()
        if free is not None and stays + one > free:
            _warn(
                f"loading takes about {_gb(stays + one)} of memory and {_gb(free)} are available: "
                f'give a memory_limit, for example "{0.7 * free / 1e9:.1f} GB", and ranks wait on '
                "disk"
            )
        room = float("inf") if free is None else free - stays
    else:
        room = limit_bytes - _PROCESS_BYTES
        if one > room:
            _warn(
                f"reading the largest file takes about {_gb(one + _PROCESS_BYTES)} of memory, more "
                f"than the memory_limit of {_gb(limit_bytes)}: files are read one at a time"
            )
    # Each process is one more that has to import what reading needs.
    at_once = workers if room == float("inf") else int(room // (one + _PROCESS_BYTES))
    return Plan(max(1, min(workers, at_once)), set_aside=limit_bytes is not None)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=5)


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:,.1f} MB"


def _available_bytes() -> int | None:
    """Return what the system, or the container, has left; None where it does not say."""
    found = []
    try:
        text = Path("/proc/meminfo").read_text("ascii")
        if match := re.search(r"MemAvailable:\s*(\d+) kB", text):
            found.append(int(match[1]) * 1024)
    except (OSError, UnicodeDecodeError):
        pass
    try:
        group = Path("/sys/fs/cgroup")
        most = (group / "memory.max").read_text("ascii").strip()
        if most.isdigit():
            found.append(int(most) - int((group / "memory.current").read_text("ascii")))
    except (OSError, ValueError):
        pass
    return min(found, default=None)
