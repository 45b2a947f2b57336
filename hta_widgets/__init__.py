"""Interactive, linked analysis of distributed training traces inside the notebook."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hta_widgets import analysis, charts, compat, diff, options, taxonomy
    from hta_widgets.analysis.efficiency import devices
    from hta_widgets.compat import TraceAnalysis
    from hta_widgets.errors import TraceError
    from hta_widgets.export.traces.files import ExportReport, export_trace
    from hta_widgets.readers import cache
    from hta_widgets.readers.load import load
    from hta_widgets.recording import record, trace_handler
    from hta_widgets.trace.selection import Selection
    from hta_widgets.trace.trace import Trace
    from hta_widgets.trace.traceset import TraceSet
    from hta_widgets.widgets.dashboard import Dashboard
    from hta_widgets.widgets.timeline import Timeline
    from hta_widgets.widgets.trace_diff import TraceDiff

    __version__: str

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
    "analysis",
    "cache",
    "charts",
    "compat",
    "devices",
    "diff",
    "export_trace",
    "load",
    "options",
    "record",
    "taxonomy",
    "trace_handler",
]

# Names are imported when they are first used, since pandas alone takes half a second.
_MODULES = {name: name for name in ("analysis", "charts", "compat", "diff", "options", "taxonomy")}
_MODULES |= {"cache": "readers.cache", "devices": "analysis.efficiency.devices"}
_MODULE_OF = {
    "Dashboard": "widgets.dashboard",
    "ExportReport": "export.traces.files",
    "Selection": "trace.selection",
    "Timeline": "widgets.timeline",
    "Trace": "trace.trace",
    "TraceAnalysis": "compat",
    "TraceDiff": "widgets.trace_diff",
    "TraceError": "errors",
    "TraceSet": "trace.traceset",
    "export_trace": "export.traces.files",
    "load": "readers.load",
    "record": "recording",
    "trace_handler": "recording",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"{__name__}.{_MODULES[name]}")
    elif name == "__version__":
        value = import_module("importlib.metadata").version("hta_widgets")
    elif name in _MODULE_OF:
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """Add the cell magic ``%%trace``, for ``%load_ext hta_widgets``."""
    import_module(f"{__name__}.recording").register_magic(ipython)


def __dir__() -> list[str]:
    return __all__
