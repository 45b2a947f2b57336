"""Trace files: selections, several ranks, and two runs, for other viewers."""
