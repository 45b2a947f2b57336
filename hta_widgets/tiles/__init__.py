"""Tiles of the timeline: lanes, cells, slices and the binary protocol.

This package turns NumPy arrays into bytes and does not depend on the widgets.
"""
