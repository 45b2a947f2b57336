"""Bokeh figures: one function per analysis, frame in, figure out."""
