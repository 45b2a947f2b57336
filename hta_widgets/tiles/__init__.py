"""Exact tiles of the timeline: lanes, cells, slices and the binary protocol.

Numpy in, bytes out; nothing here knows of widgets.
"""

from hta_widgets.tiles.engine import TileEngine
from hta_widgets.tiles.protocol import pack, unpack

__all__ = ["TileEngine", "pack", "unpack"]
