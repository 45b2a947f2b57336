"""Damaged files through the whole package."""
