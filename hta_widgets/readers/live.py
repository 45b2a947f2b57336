"""Traces of a profiler that is still in memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError

__all__ = ["export_profiler", "is_profiler"]


def is_profiler(source: Any) -> bool:
    """Whether the source is a `torch.profiler.profile`, without importing torch."""
    return any(
        kind.__module__.split(".")[0] == "torch" and hasattr(source, "export_chrome_trace")
        for kind in type(source).__mro__
    )


class _Directory:
    """A temporary directory that is removed when nothing refers to this any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="hta_widgets-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def export_profiler(profiler: Any) -> tuple[str, object]:
    """Write the profiler's trace to a file; it stays as long as the second value is kept."""
    directory = _Directory()
    path = directory.path / "live.pt.trace.json"
    try:
        profiler.export_chrome_trace(str(path))
    except (AssertionError, AttributeError, RuntimeError) as cause:
        directory.remove()
        raise TraceError(
            f"the profiler has no trace to export ({str(cause) or type(cause).__name__})",
            remedy="Leave its with block, or call stop(), before loading it. "
            "A trace that on_trace_ready has exported is loaded from its file.",
        ) from None
    if not path.exists() or not path.stat().st_size:
        directory.remove()
        raise TraceError("the profiler exported nothing", remedy="Did it record any step?")
    return str(path), directory
