"""Interactive, linked analysis of distributed training traces inside the notebook."""

from importlib.metadata import version as _version

from hta_widgets import charts, compat, taxonomy
from hta_widgets.compat import TraceAnalysis
from hta_widgets.errors import TraceError
from hta_widgets.export.trace import ExportReport, export_trace
from hta_widgets.readers import cache
from hta_widgets.readers.load import load
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.widgets.dashboard import Dashboard
from hta_widgets.widgets.timeline import Timeline
from hta_widgets.widgets.trace_diff import TraceDiff

__version__ = _version("hta_widgets")

__all__ = [
    "Dashboard",
    "ExportReport",
    "Selection",
    "Timeline",
    "Trace",
    "TraceAnalysis",
    "TraceDiff",
    "TraceError",
    "TraceSet",
    "__version__",
    "cache",
    "charts",
    "compat",
    "export_trace",
    "load",
    "taxonomy",
]
