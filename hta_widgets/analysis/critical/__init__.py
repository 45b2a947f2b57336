"""The critical path of a rank: graph of dependencies, longest path, and what bounds it."""

from .arrows import with_critical_path
from .graph import CriticalPath, build, path_of
from .path import critical_path, critical_path_summary, path_selection, segments
from .rules import BOUNDS, EDGE_TYPES, EXACT, HTA, Rules

__all__ = [
    "BOUNDS",
    "EDGE_TYPES",
    "EXACT",
    "HTA",
    "CriticalPath",
    "Rules",
    "build",
    "critical_path",
    "critical_path_summary",
    "path_of",
    "path_selection",
    "segments",
    "with_critical_path",
]
