"""A timeline's view as a vector picture, drawn without a browser."""

from hta_widgets.export.svg.class_colours import Classed
from hta_widgets.export.svg.class_colours import Look
from hta_widgets.export.svg.picture import timeline_svg
from hta_widgets.export.svg.stacked import LEAST_BESIDE_PX
from hta_widgets.export.svg.stacked import side_width
from hta_widgets.export.svg.stacked import stacked_svg

__all__ = ["LEAST_BESIDE_PX", "Classed", "Look", "side_width", "stacked_svg", "timeline_svg"]
