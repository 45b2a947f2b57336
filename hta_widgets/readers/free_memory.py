"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

__all__ = ["give_back"]


def give_back() -> None:
    """Return freed memory, which glibc keeps for later: after a large file, twice what is in use.

    Other libraries' allocators do so by themselves.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # musl, macOS, Windows
        return None
    return found
