"""Export selections, several ranks, or two runs as trace files for other viewers."""
