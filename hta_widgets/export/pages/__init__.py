"""Saved pages: one HTML file with a view, its data and the code that draws it."""
