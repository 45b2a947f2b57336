"""The critical path of a rank: graph of dependencies, longest path, and what bounds it."""

from hta_widgets.analysis.critical.arrows import with_critical_path
from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.graph import build
from hta_widgets.analysis.critical.graph import path_of
from hta_widgets.analysis.critical.path import critical_path
from hta_widgets.analysis.critical.path import critical_path_summary
from hta_widgets.analysis.critical.path import path_selection
from hta_widgets.analysis.critical.path import segments
from hta_widgets.analysis.critical.rules import BOUNDS
from hta_widgets.analysis.critical.rules import EDGE_TYPES
from hta_widgets.analysis.critical.rules import EXACT
from hta_widgets.analysis.critical.rules import HTA
from hta_widgets.analysis.critical.rules import Rules

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
