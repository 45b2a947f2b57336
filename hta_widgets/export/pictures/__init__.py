"""Pictures of timelines as SVG."""
