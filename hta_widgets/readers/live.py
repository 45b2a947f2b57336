"""Traces of a profiler that is still in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ..errors import TraceError

__all__ = ["export_profiler", "is_profiler"]


def is_profiler(source: Any) -> bool:
    """Whether the source is a `torch.profiler.profile`, without importing torch."""
    return any(
        kind.__module__.split(".")[0] == "torch" and hasattr(source, "export_chrome_trace")
        for kind in type(source).__mro__
    )


def export_profiler(profiler: Any) -> tuple[str, tempfile.TemporaryDirectory[str]]:
    """Write the profiler's trace to a temporary directory, which lives as long as it is kept."""
    directory = tempfile.TemporaryDirectory(prefix="hta_widgets-")
    path = Path(directory.name, "live.pt.trace.json")
    try:
        profiler.export_chrome_trace(str(path))
    except (AssertionError, AttributeError, RuntimeError) as cause:
        directory.cleanup()
        raise TraceError(
            f"the profiler has no trace to export ({str(cause) or type(cause).__name__})",
            remedy="Leave its with block, or call stop(), before loading it. "
            "A trace that on_trace_ready has exported is loaded from its file.",
        ) from None
    if not path.exists() or not path.stat().st_size:
        directory.cleanup()
        raise TraceError(
            "the profiler exported nothing", remedy="Did it record any step?"
        )
    return str(path), directory
