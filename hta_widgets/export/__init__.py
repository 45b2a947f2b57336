"""From a selection to files that others open."""

from hta_widgets.export.chrome import ExportReport
from hta_widgets.export.chrome import export_trace
from hta_widgets.export.counters import add_counters
from hta_widgets.export.pair import export_pair
from hta_widgets.export.path_overlay import export_critical_path

__all__ = ["ExportReport", "add_counters", "export_critical_path", "export_pair", "export_trace"]
