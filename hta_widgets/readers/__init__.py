"""Readers, which turn files into traces."""
