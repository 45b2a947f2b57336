"""Export selections as trace files, pages and pictures."""

from hta_widgets.export.traces.files import ExportReport, export_pair, export_trace
from hta_widgets.export.traces.overlays import add_counters, export_critical_path

__all__ = ["ExportReport", "add_counters", "export_critical_path", "export_pair", "export_trace"]
