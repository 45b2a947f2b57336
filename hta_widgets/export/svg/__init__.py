"""A timeline's view as a vector picture, drawn without a browser."""

from hta_widgets.export.svg.picture import timeline_svg

__all__ = ["timeline_svg"]
