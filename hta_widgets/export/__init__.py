"""From a selection to files that others open."""

from hta_widgets.export.chrome import ExportReport, export_trace

__all__ = ["ExportReport", "export_trace"]
