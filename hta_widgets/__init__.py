"""Interactive, linked analysis of distributed training traces inside the notebook."""

from importlib.metadata import version as _version

from hta_widgets import charts, compat, taxonomy
from hta_widgets.compat import TraceAnalysis
from hta_widgets.errors import TraceError
from hta_widgets.export import ExportReport, export_trace
from hta_widgets.model import Selection, Trace, TraceSet
from hta_widgets.readers import cache, load
from hta_widgets.widgets import Dashboard, Timeline, TraceDiff

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
