"""HTA's critical path."""

from __future__ import annotations

from typing import Any

__all__ = ["CPGraph", "CriticalPathAnalysis"]


class CPGraph:
    """Placeholder."""


class CriticalPathAnalysis:
    """Placeholder."""

    @classmethod
    def critical_path_analysis(cls, *args: Any) -> Any:
        """Placeholder."""
        raise NotImplementedError

    @classmethod
    def overlay_critical_path_analysis(cls, *args: Any) -> Any:
        """Placeholder."""
        raise NotImplementedError
