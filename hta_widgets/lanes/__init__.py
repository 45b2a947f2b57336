"""Which lanes a rank has, what they hold, and how they are indexed."""

from hta_widgets.lanes.kept import kept_columns, kept_lanes

__all__ = ["kept_columns", "kept_lanes"]
