"""The critical path of a rank: graph of dependencies, longest path, and what bounds it."""

from hta_widgets.analysis.critical.path import (
    CriticalPath,
    build,
    critical_path,
    critical_path_summary,
    path_of,
    path_selection,
    segments,
    with_critical_path,
)
from hta_widgets.analysis.critical.rules import BOUNDS, EDGE_TYPES, EXACT, HTA, Rules

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
