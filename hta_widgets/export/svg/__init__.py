"""A timeline's view as a vector picture, drawn without a browser."""

from hta_widgets.export.svg.drawing import (
    LEAST_BESIDE_PX,
    Classed,
    Look,
    side_width,
    stacked_svg,
)
from hta_widgets.export.svg.picture import timeline_svg

__all__ = ["LEAST_BESIDE_PX", "Classed", "Look", "side_width", "stacked_svg", "timeline_svg"]
