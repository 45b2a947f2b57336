"""A bar for loads that take long enough to want one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm

__all__ = ["progress_bar"]

_PATIENCE_S = 0.5


@contextmanager
def progress_bar(total_bytes: int, files: int, *, wanted: bool) -> Iterator[Any]:
    """Show a bar in notebooks and terminals once it is worth it; nothing anywhere else."""
    shown = wanted and (_in_notebook() or _is_terminal(sys.stderr))
    with tqdm(
        total=total_bytes,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        desc=f"Loading {files} trace{'' if files == 1 else 's'}",
        disable=not shown,
        delay=_PATIENCE_S,
        leave=False,
        file=sys.stderr,
    ) as bar:
        yield bar


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    running = shell.get_ipython()
    return running is not None and "IPKernelApp" in getattr(running, "config", {})


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False
