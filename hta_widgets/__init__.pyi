# Names of the package and their modules. `hta_widgets.lazy` describes how they are imported.

from typing import Any

from hta_widgets import (
    analysis as analysis,
    charts as charts,
    compat as compat,
    diff as diff,
    options as options,
    taxonomy as taxonomy,
)
from hta_widgets.analysis.efficiency import devices as devices
from hta_widgets.compat import TraceAnalysis as TraceAnalysis
from hta_widgets.errors import TraceError as TraceError
from hta_widgets.export.traces.files import (
    ExportReport as ExportReport,
    export_trace as export_trace,
)
from hta_widgets.readers import cache as cache
from hta_widgets.readers.load import load as load
from hta_widgets.recording import record as record, trace_handler as trace_handler
from hta_widgets.trace.trace import Trace as Trace
from hta_widgets.trace.traceset import Selection as Selection, TraceSet as TraceSet
from hta_widgets.widgets.dashboard import Dashboard as Dashboard
from hta_widgets.widgets.timeline import Timeline as Timeline
from hta_widgets.widgets.trace_diff import TraceDiff as TraceDiff

__version__: str

def load_ipython_extension(ipython: Any) -> None: ...
