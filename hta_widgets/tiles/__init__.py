"""Exact tiles of the timeline: lanes, cells, slices and the binary protocol.

Numpy in, bytes out; nothing here knows of widgets.
"""
