"""Exact tiles of the timeline: lanes, cells, slices and the binary protocol.

Numpy in, bytes out; independent of widgets.
"""
