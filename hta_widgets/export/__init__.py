"""Export selections as trace files, pages and pictures."""

from hta_widgets.export.overlays import add_counters, export_critical_path
from hta_widgets.export.trace import ExportReport, export_pair, export_trace

__all__ = ["ExportReport", "add_counters", "export_critical_path", "export_pair", "export_trace"]
