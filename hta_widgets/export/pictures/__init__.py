"""Render timelines as SVG pictures."""
