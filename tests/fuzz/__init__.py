"""Run the whole package on damaged files."""
