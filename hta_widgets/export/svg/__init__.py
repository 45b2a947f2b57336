"""A timeline's view as a vector picture, drawn without a browser."""

from hta_widgets.export.svg.picture import timeline_svg
from hta_widgets.export.svg.stacked import stacked_svg

__all__ = ["stacked_svg", "timeline_svg"]
